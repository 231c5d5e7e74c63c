"""Compiled training of small pairs of classes, from their kernel values to what is proven of them.

Between two pairs there is no Python: a pair of thirty examples takes some thirty microseconds.  The
problem, the certificate and the thresholds are those of
:class:`~cornerstep.kernel_svm.problem.ReducedHullProblem`, for one cap that all examples have;
``tests/kernel_svm/test_small_pairs.py`` compares the two.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_alloc_inner, njit_noalloc_inner
from cornerstep.kernel_svm.compiled.rounds import WITHIN, rounds
from cornerstep.kernel_svm.compiled.sweeps import (
    gap_terms,
    of_rank,
    value_terms,
)
from cornerstep.learning.compiled.columns import accumulate, accumulate_exactly

#: Columns of the results: value, gap, sum of |b|, b'Kb, the largest |h|, the ends of h - p; then
#: for each sum the least and the largest threshold.
VALUE, GAP, TOTAL, SQUARE, LARGEST, LEAST_SCORE, MOST_SCORE, THRESHOLDS = range(8)
RESULTS = THRESHOLDS + 4

_TRIES = 16  # rounds that come back: with their steps spent, or within a target that, ...
_TIGHTER = 0.25  # ... as rounding is part of what is proven, is that much of the one before
_CORRECTIONS = 8  # coordinates that take up what a sum is off by
_UNIT = 2.0**-53
_SMALLEST = 2.2250738585072014e-308
_PAIRWISE = 24  # roundings of a sum


@njit_noalloc_inner()
def copy_pair(store, first, middle, second, last, K):
    """The matrix of two classes from the blocks of ``store`` on and above its diagonal."""
    before = middle - first
    for r in range(before):
        for c in range(before):
            K[r, c] = store[first + r, first + c]
        for c in range(last - second):
            K[r, before + c] = K[before + c, r] = store[first + r, second + c]
    for r in range(last - second):
        for c in range(last - second):
            K[before + r, before + c] = store[second + r, second + c]


@njit_noalloc_inner()
def balance(beta, lower, upper, total):
    """Make the sum of b what it is to be, by the coordinates with the most room."""
    for _ in range(_CORRECTIONS):
        summed = lost = 0.0
        for k in range(beta.size):
            now = summed + beta[k]
            added = now - summed
            lost += (summed - (now - added)) + (beta[k] - added)
            summed = now
        missing = (total - summed) - lost
        best, room, inside = 0, -1.0, False
        for k in range(beta.size):
            some = upper[k] - beta[k] if missing > 0.0 else beta[k] - lower[k]
            free = (beta[k] > lower[k]) & (beta[k] < upper[k]) & (some > 0.0)
            if (free & (not inside)) | ((free == inside) & (some > room)):
                best, room, inside = k, some, free | inside
        if missing == 0.0 or not room > 0.0:
            return
        beta[best] = min(max(beta[best] + missing, lower[best]), upper[best])


@njit_alloc_inner()
def fill(keys, beta, cap, sign, total):
    """The vertex with the sum: the least keys first."""
    t = of_rank(keys, int(min(np.ceil(total / cap), keys.size)) - 1)
    left = total
    for k in range(keys.size):
        beta[k] = 0.0
        if keys[k] < t:
            beta[k] = sign * min(cap, left)
            left = max(left - cap, 0.0)
    for k in range(keys.size):
        if keys[k] == t and left > 0.0:
            beta[k] = sign * min(cap, left)
            left = max(left - cap, 0.0)


@njit_alloc_inner()
def prove(
    K,
    beta,
    gradient,
    linear,
    lower,
    upper,
    split,
    sums,
    cap,
    sizes,
    exponents,
    share,
    errors,
    lost,
    row,
    some,
    found,
):
    """Value and gap at b from exact sums, with all that is rounded; and the thresholds."""
    n, count = beta.size, 0
    amount = weighted = spread = 0.0
    for k in range(n):
        gradient[k], lost[k] = 0.0, 0.0
        size = abs(beta[k])
        amount += size
        weighted += size * sizes[k]
        spread += size * exponents[k]
        if size > 0.0:
            row[count], some[count] = k, beta[k]
            count += 1
    accumulate_exactly(K, row[:count], some[:count], gradient, lost)
    largest = square = 0.0
    low, high = np.inf, -np.inf
    for k in range(n):
        score = gradient[k] + lost[k]
        square += beta[k] * score
        low, high = min(low, score), max(high, score)
        gradient[k] = score + linear[k]
        largest = max(largest, abs(gradient[k]))
        errors[k] = (share + 4 * _UNIT) * weighted * sizes[k] + amount * exponents[k] + spread
        errors[k] += 2 * _UNIT * abs(linear[k]) + _SMALLEST * amount
    doubled, off, terms = value_terms(beta, gradient, linear, errors)
    bits = 0
    while n >> bits:
        bits += 1
    value = 0.5 * doubled
    rounding = 0.5 * (off + (_PAIRWISE + bits) * _UNIT * terms)
    least = abs(value) + rounding if split < n else np.inf
    gap = 0.0
    for part in range(2 if split < n else 1):
        first, last = (0, split) if part == 0 else (split, n)
        size, total = last - first, sums[part]
        spent, slack = total, 0.0
        for k in range(first, last):
            spent -= lower[k]
        slack = 2 * (size + 4) * _UNIT * spent
        h = gradient[first:last]
        t = of_rank(h, max(int(np.ceil(min(spent / cap, size))), 1) - 1)
        plain, upmost, summed, steep = gap_terms(
            beta[first:last], h, lower[first:last], upper[first:last], errors[first:last], t
        )
        away = abs(summed - total) + 2 * _UNIT * abs(total)
        gap += plain
        rounding += 4 * _UNIT * steep + (upmost - plain) + 2 * size * _UNIT * upmost
        rounding += abs(t) * away
        before = min(max(int(np.ceil((spent - slack) / cap)) - 1, 0), size - 1)
        behind = min(max(int(np.floor((spent + slack) / cap)), 0), size - 1)
        found[THRESHOLDS + 2 * part] = of_rank(h, before)
        found[THRESHOLDS + 2 * part + 1] = of_rank(h, behind)
    found[VALUE], found[GAP], found[TOTAL] = value, min(gap + rounding, least), amount
    found[SQUARE], found[LARGEST] = square, largest
    found[LEAST_SCORE], found[MOST_SCORE] = low, high


@njit_alloc_inner(nogil=True)
def solve_pair(
    K,
    beta,
    work,
    reals,
    slots,
    integers,
    split,
    total,
    cap,
    inverse,
    sizes,
    exponents,
    share,
    numbers,
    counts,
    most,
    found,
):
    """Train one pair; whether its gap is within the target.  ``found`` gets the results.

    ``slots`` are 0, 1, ...; ``work``, ``reals`` and ``integers`` have seven, five and three rows.
    """
    n = beta.size
    gradient, linear, lower, upper = work[0, :n], work[1, :n], work[2, :n], work[3, :n]
    errors, lost, some, row = work[4, :n], work[5, :n], work[6, :n], integers[0, :n]
    hull = inverse == 0.0
    first_sum = total if hull else 0.0
    sums = (first_sum, -total)
    for k in range(n):
        positive = k < split
        lower[k], upper[k] = (0.0, cap) if positive else (-cap, 0.0)
        linear[k] = 0.0 if hull else (-inverse if positive else inverse)
        beta[k] = 0.0
        if hull:  # equal weights, whose gradient chooses the vertex to start from
            some[k] = total / split if positive else -total / (n - split)
    if hull:
        gradient[:] = 0.0
        accumulate(K, slots, some, gradient)
        for k in range(split, n):
            gradient[k] = -gradient[k]
        fill(gradient[:split], beta[:split], cap, 1.0, total)
        fill(gradient[split:], beta[split:], cap, -1.0, total)
    ends = split if hull else n
    atol, rtol, joins, accuracy, worth = numbers
    for _ in range(_TRIES):
        for k in range(n):
            gradient[k] = linear[k]
            some[k] = beta[k]
        accumulate(K, slots, some, gradient)
        state, _, moved = rounds(
            beta, gradient, linear, lower, upper, K, slots, slots, ends,
            (atol, rtol, joins, accuracy, worth), counts, most, reals, integers,
        )  # fmt: skip
        if state == WITHIN:
            if hull:
                balance(beta[:split], lower[:split], upper[:split], sums[0])
                balance(beta[split:], lower[split:], upper[split:], sums[1])
            else:
                balance(beta, lower, upper, 0.0)
            prove(
                K, beta, gradient, linear, lower, upper, ends, sums, cap, sizes, exponents, share,
                errors, lost, row, some, found,
            )  # fmt: skip
            if found[GAP] <= max(numbers[0], numbers[1] * abs(found[VALUE])):
                return True
            atol, rtol = _TIGHTER * atol, _TIGHTER * rtol
        elif not moved:
            return False
    return False


@njit_alloc(nogil=True)
def solve_pairs(
    store,
    ends,
    pairs,
    totals,
    cap,
    inverse,
    sizes,
    exponents,
    share,
    numbers,
    counts,
    most,
    starts,
    betas,
    results,
    solved,
):
    """Train the pairs, one after the other.

    Parameters
    ----------
    store : array of shape (n, n)
        Kernel values of all examples, class by class: blocks on and above the diagonal.
    ends : array of shape (classes + 1,)
        Where each class begins.
    pairs : array of shape (p, 2)
        Classes, the first of them before the second.
    totals : array of shape (p,)
        K of each pair; not read if ``inverse`` is not 0.
    cap, inverse : float
        What all examples weigh at most; 1/C, or 0 for reduced hulls.
    sizes, exponents, share
        What the rounding of kernel values depends on.
    numbers, counts, most
        As in :func:`cornerstep.kernel_svm.compiled.rounds.rounds`.
    starts, betas : arrays
        Where the coefficients of each pair begin, and these.
    results, solved : arrays of shape (p, RESULTS) and (p,)
        What is filled in; a pair that is not solved is for another solver.
    """
    largest = 0
    for p in range(len(pairs)):
        largest = max(largest, starts[p + 1] - starts[p])
    matrix = np.empty(largest * largest)
    work, reals, own = np.empty((7, largest)), np.empty((5, largest)), np.empty((2, largest))
    slots, integers = np.arange(largest), np.empty((3, largest), np.intp)
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        n = starts[p + 1] - starts[p]
        split = ends[i + 1] - ends[i]
        K = matrix[: n * n].reshape(n, n)
        copy_pair(store, ends[i], ends[i + 1], ends[j], ends[j + 1], K)
        for k in range(n):
            at = ends[i] + k if k < split else ends[j] + k - split
            own[0, k], own[1, k] = sizes[at], exponents[at]
        total = totals[p]
        least = cap if inverse > 0.0 else min(cap, total)
        solved[p] = solve_pair(
            K, betas[starts[p] : starts[p + 1]], work, reals, slots[:n], integers, split, total,
            least, inverse, own[0, :n], own[1, :n], share, numbers, counts, most, results[p],
        )  # fmt: skip
