"""Columns of a kernel matrix: computed in batches by matrix products, kept while there is room.

:class:`KernelColumns` is all that solvers see of a kernel.  It counts every entry that is evaluated
in ``evaluations``.  What it computes with are kernels (:mod:`cornerstep.learning.kernel_blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cornerstep.core.clock import is_over, work_seconds
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.kernel_blocks import Block, Kernel
from cornerstep.learning.kernel_low_rank import FactoredKernel

_BATCH_BYTES = 2**25  # columns computed at a time


class KernelColumns:
    """The columns of a kernel matrix, the most recently used of them kept.

    Parameters
    ----------
    kernel : Kernel
    limit : int
        Bytes that kept columns may take; with less than a column's worth none is kept.
    matrix : array of shape (n, n), optional
        The kernel matrix where it is known: all columns are kept.
    dtype : float64 or float32
        Of kept columns; what is computed and not kept is in float64.

    Attributes
    ----------
    evaluations : int
        Entries of the kernel matrix computed so far, by whatever method.
    computed_columns, seconds : int, float
        Whole columns computed so far, and how long that took.
    room, kept : int
        How many columns may be kept, and how many slots have been filled.
    store : array of shape (room, n)
        The kept columns, as rows.
    slots : array of shape (n,)
        Where the column of each example is kept, -1 if it is not.
    places : array of shape (n,)
        Which entries of a kept column are those of each example.
    """

    def __init__(
        self, kernel: Kernel, limit: int, matrix: FloatArray | None = None, dtype: Any = np.float64
    ) -> None:
        self.kernel = kernel
        self.n = kernel.n
        self.limit = int(limit)
        self.evaluations = self.computed_columns = 0
        self.seconds = 0.0
        entry = np.dtype(dtype).itemsize
        self.room = min(self.limit // (entry * self.n), self.n) if matrix is None else self.n
        self.store: Block = np.empty((self.room, self.n), dtype) if matrix is None else matrix
        self.kept = 0 if matrix is None else self.n
        self.slots, self.places = np.full(self.n, -1), np.arange(self.n)
        self._owners = np.full(self.room, -1)  # whose column a slot keeps
        self.slots[: self.kept] = self._owners[: self.kept] = np.arange(self.kept)
        self._stamps = np.zeros(self.room, dtype=np.int64)  # when it was last used
        self._clock = 0

    def are_cheap(self, most: int) -> bool:
        """Whether all of at most ``most`` columns can be kept, and none waits for a function."""
        return self.n <= most and self.room == self.n and not self.kernel.is_foreign

    def take(self, examples: IntArray) -> KernelColumns:
        """Columns of the kernel matrix of some of the examples, kept where all are."""
        matrix = self.store[np.ix_(examples, examples)] if self.is_whole else None
        kernel = self.kernel.take(examples)
        return KernelColumns(kernel, self.limit, matrix, self.store.dtype)

    @property
    def is_whole(self) -> bool:
        """Whether all columns are kept, in order."""
        return self.kept == self.n and bool((self.slots == np.arange(self.n)).all())

    def _evaluate(self, rows: IntArray, columns: IntArray | None = None) -> Block:
        self.evaluations += rows.size * (self.n if columns is None else columns.size)
        return self.kernel.block(rows, columns)

    def entries(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """``K[rows, columns]``."""
        if self.is_whole:
            return np.asarray(self.store[np.ix_(rows, columns)])
        return self._evaluate(rows, columns)

    def submatrix(self, examples: IntArray) -> FloatArray:
        """``K[examples, examples]``; entries of kept columns are not computed again."""
        from cornerstep.learning.compiled.columns import gather

        slots = self.slots[examples]
        out = np.empty((examples.size, examples.size))
        gather(self.store, slots, self.places[examples], out)
        new = (slots < 0).nonzero()[0]
        if new.size:
            fresh = self._evaluate(examples[new], examples[new])
            out[new] = out[:, new].T
            out[new[:, None], new] = fresh
        return out

    def add_product(self, examples: IntArray, values: FloatArray, out: FloatArray) -> None:
        """``out += K[:, examples] values``; new columns are kept, as far as there is room."""
        from cornerstep.learning.compiled.columns import accumulate

        for store, slots, some in self._read(examples, values):
            accumulate(store, slots, some, out)

    def _read(
        self, examples: IntArray, values: FloatArray
    ) -> Iterator[tuple[Block, IntArray, Block]]:
        """The columns in parts: rows of a store, which of them, and their values.

        New ones are kept if there is room for all: else the last would drive out the first.
        """
        self._clock += 1
        slots = self.slots[examples]
        kept, new = (slots >= 0).nonzero()[0], (slots < 0).nonzero()[0]
        self._stamps[slots[kept]] = self._clock
        yield self.store, slots[kept], values[kept]
        new, weights = examples[new], values[new]
        for batch in self.batches(new.size):
            block = self.computed(new[batch])
            yield block, np.arange(block.shape[0]), weights[batch]
            if new.size <= self.room:
                self._keep(new[batch], block)

    def fetch(self, examples: IntArray) -> None:
        """Keep these columns, which will be used soon, if there is room for all of them."""
        new = examples[self.slots[examples] < 0]
        if self.kept + new.size > self.room:
            return
        for batch in self.batches(new.size):
            self._keep(new[batch], self.computed(new[batch]))

    def hold(self, examples: IntArray) -> None:
        """Keep these columns, or as many as there is room and time for; others leave for them."""
        self._clock += 1
        slots = self.slots[examples]
        self._stamps[slots[slots >= 0]] = self._clock
        new = examples[slots < 0]
        if new.size > self.room - self.kept:
            new = new[: self.room - int((self._stamps[: self.kept] == self._clock).sum())]
        for batch in self.batches(new.size):
            if is_over():
                break
            self._keep(new[batch], self.computed(new[batch]))

    def computed(self, examples: IntArray) -> Block:
        """Whole columns; what kept columns know of them by symmetry is not computed again.

        Where that is little all is computed: to pick out the rest would cost more.
        """
        begun = work_seconds()
        out = self._whole(examples)
        self.seconds += work_seconds() - begun
        self.computed_columns += examples.size
        return out

    def _whole(self, examples: IntArray) -> Block:
        kept = np.flatnonzero(self.slots >= 0)
        if not self.kernel.entries_are_costly or examples.size * kept.size < self.n:
            return self._evaluate(examples)
        rest = np.flatnonzero(self.slots < 0)
        out = np.empty((examples.size, self.n))
        out[:, rest] = self._evaluate(examples, rest)
        out[:, kept] = self.store[np.ix_(self.slots[kept], examples)].T
        return out

    def batches(self, count: int) -> Iterator[slice]:
        """So many columns in parts that are computed at a time."""
        step = max(1, _BATCH_BYTES // (8 * self.n))
        if self.kernel.entries_are_costly:
            step = min(step, max(64, self.n // 16))  # more of the later ones is known by symmetry
        return (slice(start, min(start + step, count)) for start in range(0, count, step))

    def _keep(self, examples: IntArray, block: Block) -> None:
        """Put columns into free slots and those unused the longest, but not in this call."""
        if self.kept + examples.size <= self.room:
            old = np.arange(self.kept, self.kept + examples.size)
            self.store[self.kept : self.kept + examples.size] = block
            self.kept += examples.size
        else:
            self.kept = self.room
            old = np.flatnonzero(self._stamps < self._clock)
            if old.size > examples.size:
                old = old[np.argpartition(self._stamps[old], examples.size)[: examples.size]]
            evicted = self._owners[old]
            self.slots[evicted[evicted >= 0]] = -1
            self.store[old] = block[: old.size]
        chosen = examples[: old.size]
        self._owners[old], self.slots[chosen], self._stamps[old] = chosen, old, self._clock

    def exact_product(self, examples: IntArray, values: FloatArray) -> FloatArray:
        """``K[:, examples] values``, summed exactly but for a last rounding.

        What is off is due to entries and products.
        """
        from cornerstep.learning.compiled.columns import accumulate_exactly

        out, lost = np.zeros(self.n), np.zeros(self.n)
        for store, slots, some in self._read(examples, values):
            accumulate_exactly(store, slots, some, out, lost)
        return out + lost


class FactoredColumns(KernelColumns):
    """Columns of ``F F'``: whole ones are never computed, as products with it are cheap.

    Parameters
    ----------
    kernel : FactoredKernel
    """

    def __init__(self, kernel: FactoredKernel) -> None:
        super().__init__(kernel, 0)
        self.factor = kernel.factor
        self.slots[:] = 0  # none has to be computed

    def submatrix(self, examples: IntArray) -> FloatArray:
        return self.kernel.block(examples, examples)

    def add_product(self, examples: IntArray, values: FloatArray, out: FloatArray) -> None:
        out += self.exact_product(examples, values)

    def exact_product(self, examples: IntArray, values: FloatArray) -> FloatArray:
        """Of the factors, with the rounding of matrix products."""
        return np.asarray(self.factor @ (values @ self.factor[examples]))
