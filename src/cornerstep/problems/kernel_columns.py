"""Columns of a kernel matrix: computed in batches by matrix products, kept while there is room.

:class:`KernelColumns` is all that solvers see of a kernel.  It counts every entry that is evaluated
in ``evaluations``.  What it computes with are kernels: ``block(rows, columns)`` is the part
``k(x_i, x_j)`` of the kernel matrix with i in rows, j in columns (all, if None).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cornerstep.problems.blas_threads import blas_threads
from cornerstep.vectors import FloatArray, IntArray

Block: TypeAlias = npt.NDArray[Any]
Precision: TypeAlias = type[np.float32] | type[np.float64]

_ROWS = 128  # of a block at a time: fewer waste what the product prepares
_SHARED = 2**19  # entries of a block from which on several threads compute it
_BATCH_BYTES = 2**25  # columns computed at a time
_DEAR = 64  # features from which on to compute an entry costs more than to move it
_DENSE_SHARE, _DENSE_BYTES = 0.02, 2**29  # sparse examples this full and small are made dense


class Kernel(Protocol):
    """A symmetric positive semidefinite matrix known by its blocks."""

    n: int
    dear: bool  # whether to compute an entry costs more than to move it

    def block(self, rows: IntArray, columns: IntArray | None, precision: Precision) -> Block:
        """Entries of the matrix, a fresh array."""

    def take(self, examples: IntArray) -> Kernel:
        """The kernel matrix of some of the examples."""


class InnerProductKernel:
    """``k(x, z)`` for kernels made of inner products, each block by one matrix product.

    - 'linear': ``<x, z>``;  'poly': ``(gamma <x, z> + coef0)^degree``;
    - 'sigmoid': ``tanh(gamma <x, z> + coef0)``;  'rbf': ``exp(-gamma |x - z|²)``, whose exponent
      ``<(x, |x|², 1), (2 gamma z, -gamma, -gamma |z|²)>`` is an inner product as well.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    name : {'linear', 'poly', 'rbf', 'sigmoid'}
    gamma, degree, coef0 : float
    """

    def __init__(
        self, X: Any, name: str, gamma: float = 1.0, degree: float = 3, coef0: float = 0.0
    ) -> None:
        self.n = X.shape[0]
        self.name, self.gamma, self.degree, self.coef0 = name, gamma, degree, coef0
        self.dear = X.shape[1] >= _DEAR
        self.threads = blas_threads()
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64)
            size = X.shape[0] * X.shape[1]
            if X.nnz >= _DENSE_SHARE * size and 8 * size <= _DENSE_BYTES:
                X = X.toarray()
        else:
            X = np.asarray(X, dtype=np.float64)
        self._factors: dict[Precision, Any] = {np.float64: self._laid_out(self._extended(X))}

    def _extended(self, X: Any) -> Any:
        """Left factors: the rows of X, for 'rbf' with ``|x|²`` and 1 behind them."""
        if self.name != "rbf":
            return X
        ones = np.ones((self.n, 1))
        if sp.issparse(X):
            return sp.hstack([X, X.multiply(X).sum(axis=1).reshape(-1, 1), ones], "csr")
        X = X - X.mean(axis=0)  # distances stay, norms shrink, and with them rounding errors
        return np.hstack([X, np.einsum("ij,ij->i", X, X)[:, None], ones])

    def _laid_out(self, left: Any) -> Any:
        """Features one after the other where they are few: products of few rows are quicker."""
        return left if self.dear or sp.issparse(left) else np.asfortranarray(left)

    def take(self, examples: IntArray) -> InnerProductKernel:
        some = copy(self)
        some.n = examples.size
        some._factors = {np.float64: self._laid_out(self._factors[np.float64][examples])}
        return some

    def _factor(self, precision: Precision) -> Any:
        if precision not in self._factors:
            self._factors[precision] = self._factors[np.float64].astype(precision)
        return self._factors[precision]

    def _right(self, left: Any) -> Block:
        """Right factors of some examples, dense, from their left ones."""
        left = left.toarray() if sp.issparse(left) else left
        if self.name == "linear":
            return left
        if self.name != "rbf":
            return self.gamma * left
        right = 2 * self.gamma * left
        right[:, -2] = -self.gamma
        right[:, -1] = -self.gamma * left[:, -2]
        return right

    def block(self, rows: IntArray, columns: IntArray | None, precision: Precision) -> Block:
        left = self._factor(precision)
        others = left if columns is None else left[columns]
        out = np.empty((rows.size, others.shape[0]), dtype=precision)

        threads = self.threads if out.size >= _SHARED else 1
        step = min(_ROWS, max(-(-rows.size // threads), 1))

        def fill(start: int) -> None:
            some, part = self._right(left[rows[start : start + step]]), out[start : start + step]
            if sp.issparse(others):
                part[:] = (others @ some.T).T
            else:
                np.matmul(some, others.T, out=part)
            self._transform(part)

        starts = range(0, rows.size, step)
        if threads > 1 and len(starts) > 1:
            with ThreadPoolExecutor(threads) as pool:
                deque(pool.map(fill, starts), maxlen=0)
        else:
            for start in starts:
                fill(start)
        return out

    def _transform(self, products: Block) -> None:
        """Kernel values from inner products, in place."""
        if self.name == "rbf":
            np.minimum(products, 0, out=products)
            np.exp(products, out=products)
        elif self.name != "linear":
            products += self.coef0
            if self.name == "poly":
                np.power(products, self.degree, out=products)
            else:
                np.tanh(products, out=products)


class PrecomputedKernel:
    """A kernel matrix that is given.

    Parameters
    ----------
    matrix : array of shape (n, n)
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = np.asarray(matrix)
        self.dear = False
        self.n = self.matrix.shape[0]

    def take(self, examples: IntArray) -> PrecomputedKernel:
        return PrecomputedKernel(self.matrix[np.ix_(examples, examples)])

    def block(self, rows: IntArray, columns: IntArray | None, precision: Precision) -> Block:
        part = self.matrix[rows] if columns is None else self.matrix[np.ix_(rows, columns)]
        return part.astype(precision)


