"""The default solver of the multi-class SVM: dual block ascent on pools of classes.

*Problem.*  Given examples x_i with labels y_i among m classes, scales ``s_i = C weight_i``, costs
Delta_i (0 for the label) and a loss with weights rho and smoothing mu, minimise over W, with a row
per class,

``P(W) = 1/2 |W|² + sum_i s_i Phi_mu(W x_i; y_i)``.

Its dual, which the solver works on, is

``max over beta of  D = sum_i s_i (<Delta_i, beta_i> - mu/2 |alpha_i|²) - 1/2 |W(A)|²``,
``W(A) = sum_i s_i alpha_i x_i'``,  ``alpha_i = (1'beta_i) e_y - beta_i``,

*subject to*, for every example (a *block*), beta_i in B: ``beta_i >= 0``, no weight on the label,
and for all k the sum of its k largest entries at most ``rho_1 + ... + rho_k`` (for the max hinge,
the sum of all at most 1; the top-k losses scale rho by an s <= 1).

*Input*: a :class:`~cornerstep.multiclass.problem.MulticlassProblem` and a relative gap to reach.
*Output*: the best W seen, its P, and the best D seen.  Any W and any A certify each other:
``P(W) - D(A)`` bounds the error of both.

*Algorithm.*  Every example has a *pool* of classes that may have weight; all are empty at first,
and so ``W = 0``.  A round is:

1. **Look** (:meth:`BlockAscent.look`).  Score all examples for all classes, by matrix products in
   blocks.  This gives P(W), D(A), and for each example the few classes outside its pool that its
   block would give weight to.
2. **Try other weights**, for P alone: ``t W`` where some t > 1 promises much
   (:mod:`cornerstep.multiclass.solvers.rescaling`), the mean of accelerated weights, or weights
   that a warm start brought.
3. **Stop** if the best P and the best D are within the target (the loop does it, after
   :meth:`BlockAscent.certify` has recomputed both from the data in float64).
4. **Change the pools**: classes without weight leave, those found in 1 enter.
5. **Choose the stage** from the pace of the gap (:mod:`cornerstep.multiclass.solvers.pace`):

   a. *sweeps*, at first;
   b. *accelerated* steps, each of some sweeps on a problem whose weights are held back
      (:mod:`cornerstep.multiclass.solvers.acceleration`), where sweeps would take many rounds;
   c. *second-order* steps, each followed by sweeps
      (:mod:`cornerstep.multiclass.solvers.second_order`), where that takes long too and W is small,
      and, instead of b, with a kernel.

6. **Sweep** (:meth:`BlockAscent._sweep`).  Visit the examples that have classes in a fresh random
   order.  Maximise D over beta_i exactly, all else fixed: with ``q = s_i |x_i|²`` that is the
   projection of ``(q alpha_i - W x_i - Delta_i) / (q + mu)``, and W changes by
   ``s_i (new alpha_i - alpha_i) x_i'``.  Only scores of classes in the pool are read.  Blocks that
   gain little rest until the next round.  Sweep again until the next look is worth more.

With a kernel, W is held as the scores of all examples, and a block changes them by a row of the
kernel matrix.

References
----------
- K. Crammer, Y. Singer. On the algorithmic implementation of multiclass kernel-based vector
  machines. JMLR 2001: the max hinge and its blocks.
- S. S. Keerthi, S. Sundararajan, K.-W. Chang, C.-J. Hsieh, C.-J. Lin. A sequential dual method for
  large scale multi-class linear SVMs. KDD 2008: sweeps over few active classes per example.
- S. Shalev-Shwartz, T. Zhang. Stochastic dual coordinate ascent methods for regularized loss
  minimization. JMLR 2013: random order, exact blocks, the duality gap.
- N. Usunier, D. Buffoni, P. Gallinari. Ranking with ordered weighted pairwise classification. ICML
  2009: another of the losses.
- M. Lapin, M. Hein, B. Schiele. Top-k multiclass SVM. NIPS 2015: the others, and projections for
  their blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.rounding import Rounding
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import peaks
from cornerstep.multiclass.solvers.block_settings import BlockSettings
from cornerstep.multiclass.solvers.dual_iterate import DualIterate
from cornerstep.multiclass.solvers.incumbents import Incumbents, PrimalPoint
from cornerstep.multiclass.solvers.pace import ACCELERATED, SECOND_ORDER, SWEEPS, Pace
from cornerstep.multiclass.solvers.pool import (
    NAMES,
    Entering,
    Pool,
    coefficients_of,
    empty_pool,
    scan,
    still_moving,
)
from cornerstep.multiclass.solvers.rescaling import Scanned, try_longer_weights
from cornerstep.multiclass.solvers.second_order import SecondOrder
from cornerstep.optimiser.loop import Look, Move
from cornerstep.optimiser.order import Order


class BlockAscent:
    """Rounds of block ascent, for the loop.

    Parameters
    ----------
    problem : MulticlassProblem
    rng : numpy Generator
        For the order of the sweeps.
    target : float
        The relative gap to reach.
    state : tuple of arrays, optional
        Of an earlier run on the same examples: a pool of dual points, and weights to try (or None).
    settings : BlockSettings, optional

    Attributes
    ----------
    iterate : DualIterate
        The dual points that sweeps are at, and their weights.
    best : Incumbents
        The best weights and the best dual points so far.
    pace : Pace
        The schedule.
    sweeps : int
        Made so far.
    closing : float
        Seconds that the certificate is going to take, which a time limit leaves for it.
    expired : callable
        Whether the run is to end: the loop sets it, long moves ask.
    """

    monotone = True
    extra_columns: tuple[str, ...] = ("dual", "sweeps")

    def __init__(
        self,
        problem: MulticlassProblem,
        rng: np.random.Generator,
        target: float,
        state: tuple[Any, ...] | None = None,
        settings: BlockSettings | None = None,
    ) -> None:
        self.problem = problem
        self.settings = settings = settings or BlockSettings()
        self.order = Order("permuted", problem.examples.n, rng)
        self.second_order = SecondOrder(problem, settings.second_order)
        self.pace = Pace(
            settings, target,
            kernel=problem.examples.kernel, second_order=self.second_order.is_possible,
        )  # fmt: skip
        self.sweeps, self.closing = 0, 0.0
        self.expired: Callable[[], bool] = lambda: False
        self.entering = Entering.room(problem, settings.extra_classes)
        self._coefficient_cache: tuple[Pool | None, Any] = None, None
        self._start_at(empty_pool(problem.examples.n) if state is None else state[:3])
        fits = state is not None and np.shape(state[3]) == self.iterate.image.shape
        # there may be other features now; weights to try at the next look
        self._candidate: FloatArray | None = state[3] if state is not None and fits else None

    def _start_at(self, pool: Any) -> None:
        self.iterate = DualIterate(self.problem, pool)
        self.best = Incumbents(PrimalPoint(self.iterate.image, pool))

    # -- what a run leaves ---------------------------------------------------------------------

    @property
    def point(self) -> PrimalPoint:
        return self.best.point

    @property
    def state(self) -> tuple[Any, ...]:
        """The best dual points and weights, to start another run from."""
        weights = None if self.problem.examples.kernel else self.best.point.image
        return *self.best.duals(self.iterate.pool), weights

    def snapshot(self) -> dict[str, Any]:
        """The best dual points, as arrays by name."""
        return dict(zip(NAMES, self.best.duals(self.iterate.pool), strict=True))

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot, whose dual points are checked."""
        pool = tuple(arrays[name] for name in NAMES)
        self.problem.check_duals(pool)
        self._start_at(pool)

    def coefficients(self) -> Any:
        """``s_i alpha_i`` of the dual points, the best so far, as a sparse n x m matrix."""
        return self._coefficients(self.best.duals(self.iterate.pool))

    def weights_coefficients(self) -> Any:
        """``s_i alpha_i`` of the point to return, with a kernel."""
        return self._coefficients(self.best.point.pool)

    def weights_image(self) -> FloatArray:
        """The image of the point to return."""
        return self.best.point.image

    def _coefficients(self, pool: Pool) -> Any:
        if self._coefficient_cache[0] is not pool:
            problem = self.problem
            built = coefficients_of(pool, problem.labels, problem.scales, problem.n_classes)
            self._coefficient_cache = pool, built
        return self._coefficient_cache[1]

    # -- steps 1 and 2: look, and try other weights --------------------------------------------

    def look(self) -> Look:
        iterate, best = self.iterate, self.best
        losses, slopes = scan(self.problem, iterate.pool, iterate.image, self.entering)
        self._losses = losses
        square = iterate.squared_norm()
        value = float(losses.sum()) + 0.5 * square
        accelerated = iterate.acceleration
        best.offer_dual(iterate.dual_value(), iterate.pool, may_fall=accelerated is not None)
        if value < best.value:
            best.set_weights(value, PrimalPoint(iterate.image.copy(), iterate.pool))
        scanned = Scanned(value, square, losses, slopes)
        try_longer_weights(iterate, best, scanned, self.settings.longer_promise)
        if accelerated and self.pace.rounds % self.settings.mean_period == 0:
            self._candidate = accelerated.mean
        self._try_candidate()
        self.pace.note_look(best.gap, best.value)
        if self.problem.examples.is_single and self.pace.needs_double():
            self.problem.examples.use_double()
            iterate.recompute_image()
        return best.look(Rounding(), self.sweeps)

    def _try_candidate(self) -> None:
        """Take other weights for the best point if they are."""
        weights, self._candidate = self._candidate, None
        if weights is None:
            return
        losses = self.iterate.losses_at(weights, exact=False)
        value = losses + 0.5 * float(np.vdot(weights, weights))
        if value < self.best.value:
            self.best.set_weights(value, PrimalPoint(weights, self.best.point.pool))

    # -- steps 4 to 6: a round of steps --------------------------------------------------------

    def move(self) -> Move:
        iterate, stage = self.iterate, self.pace.stage
        if not self.problem.examples.is_whole:
            self._keep_out_many()
        active = iterate.admit(self.entering)
        self.problem.examples.hold(active)
        self.closing = self.problem.examples.closing_seconds(active)
        kind = SWEEPS
        if iterate.acceleration and stage != ACCELERATED:
            iterate.end_acceleration()
        if stage == ACCELERATED:
            kind = ACCELERATED
            if iterate.acceleration is None:  # D may fall from now on
                self.best.keep_duals(iterate.pool)
            for step in range(self.settings.steps_per_round):
                if step:
                    self._sweep(active)
                    if self.expired():
                        break
                iterate.advance(self.settings.acceleration)
        elif stage == SECOND_ORDER and self.second_order.is_due():
            # sweeps last: they leave a W that is better for P than a second-order step does
            iterate.image, iterate.pool, kind = self.second_order.take_step(
                active, iterate.image, iterate.pool, self.pace.gain
            )
        self._sweep(active)
        self.pace.rounds += 1
        return Move(1.0, kind)

    def _keep_out_many(self) -> None:
        """Let few examples in that have no weight yet: those with the largest losses.

        Each costs a row of the kernel matrix, and at weights that are far too short all have a
        loss.
        """
        starts, counts = self.iterate.pool[0], self.entering.counts
        outside = starts[1:] == starts[:-1]
        settings, inside = self.settings, outside.size - int(outside.sum())
        most = max(settings.least_newcomers, int(settings.newcomers * inside))
        new = np.flatnonzero(outside & (counts > 0))
        if new.size > most:
            new = self.order.permutation(new)  # at first all losses are the same
            kept_out = np.argsort(-self._losses[new], kind="stable")[most:]
            counts[new[kept_out]] = 0

    def _sweep(self, active: IntArray) -> None:
        """Sweep over the active examples until the next look is worth more.

        Blocks that stand still rest; where most do and little is gained, a last sweep is over all.
        """
        settings, pace, examples = self.settings, self.pace, self.problem.examples
        entries = self.iterate.pool[1].size + active.size
        kind_cost = settings.sweep_cost(examples.rows[0])
        cost = kind_cost * entries / (examples.n * self.problem.n_classes)
        count, spent, gained = 0, 0.0, 0.0
        moving = active.copy()  # sweeps shuffle it
        most = pace.most_sweeps()
        while count < most and (count < 2 or spent < settings.sweep_budget) and not self.expired():
            gains = self.iterate.sweep(moving, self.order.seed())
            spent += cost * moving.size / max(active.size, 1)
            count += 1
            total = float(gains.sum())
            gained += total
            if pace.is_little(total, self.best.dual):
                break
            moving = still_moving(moving, gains, settings.resting_gain)
        few = moving.size < settings.polish_share * active.size
        if few and gained < settings.polish_gain * pace.gap and not self.expired():
            # the duals are good, W is not: blocks that rest do not fit it any more
            gained += float(self.iterate.sweep(active, self.order.seed()).sum())
            spent += cost
            count += 1
        self.sweeps += count
        pace.note_sweeps(count, gained, spent, cost)

    # -- step 3: the certificate ---------------------------------------------------------------

    def certify(self, point: PrimalPoint) -> Look:
        """P of these weights and D of the best dual points, from the data in float64.

        Neither the schedule nor the dual points change; where the weights in use are those of the
        best dual points, they lose the rounding that sweeps have gathered.
        """
        problem, examples = self.problem, self.problem.examples
        iterate, best = self.iterate, self.best
        coefficients, duals = self.coefficients(), best.duals(iterate.pool)
        of_point = self._coefficients(point.pool) if examples.kernel else None
        own, image = self._images(coefficients, of_point, point)
        best.dual = problem.dual_value(own, duals)
        linear = best.dual + 0.5 * problem.squared_norm(own, duals)
        weights, peak = image, own
        if of_point is not None:
            weights, peak = of_point.toarray().T, coefficients.toarray().T
        if best.earlier_duals is None and not iterate.acceleration:
            iterate.image = own
        square = problem.squared_norm(image, point.pool)
        value, off = problem.value(
            iterate.losses_at(image), image, square, peaks(weights, examples.sparse), best.dual
        )
        best.set_weights(value, PrimalPoint(image, point.pool))
        reach = problem.dual_reach(coefficients)
        of_bound = reach.of_bound(peaks(peak, examples.sparse), linear)
        return best.look(Rounding(off, of_bound), self.sweeps)

    def _images(
        self, coefficients: Any, of_point: Any, point: PrimalPoint
    ) -> tuple[FloatArray, FloatArray]:
        """The image of the best dual points, and that of the point's weights."""
        examples, m = self.problem.examples, self.problem.n_classes
        if of_point is None:
            image = _halves(point.image, examples.sparse) if m == 2 else point.image
            return examples.image(coefficients), image
        if of_point is coefficients:
            own = examples.image(coefficients)
            return own, own.copy()
        both = examples.image(sp.hstack([coefficients, of_point]))  # each row is computed once
        return both[:m], both[m:]


def _halves(image: FloatArray, sparse: bool) -> FloatArray:
    """The weights of two classes whose difference, all that is given out, is not rounded."""
    first, second = image.T if sparse else image
    half = 0.5 * (second - first)
    return np.stack([-half, half], axis=1 if sparse else 0)
