"""The plain methods for the multi-class SVM: Frank-Wolfe on all examples at once, and Pegasos.

An iteration is two products with the data: the scores ``S = X W``, from which each example's vertex
``u_i`` follows by sorting, and ``W(U) = X'(s U)``.  Without smoothing only W and the number
``l = sum_i s_i <Delta_i, beta_i>`` are kept, O(md) in all; with smoothing or a kernel the dual
points too.

- *fw*: the step ``gamma = gap / (|W(U - A)|² + mu sum_i s_i |u_i - alpha_i|²)``, clipped to [0, 1];
- *fw-open-loop*: ``gamma = 2 / (t + 1)``;
- *projected-gradient*: subgradient steps ``W <- (1 - 1/t) W + W(U)/t``, projected onto the ball
  that holds the optimum.  The average of the vertices is a dual point and proves a gap.

The Frank-Wolfe gap is ``P - D``; with smoothing it only bounds it from above, and the true envelope
(a projection for each example) gives the tighter gap, on which a run stops.  The trace has both.

Products of float32 data are rounded, so that the kept W is ``W(A) + E``, and ``l - 1/2 |W|²`` need
not be below the optimum.  What is subtracted is ``1/2 (|W| + e)²`` with e a bound of |E|: for
Gaussian vectors q_1, ..., q_16 the products ``W(A) q = sum_i s_i (x_i'q) alpha_i`` are kept in
float64, which costs 16/d of a product with the data, and ``|E|²`` is the mean of ``|E q|²``.  Five
times its root is below |E| with a probability under 1e-8, whatever E is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cornerstep.kernels import multiclass as kernels
from cornerstep.optimiser.loop import Look, Move
from cornerstep.problems.multiclass import MulticlassProblem
from cornerstep.vectors import FloatArray

RULES = ("fw", "fw-open-loop", "projected-gradient")
_PROBES, _SAFETY = 16, 5.0  # vectors q, and the multiple of the error that they measure


class DualState(NamedTuple):
    """What is kept of dual points: their image, ``l``, and themselves where needed (else empty)."""

    image: FloatArray
    linear: float
    alpha: FloatArray  # one row an example, not scaled by s_i
    probed: FloatArray  # W(A) times the vectors q, a column each, where the image is rounded
    steps: int = 0  # taken so far: the schedules go on from there

    def towards(self, other: DualState, step: float) -> DualState:
        """``(1 - step) self + step other``."""
        return DualState(
            self.image + step * (other.image - self.image),
            self.linear + step * (other.linear - self.linear),
            self.alpha + step * (other.alpha - self.alpha) if self.alpha.size else self.alpha,
            self.probed + step * (other.probed - self.probed),
            self.steps + 1,
        )


def keeps_duals(problem: MulticlassProblem) -> bool:
    """Whether the dual points themselves are needed."""
    return bool(problem.smoothing) or problem.examples.kernel


def carried(problem: MulticlassProblem, state: DualState, scales: FloatArray) -> DualState | None:
    """The state, in this problem, of the dual points of one with the same labels and other scales.

    Where only their image is kept, examples and costs must be the same too and all scales have
    changed by one factor; else there is no such state.
    """
    if not keeps_duals(problem):
        factors = problem.scales / scales
        if np.ptp(factors) > 1e-12 * factors[0]:
            return None
        return state._replace(
            image=factors[0] * state.image,
            linear=factors[0] * state.linear,
            probed=factors[0] * state.probed,
        )
    gathering = Gathering(problem, Probes(problem))
    for block in problem.blocks():
        deltas = problem.loss.rows(block).deltas(problem.labels[block], problem.n_classes)
        gathering.add(block, state.alpha[block])
        gathering.linear -= float(np.vdot(problem.scales[block, None] * state.alpha[block], deltas))
    return gathering.state()._replace(steps=state.steps)


class Probes:
    """Random vectors that measure the rounding of an image: none where it is in float64."""

    def __init__(self, problem: MulticlassProblem) -> None:
        examples = problem.examples
        count = 0 if examples.data.dtype == np.float64 else _PROBES
        shape = examples.empty_image(count).shape
        self.image: FloatArray = np.random.default_rng(0).standard_normal(shape)
        self.products = np.empty((examples.n, count))  # x_i'q
        if count:
            for block in problem.blocks():
                self.products[block] = examples.scores(block, self.image, exact=True)
        self._sparse = examples.sparse

    def error(self, state: DualState) -> float:
        """A bound of |E| of the state's image."""
        if not self.image.size:
            return 0.0
        of_image = state.image.T @ self.image if self._sparse else state.image @ self.image.T
        return _SAFETY * float(np.linalg.norm(of_image - state.probed)) / math.sqrt(_PROBES)


class Gathering:
    """Dual points, block after block, on the way to their state."""

    def __init__(self, problem: MulticlassProblem, probes: Probes) -> None:
        self.problem, self.probes = problem, probes
        n = problem.examples.n if keeps_duals(problem) else 0
        self.alpha = np.zeros((n, problem.n_classes))
        self.image = problem.examples.empty_image(problem.n_classes)
        self.probed = np.zeros((problem.n_classes, probes.products.shape[1]))
        self.linear = 0.0

    def add(self, block: slice, alpha: FloatArray) -> None:
        """Add the dual points of the examples of ``block`` to all but ``linear``."""
        if self.alpha.size:
            self.alpha[block] = alpha
        coefficients = self.problem.scales[block, None] * alpha
        self.problem.examples.add_image(self.image, block, coefficients)
        if self.probed.size:
            self.probed += coefficients.T @ self.probes.products[block]

    def state(self) -> DualState:
        """What has been gathered."""
        return DualState(self.image, self.linear, self.alpha, self.probed)


