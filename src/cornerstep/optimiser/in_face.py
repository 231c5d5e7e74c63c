"""Decomposition-invariant rules: the away vertex comes from the smallest face containing x.

No active set; memory O(n).  With ``a = argmax <g, .>`` over the face, the largest step is the
domain's ratio test, and a step that is blocked lands exactly on the blocking constraint.

References
----------
.. [1] D. Garber, O. Meshi. Linear-memory and decomposition-invariant linearly convergent
   conditional gradient algorithm for structured polytopes. NIPS 2016.
.. [2] M. A. Bashiri, X. Zhang. Decomposition-invariant conditional gradient for general polytopes
   with line search. NIPS 2017.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction, Vector, dense
from cornerstep.optimiser.objectives import Objective, Position, Ray
from cornerstep.optimiser.solver import Method, Proposal
from cornerstep.optimiser.steps import StepRule

_THETA = 52.0  # the constant of the theory of the away schedule
_SMALLEST = 2.0**-52  # a schedule ends where its steps would drown in rounding


class InFaceAway(Method):
    """Away steps without an active set (AFW-2): ``d = v - x`` or ``x - a``, the steeper."""

    name: ClassVar[str] = "di-away"
    needs: ClassVar[tuple[str, ...]] = ("lmo", "in_face_lmo", "max_step")

    def propose(self, position: Position) -> Proposal:
        vertex = self.lmo(position.gradient)
        gap = position.inner - float(vertex @ position.gradient)
        away = self.away_lmo(position.gradient, position.x)
        if gap >= float(away @ position.gradient) - position.inner:
            return Proposal(Direction.towards(position.x, vertex), 1.0, gap, "fw")
        direction = Direction.away(position.x, away)
        max_step = self.domain.max_step(position.x, direction.dense)
        return Proposal(direction, max_step, gap, "away")


class InFacePairwise(Method):
    """Pairwise steps without an active set (PFW-2): ``d = v - a``."""

    name: ClassVar[str] = "di-pairwise"
    needs: ClassVar[tuple[str, ...]] = ("lmo", "in_face_lmo", "max_step")

    def propose(self, position: Position) -> Proposal:
        vertex = self.lmo(position.gradient)
        gap = position.inner - float(vertex @ position.gradient)
        away = self.away_lmo(position.gradient, position.x)
        direction = Direction.between(vertex, away)
        max_step = self.domain.max_step(position.x, direction.dense)
        return Proposal(direction, max_step, gap, "pairwise")


class Schedule(Method):
    """Common to the fixed schedules: the constants of the theory, and exact integrality.

    All iterates are integer multiples of ``grid / q`` with q an integer that the schedule knows, so
    rounding errors are removed by rounding.
    """

    own_step: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = (
        "lmo", "in_face_lmo", "max_step", "diameter", "facial_constant", "grid",
    )  # fmt: skip

    def __init__(
        self,
        strong_convexity: float | None = None,
        lipschitz: float | None = None,
        cardinality: int | None = None,
    ) -> None:
        self.strong_convexity = strong_convexity
        self.lipschitz = lipschitz
        self.cardinality = cardinality

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        super().begin(objective, domain, start, rng)
        if not np.isin(dense(start), (0.0, domain.grid)).all():
            raise ValueError(f"x0 must be a vertex (or None) for method={self.name!r}")
        alpha = self._constant("strong_convexity", objective)
        beta = self._constant("lipschitz", objective)
        facial = domain.facial_constant(self.cardinality or domain.size)
        self._q = 1
        self._t = 0
        diameter = domain.diameter or 1.0  # of a point: any number does, it is solved
        self._c1 = math.nan
        with suppress(ArithmeticError, ValueError):  # squares of the scale under- or overflow
            self._constants(alpha, beta, diameter, facial)
        if not self._c1 > 0:
            raise ValueError(
                f"method={self.name!r} needs constants inside float64's range, got diameter "
                f"{diameter:g} and facial constant {facial:g}: scale the problem"
            )

    def _constant(self, name: str, objective: Objective) -> float:
        value = getattr(self, name) or getattr(objective, name)
        if value is None or not value > 0:
            raise ValueError(
                f"method={self.name!r} needs a positive {name}, got {value}: "
                f"give method={type(self).__name__}({name}=...)"
            )
        return float(value)

    def _constants(self, alpha: float, beta: float, diameter: float, facial: float) -> None:
        """Compute what the schedule is made of."""
        raise NotImplementedError

    def settle(self, x: FloatArray, blocked: bool) -> None:
        unit = self.domain.grid / self._q
        np.multiply(np.rint(x / unit), unit, out=x)
        if blocked:
            super().settle(x, blocked)


class AwaySchedule(Schedule, InFaceAway):
    """Away steps of fixed sizes ``1/q_t``, on simplex-like polytopes (AFW-1).

    For ``t < n_0`` FW steps with ``q_t = t``; then the smallest s >= 0 with
    ``q_t = 2^s q_(t-1) + 1`` (FW) or ``2^s q_(t-1) - 1`` (away) at least ``ceil(1/gamma_t)``, where
    ``gamma_t = M1/(52 M2) sqrt(c0) (1 - c1)^((t-1)/2)``.

    Parameters
    ----------
    strong_convexity, lipschitz : float, optional
        alpha and beta; by default the objective's.
    cardinality : int, optional
        Number of vertices in a decomposition of the optimum; by default the dimension.
    """

    name: ClassVar[str] = "di-away-schedule"

    def _constants(self, alpha: float, beta: float, diameter: float, facial: float) -> None:
        m1 = math.sqrt(alpha / (8 * facial))
        m2 = beta * diameter**2 / 2
        self._c1 = m1**2 / m2 * (_THETA - 4) / (4 * _THETA**2)
        self._n0 = math.ceil(1 / self._c1)
        c0 = 3 * m2 * math.log(self._n0) / self._n0 * (1 - self._c1) ** (1 - self._n0)
        self._gamma = m1 / (_THETA * m2) * math.sqrt(c0)

    def propose(self, position: Position) -> Proposal:
        if self._t + 1 >= self._n0:
            return super().propose(position)
        vertex = self.lmo(position.gradient)
        gap = position.inner - float(vertex @ position.gradient)
        return Proposal(Direction.towards(position.x, vertex), 1.0, gap, "fw")

    def step_size(self, rule: StepRule, ray: Ray, proposal: Proposal, iteration: int) -> float:
        self._t = t = iteration + 1
        if t < self._n0:
            self._q = t
        else:
            gamma = max(self._gamma * (1 - self._c1) ** ((t - 1) / 2), _SMALLEST)
            sign = 1 if proposal.kind == "fw" else -1
            wanted, power = math.ceil(1 / gamma), 1
            while power * self._q + sign < wanted:
                power *= 2
            self._q = power * self._q + sign
        return min(1 / self._q, proposal.max_step)


class PairwiseSchedule(Schedule, InFacePairwise):
    """Pairwise steps of fixed sizes, powers of 1/2, on simplex-like polytopes (PFW-1).

    The largest one below ``gamma_t = sqrt(c1) (1 - c1)^((t-1)/2)``, with ``c1 = alpha / (16 beta
    H_s D²)``.

    Parameters
    ----------
    strong_convexity, lipschitz : float, optional
        alpha and beta; by default the objective's.
    cardinality : int, optional
        Number of vertices in a decomposition of the optimum; by default the dimension.
    """

    name: ClassVar[str] = "di-pairwise-schedule"

    def _constants(self, alpha: float, beta: float, diameter: float, facial: float) -> None:
        self._c1 = alpha / beta / (16 * facial * diameter**2)

    def step_size(self, rule: StepRule, ray: Ray, proposal: Proposal, iteration: int) -> float:
        gamma = max(math.sqrt(self._c1) * (1 - self._c1) ** (iteration / 2), _SMALLEST)
        self._q = 1 << math.ceil(-math.log2(gamma))
        return min(1 / self._q, proposal.max_step)
