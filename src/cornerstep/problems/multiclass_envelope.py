"""Descent on smoothed losses, for passes over all examples at once: few of them on any data.

``P_mu(W) = 1/2 |W|² + sum_i s_i Phi_mu(W'x_i)`` has the gradient ``W - W(A)``, with A the dual
points that attain the envelopes: one pass gives both.  Then

``P(W) - D(A) = sum_i s_i (Phi(W'x_i) - <beta_i, z_i>) + 1/2 |W - W(A)|²``,

what smoothing lost and what the gradient is away from 0.  P_mu is minimised by limited-memory
quasi-Newton steps, and mu is halved whenever smoothing is most of the gap.  A dual bound better
than D(A) comes from the hull of the last such points, as in
:mod:`cornerstep.problems.multiclass_corrective`.

What the examples share, a mean of the features or a constant one, makes P_mu steep along a few
directions, of the order of C n times: first order methods and hulls of few vertices crawl there.
The Hessian is about ``I + q/mu sum_i s_i x_i x_i'`` in every class, q the share of examples
in whose projections a class takes part.  Steps begin from its inverse, a matrix of d x d numbers
that one pass over the data gives; the rest is found by the quasi-Newton updates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from cornerstep.losses import Loss
from cornerstep.optimiser.loop import Look, Move
from cornerstep.problems.multiclass_corrective import CorrectiveDescent
from cornerstep.problems.passes import DualState, Envelopes, Rows
from cornerstep.problems.quasi_newton import Memory

NAME = "envelope"
ATOMS = 60  # dual points in the hull
_MEMORY = 10  # pairs of the quasi-Newton updates
_SHARE = 0.5  # of the gap that smoothing may be before there is less of it
_LESS = 0.5  # of mu
_ACTIVE = 2.0  # classes that take part in the projection of an example, for the metric
_DECREASE = 1e-4  # of the slope, for a step to be taken
_NOISE = 1e-7  # of the value: what rounding may do to it
_PROGRESS, _PATIENCE = 0.2, 12  # the gap falls by that share in so many passes, or is stuck
_SHORTEST = 1e-3  # a direction that needs shorter steps is given up


class Problem(Protocol):
    """What the method has to know of a problem."""

    @property
    def loss(self) -> Loss: ...

    @property
    def n_classes(self) -> int: ...

    @property
    def smoothing(self) -> float: ...


class _Place(NamedTuple):
    """A point at which the envelopes are known."""

    image: Any
    value: float  # P_mu
    gradient: Any


class EnvelopeDescent(CorrectiveDescent):
    """Quasi-Newton steps on smoothed losses, for the loop.

    Parameters
    ----------
    rows : Rows
        Who holds the rows; not of a kernel.
    problem : Problem
        Its loss, number of classes and smoothing, which P and D have too.
    state : DualState, optional
        Where to start.
    """

    def __init__(self, rows: Rows, problem: Problem, state: DualState | None = None) -> None:
        loss = problem.loss
        largest = 1.0 if loss.costs is None else max(float(loss.costs.max()), 1e-300)
        self._least_mu, self._share = problem.smoothing, _ACTIVE / problem.n_classes
        self._mu = max(problem.smoothing, largest / float(loss.rho.sum()))
        super().__init__(rows, state)

    def _origin(self) -> DualState:
        return self.rows.nothing(kept=False)

    def _start(self) -> None:
        """At W = 0, where the nearest dual points give all classes the same."""

    def _begin(self, state: DualState) -> None:
        super()._begin(state)
        self._limit = ATOMS
        self._here: _Place | None = None
        self._memory = Memory(self.rows, self.rows.metric(self._share / self._mu), _MEMORY)
        self._step, self._slope = 1.0, 0.0

    def snapshot(self) -> dict[str, Any]:
        """As of the other methods, with mu."""
        return super().snapshot() | {"mu": np.array(self._mu)}

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot, of this method or another one."""
        self._mu = float(arrays.get("mu", self._mu))
        super().resume(arrays)
        self.primal = self._point = self.state._replace(image=arrays["primal"])

    def look(self) -> Look:
        found = self.rows.envelopes(self.primal.image, self._mu)
        image = self.primal.image
        half = 0.5 * self.rows.dot(image, image)
        exact = self._mu == self._least_mu  # else P of losses without smoothing: not less
        value = half + (found.envelopes if exact else found.losses)
        if value < self._value:
            self._point, self._value = self.primal, value
        self._add(self._bounding(found))
        self._correct(1e-3 * max(self._value - self.best_dual, 0.0))
        self._found = _Place(image, half + found.envelopes, image - found.nearest.image)
        less = self._mu - self._least_mu
        self._lost = found.losses - found.envelopes - 0.5 * less * found.ridge
        self._central, self._gap = self._value, self._value - self.best_dual
        self.state = self.best
        return self._look(self._value)

    def _bounding(self, found: Envelopes) -> DualState:
        """The dual points with ``l - mu/2 sum_i s_i |alpha_i|²`` as their ``l``.

        As the square is convex, what a mixture has of it is no more than the mixture of squares.
        """
        ridge = 0.5 * self._least_mu * found.ridge
        return found.nearest._replace(linear=found.nearest.linear - ridge)

    def move(self) -> Move:
        here, found = self._here, self._found
        if here is not None:
            enough = here.value + _DECREASE * self._step * self._slope + _NOISE * abs(here.value)
            if not found.value <= enough:
                return self._back(here, found)
            self._memory.add(found.image - here.image, found.gradient - here.gradient)
        if (self._is_rounded() or self._is_stuck()) and self.rows.refine():
            self._single(self._origin())
            self._value = math.inf
            return self._again(Move(0.0, "refine"))
        if self._lost > _SHARE * self._gap and self._mu > self._least_mu:
            self._mu = max(_LESS * self._mu, self._least_mu)
            self._memory.measure_by(self.rows.metric(self._share / self._mu))
            return self._again(Move(0.0, "less smoothing"))
        self._here = found
        self._direction, self._slope = self._memory.direction(found.gradient)
        return self._go(1.0, "quasi-newton")

    def _is_stuck(self) -> bool:
        """Whether the gap has stayed: steep directions make much of rounded gradients."""
        if self._gap < (1.0 - _PROGRESS) * self._least:
            self._least, self._passes = self._gap, 0
        self._passes += 1
        return self._passes > _PATIENCE

    def _back(self, here: _Place, found: _Place) -> Move:
        """A shorter step: the minimum of the parabola through what is known."""
        step = self._step
        curvature = (found.value - here.value - step * self._slope) / step**2
        shorter = -0.5 * self._slope / curvature if curvature > 0 else 0.0
        shorter = min(max(shorter, 0.1 * step), 0.5 * step)
        if shorter < _SHORTEST:
            self._memory.clear()
            self.primal = self.primal._replace(image=here.image)
            return self._again(Move(0.0, "restart"))
        return self._go(shorter, "shorter")

    def _again(self, move: Move) -> Move:
        """Look at the same weights anew."""
        self._here = None
        return move

    def _go(self, step: float, kind: str) -> Move:
        assert self._here is not None
        self._step = step
        image = self._here.image + step * self._direction
        self.primal = self.primal._replace(image=image, steps=self.primal.steps + 1)
        return Move(step, kind)
