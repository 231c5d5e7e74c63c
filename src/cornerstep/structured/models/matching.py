"""Bipartite matchings: ``w'phi(x, y) = sum_i <w, x[i, y_i]>``, y an injection of rows into columns.

Decoding is :func:`scipy.optimize.linear_sum_assignment`.  For the dual extragradient method the
matching polytope has two projections: Sinkhorn's scaling (entropic), and a quadratic flow
(Euclidean) solved by a semismooth Newton method on its dual.

References
----------
.. [1] B. Taskar, S. Lacoste-Julien, M. I. Jordan. Structured prediction, dual extragradient and
   Bregman projections. Journal of Machine Learning Research 7, 1627-1653, 2006.
.. [2] R. Sinkhorn, P. Knopp. Concerning nonnegative matrices and doubly stochastic matrices.
   Pacific Journal of Mathematics 21, 343-348, 1967.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator

from cornerstep.core.types import FloatArray
from cornerstep.structured.models.base import StructuredModel, shortened

_ENUMERABLE = 5_040
_SINKHORN = 1_000  # sweeps at most
_NEWTON = 200  # steps at most
_EXACT = 1e-11  # row and column sums


class MatchingModel(BaseEstimator, StructuredModel):
    r"""Which row belongs to which column; the loss is the share of rows wrongly matched.

    A matching y scores :math:`\sum_i \langle w, x_{i, y_i} \rangle`.  An example x is an array of
    shape (k, l, d) with k <= l: features of matching row i with column j.  A labeling y is an
    integer array of shape (k,): the columns of the rows, all different.

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
        return _best(self.part_scores(x, w) + self.part_costs(x, y))

    def decode(self, x: Any, w: FloatArray) -> npt.NDArray[np.intp]:
        return _best(self.part_scores(x, w))

    def soften(self, scores: FloatArray) -> FloatArray:
        """``argmax over matchings z of <scores, z> + entropy(z)``, by Sinkhorn's scaling."""
        from cornerstep.structured.compiled.matching import sinkhorn

        return sinkhorn(_padded(scores), _SINKHORN, _EXACT)[: len(scores)]

    def centre(self, x: Any) -> FloatArray:
        """The mean of all matchings."""
        return np.full(np.shape(x)[:2], 1.0 / np.shape(x)[1])

    def project(self, x: Any, target: FloatArray) -> FloatArray:
        """The nearest point of the matching polytope."""
        from cornerstep.structured.compiled.matching import nearest

        return nearest(_padded(target), _NEWTON, _EXACT)[: len(target)]

    def outside(self, z: FloatArray) -> float:
        """By how much the rows of a z do not sum to 1, or its columns to more, in all."""
        rows = np.abs(z.sum(axis=1) - 1.0).sum()
        return float(rows + np.maximum(z.sum(axis=0) - 1.0, 0.0).sum() - np.minimum(z, 0.0).sum())

    def prox_bounds(self, x: Any, y: Any, geometry: str) -> tuple[float, float]:
        """Bounds of ``|F|²`` in the geometry, and of the distance of z from the centre."""
        x = np.asarray(x, dtype=np.float64)
        squares = np.square(x - x.mean(axis=1, keepdims=True)).sum(axis=2)  # rows of z sum to 1
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
        raise ValueError(
            f"{name} must be {rows} column numbers, one for each row, got {shortened(y)}"
        )
    if np.unique(columns).size != rows or not ((columns >= 0) & (columns < shape[1])).all():
        raise ValueError(
            f"{name} must be different columns from 0 to {shape[1] - 1}, got {shortened(y)}"
        )


def _padded(scores: FloatArray) -> FloatArray:
    """Square, with rows of zeros for the columns that stay free."""
    rows, columns = scores.shape
    return np.vstack([scores, np.zeros((columns - rows, columns))])


def _best(scores: FloatArray) -> npt.NDArray[np.intp]:
    """The matching of the largest score."""
    if not np.isfinite(scores).all():
        raise ValueError("X must have numbers whose scores are finite, got some beyond: scale X")
    return linear_sum_assignment(scores, True)[1]
