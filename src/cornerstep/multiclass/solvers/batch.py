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

All arithmetic on rows is a pass over whoever holds them
(:mod:`cornerstep.multiclass.solvers.passes`).

References
----------
.. [1] K. Tajima, Y. Hirohashi, E. R. R. Zara, T. Kato. Frank-Wolfe algorithm for learning SVM-type
   multi-category classifiers. arXiv:2008.08894, 2020.
.. [2] K. Tajima, T. Kato. Frank-Wolfe learning algorithm for SVM-type multi-category classifiers
   (in Japanese). 2020.
.. [3] S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter. Pegasos: primal estimated sub-gradient
   solver for SVM. Mathematical Programming 127, 3-30, 2011.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.data.reductions import moved_note
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.passes import DualState, LocalRows, Rows, rows_of
from cornerstep.optimiser.loop import Look, Move

_EXACT = Rounding()


def rescaled_state(
    problem: MulticlassProblem, state: DualState, scales: FloatArray
) -> DualState | None:
    """The state, in this problem, of the dual points of one with the same labels and other scales.

    Where only their image is kept, examples and costs must be the same too and all scales have
    changed by one factor; else there is no such state.
    """
    if not state.alpha.shape[0]:
        factors = problem.scales / scales
        if np.ptp(factors) > 1e-12 * factors[0]:
            return None
        return state._replace(
            image=factors[0] * state.image,
            linear=factors[0] * state.linear,
            probed=factors[0] * state.probed,
        )
    return LocalRows(problem).gathered(state.alpha)._replace(steps=state.steps)


