"""The dual points nearest to scores, for losses with equal weights, on a GPU: one program a row.

The arithmetic of :mod:`cornerstep.problems.array_losses`, in float64 and without a sort: of a row
only the first few largest entries are looked for, and the roots of the piecewise linear functions
there are found by Newton's steps on sums over the row.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

LONGEST = 32  # weights rho that a row's program looks for, one maximum each
_SPREAD = 7919  # rows of one class often follow each other: programs that run at once take others
_STEPS = tl.constexpr(100)
_EXACT = tl.constexpr(1e-14)


@triton.jit
def _shift(t, value, slope, low, high, step):
    """The next point of a search for the root of a decreasing function."""
    low = tl.where(value >= 0.0, t, low)
    high = tl.where(value <= 0.0, t, high)
    ahead = t + value / tl.where(slope > 0.0, slope, 1.0)
    good = (slope > 0.0) & (ahead >= low) & (ahead <= high) & (step % 4 < 3)
    done = (tl.abs(value) <= _EXACT) | (high - low <= _EXACT * tl.abs(low))
    t = tl.where(done, t, tl.where(good, ahead, 0.5 * (low + high)))
    return t, low, high, done


@triton.jit
def _level(c, cap, total, free, low, high):
    """The t with ``sum clip(c_j - t, 0, cap) = total + free t``."""
    t = 0.5 * (low + high)
    step = 0
    done = False
    while (step < _STEPS) & (not done):
        away = c - t
        value = tl.sum(tl.minimum(tl.maximum(away, 0.0), cap), 0) - total - free * t
        slope = tl.sum(((away > 0.0) & (away < cap)).to(tl.int32), 0).to(tl.float64) + free
        t, low, high, done = _shift(t, value, slope, low, high, step)
        step += 1
    return t


@triton.jit
def _cone(e, base, count, low):
    """The t and u with ``sum clip(e_j - t, 0, u) = count u`` and the best u for it."""
    t, high = 0.5 * low, 0.0 * low
    u = 0.0 * low
    share = 1.0 / (count * (count + 1.0))
    step = 0
    done = False
    while (step < _STEPS) & (not done):
        away = tl.maximum(e - t, 0.0)
        u = (tl.sum(away, 0) + count * (t + base)) * share
        value = tl.sum(tl.minimum(away, u), 0) - count * u
        full = tl.sum((e - t >= u).to(tl.int32), 0).to(tl.float64)
        some = tl.sum((away > 0.0).to(tl.int32), 0).to(tl.float64)
        slope = (some - full) + (full - count) * (some - count) * share
        t, low, high, done = _shift(t, value, slope, low, high, step)
        step += 1
    u = (tl.sum(tl.maximum(e - t, 0.0), 0) + count * (t + base)) * share
    return t, u


@triton.jit
def _nearest(
    scores, exact, labels, scales, costs, constants, numbers, spread, n, m,
    MODE: tl.constexpr, COUNT: tl.constexpr, WHOLE: tl.constexpr, EXACT: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * spread) % n
    columns = tl.arange(0, WIDTH)
    inside = columns < m
    y = tl.load(labels + row).to(tl.int32)
    scale = tl.load(scales + row)
    mu, cap, unit = tl.load(constants), tl.load(constants + 1), tl.load(constants + 2)
    z = tl.load(scores + row * m + columns, mask=inside, other=float("-inf")).to(tl.float64)
    z = z - tl.load(scores + row * m + y).to(tl.float64)
    if MODE == 0:
        delta = tl.where(inside, 1.0, 0.0).to(tl.float64)
    else:
        first = costs + (y.to(tl.int64) if MODE == 1 else row) * m
        delta = tl.load(first + columns, mask=inside, other=0.0)
    c = tl.where(inside & (columns != y), (z + delta) / mu, float("-inf"))
    # the largest entries: of COUNT - 1, COUNT and COUNT + 1 of them, the last
    rest = c
    heads = 0.0 * mu
    loss = 0.0 * mu
    before = 0.0 * mu
    last = 0.0 * mu
    after = 0.0 * mu
    for h in tl.static_range(COUNT + 1):
        top = tl.max(rest, 0)
        place = tl.min(tl.where(rest == top, columns, WIDTH), 0)  # ties: the first
        rest = tl.where(columns == place, float("-inf"), rest)
        if h < COUNT - 1:
            heads += top
            before = top
        if h < COUNT:
            loss += tl.maximum(top, 0.0)
            last = top
        if h == COUNT:
            after = top
    after = tl.maximum(after, last - cap)  # there may be none
    if WHOLE and COUNT > 1:
        loss = tl.maximum(heads + tl.maximum(last, 0.0), 0.0)
    beta = tl.zeros([WIDTH], tl.float64)
    if loss > 0.0:
        zero = 0.0 * mu
        most = COUNT * cap
        if tl.sum(tl.minimum(tl.maximum(c - most, 0.0), cap), 0) > most:
            e = c - last
            t = _level(e, cap, most, zero, after - last - cap, zero)
            beta = tl.minimum(tl.maximum(e - t, 0.0), cap)
        else:
            t = _level(c, cap, zero, zero + 1.0, zero, most)
            beta = tl.minimum(tl.maximum(c - t, 0.0), cap)
        if WHOLE and COUNT > 1:  # noqa: SIM102 (the first is known when compiling)
            if tl.max(beta, 0) * (COUNT - 1) > tl.sum(beta, 0):
                e = c - before
                low = last - before - cap
                t, u = _cone(e, before, zero + (COUNT - 1), low)
                if u >= cap:
                    t = _level(e, cap, (COUNT - 1) * cap, zero, low, zero)
                    u = cap
                beta = tl.minimum(tl.maximum(e - t, 0.0), u)
    total = tl.sum(beta, 0)
    earned = tl.where(beta > 0.0, beta * c, 0.0)
    tl.store(numbers + row * 4, scale * loss * mu * cap)
    tl.store(numbers + row * 4 + 1, scale * tl.sum(beta * delta, 0))
    tl.store(numbers + row * 4 + 2, scale * mu * tl.sum(earned, 0))
    tl.store(numbers + row * 4 + 3, scale * (tl.sum(beta * beta, 0) + total * total))
    point = (scale / unit) * tl.where(columns == y, total, -beta)
    tl.debug_barrier()
    tl.store(scores + row * m + columns, point.to(scores.dtype.element_ty), mask=inside)
    if EXACT:
        tl.store(exact + row * m + columns, point, mask=inside)


def nearest(
    scores: Any,
    labels: Any,
    scales: Any,
    costs: Any,
    mode: int,
    constants: Any,
    count: int,
    whole: bool,
    exact: Any,
    numbers: Any,
    warps: int = 0,
) -> None:
    """Overwrite rows of scores by ``s_i alpha_i / unit`` of the nearest dual points.

    Parameters
    ----------
    scores : tensor of shape (n, m)
        float32 or float64, contiguous, as all tensors here.
    labels, scales : tensors of shape (n,)
        scales in float64.
    costs : tensor
        Delta as in :func:`cornerstep.kernels.multiclass.cost`, for these rows, by ``mode``.
        In float64.
    mode : int
    constants : tensor of shape (3,)
        mu, the weight that all K entries of rho have, and the unit, in float64.
    count : int
        K.
    whole : bool
    exact : tensor of shape (n, m), or empty
        Gets the same in float64.
    numbers : tensor of shape (n, 4)
        Gets ``s_i`` times Phi, ``<Delta_i, beta_i>``, ``<beta_i, z_i>`` and ``|alpha_i|²``.
    warps : int
        Of 32 threads for a row; 0 leaves the choice to the number of classes.
    """
    n, m = scores.shape
    spread = _SPREAD if math.gcd(n, _SPREAD) == 1 else 1
    width = triton.next_power_of_2(m)
    warps = warps or (1 if width <= 128 else 4 if width <= 1024 else 8 if width <= 8192 else 16)
    with torch.cuda.device(scores.device):
        _nearest[(n,)](
            scores, exact, labels, scales, costs, constants, numbers, spread, n, m,
            MODE=mode, COUNT=count, WHOLE=whole, EXACT=exact.numel() > 0, WIDTH=width,
            num_warps=warps,
        )  # fmt: skip
