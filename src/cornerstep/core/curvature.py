"""The Hessian of a quadratic by its parts: ``H = diag(diagonal) + root'root + matrix``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray


class Curvature(NamedTuple):
    """``H = diag(diagonal) + root'root + matrix``; the last two are arrays, sparse, or None."""

    diagonal: FloatArray
    root: Any = None
    matrix: Any = None

    @classmethod
    def of(cls, hessian: Any) -> Curvature:
        """Of a symmetric array or sparse matrix: its diagonal alone if there is nothing else."""
        diagonal = hessian.diagonal()
        entries = hessian.count_nonzero() if sp.issparse(hessian) else np.count_nonzero(hessian)
        if entries == np.count_nonzero(diagonal):
            return cls(np.array(diagonal))
        return cls(np.zeros(hessian.shape[0]), matrix=hessian)

    @classmethod
    def of_root(cls, root: Any) -> Curvature:
        """Of root'root: its diagonal alone where rows have one entry each, as those that sample."""
        n = root.shape[1]
        if sp.issparse(root) and root.nnz <= root.shape[0]:
            entries = sp.csr_array(root)
            entries.sum_duplicates()
            if np.diff(entries.indptr).max(initial=0) <= 1:
                diagonal = np.zeros(n)
                np.add.at(diagonal, entries.indices, entries.data**2)
                return cls(diagonal)
        return cls(np.zeros(n), root=root)

    def times(self, x: FloatArray) -> FloatArray:
        """``H x``."""
        out: FloatArray = self.diagonal * x
        if self.root is not None:
            out = out + self.root.T @ (self.root @ x)
        if self.matrix is not None:
            out = out + self.matrix @ x
        return out

    def part(self, kept: IntArray) -> Curvature:
        """The rows and columns of some coordinates."""
        if kept.size == self.diagonal.size:
            return self
        root = None if self.root is None else self.root[:, kept]
        matrix = None if self.matrix is None else self.matrix[kept][:, kept]
        return Curvature(self.diagonal[kept], root, matrix)

    def with_zeros(self, count: int) -> Curvature:
        """The same with coordinates behind it that have no curvature."""
        if count == 0:
            return self
        root = None if self.root is None else padded(self.root, (0, count))
        matrix = None if self.matrix is None else padded(self.matrix, (count, count))
        return Curvature(np.concatenate([self.diagonal, np.zeros(count)]), root, matrix)

    def full(self) -> FloatArray:
        """H as one array."""
        out = np.diag(self.diagonal)
        if self.root is not None:
            out += dense_array(self.root.T @ self.root)
        if self.matrix is not None:
            out += dense_array(self.matrix)
        return out

    @property
    def mean(self) -> float:
        """The mean of the diagonal of H."""
        total = float(self.diagonal.sum())
        if self.root is not None:
            total += float((self.root * self.root).sum())
        if self.matrix is not None:
            total += float(self.matrix.diagonal().sum())
        return total / self.diagonal.size


def padded(matrix: Any, more: tuple[int, int]) -> Any:
    """The matrix with so many rows and columns of zeros behind it."""
    if not sp.issparse(matrix):
        return np.pad(matrix, ((0, more[0]), (0, more[1])))
    out = sp.coo_array(matrix)
    out.resize((matrix.shape[0] + more[0], matrix.shape[1] + more[1]))
    return sp.csc_array(out)


def dense_array(matrix: Any) -> FloatArray:
    """An array of a matrix that may be sparse."""
    out: FloatArray = matrix.toarray() if sp.issparse(matrix) else matrix
    return out
