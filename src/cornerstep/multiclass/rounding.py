"""How far the value and the bound of a multi-class SVM may be off by rounding.

Every number of a certificate is a sum of products ``x_ik W_jk`` weighted by at most ``2 R s_i``,
with R the sum of rho: losses are R times margins, and ``|W(A)|²`` is a sum over examples of dual
coefficients, at most ``R s_i`` with either sign, times scores.  With ``p_k`` the largest ``|W_jk|``
over the classes, all of it is of the size

``T = R sum_i s_i (2 sum_k |x_ik| p_k + |Delta_i|)``,

and in float64 a sum of N terms, in whatever order, is off by at most ``gamma(N)`` times the sum of
their sizes (:mod:`cornerstep.core.rounding`).  T is linear in p: one pass over the examples gives
its coefficients, once for all weights.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.rounding import EPSILON, gamma, norm, sum_error
from cornerstep.core.types import FloatArray

_UP = 1.0 + 2.0**-40  # the bound is rounded itself
_LARGEST = 1e150  # of numbers whose squares are summed up
_TINY = 2.0**-1000  # of the weights of examples
_OTHERS = 64  # operations on a number beside those on long sums, which are pairwise
_OUTSIDE = 2.0**-43  # of its size: by how much a dual point may leave its domain


class Reach(NamedTuple):
    """What T is made of.

    Attributes
    ----------
    features : array of shape (d,)
        ``sum_i s_i |x_i|``, or with a kernel ``sum_i s_i |k(x_i, x_l)|`` for each example l.
    costs : float
        ``sum_i s_i max |Delta_i|``.
    total : float
        R.
    longest : int
        Features of an example: products that a score is the sum of.
    summed : int
        Roundings of a sum over the examples: those of a block, and the number of blocks.
    """

    features: FloatArray
    costs: float
    total: float
    longest: int
    summed: int

    def of_value(self, peaks: FloatArray, square: float, stretch: float = 1.0) -> float:
        """A bound of the rounding of P at weights with these peaks, ``|W|²`` being ``square``.

        Weights of a kernel may be a multiple of those of dual points: ``stretch`` says how long.
        """
        return self._rounding(stretch * self._terms(peaks) + self.total * self.costs + square, 0)

    def stretch(self, peaks: FloatArray, scales: FloatArray) -> float:
        """By how much the longest of some coefficients exceeds a dual point, ``R s_i``, if any."""
        return max(1.0, float((peaks / scales).max(initial=0.0)) / self.total)

    def of_doubled(self, peaks: FloatArray, square: float, sizes: float, constant: float) -> float:
        """The same where margins have twice the digits
        (:mod:`cornerstep.multiclass.compiled.doubled`).

        They are rounded once, and so is the weight of a last feature that is a constant other than
        a power of 2, when it is given out times that.
        """
        terms = self._terms(peaks)
        out = self._rounding(sizes + square, 0) + self._rounding(gamma(self.longest + 4) * terms, 0)
        if math.frexp(constant)[0] not in (0.0, 0.5):
            out += 4.0 * EPSILON * self.total * float(self.features[-1] * peaks[-1])
        return out

    def of_bound(self, peaks: FloatArray, linear: float, steps: int = 0) -> float:
        """The same of D.

        If ``W(A)`` is off by E, ``|W(A)|²`` is by ``2 <W, E> + |E|²``: where much cancels, the
        second is not the smaller.

        Parameters
        ----------
        peaks : array of shape (d,)
            Of ``W(A)``.
        linear : float
            ``sum_i s_i <Delta_i, beta_i>``, about.
        steps : int
            By which ``W(A)`` has been carried along.
        """
        steps = self.summed + 4 * steps
        error = gamma(self.longest + _OTHERS + steps) * 2.0 * self.total * norm(self.features)
        first = self._rounding(self._terms(peaks) + abs(linear), steps)
        return first + 0.5 * error * error + _OUTSIDE * abs(linear)

    def _terms(self, peaks: FloatArray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return 2.0 * self.total * float(self.features @ peaks)

    def _rounding(self, terms: float, further: int) -> float:
        if not 0.0 < terms < math.inf:
            return terms
        return float(sum_error(terms, self.longest + _OTHERS + further)) * _UP


def entry_sizes(errors: FloatArray) -> FloatArray:
    """Entries of a kernel matrix so large that their rounding covers errors in a sum of n of them.

    Twice: in the losses and in ``|W|²``.
    """
    return 2.0 * errors / gamma(errors.size)


def check_size(reach: Reach) -> None:
    """Complain about numbers that float64 cannot work with: ``|W|²`` of a dual point overflows."""
    with np.errstate(over="ignore"):
        size = 2.0 * reach.total * norm(reach.features)
    if not size < _LARGEST:
        raise ValueError(
            f"X times C and the weights must stay below {_LARGEST:g} in all, got {size:.2g}: "
            "scale X, or make C smaller"
        )


def check_scales(least: float) -> None:
    """Complain about weights of examples, the least being this, too near to 0 for float64."""
    if not (least == 0.0 or least >= _TINY):
        raise ValueError(
            f"C times sample_weight must be 0 or at least {_TINY:.2g}, got {least:.2g}: make C or "
            "the weights larger"
        )


def peaks(image: Any, sparse: bool) -> FloatArray:
    """The largest entry of each feature, of an image with a row per class (sparse: a column)."""
    return np.asarray(np.abs(image).max(axis=1 if sparse else 0))
