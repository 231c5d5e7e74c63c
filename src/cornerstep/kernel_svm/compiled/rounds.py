"""Compiled rounds of working sets: everything between two evaluations of the kernel.

Where columns are kept, a round is a few microseconds of work, and would be mostly Python.  So whole
rounds are compiled here, and only come back for what they cannot do: kernel columns, Newton steps.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_noalloc
from cornerstep.kernel_svm.compiled.sweeps import (
    accumulate,
    gather,
    two_coordinate_descent,
    working_set,
)

#: Why rounds end: within the target, columns are wanted, a set needs Newton steps, or no more work.
WITHIN, WANTING, HARD, SPENT = 0, 1, 2, 3


@njit_noalloc(nogil=True)
def violations(beta, gradient, lower, upper, slots, split, middles):
    """The largest violation of optimality, and the largest among coordinates that have a slot.

    ``middles`` gets, for each sum, the middle of the h that violate most.
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
        middles[part] = 0.5 * (low + high) if np.isfinite(low + high) else 0.0
        largest = max(largest, high - low)
        largest_kept = max(largest_kept, high_kept - low_kept)
    return largest, largest_kept


@njit_noalloc(nogil=True)
def rough_gap(beta, gradient, linear, lower, upper, split, middles):
    """Value, and a bound on what it is above the minimum, but for rounding."""
    value = gap = 0.0
    for k in range(beta.size):
        above = gradient[k] - (middles[0] if k < split else middles[1])
        gap += max(above * (beta[k] - lower[k]), above * (beta[k] - upper[k]))
        value += beta[k] * (gradient[k] + linear[k])
    return 0.5 * value, gap


@njit_alloc(nogil=True)
def rounds(
    beta, gradient, linear, lower, upper, store, slots, places, split, numbers, counts, most
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

    Returns
    -------
    state, wanted, done : int, array, bool
        Why they ended; the coordinates whose columns are wanted; whether anything moved.
    """
    atol, rtol, share, accuracy, worth = numbers
    known, newcomers, room, steps_each, patience = counts
    middles = np.zeros(2)
    none = np.empty(0, np.intp)
    moved, work, everyone = False, 0, np.arange(beta.size)
    product = np.empty(store.shape[1])
    least, since = np.inf, 0
    while True:
        largest, kept = violations(beta, gradient, lower, upper, slots, split, middles)
        value, gap = rough_gap(beta, gradient, linear, lower, upper, split, middles)
        if gap <= max(atol, rtol * abs(value)):
            return WITHIN, none, moved
        wanting = kept <= worth * largest
        chosen, _ = working_set(
            beta, gradient, lower, upper, slots, none, split, share,
            0 if wanting else known, newcomers if wanting else 0, room,
        )  # fmt: skip
        if wanting:
            return WANTING, everyone[chosen & (slots < 0)], moved
        since += 1
        if kept < 0.5 * least:
            least, since = kept, 0
        if work >= most or since == patience:
            return SPENT if since < patience else HARD, none, moved
        some = everyone[chosen]
        size = some.size
        K = np.empty((size, size))
        gather(store, slots[some], places[some], K)
        inner, h = beta[some], gradient[some]
        limit = steps_each * size
        steps, _ = two_coordinate_descent(
            K, inner, h, lower[some], upper[some], np.searchsorted(some, split),
            accuracy * kept, limit,
        )  # fmt: skip
        change = inner - beta[some]
        which = some[change != 0.0]
        if which.size == 0:
            return SPENT, none, moved
        product[:] = 0.0
        accumulate(store, slots[which], change[change != 0.0], product)
        for k in range(beta.size):
            gradient[k] += product[places[k]]
        beta[some] = inner
        moved = True
        work += (steps + size) * size + which.size * beta.size
        if steps == limit:
            return HARD, none, moved
