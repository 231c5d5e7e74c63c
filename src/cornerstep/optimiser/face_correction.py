"""Exact corrections over coordinates: the minimum of a quadratic over part of a face.

Of a domain of bounds and sums (:mod:`cornerstep.optimiser.small_form`) the coordinates between
their bounds are free.  A correction frees those of the others that promise most, many at a time,
and minimises over them all by the small programs of :mod:`cornerstep.optimiser.wolfe`; the rest
stays where it is.  What a coordinate promises is the slope along it, less the level of its group,
times the way to its other bound: its share of the gap.

References
----------
.. [1] P. Wolfe. Finding the nearest point in a polytope. Mathematical Programming 11, 128-149,
   1976.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import Vector, single_entries
from cornerstep.optimiser.correction import Correction, solve_small
from cornerstep.optimiser.objectives import Correctable, Position
from cornerstep.optimiser.small_form import SmallForm

_NEW = 32  # coordinates on either side that the first correction frees; twice as many if short

_KEPT, _FEW = 4, 512  # coordinates that stay known: so many times those needed, or so many
_STEP = 8.0  # multiply-adds of a factorisation that one of the small program takes the time of


class FaceCorrection:
    """The free coordinates, and what is known of the products of their columns.

    Parameters
    ----------
    objective : Correctable
    form : SmallForm
        Of bounds and sums.
    """

    def __init__(self, objective: Correctable, form: SmallForm) -> None:
        self._form, self._units = form, form.units
        self._ways = np.minimum(form.caps, np.append(form.goals, np.inf)[form.groups])
        self._products = Correction(objective)
        self.work = 0.0  # multiply-adds of the last correction, about
        self.clear()

    def clear(self) -> None:
        """Forget all products."""
        self._products.clear()
        self._held: IntArray = np.empty(0, dtype=np.int64)
        self._room, self._leapt = _NEW, False

    def minimise(
        self, position: Position, vertex: FloatArray, tol: float, most: int, budget: float,
        expired: Callable[[], bool],
    ) -> FloatArray | None:  # fmt: skip
        """A better point, with a gap of ``tol`` over these coordinates.

        At a vertex from where more of them lead down, once, the oracle's vertex instead.  None of
        more than ``most`` coordinates, or of more work than the budget, in multiply-adds.
        """
        form, n = self._form, position.x.size
        y = form.coordinates(position.x)
        slopes = np.zeros(y.size)
        slopes[:n] = position.gradient * self._units
        free = (y > 0) & (y < form.caps)
        levels = self._levels(y, slopes, free)
        excess = slopes - levels[form.groups]
        promise = np.where(y > 0, excess, -excess) * self._ways
        promise[free] = 0.0
        count = int(np.count_nonzero(free))
        if count + 2 * self._room > most:
            return None
        sides = [np.flatnonzero(side & (promise > 0)) for side in (y > 0, y == 0)]
        if max(side.size for side in sides) > self._room:
            if not self._leapt:
                self._leapt = True
                return vertex
            room = self._room
            sides = [side[(-promise[side]).argsort()[:room]] for side in sides]
            self._room *= 2
        wanted = np.union1d(np.flatnonzero(free | self._even), np.concatenate(sides))
        new = np.count_nonzero(~np.isin(wanted, self._held))
        image, before = self._products.objective.image_size, self._products.factor.work
        self.work = float(new * wanted.size * (image + _STEP * wanted.size))
        if self.work > budget:
            return None
        held = self._hold(wanted, promise, most)
        out = solve_small(
            self._products.gram, y[held], slopes[held], tol, expired,
            self._products.factor, form.caps[held], form.groups[held],
        )  # fmt: skip
        self.work = float(new * held.size * image) + _STEP * (self._products.factor.work - before)
        real = held < n
        return self._moved(position.x, held[real], out[real])

    def _levels(self, y: FloatArray, slopes: FloatArray, free: Any) -> FloatArray:
        """The slope of free coordinates by group; without any, up to which it is best filled."""
        form = self._form
        levels, self._even = np.zeros(form.goals.size + 1), np.zeros(y.size, dtype=bool)
        for b, goal in enumerate(form.goals):
            mine = form.groups == b
            inside = mine & free
            if inside.any():
                levels[b] = float(slopes[inside] @ y[inside]) / float(y[inside].sum())
            elif mine.any():
                order = np.flatnonzero(mine)
                order = order[slopes[order].argsort()]
                full = int(np.searchsorted(form.caps[order].cumsum(), goal))
                last = order[min(full, order.size - 1)]
                levels[b], self._even[last] = slopes[last], True
        return levels

    def _hold(self, wanted: IntArray, promise: FloatArray, most: int) -> IntArray:
        """Know the products of these coordinates, and of some seen before; their order."""
        needed = np.isin(self._held, wanted)
        others = np.flatnonzero(~needed)
        room = max(min(max(_KEPT * wanted.size, _FEW), most) - wanted.size, 0)
        others = others[(-promise[self._held[others]]).argsort()[:room]]
        kept = np.sort(np.concatenate([np.flatnonzero(needed), others]))
        self._products.keep(kept)
        held = self._held[kept]
        new = np.setdiff1d(wanted, held)
        n = self._units.size
        units = np.append(self._units, np.zeros(self._form.caps.size - n))[new]
        atoms: list[Vector] = [*single_entries(np.minimum(new, n - 1), units, n)]
        self._products.extend(atoms)
        self._held = np.concatenate([held, new])
        return self._held

    def _moved(self, x: FloatArray, coordinates: IntArray, y: FloatArray) -> FloatArray:
        """The point with these y; on its bounds exactly where y is."""
        form, out = self._form, x.copy()
        base, caps = form.base[coordinates], form.caps[coordinates]
        far = base + self._units[coordinates] * np.where(np.isfinite(caps), caps, 0.0)
        out[coordinates] = np.where(y < caps, base + self._units[coordinates] * y, far)
        return out
