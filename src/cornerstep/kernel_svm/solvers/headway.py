"""Whether a run still gets anywhere: what ends runs that would creep on for ever.

Every window of looks must lower the gap by a share of itself, or the value by a share of the gap,
the most that is left to gain.  As both are bounded below, the gap by its rounding, all runs end.
"""

from __future__ import annotations

import math

from cornerstep.optimiser.loop import Look

_WINDOW = 2000  # looks
_GAP, _VALUE = 0.1, 0.01  # at this rate a run takes 100,000 looks and more


class Headway:
    """Compares looks, a window of them at a time."""

    def __init__(self) -> None:
        self._looks = 0
        self._least_gap = math.inf
        self._gap = self._value = math.inf  # at the start of the window

    def is_lost(self, look: Look) -> bool:
        """Whether the window that ends with this look gained too little."""
        self._looks += 1
        self._least_gap = min(self._least_gap, look.gap)
        if self._looks % _WINDOW:
            return False
        gap, value = self._least_gap, look.value
        lost = gap > (1 - _GAP) * self._gap and self._value - value < _VALUE * gap
        self._gap, self._value = gap, value
        return lost
