"""Bipartite matchings: ``w'phi(x, y) = sum_i <w, x[i, y_i]>``, y an injection of rows into columns.

Decoding is :func:`scipy.optimize.linear_sum_assignment`.  For the dual extragradient method the
matching polytope has two projections: Sinkhorn's scaling (entropic), and a quadratic flow
(Euclidean) solved by a semismooth Newton method on its dual.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from cornerstep.structured.base import StructuredModel
from cornerstep.vectors import FloatArray

_ENUMERABLE = 5_040
_SINKHORN = 10_000  # sweeps at most
_NEWTON = 200  # steps at most
_EXACT = 1e-11  # row and column sums


class MatchingModel(StructuredModel):
    """``sum_i <w, x[i, y_i]>`` with the share of wrongly matched rows for a loss.

    An example x is an array of shape (k, l, d) with k <= l: features of matching row i with column
    j.  A labeling y is an integer array of shape (k,): the columns of the rows, all different.

    Parameters
    ----------
    normalize : bool, default=True
        Whether the loss is divided by the number of rows.

    Attributes
    ----------
    size : int
        d.
    """

    def __init__(self, normalize: bool = True) -> None:
        self.normalize = normalize

    def prepare(self, X: Any, Y: Any) -> None:
        self.size = _tensor(X[0], "X[0]").shape[2]

    def check(self, X: Any, Y: Any = None) -> None:
        for i, x in enumerate(X):
            tensor = _tensor(x, f"X[{i}]")
            if tensor.shape[2] != self.size:
                raise ValueError(f"X[{i}] must have {self.size} features, got {tensor.shape[2]}")
            if Y is not None:
                _columns(Y[i], tensor.shape, f"Y[{i}]")

    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        return x[np.arange(len(x)), np.asarray(y)].sum(axis=0)

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        wrong = int((np.asarray(y) != np.asarray(y_hat)).sum())
        return wrong / len(y) if self.normalize else float(wrong)

    def part_costs(self, x: Any, y: Any) -> FloatArray:
        """What matching row i with column j costs."""
        shape = np.shape(x)[:2]
        costs = np.full(shape, 1.0 / shape[0] if self.normalize else 1.0)
        costs[np.arange(shape[0]), np.asarray(y)] = 0.0
        return costs

    def part_scores(self, x: Any, w: FloatArray) -> FloatArray:
        """The score of matching row i with column j."""
        return np.asarray(x, dtype=np.float64) @ w

    def part_feature(self, x: Any, z: FloatArray) -> FloatArray:
        """``sum_ij z_ij x[i, j]``."""
        return np.einsum("ij,ijd->d", z, x)

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> npt.NDArray[np.intp]:
        return linear_sum_assignment(self.part_scores(x, w) + self.part_costs(x, y), True)[1]

    def decode(self, x: Any, w: FloatArray) -> npt.NDArray[np.intp]:
        return linear_sum_assignment(self.part_scores(x, w), True)[1]

    def soften(self, scores: FloatArray) -> FloatArray:
        """``argmax over matchings z of <scores, z> + entropy(z)``, by Sinkhorn's scaling."""
        return sinkhorn(_padded(scores))[: len(scores)]

    def project(self, target: FloatArray) -> FloatArray:
        """The nearest point of the matching polytope."""
        return nearest_matching(_padded(target))[: len(target)]

    def prox_bounds(self, x: Any, y: Any, geometry: str) -> tuple[float, float]:
        """Bounds of ``|F|²`` in the geometry, and of the distance of z from the centre."""
        squares = np.square(np.asarray(x, dtype=np.float64)).sum(axis=2)
        k = squares.shape[1]
        if geometry == "euclidean":
            return float(squares.sum()), k / 2
        return k * float(squares.max()), k * math.log(k)

    def labelings(self, x: Any) -> Iterable[Any] | None:
        k, columns = np.shape(x)[:2]
        if math.perm(columns, k) > _ENUMERABLE:
            return None
        return map(np.array, itertools.permutations(range(columns), k))


def _tensor(x: Any, name: str) -> FloatArray:
    tensor = np.asarray(x, dtype=np.float64)
    if tensor.ndim != 3 or tensor.shape[0] == 0 or tensor.shape[0] > tensor.shape[1]:
        raise ValueError(
            f"{name} must have shape (rows, columns, features) with 1 <= rows <= columns, "
            f"got {tensor.shape}"
        )
    if not np.isfinite(tensor).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return tensor


def _columns(y: Any, shape: tuple[int, ...], name: str) -> None:
    columns = np.asarray(y)
    rows = shape[0]
    if columns.shape != (rows,) or columns.dtype.kind not in "iu":
        raise ValueError(f"{name} must be {rows} column numbers, one for each row, got {y!r}")
    if np.unique(columns).size != rows or not ((columns >= 0) & (columns < shape[1])).all():
        raise ValueError(f"{name} must be different columns from 0 to {shape[1] - 1}, got {y!r}")


def _padded(scores: FloatArray) -> FloatArray:
    """Square, with rows of zeros for the columns that stay free."""
    rows, columns = scores.shape
    return np.vstack([scores, np.zeros((columns - rows, columns))])


def sinkhorn(scores: FloatArray) -> FloatArray:
    """``argmax of <scores, z> + entropy(z)`` over doubly stochastic z, with logarithms throughout."""
    logs = scores - scores.max()
    for _ in range(_SINKHORN):
        logs = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
        sums = np.logaddexp.reduce(logs, axis=0, keepdims=True)
        logs = logs - sums
        if np.abs(np.expm1(np.logaddexp.reduce(logs, axis=1))).max() < _EXACT:
            break
    return np.exp(logs)


def nearest_matching(target: FloatArray) -> FloatArray:
    """The doubly stochastic matrix nearest to ``target``: ``max(target + u_i + v_j, 0)``.

    The dual ``1/2 |max(target + u + v, 0)|² - sum u - sum v`` is convex and piecewise quadratic:
    Newton steps with a line search end after finitely many pieces.
    """
    k = len(target)
    u = (1.0 - target.sum(axis=1)) / k
    v = (1.0 - (target + u[:, None]).sum(axis=0)) / k

    def value(shifted: FloatArray, total: float) -> float:
        return 0.5 * float(np.square(np.maximum(shifted, 0.0)).sum()) - total

    for _ in range(_NEWTON):
        shifted = target + u[:, None] + v
        z = np.maximum(shifted, 0.0)
        gradient = np.concatenate([z.sum(axis=1) - 1.0, z.sum(axis=0) - 1.0])
        if np.abs(gradient).max() < _EXACT:
            break
        on = (shifted > 0).astype(float)
        hessian = np.block([[np.diag(on.sum(axis=1)), on], [on.T, np.diag(on.sum(axis=0))]])
        hessian[np.diag_indices(2 * k)] += 1e-10
        step = -np.linalg.solve(hessian, gradient)
        here, slope, size = value(shifted, u.sum() + v.sum()), float(gradient @ step), 1.0
        while size > 1e-10:
            du, dv = size * step[:k], size * step[k:]
            there = value(shifted + du[:, None] + dv, (u + du).sum() + (v + dv).sum())
            if there <= here + 1e-4 * size * slope + 1e-14 * abs(here):
                break
            size /= 2
        u, v = u + du, v + dv
    return z
