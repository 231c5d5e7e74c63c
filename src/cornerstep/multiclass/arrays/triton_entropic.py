"""The dual points of losses smoothed by entropy, on a GPU: one program per row, in float64.

The arithmetic of :mod:`cornerstep.multiclass.entropic` without a sort: of a row only the k largest
margins are looked for, and what is below them is a sum.  An exponential is taken twice of each
entry at most (once for softmax), and no logarithm: that of ``beta_j`` is the exponent it came from.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from cornerstep.multiclass.arrays.triton_launch import (
    Targets,
    batch_of,
    launch,
    row_of,
    store_batch,
    store_points,
)

_WARPS = {128: 1, 512: 2, 2048: 4, 8192: 8}


@triton.jit
def _log1p(x):
    """``ln(1 + x)`` of x >= 0 with all digits where x is small."""
    w = 1.0 + x
    return tl.where(w == 1.0, x, tl.log(w) * (x / (w - 1.0)))


@triton.jit
def _log_of_sum(a, b):
    """``ln(e^a + e^b)``."""
    high = tl.maximum(a, b)
    return high + _log1p(tl.exp(tl.minimum(a, b) - high))


@triton.jit
def _both(a, b, c, d):
    """Two sums in one reduction, whose threads meet once."""
    return a + c, b + d


@triton.jit
def _entropic(
    scores, labels, scales, costs, constants, exact, numbers, spread, n, m, ignored,
    WIDTH: tl.constexpr, COUNT: tl.constexpr, HEADS: tl.constexpr, DOUBLE: tl.constexpr,
    BATCH: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * spread) % n
    columns = tl.arange(0, WIDTH)
    inside = columns < m
    y, scale, z, given = row_of(
        scores, labels, scales, constants, row, columns, inside, m, ignored, BATCH, WEIGHTED
    )
    mu, unit, margin = tl.load(constants), tl.load(constants + 1), tl.load(constants + 2)
    # maxima and minima pass a NaN over, sums do not: it stays one by ``power`` or ``tail``
    c = tl.where(inside & (columns != y), (z + margin) * (1.0 / mu), float("-inf"))
    if COUNT == 1:
        place = tl.max(c, 0)
        u = tl.exp(c - place)
        power, product = tl.reduce((u, tl.where(u > 0.0, u * (c - place), 0.0)), 0, _both)
        u = u * (1.0 / power)
        total, mean = place + tl.log(power), place + product / power
        logs = product / power - tl.log(power)  # sum_j u_j ln u_j
    else:
        heads = tl.arange(0, HEADS)
        tops = tl.zeros([HEADS], tl.float64)
        rest = c
        place = 0.0 * mu
        for h in tl.static_range(COUNT):
            place = tl.max(rest, 0)
            at = tl.min(tl.where(rest == place, columns, WIDTH), 0)  # ties: the first
            rest = tl.where(columns == at, float("-inf"), rest)
            tops = tl.where(heads == h, place, tops)
        # sums of all but the largest: of the rest and the last of them first, then back
        tail = _log1p(tl.sum(tl.exp(rest - place), 0))
        cap = -tl.log(0.0 * mu + COUNT)
        shift = cap - tail
        for back in tl.static_range(COUNT - 1):
            top = tl.sum(tl.where(heads == COUNT - 2 - back, tops, 0.0), 0) - place
            tail = _log_of_sum(tail, top)
            wider = tl.log((0.0 * mu + (2 + back)) / COUNT) - tail
            shift = tl.where(wider + top <= cap, wider, shift)
        exponents = tl.minimum(c - place + shift, cap)
        u = tl.exp(exponents)
        some = u > 0.0
        logs, mean = tl.reduce(
            (tl.where(some, u * exponents, 0.0), tl.where(some, u * c, 0.0)), 0, _both
        )
        total = tl.where(tail == tail, mean - logs, tail)
    value = tl.maximum(total, 0.0) + _log1p(tl.exp(-tl.abs(total)))
    share = tl.exp(total - value)  # of the classes other than the label
    if BATCH:
        store_batch(
            numbers, exact, row, columns, inside, m, y, scale, given, mu * value, share, share * u
        )
    else:
        entropy = share * (logs + (total - value)) - tl.exp(-value) * value
        tl.store(numbers + row * 4, scale * mu * value)
        tl.store(numbers + row * 4 + 1, scale * margin * share)
        tl.store(numbers + row * 4 + 2, scale * mu * share * mean)
        tl.store(numbers + row * 4 + 3, 2.0 * scale * entropy)
        point = (scale / unit) * tl.where(columns == y, share, -share * u)
        store_points(scores, exact, row, columns, inside, m, point, DOUBLE)


def nearest(
    scores: Any, targets: Targets, constants: Any, count: int, exact: Any, numbers: Any
) -> None:
    """Overwrite rows of scores by ``s_i alpha_i / unit`` of the dual points of the envelopes.

    Of a batch of a network the scores stay as they are.

    Parameters
    ----------
    scores : tensor of shape (n, m)
        float32 or float64, contiguous, as all tensors here.
    targets : Targets
        Without costs.
    constants : tensor of shape (4,)
        mu, the unit, the margin, and of a batch what is in the place of -inf, in float64.
    count : int
        The k of top-k; 1 for softmax.
    exact : tensor of shape (n, m), or empty
        Gets the same in float64; of a batch the gradients, in any precision.
    numbers : tensor of shape (n, 4)
        Gets ``s_i`` times Phi_mu, ``<Delta_i, beta_i>``, ``<beta_i, z_i>`` and
        ``2 sum_j beta_ij ln beta_ij``, the label's share included; of a batch, with the shape
        (n, 2), ``s_i Phi_mu`` and ``s_i``.
    """
    launch(
        _entropic, scores, targets, (constants, exact, numbers), _WARPS,
        COUNT=count, HEADS=triton.next_power_of_2(count), DOUBLE=exact.shape[0] > 0,
        **batch_of(targets),
    )  # fmt: skip
