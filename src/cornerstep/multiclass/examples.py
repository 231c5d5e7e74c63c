"""Where dense, sparse, joint and kernel examples meet, for problems with a score per class.

The *image* of dual coefficients A (one row per example, one column per class) is what a solver
keeps instead of A: the weights ``W = X'A``, with a kernel the scores ``K A``, and with joint
features ``w = sum_ij A_ij psi(x_i, j)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray
from cornerstep.multiclass.compiled.sweeps import CSR, DENSE, GRAM
from cornerstep.multiclass.rounding import entry_sizes

_DENSE = 8  # products with a sparse factor pay if it has this many times fewer entries
_LARGE = 2**20  # entries; fewer fit into caches
_ROWS = 4096  # rows converted to float64 at a time
_LEAST_ROWS = 128  # of a part of an image, so that the parts are worth a call
_CACHED = 2**16  # entries that stay in a cache
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
            return coefficients.T @ rows
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
                np.dot(some, image.T, out=out[start : start + _ROWS])
            return out
        if exact:
            rows = self.data[block].astype(np.float64, copy=False)
        else:
            rows = self.quick[block]
            image = image.astype(rows.dtype, copy=False)
        return np.asarray(rows @ image if self.sparse else rows @ image.T, dtype=np.float64)

    def add_image(self, image: FloatArray, block: slice, coefficients: FloatArray) -> None:
        """Add the image of coefficients of the examples of ``block`` to ``image``."""
        rows = self.data[block]
        coefficients = coefficients.astype(rows.dtype, copy=False)
        image += rows.T @ coefficients if self.sparse else coefficients.T @ rows

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
            total = total + (scaled.T @ some if full else np.einsum("ij,ij->j", scaled, some))
        return np.asarray(total, dtype=np.float64)

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
    """Examples known by their kernel matrix.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric, positive semidefinite.
    errors : function, optional
        ``errors(amounts)``: what the rounding of its entries does to ``K a`` for
        ``|a| = amounts``; by default they are what they are.
    """

    kernel = True
    default_solver = "block"
    terms = 1
    sparse = False
    is_single = False

    def use_double(self) -> None:
        """A kernel matrix is in float64 already."""

    def __init__(
        self, K: FloatArray, errors: Callable[[FloatArray], FloatArray] = np.zeros_like
    ) -> None:
        self._errors = errors
        self.data = np.ascontiguousarray(K, dtype=np.float64)
        self.n = self.size = self.data.shape[0]
        self.columns = np.arange(self.n)

    def part(self, kept: Any) -> KernelExamples:
        """Some of the examples, their entries being what they are."""
        return KernelExamples(self.data[np.ix_(kept, kept)])

    @cached_property
    def rows(self) -> tuple[Any, ...]:
        """The examples as the compiled sweeps take them."""
        return GRAM, self.data, _NO_POINTERS, _NO_POINTERS, np.empty(0)

    @cached_property
    def norms(self) -> FloatArray:
        """``k(x_i, x_i)``."""
        return self.data.diagonal().copy()

    @property
    def longest(self) -> int:
        """Entries of a row."""
        return self.n

    summed = longest  # roundings of an entry of an image

    def dense(self, block: slice) -> FloatArray:
        """Rows of the kernel matrix."""
        return self.data[block]

    def absolute_sums(self, block: slice, weights: FloatArray) -> FloatArray:
        """``sum_i weight_i |k(x_i, x_l)|`` over the examples of ``block``.

        Entries whose own rounding is more than that of a sum of products count as larger.
        """
        amounts = np.zeros(self.n)
        amounts[block] = weights
        return weights @ np.abs(self.data[block]) + entry_sizes(self._errors(amounts))

    def empty_image(self, n_classes: int) -> FloatArray:
        """The image of no coefficients."""
        return np.zeros((n_classes, self.n))

    def image(self, coefficients: Any) -> FloatArray:
        """``(K A)'``, a row per class."""
        return np.ascontiguousarray(coefficients.T @ self.data)

    def scores(self, block: slice, image: FloatArray, *, exact: bool = False) -> FloatArray:
        """Scores of the examples of ``block``, one row each: a fresh array."""
        return np.array(image[:, block].T, order="C")  # a single example would be a view

    def add_image(self, image: FloatArray, block: slice, coefficients: FloatArray) -> None:
        """Add the image of coefficients of the examples of ``block`` to ``image``."""
        image += coefficients.T @ self.data[block]

    def weights(self, image: FloatArray) -> FloatArray | None:
        """W with a row per class: unknown."""
        return None
