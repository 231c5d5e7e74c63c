"""Frank-Wolfe steps on the smoothed soft margin ``g(A w)`` over the simplex of hypotheses.

With d the gradient of g at the margins ``z = A w``, the slope towards hypothesis j is
``(A'd)_j - d'z``.  A step goes

- *towards* a vertex e: the hypothesis of largest edge, ``w + t (e - w)``;
- *pairwise*: ``w + t (e - e')``, weight moves from the hypothesis of smallest edge in the ensemble;
- *blended pairwise*: pairwise within the ensemble, as long as that is as steep as the way towards
  the vertex.

How far is the optimiser's question (:mod:`cornerstep.optimiser.steps`): a line search, the step
``2 / (t + 2)``, or the short step of g, which is eta-smooth in the max norm.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi. On the global linear convergence of Frank-Wolfe optimization
   variants. NIPS 2015.
.. [2] K. Tsuji, K. Tanaka, S. Pokutta. Pairwise conditional gradients without swap steps and
   sparser kernel herding. ICML 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.ensembles import CurrentEnsemble, Step, atom
from cornerstep.boosting.solvers.pool import Pool
from cornerstep.core.types import FloatArray
from cornerstep.optimiser.steps import Exact, OpenLoop


class Vertex(NamedTuple):
    """The hypothesis to step towards, by its number, and its edge at the gradient."""

    number: int
    edge: float


class ShortStep:
    """``slope / (eta |A(e - w)|_inf²)``: g is eta-smooth in the max norm."""

    monotone = True

    def __init__(self, eta: float) -> None:
        self.eta = eta

    def size(self, ray: MarginRay, max_step: float, time: float) -> float:
        length = float(abs(ray.change).max())
        if length == 0:
            return 0.0
        return min(max(-ray.slope, 0.0) / (self.eta * length**2), max_step)


class MarginRay:
    """``-g`` along ``z + t change``, for the step rules of the optimiser."""

    curvature = None

    def __init__(self, problem: SoftMargin, image: FloatArray, change: FloatArray) -> None:
        self.problem, self.image, self.change = problem, image, change
        self.slope = self.derivative(0.0)

    def derivative(self, step: float) -> float:
        return -float(self.problem.smoothed(self.image + step * self.change)[1] @ self.change)

    def value(self, step: float) -> float:
        return -self.problem.smoothed(self.image + step * self.change)[0]


class Towards:
    """Steps towards the vertex.

    Parameters
    ----------
    rule : StepRule
        How far.
    """

    moves_weight = False  # between members, so that those with weight must stay at hand

    def __init__(self, rule: Any) -> None:
        self.rule = rule

    def propose(self, current: CurrentEnsemble, pool: Pool, vertex: Vertex, time: int) -> Step:
        """The step from an ensemble in round ``time``; the first hypothesis came in round 0."""
        return self._towards(current, pool.row(vertex.number), vertex.number, time)

    def _towards(
        self, current: CurrentEnsemble, target: FloatArray, number: int, time: int
    ) -> Step:
        ray = MarginRay(current.problem, current.image, target - current.image)
        size = min(self.rule.size(ray, 1.0, time), 1.0)
        image = target if size >= 1 else current.image + size * ray.change
        return Step(image, size, "fw", lambda active: active.towards(atom(number), size))


class Pairwise(Towards):
    """Weight moves from the worst hypothesis of the ensemble to the vertex."""

    moves_weight = True

    def propose(self, current: CurrentEnsemble, pool: Pool, vertex: Vertex, time: int) -> Step:
        current.sort_as_active_set()
        images = pool.rows(current.numbers)
        edges = images @ current.gradient
        worst = int(np.argmin(edges))
        target = pool.row(vertex.number)
        return self._pairwise(current, images[worst], worst, target, vertex.number, time)

    def _pairwise(
        self,
        current: CurrentEnsemble,
        source: FloatArray,
        worst: int,
        target: FloatArray,
        number: int,
        time: int,
    ) -> Step:
        """From the ``worst``-th member with margins ``source`` to a hypothesis of ``target``."""
        ray = MarginRay(current.problem, current.image, target - source)
        largest = float(current.weights[worst])
        size = self.rule.size(ray, largest, time)
        drop = size >= largest * (1 - 1e-9)
        size = largest if drop else size
        return Step(
            current.image + size * ray.change, size, "pairwise-drop" if drop else "pairwise",
            lambda active: active.shift(worst, atom(number), size, drop),
        )  # fmt: skip


class BlendedPairwise(Pairwise):
    """From the worst to the best hypothesis of the ensemble, unless the vertex is steeper."""

    def propose(self, current: CurrentEnsemble, pool: Pool, vertex: Vertex, time: int) -> Step:
        current.sort_as_active_set()
        images = pool.rows(current.numbers)
        edges = images @ current.gradient
        worst, best = int(np.argmin(edges)), int(np.argmax(edges))
        if edges[best] - edges[worst] < vertex.edge - current.gradient @ current.image:
            return self._towards(current, pool.row(vertex.number), vertex.number, time)
        number = int(current.numbers[best])
        return self._pairwise(current, images[worst], worst, images[best], number, time)


_STEPS: dict[str, Callable[[SoftMargin], Towards]] = {
    "short": lambda problem: Towards(ShortStep(problem.eta)),
    "open-loop": lambda problem: Towards(OpenLoop()),
    "line-search": lambda problem: Towards(Exact()),
    "pairwise": lambda problem: Pairwise(Exact()),
    "blended-pairwise": lambda problem: BlendedPairwise(Exact()),
}
STEPS = tuple(_STEPS)


def make_step(name: str, problem: SoftMargin) -> Towards:
    """The step called ``name``, one of ``STEPS``."""
    return _STEPS[name](problem)
