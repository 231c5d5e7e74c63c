"""``min over the simplex of  1/2 x'Gx - l'x`` from a good start: an active-set method.

References
----------
.. [1] P. Wolfe. Finding the nearest point in a polytope. Mathematical Programming 11, 128-149,
   1976.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.compiling import njit
from cornerstep.core.types import FloatArray

_JITTER = 1e-13  # on the diagonal of G: equations may be singular


@njit()
def improve(gram: FloatArray, linear: FloatArray, x: FloatArray, tol: float, limit: int) -> float:
    """Change x until Frank-Wolfe's gap is at most ``tol``, or ``limit`` systems are solved.

    The largest entry of G and l is 1.

    The coordinate of the least gradient joins those above 0.  Then steps lead to the minimum over
    their affine hull; one that would leave the simplex ends where the first of them is 0, which
    drops out.  Returns the gap.
    """
    free = x > 0.0
    gradient = gram @ x - linear
    gap, solved = 0.0, 0
    while True:
        least = np.argmin(gradient)
        gap = gradient @ x - gradient[least]
        if gap <= tol or solved >= limit:
            return gap
        free[least] = True
        inside = False
        while not inside and solved < limit:
            inside = _towards_least(gram, gradient, x, free)
            gradient = gram @ x - linear
            solved += 1


@njit()
def _towards_least(gram: FloatArray, gradient: FloatArray, x: FloatArray, free: Any) -> bool:
    """Go to the minimum over the free coordinates with their sum as it is; whether it is met."""
    chosen = np.flatnonzero(free)
    size = chosen.size
    hessian, sides = np.empty((size, size)), np.ones((size, 2))
    for a in range(size):
        for b in range(size):
            hessian[a, b] = gram[chosen[a], chosen[b]]
        hessian[a, a] += _JITTER * (hessian[a, a] + 1.0)
        sides[a, 0] = -gradient[chosen[a]]
    found = np.linalg.solve(hessian, sides)
    step = found[:, 0] - found[:, 0].sum() / found[:, 1].sum() * found[:, 1]
    length, first = 1.0, -1
    for a in range(size):
        if step[a] < 0.0 and -x[chosen[a]] / step[a] < length:
            length, first = -x[chosen[a]] / step[a], a
    for a in range(size):
        x[chosen[a]] = max(x[chosen[a]] + length * step[a], 0.0)
    if first >= 0:
        x[chosen[first]] = 0.0
        free[chosen[first]] = False
    x /= x.sum()
    return first < 0
