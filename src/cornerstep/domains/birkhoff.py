"""The Birkhoff polytope of doubly stochastic matrices."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from cornerstep.domains.base import ratio_test, require_size, snap_to_bounds
from cornerstep.vectors import FloatArray, SparseVector


class Birkhoff:
    """``{X >= 0, every row and column of the n x n matrix X sums to 1}``, flattened row by row.

    Its vertices are the permutation matrices; the oracle is an assignment problem.

    Parameters
    ----------
    n : int
        Side of the matrices.
    """

    grid = 1.0
    cheap_faces = False

    def __init__(self, n: int) -> None:
        side = require_size(n)
        self.shape = (side, side)
        self.size = side * side
        self.diameter = float(np.sqrt(2 * side)) if side > 1 else 0.0

    def __repr__(self) -> str:
        return f"Birkhoff({self.shape[0]})"

    def _permutation(self, cost: FloatArray) -> SparseVector:
        rows, columns = linear_sum_assignment(cost)
        side = self.shape[0]
        return SparseVector(rows * side + columns, np.ones(side), self.size)

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """The cheapest permutation."""
        return self._permutation(gradient.reshape(self.shape))

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> SparseVector:
        """The cheapest permutation inside the support of X (entries at 1 are then forced)."""
        return self._permutation(np.where(x > 0, gradient, np.inf).reshape(self.shape))

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until an entry reaches 0."""
        return ratio_test(x, d, 0.0, 1.0)

    def snap(self, x: FloatArray) -> None:
        """Put entries within rounding of 0 or 1 onto it."""
        snap_to_bounds(x, 0.0, 1.0)

    def start(self) -> SparseVector:
        """The identity."""
        side = self.shape[0]
        return SparseVector(np.arange(side) * (side + 1), np.ones(side), self.size)

    def contains(self, x: FloatArray, tol: float = 1e-9) -> bool:
        """Whether all entries and sums are right up to tol."""
        matrix = x.reshape(self.shape)
        sums = np.concatenate([matrix.sum(axis=0), matrix.sum(axis=1)])
        return bool(x.min() >= -tol and np.abs(sums - 1).max() <= tol)

    def facial_constant(self, s: int) -> float:
        """``H_s = s``."""
        return float(min(s, self.size))
