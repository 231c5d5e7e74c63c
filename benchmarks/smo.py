"""SMO for the C-SVM as LIBSVM does it, through the package's kernels, column by column.

``min 1/2 b'Kb - (1/C) y'b`` from b = 0, one pair of coordinates at a time, chosen by second-order
information.  Every column is computed once and kept, nothing is shrunk and nothing is evaluated to
prove the result: each coordinate that it ever touches costs one whole column, and that is all.
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
    diagonal = np.empty(n)
    for start in range(0, n, _SOME):
        some = np.arange(start, min(start + _SOME, n))
        diagonal[some] = kernel.block(some, some).diagonal()
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
