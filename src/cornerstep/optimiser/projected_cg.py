"""Quadratics between bounds: projected gradients find the face, conjugate gradients its minimum.

*Problem.*  ``min 1/2 x'Hx + c'x   s.t.  l <= x <= u``, which is a box.

1. Projected gradient steps, until one leaves the same coordinates at their bounds, or gains
   little.
2. Conjugate gradients on the others, until a step gains little; the sum of these steps, projected,
   and shortened until f falls enough.
3. Again 1., while that promises to arrive (:mod:`cornerstep.optimiser.effort`).
4. A badly conditioned H makes that slow: then exact corrections over vertices and, if these are
   slow too, the central path (:mod:`cornerstep.optimiser.interior`).

The certificate is that of every method: the oracle at the point that is returned.

References
----------
.. [1] J. J. Moré, G. Toraldo. On the solution of large quadratic programming problems with bound
   constraints. SIAM Journal on Optimization 1, 93-113, 1991.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction
from cornerstep.domains.base import has_oracle
from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.agreement import check_step
from cornerstep.optimiser.effort import Pace, path_work, product_work
from cornerstep.optimiser.interior import Interior, can_follow
from cornerstep.optimiser.loop import Move, claimed
from cornerstep.optimiser.objectives import Objective, Position
from cornerstep.optimiser.solver import Proposal
from cornerstep.optimiser.steps import StepRule

_ENOUGH = 0.01  # share of the decrease by the slope that a step must achieve [1]
_LESS = 0.25  # share of the best gain of a projected gradient step that ends these [1]
_LITTLE = 0.1  # share of the best gain of a conjugate gradient step that ends them [1]
_MOST_GRADIENTS = 60  # conjugate gradient steps of a move: more gain little where H is bad
_MOST_HALVINGS = 40  # of a step, until it is rounding
# Of the work of a path, within which moves have to promise to arrive.  0.3: 5 times as long where
# they would have; 1: up to 1.6 times as long where they do not.
_SHARE = 0.5


class ProjectedCG(Interior):
    """Projected gradients and conjugate gradients, for quadratics on boxes.

    Needs the Hessian and bounds as the domain's only constraints; factorises nothing unless H is
    badly conditioned, and then a matrix of order 5,000 at most.
    """

    name: ClassVar[str] = "projected-cg"
    needs: ClassVar[tuple[str, ...]] = ("lmo", "bounds")

    def _prepare(self, objective: Objective, domain: Any) -> None:
        if not can_project(objective, domain):
            raise ValueError(
                f"method={self.name!r} needs a quadratic objective whose Hessian is known, "
                f"got {objective!r}"
            )
        self._lower, self._upper = domain.bounds
        self._is_over = not can_follow(objective, domain)
        self._product = product_work(objective)
        self._moves: Pace | None = Pace(_SHARE * path_work(objective, domain))

    def advance(
        self, position: Position, proposal: Proposal, rule: StepRule, iteration: int
    ) -> tuple[Position, Move]:
        if self._moves is not None and self._moves.pays(
            claimed(proposal.gap), self.aim(position.value)
        ):
            landed = self._on_the_face(position, self._moves)
            if landed is not position:
                self.active_set = ActiveSet(landed.x)  # corrections would go on from here
                return landed, Move(1.0, "projected")
        self._moves = None
        return super().advance(position, proposal, rule, iteration)

    def _on_the_face(self, position: Position, phase: Pace) -> Position:
        """Steps 1 and 2; the position that came in, if they bring nothing."""
        best = 0.0
        for _ in range(_MOST_GRADIENTS):
            before = position
            position = self._gradient_step(before)
            gain = before.value - position.value
            best = max(best, gain)
            phase.spent += 4 * self._product
            same = self._fixed(before.x) == self._fixed(position.x)
            if same.all() or not gain > _LESS * best or self.expired():
                break
        x, gradient = position.x, position.gradient
        free = np.flatnonzero(~self._fixed(x))
        step = self._conjugate_gradients(x, gradient, free, phase)
        return self._searched(position, step, 1.0)

    def _fixed(self, x: FloatArray) -> Any:
        """Which coordinates are at a bound."""
        return (x <= self._lower) | (x >= self._upper)

    def _gradient_step(self, position: Position) -> Position:
        x, gradient = position.x, position.gradient
        held = ((x <= self._lower) & (gradient > 0)) | ((x >= self._upper) & (gradient < 0))
        d = np.where(held, 0.0, -gradient)
        if not d.any():
            return position
        bend = position.along(_sparse(d)).curvature
        return self._searched(position, d, self._length(x, d, float(d @ d), bend))

    def _conjugate_gradients(
        self, x: FloatArray, gradient: FloatArray, free: Any, phase: Pace
    ) -> FloatArray:
        """A step of the free coordinates towards the minimum over them."""
        curvature: Any = self.objective.curvature  # type: ignore[attr-defined]
        total, d = np.zeros(x.size), np.zeros(x.size)
        left = -gradient[free]
        d[free] = left
        square, best = float(left @ left), 0.0
        for _ in range(_MOST_GRADIENTS):
            if square == 0.0 or self.expired():
                break
            change = curvature.times(d)
            phase.spent += 2 * self._product
            bend = float(d @ change)
            length = self._length(x, d, square, bend)
            total += length * d
            left = left - length * change[free]
            gain = length * (square - 0.5 * length * bend)
            best = max(best, gain)
            if not gain > _LITTLE * best:
                break
            square, before = float(left @ left), square
            d[free] = left + square / before * d[free]
        return total

    def _length(self, x: FloatArray, d: FloatArray, slope: float, bend: float | None) -> float:
        """The exact step along d, at most to where all coordinates have met their bounds."""
        moving = d.nonzero()[0]
        ends = np.where(d > 0, self._upper, self._lower)
        furthest = float(((ends - x)[moving] / d[moving]).max(initial=0.0))
        return slope / bend if bend and slope < bend * furthest else furthest

    def _searched(self, position: Position, step: FloatArray, length: float) -> Position:
        """The projection of a step, halved until f falls enough."""
        for _ in range(_MOST_HALVINGS):
            x = np.clip(position.x + length * step, self._lower, self._upper)
            d = x - position.x
            if not d.any():
                break
            ray = position.along(_sparse(d))
            if 0.5 * (ray.curvature or 0.0) <= (_ENOUGH - 1.0) * ray.slope:
                landed = ray.land(1.0, x)
                if not landed.value < position.value:
                    break
                check_step(self.objective, position, ray, 1.0, landed)
                return landed
            length *= 0.5
        return position


def can_project(objective: Any, domain: Any) -> bool:
    """Whether the domain is one of bounds alone, and the Hessian of the objective is known."""
    return has_oracle(domain, "bounds") and getattr(objective, "curvature", None) is not None


def _sparse(d: FloatArray) -> Direction:
    moving = d.nonzero()[0]
    return Direction(d, 0.0, moving, d[moving])
