"""``check_objective``: is an objective convex, and its gradient its own?"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction, dense
from cornerstep.domains.base import vertex_of
from cornerstep.optimiser.objectives import Objective

_SLACK = 1e-6  # of the sizes that are compared
_STEPS = (1e-2, 1e-4, 1e-6)  # of differences: the best of them counts


def check_objective(
    objective: Objective, domain: Any, *, n_trials: int = 20, random_state: int = 0
) -> None:
    """Compare an objective with itself at points of a domain; raise an error that says what is off.

    On segments between random points: values and gradients must be finite, of the right shape and
    the same when asked twice; the gradient must be what differences of values say; f must lie below
    its chords and above its tangents; rays and landings must agree with values at points;
    ``lipschitz`` and ``strong_convexity``, if known, with gradients.  The points are mixtures of
    answers of ``domain.lmo``, strictly between them: f need not be finite on the boundary.

    Parameters
    ----------
    objective : objective
        A :class:`~cornerstep.objectives.Smooth`, one of the library's others, or one of your own.
    domain : domain
        Where it is to be minimised; :func:`cornerstep.domains.check_domain` tries that.
    n_trials : int, default=20
        Segments to try.
    random_state : int, default=0

    Raises
    ------
    AssertionError
        With the name of what is probably wrong.
    """
    if objective.size is not None and objective.size != domain.size:
        _complain("size", f"it is {objective.size}, that of the domain {domain.size}")
    rng = np.random.default_rng(random_state)
    corners = rng.standard_normal((2 * domain.size + 4, domain.size))
    vertices = np.array([dense(vertex_of(domain, corner)) for corner in corners])
    for _ in range(n_trials):
        some = vertices[rng.choice(len(vertices), 4)]
        x, y = (
            0.05 * vertices.mean(axis=0) + 0.95 * rng.dirichlet(np.full(4, size)) @ some
            for size in (0.3, 3.0)
        )
        if norm(x - y) > 1e-9 * norm(x):
            _check_segment(objective, x, y)


def _complain(what: str, why: str) -> None:
    raise AssertionError(f"{what} is probably wrong: {why}")


def _at(objective: Objective, x: FloatArray) -> Any:
    """The position at x, computed twice."""
    given = x.copy()
    first, again = objective.at(given), objective.at(given)
    if not np.array_equal(given, x):
        _complain("value or gradient", "it changes the x that it is given")
    gradient = np.asarray(first.gradient)
    if gradient.shape != x.shape or gradient.dtype.kind != "f":
        _complain("gradient", f"it must be {x.size} numbers, got shape {gradient.shape}")
    if not (np.isfinite(first.value) and np.isfinite(gradient).all()):
        _complain("value or gradient", f"it is not finite at x = {x}")
    if first.value != again.value or not np.array_equal(gradient, again.gradient):
        _complain("value or gradient", "two calls at the same x differ")
    if abs(first.inner - gradient @ x) > _SLACK * float(np.abs(gradient) @ np.abs(x)):
        _complain("inner", "it is not <gradient, x>")
    return first


def _check_segment(objective: Objective, x: FloatArray, y: FloatArray) -> None:
    d = y - x
    middle = 0.5 * (x + y)
    here, there, between = (_at(objective, point) for point in (x, y, middle))
    sizes = abs(here.value) + abs(there.value) + abs(between.value)
    steep = float((np.abs(here.gradient) + np.abs(there.gradient)) @ np.abs(d))
    slack = _SLACK * (sizes + steep)
    _check_gradient(objective, between, d, slack)
    rise, start, end = there.value - here.value, here.gradient @ d, there.gradient @ d
    if between.value > 0.5 * (here.value + there.value) + slack:
        _complain("convexity", f"f is above its chord: {between.value:.9g} at the middle")
    if rise < start - slack or rise > end + slack:
        _complain("convexity", f"f is below a tangent: it rises by {rise:.9g} on the way")
    _check_ray(objective, here, d, (between, there), slack)
    change, square = there.gradient - here.gradient, float(d @ d)
    lipschitz, modulus = objective.lipschitz, objective.strong_convexity
    if lipschitz is not None and norm(change) > lipschitz * norm(d) * (1 + _SLACK) + slack:
        _complain(
            "lipschitz", f"it is {lipschitz:.6g}, gradients change {norm(change) / norm(d):.6g}"
        )
    if modulus is not None and float(change @ d) < modulus * square * (1 - _SLACK) - slack:
        _complain("strong_convexity", f"it is {modulus:.6g}, f bends by {change @ d / square:.6g}")


def _check_gradient(objective: Objective, position: Any, d: FloatArray, slack: float) -> None:
    """Central differences along d, and along the coordinates that move on it."""
    for way in (d, *(d * (np.arange(d.size) == j) for j in np.flatnonzero(d)[:20])):
        slope = float(position.gradient @ way)
        off = np.inf
        for step in _STEPS if way is d else _STEPS[1:]:
            ends = (objective.at(position.x + sign * step * way).value for sign in (1.0, -1.0))
            difference = (next(ends) - next(ends)) / (2 * step)
            off = min(off, abs(difference - slope) - slack * 1e-9 / step)
        if off > 1e-3 * abs(slope) + slack:
            _complain("gradient", f"it says {slope:.6g} along a direction, values {difference:.6g}")


def _check_ray(objective: Objective, here: Any, d: FloatArray, ends: Any, slack: float) -> None:
    """Rays know f on the way, and land where ``at`` would."""
    ray = here.along(Direction(d, 0.0, None, d))
    if abs(ray.slope - here.gradient @ d) > slack:
        _complain("slope", "it is not <gradient, direction>")
    for step, end in zip((0.5, 1.0), ends, strict=True):
        landed = ray.land(step, end.x)
        if max(abs(ray.value(step) - end.value), abs(landed.value - end.value)) > slack:
            _complain("value of the ray, or land", f"it is not f at step {step}")
        if abs(ray.derivative(step) - end.gradient @ d) > slack:
            _complain("derivative of the ray", f"it is not <gradient, direction> at step {step}")
        if float(np.abs(landed.gradient - end.gradient) @ np.abs(d)) > slack:
            _complain("land", "its gradient is not that of the point")
    bend = float((ends[1].gradient - here.gradient) @ d)
    if ray.curvature is not None and abs(ray.curvature - bend) > slack:
        _complain("curvature", f"it is {ray.curvature:.9g}, gradients say {bend:.9g}")
