"""The numbers of block-coordinate Frank-Wolfe, with what each trades and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockSettings:
    """What :mod:`.block` and its blocks are steered by, besides the estimator's parameters.

    "Measured" is CPU time to a gap of 0.01 on OCR (626 words, lambda = 0.01) and 300 synthetic
    chains (lambda = 1/n), and of 0.001 on OCR with lambda = 0.1, two seeds each.  Of the method and
    the estimator's parameters: corrective passes by plain steps take 2.3 times as long as pairwise
    ones (OCR); ``cache_passes=0`` 2.4 to 4 times as long as 5, 10 up to 40 % longer;
    ``check_every=1`` 19 to 28 % longer; ``cache_size=0`` is about a tenth faster on chains, whose
    decoding is cheap, and makes a tenth more oracle calls on graphs with loops.
    """

    alone: float = 1 - 1e-6
    """Weight of a labeling from which on a block does not step away from it: the largest such step,
    ``weight / (1 - weight)``, would multiply rounding errors by more than a million."""

    room: int = 8
    """Labelings that a block of chains has room for at first; twice as many once all of them have
    weight, so that it also limits what is remembered.  Measured: 1 takes 8 to 11 % longer, 32 is
    within the noise."""

    feature_budget: int = 2**28
    """Bytes of joint features kept beside the labelings of models that are not compiled; beyond it
    they are built when needed.  Measured on 100 examples, 20 passes, with 0: 1.6 times as long for
    tags, twice for matchings, 4.7 times for trees."""

    chunk: int = 64
    """Examples that a worker decodes at a time, however many workers there are: answers do not
    depend on their number.  More: fewer messages; less: workers end together."""


BLOCK = BlockSettings()
