"""Where dense, sparse and matrix-free data meet: ``A x``, ``A' r`` and ``A[:, J] v`` for each.

Objectives speak to their data through :class:`Matrix` only, so none of them is written twice.

The sizes ``|A| |x|`` of the terms of a product bound its rounding errors.  A LinearOperator has no
entries to take absolute values of: four times the largest entry of ``A |x|`` stands for them, which
is a rule and no proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

from cornerstep.core.threads import matmul
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector, Vector, dense

# A product with k of n columns gathers them first; past this share of the columns one product with
# the whole matrix is cheaper (a gathered entry costs a copy and a multiply-add).
_GATHER_SHARE = 0.25

_THIN = 0.1  # share of entries that are not 0, above which images are better dense
_PORTION = 1 << 16  # entries of absolute values, and of vectors, that are made at a time
_SIZE_OF_OPERATOR = 4.0  # sizes of an operator's terms, over the largest entry of its product


class Matrix:
    """An m x n matrix known by its products.

    Parameters
    ----------
    data : array, sparse matrix or LinearOperator
        Kept in float64.
    name : str
        How error messages call it.
    symmetric : bool
        Whether rows may stand for columns (rows of an array are contiguous).
    """

    def __init__(self, data: Any, name: str, *, symmetric: bool = False) -> None:
        self.symmetric = symmetric
        if isinstance(data, LinearOperator):
            self.data: Any = data
        elif sp.issparse(data):
            self.data = sp.csc_array(data, dtype=np.float64)
            _require_finite(self.data.data, name)
            if not self.data.has_canonical_format:  # `combine` meets each row once per column
                self.data = self.data.copy()
                self.data.sum_duplicates()
        else:
            self.data = np.ascontiguousarray(data, dtype=np.float64)
            if self.data.ndim != 2:
                raise ValueError(f"{name} must have two dimensions, got {self.data.ndim}")
            _require_finite(self.data, name)
        self.shape: tuple[int, int] = self.data.shape
        if symmetric and self.shape[0] != self.shape[1]:
            raise ValueError(f"{name} must be square, got shape {self.shape}")
        self.is_dense = isinstance(self.data, np.ndarray)

    @property
    def has_entries(self) -> bool:
        """Whether it is an array or sparse, and no LinearOperator."""
        return not isinstance(self.data, LinearOperator)

    @property
    def product_size(self) -> int | None:
        """Multiply-adds of BLAS in ``A x``; None: an operator's are its own."""
        return None if isinstance(self.data, LinearOperator) else self.data.size * self.is_dense

    def times(self, x: FloatArray) -> FloatArray:
        """``A x``."""
        return matmul(self.data, x)

    def transpose_times(self, r: FloatArray) -> FloatArray:
        """``A' r``."""
        is_operator = isinstance(self.data, LinearOperator)
        return self.data.rmatvec(r) if is_operator else matmul(self.data.T, r)

    def sizes(self, x: FloatArray) -> FloatArray:
        """``|A| |x|``, which bounds the terms of ``A x``; for a LinearOperator see the module.

        Of the columns of a matrix x as well, but for a LinearOperator.
        """
        return self._absolute(self.data, self.times, x)

    def transpose_sizes(self, r: FloatArray) -> FloatArray:
        """``|A|' |r|``."""
        return self._absolute(self.data.T, self.transpose_times, r)

    def _absolute(
        self, data: Any, product: Callable[[FloatArray], FloatArray], x: FloatArray
    ) -> FloatArray:
        if isinstance(self.data, LinearOperator):
            image = np.asarray(product(np.abs(x)))
            return np.full(image.size, _SIZE_OF_OPERATOR * float(np.abs(image).max(initial=0.0)))
        if not self.is_dense:
            return abs(data) @ np.abs(x)
        used, x = np.flatnonzero(x if x.ndim == 1 else x.any(axis=1)), np.abs(x)
        few = used.size <= _GATHER_SHARE * len(x)
        by_rows = data is self.data and not self.symmetric  # else a sum of rows: they lie together
        out, rows = np.zeros((data.shape[0], *x.shape[1:])), np.arange(self.shape[0])
        if few:
            x = x[used]
            rows = rows if by_rows else used
        portion = max(1, _PORTION // max(1, self.shape[1]))
        for first in range(0, rows.size, portion):  # a copy of the whole may not fit
            some = slice(first, first + portion)
            part = self.data[rows[some]] if few and not by_rows else self.data[some]
            if by_rows:
                out[some] = np.abs(part[:, used] if few else part).dot(x)
            else:
                out += np.abs(part).T.dot(x[some])
        return out

    def combine(self, indices: IntArray | None, values: FloatArray) -> FloatArray:
        """``A[:, indices] values``: a combination of few columns (of all, if indices is None)."""
        if indices is None:
            return self.times(values)
        few = indices.size <= _GATHER_SHARE * self.shape[1]
        if few and self.is_dense:
            if self.symmetric:
                return values.dot(self.data.take(indices, axis=0))
            return self.data[:, indices] @ values
        if few and sp.issparse(self.data):
            starts = self.data.indptr
            counts = starts[indices + 1] - starts[indices]
            skipped = starts[indices] - (counts.cumsum() - counts)
            places = np.arange(counts.sum()) + np.repeat(skipped, counts)
            terms = np.repeat(values, counts) * self.data.data[places]
            out: FloatArray = np.zeros(self.shape[0])
            out += np.bincount(self.data.indices[places], terms, self.shape[0])
            return out
        x = np.zeros(self.shape[1])
        x[indices] = values
        return self.times(x)

    def thin_images(self, vectors: list[Vector]) -> Any:
        """``A v`` for each of some vectors, as rows; in CSR if few entries are not 0."""
        parts = [v for v in vectors if isinstance(v, SparseVector)]
        if not sp.issparse(self.data) or len(parts) < len(vectors):
            return self.images(vectors)
        indices = np.concatenate([v.indices for v in parts])
        ends = np.cumsum([0, *(v.indices.size for v in parts)])
        values = np.concatenate([v.values for v in parts])
        rows = sp.csr_array((values, indices, ends), shape=(len(parts), self.shape[1]))
        out = rows @ self.data.T
        return out if out.nnz <= _THIN * len(parts) * self.shape[0] else out.toarray()

    def images(self, vectors: list[Vector]) -> FloatArray:
        """``A v`` for each of some vectors, as rows."""
        parts = [v for v in vectors if isinstance(v, SparseVector)]
        if isinstance(self.data, LinearOperator):
            return np.array([self.times(dense(v)) for v in vectors])
        if len(parts) < len(vectors):
            return self._dense_images(vectors)
        if len(parts) == 1:
            return self.combine(parts[0].indices, parts[0].values)[None]
        if not self.is_dense:
            thin = self.thin_images(vectors)
            return thin.toarray() if sp.issparse(thin) else thin
        indices = np.concatenate([v.indices for v in parts])
        values = np.concatenate([v.values for v in parts])
        if all(v.indices.size == 1 for v in parts):  # as of a simplex: a column each
            return (self.data[:, indices] * values).T.copy()
        used, columns = np.unique(indices, return_inverse=True)
        if used.size > _GATHER_SHARE * self.shape[1]:
            return self._dense_images(vectors)
        coefficients = np.zeros((len(parts), used.size))
        rows = np.repeat(np.arange(len(parts)), [v.indices.size for v in parts])
        coefficients[rows, columns] = values
        if self.symmetric:
            return coefficients @ self.data[used]
        return np.ascontiguousarray((self.data[:, used] @ coefficients.T).T)

    def _dense_images(self, vectors: list[Vector]) -> FloatArray:
        out, portion = np.empty((len(vectors), self.shape[0])), max(1, _PORTION // self.shape[1])
        for first in range(0, len(vectors), portion):
            some = slice(first, first + portion)
            out[some] = (self.data @ np.array([dense(v) for v in vectors[some]]).T).T
        return out

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused by those who ask
    def gram(self) -> Matrix:
        """``A' A`` as a matrix of its own (data must be an array or sparse)."""
        if isinstance(self.data, LinearOperator):
            raise ValueError("the Gram matrix of a LinearOperator cannot be formed")
        return Matrix(self.data.T @ self.data, "Gram matrix", symmetric=True)

    def eigenvalue(self, which: str) -> float:
        """The largest ('LA') or smallest ('SA') eigenvalue of a symmetric matrix."""
        n = self.shape[0]
        if self.is_dense or n < 3:
            full = self.data if self.is_dense else self.data @ np.eye(n)
            full = full.toarray() if sp.issparse(full) else full
            eigenvalues = np.linalg.eigvalsh(full)
            return float(eigenvalues[-1 if which == "LA" else 0])
        if sp.issparse(self.data) and not self.data.count_nonzero():
            return 0.0  # ARPACK finds no vector to start from
        start = np.random.default_rng(0).standard_normal(n)
        value = eigsh(self.data, k=1, which=which, v0=start, return_eigenvectors=False)[0]
        return float(value)

    def norm(self) -> float:
        """The largest singular value, ``max |A x|`` over ``|x| <= 1``."""
        if isinstance(self.data, LinearOperator):
            return math.sqrt(self.gram_norm())
        largest = float(abs(self.data).max()) or 1.0  # squares of the entries must not underflow
        return largest * math.sqrt(Matrix(self.data / largest, "A").gram_norm())

    def gram_norm(self) -> float:
        """The largest eigenvalue of ``A' A``, by the smaller of the two products."""
        if not isinstance(self.data, LinearOperator) and min(self.shape) <= 2000:
            tall = self.shape[0] >= self.shape[1]
            small = self.data.T @ self.data if tall else self.data @ self.data.T
            return Matrix(small, "Gram matrix", symmetric=True).eigenvalue("LA")
        operator = aslinearoperator(self.data)
        product = LinearOperator(
            (self.shape[1], self.shape[1]),
            matvec=lambda x: operator.rmatvec(operator.matvec(x)),
            dtype=np.float64,
        )
        return Matrix(product, "Gram operator", symmetric=True).eigenvalue("LA")

    def asymmetry(self) -> float:
        """The largest ``|a_ij - a_ji|`` over the largest entry (a LinearOperator is trusted)."""
        if isinstance(self.data, LinearOperator):
            return 0.0
        gap = float(abs(self.data - self.data.T).max()) if self.shape[0] else 0.0
        return gap / float(abs(self.data).max()) if gap else 0.0


def _require_finite(values: FloatArray, name: str) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, but contains NaN or infinity")


def as_vector(values: Any, name: str, size: int | None = None) -> FloatArray:
    """Return ``values`` as a finite float64 vector, of length ``size`` when that is given."""
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 1 or (size is not None and out.size != size):
        wanted = "a vector" if size is None else f"a vector of length {size}"
        raise ValueError(f"{name} must be {wanted}, got shape {out.shape}")
    _require_finite(out, name)
    return out
