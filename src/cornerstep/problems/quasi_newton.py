"""The pairs of a limited-memory quasi-Newton method, on images that a holder of rows works with.

With steps s_i, changes y_i of the gradient along them and a metric M the direction is the usual one
of two loops, made of Mg, the My_i and the s_i.  How much of each follows from their products with g
and with each other, so that the loops run on numbers: two calls for products a step.  On a device
each is one synchronisation, where loops on images would take twenty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cornerstep.problems.passes import Rows

Metric = Callable[[Any], Any]


class Pair(NamedTuple):
    """A step and how the gradient changed along it."""

    change: Any
    bend: Any
    scaled: Any  # what the metric makes of the bend


class Memory:
    """The last pairs.

    Parameters
    ----------
    rows : Rows
        Who can multiply images.
    metric : callable
        M: the inverse of a first guess of the Hessian, times an image.
    limit : int
        Pairs that are kept.
    """

    def __init__(self, rows: Rows, metric: Metric, limit: int) -> None:
        self.rows, self.metric, self.limit = rows, metric, limit
        self.clear()

    def clear(self) -> None:
        """Forget all pairs."""
        self.pairs: list[Pair] = []
        self._bent = np.zeros((0, 0))  # <s_i, y_j> for i <= j
        self._scaled = np.zeros((0, 0))  # <y_i, M y_j>

    def measure_by(self, metric: Metric) -> None:
        """Another metric from now on."""
        self.metric = metric
        self.pairs = [pair._replace(scaled=metric(pair.bend)) for pair in self.pairs]
        if self.pairs:
            bends = [pair.bend for pair in self.pairs]
            self._scaled = self.rows.dots([pair.scaled for pair in self.pairs], bends)

    def add(self, change: Any, bend: Any) -> None:
        """A pair more, if the gradient grew along it."""
        pairs = [*self.pairs[1 - self.limit :], Pair(change, bend, self.metric(bend))]
        k = len(pairs)
        images = [*(pair.change for pair in pairs), *(pair.scaled for pair in pairs)]
        found = self.rows.dots(images, [bend])[:, 0]
        if not found[k - 1] > 0.0:
            return
        bent, scaled = np.zeros((k, k)), np.zeros((k, k))
        bent[:-1, :-1] = self._bent[1 - k :, 1 - k :] if k > 1 else 0.0
        scaled[:-1, :-1] = self._scaled[1 - k :, 1 - k :] if k > 1 else 0.0
        bent[:, -1] = found[:k]
        scaled[:, -1] = scaled[-1, :] = found[k:]
        self.pairs, self._bent, self._scaled = pairs, bent, scaled

    def direction(self, gradient: Any) -> tuple[Any, float]:
        """Minus the inverse of the Hessian, as far as it is known, times g; the slope along it."""
        pairs, k = self.pairs, len(self.pairs)
        images = [self.metric(gradient)]
        images += [*(pair.scaled for pair in pairs), *(pair.change for pair in pairs)]
        found = self.rows.dots(images, [gradient])[:, 0]
        steps = self._bent.diagonal()
        weights, first = np.zeros(2 * k + 1), np.zeros(k)
        for i in reversed(range(k)):
            first[i] = (found[k + 1 + i] - self._bent[i] @ first) / steps[i]
        weights[0] = steps[-1] / self._scaled[-1, -1] if k else 1.0
        weights[1 : k + 1] = -weights[0] * first
        for i in range(k):
            along = weights[0] * (found[1 + i] - self._scaled[i] @ first)
            along += self._bent[:, i] @ weights[k + 1 :]
            weights[k + 1 + i] = first[i] - along / steps[i]
        return self.rows.combination(images, -weights), -float(weights @ found)
