"""Arbitrary polytopes, through HiGHS.

HiGHS is given the polytope in units of its own: ``x_j = unit_j x'_j`` with x' of size 1, and rows
divided by their largest entry.  Units are powers of 2, so that nothing is rounded on the way.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from cornerstep.core.matrix import as_vector
from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray
from cornerstep.domains.base import (
    INSIDE,
    TIGHT,
    Constraints,
    ratio_test,
    require_size,
    snap_to_bounds,
    sum_step,
)
from cornerstep.domains.facial import facial_constant, vertices_of
from cornerstep.domains.lp import InfeasibleError, LinearProgram

# Slack below which a row counts as tight.  Rows, unlike coordinates, cannot be set exactly: their
# slack is what a sum of rounding errors leaves, and HiGHS answers to 1e-10.
_ROW_TIGHT = 1e-9

_ROW_OFF = 1e-13  # what a row may be off by, relative to its scale, before it is restored
_REPAIRS = 3  # restoring some rows may push x over others, which the next time includes


class Polytope:
    r"""Any polytope, given by linear inequalities, equations and bounds.

    :math:`\{A_{ub} x \le b_{ub},\ A_{eq} x = b_{eq},\ l \le x \le u\}`.  Both oracles are linear
    programs, solved by the simplex method from the last basis.

    Parameters
    ----------
    A_ub, b_ub : array or sparse matrix (m, n) and array (m,), optional
    A_eq, b_eq : array or sparse matrix (p, n) and array (p,), optional
    lower, upper : number or array of shape (n,), optional
        Bounds; None means none.
    binary_vertices : bool, default=False
        Your word that all vertices are 0/1 (as for flows and matchings).  With bounds 0 and 1 and
        no ``A_ub`` the polytope is then simplex-like and the fixed schedules apply.
    """

    cheap_faces = False

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        lower: Any = None,
        upper: Any = None,
        *,
        binary_vertices: bool = False,
    ) -> None:
        self.size = _common_size(A_ub, A_eq, lower, upper)
        self.A_ub, self.b_ub = _rows(A_ub, b_ub, "A_ub", "b_ub", self.size)
        self.A_eq, self.b_eq = _rows(A_eq, b_eq, "A_eq", "b_eq", self.size)
        self.lower = _bound(lower, -np.inf, "lower", self.size)
        self.upper = _bound(upper, np.inf, "upper", self.size)
        crossed = (self.lower > self.upper).nonzero()[0]
        if crossed.size:
            raise ValueError(
                f"lower must not exceed upper: the polytope is empty at coordinate {crossed[0]}"
            )
        matrix, right = sp.vstack([self.A_ub, self.A_eq], format="csc"), np.r_[self.b_ub, self.b_eq]
        self._unit = _units(matrix, right, self.lower, self.upper)
        scaled = matrix @ sp.diags_array(self._unit)
        self._row_size = _powers(abs(scaled).max(axis=1).toarray().ravel() if right.size else right)
        self._matrix = sp.csc_array(sp.diags_array(1 / self._row_size) @ scaled)
        self._row_upper = right / self._row_size
        self._row_lower = self._row_upper.copy()
        self._row_lower[: self.b_ub.size] = -np.inf
        self._outer_bounds = self.lower / self._unit, self.upper / self._unit
        self.forget()
        try:
            self._program.minimize(np.zeros(self.size))
        except InfeasibleError:
            raise ValueError("the polytope is empty: no x satisfies all constraints") from None
        self._require_bounded()
        self._outer_bounds = self._fence_free_coordinates(*self._outer_bounds)
        self.forget()
        self._start = self.lmo(np.zeros(self.size))
        bounded = np.isfinite(self.lower).all() and np.isfinite(self.upper).all()
        self.diameter = norm(self.upper - self.lower) if bounded else None
        unit = not self.lower.any() and bool((self.upper == 1).all()) and self.b_ub.size == 0
        if binary_vertices and not unit:
            raise ValueError("binary_vertices needs lower = 0, upper = 1 and no A_ub")
        self.grid = 1.0 if binary_vertices else None

    @property
    def constraints(self) -> Constraints:
        """As it was given."""
        rows = sp.vstack([self.A_ub, self.A_eq], format="csc")
        right = np.concatenate([self.b_ub, self.b_eq])
        least = np.concatenate([np.full(self.b_ub.size, -np.inf), self.b_eq])
        return Constraints(self.lower, self.upper, rows, least, right)

    def forget(self) -> None:
        """A new run: its answers do not depend on what others left in the programs."""
        # Faces have one of their own, so that each keeps the basis of its last answer.
        self._program, self._face = (
            LinearProgram(self._matrix, self._row_lower, self._row_upper, *self._outer_bounds)
            for _ in range(2)
        )

    def __repr__(self) -> str:
        return f"Polytope({self.b_ub.size} + {self.b_eq.size} rows, size={self.size})"

    def _require_bounded(self) -> None:
        """P is bounded iff its recession cone is {0}; look for a ray inside [-1, 1]^n."""
        down, up = np.isneginf(self.lower), np.isposinf(self.upper)
        if not (down | up).any():
            return
        zeros = np.zeros(self._row_upper.size)
        cone = LinearProgram(
            self._matrix,
            np.where(np.isneginf(self._row_lower), -np.inf, 0.0),
            zeros,
            np.where(down, -1.0, 0.0),
            np.where(up, 1.0, 0.0),
        )
        # One-sided coordinates can be tried all at once; a free one needs both of its signs.
        free = (down & up).nonzero()[0]
        costs = [np.where(down, 1.0, 0.0) - np.where(up, 1.0, 0.0)]
        costs += [sign * np.eye(1, self.size, int(j))[0] for j in free for sign in (1.0, -1.0)]
        for cost in costs:
            ray = cone.minimize(cost)
            if np.abs(ray).max() > 1e-7:
                shown = np.array2string(ray, precision=2, threshold=6)
                raise ValueError(f"the polytope is unbounded: it contains the ray {shown}")

    def _fence_free_coordinates(
        self, lower: FloatArray, upper: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The bounds in units, with bounds out of P's reach where there are none.

        The simplex method leaves a coordinate that has no bound and no cost at 0, which need not be
        on the boundary of P; one that has bounds it cannot reach must be held by rows.
        """
        lower, upper = lower.copy(), upper.copy()
        for j in (np.isinf(lower) & np.isinf(upper)).nonzero()[0]:
            cost = np.eye(1, self.size, int(j))[0]
            low, high = (self._program.minimize(sign * cost)[j] for sign in (1.0, -1.0))
            lower[j], upper[j] = low - (1.0 + high - low), high + (1.0 + high - low)
        return lower, upper

    @cached_property
    def _box(self) -> tuple[FloatArray, FloatArray]:
        """Finite bounds in units around P: none is further from the other than all together are."""
        lower, upper = self._outer_bounds
        below, above = np.isinf(lower), np.isinf(upper)
        if not (below | above).any():
            return self._outer_bounds
        distance = above * 1.0 - below * 1.0
        vertex = self._program.minimize(-distance)
        start = np.where(above, lower, np.where(below, upper, 0.0))
        furthest = 1.0 + 2 * abs(float(distance @ (vertex - start)))
        return np.where(below, upper - furthest, lower), np.where(above, lower + furthest, upper)

    def _in_units(self, weights: FloatArray) -> tuple[FloatArray, float]:
        """``<weights, x> = size * <answer, x'>``, with nothing beyond float64's range."""
        size = float(np.abs(weights).max()) or 1.0
        return weights / size * self._unit, size

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """A vertex of least cost."""
        vertex = self._program.minimize(self._in_units(gradient)[0])
        return self._polished(vertex, self._row_lower)

    def lmo_error(self, gradient: FloatArray, vertex: FloatArray) -> float:
        """The cost of the vertex over what a dual point of the program proves."""
        cost, size = self._in_units(gradient)
        least = self._program.bound(cost, *self._box)
        return max(float(cost @ (vertex / self._unit)) - least, 0.0) * size

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """Distances ``|v_i - x_i|`` by way of a bound of each, or of both for free coordinates."""
        costs, size = self._in_units(weights)
        x = x / self._unit
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        side = np.where(low, 1.0, np.where(high, -1.0, 0.0))
        lower, upper = self._box
        origin = np.where(low, lower, np.where(high, upper, 0.0))
        own = np.where(side != 0, np.abs(x - origin), np.maximum(upper - x, x - lower))
        signed = side * costs
        others = -self._program.bound(-signed, lower, upper) - float(signed @ origin)
        return (float(costs @ own) + max(others, 0.0)) * size

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> FloatArray:
        """The same with every constraint that is tight at x turned into an equality."""
        slack = self.b_ub - self.A_ub @ x
        tight = slack <= _ROW_TIGHT * self._sizes(x)[: slack.size]
        row_lower = self._row_lower.copy()
        row_lower[: tight.size][tight] = self._row_upper[: tight.size][tight]
        lower, upper = self._outer_bounds
        lower, upper = (
            np.where(x >= self.upper, upper, lower),
            np.where(x <= self.lower, lower, upper),
        )
        self._face.set_bounds(lower, upper)
        self._face.set_row_bounds(row_lower, self._row_upper)
        return self._polished(self._face.minimize(self._in_units(gradient)[0]), row_lower)

    def _polished(self, vertex: FloatArray, row_lower: FloatArray) -> FloatArray:
        vertex *= self._unit
        self._snap(vertex, row_lower)
        return vertex

    def _sizes(self, x: FloatArray) -> FloatArray:
        """The scale of each row: of its right-hand side, its entries and its terms at x.

        In units, which may be twice the sizes of a row and of a coordinate, entries are over 1/4.
        """
        terms = abs(self._matrix) @ (np.abs(x) / self._unit)
        return np.maximum(np.maximum(np.abs(self._row_upper), 0.25), terms) * self._row_size

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Ratio test on bounds and rows; a row that only rounding changes may be left by that."""
        step = ratio_test(x, d, self.lower, self.upper)
        sizes = self._sizes(x)
        count = self.b_ub.size
        terms = abs(self._matrix) @ (np.abs(d) / self._unit) * self._row_size
        growth = np.concatenate([self.A_ub @ d, self.A_eq @ d])
        room = np.concatenate([self.b_ub - self.A_ub @ x, np.abs(self.b_eq - self.A_eq @ x)])
        for i in growth.nonzero()[0]:
            slack = TIGHT * float(sizes[i])
            if i >= count:
                step = sum_step(step, float(room[i]), float(growth[i]), slack)
            elif growth[i] > max(TIGHT * terms[i], 2 * _ROW_OFF * sizes[i]):
                step = min(step, max(float(room[i]), 0.0) / float(growth[i]))
            elif growth[i] > 0:
                step = sum_step(step, 0.0, float(growth[i]), slack + float(room[i]))
        return step

    def snap(self, x: FloatArray) -> None:
        """Put coordinates and rows within rounding of a bound onto it."""
        self._snap(x, self._row_lower)

    def _snap(self, x: FloatArray, row_lower: FloatArray) -> None:
        snap_to_bounds(x, self.lower, self.upper)
        for _ in range(_REPAIRS):
            if not self._restore_rows(x, row_lower):
                return
            snap_to_bounds(x, self.lower, self.upper)

    def _restore_rows(self, x: FloatArray, row_lower: FloatArray) -> bool:
        """Take out of x, in place, what rounding has put rows off; whether there was any.

        The least change of the coordinates that are not at a bound, with rows that are tight kept.
        """
        missing = self._row_upper - self._matrix @ (x / self._unit)
        sizes = self._sizes(x) / self._row_size
        equal = np.isfinite(row_lower)
        off = np.abs(np.where(equal, missing, np.minimum(missing, 0.0)))
        if (off <= _ROW_OFF * sizes).all() or (off > 2 * INSIDE * sizes).any():
            return False
        held = equal | (missing <= TIGHT * sizes)
        free = (x > self.lower) & (x < self.upper)
        rows = self._matrix[held.nonzero()[0]][:, free.nonzero()[0]]
        length = float(np.abs(missing[held]).max())  # squares of the change must not underflow
        change = lsqr(rows, missing[held] / length, atol=1e-9, btol=1e-9)[0]
        x[free] += self._unit[free] * (length * change)
        return True

    def start(self) -> FloatArray:
        """The first vertex that the simplex method finds."""
        return self._start.copy()

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether every constraint holds up to tol, relative to its scale."""
        slack = tol * self._sizes(x)
        over = self.A_ub @ x - self.b_ub
        off = np.abs(self.A_eq @ x - self.b_eq)
        units = tol * np.maximum(self._unit / 2, np.abs(x))
        bounds = (x >= self.lower - units).all() and (x <= self.upper + units).all()
        return bool(bounds and (np.concatenate([over, off]) <= slack).all())

    def facial_constant(self, s: int) -> float | None:
        """``H_s = s`` if simplex-like, else of the rows and bounds as they are given.

        None where vertices are too many to list.
        """
        if self.grid is not None:
            return float(min(s, self.size))
        listed = self._listed
        return None if listed is None else facial_constant(*listed, s)

    @cached_property
    def _listed(self) -> tuple[FloatArray, FloatArray] | None:
        """The rows of all inequalities, and the vertices."""
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        eye = np.eye(self.size)
        rows = np.vstack([self.A_ub.toarray(), eye[high], -eye[low]])
        right = np.concatenate([self.b_ub, self.upper[high], -self.lower[low]])
        vertices = vertices_of(rows, right, self.A_eq.toarray(), self.b_eq)
        return None if vertices is None else (rows, vertices)


