"""Margins with twice the digits of float64: what certificates need where scores cancel.

A product and a sum of two numbers are each the sum of two numbers without rounding; a sum of
products that carries the second parts along is off by ``u |result| + gamma(d)² sum |x_k W_k|``
(T. Ogita, S. M. Rump and S. Oishi, *Accurate sum and dot product*, 2005, algorithm Dot2).

References
----------
.. [1] T. Ogita, S. M. Rump, S. Oishi. Accurate sum and dot product. SIAM Journal on Scientific
   Computing 26, 1955-1988, 2005.
"""

from __future__ import annotations

from cornerstep.core.compiling import njit

_SPLIT = 134217729.0  # 2^27 + 1: parts of 26 digits, whose products are not rounded


@njit(inline="always")
def _sum(a, b):
    """``a + b`` and what rounding it has lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(inline="always")
def _product(a, b):
    """``a b`` and what rounding it has lost."""
    total = a * b
    high = _SPLIT * a
    a_high = high - (high - a)
    a_low = a - a_high
    high = _SPLIT * b
    b_high = high - (high - b)
    b_low = b - b_high
    return total, a_low * b_low - (((total - a_high * b_high) - a_low * b_high) - a_high * b_low)


@njit()
def margins(rows, weights, labels, deltas):
    """Overwrite ``deltas`` by ``x_i'(W_j - W_y) + Delta_ij``, rounded once; 0 at the label."""
    n, d = rows.shape
    for i in range(n):
        own, y = weights[labels[i]], labels[i]
        for j in range(weights.shape[0]):
            if j == y:
                deltas[i, j] = 0.0
                continue
            total, rest = deltas[i, j], 0.0
            for k in range(d):
                difference, low = _sum(weights[j, k], -own[k])
                product, part = _product(rows[i, k], difference)
                total, lost = _sum(total, product)
                rest += lost + (part + rows[i, k] * low)
            deltas[i, j] = total + rest