class CallableKernel:
    """``function(X, Z)``, the matrix of ``k(x, z)`` over the rows of X and Z.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    function : callable
    """

    def __init__(self, X: Any, function: Callable[[Any, Any], Any]) -> None:
        self.X, self.function = X, function
        self.dear = True
        self.n = X.shape[0]

    def take(self, examples: IntArray) -> CallableKernel:
        return CallableKernel(self.X[examples], self.function)

    def block(self, rows: IntArray, columns: IntArray | None, precision: Precision) -> Block:
        others = self.X if columns is None else self.X[columns]
        out = np.asarray(self.function(self.X[rows], others), dtype=precision)
        if out.shape != (rows.size, others.shape[0]):
            raise ValueError(
                "kernel must return an array of shape (rows of X, rows of Z), here "
                f"{(rows.size, others.shape[0])}, got {out.shape}"
            )
        if not np.isfinite(out).all():
            raise ValueError("kernel must return finite numbers, got NaN or infinity")
        return out


class KernelColumns:
    """The columns of a kernel matrix, the most recently used of them kept.

    Parameters
    ----------
    kernel : Kernel
    limit : int
        Bytes that kept columns may take; with less than a column's worth none is kept.
    precision : float32 or float64
        Of what is kept.  :meth:`exact_product` is in float64 always.

    Attributes
    ----------
    evaluations : int
        Entries of the kernel matrix computed so far, by whatever method.
    room, kept : int
        How many columns may be kept, and how many slots have been filled.
    slots : array of shape (n,)
        Where the column of each example is kept, -1 if it is not.
    """

    def __init__(self, kernel: Kernel, limit: int, precision: Precision = np.float64) -> None:
        self.kernel = kernel
        self.n = kernel.n
        self.limit = int(limit)
        self.evaluations = 0
        self._start(precision)

    def _start(self, precision: Precision) -> None:
        self.precision = precision
        column = self.n * np.dtype(precision).itemsize
        self.room = min(self.limit // column, self.n)
        self._store = np.empty((self.room, self.n), dtype=precision)
        self.slots = np.full(self.n, -1)
        self._owners = np.full(self.room, -1)  # whose column a slot keeps
        self._stamps = np.zeros(self.room, dtype=np.int64)  # when it was last used
        self._clock = 0
        self.kept = 0

    def use_single(self) -> None:
        """Keep float32 columns from now on, twice as many."""
        self._start(np.float32)

    def use_double(self) -> None:
        """Keep float64 columns from now on."""
        self._start(np.float64)

    def take(self, examples: IntArray) -> KernelColumns:
        """Float64 columns of the kernel matrix of some of the examples, none of them kept yet."""
        return KernelColumns(self.kernel.take(examples), self.limit)

    def _evaluate(self, rows: IntArray, columns: IntArray | None, precision: Precision) -> Block:
        self.evaluations += rows.size * (self.n if columns is None else columns.size)
        return self.kernel.block(rows, columns, precision)

    def submatrix(self, examples: IntArray) -> FloatArray:
        """``K[examples, examples]`` in float64; entries of kept columns are not computed again."""
        from cornerstep.kernels.reduced_hull import gather

        slots = self.slots[examples]
        out = np.empty((examples.size, examples.size))
        gather(self._store, slots, examples, out)
        new = (slots < 0).nonzero()[0]
        if new.size:
            fresh = self._evaluate(examples[new], examples[new], self.precision)
            out[new] = out[:, new].T
            out[new[:, None], new] = fresh
        return out

    def add_product(self, examples: IntArray, values: FloatArray, out: FloatArray) -> None:
        """``out += K[:, examples] values``; new columns are kept, as far as there is room."""
        from cornerstep.kernels.reduced_hull import accumulate

        self._clock += 1
        values = values.astype(self.precision)
        slots = self.slots[examples]
        kept, new = (slots >= 0).nonzero()[0], (slots < 0).nonzero()[0]
        self._stamps[slots[kept]] = self._clock
        accumulate(self._store, slots[kept], values[kept], out)
        new, weights = examples[new], values[new]
        for batch in self._batches(new.size):
            block = self._new_columns(new[batch])
            accumulate(block, np.arange(block.shape[0]), weights[batch], out)
            self._keep(new[batch], block)

    def fetch(self, examples: IntArray) -> None:
        """Keep these columns, which will be used soon, if there is room for all of them."""
        new = examples[self.slots[examples] < 0]
        if self.kept + new.size > self.room:
            return
        for batch in self._batches(new.size):
            self._keep(new[batch], self._new_columns(new[batch]))

    def _new_columns(self, examples: IntArray) -> Block:
        """Whole columns; what kept columns know of them by symmetry is not computed again.

        Where that is little all is computed: to pick out the rest would cost more.
        """
        kept = np.flatnonzero(self.slots >= 0)
        if not self.kernel.dear or examples.size * kept.size < self.n:
            return self._evaluate(examples, None, self.precision)
        rest = np.flatnonzero(self.slots < 0)
        out = np.empty((examples.size, self.n), dtype=self.precision)
        out[:, rest] = self._evaluate(examples, rest, self.precision)
        out[:, kept] = self._store[np.ix_(self.slots[kept], examples)].T
        return out

    def _batches(self, count: int) -> Iterator[slice]:
        step = max(1, _BATCH_BYTES // (self.n * np.dtype(self.precision).itemsize))
        if self.kernel.dear:
            step = min(step, max(64, self.n // 16))  # more of the later ones is known by symmetry
        return (slice(start, min(start + step, count)) for start in range(0, count, step))

    def _keep(self, examples: IntArray, block: Block) -> None:
        """Put columns into free slots and those unused the longest, but not in this call."""
        if self.kept + examples.size <= self.room:
            old = np.arange(self.kept, self.kept + examples.size)
            self._store[self.kept : self.kept + examples.size] = block
            self.kept += examples.size
        else:
            self.kept = self.room
            old = np.flatnonzero(self._stamps < self._clock)
            if old.size > examples.size:
                old = old[np.argpartition(self._stamps[old], examples.size)[: examples.size]]
            evicted = self._owners[old]
            self.slots[evicted[evicted >= 0]] = -1
            self._store[old] = block[: old.size]
        chosen = examples[: old.size]
        self._owners[old], self.slots[chosen], self._stamps[old] = chosen, old, self._clock

    def exact_product(self, examples: IntArray, values: FloatArray) -> FloatArray:
        """``K[:, examples] values`` in float64, from the data or from kept float64 columns."""
        out = np.zeros(self.n)
        if self.precision is np.float64:
            self.add_product(examples, values, out)
            return out
        for batch in self._batches(examples.size):
            out += values[batch] @ self._evaluate(examples[batch], None, np.float64)
        return out
