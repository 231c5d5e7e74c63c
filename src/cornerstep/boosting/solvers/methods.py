"""Four methods of soft-margin boosting: LPBoost, ERLPBoost, C-ERLPBoost and MLPBoost.

The problem: ``max over w in the simplex of rho(A w)`` over all hypotheses of a weak learner, rho
the soft margin.  All four are Frank-Wolfe methods on its smoothing g with ``rho <= g <= rho +
eps/2`` (:mod:`cornerstep.boosting.problem`): the gradient of g at ``A w`` is a distribution d, and
the weak learner, asked for the largest edge ``(A'd)_j``, is the linear minimisation oracle.

A round of each:

- *LPBoost* [1]_:  1. ask at d;  2. w maximises rho over the hypotheses so far, d is the dual
  solution.
- *ERLPBoost* [2]_:  1. ask at d;  2. w maximises g over the hypotheses so far, d is the dual
  solution, the gradient of g.
- *C-ERLPBoost* [3]_:  1. ask at d, the gradient of g at w;  2. a Frank-Wolfe step towards the
  answer.
- *MLPBoost* [4]_:  1. as C-ERLPBoost;  2. the Frank-Wolfe step;  3. a second candidate, here the
  master's weights;  4. w is the one of them with the larger g.

LPBoost may need m/2 rounds; the others are done within ``32 ln(V/nu) / eps²``, MLPBoost whatever
its second candidate is.  That freedom is used: its masters are solved loosely, and it asks for
hypotheses where they help most (:meth:`MLPBoost.move`).

References
----------
.. [1] A. Demiriz, K. P. Bennett, J. Shawe-Taylor. Linear programming boosting via column
   generation. Machine Learning 46, 2002.
.. [2] M. K. Warmuth, K. A. Glocer, S. V. N. Vishwanathan. Entropy regularized LPBoost. ALT 2008.
.. [3] S. Shalev-Shwartz, Y. Singer. On the equivalence of weak learnability and linear
   separability: new relaxations and efficient boosting algorithms. Machine Learning 80, 2010.
.. [4] R. Mitsuboshi, K. Hatano, E. Takimoto. Boosting as Frank-Wolfe. arXiv:2209.10831, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.corrections import Corrections
from cornerstep.boosting.solvers.frank_wolfe import Towards, Vertex
from cornerstep.boosting.solvers.run_state import RunState
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.optimiser.loop import Move

SECONDARIES = ("lp", "entropic")
Secondary = Callable[[FloatArray, SoftMargin], FloatArray]


class Method:
    """A method of boosting: where it asks the weak learner, and how it goes on.

    Parameters
    ----------
    state : RunState
    step : Towards
        For those that take Frank-Wolfe steps.
    secondary : str or callable
        The second candidate of MLPBoost: one of ``SECONDARIES`` or a function.

    Attributes
    ----------
    edge : float
        Of the last answer.
    """

    name: ClassVar[str]

    def __init__(self, state: RunState, step: Towards, secondary: str | Secondary) -> None:
        self.state, self.step = state, step
        self.edge = math.nan

    def look(self) -> None:
        """Ask the weak learner where the method asks."""
        raise NotImplementedError

    def move(self) -> Move:
        """Go to the next weights."""
        raise NotImplementedError

    def bound_fell(self) -> None:
        """React to a bound that has fallen by a complete search."""

    @property
    def least_gap(self) -> float:
        """What a look states at least: a published rule may stop later than the gap would."""
        return 0.0


class LPBoost(Method):
    """All weights are optimised in every round, and the next question is at the dual solution."""

    name = "lpboost"
    entropic: ClassVar[bool] = False
    kind: ClassVar[str] = "lp"

    def __init__(self, state: RunState, step: Towards, secondary: str | Secondary) -> None:
        super().__init__(state, step, secondary)
        self.corrections = Corrections(state, self.entropic, False, step.moves_weight)
        self._distribution: FloatArray | None = None

    def look(self) -> None:
        if self._distribution is not None:
            self.edge = self.state.oracle.ask(self._distribution).edge
            self._distribution = None

    def move(self) -> Move:
        state = self.state
        solution = self.corrections.solve(state.settings.exact_target * state.problem.eps)
        state.go_to(state.pool.numbers, solution.weights, solution.image)
        self.corrections.drop_idle(solution)
        self._distribution = solution.distribution
        return Move(1.0, self.kind)

    def bound_fell(self) -> None:
        self.corrections.allow_drops()


class ERLPBoost(LPBoost):
    """LPBoost with an entropy: g instead of rho."""

    name = "erlpboost"
    entropic = True
    kind = "entropic"


class CERLPBoost(Method):
    """Corrective ERLPBoost: a Frank-Wolfe step on g per round."""

    name = "cerlpboost"

    def look(self) -> None:
        self.state.oracle.ask(self.state.current.gradient)
        self._choose(self.state.pool.edges(self.state.current.gradient))

    def _choose(self, edges: FloatArray) -> None:
        """Step towards the hypothesis at hand of largest edge."""
        k = int(np.argmax(edges))
        self.edge = float(edges[k])
        self.vertex = Vertex(int(self.state.pool.numbers[k]), self.edge)

    def move(self) -> Move:
        state = self.state
        step = self.step.propose(state.current, state.pool, self.vertex, state.rounds)
        state.follow(step, state.problem.smoothed(step.image))
        return Move(step.size, step.kind)


class Candidate(NamedTuple):
    """Hypotheses by their numbers, weights and image."""

    numbers: IntArray
    weights: FloatArray
    image: FloatArray


class MLPBoost(CERLPBoost):
    """The better of a Frank-Wolfe step and a second candidate.

    The bound on the rounds holds whatever the second candidate is, so that

    1. the step is towards a known hypothesis if its edge is no less than the bound, which is all
       that the rate needs;
    2. the master is solved to a share of the present gap: its d is then central among the good
       distributions;
    3. the weak learner is asked at mixtures of the master's d and of the best one so far, and
       proposals will do: in-out separation [5]_;
    4. a round that finds nothing new asks the master for more accuracy.

    References
    ----------
    .. [5] W. Ben-Ameur, J. Neto. Acceleration of cutting-plane and column generation algorithms:
       applications to network design. Networks 49, 2007.
    """

    name = "mlpboost"

    def __init__(self, state: RunState, step: Towards, secondary: str | Secondary) -> None:
        super().__init__(state, step, secondary)
        self._secondary = secondary
        entropic = secondary == "entropic"
        self.corrections = Corrections(state, entropic, True, step.moves_weight)
        self._share = state.settings.loose_target

    def look(self) -> None:
        state = self.state
        edges = state.pool.edges(state.current.gradient)
        if edges.max() < state.oracle.bound:
            state.oracle.ask(state.current.gradient, enough=state.oracle.bound)
            edges = state.pool.edges(state.current.gradient)
        self._choose(edges)

    def move(self) -> Move:
        state = self.state
        step = self.step.propose(state.current, state.pool, self.vertex, state.rounds)
        second = self._second_candidate()
        value, first = state.problem.smoothed(second.image), state.problem.smoothed(step.image)
        if value.value > first.value:
            state.go_to(*second, value)
            return Move(1.0, "secondary")
        state.consider(*second)
        state.follow(step, first)
        return Move(step.size, step.kind)

    def bound_fell(self) -> None:
        self.corrections.allow_drops()

    def _second_candidate(self) -> Candidate:
        if callable(self._secondary):
            return self._given_candidate(self._secondary)
        state, settings = self.state, self.state.settings
        numbers, gap = state.pool.numbers, state.gap
        target = self._share * min(max(gap, state.problem.eps), settings.largest_gap)
        solution = self.corrections.solve(target)
        self.corrections.drop_idle(solution)
        before = state.oracle.discoveries
        least = solution.edge - settings.useful * gap
        best = state.oracle.estimated_witness
        try:
            for share in settings.mixtures:
                d = share * best + (1.0 - share) * solution.distribution
                state.oracle.collect(d, solution.distribution, least)
        except SearchExpiredError:
            state.consider(numbers, solution.weights, solution.image)
            raise
        if state.oracle.discoveries == before:
            self._share *= settings.sharpening
        return Candidate(numbers, solution.weights, solution.image)

    def _given_candidate(self, secondary: Secondary) -> Candidate:
        """The user's."""
        margins = self.state.pool.margins.astype(np.float64)
        weights = _checked_weights(secondary(margins, self.state.problem), len(margins))
        return Candidate(self.state.pool.numbers, weights, weights @ margins)


def _checked_weights(weights: Any, size: int) -> FloatArray:
    """The weights that a user's secondary answered, on the simplex."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (size,) or not np.isfinite(w).all() or w.min() < 0 or not w.sum() > 0:
        raise ValueError(
            f"secondary must answer {size} finite weights >= 0, one per hypothesis, got {weights!r}"
        )
    return w / w.sum()


METHODS: dict[str, type[Method]] = {
    method.name: method for method in (LPBoost, ERLPBoost, CERLPBoost, MLPBoost)
}
