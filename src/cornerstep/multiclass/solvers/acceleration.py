"""Block ascent in proximal steps with momentum, for problems that sweeps alone do not get far on.

Where examples share much and C is large the blocks of a sweep overrule each other.  They do so
less in a problem whose weights are held back,

``min over W of P(W) + pull/2 |W - V|²``,

with a centre V.  Its dual blocks are those of the problem with scales ``s_i / (1 + pull)`` at
``W = (W(A) + pull V) / (1 + pull)``: the same sweeps on other numbers.  After a few of them the
centre moves on beyond W, as in Nesterov's method, so that of the order of ``sqrt(1 + pull)`` such
problems are solved.  A and W certify each other as they are, with P and D of the problem itself.

How hard to pull shows in D: it grows from step to step unless momentum makes too much of what the
sweeps have left undone.  So the pull is raised a little while D grows, and halved when it falls.

The weights of single steps differ by what their sweeps left undone; their mean has less of it and
is the better primal point.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.multiclass.problem import MulticlassProblem

_PULL = (3.0, 1000.0)  # at first and at least, and at most;
_RAISE, _LOWER = 1.1, 0.5  # factors after a step that raised the dual, and after another
_MEMORY = 8.0  # the mean is over about the last eighth of the steps


class Acceleration:
    """The centre, the pull towards it, and the mean of the weights.

    Parameters
    ----------
    weights : array
        W, and the first centre.
    """

    def __init__(self, weights: FloatArray) -> None:
        self.pull = _PULL[0]
        self.centre = self.mean = self._before = weights.copy()
        self._steps = 0
        self._momentum = 1.0
        self._highest = -math.inf

    def weights(self, own: FloatArray) -> FloatArray:
        """W of the dual points whose own weights ``W(A)`` these are."""
        return (own + self.pull * self.centre) / (1.0 + self.pull)

    def own(self, weights: FloatArray) -> FloatArray:
        """``W(A)`` of the dual points that have these weights."""
        return (1.0 + self.pull) * weights - self.pull * self.centre

    def record(self, problem: MulticlassProblem) -> tuple[Any, ...]:
        """The problem as sweeps take it, with its scales divided by ``1 + pull``."""
        labels, scales, *rest = problem.record
        return labels, scales / (1.0 + self.pull), *rest

    def advance(self, weights: FloatArray, dual: float) -> None:
        """Take a step that has led to these weights and to this D."""
        if dual < self._highest:
            self.pull = max(_LOWER * self.pull, _PULL[0])
            self._before = weights
        else:
            self.pull = min(_RAISE * self.pull, _PULL[1])
            self._highest = dual
        if self._before is weights or _turns_back(self.centre, weights, self._before):
            self._momentum = 1.0
        following = 0.5 + math.sqrt(0.25 + self._momentum**2)
        root = 1.0 / math.sqrt(1.0 + self.pull)
        beyond = min((self._momentum - 1.0) / following, (1.0 - root) / (1.0 + root))
        self._momentum = following
        self.centre = weights + beyond * (weights - self._before)
        self._before = weights.copy()
        self._steps += 1
        share = _MEMORY / (self._steps + _MEMORY)
        self.mean = self.mean + share * (weights - self.mean)


def _turns_back(centre: FloatArray, weights: FloatArray, before: FloatArray) -> bool:
    """Whether the way from the centre leads against the last step: momentum has gone too far."""
    return float(np.vdot(centre - weights, weights - before)) > 0.0
