"""Euclidean projections onto the dual domains of the max-dot-over-simplex losses.

An example with label y has the dual point ``alpha = (1'beta) e_y - beta`` with beta in B.  Write c
for minus the point to project (entries other than y) and b_y for its entry y.  Then

``min over beta in B of  sum_(j != y) (beta_j - c_j)² + (sum_(j != y) beta_j - b_y)²``.

*each* (Usunier): B = {beta >= 0, the k largest sum to at most rho_1 + ... + rho_k for every k}.
With c sorted downwards and v the decreasing isotonic regression of ``c - rho``,
``beta_j = max(0, min(c_j + b_y - t, c_j - v_j))`` where t solves ``sum beta = t``.

*whole* (top-k): B = {s p : 0 <= s <= 1, p a convex combination of permutations of rho}, in which
the label takes part.  Given s the answer is the projection of (c, c_y = s R - b_y) onto s times
the permutahedron, ``c - v`` with v the regression of ``c - s rho`` and ``R = sum rho``; s is the
root of a monotone derivative.

The entries of c may be far larger than those of beta (weak smoothing, short examples), so that
everything is computed from differences between entries: beta is then in B to rounding, whatever
the size of c.

References
----------
.. [1] M. Held, P. Wolfe, H. P. Crowder. Validation of subgradient optimization. Mathematical
   Programming 6, 62-88, 1974.
.. [2] M. J. Best, N. Chakravarti. Active set algorithms for isotonic regression; a unifying
   framework. Mathematical Programming 47, 425-439, 1990.
.. [3] C. H. Lim, S. J. Wright. Efficient Bregman projections onto the permutahedron and related
   polytopes. AISTATS 2016.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_small

_EPS = 2.0**-52

# A caller compiled with fastmath would hand it on, through the cache to every other caller, and
# sums in another order undo the care taken with differences.
_exactly = njit_noalloc(fastmath=False)
_exactly_inner = njit_noalloc_small(fastmath=False)


@_exactly
def sort_decreasing(values, order):
    """Fill ``order`` with the positions of ``values`` from large to small, by a shell sort.

    That is an insertion sort for short ones, and compiles in a fraction of the time of argsort.
    """
    n = values.shape[0]
    for j in range(n):
        order[j] = j
    stride = 1
    while 3 * stride + 1 < n // 4:
        stride = 3 * stride + 1
    while stride > 0:
        for j in range(stride, n):
            here, k = order[j], j
            while k >= stride and values[order[k - stride]] < values[here]:
                order[k] = order[k - stride]
                k -= stride
            order[k] = here
        stride //= 3


@_exactly_inner
def _gap(values, place, b_y, a, b):
    """Entry a less entry b; the label's, at ``place``, is kept without its ``- b_y``."""
    if a == place:
        return values[a] - (values[b] + b_y)
    if b == place:
        return (values[a] + b_y) - values[b]
    return values[a] - values[b]


@_exactly_inner
def _pool(values, place, b_y, rho, scale, offsets, starts):
    """Pool adjacent violators: the decreasing sequence nearest to ``values - scale rho``.

    Returns the number of pools.  The pool that begins at a, one of ``starts``, is fitted by
    ``values[a] + offsets[a]``.
    """
    n, pools = values.shape[0], 0
    for j in range(n):
        start, total = j, 0.0  # of the pool that ends at j, relative to values[start]
        if j < rho.shape[0]:
            total = -scale * rho[j]
        while pools > 0:
            previous = starts[pools - 1]
            gap = _gap(values, place, b_y, previous, start)
            count = j + 1 - start
            if gap + offsets[previous] / (start - previous) > total / count:
                break
            total += offsets[previous] - count * gap
            start = previous
            pools -= 1
        starts[pools] = start
        offsets[start] = total
        pools += 1
    end = n
    for pool in range(pools - 1, -1, -1):
        start = starts[pool]
        offsets[start] /= end - start
        end = start
    return pools


