"""Quadratic programs with bounds and few rows, by a primal-dual interior point method.

The problem, with the multipliers of its constraints:

``min  1/2 x'Hx + c'x   s.t.  Cx = d (y),  x >= l (z),  x <= u (v)``

The conditions of Karush, Kuhn and Tucker, with products at mu > 0 instead of 0, which is the
central path:

1. ``Hx + c - C'y - z + v = 0``
2. ``Cx = d``
3. ``(x - l) z = mu``,  ``(u - x) v = mu``

The algorithm is Mehrotra's predictor-corrector method, from the middle of the bounds.  A step:

1. Factorise the Newton matrix ``H + z / (x - l) + v / (u - x)`` with the rows C
   (:class:`_Newton`, on the smaller side).
2. Predictor: Newton's direction for mu = 0, and how far it can go.
3. The mean product it would reach tells mu: the less it reaches, the more is centred.
4. Corrector: Newton's direction for that mu, with the predictor's second-order terms.
5. Step nearly to the boundary.

A dozen steps do, whatever the condition number of H.  Points of the path lie inside all bounds;
:meth:`InteriorPoint.on_face` guesses which hold with equality at the optimum and solves what is
left exactly.

References
----------
.. [1] S. Mehrotra. On the implementation of a primal-dual interior point method. SIAM Journal on
   Optimization 2, 575-601, 1992.
.. [2] S. J. Wright. Primal-Dual Interior-Point Methods. SIAM, 1997.
.. [3] A. S. El-Bakry, R. A. Tapia, Y. Zhang. A study of indicators for identifying zero variables
   in interior-point methods. SIAM Review 36, 45-72, 1994.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from cornerstep.core.curvature import Curvature, dense_array
from cornerstep.core.types import FloatArray, IntArray

_BACK_OFF = 0.995  # of the way to the boundary
_LEAST_STEP = 1e-10  # shorter ones are rounding: there is no way on
_JITTER = 1e-13  # of the diagonal, which rows that depend on each other need
_LITTLE = 1e-9  # of the mean curvature: what directions without any get where bounds are guessed
_REFINED = 4  # repetitions that take this out of the answer again
_MIXED = 60  # steps of a small program over the simplex
_THIN = 0.1  # share of entries that are not 0, above which rows are better dense
_WORK = 1 << 30  # multiply-adds between two looks at the clock


class Program(NamedTuple):
    """The problem, by what is known at a point x: ``gradient = Hx + c``; l < u, maybe infinite.

    The last coordinates may be slacks, without curvature: -1 in one row each, those of ``slacks``.
    """

    curvature: Curvature
    gradient: FloatArray
    x: FloatArray
    lower: FloatArray
    upper: FloatArray
    rows: Any
    right: FloatArray
    slacks: IntArray = np.zeros(0, dtype=np.int64)


class _Newton:
    """``(H + D) dx - C'dy = p``, ``C dx = q`` for diagonal D >= 0, by the smaller of two factors.

    *By coordinates*: of ``H + D + G'TG``, with the rows G that have slacks, whose D is T, then of
    ``C (...)^-1 C'`` with the other rows; what rounding of large T leaves is solved for once more.
    *By rows*, with
    ``W = diagonal + D`` and E the root of H above C: from ``dx = W^-1 (p - E'e)``, where e is
    ``root dx`` above ``-dy``, follows ``(E W^-1 E' + J) e = E W^-1 p - (0, q)``, with J = 1 in the
    rows of the root and 0 in those of C.
    """

    def __init__(self, program: Program, expired: Callable[[], bool]) -> None:
        self.curvature, self.rows, self.slacks = program.curvature, program.rows, program.slacks
        curvature, rows, self.expired = self.curvature, self.rows, expired
        self.n = rows.shape[1] - self.slacks.size
        root = curvature.root
        self.n_root = 0 if root is None else root.shape[0]
        self.by_rows = curvature.matrix is None and self.n_root + rows.shape[0] < self.n
        if not self.by_rows:
            self.hessian = curvature.part(np.arange(self.n)).full()
            own = rows[:, : self.n]
            thin = sp.issparse(own) and own.nnz <= _THIN * own.shape[0] * self.n
            self.own = sp.csr_array(own) if thin else dense_array(own)
            return
        parts = [part for part in (root, rows) if part is not None and part.shape[0]]
        if all(sp.issparse(part) for part in parts):
            self.stacked: Any = sp.csr_array(sp.vstack(parts)) if parts else rows
        else:
            self.stacked = np.vstack([dense_array(part) for part in parts])

    def factorise(self, weights: FloatArray) -> bool:
        """For this D, infinite where dx is 0; whether that could be done."""
        return self._by_rows(weights) if self.by_rows else self._by_coordinates(weights)

    def _by_rows(self, weights: FloatArray) -> bool:
        self.inverse = 1.0 / (self.curvature.diagonal + weights)
        matrix = self._products()
        if matrix is None:
            return False
        ends = np.diag_indices(matrix.shape[0])
        matrix[ends] += _JITTER * matrix[ends] + (np.arange(matrix.shape[0]) < self.n_root)
        self.factor, done = _cholesky(matrix)
        return done

    def _products(self) -> FloatArray | None:
        """``E W^-1 E'`` (its upper triangle), or None if the time is up."""
        if sp.issparse(self.stacked) or not len(self.stacked):
            return dense_array((self.stacked * self.inverse) @ self.stacked.T)
        k, n = self.stacked.shape
        matrix = np.zeros((k, k), order="F")
        portion = max(1, _WORK // max(k * k, 1))
        for first in range(0, n, portion):
            if first and self.expired():
                return None
            some = slice(first, first + portion)
            part = self.stacked[:, some] * np.sqrt(self.inverse[some])
            matrix = dsyrk(1.0, part.T, beta=1.0, c=matrix, trans=1, overwrite_c=1)
        return matrix

    def _by_coordinates(self, weights: FloatArray) -> bool:
        self.free = np.flatnonzero(np.isfinite(weights[: self.n]))
        self.moving = np.flatnonzero(np.isfinite(weights[self.n :]))
        self.loose = self.slacks[self.moving]
        self.tight = np.setdiff1d(np.arange(self.rows.shape[0]), self.loose)
        self.weights, self.stiff = weights, weights[self.n :][self.moving]
        whole = self.free.size == self.n
        matrix = self.hessian.copy() if whole else self.hessian[np.ix_(self.free, self.free)]
        if self.loose.size:
            part = self.own[self.loose][:, self.free]
            matrix += dense_array(part.T @ (part * self.stiff[:, None]))
        ends = np.diag_indices(self.free.size)
        matrix[ends] += weights[self.free] + _JITTER * matrix[ends]
        self.factor, done = _cholesky(matrix.T)  # as LAPACK has it, which moves nothing
        if not done or self.expired():
            return False
        self.columns = dense_array(self.own[self.tight][:, self.free].T)
        self.spread = _solve(self.factor, self.columns)
        schur = self.columns.T @ self.spread
        schur[np.diag_indices(schur.shape[0])] *= 1 + _JITTER
        self.schur, done = _cholesky(schur)
        return done

    def solve(self, p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Newton's dx and dy."""
        if self.by_rows:
            right = self.stacked @ (self.inverse * p)
            right[self.n_root :] -= q
            e = _solve(self.factor, right)
            return self.inverse * (p - self.stacked.T @ e), -e[self.n_root :]
        dx, dy = self._solved(p, q)
        if self.loose.size:
            left = p + self.rows.T @ dy - self.curvature.times(dx)
            left[self.free] -= self.weights[self.free] * dx[self.free]
            moving = self.n + self.moving
            left[moving] -= self.stiff * dx[moving]
            more = self._solved(left, q - self.rows @ dx)
            dx, dy = dx + more[0], dy + more[1]
        return dx, dy

    def _solved(self, p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same by coordinates, as exact as the factors are."""
        dx, dy = np.zeros(p.size), np.zeros(q.size)
        u, slack = dx[: self.n], dx[self.n :]
        right = p[: self.n]
        if self.loose.size:
            beside = p[self.n :][self.moving] + self.stiff * q[self.loose]
            right = right + self.own[self.loose].T @ beside
        alone = _solve(self.factor, right[self.free])
        dy[self.tight] = _solve(self.schur, q[self.tight] - self.columns.T @ alone)
        u[self.free] = alone + self.spread @ dy[self.tight]
        if self.loose.size:
            slack[self.moving] = self.own[self.loose] @ u - q[self.loose]
            dy[self.loose] = p[self.n :][self.moving] - self.stiff * slack[self.moving]
        return dx, dy


def _cholesky(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """The upper factor of a matrix whose upper triangle counts, and whether there is one."""
    if not matrix.size:
        return matrix, True
    factor, failed = dpotrf(matrix, overwrite_a=1)
    return factor, not failed and bool(np.isfinite(factor[-1, -1]))


def _solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    out: FloatArray = dpotrs(factor, right)[0] if right.size else right
    return out


class InteriorPoint:
    """A point of the path of a program, with its multipliers.

    Parameters
    ----------
    program : Program
    expired : callable
        Whether the time is up; long steps ask.
    """

    def __init__(self, program: Program, expired: Callable[[], bool]) -> None:
        self.program = program
        self._newton = _Newton(program, expired)
        lower, upper = program.lower, program.upper
        self._low, self._high = (np.flatnonzero(np.isfinite(bound)) for bound in (lower, upper))
        self.x = _middle(program.x, lower, upper)
        self._gradient = program.gradient + program.curvature.times(self.x - program.x)
        self._y = np.zeros(program.right.size)
        self._measure()
        steep = np.abs(self._gradient)
        products = np.concatenate([self._above * steep[self._low], self._below * steep[self._high]])
        product = float(products.mean()) if products.any() else 1.0
        self._z = np.maximum(self._gradient[self._low], 0.0) + product / self._above
        self._v = np.maximum(-self._gradient[self._high], 0.0) + product / self._below
        self._at_lower = np.zeros(self._low.size, dtype=bool)
        self._at_upper = np.zeros(self._high.size, dtype=bool)

    def _measure(self) -> None:
        self._above = self.x[self._low] - self.program.lower[self._low]
        self._below = self.program.upper[self._high] - self.x[self._high]

    @property
    def gap(self) -> float:
        """The sum of the products: what x is above the optimum by, once conditions 1 and 2 hold."""
        return float(self._above @ self._z + self._below @ self._v)

    def step(self) -> bool:
        """One step of the predictor-corrector method; whether there was a way on."""
        weights = np.zeros(self.x.size)
        weights[self._low] += self._z / self._above
        weights[self._high] += self._v / self._below
        if not self._newton.factorise(weights):
            return False
        above, below, z, v = self._above, self._below, self._z, self._v
        mean = self.gap / max(z.size + v.size, 1)
        dx, _, dz, dv = self._direction(-above * z, -below * v)
        reach = self._room(dx, dz, dv)
        ahead = (above + reach * dx[self._low]) @ (z + reach * dz)
        ahead += (below - reach * dx[self._high]) @ (v + reach * dv)
        left = float(ahead) / self.gap if mean > 0 else 0.0
        centre = mean * min(max(left, 0.0), 1.0) ** 3
        dx, dy, dz, dv = self._direction(
            centre - above * z - dx[self._low] * dz, centre - below * v + dx[self._high] * dv
        )
        step = min(1.0, _BACK_OFF * self._room(dx, dz, dv))
        if not (step > _LEAST_STEP and np.isfinite(dx).all()):
            return False
        self.x, self._y = self.x + step * dx, self._y + step * dy
        self._z, self._v = z + step * dz, v + step * dv
        self._gradient = self._gradient + step * self.program.curvature.times(dx)
        self._measure()
        self._at_lower = self._above * z < self._z * above
        self._at_upper = self._below * v < self._v * below
        return bool(self._above.min(initial=1.0) > 0 and self._below.min(initial=1.0) > 0)

    def _direction(
        self, at_lower: FloatArray, at_upper: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Newton's direction, for these changes of the products."""
        rows, right = self.program.rows, self.program.right
        p = rows.T @ self._y - self._gradient
        p[self._low] += self._z + at_lower / self._above
        p[self._high] -= self._v + at_upper / self._below
        dx, dy = self._newton.solve(p, right - rows @ self.x)
        dz = (at_lower - self._z * dx[self._low]) / self._above
        dv = (at_upper + self._v * dx[self._high]) / self._below
        return dx, dy, dz, dv

    def _room(self, dx: FloatArray, dz: FloatArray, dv: FloatArray) -> float:
        """How far until a distance or a multiplier is 0, a little over 1 at most."""
        step = 1 / _BACK_OFF
        values = self._above, self._below, self._z, self._v
        for value, change in zip(values, (dx[self._low], -dx[self._high], dz, dv), strict=True):
            falls = change < 0
            if falls.any():
                step = min(step, float((value[falls] / -change[falls]).min()))
        return step

    def on_face(self) -> FloatArray | None:
        """The minimum with bounds as equations whose distance fell faster than its multiplier.

        None where that leaves other bounds, or cannot be solved.  Why this tells: [3]_.
        """
        program = self.program
        x, y = self.x.copy(), self._y
        down, up = self._low[self._at_lower], self._high[self._at_upper]
        x[down], x[up] = program.lower[down], program.upper[up]
        weights = np.full(x.size, _LITTLE * (program.curvature.mean or 1.0))
        weights[down] = weights[up] = np.inf
        if not self._newton.factorise(weights):
            return None
        gradient = self._gradient + program.curvature.times(x - self.x)
        for _ in range(_REFINED):
            missing = program.right - program.rows @ x
            dx, dy = self._newton.solve(program.rows.T @ y - gradient, missing)
            x, y = x + dx, y + dy
            gradient = gradient + program.curvature.times(dx)
        inside = (x >= program.lower).all() and (x <= program.upper).all()
        return x if inside and np.isfinite(x).all() else None


def best_mixture(gram: FloatArray, linear: FloatArray, tol: float) -> FloatArray:
    """The x of the simplex with the least ``1/2 x'Gx - l'x``, to within ``tol``.

    From the centre, and inside: points that are not needed yet keep a little weight.  What comes
    back is in the simplex also where rounding ends the path early.

    Parameters
    ----------
    gram : array of shape (k, k)
        G, symmetric and positive semidefinite.
    linear : array of shape (k,)
        l.
    tol : float

    Returns
    -------
    array of shape (k,)
    """
    k = linear.size
    best, least = np.full(k, 1.0 / k), np.inf
    size = max(float(np.abs(gram).max()), float(np.abs(linear).max()))
    if k == 1 or size == 0.0:
        return best
    curvature = Curvature(np.zeros(k), matrix=gram / size)
    program = Program(
        curvature, curvature.times(best) - linear / size, best, np.zeros(k), np.full(k, np.inf),
        np.ones((1, k)), np.ones(1),
    )  # fmt: skip
    point = InteriorPoint(program, lambda: False)
    for _ in range(_MIXED):
        x = point.x / point.x.sum()
        gradient = curvature.times(x) - linear / size
        gap = float(gradient @ x - gradient.min())  # Frank-Wolfe's
        if gap < least:
            best, least = x, gap
        if gap <= tol / size or not point.step():
            break
    return best


def _middle(x: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Halfway between two bounds; as far from a single one as x is large; x where there is none."""
    low, high = np.isfinite(lower), np.isfinite(upper)
    size = float(np.abs(x).max(initial=0.0)) or 1.0
    out = np.where(low, np.maximum(x, lower + size), np.where(high, np.minimum(x, upper - size), x))
    both = low & high
    out[both] = 0.5 * lower[both] + 0.5 * upper[both]
    return out
