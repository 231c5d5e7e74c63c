"""The fast solver of the multi-class SVM: dual block ascent on pools of classes.

A *round* is one look and one move.

- The look scores all examples for all classes (matrix products in blocks).  It gives P(W), the gap,
  and for each example the few classes outside its *pool* that would get weight.
- The move sweeps over the examples in random order.  A block is solved exactly (a projection) and
  reads the scores of its own pool only: a handful of classes, most examples none.  After the first
  rounds a second-order step follows (:mod:`cornerstep.problems.multiclass_newton`).

The primal point returned is the best W seen, which need not be the W(A) of the duals: on data
that can be separated W(A) has nearly the right direction long before its right length, so that
``t W(A)`` with t slightly above 1 is much the better point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.kernels import multiclass as kernels
from cornerstep.optimiser.loop import Look, Move
from cornerstep.optimiser.order import Order
from cornerstep.problems.multiclass import MulticlassProblem
from cornerstep.problems.multiclass_newton import (
    SMALL,
    Faces,
    ProximalStep,
    dual_value,
    face_step,
    squared_norm,
)
from cornerstep.vectors import FloatArray, IntArray

POOL = ("starts", "classes", "beta")  # of dual points, in a snapshot

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
_PATIENCE = 200  # second-order steps once rounds to come seem to cost more than so many CG steps,
_PACE = 6  # at the pace of so many rounds
_IMPATIENCE, _SHORT_PACE = 40, 3  # the same where W is small
_FINEST = 1e-15  # no run gets to a smaller relative gap
_EFFORT = (10, 5)  # conjugate gradient steps of a second-order step, at first and at least,
_MOST = (100, 50)  # at most, and at most if preconditioned;
_WORTH = 0.2  # more of them if they gain this share of what the sweeps do, fewer otherwise:
_MORE, _FEWER = 1.5, 0.8  # where even the fewest gain less, they are preconditioned from then on,
# and where that does not help either, the next rounds do without
_NEWTON = (3, 10)  # Newton steps of a proximal step: at first (one more each time), at most
_DAMPING = (0.4, 2.0)  # factors on the damping after a step most of the way, and otherwise
_LEAST_DAMPING = 1e-8  # of what it is at first
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
        Dual state of an earlier run on the same examples: a pool.
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
        self.pool = nothing if state is None else state
        self._built: tuple[Any, Any] = None, None  # a pool and its coefficients
        self.image = problem.examples.empty_image(problem.n_classes)
        if state is not None:
            self.image = problem.examples.image(self.coefficients())
        self.best_image, self.best_pool = self.image, self.pool
        self.best_value = np.inf
        self.sweeps = self.rounds = 0
        self._extra_classes = min(problem.loss.rho.size + _EXTRA, problem.n_classes)
        self._found, self._n_found = self._nothing_found()
        self._dual = 0.0
        self._gap, self._slow, self._stale, self._seconds = np.inf, False, 0, 0
        self._enough = _ENOUGH
        self._count, self._gain = 0, 0.0  # sweeps of the last round, and what they gained
        self._effort = float(_EFFORT[0])
        self._gaps: list[float] = []
        self._round_cost = self._step_cost = 0.0  # in looks, of a round of sweeps and of a CG step
        self._preconditioned = False
        self._pause = self._rest = 0  # rounds without a second-order step: last time, from now on
        self._first_damping = 1e-2 * float((problem.scales * problem.examples.norms).mean())
        self._damping = self._first_damping
        self._on_faces = False  # whether the last second-order step was one on a face

    @property
    def point(self) -> Any:
        return self

    @property
    def state(self) -> tuple[Any, ...]:
        """The dual points, to start another run from."""
        return self.pool

    def snapshot(self) -> dict[str, Any]:
        """The dual points, as arrays by name."""
        return dict(zip(POOL, self.pool, strict=True))

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.pool = tuple(arrays[name] for name in POOL)
        self.image = self.problem.examples.image(self.coefficients())
        self.best_image, self.best_pool = self.image, self.pool

    def coefficients(self) -> Any:
        """``s_i alpha_i`` of the dual points, the best so far, as a sparse n x m matrix."""
        return self._coefficients(self.pool)

    def weights_coefficients(self) -> Any:
        """``s_i alpha_i`` of the point to return."""
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

    def _dual_value(self) -> float:
        return dual_value(self.problem, self.image, self.pool)

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
        zero = self.pool[1].size == 0  # then W = 0
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
        self._dual = self._dual_value()
        if value < self.best_value:
            # moves replace the pool and change the image in place
            self.best_value, self.best_image, self.best_pool = value, self.image.copy(), self.pool
        self._try_longer(value, square, losses, slopes)
        return self._look()

    def _try_longer(
        self, value: float, square: float, losses: FloatArray, slopes: FloatArray
    ) -> None:
        """Take ``t W(A)`` for the best point if it is, where t > 1 promises much."""
        good = self._dual + _PROMISE * (self.best_value - self._dual)
        if self.best_value - self._dual > self.target * self.best_value:
            good = max(good, self._dual / (1.0 - min(_ARRIVAL * self.target, _ARRIVAL)))
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

    def _look(self) -> Look:
        gap = max(self.best_value - self._dual, 0.0)
        self._slow = self._slow or self._is_slow(gap)
        self._gaps.append(gap)
        self._stale = 0 if gap < 0.99 * self._gap else self._stale + 1
        self._gap = min(gap, self._gap)
        fine = gap < _SINGLE * abs(self.best_value) or self._stale >= _STALE
        if fine and self.problem.examples.is_single:
            self.problem.examples.use_double()
            self.image = self.problem.examples.image(self.coefficients())
        return Look(self.best_value, gap, extra=(self._dual, self.sweeps))

    def _is_slow(self, gap: float) -> bool:
        """Whether sweeps alone, at the pace of the last rounds, are not the way to the target."""
        small = self.image.size <= SMALL
        window, patience = (_SHORT_PACE, _IMPATIENCE) if small else (_PACE, _PATIENCE)
        if self.rounds < window or gap <= self.target * self.best_value:
            return False
        pace = np.log(self._gaps[-window] / gap) / window
        return bool(self._to_go(gap) * self._round_cost > pace * patience * self._step_cost)

    def _to_go(self, gap: float) -> float:
        """How much smaller the gap must get, as a logarithm."""
        return float(np.log(gap / (max(self.target, _FINEST) * self.best_value)))

    def move(self) -> Move:
        self.pool = kernels.repool(self.pool, self._found, self._n_found)
        active = np.flatnonzero(np.diff(self.pool[0]))
        # sweeps last: they leave a W that is better for P than a second-order step does
        kind = "sweeps"
        if self._slow and self._rest == 0:
            kind = self._second_order(active)
        self._rest = max(0, self._rest - (kind == "sweeps"))
        self._sweep(active)
        self.rounds += 1
        return Move(1.0, kind)

    def _sweep(self, active: IntArray) -> None:
        examples = self.problem.examples
        kind = examples.rows[0]
        entries = self.pool[1].size + active.size
        cost = _SWEEP_COST[kind] * entries / (examples.n * self.problem.n_classes)
        spent, count, self._gain = 0.0, 0, 0.0
        lively = active.copy()  # sweeps shuffle it
        most = self._most_sweeps()
        while count < most and (count < 2 or spent < _ROUND):
            gains = self._sweep_once(lively)
            spent += cost * lively.size / active.size
            count += 1
            total = float(gains.sum())
            self._gain += total
            if total <= self._enough * self.target * abs(self._dual):
                self._enough *= _LESS
                break
            lively = lively[gains > _STILL * total / lively.size]
        if lively.size < 0.5 * active.size and self._gain < _POLISH * self._gaps[-1]:
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
        rows, record = self.problem.examples.rows, self.problem.record
        kernels.sweep(blocks, self.order.seed(), rows, self.image, self.pool, record, gains)
        return gains

    def _most_sweeps(self) -> int:
        """Sweeps until the next look: fewer if those should suffice to reach the target."""
        most = min(_FIRST_SWEEPS * 2**self.rounds, _SWEEPS)
        before, gap = self._gaps[-2:] if self.rounds > 1 else (0.0, 0.0)
        if self._slow or not before > gap > 0:
            return most
        suffice = _CAUTION * self._count * self._to_go(gap) / np.log(before / gap)
        return min(most, max(2, int(np.ceil(suffice))))

    def _second_order(self, active: IntArray) -> str:
        """A face step or, where the face has more free coordinates than W, a proximal one."""
        problem = self.problem
        faces = Faces(problem, active, self.pool)
        if faces.dimension > self.image.size or self.image.size <= SMALL:
            proximal = ProximalStep(problem, active, self.image, self.pool, self._damping)
            newton = min(_NEWTON[0] + self._seconds, _NEWTON[1])
            image, beta, step = proximal.solve(newton, int(self._effort))
            kind = "proximal"
        else:
            if not self._on_faces:  # what proximal steps learnt does not hold here
                self._damping = self._first_damping
                self._effort = float(_EFFORT[0])
            effort = int(self._effort)
            image, beta, step = face_step(
                problem, faces, self.image, self._damping, effort, self._preconditioned
            )
            kind = "newton"
        before = self._dual_value()
        if step > 0:
            self.image, self.pool = image, (*self.pool[:2], beta)
        pays = self._dual_value() - before > _WORTH * self._gain
        self._effort *= _MORE if pays else _FEWER
        self._effort = np.clip(self._effort, _EFFORT[1], _MOST[self._preconditioned])
        fails = self._effort == _EFFORT[1] and not pays
        if fails and not self._preconditioned:
            self._preconditioned, self._effort = True, float(_EFFORT[0])
            fails = False
        self._pause = 2 * self._pause + 1 if fails else 0
        self._rest = self._pause
        self._damping *= _DAMPING[0] if step > 0.5 else _DAMPING[1]
        self._damping = max(self._damping, _LEAST_DAMPING * self._first_damping)
        self._seconds += 1
        self._on_faces = kind == "newton"
        return kind

    def certify(self, point: Any) -> Look:
        """The dual from the coefficients, the primal of the best W from the data, in float64."""
        problem = self.problem
        self.image = problem.examples.image(self.coefficients())
        self._dual = self._dual_value()
        same = self.best_pool is self.pool
        best = self.image.copy() if same else problem.examples.image(self.weights_coefficients())
        square = squared_norm(problem, best, self.best_pool)
        self.best_image, self.best_value = best, self._losses(best) + 0.5 * square
        return self._look()


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
