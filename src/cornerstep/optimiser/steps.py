"""Step rules: how far to go along a ray.

Every rule answers ``size(ray, max_step, time)`` with a number in [0, max_step].  ``time`` counts
iterations; block methods count passes (iterations divided by the number of blocks).  Yours may be
any object with that method; give it ``monotone = True`` if it never increases the objective.

References
----------
.. [1] M. Jaggi. Revisiting Frank-Wolfe: projection-free sparse convex optimization. ICML 2013.
.. [2] F. Pedregosa, G. Negiar, A. Askari, M. Jaggi. Linearly convergent Frank-Wolfe with
   backtracking line-search. AISTATS 2020.
"""

from __future__ import annotations

import math
import sys
from typing import Any, ClassVar, Protocol

from scipy.optimize import brentq

from cornerstep.core.rounding import norm
from cornerstep.optimiser.objectives import Objective, Ray


class StepRule(Protocol):
    """How far to go."""

    def size(self, ray: Ray, max_step: float, time: float) -> float:
        """The step, between 0 and max_step."""


class Exact:
    """The best step along the direction, the t with the least ``f(x + t d)``.

    Closed form ``-slope / curvature`` on quadratics; otherwise the root of the derivative by
    Brent's method.
    """

    name: ClassVar[str] = "exact"
    monotone: ClassVar[bool] = True

    def size(self, ray: Ray, max_step: float, time: float) -> float:
        if ray.slope >= 0:
            return 0.0
        if ray.curvature is not None:
            if ray.curvature <= 0:
                return max_step
            return min(-ray.slope / ray.curvature, max_step)

        def derivative(step: float) -> float:
            slope = ray.derivative(step) if step > 0 else ray.slope
            return slope if math.isfinite(slope) else math.inf  # beyond the objective's own domain

        if max_step == 0 or derivative(max_step) <= 0:
            return max_step
        # Rounding may keep Brent's method from its tolerance: its last answer is then as good.
        tolerance = max(1e-15 * max_step, sys.float_info.min)
        return float(brentq(derivative, 0.0, max_step, xtol=tolerance, rtol=1e-14, disp=False))


class Short:
    """The step ``-slope / (L |d|²)``, L a Lipschitz constant of the gradient."""

    name: ClassVar[str] = "short"
    monotone: ClassVar[bool] = True

    def __init__(self, lipschitz: float | None = None) -> None:
        self.lipschitz = lipschitz

    def begin(self, objective: Objective) -> None:
        """Take the constant from the objective unless one was given."""
        if self.lipschitz is None:
            self.lipschitz = objective.lipschitz
        if self.lipschitz is None:
            raise ValueError(
                "step='short' needs a Lipschitz constant of the gradient: give "
                "Smooth(..., lipschitz=L) or step=Short(L)"
            )

    def size(self, ray: Ray, max_step: float, time: float) -> float:
        assert self.lipschitz is not None
        return _short(ray, self.lipschitz, max_step)


def _short(ray: Ray, modulus: float, max_step: float) -> float:
    """``min(-slope / (modulus * |d|²), max_step)`` for a slope < 0, else 0."""
    d = ray.direction.dense
    if ray.slope >= 0:
        return 0.0
    if modulus == 0:
        return max_step
    curvature = modulus * float(d @ d)
    if sys.float_info.min <= curvature < math.inf:
        return min(-ray.slope / curvature, max_step)
    length = norm(d)  # one factor after the other stays in range
    return min(-ray.slope / length / modulus / length, max_step) if length > 0 else 0.0


class OpenLoop:
    """The step ``2 / (time + 2)``: asks nothing of the objective, and may go uphill."""

    name: ClassVar[str] = "open-loop"
    monotone: ClassVar[bool] = False

    def size(self, ray: Ray, max_step: float, time: float) -> float:
        return min(2.0 / (time + 2.0), max_step)


class Backtracking:
    """The short step with an estimate M of L, kept as small as ``f`` allows.

    ``f(x + t d) <= f(x) + t slope + M t² |d|² / 2``.

    Parameters
    ----------
    lipschitz : float, optional
        First estimate; by default from the curvature of the first ray.
    grow, shrink : float
        Factors on M after a rejected trial and before a new iteration.
    """

    name: ClassVar[str] = "backtracking"
    monotone: ClassVar[bool] = True

    def __init__(
        self, lipschitz: float | None = None, grow: float = 2.0, shrink: float = 0.9
    ) -> None:
        if not (grow > 1 and 0 < shrink <= 1):
            raise ValueError(f"need grow > 1 and 0 < shrink <= 1, got {grow=} and {shrink=}")
        self.estimate = lipschitz
        self.grow = grow
        self.shrink = shrink

    def size(self, ray: Ray, max_step: float, time: float) -> float:
        square = float(ray.direction.dense @ ray.direction.dense)
        if square == 0 or ray.slope >= 0 or max_step == 0:
            return 0.0
        origin = ray.value(0.0)
        estimate = self.estimate or self._first_estimate(ray, max_step, square)
        estimate *= self.shrink
        while True:
            step = _short(ray, estimate, max_step)
            promised = step * ray.slope + 0.5 * estimate * step**2 * square
            if self._accepts(ray, step, origin, promised):
                self.estimate = estimate
                return step
            estimate *= self.grow
            if step <= 1e-16 * max_step or math.isinf(estimate):
                return 0.0

    @staticmethod
    def _accepts(ray: Ray, step: float, origin: float, promised: float) -> bool:
        # Once the promised decrease drowns in the rounding of f, the derivative decides instead.
        if -promised > 1e-10 * abs(origin):
            return ray.value(step) <= origin + promised
        return ray.derivative(step) <= 0.5 * abs(ray.slope) and math.isfinite(ray.value(step))

    @staticmethod
    def _first_estimate(ray: Ray, max_step: float, square: float) -> float:
        trial = 1e-3 * max_step
        rise = ray.derivative(trial) - ray.slope
        if not (math.isfinite(rise) and rise > 0):
            trial, rise = max_step, 2 * abs(ray.slope)
        length = max(trial * square, sys.float_info.min)
        return min(max(rise / length, sys.float_info.min), sys.float_info.max)


STEPS: dict[str, Any] = {rule.name: rule for rule in (Exact, Short, OpenLoop, Backtracking)}
