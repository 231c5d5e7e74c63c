"""Soft-margin boosting for the loop of the optimiser: one of the four methods, certified.

A round looks and moves:

1. The method asks the weak learner.  Its answers bound the optimum
   (:mod:`~cornerstep.boosting.solvers.oracle`).
2. If proposals promise a much smaller bound, a complete search makes sure of it.
3. The method goes to the next weights (:mod:`~cornerstep.boosting.solvers.methods`); the ensemble
   of largest soft margin is kept.

``bound - rho(A w)`` of that ensemble is the duality gap; what is certified has a bound of the
rounding taken off the one and added to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from cornerstep.boosting.learners.trees import WeakLearner
from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.ensembles import Ensemble
from cornerstep.boosting.solvers.frank_wolfe import make_step
from cornerstep.boosting.solvers.methods import METHODS, Secondary
from cornerstep.boosting.solvers.run_state import RunState
from cornerstep.boosting.solvers.settings import MethodSettings
from cornerstep.boosting.solvers.textbook import PUBLISHED
from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray
from cornerstep.data.reductions import moved_note
from cornerstep.optimiser.loop import Look, Move


class _Seconds(NamedTuple):
    """How long it takes to sort margins, to compute those of one hypothesis, and of another."""

    sorting: float
    one: float
    another: float


class BoostingSolver:
    """A method of boosting, for the loop.  The point is the ensemble of largest soft margin so far.

    Parameters
    ----------
    problem : SoftMargin
    learner : WeakLearner
    method : str
        One of ``METHODS``.
    step : str
        One of ``STEPS``, for the methods that take Frank-Wolfe steps.
    secondary : str or callable
        The second candidate of MLPBoost: one of ``SECONDARIES`` or a function of the margins (one
        row per hypothesis) and the problem that answers weights.
    start : tuple of hypotheses and weights, optional
    expired : callable, optional
        Asked in the first search, with the seconds that it will take to end after it: a
        :class:`SearchExpiredError` says that there is no hypothesis.
    settings : MethodSettings, optional
    """

    monotone = False
    extra_columns: tuple[str, ...] = ("edge", "g", "soft_margin", "bound", "hypotheses")

    def __init__(
        self,
        problem: SoftMargin,
        learner: WeakLearner,
        method: str = "mlpboost",
        step: str = "short",
        secondary: str | Secondary = "lp",
        start: tuple[Sequence[Any], FloatArray] | None = None,
        expired: Callable[[float], bool] = lambda closing: False,
        settings: MethodSettings | None = None,
    ) -> None:
        self.problem, self.learner = problem, learner
        self.settings = settings or MethodSettings()
        self.state = RunState(problem, learner, self.settings)
        self._sorting = self._seconds_to_sort()
        self.expired = lambda: expired(self.settings.closing_sorts * self._sorting)
        kind = (PUBLISHED if self.settings.textbook else METHODS)[method]
        self.method = kind(self.state, make_step(step, problem), secondary)
        answer = self.state.oracle.ask(self.state.oracle.witness)
        if start is None:
            self.state.begin_at(answer.margins[0])
        else:
            self.state.begin_from(*start)
        self.method.edge = answer.edge
        self._seconds: _Seconds | None = None

    # -- what a run leaves -----------------------------------------------------------------------

    @property
    def point(self) -> Ensemble:
        return self.best

    @property
    def best(self) -> Ensemble:
        """The ensemble of largest soft margin so far."""
        return self.state.best.ensemble

    @property
    def soft_margin(self) -> float:
        """Of the best ensemble."""
        return self.state.best.soft_margin

    @property
    def witness(self) -> FloatArray:
        """The distribution that proves the bound."""
        return self.state.oracle.witness

    @property
    def stages(self) -> list[tuple[int, Ensemble]]:
        """Round and ensemble, as the soft margin rose."""
        return self.state.best.stages

    @property
    def proven(self) -> tuple[float, float]:
        """The least that the soft margin, the most that the optimum can be, with rounding."""
        off = self.problem.rounding(len(self.best.numbers))
        return self.soft_margin - off, min(self.state.oracle.bound + self.problem.rounding(), 1.0)

    def chosen(self, ensemble: Ensemble) -> list[Any]:
        """The hypotheses of an ensemble."""
        return [self.state.pool.hypotheses[number] for number in ensemble.numbers]

    # -- the loop's three verbs ------------------------------------------------------------------

    def look(self) -> Look:
        with suppress(SearchExpiredError):  # what is known by then counts
            self.method.look()
            self._make_sure()
        current = self.state.current
        seen = self._seen(current.g, self.state.soft_margin, current.numbers.size)
        return seen._replace(gap=max(seen.gap, self.method.least_gap))

    def _make_sure(self) -> None:
        """Search completely if proposals promise to narrow the gap much, or to end it."""
        oracle = self.state.oracle
        gap = self.settings.sure * (oracle.bound - self.soft_margin)
        is_promising = self.state.gap <= max(gap, self.problem.eps)
        if oracle.estimated_bound < oracle.bound and is_promising and oracle.make_sure():
            self.method.bound_fell()

    def move(self) -> Move:
        self.state.rounds += 1
        try:
            return self.method.move()
        except SearchExpiredError:
            return Move(0.0, "cut short")

    def certify(self, point: Ensemble) -> Look:
        """Margins recomputed from the data, and the bound settled; the method is not touched."""
        weights = point.weights / point.weights.sum()
        image = self.learner.image(self.chosen(point), weights)
        self.state.best.correct(Ensemble(point.numbers, weights, image))
        self.state.oracle.certify()
        return self._seen(self.problem.smoothed(image).value, self.soft_margin, len(point.numbers))

    def _seen(self, g: float, soft_margin: float, n_hypotheses: int) -> Look:
        least, most = self.proven
        gap = max(most - least, 0.0)
        rounding = min(2.0 * self.problem.rounding(len(self.best.numbers)), gap)
        extra = (self.method.edge, g, soft_margin, self.state.oracle.bound, n_hypotheses)
        return Look(-least, gap, extra=extra, rounding=rounding)

    # -- what else the loop asks -----------------------------------------------------------------

    @property
    def note(self) -> str:
        """For the live display: bytes moved, on a cluster."""
        return moved_note(getattr(self.learner, "moved", None))

    @property
    def expired(self) -> Callable[[], bool]:
        """Whether to end: the loop says whom to ask, and long searches and masters ask too."""
        return self.state.oracle.expired

    @expired.setter
    def expired(self, ask: Callable[[], bool]) -> None:
        self.state.oracle.expired = ask

    @property
    def closing(self) -> float:
        """Seconds that it is expected to take to end a move and to certify the best ensemble."""
        if self._seconds is None:
            self._seconds = self._rehearse()
        sorting, one, another = self._seconds
        return self.settings.closing_sorts * sorting + one + another * len(self.best.numbers)

    def _rehearse(self) -> _Seconds:
        """Do what a certificate does with the first hypotheses, and look at the clock."""
        hypotheses = self.state.pool.hypotheses[: self.settings.max_answers]
        equal = np.full(len(hypotheses), 1.0 / len(hypotheses))
        one = _seconds_of(lambda: self.learner.image(hypotheses[:1], equal[:1]))
        every = _seconds_of(lambda: self.learner.image(hypotheses, equal))
        others = len(hypotheses) - 1
        another = max(every - one, 0.0) / others if others else one
        return _Seconds(max(self._sorting, self._seconds_to_sort()), one, another)

    def _seconds_to_sort(self) -> float:
        mixed = np.random.default_rng(0).random(self.problem.size)
        return _seconds_of(lambda: self.problem.smoothed(mixed))


def _seconds_of(work: Callable[[], Any]) -> float:
    begin = work_seconds()
    work()
    return work_seconds() - begin
