"""Newton steps for the master: the program over some examples, and a point inside its constraints.

``min over d and gamma of  gamma + tau sum_i d_i ln(d_i / p_i)   s.t.  (A'd)_j + b_j <= gamma,
0 <= d_i <= c_i, sum d = mass``; the other examples keep their d, which gives the b_j.  The
multipliers of the edges are the weights w.  A step solves with ``A diag(.) A' + diag(.)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cornerstep.boosting.long_work import in_parts, never
from cornerstep.boosting.problem import SoftMargin
from cornerstep.core.types import FloatArray, IntArray

_SPREAD = 0.1  # of the weights, over all hypotheses at a good start
_SLACK = 0.3  # of the gap: the least slack there
# share of the largest Newton weight below which an example is left out of A D A'
_NEGLIGIBLE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}
_BACK_OFF = 0.99  # of the way to the boundary


class Start(NamedTuple):
    """Weights of the last solution, 0 for hypotheses that came since; the gap they seem to have."""

    weights: FloatArray
    gap: float


class MasterSolution(NamedTuple):
    """Weights and distribution with ``rho(w) <= optimum over the hypotheses <= max edge(d)``."""

    weights: FloatArray
    image: FloatArray  # A w
    soft_margin: float
    distribution: FloatArray
    edge: float  # of the hypotheses with weight, up to the gap
    edges: FloatArray  # A'd


def threshold(problem: SoftMargin, z: FloatArray) -> float:
    """The margin that parts the worst examples, which share ``nu``, from the harmless ones."""
    order = np.argsort(z)
    k = int(np.searchsorted(np.cumsum(problem.caps[order]), 1.0 - 1e-12))
    return float(z[order[min(k, z.size - 1)]])


class Restriction:
    """The program over the examples ``rows``; the others keep d at its cap or at 0.

    ``last``: the margins of the last solution, which say who is where.
    """

    def __init__(
        self,
        problem: SoftMargin,
        margins: FloatArray,
        rows: IntArray | None,
        last: FloatArray | None,
        dtype: Any,
    ) -> None:
        self.problem, self.rows = problem, rows
        self.mass, self.caps, self.prior = 1.0, problem.caps, problem.prior
        self.fixed_edges = np.zeros(len(margins))
        self._rest = np.empty(0)
        if rows is not None:
            assert last is not None
            capped = last < threshold(problem, last)
            capped[rows] = False
            self._rest = np.where(capped, problem.caps, 0.0)
            self.fixed_edges = margins @ self._rest.astype(margins.dtype)
            self.mass = 1.0 - float(self._rest.sum())
            self.caps, self.prior = self.caps[rows], self.prior[rows]
            margins = margins[:, rows]
        self.matrix = margins.astype(dtype, copy=False)

    def whole(self, d: FloatArray) -> FloatArray:
        """D over all examples."""
        if self.rows is None:
            return d
        d_all = self._rest.copy()
        d_all[self.rows] = d
        return d_all

    def edges(self, v: FloatArray) -> FloatArray:
        """``A v`` for v over the examples."""
        return (self.matrix @ v.astype(self.matrix.dtype)).astype(np.float64)

    def combine(self, v: FloatArray) -> FloatArray:
        """``A'v`` for v over the hypotheses."""
        return (v.astype(self.matrix.dtype) @ self.matrix).astype(np.float64)

    def gap(self, state: State, tau: float) -> float:
        """The duality gap at a state, as far as these examples tell."""
        scale = state.w.sum()
        z = state.z / scale
        lower = float(state.w @ self.fixed_edges) / scale
        upper = float(state.edges.max())
        if tau:
            upper += tau * float(state.d @ np.log(state.d / self.prior))
            lower += self._smoothed(z, tau)
        else:
            order = np.argsort(z)
            taken = np.minimum(np.cumsum(self.caps[order]), self.mass)
            lower += float(np.diff(taken, prepend=0.0) @ z[order])
        return upper - lower

    def _smoothed(self, z: FloatArray, tau: float) -> float:
        """``min d'z + tau sum d ln(d/p)`` over these examples' part of P_nu."""
        share = float(self.prior.sum())
        ratio = self.problem.ratio * share / self.mass
        if ratio <= 1:
            d = self.caps
            return float(d @ z) + tau * self.mass * math.log(self.problem.ratio)
        part = SoftMargin(self.prior / share, 1.0 / ratio, self.problem.eps)
        value, _ = part.smoothed(z, 1.0 / tau)
        return self.mass * (value + tau * math.log(self.mass / share))


