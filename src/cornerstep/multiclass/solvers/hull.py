"""The hull of dual points of which images are known, and its best point: a bound of the optimum.

``D(sum_k x_k A_k) = l'x - 1/2 x'Gx`` with ``G_ab = <W_a, W_b>``: the best x of the simplex is that
of a small program, to which a pass adds one row.  It starts from the x before and takes a step or
two.  The images lie as the rows of one matrix on the device, so that a row of G is one product
with it, and neither the best x nor its bound needs any other work there.

Where products are rounded the image is ``W(A) + E``, and what the probes find of E
(:mod:`cornerstep.multiclass.solvers.passes`) is linear too: ``|E q|² = x'Rx``.

References
----------
.. [1] B. von Hohenbalken. Simplicial decomposition in nonlinear programming algorithms.
   Mathematical Programming 13, 49-68, 1977.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cornerstep.multiclass.solvers.passes import PROBES, SAFETY, DualState, Rows
from cornerstep.multiclass.solvers.provenance import Provenance, blend
from cornerstep.optimiser.wolfe import Factor, improve

_STEPS = 200  # of the small program, at most
_FIRST = 16  # rows that a shelf begins with


class RowStack:
    """Arrays of one shape as the rows of a matrix, where the holder of the rows works.

    Parameters
    ----------
    rows : Rows
    size : int
        Entries of an array.
    count : int
        Rows there are room for at first.
    """

    def __init__(self, rows: Rows, size: int, count: int = _FIRST) -> None:
        self.rows = rows
        self.matrix = rows.zeros(count, size)

    def put(self, place: int, array: Any) -> None:
        """Make an array the row at a place."""
        count, size = self.matrix.shape
        if place >= count:
            wider = self.rows.zeros(2 * count, size)
            wider[:count, :] = self.matrix
            self.matrix = wider
        self.matrix[place, :] = array

    def combination(self, weights: np.ndarray) -> Any:
        """``sum_k weight_k row_k``."""
        return self.rows.send(weights) @ self.matrix[: weights.size, :]


class Hull:
    """Dual points, and the weights of the best point of their hull.

    Parameters
    ----------
    rows : Rows
    limit : int
        Points that are kept.  One without weight makes room for the next, the oldest first;
        if there is none, the two lightest become one.
    """

    def __init__(self, rows: Rows, limit: int) -> None:
        self.rows, self.limit = rows, limit
        nothing = rows.zero_state(kept=False)
        self._nothing = nothing
        self._images = RowStack(rows, math.prod(nothing.image.shape))
        self._errors = RowStack(rows, math.prod(nothing.probed.shape))
        self.clear()

    def clear(self) -> None:
        """Forget all points."""
        self.count = 0
        self.weights, self.linear = np.zeros(self.limit), np.zeros(self.limit)
        self.gram, self.rounding = (np.zeros((self.limit, self.limit)) for _ in range(2))
        self.provenance: list[Provenance | None] = [None] * self.limit
        self._order: list[int] = []  # oldest first
        self._place = 0

    def put(self, state: DualState) -> tuple[Any, Any]:
        """Give a point a place; its products with all points and of what their images lack.

        These stay on the device; :meth:`add` is to have them, as numbers.
        """
        self._place = place = self._room()
        image, error = (
            self.rows.xp.reshape(part, (-1,))
            for part in (state.image, self.rows.probe_errors(state))
        )
        self._images.put(place, image)
        self.provenance[place] = state.provenance
        if not error.shape[0]:
            return self._images.matrix @ image, error
        self._errors.put(place, error)
        return self._images.matrix @ image, self._errors.matrix @ error

    def add(self, linear: float, products: np.ndarray, errors: np.ndarray) -> None:
        """Make the point that was put last one of the hull; the first has all weight."""
        place, known = self._place, slice(self.count)
        self.linear[place] = linear
        self.gram[place, known] = self.gram[known, place] = products[known]
        if errors.size:
            self.rounding[place, known] = self.rounding[known, place] = errors[known]
        self._order.append(place)
        self.weights[place] = 1.0 if len(self._order) == 1 else 0.0

    def _room(self) -> int:
        """A place for the next point."""
        if self.count < self.limit:
            self.count += 1
            return self.count - 1
        place = next((k for k in self._order if self.weights[k] == 0.0), None)
        if place is None:
            place = self._merged()
        self._order.remove(place)
        self.weights[place] = 0.0
        return place

    def _merged(self) -> int:
        """Make one of the two lightest points; the place that is left over."""
        left, kept = np.argsort(self.weights)[:2].tolist()
        total = self.weights[left] + self.weights[kept]
        merge = np.zeros(self.limit)
        merge[[left, kept]] = self.weights[[left, kept]] / total
        for shelf in (self._images, self._errors):
            if shelf.matrix.shape[1]:
                shelf.put(kept, shelf.combination(merge))
        self.linear[kept] = merge @ self.linear
        for gram in (self.gram, self.rounding):
            row = merge @ gram
            gram[kept], gram[:, kept] = row, row
            gram[kept, kept] = merge @ row
        self.provenance[kept] = blend((float(merge[k]), self.provenance[k]) for k in (left, kept))
        self.weights[kept] = total
        return left

    def correct(self, accuracy: float) -> None:
        """Find the best weights, to so much of the dual value.

        A point that is better alone than the mixture is begun from, and what rounding makes worse
        is not taken: where the squares of points differ by more than float64 has digits, as
        between the first points and the last on features of very different sizes, mixtures with
        the large ones are known to few digits or none.
        """
        k = self.count
        gram, linear = self.gram[:k, :k], self.linear[:k]
        start = self.weights[:k].copy()
        alone = linear - 0.5 * gram.diagonal()
        alone[np.isnan(alone)] = -math.inf  # of sizes beyond float64
        best = int(np.argmax(alone))
        if alone[best] > self._value(start):
            start = np.zeros(k)
            start[best] = 1.0
        weights = start.copy()
        size = max(float(np.abs(gram).max()), float(np.abs(linear).max()))
        if 0.0 < size < math.inf:
            scaled = np.ascontiguousarray(gram / size)
            improve(scaled, linear / size, weights, accuracy / size, _STEPS, Factor())
        self.weights[:k] = weights if self._value(weights) >= self._value(start) else start

    def _value(self, weights: np.ndarray) -> float:
        """The dual value of a mixture, of the points that have weight."""
        used = np.flatnonzero(weights)
        some = weights[used]
        return float(some @ (self.linear[used] - 0.5 * (self.gram[np.ix_(used, used)] @ some)))

    def size(self) -> tuple[float, float]:
        """``|W|²`` of the best point, and a bound of the rounding of its image."""
        used = slice(self.count)
        weights = self.weights[used]
        square, error = (
            float(weights @ (of[used, used] @ weights)) for of in (self.gram, self.rounding)
        )
        return max(square, 0.0), SAFETY * math.sqrt(max(error, 0.0) / PROBES)

    def parts(self) -> list[tuple[float, Provenance | None]]:
        """What the best point is made of: weights, and where the points come from."""
        return [
            (weight, of)
            for weight, of in zip(self.weights.tolist(), self.provenance, strict=True)
            if weight
        ]

    def state(self) -> DualState:
        """The best point."""
        weights, nothing = self.weights[: self.count], self._nothing
        image = self.rows.xp.reshape(self._images.combination(weights), nothing.image.shape)
        state = nothing._replace(image=image, linear=float(self.linear @ self.weights))
        if 0 not in nothing.probed.shape:
            error = self.rows.xp.reshape(self._errors.combination(weights), nothing.probed.shape)
            state = state._replace(probed=self.rows.probe_errors(state) - error)
        return state._replace(provenance=blend(self.parts()))
