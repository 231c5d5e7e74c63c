"""The fast solver of kernel SVMs: working sets, two-coordinate descent, Newton steps on faces.

It solves ``min 1/2 b'Kb + <p, b>`` over a box with one or two fixed sums
(:mod:`cornerstep.problems.reduced_hull`).  A *round* is one look and one move.

- The look calls the domain's oracle at the gradient h: value and duality gap.
- The move takes a working set: the coordinates that are free or violate optimality and whose
  columns are kept, and a few newcomers, the worst violators of the others.  Its own small kernel
  matrix is read from kept columns; only entries between newcomers are new.  The small problem is
  solved (:mod:`cornerstep.problems.reduced_hull_face`).  Then the gradient follows the coordinates
  that moved, and only their whole columns are ever computed, in batches.

Slim reduced hulls (K is small) *grow* from nothing: with sums of less than K, a few newcomers a
round bring their weight with them, until the sums are K.  So every column is chosen by a machine
that has seen all examples, one or two at a time, and few of them are wasted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cornerstep.kernels.reduced_hull import least_idle, violators
from cornerstep.optimiser.loop import Look, Move
from cornerstep.problems.reduced_hull import ReducedHullProblem
from cornerstep.problems.reduced_hull_face import DAMPING, SmallProblem
from cornerstep.vectors import FloatArray, IntArray

_NEWCOMERS = 256  # coordinates whose columns may join a working set, ...
_NEWCOMERS_FEW = (16, 64)  # ... the larger of 16 and 1 in 64 examples if that is fewer, ...
_NEWCOMERS_SHARE = 0.1  # ... or this share of the free ones, if that is more
SLIM = 125.0  # hulls of fewer examples grow, ...
_SLIM_SHARE = 0.03  # ... by this share of the support in a round, ...
_SLIM_SUPPORT = 3.0  # ... until the support is this many times the least possible, 2K;
_FILL = 0.75  # the share of its cap that a newcomer brings
_KNOWN = 256  # violators with kept columns that may join, at least
_LARGEST = 4000  # up to working sets of this size
_VIOLATION = 0.3  # who joins violates optimality by at least this share of the most
_INNER, _FINE = 0.1, 0.003  # a working set is solved to this share of the largest violation
_FAILURES = 2  # certificates that float32 columns may miss
NOISE = 0.5  # what rounding to float32 may do to the gap, as a share of what is allowed of it


class WorkingSetDescent:
    """Rounds of working sets, for the loop.

    Parameters
    ----------
    problem : ReducedHullProblem
    beta : array of shape (n,)
        Signed variables to start from, not changed; reduced hulls whose sums are below K grow.
    tol : float
        The relative gap to reach: float32 columns that are too coarse for it are given up.
    """

    monotone = True
    extra_columns: tuple[str, ...] = ("kernel_evaluations", "support")

    def __init__(self, problem: ReducedHullProblem, beta: FloatArray, tol: float) -> None:
        self.problem = problem
        self.columns = problem.columns
        self.tol = tol
        self.beta = beta
        self.gradient = problem.linear.copy()
        support = beta.nonzero()[0]
        self.columns.add_product(support, beta[support], self.gradient)
        self.growing = problem.is_short(beta)
        self._grew = self.growing
        self._failures = 0
        self._damping = DAMPING[0]

    @property
    def point(self) -> FloatArray:
        return self.beta

    def look(self) -> Look:
        problem = self.problem
        value = problem.value(self.beta, self.gradient)
        if self._is_coarse() and rounding(problem, self.beta) > NOISE * self.tol * abs(value):
            self.columns.use_double()
            self.gradient = problem.gradient(self.beta)
            value = problem.value(self.beta, self.gradient)
        extra = self.columns.evaluations, int(np.count_nonzero(self.beta))
        if self.growing:
            return Look(value, np.inf, certified=False, extra=extra)
        gap = problem.gap(self.beta, self.gradient)
        return Look(value, max(gap, 0.0), extra=extra)

    def _is_coarse(self) -> bool:
        return self.columns.precision is np.float32

    def certify(self, point: FloatArray) -> Look:
        """Gradient, value and gap in float64; float32 columns may fall short once.

        Hulls that were stopped while they grew are filled up first.
        """
        if self.growing:
            point = self.problem.filled(point, self.gradient)
            self.growing = False
        self.beta = point
        self.gradient = self.problem.gradient(point)
        self._failures += 1
        if self._failures >= _FAILURES and self._is_coarse():
            self.columns.use_double()
        return self.look()

    def move(self) -> Move:
        problem = self.problem
        start = self._grown() if self.growing else self.beta
        chosen, violation = self._working_set(start != self.beta)
        if chosen.size == 0:
            return Move(0.0, "none")
        K, gradient = self.columns.submatrix(chosen), self.gradient[chosen]
        if self.growing:
            gradient += K @ (start - self.beta)[chosen]
            violation = float(np.ptp(gradient))
        small = SmallProblem(
            K, start[chosen], gradient, (problem.lower[chosen], problem.upper[chosen]),
            int(np.searchsorted(chosen, problem.split)), self._damping,
        )  # fmt: skip
        kind = small.solve((_FINE if self.slim else _INNER) * violation, newton=not self.growing)
        self._damping = small.damping
        change = small.beta - self.beta[chosen]
        moved = change.nonzero()[0]
        beta, gradient = self.beta.copy(), self.gradient.copy()
        beta[chosen] = small.beta
        self.columns.add_product(chosen[moved], change[moved], gradient)
        self.beta, self.gradient = beta, gradient
        if self.growing:
            self.growing = problem.is_short(beta)
            kind = "growth"
        return Move(1.0 if moved.size else 0.0, kind)

    @property
    def slim(self) -> bool:
        """Whether columns are few, and dear: hulls that grew and still have a small support."""
        most = _SLIM_SUPPORT * 2 * self.problem.width
        return self._grew and bool(np.count_nonzero(self.beta) <= most)

    def _newcomers(self) -> int:
        """How many coordinates may join whose columns are not kept."""
        if self.slim:
            return int(np.clip(_SLIM_SHARE * np.count_nonzero(self.beta), 2, _NEWCOMERS))
        few = max(_NEWCOMERS_FEW[0], self.problem.n // _NEWCOMERS_FEW[1])
        free = (self.beta > self.problem.lower) & (self.beta < self.problem.upper)
        return int(max(min(_NEWCOMERS, few), _NEWCOMERS_SHARE * np.count_nonzero(free)))

    def _grown(self) -> FloatArray:
        """More weight in each class, on the best of the examples that have none."""
        problem = self.problem
        most = self._newcomers() // 2
        weights = [abs(float(self.beta[part].sum())) for part in problem.classes]
        newcomers = [
            least_idle(self.beta, self.gradient, part.start, part.stop, sign, most)
            for part, sign in zip(problem.classes, (1.0, -1.0), strict=True)
        ]
        if min(some.size for some in newcomers) == 0:
            return problem.filled(self.beta, self.gradient)
        self.columns.fetch(np.concatenate(newcomers))
        brought = [_FILL * float(problem.caps[some].sum()) for some in newcomers]
        goal = min(problem.K or 0.0, *(w + b for w, b in zip(weights, brought, strict=True)))
        beta = self.beta.copy()
        for some, weight in zip(newcomers, weights, strict=True):
            caps = problem.caps[some]
            beta[some] = problem.signs[some] * caps * ((goal - weight) / float(caps.sum()))
        return beta

    def _working_set(self, joined: npt.NDArray[np.bool_]) -> tuple[IntArray, float]:
        """Coordinates to work on, in order, and the largest violation of optimality.

        They are those that are free or have ``joined``, violators whose columns are kept, and
        newcomers.
        """
        problem, newcomers = self.problem, self._newcomers()
        known = self.columns.are_kept()
        most = max(newcomers, _KNOWN) // 2
        fresh = 0 if self.growing else max(newcomers // 2, 1)
        free = ((self.beta > problem.lower) & (self.beta < problem.upper)) | joined
        chosen = [np.flatnonzero(free)]
        if chosen[0].size > _LARGEST - newcomers:
            chosen = []  # too many: the worst of them join like the others
            free = np.zeros_like(free)
            most = _LARGEST // 4
        largest = 0.0
        for part in problem.sums:
            sides, violation = violators(
                self.beta, self.gradient, problem.lower, problem.upper, free, known,
                part.start, part.stop, _VIOLATION,
            )  # fmt: skip
            largest = max(largest, violation)
            for k, (worst, keys) in enumerate(sides):
                limit = fresh if k % 2 else most
                if worst.size > limit:
                    worst = worst[np.argpartition(keys, limit)[:limit]]
                chosen.append(worst)
        return np.unique(np.concatenate(chosen)), largest


def rounding(problem: ReducedHullProblem, beta: FloatArray) -> float:
    """About what rounding kernel entries to float32 does to the gap at ``beta``."""
    spread = float(np.linalg.norm(beta)) / max(float(np.abs(beta).sum()), 1e-300)
    return float(np.finfo(np.float32).eps) / 2 * spread * problem.scale(beta)
