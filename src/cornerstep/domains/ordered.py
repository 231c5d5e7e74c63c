"""Polytopes whose oracles sort: permutations of a vector, and sparse vectors of signs.

Permutations of a vector span the base polytope of a submodular function [1]_, onto which isotonic
regression projects [2]_.

References
----------
.. [1] J. Edmonds. Submodular functions, matroids, and certain polyhedra. In: Combinatorial
   Structures and their Applications, 69-87, 1970.
.. [2] M. Blondel, O. Teboul, Q. Berthet, J. Djolonga. Fast differentiable sorting and ranking.
   ICML 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from cornerstep.core.matrix import as_vector
from cornerstep.core.rounding import gamma, norm
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector
from cornerstep.domains.balls import L1Ball
from cornerstep.domains.base import (
    INSIDE,
    SNAP,
    TIGHT,
    ratio_test,
    require_positive,
    require_size,
    sum_step,
)
from cornerstep.domains.norms import require_at_most
from cornerstep.domains.simplex import CappedSimplex

_CUTS = 1000  # sets that a largest step may look at: each brings it nearer, a few do


class KSparsePolytope:
    r"""The hull of the vectors with k entries of +-radius, :math:`\|x\|_1 \le k r,\ |x_i| \le r`.

    Absolute values of its points are those of ``CappedSimplex(n, k r, r, at_most=True)``.

    Parameters
    ----------
    n : int
        Number of coordinates.
    k : int
        At most n; 1 is the l1 ball, n the cube.
    radius : float, default=1
    """

    def __init__(self, n: int, k: int, radius: float = 1.0) -> None:
        self.size = require_size(n)
        self.k = require_at_most(require_size(k, "k"), self.size)
        self.radius = require_positive(radius, "radius")
        total = self.k * self.radius
        self._sizes = CappedSimplex(self.size, total, self.radius, at_most=True)
        self._tight = CappedSimplex(self.size, total, self.radius)
        self._ball = L1Ball(self.size, total)
        self.diameter = 2 * self.radius * float(np.sqrt(self.k))

    def __repr__(self) -> str:
        return f"KSparsePolytope({self.size}, {self.k}, radius={self.radius:g})"

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """The k largest entries of the gradient in absolute value, against their signs."""
        return self._signed(gradient, self._tight.lmo(-np.abs(gradient)))

    def _signed(self, gradient: FloatArray, sizes: SparseVector) -> SparseVector:
        signs = np.where(gradient[sizes.indices] > 0, -1.0, 1.0)
        return SparseVector(sizes.indices, signs * sizes.values, self.size)

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> SparseVector:
        """The same among vertices that share the entries at +-radius, and all signs if k are spent.

        Where the sum of absolute values is at its bound, zeros stay zero too.
        """
        sizes, signs = np.abs(x), np.where(x < 0, -1.0, 1.0)
        if sizes.sum() >= self._ball.radius * (1 - TIGHT):
            found = self._tight.in_face_lmo(signs * gradient, sizes)
            return SparseVector(found.indices, signs[found.indices] * found.values, self.size)
        full = sizes >= self.radius
        keys = np.where(full, -np.inf, -np.abs(gradient))
        return self._signed(np.where(full, -signs, gradient), self._tight.lmo(keys))

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until an entry reaches +-radius, or the sum of absolute values its bound."""
        return min(ratio_test(x, d, -self.radius, self.radius), self._ball.max_step(x, d))

    def snap(self, x: FloatArray) -> None:
        """Put entries within rounding of 0 or +-radius onto it; restore the sum if it is over."""
        sizes = np.abs(x)
        self._sizes.snap(sizes)
        np.copysign(sizes, x, out=x)

    def start(self) -> SparseVector:
        """The vertex that fills the first coordinates."""
        return self._tight.start()

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether all constraints hold up to tol."""
        return self._sizes.contains(np.abs(x), tol)

    def slip(self, x: FloatArray) -> FloatArray:
        """That of the absolute values."""
        return self._sizes.slip(np.abs(x))

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|>`` and radius times the k largest weights."""
        return float(weights @ np.abs(x)) + float(self._tight.lmo(-weights) @ weights)

    def lmo_error(self, gradient: FloatArray, vertex: SparseVector) -> float:
        """As of the capped simplex."""
        return self._tight.lmo_error(gradient, vertex)

    def project(self, y: FloatArray) -> FloatArray:
        """The absolute values, projected onto theirs."""
        return np.copysign(self._sizes.project(np.abs(y)), y)