@dataclass
class State:
    """A strictly interior point: d, w, the slacks of the edges, the multipliers of the bounds."""

    d: FloatArray
    w: FloatArray
    slack: FloatArray
    gamma: float
    at_zero: FloatArray
    at_cap: FloatArray
    level: float
    z: FloatArray
    edges: FloatArray

    @classmethod
    def start(cls, part: Restriction) -> State:
        """Equal weights, and d in proportion to the caps."""
        k = len(part.matrix)
        d = part.caps * (part.mass / part.caps.sum())
        w = np.full(k, 1.0 / k)
        z, edges = part.combine(w), part.edges(d) + part.fixed_edges
        mu = 0.05 / d.size
        gamma = float(edges.max()) + max(mu * k, 1e-4)
        room = part.caps - d
        return cls(d, w, gamma - edges, gamma, mu / d, mu / room, float(np.median(z)), z, edges)

    @classmethod
    def near(cls, part: Restriction, start: Start) -> State:
        """The given weights, spread a little, and the point of the central path for d there.

        ``z_i - level = mu/d_i - mu/(c_i - d_i)``, with the level that makes d sum up.
        """
        k, n = part.matrix.shape
        w = (1.0 - _SPREAD) * start.weights / start.weights.sum() + _SPREAD / k
        z = part.combine(w)
        mu = 2.0 * start.gap / (2 * n + k)
        low, high = float(z.min()) - 1.0, float(z.max()) + 1.0
        share = room = np.empty(0)
        for _ in range(40):
            level = 0.5 * (low + high)
            rise = (z - level) * part.caps
            root = np.sqrt(rise * rise + 4.0 * mu * mu) + 2.0 * mu
            share = 2.0 * mu / (root + rise)
            if float(share @ part.caps) > part.mass:
                high = level
            else:
                low = level
        room = 2.0 * mu / (root - rise)
        d = share * part.caps
        edges = part.edges(d) + part.fixed_edges
        gamma = float(edges.max()) + _SLACK * start.gap
        at_cap = mu / (room * part.caps)
        return cls(d, w, gamma - edges, gamma, mu / d, at_cap, level, z, edges)

    def step(self, part: Restriction, tau: float, expired: Callable[[], bool] = never) -> bool:
        """One predictor-corrector step; False if there is no way on, or no time."""
        d, w, s, zl, zu = self.d, self.w, self.slack, self.at_zero, self.at_cap
        room = part.caps - d
        entropy = tau * (np.log(d / part.prior) + 1.0) if tau else 0.0
        dual_error = self.level - self.z - zu + zl - entropy
        weight_error = 1.0 - w.sum()
        edge_error = self.gamma - self.edges - s
        mass_error = part.mass - d.sum()

        inverse = 1.0 / ((tau + zl) / d + zu / room)
        matrix = _newton_matrix(part.matrix, inverse, s / w, expired)
        if matrix is None:
            return False
        # symmetric: its transpose is in the order of LAPACK
        factor = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
        column = part.edges(inverse)
        sums = cho_solve(factor, np.column_stack([column, np.ones(w.size)]), check_finite=False)
        total = float(inverse.sum())
        small = np.array(
            [[total - column @ sums[:, 0], column @ sums[:, 1]],
             [sums[:, 0].sum(), -sums[:, 1].sum()]]
        )  # fmt: skip

        def direction(to_zero: FloatArray, to_cap: FloatArray, to_slack: FloatArray) -> _Change:
            """Newton's direction for these right-hand sides of the complementarity conditions."""
            q = dual_error + to_zero / d - to_cap / room
            right = part.edges(inverse * q) - edge_error + to_slack / w
            first = cho_solve(factor, right, check_finite=False)
            level, gamma = np.linalg.solve(
                small, [mass_error - inverse @ q + column @ first, weight_error - first.sum()]
            )
            dw = first + sums[:, 0] * level - sums[:, 1] * gamma
            dd = inverse * (q - part.combine(dw) + level)
            return _Change(
                dd, dw, (to_slack - s * dw) / w, (to_zero - zl * dd) / d,
                (to_cap + zu * dd) / room, float(level), float(gamma),
            )  # fmt: skip

        count = 2 * d.size + w.size
        mu = float(d @ zl + room @ zu + s @ w) / count
        guess = direction(-d * zl, -room * zu, -s * w)
        primal, dual = self._largest(guess, room, tau)
        ahead = float(
            (d + primal * guess.d) @ (zl + dual * guess.at_zero)
            + (room - primal * guess.d) @ (zu + dual * guess.at_cap)
            + (s + primal * guess.slack) @ (w + dual * guess.w)
        )
        centre = mu * (ahead / count / mu) ** 2
        if expired():
            return False
        change = direction(
            centre - d * zl - guess.d * guess.at_zero,
            centre - room * zu + guess.d * guess.at_cap,
            centre - s * w - guess.slack * guess.w,
        )
        primal, dual = (min(1.0, _BACK_OFF * size) for size in self._largest(change, room, tau))
        if not (math.isfinite(primal + dual) and max(primal, dual) > 1e-8):
            return False
        self.d = d + primal * change.d
        self.slack = s + primal * change.slack
        self.gamma += primal * change.gamma
        self.w = w + dual * change.w
        self.at_zero = zl + dual * change.at_zero
        self.at_cap = zu + dual * change.at_cap
        self.level += dual * change.level
        if not ((self.d < part.caps).all() and self.d.min() > 0 and self.w.min() > 0):
            return False
        self.z, self.edges = part.combine(self.w), part.edges(self.d) + part.fixed_edges
        return True

    def _largest(self, change: _Change, room: FloatArray, tau: float) -> tuple[float, float]:
        """Steps to the boundary for d and for the multipliers; one for both with entropy."""
        primal = _reach((self.d, -change.d), (room, change.d), (self.slack, -change.slack))
        dual = _reach(
            (self.w, -change.w), (self.at_zero, -change.at_zero), (self.at_cap, -change.at_cap)
        )
        return (min(primal, dual),) * 2 if tau else (primal, dual)


