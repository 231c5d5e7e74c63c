"""The dual extragradient method in its plainest form, with all z's kept.

``min over |w| <= R, max over z_i in simplices of  sum_i p_i (c_i'z_i - w'F_i z_i)``,

or over minimum-cut polytopes, w being one of those that make edges attract.

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


def onto_cut(y, edges, sweeps=100_000):
    """The nearest (1, z, d) with ``0 <= z <= 1, d_e >= |z_a - z_b|``: constraints in turn.

    Each constraint ``g'x >= h`` has a multiplier, which grows by what is missing, or shrinks by
    what is too much, of it (Hildreth's method, the flow of an edge at a time).
    """
    x, nodes = y.copy(), y.size - len(edges) - 1
    x[0] = 1.0
    rows = [({1 + i: 1.0}, 0.0) for i in range(nodes)]
    rows += [({1 + i: -1.0}, -1.0) for i in range(nodes)]
    for e, (a, b) in enumerate(edges):
        rows += [({1 + nodes + e: 1.0, 1 + a: s, 1 + b: -s}, 0.0) for s in (-1.0, 1.0)]
    flows = np.zeros(len(rows))
    for _ in range(sweeps):
        largest = 0.0
        for k, (g, h) in enumerate(rows):
            missing = (h - sum(v * x[j] for j, v in g.items())) / len(g)
            change = max(missing, -flows[k])
            flows[k] += change
            for j, v in g.items():
                x[j] += change * v
            largest = max(largest, abs(change))
        if largest < 1e-15:
            break
    return x


def prox(z, gradient, geometry, onto=onto_simplex):
    """T: from z along the gradient, in the geometry."""
    if geometry == "euclidean":
        return onto(z + gradient)
    weights = z * np.exp(gradient - gradient.max())
    return weights / weights.sum()


def dual_extragradient(
    F, c, p, radius, eta, kappa, geometry, *, centre=None, onto=None, cone=lambda w: w
) -> Iterator[np.ndarray]:
    """The average of w, before each iteration; F[i] has a column per labeling.

    By default the z's are in simplices; else ``centre[i]`` and ``onto[i]`` are the starting point
    and the projection of each.  ``cone`` is the nearest w that is allowed.
    """
    centre = centre or [np.full(ci.size, 1 / ci.size) for ci in c]
    onto = onto or [onto_simplex] * len(c)
    in_w, in_z = np.zeros(F[0].shape[0]), [np.zeros(ci.size) for ci in c]  # s
    average, t = np.zeros(F[0].shape[0]), 0
    while True:
        yield average
        w = onto_ball(cone(eta * in_w), radius)
        z = [prox(zi, kappa * s, geometry, T) for zi, s, T in zip(centre, in_z, onto, strict=True)]
        image = sum(pi * Fi @ zi for pi, Fi, zi in zip(p, F, z, strict=True))
        ahead = onto_ball(cone(w + eta * image), radius)
        z = [
            prox(zi, kappa * (ci - Fi.T @ w), geometry, T)
            for zi, ci, Fi, T in zip(z, c, F, onto, strict=True)
        ]
        in_w = in_w + sum(pi * Fi @ zi for pi, Fi, zi in zip(p, F, z, strict=True))
        in_z = [s + ci - Fi.T @ ahead for s, ci, Fi in zip(in_z, c, F, strict=True)]
        t += 1
        average = average + (ahead - average) / t