class Permutahedron:
    r"""The hull of all permutations of a vector.

    :math:`\{\sum_i x_i = \sum_i w_i,\ \sum_{i \in S} x_i \le w_{(1)} + \dots + w_{(|S|)}\}` for all
    sets S, with :math:`w_{(1)} \ge w_{(2)} \ge \dots`.  A face is given by the sets whose sums
    are at their bounds: they are first entries of x in falling order.

    Parameters
    ----------
    values : array of shape (n,)
        The vector that is permuted, w.
    """

    cheap_faces = False  # in-face pairwise steps exchange two coordinates at a time

    def __init__(self, values: Any) -> None:
        self.values = np.sort(as_vector(values, "values"))[::-1].copy()
        self.size = require_size(self.values.size, "the length of values")
        self.diameter = norm(self.values - self.values[::-1])
        self._sums = self.values.cumsum()
        self._scale = float(np.abs(self.values).sum())

    def __repr__(self) -> str:
        return f"Permutahedron(size={self.size})"

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """The largest value where the gradient is smallest, and so on."""
        vertex = np.empty(self.size)
        vertex[np.argsort(gradient, kind="stable")] = self.values
        return vertex

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> FloatArray:
        """The same inside each part of x, in falling order, between two sums at their bounds."""
        order = np.argsort(-x, kind="stable")
        tight = x[order].cumsum() >= self._sums - TIGHT * self._scale
        part = np.concatenate([[0], tight[:-1].cumsum()])  # by place in the order
        vertex = np.empty(self.size)
        vertex[order[np.lexsort((gradient[order], part))]] = self.values
        return vertex

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """The largest t with all sums of ``x + t d`` below their bounds, by Newton's method.

        From the sets of the largest d on: each step goes to where the sets that x + t d violates
        are at their bounds, and so never below the answer.
        """
        largest = float(np.abs(d).max(initial=0.0))
        if largest <= SNAP * float(np.abs(self.values).max()):
            return np.inf
        step = self._step_for(np.argsort(-d, kind="stable"), x, d)
        for _ in range(_CUTS):
            order = np.argsort(-(x + step * d), kind="stable")
            nearer = self._step_for(order, x, d)
            if not nearer < step:
                break
            step = nearer
        return step

    def _step_for(self, order: Any, x: FloatArray, d: FloatArray) -> float:
        """The largest t for the sets of the first entries in this order."""
        room = np.maximum(self._sums - x[order].cumsum(), 0.0)[:-1]
        growth, sizes = d[order].cumsum()[:-1], np.abs(d[order]).cumsum()[:-1]
        real = growth > np.maximum(TIGHT * sizes, SNAP * self._scale)
        step = float((room[real] / growth[real]).min(initial=np.inf))
        drift = float(growth[~real].max(initial=0.0))  # sums that grow by rounding only
        step = sum_step(step, 0.0, drift, TIGHT * self._scale) if drift > 0 else step
        total = float(d.sum())
        off = float(x.sum()) - float(self._sums[-1])
        return sum_step(step, off, total, TIGHT * self._scale)

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether all sums are right up to tol, relative to the sum of absolute values."""
        excess = np.sort(x)[::-1].cumsum() - self._sums
        slack = tol * self._scale
        return bool((excess <= slack).all() and abs(excess[-1]) <= slack)

    def start(self) -> FloatArray:
        """The values in falling order."""
        return self.values.copy()

    def slip(self, x: FloatArray) -> FloatArray:
        """Twice what the sums are off by.

        As much in all lowers x below all bounds, twice as much in all raises that to the sum.
        """
        sums = np.sort(x)[::-1].cumsum()
        excess = np.maximum(sums - self._sums, 0.0).max() + abs(float(sums[-1] - self._sums[-1]))
        rounding = gamma(2 * self.size) * (self._scale + float(np.abs(x).sum()))
        return np.full(self.size, 2 * (excess + rounding))

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, |x|>`` and the largest weights times the largest values."""
        largest = float(np.sort(weights) @ np.sort(np.abs(self.values)))
        return float(weights @ np.abs(x)) + largest

    def project(self, y: FloatArray) -> FloatArray:
        """The nearest point: sorted y less an isotonic regression of ``y - values``."""
        order = np.argsort(-y, kind="stable")
        ordered = y[order] - y[order[0]]
        ends = isotonic_regression(ordered - self.values, increasing=False).blocks
        counts = np.diff(ends)
        # What is added to a block, as a sum of small numbers: y may be far larger than the values.
        ordered -= np.repeat(ordered[ends[:-1]], counts)
        added = np.add.reduceat(self.values - ordered, ends[:-1]) / counts
        out = np.empty(self.size)
        out[order] = ordered + np.repeat(added, counts)
        return out
