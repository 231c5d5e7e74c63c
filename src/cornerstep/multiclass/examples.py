"""Where dense, sparse, joint and kernel examples meet, for problems with a score per class.

The *image* of dual coefficients A (one row per example, one column per class) is what a solver
keeps instead of A: the weights ``W = X'A``, with a kernel the scores ``K A``, and with joint
features ``w = sum_ij A_ij psi(x_i, j)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.clock import is_over
from cornerstep.core.threads import matmul
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.digests import of_rows
from cornerstep.learning.kernel_blocks import InnerProductKernel, PrecomputedKernel, product_errors
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.multiclass.compiled.sweeps import CSR, DENSE, GRAM
from cornerstep.multiclass.rounding import entry_sizes

_DENSE = 8  # products with a sparse factor pay if it has this many times fewer entries
_LARGE = 2**20  # entries; fewer fit into caches
_ROWS = 4096  # rows converted to float64 at a time
_LEAST_ROWS = 128  # of a part of an image, so that the parts are worth a call
_CACHED = 2**16  # entries that stay in a cache
_RUNS = 16  # of a sweep over examples whose rows are not all kept: fewer are less random
_AT_ONCE = 3000  # examples whose kernel matrix is computed as a whole: it takes half a second
_NO_POINTERS = np.empty(0, dtype=np.int32)


class Examples:
    """Rows x_i, dense or CSR, in float32 or float64.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    sweeps : bool, default=False
        Sweeps and scans read a copy of X if need be: float32 where X is large, so that they read
        half as much, and float64 where it is small, so that one compilation serves all that is.
        What is called exact, and with it every certificate, still comes from X.
    reorder : bool, default=True
        Let the image of a sparse X have its most frequent columns first.
    """

    kernel = False
    default_solver = "block"
    terms = 1  # rows of the data that an example has
    is_whole = True  # whether all examples are in memory

    def __init__(self, X: Any, *, sweeps: bool = False, reorder: bool = True) -> None:
        self.sparse = sp.issparse(X)
        if self.sparse:
            X = _canonical(X)
        self.columns = np.arange(X.shape[1])  # the number of each column in X
        if self.sparse:
            self.data: Any = self._by_frequency(X) if reorder else X
        else:
            self.data = np.ascontiguousarray(X)
        self.n, self.size = self.data.shape
        self.quick: Any = self._for_sweeps() if sweeps else self.data

    def part(self, kept: Any) -> Examples:
        """Some of the examples, whose columns are in the same order."""
        out = Examples(self.data[kept], sweeps=True, reorder=False)
        out.columns = self.columns
        return out

    def _by_frequency(self, X: Any) -> Any:
        """X with its most frequent columns first: their weights then share pages and caches.

        Rows are read from the frequent to the rare; two transpositions sort them.
        """
        counts = np.bincount(X.indices, minlength=X.shape[1])
        self.columns = np.argsort(-counts, kind="stable")
        place = np.empty(X.shape[1], dtype=X.indices.dtype)
        place[self.columns] = np.arange(X.shape[1])
        return sp.csr_array((X.data, place[X.indices], X.indptr), shape=X.shape).tocsc().tocsr()

    def _for_sweeps(self) -> Any:
        """The data in the precision of sweeps; a sparse matrix shares its pattern."""
        data = self.data
        entries = data.nnz if self.sparse else data.size
        kind = np.float32 if entries > _LARGE else np.float64
        if not self.sparse or data.dtype == kind:
            return data.astype(kind, copy=False)
        pattern = data.indices, data.indptr
        return sp.csr_array((data.data.astype(kind), *pattern), shape=data.shape)

    @property
    def dtype(self) -> Any:
        """Of the data as it is given."""
        return self.data.dtype

    def digest(self, labels: IntArray, scales: FloatArray, first: int) -> int:
        """What tells these examples, labels and weights from others."""
        labels, scales = np.repeat(labels, self.terms), np.repeat(scales, self.terms)
        return of_rows(self.data, self.columns, labels, scales, first * self.terms)

    def hold(self, examples: IntArray) -> None:
        """All rows are there already."""

    def closing_seconds(self, examples: IntArray) -> float:
        """How long the image of coefficients of these examples takes, where that is long."""
        return 0.0

    def held(self, examples: IntArray) -> IntArray:
        """The examples whose rows are there: all."""
        return examples

    def runs(self, examples: IntArray, seed: int) -> Iterator[tuple[slice, tuple[Any, ...]]]:
        """Runs of the examples and their rows: one run."""
        yield slice(0, examples.size), self.rows

    @property
    def is_single(self) -> bool:
        """Whether sweeps and scans read a rounded copy."""
        return bool(self.quick.dtype.itemsize < self.data.dtype.itemsize)

    def use_double(self) -> None:
        """Give up the float32 copy."""
        self.quick = self.data
        self.__dict__.pop("rows", None)

    @cached_property
    def rows(self) -> tuple[Any, ...]:
        """The examples as the compiled sweeps take them: they are compiled for writable arrays."""
        X = self.quick
        if not self.sparse:
            dense = np.require(X, requirements="W")
            return DENSE, dense, _NO_POINTERS, _NO_POINTERS, np.empty(0, dtype=X.dtype)
        parts = (np.require(part, requirements="W") for part in (X.indptr, X.indices, X.data))
        return CSR, np.empty((0, 0), dtype=X.dtype), *parts

    @cached_property
    def norms(self) -> FloatArray:
        """``|x_i|²``."""
        if self.sparse:
            squares = np.square(self.data.data, dtype=np.float64)
            pattern = self.data.indices, self.data.indptr
            norms = sp.csr_array((squares, *pattern), shape=self.data.shape) @ np.ones(self.size)
        else:
            norms = np.einsum("ij,ij->i", self.data, self.data, dtype=np.float64)
        if not np.isfinite(norms).all():
            raise ValueError("X must have rows whose squares sum to less than 1.8e308: scale X")
        return norms

    @property
    def summed(self) -> int:
        """Roundings of an entry of an image."""
        return 2 * max(_LEAST_ROWS, math.isqrt(self.n))

    @cached_property
    def longest(self) -> int:
        """Entries of the longest row."""
        return int(np.diff(self.data.indptr).max(initial=0)) if self.sparse else self.size

    def absolute_sums(self, block: slice, weights: FloatArray) -> FloatArray:
        """``sum_i weight_i |x_i|`` over the examples of ``block``."""
        out = np.zeros(self.size)
        step = _ROWS if self.sparse else max(1, _CACHED // self.size)
        for start in range(block.start, block.stop, step):
            some = slice(start, min(start + step, block.stop))
            rows = abs(self.data[some].astype(np.float64, copy=False))
            out += weights[some.start - block.start : some.stop - block.start] @ rows
        return out

    def dense(self, block: slice) -> FloatArray:
        """The examples of ``block`` in float64, not sparse."""
        rows = self.data[block]
        rows = rows.toarray() if self.sparse else rows
        return np.require(rows, np.float64, ["C", "W"])

    def empty_image(self, n_classes: int) -> FloatArray:
        """The image of no coefficients."""
        return np.zeros((self.size, n_classes) if self.sparse else (n_classes, self.size))

    def image(self, coefficients: Any) -> FloatArray:
        """The image of coefficients, a sparse or dense n x m matrix in float64.

        Rows that count are summed up some at a time: about as many as there are such parts, so that
        few roundings follow each other, and not all of X becomes float64 at once.
        """
        out = self.empty_image(coefficients.shape[1])
        used = np.arange(self.n)
        if sp.issparse(coefficients):
            used = np.flatnonzero(np.diff(coefficients.indptr))
        step = self.summed // 2
        for start in range(0, used.size, step):
            some: Any = used[start : start + step]
            if some[-1] - some[0] == some.size - 1:
                some = slice(some[0], some[-1] + 1)  # no copy
            out += self._product(self.data[some].astype(np.float64, copy=False), coefficients[some])
        return out

    def _product(self, rows: Any, coefficients: Any) -> Any:
        """The image of the coefficients of these rows."""
        if not self.sparse:
            return matmul(coefficients.T, rows)
        if sp.issparse(coefficients):
            n, m = coefficients.shape
            if _DENSE * coefficients.nnz > n * m:
                coefficients = coefficients.toarray()
        product = rows.T @ coefficients
        return product.toarray() if sp.issparse(product) else product

    def scores(self, block: slice, image: FloatArray, *, exact: bool = False) -> FloatArray:
        """Scores of the examples of ``block``, one row each: a fresh array.

        In the precision of the data, or with ``exact`` in float64 throughout.
        """
        if exact and not self.sparse:
            rows, out = self.data[block], np.empty((block.stop - block.start, image.shape[0]))
            for start in range(0, len(out), _ROWS):
                some = rows[start : start + _ROWS].astype(np.float64, copy=False)
                out[start : start + _ROWS] = matmul(some, image.T)
            return out
        if exact:
            rows = self.data[block].astype(np.float64, copy=False)
        else:
            rows = self.quick[block]
            image = image.astype(rows.dtype, copy=False)
        return np.asarray(matmul(rows, image if self.sparse else image.T), dtype=np.float64)

    def add_image(self, image: FloatArray, block: slice, coefficients: FloatArray) -> None:
        """Add the image of coefficients of the examples of ``block`` to ``image``."""
        rows = self.data[block]
        coefficients = coefficients.astype(rows.dtype, copy=False)
        image += rows.T @ coefficients if self.sparse else matmul(coefficients.T, rows)

    def moments(self, scales: FloatArray, limit: int) -> FloatArray:
        """``sum_i s_i x_i x_i'``, or its diagonal if X is sparse or has more features."""
        if self.sparse:
            pattern = self.data.indices, self.data.indptr
            squares = np.square(self.data.data, dtype=np.float64)
            return sp.csr_array((squares, *pattern), shape=self.data.shape).T @ scales
        total: Any = 0.0
        for start in range(0, self.data.shape[0], _ROWS):
            some, weights = self.data[start : start + _ROWS], scales[start : start + _ROWS]
            scaled = some * weights.astype(some.dtype)[:, None]
            full = self.size <= limit
            part = matmul(scaled.T, some) if full else np.einsum("ij,ij->j", scaled, some)
            total = total + part
        return np.asarray(total, dtype=np.float64)

    def scores_of(self, weights: Any, expansion: Any, chosen: Any) -> FloatArray:
        """Scores of the other examples by the weights of a machine of the chosen ones."""
        return np.asarray(self.data[~chosen] @ weights[:, self.columns].T)

    def weights(self, image: FloatArray) -> FloatArray | None:
        """W with a row per class."""
        if not self.sparse:
            return image
        out = np.empty(image.shape[::-1])
        out[:, self.columns] = image.T
        return out


