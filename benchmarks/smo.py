"""SMO for the C-SVM as LIBSVM and as Platt do it, through the package's kernels, by columns.

``min 1/2 b'Kb - (1/C) y'b`` from b = 0, one pair of coordinates at a time: the best by second-order
information (LIBSVM [1]_), or an example that violates its condition and one whose error is farthest
from its own (Platt [2]_).  Every column is computed once and kept, nothing is shrunk and nothing is
evaluated to prove the result: each coordinate that it ever touches costs one whole column, and that
is all.

References
----------
.. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin. Working set selection using second order information for
   training support vector machines. Journal of Machine Learning Research 6, 2005.
.. [2] J. C. Platt. Sequential minimal optimization: a fast algorithm for training support vector
   machines. Technical report MSR-TR-98-14, Microsoft Research, 1998.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from cornerstep.learning.kernel_blocks import Kernel

Array = np.ndarray[Any, np.dtype[np.float64]]
_LOOK = 20  # steps between looks at the clock
_SOME = 64  # entries of the diagonal at a time
_LITTLE = 1e-5  # a step of Platt's that is smaller than this, relatively, is none
_MISSING, _SOLVED, _PAUSED = range(3)


@njit(cache=True)
def _steps(store, slots, diagonal, beta, h, lower, upper, tol, count):
    """Up to ``count`` steps: why it stopped, the column that is missing, the steps taken."""
    n = h.size
    gains = np.empty(n)
    rising, falling = np.empty(n), np.empty(n)  # 0, or infinite where b is at that bound
    for k in range(n):
        rising[k] = 0.0 if beta[k] < upper[k] else np.inf
        falling[k] = 0.0 if beta[k] > lower[k] else np.inf
    for step in range(count):
        low, high = np.inf, -np.inf
        for k in range(n):
            low = min(low, h[k] + rising[k])
            high = max(high, h[k] - falling[k])
        if high - low <= tol:
            return _SOLVED, -1, step
        i = 0
        while h[i] + rising[i] != low:
            i += 1
        if slots[i] < 0:
            return _MISSING, i, step
        column_i, best = store[slots[i]], 0.0
        for k in range(n):
            violation = max(h[k] - falling[k] - low, 0.0)
            curvature = max(diagonal[i] + diagonal[k] - 2 * column_i[k], 1e-12)
            gains[k] = violation * violation / curvature
            best = max(best, gains[k])
        j = 0
        while gains[j] != best:
            j += 1
        if slots[j] < 0:
            return _MISSING, j, step
        column_j = store[slots[j]]
        curvature = max(diagonal[i] + diagonal[j] - 2 * column_i[j], 1e-12)
        room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
        move = min((h[j] - low) / curvature, room_i, room_j)
        beta[i] = upper[i] if move >= room_i else beta[i] + move
        beta[j] = lower[j] if move >= room_j else beta[j] - move
        for k in (i, j):
            rising[k] = 0.0 if beta[k] < upper[k] else np.inf
            falling[k] = 0.0 if beta[k] > lower[k] else np.inf
        for k in range(n):
            h[k] += move * (column_i[k] - column_j[k])
    return _PAUSED, -1, count


def smo(
    kernel: Kernel,
    y: Array,
    C: float,
    tol: float,
    limit: float,
    seen: Callable[[int, float, int, Array], None],
) -> tuple[Array, int, int]:
    """Signed variables b, the number of steps and of columns.

    ``seen(step, seconds, columns, b)`` is told of the way.  Stops when ``max h over b > lower -
    min h over b < upper <= tol / C`` or after ``limit`` seconds.
    """
    begun = time.perf_counter()
    n = y.size
    lower, upper = np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0)
    beta, h = np.zeros(n), -y / C
    diagonal = _diagonal(kernel, n)
    slots, store = np.full(n, -1), np.empty((64, n))
    steps = columns = 0
    while True:
        why, missing, taken = _steps(
            store, slots, diagonal, beta, h, lower, upper, tol / C, _LOOK - steps % _LOOK
        )
        steps += taken
        if why == _MISSING:
            if columns == store.shape[0]:
                store = np.concatenate([store, np.empty_like(store)])
            store[columns] = kernel.block(np.array([missing]), None)[0]
            slots[missing] = columns
            columns += 1
            continue
        seconds = time.perf_counter() - begun
        seen(steps, seconds, columns, beta.copy())
        if why == _SOLVED or seconds > limit:
            return beta, steps, columns


def _diagonal(kernel: Kernel, n: int) -> Array:
    diagonal = np.empty(n)
    for start in range(0, n, _SOME):
        some = np.arange(start, min(start + _SOME, n))
        diagonal[some] = kernel.block(some, some).diagonal()
    return diagonal


def platt(
    kernel: Kernel,
    y: Array,
    C: float,
    tol: float,
    limit: float,
    seen: Callable[[int, float, int, Array], None],
) -> tuple[Array, int, int]:
    """The same, until no example violates its condition by more than ``tol``."""
    run, begun = _Platt(kernel, y, C), time.perf_counter()
    everywhere, told = True, 0
    while True:
        changed = 0
        for j in np.arange(y.size) if everywhere else np.flatnonzero(run.free()):
            changed += run.examine(int(j), tol)
            seconds = time.perf_counter() - begun
            if run.steps >= told + _LOOK:
                told = run.steps
                seen(run.steps, seconds, len(run.columns), run.beta.copy())
            if seconds > limit:
                return run.beta, run.steps, len(run.columns)
        if everywhere and not changed:
            return run.beta, run.steps, len(run.columns)
        everywhere = not everywhere and not changed


class _Platt:
    """Variables, errors ``C h + bias`` and steps on pairs."""

    def __init__(self, kernel: Kernel, y: Array, C: float) -> None:
        self.kernel, self.y, self.C = kernel, y, C
        self.lower, self.upper = np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0)
        self.beta, self.h, self.bias = np.zeros(y.size), -y / C, 0.0
        self.diagonal = _diagonal(kernel, y.size)
        self.columns: dict[int, Array] = {}
        self.rng = np.random.default_rng(0)
        self.steps = 0

    def free(self) -> Any:
        return (self.beta > self.lower) & (self.beta < self.upper)

    def examine(self, j: int, tol: float) -> bool:
        """A step with j if it violates its condition: the farthest error, else whichever moves."""
        error = self.y[j] * (self.C * self.h[j] + self.bias)
        size = self.y[j] * self.beta[j]
        if not ((error < -tol and size < 1) or (error > tol and size > 0)):
            return False
        free = np.flatnonzero(self.free())
        farthest = free[np.abs(self.h[free] - self.h[j]).argsort()[-1:]]
        return any(
            self._step(int(i), j)
            for some in (farthest, self.rng.permutation(free), self.rng.permutation(self.y.size))
            for i in some
        )

    def _column(self, k: int) -> Array:
        if k not in self.columns:
            self.columns[k] = self.kernel.block(np.array([k]), None)[0]
        return self.columns[k]

    def _step(self, i: int, j: int) -> bool:
        column = self._column(j)
        curvature = self.diagonal[i] + self.diagonal[j] - 2 * column[i]
        if i == j or curvature <= 0:
            return False
        beta = self.beta
        least = max(self.lower[j] - beta[j], beta[i] - self.upper[i])
        most = min(self.upper[j] - beta[j], beta[i] - self.lower[i])
        move = min(max((self.h[i] - self.h[j]) / curvature, least), most)
        if abs(move) < _LITTLE * (abs(2 * beta[j] + move) + _LITTLE):
            return False
        for k, by in ((j, move), (i, -move)):
            moved = beta[k] + by
            ends = self.lower[k], self.upper[k]
            near = ends[0] if abs(ends[0] - moved) <= abs(ends[1] - moved) else ends[1]
            beta[k] = near if abs(near - moved) < 1e-12 else moved
        self.h += move * (column - self._column(i))
        free = [k for k in (i, j) if self.lower[k] < beta[k] < self.upper[k]] or [i, j]
        self.bias = -self.C * float(np.mean(self.h[free]))
        self.steps += 1
        return True