class BatchDescent:
    """Iterations on all examples at once, for the loop.

    Parameters
    ----------
    problem : MulticlassProblem
    rule : str
        One of ``RULES``.
    state : DualState, optional
        Where to start; schedules go on from its steps.
    """

    monotone = False
    extra_columns: tuple[str, ...] = ("dual", "frank_wolfe_gap")

    def __init__(
        self, problem: MulticlassProblem, rule: str, state: DualState | None = None
    ) -> None:
        self.problem = problem
        self.rule = rule
        self._keeps_duals = keeps_duals(problem)
        self._probes = Probes(problem)
        nothing = Gathering(problem, self._probes).state()
        self.state = nothing if state is None else state
        self.primal = self.state  # where P is taken; Pegasos parts the two
        self.best, self.best_dual = self.state, self.dual_value(self.state)
        self._corner = nothing
        self._radius = math.inf
        if rule == "projected-gradient":
            self._radius = math.sqrt(problem.losses(nothing.image))  # |W*|² <= P(0)
        self._gap = 0.0

    @property
    def point(self) -> DualState:
        return self.primal

    def coefficients(self) -> FloatArray | None:
        """``s_i alpha_i`` of the best dual points, where they are kept."""
        return self.problem.scales[:, None] * self.best.alpha if self._keeps_duals else None

    def weights_coefficients(self) -> FloatArray | None:
        """``s_i alpha_i`` of the point to return, where they are kept."""
        return self.problem.scales[:, None] * self.primal.alpha if self._keeps_duals else None

    def weights_image(self) -> FloatArray:
        """The image of the point to return."""
        return self.primal.image

    def _square(self, state: DualState) -> float:
        if self.problem.examples.kernel:
            return float(np.vdot(self.problem.scales[:, None] * state.alpha, state.image.T))
        return float(np.vdot(state.image, state.image))

    def _ridge(self, alpha: FloatArray) -> float:
        """``mu sum_i s_i |alpha_i|²``."""
        if not self.problem.smoothing:
            return 0.0
        return self.problem.smoothing * float(self.problem.scales @ (alpha**2).sum(axis=1))

    def dual_value(self, state: DualState) -> float:
        """``D = l - 1/2 |W|² - mu/2 sum_i s_i |alpha_i|²``, or less where W is rounded."""
        square = self._square(state)
        error = self._probes.error(state)
        square += error * (2.0 * math.sqrt(square) + error)
        return state.linear - 0.5 * square - 0.5 * self._ridge(state.alpha)

    def look(self) -> Look:
        losses, vertex_losses = self._find_corner()
        square = self._square(self.primal)
        # <grad, x - v> of the dual
        self._gap = vertex_losses + square + self._ridge(self.state.alpha) - self.state.linear
        dual = self.dual_value(self.state)
        if dual > self.best_dual:
            self.best, self.best_dual = self.state, dual
        return self._look(losses + 0.5 * square)

    def _look(self, value: float) -> Look:
        frank_wolfe = math.nan if self.rule == "projected-gradient" else self._gap
        return Look(value, max(value - self.best_dual, 0.0), extra=(self.best_dual, frank_wolfe))

    def _find_corner(self) -> tuple[float, float]:
        """Find the vertices U that the current scores point to.

        Returns ``sum s_i Phi_mu`` there, and ``sum s_i Phi`` at the scores ``W'x_i + mu alpha_i``
        at which Frank-Wolfe looks for its vertices.
        """
        problem, examples = self.problem, self.problem.examples
        gathering = Gathering(problem, self._probes)
        losses = vertex_losses = 0.0
        for block in problem.blocks():
            scores = examples.scores(block, self.primal.image)
            loss, labels = problem.loss.rows(block), problem.labels[block]
            scales = problem.scales[block]
            if problem.smoothing and self.rule == "projected-gradient":
                corner = loss.dual_point(scores, labels, problem.smoothing)
                deltas = loss.deltas(labels, problem.n_classes)
                weight = scales[:, None] * corner
                losses -= float((weight * (scores + deltas)).sum())
                losses -= 0.5 * problem.smoothing * float((weight * corner).sum())
                gathering.linear -= float((weight * deltas).sum())
            else:
                here = self.state.alpha[:0]
                if problem.smoothing:
                    losses += float(problem.block_losses(block, scores).sum())
                    here = self.state.alpha[block]
                corner = scores  # overwritten
                part, costs = kernels.corners(corner, block.start, problem.record, here)
                vertex_losses += part
                gathering.linear += costs
            gathering.add(block, corner)
        self._corner = gathering.state()
        return (losses if problem.smoothing else vertex_losses), vertex_losses

    def move(self) -> Move:
        t = self.state.steps + 1
        if self.rule == "projected-gradient":
            step = 1.0 / t
            self.state = self.state.towards(self._corner, step)
            primal = self.primal.towards(self._corner, step)
            norm = math.sqrt(self._square(primal))
            if norm > self._radius:
                shrink = self._radius / norm
                primal = primal._replace(
                    image=shrink * primal.image, linear=0.0, alpha=shrink * primal.alpha
                )
            self.primal = primal
            return Move(step, "subgradient")
        if self.rule == "fw-open-loop":
            step = 2.0 / (t + 1)
        else:
            change = self.state._replace(
                image=self._corner.image - self.state.image,
                alpha=self._corner.alpha - self.state.alpha,
            )
            curvature = self._square(change) + self._ridge(change.alpha)
            step = min(1.0, self._gap / curvature) if curvature > 0 else 1.0
        self.state = self.primal = self.state.towards(self._corner, step)
        return Move(step, "fw")

    def certify(self, point: DualState) -> Look:
        """P of the point from the data in float64, against the best dual value."""
        self.primal = point
        return self._look(self.problem.losses(point.image) + 0.5 * self._square(point))
