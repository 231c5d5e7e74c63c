"""Sections of sets of matrices: their points with given row and column spaces.

With orthonormal columns U and orthonormal rows V the points ``U S V`` of a nuclear-norm ball, or of
a spectraplex (there ``V = U'``), are those whose small matrix S is in a set of the same kind.  What
is projected and factorised is S; products with U and V are all that sees the large matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray
from cornerstep.domains.base import SNAP

_FIRST_RANK = 8  # that is tried for the row and column space of a point


class Sectioned(Protocol):
    """A set of matrices that has sections."""

    shape: tuple[int, int]
    radius: float
    symmetric: bool  # whether vertices are ``radius * u u'``

    def leading(self, gradient: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Unit columns u and unit rows v, the best vertex ``radius * u v`` first."""

    def small(self, shape: tuple[int, int]) -> Any:
        """The set of the same kind of matrices of this shape."""


class Section(NamedTuple):
    """The points ``left S right`` of a set of matrices.

    ``left`` has orthonormal columns, ``right`` orthonormal rows.
    """

    whole: Sectioned
    left: FloatArray
    right: FloatArray

    @classmethod
    def containing(cls, whole: Sectioned, x: FloatArray) -> Section:
        """The smallest section that contains x, or about that."""
        X = x.reshape(whole.shape)
        size, rank, rng = norm(x), _FIRST_RANK, np.random.default_rng(0)
        while True:  # columns of X in random mixtures span the column space
            rank = min(rank, *X.shape)
            left = np.linalg.qr(X @ rng.standard_normal((X.shape[1], rank)))[0]
            core = left.T @ X
            if rank == min(X.shape) or norm((X - left @ core).ravel()) <= SNAP * X.shape[0] * size:
                break
            rank *= 2
        if whole.symmetric:
            return cls(whole, left, left.T).narrowed((core @ left).ravel())
        right = np.linalg.qr(core.T)[0].T
        return cls(whole, left, right).narrowed((core @ right.T).ravel())

    @property
    def domain(self) -> Any:
        """The set of the matrices S."""
        return self.whole.small((self.left.shape[1], self.right.shape[0]))

    def lift(self, s: FloatArray) -> FloatArray:
        """``left S right``, flattened as S is."""
        core = s.reshape(self.left.shape[1], self.right.shape[0])
        return (self.left @ core @ self.right).ravel()

    def restrict(self, x: FloatArray) -> FloatArray:
        """``left' X right'``: S of a point, and the gradient with respect to S of a gradient."""
        return (self.left.T @ (x.reshape(self.whole.shape) @ self.right.T)).ravel()

    def narrowed(self, s: FloatArray) -> Section:
        """The smallest section that contains the point of S."""
        core = s.reshape(self.left.shape[1], self.right.shape[0])
        left, values, right = np.linalg.svd(core, full_matrices=False)
        rank = int((values > SNAP * values[0]).sum())
        columns = self.left @ left[:, :rank]
        rows = columns.T if self.whole.symmetric else right[:rank] @ self.right
        return Section(self.whole, columns, rows)

    def widened(self, gradient: FloatArray, more: int) -> tuple[Section, FloatArray]:
        """The section with as many vertices beside its own rank, and ``more``; the best vertex."""
        count = min(self.left.shape[1] + more, *self.whole.shape)
        left, right = self.whole.leading(gradient, count)
        columns = np.linalg.qr(np.hstack([self.left, left]))[0]
        rows = columns.T
        if not self.whole.symmetric:
            rows = np.linalg.qr(np.hstack([self.right.T, right.T]))[0].T
        vertex = self.whole.radius * np.outer(left[:, 0], right[0]).ravel()
        return Section(self.whole, columns, rows), vertex
