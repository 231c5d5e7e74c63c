"""The simplex, and the capped simplex: P_k, Q_k and ``{0 <= d <= 1/nu, sum d = 1}``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cornerstep.core.matrix import as_vector
from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector, single_entries
from cornerstep.domains.atoms import combination
from cornerstep.domains.base import (
    INSIDE,
    SNAP,
    TIGHT,
    Constraints,
    ratio_test,
    reach_of_nonnegative,
    require_positive,
    require_size,
    restore_sum,
    slip_of_sum,
    snap_to_bounds,
    sum_step,
    within_bounds,
)
from cornerstep.domains.facial import capped_constant
from cornerstep.domains.selection import dearest, fill_smallest_first, smallest


class Simplex:
    r"""The simplex, :math:`\{x \ge 0,\ \sum_i x_i = r\}`, with vertices :math:`r e_i`.

    Parameters
    ----------
    n : int
        Number of coordinates.
    radius : float, default=1
        What the coordinates sum to.
    """

    def __init__(self, n: int, radius: float = 1.0) -> None:
        self.size = require_size(n)
        self.radius = require_positive(radius, "radius")
        self.n_atoms = self.size
        self.diameter = self.radius * np.sqrt(2.0) if self.size > 1 else 0.0
        self.grid = self.radius

    def __repr__(self) -> str:
        return f"Simplex({self.size}, radius={self.radius:g})"

    @property
    def constraints(self) -> Constraints:
        """``x >= 0``, and the sum."""
        n, total = self.size, np.array([self.radius])
        return Constraints(np.zeros(n), np.full(n, np.inf), np.ones((1, n)), total, total)

    def atom(self, i: int) -> SparseVector:
        """``radius * e_i``."""
        return SparseVector([i], [self.radius], self.size)

    def atom_scores(self, indices: IntArray, gradient: FloatArray) -> FloatArray:
        """``<gradient, atom(i)>`` for each i in indices."""
        return self.radius * gradient[indices]

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """The coordinate with the smallest gradient."""
        return self.atom(int(gradient.argmin()))

    def lmo_many(self, gradient: FloatArray, count: int) -> list[SparseVector]:
        """Vertices of the smallest gradients, the least first."""
        chosen = smallest(gradient, count)
        return single_entries(chosen, np.full(chosen.size, self.radius), self.size)

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> SparseVector:
        """The coordinate of the support of x with the smallest gradient."""
        support = x.nonzero()[0]
        return self.atom(int(support[gradient[support].argmin()]))

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until a coordinate reaches 0."""
        falling = (d < 0).nonzero()[0]
        if falling.size == 0:
            return np.inf
        if falling.size == 1:  # a pairwise step: one coordinate falls
            (i,) = falling
            return max(0.0, x.item(i) / -d.item(i))
        return max(0.0, float((x[falling] / -d[falling]).min()))

    def snap(self, x: FloatArray) -> None:
        """Zero what is zero to rounding; the largest coordinate takes up the difference."""
        x[x <= SNAP * self.radius] = 0.0
        x[x.argmax()] += self.radius - x.sum()

    def start(self) -> SparseVector:
        """The first vertex."""
        return self.atom(0)

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether x >= 0 and sums to radius, up to tol * radius."""
        slack = tol * self.radius
        return bool(x.min() >= -slack and abs(x.sum() - self.radius) <= slack)

    def slip(self, x: FloatArray) -> FloatArray:
        """What the sum is off by, in the shares of the entries."""
        return slip_of_sum(x, np.inf, self.radius)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, x> + radius * max weights``."""
        return reach_of_nonnegative(self, weights, x)

    def project(self, y: FloatArray) -> FloatArray:
        """The nearest point: ``max(y - tau, 0)`` with the tau that makes it sum to radius."""
        y = y - y.max()  # the same point; what is left of y has the size of the answer
        ordered = np.sort(y)[::-1]
        excess = (ordered.cumsum() - self.radius) / np.arange(1, self.size + 1)
        tau = excess[np.flatnonzero(ordered > excess)[-1]]
        return np.maximum(y - tau, 0.0)

    def project_entropy(self, log_weights: FloatArray) -> FloatArray:
        """``radius * softmax(log_weights)``."""
        weights = np.exp(log_weights - log_weights.max())
        return weights * (self.radius / weights.sum())

    def facial_constant(self, s: int) -> float:
        """``H_s = s / radius²``."""
        return min(s, self.size) / self.radius / self.radius


