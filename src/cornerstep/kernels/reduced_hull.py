"""Compiled sweeps of the kernel SVM: reading kept kernel columns, and two-coordinate descent."""

from __future__ import annotations

import numpy as np
from numba import njit

_TILE = 4096  # entries of a product accumulated at a time: they stay in the first cache
_FLAT = 1e-12  # a curvature below this counts as none


@njit(cache=True, nogil=True)
def gather(store, slots, columns, out):
    """``out[a, b] = store[slots[a], columns[b]]``."""
    for a in range(slots.size):
        row = store[slots[a]]
        for b in range(columns.size):
            out[a, b] = row[columns[b]]


@njit(cache=True, nogil=True)
def accumulate(store, slots, values, out):
    """``out += sum_a values[a] store[slots[a]]``, summed tile by tile in the store's precision."""
    part = np.empty(_TILE, store.dtype)
    for start in range(0, out.size, _TILE):
        stop = min(start + _TILE, out.size)
        part[:] = 0
        for a in range(slots.size):
            value = values[a]
            row = store[slots[a], start:stop]
            for k in range(stop - start):
                part[k] += value * row[k]
        for k in range(stop - start):
            out[start + k] += part[k]


@njit(cache=True, nogil=True)
def violators(beta, gradient, lower, upper, free, known, first, last, share):
    """Who violates optimality among the coordinates ``first <= k < last``, that have one sum.

    With ``low = min h over b < upper`` and ``high = max h over b > lower``, those that may rise and
    have ``h < high - share (high - low)`` and those that may fall and have ``h > low + ...``; the
    free ones are left out.

    Returns
    -------
    sides : tuple of four (indices, keys)
        Rising with known columns, rising without, falling with, falling without; the least key is
        the worst violator's.
    violation : float
        ``high - low``, at least 0.
    """
    low, high = np.inf, -np.inf
    for k in range(first, last):
        if beta[k] < upper[k] and gradient[k] < low:
            low = gradient[k]
        if beta[k] > lower[k] and gradient[k] > high:
            high = gradient[k]
    violation = max(high - low, 0.0)
    rise, fall = high - share * violation, low + share * violation
    counts = np.zeros(4, np.intp)
    found, keys = np.empty((4, last - first), np.intp), np.empty((4, last - first))
    if violation > 0.0:
        for k in range(first, last):
            if free[k]:
                continue
            if beta[k] < upper[k] and gradient[k] < rise:
                side, key = 0, gradient[k]
            elif beta[k] > lower[k] and gradient[k] > fall:
                side, key = 2, -gradient[k]
            else:
                continue
            side += 0 if known[k] else 1
            found[side, counts[side]], keys[side, counts[side]] = k, key
            counts[side] += 1
    return (
        (found[0, : counts[0]], keys[0, : counts[0]]),
        (found[1, : counts[1]], keys[1, : counts[1]]),
        (found[2, : counts[2]], keys[2, : counts[2]]),
        (found[3, : counts[3]], keys[3, : counts[3]]),
    ), violation


@njit(cache=True, nogil=True)
def least_idle(beta, gradient, first, last, sign, most):
    """Up to ``most`` coordinates ``first <= k < last`` with b = 0 and the least ``sign * h``."""
    found, keys = np.empty(most, np.intp), np.empty(most)
    count = 0
    for k in range(first, last):
        key = sign * gradient[k]
        if beta[k] != 0.0 or (count == most and key >= keys[count - 1]):
            continue
        place = count if count < most else most - 1
        while place > 0 and keys[place - 1] > key:
            found[place], keys[place] = found[place - 1], keys[place - 1]
            place -= 1
        found[place], keys[place] = k, key
        count = min(count + 1, most)
    return found[:count]


@njit(cache=True, nogil=True)
def two_coordinate_descent(K, beta, gradient, lower, upper, split, tol, max_iter):
    """SMO with second-order selection on ``min 1/2 b'Kb + <p, b>, lower <= b <= upper``.

    The sums of the first ``split`` entries and of the others stay as they are.  An iteration takes
    the group with the largest violation ``max h over b > lower  -  min h over b < upper``, i from
    the minimum and j where ``(h_j - h_i)² / (K_ii + K_jj - 2 K_ij)`` is largest, and moves b_i up
    and b_j down by the exact step.  beta and its gradient h are updated in place.

    Returns
    -------
    iterations, decrease : int, float
        How many steps were taken (``max_iter`` if the violation is still above tol), and by how
        much they lowered the objective.
    """
    m = beta.size
    decrease = 0.0
    for iteration in range(max_iter):
        i, largest, start, stop = -1, tol, 0, 0
        for first, last in ((0, split), (split, m)):
            low, high, lowest = np.inf, -np.inf, -1
            for k in range(first, last):
                h = gradient[k]
                if h < low and beta[k] < upper[k]:
                    low, lowest = h, k
                if h > high and beta[k] > lower[k]:
                    high = h
            if high - low > largest:
                i, largest, start, stop = lowest, high - low, first, last
        if i < 0:
            return iteration, decrease
        row_i = K[i]
        j, best, low, own = -1, 0.0, gradient[i], K[i, i]
        for k in range(start, stop):
            violation = gradient[k] - low
            if violation > 0 and beta[k] > lower[k]:
                gain = violation * violation / max(own + K[k, k] - 2 * row_i[k], _FLAT)
                if gain > best:
                    best, j = gain, k
        slope = gradient[j] - low
        curvature = own + K[j, j] - 2 * row_i[j]
        room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
        step = min(room_i, room_j)
        if curvature * step > slope:
            step = slope / curvature
        beta[i] = upper[i] if step >= room_i else beta[i] + step
        beta[j] = lower[j] if step >= room_j else beta[j] - step
        row_j = K[j]
        for k in range(m):
            gradient[k] += step * (row_i[k] - row_j[k])
        decrease += step * (slope - 0.5 * step * curvature)
    return max_iter, decrease
