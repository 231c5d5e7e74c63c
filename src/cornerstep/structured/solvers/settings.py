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

    inner: int = 50
    """Steps over stored planes that a visit of a block makes at most, where they cost products of
    planes only."""

    enough: float = 0.05
    """Share of the first slope of a visit at which these end."""

    stiff: float = 0.1
    """Share of the lambda that fits the data, ``|psi|²/(10 L n)``, below which a lambda counts as
    small, and to which steps raise it.  Measured at lambda = 1/n: 0.05 takes up to twice as long
    (yeast, OCR), 0.2 up to 1.7 times (snakes), 0.4 ten times (scene)."""

    stiff_softmax: float = 4.0
    """The same for softmax, of its own such lambda.  Measured in passes to a gap of 1e-3 on four
    sets of chains, at a tenth of that lambda: 0 takes 1.3 times as many as 3 on an eighth of
    CoNLL-2000 and more than 4 times on synthetic chains; 10 takes 1.5 times as many on both, and
    0.6 times on OCR."""

    raised: float = 20.0
    """How many times lambda steps may add to it.  More makes the dual point of the problem itself
    lag behind: of six small problems to a gap of 1e-4, 45 and more leave three unsolved after 1,000
    passes, 5 leaves one, none at all three; 20 solves all."""

    raised_softmax: float = 1000.0
    """The same for softmax.  At a hundredth of the lambda that fits, 300 is needed for three sets
    of four; at 1e-4 of it, 3e4 is too much for CoNLL-2000."""

    chunk: int = 64
    """Examples that a worker decodes at a time, however many workers there are: answers do not
    depend on their number.  More: fewer messages; less: workers end together."""


BLOCK = BlockSettings()
