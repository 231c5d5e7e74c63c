"""What float64 can lose: bounds on the rounding errors of sums of products.

A sum of n products, computed in any order, is off by at most ``gamma(n) * sum |a_i b_i|`` (Higham,
*Accuracy and Stability of Numerical Algorithms*, section 3.1), and by the products that underflow.

References
----------
.. [1] N. J. Higham. Accuracy and Stability of Numerical Algorithms. 2nd edition, SIAM, 2002.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray

EPSILON = 2.0**-53  # a rounding to nearest is off by at most this, relatively
TINY = 5e-324  # the least positive number: what an underflow is off by at most


def gamma(n: int) -> float:
    """``n u / (1 - n u)``: the relative error of n roundings one after the other."""
    return n * EPSILON / (1 - n * EPSILON)


def sum_error(sizes: Any, n: int) -> Any:
    """A bound of the error of a sum of n terms whose absolute values sum to ``sizes``."""
    return gamma(n) * sizes + n * TINY


def norm(x: FloatArray) -> float:
    """The Euclidean norm; its squares neither underflow nor overflow."""
    size = float(np.abs(x).max(initial=0.0))
    if not 0 < size < np.inf:
        return size
    unit = x / size
    return size * float(np.sqrt(unit @ unit))
