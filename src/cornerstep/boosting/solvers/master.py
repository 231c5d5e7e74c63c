"""The master: the best weights for the hypotheses at hand.

The problem, for the k hypotheses whose margins are the columns of A:

``max over w in the simplex of  min over d in P_nu of  d'Aw + tau sum_i d_i ln(d_i / p_i)``

which is, with w the multipliers of the edges,

``min over d in P_nu and gamma of  gamma + tau sum_i d_i ln(d_i / p_i)   s.t.  (A'd)_j <= gamma``.

It is LPBoost's linear program for ``tau = 0``, the entropic one of ERLPBoost for ``tau = 1/eta``.

The algorithm:

1. One distribution or one hypothesis: nothing to choose.
2. Where a coarse solution is welcome and weights to start from are known, a few Newton steps on a
   smoothing as coarse as the gap (:mod:`~cornerstep.boosting.solvers.smoothed`).  The first time
   that they do not converge, the gap has become too small for them, and this step is left out from
   then on.
3. The interior point method (:mod:`~cornerstep.boosting.solvers.interior`) over the examples near
   the threshold (:mod:`~cornerstep.boosting.solvers.restriction`): from the known weights if there
   are some, from scratch if that does not do.
4. Judge on all examples.  If the gap there is larger than the target, repeat 3 with the examples
   that were left out and turned out to matter; in the end, with all of them.
5. Take the weight off idle hypotheses (:class:`~cornerstep.boosting.solvers.solution.Pruning`).

It stops at a *target gap* ``max_j (A'd)_j - rho(w)``.  A loose solution is worth more than an exact
one: d is then central in the set of good distributions, and the weak learner's answers cut deep.

References
----------
.. [1] A. Demiriz, K. P. Bennett, J. Shawe-Taylor. Linear programming boosting via column
   generation. Machine Learning 46, 2002.
.. [2] M. K. Warmuth, K. A. Glocer, S. V. N. Vishwanathan. Entropy regularized LPBoost. ALT 2008.
.. [3] J. Gondzio, P. Gonzalez-Brevis, P. Munari. New developments in the primal-dual column
   generation technique. European Journal of Operational Research 224, 2013: masters solved
   loosely, by an interior point method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError

from cornerstep.boosting.long_work import SearchExpiredError, never
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.interior import InteriorPoint, InteriorSettings
from cornerstep.boosting.solvers.restriction import Band, BandSettings, Restriction
from cornerstep.boosting.solvers.smoothed import SmoothedSettings, solve_smoothed
from cornerstep.boosting.solvers.solution import (
    MasterSolution,
    Pruning,
    Start,
    edges_of,
    image_of,
)
from cornerstep.core.types import FloatArray


@dataclass(frozen=True)
class MasterSettings:
    """The numbers of the master.

    Attributes
    ----------
    max_iter : int
        Newton steps from a start.  A program that needs more is beyond the numbers, or from known
        weights they lead nowhere, and it starts from scratch.  Without such starts (nu = 0.1 m,
        tol = 0.01) banana takes 3.3 instead of 2.0 CPU seconds, diabetis 0.42 instead of 0.37, and
        sets that are solved in step 2 the same.
    single_precision : float
        In units of margins.  For target gaps above it the Newton steps compute in single precision,
        at half the traffic; below it their rounding would show in the gap.
    interior, smoothed, band, pruning
        The numbers of the parts.
    """

    max_iter: int = 60
    single_precision: float = 1e-4
    interior: InteriorSettings = field(default_factory=InteriorSettings)
    smoothed: SmoothedSettings = field(default_factory=SmoothedSettings)
    band: BandSettings = field(default_factory=BandSettings)
    pruning: Pruning = field(default_factory=Pruning)


class Master:
    """Solves the master again and again as hypotheses come and go.

    Parameters
    ----------
    problem : SoftMargin
    entropic : bool, default=False
        ``tau = 1/eta`` instead of 0.
    smooth : bool, default=False
        Whether a start may be followed by :func:`solve_smoothed`; as long as that converges.
    settings : MasterSettings, optional

    Attributes
    ----------
    iterations : int
        Newton steps of the interior point method so far.
    expired : callable
        Asked on the way: whether the time is over.
    """

    def __init__(
        self,
        problem: SoftMargin,
        entropic: bool = False,
        smooth: bool = False,
        settings: MasterSettings | None = None,
    ) -> None:
        self.problem, self.smooth = problem, smooth and not entropic
        self.settings = settings or MasterSettings()
        self.tau = 1.0 / problem.eta if entropic else 0.0
        self.iterations = 0
        self.expired: Callable[[], bool] = never
        self._band = Band(problem, self.settings.band)
        self._last: MasterSolution | None = None

    def solve(
        self, margins: FloatArray, target: float, start: Start | None = None
    ) -> MasterSolution:
        """Weights for the rows of ``margins`` with a gap of at most ``target``, if numbers allow.

        With entropy the target is one of the smoothed program.  When the time is over, the best
        found until then, or a :class:`SearchExpiredError` if there is none.

        Parameters
        ----------
        margins : array of shape (k, m)
            A row per hypothesis.
        target : float
        start : Start, optional
            Known weights for these rows.
        """
        if self.problem.ratio <= 1 + 1e-12 or len(margins) == 1:
            return self._only_choice(margins)
        solution = None
        if self.smooth and start is not None:
            solution = self._solve_smoothed(margins, target, start)
        if solution is None:
            solution = self._solve_program(margins, target, start)
        self._last = solution
        return solution

    def _only_choice(self, margins: FloatArray) -> MasterSolution:
        """One distribution, or one hypothesis: the one of largest edge."""
        best = _Incumbent(self.problem, margins, self.tau)
        best.offer(None, np.ones(len(margins)) / len(margins))
        best.offer(None, (best.edges == best.edges.max()).astype(np.float64))
        return best.solution()

    def _solve_smoothed(
        self, margins: FloatArray, target: float, start: Start
    ) -> MasterSolution | None:
        """Step 2; None if it does not converge, now and from now on."""
        solution = solve_smoothed(
            self.problem, margins, start.weights, target, self.expired,
            self.settings.smoothed, self.settings.pruning,
        )  # fmt: skip
        if solution is None:
            if self.expired():
                raise SearchExpiredError
            self.smooth = False
        return solution

    def _solve_program(
        self, margins: FloatArray, target: float, start: Start | None
    ) -> MasterSolution:
        """Steps 3 to 5."""
        best = _Incumbent(self.problem, margins, self.tau)
        dtype = np.float32 if target > self.settings.single_precision else np.float64
        last = None if self._last is None else self._last.image
        rows = self._band.undecided(self._last)
        while True:
            part = Restriction(self.problem, margins, rows, last, dtype)
            if not part.has_interior:
                rows = None
                continue
            solved = self._interior_point(part, best, target, start)
            if rows is None or best.gap <= target or self.expired():
                break
            self._band.widen()
            rows = self._band.with_violated(rows, *best.sides) if solved else None
        if not self.expired():
            best.prune(target, self.settings.pruning)
        return best.solution()

    def _interior_point(
        self, part: Restriction, best: _Incumbent, target: float, start: Start | None
    ) -> bool:
        """Newton steps until the gap of the restricted program is within the target."""
        settings = self.settings
        if start is not None and not self.tau:
            point = InteriorPoint.near(part, settings.interior, start)
            if self._follow(point, best, target) or self.expired():
                return True
        point = InteriorPoint.start(part, self.tau, settings.interior)
        return self._follow(point, best, target)

    def _follow(self, point: InteriorPoint, best: _Incumbent, target: float) -> bool:
        part = point.part
        for _ in range(self.settings.max_iter):
            if self.expired():
                break
            self.iterations += 1
            if point.gap() <= target:
                best.offer(part.distribution(point.d), point.w)
                if part.rows is not None or best.gap <= target:
                    return True
            try:
                if not point.step(self.expired):
                    break
            except LinAlgError:
                break
        best.offer(part.distribution(point.d), point.w)
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

    @property
    def sides(self) -> tuple[FloatArray, FloatArray]:
        """Image and distribution: they say which examples are on which side of the threshold."""
        return self.image, self.distribution

    def offer(self, distribution: FloatArray | None, weights: FloatArray) -> None:
        """Keep weights and distribution where they are better than those known.

        The weights have a distribution of their own, the one that attains their value: it is
        offered as well with entropy, or if no other is given.
        """
        weights = np.maximum(weights, 0.0)
        weights = weights / weights.sum()
        image = image_of(weights, self.margins)
        own = None
        if self.tau:
            value, own = self.problem.smoothed(image)
        else:
            value = self.problem.value(image)
            if distribution is None:
                own = self.problem.worst(image)
        if value > self.value:
            self.value, self.weights, self.image = value, weights, image
        if distribution is not None:
            self._bound_by(self.problem.admissible(distribution))
        if own is not None:
            self._bound_by(own)

    def _bound_by(self, d: FloatArray) -> None:
        edges = edges_of(self.margins, d)
        upper = edge = float(edges.max())
        if self.tau:
            positive = d > 0
            upper += self.tau * float(
                d[positive] @ np.log(d[positive] / self.problem.prior[positive])
            )
        if upper < self.upper:
            self.upper, self.edge, self.distribution, self.edges = upper, edge, d, edges

    def _value_of(self, image: FloatArray) -> float:
        return self.problem.smoothed(image).value if self.tau else self.problem.value(image)

    def prune(self, target: float, pruning: Pruning) -> None:
        """Take the weight off idle hypotheses, unless that costs much."""
        pruned = pruning.pruned(
            self.margins, self.weights, self.edges, self.edge, target, self.value, self._value_of
        )
        if pruned is not None:
            self.weights, self.image, self.value = pruned

    def solution(self) -> MasterSolution:
        value = self.problem.value(self.image) if self.tau else self.value
        return MasterSolution(
            self.weights, self.image, value, self.distribution, self.edge, self.edges
        )
