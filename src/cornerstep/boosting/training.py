"""One two-class boosting machine: build the problem, run, read off what the classifier shows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
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
    leaf_sums,
)
from cornerstep.boosting.long_work import SearchExpiredError, never
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.solver import BoostingSolver
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.certificates import MachineProof
from cornerstep.optimiser.loop import Callback, Stopping, run
from cornerstep.optimiser.result import Status, Trace

_LEAST = 0.3  # seconds


@dataclass
class Machine:
    """A trained ensemble for two classes, with its certificate."""

    hypotheses: list[Any]
    weights: FloatArray
    soft_margin: float
    bound: float
    status: Status
    n_iter: int
    trace: Trace
    margins: FloatArray
    distribution: FloatArray
    stages: list[tuple[int, list[Any], FloatArray]]

    @property
    def proof(self) -> MachineProof:
        """What is proven of the machine."""
        gap = max(self.bound - self.soft_margin, 0.0)
        return MachineProof(self.soft_margin, self.bound, gap, self.status, self.n_iter, self.trace)

    def scores(self, X: FloatArray) -> FloatArray:
        """``sum_j w_j h_j(x)``."""
        return combine(self.hypotheses, self.weights, X)

    def staged_scores(self, X: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Round and scores, as the soft margin rose."""
        known: dict[int, FloatArray] = {}
        for number, hypotheses, weights in self.stages:
            new = [h for h in hypotheses if id(h) not in known]
            if new:
                for h, values in zip(new, evaluate(new, X), strict=True):
                    known[id(h)] = values
            yield number, weights @ np.array([known[id(h)] for h in hypotheses])

    def importances(self, X: FloatArray, signed: FloatArray) -> FloatArray | None:
        """Per feature, the weighted gains in edge of the splits on it, with examples ``|signed|``.

        Of other hypotheses than trees the classifiers tell; None if they do not.
        """
        total = np.zeros(X.shape[1])
        if all(isinstance(hypothesis, Tree) for hypothesis in self.hypotheses):
            by_size: dict[int, list[int]] = {}
            for k, tree in enumerate(self.hypotheses):
                by_size.setdefault(tree.leaves.size, []).append(k)
            for members in by_size.values():
                trees = [self.hypotheses[k] for k in members]
                total += _gains(trees, self.weights[members], X, signed)
        else:
            for hypothesis, weight in zip(self.hypotheses, self.weights, strict=True):
                told = getattr(hypothesis.estimator, "feature_importances_", None)
                if told is None:
                    return None
                seen = hypothesis.features
                every = np.arange(total.size) if seen is None else seen
                np.add.at(total, every, weight * np.asarray(told))
        return total / total.sum() if total.sum() > 0 else total


def _gains(
    trees: Sequence[Tree], weights: FloatArray, X: FloatArray, signed: FloatArray
) -> FloatArray:
    """The weighted rises of ``sum |signed weight of a part|`` by the splits on each feature."""
    features = np.array([tree.features for tree in trees])
    thresholds = np.array([tree.thresholds for tree in trees])
    sums = leaf_sums(features, thresholds, X, signed)
    gains = np.zeros(X.shape[1])
    level = sums.shape[1] // 2
    while level:
        pairs = sums.reshape(len(trees), level, 2)
        joined = pairs.sum(axis=2)
        rise = abs(pairs).sum(axis=2) - abs(joined)
        np.add.at(gains, features[:, level - 1 : 2 * level - 1], weights[:, None] * rise)
        sums, level = joined, level // 2
    return gains


def mean_importances(
    machines: Sequence[Machine], X: FloatArray, labels: IntArray, weights: FloatArray
) -> FloatArray | None:
    """The mean of the machines' importances; None if their classifiers tell none.

    Parameters
    ----------
    machines : sequence of Machine
    X : array of shape (n, d)
    labels, weights : arrays of shape (n,)
        Numbers of classes; the weights of the examples.
    """
    share = weights / weights.sum()
    total = np.zeros(X.shape[1])
    for k, machine in enumerate(machines):
        positive = labels == (1 if len(machines) == 1 else k)
        part = machine.importances(X, np.where(positive, share, -share))
        if part is None:
            return None
        total += part
    return total / len(machines)


@dataclass
class Clock:
    """Until when to train, and whether somebody has pressed Ctrl-C."""

    pressed: Callable[[], bool]
    deadline: float  # of the performance counter
    least: float  # a first hypothesis that is found by then is welcome whatever the limit

    @classmethod
    def started(cls, time_limit: float | None, pressed: Callable[[], bool]) -> Clock:
        """A clock that starts now."""
        now = time.perf_counter()
        return cls(pressed, now + (math.inf if time_limit is None else time_limit), now + _LEAST)

    def share(self, count: int) -> Clock:
        """The clock of the next of so many machines that share what is left."""
        now = time.perf_counter()
        return replace(self, deadline=now + max(self.deadline - now, 0.0) / count)

    def expired(self) -> bool:
        """Whether to end before there is a hypothesis."""
        return self.pressed() or time.perf_counter() >= max(self.deadline, self.least)

    @property
    def left(self) -> float | None:
        """Seconds; None: as many as it takes."""
        left = self.deadline - time.perf_counter()
        return max(left, 0.0) if left < math.inf else None


