"""Training of one two-class boosting machine, by the clock that all machines share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerstep.boosting.binning import Binning, Tree
from cornerstep.boosting.learners.classifiers import ClassifierLearner
from cornerstep.boosting.learners.trees import (
    FiniteLearner,
    TreeLearner,
    WeakLearner,
    combine,
    evaluate,
)
from cornerstep.boosting.long_work import SearchExpiredError, in_parts, never
from cornerstep.boosting.machine import Machine
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.settings import MethodSettings
from cornerstep.boosting.solvers.solver import BoostingSolver
from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning import training
from cornerstep.optimiser.loop import run
from cornerstep.optimiser.result import Status, Trace

_LEAST = 0.3  # seconds


@dataclass
class Clock:
    """Until when to train, and whether somebody has pressed Ctrl-C."""

    pressed: Callable[[], bool]
    deadline: float  # of the performance counter
    least: float  # a first hypothesis that is found by then is welcome whatever the limit

    @classmethod
    def started(cls, time_limit: float | None, pressed: Callable[[], bool]) -> Clock:
        """A clock that starts now."""
        now = work_seconds()
        return cls(pressed, now + (math.inf if time_limit is None else time_limit), now + _LEAST)

    def share(self, count: int) -> Clock:
        """The clock of the next of so many machines that share what is left."""
        now = work_seconds()
        return replace(self, deadline=now + max(self.deadline - now, 0.0) / count)

    def expired(self, closing: float = 0.0) -> bool:
        """Whether to end before there is a hypothesis; with one, so many seconds would follow."""
        return self.pressed() or work_seconds() >= max(self.deadline - closing, self.least)

    @property
    def left(self) -> float | None:
        """Seconds; None: as many as it takes."""
        left = self.deadline - work_seconds()
        return max(left, 0.0) if left < math.inf else None


@dataclass(frozen=True)
class Problem:
    """Two classes of examples, and who finds hypotheses for them.

    Attributes
    ----------
    X : array of shape (n, d)
        Or columns on a cluster.
    labels : array of shape (n,)
        -1 and 1.
    weights : array of shape (n,)
        Examples of weight 0 have no part in it.
    nu : float
        A share of the total weight.
    learner_for : callable
        ``learner_for(X, labels, weights, expired)`` answers the weak learner and, where it sees
        some examples as one, their groups; those are merged.
    """

    X: Any
    labels: FloatArray
    weights: FloatArray
    nu: float
    learner_for: Callable[..., tuple[WeakLearner, Any]]

    def soft_margin(self, eps: float) -> SoftMargin:
        """The objective over the examples that have weight."""
        weights = self.weights[self.weights > 0]
        return SoftMargin(weights, self.nu * float(weights.sum()), eps)


@dataclass(frozen=True, kw_only=True)
class Settings(training.Settings):
    """How to train a two-class machine; ``start`` is hypotheses and weights.

    The time limit is the clock's, not that of ``stopping``.

    Attributes
    ----------
    clock : Clock
    step : str
        Of the Frank-Wolfe steps.
    secondary : str
        The second algorithm of MLPBoost.
    bounded_rounds : bool
        Stop after as many rounds as the method is proven to need, not ``stopping.max_iter``.
    method_settings : MethodSettings
    """

    clock: Clock
    step: str
    secondary: Any
    bounded_rounds: bool
    method_settings: MethodSettings
    rng: Any = None  # weak learners have their own


@dataclass(frozen=True, kw_only=True)
class Training(training.Training):
    """A trained two-class machine."""

    machine: Machine


def train(problem: Problem, settings: Settings) -> Training:
    """Train a machine.

    A :class:`SearchExpiredError` says that there was no time for a first hypothesis.
    """
    X, labels, clock = problem.X, problem.labels, settings.clock
    used = np.flatnonzero(problem.weights > 0)
    rows = X if used.size == labels.size else X[used]
    learner, groups = problem.learner_for(rows, labels[used], problem.weights[used], clock.expired)
    examples = problem.soft_margin(settings.stopping.tol)
    soft_margin = examples if groups is None else examples.merged(groups)
    start = settings.start if settings.start is None else learner.adopt(*settings.start)
    solver = BoostingSolver(
        soft_margin, learner, settings.solver, settings.step, settings.secondary, start,
        clock.expired, settings.method_settings,
    )  # fmt: skip
    stopping = replace(settings.stopping, time_limit=clock.left)
    if settings.bounded_rounds:
        stopping = replace(stopping, max_iter=soft_margin.rounds_bound())
    outcome = run(
        solver, stopping, callback=settings.callback, verbose=settings.verbose,
        title=settings.title, interrupted=clock.pressed,
    )  # fmt: skip
    status, look = outcome.status, outcome.look
    if status is Status.ITERATION_LIMIT and look.gap <= stopping.target(look.value):
        status = Status.SOLVED  # the limit came before the rule of a textbook, not the gap
    d = solver.witness
    distribution = np.zeros(labels.size)
    distribution[used] = d if groups is None else examples.spread(d, groups)
    hypotheses = solver.chosen(solver.best)
    image = solver.best.image  # the margins of the groups, from the data
    if used.size < labels.size:
        margins = labels * combine(hypotheses, solver.best.weights, X)
    else:
        margins = image if groups is None else image[groups]
    return _training(
        Machine(
            hypotheses,
            solver.best.weights,
            *solver.proven,
            status,
            outcome.n_iter,
            outcome.trace,
            margins,
            distribution,
            [(number, solver.chosen(best), best.weights) for number, best in solver.stages],
        )
    )


def _training(machine: Machine) -> Training:
    return Training(proof=machine.proof, machine=machine)


def constant(problem: Problem, settings: Settings, status: Status) -> Training:
    """The machine of a training that ended before it began: one answer for all.

    Its bound is that of all margins, 1: nothing has been searched.
    """
    used, labels = problem.weights > 0, problem.labels
    soft_margin = problem.soft_margin(settings.stopping.tol)
    sign = 1.0 if float(problem.weights @ labels) >= 0 else -1.0
    tree = Tree(np.zeros(1, np.int64), np.full(1, np.inf), np.full(2, sign))
    margins, share = sign * labels, np.ones(1)
    distribution = np.zeros(labels.size)
    distribution[used] = soft_margin.admissible(soft_margin.prior)
    value = soft_margin.value(margins[used]) - soft_margin.rounding(1)
    trace = Trace(BoostingSolver.extra_columns)
    trace.append((0, 0.0, -value, 1.0 - value, np.nan, "start", 1.0, value, value, 1.0, 1))
    stages = [(0, [tree], share)]
    return _training(
        Machine([tree], share, value, 1.0, status, 0, trace, margins, distribution, stages)
    )


def group_equal_rows(
    rows: Any, labels: FloatArray, expired: Callable[[], bool]
) -> tuple[IntArray, IntArray]:
    """The first member of each group of equal rows with equal label, and the group of every row.

    Rows are sorted by their bytes, two at a time from the last on: each pass is short, and stable.
    """
    keyed = np.ascontiguousarray(np.column_stack([rows, labels > 0]))
    words = np.ascontiguousarray(keyed.view(">u2").T.astype(np.uint16))
    order = np.arange(labels.size)
    for word in words[::-1]:
        _end_if(expired)
        order = order[np.argsort(word[order], kind="stable")]
    is_first = np.arange(labels.size) == 0
    for word in words:
        _end_if(expired)
        is_first[1:] |= np.diff(word[order]) != 0
    groups = np.empty_like(order)
    groups[order] = np.cumsum(is_first) - 1
    return order[is_first], groups


def _end_if(expired: Callable[[], bool]) -> None:
    if expired():
        raise SearchExpiredError


def tree_learner(max_depth: int, max_bins: int, n_threads: int) -> Any:
    """For a :class:`Problem`: exact trees; examples in the same bins are one."""

    def build(
        X: Any, labels: FloatArray, weights: FloatArray, expired: Callable[[], bool] = never
    ) -> tuple[WeakLearner, Any]:
        if not isinstance(X, np.ndarray):  # on a cluster
            from cornerstep.boosting.learners.dask_trees import SpreadTreeLearner

            return SpreadTreeLearner(X, labels, X.binning(weights, max_bins), max_depth), None
        binning = Binning(X, weights, max_bins, expired)
        bins = binning.transform(X, expired)
        first, groups = group_equal_rows(bins, labels, expired)
        chosen = np.empty((first.size, X.shape[1]), order="F")  # the trees go by columns
        for rows in in_parts(*chosen.shape):
            _end_if(expired)
            chosen[rows] = X[first[rows]]
        _end_if(expired)
        given = chosen, labels[first], binning, max_depth, n_threads, expired, bins[first]
        return TreeLearner(*given), groups

    return build


def classifier_learner(estimator: Any, rng: np.random.RandomState) -> Any:
    """For a :class:`Problem`: a scikit-learn classifier; equal examples are one."""

    def build(
        X: FloatArray, labels: FloatArray, weights: FloatArray, expired: Callable[[], bool]
    ) -> tuple[ClassifierLearner, Any]:
        first, groups = group_equal_rows(X, labels, expired)
        return ClassifierLearner(estimator, X[first], labels[first], rng), groups

    return build


def finite_learner(hypotheses: Sequence[Any]) -> Any:
    """For a :class:`Problem`: given hypotheses."""

    def build(
        X: FloatArray, labels: FloatArray, weights: FloatArray, expired: Callable[[], bool]
    ) -> tuple[FiniteLearner, Any]:
        return FiniteLearner(evaluate(hypotheses, X) * labels, hypotheses, n_answers=20), None

    return build
