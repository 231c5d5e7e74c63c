"""``min 1/2 x'Gx - l'x`` over the simplex, or products of its kind, by Wolfe's active-set method.

The problem, with coordinates in groups or in none, and caps u that may be infinite:

``min 1/2 x'Gx - l'x   s.t.  0 <= x <= u,  sum of x over group b = t_b  for each b``

which is the simplex with one group of all, u infinite and t = 1.  Coordinates between their bounds
are *free*.  With s > 0 and a_b of the ones of group b the matrix ``M = G + s sum_b a_b a_b'`` is
that of the same problem where the sums are right, and positive definite where G is on directions
that keep them.  ``M = L L'`` of the free coordinates is kept, a row added or taken out as they come
and go.

1. The coordinate whose gradient, less that of free coordinates of its group, points most into its
   bounds becomes free, unless a bound of the gap is small enough; where many are free, some others
   that point about as much with it.
2. The minimum over the free coordinates, with these sums, is found from L.  If it lies between the
   bounds, x goes there, and 1. follows.
3. Else x goes as far towards it as it can; the coordinate that is at a bound there is free no
   longer, and 2. follows.

A coordinate whose row of M depends on those that are free cannot join them: along that dependence
the function is linear, and x goes down it until one of them is at a bound, which makes room.

References
----------
.. [1] P. Wolfe. Finding the nearest point in a polytope. Mathematical Programming 11, 128-149,
   1976.
.. [2] C. L. Lawson, R. J. Hanson. Solving least squares problems. Prentice-Hall, 1974.
.. [3] P. E. Gill, G. H. Golub, W. Murray, M. A. Saunders. Methods for modifying matrix
   factorizations. Mathematics of Computation 28, 505-535, 1974.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_alloc_inner
from cornerstep.core.types import FloatArray, IntArray

_FAST = {"reassoc", "contract"}  # sums may be reordered (vectorised)
# Of l, over the size of x: the least s, beside which the curvature of a tiny G counts as none.
_LINEAR = 1e-20
_ROUNDED = 1e-15  # of its terms: less than this a value does not fall
_ONE = np.ones(1)
_SHARE, _NEARLY = 8, 0.5  # of free ones, that may join at a time; of the steepest slope, theirs
_STALE = 32  # steps after which a gradient that is kept up to date is computed anew
_DEPENDENT = 1e-11  # of its diagonal entry: what is left of a row that depends on others


class Factor:
    """L of the free coordinates, in their order, with room for more, and s.

    ``work`` counts the multiply-adds of all steps that it served, about.

    Parameters
    ----------
    room : int
    """

    def __init__(self, room: int = 16) -> None:
        self.rows = np.zeros((room, room))
        self.order: IntArray = np.zeros(room, dtype=np.int64)
        self.count = 0
        self.shift = 1.0
        self.work = 0.0

    def make_room(self, room: int) -> None:
        """For that many coordinates."""
        if room > self.order.size:
            room = max(room, 2 * self.order.size)
            rows, order = np.zeros((room, room)), np.zeros(room, dtype=np.int64)
            rows[: self.count, : self.count] = self.rows[: self.count, : self.count]
            order[: self.count] = self.order[: self.count]
            self.rows, self.order = rows, order

    def rename(self, names: IntArray) -> None:
        """Coordinate i is ``names[i]`` from now on."""
        self.order[: self.count] = names[self.order[: self.count]]


def improve(
    gram: FloatArray, linear: FloatArray, x: FloatArray, tol: float, limit: int, factor: Factor,
    caps: FloatArray | None = None, groups: IntArray | None = None,
) -> bool:  # fmt: skip
    """Change x until a bound of its gap is at most ``tol``, or ``limit`` steps are taken.

    Parameters
    ----------
    gram : array of shape (k, k)
        G, symmetric and positive semidefinite.
    linear : array of shape (k,)
        l.
    x : array of shape (k,)
        Between the bounds; changed in place.
    tol : float
    limit : int
    factor : Factor
        Of the free coordinates of x, or empty; that of the new x afterwards.
    caps, groups : arrays of shape (k,), optional
        u, and the group of each coordinate, or -1; the t are what the groups of x sum to.  By
        default those of the simplex, and t = 1.

    Returns
    -------
    bool
        Whether it is, or rounding leaves nothing to gain.
    """
    factor.make_room(x.size)
    before, goals, size = x.copy(), _ONE, 1.0
    if caps is None or groups is None:
        caps, groups = np.full(x.size, np.inf), np.zeros(x.size, dtype=np.int64)
    else:
        grouped = groups >= 0
        goals = np.bincount(groups[grouped], x[grouped]).astype(np.float64)
        size = max(float(goals.max(initial=0.0)), float(caps[caps < np.inf].max(initial=0.0)))
    if factor.count == 0:
        least = _LINEAR * float(np.abs(linear).max()) / (size or 1.0)
        factor.shift = max(float(gram.diagonal().mean()), least) or 1.0
    solved, factor.count, work = _improve(
        gram, linear, x, tol, limit, factor.rows, factor.order, factor.count, factor.shift,
        caps, groups, goals,
    )  # fmt: skip
    factor.work += work
    if not np.isfinite(x).all():  # entries of G are not: nothing is known of better weights
        x[:], factor.count, solved = before, 0, True
    return bool(solved)


@njit_alloc(nogil=True)
def _improve(
    gram: FloatArray, linear: FloatArray, x: FloatArray, tol: float, limit: int,
    rows: FloatArray, order: IntArray, count: int, shift: float,
    caps: FloatArray, groups: IntArray, goals: FloatArray,
) -> tuple[bool, int, float]:  # fmt: skip
    k, many = x.size, goals.size
    free = np.zeros(k, dtype=np.bool_)
    work, gradient, ones = np.empty(k), np.empty(k), np.empty((many, k))
    # By group; the last, which -1 is as well, is of coordinates in none.
    levels, weights, below, deepest = (
        np.zeros(many + 1), np.zeros(many + 1), np.zeros(many + 1), np.zeros(many + 1),
    )  # fmt: skip
    most, system = np.zeros(many + 1, dtype=np.int64), np.empty((many, many + 1))
    for a in range(count):
        free[order[a]] = True
    for i in range(k):
        if 0.0 < x[i] < caps[i] and not free[i]:
            count = _join(gram, linear, x, i, shift, rows, order, count, free, work, caps, groups)
    support = _gradient(gram, linear, x, gradient, caps, groups, goals, levels, weights)
    steps, idle, inside, last, stale, done = 0, 0, False, np.inf, 0, 0.0
    while True:
        count = _without_bounded(x, rows, order, count, free, caps)
        _mean_levels(x, gradient, order, count, groups, levels, weights)
        most[:] = -1
        for b in range(many):
            if weights[b] == 0.0:  # a coordinate of the group at its cap makes room for others
                for i in range(k):
                    steeper = most[b] < 0 or gradient[i] > gradient[most[b]]
                    if groups[i] == b and x[i] > 0.0 and steeper:
                        most[b] = i
                levels[b] = gradient[most[b]] if most[b] >= 0 else 0.0
        below[:] = 0.0
        deepest[:] = 0.0
        inner, aimed, above, steepest, new = 0.0, 0.0, 0.0, 0.0, -1
        for i in range(k):
            inner += gradient[i] * x[i]
            aimed += linear[i] * x[i]
            b = groups[i]
            slope = gradient[i] - levels[b]
            if slope > 0.0:
                above += slope * x[i]
            elif slope < 0.0:
                if b >= 0:
                    below[b] -= slope * caps[i]
                    deepest[b] = max(deepest[b], -slope)
                else:
                    above -= slope * (caps[i] - x[i])
            into = -slope if x[i] == 0.0 else slope
            if not free[i] and into > steepest and (b < 0 or goals[b] > 0.0):
                steepest, new = into, i
        for b in range(many):
            above += min(below[b], deepest[b] * goals[b])
        if stale > 0 and (above <= tol or new < 0 or steps >= limit):
            support = _gradient(gram, linear, x, gradient, caps, groups, goals, levels, weights)
            stale = 0
            continue
        value = 0.5 * (inner - aimed)
        risen = inside and value > last - _ROUNDED * (abs(inner) + abs(aimed))
        idle = idle + 1 if risen else 0
        if above <= tol or (new < 0 and inside) or idle == 2:
            return True, count, done
        if inside:
            last = value
        if steps >= limit:
            return False, count, done
        most[many] = new
        for comer in most:
            if comer >= 0 and not free[comer]:
                count = _join(
                    gram, linear, x, comer, shift, rows, order, count, free, work, caps, groups
                )
        more = count // _SHARE if new >= 0 else 0
        for i in range(k if more > 0 else 0):
            b = groups[i]
            slope = gradient[i] - levels[b]
            into = -slope if x[i] == 0.0 else slope
            if into > _NEARLY * steepest and not free[i] and (b < 0 or goals[b] > 0.0):
                count = _join(
                    gram, linear, x, i, shift, rows, order, count, free, work, caps, groups
                )
                more -= 1
                if more == 0:
                    break
        inside = False
        while not inside and steps < limit:
            _mean_levels(x, gradient, order, count, groups, levels, weights)
            for a in range(count):  # levels are idle; beside them differences of slopes would round
                work[a] = levels[groups[order[a]]] - gradient[order[a]]
            _solve(rows, count, work, order, groups, ones, system)
            length, first = 1.0, -1
            for a in range(count):
                i = order[a]
                room = x[i] if work[a] < 0.0 else caps[i] - x[i]
                if room < length * abs(work[a]):
                    length, first = room / abs(work[a]), a
            for a in range(count):
                i = order[a]
                before = x[i]
                x[i] = min(max(x[i] + length * work[a], 0.0), caps[i])
                if a == first:
                    x[i] = 0.0 if work[a] < 0.0 else caps[i]
                work[a] = x[i] - before
            stale += 1
            done += (1.5 + 0.5 * many) * count * count + (count + 8) * k
            if stale < _STALE and 2 * count < support:
                _update(gram, work, order, count, gradient)
            else:
                support = _gradient(gram, linear, x, gradient, caps, groups, goals, levels, weights)
                stale = 0
            if first >= 0:
                count = _leave(first, rows, order, count, free)
            inside = first < 0
            steps += 1


@njit_alloc_inner()
def _mean_levels(
    x: Any, gradient: Any, order: Any, count: int, groups: Any, levels: Any, weights: Any
) -> None:
    """The mean of the gradient over what each group's free coordinates have; and how much."""
    levels[:] = 0.0
    weights[:] = 0.0
    for a in range(count):
        i = order[a]
        weights[groups[i]] += x[i]
        levels[groups[i]] += x[i] * gradient[i]
    for b in range(levels.size - 1):
        levels[b] = levels[b] / weights[b] if weights[b] > 0.0 else 0.0
    levels[-1] = 0.0


