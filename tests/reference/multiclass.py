"""LSFW, StdFW and PG of the multi-class paper, in their plainest form.

``min over W of  1/2 |W|² + C sum_i Phi(W'x_i; y_i)``; dual points alpha_i, with an optional Moreau
envelope of smoothing mu for the two Frank-Wolfe methods.

References
----------
.. [1] K. Tajima, Y. Hirohashi, E. R. R. Zara, T. Kato. Frank-Wolfe algorithm for learning SVM-type
   multi-category classifiers. arXiv:2008.08894, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def beta(z: np.ndarray, rho: np.ndarray, whole: bool) -> np.ndarray:
    """A maximiser of <beta, z>: the weights rho on the largest margins that pay."""
    out = np.zeros_like(z)
    order = np.argsort(-z, kind="stable")
    if whole:
        if (rho * z[order]).sum() > 0:
            out[order] = rho
    else:
        out[order] = np.where(z[order] > 0, rho, 0.0)
    return out


def vertices(scores, y, delta, rho, whole):
    """``u_i = (1'beta_i) e_y - beta_i``, a row per example."""
    U = np.zeros_like(scores)
    for i, s in enumerate(scores):
        b = beta(s - s[y[i]] + delta[i], rho, whole)
        U[i] = -b
        U[i, y[i]] += b.sum()
    return U


def frank_wolfe(X, y, delta, rho, whole, C, mu, *, line_search) -> Iterator[np.ndarray]:
    """LSFW (line search) or StdFW (2/(t+1)): the weights W, a row per class, before each step."""
    A = np.zeros((len(X), len(rho)))
    t = 1
    while True:
        W = C * A.T @ X
        yield W
        scores = X @ W.T + mu * A
        U = vertices(scores, y, delta, rho, whole)
        change = C * (U - A).T @ X
        gain = C * ((U - A) * (-delta - scores)).sum()
        curvature = (change**2).sum() + C * mu * ((U - A) ** 2).sum()
        gamma = np.clip(gain / curvature, 0.0, 1.0) if line_search else 2.0 / (t + 1)
        A = A + gamma * (U - A)
        t += 1


def projected_gradient(X, y, delta, rho, whole, C) -> Iterator[np.ndarray]:
    """PG: ``W <- (1 - 1/t) W + W(U)/t``, projected onto the ball ``|W|² <= P(0)``."""
    W = np.zeros((len(rho), X.shape[1]))
    at_zero = sum(rho @ np.sort(delta[i])[::-1] for i in range(len(X)))
    radius, t = np.sqrt(C * at_zero), 1
    while True:
        yield W
        U = vertices(X @ W.T, y, delta, rho, whole)
        W = (1 - 1 / t) * W + C * U.T @ X / t
        W = W * min(1.0, radius / np.sqrt((W**2).sum()))
        t += 1
