"""The convex hull of a given list of points."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.domains.lp import InfeasibleError, LinearProgram
from cornerstep.linear import Matrix
from cornerstep.vectors import FloatArray, IntArray, SparseVector, Vector

# A point whose largest possible weight in x is below this counts as outside the face of x.
_FACE_WEIGHT = 1e-6


class ConvexHull:
    """``conv{v_1, ..., v_N}``, the rows of ``vertices``.

    The linear oracle is one product with the list.  The in-face oracle and the largest step know no
    facets and solve a linear program; methods with an active set do without them.

    Parameters
    ----------
    vertices : array or sparse matrix of shape (N, n)
        The points; those that are not extreme do no harm.
    """

    cheap_faces = False

    def __init__(self, vertices: Any) -> None:
        # Columns of the stored matrix are the points, so that a weighted sum is `times`.
        self._points = Matrix(
            vertices.T if sp.issparse(vertices) else np.asarray(vertices).T, "vertices"
        )
        self.size, self.n_atoms = self._points.shape
        if self.n_atoms == 0:
            raise ValueError("vertices must have at least one row: the hull would be empty")

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

    def start(self) -> Vector:
        """The point extreme in the first coordinate."""
        return self.lmo(np.eye(1, self.size)[0])

    @cached_property
    def diameter(self) -> float | None:
        """The largest distance between two points (None beyond 2,000 points)."""
        if self.n_atoms > 2000:
            return None
        gram = self._points.data.T @ self._points.data
        gram = gram.toarray() if sp.issparse(gram) else gram
        squares = np.diag(gram)
        return float(np.sqrt(max(0.0, (squares[:, None] + squares - 2 * gram).max())))

    def _in_face(self, x: FloatArray) -> IntArray:
        """Points that can carry weight in x: the largest support of any decomposition, by one LP.

        max sum t   s.t.   V lambda = s x,  1'lambda = s,  lambda >= t,  0 <= t <= 1,  s <= S.
        Scaling by s lets every point of the face reach t = 1.
        """
        count, size = self.n_atoms, self.size
        program = self._face_program
        program.set_column(2 * count, np.concatenate([-x, [-1.0], np.zeros(count)]))
        cost = np.concatenate([np.zeros(count), -np.ones(count), [0.0]])
        t = program.minimize(cost)[count : 2 * count]
        face = (t > 0.5).nonzero()[0]
        if face.size == 0:
            raise ValueError(f"x must lie in the convex hull; no decomposition found ({size=})")
        return face

    @cached_property
    def _face_program(self) -> LinearProgram:
        count = self.n_atoms
        matrix = sp.block_array(
            [
                [self._homogeneous, None, np.ones((self.size + 1, 1))],
                [sp.eye_array(count), -sp.eye_array(count), None],
            ]
        )
        zeros = np.zeros(self.size + 1)
        return LinearProgram(
            matrix,
            np.concatenate([zeros, np.zeros(count)]),
            np.concatenate([zeros, np.full(count, np.inf)]),
            np.concatenate([np.zeros(2 * count), [1.0]]),
            np.concatenate([np.full(count, np.inf), np.ones(count), [1 / _FACE_WEIGHT]]),
        )

    @cached_property
    def _homogeneous(self) -> Any:
        return sp.vstack([sp.csc_array(self._points.data), np.ones((1, self.n_atoms))])

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
        rows = np.append(x, 1.0)
        program = self._step_program
        program.set_column(self.n_atoms, np.append(-d, 0.0))
        program.set_row_bounds(rows, rows)
        cost = np.zeros(self.n_atoms + 1)
        cost[-1] = -1.0
        return float(program.minimize(cost)[-1])

    def contains(self, x: FloatArray, tol: float = 1e-9) -> bool:
        """Whether x is within tol, coordinate by coordinate, of a convex combination."""
        slack = np.append(np.full(self.size, tol), 0.0)
        rows = np.append(x, 1.0)
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
