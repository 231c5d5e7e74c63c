"""The numbers of the methods on partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpreadSettings:
    """When a partition ends its sweeps, and block rounds give way to the corrective method.

    The unit of cost is a round: one pass over the rows and one exchange of weights.  Measured are
    rounds, in the mean of 11 to 20 problems of
    :class:`~cornerstep.multiclass.solvers.block_settings.BlockSettings` in 4 partitions.
    """

    most_sweeps: int = 10
    """Sweeps of a round; 1 in the first, twice that in the second, and so on up to here.  Measured:
    1 takes 7 % more rounds, half 2 %, twice 3 %."""

    least_gain: float = 0.05
    """A sweep that gains less than this share of the first ends the round.  Measured: 0 takes 1 %
    more rounds and 43 % more sweeps; twice the same rounds, 11 % fewer sweeps."""

    window: int = 6
    """Rounds that the pace is taken from, and before it is judged.  Measured: to wait for 12, the
    same rounds and more than half as many sweeps again; for 24, 8 % more rounds."""

    patience: int = 60
    """Block rounds to go, at that pace, before the corrective method takes over.  Measured: without
    it 41 % more rounds, and several problems unsolved; half 4 % more, twice the same."""
