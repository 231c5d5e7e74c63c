"""A Frank-Wolfe run: objective x domain x direction rule x step rule, as a solver for the loop.

References
----------
.. [1] M. Frank, P. Wolfe. An algorithm for quadratic programming. Naval Research Logistics
   Quarterly 3, 95-110, 1956.
.. [2] M. Jaggi. Revisiting Frank-Wolfe: projection-free sparse convex optimization. ICML 2013.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cornerstep.core.clock import OutOfTimeError, asking, never, work_seconds
from cornerstep.core.rounding import EPSILON, TINY, gamma
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction, Vector, dense
from cornerstep.domains.base import as_vertex, has_oracle, reach, vertex_of
from cornerstep.domains.box import Box
from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.agreement import SLACK, check_convex, check_oracle, check_step
from cornerstep.optimiser.loop import Look, Move, Solver, claimed
from cornerstep.optimiser.objectives import Objective, Position, Ray, errors_of
from cornerstep.optimiser.steps import StepRule

# A step this close to the largest one is taken to be it: the blocking constraint becomes tight.
_BLOCKED = 1 - 1e-9

# Value and gradient are computed anew from the data, and their rounding with them, each time the
# gap has fallen by this factor: increments drift, and a run that nears rounding has to know.
_RENEW = 1e-6

_GRACE = 0.5  # seconds that a certificate may take after Ctrl-C: else one proven before is told


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
    objective: Objective
    domain: Any
    oracle_calls: int
    walk: SteppingState  # the run's position

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        """Start a run at ``start``: a vertex, sparse if the domain's are, or the user's point."""
        self.objective = objective
        self.domain = domain
        self.oracle_calls = 0

    def restart(self, x: FloatArray) -> None:
        """Go on from x, the last point that the domain contains: later moves are undone."""

    def solver(self, objective: Objective, step: StepRule, position: Position) -> Solver:
        """What runs in the loop: looks with :meth:`propose`, moves with :meth:`advance`."""
        self.walk = walk = FrankWolfeSolver(objective, self, step, position)
        return walk

    def expired(self) -> bool:
        """Whether the run is to end; long moves ask.  The loop puts its own answer here."""
        return False

    def aim(self, value: float) -> float:
        """The gap that counts as solved at this value.  The loop puts its own answer here."""
        return 0.0

    def lmo(self, gradient: FloatArray) -> Vector:
        """The domain's oracle, counted."""
        self.oracle_calls += 1
        return vertex_of(self.domain, gradient)

    def away_lmo(self, gradient: FloatArray, x: FloatArray) -> Vector:
        """``argmax <gradient, v>`` over the vertices of the smallest face containing x, counted."""
        self.oracle_calls += 1
        answer = self.domain.in_face_lmo(-gradient, x)
        return as_vertex(answer, x.size, "domain.in_face_lmo(gradient, x)")

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
        if not math.isfinite(ray.slope + (ray.curvature or 0.0)):
            return position, Move(math.nan, proposal.kind)
        step = self.step_size(rule, ray, proposal, iteration)
        blocked = step >= _BLOCKED * proposal.max_step and math.isfinite(proposal.max_step)
        if blocked:
            step = proposal.max_step
        x = position.x + step * proposal.direction.dense
        self.settle(x, blocked)
        if step > 1 and not is_inside(self.domain, x):  # rounding, grown by extrapolation
            return position, Move(0.0, proposal.kind)
        landed = ray.land(step, x)
        if not math.isfinite(landed.value + landed.inner):
            return position, Move(math.nan, proposal.kind)
        check_step(self.objective, position, ray, step, landed)
        self.moved(proposal, step, blocked)
        drops = blocked and proposal.kind != "fw"
        return landed, Move(step, f"{proposal.kind}-drop" if drops else proposal.kind)


def is_inside(domain: Any, x: FloatArray) -> bool:
    """Whether x satisfies the constraints of the domain, as far as it can tell."""
    return not has_oracle(domain, "contains") or bool(domain.contains(x))


def gap_rounding(
    domain: Any, x: FloatArray, value: float, gradient: FloatArray, vertex: Vector, gap: float,
    errors: tuple[float, FloatArray],
) -> float:  # fmt: skip
    """What ``f(y) >= f(x) - gap``, with the gap to the oracle's vertex, may be off by.

    Parameters
    ----------
    domain, x, value, gradient, vertex, gap
    errors : tuple of float and array
        Of the value and of the entries of the gradient.
    """
    value_error, gradient_errors = errors
    gradient_errors = gradient_errors + gamma(gradient.size + 4) * np.abs(gradient)
    rounding = (
        value_error
        + reach(domain, gradient_errors, x)
        + 8 * EPSILON * (abs(value) + gap)
        + TINY * int(np.count_nonzero(gradient))  # products that underflow
    )
    if has_oracle(domain, "lmo_error"):
        rounding += float(domain.lmo_error(gradient, vertex))
    return claimed(rounding)


