"""LSFW, StdFW and PG of the multi-class paper, in their plainest form.

``min over w of  1/2 |w|² + C sum_i Phi(s_i; y_i)``, scores ``s_ij = w'psi(x_i, j)``; dual points
alpha_i, with an optional Moreau envelope of smoothing mu for the two Frank-Wolfe methods.  The
published ``s_i = W'x_i`` is ``psi(x, j) = e_j (x) x``, with W one row per class.

References
----------
.. [1] K. Tajima, Y. Hirohashi, E. R. R. Zara, T. Kato. Frank-Wolfe algorithm for learning SVM-type
   multi-category classifiers. arXiv:2008.08894, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np


def per_class(X: np.ndarray, m: int) -> np.ndarray:
    """``psi(x_i, j) = e_j (x) x_i``, of shape (n, m, m d)."""
    return np.array([[np.kron(np.eye(m)[j], x) for j in range(m)] for x in X])


def beta(z: np.ndarray, y: int, rho: np.ndarray, whole: bool) -> np.ndarray:
    """A maximiser of <beta, z>: the weights rho on the largest margins that pay."""
    out = np.zeros_like(z)
    order = np.argsort(-z, kind="stable")
    if whole:
        if (rho * z[order]).sum() > 0:
            out[order] = rho
    else:
        out[order] = np.where(z[order] > 0, rho, 0.0)
    return out


def weighted(rho: np.ndarray, whole: bool):
    """The oracle of a loss of the paper."""
    return partial(beta, rho=rho, whole=whole)


def vertices(scores, y, delta, oracle):
    """``u_i = (1'beta_i) e_y - beta_i``, a row per example."""
    U = np.zeros_like(scores)
    for i, s in enumerate(scores):
        b = oracle(s - s[y[i]] + delta[i], y[i])
        U[i] = -b
        U[i, y[i]] += b.sum()
    return U


def frank_wolfe(psi, y, delta, oracle, C, *, mu, line_search) -> Iterator[np.ndarray]:
    """LSFW (line search) or StdFW (2/(t+1)): the weights w before each step."""
    A = np.zeros(psi.shape[:2])
    t = 1
    while True:
        w = C * np.einsum("ij,ijk->k", A, psi)
        yield w
        scores = psi @ w + mu * A
        U = vertices(scores, y, delta, oracle)
        change = C * np.einsum("ij,ijk->k", U - A, psi)
        gain = C * ((U - A) * (-delta - scores)).sum()
        curvature = (change**2).sum() + C * mu * ((U - A) ** 2).sum()
        gamma = np.clip(gain / curvature, 0.0, 1.0) if line_search else 2.0 / (t + 1)
        A = A + gamma * (U - A)
        t += 1


def projected_gradient(psi, y, delta, oracle, C) -> Iterator[np.ndarray]:
    """PG: ``w <- (1 - 1/t) w + w(U)/t``, projected onto the ball ``|w|² <= P(0)``."""
    w = np.zeros(psi.shape[2])
    at_zero = sum(oracle(d, k) @ d for d, k in zip(delta, y, strict=True))
    radius, t = np.sqrt(C * at_zero), 1
    while True:
        yield w
        U = vertices(psi @ w, y, delta, oracle)
        w = (1 - 1 / t) * w + C * np.einsum("ij,ijk->k", U, psi) / t
        w = w * min(1.0, radius / np.sqrt((w**2).sum()))
        t += 1
