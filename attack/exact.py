"""Numbers in long double: the arithmetic of all evaluators."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

LONG = np.longdouble
EPS = float(np.finfo(np.float64).eps)


def real(x: Any) -> Any:
    """Any array of the library's answers, in long double."""
    if sp.issparse(x):
        x = x.toarray()
    elif hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.to_dense() if x.layout is not None and "sparse" in str(x.layout) else x).double()
        x = x.numpy()
    return np.asarray(x).astype(LONG)


def kernel(X: Any, Z: Any, name: str, gamma: float, degree: int, coef0: float) -> Any:
    """The matrix of ``k(x, z)``: distances from differences, everything in long double."""
    X, Z = real(X), real(Z)
    if name == "rbf":
        return np.exp(-LONG(gamma) * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))
    products = (X[:, None, :] * Z[None, :, :]).sum(axis=2)
    if name == "linear":
        return products
    if name == "poly":
        return (LONG(gamma) * products + LONG(coef0)) ** degree
    return np.tanh(LONG(gamma) * products + LONG(coef0))


def exact_margins(X: Any, W: Any, b: Any, y: Any, deltas: Any) -> Any:
    """``x_i'(W_j - W_y) + b_j - b_y + Delta_ij`` by fractions, rounded once: scores may cancel."""
    X, W, b, deltas = (np.vectorize(Fraction, otypes=[object])(v.astype(float))
                       for v in (X, W, b, deltas))  # fmt: skip
    scores = X @ W.T + b
    own = scores[np.arange(y.size), y]
    z = scores - own[:, None] + deltas
    return np.array([[LONG(v.numerator) / LONG(v.denominator) for v in row] for row in z])


def solve(A: Any, b: Any) -> tuple[Any, Any]:
    """Solutions of many small systems by elimination, and which of them are regular."""
    A, b = real(A).copy(), real(b).copy()
    k, n = A.shape[0], A.shape[1]
    at, regular = np.arange(k), np.ones(k, dtype=bool)
    size = np.abs(A).max(axis=(1, 2), initial=0)
    for i in range(n):
        pivot = i + np.abs(A[:, i:, i]).argmax(axis=1)
        A[at, i], A[at, pivot] = A[at, pivot], A[at, i].copy()
        b[at, i], b[at, pivot] = b[at, pivot], b[at, i].copy()
        regular &= np.abs(A[:, i, i]) > 1e-12 * size
        safe = np.where(regular, A[:, i, i], 1)
        for j in range(i + 1, n):
            factor = A[:, j, i] / safe
            A[:, j] -= factor[:, None] * A[:, i]
            b[:, j] -= factor * b[:, i]
    x = np.zeros_like(b)
    for i in reversed(range(n)):
        rest = (A[:, i, i + 1 :] * x[:, i + 1 :]).sum(axis=1)
        x[:, i] = (b[:, i] - rest) / np.where(regular, A[:, i, i], 1)
    return x, regular