@dataclass
class Recipe:
    """How to train a machine: what the classifier's parameters say."""

    method: str
    step: str
    secondary: Any
    nu: float  # a share of the total weight
    atol: float
    tol: float
    max_iter: int | None
    callback: Callback | None
    verbose: int
    title: str

    def train(
        self,
        learner_for: Callable[..., tuple[WeakLearner, Any]],
        X: FloatArray,
        labels: FloatArray,
        weights: FloatArray,
        clock: Clock,
        start: tuple[Sequence[Any], FloatArray] | None,
    ) -> Machine:
        """Train on examples X with labels -1 and 1.

        ``learner_for(X, labels, weights, expired)`` answers the weak learner and, where it sees
        some examples as one, their groups; those are merged.  A :class:`SearchExpiredError` says
        that there was no time for a first hypothesis.
        """
        used = np.flatnonzero(weights > 0)
        rows = X if used.size == labels.size else X[used]
        learner, groups = learner_for(rows, labels[used], weights[used], clock.expired)
        examples = self._problem(weights[used])
        problem = examples if groups is None else examples.merged(groups)
        if start is not None:
            start = learner.adopt(*start)
        solver = BoostingSolver(
            problem, learner, self.method, self.step, self.secondary, start, clock.expired
        )
        rounds = problem.rounds_bound() if self.max_iter is None else self.max_iter
        stopping = Stopping(self.atol, self.tol, rounds, clock.left)
        outcome = run(
            solver, stopping, callback=self.callback, verbose=self.verbose, title=self.title,
            interrupted=clock.pressed,
        )  # fmt: skip
        d = solver.witness
        distribution = np.zeros(labels.size)
        distribution[used] = d if groups is None else examples.spread(d, groups)
        hypotheses = solver.chosen(solver.best)
        image = solver.best.image  # the margins of the groups, from the data
        if used.size < labels.size:
            margins = labels * combine(hypotheses, solver.best.weights, X)
        else:
            margins = image if groups is None else image[groups]
        return Machine(
            hypotheses,
            solver.best.weights,
            *solver.proven,
            outcome.status,
            outcome.n_iter,
            outcome.trace,
            margins,
            distribution,
            [(number, solver.chosen(best), best.weights) for number, best in solver.stages],
        )

    def _problem(self, weights: FloatArray) -> SoftMargin:
        return SoftMargin(weights, self.nu * float(weights.sum()), self.atol)

    def constant(self, X: Any, labels: FloatArray, weights: FloatArray, status: Status) -> Machine:
        """The machine of a training that ended before it began: one answer for all.

        Its bound is that of all margins, 1: nothing has been searched.
        """
        used = weights > 0
        problem = self._problem(weights[used])
        sign = 1.0 if float(weights @ labels) >= 0 else -1.0
        tree = Tree(np.zeros(1, np.int64), np.full(1, np.inf), np.full(2, sign))
        margins, share = sign * labels, np.ones(1)
        distribution = np.zeros(labels.size)
        distribution[used] = problem.admissible(problem.prior)
        value = problem.value(margins[used]) - problem.rounding(1)
        trace = Trace(BoostingSolver.extra_columns)
        trace.append((0, 0.0, -value, 1.0 - value, np.nan, "start", 1.0, value, value, 1.0, 1))
        stages = [(0, [tree], share)]
        return Machine([tree], share, value, 1.0, status, 0, trace, margins, distribution, stages)


def _groups(rows: Any, labels: FloatArray) -> tuple[IntArray, IntArray]:
    """One member of each group of equal rows with equal label, and the group of every row."""
    keyed = np.ascontiguousarray(np.column_stack([rows, labels > 0]))
    opaque = keyed.view(np.dtype((np.void, keyed.dtype.itemsize * keyed.shape[1]))).ravel()
    _, first, groups = np.unique(opaque, return_index=True, return_inverse=True)
    return first, groups.ravel()


def tree_learner(max_depth: int, max_bins: int, n_threads: int) -> Any:
    """For :meth:`Recipe.train`: exact trees; examples in the same bins are one."""

    def build(
        X: Any, labels: FloatArray, weights: FloatArray, expired: Callable[[], bool] = never
    ) -> tuple[WeakLearner, Any]:
        if not isinstance(X, np.ndarray):  # on a cluster
            from cornerstep.boosting.learners.dask_trees import SpreadTreeLearner

            return SpreadTreeLearner(X, labels, X.binning(weights, max_bins), max_depth), None
        binning = Binning(X, weights, max_bins, expired)
        bins = binning.transform(X, expired)
        first, groups = _groups(bins, labels)
        if expired():
            raise SearchExpiredError
        chosen = np.asfortranarray(X[first]), labels[first], binning  # the trees go by columns
        return TreeLearner(*chosen, max_depth, n_threads, expired, bins[first]), groups

    return build


def classifier_learner(estimator: Any, rng: np.random.RandomState) -> Any:
    """For :meth:`Recipe.train`: a scikit-learn classifier; equal examples are one."""

    def build(
        X: FloatArray, labels: FloatArray, weights: FloatArray, expired: Callable[[], bool]
    ) -> tuple[ClassifierLearner, Any]:
        first, groups = _groups(X, labels)
        return ClassifierLearner(estimator, X[first], labels[first], rng), groups

    return build


def finite_learner(hypotheses: Sequence[Any]) -> Any:
    """For :meth:`Recipe.train`: given hypotheses."""

    def build(
        X: FloatArray, labels: FloatArray, weights: FloatArray, expired: Callable[[], bool]
    ) -> tuple[FiniteLearner, Any]:
        return FiniteLearner(evaluate(hypotheses, X) * labels, hypotheses, n_answers=20), None

    return build
