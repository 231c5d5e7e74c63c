"""The master with a smoothing as coarse as the gap: few Newton steps in the weights.

The problem, for the k hypotheses whose margins are the columns of A:

``max over w in the simplex of  g_tau(A w) + mu sum_j ln w_j``,
``g_tau(z) = min over d in P_nu of d'z + tau sum_i d_i ln(d_i / p_i)``,  tau = gap / ln(V/nu).

Its conditions, with d the gradient of g_tau at ``A w`` and gamma the multiplier of ``sum w = 1``:

1. ``(A'd)_j + s_j = gamma``
2. ``s_j w_j = mu``
3. ``sum w = 1``

The algorithm:

1. Start from the weights of the last round, with a little weight on every hypothesis and more on
   new ones.
2. Take the examples that may get weight (:func:`~.restriction.add_tail`).
3. Newton steps on conditions 1 to 3, with a predictor and a corrector as in
   :mod:`~cornerstep.boosting.solvers.interior`, until no edge is larger than that of the ensemble
   by more than the target.  Where they do not get there: give up.
4. If that does not hold with d over all examples, repeat from 2.
5. Take the weight off idle hypotheses.

As long as the gap is much larger than what single examples decide, g_tau is smooth on the scale of
a round: Newton's method converges in three to five steps, with a second derivative ``A'DA`` that
is computed for every third of them and over the examples that matter.  Its gradient d is a
distribution close to uniform among the examples around the threshold: the weak learner's answers
there cut deep.  When the gap is so small, or the examples so few, that g_tau has corners on that
scale, the steps do not converge, and the interior point method is due.

References
----------
.. [1] Yu. Nesterov. Smooth minimization of non-smooth functions. Mathematical Programming 103,
   2005.
.. [2] S. Mehrotra. On the implementation of a primal-dual interior point method. SIAM Journal on
   Optimization 2(4), 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cornerstep.boosting.long_work import never
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.restriction import add_tail
from cornerstep.boosting.solvers.solution import (
    MasterSolution,
    Pruning,
    edges_of,
    image_of,
)
from cornerstep.core.threads import product_threads
from cornerstep.core.types import FloatArray

_HALVINGS = 20  # of a step: what is left of it is 1e-6
_RIDGE = 1e-7  # of the mean diagonal of A'DA, which in single precision may miss being definite


@dataclass(frozen=True)
class SmoothedSettings:
    """The numbers of the smoothed master.

    Attributes
    ----------
    max_steps : int
        Newton steps before it is given up.  Where they converge three to five do; the number only
        limits what is lost before the interior point method follows.
    hessian_steps : int
        Newton steps for which a second derivative serves.  One for all of them: the steps stop
        converging; a new one as soon as a step gains little: more of them, and as many steps
        (docs/boosting.md, "What did not pay").
    coarse : float
        Targets in the gap that sets tau and mu.  It is the inverse of the share of the gap to which
        MLPBoost has its master solved.
    barrier : float
        Unit: the gap.  What the barrier takes from the value, ``k mu``.  More of it gives more
        central weights and fewer steps, and loses more.  Measured: 0.3 takes about a third more
        time; 0.03 takes 15 % fewer rounds.
    slack : float
        Unit: the gap.  The least slack at the start.  Measured: 0.1 and 1 take 8 and 6 % fewer
        rounds and the same time.
    new_share : float
        Share of the weight that new hypotheses get at the start: 0 is on the boundary.
        Measured: 0.02 and 0.2 take 2 and 10 % fewer rounds, on single sets between 27 % fewer and
        25 % more.
    all_share : float
        Share of the weight that is spread over all hypotheses at the start.  Measured: 0.002
        and 0.1 take 5 and 2 % fewer rounds, on single sets between 26 % fewer and 22 % more.
    fine : float
        In units of margins.  Below this gap ``new_share`` and ``all_share`` shrink with the gap: a
        start that is far from the solution in units of tau does not converge.  Measured: without, 3
        % less time in the mean and 21 % more on diabetis.
    reach : float
        Unit: tau.  Margins that far above the threshold have no weight: it is below
        ``exp(-reach)`` of the cap.  Measured: with all examples, 27 % more time on diabetis, 3 %
        less in the mean; 5 takes 6 % fewer rounds.
    most : float
        Share of all examples from which on leaving the others out does not pay.  Measured:
        with 1, about a fifth more time on banana and diabetis, the same in the mean.
    least_curvature : float
        Share of the largest curvature below which examples are left out of the second derivative.
        More speeds up each of them and spoils the direction.  Measured: 0 takes 61 % more time on
        banana, 28 % on diabetis; 0.1 takes 11 % fewer rounds.
    examples_per_hypothesis : int
        Examples in the second derivative; of more, so many are drawn at random.  k examples give a
        matrix of rank k; the more, the closer to the true one.  Measured: all of them take 8 %
        more rounds, 4 takes 4 % fewer, on single sets up to 52 and 41 % more.
    back_off : float
        Share of the way to the boundary that a step goes.  Measured: 0.99 takes 7 % fewer rounds
        and the same time.
    centring_power : int
        The corrector aims at the mean product times this power of the share that the predictor
        leaves of it, as in the interior point method.  Measured: 3 takes 3 % fewer rounds, up to
        39 % more.
    """

    max_steps: int = 10
    hessian_steps: int = 3
    coarse: float = 5.0
    barrier: float = 0.1
    slack: float = 0.3
    new_share: float = 0.05
    all_share: float = 0.02
    fine: float = 0.1
    reach: float = 9.0
    most: float = 0.7
    least_curvature: float = 0.03
    examples_per_hypothesis: int = 8
    back_off: float = 0.95
    centring_power: int = 2


def solve_smoothed(
    problem: SoftMargin,
    margins: FloatArray,
    weights: FloatArray,
    target: float,
    expired: Callable[[], bool] = never,
    settings: SmoothedSettings | None = None,
    pruning: Pruning | None = None,
) -> MasterSolution | None:
    """Weights for the rows of ``margins``, from given ones; None if the steps do not converge.

    Parameters
    ----------
    problem : SoftMargin
    margins : array of shape (k, m)
    weights : array of shape (k,)
        Of the last solution, 0 for new hypotheses.
    target : float
        What a hypothesis may have more edge than those with weight have on average: a share of
        the gap, which sets tau and mu.
    expired : callable
        Asked in the steps; they have not converged when it says so.
    settings : SmoothedSettings, optional
    pruning : Pruning, optional
    """
    settings, pruning = settings or SmoothedSettings(), pruning or Pruning()
    gap = settings.coarse * target
    tau = gap / math.log(problem.ratio)
    w = _starting_weights(weights, gap, settings)
    seen = np.zeros(problem.size, bool)
    while True:
        image = image_of(w, margins)
        rows = add_tail(problem, image, settings.reach * tau, settings.most, seen)
        part = problem if rows is None else SoftMargin(problem.weights[rows], problem.nu, tau)
        some = margins if rows is None else margins.take(rows, 1)
        ascent = NewtonAscent(part, some, tau, gap, w, settings)
        if not ascent.run(target, expired):
            return None
        w = ascent.w
        if rows is None:
            z, d, edges = ascent.z, ascent.d, ascent.edges
            break
        z = image_of(w, margins)
        d = problem.smoothed(z, 1.0 / tau).distribution
        edges = edges_of(margins, d)
        if edges.max() - w @ edges <= target:
            break
    soft_margin, edge = problem.value(z), float(w @ edges)
    pruned = pruning.pruned(margins, w, edges, edge, target, soft_margin, problem.value)
    if pruned is not None:
        w, z, soft_margin = pruned
    return MasterSolution(w, z, soft_margin, d, edge, edges)


def _starting_weights(weights: FloatArray, gap: float, settings: SmoothedSettings) -> FloatArray:
    """The last weights, with a little on every hypothesis and more on new ones."""
    w = weights / weights.sum()
    new = w == 0
    share = min(gap / settings.fine, 1.0)
    w = w + share * settings.all_share / w.size
    w[new] += share * settings.new_share / max(int(new.sum()), 1)
    w /= w.sum()
    return w


class NewtonAscent:
    """Newton steps on conditions 1 to 3.

    Parameters
    ----------
    problem : SoftMargin
    margins : array of shape (k, m)
    tau, gap : float
    w : array of shape (k,)
        Positive weights to start from.
    settings : SmoothedSettings

    Attributes
    ----------
    w, slack : arrays of shape (k,)
    z : array of shape (m,)
        ``A w``.
    g, d : float and array of shape (m,)
        ``g_tau(z)`` and its gradient.
    edges : array of shape (k,)
        ``A'd``.
    """

    def __init__(
        self,
        problem: SoftMargin,
        margins: FloatArray,
        tau: float,
        gap: float,
        w: FloatArray,
        settings: SmoothedSettings,
    ) -> None:
        self.problem, self.margins, self.tau, self.settings = problem, margins, tau, settings
        self.mu = settings.barrier * gap / w.size
        self.w = w
        self.z = image_of(w, margins)
        self.g, self.d = problem.smoothed(self.z, 1.0 / tau)
        self.edges = edges_of(margins, self.d)
        self.slack = self.edges.max() - self.edges + settings.slack * gap

    def run(self, target: float, expired: Callable[[], bool] = never) -> bool:
        """Steps until no edge is larger by more than ``target`` than the mean; False: in vain."""
        try:
            for step in range(self.settings.max_steps):
                if expired():
                    return False
                if step % self.settings.hessian_steps == 0:
                    hessian = self.hessian()
                self._step(hessian, expired)
                if self.edges.max() - self.w @ self.edges <= target:
                    return True
        except LinAlgError:
            pass
        return False

    def _curvatures(self) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """The diagonal of ``-g''`` and which examples are below their cap.

        An example at its cap has none; the closer it is to leaving, the more it is given.
        """
        d, caps = self.d, self.problem.caps
        free = d < caps * (1.0 - 1e-9)
        share = d / caps
        if free.any():
            i = int(np.argmax(np.where(free, share, -1.0)))
            level = self.z[i] + self.tau * math.log(max(share[i], 1e-300))
            share[~free] = np.exp(np.minimum((self.z[~free] - level) / self.tau, 0.0))
        return share * caps / self.tau, free

    def hessian(self) -> FloatArray:
        """``-A'g''A = A' (D - f f' / sum f) A``, f the curvatures of examples below their cap."""
        curvatures, free = self._curvatures()
        kept = np.flatnonzero(curvatures > self.settings.least_curvature * curvatures.max())
        some = curvatures[kept]
        part = self.margins.take(kept, axis=1)
        f = np.where(free[kept], some, 0.0)
        column = edges_of(part, f)
        most = self.settings.examples_per_hypothesis * self.w.size
        factor = 1.0
        if kept.size > most:
            drawn = np.sort(np.random.default_rng(kept.size).permutation(kept.size)[:most])
            part, some, factor = part[:, drawn], some[drawn], kept.size / most
        scaled = part * np.sqrt(some).astype(part.dtype)
        with product_threads(len(scaled) * scaled.size // 2):
            product: FloatArray = scaled @ scaled.T
        if factor != 1.0:
            product *= factor
        if (total := float(f.sum())) > 0:
            column = (column / math.sqrt(total)).astype(product.dtype)
            product -= np.outer(column, column)
        return product

    def _step(self, hessian: FloatArray, expired: Callable[[], bool] = never) -> None:
        """A predictor-corrector step with H, the (older) second derivative.

        The edges fall by ``H dw``.  Linearised, with the products ``s_j w_j`` to become ``t_j``:
        condition 2 gives ``ds = (t - s dw) / w - s``, which in condition 1 leaves
        ``(H + diag(s / w)) dw = A'd + t / w - gamma``, where gamma follows from ``sum dw = 0``.
        """
        w, s, k = self.w, self.slack, self.w.size
        matrix = hessian.copy()
        matrix[np.diag_indices(k)] += s / w + _RIDGE * float(np.trace(hessian)) / k
        # symmetric: its transpose is in the order of LAPACK
        factor = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
        ones, first = _solve(factor, np.column_stack([np.ones(k), self.edges])).T

        def direction(
            first: FloatArray, product: FloatArray | float
        ) -> tuple[FloatArray, FloatArray]:
            """Newton's direction in w and in the slacks towards ``slack_j w_j = product_j``."""
            dw = first - first.sum() / ones.sum() * ones
            return dw, (product - s * dw) / w - s

        dw, ds = direction(first, 0.0)
        now = float(s @ w) / k
        ahead = float((s + _step_size(s, ds) * ds) @ (w + _step_size(w, dw) * dw)) / k
        centre = max(now * (ahead / now) ** self.settings.centring_power, self.mu)
        product = centre - dw * ds
        dw, ds = direction(_solve(factor, self.edges + product / w), product)
        if self._go(dw, centre, expired):
            self.slack = s + _step_size(s, ds, self.settings.back_off) * ds

    def _go(self, dw: FloatArray, mu: float, expired: Callable[[], bool]) -> bool:
        """Step along dw, halved until ``g_tau + mu sum ln w`` has not fallen; False: no time."""
        w, size = self.w, _step_size(self.w, dw, self.settings.back_off)
        dz = image_of(dw, self.margins)
        least = self.g + mu * float(np.log(w).sum())
        for _ in range(_HALVINGS):
            if expired():
                return False
            new = w + size * dw
            z = self.z + size * dz
            g, d = self.problem.smoothed(z, 1.0 / self.tau)
            if g > self.g or g + mu * float(np.log(new).sum()) >= least:
                break
            size *= 0.5
        self.w = new / new.sum()
        self.z, self.g, self.d = z, g, d
        self.edges = edges_of(self.margins, d)
        return True


def _solve(factor: Any, right: FloatArray) -> FloatArray:
    solution = cho_solve(factor, right.astype(factor[0].dtype), check_finite=False)
    return solution.astype(np.float64)


def _step_size(value: FloatArray, change: FloatArray, share: float = 1.0) -> float:
    """The largest step up to 1 that goes at most this share of the way to a value of 0."""
    return 1.0 / max(1.0, float((-change / value).max()) / share)
