"""Kernel SVMs by the decomposition-invariant methods of the optimiser, with our certificate.

The walk is the optimiser's own.  What it looks at is certified as for the other solver: the gap
includes the rounding of the kernel, and the sums of the point are put right before it is returned.

References
----------
.. [1] M. A. Bashiri, X. Zhang. Decomposition-invariant conditional gradient for general polytopes
   with line search. NIPS 2017.
"""

from __future__ import annotations

import math

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import dense
from cornerstep.domains.base import has_oracle
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.stagnation import Stagnation
from cornerstep.learning.kernel_blocks import UNIT
from cornerstep.optimiser.in_face import Schedule
from cornerstep.optimiser.loop import Look, Move
from cornerstep.optimiser.minimize import METHODS
from cornerstep.optimiser.solver import FrankWolfeSolver
from cornerstep.optimiser.steps import Exact


class KernelWalk(FrankWolfeSolver):
    """A walk of the optimiser over the signed variables of a problem.

    Parameters
    ----------
    problem : ReducedHullProblem
    method : str
        One of the decomposition-invariant methods.
    x : array of shape (n,)
        Where to start, in a.
    cardinality : int, optional
        Of a fixed schedule.
    """

    def __init__(
        self,
        problem: ReducedHullProblem,
        method: str,
        x: FloatArray,
        cardinality: int | None = None,
    ) -> None:
        self.problem = problem
        objective, rule = problem.objective(), METHODS[method]()
        if isinstance(rule, Schedule):
            rule.cardinality = cardinality
            try:
                ends = objective.strong_convexity, objective.lipschitz
            except np.linalg.LinAlgError:  # numbers of all sizes: nothing is known of the least
                ends = 0.0, np.inf
            _require_schedule(problem, method, *ends)
        rule.begin(objective, problem.domain, x, np.random.default_rng())
        super().__init__(objective, rule, Exact(), objective.at(x))
        self._stagnation = Stagnation()

    @property
    def beta(self) -> FloatArray:
        """The signed variables."""
        return self.problem.signs * self.position.x

    @property
    def gradient(self) -> FloatArray:
        """The gradient h in them."""
        return self.problem.signs * self.position.gradient

    def look(self) -> Look:
        if not self._is_finite():
            return Look(self.position.value, math.nan)
        self._proposed()
        look = self.problem.look(self.beta, self.gradient, self._extra())
        self._stagnation.observe(look)
        return look

    def move(self) -> Move:
        """A step, unless the run stagnates: the loop then sees that it stands still.

        A schedule whose steps drown in rounding has none left.
        """
        if self._stagnation.found:
            self.monotone = True
            return Move(0.0, "none")
        before = self.position.x
        move = super().move()
        self.monotone = self.monotone or np.array_equal(before, self.position.x)
        return move

    def certify(self, point: FloatArray) -> Look:
        """Gradient, value and gap from the data, where the sums of the point are right."""
        signs = self.problem.signs
        self.position = self.objective.at(signs * self.problem.balanced(signs * point))
        self._proposal = None
        return self.look()


def walk(
    problem: ReducedHullProblem,
    method: str,
    start: FloatArray | None,
    cardinality: int | None = None,
) -> KernelWalk:
    """A walk from signed variables; schedules start at a vertex, whatever is given."""
    own = METHODS[method].own_step
    x = dense(problem.domain.start()) if start is None or own else problem.signs * start
    return KernelWalk(problem, method, x, cardinality)


def _require_schedule(
    problem: ReducedHullProblem, method: str, smallest: float, largest: float
) -> None:
    """Complain where a fixed schedule has no theory."""
    if not has_oracle(problem.domain, "grid"):
        raise ValueError(
            f"solver={method!r} needs vertices with entries 0 and 1: equal weights of the examples "
            f"and an integer K (or C), got K = {problem.K}: give K=..., or take 'di-away' or "
            "'di-pairwise'"
        )
    if not smallest > problem.n * UNIT * largest:
        raise ValueError(
            f"solver={method!r} needs a positive definite kernel matrix, got a smallest eigenvalue "
            f"of {smallest:.3g}: take 'di-away' or 'di-pairwise'"
        )
