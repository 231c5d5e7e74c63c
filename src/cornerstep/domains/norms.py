"""Balls of norms, and ellipsoids: sets without corners, or with too many to list.

The oracle of the ball of a norm is its dual norm, ``min <g, v> = -radius * |g|_*``, and where that
is attained.  The ball of the k-support norm [1]_ is the hull of the vectors of at most k entries
and length at most radius; that of the ordered weighted l1 norm [2]_ is a polytope whose vertices
have k equal entries, ``+-radius / (w_1 + ... + w_k)``.

References
----------
.. [1] A. Argyriou, R. Foygel, N. Srebro. Sparse prediction with the k-support norm. NIPS 2012.
.. [2] X. Zeng, M. A. T. Figueiredo. The ordered weighted l1 norm: atomic formulation, projections,
   and algorithms. arXiv 1409.4271, 2014.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from cornerstep.core.matrix import as_vector
from cornerstep.core.rounding import EPSILON, gamma, norm
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector, Vector
from cornerstep.domains.base import INSIDE, require_positive, require_size
from cornerstep.domains.selection import smallest


class _NormBall:
    """``{|x| <= radius}`` for a norm of absolute values."""

    size: int
    radius: float

    def _norm(self, unit: FloatArray) -> float:
        """Of a vector of entries from 0 to 1, one of them 1."""
        raise NotImplementedError

    def _dual(self, unit: FloatArray) -> float:
        """The dual norm of such a vector."""
        raise NotImplementedError

    def _dual_norm(self, weights: FloatArray) -> float:
        unit, size = _rescaled(weights)
        return size * self._dual(unit) if size else 0.0

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether ``|x| <= radius (1 + tol)``."""
        unit, size = _rescaled(x)
        return size == 0 or bool(self._norm(unit) * (size / self.radius) <= 1 + tol)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|> + radius * |weights|_*``."""
        return float(weights @ np.abs(x)) + self.radius * self._dual_norm(weights)

    def lmo_error(self, gradient: FloatArray, vertex: Vector) -> float:
        """The norm of a vertex is rounded, and its entries are."""
        return gamma(4 * self.size + 64) * self.radius * self._dual_norm(gradient)


def _rescaled(x: FloatArray) -> tuple[FloatArray, float]:
    """``|x|`` over its largest entry, and that."""
    sizes = np.abs(x)
    size = float(sizes.max())
    return (sizes / size if size else sizes), size


class LpBall(_NormBall):
    r"""The ball of an lp norm, :math:`\{\|x\|_p \le r\}`.

    With p = 1 and p = infinity it is a polytope: :class:`L1Ball` and :class:`Box` know its faces.

    Parameters
    ----------
    n : int
        Number of coordinates.
    p : float
        From 1 to infinity.
    radius : float, default=1
    """

    def __init__(self, n: int, p: float, radius: float = 1.0) -> None:
        self.size = require_size(n)
        self.p = math.inf if p == math.inf else require_positive(p, "p")
        if self.p < 1:
            raise ValueError(f"p must be at least 1, got {p!r}")
        self.radius = require_positive(radius, "radius")
        self.q = 1.0 if self.p == math.inf else self.p / (self.p - 1) if self.p > 1 else math.inf
        self.diameter = 2 * self.radius * self.size ** max(0.0, 0.5 - 1 / self.p)

    def __repr__(self) -> str:
        return f"LpBall({self.size}, p={self.p:g}, radius={self.radius:g})"

    def _norm(self, unit: FloatArray) -> float:
        return _power_norm(unit, self.p)

    def _dual(self, unit: FloatArray) -> float:
        return _power_norm(unit, self.q)

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """``-sign(g) |g|^(q-1)`` on the sphere, with ``1/p + 1/q = 1``."""
        unit, size = _rescaled(gradient)
        signs = np.where(gradient > 0, -self.radius, self.radius)
        if self.p == math.inf:
            return signs
        if self.p == 1 or size == 0:
            best = int(unit.argmax())
            return np.where(np.arange(self.size) == best, signs, 0.0)
        powers = unit ** (1 / (self.p - 1))
        return signs * (powers / self._norm(powers))

    def start(self) -> FloatArray:
        """``radius * e_1``, or the corner of a cube."""
        return self.lmo(np.zeros(self.size))


def _power_norm(unit: FloatArray, p: float) -> float:
    if p == math.inf:
        return float(unit.max())
    return float((unit**p).sum() ** (1 / p))


class KSupportBall(_NormBall):
    r"""The ball of the k-support norm: the hull of k-sparse vectors of bounded length.

    :math:`\operatorname{conv} \{\|x\|_0 \le k,\ \|x\|_2 \le r\}`; k = 1 is the l1 ball, k = n the
    Euclidean one.

    Parameters
    ----------
    n : int
        Number of coordinates.
    k : int
        At most n.
    radius : float, default=1
    """

    def __init__(self, n: int, k: int, radius: float = 1.0) -> None:
        self.size = require_size(n)
        self.k = require_at_most(require_size(k, "k"), self.size)
        self.radius = require_positive(radius, "radius")
        self.diameter = 2 * self.radius

    def __repr__(self) -> str:
        return f"KSupportBall({self.size}, {self.k}, radius={self.radius:g})"

    def _norm(self, unit: FloatArray) -> float:
        """The least length of ``(z_1, ..., z_(k-r-1), (z_(k-r) + ... + z_n) / sqrt(r + 1))``.

        Entries sorted; of the r = 0, ..., k - 1 for which the last sum is at least
        ``(r + 1) z_(k-r)``: those are weights <= 1 of the entries that sum to k.
        """
        z, counts = np.sort(unit)[::-1], np.arange(1, self.k + 1)
        before = np.concatenate([[0.0], (z * z).cumsum()[: self.k - 1]])[::-1]
        rest = z[::-1].cumsum()[::-1][: self.k][::-1]
        allowed = rest >= counts * z[: self.k][::-1]
        return float(np.sqrt((before + rest * rest / counts)[allowed].min()))

    def _dual(self, unit: FloatArray) -> float:
        return norm(unit[smallest(-unit, self.k)])

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """The k largest entries of the gradient in absolute value, of length radius."""
        unit, size = _rescaled(gradient)
        if size == 0:
            return SparseVector([0], [self.radius], self.size)
        chosen = smallest(-unit, self.k)
        chosen = chosen[unit[chosen] > 0]
        values = unit[chosen] * (self.radius / norm(unit[chosen]))
        return SparseVector(chosen, -np.sign(gradient[chosen]) * values, self.size)

    def start(self) -> SparseVector:
        """``radius * e_1``."""
        return self.lmo(np.zeros(self.size))


class OWLBall(_NormBall):
    r"""The ball of the ordered weighted l1 norm, :math:`\{\sum_i w_i |x|_{(i)} \le r\}`.

    The largest :math:`|x_i|` has the largest weight.  Equal weights give the l1 ball, one weight
    the cube, falling ones groups of equal entries (OSCAR, SLOPE).

    Parameters
    ----------
    weights : array of shape (n,)
        Not negative, falling, the first positive.
    radius : float, default=1
    """

    def __init__(self, weights: Any, radius: float = 1.0) -> None:
        given = as_vector(weights, "weights")
        self.size = require_size(given.size, "the length of weights")
        if given.min() < 0 or (np.diff(given) > 0).any() or given[0] == 0:
            raise ValueError("weights must be >= 0, in falling order, the first of them positive")
        # In units of the first weight, so that sums of them stay inside float64.
        self.weights = given / given[0]
        self.radius = require_positive(radius, "radius") / float(given[0])
        require_positive(self.radius, "radius / weights[0]")
        self._sums = self.weights.cumsum()
        counts = np.arange(1, self.size + 1)
        self.diameter = 2 * self.radius * float((np.sqrt(counts) / self._sums).max())

    def __repr__(self) -> str:
        return f"OWLBall(size={self.size})"

    def _norm(self, unit: FloatArray) -> float:
        return float(np.sort(unit)[::-1] @ self.weights)

    def _dual(self, unit: FloatArray) -> float:
        """``max_k (the k largest entries) / (w_1 + ... + w_k)``."""
        return float((np.sort(unit)[::-1].cumsum() / self._sums).max())

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """Equal entries where the gradient is largest in absolute value."""
        unit = _rescaled(gradient)[0]
        order = np.argsort(-unit, kind="stable")
        count = int((unit[order].cumsum() / self._sums).argmax()) + 1
        chosen = order[:count]
        value = self.radius / self._sums[count - 1]
        return SparseVector(chosen, np.where(gradient[chosen] > 0, -value, value), self.size)

    def start(self) -> SparseVector:
        """The vertex with one entry."""
        return SparseVector([0], [self.radius], self.size)


class Ellipsoid:
    r"""The image of the unit ball, :math:`\{c + L u : \|u\|_2 \le 1\}`.

    With L = rho times a root of a covariance matrix S, :math:`S = L L^\top / \rho^2`, this is
    :math:`(x - c)^\top S^{-1} (x - c) \le \rho^2`.  It may be flat.

    Parameters
    ----------
    axes : array of shape (n,) or (n, m)
        The lengths of the semi-axes, along the coordinates; or L.
    center : array of shape (n,), optional
        Zero if None.
    """

    def __init__(self, axes: Any, center: Any = None) -> None:
        given = np.array(axes, dtype=np.float64)
        if given.ndim not in (1, 2) or not np.isfinite(given).all() or not given.any():
            raise ValueError(
                "axes must be a vector or a matrix of finite numbers, not all 0, got shape "
                f"{given.shape}"
            )
        self.size = given.shape[0]
        self.center = np.zeros(self.size) if center is None else as_vector(
            center, "center", self.size)  # fmt: skip
        self._scale = float(np.abs(given).max())
        given /= self._scale  # squares must not underflow
        # L = U diag(s) V': V turns the ball into itself.
        if given.ndim == 1:
            self._lengths, self._directions = np.abs(given), None
        else:
            U, lengths, _ = scipy.linalg.svd(given, full_matrices=False)
            kept = lengths > EPSILON * max(given.shape) * lengths[0]
            self._lengths, self._directions = lengths[kept], U[:, kept]
        self._rounding = gamma(16 * sum(given.shape))  # of the decomposition, in units
        self.diameter = 2 * self._scale * float(self._lengths.max())

    def __repr__(self) -> str:
        return f"Ellipsoid(size={self.size})"

    def _turned(self, gradient: FloatArray) -> FloatArray:
        return gradient if self._directions is None else self._directions.T @ gradient

    def _turned_back(self, u: FloatArray) -> FloatArray:
        return u if self._directions is None else self._directions @ u

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """``c - L L'g / |L'g|``."""
        unit = gradient / (float(np.abs(gradient).max()) or 1.0)
        way = self._lengths * self._turned(unit)
        length = norm(way)
        if length == 0:
            way[int(self._lengths.argmax())] = length = -1.0
        return self.center - self._scale * self._turned_back(self._lengths * (way / length))

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether ``x = c + Lu`` with ``|u| <= 1 + tol``, up to tol relative to c."""
        off = (x - self.center) / self._scale
        slack = tol * np.abs(self.center) / self._scale
        u = self._turned(off)
        if self._directions is not None:
            beside = np.abs(off - self._directions @ u) > slack + tol
            if beside.any():
                return False
            slack = np.abs(self._directions).T @ slack
        u = np.maximum(np.abs(u) - slack, 0.0)
        held = self._lengths > 0
        return not (u[~held] > tol).any() and norm(u[held] / self._lengths[held]) <= 1 + tol

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x - c| + widths>``, a width being the length of a row of L."""
        return float(weights @ (np.abs(x - self.center) + self._widths))

    @cached_property
    def _widths(self) -> FloatArray:
        if self._directions is None:
            return self._scale * self._lengths
        rows = self._directions * self._lengths
        return self._scale * (np.sqrt((rows * rows).sum(axis=1)) + self._rounding)

    def lmo_error(self, gradient: FloatArray, vertex: FloatArray) -> float:
        """Rounding of the decomposition, of the length, and of the sum with c."""
        sum_of_two = gamma(4) * float(np.abs(gradient) @ (np.abs(vertex) + np.abs(self.center)))
        return self._rounding * self.diameter * norm(gradient) + sum_of_two

    def start(self) -> FloatArray:
        """The end of the longest axis."""
        return self.lmo(np.zeros(self.size))


def require_at_most(k: int, n: int) -> int:
    """``k``, or an error that says that it must not exceed n."""
    if k > n:
        raise ValueError(f"k must be at most n = {n}, got {k}")
    return k
