"""What the boosting methods keep: hypotheses at hand, ensembles of them, rays in margin space."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from cornerstep.problems.soft_margin import SoftMargin
from cornerstep.vectors import FloatArray

_PATIENCE = 2  # rounds for which a hypothesis may be far from useful before it is dropped


class Ensemble(NamedTuple):
    """A point of the simplex over hypotheses: those with weight, and their image ``A w``."""

    numbers: tuple[int, ...]
    weights: FloatArray
    image: FloatArray


class Pool:
    """The hypotheses at hand, a row of margins each; equal ones are kept once."""

    def __init__(self, n_examples: int) -> None:
        self.hypotheses: list[Any] = []  # all that ever came, by number
        self.numbers = np.empty(0, dtype=np.int64)  # those at hand
        self.idle = np.empty(0, dtype=np.int64)  # rounds without use
        self._rows = np.empty((64, n_examples))
        self._known: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self.numbers.size

    @property
    def margins(self) -> FloatArray:
        """``A'``: one row a hypothesis at hand."""
        return self._rows[: len(self)]

    def add(self, hypothesis: Any, margins: FloatArray) -> int | None:
        """Take a hypothesis in and answer its number; None if it is here already."""
        key = margins.tobytes()
        if key in self._known:
            return None
        if len(self) == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[len(self)] = margins
        number = len(self.hypotheses)
        self._known[key] = number
        self.hypotheses.append(hypothesis)
        self.numbers = np.append(self.numbers, number)
        self.idle = np.append(self.idle, 0)
        return number

    def number(self, margins: FloatArray) -> int:
        """The number of a hypothesis at hand."""
        return self._known[margins.tobytes()]

    def row(self, number: int) -> FloatArray:
        """The margins of a hypothesis at hand."""
        return self._rows[int(np.searchsorted(self.numbers, number))]

    def age(self, useful: Any, in_use: Iterable[int]) -> None:
        """Drop hypotheses that were not useful for some rounds and are not in use."""
        self.idle = np.where(useful, 0, self.idle + 1)
        leave = (self.idle >= _PATIENCE) & ~np.isin(self.numbers, list(in_use))
        if leave.any():
            for row in self.margins[leave]:
                del self._known[row.tobytes()]
            kept = self.margins[~leave]
            self._rows[: len(kept)] = kept
            self.numbers, self.idle = self.numbers[~leave], self.idle[~leave]


class ShortStep:
    """``slope / (eta |A(e - w)|_inf²)``: g is eta-smooth in the max norm."""

    monotone = True

    def __init__(self, eta: float) -> None:
        self.eta = eta

    def size(self, ray: MarginRay, max_step: float, time: float) -> float:
        length = float(abs(ray.change).max())
        if length == 0:
            return 0.0
        return min(max(-ray.slope, 0.0) / (self.eta * length**2), max_step)


class MarginRay:
    """``-g`` along ``z + t change``, for the step rules of the optimiser."""

    curvature = None

    def __init__(self, problem: SoftMargin, image: FloatArray, change: FloatArray) -> None:
        self.problem, self.image, self.change = problem, image, change
        self.slope = self.derivative(0.0)

    def derivative(self, step: float) -> float:
        return -float(self.problem.smoothed(self.image + step * self.change)[1] @ self.change)

    def value(self, step: float) -> float:
        return -self.problem.smoothed(self.image + step * self.change)[0]