class SteppingState:
    """A position on its way: the method says where to, the step rule how far.

    Parameters
    ----------
    objective, method, step
    position : Position
        Where it starts.
    proves : bool
        Whether its certificates include rounding; one of an inner problem need not.
    """

    def __init__(
        self,
        objective: Objective,
        method: Method,
        step: StepRule,
        position: Position,
        *,
        proves: bool = True,
    ) -> None:
        self.objective = objective
        self.method = method
        self.step = step
        self.proves = proves
        self.monotone = bool(getattr(step, "monotone", False)) and not method.own_step
        self.position = position
        self.extra_columns: tuple[str, ...] = getattr(objective, "extra_columns", ())
        self._counts = getattr(objective, "extra", None) or tuple
        self.iteration = 0
        self.is_near = False  # whether it may start at an optimum, whose gap is rounding
        self._inside = position.x  # the last point that was found to be in the domain
        self._rounding = 0.0  # of the last certificate
        self._promise = -math.inf, position.x  # the best bound of any look, and where it was
        self._proven = -math.inf  # the best bound of any certificate
        self.interrupted: Callable[[], bool] = never
        if not self._is_allowed(position.x):
            raise ValueError(
                f"{method.domain!r} must contain the point that its oracle starts from; its own "
                "contains() denies it"
            )

    @property
    def point(self) -> FloatArray:
        """The current x."""
        return self.position.x

    @property
    def expired(self) -> Callable[[], bool]:
        """Whether the run is to end, as the loop says; its method asks in long moves."""
        return self.method.expired

    @expired.setter
    def expired(self, answer: Callable[[], bool]) -> None:
        self.method.expired = answer  # type: ignore[method-assign]

    @property
    def aim(self) -> Callable[[float], float]:
        """The gap that counts as solved at a value, as the loop says; its method asks."""
        return self.method.aim

    @aim.setter
    def aim(self, answer: Callable[[float], float]) -> None:
        self.method.aim = answer  # type: ignore[method-assign, assignment]

    def _extra(self) -> tuple[Any, ...]:
        """What the objective adds to the trace."""
        return tuple(self._counts()) if self.extra_columns else ()

    def _is_finite(self) -> bool:
        return math.isfinite(self.position.value + self.position.inner)

    def _is_allowed(self, x: FloatArray) -> bool:
        """Whether the answer may be x.

        Where membership is a program of its own, combinations of vertices are believed.
        """
        domain = self.method.domain
        in_faces = "in_face_lmo" in self.method.needs
        return not (in_faces or getattr(domain, "cheap_contains", True)) or is_inside(domain, x)

    def _advance(self, proposal: Proposal) -> Move:
        self.position, move = self.method.advance(
            self.position, proposal, self.step, self.iteration
        )
        self.iteration += 1
        return move

    def _look(self, gap: float, certified: bool = True) -> Look:
        """The look of a gap that was found by increments, with the rounding last known."""
        position, rounding = self.position, self._rounding
        self._check_gap(gap)
        value, gap = position.value, claimed(gap) + rounding
        certified = certified and not getattr(position, "estimate", False)
        if certified and self._promise[0] - value > SLACK * abs(value):
            self._check_promise(position.x)
        if certified and value - gap > self._promise[0]:
            self._promise = value - gap, position.x
        return Look(value, gap, certified, self._extra(), rounding)

    def _check_gap(self, gap: float) -> None:
        """Complain if x itself is better than what the oracle has found for its gradient."""
        position = self.position
        if gap < -SLACK * abs(position.inner):
            vertex = vertex_of(self.method.domain, position.gradient)
            check_oracle(position.gradient, vertex, position.x)

    def _check_promise(self, x: FloatArray) -> None:
        """Complain if x has a value below an earlier bound, and rounding is not the reason."""
        there = self.objective.at(self._promise[1])
        check_convex(self.objective, there, self.objective.at(x))
        vertex = self.method.lmo(there.gradient)
        check_oracle(there.gradient, vertex, x)
        self._promise = -math.inf, x

    def _go_to(self, point: FloatArray) -> bool:
        """Compute the position at ``point`` from the data, and say whether it could stay there.

        The one place where answers are checked against the domain's own constraints: the last point
        that satisfied them takes the place of one that does not.
        """
        x = point
        if has_oracle(self.method.domain, "snap"):
            x = point.copy()
            self.method.domain.snap(x)
            x = point if np.array_equal(x, point) else x
        allowed = self._is_allowed(x)
        if allowed:
            self._inside = x
        self.position = self.objective.at(self._inside)
        return allowed

    def _prove(self, vertex: Vector) -> Look:
        """The certificate of the current position, which is fresh, and the oracle's answer there.

        ``f(y) >= f(x) + <grad f(x), y - x>`` for all y of the domain.  Added to the gap is what
        this may be off by: the errors of f(x) and of grad f(x), of the sum, and of the oracle.
        """
        position, domain = self.position, self.method.domain
        value, gradient = position.value, position.gradient
        gap = float(gradient @ (position.x - dense(vertex)))
        self._check_gap(gap)
        gap = claimed(gap)
        self._rounding = 0.0
        if self.proves:
            errors = errors_of(self.objective, position)
            self._rounding = gap_rounding(domain, position.x, value, gradient, vertex, gap, errors)
        gap += self._rounding
        self._proven = max(self._proven, value - gap)
        return Look(value, gap, True, self._extra(), self._rounding)

    def _certificate(self, answer: Callable[[], Vector]) -> tuple[Look, bool]:
        """The certificate of the current position by the oracle's answer there; whether it is.

        Somebody who has pressed Ctrl-C does not wait for a long answer: then the bound is the best
        that was proven before.
        """
        pressed = math.inf

        def is_urgent() -> bool:
            nonlocal pressed
            if self.interrupted():
                pressed = min(pressed, work_seconds())
            return work_seconds() - pressed > _GRACE

        try:
            with asking(never, is_urgent):
                return self._prove(answer()), True
        except OutOfTimeError:
            value, (error, _) = self.position.value, errors_of(self.objective, self.position)
            gap = claimed(value + error - max(self._proven, self._outer_bound()))
            return Look(value, gap, True, self._extra()), False

    def _outer_bound(self) -> float:
        """A lower bound of f over the box around the domain, for which no program is solved."""
        domain, position = self.method.domain, self.position
        bounds = domain.constraints if has_oracle(domain, "constraints") else None
        if bounds is None or not np.isfinite(np.subtract(bounds.upper, bounds.lower)).all():
            return -math.inf
        box = Box(bounds.lower, bounds.upper)
        value, gradient, vertex = position.value, position.gradient, box.lmo(position.gradient)
        gap = float(gradient @ (position.x - dense(vertex)))
        errors = errors_of(self.objective, position)
        return value - gap - gap_rounding(box, position.x, value, gradient, vertex, gap, errors)

    def best_bound(self, look: Look) -> float:
        """The best lower bound of the run that ended with ``look``.

        A bound seen on the way is a promise of increments; the best is proven anew where it was.
        """
        bound = look.value - look.gap
        promised, x = self._promise
        if promised > bound and x is not self.point:
            answer = self.position, self._inside, self._rounding
            self.position = self.objective.at(x)
            if self._is_finite():
                with asking(self.expired, self.expired), suppress(OutOfTimeError):
                    self._prove(self.method.lmo(self.position.gradient))
            self.position, self._inside, self._rounding = answer
        return min(max(bound, self._proven), look.value)