class BatchDescent:
    """Iterations on all examples at once, for the loop.

    Parameters
    ----------
    problem : MulticlassProblem or Rows
        The problem, or who holds its rows.
    rule : str
        One of the plain methods: ``parameters.PLAIN``.
    state : DualState, optional
        Where to start; schedules go on from its steps.
    """

    monotone = False
    remembers = False  # where its dual points come from: one W for each step of a plain method

    def __init__(
        self, problem: MulticlassProblem | Rows, rule: str, state: DualState | None = None
    ) -> None:
        self.rows = rows_of(problem) if isinstance(problem, MulticlassProblem) else problem
        self.rule = rule
        nothing = self._origin()
        self._corner = nothing
        self.radius = math.inf
        if rule == "projected-gradient":
            self.radius = math.sqrt(self.rows.losses(nothing.image))  # |W*|² <= P(0)
        self._gap = 0.0
        self._begin(nothing if state is None else state)

    def _origin(self) -> DualState:
        """The state of dual points 0."""
        return self.rows.zero_state()

    def _begin(self, state: DualState) -> None:
        self.state = state = state if self.remembers else state._replace(provenance=None)
        self.primal = state  # where P is taken; Pegasos parts the two
        self.best, self.best_dual = state, self.dual_value(state)

    def snapshot(self) -> dict[str, Any]:
        """The state as arrays by name, and the losses there: what shows that the data is another.

        The dual points of the batch methods are kept where they are in this process.
        """
        state = self._kept()
        image, primal = np.asarray(state.image), np.asarray(self.primal.image)
        arrays = {
            "image": image, "linear": np.array(state.linear), "probed": np.asarray(state.probed),
            "steps": np.array(state.steps), "primal": primal, "alpha": np.asarray(state.alpha),
            "losses": np.array(self.rows.losses(state.image)),
        }  # fmt: skip
        if self.rule == "projected-gradient":
            arrays["primal_alpha"] = np.asarray(self.primal.alpha)
        return arrays

    def _kept(self) -> DualState:
        """The state that a snapshot is of."""
        return self.state

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot: one taken with the same data, costs and weights."""
        self._check(arrays)
        state = DualState(
            arrays["image"],
            float(arrays["linear"]),
            arrays["alpha"],
            arrays["probed"],
            int(arrays["steps"]),
        )
        self._begin(state)
        if self.rule == "projected-gradient":
            self.primal = state._replace(image=arrays["primal"], alpha=arrays["primal_alpha"])

    def _check(self, arrays: dict[str, Any]) -> None:
        """Complain about a snapshot that cannot be of this problem."""
        nothing = self._origin()
        shapes = {"image": nothing.image, "primal": nothing.image, "probed": nothing.probed}
        for name, like in (shapes | {"linear": 0.0, "losses": 0.0}).items():
            if np.shape(arrays[name]) != np.shape(like) or not np.isfinite(arrays[name]).all():
                raise ValueError(f"its {name} is not of these examples and classes")
        for name in {"alpha", "primal_alpha"} & arrays.keys():
            alpha = arrays[name]
            if np.shape(alpha) != np.shape(nothing.alpha) or not np.isfinite(alpha).all():
                raise ValueError(f"its {name} is not of these examples and classes")
        losses, claimed = self.rows.losses(arrays["image"]), float(arrays["losses"])
        if not math.isclose(losses, claimed, rel_tol=1e-9):
            raise ValueError(f"the losses at its weights are {losses:.9g}, not {claimed:.9g}")

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Of the trace."""
        columns = ("dual", "frank_wolfe_gap")
        return columns if self.rows.moved is None else (*columns, "bytes_moved")

    @property
    def note(self) -> str:
        """For the live display."""
        return moved_note(self.rows.moved)

    @property
    def point(self) -> DualState:
        return self.primal

    def coefficients(self) -> Any:
        """``s_i alpha_i`` of the best dual points, or what makes them; None if neither is kept."""
        return self.rows.coefficients(self.best)

    def weights_coefficients(self) -> Any:
        """``s_i alpha_i`` of the point to return, where they are kept."""
        return self.rows.coefficients(self.primal)

    def weights_image(self) -> Any:
        """The image of the point to return."""
        return self.primal.image

    def _square(self, state: DualState) -> float:
        return self.rows.square(state)

    def _ridge(self, alpha: Any) -> float:
        return self.rows.ridge(alpha)

    def dual_value(self, state: DualState) -> float:
        """``D = l - 1/2 |W|² - mu/2 sum_i s_i |alpha_i|²``, or less where W is rounded."""
        square, error = self._sizes = self.rows.size(state)
        square += error * (2.0 * math.sqrt(square) + error)
        return state.linear - 0.5 * square - 0.5 * self._ridge(state.alpha)

    def look(self) -> Look:
        found = self.rows.corner(self.primal, self.state, nearest=self.rule == "projected-gradient")
        self.primal, self.state, self._corner = found.primal, found.state, found.corner
        if not self.remembers:
            self._corner = self._corner._replace(provenance=None)
        square = self._square(self.primal)
        # <grad, x - v> of the dual
        self._gap = found.vertex_losses + square + self._ridge(self.state.alpha) - self.state.linear
        dual = self.dual_value(self.state)
        if dual > self.best_dual:
            self.best, self.best_dual = self.state, dual
        return self._look(found.losses + 0.5 * square)

    def _look(self, value: float, rounding: Rounding = _EXACT) -> Look:
        frank_wolfe = math.nan if self.rule == "projected-gradient" else self._gap
        extra: tuple[Any, ...] = (self.best_dual, frank_wolfe)
        if self.rows.moved is not None:
            extra = (*extra, self.rows.moved)
        return certified(value, self.best_dual, rounding, extra)

    def move(self) -> Move:
        t = self.state.steps + 1
        if self.rule == "projected-gradient":
            step = 1.0 / t
            self.state = self.state.towards(self._corner, step)
            primal = self.primal.towards(self._corner, step)
            norm = math.sqrt(self._square(primal))
            self.primal = primal.shrunk(self.radius / norm) if norm > self.radius else primal
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
        """P of the point from the data in float64, against the best dual value, found anew."""
        self.primal, self.best_dual = point, self.dual_value(self.best)
        square = self._square(point)
        value = self.rows.losses(point.image) + 0.5 * square
        return self._look(value, self.rows.rounding(point, self.best, square))


class IncumbentDescent(BatchDescent):
    """With a best point that is not where the next pass is made, and dual points found again."""

    remembers = True

    @property
    def point(self) -> DualState:
        return self._point

    def set_incumbent(self, point: DualState, value: float) -> None:
        """A point with this P is known: it is returned unless a better one is found."""
        self._point, self._value = point, value

    def certify(self, point: DualState) -> Look:
        """P of the point from the data in float64, against the best dual value."""
        look = super().certify(point)
        self.set_incumbent(point, look.value)
        return look