def _units(matrix: Any, right: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """The size of each coordinate: of its bounds, or of what the rows leave it if that is less."""
    bounds = np.maximum(np.abs(lower), np.abs(upper))
    if not (np.isfinite(lower) & np.isfinite(upper)).all():
        finite = [np.where(np.isfinite(b), np.abs(b), 0.0) for b in (lower, upper)]
        bounds = np.where(np.isfinite(bounds), bounds, np.maximum(*finite))
    entries = sp.coo_array(matrix)
    entries.eliminate_zeros()
    rows, columns = entries.coords
    shares = np.abs(right[rows] / entries.data)
    by_rows = np.zeros(bounds.size)
    np.maximum.at(by_rows, columns, shares)
    both = (bounds > 0) & (by_rows > 0)
    sizes = np.where(both, np.minimum(bounds, by_rows), np.maximum(bounds, by_rows))
    sizes[sizes == 0] = sizes.max(initial=0.0)  # nothing is known of these but the others
    return _powers(sizes)


def _powers(sizes: FloatArray) -> FloatArray:
    """The powers of 2 next above ``sizes``, at most twice them; 1 where a size is 0."""
    return np.ldexp(1.0, np.where(sizes > 0, np.frexp(sizes)[1], 0))


def _common_size(*parts: Any) -> int:
    for part in parts:
        if part is not None and np.ndim(part if not sp.issparse(part) else part.data) > 0:
            size = part.shape[1] if sp.issparse(part) else np.shape(part)[-1]
            return require_size(size, "the number of coordinates")
    raise ValueError("give A_ub, A_eq, lower or upper as an array: the dimension is unknown")


def _rows(matrix: Any, right: Any, name: str, right_name: str, size: int) -> tuple[Any, FloatArray]:
    if (matrix is None) != (right is None):
        raise ValueError(f"{name} and {right_name} must be given together")
    if matrix is None:
        return sp.csr_array((0, size)), np.empty(0)
    given = matrix if sp.issparse(matrix) else np.asarray(matrix)
    if given.ndim != 2 or given.shape[1] != size:
        raise ValueError(f"{name} must have {size} columns, got shape {given.shape}")
    rows = sp.csr_array(given, dtype=np.float64)
    if not np.isfinite(rows.data).all():
        raise ValueError(f"{name} must be finite, but contains NaN or infinity")
    return rows, as_vector(np.atleast_1d(right), right_name, rows.shape[0])


def _bound(bound: Any, default: float, name: str, size: int) -> FloatArray:
    if np.shape(bound) not in ((), (size,)):
        raise ValueError(f"{name} must be a number or of length {size}, got {np.shape(bound)}")
    out = np.array(np.broadcast_to(default if bound is None else bound, size), dtype=np.float64)
    if np.isnan(out).any() or (out == -default).any():
        raise ValueError(f"{name} must not contain NaN or {-default}")
    return out
