"""Descent on smoothed losses, for passes over all examples at once: few of them on any data.

``P_mu(W) = 1/2 |W|² + sum_i s_i Phi_mu(W'x_i)`` has the gradient ``W - W(A)``, with A the dual
points that attain the envelopes: one pass gives both.  Then

``P(W) - D(A) = sum_i s_i (Phi(W'x_i) - <beta_i, z_i>) + 1/2 |W - W(A)|²``,

what smoothing lost and what the gradient is away from 0.  P_mu is minimised by limited-memory
quasi-Newton steps, and mu is halved whenever smoothing is most of the gap.  A dual bound better
than D(A) comes from the hull of the last such points, as in
:mod:`cornerstep.multiclass.solvers.corrective`.

What the examples share, a mean of the features or a constant one, makes P_mu steep along a few
directions, of the order of C n times: first order methods and hulls of few vertices crawl there.
The Hessian is about ``I + t sum_i s_i x_i x_i'`` in every class.  With each example's projection
between q classes, t would be ``q / (m mu)``; but fewer and fewer examples are between classes as mu
falls, and t is what the last steps met.  Quasi-Newton updates begin from the inverse, a matrix of
d x d numbers that one pass over the data gives, and find the rest.

A round:

1. A pass at W: P, the envelopes, the dual points A that attain them, and W(A).
2. A enters the hull; the best point of the hull gives the bound.
3. If the step did not lower P_mu enough, it is shortened.
4. If smoothing is most of the gap, mu is halved; if rounding is, products become more exact.
5. Else the next direction is minus the inverse Hessian, as far as it is known, times the gradient.

References
----------
.. [1] J.-J. Moreau. Proximité et dualité dans un espace hilbertien. Bulletin de la Société
   Mathématique de France 93, 273-299, 1965.
.. [2] Yu. Nesterov. Smooth minimization of non-smooth functions. Mathematical Programming 103,
   127-152, 2005.
.. [3] D. C. Liu, J. Nocedal. On the limited memory BFGS method for large scale optimization.
   Mathematical Programming 45, 503-528, 1989.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from cornerstep.core.rounding import EPSILON
from cornerstep.multiclass.simplex_loss import SimplexLoss
from cornerstep.multiclass.solvers.batch import IncumbentDescent
from cornerstep.multiclass.solvers.hull import Hull
from cornerstep.multiclass.solvers.passes import DualState, Rows
from cornerstep.multiclass.solvers.provenance import blend
from cornerstep.multiclass.solvers.quasi_newton import Memory
from cornerstep.multiclass.solvers.refinement import Refinement, RefinementSettings
from cornerstep.optimiser.loop import Look, Move

NAME = "envelope"


@dataclass(frozen=True)
class EnvelopeSettings:
    """The numbers of the descent on envelopes.  The unit of cost is a pass over the data.

    "Measured" is in passes: to a relative gap of 3e-3 on the CPU (digits, usps, vowel, of unit
    size, C = 1 and 30, max hinge and top-3), and of 1e-2 on a GPU (60,000 deep-like features of 100
    and 397 classes, C = 1, 10 and 100, max hinge and top-5).  Runs differ by up to a third of their
    passes whatever is changed: what counts is the geometric mean.
    """

    atoms: int = 60
    """Dual points in the hull that bounds the optimum.  Measured: 20 takes 3 % more passes, 5 does
    not reach the gap on two of twelve problems."""

    pairs: int = 20
    """Pairs of the quasi-Newton updates.  Measured: 10 takes 5 % and 11 % more passes, 60 8 %
    more on the GPU."""

    hull_accuracy: float = 1e-3
    """Of the program over the hull, as a share of the gap.  Measured: 0.1 takes 0 and 1 % more."""

    smoothing_share: float = 0.5
    """Share of the gap that smoothing may be before there is less of it.  Measured: 0.25 takes 13 %
    more passes, 0.8 1 % more and 4 % fewer."""

    less_smoothing: float = 0.5
    """Factor on mu then.  Measured: 0.25 takes 1 and 2 % more passes, 0.7 6 and 3 %."""

    active_classes: float = 2.0
    """Classes that take part in the projection of an example, for the metric.  Measured: 10 takes
    3 % more passes, and one problem does not reach the gap."""

    active_classes_of_entropy: float = 10.0
    """The same where smoothing is by entropy, of which no example is between few classes.  Measured
    along C = 0.01, ..., 100 (probe-like features, 20,000 x 200 of 200 classes | 12,000 x 300 of 400
    | 20,000 x 96 of 60 | 6,000 x 64 of 10): 61 | 49 | 77 | 49 passes, with 2 85 | 76 | 75 | -, with
    30 67 | 54 | 77 | 54, with 100 71 | 60 | 84 | 59."""

    metric_range: float = 2.0
    """Factor by which a metric may be off before it is replaced by what the last steps met.
    Measured: never takes 0 and 6 % fewer passes to these gaps, but 2 of 21 small problems do not
    reach 1e-4 without; 1 takes 2 % more."""

    decrease: float = 1e-4
    """Share of the slope by which the value must fall for a step to be taken (Armijo)."""

    noise: float = 1e-7
    """Share of the value that rounding may add to it.  A guard: measured, 0 changes nothing
    on the GPU, and takes 0.4 % more passes on the CPU."""

    refinement: RefinementSettings = field(
        default_factory=partial(RefinementSettings, progress=0.2, patience=12)
    )
    """When products become more exact: rounded gradients lead astray where P_mu is steep."""

    shortest_step: float = 1e-3
    """A direction of pairs that needs shorter steps is given up, with them.  Measured: without, two
    of twelve problems do not reach the gap."""


class Problem(Protocol):
    """What the method has to know of a problem."""

    @property
    def loss(self) -> SimplexLoss: ...

    @property
    def n_classes(self) -> int: ...

    @property
    def smoothing(self) -> float: ...


class _Place(NamedTuple):
    """A point at which the envelopes are known."""

    image: Any
    value: float  # P_mu


class EnvelopeDescent(IncumbentDescent):
    """Quasi-Newton steps on smoothed losses, for the loop.

    Parameters
    ----------
    rows : Rows
        Who holds the rows; not of a kernel.
    problem : Problem
        Its loss, number of classes and smoothing, which P and D have too.
    state : DualState, optional
        Where to start.
    weights : array, optional
        The image to start at, if not that of the state: where C has changed, the optimum before is
        nearer than weights that have changed as much.
    settings : EnvelopeSettings, optional
    """

    def __init__(
        self,
        rows: Rows,
        problem: Problem,
        state: DualState | None = None,
        settings: EnvelopeSettings | None = None,
        weights: Any = None,
    ) -> None:
        self._first = weights
        self.settings = settings or EnvelopeSettings()
        loss = problem.loss
        largest = 1.0 if loss.costs is None else max(float(loss.costs.max()), 1e-300)
        own = self.settings
        self._least_mu, self._active = problem.smoothing, own.active_classes / problem.n_classes
        if loss.entropic:  # the largest eigenvalue of diag(p) - pp' is 1/2
            self._active = min(own.active_classes_of_entropy / problem.n_classes, 0.5)
        self._mu = problem.smoothing
        if not loss.entropic:  # entropy makes losses larger, and no model of less of it is known
            self._mu = max(self._mu, largest / loss.mass(problem.n_classes))
        super().__init__(rows, NAME, state)

    def _origin(self) -> DualState:
        return self.rows.zero_state(kept=False)

    def _begin(self, state: DualState) -> None:
        rows = self.rows
        first = state.image if self._first is None else self._first
        self.primal = self._point = state._replace(image=first)
        self.hull, self.best_dual = Hull(rows, self.settings.atoms), -math.inf
        self._reset_hull(state._replace(linear=state.linear - 0.5 * rows.ridge(state.alpha)))
        self._value, self._refinement = math.inf, Refinement(self.settings.refinement)
        self._here: _Place | None = None
        self._factor = self._active / self._mu
        self._memory = Memory(rows, rows.moments().inverse(self._factor), self.settings.pairs)
        self._step, self._slope = 1.0, 0.0

    def _reset_hull(self, state: DualState) -> None:
        """Make the hull one point."""
        self.hull.clear()
        self.hull.add(state.linear, *self.rows.read(*self.hull.put(state)))
        self._bound()

    def _bound(self) -> None:
        """The dual value of the hull's best point, or less where images are rounded."""
        square, error = self._sizes = self.hull.size()
        square += error * (2.0 * math.sqrt(square) + error)
        dual = float(self.hull.linear @ self.hull.weights) - 0.5 * square
        if dual > self.best_dual:
            self.best_dual, self._proof, self._best_sizes = dual, self.hull.parts(), self._sizes

    @property
    def state(self) -> DualState:  # type: ignore[override]
        """The best point of the hull."""
        return self.hull.state()

    def coefficients(self) -> Any:
        """``s_i alpha_i`` of the dual points that prove the bound, or what makes them."""
        return self.rows.coefficients(self._origin()._replace(provenance=blend(self._proof)))

    def snapshot(self) -> dict[str, Any]:
        """As of the other methods, with mu."""
        return super().snapshot() | {"mu": np.array(self._mu)}

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self._mu = float(arrays["mu"])
        super().resume(arrays)
        self.primal = self._point = self.primal._replace(image=arrays["primal"])

    def look(self) -> Look:
        image, rows = self.primal.image, self.rows
        found = rows.envelopes(image, self._mu)
        flat = rows.xp.reshape(image, (-1,))
        numbers, square, along, *of_hull = rows.read(
            found.numbers,
            flat @ flat,
            self._memory.look(image, image - found.nearest.image),
            *self.hull.put(found.nearest),
        )
        losses, linear, products, ridge = numbers.tolist()
        half, envelopes = 0.5 * float(square[0]), products - 0.5 * self._mu * ridge
        self._memory.set_products(along)
        self._found = _Place(image, half + envelopes)
        exact = self._mu == self._least_mu  # else P of losses without smoothing: not less
        value = half + (envelopes if exact else losses)
        if value < self._value:
            self._point, self._value = self.primal, value
        # the square is convex: what a mixture has of it is no more than the mixture of squares
        self.hull.add(linear - 0.5 * self._least_mu * ridge, *of_hull)
        self.hull.correct(self.settings.hull_accuracy * max(self._value - self.best_dual, 0.0))
        self._bound()
        self._lost = losses - envelopes - 0.5 * (self._mu - self._least_mu) * ridge
        self._smooths = 0.5 * self._mu * ridge > EPSILON * abs(value)  # else less is the same
        self._gap = self._value - self.best_dual
        return self._look(self._value)

    def move(self) -> Move:
        here, found = self._here, self._found
        if here is not None:
            enough = (
                here.value
                + self.settings.decrease * self._step * self._slope
                + self.settings.noise * abs(here.value)
            )
            if not found.value <= enough:
                return self._shorten_step(here, found)
        self._memory.accept_pair()
        if self._refinement.is_due(self._gap, self._best_sizes) and self.rows.refine():
            self._reset_hull(self._origin())
            self._value = math.inf
            return self._look_again(Move(0.0, "refine"))
        much = self._lost > self.settings.smoothing_share * self._gap
        if much and self._smooths and self._mu > self._least_mu:
            self._mu = max(self.settings.less_smoothing * self._mu, self._least_mu)
            self._measure_anew()
            return self._look_again(Move(0.0, "less smoothing"))
        self._here = found
        self._direction, self._slope = self._memory.direction()
        return self._go(1.0, "quasi-newton")

    def _measure_anew(self) -> None:
        """Another metric, where the one in use is far from what the last steps met."""
        factor, most = self._steepness(), self.settings.metric_range
        if not self._factor / most <= factor <= self._factor * most:
            self._factor = factor
            self._memory.set_metric(self.rows.moments().inverse(factor))

    def _steepness(self) -> float:
        """The t with which ``I + t sum_i s_i x_i x_i'`` is most like the Hessian.

        What the last steps met, in the geometric mean, or a guess that is rather too large.
        """
        most = self._active / self._mu
        met = self._memory.steepness(self.rows.moments().times)
        met = met[met > 0.0]
        return min(float(np.exp(np.log(met).mean())), most) if met.size else most

    def _shorten_step(self, here: _Place, found: _Place) -> Move:
        """A shorter step: the minimum of the parabola through what is known."""
        step = self._step
        fall = -step * self._slope
        above = found.value - here.value + fall
        shorter = step * min(max(0.5 * fall / above, 0.1), 0.5) if above > 0 else 0.1 * step
        if shorter < self.settings.shortest_step and len(self._memory):
            self._memory.clear()
            self.primal = self.primal._replace(image=here.image)
            return self._look_again(Move(0.0, "restart"))
        return self._go(shorter, "shorter")

    def _look_again(self, move: Move) -> Move:
        """Look at the same weights anew."""
        self._here = None
        self._memory.forget_position()
        return move

    def _go(self, step: float, kind: str) -> Move:
        assert self._here is not None
        self._step = step
        image = self._centred(self._here.image + step * self._direction)
        self.primal = self.primal._replace(image=image, steps=self.primal.steps + 1)
        return Move(step, kind)

    def _centred(self, image: Any) -> Any:
        """The weights without what all classes share, which losses do not see: no more than P.

        In exact arithmetic they have none; of two classes the model keeps the difference only.
        """
        axis = 1 if self.rows.moments().sparse else 0
        if image.shape[axis] == 1:  # joint features: one vector for all classes
            return image
        return image - self.rows.xp.mean(image, axis=axis, keepdims=True)

    def certify(self, point: DualState) -> Look:
        """P of the point from the data in float64, against the dual value of the hull's point.

        The image of that point is made of those of the hull: the squares of the hull's products
        may cancel.
        """
        self.best, self._proof = self.hull.state(), self.hull.parts()
        return super().certify(point)