@njit_alloc_inner(fastmath=_FAST)
def _gradient(
    gram: Any, linear: Any, x: Any, gradient: Any, caps: Any, groups: Any, goals: Any,
    scales: Any, fixed: Any,
) -> int:  # fmt: skip
    """``Gx - l``, of x whose groups are made to sum to their goals; how many are not 0."""
    k, support = x.size, 0
    scales[:] = 0.0
    fixed[:] = 0.0
    for i in range(k):
        gradient[i] = -linear[i]
        if x[i] < caps[i]:
            scales[groups[i]] += x[i]
        else:
            fixed[groups[i]] += x[i]
    for b in range(goals.size):
        scales[b] = max(goals[b] - fixed[b], 0.0) / scales[b]
    for i in range(k):
        if x[i] > 0.0:
            if groups[i] >= 0 and x[i] < caps[i]:
                x[i] = min(x[i] * scales[groups[i]], caps[i])
            weight = x[i]
            support += 1
            for j in range(k):
                gradient[j] += weight * gram[i, j]
    return support


@njit_alloc_inner(fastmath=_FAST)
def _update(gram: Any, moved: Any, order: Any, count: int, gradient: Any) -> None:
    """The same after free coordinates have moved."""
    for a in range(count):
        for j in range(gradient.size):
            gradient[j] += moved[a] * gram[order[a], j]


