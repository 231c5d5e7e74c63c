"""The fast solver of the multi-class SVM: dual block ascent on pools of classes.

A *round* is one look and one move.

- The look scores all examples for all classes (matrix products in blocks).  It gives P(W), the gap,
  and for each example the few classes outside its *pool* that would get weight.
- The move sweeps over the examples in random order.  A block is solved exactly (a projection) and
  reads the scores of its own pool only: a handful of classes, most examples none.  Where that alone
  would take many rounds, sweeps are parts of accelerated proximal steps
  (:mod:`cornerstep.multiclass.solvers.acceleration`).  With a kernel, or where W is so small that
  its Hessian can be factorised and those steps take long too, sweeps follow second-order steps
  (:mod:`cornerstep.multiclass.solvers.second_order`).

The primal point returned is the best W seen, which need not be the W(A) of the duals: on data
that can be separated W(A) has nearly the right direction long before its right length, so that
``t W(A)`` with t slightly above 1 is much the better point, and of accelerated steps the mean of
their weights is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import peaks
from cornerstep.multiclass.solvers.acceleration import Acceleration
from cornerstep.multiclass.solvers.second_order import (
    SecondOrder,
    dual_value,
    is_small,
    squared_norm,
)
from cornerstep.optimiser.loop import Look, Move
from cornerstep.optimiser.order import Order

POOL = ("starts", "classes", "beta")  # of dual points, in a snapshot
SWEEPS, ACCELERATED, SECOND_ORDER = "sweeps", "accelerated", "second-order"  # stages

# A multiply-add of a sweep costs about this many of a blocked matrix product.
_SWEEP_COST = {kernels.DENSE: 5.0, kernels.CSR: 1.0, kernels.GRAM: 1.0}
_ROUND = 3.0  # sweeps of a round cost at most about this many looks ...
_SWEEPS = 10  # ... and are at most this many,
_CAUTION = 1.2  # or this many times what the pace of the last round calls for,
_FIRST_SWEEPS = 1  # or this many in the first round, twice that in the second, and so on
_PROMISE = 0.7  # a longer W is tried if it should leave less than this share of the gap,
_ARRIVAL = 0.9  # or less than this share of what tol allows
_ENOUGH = 0.0003  # a sweep that gains less than this share of what tol allows ends the round,
_LESS = 0.1  # and the next round must gain this much less: the duals are good, but not yet W
_EXTRA = 5  # classes that may join a pool each round, beyond those that the loss weighs
_STILL = 0.02  # blocks that gain less than this share of the mean rest until the next round,
_POLISH = 0.03  # or until its last sweep, if it gained less than this share of the gap
_MANY = 10  # rounds of sweeps to come, at the pace of the last, after which these are accelerated:
_STEPS, _INNER = 4, 5  # then a round has so many accelerated steps of so many sweeps each,
_MEANS = 3  # and P of the mean of their weights is computed once in so many rounds;
_MANY_STEPS = 30  # where W is small, rounds of those to come before second-order steps,
_PATIENCE = 200  # and with a kernel, rounds of sweeps to come, in conjugate gradient steps
_PACE = (3, 10, 6)  # rounds that tell the pace for these three
_FINEST = 1e-15  # no run gets to a smaller relative gap
_EXACT = Rounding()
_SINGLE = 1e-4  # float32 data serve until the relative gap is this small ...
_STALE = 10  # ... or does not fall for so many rounds


class BlockAscent:
    """Rounds of block ascent, for the loop.

    Parameters
    ----------
    problem : MulticlassProblem
    rng : numpy Generator
        For the order of the sweeps.
    target : float
        The relative gap to reach; sweeps that gain less than a sliver of it end a round.
    state : tuple of arrays, optional
        Of an earlier run on the same examples: a pool of dual points, and weights to try (or None).
    """

    monotone = True
    extra_columns: tuple[str, ...] = ("dual", "sweeps")

    def __init__(
        self,
        problem: MulticlassProblem,
        rng: np.random.Generator,
        target: float,
        state: tuple[Any, ...] | None = None,
    ) -> None:
        self.problem = problem
        self.target = target
        n = problem.examples.n
        self.order = Order("permuted", n, rng)
        nothing = np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0)
        self.pool = nothing if state is None else state[:3]
        self._candidate: FloatArray | None = None  # weights to try at the next look
        self._kept: tuple[Any, ...] | None = None  # dual points, if earlier ones are better
        self._built: tuple[Any, Any] = None, None  # a pool and its coefficients
        self.image = problem.examples.empty_image(problem.n_classes)
        if state is not None:
            fits = state[3] is not None and state[3].shape == self.image.shape
            self._candidate = state[3] if fits else None  # there may be other features now
            self.image = problem.examples.image(self.coefficients())
        self.best_image, self.best_pool = self.image, self.pool  # the pool is for a kernel's
        self.best_value, self.best_dual = np.inf, -np.inf
        self.sweeps = self.rounds = 0
        self._extra_classes = min(problem.loss.rho.size + _EXTRA, problem.n_classes)
        self._found, self._n_found = self._nothing_found()
        self._gap, self._stale = np.inf, 0
        self._stage, self._since = SWEEPS, 0  # and the rounds before it
        self._enough = _ENOUGH
        self._count, self._gain = 0, 0.0  # sweeps of the last round, and what they gained
        self._gaps: list[float] = []
        self._round_cost = self._step_cost = 0.0  # in looks, of a round of sweeps and of a CG step
        self._second_order = SecondOrder(problem)
        self._accelerated: Acceleration | None = None
        self._record = problem.record  # of the sweeps
        self.expired: Callable[[], bool] = lambda: False  # whether the run is to end: the loop's

    @property
    def point(self) -> Any:
        return self

    @property
    def state(self) -> tuple[Any, ...]:
        """The best dual points and weights, to start another run from."""
        weights = None if self.problem.examples.kernel else self.best_image
        return *self._best_duals, weights

    @property
    def _best_duals(self) -> tuple[Any, ...]:
        return self.pool if self._kept is None else self._kept

    def snapshot(self) -> dict[str, Any]:
        """The best dual points, as arrays by name."""
        return dict(zip(POOL, self._best_duals, strict=True))

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot, whose dual points are checked."""
        self.pool, self._kept = tuple(arrays[name] for name in POOL), None
        self.problem.check_duals(self.pool)
        self._accelerated, self._record = None, self.problem.record
        self.image = self.problem.examples.image(self.coefficients())
        self.best_image, self.best_pool = self.image, self.pool

    def coefficients(self) -> Any:
        """``s_i alpha_i`` of the dual points, the best so far, as a sparse n x m matrix."""
        return self._coefficients(self._best_duals)

    def weights_coefficients(self) -> Any:
        """``s_i alpha_i`` of the point to return, with a kernel."""
        return self._coefficients(self.best_pool)

    def _coefficients(self, pool: tuple[Any, ...]) -> Any:
        if self._built[0] is not pool:  # a move makes a new one
            self._built = pool, self._build(pool)
        return self._built[1]

    def _build(self, pool: tuple[Any, ...]) -> Any:
        starts, classes, beta = pool
        problem = self.problem
        n = problem.examples.n
        examples = np.repeat(np.arange(n), np.diff(starts))
        amounts = problem.scales[examples] * beta
        ends = starts + np.arange(n + 1)  # each example's label follows its other classes
        others, own = np.arange(beta.size) + examples, ends[1:] - 1
        columns, entries = np.empty(ends[-1], np.int32), np.empty(ends[-1])
        columns[others], columns[own] = classes, problem.labels
        entries[others] = -amounts
        entries[own] = np.bincount(examples, weights=amounts, minlength=n)
        out = sp.csr_array((entries, columns, ends), shape=(n, problem.n_classes))
        out.eliminate_zeros()
        out.sort_indices()
        return out

    def weights_image(self) -> FloatArray:
        """The image of the point to return."""
        return self.best_image

    def _own_image(self) -> FloatArray:
        """``W(A)``, from which accelerated steps pull the weights away."""
        return self._accelerated.own(self.image) if self._accelerated else self.image

    def _dual_value(self) -> float:
        return dual_value(self.problem, self._own_image(), self.pool)

    def _nothing_found(self) -> tuple[IntArray, IntArray]:
        n = self.problem.examples.n
        return np.empty((n, self._extra_classes), np.int32), np.zeros(n, np.int64)

    def _scan(
        self, image: FloatArray, found: IntArray, n_found: IntArray, *, exact: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """``s_i Phi_mu`` at the weights of ``image``, and its slope as these get longer.

        Writes the classes that may join each pool to ``found`` and how many to ``n_found``.
        """
        examples, record = self.problem.examples, self.problem.record
        losses, slopes = np.empty(examples.n), np.empty(examples.n)
        zero = not image.any()
        for block in self.problem.blocks():
            if zero:
                scores = np.zeros((block.stop - block.start, self.problem.n_classes))
            else:
                scores = examples.scores(block, image, exact=exact)
            if self.problem.smoothing:
                losses[block] = self.problem.block_losses(block, scores)
            kernels.scan(
                scores, block.start, self.pool, record,
                self._extra_classes, found, n_found, losses, slopes,
            )  # fmt: skip
        return losses, slopes

    def _losses(self, image: FloatArray) -> float:
        """``sum_i s_i Phi_mu`` in float64."""
        return float(self._scan(image, *self._nothing_found(), exact=True)[0].sum())

    def look(self) -> Look:
        losses, slopes = self._scan(self.image, self._found, self._n_found)
        square = squared_norm(self.problem, self.image, self.pool)
        value = float(losses.sum()) + 0.5 * square
        self._keep(self._dual_value())
        if value < self.best_value:
            # moves replace the pool and change the image in place
            self.best_value, self.best_image, self.best_pool = value, self.image.copy(), self.pool
        self._try_longer(value, square, losses, slopes)
        if self._accelerated and self.rounds % _MEANS == 0:
            self._candidate = self._accelerated.mean
        self._try_candidate()
        return self._look()

    def _keep(self, dual: float) -> None:
        """Note D if it is the best, with its dual points if the next steps may lead below it."""
        if dual >= self.best_dual:
            self.best_dual, self._kept = dual, None
            if self._accelerated:
                self._kept = (*self.pool[:2], self.pool[2].copy())

    def _try_candidate(self) -> None:
        """Take other weights for the best point if they are."""
        weights, self._candidate = self._candidate, None
        if weights is None:
            return
        losses, _ = self._scan(weights, *self._nothing_found())
        value = float(losses.sum()) + 0.5 * float(np.vdot(weights, weights))
        if value < self.best_value:
            self.best_value, self.best_image = value, weights

    def _try_longer(
        self, value: float, square: float, losses: FloatArray, slopes: FloatArray
    ) -> None:
        """Take ``t W(A)`` for the best point if it is, where t > 1 promises much."""
        good = self.best_dual + _PROMISE * (self.best_value - self.best_dual)
        if self.best_value - self.best_dual > self.target * self.best_value:
            good = max(good, self.best_dual / (1.0 - min(_ARRIVAL * self.target, _ARRIVAL)))
        # P is no flatter along W than |W|²/2, so that its slope tells the least it can become
        slope = min(square + float(slopes.sum()), 0.0)
        if square == 0 or value - slope**2 / (2 * square) > good:
            return
        scale, promised = _longer(square, losses, slopes)
        if promised > good:
            return
        image = scale * self.image
        value = self._losses(image) + 0.5 * scale**2 * square
        if value < self.best_value:
            starts, classes, beta = self.pool
            self.best_value, self.best_image = value, image
            self.best_pool = starts, classes, scale * beta

    def _look(self, rounding: Rounding = _EXACT) -> Look:
        gap = max(self.best_value - self.best_dual, 0.0)
        self._gaps.append(gap)
        self._choose_stage(gap)
        self._stale = 0 if gap < 0.99 * self._gap else self._stale + 1
        self._gap = min(gap, self._gap)
        fine = gap < _SINGLE * abs(self.best_value) or self._stale >= _STALE
        if fine and self.problem.examples.is_single:
            self.problem.examples.use_double()
            own = self.problem.examples.image(self._coefficients(self.pool))
            self.image = self._accelerated.weights(own) if self._accelerated else own
        return certified(self.best_value, self.best_dual, rounding, (self.best_dual, self.sweeps))

    def _choose_stage(self, gap: float) -> None:
        """Go on to the next stage where this one, at its pace, is not the way to the target."""
        kernel = self.problem.examples.kernel
        if self._stage == SWEEPS:
            following = SECOND_ORDER if kernel else ACCELERATED
            window, most = (_PACE[2], _PATIENCE * self._step_cost) if kernel else (_PACE[0], _MANY)
        elif self._stage == ACCELERATED and is_small(self.problem):
            following, window, most = SECOND_ORDER, _PACE[1], _MANY_STEPS
        else:
            return
        if self.rounds - self._since < window or gap <= self.target * self.best_value:
            return
        pace = np.log(self._gaps[-1 - window] / gap) / window
        if self._to_go(gap) * (self._round_cost if kernel else 1.0) > pace * most:
            self._stage, self._since = following, self.rounds

    def _to_go(self, gap: float) -> float:
        """How much smaller the gap must get, as a logarithm."""
        return float(np.log(gap) - np.log(max(self.target, _FINEST)) - np.log(self.best_value))

    def move(self) -> Move:
        self.pool = kernels.repool(self.pool, self._found, self._n_found)
        active = np.flatnonzero(np.diff(self.pool[0]))
        kind = SWEEPS
        if self._accelerated and self._stage != ACCELERATED:
            self.image, self._accelerated = self._own_image(), None
            self._record = self.problem.record
        if self._stage == ACCELERATED:
            kind = ACCELERATED
            for _ in range(_STEPS - 1):
                self._advance()
                self._sweep(active)
                if self.expired():
                    break
            else:
                self._advance()
        elif self._stage == SECOND_ORDER and self._second_order.is_due():
            # sweeps last: they leave a W that is better for P than a second-order step does
            self.image, self.pool, kind = self._second_order.take(
                active, self.image, self.pool, self._gain
            )
        self._sweep(active)
        self.rounds += 1
        return Move(1.0, kind)

    def _advance(self) -> None:
        """Move the centre of the accelerated steps along."""
        own, dual = self._own_image(), self._dual_value()
        if self._accelerated is None:
            self._accelerated = Acceleration(self.image)
            self._kept = (*self.pool[:2], self.pool[2].copy())
        else:
            self._accelerated.advance(self.image, dual)
        self.image = self._accelerated.weights(own)
        self._record = self._accelerated.record(self.problem)

    def _sweep(self, active: IntArray) -> None:
        examples = self.problem.examples
        kind = examples.rows[0]
        entries = self.pool[1].size + active.size
        cost = _SWEEP_COST[kind] * entries / (examples.n * self.problem.n_classes)
        spent, count, self._gain = 0.0, 0, 0.0
        lively = active.copy()  # sweeps shuffle it
        most = self._most_sweeps()
        while count < most and (count < 2 or spent < _ROUND) and not self.expired():
            gains = self._sweep_once(lively)
            spent += cost * lively.size / max(active.size, 1)
            count += 1
            total = float(gains.sum())
            self._gain += total
            if total <= self._enough * self.target * abs(self.best_dual):
                self._enough *= _LESS
                break
            lively = lively[gains > _STILL * total / lively.size]
        few = lively.size < 0.5 * active.size and self._gain < _POLISH * self._gaps[-1]
        if few and not self.expired():
            # the duals are good, W is not: blocks that rest do not fit it any more
            self._gain += float(self._sweep_once(active).sum())
            spent += cost
            count += 1
        self.sweeps += count
        self._count = count
        self._round_cost = 1.0 + spent
        self._step_cost = cost

    def _sweep_once(self, blocks: IntArray) -> FloatArray:
        """One sweep over these blocks, which it shuffles; what each of them gained."""
        gains = np.empty(blocks.size)
        rows = self.problem.examples.rows
        kernels.sweep(blocks, self.order.seed(), rows, self.image, self.pool, self._record, gains)
        return gains * (1.0 + self._accelerated.pull) if self._accelerated else gains

    def _most_sweeps(self) -> int:
        """Sweeps until the next look: fewer if those should suffice to reach the target."""
        if self._accelerated:
            return _INNER
        most = min(_FIRST_SWEEPS * 2**self.rounds, _SWEEPS)
        before, gap = self._gaps[-2:] if self.rounds > 1 else (0.0, 0.0)
        if self._stage != SWEEPS or not before > gap > 0:
            return most
        suffice = _CAUTION * self._count * self._to_go(gap) / np.log(before / gap)
        return min(most, max(2, int(np.ceil(suffice))))

    def certify(self, point: Any) -> Look:
        """The dual from the coefficients, the primal of the best W from the data, in float64."""
        problem, examples = self.problem, self.problem.examples
        coefficients = self.coefficients()
        own = examples.image(coefficients)
        self.best_dual = dual_value(problem, own, self._best_duals)
        linear = self.best_dual + 0.5 * squared_norm(problem, own, self._best_duals)
        if not self._accelerated:
            self.image, self.pool, self._kept = own, self._best_duals, None
        best = weights = self.best_image
        if examples.kernel:
            same = self.best_pool is self.pool
            best = own.copy() if same else examples.image(self.weights_coefficients())
            weights, own = self.weights_coefficients().toarray().T, coefficients.toarray().T
        elif problem.n_classes == 2:
            best = weights = _halves(best, examples.sparse)
        square = squared_norm(problem, best, self.best_pool)
        self.best_image = best
        self.best_value, off = problem.value(
            self._losses(best), best, square, peaks(weights, examples.sparse), self.best_dual
        )
        reach = problem.dual_reach(coefficients)
        return self._look(Rounding(off, reach.of_bound(peaks(own, examples.sparse), linear)))


def _halves(image: FloatArray, sparse: bool) -> FloatArray:
    """The weights of two classes whose difference, all that is given out, is not rounded."""
    first, second = image.T if sparse else image
    half = 0.5 * (second - first)
    return np.stack([-half, half], axis=1 if sparse else 0)


def _longer(square: float, losses: FloatArray, slopes: FloatArray) -> tuple[float, float]:
    """The t >= 1 that minimises ``t²/2 |W|² + sum_i max(0, loss_i + (t - 1) slope_i)``.

    That is P(tW) as long as no example changes its worst classes.  Returns t and the minimum.
    """
    here = 0.5 * square + float(losses.sum())
    if square + float(slopes.sum()) >= 0:
        return 1.0, here
    falling = np.flatnonzero(slopes < 0)
    vanish = 1.0 - losses[falling] / slopes[falling]
    order = np.argsort(vanish)
    vanish = vanish[order]
    # slopes[k:] of those that have not vanished before the k-th does, and of those that never do
    after = np.append(np.cumsum(slopes[falling[order]][::-1])[::-1], 0.0)
    after += float(slopes[slopes > 0].sum())
    rising = np.append(vanish * square + after[:-1] >= 0, True)
    k = int(rising.argmax())
    least, most = vanish[k - 1] if k else 1.0, vanish[k] if k < vanish.size else np.inf
    t = float(np.clip(-after[k] / square, least, most)) if square else 1.0
    return t, 0.5 * t * t * square + float(np.maximum(losses + (t - 1) * slopes, 0.0).sum())
