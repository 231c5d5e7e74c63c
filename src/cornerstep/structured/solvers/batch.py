"""The plain methods for structured SVMs: Frank-Wolfe on all examples at once, and subgradients.

p_i is an example's share of the weights, 1/n without.

- *fw*: the corner ``w_s = sum_i p_i psi_i(y_i*)/lambda``, ``l_s = sum_i p_i L_i(y_i*)`` and the
  step ``gamma = gap / (lambda |w - w_s|²)``, clipped to [0, 1]; an iteration decodes all examples.
- *subgradient*: ``w_t = sum_{s <= t} n p_i psi_i(y*)/(lambda t)``, ``i = i_s``: Pegasos without
  projection, one example per step, a pass over a fresh permutation per iteration.  After whole
  passes w_t is a dual point (each example's block the mean of its answers) and proves a gap.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter. Pegasos: primal estimated sub-gradient
   solver for SVM. Mathematical Programming 127, 3-30, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.optimiser.loop import Look, Move
from cornerstep.optimiser.order import Order
from cornerstep.optimiser.pieces import Pieces
from cornerstep.structured.proofs import Waiting, bound_error, primal, value_error
from cornerstep.structured.solvers.block import Score


class BatchSolver(Waiting):
    """Frank-Wolfe on all blocks at once, for the loop.

    Parameters
    ----------
    examples : ModelExamples or ChainExamples
    lam : float
    state : (array, float), optional
        w and l times the sum of the weights, w also times lambda, to start from.
    """

    monotone = False
    extra_columns: tuple[str, ...] = ("dual", "oracle_calls")

    def __init__(
        self, examples: Any, lam: float, state: tuple[FloatArray, float] | None = None
    ) -> None:
        self.examples = examples
        self.lam = lam
        image, losses = (np.zeros(examples.size), 0.0) if state is None else state
        self.w = image / (lam * examples.total)
        self.linear = losses / examples.total
        self._corner: tuple[FloatArray, float] = (self.w, self.linear)
        self._gap = np.inf
        self._steps = 0
        self.best_dual = -np.inf  # less its rounding

    @property
    def point(self) -> tuple[FloatArray, float]:
        return self.w, self.linear

    def weights(self) -> FloatArray:
        """The point to return."""
        return self.w

    def state(self) -> tuple[FloatArray, float]:
        """The dual point, apart from lambda."""
        total = self.examples.total
        return self.w * (self.lam * total), self.linear * total

    def look(self) -> Look:
        begin = work_seconds()
        corners = self.examples.corners(self.w)
        total, square = self.examples.total, float(self.w @ self.w)
        self._corner = corners.image / (self.lam * total), corners.losses / total
        hinge = self.examples.mean(np.maximum(corners.hinges, 0.0))
        self._gap = hinge + self.lam * square - self.linear
        n_terms = self.examples.n_sums + 8 * self._steps
        off = bound_error(self.examples, self.lam, self.w, self.linear, n_terms)
        self.best_dual = max(self.best_dual, self.linear - 0.5 * self.lam * square - off)
        value = hinge + 0.5 * self.lam * square
        rounding = Rounding(value_error(self.examples, self.lam, self.w, hinge), off)
        extra = (self.best_dual, self.examples.oracle_calls)
        look = certified(value, self.best_dual + off, rounding, extra)
        return self.keep(self.point, look, begin)

    def move(self) -> Move:
        w, linear = self._corner
        curvature = self.lam * float(np.square(w - self.w).sum())
        step = min(1.0, max(self._gap, 0.0) / curvature) if curvature > 0 else 1.0
        self.w = self.w + step * (w - self.w)
        self.linear += step * (linear - self.linear)
        self._steps += 1
        return Move(step, "fw")

    def certify(self, point: tuple[FloatArray, float]) -> Look:
        if (kept := self.proof()) is not None:
            (self.w, self.linear), look = kept
            return look
        self.w, self.linear = point
        return self.look()


class SubgradientSolver(Waiting):
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
        self._known = Look(np.inf, np.inf)
        self.expired: Callable[[], bool] = lambda: False
        self._pieces = Pieces()
        self._point: FloatArray | None = None

    def models(self) -> tuple[FloatArray, FloatArray]:
        """The last point and the average."""
        t = self.numbers[0]
        if t == 0:
            return self.total.copy(), self.total.copy()
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

    def primal(self, w: FloatArray) -> tuple[float, float]:
        """P(w), from the data, and its rounding."""
        calls = self.examples.oracle_calls
        hinges = self.examples.hinges(w)
        self.examples.oracle_calls = calls
        return primal(self.examples, self.lam, w, hinges)

    def look(self) -> Look:
        last, average = self.models()
        t = max(self.numbers[0], 1.0)
        linear = self.numbers[1] / t
        dual = linear - 0.5 * self.lam * float(last @ last)
        if t % self.examples.n == 0:  # after whole passes
            n_terms = self.order.passes * self.examples.n_sums
            off = bound_error(self.examples, self.lam, last, linear, n_terms)
            self.best_dual = max(self.best_dual, dual - off)
        calls = self.examples.oracle_calls
        known = np.isfinite(self._known.value)
        if known and (self.order.passes % self.check_every or self.expired()):
            unknown = (np.nan,) * (len(self.extra_columns) - 2)
            return Look(self._known.value, np.inf, False, (self.best_dual, calls, *unknown))
        begin = work_seconds()
        both = self.primal(last), self.primal(average)
        extra: tuple[Any, ...] = (self.best_dual, calls, both[0][0], both[1][0])
        if self.score is not None:
            extra += (self.score(last), self.score(average))
        value, error = both[int(self.averaging)]
        self._known = certified(value, self.best_dual, Rounding(error), extra)
        return self.keep(self.point, self._known, begin)

    def move(self) -> Move:
        order = self.order.take(self.examples.n)
        for piece in self._pieces(order.size):
            self.examples.subgradient_sweep(
                order[piece], self.lam, self.total, self.late, self.numbers
            )
            if self.expired():
                break
        self._point = None
        return Move(1.0 / self.order.passes, "subgradient")

    def certify(self, point: FloatArray) -> Look:
        if (kept := self.proof()) is not None:
            self._point, look = kept
            return look
        self._point, self._known = None, Look(np.inf, np.inf)  # a full look, where the method is
        look = self.look()
        if not np.isfinite(look.value) and self._proof is not None:  # beyond float64
            self._point, look = self._proof
        return look
