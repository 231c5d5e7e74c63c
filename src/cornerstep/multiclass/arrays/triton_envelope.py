"""The dual points nearest to scores, on a GPU: one program per row, in float64 and without a sort.

Of a row only the K largest entries are looked for, K the number of weights, and the roots of
piecewise linear functions are found by Newton's steps on sums over the row: for equal weights those
of :mod:`cornerstep.multiclass.arrays.losses`, else of
:mod:`cornerstep.multiclass.arrays.triton_weighted`.
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
from cornerstep.multiclass.arrays.triton_weighted import (
    STEPS,
    each,
    level,
    shift,
    whole,
    with_label,
)

_WARPS = {128: 1, 1024: 2, 8192: 8}


@triton.jit
def _cone(e, base, count, low):
    """The t and u with ``sum clip(e_j - t, 0, u) = count u`` and the best u for it."""
    t, high = 0.5 * low, 0.0 * low
    u = 0.0 * low
    share = 1.0 / (count * (count + 1.0))
    step = 0
    done = False
    while (step < STEPS) & (not done):  # at most STEPS times
        away = tl.maximum(e - t, 0.0)
        u = (tl.sum(away, 0) + count * (t + base)) * share
        value = tl.sum(tl.minimum(away, u), 0) - count * u
        full = tl.sum((e - t >= u).to(tl.int32), 0).to(tl.float64)
        some = tl.sum((away > 0.0).to(tl.int32), 0).to(tl.float64)
        slope = (some - full) + (full - count) * (some - count) * share
        t, low, high, done = shift(t, value, slope, low, high, step)
        step += 1
    u = (tl.sum(tl.maximum(e - t, 0.0), 0) + count * (t + base)) * share
    return t, u


@triton.jit
def _equal(c, cap, before, last, after, COUNT: tl.constexpr, WHOLE: tl.constexpr):
    """The beta for COUNT weights ``cap``, given the entries around the last that they are for."""
    zero = 0.0 * cap
    most = COUNT * cap
    if tl.sum(tl.minimum(tl.maximum(c - most, 0.0), cap), 0) > most:
        e = c - last
        t = level(e, cap, most, zero, after - last - cap, zero)
        beta = tl.minimum(tl.maximum(e - t, 0.0), cap)
    else:
        t = level(c, cap, zero, zero + 1.0, zero, most)
        beta = tl.minimum(tl.maximum(c - t, 0.0), cap)
    if WHOLE and COUNT > 1:  # noqa: SIM102 (the first is known when compiling)
        if tl.max(beta, 0) * (COUNT - 1) > tl.sum(beta, 0):
            e = c - before
            low = last - before - cap
            t, u = _cone(e, before, zero + (COUNT - 1), low)
            if u >= cap:
                t = level(e, cap, (COUNT - 1) * cap, zero, low, zero)
                u = cap
            beta = tl.minimum(tl.maximum(e - t, 0.0), u)
    return beta


@triton.jit
def _nearest(
    scores, labels, scales, costs, constants, rho, exact, numbers, spread, n, m, ignored,
    MODE: tl.constexpr, WIDTH: tl.constexpr, COUNT: tl.constexpr, HEADS: tl.constexpr,
    EQUAL: tl.constexpr, WHOLE: tl.constexpr, DOUBLE: tl.constexpr, BATCH: tl.constexpr,
    WEIGHTED: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * spread) % n
    columns = tl.arange(0, WIDTH)
    heads = tl.arange(0, HEADS)
    inside = columns < m
    y, scale, z, given = row_of(
        scores, labels, scales, constants, row, columns, inside, m, ignored, BATCH, WEIGHTED
    )
    mu, unit = tl.load(constants), tl.load(constants + 1)
    weights = tl.load(rho + heads, mask=heads < COUNT, other=0.0)
    if MODE == 0:
        delta = tl.where(inside, 1.0, 0.0).to(tl.float64)
    else:
        first = costs + (y.to(tl.int64) if MODE == 1 else row) * m
        delta = tl.load(first + columns, mask=inside, other=0.0)
    c = tl.where(inside & (columns != y), (z + delta) / mu, float("-inf"))
    unknown = tl.sum((inside & (z != z)).to(tl.int32), 0) > 0  # NaN: the maxima pass it over
    beta = tl.zeros([WIDTH], tl.float64)
    loss = 0.0 * mu
    if tl.max(c, 0) > 0.0:  # else no margin is lost, whatever the weights
        # the largest entries and where they are, and the same one place later
        rest = c
        tops, shifted = tl.zeros([HEADS], tl.float64), tl.zeros([HEADS], tl.float64)
        places, shifted_places = tl.zeros([HEADS], tl.int32), tl.zeros([HEADS], tl.int32)
        before = 0.0 * mu
        last = 0.0 * mu
        for h in tl.static_range(COUNT):
            top = tl.max(rest, 0)
            place = tl.min(tl.where(rest == top, columns, WIDTH), 0)  # ties: the first
            rest = tl.where(columns == place, float("-inf"), rest)
            tops, places = tl.where(heads == h, top, tops), tl.where(heads == h, place, places)
            if WHOLE:
                shifted = tl.where(heads == h + 1, top, shifted)
                shifted_places = tl.where(heads == h + 1, place, shifted_places)
            before = last
            last = top
        if WHOLE:
            x, _ = with_label(tops, shifted, 0.0 * mu, heads, COUNT)
            loss = tl.maximum(tl.sum(weights * tl.where(heads < COUNT, x, 0.0), 0), 0.0)
        else:
            loss = tl.sum(weights * tl.maximum(tops, 0.0), 0)
        if loss > 0.0:
            if EQUAL:
                cap = tl.load(rho)
                after = tl.maximum(tl.max(rest, 0), last - cap)  # there may be none
                beta = _equal(c, cap, before, last, after, COUNT, WHOLE)
            elif WHOLE:
                beta = whole(
                    c, rest, tops, shifted, places, shifted_places, weights, columns, heads,
                    COUNT, WIDTH,
                )  # fmt: skip
            else:
                beta = each(c, rest, tops, places, weights, columns, heads, COUNT)
    total = tl.sum(beta, 0)
    earned = tl.sum(tl.where(beta > 0.0, beta * c, 0.0), 0)
    square = tl.sum(beta * beta, 0) + total * total
    if BATCH:
        value = mu * (earned - 0.5 * square)
        store_batch(numbers, exact, row, columns, inside, m, y, scale, given, value, total, beta)
    else:
        nan = float("nan")
        tl.store(numbers + row * 4, tl.where(unknown, nan, scale * mu * loss))
        tl.store(numbers + row * 4 + 1, scale * tl.sum(beta * delta, 0))
        tl.store(numbers + row * 4 + 2, tl.where(unknown, nan, scale * mu * earned))
        tl.store(numbers + row * 4 + 3, scale * square)
        point = (scale / unit) * tl.where(columns == y, total, -beta)
        store_points(scores, exact, row, columns, inside, m, point, DOUBLE)


def nearest(
    scores: Any,
    targets: Targets,
    constants: Any,
    rho: Any,
    equal: bool,
    whole: bool,
    exact: Any,
    numbers: Any,
) -> None:
    """Overwrite rows of scores by ``s_i alpha_i / unit`` of the nearest dual points.

    Of a batch of a network the scores stay as they are.

    Parameters
    ----------
    scores : tensor of shape (n, m)
        float32 or float64, contiguous, as all tensors here.
    targets : Targets
    constants : tensor of shape (4,)
        mu, the unit, nothing, and of a batch what is in the place of -inf, in float64.
    rho : tensor of shape (K,)
        In float64.
    equal : bool
        Whether all of rho are the same.
    whole : bool
    exact : tensor of shape (n, m), or empty
        Gets the same in float64; of a batch the gradients, in any precision.
    numbers : tensor of shape (n, 4)
        Gets ``s_i`` times Phi, ``<Delta_i, beta_i>``, ``<beta_i, z_i>`` and ``|alpha_i|²``; of a
        batch, with the shape (n, 2), ``s_i Phi_mu`` and ``s_i``.
    """
    count = rho.shape[0]
    launch(
        _nearest, scores, targets, (constants, rho, exact, numbers), _WARPS,
        COUNT=count, HEADS=triton.next_power_of_2(count), WHOLE=whole,
        MODE=targets.mode, EQUAL=equal, DOUBLE=exact.shape[0] > 0, **batch_of(targets),
    )  # fmt: skip
