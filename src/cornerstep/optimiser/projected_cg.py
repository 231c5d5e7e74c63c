"""Quadratics between bounds: projected gradients find the face, conjugate gradients its minimum.

*Problem.*  ``min 1/2 x'Hx + c'x   s.t.  l <= x <= u``, which is a box.

1. Projected gradient steps, until one leaves the same coordinates at their bounds, or gains
   little.
2. Conjugate gradients on the others, until a step gains little; the sum of these steps, projected,
   and shortened until f falls enough.
3. Again 1., while the gap falls.
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
from cornerstep.optimiser.interior import Interior, can_follow, order_of
from cornerstep.optimiser.loop import Move
from cornerstep.optimiser.objectives import Objective, Position
from cornerstep.optimiser.solver import Proposal
from cornerstep.optimiser.steps import StepRule

_ENOUGH = 0.01  # share of the decrease by the slope that a step must achieve [1]
_LESS = 0.25  # share of the best gain of a projected gradient step that ends these [1]
_LITTLE = 0.1  # share of the best gain of a conjugate gradient step that ends them [1]
_MOST_GRADIENTS = 60  # conjugate gradient steps of a move: more gain little where H is bad
_MOST_HALVINGS = 40  # of a step, until it is rounding
_MOVES = 2, 0.5  # so many moves have to leave this share of the gap
_CORRECTIONS = 20, 0.25  # the same of corrections: else there are many to come, ever dearer ones
# Work in multiply-adds of a factorisation.  Moves may take half of that of a path of a dozen
# factorisations, and corrections as much again.
_PRODUCT = 4.0  # of an entry in a product with a vector, which waits for memory
_OVERHEAD = 1e5, 3e6  # of a product and of a correction: the interpreter
_STEPS = 12


class _Phase:
    """Whether to go on as before: while that reduces the gap, and its work is within a budget."""

    def __init__(self, progress: tuple[int, float], budget: float) -> None:
        self.count, self.share = progress
        self.budget = budget
        self.done, self.mark, self.spent = 0, np.inf, 0.0

    def pays(self, gap: float) -> bool:
        """Asked once per move."""
        if self.done % self.count == 0:
            if gap > self.share * self.mark:
                return False
            self.mark = gap
        self.done += 1
        return self.spent <= self.budget


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
        self._product = _product(objective)
        budget = np.inf if self._is_over else 0.5 * _path_work(objective, domain)
        self._moves: _Phase | None = _Phase(_MOVES, budget)
        self._corrections = _Phase(_CORRECTIONS, budget)
        self._first_on_path = np.inf

    def advance(
        self, position: Position, proposal: Proposal, rule: StepRule, iteration: int
    ) -> tuple[Position, Move]:
        if self._moves is not None and self._moves.pays(proposal.gap):
            landed = self._on_the_face(position, self._moves)
            if landed is not position:
                self.active_set = ActiveSet(landed.x)  # corrections would go on from here
                return landed, Move(1.0, "projected")
        self._moves = None
        if iteration < self._first_on_path and not self._corrections.pays(proposal.gap):
            self._first_on_path = iteration
        self._corrections.spent += 2 * self._product + _OVERHEAD[1]
        return super().advance(position, proposal, rule, iteration)

    def _on_the_face(self, position: Position, phase: _Phase) -> Position:
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
        self, x: FloatArray, gradient: FloatArray, free: Any, phase: _Phase
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


def _entries(objective: Any) -> int:
    """Of what the Hessian is made of besides its diagonal."""
    curvature = objective.curvature
    part = curvature.matrix if curvature.root is None else curvature.root
    return 0 if part is None else int(getattr(part, "nnz", part.size))


def _product(objective: Any) -> float:
    """The work of a product with the data."""
    return _PRODUCT * _entries(objective) + _OVERHEAD[0]


def _path_work(objective: Any, domain: Any) -> float:
    """The work of a path."""
    curvature, order, n = objective.curvature, order_of(objective, domain), int(domain.size)
    by_rows = curvature.matrix is None and order < n
    step = order**3 / 6 + (0.5 * order**2 * n if by_rows else 0.0)
    once = 0.0 if by_rows or curvature.root is None else float(_entries(objective)) * n
    return _STEPS * step + once


def _sparse(d: FloatArray) -> Direction:
    moving = d.nonzero()[0]
    return Direction(d, 0.0, moving, d[moving])
