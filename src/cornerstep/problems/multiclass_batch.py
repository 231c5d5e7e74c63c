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


class DualState(NamedTuple):
    """What is kept of dual points: their image, ``l``, and themselves where needed (else empty)."""

    image: FloatArray
    linear: float
    alpha: FloatArray  # one row an example, not scaled by s_i
    count: int = 0  # of the steps that led here: the schedules go on from it

    def towards(self, other: DualState, step: float) -> DualState:
        """``(1 - step) self + step other``."""
        return DualState(
            self.image + step * (other.image - self.image),
            self.linear + step * (other.linear - self.linear),
            self.alpha + step * (other.alpha - self.alpha) if self.alpha.size else self.alpha,
            self.count + 1,
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
        return state._replace(image=factors[0] * state.image, linear=factors[0] * state.linear)
    image, linear = problem.examples.empty_image(problem.n_classes), 0.0
    for block in problem.blocks():
        coefficients = problem.scales[block, None] * state.alpha[block]
        deltas = problem.loss.rows(block).deltas(problem.labels[block], problem.n_classes)
        problem.examples.add_image(image, block, coefficients)
        linear -= float(np.vdot(coefficients, deltas))
    return state._replace(image=image, linear=linear)


class BatchDescent:
    """Iterations on all examples at once, for the loop.

    Parameters
    ----------
    problem : MulticlassProblem
    rule : str
        One of ``RULES``.
    state : DualState, optional
        Where to start; steps go on from its count.
    """

    monotone = False
    extra_columns: tuple[str, ...] = ("dual", "frank_wolfe_gap")

    def __init__(
        self, problem: MulticlassProblem, rule: str, state: DualState | None = None
    ) -> None:
        self.problem = problem
        self.rule = rule
        examples = problem.examples
        self._keeps_duals = keeps_duals(problem)
        shape = (examples.n if self._keeps_duals else 0, problem.n_classes)
        nothing = DualState(examples.empty_image(problem.n_classes), 0.0, np.zeros(shape))
        self.dual = nothing if state is None else state
        self.primal = self.dual  # where P is taken; Pegasos parts the two
        self.best, self.best_dual = self.dual, self.dual_value(self.dual)
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
        """``D = l - 1/2 |W|² - mu/2 sum_i s_i |alpha_i|²``."""
        return state.linear - 0.5 * self._square(state) - 0.5 * self._ridge(state.alpha)

    def look(self) -> Look:
        losses, vertex_losses = self._find_corner()
        square = self._square(self.primal)
        # <grad, x - v> of the dual
        self._gap = vertex_losses + square + self._ridge(self.dual.alpha) - self.dual.linear
        dual = self.dual_value(self.dual)
        if dual > self.best_dual:
            self.best, self.best_dual = self.dual, dual
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
        alpha = np.zeros((examples.n if self._keeps_duals else 0, problem.n_classes))
        image = examples.empty_image(problem.n_classes)
        losses = vertex_losses = linear = 0.0
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
                linear -= float((weight * deltas).sum())
            else:
                here = self.dual.alpha[:0]
                if problem.smoothing:
                    losses += float(scales @ loss.envelope(scores, labels, problem.smoothing))
                    here = self.dual.alpha[block]
                corner = scores  # overwritten
                part, costs = kernels.corners(corner, block.start, problem.record, here)
                vertex_losses += part
                linear += costs
            if self._keeps_duals:
                alpha[block] = corner
            examples.add_image(image, block, scales[:, None] * corner)
        self._corner = DualState(image, linear, alpha)
        return (losses if problem.smoothing else vertex_losses), vertex_losses

    def move(self) -> Move:
        t = self.dual.count + 1
        if self.rule == "projected-gradient":
            step = 1.0 / t
            self.dual = self.dual.towards(self._corner, step)
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
            change = DualState(
                self._corner.image - self.dual.image, 0.0, self._corner.alpha - self.dual.alpha
            )
            curvature = self._square(change) + self._ridge(change.alpha)
            step = min(1.0, self._gap / curvature) if curvature > 0 else 1.0
        self.dual = self.primal = self.dual.towards(self._corner, step)
        return Move(step, "fw")

    def certify(self, point: DualState) -> Look:
        """P of the point from the data in float64, against the best dual value."""
        self.primal = point
        return self._look(self.problem.losses(point.image) + 0.5 * self._square(point))
