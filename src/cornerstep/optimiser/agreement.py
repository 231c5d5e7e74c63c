"""What a certificate assumes, compared with what a run sees.

``f(y) >= f(x) + <grad f(x), v - x>`` for all y of the domain is a theorem if f is convex, the
gradient is its own and v is what the oracle should answer.  None of the three can be proven from
answers; any two points can refute them:

``f(y) >= f(x) + <grad f(x), y - x>``   and   ``<grad f(x), y> >= <grad f(x), v>``.

A run looks where it costs next to nothing (negative curvature, a value outside the two tangents of
a step, a gap below 0, a value below an earlier bound), and at a few vertices before it ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction, Vector, dense
from cornerstep.domains.base import vertex_of
from cornerstep.optimiser.objectives import Objective, Position, Ray, errors_of

SLACK = 1e-7  # relative: functions of single precision may be this far off
_BENT = 1e-6  # of the slope, by how much a step must change it for its curvature to count
_NEARBY = 2.0**-10  # of the way to a vertex: where a wrong gradient shows
_PROBES = 2  # random vertices that a run looks at before it ends


def check_step(objective: Objective, position: Position, ray: Ray, step: float, to: Any) -> None:
    """Complain if a step of this size, which has led to ``to``, refutes the objective."""
    if ray.curvature is None:
        rise, ahead = to.value - position.value, float(to.gradient @ ray.direction.dense)
        excess = max(step * ray.slope - rise, rise - step * ahead)
        if excess > SLACK * (abs(to.value) + abs(position.value)):
            check_convex(objective, position, to)
    elif ray.curvature < 0 and -step * ray.curvature > _BENT * abs(ray.slope):
        check_convex(objective, objective.at(position.x), objective.at(to.x))


def check_convex(objective: Objective, one: Position, other: Position) -> None:
    """Complain if either of two positions, made by ``at``, lies below the tangent of the other."""
    way = other.x - one.x
    size = np.abs(way)
    for start, end, d in ((one, other, way), (other, one, -way)):
        slope = float(start.gradient @ d)
        excess = start.value + slope - end.value
        terms = float(np.abs(start.gradient) @ size)
        slack = SLACK * (abs(start.value) + abs(end.value)) + (SLACK + gamma(d.size)) * terms
        if not excess > slack:
            continue
        off, errors = errors_of(objective, start)
        slack += 64 * (off + float(errors @ size) + errors_of(objective, end)[0])
        if excess > slack:
            raise ValueError(
                "the objective is probably not convex, or its gradient not its own: at one point "
                f"its value is {end.value:.9g}, but the tangent at another says at least "
                f"{start.value + slope:.9g}; cornerstep.objectives.check_objective says more"
            )


def check_oracle(gradient: FloatArray, vertex: Vector, point: FloatArray) -> None:
    """Complain if a point of the domain is better than the vertex that its oracle has found."""
    least, reached = float(vertex @ gradient), float(gradient @ point)
    # linear programs take entries of the gradient far below its largest for 0
    largest = float(np.abs(gradient).max(initial=0.0))
    terms = largest * float((np.abs(dense(vertex)) + np.abs(point)).sum())
    if least - reached > SLACK * terms:
        raise ValueError(
            "domain.lmo is probably wrong, or x0 outside the domain: the answer's product with a "
            f"gradient is {least:.9g}, that of another point {reached:.9g}; "
            "cornerstep.domains.check_domain says more"
        )


def check_ending(objective: Objective, domain: Any, position: Position) -> None:
    """Complain if some vertices refute the certificate at a position that ``at`` has made.

    They are the worst for the gradient, and a few in random directions.
    """
    x, gradient = position.x, position.gradient
    rng = np.random.default_rng(0)
    random = [rng.standard_normal(x.size) for _ in range(_PROBES)]
    best = vertex_of(domain, gradient)
    for direction in (-gradient, *random):
        vertex = vertex_of(domain, direction)
        check_oracle(gradient, best, dense(vertex))
        ray = position.along(Direction.towards(x, vertex))
        if ray.curvature is not None:
            check_step(objective, position, ray, 1.0, _At(dense(vertex)))
            continue
        for step in (_NEARBY, 1.0):
            there = _answered(objective, x + step * ray.direction.dense)
            if there is not None:
                check_convex(objective, position, there)


class _At:
    """A point that only a negative curvature makes worth computing."""

    def __init__(self, x: FloatArray) -> None:
        self.x = x


def _answered(objective: Objective, x: FloatArray) -> Position | None:
    """The position at x, or None where f has none: it need be finite only where a run goes."""
    try:
        position = objective.at(x)
    except (ArithmeticError, ValueError):
        return None
    return position if math.isfinite(position.value + position.inner) else None
