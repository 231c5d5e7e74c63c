"""Intercepts that are not penalised: P of W and b, D of dual points that balance.

``P(W, b) = 1/2 |W|² + sum_i s_i Phi(W'x_i + b; y_i)`` is no less than D(A) if
``r = sum_i s_i alpha_i`` is 0.  Rounding leaves a little of r.  With the masses ``t_j``, the sums
of s_i over the examples of class j, and S their sum, let ``k = max_j |r_j| / t_j``.  The points

``(1 - c) alpha_i + c (e_{y_i} - v)``,  ``c = 2 k / (1 + 2 k)``,  ``v = (t + r / (2 k)) / S``

balance, and v is a vector of probabilities, as ``|r_j| / (2 k) <= t_j / 2``: they are dual points
of losses whose B is all ``beta >= 0`` with ``1'beta <= 1``.  As ``c / (2 k) = 1 - c``, they have
the weights ``(1 - c) (W(A) - m r') + c M``, m being the mean of the x_i by s_i and M the spread of
the classes, ``sum_i s_i (x_i - m) e_{y_i}'``.  What of D is not the square is concave, so that

``D >= (1 - c) l + c l_0 - 1/2 (|W(A) - m r'| + c |M|)²``,

l being ``sum_i s_i (<Delta_i, beta_i> - mu/2 penalty)`` of A, and l_0 the least that it can be: 0
if the penalty is minus an entropy, and ``-mu S`` if it is ``|alpha_i|² <= 2``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.rounding import gamma, norm
from cornerstep.core.types import FloatArray

_SUMMED = 64  # roundings that follow each other in a sum by pairs, and in its terms


def column_sums(rows: Any) -> FloatArray:
    """Sums of columns, by pairs."""
    sums: FloatArray = np.ascontiguousarray(rows.T).sum(axis=1)
    return sums


class Balance(NamedTuple):
    """What the balance of dual points is measured by.

    Attributes
    ----------
    masses : array of shape (m,)
        t.
    mean : array of shape (d,)
    spread : float
        |M|, rounding included.
    least : float
        l_0.
    """

    masses: FloatArray
    mean: FloatArray
    spread: float
    least: float = 0.0

    @classmethod
    def of(
        cls, sums: FloatArray, masses: FloatArray, features: FloatArray, summed: int,
        smoothing: float = 0.0,
    ) -> Balance:  # fmt: skip
        """From ``sum_i s_i x_i e_{y_i}'``, a column per class, a sum of ``summed`` terms.

        ``features`` is ``sum_i s_i |x_i|``, and ``smoothing`` mu where penalties are squares.
        """
        mean = sums.sum(axis=1) / masses.sum()
        off = gamma(summed + 2 * masses.size + _SUMMED) * 4.0 * norm(features)
        spread = norm((sums - np.outer(mean, masses)).ravel()) + off
        return cls(masses, mean, spread, -1.01 * smoothing * float(masses.sum()))

    def balanced(self, own: FloatArray, residual: FloatArray) -> FloatArray:
        """``W(A) - m r'``, a column per class."""
        return own - np.outer(self.mean, residual)

    def rounding(self, residual: FloatArray, parts: int) -> FloatArray:
        """By how much r may be off, the sum of so many sums by pairs."""
        return gamma(_SUMMED + parts) * (2.0 * self.masses + np.abs(residual))

    def bound(self, linear: float, square: float, residual: FloatArray, off: Any = 0.0) -> float:
        """D of dual points that balance, near those with this l, ``|W(A) - m r'|²`` and r.

        ``off`` bounds the rounding of r.
        """
        k = float(((np.abs(residual) + off) / self.masses).max())
        c = 2.0 * k / (1.0 + 2.0 * k)
        further = c * self.spread + norm(self.mean) * norm(off + 0.0 * residual)
        return (1.0 - c) * linear + c * self.least - 0.5 * (math.sqrt(square) + further) ** 2