@_exactly_inner
def _project_simplex(c, b_y, cap, beta, ordered):
    """Both families with one weight: ``beta >= 0, sum beta <= cap``.

    ``beta_j = max(0, c_j - tau)``, tau from ``sum beta = tau + b_y`` or, if that exceeds the cap,
    from ``sum beta = cap``.
    """
    count = 0
    for j in range(c.shape[0]):
        beta[j] = 0.0
        if c[j] + b_y > 0.0:  # the others get nothing
            k = count
            while k > 0 and ordered[k - 1] < c[j]:
                ordered[k] = ordered[k - 1]
                k -= 1
            ordered[k] = c[j]
            count += 1
    if count == 0:
        return
    # t = sum beta, from c_j + b_y; where it is beyond the cap, tau from differences to the largest
    shift, less, more, t = b_y, 0.0, 2, 0.0
    for _ in range(2):
        head = 0.0
        for k in range(count):
            head += ordered[k] + shift
            t = (head - less) / (k + more)
            if k + 1 == count or ordered[k + 1] + shift <= t:
                break
        if more == 2 and t <= cap:
            break
        shift, less, more = -ordered[0], cap, 1
    for j in range(c.shape[0]):
        share = (c[j] + shift) - t
        beta[j] = share if share > 0.0 else 0.0


@_exactly_inner
def project_each(c, b_y, rho, beta, scratch, order, starts):
    """Project for the *each* family; ``scratch`` has two rows as long as c.

    ``rho`` may be longer or shorter than c: entries beyond its end are 0.
    """
    n = c.shape[0]
    sort_decreasing(c, order)
    above, most = scratch[0, :n], scratch[1, :n]
    for j in range(n):
        above[j] = c[order[j]]
    # What an entry gets without the label, c_j - v_j: as t falls it grows no further.
    end = n
    for pool in range(_pool(above, -1, 0.0, rho, 1.0, most, starts) - 1, -1, -1):
        start = starts[pool]
        offset = most[start]
        for j in range(start, end):
            most[j] = max(0.0, (above[j] - above[start]) - offset)
        end = start
    limit = 0.0
    for j in range(n):
        above[j] += b_y
        limit += most[j]
    # Walk a level downwards from the limit over the events "entry j starts to grow" (above_j) and
    # "stops" (above_j - most_j), with total = sum of beta there, until t lies between two of them.
    level, total, begun, ended = limit, 0.0, 0, 0
    while begun < n and above[begun] >= level:
        begun += 1
    while ended < begun and above[ended] - most[ended] >= level:
        total += most[ended]
        ended += 1
    for j in range(ended, begun):
        total += above[j] - level
    t = level
    searching = True
    while searching:
        start, stop = -np.inf, -np.inf
        if begun < n:
            start = above[begun]
        if ended < begun:
            stop = above[ended] - most[ended]
        t = level - (level - total) / (begun - ended + 1)
        event = max(start, stop)
        searching = t < event
        if searching:
            total += (begun - ended) * (level - event)
            level = event
            if start >= stop:
                begun += 1
            else:
                ended += 1
    for j in range(n):
        beta[order[j]] = max(0.0, min(above[j] - t, most[j]))


@_exactly_inner
def _whole_slope(s, c, b_y, rho, order, values, offsets, starts):
    """``h'(s)/2``, its derivative and its size before cancellation, the label's place, the pools.

    Leaves the regression for s in ``values`` and ``offsets``, which get one entry more than c: the
    label's, where it falls in the order.  With P_q the sum of rho over pool q, v_q its fit, n_q its
    size and l the label's pool, ``h'/2 = sum_q P_q (v_l - v_q)``, and ``dv_q/ds = -P_q/n_q`` but
    ``dv_l/ds = sum_(q != l) P_q / n_l``.
    """
    n = c.shape[0]
    own = s * rho.sum()
    place = 0
    while place < n and c[order[place]] + b_y >= own:
        values[place] = c[order[place]]
        place += 1
    values[place] = own
    for j in range(place, n):
        values[j + 1] = c[order[j]]
    pools = _pool(values[: n + 1], place, b_y, rho, s, offsets, starts)
    label = pools - 1
    while starts[label] > place:
        label -= 1
    slope, size, curvature, rest, count = 0.0, 0.0, 0.0, 0.0, 1
    for pool in range(pools):
        start, end = starts[pool], n + 1
        if pool + 1 < pools:
            end = starts[pool + 1]
        weight = 0.0
        for j in range(start, min(end, rho.shape[0])):
            weight += rho[j]
        if pool == label:
            count = end - start
        else:
            gap = _gap(values, place, b_y, starts[label], start)
            slope += weight * (gap + offsets[starts[label]] - offsets[start])
            size += weight * (abs(gap) + abs(offsets[starts[label]]) + abs(offsets[start]))
            curvature += weight * weight / (end - start)
            rest += weight
    return slope, curvature + rest * rest / count, size, place, pools


