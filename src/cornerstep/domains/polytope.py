"""Arbitrary polytopes, through HiGHS."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.domains.base import SNAP, ratio_test, require_size, snap_to_bounds
from cornerstep.domains.lp import InfeasibleError, LinearProgram
from cornerstep.linear import as_vector
from cornerstep.vectors import FloatArray

# Slack below which a row counts as tight.  Rows, unlike coordinates, cannot be set exactly: their
# slack is what a sum of rounding errors leaves, and HiGHS answers to 1e-10.
_ROW_TIGHT = 1e-9


class Polytope:
    """``{A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}``.

    Both oracles are linear programs, solved by the simplex method from the last basis.

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
        self._scale = 1.0 + np.abs(self.b_ub)
        self._row_upper = np.concatenate([self.b_ub, self.b_eq])
        self._row_lower = np.concatenate([np.full(self.b_ub.size, -np.inf), self.b_eq])
        self._matrix = sp.vstack([self.A_ub, self.A_eq], format="csc")
        self._program = LinearProgram(
            self._matrix, self._row_lower, self._row_upper, self.lower, self.upper
        )
        # A program of its own for faces, so that each keeps the basis of its last answer.
        self._face = LinearProgram(
            self._matrix, self._row_lower, self._row_upper, self.lower, self.upper
        )
        try:
            self._program.minimize(np.zeros(self.size))
        except InfeasibleError:
            raise ValueError("the polytope is empty: no x satisfies all constraints") from None
        self._require_bounded()
        self._fences = self._fence_free_coordinates()
        self._program.set_bounds(*self._fences)
        self._start = self.lmo(np.zeros(self.size))
        bounded = np.isfinite(self.lower).all() and np.isfinite(self.upper).all()
        self.diameter = float(np.linalg.norm(self.upper - self.lower)) if bounded else None
        unit = not self.lower.any() and bool((self.upper == 1).all()) and self.b_ub.size == 0
        if binary_vertices and not unit:
            raise ValueError("binary_vertices needs lower = 0, upper = 1 and no A_ub")
        self.grid = 1.0 if binary_vertices else None

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

    def _fence_free_coordinates(self) -> tuple[FloatArray, FloatArray]:
        """The bounds, with bounds out of P's reach where there are none.

        The simplex method leaves a coordinate that has no bound and no cost at 0, which need not be
        on the boundary of P; one that has bounds it cannot reach must be held by rows.
        """
        lower, upper = self.lower.copy(), self.upper.copy()
        for j in (np.isinf(lower) & np.isinf(upper)).nonzero()[0]:
            cost = np.eye(1, self.size, int(j))[0]
            low, high = (self._program.minimize(sign * cost)[j] for sign in (1.0, -1.0))
            lower[j], upper[j] = low - (1.0 + high - low), high + (1.0 + high - low)
        return lower, upper

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """A vertex of least cost."""
        return self._polished(self._program.minimize(gradient))

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> FloatArray:
        """The same with every constraint that is tight at x turned into an equality."""
        slack = self.b_ub - self.A_ub @ x
        tight = slack <= _ROW_TIGHT * self._scale
        row_lower = self._row_lower.copy()
        row_lower[: tight.size][tight] = self.b_ub[tight]
        lower, upper = self._fences
        lower, upper = (
            np.where(x >= self.upper, self.upper, lower),
            np.where(x <= self.lower, self.lower, upper),
        )
        self._face.set_bounds(lower, upper)
        self._face.set_row_bounds(row_lower, self._row_upper)
        return self._polished(self._face.minimize(gradient))

    def _polished(self, vertex: FloatArray) -> FloatArray:
        self.snap(vertex)
        return vertex

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Ratio test on bounds and rows."""
        step = ratio_test(x, d, self.lower, self.upper)
        growth = self.A_ub @ d
        rounding = np.maximum(100 * (abs(self.A_ub) @ np.abs(d)), self._scale)
        moving = growth > SNAP * rounding
        if moving.any():
            slack = np.maximum(self.b_ub - self.A_ub @ x, 0.0)
            step = min(step, float((slack[moving] / growth[moving]).min()))
        return step

    def snap(self, x: FloatArray) -> None:
        """Put coordinates within rounding of a bound onto it."""
        snap_to_bounds(x, self.lower, self.upper)

    def start(self) -> FloatArray:
        """The first vertex that the simplex method finds."""
        return self._start.copy()

    def contains(self, x: FloatArray, tol: float = 1e-9) -> bool:
        """Whether every constraint holds up to tol, relative to its right-hand side."""
        inside = [self.lower - x, x - self.upper, (self.A_ub @ x - self.b_ub) / self._scale]
        inside.append(np.abs(self.A_eq @ x - self.b_eq) / (1 + np.abs(self.b_eq)))
        return all(bool((violation <= tol).all()) for violation in inside)

    def facial_constant(self, s: int) -> float | None:
        """``H_s = s`` if simplex-like, else unknown."""
        return float(min(s, self.size)) if self.grid is not None else None


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
    rows = sp.csr_array(matrix, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ValueError(f"{name} must have {size} columns, got shape {rows.shape}")
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
