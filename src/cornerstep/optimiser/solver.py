"""A Frank-Wolfe run: objective x domain x direction rule x step rule, as a solver for the loop."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cornerstep.domains.base import has_oracle
from cornerstep.objectives import Objective, Position, Ray
from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.loop import Look, Move, Solver
from cornerstep.optimiser.steps import StepRule
from cornerstep.vectors import Direction, FloatArray, Vector

# A step this close to the largest one is taken to be it: the blocking constraint becomes tight.
_BLOCKED = 1 - 1e-9


class Proposal(NamedTuple):
    """A direction to take, how far it may go, and the gap seen on the way to it."""

    direction: Direction
    max_step: float
    gap: float
    kind: str
    certified: bool = True


class Method:
    """A direction rule.  Options are attributes; :meth:`begin` starts a run on a copy of it.

    A rule says what it needs of the domain (``needs``) and which step rules make sense for it
    (``steps``; None: all of them, and yours).
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("lmo",)
    steps: ClassVar[tuple[str, ...] | None] = ("exact", "short", "backtracking")
    own_step: ClassVar[bool] = False  # whether the method brings its step rule along

    n_blocks: int = 1
    active_set: ActiveSet | None = None
    domain: Any
    oracle_calls: int

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        """Start a run at ``start``: a vertex, sparse if the domain's are, or the user's point."""
        self.domain = domain
        self.oracle_calls = 0

    def solver(self, objective: Objective, step: StepRule, position: Position) -> Solver:
        """What runs in the loop: looks with :meth:`propose`, moves with :meth:`advance`."""
        return FrankWolfeSolver(objective, self, step, position)

    def lmo(self, gradient: FloatArray) -> Vector:
        """The domain's oracle, counted."""
        self.oracle_calls += 1
        return self.domain.lmo(gradient)

    def away_lmo(self, gradient: FloatArray, x: FloatArray) -> Vector:
        """``argmax <gradient, v>`` over the vertices of the smallest face containing x, counted."""
        self.oracle_calls += 1
        return self.domain.in_face_lmo(-gradient, x)

    def propose(self, position: Position) -> Proposal:
        """The next direction at ``position``."""
        raise NotImplementedError

    def step_size(self, rule: StepRule, ray: Ray, proposal: Proposal, iteration: int) -> float:
        """How far to go: what the step rule says, inside [0, max_step]."""
        if math.isinf(proposal.max_step):  # P is bounded: the direction is 0 to rounding
            return 0.0
        size = rule.size(ray, proposal.max_step, iteration / self.n_blocks)
        if not size >= 0:
            raise ValueError(f"the step rule must answer a number >= 0, got {size!r}")
        return min(size, proposal.max_step)

    def settle(self, x: FloatArray, blocked: bool) -> None:
        """Clean up the new point, in place."""
        if blocked and has_oracle(self.domain, "snap"):
            self.domain.snap(x)

    def moved(self, proposal: Proposal, step: float, blocked: bool) -> None:
        """The step was taken."""

    def advance(
        self, position: Position, proposal: Proposal, rule: StepRule, iteration: int
    ) -> tuple[Position, Move]:
        """Take the step: by default a step along the proposed direction."""
        ray = position.along(proposal.direction)
        step = self.step_size(rule, ray, proposal, iteration)
        blocked = step >= _BLOCKED * proposal.max_step and math.isfinite(proposal.max_step)
        if blocked:
            step = proposal.max_step
        x = position.x + step * proposal.direction.dense
        self.settle(x, blocked)
        landed = ray.land(step, x)
        if not math.isfinite(landed.value + landed.inner):
            return position, Move(math.nan, proposal.kind)
        self.moved(proposal, step, blocked)
        drops = blocked and proposal.kind != "fw"
        return landed, Move(step, f"{proposal.kind}-drop" if drops else proposal.kind)


class Walk:
    """A position on its way: the method says where to, the step rule how far."""

    def __init__(
        self,
        objective: Objective,
        method: Method,
        step: StepRule,
        position: Position,
    ) -> None:
        self.objective = objective
        self.method = method
        self.step = step
        self.monotone = bool(getattr(step, "monotone", False)) and not method.own_step
        self.position = position
        self.extra_columns: tuple[str, ...] = getattr(objective, "extra_columns", ())
        self._counts = getattr(objective, "extra", None) or tuple
        self.iteration = 0

    @property
    def point(self) -> FloatArray:
        """The current x."""
        return self.position.x

    def _extra(self) -> tuple[Any, ...]:
        """What the objective adds to the trace."""
        return tuple(self._counts()) if self.extra_columns else ()

    def _is_finite(self) -> bool:
        return math.isfinite(self.position.value + self.position.inner)

    def _advance(self, proposal: Proposal) -> Move:
        self.position, move = self.method.advance(
            self.position, proposal, self.step, self.iteration
        )
        self.iteration += 1
        return move


class FrankWolfeSolver(Walk):
    """Looks with the direction rule, moves with the step rule, certifies by a full oracle call."""

    _proposal: Proposal | None = None
    _moving = False

    def look(self) -> Look:
        if not self._is_finite():
            return Look(self.position.value, math.nan)
        proposal = self._proposed()
        return Look(self.position.value, max(proposal.gap, 0.0), proposal.certified, self._extra())

    def _proposed(self) -> Proposal:
        """The method's proposal at the current position, made once."""
        if self._proposal is None:
            self._proposal = self.method.propose(self.position)
        return self._proposal

    def move(self) -> Move:
        self._moving = True
        move = self._advance(self._proposed())
        self._moving = False
        self._proposal = None
        return move

    def certify(self, point: FloatArray) -> Look:
        """Value, gradient and gap at ``point`` from the data, with one call of the full oracle."""
        if self._moving or point is not self.position.x:  # a move was cut short, or undone
            self.method.active_set = None
        position = self.objective.at(point)
        self.position = position
        self._proposal = None  # the fresh gradient may propose another step
        if not self._is_finite():  # f no longer answers at this point as it did
            return Look(position.value, math.inf, extra=self._extra())
        vertex = self.method.lmo(position.gradient)
        gap = position.inner - float(vertex @ position.gradient)
        return Look(position.value, max(gap, 0.0), extra=self._extra())
