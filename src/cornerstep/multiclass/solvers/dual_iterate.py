"""Where block ascent is: its dual points, and the weights that its sweeps see and change."""

from __future__ import annotations

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.acceleration import Acceleration, AccelerationSettings
from cornerstep.multiclass.solvers.pool import (
    Entering,
    Pool,
    active_examples,
    coefficients_of,
    scan,
    sweep,
    with_entering,
)


class DualIterate:
    """Dual points A with weights: ``W(A)``, or what accelerated steps make of it.

    Parameters
    ----------
    problem : MulticlassProblem
    pool : Pool

    Attributes
    ----------
    pool : Pool
        Sweeps change its beta in place, but no array that a look has seen: a move begins with a
        new pool.
    image : array
        The image of the weights; changed in place by sweeps.
    acceleration : Acceleration or None
        What pulls the weights away from ``W(A)``, while steps are accelerated.
    """

    def __init__(self, problem: MulticlassProblem, pool: Pool) -> None:
        self.problem = problem
        self.pool = pool
        self.image = problem.examples.empty_image(problem.n_classes)
        self.acceleration: Acceleration | None = None
        self._record = problem.record  # as sweeps take it
        if pool[1].size:
            self.recompute_image()

    def recompute_image(self) -> None:
        """Compute the weights from the data, as exactly as these are held now."""
        coefficients = coefficients_of(
            self.pool, self.problem.labels, self.problem.scales, self.problem.n_classes
        )
        own = self.problem.examples.image(coefficients)
        self.image = self.acceleration.weights(own) if self.acceleration else own

    def own_image(self) -> FloatArray:
        """The image of ``W(A)``."""
        return self.acceleration.own(self.image) if self.acceleration else self.image

    def squared_norm(self) -> float:
        """``|W|²`` of the weights."""
        return self.problem.squared_norm(self.image, self.pool)

    def dual_value(self) -> float:
        """``D(A)``."""
        return self.problem.dual_value(self.own_image(), self.pool)

    def losses_at(self, image: FloatArray, *, exact: bool = True) -> float:
        """``sum_i s_i Phi_mu`` at other weights, in float64 if ``exact``."""
        unused = Entering.room(self.problem, 0)
        return float(scan(self.problem, self.pool, image, unused, exact=exact)[0].sum())

    def admit(self, entering: Entering) -> IntArray:
        """Let classes enter the pools; returns the examples that have some."""
        self.pool = with_entering(self.pool, entering)
        return active_examples(self.pool)

    def sweep(self, blocks: IntArray, seed: int) -> FloatArray:
        """One sweep over these blocks, which it shuffles; what each of them gained."""
        gains = np.zeros(blocks.size)
        for part, rows in self.problem.examples.runs(blocks, seed):
            gains[part] = sweep(blocks[part], seed, rows, self.image, self.pool, self._record)
        return gains * (1.0 + self.acceleration.pull) if self.acceleration else gains

    def advance(self, settings: AccelerationSettings) -> None:
        """Move the centre of the accelerated steps along; the first one begins them."""
        own, dual = self.own_image(), self.dual_value()
        if self.acceleration is None:
            self.acceleration = Acceleration(self.image, settings)
        else:
            self.acceleration.advance(self.image, dual)
        self.image = self.acceleration.weights(own)
        self._record = self.acceleration.record(self.problem)

    def end_acceleration(self) -> None:
        """Go on with ``W(A)``."""
        self.image, self.acceleration = self.own_image(), None
        self._record = self.problem.record
