"""The spectraplex: positive semidefinite matrices of a given trace.

References
----------
.. [1] E. Hazan. Sparse approximate solutions to semidefinite programs. LATIN 2008.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from cornerstep.core.rounding import gamma, norm
from cornerstep.core.types import FloatArray
from cornerstep.domains.balls import LANCZOS, WarmStart
from cornerstep.domains.base import INSIDE, require_positive, require_size
from cornerstep.domains.sections import Section
from cornerstep.domains.simplex import Simplex

_FULL = 100  # up to this side all eigenvalues are quicker than Lanczos ones


class Spectraplex:
    r"""The symmetric matrices :math:`X \succeq 0` with :math:`\operatorname{tr} X = r`, flattened.

    The extreme points are :math:`r u u^\top` of unit vectors u; the oracle finds the least
    eigenvalue of the symmetric part of the gradient, by Lanczos's method from its last answer.

    Parameters
    ----------
    n : int
        Side of the matrices.
    radius : float, default=1
        The trace.
    """

    symmetric = True

    def __init__(self, n: int, radius: float = 1.0) -> None:
        side = require_size(n)
        self.shape = (side, side)
        self.size = side * side
        self.radius = require_positive(radius, "radius")
        self.diameter = self.radius * float(np.sqrt(2.0)) if side > 1 else 0.0
        self.forget()

    def __repr__(self) -> str:
        return f"Spectraplex({self.shape[0]}, radius={self.radius:g})"

    def forget(self) -> None:
        """A new run: its answers do not depend on those of others."""
        self._start = WarmStart(self.shape[0])

    def _symmetric(self, gradient: FloatArray) -> tuple[FloatArray, float]:
        """The symmetric part over its largest entry, and that: squares must not underflow."""
        size = float(np.abs(gradient).max()) or 1.0
        half = gradient.reshape(self.shape) / (2 * size)
        return half + half.T, size

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """``radius * u u'`` of an eigenvector u of the least eigenvalue, to full precision."""
        u = self.leading(gradient, 1)[0][:, 0]
        return (self.radius / (u @ u) * np.outer(u, u)).ravel()

    def leading(self, gradient: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Eigenvectors of the least eigenvalues, the least first, as columns and as rows."""
        matrix, _ = self._symmetric(gradient)
        if len(matrix) > _FULL and 2 * count <= len(matrix) and matrix.any():
            with suppress(ArpackNoConvergence):  # of values too close to each other
                values, vectors = eigsh(
                    matrix, k=count, which="SA", tol=0, v0=self._start.vector(), maxiter=LANCZOS
                )
                vectors = vectors[:, values.argsort()]
                self._start.last = vectors[:, 0]
                return vectors, vectors.T
        vectors = scipy.linalg.eigh(matrix, subset_by_index=(0, count - 1))[1]
        return vectors, vectors.T

    def small(self, shape: tuple[int, int]) -> Spectraplex:
        """The spectraplex of matrices of another side."""
        return Spectraplex(shape[0], self.radius)

    def section(self, x: FloatArray) -> Section:
        """The points with the range of x."""
        return Section.containing(self, x)

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether X is symmetric and semidefinite and the trace is right, up to tol * radius."""
        X, slack = x.reshape(self.shape), tol * self.radius
        if np.abs(X - X.T).max() > slack or abs(np.trace(X) - self.radius) > slack:
            return False
        least = scipy.linalg.eigvalsh(X / self.radius, subset_by_index=(0, 0))[0]
        return bool(least >= -tol)

    def slip(self, x: FloatArray) -> FloatArray:
        """What makes X symmetric, then all eigenvalues >= 0, then the trace right."""
        X, n = x.reshape(self.shape), self.shape[0]
        half = X / 2 + X.T / 2
        rounding = gamma(8 * n) * norm(x)
        least = float(scipy.linalg.eigvalsh(half / self.radius, subset_by_index=(0, 0))[0])
        shift = max(0.0, rounding - least * self.radius)
        moved = half + shift * np.eye(n)
        off = abs(float(np.trace(moved)) - self.radius) + n * gamma(n) * shift + rounding
        return np.asarray(
            np.abs(X - half) + shift * np.eye(n) + np.abs(moved) * (off / self.radius)
        ).ravel()

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|> + radius * |weights|``, as no vertex is longer than radius."""
        return float(weights @ np.abs(x)) + self.radius * norm(weights)

    def lmo_error(self, gradient: FloatArray, vertex: FloatArray) -> float:
        """What ``<gradient, vertex>`` is above ``radius`` times a proven bound of all eigenvalues.

        A matrix whose Cholesky factor can be computed has no eigenvalue below its rounding.
        """
        matrix, size = self._symmetric(gradient)
        rounding = gamma(8 * len(matrix)) * norm(matrix.ravel())
        found = float((vertex / self.radius) @ matrix.ravel())
        least = found
        try:
            np.linalg.cholesky(matrix - (found - 2 * rounding) * np.eye(len(matrix)))
        except np.linalg.LinAlgError:  # Lanczos has missed it, or the bound is close
            least = min(found, float(scipy.linalg.eigvalsh(matrix, subset_by_index=(0, 0))[0]))
        return (found - least + 4 * rounding) * self.radius * size

    def project(self, y: FloatArray) -> FloatArray:
        """Project the eigenvalues onto the simplex."""
        matrix, size = self._symmetric(y)
        values, vectors = scipy.linalg.eigh(matrix)
        near = Simplex(values.size, self.radius).project(values * size)
        return ((vectors * near) @ vectors.T).ravel()
