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

import numpy as np
from scipy.linalg import LinAlgError

from cornerstep.boosting.long_work import SearchExpiredError, never
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.interior import (
    MasterSolution,
    Restriction,
    Start,
    State,
    threshold,
)
from cornerstep.boosting.solvers.smoothed import solve_smoothed
from cornerstep.core.types import FloatArray, IntArray

_MAX_ITER = 60
_MAX_WARM = 15  # from a good start; if that does not do, from scratch
_SINGLE = 1e-4  # above this target gap single precision is enough for the Newton steps


class Master:
    """Solves the master again and again as hypotheses come and go.

    Parameters
    ----------
    problem : SoftMargin
    entropic : bool, default=False
        ``tau = 1/eta`` instead of 0.
    smooth : bool, default=False
        Whether a start may be followed by :func:`solve_smoothed`; as long as that converges.
    """

    def __init__(self, problem: SoftMargin, entropic: bool = False, smooth: bool = False) -> None:
        self.problem, self.smooth = problem, smooth and not entropic
        self.tau = 1.0 / problem.eta if entropic else 0.0
        self.iterations = 0
        self.expired: Callable[[], bool] = never
        self._band = 1.0  # examples let in, in multiples of those with d strictly inside
        self._last: MasterSolution | None = None

    def solve(
        self, margins: FloatArray, target: float, start: Start | None = None
    ) -> MasterSolution:
        """Weights for the rows of ``margins`` with a gap of at most ``target``, if numbers allow.

        With entropy the target is one of the smoothed program.  When the time is over, the best
        found until then, if anything.
        """
        problem = self.problem
        dtype = np.float32 if target > _SINGLE else np.float64
        best = _Incumbent(problem, margins, self.tau)
        if problem.ratio <= 1 + 1e-12 or len(margins) == 1:  # one distribution, or one weight
            best.offer(None, np.ones(len(margins)) / len(margins))
            edges = best.edges
            best.offer(None, (edges == edges.max()).astype(np.float64))
            return best.solution()
        if self.smooth and start is not None:
            smoothed = solve_smoothed(problem, margins, start.weights, target, self.expired)
            if smoothed is not None:
                self._last = smoothed
                return smoothed
            if self.expired():
                raise SearchExpiredError
            self.smooth = False
        rows = self._undecided()
        while True:
            last = None if self._last is None else self._last.image
            part = Restriction(problem, margins, rows, last, dtype)
            if part.caps.sum() <= part.mass * (1 + 1e-9):  # no interior
                rows = None
                continue
            solved = self._interior_point(part, best, target, start)
            if rows is None or best.gap <= target or self.expired():
                break
            self._band *= 1.5
            rows = best.violated(rows) if solved else None
        if not self.expired():
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
        distance = abs(z - threshold(self.problem, z))
        near = distance <= np.partition(distance, wanted)[wanted]
        return np.flatnonzero(near | inside)

    def _interior_point(
        self, part: Restriction, best: _Incumbent, target: float, start: Start | None
    ) -> bool:
        """Newton steps until the gap of the restricted program is within the target."""
        if start is not None and not self.tau:
            state = State.near(part, start)
            if self._follow(state, part, best, target, _MAX_WARM) or self.expired():
                return True
        return self._follow(State.start(part), part, best, target, _MAX_ITER)

    def _follow(
        self, state: State, part: Restriction, best: _Incumbent, target: float, max_iter: int
    ) -> bool:
        for _ in range(max_iter):
            if self.expired():
                break
            self.iterations += 1
            if part.gap(state, self.tau) <= target:
                best.offer(part.whole(state.d), state.w)
                if part.rows is not None or best.gap <= target:
                    return True
            try:
                if not state.step(part, self.tau, self.expired):
                    break
            except LinAlgError:
                break
        best.offer(part.whole(state.d), state.w)
        return False


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
        level = threshold(self.problem, z)
        slack = 1e-2 * float(np.ptp(z))
        outside = np.ones(z.size, dtype=bool)
        outside[rows] = False
        capped = d > 0.5 * self.problem.caps
        wrong = outside & np.where(capped, z >= level - slack, z <= level + slack)
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
        value = self.problem.value(self.image) if self.tau else self.value
        return MasterSolution(
            self.weights, self.image, value, self.distribution, self.edge, self.edges
        )


Secondary = Callable[[FloatArray, SoftMargin], FloatArray]
