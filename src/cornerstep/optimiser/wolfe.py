"""``min 1/2 x'Gx - l'x`` over the simplex, or some of its kind, by Wolfe's active-set method.

The problem, with a of zeros and ones and caps u that may be infinite:

``min 1/2 x'Gx - l'x   s.t.  0 <= x <= u,  a'x = t``

which is the simplex where a is 1, u infinite and t = 1.  Coordinates between their bounds are
*free*.  With s > 0 the matrix ``M = G + s aa'`` is that of the same problem where a'x = t, and
positive definite where G is on directions d with a'd = 0.  ``M = L L'`` of the free coordinates is
kept, a row added or taken out as they come and go.

1. The coordinate whose gradient, less that of free coordinates of the sum, points most into its
   bounds becomes free, unless a bound of the gap is small enough.
2. The minimum over the free coordinates, with a'x = t, is found from L.  If it lies between the
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
_LINEAR = 1e-20  # of l: the least s, beside which the curvature of a tiny G counts as none
_ROUNDED = 1e-15  # of its terms: less than this a value does not fall
_DEPENDENT = 1e-11  # of its diagonal entry: what is left of a row that depends on others


class Factor:
    """L of the free coordinates, in their order, with room for more, and s.

    Parameters
    ----------
    room : int
    """

    def __init__(self, room: int = 16) -> None:
        self.rows = np.zeros((room, room))
        self.order: IntArray = np.zeros(room, dtype=np.int64)
        self.count = 0
        self.shift = 1.0

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
    caps: FloatArray | None = None, summed: FloatArray | None = None,
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
    caps, summed : arrays of shape (k,), optional
        u and a; t is what a'x is.  By default those of the simplex, and t = 1.

    Returns
    -------
    bool
        Whether it is, or rounding leaves nothing to gain.
    """
    factor.make_room(x.size)
    if factor.count == 0:
        least = _LINEAR * float(np.abs(linear).max())
        factor.shift = max(float(gram.diagonal().mean()), least) or 1.0
    before, goal = x.copy(), 1.0
    if caps is None or summed is None:
        caps, summed = np.full(x.size, np.inf), np.ones(x.size)
    else:
        goal = float(summed @ x)
    solved, factor.count = _improve(
        gram, linear, x, tol, limit, factor.rows, factor.order, factor.count, factor.shift,
        caps, summed, goal,
    )  # fmt: skip
    if not np.isfinite(x).all():  # entries of G are not: nothing is known of better weights
        x[:], factor.count, solved = before, 0, True
    return bool(solved)


