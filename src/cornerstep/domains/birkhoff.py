"""The Birkhoff polytope of doubly stochastic matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector
from cornerstep.domains.base import (
    INSIDE,
    TIGHT,
    Constraints,
    ratio_test,
    reach_of_nonnegative,
    require_size,
    snap_to_bounds,
    sum_step,
)


class Birkhoff:
    r"""The doubly stochastic matrices, flattened row by row.

    :math:`\{X \ge 0,\ X 1 = 1,\ X^\top 1 = 1\}` for n x n matrices X.  Its vertices are the
    permutation matrices; the oracle is an assignment problem.

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

    @property
    def constraints(self) -> Constraints:
        """Entries at least 0, and the sums of rows and columns but one, which the others imply."""
        side = self.shape[0]
        eye, ones = sp.eye_array(side), np.ones((1, side))
        rows = sp.vstack([sp.kron(eye, ones), sp.kron(ones, eye)], format="csc")[: 2 * side - 1]
        sums = np.ones(2 * side - 1)
        return Constraints(np.zeros(self.size), np.full(self.size, np.inf), rows, sums, sums)

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

    def _sums(self, x: FloatArray) -> FloatArray:
        """The sums of the rows and of the columns."""
        matrix = x.reshape(self.shape)
        return np.concatenate([matrix.sum(axis=1), matrix.sum(axis=0)])

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until an entry reaches 0, or a sum leaves 1."""
        step, growth = ratio_test(x, d, 0.0, 1.0), self._sums(d)
        if not growth.any():
            return step
        deviation = float(np.abs(self._sums(x) - 1).max())
        return sum_step(step, deviation, float(np.abs(growth).max()), TIGHT)

    def snap(self, x: FloatArray) -> None:
        """Put entries within rounding of 0 or 1 onto it; restore the sums."""
        snap_to_bounds(x, 0.0, 1.0)
        matrix = x.reshape(self.shape)
        if np.abs(self._sums(x) - 1).max() <= 2 * INSIDE:  # what is left is of second order
            matrix /= matrix.sum(axis=1, keepdims=True)
            matrix /= matrix.sum(axis=0)

    def start(self) -> SparseVector:
        """The identity."""
        side = self.shape[0]
        return SparseVector(np.arange(side) * (side + 1), np.ones(side), self.size)

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether all entries and sums are right up to tol."""
        return bool(x.min() >= -tol and np.abs(self._sums(x) - 1).max() <= tol)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, x> + max <weights, v>``, by an assignment."""
        return reach_of_nonnegative(self, weights, x)

    def lmo_error(self, gradient: FloatArray, vertex: SparseVector) -> float:
        """An assignment sums costs along paths of at most n edges, for each of n rows."""
        return gamma(4 * self.size) * float(np.abs(gradient).max())

    def facial_constant(self, s: int) -> float:
        """``H_s = s``."""
        return float(min(s, self.size))
