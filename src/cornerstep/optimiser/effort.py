"""Which of two ways arrives first: work and pace of steps, beside the work of a central path.

Work is counted in multiply-adds of a factorisation.  A path is a dozen of them, and its work is
known beforehand.  Other steps are cheap, and how many there will be their own gaps tell: these fall
about geometrically, if more slowly later on than at first.
"""

from __future__ import annotations

import math
from typing import Any

_PRODUCT = 3.0  # of an entry in a product with a vector, which waits for memory
_CALLS = 1e5, 1.6e6  # of a product and of a correction: the interpreter
_STEPS = 12  # of a path
_PATH_STEP = 5.7e6  # of each, besides its factor and products
_PATH_PRODUCTS = 6  # of each, with the data
_LOOSE = 1.7  # times as much where rows are inequalities, and systems are solved twice
_UNJUDGED = 2  # steps, the first
_OPTIMISM = (
    0.35  # of the pace that steps will keep: the pace so far, which first steps make too fast
)


def order_of(objective: Any, domain: Any) -> int:
    """The order of the matrix that a step on the path factorises; 0 without a known Hessian."""
    curvature = getattr(objective, "curvature", None)
    if curvature is None:
        return 0
    if curvature.matrix is not None:
        return int(domain.size)
    root = 0 if curvature.root is None else int(curvature.root.shape[0])
    return max(min(int(domain.size), root + int(domain.constraints.rows.shape[0])), 1)


def _entries(objective: Any) -> int:
    """Of what the Hessian is made of besides its diagonal."""
    curvature = objective.curvature
    part = curvature.matrix if curvature.root is None else curvature.root
    return 0 if part is None else int(getattr(part, "nnz", part.size))


def product_work(objective: Any) -> float:
    """The work of a product with the data."""
    return _PRODUCT * _entries(objective) + _CALLS[0]


def correction_work(objective: Any) -> float:
    """The work of an exact correction, besides that with its atoms."""
    return 2 * product_work(objective) + _CALLS[1]


def path_work(objective: Any, domain: Any) -> float:
    """The work of a path, along which ``order_of`` is above 0."""
    curvature, order, n = objective.curvature, order_of(objective, domain), int(domain.size)
    by_rows = curvature.matrix is None and order < n
    products = _PATH_PRODUCTS * _PRODUCT * _entries(objective)
    step = order**3 / 5 + (0.5 * order**2 * n if by_rows else 0.0) + products + _PATH_STEP
    once = 0.0 if by_rows or curvature.root is None else float(_entries(objective)) * n
    rows = domain.constraints
    loose = _LOOSE if (rows.row_lower < rows.row_upper).any() else 1.0
    return _STEPS * step * loose + once


class Pace:
    """Whether steps of a kind go on: while they promise to arrive with less work than another way.

    Parameters
    ----------
    other : float
        The work of the other way.
    """

    def __init__(self, other: float) -> None:
        self.other = other
        self.spent = 0.0
        self._steps, self._first, self._least = 0, 0.0, math.inf

    def pays(self, gap: float, aim: float) -> bool:
        """Asked once before each step, with the gap there is and the gap there is to be."""
        self._first = self._first if self._steps else gap
        self._least = min(self._least, gap)
        self._steps += 1
        if self._steps <= _UNJUDGED or not self._least > aim:
            return True
        fallen = math.log(self._first / self._least)
        ahead = math.log(self._least / aim) if aim > 0 else math.inf
        return ahead * self.spent <= _OPTIMISM * fallen * self.other
