"""The plain methods for structured SVMs: Frank-Wolfe on all examples at once, and subgradients.

- *fw*: the corner ``w_s = sum_i psi_i(y_i*)/(lambda n)``, ``l_s = sum_i L_i(y_i*)/n`` and the step
  ``gamma = gap / (lambda |w - w_s|²)``, clipped to [0, 1]; an iteration decodes all examples.
- *subgradient*: ``w_t = sum_{s <= t} psi_{i_s}(y*)/(lambda t)``, Pegasos without projection, one
  example a step, a pass over a fresh permutation an iteration.  After whole passes w_t is a dual
  point (each example's block the mean of its answers) and proves a gap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.optimiser.loop import Look, Move
from cornerstep.optimiser.order import Order
from cornerstep.problems.structured_block import Score
from cornerstep.vectors import FloatArray


class BatchSolver:
    """Frank-Wolfe on all blocks at once, for the loop.

    Parameters
    ----------
    examples : ModelExamples or ChainExamples
    lam : float
    state : (array, float), optional
        ``lambda n w`` and ``n l`` to start from.
    """

    monotone = False
    extra_columns: tuple[str, ...] = ("dual", "oracle_calls")

    def __init__(
        self, examples: Any, lam: float, state: tuple[FloatArray, float] | None = None
    ) -> None:
        self.examples = examples
        self.lam = lam
        image, losses = (np.zeros(examples.size), 0.0) if state is None else state
        self.w = image / (lam * examples.n)
        self.linear = losses / examples.n
        self._corner: tuple[FloatArray, float] = (self.w, self.linear)
        self._gap = np.inf
        self.best_dual = -np.inf

    @property
    def point(self) -> tuple[FloatArray, float]:
        return self.w, self.linear

    def weights(self) -> FloatArray:
        """The point to return."""
        return self.w

    def state(self) -> tuple[FloatArray, float]:
        """The dual point, apart from lambda."""
        return self.w * (self.lam * self.examples.n), self.linear * self.examples.n

    def look(self) -> Look:
        corners = self.examples.corners(self.w)
        n, square = self.examples.n, float(self.w @ self.w)
        self._corner = corners.image / (self.lam * n), corners.losses / n
        hinge = float(np.maximum(corners.hinges, 0.0).mean())
        self._gap = hinge + self.lam * square - self.linear
        self.best_dual = max(self.best_dual, self.linear - 0.5 * self.lam * square)
        value = hinge + 0.5 * self.lam * square
        extra = (self.best_dual, self.examples.oracle_calls)
        return Look(value, max(value - self.best_dual, 0.0), extra=extra)

    def move(self) -> Move:
        w, linear = self._corner
        curvature = self.lam * float(np.square(w - self.w).sum())
        step = min(1.0, max(self._gap, 0.0) / curvature) if curvature > 0 else 1.0
        self.w = self.w + step * (w - self.w)
        self.linear += step * (linear - self.linear)
        return Move(step, "fw")

    def certify(self, point: tuple[FloatArray, float]) -> Look:
        self.w, self.linear = point
        return self.look()


class SubgradientSolver:
    """Passes of stochastic subgradient steps, for the loop.

    Parameters
    ----------
    examples : ModelExamples or ChainExamples
    lam : float
    averaging : bool
        Whether the point to return is the average with weights growing like t.
    check_every : int
        Passes between full looks.
    rng : numpy Generator
    score : callable, optional
        Of w; taken of both models at every full look, for the trace.
    """

    monotone = False

    def __init__(
        self,
        examples: Any,
        lam: float,
        *,
        averaging: bool,
        check_every: int,
        rng: np.random.Generator,
        score: Score | None = None,
    ) -> None:
        self.examples = examples
        self.lam = lam
        self.averaging = averaging
        self.check_every = check_every
        self.order = Order("permuted", examples.n, rng)
        self.score = score
        self.extra_columns: tuple[str, ...] = (
            "dual", "oracle_calls", "objective_last", "objective_average",
        )  # fmt: skip
        if score is not None:
            self.extra_columns += ("score_last", "score_average")
        self.total, self.late = np.zeros(examples.size), np.zeros(examples.size)
        self.numbers = np.zeros(2)
        self.best_dual = 0.0  # of a = the truth
        self._known = np.inf
        self._point: FloatArray | None = None

    def models(self) -> tuple[FloatArray, FloatArray]:
        """The last point and the average."""
        t = self.numbers[0]
        if t == 0:
            return self.total, self.total
        summed = t * self.total - self.late  # sum over steps s of (s w_s) lambda
        return self.total / (self.lam * t), 2.0 * summed / (self.lam * t * (t + 1))

    @property
    def point(self) -> FloatArray:
        if self._point is None:
            self._point = self.models()[int(self.averaging)]
        return self._point

    def weights(self) -> FloatArray:
        """The point to return."""
        return self.point

    def primal(self, w: FloatArray) -> float:
        """P(w), from the data."""
        calls = self.examples.oracle_calls
        hinges = self.examples.hinges(w)
        self.examples.oracle_calls = calls
        return 0.5 * self.lam * float(w @ w) + float(np.maximum(hinges, 0.0).mean())

    def look(self) -> Look:
        last, average = self.models()
        t = max(self.numbers[0], 1.0)
        dual = self.numbers[1] / t - 0.5 * self.lam * float(last @ last)
        self.best_dual = max(self.best_dual, dual)
        calls = self.examples.oracle_calls
        if self.order.passes % self.check_every and np.isfinite(self._known):
            unknown = (np.nan,) * (len(self.extra_columns) - 2)
            return Look(self._known, np.inf, False, (self.best_dual, calls, *unknown))
        values = self.primal(last), self.primal(average)
        self._known = values[int(self.averaging)]
        extra: tuple[Any, ...] = (self.best_dual, calls, *values)
        if self.score is not None:
            extra += (self.score(last), self.score(average))
        return Look(self._known, max(self._known - self.best_dual, 0.0), extra=extra)

    def move(self) -> Move:
        order = self.order.take(self.examples.n)
        self.examples.subgradient_sweep(order, self.lam, self.total, self.late, self.numbers)
        self._point = None
        return Move(1.0 / self.order.passes, "subgradient")

    def certify(self, point: FloatArray) -> Look:
        self._point = point
        value = self.primal(point)
        unknown = (np.nan,) * (len(self.extra_columns) - 2)
        extra = (self.best_dual, self.examples.oracle_calls, *unknown)
        return Look(value, max(value - self.best_dual, 0.0), extra=extra)
