"""A problem in parts: rows in several places, each with the dual points of its own rows.

A :class:`Partition` holds dual points and answers *tasks* on its rows: given the weights W it gives
back reductions, which add up over partitions.  An *executor* hands a task to every partition and
sums the answers: one after the other where rows are streamed (:mod:`cornerstep.data.rows`), all at
once on a cluster (:mod:`cornerstep.data.dask`).  Neither knows any mathematics.

The task of a round of block ascent is the one of CoCoA+.  With ``W = sum_k W_k`` over partitions,
partition k improves ``l_k - <W, V> - sigma/2 |V|²`` over the change V of its W_k by block sweeps on
its own rows.  That is a sweep with all scales s_i multiplied by sigma, started at W: curvatures
and changes of W are both sigma times what they were.  For sigma = the number of partitions the
changes may all be added; a line search along their sum allows any sigma.

References
----------
.. [1] C. Ma, V. Smith, M. Jaggi, M. I. Jordan, P. Richtárik, M. Takáč. Adding vs. averaging in
   distributed primal-dual optimization. ICML 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.reductions import Reply
from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.examples import Examples, with_constant
from cornerstep.multiclass.losses import Loss
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.block_settings import BlockSettings
from cornerstep.multiclass.solvers.passes import DualState, LocalRows
from cornerstep.multiclass.solvers.pool import (
    Entering,
    Pool,
    active_examples,
    coefficients_of,
    empty_pool,
    scan,
    still_moving,
    sweep,
    with_entering,
)
from cornerstep.multiclass.solvers.provenance import KEPT, Provenance
from cornerstep.optimiser.order import Order

Task = Callable[..., Reply]  # a method of Partition

_SETTINGS = BlockSettings()  # as on one machine: which classes enter, which blocks rest


def joined(pools: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The pool of all rows, of the pools of partitions."""
    sizes = np.concatenate([np.diff(starts) for starts, _, _ in pools])
    classes, beta = (np.concatenate([pool[k] for pool in pools]) for k in (1, 2))
    return np.append(0, np.cumsum(sizes)), classes, beta


def split(pool: tuple[Any, ...], counts: Any) -> list[tuple[Any, ...]]:
    """The pools of partitions of so many rows each, of the pool of all rows."""
    starts, classes, beta = pool
    out, first = [], 0
    for count in counts:
        part = starts[first : first + count + 1]
        entries = slice(part[0], part[-1])
        out.append((part - part[0], classes[entries].copy(), beta[entries].copy()))
        first += count
    return out


class Shared(NamedTuple):
    """What all partitions of a problem share."""

    n_classes: int
    loss: Loss
    smoothing: float
    constant: float  # a further feature; 0 for none

    def problem(self, X: Any, labels: IntArray, scales: FloatArray) -> MulticlassProblem:
        """The problem of some rows; columns keep their order, so that images add up."""
        return MulticlassProblem(
            Examples(with_constant(X, self.constant) if self.constant else X, reorder=False),
            labels, self.n_classes, self.loss, scales, self.smoothing,
        )  # fmt: skip


class Executor(Protocol):
    """Who holds the partitions."""

    sequential: bool  # a partition sees the changes of all those before it
    moved: int | None  # bytes between machines so far; None on one machine

    @property
    def count(self) -> int:
        """How many partitions work at the same time."""

    def reduce(self, task: Task, image: FloatArray, **arguments: Any) -> Reply:
        """Have every partition do a task at these weights, and sum the replies.

        Raises :class:`LostDualsError` if dual points were lost on the way.
        """

    def coefficients(self, provenance: Provenance) -> Any:
        """``s_i alpha_i`` of all dual points as a sparse matrix, or what makes it when called.

        None where there are too many, or some that were kept are lost.
        """

    def digest(self) -> int:
        """What tells these rows, labels and weights, in their order, from others."""

    def duals(self) -> tuple[Any, ...] | None:
        """The dual points of the block method as one pool; None if some are lost at the moment."""

    def restore(self, pool: tuple[Any, ...]) -> None:
        """Let the partitions hold the dual points of such a pool, after checking them."""

    def close(self) -> None:
        """The run is over."""


class LostDualsError(Exception):
    """Partitions have lost their dual points and start again from older ones, or from 0."""


