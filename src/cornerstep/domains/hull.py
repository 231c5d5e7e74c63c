"""The convex hull of a given list of points."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.matrix import Matrix
from cornerstep.core.rounding import sum_error
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector, Vector
from cornerstep.domains.base import INSIDE, SNAP
from cornerstep.domains.facial import facets_of, facial_constant
from cornerstep.domains.lp import InfeasibleError, LinearProgram, UnboundedError
from cornerstep.domains.selection import smallest

# A point whose largest possible weight in x is below this counts as outside the face of x.
_FACE_WEIGHT = 1e-6

# The tolerance of a linear program is absolute: it sees points of size 1, and for their weights x
# enlarged by the first of these, or by the next if rounding has moved x off a flat hull.
_ENLARGED = (1e3, 1.0)


class ConvexHull:
    """The convex hull of given points, the rows of ``vertices``.

    The linear oracle is one product with the list.  The in-face oracle and the largest step know no
    facets and solve a linear program; methods with an active set do without them.

    Parameters
    ----------
    vertices : array or sparse matrix of shape (N, n)
        The points; those that are not extreme do no harm.
    """

    cheap_faces = False
    cheap_contains = False

    def __init__(self, vertices: Any) -> None:
        # Columns of the stored matrix are the points, so that a weighted sum is `times`.
        self._points = Matrix(
            vertices.T if sp.issparse(vertices) else np.asarray(vertices).T, "vertices"
        )
        self.size, self.n_atoms = self._points.shape
        if 0 in self._points.shape:
            raise ValueError(
                f"vertices must have at least one row and column, got {self.n_atoms} x {self.size}"
            )

    def __repr__(self) -> str:
        return f"ConvexHull({self.n_atoms} points, size={self.size})"

    def atom(self, i: int) -> Vector:
        """The i-th point."""
        if self._points.is_dense:
            return self._points.data[:, i].copy()
        column = self._points.data[:, [i]]
        return SparseVector(column.indices, column.data, self.size)

    def atom_scores(self, indices: IntArray, gradient: FloatArray) -> FloatArray:
        """``<gradient, v_i>`` for each i in indices."""
        return self._points.data[:, indices].T @ gradient

    def lmo(self, gradient: FloatArray) -> Vector:
        """The point of least inner product."""
        return self.atom(int(self._points.transpose_times(gradient).argmin()))

    def lmo_many(self, gradient: FloatArray, count: int) -> list[Vector]:
        """The points of the least inner products, in order."""
        chosen = smallest(self._points.transpose_times(gradient), count)
        if not self._points.is_dense:
            return [self.atom(i) for i in chosen]
        return [row.copy() for row in self._points.data[:, chosen].T]

    def start(self) -> Vector:
        """The point extreme in the first coordinate."""
        return self.lmo(np.eye(1, self.size)[0])

    @cached_property
    def diameter(self) -> float | None:
        """The largest distance between two points (None beyond 2,000 points)."""
        if self.n_atoms > 2000:
            return None
        unit = self._points.data / self._unit
        gram = unit.T @ unit
        gram = gram.toarray() if sp.issparse(gram) else gram
        squares = np.diag(gram)
        longest = np.sqrt(max(0.0, (squares[:, None] + squares - 2 * gram).max()))
        return self._unit * float(longest)

    def facial_constant(self, s: int) -> float | None:
        """``H_s`` of the facets, inside the space that the points span; None if too many."""
        listed = self._facets
        return None if listed is None else facial_constant(listed[1], listed[0], s)

    @cached_property
    def _facets(self) -> tuple[FloatArray, FloatArray] | None:
        points = self._points.data.T
        return facets_of(points.toarray() if sp.issparse(points) else points)

    def _in_face(self, x: FloatArray) -> IntArray:
        """Points that can carry weight in x: the largest support of any decomposition, by one LP.

        max sum t   s.t.   V lambda = x,  1'lambda = 1,  lambda >= t,  0 <= t <= small.
        The bound on t is what makes many small weights worth more than one large.
        """
        count = self.n_atoms
        program = self._face_program
        cost = np.concatenate([np.zeros(count), -np.ones(count)])
        for scale in _ENLARGED:
            small = _FACE_WEIGHT * scale
            rows = np.concatenate([x * (scale / self._unit), [scale], np.zeros(count)])
            upper = np.concatenate([rows[:-count], np.full(count, np.inf)])
            program.set_row_bounds(rows, upper)
            program.set_bounds(np.zeros(2 * count), np.repeat([np.inf, small], count))
            try:
                t = program.minimize(cost)[count:]
            except InfeasibleError:
                continue
            return (t > 0.5 * small).nonzero()[0]
        raise ValueError("x must lie in the convex hull: no decomposition found")

    def forget(self) -> None:
        """A new run: its answers do not depend on what others left in the programs."""
        for name in ("_face_program", "_step_program"):
            vars(self).pop(name, None)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest of each row of the points, over their unit."""
        rows = sp.csr_array(self._homogeneous)
        return rows.min(axis=1).toarray().ravel(), rows.max(axis=1).toarray().ravel()

    @cached_property
    def _face_program(self) -> LinearProgram:
        count = self.n_atoms
        matrix = sp.block_array(
            [
                [self._homogeneous, None],
                [sp.eye_array(count), -sp.eye_array(count)],
            ]
        )
        rows, columns = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[1])
        return LinearProgram(matrix, rows, rows, columns, columns)

    @cached_property
    def _unit(self) -> float:
        """The largest coordinate of any point."""
        return float(abs(self._points.data).max()) or 1.0

    @cached_property
    def _homogeneous(self) -> Any:
        points = sp.csc_array(self._points.data) / self._unit
        return sp.vstack([points, np.ones((1, self.n_atoms))])

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> Vector:
        """The point of least inner product in the smallest face containing x."""
        face = self._in_face(x)
        return self.atom(int(face[self.atom_scores(face, gradient).argmin()]))

    @cached_property
    def _step_program(self) -> LinearProgram:
        matrix = sp.hstack([self._homogeneous, np.ones((self.size + 1, 1))])
        rows = np.zeros(self.size + 1)
        columns = np.zeros(self.n_atoms + 1)
        return LinearProgram(matrix, rows, rows, columns, np.full(self.n_atoms + 1, np.inf))

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """``max t`` with ``x + t d`` a convex combination of the points, by one LP."""
        length = float(np.abs(d).max())
        if length <= SNAP * self._unit:
            return np.inf  # d is the rounding of x
        rows = np.append(x / self._unit, 1.0)
        program = self._step_program
        program.set_column(self.n_atoms, np.append(-d / length, 0.0))
        program.set_row_bounds(rows, rows)
        cost = np.zeros(self.n_atoms + 1)
        cost[-1] = -1.0
        try:
            return max(0.0, float(program.minimize(cost)[-1])) * self._unit / length
        except (InfeasibleError, UnboundedError):
            # Rounding turns a short d out of the plane of a flat hull: no step but 0 is certain.
            if self.contains(x):
                return 0.0
            raise

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|> + max <weights, |v_i|>``."""
        return float(weights @ np.abs(x)) + self._largest_sum(weights)

    def lmo_error(self, gradient: FloatArray, vertex: Vector) -> float:
        """Rounding of the inner products that are compared."""
        return 2 * float(sum_error(self._largest_sum(np.abs(gradient)), self.size))

    def _largest_sum(self, weights: FloatArray) -> float:
        return float(self._points.transpose_sizes(weights).max())

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether x is a convex combination up to tol, relative to the largest coordinate."""
        slack = np.append(np.full(self.size, tol), 0.0)
        rows = np.append(x / self._unit, 1.0)
        least, largest = self._ends
        if (rows < least - slack).any() or (rows > largest + slack).any():
            return False  # as well far away, where a program of such sizes has no answer
        program = LinearProgram(
            self._homogeneous,
            rows - slack,
            rows + slack,
            np.zeros(self.n_atoms),
            np.full(self.n_atoms, np.inf),
        )
        try:
            program.minimize(np.zeros(self.n_atoms))
        except InfeasibleError:
            return False
        return True
