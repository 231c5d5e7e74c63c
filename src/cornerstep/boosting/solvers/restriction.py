"""Which examples a master works on: those near the threshold decide, the others are settled.

At an optimum ``d_i`` is at its cap where the margin is below the threshold between worst and
harmless, and 0 above it.  Both masters are solved over the examples that may still change sides and
judged on all of them; if the answer does not hold there, more examples come in.  They leave out
different ones:

- the interior point method fixes d on *both* sides (:class:`Band`): what is fixed adds a constant
  to the edges;
- the smoothed one leaves out the harmless side only (:func:`add_tail`): g_tau is then that of fewer
  examples with the same caps, and examples at their cap keep it by themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.solution import MasterSolution, edges_of, image_of, threshold
from cornerstep.core.types import FloatArray, IntArray


@dataclass(frozen=True)
class BandSettings:
    """The numbers of :class:`Band`.

    Measured: without a band a third more time of MLPBoost, on image 3.9 times.

    Attributes
    ----------
    inside : float
        Share of the cap.  ``d_i`` counts as undecided if it is farther than this from 0 and from
        its cap.  Measured: 0.001 and 0.1 take 1 to 4 % fewer rounds, and no less time.
    growth : float
        Factor by which later bands are wider after one that did not hold.  More examples cost time
        in every master to come; fewer cost repetitions.  Measured: 1 takes about half as much time
        again of LPBoost and ERLPBoost; 3 makes no difference.
    side_slack : float
        Share of the range of all margins.  An example counts as on the wrong side unless its margin
        is farther than this from the threshold on the right one.  Measured: 0 takes 3 % less time
        in the mean and 21 % more on one (heart, ERLPBoost).
    """

    inside: float = 0.01
    growth: float = 1.5
    side_slack: float = 1e-2


class Band:
    """The examples around the threshold whose d is free in the interior point method.

    Parameters
    ----------
    problem : SoftMargin
    settings : BandSettings
    """

    def __init__(self, problem: SoftMargin, settings: BandSettings) -> None:
        self.problem, self.settings = problem, settings
        self.width = 1.0  # examples let in, in multiples of the undecided ones

    def undecided(self, last: MasterSolution | None) -> IntArray | None:
        """The examples whose d may change, by the last solution; None: all of them."""
        if last is None:
            return None
        d, caps, z = last.distribution, self.problem.caps, last.image
        least = self.settings.inside
        inside = (d > least * caps) & (d < (1.0 - least) * caps)
        wanted = int(self.width * inside.sum())
        if wanted >= d.size:
            return None
        distance = abs(z - threshold(self.problem, z))
        near = distance <= np.partition(distance, wanted)[wanted]
        return np.flatnonzero(near | inside)

    def widen(self) -> None:
        """Let more examples in from now on."""
        self.width *= self.settings.growth

    def with_violated(
        self, rows: IntArray, image: FloatArray, distribution: FloatArray
    ) -> IntArray | None:
        """``rows`` and the examples outside that are on the wrong side of the threshold by now.

        None, all examples, if there is none.
        """
        level = threshold(self.problem, image)
        slack = self.settings.side_slack * float(np.ptp(image))
        outside = np.ones(image.size, dtype=bool)
        outside[rows] = False
        capped = distribution > 0.5 * self.problem.caps
        wrong = outside & np.where(capped, image >= level - slack, image <= level + slack)
        return np.union1d(rows, np.flatnonzero(wrong)) if wrong.any() else None


class Restriction:
    """The interior point method's program over the examples ``rows``, see :mod:`.interior`.

    Parameters
    ----------
    problem : SoftMargin
    margins : array of shape (k, m)
    rows : array of int, optional
        None: all examples.
    last : array of shape (m,), optional
        The margins of the last solution: the other examples keep d at its cap below their
        threshold, at 0 above it.  Needed where there are others.
    dtype : numpy dtype
        In which the Newton steps compute.

    Attributes
    ----------
    matrix : array of shape (k, n)
        The margins of the rows.
    mass : float
        What their d sums up to.
    caps, prior : arrays of shape (n,)
    fixed_edges : array of shape (k,)
        What the other examples add to the edges.
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
        self._fixed = np.empty(0)
        if rows is not None:
            assert last is not None
            capped = last < threshold(problem, last)
            capped[rows] = False
            self._fixed = np.where(capped, problem.caps, 0.0)
            self.fixed_edges = edges_of(margins, self._fixed)
            self.mass = 1.0 - float(self._fixed.sum())
            self.caps, self.prior = self.caps[rows], self.prior[rows]
            margins = margins[:, rows]
        self.matrix = margins.astype(dtype, copy=False)

    @property
    def has_interior(self) -> bool:
        """Whether some d is strictly below all caps."""
        return bool(self.caps.sum() > self.mass * (1 + 1e-9))

    def distribution(self, d: FloatArray) -> FloatArray:
        """The distribution over all examples, for d over the rows."""
        if self.rows is None:
            return d
        whole = self._fixed.copy()
        whole[self.rows] = d
        return whole

    def edges(self, v: FloatArray) -> FloatArray:
        """``A'v`` for v over the rows, without what the other examples add."""
        return edges_of(self.matrix, v)

    def image(self, v: FloatArray) -> FloatArray:
        """``A v`` for v over the hypotheses."""
        return image_of(v, self.matrix)

    def soft_margin(self, z: FloatArray) -> float:
        """``min d'z`` over these examples' part of P_nu."""
        order = np.argsort(z)
        taken = np.minimum(np.cumsum(self.caps[order]), self.mass)
        return float(np.diff(taken, prepend=0.0) @ z[order])

    def smoothed(self, z: FloatArray, tau: float) -> float:
        """``min d'z + tau sum d ln(d/p)`` over these examples' part of P_nu."""
        share = float(self.prior.sum())
        ratio = self.problem.ratio * share / self.mass
        if ratio <= 1:
            d = self.caps
            return float(d @ z) + tau * self.mass * math.log(self.problem.ratio)
        part = SoftMargin(self.prior / share, 1.0 / ratio, self.problem.eps)
        value, _ = part.smoothed(z, 1.0 / tau)
        return self.mass * (value + tau * math.log(self.mass / share))


def add_tail(
    problem: SoftMargin, image: FloatArray, reach: float, most: float, seen: npt.NDArray[np.bool_]
) -> IntArray | None:
    """The examples that may get weight in the smoothed master, and those ``seen`` before.

    Parameters
    ----------
    problem : SoftMargin
    image : array of shape (m,)
    reach : float
        Margins above the threshold by more than this have no weight.
    most : float
        Share of all examples from which on leaving the others out does not pay.
    seen : array of bool of shape (m,)
        The examples of earlier calls; those of this one are added.  Examples only join, so that the
        repetitions end.

    Returns
    -------
    rows : array of int or None
        None, all examples: these are most of them, or none of them is new.
    """
    before = np.count_nonzero(seen)
    seen |= image <= threshold(problem, image) + reach
    rows = np.flatnonzero(seen)
    return rows if before < rows.size < most * image.size else None