class CappedSimplex:
    r"""The box of nonnegative vectors below a cap with a given sum, or at most that sum.

    :math:`\{0 \le x \le \text{cap},\ \sum_i x_i = \text{total}\}`, or :math:`\le` with ``at_most``.
    P_k and Q_k of the theory are ``CappedSimplex(n, k)`` and ``CappedSimplex(n, k, at_most=True)``;
    the soft-margin distributions are ``CappedSimplex(n, 1, cap=1/nu)``.

    Parameters
    ----------
    n : int
        Number of coordinates.
    total : float
        What the coordinates sum to; any real number in (0, sum of caps].
    cap : float or array of shape (n,), default=1
        Upper bound of each coordinate; one above ``total`` is no bound, and kept as ``total``.
    at_most : bool, default=False
        Whether ``total`` is only an upper bound of the sum.
    """

    def __init__(self, n: int, total: float, cap: Any = 1.0, at_most: bool = False) -> None:
        self.size = require_size(n)
        self.total = require_positive(total, "total")
        self.at_most = bool(at_most)
        if np.ndim(cap) == 0:
            self.cap: float | FloatArray = min(require_positive(cap, "cap"), self.total)
            sum_of_caps, largest = self.size * self.cap, self.cap
        else:
            caps = as_vector(cap, "cap", self.size)
            if caps.min() < 0:
                raise ValueError(f"cap must not be negative, got {caps.min():g}")
            self.cap = np.minimum(caps, self.total)
            sum_of_caps, largest = float(self.cap.sum()), float(self.cap.max())
        if not at_most and self.total > sum_of_caps * (1 + TIGHT):
            raise ValueError(
                f"total must be at most the sum of the caps, {sum_of_caps:g}, got {self.total:g}: "
                "the domain would be empty"
            )
        # |u - v|² <= cap |u - v|_1, with equality at vertices that take whole caps.
        spread = sum_of_caps if at_most else 2 * (sum_of_caps - self.total)
        self.diameter = float(np.sqrt(largest) * np.sqrt(max(0.0, min(2 * self.total, spread))))
        self.grid = self._grid()
        self._rounding = SNAP * self.total  # what a sum of coordinates may be off by

    def __repr__(self) -> str:
        cap = f"{self.cap:g}" if isinstance(self.cap, float) else "[...]"
        return f"CappedSimplex({self.size}, {self.total:g}, cap={cap}, at_most={self.at_most})"

    def _grid(self) -> float | None:
        """The common cap if every vertex has entries 0 or cap and the sum is an equality."""
        if self.at_most or not isinstance(self.cap, float):
            return None
        count = self.total / self.cap
        return self.cap if abs(count - round(count)) <= TIGHT * count else None

    @property
    def constraints(self) -> Constraints:
        """0 and the caps below total, and the sum."""
        n, total = self.size, np.array([self.total])
        caps = np.broadcast_to(np.asarray(self.cap), n)
        least = np.array([-np.inf]) if self.at_most else total
        upper = np.where(caps < self.total, caps, np.inf)
        return Constraints(np.zeros(n), upper, np.ones((1, n)), least, total)

    def _whole_and_rest(self) -> tuple[int, float]:
        """How many caps make the total, and what is left of it (0 if that is rounding)."""
        assert isinstance(self.cap, float)
        whole = int(self.total / self.cap + TIGHT)
        rest = self.total - whole * self.cap
        return whole, rest if rest > TIGHT * self.total and whole < self.size else 0.0

    @property
    def n_atoms(self) -> int:
        """How many vertices there are; of different caps nobody knows."""
        whole, rest = self._whole_and_rest()
        tight = math.comb(self.size, whole) * (self.size - whole if rest else 1)
        if not self.at_most:
            return tight
        return tight + sum(math.comb(self.size, j) for j in range(whole + bool(rest)))

    def atom(self, i: int) -> SparseVector:
        """The i-th vertex: those whose sum is tight first, then by the number of caps."""
        n, i = self.size, int(i)
        whole, rest = self._whole_and_rest()
        others = n - whole if rest else 1
        if i < math.comb(n, whole) * others:
            chosen = combination(i // others, n, whole)
            if not rest:
                return SparseVector(chosen, np.full(whole, self.cap), n)
            last = np.delete(np.arange(n), chosen)[i % others]
            values = np.append(np.full(whole, self.cap), rest)
            return SparseVector(np.append(chosen, last), values, n)
        i -= math.comb(n, whole) * others
        count = 0
        while i >= math.comb(n, count):
            i -= math.comb(n, count)
            count += 1
        return SparseVector(combination(i, n, count), np.full(count, self.cap), n)

    @property
    def atom_scores(self) -> Any:
        """``<gradient, atom(i)>`` for each i in indices, as a function of both.

        None where the caps differ: nobody counts the vertices.
        """
        return self._atom_scores if isinstance(self.cap, float) else None

    def _atom_scores(self, indices: Any, gradient: FloatArray) -> FloatArray:
        return np.array([self.atom(i) @ gradient for i in indices])

    def _caps(self, indices: IntArray) -> float | FloatArray:
        return self.cap if isinstance(self.cap, float) else self.cap[indices]

    def _sum_of_caps(self, indices: IntArray) -> float:
        if isinstance(self.cap, float):
            return self.cap * indices.size
        return float(self.cap[indices].sum())

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """Caps on the smallest gradients (the negative ones, with at_most) until total is spent."""
        if self.at_most:
            worthwhile = (gradient < 0).nonzero()[0]
            caps = self._caps(worthwhile)
            chosen, amounts = fill_smallest_first(
                gradient[worthwhile], caps, self.total, self._rounding
            )
            return SparseVector(worthwhile[chosen], amounts, self.size)
        chosen, amounts = fill_smallest_first(gradient, self.cap, self.total, self._rounding)
        return SparseVector(chosen, amounts, self.size)

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> SparseVector:
        """The same among vertices that keep entries at 0 out and entries at their cap in."""
        full = (x >= self.cap).nonzero()[0]
        free = ((x > 0) & (x < self.cap)).nonzero()[0]
        left = max(self.total - self._sum_of_caps(full), 0.0)
        if self.at_most and not self._sum_is_tight(x):
            free = free[gradient[free] < 0]
        chosen, amounts = fill_smallest_first(
            gradient.take(free), self._caps(free), left, self._rounding
        )
        values = np.empty(full.size + chosen.size)
        values[: full.size] = self._caps(full)
        values[full.size :] = amounts
        return SparseVector(np.concatenate((full, free[chosen])), values, self.size)

    def _sum_is_tight(self, x: FloatArray) -> bool:
        return bool(x.sum() >= self.total * (1 - TIGHT))

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until a coordinate reaches 0 or its cap, or the sum leaves total."""
        step = ratio_test(x, d, 0.0, self.cap)
        growth = float(d.sum())
        if growth == 0 or (self.at_most and growth < 0):
            return step
        missing = self.total - float(x.sum())
        if self.at_most and growth > max(TIGHT * float(np.abs(d).sum()), self._rounding):
            return min(step, max(0.0, missing / growth))
        if self.at_most:  # the sum grows by rounding only
            return sum_step(step, 0.0, growth, self._rounding + missing)
        return sum_step(step, missing, growth, self._rounding)

    def snap(self, x: FloatArray) -> None:
        """Put coordinates within rounding of 0 or their cap onto it; restore the sum."""
        snap_to_bounds(x, 0.0, self.cap)
        excess = float(x.sum()) - self.total
        if excess > 0 or not self.at_most:
            restore_sum(x, excess, 1.0, self.cap, self.total)

    def start(self) -> SparseVector:
        """The vertex that fills the first coordinates."""
        return self.lmo(np.arange(-self.size, 0, dtype=np.float64))

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether all constraints hold up to tol, relative to each cap and to total."""
        excess = float(x.sum()) - self.total
        sums = (excess if self.at_most else abs(excess)) <= tol * self.total
        return bool(sums) and within_bounds(x, 0.0, self.cap, tol)

    def slip(self, x: FloatArray) -> FloatArray:
        """What the sum is off by, where there is room for it."""
        return slip_of_sum(x, self.cap, self.total, self.at_most)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, x> + max <weights, v>``."""
        return reach_of_nonnegative(self, weights, x)

    def lmo_error(self, gradient: FloatArray, vertex: SparseVector) -> float:
        """Where the sum of a vertex is rounded, some gradient is multiplied by the difference."""
        return dearest(np.abs(gradient), self.cap, (gamma(self.size) + SNAP) * self.total)

    def project(self, y: FloatArray) -> FloatArray:
        """The nearest point: ``clip(y - tau, 0, cap)`` with the tau that makes the sum right."""
        clipped = np.clip(y, 0.0, self.cap)
        if self.at_most and clipped.sum() <= self.total:
            return clipped
        # After a shift: tau is as exact as y, which may be far larger than the caps.
        y = y - self._breaks_around_total(y)[1]
        ends = self._breaks_around_total(y)
        sums = [float(np.clip(y - tau, 0.0, self.cap).sum()) for tau in ends]
        tau = np.interp(-self.total, [-sums[0], -sums[1]], ends)
        out = np.clip(y - tau, 0.0, self.cap)
        self.snap(out)
        return out

    def _breaks_around_total(self, y: FloatArray) -> FloatArray:
        """The two neighbouring breaks between which ``clip(y - tau, 0, cap)`` sums to total.

        The sum is piecewise linear and decreasing in tau, with breaks at ``y - cap`` and ``y``.
        """
        breaks = np.sort(np.concatenate([y - self.cap, y]))
        low, high = 0, breaks.size - 1
        while high - low > 1:
            middle = (low + high) // 2
            if np.clip(y - breaks[middle], 0.0, self.cap).sum() >= self.total:
                low = middle
            else:
                high = middle
        return breaks[[low, high]]

    def facial_constant(self, s: int) -> float | None:
        """``s / cap²`` for the equality with whole caps, ``n + 3s - 3`` for Q_k.

        Else by enumeration, or None where vertices are too many to list.
        """
        s = min(s, self.size)
        if self.grid is not None:
            return s / self.grid / self.grid
        whole = self.total == int(self.total) and isinstance(self.cap, float) and self.cap == 1.0
        if self.at_most and whole:
            return float(self.size + 3 * s - 3)
        caps = np.broadcast_to(np.asarray(self.cap), self.size)
        return capped_constant(caps, np.ones(self.size), self.total, s, self.at_most)
