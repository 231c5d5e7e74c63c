"""Quadratics on domains of few rows: the central path, with the gap of Frank and Wolfe as proof.

1. Exact corrections: over coordinates where the rows have none in common
   (:mod:`cornerstep.optimiser.face_correction`), else over the vertices seen so far, a few where
   these are dear.  They go on as long as they promise to arrive before a path would
   (:mod:`cornerstep.optimiser.effort`): where few coordinates or vertices make the optimum, that
   is all.
2. The path of :mod:`cornerstep.optimiser.quadratic_program`, until the gap has fallen by 10^4.  The
   run lands there or, where the face of the optimum can be guessed, on the best point of the face.
3. Again 2., from where the path was left; exact corrections where the path ends early.

The certificate is that of every method: the oracle at the point that is returned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from cornerstep.core.curvature import dense_array
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction, Vector, dense
from cornerstep.domains.base import Constraints, has_oracle
from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.agreement import check_step
from cornerstep.optimiser.effort import Pace, correction_work, order_of, path_work
from cornerstep.optimiser.loop import Move, claimed
from cornerstep.optimiser.methods import FullyCorrective
from cornerstep.optimiser.objectives import Objective, Position, is_correctable
from cornerstep.optimiser.quadratic_program import InteriorPoint, Program
from cornerstep.optimiser.small_form import form_of_bounds
from cornerstep.optimiser.solver import Proposal, is_inside
from cornerstep.optimiser.steps import StepRule

if TYPE_CHECKING:
    from cornerstep.optimiser.face_correction import FaceCorrection

# Corrections first where vertices are dear.  Milliseconds with 0 / 3 / 10, doubly stochastic
# matrices of 100 x 100: near a matrix 32 / 40 / 66, with an optimum at a vertex 277 / 5 / 5.
_CORRECTIONS = 3
_EXACT = 1e-8  # of the gap: what a correction over coordinates leaves there
_BEFORE = 0.3  # of the work of a path: what corrections over coordinates may take, at any pace
_SHARE = 1e-4  # of the gap that a move begins with: what it leaves (1e-1 to 1e-6: within a third)
_WITHIN = 0.1  # of the gap that ends the run: more is not asked of a path
_SMALL = (
    1 << 16
)  # numbers of rows that are kept as an array: a sparse product takes 15 microseconds
_MOST_STEPS = 200  # of a path
_MOST_ORDER = 5000  # of a matrix that is factorised: 200 MB, seconds per step


class Interior(FullyCorrective):
    """Exact corrections and the central path, for quadratics on domains with few rows.

    A dozen Newton steps lead along the path; corrections go first while they promise to be less
    work.

    Needs the Hessian and the domain's constraints, and factorises a matrix of the order of the
    smaller of two sides, the coordinates or the rows of the data and of the domain: at most 5,000.
    """

    name: ClassVar[str] = "interior-point"
    needs: ClassVar[tuple[str, ...]] = ("lmo", "constraints")

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        super().begin(objective, domain, start, rng)
        self._path: _Path | None = None
        self._is_over, self._corrects, self._pays, self._budget = False, True, True, math.inf
        self._prepare(objective, domain)
        self._corrections = Pace(path_work(objective, domain))
        self._work = correction_work(objective)
        self._dear = not getattr(domain, "cheap_faces", True)
        self._faces = self._face_correction(objective, domain)

    def _prepare(self, objective: Objective, domain: Any) -> None:
        """Refuse what the method cannot do."""
        if not can_follow(objective, domain):
            order = order_of(objective, domain)
            got = f"one of order {order:,}" if order else f"{objective!r}, which has none"
            raise ValueError(
                f"method={self.name!r} needs a Hessian to factorise, of a quadratic objective, of "
                f"order {_MOST_ORDER:,} at most; got {got}"
            )

    def _face_correction(self, objective: Any, domain: Any) -> FaceCorrection | None:
        """Corrections over coordinates, where the domain is one of bounds and sums."""
        form = form_of_bounds(domain.constraints) if is_correctable(objective) else None
        if form is None:
            return None
        from cornerstep.optimiser.face_correction import FaceCorrection  # with the compiler

        return FaceCorrection(objective, form)

    def advance(
        self, position: Position, proposal: Proposal, rule: StepRule, iteration: int
    ) -> tuple[Position, Move]:
        if self._corrects:
            self._corrects = self._goes_on(position, proposal, iteration)
        if self._corrects and self._faces is not None:
            landed = self._on_coordinates(self._faces, position, claimed(proposal.gap))
            if landed is not None:
                return landed, Move(1.0, "corrective")
            self._faces, self._corrects = None, self._pays
        if not (self._is_over or self._corrects):
            landed = self._along_the_path(position, claimed(proposal.gap))
            if landed is not None:
                return landed, Move(1.0, "interior")
            self._is_over = True
        return super().advance(position, proposal, rule, iteration)

    def _goes_on(self, position: Position, proposal: Proposal, iteration: int) -> bool:
        """Whether another correction is made before the path."""
        if self._dear:
            return iteration < _CORRECTIONS
        held = 2.0 * len(self.active_set) * self.domain.size
        self._corrections.spent += self._work + (held if self._faces is None else self._faces.work)
        paths = self._corrections.other
        self._pays = self._corrections.pays(claimed(proposal.gap), self.aim(position.value))
        self._budget = paths if self._pays else _BEFORE * paths - self._corrections.spent
        return self._pays or (self._budget > 0 and self._faces is not None)

    def _on_coordinates(
        self, faces: FaceCorrection, position: Position, gap: float
    ) -> Position | None:
        """The minimum over coordinates of the face and some others, if that is better."""
        landed = None
        for _ in range(2):  # a vertex may be worse
            x = faces.minimise(
                position, dense(self._vertex), _EXACT * gap, self._most, self._budget, self.expired
            )
            landed = None if x is None else self._landed(position, x, gap)
            if landed is not None:
                break
        if landed is not None:
            self.active_set = ActiveSet(landed.x)
        return landed

    def _along_the_path(self, position: Position, gap: float) -> Position | None:
        """A better position with a much smaller gap, if there is one; None if the path ends."""
        target = max(_SHARE * gap, _WITHIN * self.aim(position.value))
        if self._path is None:
            self._path = _Path(self.objective, self.domain, position, self)
        goes_on = True
        while goes_on:
            goes_on = self._path.step()
            if goes_on and self._path.gap > target:
                continue
            for x in self._path.answers():
                landed = self._landed(position, x, gap)
                if landed is not None:
                    self.active_set = ActiveSet(landed.x)  # corrections would go on from here
                    if self._correction is not None:
                        self._correction.clear()
                    return landed
            target = self._path.gap / 2
        return None

    def _landed(self, position: Position, x: FloatArray, gap: float) -> Position | None:
        """The position at x, if x is inside and better."""
        self.settle(x, True)
        if not is_inside(self.domain, x):
            return None
        d = x - position.x
        moving = d.nonzero()[0]
        ray = position.along(Direction(d, 0.0, moving, d[moving]))
        landed = ray.land(1.0, x)
        if not (math.isfinite(landed.inner) and self._is_better(landed, position, gap)):
            return None
        check_step(self.objective, position, ray, 1.0, landed)
        return landed


def can_follow(objective: Any, domain: Any) -> bool:
    """Whether there is a matrix to factorise for each step, and it is not too large."""
    return has_oracle(domain, "constraints") and 0 < order_of(objective, domain) <= _MOST_ORDER


class _Path:
    """The path of f over a domain: without fixed coordinates, with slacks of inequalities."""

    def __init__(self, objective: Any, domain: Any, position: Position, method: Interior) -> None:
        bounds: Constraints = domain.constraints
        moves, loose = bounds.lower < bounds.upper, bounds.row_lower < bounds.row_upper
        self._method, self._steps = method, 0
        self._kept, slack = np.flatnonzero(moves), np.flatnonzero(loose)
        self._fixed = np.where(moves, 0.0, bounds.lower)
        x = np.where(moves, position.x, bounds.lower)
        curvature = objective.curvature
        gradient = position.gradient + curvature.times(x - position.x)
        offset = bounds.rows @ self._fixed
        least, most, values = (
            (row - offset)[slack] for row in (bounds.row_lower, bounds.row_upper, bounds.rows @ x)
        )
        rows = bounds.rows[:, self._kept]
        if slack.size:
            entries = -np.ones(slack.size), (slack, np.arange(slack.size))
            units = sp.csc_array(entries, shape=(offset.size, slack.size))
            rows = sp.csc_array(sp.hstack([rows, units]))
        if rows.shape[0] * rows.shape[1] <= _SMALL:
            rows = dense_array(rows)
        program = Program(
            curvature.part(self._kept).with_zeros(slack.size),
            np.concatenate([gradient[self._kept], np.zeros(slack.size)]),
            np.concatenate([x[self._kept], values]),
            np.concatenate([bounds.lower[self._kept], least]),
            np.concatenate([bounds.upper[self._kept], most]),
            rows,
            np.where(loose, 0.0, bounds.row_upper - offset),
            slack,
        )
        self._point = InteriorPoint(program, method.expired)

    @property
    def gap(self) -> float:
        """What is left of the gap, about."""
        return self._point.gap

    def step(self) -> bool:
        """One step; whether there was a way on, and time."""
        self._steps += 1
        return self._steps <= _MOST_STEPS and not self._method.expired() and self._point.step()

    def answers(self) -> list[FloatArray]:
        """The best point of the face that the path leads to, where it is known, and the path's."""
        out = []
        for x in (self._point.on_face(), self._point.x):
            if x is not None:
                out.append(self._fixed.copy())
                out[-1][self._kept] = x[: self._kept.size]
        return out
