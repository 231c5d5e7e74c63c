"""LPBoost, ERLPBoost, C-ERLPBoost and MLPBoost as they are published.

``w_1`` is the hypothesis that the weak learner answers at the uniform distribution.  Then, in round
t, with ``E_t`` the hypotheses so far, of which none is dropped:

1. *d_t*: LPBoost [1]_ takes a vertex of the dual solutions of its linear program over ``E_t``, the
   others [2]_ [3]_ [4]_ the gradient of g at ``w_t``.
2. The weak learner, asked once, at d_t, answers one hypothesis ``j_t`` of largest edge.
3. Stop if the smallest edge so far is at most ``rho(w_t) + eps`` (LPBoost), ``g(w_t) + eps/2`` (the
   others).
4. *w_{t+1}*: LPBoost maximises rho, ERLPBoost g over ``E_{t+1}``; C-ERLPBoost steps from ``w_t``
   towards ``j_t``; MLPBoost takes that step, or the weights of a second algorithm over ``E_{t+1}``
   if their g is larger.

The answer is the last ``w_t``; ``w_1`` is the loop's iteration 0.  The paper begins with w_0 = 0,
from which a short step would leave the simplex; the step ``2 / (t + 2)`` leads from there to
``w_1``, and is 2/3 in round 1.

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

from cornerstep.boosting.solvers import methods
from cornerstep.boosting.solvers.corrections import Corrections
from cornerstep.boosting.solvers.frank_wolfe import Towards, Vertex
from cornerstep.boosting.solvers.methods import Candidate, Method, Secondary
from cornerstep.boosting.solvers.run_state import RunState
from cornerstep.boosting.solvers.simplex import SimplexMaster
from cornerstep.core.types import FloatArray
from cornerstep.optimiser.loop import Move


class LPBoost(Method):
    """The linear program over all hypotheses so far; d is a vertex of its dual solutions."""

    name = "lpboost"

    def __init__(self, state: RunState, step: Towards, secondary: str | Secondary) -> None:
        super().__init__(state, step, secondary)
        self.master = SimplexMaster(state.problem, state.oracle.is_expired)
        self._distribution: FloatArray | None = None

    def look(self) -> None:
        if self._distribution is None:  # w_1
            self._distribution = self.master.solve(self.state.pool.margins).distribution
        self.edge = self.state.oracle.ask(self._distribution).edge

    def move(self) -> Move:
        solution = self.master.solve(self.state.pool.margins)
        self.state.go_to(self.state.pool.numbers, solution.weights, solution.image)
        self._distribution = solution.distribution
        return Move(1.0, "lp")


class _Smoothed(Method):
    """The weak learner is asked at the gradient of g, and g says when to stop."""

    vertex: Vertex

    def look(self) -> None:
        answer = self.state.oracle.ask(self.state.current.gradient)
        self.edge = answer.edge
        self.vertex = Vertex(self.state.pool.number(answer.margins[0]), answer.edge)

    @property
    def least_gap(self) -> float:
        state = self.state
        return state.oracle.bound - state.current.g + state.problem.eps / 2


class ERLPBoost(_Smoothed):
    """g maximised over all hypotheses so far."""

    name = "erlpboost"

    def __init__(self, state: RunState, step: Towards, secondary: str | Secondary) -> None:
        super().__init__(state, step, secondary)
        self.corrections = Corrections(state, entropic=True, smooth=False, moves_weight=False)

    def move(self) -> Move:
        solution = self.corrections.solve(0.0)
        self.state.go_to(self.state.pool.numbers, solution.weights, solution.image)
        return Move(1.0, "entropic")


class CERLPBoost(_Smoothed, methods.CERLPBoost):
    """A Frank-Wolfe step on g per round, towards the weak learner's answer."""


class MLPBoost(_Smoothed, methods.MLPBoost):
    """The better of the Frank-Wolfe step and the weights of a second algorithm, by g."""

    def __init__(self, state: RunState, step: Towards, secondary: str | Secondary) -> None:
        super().__init__(state, step, secondary)
        if secondary == "lp":
            self._simplex = SimplexMaster(state.problem, state.oracle.is_expired)

    def _second_candidate(self) -> Candidate:
        pool = self.state.pool
        if callable(self._secondary):
            return self._given_candidate(self._secondary)
        if self._secondary == "lp":
            solution = self._simplex.solve(pool.margins)
        else:
            solution = self.corrections.solve(0.0)
        return Candidate(pool.numbers, solution.weights, solution.image)


PUBLISHED: dict[str, type[Method]] = {
    method.name: method for method in (LPBoost, ERLPBoost, CERLPBoost, MLPBoost)
}
