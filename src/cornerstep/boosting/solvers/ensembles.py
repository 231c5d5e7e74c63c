"""Ensembles: the one that a method is at, and the best one so far.

Hypotheses are known by their number in the :class:`~cornerstep.boosting.solvers.pool.Pool`.  The
image ``z = A w`` is kept with the weights, so that a round costs O(m) beside weak learner and
master.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cornerstep.boosting.problem import Smoothed, SoftMargin
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector
from cornerstep.optimiser.active_set import ActiveSet

_UNLIMITED = 2**31 - 1  # the simplex grows with the hypotheses


class Ensemble(NamedTuple):
    """A point of the simplex over hypotheses: those with weight, and their image ``A w``."""

    numbers: tuple[int, ...]
    weights: FloatArray
    image: FloatArray


class Step(NamedTuple):
    """A Frank-Wolfe step, not yet taken: the margins it leads to, and what it does to the set."""

    image: FloatArray
    size: float
    kind: str
    apply: Callable[[ActiveSet], None]


def atom(number: int) -> SparseVector:
    """The vertex of the simplex that is hypothesis ``number``."""
    return SparseVector(np.array([number]), np.array([1.0]), _UNLIMITED)


class CurrentEnsemble:
    """The weights w that a method is at.

    Parameters
    ----------
    problem : SoftMargin

    Attributes
    ----------
    numbers, weights : arrays of the same length
        The hypotheses with weight.
    image : array of shape (m,)
        ``A w``.
    g, gradient : float and array of shape (m,)
        ``g(A w)`` and the distribution that is its gradient.
    """

    def __init__(self, problem: SoftMargin) -> None:
        self.problem = problem
        self.numbers = np.empty(0, dtype=np.int64)
        self.weights = self.image = self.gradient = np.empty(0)
        self.g = -math.inf
        self._active: ActiveSet | None = None

    def go_to(
        self,
        numbers: Sequence[int] | IntArray,
        weights: FloatArray,
        image: FloatArray,
        smoothed: Smoothed | None = None,
    ) -> None:
        """Go to the ensemble with these weights; ``smoothed`` is g at its image, if known."""
        support = weights > 0
        self.numbers, self.weights = np.asarray(numbers)[support], weights[support]
        self._active = None
        self._set_image(image, smoothed)

    def follow(self, step: Step, smoothed: Smoothed) -> None:
        """Take a Frank-Wolfe step; ``smoothed`` is g where it leads to."""
        step.apply(self._active_set())
        self.sort_as_active_set()
        self._set_image(step.image, smoothed)

    def sort_as_active_set(self) -> None:
        """Let numbers and weights be those of the active set, in its order."""
        active = self._active_set()
        numbers = [int(vertex.indices[0]) for vertex in active.atoms]  # type: ignore[union-attr]
        self.numbers, self.weights = np.array(numbers), active.weights.copy()

    def _active_set(self) -> ActiveSet:
        """The active set of the ensemble; built when a step needs it, not after every master."""
        if self._active is None:
            total = 0.0
            for number, weight in zip(self.numbers.tolist(), self.weights, strict=True):
                total += weight
                if self._active is None:
                    self._active = ActiveSet(atom(number))
                else:
                    self._active.towards(atom(number), weight / total)
        assert self._active is not None
        return self._active

    def _set_image(self, image: FloatArray, smoothed: Smoothed | None) -> None:
        self.image = image
        self.g, self.gradient = smoothed or self.problem.smoothed(image)


class BestEnsemble:
    """The ensemble of largest soft margin so far, and those on the way to it.

    Parameters
    ----------
    problem : SoftMargin
    stage_ratio : float
        See :class:`~cornerstep.boosting.solvers.settings.MethodSettings`.
    latest : bool, default=False
        Whether the last one counts as the best.

    Attributes
    ----------
    ensemble : Ensemble
    soft_margin : float
    stages : list of tuples of round and Ensemble
        As the soft margin rose.
    """

    def __init__(self, problem: SoftMargin, stage_ratio: float, latest: bool = False) -> None:
        self.problem, self.stage_ratio, self.latest = problem, stage_ratio, latest
        self.soft_margin = -math.inf
        self.stages: list[tuple[int, Ensemble]] = []
        self.ensemble: Ensemble

    def consider(
        self,
        numbers: Sequence[int] | IntArray,
        weights: FloatArray,
        image: FloatArray,
        round_number: int,
    ) -> float:
        """Keep an ensemble if its soft margin, the answer, is the largest so far."""
        soft_margin = self.problem.value(image)
        if self.latest or not self.stages or soft_margin > self.soft_margin:
            support = weights > 0
            kept = np.asarray(numbers)[support].tolist()
            self.soft_margin = soft_margin
            self.ensemble = Ensemble(tuple(kept), weights[support], image)
            self._record(round_number)
        return soft_margin

    def _record(self, round_number: int) -> None:
        """Keep the ensemble as a stage: all of the first rounds, then ever fewer."""
        stage = (round_number, self.ensemble)
        if len(self.stages) < 2 or round_number > self.stage_ratio * self.stages[-2][0]:
            self.stages.append(stage)
        else:
            self.stages[-1] = stage

    def correct(self, ensemble: Ensemble) -> None:
        """Let this be the best one, with an image recomputed from the data."""
        self.ensemble = ensemble
        self.soft_margin = self.problem.value(ensemble.image)
        self.stages[-1] = (self.stages[-1][0], ensemble)
