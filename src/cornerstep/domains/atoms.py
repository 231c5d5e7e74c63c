"""Vertices by number: bit patterns and combinations, of which there may be more than 2^63.

Numbers are Python's integers.  A combination of k of n has the rank of its place in lexicographic
order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cornerstep.core.types import IntArray

_DRAWN = 2**62  # of as many numbers NumPy draws without replacement itself


def combination(rank: int, n: int, k: int) -> IntArray:
    """The k of ``range(n)`` with this rank among all combinations.

    Parameters
    ----------
    rank : int
        From 0 to ``comb(n, k) - 1``.
    n, k : int
    """
    chosen = np.empty(k, dtype=np.intp)
    count = math.comb(n - 1, k - 1) if k else 0  # of those that have the next element
    element, left = 0, k
    while left:
        rest = n - element - 1
        if rank < count:
            chosen[k - left] = element
            left -= 1
            count = count * left // rest if rest else 0
        else:
            rank -= count
            count = count * (rest - left + 1) // rest
        element += 1
    return chosen


def draw_distinct(rng: np.random.Generator, count: int, population: int) -> npt.NDArray[Any]:
    """``count`` different numbers of ``range(population)``, each set of them as likely.

    Parameters
    ----------
    rng : numpy Generator
    count, population : int
        The count is at most the population.

    Returns
    -------
    array of int64, or of Python's integers where those are too small
    """
    if population <= _DRAWN:
        return rng.choice(population, count, replace=False)
    size, drawn = population.bit_length(), dict[int, None]()
    while len(drawn) < count:
        number = int.from_bytes(rng.bytes(-(-size // 8)), "little") >> (-size % 8)
        if number < population:
            drawn[number] = None
    return np.array(list(drawn), dtype=object)
