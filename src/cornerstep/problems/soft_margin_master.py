"""The master: the best weights for the hypotheses at hand, by a primal-dual interior point method.

``max over w of  min over d in P_nu of  d'Aw + tau sum_i d_i ln(d_i / p_i)``, which is

``min over d in P_nu and gamma of  gamma + tau sum_i d_i ln(d_i / p_i)   s.t.  (A'd)_j <= gamma``

with w the multipliers: LPBoost's linear program for ``tau = 0``, the entropic one of ERLPBoost for
``tau = 1/eta``.  A Newton step costs one product ``A diag(.) A'`` over the hypotheses; m enters
linearly.

Two things make it quick:

- It stops at a *target gap* ``max_j (A'd)_j - rho(w)``.  A loose solution is worth more than an
  exact one: d is then central in the set of good distributions, and the weak learner's answers cut
  deep.
- Examples whose margin is far from the threshold between worst and harmless keep ``d_i`` at its cap
  or at 0: the program is solved over the others.  What comes out is judged on all examples; if it
  does not hold there, more examples come in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cornerstep.problems.soft_margin import SoftMargin
from cornerstep.vectors import FloatArray, IntArray

_MAX_ITER = 60
_MAX_WARM = 15  # from a good start; if that does not do, from scratch
_SLACK = 0.3
_SPREAD = 0.1  # of the weights, over all hypotheses at a good start
_SINGLE = 1e-4  # above this target gap single precision is enough for the Newton steps
# share of the largest Newton weight below which an example is left out of A D A'
_NEGLIGIBLE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}
_BACK_OFF = 0.99  # of the way to the boundary


class MasterSolution(NamedTuple):
    """Weights and distribution with ``rho(w) <= optimum over the hypotheses <= max edge(d)``."""

    weights: FloatArray
    image: FloatArray  # A w
    soft_margin: float
    distribution: FloatArray
    edge: float
    edges: FloatArray  # A'd


class Start(NamedTuple):
    """Weights of the last solution, 0 for hypotheses that came since; the gap they seem to have."""

    weights: FloatArray
    gap: float


class Master:
    """Solves the master again and again as hypotheses come and go.

    Parameters
    ----------
    problem : SoftMargin
    entropic : bool, default=False
        ``tau = 1/eta`` instead of 0.
    """

    def __init__(self, problem: SoftMargin, entropic: bool = False) -> None:
        self.problem = problem
        self.tau = 1.0 / problem.eta if entropic else 0.0
        self.iterations = 0
        self._band = 1.0  # examples let in, in multiples of those with d strictly inside
        self._last: MasterSolution | None = None

    def solve(
        self, margins: FloatArray, target: float, start: Start | None = None
    ) -> MasterSolution:
        """Weights for the rows of ``margins`` with a gap of at most ``target``, if numbers allow.

        With entropy the target is one of the smoothed program.
        """
        problem = self.problem
        dtype = np.float32 if target > _SINGLE else np.float64
        best = _Incumbent(problem, margins, self.tau)
        if problem.ratio <= 1 + 1e-12 or len(margins) == 1:  # one distribution, or one weight
            best.offer(None, np.ones(len(margins)) / len(margins))
            edges = best.edges
            best.offer(None, (edges == edges.max()).astype(np.float64))
            return best.solution()
        rows = self._undecided()
        while True:
            part = _Restriction(problem, margins, rows, self._last, dtype)
            if part.caps.sum() <= part.mass * (1 + 1e-9):  # no interior
                rows = None
                continue
            solved = self._interior_point(part, best, target, start)
            if rows is None or best.gap <= target:
                break
            self._band *= 1.5
            rows = best.violated(rows) if solved else None
        best.prune(target)
        self._last = best.solution()
        return self._last

    def _undecided(self) -> IntArray | None:
        """The examples whose d may change, by the last solution; None: all of them."""
        if self._last is None:
            return None
        d, caps, z = self._last.distribution, self.problem.caps, self._last.image
        inside = (d > 0.01 * caps) & (d < 0.99 * caps)
        wanted = int(self._band * max(int(inside.sum()), 30))
        if wanted > 0.6 * d.size:
            return None
        distance = abs(z - _threshold(self.problem, z))
        near = distance <= np.partition(distance, wanted)[wanted]
        return np.flatnonzero(near | inside)

    def _interior_point(
        self, part: _Restriction, best: _Incumbent, target: float, start: Start | None
    ) -> bool:
        """Newton steps until the gap of the restricted program is within the target."""
        if start is not None and not self.tau:
            state = _State.near(part, start)
            if self._follow(state, part, best, target, _MAX_WARM):
                return True
        return self._follow(_State.start(part), part, best, target, _MAX_ITER)

    def _follow(
        self, state: _State, part: _Restriction, best: _Incumbent, target: float, max_iter: int
    ) -> bool:
        for _ in range(max_iter):
            self.iterations += 1
            if part.gap(state, self.tau) <= target:
                best.offer(part.whole(state.d), state.w)
                if part.rows is not None or best.gap <= target:
                    return True
            try:
                if not state.step(part, self.tau):
                    break
            except LinAlgError:
                break
        best.offer(part.whole(state.d), state.w)
        return False


def _threshold(problem: SoftMargin, z: FloatArray) -> float:
    """The margin that parts the worst examples, which share ``nu``, from the harmless ones."""
    order = np.argsort(z)
    k = int(np.searchsorted(np.cumsum(problem.caps[order]), 1.0 - 1e-12))
    return float(z[order[min(k, z.size - 1)]])


class _Incumbent:
    """The best weights and the best distribution seen, judged on all examples."""

    def __init__(self, problem: SoftMargin, margins: FloatArray, tau: float) -> None:
        self.problem, self.margins, self.tau = problem, margins, tau
        self.value = -math.inf  # rho, or g with entropy
        self.edge = math.inf
        self.upper = math.inf
        self.weights = self.image = self.distribution = self.edges = np.empty(0)

    @property
    def gap(self) -> float:
        """What is left between them."""
        return self.upper - self.value

    def offer(self, distribution: FloatArray | None, weights: FloatArray) -> None:
        """Take weights and distribution if they are better than those known."""
        weights = np.maximum(weights, 0.0)
        weights = weights / weights.sum()
        image = self._combine(weights)
        natural = None
        if self.tau:
            value, natural = self.problem.smoothed(image)
        else:
            value = self.problem.value(image)
            if distribution is None:
                natural = self.problem.worst(image)
        if value > self.value:
            self.value, self.weights, self.image = value, weights, image
        if distribution is not None:
            self._bound_by(self.problem.admissible(distribution))
        if natural is not None:
            self._bound_by(natural)

    def _bound_by(self, d: FloatArray) -> None:
        edges = (self.margins @ d.astype(self.margins.dtype)).astype(np.float64)
        upper = edge = float(edges.max())
        if self.tau:
            positive = d > 0
            upper += self.tau * float(
                d[positive] @ np.log(d[positive] / self.problem.prior[positive])
            )
        if upper < self.upper:
            self.upper, self.edge, self.distribution, self.edges = upper, edge, d, edges

    def _combine(self, weights: FloatArray) -> FloatArray:
        return (weights.astype(self.margins.dtype) @ self.margins).astype(np.float64)

    def violated(self, rows: IntArray) -> IntArray | None:
        """``rows`` and the examples outside that are on the wrong side of the threshold by now."""
        z, d = self.image, self.distribution
        threshold = _threshold(self.problem, z)
        slack = 1e-2 * float(np.ptp(z))
        outside = np.ones(z.size, dtype=bool)
        outside[rows] = False
        capped = d > 0.5 * self.problem.caps
        wrong = outside & np.where(capped, z >= threshold - slack, z <= threshold + slack)
        if not wrong.any() or rows.size > 0.6 * z.size:
            return None
        return np.union1d(rows, np.flatnonzero(wrong))

    def prune(self, target: float) -> None:
        """Take weights off hypotheses whose edge is far from the largest, unless that costs much.

        Interior points give every hypothesis some weight.
        """
        kept = np.where(self.edges >= self.edge - 2.0 * target, self.weights, 0.0)
        if kept.all() or not kept.sum() > 0:
            return
        kept /= kept.sum()
        image = self._combine(kept)
        value = self.problem.smoothed(image)[0] if self.tau else self.problem.value(image)
        if value >= self.value - 0.1 * target:
            self.value, self.weights, self.image = value, kept, image

    def solution(self) -> MasterSolution:
        return MasterSolution(
            self.weights, self.image, self.problem.value(self.image), self.distribution,
            self.edge, self.edges,
        )  # fmt: skip


class _Restriction:
    """The program over the examples ``rows``; the others keep d at its cap or at 0."""

    def __init__(
        self,
        problem: SoftMargin,
        margins: FloatArray,
        rows: IntArray | None,
        last: MasterSolution | None,
        dtype: Any,
    ) -> None:
        self.problem, self.rows = problem, rows
        self.mass, self.caps, self.prior = 1.0, problem.caps, problem.prior
        self.fixed_edges = np.zeros(len(margins))
        self._rest = np.empty(0)
        if rows is not None:
            assert last is not None
            capped = last.image < _threshold(problem, last.image)
            capped[rows] = False
            self._rest = np.where(capped, problem.caps, 0.0)
            self.fixed_edges = margins @ self._rest.astype(margins.dtype)
            self.mass = 1.0 - float(self._rest.sum())
            self.caps, self.prior = self.caps[rows], self.prior[rows]
            margins = margins[:, rows]
        self.matrix = margins.astype(dtype, copy=False)

    def whole(self, d: FloatArray) -> FloatArray:
        """D over all examples."""
        if self.rows is None:
            return d
        d_all = self._rest.copy()
        d_all[self.rows] = d
        return d_all

    def edges(self, v: FloatArray) -> FloatArray:
        """``A v`` for v over the examples."""
        return (self.matrix @ v.astype(self.matrix.dtype)).astype(np.float64)

    def combine(self, v: FloatArray) -> FloatArray:
        """``A'v`` for v over the hypotheses."""
        return (v.astype(self.matrix.dtype) @ self.matrix).astype(np.float64)

    def gap(self, state: _State, tau: float) -> float:
        """The duality gap at a state, as far as these examples tell."""
        scale = state.w.sum()
        z = state.z / scale
        lower = float(state.w @ self.fixed_edges) / scale
        upper = float(state.edges.max())
        if tau:
            upper += tau * float(state.d @ np.log(state.d / self.prior))
            lower += self._smoothed(z, tau)
        else:
            order = np.argsort(z)
            taken = np.minimum(np.cumsum(self.caps[order]), self.mass)
            lower += float(np.diff(taken, prepend=0.0) @ z[order])
        return upper - lower

    def _smoothed(self, z: FloatArray, tau: float) -> float:
        """``min d'z + tau sum d ln(d/p)`` over these examples' part of P_nu."""
        share = float(self.prior.sum())
        ratio = self.problem.ratio * share / self.mass
        if ratio <= 1:
            d = self.caps
            return float(d @ z) + tau * self.mass * math.log(self.problem.ratio)
        part = SoftMargin(self.prior / share, 1.0 / ratio, self.problem.eps)
        value, _ = part.smoothed(z, 1.0 / tau)
        return self.mass * (value + tau * math.log(self.mass / share))


