"""Longer weights: the best multiple of W, as far as one scan of W can tell.

On data that can be separated the weights ``W(A)`` of the dual points have nearly the right
direction long before their right length, and every margin that they miss costs C: ``t W(A)`` with t
slightly above 1 is much the better primal point (isolet, standardised: a gap 20 times smaller and
half the rounds).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.dual_iterate import DualIterate
from cornerstep.multiclass.solvers.incumbents import Incumbents, PrimalPoint
from cornerstep.multiclass.solvers.pool import Pool


class Scanned(NamedTuple):
    """A scan of weights W: ``P(W)``, ``|W|²``, and of each example the loss and its slope in t."""

    value: float
    square: float
    losses: FloatArray
    slopes: FloatArray


def try_longer_weights(
    iterate: DualIterate, best: Incumbents, scanned: Scanned, promise: float
) -> None:
    """Take ``t W`` for the best point if it is.

    To look at it costs a scan: it should promise to leave at most this share of the gap.
    """
    value, square, losses, slopes = scanned
    good = best.dual + promise * (best.value - best.dual)
    if square == 0 or least_rescaled_value(value, square, slopes) > good:
        return
    scale, promised = best_scale(square, losses, slopes)
    if promised > good:
        return
    image = scale * iterate.image
    starts, classes, beta = iterate.pool
    point = PrimalPoint(image, (starts, classes, scale * beta))
    value = iterate.losses_at(image) + 0.5 * scale**2 * square
    if value + _noise(iterate.problem, point.pool) < best.value:
        best.set_weights(value, point)


def _noise(problem: MulticlassProblem, pool: Pool) -> float:
    """By how much P of a kernel's weights may be off: a long multiple may be nothing but that."""
    if not problem.examples.kernel:
        return 0.0
    starts, _, beta = pool
    n = problem.examples.n
    examples = np.repeat(np.arange(n), np.diff(starts))
    sums = np.asarray(np.bincount(examples, weights=beta, minlength=n), dtype=np.float64)
    peaks = problem.scales * sums
    return problem.reach.of_value(peaks, 0.0, problem.reach.stretch(peaks, problem.scales))


def least_rescaled_value(value: float, square: float, slopes: FloatArray) -> float:
    """A bound from below of ``P(tW)`` over t >= 1.

    P is no flatter along W than ``|W|²/2``, so that its slope tells the least it can become.
    """
    slope = min(square + float(slopes.sum()), 0.0)
    return value - slope**2 / (2 * square)


def best_scale(square: float, losses: FloatArray, slopes: FloatArray) -> tuple[float, float]:
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
