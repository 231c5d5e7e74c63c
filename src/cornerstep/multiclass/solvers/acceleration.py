"""Block ascent in proximal steps with momentum, for problems that sweeps alone do not get far on.

*Problem.*  Where examples share much and C is large the blocks of a sweep overrule each other.
They do so less in a problem whose weights are held back,

``min over W of P(W) + pull/2 |W - V|²``,

with a centre V.  Its dual blocks are those of the problem with scales ``s_i / (1 + pull)`` at
``W = (W(A) + pull V) / (1 + pull)``: the same sweeps on other numbers.

*Algorithm*, with V = W at first.  For each step:

1. Some sweeps over the blocks of the held-back problem lead to W.
2. ``pull``: up a little if ``D(A)`` has grown, down to half if it has fallen, which it does when
   momentum makes too much of what the sweeps have left undone.
3. ``V = W + beyond (W - W_before)``, as in Nesterov's method, so that of the order of
   ``sqrt(1 + pull)`` such problems are solved; without momentum where D fell or where
   ``<V - W, W - W_before> > 0``, that is, where it has gone too far.
4. The mean of the weights of about the last eighth of the steps: those of single steps differ by
   what their sweeps left undone; the mean has less of it and is the better primal point.

A and W certify each other as they are, with P and D of the problem itself.

References
----------
- Yu. Nesterov. A method of solving a convex programming problem with convergence rate O(1/k²).
  Soviet Math. Doklady 1983.
- S. Shalev-Shwartz, T. Zhang. Accelerated proximal stochastic dual coordinate ascent for
  regularized loss minimization. ICML 2014; H. Lin, J. Mairal, Z. Harchaoui. A universal catalyst
  for first-order optimization. NIPS 2015: momentum around inexact proximal steps.
- B. O'Donoghue, E. Candès. Adaptive restart for accelerated gradient schemes. Found. Comput. Math.
  2015: when to drop the momentum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.multiclass.problem import MulticlassProblem


@dataclass(frozen=True)
class AccelerationSettings:
    """The numbers of accelerated steps.

    They were chosen together, on standardised mnist (all rows, C = 0.1: 4 s instead of 32; C = 1:
    13 s instead of some 350; C = 10, not solved before: 80 s).  "Measured" is looks and sweeps on
    19 smaller problems, see :class:`~cornerstep.multiclass.solvers.block_settings.BlockSettings`.
    """

    least_pull: float = 3.0
    """The first and the least pull, in units of the regulariser: momentum is of the order of
    ``1 - 1/sqrt(1 + pull)``, so that a smaller one has hardly any.  Measured: 1 takes 5 %
    more work, 10 takes 6 %, up to 46 % (digits)."""

    most_pull: float = 1000.0
    """The most: sweeps solve such a problem nearly exactly, and the centre moves slowly.
    Measured: never reached, on a part of mnist neither (100 changes 2 % at most); it keeps a pull
    that rises for ever from holding the weights where they are."""

    raise_pull: float = 1.1
    """Factor on the pull after a step that raised D.  Measured: without, 8 % more work, up to 2.7
    times (pendigits, standardised, C = 10); 1.3 takes the same."""

    lower_pull: float = 0.5
    """Factor on the pull after another.  Measured: 0.25 takes 1 % less work, 0.8 takes 3 % more, up
    to 49 % (usps, standardised, C = 10)."""

    memory: float = 8.0
    """The mean of the weights is over about the last 1/memory of the steps: a longer one remembers
    worse weights, a shorter one averages less.  Measured: 2 and 32 take 2 and 1 % more work, up to
    22 % (isolet)."""


class Acceleration:
    """The centre, the pull towards it, and the mean of the weights.

    Parameters
    ----------
    weights : array
        W, and the first centre.
    settings : AccelerationSettings, optional

    Attributes
    ----------
    pull : float
    centre : array
        V.
    mean : array
        Of the weights of the last steps.
    """

    def __init__(self, weights: FloatArray, settings: AccelerationSettings | None = None) -> None:
        self.settings = settings or AccelerationSettings()
        self.pull = self.settings.least_pull
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
        return problem.record_with(problem.scales / (1.0 + self.pull))

    def advance(self, weights: FloatArray, dual: float) -> None:
        """Set out for the next step, after one that led to these weights and to this D."""
        settings = self.settings
        if dual < self._highest:
            self.pull = max(settings.lower_pull * self.pull, settings.least_pull)
            self._before = weights
        else:
            self.pull = min(settings.raise_pull * self.pull, settings.most_pull)
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
        share = settings.memory / (self._steps + settings.memory)
        self.mean = self.mean + share * (weights - self.mean)


def _turns_back(centre: FloatArray, weights: FloatArray, before: FloatArray) -> bool:
    """Whether the way from the centre leads against the last step: momentum has gone too far."""
    return float(np.vdot(centre - weights, weights - before)) > 0.0
