"""Kernels by blocks, each with a bound on the rounding errors of its entries.

``block(rows, columns)`` is the part ``k(x_i, x_j)`` of the kernel matrix with i in rows, j in
columns (all, if None).  With the ``sizes`` s and the ``errors`` r of amounts a >= 0, for blocks in
float64,

    |k(x_i, x_j)| <= s_i s_j,    sum over j of |computed - k(x_i, x_j)| a_j <= r_i.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cornerstep.core.threads import allowed_threads, fit_threads
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.digests import of_arrays

Block: TypeAlias = npt.NDArray[Any]

#: The most by which rounding changes the result of one operation, relative to it.
UNIT = float(np.finfo(np.float64).eps) / 2
_ROWS = 128  # of a block at a time: fewer waste what the product prepares
_SHARED = 2**19  # entries of a block from which on several threads compute it
_COSTLY = 1024  # numbers of a row from which on to compute an entry costs more than to move it:
# what is moved is not in the cache (with 64, a9a takes 1.45 times the time, usps 1.15; mnist less)
_NARROW = (
    64  # features up to which products of few rows are quicker if they lie one after the other
)
_DENSE_SHARE, _DENSE_BYTES = 0.02, 2**29  # sparse examples this full and small are made dense
_CANCELLED = 2.0**-36  # errors of exponents from which on they are computed from differences
_LEAST = 1e-300  # the size of examples that are not 0: it tells them from those that are
_VANISHED = -746.0  # exponents below it make an exponential of 0


class Kernel(Protocol):
    """A symmetric positive semidefinite matrix known by its blocks."""

    n: int
    entries_are_costly: bool  # whether to compute an entry costs more than to move it
    is_foreign: bool  # whether a function of somebody else computes the entries, at any cost

    @property
    def sizes(self) -> FloatArray:
        """Numbers s with ``|k(x_i, x_j)| <= s_i s_j``."""

    def entry_errors(self) -> tuple[float, FloatArray]:
        """By how much ``k_ij`` is off: ``share s_i s_j + exponents_i + exponents_j``."""

    def block(self, rows: IntArray, columns: IntArray | None) -> Block:
        """Entries of the matrix, a fresh array."""

    def take(self, examples: IntArray) -> Kernel:
        """The kernel matrix of some of the examples."""


def product_errors(kernel: Kernel, amounts: FloatArray) -> FloatArray:
    """What the rounding of entries does to the rows of ``K a`` for ``|a| = amounts``."""
    share, exponents = kernel.entry_errors()
    out = share * float(amounts @ kernel.sizes) * kernel.sizes
    out += float(amounts.sum()) * exponents + float(amounts @ exponents)
    return out


def centre(X: Any) -> FloatArray:
    """The mean of the rows of X; of a CSR matrix, of the features that at least half of them have.

    Rows minus it have no common offset.  A CSR matrix gets at most twice as full; what most rows
    lack has no offset that they share.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    if sp.issparse(X):
        mean[2 * np.bincount(X.indices, minlength=X.shape[1]) < X.shape[0]] = 0.0
    return np.where(np.isfinite(mean), mean, 0.0)


def centred(X: Any, middle: FloatArray) -> Any:
    """The rows of X minus ``middle``, in float64 and as sparse as it allows."""
    if not sp.issparse(X):
        return np.asarray(X, dtype=np.float64) - middle
    shifted = np.flatnonzero(middle)
    if shifted.size == 0:
        return sp.csr_array(X, dtype=np.float64)
    columns = sp.csc_array(X, dtype=np.float64)
    dense = columns[:, shifted].toarray() - middle[shifted]
    rest = np.flatnonzero(middle == 0)
    order = np.argsort(np.concatenate([rest, shifted]))
    return sp.hstack([columns[:, rest], sp.csc_array(dense)], "csc")[:, order].tocsr()


