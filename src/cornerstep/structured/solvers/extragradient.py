"""The dual extragradient method for structured SVMs, in its memory-efficient form.

``min over w, max over z in Z of  lambda/2 |w|² - <w, Psi(z)> + l(z)``, z_i in the marginal polytope
of example i, ``Psi(z) = sum_i p_i E psi_i``, ``l(z) = sum_i p_i E L_i``.  With a radius R the
regulariser gives way to the ball ``|w| <= R``.  An iteration is

``v = T(u_0, s),   u = T(v, -eta g(v)),   s <- s - eta g(u)``,

and since g is affine, ``s = -eta tau g(average)``, tau the sum of the paces below.  So only vectors
of the size of w are kept, the averages of w and Psi(z): the z's are rebuilt from them whenever
needed, as

``z_i = T(centre, kappa tau (F_i'w_average + c_i))``,

T a softmax, sum-product or Sinkhorn's scaling (entropic) or a projection (Euclidean).  The step
sizes ``eta`` of w and ``kappa`` of each z_i satisfy ``eta kappa sum_i p_i b_i <= 1``, b_i a bound
of the squared norm of F_i in the geometry, and the theory promises a gap of the averages of at most
``(R²/(2 eta) + spread/kappa) / tau`` after tau iterations.  The bounds b_i are far from tight, so
both steps are taken at a *pace* of more than 1, which counts as that many iterations, for as long
as the gap measured keeps what they promise; if it does not, the pace is halved, down to 1.  If that
happens early the method starts again, as the first steps would stay in the averages.  So the gap
falls like 1/t.

References
----------
.. [1] B. Taskar, S. Lacoste-Julien, M. I. Jordan. Structured prediction, dual extragradient and
   Bregman projections. Journal of Machine Learning Research 7, 1627-1653, 2006.
.. [2] Yu. Nesterov. Dual extrapolation and its applications to solving variational inequalities and
   related problems. Mathematical Programming 109, 319-344, 2007.
.. [3] W. Saint-Arnaud, E. Lamouchi, F. Boileau. Review of Frank Wolfe and its variants. Université
   de Montréal.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.clock import work_seconds
from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.optimiser.loop import Look, Move
from cornerstep.structured.proofs import Waiting, primal

GEOMETRIES = ("entropic", "euclidean")
_TINY = 1e-12
_FIRST_PACE = 8.0  # steps over what the theory allows, at first
_EARLY = 50  # iterations at a pace after which it is too late to start again
_INSIDE = 0.25  # |w*| over the bound sqrt(2 P(0)/lambda), as a guess


class Averages(NamedTuple):
    """Averages of w, Psi(z) and l(z)."""

    w: FloatArray
    image: FloatArray
    linear: float


class ExtragradientSolver(Waiting):
    """The method, for the loop; its point is the averages.

    Parameters
    ----------
    examples : ModelExamples or ChainExamples
    lam : float
    geometry : {'entropic', 'euclidean'}
        Of the z's.
    radius : float or None
        R; None for the regularised problem.
    fixed_step : bool
        Keep to a pace of 1: the method as published.
    """

    monotone = False
    extra_columns: tuple[str, ...] = ("dual", "oracle_calls", "gap_average", "promised_gap")

    def __init__(
        self,
        examples: Any,
        lam: float,
        geometry: str,
        radius: float | None,
        fixed_step: bool = False,
    ) -> None:
        self.examples = examples
        self.geometry = geometry
        self.radius = radius
        self.lam = lam if radius is None else 0.0
        self.time = 0.0  # tau
        self._steps = 0
        zero = np.zeros(examples.size)
        self.best_value, self.best_dual = math.inf, -math.inf
        first = self._prox([(zero, 0.0, 0.0)])
        self.averages = self._first = Averages(zero, *first)
        self._gap = 0.0  # of the averages themselves
        # a ball that holds the optimum: lambda/2 |w|² <= P(0)
        start = examples.mean(np.maximum(examples.hinges(zero), 0.0))
        examples.oracle_calls = 0
        self._ball = math.sqrt(2 * start / lam) if radius is None else radius
        square, spread = examples.prox_bounds(geometry)
        square, spread = max(square, _TINY), max(spread, _TINY)
        # the best balance of |w*|²/(2 eta) and spread/kappa; w* is usually well inside its bound
        norm = self._ball if radius is not None else _INSIDE * self._ball
        self.eta = max(norm, _TINY) / math.sqrt(2 * spread * square)
        if self.lam:
            self.eta = min(self.eta, 0.5 / self.lam)
        self.kappa = 1.0 / (self.eta * square)
        pull = self.lam * self.eta
        self.pace = max(1.0, min(_FIRST_PACE, 0.5 / pull)) if pull else _FIRST_PACE
        if fixed_step:
            self.pace = 1.0
        # of tau times the gap; nothing is promised where steps underflow
        self._promise = math.inf
        if self.eta and self.kappa:
            self._promise = 0.5 * self._ball**2 / self.eta + spread / self.kappa

    def _prox(self, stages: list[tuple[FloatArray, float, float]]) -> tuple[FloatArray, float]:
        """Psi and l of the z's that the stages lead to."""
        image, losses = self.examples.prox(self.geometry, stages)
        return image / self.examples.total, losses / self.examples.total

    def _onto_ball(self, w: FloatArray) -> FloatArray:
        w = self.examples.admissible(w)  # a cone: what is nearest in it is so in its ball, scaled
        norm = math.sqrt(float(w @ w))
        return w if norm <= self._ball else w * (self._ball / norm)

    @property
    def point(self) -> Averages:
        return self.averages

    def weights(self) -> FloatArray:
        """The point to return."""
        return self.averages.w

    def look(self) -> Look:
        """``max over z`` at the average w and ``min over w`` at the average z."""
        begin = work_seconds()
        w, image, linear = self.averages
        calls = self.examples.oracle_calls
        value, error = primal(self.examples, self.lam, w, self.examples.hinges(w))
        self.examples.oracle_calls = calls  # those that training needs
        pull = self.examples.admissible(image)  # no w of the cone gains from the rest
        square = float(pull @ pull)
        if self.radius is None:
            self.best_value = min(value + error, self.best_value)
            # the least over lambda/2 |w|² <= P(best), which holds the optimum
            limit = math.sqrt(2 * self.best_value / self.lam)
            norm = min(math.sqrt(square) / self.lam, limit)
            dual = linear + 0.5 * self.lam * norm * norm - norm * math.sqrt(square)
        else:
            norm = self.radius
            dual = linear - norm * math.sqrt(square)
        self.best_dual = max(self.best_dual, dual - self._dual_error(norm, linear))
        self._gap = value - dual
        promised = self._promise / self.time if self.time else math.inf
        extra = (self.best_dual, self.examples.oracle_calls, self._gap, promised)
        look = certified(value, self.best_dual, Rounding(error), extra)
        return self.keep(self.averages, look, begin)

    def _dual_error(self, norm: float, linear: float) -> float:
        """Rounding of ``l - |w| |Psi|``, of averages, and of z's that leave their polytopes."""
        examples = self.examples
        unit = gamma(examples.n_sums + examples.size + 8 * self._steps + 64) + examples.outside
        return unit * (abs(linear) + norm * examples.width + self.lam * norm * norm)

    def _check_pace(self) -> None:
        """Halve the pace where the gap of the averages is more than promised."""
        if self.time * self._gap > self._promise and self.pace > 1.0:
            early = self.time <= _EARLY * self.pace
            self.pace = max(1.0, 0.5 * self.pace)
            if early:
                self.time, self.averages = 0.0, self._first
            else:
                self._promise = self.time * self._gap  # what was lost so far stays lost

    def move(self) -> Move:
        self._check_pace()
        eta, kappa, lam = self.pace * self.eta, self.pace * self.kappa, self.lam
        mean, time = self.averages, self.time
        history = (mean.w, self.kappa * time, self.kappa * time)
        w = self._onto_ball(-self.eta * time * (lam * mean.w - mean.image))
        image, _ = self._prox([history])
        ahead = self._onto_ball(w - eta * (lam * w - image))
        image, linear = self._prox([history, (w, kappa, kappa)])
        self.time += self.pace
        self._steps += 1
        share = self.pace / self.time
        self.averages = Averages(
            mean.w + share * (ahead - mean.w),
            mean.image + share * (image - mean.image),
            mean.linear + share * (linear - mean.linear),
        )
        return Move(eta, "extragradient")

    def certify(self, point: Averages) -> Look:
        if (kept := self.proof()) is not None:
            self.averages, look = kept
            return look
        self.averages = point
        return self.look()
