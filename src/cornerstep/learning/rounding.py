"""The certificate of a look whose value and bound are off by rounding."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from cornerstep.optimiser.loop import Look

_SAME = 1.0 + 2.0**-48  # sums of a value and its rounding may be off by this themselves


class Rounding(NamedTuple):
    """By how much a value and a bound may be off."""

    value: float = 0.0
    bound: float = 0.0


def certified(value: float, bound: float, rounding: Rounding, extra: tuple[Any, ...]) -> Look:
    """The look at a value and a bound: the most that the one, the least that the other can be.

    Losses are no less than 0, and so is the optimum.
    """
    most, least = value + rounding.value, bound - rounding.bound
    if not 0.0 < least < math.inf or (rounding.value and least > most * _SAME):
        least = 0.0  # not a number, or one that the value denies: it proves nothing
    least = min(least, most)
    gap = math.nextafter(most - least, math.inf) if least else most
    off = min(rounding.value + rounding.bound, gap)
    return Look(most, gap, extra=extra, rounding=off, bound=least)