@_exactly_inner
def project_whole(c, b_y, rho, beta, scratch, order, starts):
    """Project for the *whole* family; ``scratch`` has two rows one longer than c.

    Needs ``rho.shape[0] <= c.shape[0] + 1``.
    """
    n = c.shape[0]
    sort_decreasing(c, order)
    # -h'(0)/2: the loss at the point itself.  Without it beta = 0.
    gain, j = 0.0, 0
    for k in range(rho.shape[0]):
        if j < n and (k > j or c[order[j]] + b_y >= 0):
            gain += rho[k] * (c[order[j]] + b_y)
            j += 1
        elif k > j:
            break
    if gain <= 0:
        beta[:n] = 0.0
        return
    # As |beta| <= |c + b_y|, an s of that size is enough: where many do, 1 would cost digits.
    norm = 0.0
    for k in range(n):
        norm += (c[k] + b_y) ** 2
    high = min(1.0, np.sqrt(norm) * max(float(rho.shape[0]), np.sqrt(n)) / rho.sum())
    low, s = 0.0, high
    values, offsets = scratch[0], scratch[1]
    slope, curvature, size, place, pools = _whole_slope(
        s, c, b_y, rho, order, values, offsets, starts
    )
    if slope > 0:
        # The derivative is piecewise linear and increasing: Newton's method within a bracket.
        for step in range(1, 200):
            if abs(slope) <= 4 * _EPS * size:
                break
            if slope > 0:
                high = s
            else:
                low = s
            fresh = 0.5 * (low + high)
            if step % 4 > 0 and curvature > 0:
                newton = s - slope / curvature
                if low < newton < high:
                    fresh = newton
            if abs(fresh - s) <= _EPS * s:
                break
            s = fresh
            slope, curvature, size, place, pools = _whole_slope(
                s, c, b_y, rho, order, values, offsets, starts
            )
    end = n + 1
    for pool in range(pools - 1, -1, -1):
        start = starts[pool]
        for j in range(start, end):
            entry = max(0.0, _gap(values, place, b_y, j, start) - offsets[start])
            if j < place:
                beta[order[j]] = entry
            elif j > place:
                beta[order[j - 1]] = entry
        end = start


@_exactly_inner
def project(c, b_y, rho, whole, beta, scratch, order, starts):
    """Project for the family *whole* or not; ``whole`` is None where rho has one weight.

    The type of None tells the compiler to leave out what only longer rho need.
    """
    if whole is None:
        if c.shape[0] == 1:  # most blocks, in the end
            share = 0.5 * (c[0] + b_y)
            beta[0] = rho[0] if share > rho[0] else share if share > 0.0 else 0.0
        else:
            _project_simplex(c, b_y, rho[0], beta, scratch[0])
    elif whole:
        project_whole(c, b_y, rho, beta, scratch, order, starts)
    else:
        project_each(c, b_y, rho, beta, scratch, order, starts)


@_exactly_inner
def gather(c, rho, tops, index):
    """Move entries of c that may get weight to its front, their places to ``index``; their number.

    Of the entries beyond the K largest one gets weight only where a pool that begins among these
    takes it in, and the mean of that is at least the K-th largest entry less rho_1.
    """
    n, K = c.shape[0], rho.shape[0]
    found = 0
    for j in range(n):
        if found < K or c[j] > tops[K - 1]:
            k = min(found, K - 1)
            while k > 0 and tops[k - 1] < c[j]:
                tops[k] = tops[k - 1]
                k -= 1
            tops[k] = c[j]
            found = min(found + 1, K)
    least, count = tops[K - 1] - rho[0], 0
    for j in range(n):
        if not c[j] < least:  # NaN stays, wherever it is
            c[count] = c[j]
            index[count] = j
            count += 1
    return count


@_exactly
def project_rows(points, labels, rho, whole, reals, integers, out):
    """Project each row of ``points`` onto the dual domain of its label, as :func:`project`.

    ``reals`` has four rows and ``integers`` three to overwrite, longer than there are classes.
    """
    n, m = points.shape
    beta, scratch, index = reals[1], reals[2:], integers[2]
    for i in range(n):
        y, count, total = labels[i], m - 1, 0.0
        c = reals[0, : m - 1]
        for j in range(m - 1):
            c[j] = -points[i, j if j < y else j + 1]
            index[j] = j
        if 8 * rho.shape[0] < m:  # else most are looked at anyway
            count = gather(c, rho, beta, index)
        project(
            c[:count], points[i, y], rho, whole, beta, scratch, integers[0, :count], integers[1]
        )
        out[i] = 0.0
        for k in range(count):
            j = index[k]
            out[i, j if j < y else j + 1] = -beta[k]
            total += beta[k]
        out[i, y] = total
