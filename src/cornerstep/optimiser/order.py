"""Which block moves next: the order of all methods that visit blocks, drawn here and nowhere else.

A *pass* is as many visits as there are blocks.  Its blocks come

- *permuted*: a fresh permutation;
- *uniform*: drawn with replacement;
- by *gap*: drawn in proportion to the blocks' gaps as last seen, which are read anew ten times a
  pass; a pass in which some may be stale, ten passes after all of them were last read, is permuted.

References
----------
.. [1] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.types import FloatArray, IntArray

ORDERS = ("permuted", "uniform", "gap")
_STALE = 10  # passes after which gaps are read anew by a permuted one
_PORTIONS = 10  # draws of a pass by gap


class Order:
    """The order of visits to ``n_blocks`` blocks, handed out in arrays.

    Parameters
    ----------
    kind : {'permuted', 'uniform', 'gap'}
    n_blocks : int
    rng : numpy Generator
    gaps : array of n_blocks, optional
        Each block's gap as last seen; who visits a block enters it.  Needed by 'gap' only.

    Attributes
    ----------
    visits : int
        Blocks handed out so far.

    Examples
    --------
    >>> import numpy as np
    >>> from cornerstep.optimiser.order import Order
    >>> order = Order("permuted", 5, np.random.default_rng(0))
    >>> order.take(3), order.take(5)
    (array([2, 4, 3]), array([0, 1]))
    """

    def __init__(
        self, kind: str, n_blocks: int, rng: np.random.Generator, gaps: FloatArray | None = None
    ) -> None:
        if kind not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {kind!r}")
        self.kind = kind
        self.n_blocks = n_blocks
        self.rng = rng
        self.visits = 0
        self._gaps = np.full(n_blocks, np.inf) if gaps is None else gaps
        self._age = _STALE  # passes since all gaps were read
        self._queue: IntArray | None = None  # the whole pass, if it is a permutation
        sizes = [part.size for part in np.array_split(self._gaps, min(_PORTIONS, n_blocks))]
        self._ends = np.cumsum(sizes)

    @property
    def passes(self) -> int:
        """Whole passes handed out so far."""
        return self.visits // self.n_blocks

    def take(self, count: int) -> IntArray:
        """The next blocks: ``count``, or fewer where the pass ends or gaps are to be read anew."""
        place = self.visits % self.n_blocks
        if place == 0:
            self._begin_pass()
        count = min(count, self.n_blocks - place)
        if self._queue is not None:
            chosen = self._queue[place : place + count]
        elif self.kind == "uniform":
            chosen = self.rng.integers(self.n_blocks, size=count)
        else:
            end = int(self._ends[np.searchsorted(self._ends, place, side="right")])
            chosen = self.rng.choice(self.n_blocks, size=min(count, end - place), p=self._shares())
        self.visits += chosen.size
        return chosen

    def permutation(self, among: IntArray | None = None) -> IntArray:
        """A fresh permutation of all blocks, or of some; not a part of any pass."""
        return self.rng.permutation(self.n_blocks if among is None else among)

    def seed(self) -> int:
        """Where a compiled sweep begins that permutes its blocks as it goes."""
        return int(self.rng.integers(2**62))

    def gaps_refreshed(self) -> None:
        """All gaps have just been read."""
        self._age = 0

    def _begin_pass(self) -> None:
        permuted = self.kind == "permuted" or (self.kind == "gap" and self._age >= _STALE)
        self._queue = self.permutation() if permuted else None
        self._age = 1 if permuted else self._age + 1

    def _shares(self) -> FloatArray:
        gaps = np.maximum(self._gaps, 0.0)
        total = gaps.sum()
        if 0 < total < np.inf:
            return gaps / total
        return np.full(self.n_blocks, 1.0 / self.n_blocks)
