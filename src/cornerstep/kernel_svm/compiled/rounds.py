"""Compiled rounds of working sets: everything between two evaluations of the kernel.

Where columns are kept, a round is a few microseconds of work, and would be mostly Python.  So whole
rounds are compiled here, and only come back for what they cannot do: kernel columns, Newton steps.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_inline
from cornerstep.kernel_svm.compiled.sweeps import two_coordinate_descent
from cornerstep.learning.compiled.columns import accumulate, gather

#: Why rounds end: within the target, columns are wanted, a set needs Newton steps, or no more work.
WITHIN, WANTING, HARD, SPENT = 0, 1, 2, 3

_HALVINGS = 12  # of the way to the largest violation: then those that come first join


@njit_inline()
def violations(beta, gradient, lower, upper, slots, split, middles, widths):
    """The largest violation of optimality, and the largest among coordinates that have a slot.

    For each sum, of the h that violate most: ``middles`` gets the middle, ``widths`` the distance.
    """
    largest = largest_kept = 0.0
    for part in range(2):
        first, last = (0, split) if part == 0 else (split, beta.size)
        low = low_kept = np.inf
        high = high_kept = -np.inf
        for k in range(first, last):
            h, kept = gradient[k], slots[k] >= 0
            up = h if beta[k] < upper[k] else np.inf
            down = h if beta[k] > lower[k] else -np.inf
            low, high = min(low, up), max(high, down)
            low_kept = min(low_kept, up if kept else np.inf)
            high_kept = max(high_kept, down if kept else -np.inf)
        middles[part] = 0.5 * (low + high) if -np.inf < low + high < np.inf else 0.0
        widths[part] = high - low
        largest = max(largest, high - low)
        largest_kept = max(largest_kept, high_kept - low_kept)
    return largest, largest_kept


@njit_inline()
def rough_gap(beta, gradient, linear, lower, upper, split, middles):
    """Value, and a bound on what it is above the minimum, but for rounding."""
    value = gap = 0.0
    for k in range(beta.size):
        above = gradient[k] - (middles[0] if k < split else middles[1])
        gap += max(above * (beta[k] - lower[k]), above * (beta[k] - upper[k]))
        value += beta[k] * (gradient[k] + linear[k])
    return 0.5 * value, gap


@njit_inline()
def working_coordinates(
    beta, gradient, lower, upper, slots, split, middles, widths, share, wanting, most, some
):
    """Free coordinates and violators; how many, and how many before ``split``.

    ``some`` gets them in order: those that have a slot, or those that have none where they are
    ``wanting``.  Who violates by less than a share of the most stays out; of those that may rise
    and of those that may fall the share grows until at most ``most`` of each sum are left.
    """
    size, before = 0, min(split, 0)  # not a literal: those are types of their own
    for part in range(2):
        first, last = (0, split) if part == 0 else (split, beta.size)
        if part == 1:
            before = size
        middle, extreme, start = middles[part], 0.5 * widths[part], size
        above = below = (2.0 * share - 1.0) * extreme
        for _ in range(_HALVINGS):
            size, rising, falling = start, 0, 0
            for k in range(first, last):
                if (slots[k] < 0) != wanting:
                    continue
                rises, falls = beta[k] < upper[k], beta[k] > lower[k]
                free = rises & falls
                rises &= middle - gradient[k] > below
                falls &= gradient[k] - middle > above
                rising += rises & (not free)
                falling += falls & (not free)
                if free | (rises & (rising <= most)) | (falls & (falling <= most)):
                    some[size] = k
                    size += 1
            if rising <= most and falling <= most:
                break
            below += 0.5 * (extreme - below) if rising > most else 0.0
            above += 0.5 * (extreme - above) if falling > most else 0.0
    return size, before


@njit_alloc(nogil=True)
def rounds(
    beta,
    gradient,
    linear,
    lower,
    upper,
    store,
    slots,
    places,
    split,
    numbers,
    counts,
    most,
    reals,
    integers,
):
    """Rounds on coordinates whose columns are kept, until others are wanted; b and h change.

    Parameters
    ----------
    beta, gradient, linear, lower, upper : arrays of shape (n,)
    store, slots, places : arrays
        Kept columns, where that of each coordinate is, -1 if nowhere, and which of its entries are
        those of each coordinate.
    split : int
        Coordinates from it on have a sum of their own.
    numbers : tuple of float
        The target of the gap, absolute and relative; the shares of the largest violation of who
        joins, and of what may be left in a working set; the share of it among kept coordinates
        below which others are wanted.
    counts : tuple of int
        Violators that join; newcomers; coordinates of a working set; steps for each of them; rounds
        in which the violation among kept coordinates must halve.
    most : int
        Steps times coordinates after which to come back.
    reals, integers : arrays of five and three rows
        Scratch memory, as long as a kept column and as n.

    Returns
    -------
    state, wanted, done : int, array, bool
        Why they ended; the coordinates whose columns are wanted; whether anything moved.
    """
    atol, rtol, share, accuracy, worth = numbers
    known, newcomers, room, steps_each, patience = counts
    middles, widths, product = reals[0], reals[1], reals[4, : store.shape[1]]
    some = integers[2]
    moved, work = False, 0
    least, since = np.inf, 0
    while True:
        largest, kept = violations(
            beta, gradient, lower, upper, slots, split, middles, widths
        )  # fmt: skip
        value, gap = rough_gap(beta, gradient, linear, lower, upper, split, middles)
        if gap <= max(atol, rtol * abs(value)):
            return WITHIN, some[:0], moved
        wanting = kept <= worth * largest
        size, first = working_coordinates(
            beta, gradient, lower, upper, slots, split, middles, widths, share, wanting,
            newcomers if wanting else known, some,
        )  # fmt: skip
        if wanting:
            return WANTING, some[:size], moved
        since += 1
        if kept < 0.5 * least:
            least, since = kept, 0
        if work >= most or since == patience or size > room:
            return SPENT if size <= room and since < patience else HARD, some[:0], moved
        row, place = integers[0, :size], integers[1, :size]
        point, h = reals[0, :size], reals[1, :size]
        least_of, most_of = reals[2, :size], reals[3, :size]
        for j in range(size):
            k = some[j]
            row[j], place[j] = slots[k], places[k]
            point[j], h[j] = beta[k], gradient[k]
            least_of[j], most_of[j] = lower[k], upper[k]
        K = np.empty((size, size))
        gather(store, row, place, K)
        limit = steps_each * size
        steps, _ = two_coordinate_descent(
            K, point, h, least_of, most_of, first, accuracy * kept, limit, np.empty((4, size))
        )
        count = 0
        for j in range(size):
            step = point[j] - beta[some[j]]
            beta[some[j]] = point[j]
            if step != 0.0:
                row[count], h[count] = row[j], step
                count += 1
        if count == 0:
            return SPENT, some[:0], moved
        product[:] = 0.0
        accumulate(store, row[:count], h[:count], product)
        for k in range(beta.size):
            gradient[k] += product[places[k]]
        moved = True
        work += (steps + size) * size + count * beta.size
        if steps == limit:
            return HARD, some[:0], moved
