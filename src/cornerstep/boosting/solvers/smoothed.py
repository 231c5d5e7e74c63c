"""The master with a smoothing as coarse as the gap: few Newton steps in the weights.

``max over w in the simplex of  g_tau(A w) + mu sum_j ln w_j``,
``g_tau(z) = min over d in P_nu of d'z + tau sum_i d_i ln(d_i / p_i)``,  tau = gap / ln(V/nu).

As long as the gap is much larger than what single examples decide, g_tau is smooth on the scale of
a round: Newton's method from the weights of the last round converges in three to five steps, with a
second derivative ``A D A'`` that is computed for every third of them and over the examples that
matter.  Its gradient d is a distribution close to uniform among the examples around the threshold:
the weak learner's answers there cut deep.  When the gap is so small, or the examples so few, that
g_tau has corners on that scale, the steps do not converge, and the interior point method of
:mod:`~cornerstep.boosting.solvers.master` is due.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cornerstep.boosting.long_work import never
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.interior import MasterSolution, threshold
from cornerstep.core.types import FloatArray

_MAX_STEPS = 10
_RENEWED = 3  # steps for which a second derivative serves
_COARSE = 5.0  # targets in a gap
_BARRIER = 0.1  # of the gap: k mu
_SLACK = 0.3  # of the gap: the least slack at the start
_NEW = 0.05  # of the weight: for new hypotheses at the start
_ALL = 0.02  # of the weight: spread over all of them
_FINE = 0.1  # the gap below which both shrink with it: far in units of tau, steps do not converge
_FAR = 9.0  # in tau: margins that far above the threshold have no weight
_MATTER = 0.03  # of the largest: curvatures below are left out
_ENOUGH = 8  # examples per hypothesis in A D A'; of more, some drawn at random
_BACK_OFF = 0.95  # of the way to the boundary


def solve_smoothed(
    problem: SoftMargin,
    margins: FloatArray,
    weights: FloatArray,
    target: float,
    expired: Callable[[], bool] = never,
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
    """
    gap = _COARSE * target
    tau = gap / math.log(problem.ratio)
    w = weights / weights.sum()
    new = w == 0
    share = min(gap / _FINE, 1.0)
    w = w + share * _ALL / w.size
    w[new] += share * _NEW / max(int(new.sum()), 1)
    w /= w.sum()
    seen = np.zeros(problem.size, bool)  # rows only join, so that this ends
    while True:
        rows = _near(problem, _combine(w, margins), tau, seen)
        part = problem if rows is None else SoftMargin(problem.weights[rows], problem.nu, tau)
        climb = _Climb(part, margins if rows is None else margins.take(rows, 1), tau, gap, w)
        if not climb.run(target, expired):
            return None
        w = climb.w
        if rows is None:
            z, d, edges = climb.z, climb.d, climb.edges
            break
        z = _combine(w, margins)
        d = problem.smoothed(z, 1.0 / tau).distribution
        edges = _edges(margins, d)
        if edges.max() - w @ edges <= 2.0 * target:
            break
    soft_margin, edge = problem.value(z), float(w @ edges)
    kept = np.where(edges >= edge - 2.0 * target, w, 0.0)  # the barrier gives weight to all
    if kept.sum() > 0 and not kept.all():
        kept /= kept.sum()
        image = _combine(kept, margins)
        if (value := problem.value(image)) >= soft_margin - 0.1 * target:
            w, z, soft_margin = kept, image, value
    return MasterSolution(w, z, soft_margin, d, edge, edges)


def _near(problem: SoftMargin, z: FloatArray, tau: float, seen: Any) -> Any:
    """The examples that may get weight, and those ``seen`` before; None: all, or nothing new."""
    before = np.count_nonzero(seen)
    seen |= z <= threshold(problem, z) + _FAR * tau
    rows = np.flatnonzero(seen)
    return rows if before < rows.size < 0.7 * z.size else None


