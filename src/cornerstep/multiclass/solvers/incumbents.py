"""The best weights and the best dual points that a run has seen, which certify each other."""

from __future__ import annotations

import math
from typing import NamedTuple

from cornerstep.core.types import FloatArray
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.multiclass.solvers.pool import Pool
from cornerstep.optimiser.loop import Look


class PrimalPoint(NamedTuple):
    """Weights: their image and, with a kernel, the dual points (or a multiple) they are made of."""

    image: FloatArray
    pool: Pool


class Incumbents:
    """The best of both sides; they need not belong to each other.

    Parameters
    ----------
    point : PrimalPoint
        To return if no look comes to pass.

    Attributes
    ----------
    point : PrimalPoint
        The best weights, never changed in place.
    value, dual : float
        P of the best weights, D of the best dual points.
    earlier_duals : Pool or None
        The best dual points, where those that the sweeps are at are worse.
    """

    def __init__(self, point: PrimalPoint) -> None:
        self.point, self.value = point, math.inf
        self.dual = -math.inf
        self.earlier_duals: Pool | None = None

    @property
    def gap(self) -> float:
        """By how much either can be off."""
        return max(self.value - self.dual, 0.0)

    def look(self, rounding: Rounding, sweeps: int) -> Look:
        """What the loop is told, after so many sweeps."""
        return certified(self.value, self.dual, rounding, (self.dual, sweeps))

    def set_weights(self, value: float, point: PrimalPoint) -> None:
        """Take these weights for the best."""
        self.value, self.point = value, point

    def offer_dual(self, dual: float, pool: Pool, *, may_fall: bool) -> None:
        """Take these dual points if they are the best; keep them if the next may be worse."""
        if dual >= self.dual:
            self.dual, self.earlier_duals = dual, pool if may_fall else None

    def keep_duals(self, pool: Pool) -> None:
        """Keep a copy of dual points that sweeps are about to change in place."""
        starts, classes, beta = pool
        self.earlier_duals = starts, classes, beta.copy()

    def duals(self, current: Pool) -> Pool:
        """The best dual points, if the sweeps are at these."""
        return current if self.earlier_duals is None else self.earlier_duals