class FrankWolfeSolver(SteppingState):
    """Looks with the direction rule, moves with the step rule, certifies by a full oracle call."""

    _proposal: Proposal | None = None
    _proof: Look | None = None  # of the current position, if it was certified
    _moving = _undone = False
    _renew_below = 0.0

    def look(self) -> Look:
        if not self._is_finite():
            return Look(self.position.value, math.nan)
        proposal = self._proposed()
        estimate = getattr(self.position, "estimate", False)
        if proposal.gap < self._renew_below and proposal.certified and not estimate:
            self._renew_below = _RENEW * proposal.gap
            return self.certify(self.point)
        if self._renew_below == 0:
            self._renew_below = _RENEW * proposal.gap
            if self.is_near and proposal.certified:
                return self.certify(self.point)
        return self._look(proposal.gap, proposal.certified)

    def _proposed(self) -> Proposal:
        """The method's proposal at the current position, made once."""
        if self._undone:
            self.method.restart(self.position.x)
            self._undone = False
        if self._proposal is None:
            self._proposal = self.method.propose(self.position)
        return self._proposal

    def move(self) -> Move:
        self._moving = True
        move = self._advance(self._proposed())
        self._moving = False
        self._proposal = self._proof = None
        return move

    def certify(self, point: FloatArray) -> Look:
        """Value, gradient and gap at ``point`` from the data, with one call of the full oracle."""
        here = not self._moving and point is self.position.x
        if here and self._proof is not None:
            return self._proof
        if not (self._go_to(point) and here):
            self.method.active_set = None  # a move was cut short, or undone
            self._undone = True
        self._proposal = self._proof = None  # the fresh gradient may propose another step
        if not self._is_finite():  # f no longer answers at this point as it did
            return Look(self.position.value, math.inf, extra=self._extra())
        look, proven = self._certificate(lambda: self.method.lmo(self.position.gradient))
        self._proof = look if proven else None
        return look
