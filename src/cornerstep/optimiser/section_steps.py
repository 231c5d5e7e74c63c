"""Corrections on domains of matrices: f minimised over a section instead of a hull of atoms.

A point of rank r has a section of the domain, ``U S V`` (:mod:`cornerstep.domains.sections`); it is
widened by the best r + 4 vertices for the gradient, f is minimised over its small matrices S, and
U, V are what the answer needs.  Near an optimum of rank r whose gradient has r leading singular
values apart from the others this converges linearly, whatever the condition of f elsewhere [1]_.

Over S: projected steps ``P(S - g / L)`` with L the curvature that the last step has seen [2]_, and
the step rule's length along each, so that no value rises [3]_.

References
----------
.. [1] L. Ding, J. Fan, M. Udell. kFW: a Frank-Wolfe style algorithm with stronger subproblem
   oracles. arXiv 2006.16142, 2020.
.. [2] J. Barzilai, J. M. Borwein. Two-point step size gradient methods. IMA Journal of Numerical
   Analysis 8, 141-148, 1988.
.. [3] E. G. Birgin, J. M. Martínez, M. Raydan. Nonmonotone spectral projected gradient methods on
   convex sets. SIAM Journal on Optimization 10, 1196-1211, 2000.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction
from cornerstep.optimiser.agreement import check_step
from cornerstep.optimiser.objectives import Objective, Position
from cornerstep.optimiser.steps import StepRule

_MORE = 4  # vertices beside as many as the rank (1, 4, 10: the same within a quarter)
_SHARE = 0.3  # of the gap outside: what a correction leaves inside (0.3 the same, 0.01 slower)
_STEPS = 300  # of a correction
_FAR = 16.0  # radii that a gradient step goes before it is projected, at most
_ASKED = 2  # of them until the gap inside is asked for, which costs about a step


class SectionCorrection:
    """The section that a run is in, and steps inside it.

    Parameters
    ----------
    objective : Objective
    domain : domain
        With the oracle ``section``.
    """

    def __init__(self, objective: Objective, domain: Any) -> None:
        self.objective, self.domain = objective, domain
        self._section: Any = None
        self._curvature = 0.0

    def look(self, position: Position) -> FloatArray:
        """Widen the section by the best vertices, the first of which is the answer."""
        if self._section is None:
            self._section = self.domain.section(position.x)
        self._section, vertex = self._section.widened(position.gradient, _MORE)
        found: FloatArray = vertex
        return found

    def clear(self) -> None:
        """The next point lies elsewhere."""
        self._section = None

    def minimise(
        self, position: Position, gap: float, rule: StepRule, expired: Callable[[], bool]
    ) -> Position:
        """A better position in the section, of a third of the gap there; the same if there is none.

        Parameters
        ----------
        position : Position
        gap : float
            Over the whole domain.
        rule : StepRule
        expired : callable
        """
        section, domain = self._section, self._section.domain
        s, gradient = section.restrict(position.x), section.restrict(position.gradient)
        for iteration in range(_STEPS):
            if iteration % _ASKED == 0:
                inner = float(gradient @ (s - domain.lmo(gradient)))
                if inner <= _SHARE * gap or expired():
                    break
            size = norm(gradient)
            across = domain.radius / size if size > 0 else 0.0
            if not 0 < across < math.inf:
                break
            far = min(1.0 / self._curvature, _FAR * across) if self._curvature else across
            part = domain.project(s - far * gradient) - s
            d = section.lift(part)
            ray = position.along(Direction(d, 0.0, None, d))
            step = rule.size(ray, 1.0, iteration) if ray.slope < 0 else 0.0
            landed = ray.land(step, position.x + step * d)
            if not (math.isfinite(landed.inner) and landed.value < position.value):
                break
            check_step(self.objective, position, ray, step, landed)
            change = section.restrict(landed.gradient) - gradient
            length = norm(part)
            bend = float(change @ (part / length)) / (step * length)
            self._curvature = bend if bend > 0 else 0.5 / far
            position, s, gradient = landed, s + step * part, gradient + change
        self._section = section.narrowed(s)
        return position
