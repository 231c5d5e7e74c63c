"""The pairs of a limited-memory quasi-Newton method, on images that a holder of rows works with.

With steps s_i, changes y_i of the gradient along them and a metric M the direction is the usual one
of two loops, made of Mg, the My_i and the s_i.  How much of each follows from their products with g
and with each other: with U the upper triangle of ``<s_i, y_j>`` and D its diagonal

``U p = <s_i, g>``,   ``U'q = D p - c (<My_i, g> - <y_i, My_j> p)``,

the direction is ``-(c Mg - c sum_i p_i My_i + sum_i q_i s_i)``, ``c = <s, y> / <y, My>`` of the
last pair.  So the loops run on numbers.  All arrays lie as the rows of one matrix, and one product
with it gives what a step adds.

References
----------
.. [1] D. C. Liu, J. Nocedal. On the limited memory BFGS method for large scale optimization.
   Mathematical Programming 45, 503-528, 1989.
.. [2] R. H. Byrd, J. Nocedal, R. B. Schnabel. Representations of quasi-Newton matrices and their
   use in limited memory methods. Mathematical Programming 63, 129-156, 1994.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from cornerstep.core.types import FloatArray
from cornerstep.multiclass.solvers.hull import RowStack
from cornerstep.multiclass.solvers.passes import Rows

Metric = Callable[[Any], Any]


class Place(NamedTuple):
    """Weights, the gradient there, and what the metric makes of it."""

    image: Any
    gradient: Any
    scaled: Any


class Memory:
    """The last pairs.

    Parameters
    ----------
    rows : Rows
        Who works with images.
    metric : callable
        M: the inverse of a first guess of the Hessian, times an image or many.
    limit : int
        Pairs that are kept.
    """

    def __init__(self, rows: Rows, metric: Metric, limit: int) -> None:
        self.rows, self.metric, self.limit = rows, metric, limit
        shape = rows.zero_state(kept=False).image.shape
        self._shape, size = shape, math.prod(shape)
        places = limit + 1  # one for the pair that is not yet taken
        self._shelf = RowStack(rows, size, 2 * places + 1)  # s_i, My_i, Mg
        self._bends = RowStack(rows, size, places)  # y_i
        self._here: Place | None = None
        self.clear()

    def __len__(self) -> int:
        return len(self._order)

    def clear(self) -> None:
        """Forget all pairs."""
        places = self.limit + 1
        self._order: list[int] = []  # places of pairs, the oldest first
        self._bent = np.zeros((places, places))  # <s_i, y_j>
        self._scaled = np.zeros((places, places))  # <y_i, My_j>
        self._free = 0

    def forget_position(self) -> None:
        """What comes next is no step from here."""
        self._here = None

    def look(self, image: Any, gradient: Any) -> Any:
        """Go on to these weights; products for :meth:`set_products`, still on the device."""
        xp, places = self.rows.xp, self.limit + 1
        there = self._there = Place(image, gradient, self.metric(gradient))
        right = flat = xp.reshape(gradient, (-1,))
        self._shelf.put(2 * places, xp.reshape(there.scaled, (-1,)))
        if self._here is not None:
            step, bend, scaled = (
                xp.reshape(after - before, (-1,))
                for before, after in zip(self._here, there, strict=True)
            )
            self._shelf.put(self._free, step)
            self._shelf.put(places + self._free, scaled)
            self._bends.put(self._free, bend)
            right = xp.stack([flat, bend], axis=1)
        return self._shelf.matrix @ right

    def set_products(self, products: FloatArray) -> None:
        """The products that :meth:`look` gave, as numbers."""
        places = self.limit + 1
        columns = products.reshape(2 * places + 1, -1)
        self._along = columns[:, 0]
        if columns.shape[1] > 1:
            free = self._free
            self._bent[:, free] = columns[:places, 1]
            self._scaled[:, free] = self._scaled[free] = columns[places:-1, 1]

    def accept_pair(self) -> None:
        """Stay where the last look was; a pair more, if the gradient grew on the way."""
        grown = min(of[self._free, self._free] for of in (self._bent, self._scaled))
        if self._here is not None and grown > 0.0:
            self._order = [*self._order[-self.limit + 1 :], self._free]
            self._free = next(k for k in range(self.limit + 1) if k not in self._order)
        self._here = self._there

    def steepness(self, times: Metric) -> FloatArray:
        """``(<s, y> - <s, s>) / <s, Ts>`` of the pairs: t, where the Hessian is I + t T along s."""
        if not self._order:
            return np.empty(0)
        count = self.limit + 1
        steps = self._shelf.matrix[:count, :]
        images = self.rows.xp.reshape(steps, (count, *self._shape))
        others = self.rows.xp.reshape(times(images), (count, -1))
        squares, products = self.rows.read(
            self.rows.xp.sum(steps * steps, axis=1), self.rows.xp.sum(steps * others, axis=1)
        )
        kept = self._order
        return (self._bent.diagonal()[kept] - squares[kept]) / products[kept]

    def set_metric(self, metric: Metric) -> None:
        """Another metric from now on."""
        self.metric = metric
        places, bends, xp = self.limit + 1, self._bends.matrix, self.rows.xp
        images = xp.reshape(bends, (places, *self._shape))
        scaled = xp.reshape(metric(images), (places, -1))
        self._shelf.matrix[places : 2 * places, :] = scaled
        (found,) = self.rows.read(scaled @ bends.T)
        self._scaled = found.reshape(places, places)

    def direction(self) -> tuple[Any, float]:
        """Minus the inverse of the Hessian, as far as it is known, times g; the slope along it."""
        places, order = self.limit + 1, self._order
        weights, factor = np.zeros(2 * places + 1), 1.0
        if order:
            kept = np.array(order)
            bent, scaled = (of[np.ix_(kept, kept)] for of in (self._bent, self._scaled))
            factor = bent[-1, -1] / scaled[-1, -1]
            first = dtrtrs(bent, self._along[kept])[0]
            right = bent.diagonal() * first
            right -= factor * (self._along[places + kept] - scaled @ first)
            weights[kept] = dtrtrs(bent, right, trans=1)[0]
            weights[places + kept] = -factor * first
        weights[-1] = factor
        direction = self.rows.xp.reshape(self._shelf.combination(-weights), self._shape)
        return direction, -float(weights @ self._along)
