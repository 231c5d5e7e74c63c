"""What the parts of a boosting run share: oracle, pool, the current and the best ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cornerstep.boosting.learners.trees import WeakLearner
from cornerstep.boosting.problem import Smoothed, SoftMargin
from cornerstep.boosting.solvers.ensembles import BestEnsemble, CurrentEnsemble, Step
from cornerstep.boosting.solvers.oracle import Oracle
from cornerstep.boosting.solvers.pool import Pool
from cornerstep.boosting.solvers.settings import MethodSettings
from cornerstep.core.types import FloatArray, IntArray


class RunState:
    """Oracle, pool, the current and the best ensemble of one run.

    Parameters
    ----------
    problem : SoftMargin
    learner : WeakLearner
    settings : MethodSettings

    Attributes
    ----------
    oracle : Oracle
    pool : Pool
    current : CurrentEnsemble
    best : BestEnsemble
    soft_margin : float
        Of the current ensemble.
    rounds : int
    """

    def __init__(self, problem: SoftMargin, learner: WeakLearner, settings: MethodSettings) -> None:
        self.problem, self.settings = problem, settings
        single = problem.eps >= settings.single_precision
        self.pool = Pool(problem.size, np.float32 if single else np.float64)
        self.oracle = Oracle(problem, learner, self.pool, settings.max_answers)
        self.current = CurrentEnsemble(problem)
        self.best = BestEnsemble(problem, settings.stage_ratio, latest=settings.textbook)
        self.soft_margin = -np.inf
        self.rounds = 0

    @property
    def gap(self) -> float:
        """What seems to be left between the best ensemble and the optimum."""
        return self.oracle.estimated_bound - self.best.soft_margin

    def begin_at(self, margins: FloatArray) -> None:
        """Put all weight on one hypothesis at hand."""
        self.go_to([self.pool.number(margins)], np.ones(1), margins.copy())

    def begin_from(self, hypotheses: Sequence[Any], weights: FloatArray) -> None:
        """Start from an ensemble of other hypotheses."""
        margins = self.oracle.learner.margins(hypotheses)
        self.pool.add(hypotheses, margins)
        numbers = [self.pool.number(row) for row in margins]
        self.go_to(numbers, np.asarray(weights, dtype=np.float64), weights @ margins)

    def go_to(
        self,
        numbers: Sequence[int] | IntArray,
        weights: FloatArray,
        image: FloatArray,
        smoothed: Smoothed | None = None,
    ) -> None:
        """Go to the ensemble with these weights; ``smoothed`` is g at its image, if known."""
        self.current.go_to(numbers, weights, image, smoothed)
        self._consider_current()

    def follow(self, step: Step, smoothed: Smoothed) -> None:
        """Take a Frank-Wolfe step; ``smoothed`` is g where it leads to."""
        self.current.follow(step, smoothed)
        self._consider_current()

    def consider(
        self, numbers: Sequence[int] | IntArray, weights: FloatArray, image: FloatArray
    ) -> None:
        """Keep an ensemble that the method does not go to, if it is the best so far."""
        if not self.settings.textbook:
            self.best.consider(numbers, weights, image, self.rounds)

    def _consider_current(self) -> None:
        at = self.current
        self.soft_margin = self.best.consider(at.numbers, at.weights, at.image, self.rounds)