@dataclass
class _State:
    """A strictly interior point: d, w, the slacks of the edges, the multipliers of the bounds."""

    d: FloatArray
    w: FloatArray
    slack: FloatArray
    gamma: float
    at_zero: FloatArray
    at_cap: FloatArray
    level: float
    z: FloatArray
    edges: FloatArray

    @classmethod
    def start(cls, part: _Restriction) -> _State:
        """Equal weights, and d in proportion to the caps."""
        k = len(part.matrix)
        d = part.caps * (part.mass / part.caps.sum())
        w = np.full(k, 1.0 / k)
        z, edges = part.combine(w), part.edges(d) + part.fixed_edges
        mu = 0.05 / d.size
        gamma = float(edges.max()) + max(mu * k, 1e-4)
        room = part.caps - d
        return cls(d, w, gamma - edges, gamma, mu / d, mu / room, float(np.median(z)), z, edges)

    @classmethod
    def near(cls, part: _Restriction, start: Start) -> _State:
        """The given weights, spread a little, and the point of the central path for d there.

        ``z_i - level = mu/d_i - mu/(c_i - d_i)``, with the level that makes d sum up.
        """
        k, n = part.matrix.shape
        w = (1.0 - _SPREAD) * start.weights / start.weights.sum() + _SPREAD / k
        z = part.combine(w)
        mu = start.gap / (2 * n + k)
        low, high = float(z.min()) - 1.0, float(z.max()) + 1.0
        share = room = np.empty(0)
        for _ in range(40):
            level = 0.5 * (low + high)
            rise = (z - level) * part.caps
            root = np.sqrt(rise * rise + 4.0 * mu * mu) + 2.0 * mu
            share = 2.0 * mu / (root + rise)
            if float(share @ part.caps) > part.mass:
                high = level
            else:
                low = level
        room = 2.0 * mu / (root - rise)
        d = share * part.caps
        edges = part.edges(d) + part.fixed_edges
        gamma = float(edges.max()) + _SLACK * start.gap
        at_cap = mu / (room * part.caps)
        return cls(d, w, gamma - edges, gamma, mu / d, at_cap, level, z, edges)

    def step(self, part: _Restriction, tau: float) -> bool:
        """One predictor-corrector step; False if there is no way on."""
        d, w, s, zl, zu = self.d, self.w, self.slack, self.at_zero, self.at_cap
        room = part.caps - d
        entropy = tau * (np.log(d / part.prior) + 1.0) if tau else 0.0
        dual_error = self.level - self.z - zu + zl - entropy
        weight_error = 1.0 - w.sum()
        edge_error = self.gamma - self.edges - s
        mass_error = part.mass - d.sum()

        inverse = 1.0 / ((tau + zl) / d + zu / room)
        factor = cho_factor(
            _newton_matrix(part.matrix, inverse, s / w), lower=True, check_finite=False
        )
        column = part.edges(inverse)
        sums = cho_solve(factor, np.column_stack([column, np.ones(w.size)]), check_finite=False)
        total = float(inverse.sum())
        small = np.array(
            [[total - column @ sums[:, 0], column @ sums[:, 1]],
             [sums[:, 0].sum(), -sums[:, 1].sum()]]
        )  # fmt: skip

        def direction(to_zero: FloatArray, to_cap: FloatArray, to_slack: FloatArray) -> _Change:
            """Newton's direction for these right-hand sides of the complementarity conditions."""
            q = dual_error + to_zero / d - to_cap / room
            right = part.edges(inverse * q) - edge_error + to_slack / w
            first = cho_solve(factor, right, check_finite=False)
            level, gamma = np.linalg.solve(
                small, [mass_error - inverse @ q + column @ first, weight_error - first.sum()]
            )
            dw = first + sums[:, 0] * level - sums[:, 1] * gamma
            dd = inverse * (q - part.combine(dw) + level)
            return _Change(
                dd, dw, (to_slack - s * dw) / w, (to_zero - zl * dd) / d,
                (to_cap + zu * dd) / room, float(level), float(gamma),
            )  # fmt: skip

        count = 2 * d.size + w.size
        mu = float(d @ zl + room @ zu + s @ w) / count
        guess = direction(-d * zl, -room * zu, -s * w)
        primal, dual = self._largest(guess, room, tau)
        ahead = float(
            (d + primal * guess.d) @ (zl + dual * guess.at_zero)
            + (room - primal * guess.d) @ (zu + dual * guess.at_cap)
            + (s + primal * guess.slack) @ (w + dual * guess.w)
        )
        centre = mu * (ahead / count / mu) ** 3
        change = direction(
            centre - d * zl - guess.d * guess.at_zero,
            centre - room * zu + guess.d * guess.at_cap,
            centre - s * w - guess.slack * guess.w,
        )
        primal, dual = (min(1.0, _BACK_OFF * size) for size in self._largest(change, room, tau))
        if not (math.isfinite(primal + dual) and max(primal, dual) > 1e-8):
            return False
        self.d = d + primal * change.d
        self.slack = s + primal * change.slack
        self.gamma += primal * change.gamma
        self.w = w + dual * change.w
        self.at_zero = zl + dual * change.at_zero
        self.at_cap = zu + dual * change.at_cap
        self.level += dual * change.level
        if not ((self.d < part.caps).all() and self.d.min() > 0 and self.w.min() > 0):
            return False
        self.z, self.edges = part.combine(self.w), part.edges(self.d) + part.fixed_edges
        return True

    def _largest(self, change: _Change, room: FloatArray, tau: float) -> tuple[float, float]:
        """Steps to the boundary for d and for the multipliers; one for both with entropy."""
        primal = _reach((self.d, -change.d), (room, change.d), (self.slack, -change.slack))
        dual = _reach(
            (self.w, -change.w), (self.at_zero, -change.at_zero), (self.at_cap, -change.at_cap)
        )
        return (min(primal, dual),) * 2 if tau else (primal, dual)


class _Change(NamedTuple):
    d: FloatArray
    w: FloatArray
    slack: FloatArray
    at_zero: FloatArray
    at_cap: FloatArray
    level: float
    gamma: float


def _reach(*pairs: tuple[FloatArray, FloatArray]) -> float:
    """The largest step up to 1 that keeps ``value - step * fall`` >= 0."""
    return 1.0 / max(1.0, *(float((fall / value).max()) for value, fall in pairs))


def _newton_matrix(matrix: Any, inverse: FloatArray, diagonal: FloatArray) -> FloatArray:
    """``A diag(inverse) A' + diag(diagonal)``, examples of negligible weight left out."""
    kept = np.flatnonzero(inverse > _NEGLIGIBLE[matrix.dtype] * inverse.max())
    if kept.size < 0.7 * inverse.size:
        matrix, inverse = matrix[:, kept], inverse[kept]
    scaled = matrix * np.sqrt(inverse).astype(matrix.dtype)
    product = (scaled @ scaled.T).astype(np.float64)
    product[np.diag_indices(len(product))] += diagonal
    return product


Secondary = Callable[[FloatArray, SoftMargin], FloatArray]