@njit_alloc_inner(fastmath=_FAST)
def _join(
    gram: Any, linear: Any, x: Any, new: int, shift: float, rows: Any, order: Any, count: int,
    free: Any, work: Any, caps: Any, groups: Any,
) -> int:  # fmt: skip
    """Make a coordinate free, after others that it depends on have left; how many there are now."""
    group = groups[new]
    own = gram[new, new] + (shift if group >= 0 else 0.0)
    while True:
        for a in range(count):
            total = gram[new, order[a]]
            if group >= 0 and groups[order[a]] == group:
                total += shift
            for b in range(a):
                total -= rows[a, b] * work[b]
            work[a] = total / rows[a, a]
        pivot = own
        for a in range(count):
            pivot -= work[a] * work[a]
        if pivot > _DEPENDENT * own or count == 0:
            for a in range(count):
                rows[count, a] = work[a]
            rows[count, count] = np.sqrt(max(pivot, _DEPENDENT * shift))
            order[count] = new
            free[new] = True
            return count + 1
        for a in range(count - 1, -1, -1):  # row `new` is this combination of the others
            work[a] /= rows[a, a]
            for b in range(a):
                work[b] -= work[a] * rows[a, b]
        gain, sign = linear[new], 1.0
        for a in range(count):
            gain -= work[a] * linear[order[a]]
        if gain < 0.0:
            sign = -1.0
        length, first = caps[new] - x[new] if sign > 0.0 else x[new], -1
        for a in range(count):
            i = order[a]
            room = x[i] if sign * work[a] > 0.0 else caps[i] - x[i]
            if room < length * abs(work[a]):
                length, first = room / abs(work[a]), a
        if length == np.inf:
            return count
        for a in range(count):
            i = order[a]
            x[i] = min(max(x[i] - length * sign * work[a], 0.0), caps[i])
        x[new] = min(max(x[new] + sign * length, 0.0), caps[new])
        if first < 0:  # it has met its own bound first
            x[new] = caps[new] if sign > 0.0 else 0.0
            return count
        x[order[first]] = 0.0 if sign * work[first] > 0.0 else caps[order[first]]
        count = _leave(first, rows, order, count, free)


