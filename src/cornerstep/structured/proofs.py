"""What a look at a structured SVM proves: its rounding, and what is kept of it for Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.core.clock import work_seconds
from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray
from cornerstep.optimiser.loop import Look

_PROMPT = 0.3  # seconds that a look may take when somebody waits for the end


def value_error(examples: Any, lam: float, w: FloatArray, hinge: float) -> float:
    """A bound of the rounding of P(w), whose mean hinge is ``hinge``.

    Scores are sums of products ``phi_k w_k``, of the size ``examples.terms(w)`` on average.
    """
    unit = gamma(examples.longest + examples.n) + examples.inexact
    scores = unit * (4.0 * examples.terms(w) + hinge)
    return scores + gamma(examples.size + 8) * (hinge + lam * float(w @ w))


def primal(examples: Any, lam: float, w: FloatArray, hinges: FloatArray) -> tuple[float, float]:
    """P(w), from the hinges of the examples, and its rounding."""
    hinge = examples.mean(np.maximum(hinges, 0.0))
    return hinge + 0.5 * lam * float(w @ w), value_error(examples, lam, w, hinge)


def bound_error(
    examples: Any, lam: float, w: FloatArray, linear: float, n_terms: int, outside: float = 0.0
) -> float:
    """The same of ``l - lambda/2 |w|²``, the entries of w being sums of so many terms.

    ``outside`` is by how much blocks may have left their domains, relatively.
    """
    unit = gamma(examples.longest + n_terms) + examples.inexact + outside
    first = unit * (4.0 * examples.terms(w) + abs(linear))
    error = unit * examples.width
    last = gamma(examples.size + 8) * (abs(linear) + lam * float(w @ w))
    return first + 0.5 * error * error / lam + last


class Waiting:
    """A solver whose looks may be long: somebody who presses Ctrl-C does not wait for another.

    What the best look so far has proven is kept, with its point.
    """

    examples: Any
    _proof: tuple[Any, Look] | None = None
    _seconds = 0.0  # that a look takes

    @property
    def interrupted(self) -> Callable[[], bool]:
        """Whether somebody has pressed Ctrl-C; decoding asks."""
        ask: Callable[[], bool] = self.examples.interrupted
        return ask

    @interrupted.setter
    def interrupted(self, ask: Callable[[], bool]) -> None:
        self.examples.interrupted = ask

    def keep(self, point: Any, look: Look, begin: float) -> Look:
        """Keep a full look that began then, if it is the best so far."""
        self._seconds = work_seconds() - begin
        if self._proof is None or look.value <= self._proof[1].value:
            self._proof = point, look
        return look

    def proof(self) -> tuple[Any, Look] | None:
        """The best point that is proven, if nobody should wait for another look."""
        waited = self.examples.interrupted()
        self.examples.interrupted = never  # a look that follows is the last one
        return self._proof if waited and self._seconds > _PROMPT else None


def never() -> bool:
    """What decoding asks before a run tells it whom to ask."""
    return False
