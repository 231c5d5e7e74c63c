"""Projections for losses with falling weights rho, inside a program for one row of scores.

Write ``c_1 >= c_2 >= ...`` for the entries, K for the number of weights, and v for the decreasing
regression of ``c - s rho``, as in :mod:`cornerstep.multiclass.compiled.projection`.  Behind the
K-th place ``c - s rho`` is c, which falls already: there v_j is the level T of the pool that the
K-th place is in, or c_j where that is less.  So the entries behind, the *tail*, need no order.  A
pool that starts at a and has the level T ends where c falls to T:

``F_a(T) = sum_(a <= k <= K) (T - c_k + s rho_k) - sum over the tail of (c_j - T)_+ = 0``.

By ``v_K = min over a of max over b >= K of mean(c_a - s rho_a, ..., c_b - s rho_b)``, where the
maximum is the root of F_a, T is the least of the K roots.  All F_a increase, so it is the root of
their maximum: one search on sums over the row, and the a that attains the maximum there starts the
pool.  No entry of ``c - v`` exceeds ``s rho_1``, hence ``c_K - s rho_1 <= T <= c_K``.  The pools
before a are those of ``c_1, ..., c_(a-1)`` alone.  By the same formula the first has the level
``max over b of mean(c_1 - s rho_1, ..., c_b - s rho_b)`` and ends at the last b that attains it,
and so on from the next place: loops over at most K numbers.

As everywhere there, levels are kept as differences from an entry of their own pool.
"""

from __future__ import annotations

import triton
import triton.language as tl

STEPS = tl.constexpr(103)  # a last step that does not halve the interval: see ``shift``
EXACT = tl.constexpr(1e-14)
_ROUNDING = tl.constexpr(1e-15)


@triton.jit
def shift(t, value, slope, low, high, step):
    """The next point of a search for the root of a decreasing function that is piecewise linear.

    Newton's, within an interval that shrinks; every fourth step halves it.  Done is also when
    Newton's step rounds to none: the sums of a long row need not come as close to 0 as EXACT.
    """
    low = tl.where(value >= 0.0, t, low)
    high = tl.where(value <= 0.0, t, high)
    ahead = t + value / tl.where(slope > 0.0, slope, 1.0)
    good = (slope > 0.0) & (ahead >= low) & (ahead <= high) & (step % 4 < 3)
    done = (tl.abs(value) <= EXACT) | (high - low <= EXACT * tl.abs(low))
    done = done | ((slope > 0.0) & (ahead == t))
    t = tl.where(done, t, tl.where(good, ahead, 0.5 * (low + high)))
    return t, low, high, done


@triton.jit
def level(c, cap, total, free, low, high):
    """The t with ``sum clip(c_j - t, 0, cap_j) = total + free t``."""
    t = 0.5 * (low + high)
    step = 0
    done = False
    while (step < STEPS) & (not done):  # at most STEPS times
        away = c - t
        value = tl.sum(tl.minimum(tl.maximum(away, 0.0), cap), 0) - total - free * t
        slope = tl.sum(((away > 0.0) & (away < cap)).to(tl.int32), 0).to(tl.float64) + free
        t, low, high, done = shift(t, value, slope, low, high, step)
        step += 1
    return t


@triton.jit
def _pick(values, heads, k):
    return tl.sum(tl.where(heads == k, values, 0), 0)


@triton.jit
def _regressed(rest, extra, x, weights, heads, COUNT: tl.constexpr):
    """The pools of the first entries x, less the weights; behind them the rest and one more.

    Gives back ``v - x`` and for each place the mean weight and the size of its pool, then the start
    of the last pool, its level less the last x, and that.
    """
    last = _pick(x, heads, COUNT - 1)
    sums = 0.0 * x
    for k in range(COUNT):
        part = (_pick(x, heads, k) - last) - _pick(weights, heads, k)
        sums += tl.where(heads <= k, part, 0.0)
    lengths = (COUNT - heads).to(tl.float64)
    tail, one = rest - last, extra - last
    low = -_pick(weights, heads, 0)
    high = 0.0 * low
    t = 0.5 * low
    start, size = 0, 0.0 * low
    step = 0
    done = False
    while (step < STEPS) & (not done):  # at most STEPS times
        lines = tl.where(heads < COUNT, lengths * t - sums, float("-inf"))
        most = tl.max(lines, 0)
        start = tl.min(tl.where(lines == most, heads, COUNT - 1), 0)
        value = tl.sum(tl.maximum(tail - t, 0.0), 0) + tl.maximum(one - t, 0.0) - most
        active = tl.sum((tail > t).to(tl.int32), 0) + (one > t).to(tl.int32)
        size = (active + (COUNT - start)).to(tl.float64)
        t, low, high, done = shift(t, value, size, low, high, step)
        step += 1
    whose = (heads >= start) & (heads < COUNT)
    fit = tl.where(whose, (last - x) + t, 0.0)
    shares = tl.where(whose, tl.sum(tl.where(whose, weights, 0.0), 0) / size, 0.0)
    sizes = tl.where(whose, size, 1.0)
    first = 0 * start
    while first < start:  # at most COUNT times: start < COUNT, and ``end >= first`` below
        origin = _pick(x, heads, first)
        total, best = 0.0 * low, 0.0 * low + float("-inf")
        end = first
        k = first
        while k < start:  # at most COUNT times: k grows by 1
            total += (_pick(x, heads, k) - origin) - _pick(weights, heads, k)
            mean = total / (k - first + 1)
            end = tl.where(mean >= best, k, end)
            best = tl.maximum(mean, best)
            k += 1
        size = (end - first + 1) + 0.0 * low
        whose = (heads >= first) & (heads <= end)
        fit = tl.where(whose, (origin - x) + best, fit)
        shares = tl.where(whose, tl.sum(tl.where(whose, weights, 0.0), 0) / size, shares)
        sizes = tl.where(whose, size, sizes)
        first = end + 1
    return fit, shares, sizes, start, t, last


