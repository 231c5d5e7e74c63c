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

from cornerstep.problems.kernel_columns import Kernel

Array = np.ndarray[Any, np.dtype[np.float64]]
_LOOK = 20  # steps between looks at the clock
_MISSING, _SOLVED, _PAUSED = range(3)


@njit(cache=True)
def _steps(store, slots, diagonal, beta, h, lower, upper, tol, count):
    """Up to ``count`` steps: why it stopped, the column that is missing, the steps taken."""
    for step in range(count):
        i, j, low, high = -1, -1, np.inf, -np.inf
        for k in range(h.size):
            if beta[k] < upper[k] and h[k] < low:
                low, i = h[k], k
            if beta[k] > lower[k] and h[k] > high:
                high = h[k]
        if high - low <= tol:
            return _SOLVED, -1, step
        if slots[i] < 0:
            return _MISSING, i, step
        column_i, best = store[slots[i]], 0.0
        for k in range(h.size):
            violation = h[k] - low
            if violation > 0 and beta[k] > lower[k]:
                curvature = max(diagonal[i] + diagonal[k] - 2 * column_i[k], 1e-12)
                if violation * violation > best * curvature:
                    best, j = violation * violation / curvature, k
        if slots[j] < 0:
            return _MISSING, j, step
        column_j = store[slots[j]]
        curvature = max(diagonal[i] + diagonal[j] - 2 * column_i[j], 1e-12)
        room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
        move = min((h[j] - low) / curvature, room_i, room_j)
        beta[i] = upper[i] if move >= room_i else beta[i] + move
        beta[j] = lower[j] if move >= room_j else beta[j] - move
        for k in range(h.size):
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
    diagonal = np.array(
        [kernel.block(np.array([i]), np.array([i]), np.float64)[0, 0] for i in range(n)]
    )
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
            store[columns] = kernel.block(np.array([missing]), None, np.float64)[0]
            slots[missing] = columns
            columns += 1
            continue
        seconds = time.perf_counter() - begun
        seen(steps, seconds, columns, beta.copy())
        if why == _SOLVED or seconds > limit:
            return beta, steps, columns