class InnerProductKernel:
    """``k(x, z)`` for kernels made of inner products, each block by one matrix product.

    - 'linear': ``<x, z>``;  'poly': ``(gamma <x, z> + coef0)^degree``;
    - 'sigmoid': ``tanh(gamma <x, z> + coef0)``;  'rbf': ``exp(-gamma |x - z|²)``, whose exponent
      ``<(x, |x|², 1), (2 gamma z, -gamma, -gamma |z|²)>`` is an inner product as well, of rows
      without their common offset.  Of *far* rows, whose ``gamma |x|²`` is so large that it would
      cancel, the exponents that matter are computed again, from the differences of the rows as they
      are given.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    name : {'linear', 'poly', 'rbf', 'sigmoid'}
    gamma, degree, coef0 : float
    """

    shift = 0.0  # what is added to the diagonal
    constant = 0.0  # what is added to all entries
    is_foreign = False

    def __init__(
        self, X: Any, name: str, gamma: float = 1.0, degree: float = 3, coef0: float = 0.0
    ) -> None:
        self.n = X.shape[0]
        self.name, self.gamma, self.degree, self.coef0 = name, gamma, degree, coef0
        self.threads = allowed_threads()
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64)
            size = X.shape[0] * X.shape[1]
            if X.nnz >= _DENSE_SHARE * size and 8 * size <= _DENSE_BYTES:
                X = X.toarray()
        else:
            X = np.asarray(X, dtype=np.float64)
        numbers = X.nnz if sp.issparse(X) else X.size
        self.entries_are_costly = numbers >= _COSTLY * max(self.n, 1)
        rows = centred(X, centre(X)) if name == "rbf" else X
        norms = row_norms(rows)
        self._bound(norms, X.shape[1])
        self._given: Any = None
        self._far = ~(2 * self._exponents <= _CANCELLED)
        self._least = _VANISHED - 2 * float(self._exponents.max(initial=0.0))
        self._exponents[self._far] = 0.0
        if self._far.any():
            self._given = X
            if sp.issparse(X):
                X.sum_duplicates()
        self._left: Any = self._laid_out(self._extended(rows, norms))

    def _bound(self, norms: FloatArray, d: int) -> None:
        """Bounds from ``|x|``: a product of d terms is off by (d + 1) units of ``|x| |z|``."""
        self._share, self._exponents = (d + 6) * UNIT, np.zeros(self.n)
        with np.errstate(over="ignore"):
            squares = norms**2
            if self.name == "linear":
                self.sizes = norms
            elif self.name == "poly":
                self.sizes = (self.gamma * squares + abs(self.coef0)) ** (self.degree / 2)
                self._share *= self.degree + 1
            elif self.name == "sigmoid":
                self.sizes = np.sqrt(self.gamma * squares + abs(self.coef0) + 1.0)
            else:
                self.sizes = np.ones(self.n)
                # of the exponent, for either row: norms, their product, and centred rows
                self._exponents = (3 * d + 16) * UNIT * (self.gamma * squares)
        self.sizes = np.maximum(self.sizes, np.where(norms > 0, _LEAST, 0.0))

    def entry_errors(self) -> tuple[float, FloatArray]:
        """From differences exponents -t are off by t (d + 3) units, and ``t exp(-t) < 1``."""
        return self._share, self._exponents

    def _extended(self, rows: Any, norms: FloatArray) -> Any:
        """Left factors: the rows, for 'rbf' with ``|x|²`` and 1 behind them."""
        if self.name != "rbf":
            return rows
        with np.errstate(over="ignore"):
            behind = np.column_stack([norms**2, np.ones(self.n)])
        return sp.hstack([rows, behind], "csr") if sp.issparse(rows) else np.hstack([rows, behind])

    def _laid_out(self, left: Any) -> Any:
        """Features one after the other where they are few: products of few rows are quicker."""
        wide = sp.issparse(left) or left.shape[1] > _NARROW
        return left if wide else np.asfortranarray(left)

    def take(self, examples: IntArray) -> InnerProductKernel:
        some = copy(self)
        some.n, some.sizes = examples.size, self.sizes[examples]
        some._exponents, some._far = self._exponents[examples], self._far[examples]
        some._given = self._given[examples] if some._far.any() else None
        some._left = self._laid_out(self._left[examples])
        return some

    def shifted(self, amount: float) -> InnerProductKernel:
        """The same with ``amount`` added to the diagonal of the matrix."""
        out = copy(self)
        out.shift, out.sizes = amount, np.sqrt(self.sizes**2 + amount)
        return out

    def raised(self, constant: float) -> InnerProductKernel:
        """The same with ``constant >= 0`` added to all entries of the matrix."""
        out = copy(self)
        out.constant, out.sizes = constant, np.sqrt(self.sizes**2 + constant)
        out._share = self._share + UNIT
        return out

    def digest(self) -> Any:
        """Rows and numbers that tell this kernel from others on examples of the same labels."""
        numbers = self.gamma, self.degree, self.coef0, self.shift, self.constant
        return self._left, of_arrays({self.name: np.asarray(numbers, np.float64)})

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

    def block(self, rows: IntArray, columns: IntArray | None) -> Block:
        """Entries of the matrix, a fresh array."""
        left = self._left
        others = left if columns is None else left[columns]
        second = np.arange(self.n) if columns is None else columns
        out = np.empty((rows.size, others.shape[0]), dtype=left.dtype)

        threads = self.threads if out.size >= _SHARED else 1
        step = min(_ROWS, max(-(-rows.size // threads), 1))

        def fill(start: int) -> None:
            first, part = rows[start : start + step], out[start : start + step]
            with np.errstate(over="ignore", invalid="ignore"):  # such exponents are refined
                some = self._right(left[first])
                if sp.issparse(others):
                    part[:] = (others @ some.T).T
                else:
                    np.matmul(some, others.T, out=part)
                if self._given is not None:
                    self._refine(part, first, second)
                self._transform(part)

        starts = range(0, rows.size, step)
        if threads > 1 and len(starts) > 1:
            with fit_threads(), ThreadPoolExecutor(threads) as pool:  # their products take one each
                deque(pool.map(fill, starts), maxlen=0)
        else:
            for start in starts:
                fill(start)
        if self.name == "rbf" or self.shift:
            self._set_diagonal(out, rows, second)
        return out

    def _refine(self, exponents: Block, first: IntArray, second: IntArray) -> None:
        """Exponents from differences, where a row is far and the exponential is not 0."""
        rows, columns = self._far[first], self._far[second]
        self._difference(exponents, first, second, rows)
        if columns.any():
            some = exponents[:, columns]
            self._difference(some, first, second[columns], ~rows)
            exponents[:, columns] = some

    def _difference(
        self, exponents: Block, first: IntArray, second: IntArray, chosen: npt.NDArray[np.bool_]
    ) -> None:
        """Exponents of the chosen rows of a block from differences."""
        from cornerstep.learning.compiled.distances import refine_dense, refine_sparse

        part, X = exponents[chosen], self._given
        given = part, first[chosen], second
        if sp.issparse(X):
            refine_sparse(*given, X.indptr, X.indices, X.data, self.gamma, self._least)
        else:
            refine_dense(*given, X, self.gamma, self._least)
        exponents[chosen] = part

    def _set_diagonal(self, out: Block, rows: IntArray, columns: IntArray) -> None:
        """``k(x, x) = 1`` of 'rbf', whatever the rounding of a product is; and the shift."""
        places = np.full(self.n, -1)
        places[columns] = np.arange(columns.size)
        found = np.flatnonzero(places[rows] >= 0)
        diagonal = found, places[rows[found]]
        out[diagonal] = (1.0 + self.constant if self.name == "rbf" else out[diagonal]) + self.shift

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
        if self.constant:
            products += self.constant


def row_norms(X: Any) -> FloatArray:
    """``|x|`` of each row, also where squares leave the range of float64."""
    scale = float(abs(X).max()) if X.shape[1] else 0.0
    if not (scale == 0 or 1e-100 < scale < 1e100):
        with np.errstate(over="ignore"):
            return scale * row_norms(X / scale)
    if sp.issparse(X):
        return np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
    return np.sqrt(np.einsum("ij,ij->i", X, X))


def kernel_matrix(
    X: Any, Z: Any, name: str, gamma: float = 1.0, degree: float = 3, coef0: float = 0.0
) -> FloatArray:
    """All ``k(x, z)`` over the rows of X and Z, as :class:`InnerProductKernel` computes them."""
    n, both = X.shape[0], X
    if X is not Z:
        sparse = sp.issparse(X) or sp.issparse(Z)
        both = sp.vstack([sp.csr_array(X), sp.csr_array(Z)], "csr") if sparse else np.vstack([X, Z])
    kernel = InnerProductKernel(both, name, gamma, degree, coef0)
    with fit_threads():
        return kernel.block(np.arange(n), None if X is Z else np.arange(n, kernel.n))


class PrecomputedKernel:
    """A kernel matrix that is given: its entries are what they are.

    Parameters
    ----------
    matrix : array of shape (n, n)
    """

    is_foreign = False

    def __init__(self, matrix: Any) -> None:
        self.matrix = np.asarray(matrix)
        self.entries_are_costly = False
        self.n = self.matrix.shape[0]
        # |k_ij| is at most the largest entries of either row, hence the root of their product
        largest = np.maximum(self.matrix.max(axis=1), -self.matrix.min(axis=1))
        self.sizes = np.sqrt(largest.astype(np.float64))

    def entry_errors(self) -> tuple[float, FloatArray]:
        """None."""
        return 0.0, np.zeros(self.n)

    def take(self, examples: IntArray) -> PrecomputedKernel:
        return PrecomputedKernel(self.matrix[np.ix_(examples, examples)])

    def block(self, rows: IntArray, columns: IntArray | None) -> Block:
        """Entries of the matrix, a fresh array."""
        part = self.matrix[rows] if columns is None else self.matrix[np.ix_(rows, columns)]
        return part.astype(np.float64)


class CallableKernel:
    """``function(X, Z)``, the matrix of ``k(x, z)`` over the rows of X and Z.

    Nothing is known of its rounding: that of an inner product is assumed, relative to the largest
    entry seen.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    function : callable
    largest : float
        The size of the largest entry seen.
    """

    is_foreign = True

    def __init__(self, X: Any, function: Callable[[Any, Any], Any], largest: float = 0.0) -> None:
        self.X, self.function = X, function
        self.entries_are_costly = True
        self.n = X.shape[0]
        self._largest = largest

    @property
    def sizes(self) -> FloatArray:
        """The same for all examples: the root of the largest entry so far."""
        return np.full(self.n, np.sqrt(self._largest))

    def entry_errors(self) -> tuple[float, FloatArray]:
        """As of an inner product."""
        return (self.X.shape[1] + 6) * UNIT, np.zeros(self.n)

    def take(self, examples: IntArray) -> CallableKernel:
        return CallableKernel(self.X[examples], self.function, self._largest)

    def block(self, rows: IntArray, columns: IntArray | None) -> Block:
        """Entries of the matrix, a fresh array."""
        others = self.X if columns is None else self.X[columns]
        out = np.asarray(self.function(self.X[rows], others), dtype=np.float64)
        if out.shape != (rows.size, others.shape[0]):
            raise ValueError(
                "kernel must return an array of shape (rows of X, rows of Z), here "
                f"{(rows.size, others.shape[0])}, got {out.shape}"
            )
        if not np.isfinite(out).all():
            raise ValueError("kernel must return finite numbers, got NaN or infinity")
        self._largest = max(self._largest, float(np.abs(out).max(initial=0.0)))
        return out
