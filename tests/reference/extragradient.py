"""The dual extragradient method in its plainest form, with all z's kept.

``min over |w| <= R, max over z_i in simplices of  sum_i p_i (c_i'z_i - w'F_i z_i)``.

References
----------
.. [1] B. Taskar, S. Lacoste-Julien, M. I. Jordan. Structured prediction, dual extragradient and
   Bregman projections. Journal of Machine Learning Research 7, 1627-1653, 2006.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def onto_ball(w, radius):
    return w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))


def onto_simplex(y):
    """The nearest point of the simplex."""
    u = np.sort(y)[::-1]
    excess = (u.cumsum() - 1) / np.arange(1, y.size + 1)
    return np.maximum(y - excess[np.flatnonzero(u > excess)[-1]], 0)


def prox(z, gradient, geometry):
    """T: from z along the gradient, in the geometry."""
    if geometry == "euclidean":
        return onto_simplex(z + gradient)
    weights = z * np.exp(gradient - gradient.max())
    return weights / weights.sum()


def dual_extragradient(F, c, p, radius, eta, kappa, geometry) -> Iterator[np.ndarray]:
    """The average of w, before each iteration; F[i] has a column per labeling."""
    centre = [np.full(ci.size, 1 / ci.size) for ci in c]
    in_w, in_z = np.zeros(F[0].shape[0]), [np.zeros(ci.size) for ci in c]  # s
    average, t = np.zeros(F[0].shape[0]), 0
    while True:
        yield average
        w = onto_ball(eta * in_w, radius)
        z = [prox(zi, kappa * s, geometry) for zi, s in zip(centre, in_z, strict=True)]
        image = sum(pi * Fi @ zi for pi, Fi, zi in zip(p, F, z, strict=True))
        ahead = onto_ball(w + eta * image, radius)
        z = [
            prox(zi, kappa * (ci - Fi.T @ w), geometry) for zi, ci, Fi in zip(z, c, F, strict=True)
        ]
        in_w = in_w + sum(pi * Fi @ zi for pi, Fi, zi in zip(p, F, z, strict=True))
        in_z = [s + ci - Fi.T @ ahead for s, ci, Fi in zip(in_z, c, F, strict=True)]
        t += 1
        average = average + (ahead - average) / t
