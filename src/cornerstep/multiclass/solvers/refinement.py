"""When products with rounded data stop being good enough."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RefinementSettings:
    """When products become more exact."""

    progress: float
    """If the gap has not fallen by this share in ``patience`` passes."""

    patience: int
    """Passes."""

    rounded_share: float = 0.2
    """If rounded images leave this share of the gap without a proof."""


class Refinement:
    """Watches the gap of a method whose products are rounded.

    Parameters
    ----------
    settings : RefinementSettings
    """

    def __init__(self, settings: RefinementSettings) -> None:
        self.settings = settings
        self._least, self._passes = math.inf, 0

    def is_due(self, gap: float, sizes: tuple[float, float]) -> bool:
        """Whether the products are to become more exact, asked after each pass.

        Parameters
        ----------
        gap : float
        sizes : tuple of float
            ``|W|²`` of the point that proves the bound, and the most that W is off by.
        """
        square, error = sizes
        if error * (math.sqrt(square) + 0.5 * error) > self.settings.rounded_share * gap:
            return True
        if gap < (1.0 - self.settings.progress) * self._least:
            self._least, self._passes = gap, 0
        self._passes += 1
        return self._passes > self.settings.patience
