"""Balanced boxes: the polytope of the dual of an SVM with bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.matrix import as_vector
from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector
from cornerstep.domains.base import (
    INSIDE,
    SNAP,
    Constraints,
    ratio_test,
    reach_of_nonnegative,
    require_positive,
    restore_sum,
    snap_to_bounds,
    sum_step,
    within_bounds,
)
from cornerstep.domains.facial import capped_constant
from cornerstep.domains.selection import dearest, fill_smallest_first


class BalancedBox:
    r"""The box whose positive and negative coordinates balance.

    :math:`\{0 \le x \le \text{cap},\ \langle s, x \rangle = 0\}` with signs s of +1 and -1.  The
    oracle takes pairs of a positive and a negative coordinate, each class sorted upwards by the
    gradient, while the sum of the two gradients is negative.

    Parameters
    ----------
    signs : array of shape (n,)
        +1 and -1, both of them.
    cap : float or array of shape (n,), default=1
        Upper bound of each coordinate; one above the sum of the caps of the other sign is no bound,
        and kept as that sum.
    """

    def __init__(self, signs: Any, cap: Any = 1.0) -> None:
        self.signs = as_vector(signs, "signs")
        if not (np.abs(self.signs) == 1).all() or np.ptp(self.signs) == 0:
            raise ValueError("signs must be +1 and -1, both of them")
        self.size = self.signs.size
        self.positive = self.signs > 0
        if np.ndim(cap) == 0:
            self.cap: float | FloatArray = require_positive(cap, "cap")
            self._caps = np.full(self.size, self.cap)
        else:
            caps = as_vector(cap, "cap", self.size)
            if caps.min() < 0:
                raise ValueError(f"cap must not be negative, got {caps.min():g}")
            others = np.where(self.positive, caps[~self.positive].sum(), caps[self.positive].sum())
            self.cap = self._caps = np.minimum(caps, others)
        sums = self._caps[self.positive].sum(), self._caps[~self.positive].sum()
        self.total = float(min(sums))  # the most that each sign can have
        self._rounding = SNAP * float(max(sums))  # what a sum of coordinates may be off by
        # Vertices differ by at most the whole of the smaller class and as much of the other.
        self.diameter = float(np.sqrt(self._caps.max()) * np.sqrt(2 * self.total))
        self.grid = self.cap if isinstance(self.cap, float) else None

    def __repr__(self) -> str:
        return f"BalancedBox(size={self.size})"

    @property
    def constraints(self) -> Constraints:
        """0 and the caps, and the balance."""
        zero = np.zeros(1)
        return Constraints(np.zeros(self.size), self._caps, self.signs[None, :], zero, zero)

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """Whole caps on the pairs with the smallest gradients, as long as they are negative."""
        chosen, amounts = self._pairs(gradient, np.arange(self.size), 0.0)
        return SparseVector(chosen, amounts, self.size)

    def _pairs(self, gradient: FloatArray, free: Any, surplus: float) -> tuple[Any, FloatArray]:
        """``min <gradient, v>`` over the coordinates ``free`` with ``surplus + <signs, v> = 0``.

        With ``z = v`` for positives and ``z = cap - v`` for negatives this spends the total
        ``sum of the negatives' caps - surplus`` on the smallest ``signs * gradient``.
        """
        caps, positive = self._caps[free], self.positive[free]
        total = float(caps[~positive].sum()) - surplus
        keys = self.signs[free] * gradient[free]
        common = self.cap if isinstance(self.cap, float) else caps
        taken, amounts = fill_smallest_first(keys, common, total, self._rounding)
        z = np.zeros(free.size)
        z[taken] = amounts
        v = np.where(positive, z, caps - z)
        used = v.nonzero()[0]
        return free[used], v[used]

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> SparseVector:
        """The same among vertices that keep entries at 0 out and entries at their cap in."""
        at_cap = (x >= self.cap) & (self._caps > 0)
        full = at_cap.nonzero()[0]
        free = ((x > 0) & ~at_cap).nonzero()[0]
        surplus = float(self.signs[full] @ self._caps[full])
        chosen, amounts = self._pairs(gradient, free, surplus)
        return SparseVector(
            np.concatenate([full, chosen]),
            np.concatenate([self._caps[full], amounts]),
            self.size,
        )

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until a coordinate reaches 0 or its cap, or the two sums differ."""
        step = ratio_test(x, d, 0.0, self.cap)
        growth = float(self.signs @ d)
        return sum_step(step, float(self.signs @ x), growth, SNAP * self.total) if growth else step

    def snap(self, x: FloatArray) -> None:
        """Put coordinates within rounding of 0 or their cap onto it; restore the balance."""
        snap_to_bounds(x, 0.0, self.cap)
        restore_sum(x, float(self.signs @ x), self.signs, self.cap, self.total)

    def start(self) -> SparseVector:
        """Zero."""
        return SparseVector([], [], self.size)

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether all constraints hold up to tol, relative to each cap and to the largest sum."""
        balanced = abs(float(self.signs @ x)) <= tol * self.total
        return balanced and within_bounds(x, 0.0, self.cap, tol)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, x> + max <weights, v>``."""
        return reach_of_nonnegative(self, weights, x)

    def lmo_error(self, gradient: FloatArray, vertex: SparseVector) -> float:
        """Where the sums of a vertex are rounded, some gradient is multiplied by the difference."""
        lost = gamma(self.size) * self.total + 2 * self._rounding
        return dearest(np.abs(gradient), self.cap, lost)

    def facial_constant(self, s: int) -> float | None:
        """``s / cap²`` where all caps are equal, else by enumeration, or None if that is long."""
        if self.grid is not None:
            return min(s, self.size) / self.grid / self.grid
        return capped_constant(self._caps, self.signs, 0.0, s, at_most=False)
