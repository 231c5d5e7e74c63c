"""Norm balls: l1 (a polytope), Euclidean and nuclear (oracle and projection only).

References
----------
.. [1] M. Jaggi, M. Sulovský. A simple algorithm for nuclear norm regularized problems. ICML 2010.
.. [2] M. Held, P. Wolfe, H. P. Crowder. Validation of subgradient optimization. Mathematical
   Programming 6, 62-88, 1974.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, svds

from cornerstep.core.rounding import gamma, norm
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector, single_entries
from cornerstep.domains.base import (
    INSIDE,
    SNAP,
    TIGHT,
    require_positive,
    require_size,
    slip_of_sum,
    sum_step,
)
from cornerstep.domains.sections import Section
from cornerstep.domains.selection import smallest
from cornerstep.domains.simplex import Simplex

LANCZOS = 30  # restarts of Lanczos's method, about as dear as all singular values


class L1Ball:
    r"""The ball of the l1 norm, :math:`\{\|x\|_1 \le r\}`, with vertices :math:`\pm r e_i`.

    Parameters
    ----------
    n : int
        Number of coordinates.
    radius : float, default=1
    """

    def __init__(self, n: int, radius: float = 1.0) -> None:
        self.size = require_size(n)
        self.radius = require_positive(radius, "radius")
        self.n_atoms = 2 * self.size
        self.diameter = 2 * self.radius

    def __repr__(self) -> str:
        return f"L1Ball({self.size}, radius={self.radius:g})"

    def atom(self, i: int) -> SparseVector:
        """``radius * e_i``, and ``-radius * e_(i - n)`` for i >= n."""
        sign = 1.0 if i < self.size else -1.0
        return SparseVector([i % self.size], [sign * self.radius], self.size)

    def atom_scores(self, indices: IntArray, gradient: FloatArray) -> FloatArray:
        """``<gradient, atom(i)>`` for each i in indices."""
        signs = np.where(indices < self.size, self.radius, -self.radius)
        return signs * gradient[indices % self.size]

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """The coordinate with the largest gradient in absolute value, against its sign."""
        i = int(np.abs(gradient).argmax())
        return self.atom(i + self.size if gradient[i] > 0 else i)

    def lmo_many(self, gradient: FloatArray, count: int) -> list[SparseVector]:
        """Vertices of the coordinates with the largest gradients in absolute value, in order."""
        chosen = smallest(-np.abs(gradient), count)
        signs = np.where(gradient[chosen] > 0, -self.radius, self.radius)
        return single_entries(chosen, signs, self.size)

    def _on_sphere(self, x: FloatArray) -> bool:
        return bool(np.abs(x).sum() >= self.radius * (1 - TIGHT))

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> SparseVector:
        """Inside: the LMO.  On the sphere: signed coordinates of the support of x only."""
        if not self._on_sphere(x):
            return self.lmo(gradient)
        support = x.nonzero()[0]
        signs = np.sign(x[support])
        best = int((signs * gradient[support]).argmin())
        i = int(support[best])
        return self.atom(i if signs[best] > 0 else i + self.size)

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """The largest root of ``|x + t d|_1 = radius``, which is piecewise linear and convex."""
        moving = d.nonzero()[0]
        rest = 0.0 if self._on_sphere(x) else self.radius - float(np.abs(x).sum())
        x, d = x[moving], d[moving]
        if moving.size == 0:
            return np.inf
        # Slope of the norm just after 0; it rises by 2|d_i| where a coordinate changes sign.
        slope = float(np.where(x == 0, np.abs(d), np.sign(x) * d).sum())
        crossing = x * d < 0
        times = -x[crossing] / d[crossing]
        order = times.argsort()
        rises = 2 * np.abs(d[crossing][order])
        noise, room = 0.0, rest + TIGHT * self.radius
        if abs(slope) <= max(TIGHT * float(np.abs(d).sum()), SNAP * self.radius):
            noise, slope = slope, 0.0
        time = 0.0
        for event, rise in zip(times[order], rises, strict=True):
            if slope > 0 and rest <= slope * (event - time):
                break
            rest -= slope * (event - time)
            time = float(event)
            slope += float(rise)
        step = time + rest / slope if slope > 0 else np.inf
        return sum_step(step, 0.0, noise, room) if noise > 0 else step

    def snap(self, x: FloatArray) -> None:
        """Zero coordinates that are zero to rounding; shrink what rounding has put outside."""
        sizes = np.abs(x)
        x[sizes <= SNAP * self.radius] = 0.0
        total = float(sizes.sum())
        if self.radius < total <= self.radius * (1 + 2 * INSIDE):
            x *= self.radius / total

    def start(self) -> SparseVector:
        """The first vertex."""
        return self.atom(0)

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether ``|x|_1 <= radius (1 + tol)``."""
        return bool(np.abs(x).sum() <= self.radius * (1 + tol))

    def slip(self, x: FloatArray) -> FloatArray:
        """What the sum of absolute values is above the radius, in the shares of the entries."""
        return slip_of_sum(np.abs(x), np.inf, self.radius, at_most=True)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|> + radius * max weights``."""
        return float(weights @ np.abs(x)) + self.radius * float(weights.max())

    def project(self, y: FloatArray) -> FloatArray:
        """Soft thresholding, through the simplex of absolute values."""
        if np.abs(y).sum() <= self.radius:
            return y.copy()
        return np.sign(y) * Simplex(self.size, self.radius).project(np.abs(y))


class Ball:
    r"""The Euclidean ball, :math:`\{\|x\|_2 \le r\}`.

    Parameters
    ----------
    n : int
        Number of coordinates.
    radius : float, default=1
    """

    def __init__(self, n: int, radius: float = 1.0) -> None:
        self.size = require_size(n)
        self.radius = require_positive(radius, "radius")
        self.diameter = 2 * self.radius

    def __repr__(self) -> str:
        return f"Ball({self.size}, radius={self.radius:g})"

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """``-radius * gradient / |gradient|``."""
        size = float(np.abs(gradient).max())
        if size == 0:
            return self.start()
        unit = gradient / size
        return unit * (-self.radius / float(np.sqrt(unit @ unit)))

    def start(self) -> FloatArray:
        """``radius * e_1``."""
        out = np.zeros(self.size)
        out[0] = self.radius
        return out

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether ``|x|_2 <= radius (1 + tol)``."""
        return norm(x) <= self.radius * (1 + tol)

    def slip(self, x: FloatArray) -> FloatArray:
        """What a length, which is rounded, is above the radius, in the shares of the entries."""
        return np.abs(x) * max(0.0, norm(x) * (1 + gamma(self.size + 8)) / self.radius - 1)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|> + radius * |weights|``."""
        return float(weights @ np.abs(x)) + self.radius * norm(weights)

    def lmo_error(self, gradient: FloatArray, vertex: FloatArray) -> float:
        """The length of a vertex is rounded."""
        return gamma(self.size + 4) * self.radius * norm(gradient)

    def project(self, y: FloatArray) -> FloatArray:
        """Scale y back onto the ball if it is outside."""
        length = norm(y)
        return y * (self.radius / length) if length > self.radius else y.copy()


class WarmStart:
    """Where Lanczos's method starts: near the last answer, with a share that is random.

    The last answer alone may be orthogonal to the next.

    Parameters
    ----------
    size : int
    """

    _NEW = 1e-3  # 10 to 25 % fewer products than from a random vector

    def __init__(self, size: int) -> None:
        self._rng = np.random.default_rng(0)
        self.last = self._rng.standard_normal(size)

    def vector(self) -> FloatArray:
        """The start of the next run."""
        noise = self._rng.standard_normal(self.last.size)
        return self.last / norm(self.last) + self._NEW / norm(noise) * noise


class NuclearNormBall:
    """The matrices whose singular values sum to at most a radius, flattened row by row.

    Parameters
    ----------
    shape : (int, int)
        Shape of the matrices.
    radius : float, default=1
    """

    symmetric = False
    _FULL_SVD = 100  # up to this smaller side a full SVD is quicker than a Lanczos one

    def __init__(self, shape: tuple[int, int], radius: float = 1.0) -> None:
        if np.shape(shape) != (2,):
            raise ValueError(f"shape must be two integers, got {shape!r}")
        rows, columns = shape
        self.shape = (require_size(rows, "shape[0]"), require_size(columns, "shape[1]"))
        self.size = self.shape[0] * self.shape[1]
        self.radius = require_positive(radius, "radius")
        self.diameter = 2 * self.radius
        self.forget()

    def forget(self) -> None:
        """A new run: its answers do not depend on those of others."""
        self._start = WarmStart(min(self.shape))

    def __repr__(self) -> str:
        return f"NuclearNormBall({self.shape}, radius={self.radius:g})"

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """``-radius * u v'`` of the leading singular pair, to full precision: the gap needs it."""
        left, right = self.leading(gradient, 1)
        return (self.radius * (left @ right)).ravel()

    def leading(self, gradient: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Columns -u and rows v of the leading singular pairs, the first of them first."""
        size = float(np.abs(gradient).max()) or 1.0  # squares of the entries must not underflow
        matrix = (gradient / size).reshape(self.shape)
        side = min(self.shape)
        if side > self._FULL_SVD and 2 * count <= side and matrix.any():
            with suppress(ArpackNoConvergence):  # of values too close to each other
                left, values, right = svds(
                    matrix, k=count, tol=0, v0=self._start.vector(), maxiter=LANCZOS
                )
                order = values.argsort()[::-1]
                left, right = left[:, order], right[order]
                self._start.last = left[:, 0] if self.shape[0] < self.shape[1] else right[0]
                return -left, right
        left, _, right = scipy.linalg.svd(matrix, full_matrices=False)
        return -left[:, :count], right[:count]

    def small(self, shape: tuple[int, int]) -> NuclearNormBall:
        """The ball of matrices of another shape."""
        return NuclearNormBall(shape, self.radius)

    def section(self, x: FloatArray) -> Section:
        """The points with the row and column space of x."""
        return Section.containing(self, x)

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether the singular values sum to at most radius (1 + tol)."""
        values = scipy.linalg.svdvals(x.reshape(self.shape))
        return bool(values.sum() <= self.radius * (1 + tol))

    def slip(self, x: FloatArray) -> FloatArray:
        """What the singular values, which are rounded, sum to above the radius, in shares."""
        total = float(scipy.linalg.svdvals(x.reshape(self.shape)).sum())
        over = total * (1 + gamma(8 * sum(self.shape) * min(self.shape))) / self.radius - 1
        return np.abs(x) * max(0.0, over)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|> + radius * |weights|``, as no vertex is longer than radius."""
        return float(weights @ np.abs(x)) + self.radius * norm(weights)

    def lmo_error(self, gradient: FloatArray, vertex: FloatArray) -> float:
        """A computed singular value is off by a few roundings of the largest (LAPACK, ARPACK)."""
        return gamma(8 * sum(self.shape)) * self.radius * norm(gradient)

    def project(self, y: FloatArray) -> FloatArray:
        """Project the singular values onto the l1 ball."""
        left, values, right = scipy.linalg.svd(y.reshape(self.shape), full_matrices=False)
        return ((left * L1Ball(values.size, self.radius).project(values)) @ right).ravel()
