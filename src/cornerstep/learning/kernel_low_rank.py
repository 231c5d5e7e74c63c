"""Kernel matrices of low rank: ``K = F F' + E`` by Cholesky factorisation with chosen pivots.

Few features and a smooth kernel make matrices whose rank is, but for digits that do not matter, a
hundred or two, however many examples there are.  Then ``K a`` is two thin products.

1. Of a sample of the examples that E still has more than ``tol`` of on its diagonal, factorise the
   matrix ``E`` with complete pivoting [1]_, down to ``tol``: the pivots are *landmarks*.
2. F gets a column for each: those of E at the landmarks, times the inverse of their factor.
3. Back to 1, until the diagonal of E is at most ``tol`` everywhere.

``E`` is positive semidefinite (but for rounding), so that no entry of it exceeds ``tol`` either.

References
----------
.. [1] S. Fine, K. Scheinberg. Efficient SVM training using low-rank kernel representations. Journal
   of Machine Learning Research 2, 243-264, 2001.
.. [2] C. K. I. Williams, M. Seeger. Using the Nyström method to speed up kernel machines. Advances
   in Neural Information Processing Systems 13, 682-688, 2001.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.kernel_blocks import UNIT, InnerProductKernel, Kernel

_SAMPLE = 1000  # examples whose matrix is factorised in full: some 10 ms
_SAMPLED = 2  # examples of a sample for each landmark, at least
_LEAST_PIVOT = 1e-8  # of the largest entry: coefficients of landmarks grow with its root


def low_rank_factor(
    kernel: Kernel, tol: float, most: int, rng: np.random.Generator
) -> FloatArray | None:
    """F of shape (n, r) with ``k(x, x) - |F_x|² <= tol`` for all examples, None if r > ``most``.

    Only kernels whose diagonal is known without their matrix have one.

    Parameters
    ----------
    kernel : Kernel
    tol : float
    most : int
        Columns that F may have.
    rng : numpy.random.Generator
        Draws samples.
    """
    if not isinstance(kernel, InnerProductKernel) or kernel.name == "sigmoid" or kernel.shift:
        return None
    factor, left = np.empty((0, kernel.n)), kernel.sizes**2
    while True:
        poor = np.flatnonzero(left > tol)
        if poor.size == 0:
            return np.ascontiguousarray(factor.T)
        sample = rng.choice(poor, min(_SAMPLE, poor.size), replace=False)
        landmarks, triangle = _pivots(kernel, factor, sample, tol)
        rank = factor.shape[0] + landmarks.size
        if rank > most or (landmarks.size == sample.size and poor.size > most):
            return None
        columns = kernel.block(landmarks, None)
        columns -= factor[:, landmarks].T @ factor
        columns = solve_triangular(triangle, columns, lower=True, overwrite_b=True)
        factor = np.vstack([factor, columns])
        left = np.maximum(left - np.einsum("rn,rn->n", columns, columns), 0.0)
        left[landmarks] = 0.0


def landmark_factor(
    kernel: InnerProductKernel, rank: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Up to ``rank`` examples of a sample, by complete pivoting, and the factor of their matrix.

    Fewer where what is left of the sample is too small to be told from rounding.

    Parameters
    ----------
    kernel : InnerProductKernel
        Positive semidefinite.
    rank : int
    rng : numpy.random.Generator
        Draws the sample.
    """
    size = min(kernel.n, max(_SAMPLE, _SAMPLED * rank))
    sample = np.sort(rng.choice(kernel.n, size, replace=False))
    least = _LEAST_PIVOT * float(kernel.sizes[sample].max()) ** 2
    landmarks, triangle = _pivots(kernel, np.empty((0, kernel.n)), sample, least)
    return landmarks[:rank], np.ascontiguousarray(triangle[:rank, :rank])


def landmark_features(
    kernel: InnerProductKernel, landmarks: IntArray, triangle: FloatArray
) -> FloatArray:
    """F of shape (n, r): ``F F'`` is what the landmarks tell of the matrix [2]_."""
    columns = kernel.block(landmarks, None)
    out = solve_triangular(triangle, columns, lower=True, overwrite_b=True)
    return np.ascontiguousarray(out.T)


def _pivots(
    kernel: InnerProductKernel, factor: FloatArray, sample: IntArray, tol: float
) -> tuple[IntArray, FloatArray]:
    """Landmarks among the sample, and the Cholesky factor of the rest of their matrix."""
    rest = kernel.block(sample, sample)
    rest -= factor[:, sample].T @ factor[:, sample]
    triangle, order, rank, _ = dpstrf(rest.T, tol=tol, lower=1)
    chosen = sample[order[:rank] - 1]
    return chosen, np.tril(triangle[:rank, :rank])


class FactoredKernel:
    """The matrix ``F F'``.

    Parameters
    ----------
    factor : array of shape (n, r)
    """

    entries_are_costly = False
    is_foreign = False

    def __init__(self, factor: FloatArray) -> None:
        self.factor, self.n = factor, factor.shape[0]
        self.sizes = np.sqrt(np.einsum("nr,nr->n", factor, factor))

    def entry_errors(self) -> tuple[float, FloatArray]:
        """As of inner products."""
        return (self.factor.shape[1] + 6) * UNIT, np.zeros(self.n)

    def block(self, rows: IntArray, columns: IntArray | None) -> FloatArray:
        """Entries of the matrix, a fresh array."""
        others = self.factor if columns is None else self.factor[columns]
        return np.asarray(self.factor[rows] @ others.T)

    def take(self, examples: IntArray) -> FactoredKernel:
        """The matrix of some of the examples."""
        return FactoredKernel(self.factor[examples])