@njit_alloc_inner(fastmath=_FAST)
def _solve(
    rows: Any, count: int, work: Any, order: Any, groups: Any, ones: Any, system: Any
) -> None:
    """The d with ``M d = work`` but for multiples of ones in each group, which sums to 0 there.

    With ``L e = work`` and ``L e_b`` the ones of group b, ``L'd = e - sum_b share_b e_b``, where
    the shares solve a system of products of the e_b.
    """
    _forward(rows, 0, count, work)
    many = ones.shape[0]
    for b in range(many):
        first = count
        for a in range(count - 1, -1, -1):
            ones[b, a] = 1.0 if groups[order[a]] == b else 0.0
            first = a if ones[b, a] == 1.0 else first
        _forward(rows, first, count, ones[b])
        for c in range(b + 1):
            total = 0.0
            for a in range(first, count):
                total += ones[b, a] * ones[c, a]
            for a in range(c):
                total -= system[b, a] * system[c, a]
            if c < b:
                system[b, c] = total / system[c, c] if system[c, c] > 0.0 else 0.0
            else:  # 0 of a group without free coordinates
                system[b, b] = np.sqrt(max(total, 0.0))
        share = 0.0
        for a in range(first, count):
            share += ones[b, a] * work[a]
        for a in range(b):
            share -= system[b, a] * system[a, many]
        system[b, many] = share / system[b, b] if system[b, b] > 0.0 else 0.0
    for b in range(many - 1, -1, -1):
        share = system[b, many]
        for a in range(b + 1, many):
            share -= system[a, b] * system[a, many]
        system[b, many] = share / system[b, b] if system[b, b] > 0.0 else 0.0
        for a in range(count):
            work[a] -= system[b, many] * ones[b, a]
    for a in range(count - 1, -1, -1):
        work[a] /= rows[a, a]
        for b in range(a):
            work[b] -= work[a] * rows[a, b]


@njit_alloc_inner(fastmath=_FAST)
def _forward(rows: Any, first: int, count: int, work: Any) -> None:
    """``L^-1 work`` in place, of work that is 0 before ``first``."""
    for a in range(first, count):
        total = work[a]
        for b in range(first, a):
            total -= rows[a, b] * work[b]
        work[a] = total / rows[a, a]


@njit_alloc_inner()
def _without_bounded(x: Any, rows: Any, order: Any, count: int, free: Any, caps: Any) -> int:
    """Let go of free coordinates that a step has left at a bound."""
    for a in range(count - 1, -1, -1):
        if x[order[a]] == 0.0 or x[order[a]] == caps[order[a]]:
            count = _leave(a, rows, order, count, free)
    return count


@njit_alloc_inner()
def _leave(first: int, rows: Any, order: Any, count: int, free: Any) -> int:
    """Take a coordinate out of those that are free: rotations make L triangular again."""
    free[order[first]] = False
    count -= 1
    cosines, sines = np.empty(count + 1), np.empty(count + 1)
    for a in range(first, count):
        order[a] = order[a + 1]
        for b in range(a + 2):
            rows[a, b] = rows[a + 1, b]
        for b in range(first, a):
            left, right = rows[a, b], rows[a, b + 1]
            rows[a, b] = cosines[b] * left + sines[b] * right
            rows[a, b + 1] = cosines[b] * right - sines[b] * left
        length = np.hypot(rows[a, a], rows[a, a + 1])
        cosines[a], sines[a] = rows[a, a] / length, rows[a, a + 1] / length
        rows[a, a] = length
    return count
