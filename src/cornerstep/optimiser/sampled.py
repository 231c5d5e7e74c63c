"""Sums of very many losses, walked by samples of their rows that grow.

After t steps a sample has ``batch * t²`` rows [1]_, until it has all of them.  What a sample says
is an estimate and never a certificate: the trace has no gap there, and only value, gap and bound of
the whole sum, computed anew, end a run as solved.

References
----------
.. [1] E. Hazan, H. Luo. Variance-reduced and projection-free stochastic optimization. ICML 2016.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction
from cornerstep.domains.base import require_size
from cornerstep.optimiser.composites import Composite
from cornerstep.optimiser.objectives import Position, Ray


class Sampled:
    """A composite whose steps look at samples of its rows.

    Parameters
    ----------
    objective : Composite
        Of an array or a sparse matrix.
    batch : int, default=256
        Rows of the first sample.
    random_state : int, default=0
    """

    def __init__(self, objective: Composite, batch: int = 256, random_state: int = 0) -> None:
        if not isinstance(objective, Composite) or not objective.matrix.has_entries:
            raise TypeError(
                "objective must be a Composite (Huber, Logistic, ...) of an array or a sparse "
                f"matrix, got {type(objective).__name__}"
            )
        self.objective = objective
        self.batch = require_size(batch, "batch")
        self.random_state = random_state
        self.size, self.n_rows = objective.size, objective.target.size
        self.lipschitz = objective.lipschitz
        self.strong_convexity = objective.strong_convexity
        self.product_size = objective.product_size
        data = objective.matrix.data
        self._rows = sp.csr_array(data) if sp.issparse(data) else data
        self.begin()

    def begin(self) -> None:
        """A new run, with the first sample."""
        self._rng = np.random.default_rng(self.random_state)
        self._steps = 0

    def at(self, x: FloatArray) -> SampledPosition:
        """Value and gradient of the whole sum."""
        return SampledPosition(self, self.objective.at(x), estimate=False)

    def sample(self, x: FloatArray) -> SampledPosition:
        """The next sample's estimate of value and gradient."""
        self._steps += 1
        count = self.batch * self._steps**2
        if count >= self.n_rows:
            return self.at(x)
        rows = np.sort(self._rng.choice(self.n_rows, count, replace=False))
        part = self.objective.part(rows, self._rows[rows])
        return SampledPosition(self, part.at(x), estimate=True)

    def errors(self, position: Position) -> tuple[float, FloatArray]:
        """Those of the whole sum; an estimate may be off by anything."""
        if getattr(position, "estimate", False):
            return np.inf, np.full(position.x.size, np.inf)
        return self.objective.errors(position)


class SampledPosition:
    """A point, with value and gradient of the whole sum or of a sample of it."""

    __slots__ = ("_position", "estimate", "gradient", "inner", "objective", "value", "x")

    def __init__(self, objective: Sampled, position: Position, *, estimate: bool) -> None:
        self._position = position
        self.objective = objective
        self.estimate = estimate
        self.x, self.value = position.x, position.value
        self.gradient, self.inner = position.gradient, position.inner

    def along(self, direction: Direction) -> _SampledRay:
        return _SampledRay(self.objective, self._position.along(direction))


class _SampledRay:
    """The ray of a sample, which lands on the next one."""

    __slots__ = ("_objective", "_ray", "curvature", "direction", "slope")

    def __init__(self, objective: Sampled, ray: Ray) -> None:
        self._objective = objective
        self._ray = ray
        self.curvature = None
        self.direction, self.slope = ray.direction, ray.slope

    def value(self, step: float) -> float:
        return self._ray.value(step)

    def derivative(self, step: float) -> float:
        return self._ray.derivative(step)

    def land(self, step: float, x: FloatArray) -> SampledPosition:
        return self._objective.sample(x)
