"""The master by a primal-dual interior point method: the program over some of the examples.

The problem, over the examples of a :class:`~cornerstep.boosting.solvers.restriction.Restriction`
(the others keep their d, which adds the constants ``b_j`` to the edges):

``min over d and gamma of  gamma + tau sum_i d_i ln(d_i / p_i)``
``s.t.  (A'd)_j + b_j + s_j = gamma,  s_j >= 0``        multipliers ``w_j``: the weights
``      sum d = mass``                                  multiplier ``level``: the threshold
``      0 <= d_i <= c_i``                               multipliers ``l_i`` and ``u_i``

The conditions of Karush, Kuhn and Tucker, with ``z = A w`` and the complementary products at mu > 0
instead of 0, which is the central path:

1. ``level - z_i - u_i + l_i - tau (ln(d_i / p_i) + 1) = 0``
2. ``sum w = 1``
3. ``gamma - (A'd)_j - b_j - s_j = 0``
4. ``sum d = mass``
5. ``d_i l_i = mu``,  ``(c_i - d_i) u_i = mu``,  ``s_j w_j = mu``

The algorithm, Mehrotra's predictor-corrector method, from a strictly interior point
(:meth:`InteriorPoint.start`, or :meth:`InteriorPoint.near` known weights):

1. Factorise the Newton matrix (:class:`_NewtonSystem` has the elimination).
2. Predictor: Newton's direction for mu = 0, and how far it can go.
3. The mean product it would reach tells mu: the less it reaches, the more is centred.
4. Corrector: Newton's direction for that mu, with the predictor's second-order terms, from the same
   factorisation.
5. Step nearly to the boundary, d, s and gamma by one length, the multipliers by another.  Both by
   the shorter one with entropy: condition 1 is then not linear in d.

A step costs one product ``A' diag(.) A`` over the hypotheses; the examples enter linearly.  The
caller ends at a target gap, see :mod:`cornerstep.boosting.solvers.master`.

References
----------
.. [1] S. Mehrotra. On the implementation of a primal-dual interior point method. SIAM Journal on
   Optimization 2(4), 1992.
.. [2] S. J. Wright. Primal-Dual Interior-Point Methods. SIAM, 1997. Chapter 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cornerstep.boosting.long_work import in_parts, never
from cornerstep.boosting.solvers.restriction import Restriction
from cornerstep.boosting.solvers.solution import Start
from cornerstep.core.threads import product_threads
from cornerstep.core.types import FloatArray

_LEAST_STEP = 1e-8  # shorter ones are rounding: there is no way on
_BISECTIONS = 40  # of an interval of length at most 4: to 4e-12


@dataclass(frozen=True)
class InteriorSettings:
    """The numbers of the interior point method.

    "Measured" as in :class:`~cornerstep.boosting.solvers.settings.MethodSettings`; rounds of single
    sets move by a third with any of them.  Left out, as it saved no time: examples of negligible
    Newton weight.

    Attributes
    ----------
    back_off : float
        Share of the way to the boundary that a step goes.  Closer saves steps until one sticks
        there.  The usual choice [1]_.  Measured: 0.95 and 0.999 take 2 % fewer and as many rounds
        of MLPBoost, a fifth fewer of LPBoost and ERLPBoost, and no less time.
    centring_power : int
        mu is the mean product times this power of the share that the predictor leaves of it.
        Mehrotra takes 3, which centres less; 2 keeps d more central.  Measured: 3 takes 3
        and 15 % fewer rounds, and no less time.
    part_factor : int
        A part of the Newton matrix, between two questions whether the time is up, is by this factor
        smaller than other long work: BLAS takes its time on a busy machine.
    first_mu : float
        Unit: ``1 / n``.  mu at :meth:`InteriorPoint.start`.  Measured: 0.005 takes 2 % more rounds
        of MLPBoost, 0.5 takes 3 % fewer; either a fifth fewer of LPBoost and ERLPBoost.
    first_slack : float
        The least slack of the edges there, in units of margins.  Measured: 0.01 takes 2 to 3 %
        fewer rounds and the same time.
    spread : float
        Share of the weights that :meth:`InteriorPoint.near` gives to all hypotheses alike: 0 would
        be on the boundary.  Measured: 0.01 and 0.3 take as many rounds and the same time.
    slack : float
        Unit: the gap at the start.  The least slack of the edges there.  Measured: 0.1 and
        1 take as many rounds and the same time.
    mu_factor : float
        Unit: the gap at the start, per complementary product.  mu there.  Measured: 1 and 4
        take as many rounds and the same time.
    """

    back_off: float = 0.99
    centring_power: int = 2
    part_factor: int = 8
    first_mu: float = 0.05
    first_slack: float = 1e-4
    spread: float = 0.1
    slack: float = 0.3
    mu_factor: float = 2.0


class _Change(NamedTuple):
    """A direction, by the variables of :class:`InteriorPoint`."""

    d: FloatArray
    w: FloatArray
    slack: FloatArray
    at_zero: FloatArray
    at_cap: FloatArray
    level: float
    gamma: float


@dataclass
class InteriorPoint:
    """A strictly interior point of the program, and Newton steps from it.

    Attributes
    ----------
    part : Restriction
        The program.
    tau : float
        The factor of the entropy, which may be 0.
    settings : InteriorSettings
    d, w, slack, gamma, level
        As in the problem above; ``slack`` is s.
    at_zero, at_cap : arrays of shape (n,)
        The multipliers l and u.
    z, edges : arrays of shape (n,) and (k,)
        ``A w`` and ``A'd + b``.
    """

    part: Restriction
    tau: float
    settings: InteriorSettings
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
    def start(cls, part: Restriction, tau: float, settings: InteriorSettings) -> InteriorPoint:
        """Equal weights, and d in proportion to the caps."""
        k = len(part.matrix)
        d = part.caps * (part.mass / part.caps.sum())
        w = np.full(k, 1.0 / k)
        z, edges = part.image(w), part.edges(d) + part.fixed_edges
        mu = settings.first_mu / d.size
        gamma = float(edges.max()) + max(mu * k, settings.first_slack)
        slack, room, level = gamma - edges, part.caps - d, float(np.median(z))
        return cls(part, tau, settings, d, w, slack, gamma, mu / d, mu / room, level, z, edges)

    @classmethod
    def near(cls, part: Restriction, settings: InteriorSettings, start: Start) -> InteriorPoint:
        """The given weights, spread a little, and the point of the central path for d there.

        Without entropy.  Conditions 1 and 5 give ``z_i - level = mu / d_i - mu / (c_i - d_i)``; the
        level is the one for which d sums up to the mass, by bisection.
        """
        k, n = part.matrix.shape
        w = (1.0 - settings.spread) * start.weights / start.weights.sum() + settings.spread / k
        z = part.image(w)
        mu = settings.mu_factor * start.gap / (2 * n + k)
        low, high = float(z.min()) - 1.0, float(z.max()) + 1.0
        for _ in range(_BISECTIONS):
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
        gamma = float(edges.max()) + settings.slack * start.gap
        at_cap = mu / (room * part.caps)
        return cls(part, 0.0, settings, d, w, gamma - edges, gamma, mu / d, at_cap, level, z, edges)

    def gap(self) -> float:
        """The duality gap, as far as the examples of the program tell."""
        part, tau, scale = self.part, self.tau, self.w.sum()
        z = self.z / scale
        lower = float(self.w @ part.fixed_edges) / scale
        upper = float(self.edges.max())
        if tau:
            upper += tau * float(self.d @ np.log(self.d / part.prior))
            return upper - (lower + part.smoothed(z, tau))
        return upper - (lower + part.soft_margin(z))

    def step(self, expired: Callable[[], bool] = never) -> bool:
        """One predictor-corrector step; False if there is no way on, or no time.

        The numbers are those of the algorithm above.
        """
        room = self.part.caps - self.d
        system = _NewtonSystem.build(self, room, expired)  # 1
        if system is None:
            return False
        d, w, s, low, high = self.d, self.w, self.slack, self.at_zero, self.at_cap
        guess = system.direction(-d * low, -room * high, -s * w)  # 2
        primal, dual = self._reach(guess, room)
        count = 2 * d.size + w.size
        mu = float(d @ low + room @ high + s @ w) / count  # 3
        ahead = float(
            (d + primal * guess.d) @ (low + dual * guess.at_zero)
            + (room - primal * guess.d) @ (high + dual * guess.at_cap)
            + (s + primal * guess.slack) @ (w + dual * guess.w)
        )
        centre = mu * (ahead / count / mu) ** self.settings.centring_power
        if expired():
            return False
        change = system.direction(  # 4
            centre - d * low - guess.d * guess.at_zero,
            centre - room * high + guess.d * guess.at_cap,
            centre - s * w - guess.slack * guess.w,
        )
        back_off = self.settings.back_off
        primal, dual = (min(1.0, back_off * size) for size in self._reach(change, room))
        if not (math.isfinite(primal + dual) and max(primal, dual) > _LEAST_STEP):
            return False
        return self._go(change, primal, dual)  # 5

    def _go(self, change: _Change, primal: float, dual: float) -> bool:
        """Step so far; False if rounding has led out of the interior."""
        self.d = self.d + primal * change.d
        self.slack = self.slack + primal * change.slack
        self.gamma += primal * change.gamma
        self.w = self.w + dual * change.w
        self.at_zero = self.at_zero + dual * change.at_zero
        self.at_cap = self.at_cap + dual * change.at_cap
        self.level += dual * change.level
        if not ((self.d < self.part.caps).all() and self.d.min() > 0 and self.w.min() > 0):
            return False
        self.z = self.part.image(self.w)
        self.edges = self.part.edges(self.d) + self.part.fixed_edges
        return True

    def _reach(self, change: _Change, room: FloatArray) -> tuple[float, float]:
        """Steps to the boundary for d and for the multipliers; one for both with entropy."""
        primal = _reach((self.d, -change.d), (room, change.d), (self.slack, -change.slack))
        dual = _reach(
            (self.w, -change.w), (self.at_zero, -change.at_zero), (self.at_cap, -change.at_cap)
        )
        return (min(primal, dual),) * 2 if self.tau else (primal, dual)


class _NewtonSystem:
    """Newton's equations at a point, factorised, for any right-hand sides of condition 5.

    With ``t_l, t_u, t_s`` for these right-hand sides and ``r_1 .. r_4`` for what is missing in
    conditions 1 to 4, in the order of elimination:

    - condition 5:  ``dl = (t_l - l dd) / d``,  ``du = (t_u + u dd) / (c - d)``,
      ``ds = (t_s - s dw) / w``
    - condition 1:  ``dd = D (q - A dw + dlevel)``  with  ``D = 1 / ((tau + l) / d + u / (c - d))``
      and  ``q = r_1 + t_l / d - t_u / (c - d)``
    - condition 3:  ``M dw = A'D q - r_3 + t_s / w + A'D1 dlevel - 1 dgamma``
      with  ``M = A' D A + diag(s / w)``, positive definite: the Newton matrix
    - conditions 4 and 2, ``sum dd = r_4`` and ``sum dw = r_2``:  two equations in dlevel and dgamma

    ``M`` is factorised once, with the solutions for the two columns ``A'D1`` and 1.
    """

    def __init__(
        self, point: InteriorPoint, room: FloatArray, inverse: FloatArray, factor: Any
    ) -> None:
        part, d, w = point.part, point.d, point.w
        self.point, self.room, self.inverse, self.factor = point, room, inverse, factor
        entropy = point.tau * (np.log(d / part.prior) + 1.0) if point.tau else 0.0
        self.dual_error = point.level - point.z - point.at_cap + point.at_zero - entropy
        self.weight_error = 1.0 - w.sum()
        self.edge_error = point.gamma - point.edges - point.slack
        self.mass_error = part.mass - d.sum()
        self.column = column = part.edges(inverse)
        both = np.column_stack([column, np.ones(w.size)])
        self.sums = sums = cho_solve(factor, both, check_finite=False)
        self.small = np.array(
            [[float(inverse.sum()) - column @ sums[:, 0], column @ sums[:, 1]],
             [sums[:, 0].sum(), -sums[:, 1].sum()]]
        )  # fmt: skip

    @classmethod
    def build(
        cls, point: InteriorPoint, room: FloatArray, expired: Callable[[], bool]
    ) -> _NewtonSystem | None:
        """The equations at a point; None if the time is over before they are factorised."""
        inverse = 1.0 / ((point.tau + point.at_zero) / point.d + point.at_cap / room)
        diagonal = point.slack / point.w
        matrix = _newton_matrix(point.part.matrix, inverse, diagonal, point.settings, expired)
        if matrix is None:
            return None
        # symmetric: its transpose is in the order of LAPACK
        factor = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
        return cls(point, room, inverse, factor)

    def direction(self, to_zero: FloatArray, to_cap: FloatArray, to_slack: FloatArray) -> _Change:
        """Newton's direction for these right-hand sides ``t_l, t_u, t_s`` of condition 5."""
        point, part, room, inverse = self.point, self.point.part, self.room, self.inverse
        d, w = point.d, point.w
        q = self.dual_error + to_zero / d - to_cap / room
        right = part.edges(inverse * q) - self.edge_error + to_slack / w
        first = cho_solve(self.factor, right, check_finite=False)
        mass = self.mass_error - inverse @ q + self.column @ first
        level, gamma = np.linalg.solve(self.small, [mass, self.weight_error - first.sum()])
        dw = first + self.sums[:, 0] * level - self.sums[:, 1] * gamma
        dd = inverse * (q - part.image(dw) + level)
        return _Change(
            dd, dw, (to_slack - point.slack * dw) / w, (to_zero - point.at_zero * dd) / d,
            (to_cap + point.at_cap * dd) / room, float(level), float(gamma),
        )  # fmt: skip


def _reach(*pairs: tuple[FloatArray, FloatArray]) -> float:
    """The largest step up to 1 that keeps ``value - step * fall`` >= 0."""
    return 1.0 / max(1.0, *(float((fall / value).max()) for value, fall in pairs))


def _newton_matrix(
    matrix: Any,
    inverse: FloatArray,
    diagonal: FloatArray,
    settings: InteriorSettings,
    expired: Callable[[], bool],
) -> FloatArray | None:
    """``A' diag(inverse) A + diag(diagonal)``; None if the time is over before it is done."""
    root = np.sqrt(inverse).astype(matrix.dtype)
    product = np.diag(diagonal)
    for some in in_parts(root.size, settings.part_factor * len(matrix)):
        if expired():
            return None
        scaled = matrix[:, some] * root[some]
        with product_threads(len(scaled) * scaled.size // 2):
            product += scaled @ scaled.T
    return product