def _combine(w: FloatArray, margins: FloatArray) -> FloatArray:
    return (w.astype(margins.dtype) @ margins).astype(np.float64)


def _edges(margins: FloatArray, d: FloatArray) -> FloatArray:
    return (margins @ d.astype(margins.dtype)).astype(np.float64)


class _Climb:
    """Primal-dual Newton steps: ``edges_j + slack_j = gamma``, ``slack_j w_j = mu``, sum w = 1."""

    def __init__(
        self, problem: SoftMargin, margins: FloatArray, tau: float, gap: float, w: FloatArray
    ) -> None:
        self.problem, self.margins, self.tau = problem, margins, tau
        self.mu = _BARRIER * gap / w.size
        self.w = w
        self.z = _combine(w, margins)
        self.g, self.d = problem.smoothed(self.z, 1.0 / tau)
        self.edges = _edges(margins, self.d)
        self.slack = self.edges.max() - self.edges + _SLACK * gap

    def run(self, target: float, expired: Callable[[], bool] = never) -> bool:
        """Steps until no edge is larger by more than ``target`` than the mean; False: in vain."""
        try:
            for step in range(_MAX_STEPS):
                if expired():
                    return False
                if step % _RENEWED == 0:
                    hessian = self._hessian()
                self._step(hessian, expired)
                if self.edges.max() - self.w @ self.edges <= target:
                    return True
        except LinAlgError:
            pass
        return False

    def _curvatures(self) -> tuple[FloatArray, Any]:
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

    def _hessian(self) -> FloatArray:
        """``A (D - f f' / sum f) A'``, f the curvatures of the examples below their cap."""
        curvatures, free = self._curvatures()
        kept = np.flatnonzero(curvatures > _MATTER * curvatures.max())
        some = curvatures[kept]
        part = self.margins.take(kept, axis=1)
        f = np.where(free[kept], some, 0.0)
        column = _edges(part, f)
        most = _ENOUGH * self.w.size
        factor = 1.0
        if kept.size > most:
            drawn = np.sort(np.random.default_rng(kept.size).permutation(kept.size)[:most])
            part, some, factor = part[:, drawn], some[drawn], kept.size / most
        scaled = part * np.sqrt(some).astype(part.dtype)
        product: FloatArray = scaled @ scaled.T
        if factor != 1.0:
            product *= factor
        if (total := float(f.sum())) > 0:
            column = (column / math.sqrt(total)).astype(product.dtype)
            product -= np.outer(column, column)
        return product

    def _step(self, hessian: FloatArray, expired: Callable[[], bool] = never) -> None:
        w, s, k = self.w, self.slack, self.w.size
        matrix = hessian.copy()
        matrix[np.diag_indices(k)] += s / w + 1e-7 * float(np.trace(hessian)) / k
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
        centre = max(now * (ahead / now) ** 2, self.mu)
        product = centre - dw * ds
        dw, ds = direction(_solve(factor, self.edges + product / w), product)
        size = _step_size(w, dw, _BACK_OFF)
        dz = _combine(dw, self.margins)
        least = self.g + centre * float(np.log(w).sum())
        for _ in range(20):
            if expired():
                return
            new = w + size * dw
            z = self.z + size * dz
            g, d = self.problem.smoothed(z, 1.0 / self.tau)
            if g > self.g or g + centre * float(np.log(new).sum()) >= least:
                break
            size *= 0.5
        self.w = new / new.sum()
        self.slack = s + _step_size(s, ds, _BACK_OFF) * ds
        self.z, self.g, self.d = z, g, d
        self.edges = _edges(self.margins, d)


def _solve(factor: Any, right: FloatArray) -> FloatArray:
    solution = cho_solve(factor, right.astype(factor[0].dtype), check_finite=False)
    return solution.astype(np.float64)


def _step_size(value: FloatArray, change: FloatArray, share: float = 1.0) -> float:
    """The largest step up to 1 that goes at most this share of the way to a value of 0."""
    return 1.0 / max(1.0, float((-change / value).max()) / share)