def holds(dtype: Any, constant: float) -> bool:
    """Whether numbers of a type can be the constant without rounding."""
    return float(np.dtype(dtype).type(constant)) == constant


def with_constant(X: Any, constant: float) -> Any:
    """X with one more column, of a constant; in float64 if numbers of X's type cannot be it."""
    kind = X.dtype if holds(X.dtype, constant) else np.float64
    column = np.full((X.shape[0], 1), constant, dtype=kind)
    return sp.hstack([X, column], "csr") if sp.issparse(X) else np.hstack([X, column])


def _canonical(X: Any) -> Any:
    """X as a CSR array without repeated entries: ``|x_i|²`` needs them summed."""
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


class JointExamples(Examples):
    """Rows ``psi(x_i, j)`` for each example and class, and one vector of weights w.

    Parameters
    ----------
    psi : array or CSR matrix of shape (n m, D)
        In float64, by example, then class.
    n_classes : int
        m.
    """

    default_solver = "envelope"

    def __init__(self, psi: Any, n_classes: int) -> None:
        super().__init__(psi)
        self.n, self.terms = self.n // n_classes, n_classes

    def _rows_of(self, block: slice) -> slice:
        return slice(block.start * self.terms, block.stop * self.terms)

    def absolute_sums(self, block: slice, weights: FloatArray) -> FloatArray:
        """``sum_i weight_i sum_j |psi(x_i, j)|`` over the examples of ``block``."""
        return super().absolute_sums(self._rows_of(block), np.repeat(weights, self.terms))

    def empty_image(self, n_classes: int) -> FloatArray:
        """The image of no coefficients: one vector, of any number of classes but 0."""
        return super().empty_image(min(n_classes, 1))

    def scores(self, block: slice, image: FloatArray, *, exact: bool = False) -> FloatArray:
        """Scores of the examples of ``block``, one row each: a fresh array."""
        return super().scores(self._rows_of(block), image).reshape(-1, self.terms)

    def add_image(self, image: FloatArray, block: slice, coefficients: FloatArray) -> None:
        """Add the image of coefficients of the examples of ``block`` to ``image``."""
        super().add_image(image, self._rows_of(block), coefficients.reshape(-1, 1))

    def moments(self, scales: FloatArray, limit: int) -> FloatArray:
        """``sum_ij s_i psi(x_i, j) psi(x_i, j)'``, or its diagonal if there are many features."""
        return super().moments(np.repeat(scales, self.terms), limit)


