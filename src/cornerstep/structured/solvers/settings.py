"""The numbers of block-coordinate Frank-Wolfe, with what each trades and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockSettings:
    """What :mod:`.block` and its blocks are steered by, besides the estimator's parameters.

    ABLATION
    """

    alone: float = 1 - 1e-6
    """Weight of a labeling from which on a block does not step away from it: the largest such step,
    ``weight / (1 - weight)``, would multiply rounding errors by more than a million."""

    negligible: float = 1e-14
    """Weight below which a label of a block is taken for rounding, and no part of a direction: a
    few units of the weights' sum of 1."""

    room: int = 8
    """Labelings that a block of chains has room for at first; twice as many whenever one is full.
    ROOM"""

    feature_budget: int = 2**28
    """Bytes of joint features kept beside the labelings of models that are not compiled; beyond it
    they are built when needed.  BUDGET"""

    chunk: int = 64
    """Examples that a worker decodes at a time, however many workers there are: answers do not
    depend on their number.  More: fewer messages; less: workers end together."""


BLOCK = BlockSettings()
