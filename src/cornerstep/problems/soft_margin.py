"""The soft margin and its smoothing, as functions of the margins ``z = A w``.

For examples of weight ``v_i`` (1 by default, V their sum) and a capping ``nu`` in [1, V],

``P_nu = {d : 0 <= d_i <= v_i / nu, sum d = 1}``,
``rho(z) = min over d in P_nu of d'z``: the mean margin of the worst nu examples,
``g(z) = min over d in P_nu of d'z + (1/eta) sum_i d_i ln(d_i / p_i)``,  p = v / V.

With ``eta = 2 ln(V/nu) / eps`` it holds that ``rho <= g <= rho + eps/2``; g is concave, its
gradient in z is the minimising d, and it is eta-smooth: ``|d(z) - d(z')|_1 <= eta |z - z'|_inf``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cornerstep.vectors import FloatArray

_STEEP = 600.0  # exponents beyond are as good as infinite


class Smoothed(NamedTuple):
    """``g`` at some margins, and its gradient there: the capped entropy projection d."""

    value: float
    distribution: FloatArray


class SoftMargin:
    """``rho``, ``g`` and the projection onto P_nu.

    Parameters
    ----------
    weights : array of shape (m,)
        Positive.
    nu : float
        From 1 (the hard margin, for weights of 1) to the sum of the weights (the mean margin).
    eps : float
        The accuracy that fixes the smoothing.
    """

    def __init__(self, weights: FloatArray, nu: float, eps: float) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        total = float(self.weights.sum())
        if not (self.weights > 0).all():
            raise ValueError("the weights of the examples must be positive")
        # a cap of more than 1 does not bind: nu may be less than the lightest example weighs
        if not 0 < nu <= total * (1 + 1e-12):
            raise ValueError(f"nu must be between 1 and the total weight {total:g}, got {nu!r}")
        self.nu = min(float(nu), total)
        self.prior = self.weights / total
        self.ratio = total / self.nu  # the largest d_i / p_i
        self.caps = self.prior * self.ratio
        # P_nu is a single point if ratio = 1: any eta will do there
        self.eta = 2.0 * math.log(self.ratio) / eps if self.ratio > 1 + 1e-9 else 1.0 / eps
        self.eps = eps

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.weights.size

    def worst(self, margins: FloatArray) -> FloatArray:
        """A vertex d of P_nu with ``d'z = rho(z)``: the smallest margins get all they may."""
        order = np.argsort(margins)
        taken = np.minimum(np.cumsum(self.caps[order]), 1.0)
        if taken[-1] < 1.0:  # nu = V: the caps sum to 1 up to rounding
            taken[-1] = 1.0
        d = np.empty(self.size)
        d[order] = np.diff(taken, prepend=0.0)
        return d

    def value(self, margins: FloatArray) -> float:
        """``rho(z)``."""
        return float(self.worst(margins) @ margins)

    def smoothed(self, margins: FloatArray, eta: float | None = None) -> Smoothed:
        """``g(z)`` and its gradient, by sorting: the smallest margins are capped.

        Below a threshold ``d_i = v_i / nu``, above it ``d_i = s p_i exp(-eta z_i)``.
        """
        eta = self.eta if eta is None else eta
        order = np.argsort(margins)
        z, p, caps = margins[order], self.prior[order], self.caps[order]
        below = np.concatenate(([0.0], np.cumsum(caps[:-1])))
        # the threshold is no higher than the margin where the caps reach 1: with exp = 1 there
        # no sum is 0 or infinite, and margins far below are capped
        last = min(int(np.searchsorted(below, 1.0)), z.size) - 1
        rise = eta * (z[last] - z)
        natural = p * np.exp(np.minimum(rise, _STEEP))
        above = np.cumsum(natural[::-1])[::-1]
        room = 1.0 - below[: last + 1]
        free = room * natural[: last + 1] <= caps[: last + 1] * above[: last + 1]
        free &= rise[: last + 1] < _STEEP
        k = int(np.argmax(free)) if free.any() else last
        d = caps
        d[k:] = np.minimum(max(room[k], 0.0) / above[k] * natural[k:], caps[k:])
        entropy = float(np.sum(d * np.log(d / p, where=d > 0, out=np.zeros_like(d))))
        out = np.empty_like(d)
        out[order] = d
        return Smoothed(float(d @ z) + entropy / eta, out)

    def admissible(self, distribution: FloatArray) -> FloatArray:
        """The distribution with rounding errors removed: inside the caps, summing to 1."""
        d = np.clip(distribution, 0.0, self.caps)
        for _ in range(2):
            excess = float(d.sum()) - 1.0
            if excess > 0:
                d *= 1.0 / (1.0 + excess)
            elif excess < 0:
                room = self.caps - d
                d += room * min(-excess / max(float(room.sum()), 1e-300), 1.0)
        return d

    def rounds_bound(self) -> int:
        """Rounds after which Frank-Wolfe on g is within eps: ``32 ln(V/nu) / eps²``."""
        return min(math.ceil(32.0 * math.log(self.ratio) / self.eps**2) + 1, 1_000_000_000)
