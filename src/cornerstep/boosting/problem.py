"""The soft margin and its smoothing, as functions of the margins ``z = A w``.

For examples of weight ``v_i`` (1 by default, V their sum) and a capping ``nu`` in [1, V],

``P_nu = {d : 0 <= d_i <= v_i / nu, sum d = 1}``,
``rho(z) = min over d in P_nu of d'z``: the mean margin of the worst nu examples,
``g(z) = min over d in P_nu of d'z + (1/eta) sum_i d_i ln(d_i / p_i)``,  p = v / V.

With ``eta = 2 ln(V/nu) / eps`` it holds that ``rho <= g <= rho + eps/2``; g is concave, its
gradient in z is the minimising d, and it is eta-smooth: ``|d(z) - d(z')|_1 <= eta |z - z'|_inf``.

Distributions that certify are made of multiples of 2^-52 that sum to 1: every sum of them and their
negatives, in any order, is exact in float64, and so are the edges of hypotheses of values -1 and 1
and the search for the largest.

References
----------
.. [1] M. K. Warmuth, K. A. Glocer, S. V. N. Vishwanathan. Entropy regularized LPBoost. ALT 2008.
.. [2] M. Herbster, M. K. Warmuth. Tracking the best linear predictor. Journal of Machine Learning
   Research 1, 281-309, 2001.
.. [3] R. Mitsuboshi, K. Hatano, E. Takimoto. Boosting as Frank-Wolfe. arXiv, 2022.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray, IntArray

_STEEP = 600.0  # exponents beyond are as good as infinite
_UNITS = 2.0**52  # that a distribution is divided into


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
        self._n_examples = self.weights.size  # that the weights are sums over
        self._most = np.floor(np.minimum(self.caps, 1.0) * _UNITS)  # the caps in whole units

    def merged(self, groups: IntArray) -> SoftMargin:
        """The problem over groups of examples whose margins are always equal.

        Parameters
        ----------
        groups : array of shape (m,)
            The group of each example.
        """
        weights: FloatArray = np.bincount(groups, weights=self.weights).astype(np.float64)
        whole = SoftMargin(weights, min(self.nu, float(weights.sum())), self.eps)
        whole._n_examples = self.size
        whole._most = np.minimum(np.bincount(groups, weights=self._most), _UNITS)
        return whole

    def spread(self, distribution: FloatArray, groups: IntArray) -> FloatArray:
        """An admissible distribution over groups, over the examples: by weight, within the caps.

        The parts of a group sum to it exactly: they are multiples of 2^-52 as well.
        """
        if distribution.size == self.size:
            return distribution[groups]
        units = distribution * _UNITS
        share = self.weights / np.bincount(groups, weights=self.weights)[groups]
        parts = np.floor(units[groups] * share * (1.0 - gamma(2 * self.size)))
        parts = np.minimum(parts, self._most)
        missing = units - np.bincount(groups, weights=parts)  # a few for each example
        order = np.lexsort((-self.weights, groups))
        of = groups[order]
        room = np.minimum(self._most - parts, missing[groups])[order]
        before = np.cumsum(room) - room
        before -= before[np.searchsorted(of, of)]
        parts[order] += np.clip(missing[of] - before, 0.0, room)
        return parts / _UNITS

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
        """A point of P_nu next to a given one, in multiples of 2^-52 that sum to 1.

        Caps in whole units may sum to less, by a unit each at most: then they are the answer.
        """
        d = np.clip(distribution, 0.0, self.caps)
        excess = float(d.sum()) - 1.0
        if excess > 0:
            d *= 1.0 / (1.0 + excess)
        elif excess < 0:
            room = self.caps - d
            d += room * min(-excess / max(float(room.sum()), 1e-300), 1.0)
        units = np.minimum(np.floor(d * _UNITS), self._most)
        missing = _UNITS - float(units.sum())
        if missing > 0:
            units += _first(missing, self._most - units)
        elif missing < 0:
            units -= _first(-missing, units)
        return units / _UNITS

    def rounding(self, n_hypotheses: int = 0) -> float:
        """What the soft margin of so many hypotheses, or the edge of a distribution, is off by.

        No margin is larger than 1.  A soft margin is a sum of cumulated caps times differences of
        sorted margins, a margin one of weighted values; caps are off by as much as the sum of all
        weights, and a distribution may miss a unit for each example.
        """
        return gamma(16 * self._n_examples + 2 * n_hypotheses + 64)

    def rounds_bound(self) -> int:
        """Rounds after which Frank-Wolfe on g is within eps: ``32 ln(V/nu) / eps²``."""
        return min(math.ceil(32.0 * math.log(self.ratio) / self.eps**2) + 1, 1_000_000_000)


def _first(amount: float, room: FloatArray) -> FloatArray:
    """An amount put into the first places that have room."""
    before = np.concatenate(([0.0], np.cumsum(room[:-1])))
    return np.clip(amount - before, 0.0, room)
