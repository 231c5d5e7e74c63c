"""``min over the simplex of  1/2 x'Gx - l'x`` from a good start, by Wolfe's active-set method.

Coordinates above 0 are *free*.  With s > 0 the matrix ``M = G + s 11'`` is that of the same problem
on the simplex, and positive definite where G is on directions that sum to 0.  ``M = L L'`` of the
free coordinates is kept, a row added or taken out as they come and go.

1. The coordinate of the least gradient becomes free, unless the Frank-Wolfe gap is small enough.
2. The minimum over the affine hull of the free coordinates is found from L.  If it lies inside the
   simplex, x goes there, and 1. follows.
3. Else x goes as far towards it as it can; the coordinate that is 0 there is free no longer, and 2.
   follows.

A coordinate whose row of M depends on those that are free cannot join them: along that dependence
the function is linear, and x goes down it until one of them is 0, which makes room.

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
    gram: FloatArray, linear: FloatArray, x: FloatArray, tol: float, limit: int, factor: Factor
) -> bool:
    """Change x until the Frank-Wolfe gap is at most ``tol``, or ``limit`` steps are taken.

    Parameters
    ----------
    gram : array of shape (k, k)
        G, symmetric and positive semidefinite.
    linear : array of shape (k,)
        l.
    x : array of shape (k,)
        In the simplex; changed in place.
    tol : float
    limit : int
    factor : Factor
        Of the coordinates of x above 0, or empty; that of the new x afterwards.

    Returns
    -------
    bool
        Whether it is, or rounding leaves nothing to gain.
    """
    factor.make_room(x.size)
    if factor.count == 0:
        least = _LINEAR * float(np.abs(linear).max())
        factor.shift = max(float(gram.diagonal().mean()), least) or 1.0
    before = x.copy()
    solved, factor.count = _improve(
        gram, linear, x, tol, limit, factor.rows, factor.order, factor.count, factor.shift
    )
    if not np.isfinite(x).all():  # entries of G are not: nothing is known of better weights
        x[:], factor.count, solved = before, 0, True
    return bool(solved)


@njit_alloc(nogil=True)
def _improve(
    gram: FloatArray, linear: FloatArray, x: FloatArray, tol: float, limit: int,
    rows: FloatArray, order: IntArray, count: int, shift: float,
) -> tuple[bool, int]:  # fmt: skip
    k = x.size
    free = np.zeros(k, dtype=np.bool_)
    work, other, gradient = np.empty(k), np.empty(k), np.empty(k)
    for a in range(count):
        free[order[a]] = True
    for i in range(k):
        if x[i] > 0.0 and not free[i]:
            count = _join(gram, linear, x, i, shift, rows, order, count, free, work)
    _gradient(gram, linear, x, gradient)
    steps, inside, last = 0, False, np.inf
    while True:
        inner, aimed, least = 0.0, 0.0, 0
        for i in range(k):
            inner += gradient[i] * x[i]
            aimed += linear[i] * x[i]
            if gradient[i] < gradient[least]:
                least = i
        value = 0.5 * (inner - aimed)
        stalls = inside and value > last - _ROUNDED * (abs(inner) + abs(aimed))
        if inner - gradient[least] <= tol or (free[least] and inside) or stalls:
            return True, _without_zeros(x, rows, order, count, free)
        if inside:
            last = value
        if steps >= limit:
            return False, _without_zeros(x, rows, order, count, free)
        if not free[least]:
            count = _join(gram, linear, x, least, shift, rows, order, count, free, work)
        inside = False
        while not inside and steps < limit:
            level = 0.0  # what all slopes share is idle; beside it their differences would round
            for a in range(count):
                level += x[order[a]] * gradient[order[a]]
            for a in range(count):
                work[a], other[a] = level - gradient[order[a]], 1.0
            _solve(rows, count, work, other)
            sums, ones = 0.0, 0.0
            for a in range(count):
                sums += work[a]
                ones += other[a]
            length, first = 1.0, -1
            for a in range(count):
                work[a] -= sums / ones * other[a]
                i = order[a]
                if work[a] < 0.0 and x[i] < -length * work[a]:
                    length, first = -x[i] / work[a], a
            for a in range(count):
                i = order[a]
                x[i] = max(x[i] + length * work[a], 0.0)
            if first >= 0:
                count = _leave(x, first, rows, order, count, free)
            inside = first < 0
            _gradient(gram, linear, x, gradient)
            steps += 1


@njit_alloc_inner(fastmath=_FAST)
def _gradient(gram: Any, linear: Any, x: Any, gradient: Any) -> None:
    """``Gx - l``, of x made to sum to 1."""
    k = x.size
    total = 0.0
    for i in range(k):
        total += x[i]
        gradient[i] = -linear[i]
    for i in range(k):
        if x[i] > 0.0:
            x[i] /= total
            for j in range(k):
                gradient[j] += x[i] * gram[i, j]


@njit_alloc_inner(fastmath=_FAST)
def _join(
    gram: Any, linear: Any, x: Any, new: int, shift: float, rows: Any, order: Any, count: int,
    free: Any, work: Any,
) -> int:  # fmt: skip
    """Make a coordinate free, after others that it depends on have left; how many there are now."""
    while True:
        for a in range(count):
            total = gram[new, order[a]] + shift
            for b in range(a):
                total -= rows[a, b] * work[b]
            work[a] = total / rows[a, a]
        pivot = gram[new, new] + shift
        for a in range(count):
            pivot -= work[a] * work[a]
        if pivot > _DEPENDENT * (gram[new, new] + shift) or count == 0:
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
        length, first = np.inf if sign > 0.0 else x[new], -1
        for a in range(count):
            if sign * work[a] > 0.0 and x[order[a]] < length * sign * work[a]:
                length, first = x[order[a]] / (sign * work[a]), a
        if length == np.inf:
            return count
        for a in range(count):
            x[order[a]] = max(x[order[a]] - length * sign * work[a], 0.0)
        x[new] = max(x[new] + sign * length, 0.0)
        if first < 0:  # its own weight has gone first
            x[new] = 0.0
            return count
        count = _leave(x, first, rows, order, count, free)


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
def _without_zeros(x: Any, rows: Any, order: Any, count: int, free: Any) -> int:
    """Let go of free coordinates that a step has left at 0."""
    for a in range(count - 1, -1, -1):
        if x[order[a]] == 0.0:
            count = _leave(x, a, rows, order, count, free)
    return count


@njit_alloc_inner()
def _leave(x: Any, first: int, rows: Any, order: Any, count: int, free: Any) -> int:
    """Take a coordinate out of those that are free: rotations make L triangular again."""
    x[order[first]] = 0.0
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
