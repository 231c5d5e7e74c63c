"""Compiled sweeps of the kernel SVM: values and gaps, working sets, two-coordinate descent.

References
----------
.. [1] J. C. Platt. Fast training of support vector machines using sequential minimal optimization.
   In Advances in Kernel Methods, MIT Press, 1999.
.. [2] R.-E. Fan, P.-H. Chen, C.-J. Lin. Working set selection using second order information for
   training support vector machines. Journal of Machine Learning Research 6, 1889-1918, 2005.
.. [3] D. E. Knuth. The Art of Computer Programming, volume 2: Seminumerical Algorithms. 3rd
   edition, section 4.2.2, Addison-Wesley, 1997.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_noalloc, njit_noalloc_inner

_FLAT = 1e-12  # a curvature below this share of the diagonal counts as none
_TINY = 1e-300  # of two examples whose kernel entries are all 0


@njit_noalloc(nogil=True)
def value_terms(beta, gradient, linear, errors):
    """``sum b (h + p)``, ``sum |b| errors`` and ``sum |b| (|h| + |p|)``.

    The first is that of a two-sum: its products are rounded, and it once.
    """
    summed = lost = off = sizes = 0.0
    for k in range(beta.size):
        term = beta[k] * (gradient[k] + linear[k])
        total = summed + term
        added = total - summed
        lost += (summed - (total - added)) + (term - added)
        summed = total
        amount = abs(beta[k])
        off += amount * errors[k]
        sizes += amount * (abs(gradient[k]) + abs(linear[k]))
    return summed + lost, off, sizes


@njit_noalloc(nogil=True)
def gap_terms(beta, gradient, lower, upper, errors, t):
    """``sum of max (h_i - t) (b_i - v_i)`` over ``lower_i <= v_i <= upper_i``, and the sum of b.

    With h as it is, and with the worst h that is off by at most ``errors``; after the sum of b,
    which is that of a two-sum, rounded once, ``sum |b| |h - t|``.
    """
    plain = worst = summed = lost = steep = 0.0
    for k in range(beta.size):
        total = summed + beta[k]
        added = total - summed
        lost += (summed - (total - added)) + (beta[k] - added)
        summed = total
        above, down, up = gradient[k] - t, beta[k] - lower[k], upper[k] - beta[k]
        plain += max(above * down, -above * up, 0.0)
        worst += max((above + errors[k]) * down, (errors[k] - above) * up, 0.0)
        steep += abs(beta[k] * above)
    return plain, worst, summed + lost, steep


@njit_alloc(nogil=True)
def of_rank(values, rank):
    """The entry of that rank, counted from 0, as ``np.partition`` finds it: in 1/20 of its code.

    Every round puts entries on either side of one of them, and goes on with one side: fewer.
    """
    values = values.copy()
    low, high = 0, values.size - 1
    while low < high:
        pivot, first, last = values[(low + high) // 2], low, high
        while first <= last:
            while values[first] < pivot:
                first += 1
            while values[last] > pivot:
                last -= 1
            if first <= last:
                values[first], values[last] = values[last], values[first]
                first, last = first + 1, last - 1
        if first <= rank:
            low = first
        elif rank <= last:
            high = last
        else:
            break
    return values[rank]


@njit_alloc(nogil=True)
def working_set(beta, gradient, lower, upper, slots, joined, split, share, known, fresh, room):
    """Which coordinates to work on, and the largest violation of optimality.

    They are the free ones, those that ``joined``, and violators.  The coordinates before ``split``
    have one sum, the others another.  In each, with ``low = min h over b < upper`` and ``high = max
    h over b > lower``, violators are those that may rise and have ``h < high - share (high - low)``
    and those that may fall and have ``h > low + ...``; of either kind the worst ``known`` that have
    a slot and the worst ``fresh`` that have none.  If more than ``room`` are free, they are treated
    like the others and ``known`` is room / 4.
    """
    n = beta.size
    chosen = np.empty(n, np.bool_)
    count = joined.size
    for k in range(n):
        chosen[k] = (beta[k] > lower[k]) & (beta[k] < upper[k])
        count += chosen[k]
    for k in joined:
        chosen[k] = True
    if count > room:
        for k in range(n):
            chosen[k] = False
        known = room // 4
    largest = 0.0
    found, keys = np.empty((4, n), np.intp), np.empty((4, n))
    for first, last in ((0, split), (split, n)):
        low, high = np.inf, -np.inf
        for k in range(first, last):
            low = min(low, gradient[k] if beta[k] < upper[k] else np.inf)
            high = max(high, gradient[k] if beta[k] > lower[k] else -np.inf)
        violation = high - low
        if not violation > 0.0:
            continue
        largest = max(largest, violation)
        rise, fall = high - share * violation, low + share * violation
        counts = np.zeros(4, np.intp)
        for k in range(first, last):
            rises = (beta[k] < upper[k]) & (gradient[k] < rise)
            falls = (beta[k] > lower[k]) & (gradient[k] > fall)
            if (rises | falls) & (not chosen[k]):
                side = (0 if rises else 2) + (0 if slots[k] >= 0 else 1)
                found[side, counts[side]] = k
                keys[side, counts[side]] = gradient[k] if rises else -gradient[k]
                counts[side] += 1
        for side in range(4):
            most = fresh if side % 2 else known
            some = keys[side, : counts[side]]
            worst = np.inf
            if some.size > most:
                worst = of_rank(some, most - 1) if most else -np.inf
            taken = 0
            for k in range(some.size):
                if some[k] <= worst and taken < most:
                    chosen[found[side, k]] = True
                    taken += 1
    return chosen, largest


@njit_alloc(nogil=True)
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


@njit_noalloc_inner()
def largest(values):
    """The largest entry, of eight chains that do not wait for each other; -inf without any."""
    whole = values.size - values.size % 8
    a = b = c = d = e = f = g = h = -np.inf
    for k in range(0, whole, 8):
        a, b = max(a, values[k]), max(b, values[k + 1])
        c, d = max(c, values[k + 2]), max(d, values[k + 3])
        e, f = max(e, values[k + 4]), max(f, values[k + 5])
        g, h = max(g, values[k + 6]), max(h, values[k + 7])
    for k in range(whole, values.size):
        a = max(a, values[k])
    return max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))


@njit_noalloc_inner()
def first_place(values, value):
    """Where the value stands first; it is there."""
    k, last = 0, values.size - 1
    while k < last and values[k] != value:
        k += 1
    return k


@njit_noalloc(nogil=True)
def two_coordinate_descent(K, beta, gradient, lower, upper, split, tol, max_iter, scratch):
    """SMO with second-order selection on ``min 1/2 b'Kb + <p, b>, lower <= b <= upper``.

    The sums of the first ``split`` entries and of the others stay as they are.  An iteration takes
    the group with the largest violation ``max h over b > lower  -  min h over b < upper``, i from
    the minimum and j where ``(h_j - h_i)² / (K_ii + K_jj - 2 K_ij)`` is largest, and moves b_i up
    and b_j down by the exact step.  beta and its gradient h are updated in place; ``scratch`` has
    four rows.  Loops go over whole arrays, from 0 on: others become no vector code.

    Returns
    -------
    iterations, decrease : int, float
        How many steps were taken (``max_iter`` if the violation is still above tol), and by how
        much they lowered the objective.
    """
    diagonal, gains, up, down = scratch[0], scratch[1], scratch[2], scratch[3]
    for k in range(beta.size):  # -h and h, or -infinity where b is at that bound
        diagonal[k] = K[k, k]
        up[k] = -gradient[k] if beta[k] < upper[k] else -np.inf
        down[k] = gradient[k] if beta[k] > lower[k] else -np.inf
    steps, decrease = 0, 0.0
    while steps < max_iter:
        low, most, start, stop = 0.0, tol, 0, 0
        for first, last in ((0, split), (split, beta.size)):
            above, below = largest(up[first:last]), largest(down[first:last])
            if above + below > most:
                low, most, start, stop = -above, above + below, first, last
        if start == stop:
            break
        i = start + first_place(up[start:stop], -low)
        h, row, others = down[start:stop], K[i, start:stop], diagonal[start:stop]
        gained, own = gains[start:stop], diagonal[i]
        for k in range(gained.size):
            violation, both = max(h[k] - low, 0.0), own + others[k]
            gained[k] = violation * violation / max(both - 2 * row[k], _FLAT * both, _TINY)
        best = largest(gained)
        if not best > 0.0:  # gains below the range of float64: there is no j
            break
        j = start + first_place(gained, best)
        slope, curvature = down[j] - low, own + diagonal[j] - 2 * K[i, j]
        room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
        step = min(room_i, room_j)
        if curvature * step > slope:
            step = slope / curvature
        beta[i] = upper[i] if step >= room_i else min(beta[i] + step, upper[i])
        beta[j] = lower[j] if step >= room_j else max(beta[j] - step, lower[j])
        for k, value in ((i, low), (j, down[j])):
            up[k] = -value if beta[k] < upper[k] else -np.inf
            down[k] = value if beta[k] > lower[k] else -np.inf
        row_i, row_j = K[i], K[j]
        for k in range(up.size):
            change = step * (row_i[k] - row_j[k])
            up[k] -= change
            down[k] += change
        decrease += step * (slope - 0.5 * step * curvature)
        steps += 1
    for k in range(beta.size):
        gradient[k] = -up[k] if up[k] > -np.inf else down[k]
    return steps, decrease