class KernelExamples:
    """Examples known by their kernel matrix, of which a part is kept.

    Small matrices are computed at once, and so are those that are given.  Of others the rows of
    examples with dual weight are kept, as far as there is room (:meth:`hold`); the rest is computed
    each time it is needed.

    Parameters
    ----------
    kept : KernelColumns
        Of a symmetric, positive semidefinite matrix.
    at_once : int, default=3000
        Up to so many examples the whole matrix is computed at once, if it may be kept.
    """

    kernel = True
    default_solver = "block"
    terms = 1
    sparse = False
    dtype = np.dtype(np.float64)

    def __init__(self, kept: KernelColumns, at_once: int = _AT_ONCE) -> None:
        self.n = self.size = kept.n
        self._at_once = at_once
        if not kept.is_whole and kept.are_cheap(at_once):
            everything = np.arange(self.n)
            kept = KernelColumns(kept.kernel, kept.limit, kept.kernel.block(everything, None))
        self.kept, self.is_whole = kept, kept.is_whole
        self.columns = np.arange(self.n)

    @classmethod
    def of_matrix(cls, K: FloatArray) -> KernelExamples:
        """Examples whose kernel matrix is given."""
        K = np.ascontiguousarray(K, dtype=np.float64)
        return cls(KernelColumns(PrecomputedKernel(K), 0, K))

    def part(self, kept: Any) -> KernelExamples:
        """Some of the examples."""
        return KernelExamples(self.kept.take(self.columns[kept]), self._at_once)

    @property
    def rows(self) -> tuple[Any, ...]:
        """The examples whose rows are kept, as the compiled sweeps take them."""
        return self._all_rows if self.is_whole else self._as_rows(self.kept.store, self.kept.slots)

    @cached_property
    def _all_rows(self) -> tuple[Any, ...]:
        return self._as_rows(self.kept.store, self.kept.slots)

    def _as_rows(self, store: Any, slots: IntArray) -> tuple[Any, ...]:
        return GRAM, store, slots.astype(np.int32), _NO_POINTERS, np.empty(0, store.dtype)

    def rows_among(self, examples: IntArray) -> tuple[Any, ...]:
        """Their entries with each other, as the sweeps take them; their rows are kept."""
        from cornerstep.learning.compiled.columns import gather

        among = np.empty((examples.size, examples.size), self.kept.store.dtype)
        gather(self.kept.store, self.kept.slots[examples], examples, among)
        return self._as_rows(among, np.arange(examples.size))

    @property
    def is_single(self) -> bool:
        """Whether the rows that are kept are rounded, and with them what sweeps read."""
        return bool(self.kept.store.dtype == np.float32)

    def use_double(self) -> None:
        """Give up the rows in float32."""
        self.kept = KernelColumns(self.kept.kernel, self.kept.limit)

    def hold(self, examples: IntArray) -> None:
        """Keep the rows of these examples, or as many of them as there is room and time for."""
        if not self.is_whole:
            self.kept.hold(examples)

    def closing_seconds(self, examples: IntArray) -> float:
        """How long the image of coefficients of these examples takes: rows to be computed again."""
        new = examples.size if self.is_single else examples.size - self.held(examples).size
        return new * self.kept.seconds / max(self.kept.computed_columns, 1)

    def held(self, examples: IntArray) -> IntArray:
        """Those whose rows are kept."""
        return examples[self.kept.slots[examples] >= 0]

    def runs(self, examples: IntArray, seed: int) -> Iterator[tuple[slice, tuple[Any, ...]]]:
        """Order the examples in place so that each run of them has its rows in memory.

        Those whose rows are kept and the others take turns: sweeps in an order that is always the
        same in part take 20 times as many.

        Yields a run and its rows; no more of them when the solver is to end.
        """
        missing = self.kept.slots[examples] < 0
        if self.is_whole or not missing.any():
            yield slice(0, examples.size), self.rows
            return
        rng = np.random.default_rng(seed)
        kept, new = rng.permutation(examples[~missing]), rng.permutation(examples[missing])
        count = max(_RUNS, len(list(self.kept.batches(new.size))))
        both = zip(np.array_split(kept, count), np.array_split(new, count), strict=True)
        turns = [some for pair in both for some in pair]
        examples[:] = np.concatenate(turns)
        stop = 0
        for k, some in enumerate(turns):
            start, stop = stop, stop + some.size
            if is_over():
                return
            yield slice(start, stop), self._computed(some) if k % 2 else self.rows

    def _computed(self, examples: IntArray) -> tuple[Any, ...]:
        """These examples as the sweeps take them, their rows computed."""
        slots = np.full(self.n, -1)
        slots[examples] = np.arange(examples.size)
        rows = self.kept.computed(examples).astype(self.kept.store.dtype, copy=False)
        return self._as_rows(rows, slots)

    @cached_property
    def norms(self) -> FloatArray:
        """``k(x_i, x_i)``."""
        if self.is_whole:
            return self.kept.store.diagonal().copy()
        return np.asarray(self.kept.kernel.sizes**2)

    @property
    def longest(self) -> int:
        """Entries of a row."""
        return self.n

    summed = longest  # roundings of an entry of an image

    def digest(self, labels: IntArray, scales: FloatArray, first: int) -> int:
        """What tells these examples, labels and weights from others."""
        if self.is_whole or not isinstance(self.kept.kernel, InnerProductKernel):
            return of_rows(self.kept.store, self.columns, labels, scales, first)
        rows, numbers = self.kept.kernel.digest()
        whole = of_rows(rows, np.arange(rows.shape[1]), labels, scales, first)
        return (whole + int(numbers, 16)) % 2**64

    def absolute_sums(self, block: slice, weights: FloatArray) -> FloatArray:
        """``sum_i weight_i |k(x_i, x_l)|`` over the examples of ``block``, or a bound of it.

        Entries whose own rounding is more than that of a sum of products count as larger.
        """
        amounts, kernel = np.zeros(self.n), self.kept.kernel
        amounts[block] = weights
        errors = entry_sizes(product_errors(kernel, amounts))
        if self.is_whole:
            return weights @ np.abs(self.kept.store[block]) + errors
        return float(weights @ kernel.sizes[block]) * kernel.sizes + errors

    def empty_image(self, n_classes: int) -> FloatArray:
        """The image of no coefficients."""
        return np.zeros((n_classes, self.n))

    def image(self, coefficients: Any) -> FloatArray:
        """``(K A)'``, a row per class, of entries in float64."""
        if self.is_whole:
            return np.ascontiguousarray(matmul(coefficients.T, self.kept.store))
        coefficients = sp.csr_array(coefficients)
        kept, n_classes = self.kept, coefficients.shape[1]
        used = np.flatnonzero(np.diff(coefficients.indptr))
        slots = np.full(used.size, -1) if self.is_single else kept.slots[used]
        there, new = slots >= 0, used[slots < 0]
        out = np.zeros((n_classes, self.n))
        if there.any():
            places = slots[there], np.arange(int(there.sum()))
            spread = sp.csr_array((np.ones(places[1].size), places), (kept.kept, places[1].size))
            of_slots = spread @ coefficients[used[there]]
            if _DENSE * of_slots.nnz > kept.kept * n_classes:
                of_slots = of_slots.toarray()
            out[:] = matmul(of_slots.T, kept.store[: kept.kept])
        for batch in kept.batches(new.size):
            out += matmul(coefficients[new[batch]].toarray().T, kept.computed(new[batch]))
        return out

    def scores(self, block: slice, image: FloatArray, *, exact: bool = False) -> FloatArray:
        """Scores of the examples of ``block``, one row each: a fresh array."""
        return np.array(image[:, block].T, order="C")  # a single example would be a view

    def add_image(self, image: FloatArray, block: slice, coefficients: FloatArray) -> None:
        """Add the image of coefficients of the examples of ``block`` to ``image``."""
        if self.is_whole:
            image += matmul(coefficients.T, self.kept.store[block])
            return
        places = np.arange(block.start, block.stop), np.arange(len(coefficients))
        spread = sp.csr_array((np.ones(places[1].size), places), (self.n, places[1].size))
        image += self.image(spread @ sp.csr_array(coefficients))

    def weights(self, image: FloatArray) -> FloatArray | None:
        """W with a row per class: unknown."""
        return None

    def scores_of(self, weights: Any, expansion: Any, chosen: Any) -> FloatArray:
        """Scores of the other examples by what is left of a machine of the chosen ones."""
        expansion, own, others = (
            sp.csr_array(expansion),
            self.columns[chosen],
            self.columns[~chosen],
        )
        used = np.flatnonzero(np.diff(expansion.indptr))
        out = np.zeros((others.size, expansion.shape[1]))
        for batch in self.kept.batches(used.size):
            part = self.kept.entries(own[used[batch]], others)
            out += np.asarray((expansion[used[batch]].T @ part).T)
        return out