class _Change(NamedTuple):
    d: FloatArray
    w: FloatArray
    slack: FloatArray
    at_zero: FloatArray
    at_cap: FloatArray
    level: float
    gamma: float


def _reach(*pairs: tuple[FloatArray, FloatArray]) -> float:
    """The largest step up to 1 that keeps ``value - step * fall`` >= 0."""
    return 1.0 / max(1.0, *(float((fall / value).max()) for value, fall in pairs))


def _newton_matrix(
    matrix: Any, inverse: FloatArray, diagonal: FloatArray, expired: Callable[[], bool]
) -> FloatArray | None:
    """``A diag(inverse) A' + diag(diagonal)``, examples of negligible weight left out.

    None if the time is over before it is done.
    """
    kept = np.flatnonzero(inverse > _NEGLIGIBLE[matrix.dtype] * inverse.max())
    few = kept.size < 0.7 * inverse.size
    root = np.sqrt(inverse[kept] if few else inverse).astype(matrix.dtype)
    product = np.diag(diagonal)
    for some in in_parts(root.size, 8 * len(matrix)):  # BLAS takes its time on a busy machine
        if expired():
            return None
        scaled = (matrix[:, kept[some]] if few else matrix[:, some]) * root[some]
        product += scaled @ scaled.T
    return product