class SpreadProblem(NamedTuple):
    """A problem whose rows are with an executor, as estimators and solvers see it."""

    executor: Executor
    shared: Shared
    n: int
    size: int  # features, with the constant one
    sparse: bool
    rounded: bool  # whether rows are of less than double precision

    @property
    def default_solver(self) -> str:
        """What 'auto' means."""
        return "block"

    @property
    def examples(self) -> SpreadProblem:
        """What knows the kind of the rows: itself."""
        return self

    def empty_image(self, columns: int) -> FloatArray:
        """The image of no dual points."""
        return np.zeros((self.size, columns) if self.sparse else (columns, self.size))

    def weights(self, image: FloatArray) -> FloatArray:
        """W with a row per class."""
        return np.ascontiguousarray(image.T) if self.sparse else image


class Partition:
    """Dual points of some rows, and the tasks on them; the rows come with each task."""

    def __init__(self) -> None:
        self.pool: Pool | None = None  # of the block method: where W is taken
        self._after: FloatArray | None = None  # the dual points that the last round proposed
        self._points: FloatArray | None = None  # of the batch methods, where they are kept
        self._corner: FloatArray | None = None
        self._rows: LocalRows | None = None

    def _batch(self, problem: MulticlassProblem) -> LocalRows:
        if self._rows is None or self._rows.problem is not problem:
            self._rows = LocalRows(problem)
        return self._rows

    def forget_rows(self) -> None:
        """Keep the dual points only."""
        self._rows = None

    def corner(
        self, problem: MulticlassProblem, image: FloatArray, *, weights: Any, nearest: bool
    ) -> Reply:
        """A pass of the batch methods, at ``weights[0] A + weights[1] U`` of the last one's."""
        rows = self._batch(problem)
        nothing = rows.zero_state()
        if self._points is not None and self._corner is not None:
            points = weights[0] * self._points + weights[1] * self._corner
        else:
            points = nothing.alpha
        state = nothing._replace(image=image, alpha=points)
        found = rows.corner(state, state, nearest=nearest)
        reply = {
            "image": found.corner.image,
            "linear": found.corner.linear,
            "probed": found.corner.probed,
            "losses": found.losses,
            "vertex_losses": found.vertex_losses,
        }
        if points.size:
            self._points, self._corner = points, found.corner.alpha
            both = np.stack([points, found.corner.alpha])
            reply["gram"] = np.einsum("i,aij,bij->ab", problem.scales, both, both)
        return reply

    def gathered(self, problem: MulticlassProblem, image: FloatArray) -> Reply:
        """The state of the dual points that the batch methods hold here."""
        rows = self._batch(problem)
        points = rows.zero_state().alpha if self._points is None else self._points
        state = rows.gathered(points)
        self._points, self._corner = points, np.zeros_like(points)
        square = float(problem.scales @ (points**2).sum(axis=1))
        return {
            "image": state.image, "linear": state.linear, "probed": state.probed, "square": square,
        }  # fmt: skip

    def uniform(self, problem: MulticlassProblem, image: FloatArray) -> Reply:
        """The state of the same dual points for all classes."""
        state = self._batch(problem).uniform()
        return {"image": state.image, "linear": state.linear, "probed": state.probed}

    def envelopes(
        self, problem: MulticlassProblem, image: FloatArray, *, smoothing: float
    ) -> Reply:
        """A pass that smooths the losses."""
        found = self._batch(problem).envelopes(image, smoothing)
        state = found.nearest
        return {
            "image": state.image, "linear": state.linear, "probed": state.probed,
            "numbers": found.numbers,
        }  # fmt: skip

    def moments(self, problem: MulticlassProblem, image: FloatArray) -> Reply:
        """``sum_i s_i x_i x_i'``, or its diagonal."""
        return {"moments": self._batch(problem).second_moments()}

    def reach(self, problem: MulticlassProblem, image: FloatArray) -> Reply:
        """What the rounding of a certificate is measured by."""
        reach = problem.reach
        return {"features": reach.features, "costs": reach.costs, "summed": reach.summed}

    def losses(self, problem: MulticlassProblem, image: FloatArray) -> Reply:
        """``sum s_i Phi_mu`` in float64."""
        return {"losses": problem.losses(image)}

    def round(
        self,
        problem: MulticlassProblem,
        image: FloatArray,
        *,
        step: float,
        sigma: float,
        sweeps: int,
        least_gain: float,
        seed: int,
        current: FloatArray | None = None,
    ) -> Reply:
        """A round of block ascent: settle the last one's step, look, and propose a change.

        The look is at the weights ``image``, the sweeps start at ``current`` (by default the same).
        Replies with the losses, the change of W, and what the dual is made of but ``|W|²``, at the
        dual points held, at those proposed, and half-way.
        """
        self._settle(problem, step)
        entering = Entering.room(problem, _SETTINGS.extra_classes)
        losses, _ = scan(problem, self.held(problem), image, entering)
        starts, classes, beta = self.pool = with_entering(self.held(problem), entering)
        self._after = beta.copy()
        pool = starts, classes, self._after
        record = problem.record_with(sigma * problem.scales)
        start = image if current is None else current
        weights = start.copy()
        blocks = Order("permuted", problem.examples.n, np.random.default_rng(seed))
        moving = active_examples(pool)
        first = 0.0
        for count in range(sweeps):
            rows = problem.examples.rows
            gains = sweep(moving, blocks.seed(), rows, weights, pool, record)
            gain = float(gains.sum())
            first = first if count else gain
            if gain <= least_gain * first:
                break
            moving = still_moving(moving, gains, _SETTINGS.resting_gain)
        weights -= start
        weights /= sigma
        half = starts, classes, 0.5 * (beta + self._after)
        return {
            "image": weights,
            "losses": float(losses.sum()),
            "here": kernels.dual_terms(self.pool, problem.record),
            "half": kernels.dual_terms(half, problem.record),
            "there": kernels.dual_terms(pool, problem.record),
        }

    def _settle(self, problem: MulticlassProblem, step: float) -> None:
        """Take this much of the change that was proposed."""
        starts, classes, before = self.held(problem)
        if self._after is not None:
            after = self._after if step == 1.0 else before + step * (self._after - before)
            self.pool, self._after = (starts, classes, after), None

    def held(self, problem: MulticlassProblem) -> tuple[Any, ...]:
        """The dual points of the block method; a change that was proposed is no part of them."""
        if self.pool is None:
            self.pool = empty_pool(problem.examples.n)
        return self.pool

    def exact(self, problem: MulticlassProblem, image: FloatArray) -> Reply:
        """In float64 from the data: the losses at ``image``, and W and the dual of what is held.

        A change that was proposed stays proposed.
        """
        pool = self.held(problem)
        own = problem.examples.empty_image(problem.n_classes)
        coefficients = self.coefficients(problem.labels, problem.scales, problem.n_classes)
        for block in problem.blocks():
            assert isinstance(problem.examples, Examples)
            rows = problem.examples.data[block].astype(np.float64, copy=False)
            part = coefficients[block]
            own += rows.T @ part.toarray() if problem.examples.sparse else part.T @ rows
        return {
            "losses": problem.losses(image),
            "image": own,
            "here": kernels.dual_terms(pool, problem.record),
        }

    def rebuilt(self, problem: MulticlassProblem, provenance: Provenance) -> Any:
        """``s_i alpha_i`` of such dual points, as a sparse matrix."""
        others = tuple((weight, source) for weight, source in provenance if source.task not in KEPT)
        out = self._batch(problem).rebuilt(others)
        for weight, source in provenance:
            if source.task == "held":
                self.held(problem)
                held = self.coefficients(problem.labels, problem.scales, problem.n_classes)
                out = out + weight * held
            elif source.task in KEPT:
                points = self._points if source.task == "points" else self._corner
                assert points is not None
                out = out + sp.csr_array(weight * problem.scales[:, None] * points)
        return out

    def coefficients(self, labels: IntArray, scales: FloatArray, n_classes: int) -> Any:
        """``s_i alpha_i`` of the dual points held, as a sparse matrix."""
        assert self.pool is not None
        return coefficients_of(self.pool, labels, scales, n_classes)

    def restore(self, pool: tuple[Any, ...] | None) -> None:
        """Hold these dual points of the block method, or 0."""
        self.pool, self._after = pool, None
        self._points = self._corner = None


class HeldCombination:
    """Dual points that partitions hold, as a combination of the two they have: A and U.

    Parameters
    ----------
    weights : array of shape (2,)
    gram : array of shape (2, 2)
        ``sum_i s_i <.,.>`` of A and U.
    count : int
        Of the pass that left A and U there.
    """

    def __init__(self, weights: Any, gram: FloatArray, count: int = 0) -> None:
        self.weights, self.gram = np.asarray(weights, dtype=np.float64), gram
        self.count = count

    def __add__(self, other: HeldCombination) -> HeldCombination:
        return HeldCombination(self.weights + other.weights, self.gram, self.count)

    def __sub__(self, other: HeldCombination) -> HeldCombination:
        return HeldCombination(self.weights - other.weights, self.gram, self.count)

    def __rmul__(self, factor: float) -> HeldCombination:
        return HeldCombination(factor * self.weights, self.gram, self.count)

    def square(self) -> float:
        """``sum_i s_i |alpha_i|²``."""
        return float(self.weights @ self.gram @ self.weights)


def state_of(reply: Reply, alpha: Any) -> DualState:
    """The state whose image and ``l`` a reply has."""
    return DualState(reply["image"], reply["linear"], alpha, reply["probed"])
