"""The multi-class SVM on partitions: the batch methods, and block ascent between reductions.

*Batch methods*: :class:`SpreadRows` answers a pass by one reduction over the partitions, so that
:class:`~cornerstep.multiclass.solvers.batch.BatchDescent` runs on it unchanged.

*Block ascent*: a round has every partition look at W, sweep over its own rows, and propose a change
of its dual points (:meth:`cornerstep.multiclass.distributed.partitions.Partition.round`).  The
changes V of W are summed, and the step ``t`` in [0, 1] along ``W + t V`` maximises the dual
exactly: along it D is a quadratic.  sigma, by which partitions hold back for each other, starts at
1 and follows the steps: a short one raises it (at most to the number of partitions, for which they
need none), and one that would best be longer than 1 lowers it.

References
----------
.. [1] C. Ma, V. Smith, M. Jaggi, M. I. Jordan, P. Richtárik, M. Takáč. Adding vs. averaging in
   distributed primal-dual optimization. ICML 2015.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.data.reductions import Reply, moved_note
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.multiclass.distributed.partitions import (
    HeldCombination,
    LostDualsError,
    Partition,
    SpreadProblem,
    Task,
    state_of,
)
from cornerstep.multiclass.distributed.settings import SpreadSettings
from cornerstep.multiclass.rounding import Reach, check_size, peaks
from cornerstep.multiclass.solvers.passes import (
    PROBES,
    DualState,
    Envelopes,
    HostRows,
    Moments,
    Pass,
    mixture,
    moments_of,
    probe_errors,
    rounding,
)
from cornerstep.multiclass.solvers.pool import NAMES
from cornerstep.multiclass.solvers.provenance import NOTHING, blend, source_of
from cornerstep.optimiser.loop import Look, Move

_EXACT = Rounding()
_LOWER, _RAISE, _SHORT = 0.5, 1.2, 0.4  # factors on sigma; the step that counts as short


class SpreadRows(HostRows):
    """The rows of a problem in partitions, for the batch methods.

    Parameters
    ----------
    problem : SpreadProblem
    """

    def __init__(self, problem: SpreadProblem) -> None:
        self.problem, self.executor = problem, problem.executor
        self._smoothing = problem.shared.smoothing
        shape = problem.empty_image(PROBES if problem.rounded else 0).shape
        self._moments: Moments | None = None
        self._passes = 0
        self._probes: FloatArray = np.random.default_rng(0).standard_normal(shape)

    @property
    def moved(self) -> int | None:
        """Bytes moved so far."""
        return self.executor.moved

    def zero_state(self, *, kept: bool = True) -> DualState:
        m = self.problem.shared.n_classes
        count = PROBES if self.problem.rounded else 0
        kept = kept and bool(self._smoothing)
        alpha = HeldCombination([0, 0], np.zeros((2, 2))) if kept else np.empty((0, m))
        image, probed = self.problem.empty_image(m), np.zeros((m, count))
        return DualState(image, 0.0, alpha, probed, provenance=NOTHING)

    def state(self, image: FloatArray, linear: float) -> DualState:
        """Of the points that block ascent holds: their image, unrounded, and the dual less |W|²."""
        probed = image.T @ self._probes if self.problem.sparse else image @ self._probes.T
        held = source_of("held")
        return self.zero_state(kept=False)._replace(
            image=image, linear=linear, probed=probed, provenance=held
        )

    def corner(self, primal: DualState, state: DualState, *, nearest: bool) -> Pass:
        while True:
            weights = tuple(state.alpha.weights) if self._smoothing else (0.0, 0.0)
            try:
                reply = self.executor.reduce(
                    Partition.corner, primal.image, weights=weights, nearest=nearest
                )
                break
            except LostDualsError:
                if self._smoothing:
                    state = self._held(state)
                    primal = primal if nearest else state
        here = there = state.alpha
        provenance = None if self._smoothing else source_of("corner", primal.image)
        if self._smoothing:
            self._passes += 1
            gram, count = reply["gram"], self._passes
            here, there = HeldCombination([1, 0], gram, count), HeldCombination([0, 1], gram, count)
        return Pass(
            primal,
            state._replace(alpha=here),
            state_of(reply, there)._replace(provenance=provenance),
            reply["losses"],
            reply["vertex_losses"],
        )

    def _held(self, state: DualState) -> DualState:
        """The state of the dual points that the partitions have now."""
        while True:
            try:
                reply = self.executor.reduce(Partition.gathered, state.image)
            except LostDualsError:
                continue
            alpha = HeldCombination([1, 0], np.diag([reply["square"], 0.0]))
            return state_of(reply, alpha)._replace(steps=state.steps)

    def _reduce(self, task: Task, image: FloatArray, **arguments: Any) -> Reply:
        """A task that needs no dual points."""
        while True:
            try:
                return self.executor.reduce(task, image, **arguments)
            except LostDualsError:
                continue

    def losses(self, image: FloatArray) -> float:
        return float(self._reduce(Partition.losses, image)["losses"])

    @cached_property
    def reach(self) -> Reach:
        """What the rounding of a certificate is measured by: one pass over the rows."""
        shared = self.problem.shared
        reply = self._reduce(Partition.reach, self.problem.empty_image(shared.n_classes))
        total = float(shared.loss.rho.sum())
        features, costs, summed = (reply[name] for name in ("features", "costs", "summed"))
        reach = Reach(features, costs, total, self.problem.size, summed)
        check_size(reach)
        return reach

    def rounding(self, primal: DualState, dual: DualState, square: float) -> Rounding:
        of_value, of_bound = (peaks(state.image, self.problem.sparse) for state in (primal, dual))
        return Rounding(
            self.reach.of_value(of_value, square),
            self.reach.of_bound(of_bound, dual.linear, dual.steps),
        )

    def envelopes(self, image: FloatArray, smoothing: float) -> Envelopes:
        reply = self._reduce(Partition.envelopes, image, smoothing=smoothing)
        alpha = np.empty((0, self.problem.shared.n_classes))
        state = state_of(reply, alpha)._replace(provenance=source_of("nearest", image, smoothing))
        return Envelopes(state, reply["numbers"])

    def moments(self) -> Moments:
        if self._moments is None:
            image = self.problem.empty_image(self.problem.shared.n_classes)
            matrix = self._reduce(Partition.moments, image)["moments"]
            self._moments = moments_of(matrix, self.problem.sparse)
        return self._moments

    def square(self, state: DualState) -> float:
        return float(np.vdot(state.image, state.image))

    def ridge(self, alpha: Any) -> float:
        return self._smoothing * alpha.square() if isinstance(alpha, HeldCombination) else 0.0

    def uniform(self) -> DualState:
        nothing = self.zero_state()
        state = state_of(
            self.problem.executor.reduce(Partition.uniform, nothing.image), nothing.alpha
        )
        return state._replace(provenance=source_of("uniform"))

    def inner(self, states: Sequence[DualState], other: DualState) -> FloatArray:
        if isinstance(other.alpha, HeldCombination):
            raise ValueError(
                "solver='fw-corrective' needs smoothing=0 where rows are spread: the dual points "
                f"of all its vertices would have to be kept; got smoothing={self._smoothing!r}"
            )
        return np.array([float(np.vdot(state.image, other.image)) for state in states])

    def mixture(self, states: Sequence[DualState], weights: FloatArray) -> DualState:
        return mixture(states, weights)

    def size(self, state: DualState) -> tuple[float, float]:
        return self.square(state), rounding(self.probe_errors(state))

    def probe_errors(self, state: DualState) -> FloatArray:
        return probe_errors(state, self._probes, self.problem.sparse)

    def refine(self) -> bool:
        return False

    def coefficients(self, state: DualState) -> Any:
        provenance = state.provenance
        if isinstance(state.alpha, HeldCombination):
            tasks, weights = ("points", "corners"), state.alpha.weights.tolist()
            last = state.alpha.count == self._passes > 0  # partitions keep no others
            provenance = blend(zip(weights, map(source_of, tasks), strict=True)) if last else None
        return None if provenance is None else self.executor.coefficients(provenance)


class SpreadAscent:
    """Rounds of block ascent on partitions, for the loop.

    Parameters
    ----------
    problem : SpreadProblem
    rng : numpy Generator
        For the order of the sweeps.
    settings : SpreadSettings, optional
    """

    monotone = True

    def __init__(
        self,
        problem: SpreadProblem,
        rng: np.random.Generator,
        settings: SpreadSettings | None = None,
    ) -> None:
        self.settings = settings or SpreadSettings()
        self.problem, self.executor, self.rng = problem, problem.executor, rng
        self.rows = SpreadRows(problem)
        self.sigma = 1.0
        self.image = problem.empty_image(problem.shared.n_classes)
        self.best_image, self.best_value, self.best_dual = self.image, math.inf, -math.inf
        self.rounds = 0
        self._step = 0.0
        self._reply: Reply = {}

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Of the trace."""
        return ("dual",) if self.executor.moved is None else ("dual", "bytes_moved")

    @property
    def note(self) -> str:
        """For the live display."""
        return moved_note(self.executor.moved)

    @property
    def point(self) -> FloatArray:
        return self.best_image

    def coefficients(self) -> Any:
        """``s_i alpha_i`` of the dual points, where the executor can bring them together."""
        return self.executor.coefficients(source_of("held"))

    def weights_image(self) -> FloatArray:
        """The image of the point to return."""
        return self.best_image

    def snapshot(self) -> dict[str, Any] | None:
        """The dual points held, as arrays by name; None if some are lost at the moment."""
        pool = self.executor.duals()
        return None if pool is None else dict(zip(NAMES, pool, strict=True))

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.executor.restore(tuple(arrays[name] for name in NAMES))
        self._take_held()

    def _exact(self, image: FloatArray) -> Reply:
        while True:
            try:
                return self.executor.reduce(Partition.exact, image)
            except LostDualsError:
                self._reply = {}

    def held(self) -> tuple[FloatArray, float]:
        """W of the dual points that the partitions hold, from the data, and the dual less |W|²."""
        reply = self._exact(self.image)
        return reply["image"], reply["here"]

    def _take_held(self) -> None:
        self.image, _ = self.held()
        self._step = 0.0

    def look(self) -> Look:
        while True:
            try:
                self._reply = reply = self.executor.reduce(
                    Partition.round,
                    self.image,
                    step=self._step,
                    sigma=self.sigma,
                    sweeps=min(2**self.rounds, self.settings.most_sweeps),
                    least_gain=self.settings.least_gain,
                    seed=int(self.rng.integers(2**31)),
                )
                break
            except LostDualsError:
                self._take_held()
        square = float(np.vdot(self.image, self.image))
        value, dual = reply["losses"] + 0.5 * square, reply["here"] - 0.5 * square
        if value < self.best_value:
            self.best_value, self.best_image = value, self.image
        self.best_dual = max(self.best_dual, dual)
        return self._look()

    def _look(self, rounding: Rounding = _EXACT) -> Look:
        extra = (
            (self.best_dual,)
            if self.executor.moved is None
            else (self.best_dual, self.executor.moved)
        )
        return certified(self.best_value, self.best_dual, rounding, extra)

    def move(self) -> Move:
        self.rounds += 1
        if not self._reply:  # lost on the way: look again at what is held now
            self._step = 0.0
            return Move(0.0, "recovery")
        reply, change = self._reply, self._reply["image"]
        bend = 2.0 * (reply["here"] + reply["there"] - 2.0 * reply["half"])  # of the ridge, <= 0
        slope = reply["there"] - reply["here"] - bend - float(np.vdot(self.image, change))
        curvature = float(np.vdot(change, change)) - 2.0 * bend
        longest = slope / curvature if curvature > 0 else 1.0
        self._step = min(max(longest, 0.0), 1.0)
        if not self.executor.sequential:
            if longest > 1.0:
                self.sigma = max(1.0, self.sigma * max(_LOWER, 1.0 / longest))
            elif longest < _SHORT:
                self.sigma = min(float(self.executor.count), self.sigma * _RAISE)
        self.image = self.image + self._step * change
        return Move(self._step, "round")

    def certify(self, point: FloatArray) -> Look:
        """P of the point and D of the dual points held, both from the data in float64."""
        reply = self._exact(point)
        self.best_image, self.image = point, reply["image"]
        square = float(np.vdot(point, point))
        self.best_value = reply["losses"] + 0.5 * square
        self.best_dual = reply["here"] - 0.5 * float(np.vdot(reply["image"], reply["image"]))
        held = self.rows.state(reply["image"], reply["here"])
        return self._look(self.rows.rounding(held._replace(image=point), held, square))
