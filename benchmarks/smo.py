"""SMO for the C-SVM as LIBSVM does it, through the package's kernel columns, which count.

``min 1/2 b'Kb - (1/C) y'b`` from b = 0, one pair of coordinates at a time, chosen by second-order
information.  Plain numpy; nothing is shrunk, so each new coordinate costs one whole column.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.problems.kernel_columns import KernelColumns

Array = np.ndarray[Any, np.dtype[np.float64]]
_LOOK = 50  # steps between looks at the gap


def smo(
    columns: KernelColumns,
    y: Array,
    C: float,
    tol: float,
    limit: float,
    seen: Callable[[int, float, Array], None],
) -> tuple[Array, int]:
    """Signed variables b and the number of steps; ``seen(step, seconds, b)`` is told of the way.

    Stops when ``max h over b > lower - min h over b < upper <= tol / C`` or after ``limit``
    seconds.
    """
    begun = time.perf_counter()
    lower, upper = np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0)
    beta, h = np.zeros(y.size), -y / C
    kept: dict[int, Array] = {}

    def column(i: int) -> Array:
        """Computed, and counted, once."""
        if i not in kept:
            kept[i] = np.zeros(y.size)
            columns.add_product(np.array([i]), np.ones(1), kept[i])
        return kept[i]

    steps = 0
    while True:
        i = int(np.where(beta < upper, h, np.inf).argmin())
        violation = np.where(beta > lower, h - h[i], -np.inf)
        if steps % _LOOK == 0:
            seen(steps, time.perf_counter() - begun, beta)
            if time.perf_counter() - begun > limit:
                break
        if violation.max() <= tol / C:
            break
        K_i = column(i)
        curvature = np.maximum(2.0 - 2.0 * K_i, 1e-12)
        j = int(np.where(violation > 0, violation**2 / curvature, -np.inf).argmax())
        step = min(violation[j] / curvature[j], upper[i] - beta[i], beta[j] - lower[j])
        full_i, full_j = step >= upper[i] - beta[i], step >= beta[j] - lower[j]
        beta = beta.copy()
        beta[i] = upper[i] if full_i else beta[i] + step
        beta[j] = lower[j] if full_j else beta[j] - step
        h = h + step * (K_i - column(j))
        steps += 1
    return beta, steps
