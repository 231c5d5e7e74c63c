"""The numbers of the methods on partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpreadSettings:
    """When a partition ends its sweeps, and block rounds give way to another method.

    The unit of cost is a round: one pass over the rows and one exchange of weights.
    """

    most_sweeps: int = 10
    """Sweeps of a round; 1 in the first, twice that in the second, and so on up to here."""

    least_gain: float = 0.05
    """A sweep that gains less than this share of the first ends the round."""

    least_rounds: int = 12
    """Block rounds before their pace is judged."""

    window: int = 6
    """Rounds that the pace is taken from."""

    patience: int = 60
    """Block rounds to go, at that pace, before another method takes over."""