@triton.jit
def _spread_out(row, fit, places, columns, heads, start):
    """The row with ``-fit`` at the places of the pools before the last."""
    k = 0
    while k < start:  # at most COUNT times: k grows by 1
        here = columns == _pick(places, heads, k)
        row = tl.where(here, tl.maximum(-_pick(fit, heads, k), 0.0), row)
        k += 1
    return row


@triton.jit
def each(c, rest, tops, places, rho, columns, heads, COUNT: tl.constexpr):
    """The beta of *each* losses: ``min(c - v, c - t)_+`` with ``sum beta = t``."""
    total = tl.sum(rho, 0)
    none = 0.0 * total + float("-inf")
    fit, _, _, start, t, last = _regressed(rest, none, tops, rho, heads, COUNT)
    most = tl.maximum((c - last) - t, 0.0)
    most = _spread_out(most, fit, places, columns, heads, start)
    zero = 0.0 * total
    t = level(c, most, zero, zero + 1.0, zero, total)
    return tl.minimum(tl.maximum(c - t, 0.0), most)


@triton.jit
def with_label(tops, shifted, own, heads, COUNT: tl.constexpr):
    """The largest entries with the label's among them, and its place."""
    place = tl.sum(((tops >= own) & (heads < COUNT)).to(tl.int32), 0)
    return tl.where(heads < place, tops, tl.where(heads == place, own, shifted)), place


@triton.jit
def whole(
    c, rest, tops, shifted, places, shifted_places, rho, columns, heads,
    COUNT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The beta of *whole* losses: ``c - v(s)`` at the root s of ``sum_k rho_k (v_label - v_k)``.

    The label's entry is ``s R``.  With P the weights of a pool and n its size, the derivative is
    the sum of ``P²/n`` over all pools but the label's, and ``(R - P)²/n`` of that.
    """
    total = tl.sum(rho, 0)
    s = 0.0 * total + 1.0
    low, high = 0.0 * total, 0.0 * total + 1.0
    behind = _pick(tops, heads, COUNT - 1)
    fit, t, last = 0.0 * rho, 0.0 * total, 0.0 * total
    start, place, step = 0, 0, 0
    done = False
    while (step < STEPS) & (not done):  # at most STEPS times
        own = s * total
        x, place = with_label(tops, shifted, own, heads, COUNT)
        fit, shares, sizes, start, t, last = _regressed(
            rest, tl.minimum(own, behind), x, s * rho, heads, COUNT
        )
        v = tl.where(heads < COUNT, fit + (x - last), 0.0)
        single = (place == COUNT) & (own - last <= t)  # a pool of the label alone
        mine = tl.where(place < start, place, COUNT - 1)
        label = tl.where(single, own - last, _pick(v, heads, mine))
        size = tl.where(single, 1.0, _pick(sizes, heads, mine))
        weight = tl.where(single, 0.0, _pick(shares, heads, mine) * size) / s
        value = tl.sum(rho * (label - v), 0)
        rounding = _ROUNDING * tl.sum(rho * (tl.abs(label) + tl.abs(v)), 0)
        value = tl.where(tl.abs(value) <= rounding, 0.0, value)
        squares = tl.sum(rho * shares, 0) / s
        slope = squares + ((total - weight) * (total - weight) - weight * weight) / size
        s, low, high, done = shift(s, -value, slope, low, high, step)
        step += 1
    where = tl.where(heads < place, places, tl.where(heads == place, WIDTH, shifted_places))
    beta = tl.maximum((c - last) - t, 0.0)
    return _spread_out(beta, fit, where, columns, heads, start)
