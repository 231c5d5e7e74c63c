"""Whether a run still gets anywhere: what ends runs that would creep on for ever.

Every window of looks must lower the gap by a share of itself, or the value by a share of the gap,
the most that is left to gain.  As both are bounded below, the gap by its rounding, all runs end.
"""

from __future__ import annotations

import math

from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.optimiser.loop import Look


class Stagnation:
    """Compares looks, a window of them at a time.

    Parameters
    ----------
    settings : WorkingSetSettings, optional

    Attributes
    ----------
    found : bool
        Whether some window gained too little.
    """

    def __init__(self, settings: WorkingSetSettings | None = None) -> None:
        self.settings = settings or WorkingSetSettings()
        self.found = False
        self._looks = 0
        self._least_gap = math.inf
        self._gap = self._value = math.inf  # at the start of the window

    def observe(self, look: Look) -> None:
        """Take the next look into account."""
        settings = self.settings
        self._looks += 1
        self._least_gap = min(self._least_gap, look.gap)
        if self._looks % settings.stagnation_window:
            return
        gap, value = self._least_gap, look.value
        self.found = self.found or (
            gap > (1 - settings.stagnation_gap) * self._gap
            and self._value - value < settings.stagnation_value * gap
        )
        self._gap, self._value = gap, value