@njit_alloc(nogil=True)
def _improve(
    gram: FloatArray, linear: FloatArray, x: FloatArray, tol: float, limit: int,
    rows: FloatArray, order: IntArray, count: int, shift: float,
    caps: FloatArray, summed: FloatArray, goal: float,
) -> tuple[bool, int]:  # fmt: skip
    k = x.size
    free = np.zeros(k, dtype=np.bool_)
    work, other, gradient = np.empty(k), np.empty(k), np.empty(k)
    for a in range(count):
        free[order[a]] = True
    for i in range(k):
        if 0.0 < x[i] < caps[i] and not free[i]:
            count = _join(gram, linear, x, i, shift, rows, order, count, free, work, caps, summed)
    _gradient(gram, linear, x, gradient, caps, summed, goal)
    steps, idle, inside, last = 0, 0, False, np.inf
    while True:
        count = _without_bounded(x, rows, order, count, free, caps)
        level, weight, most = 0.0, 0.0, -1
        for a in range(count):
            i = order[a]
            weight += summed[i] * x[i]
            level += summed[i] * x[i] * gradient[i]
        if weight > 0.0:
            level /= weight
        else:  # a coordinate of the sum that is at its cap makes room for others
            for i in range(k):
                if summed[i] * x[i] > 0.0 and (most < 0 or gradient[i] > gradient[most]):
                    most = i
            level = gradient[most] if most >= 0 else 0.0
        inner, aimed, above, below, deepest, steepest, new = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1
        for i in range(k):
            inner += gradient[i] * x[i]
            aimed += linear[i] * x[i]
            slope = gradient[i] - summed[i] * level
            if slope > 0.0:
                above += slope * x[i]
            elif slope < 0.0:
                room = caps[i] if summed[i] > 0.0 else caps[i] - x[i]
                if summed[i] > 0.0:
                    below -= slope * room
                    deepest = max(deepest, -slope)
                else:
                    above -= slope * room
            into = -slope if x[i] == 0.0 else slope
            if not free[i] and into > steepest and (goal > 0.0 or summed[i] == 0.0):
                steepest, new = into, i
        value = 0.5 * (inner - aimed)
        risen = inside and value > last - _ROUNDED * (abs(inner) + abs(aimed))
        idle = idle + 1 if risen else 0
        if above + min(below, deepest * goal) <= tol or (new < 0 and inside) or idle == 2:
            return True, count
        if inside:
            last = value
        if steps >= limit:
            return False, count
        for i in (most, new):
            if i >= 0 and not free[i]:
                count = _join(
                    gram, linear, x, i, shift, rows, order, count, free, work, caps, summed
                )
        inside = False
        while not inside and steps < limit:
            level, weight = 0.0, 0.0  # idle; beside it differences of slopes would round
            for a in range(count):
                i = order[a]
                weight += summed[i] * x[i]
                level += summed[i] * x[i] * gradient[i]
            level = level / weight if weight > 0.0 else 0.0
            for a in range(count):
                i = order[a]
                work[a], other[a] = summed[i] * level - gradient[i], summed[i]
            _solve(rows, count, work, other)
            sums, ones = 0.0, 0.0
            for a in range(count):
                sums += summed[order[a]] * work[a]
                ones += summed[order[a]] * other[a]
            share = sums / ones if ones > 0.0 else 0.0
            length, first = 1.0, -1
            for a in range(count):
                work[a] -= share * other[a]
                i = order[a]
                room = x[i] if work[a] < 0.0 else caps[i] - x[i]
                if room < length * abs(work[a]):
                    length, first = room / abs(work[a]), a
            for a in range(count):
                i = order[a]
                x[i] = min(max(x[i] + length * work[a], 0.0), caps[i])
            if first >= 0:
                i = order[first]
                x[i] = 0.0 if work[first] < 0.0 else caps[i]
                count = _leave(first, rows, order, count, free)
            inside = first < 0
            _gradient(gram, linear, x, gradient, caps, summed, goal)
            steps += 1


@njit_alloc_inner(fastmath=_FAST)
def _gradient(
    gram: Any, linear: Any, x: Any, gradient: Any, caps: Any, summed: Any, goal: float
) -> None:
    """``Gx - l``, of x made to sum to the goal."""
    k = x.size
    total, fixed = 0.0, 0.0
    for i in range(k):
        gradient[i] = -linear[i]
        if x[i] < caps[i]:
            total += summed[i] * x[i]
        else:
            fixed += summed[i] * x[i]
    scale = max(goal - fixed, 0.0) / total
    for i in range(k):
        if x[i] > 0.0:
            if summed[i] > 0.0 and x[i] < caps[i]:
                x[i] = min(x[i] * scale, caps[i])
            weight = x[i]
            for j in range(k):
                gradient[j] += weight * gram[i, j]


@njit_alloc_inner(fastmath=_FAST)
def _join(
    gram: Any, linear: Any, x: Any, new: int, shift: float, rows: Any, order: Any, count: int,
    free: Any, work: Any, caps: Any, summed: Any,
) -> int:  # fmt: skip
    """Make a coordinate free, after others that it depends on have left; how many there are now."""
    own = gram[new, new] + shift * summed[new]
    while True:
        for a in range(count):
            total = gram[new, order[a]] + shift * summed[new] * summed[order[a]]
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
def _solve(rows: Any, count: int, one: Any, other: Any) -> None:
    """``M^-1 one`` and ``M^-1 other``, in place."""
    for a in range(count):
        first, second = one[a], other[a]
        for b in range(a):
            first -= rows[a, b] * one[b]
            second -= rows[a, b] * other[b]
        one[a], other[a] = first / rows[a, a], second / rows[a, a]
    for a in range(count - 1, -1, -1):
        first, second = one[a] / rows[a, a], other[a] / rows[a, a]
        one[a], other[a] = first, second
        for b in range(a):
            one[b] -= first * rows[a, b]
            other[b] -= second * rows[a, b]


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
