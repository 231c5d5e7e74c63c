"""Corrective rounds: the master over the hypotheses at hand, and the idle ones out again."""

from __future__ import annotations

import math

import numpy as np

from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.solvers.master import Master
from cornerstep.boosting.solvers.run_state import RunState
from cornerstep.boosting.solvers.solution import MasterSolution, Start
from cornerstep.core.types import FloatArray, IntArray

_LEAST_TARGET = 1e-12  # of a master: what float64 can tell


class Corrections:
    """Solves the master of a run in its rounds.

    Parameters
    ----------
    state : RunState
    entropic : bool
        Whether the master maximises g instead of rho.
    smooth : bool
        Whether a coarse solution is welcome, see :class:`Master`.
    moves_weight : bool
        Whether there are steps that take weight off members of the ensemble: these must then stay
        at hand.
    """

    def __init__(self, state: RunState, entropic: bool, smooth: bool, moves_weight: bool) -> None:
        self.state, self.moves_weight = state, moves_weight
        self.master = Master(state.problem, entropic, smooth, state.settings.master)
        self.master.expired = state.oracle.is_expired
        self._last: tuple[IntArray, FloatArray] | None = None  # numbers and weights
        self._gap_at_drop = math.inf

    def solve(self, target: float) -> MasterSolution:
        """The master over the pool; a :class:`SearchExpiredError` if there is no time to go on."""
        pool = self.state.pool
        target = max(target, _LEAST_TARGET)
        solution = self.master.solve(pool.margins, target, self._start(target))
        self._last = (pool.numbers, solution.weights)
        if self.state.oracle.is_expired():
            self.state.consider(pool.numbers, solution.weights, solution.image)
            raise SearchExpiredError
        return solution

    def _start(self, target: float) -> Start | None:
        """The weights of the last master, as far as its hypotheses are still at hand."""
        pool = self.state.pool
        if self._last is None:
            return None
        numbers, weights = self._last
        last = np.zeros(len(pool))
        at = np.minimum(np.searchsorted(pool.numbers, numbers), len(pool) - 1)
        there = pool.numbers[at] == numbers
        last[at[there]] = weights[there]
        return Start(last, max(self.state.gap, target)) if last.any() else None

    def drop_idle(self, solution: MasterSolution) -> None:
        """Drop hypotheses that stay useless, but only as the gap shrinks: no cycles."""
        state, settings, gap = self.state, self.state.settings, self.state.gap
        if gap > settings.drop_gap * self._gap_at_drop:
            return
        self._gap_at_drop = gap
        idle = settings.idle_smoothed if self.master.smooth else settings.idle_interior
        useful = solution.edge - solution.edges <= idle.edge * gap
        in_use: list[int] = []
        if self.moves_weight:
            in_use = [*state.current.numbers, *state.pool.numbers[solution.weights > 0]]
        if not state.oracle.learner.exact:  # the bound must hold for them at least
            in_use += state.best.ensemble.numbers
        state.pool.age(useful, in_use, idle.rounds)

    def allow_drops(self) -> None:
        """Raise the gap at the last drop, which a complete search has shown to be too small."""
        raised = self.state.settings.raised_drop_gap * self.state.gap
        self._gap_at_drop = max(self._gap_at_drop, raised)
