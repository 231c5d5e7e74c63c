"""The fast solver of kernel SVMs: working sets, two-coordinate descent, Newton steps on faces.

It solves ``min 1/2 b'Kb + <p, b>`` over a box with one or two fixed sums
(:mod:`cornerstep.kernel_svm.problem`).  A *round* is one look and one move.

- The look calls the domain's oracle at the gradient h: value and duality gap.
- The move takes a working set: the coordinates that are free or violate optimality and whose
  columns are kept, and a few newcomers, the worst violators of the others.  Its own small kernel
  matrix is read from kept columns; only entries between newcomers are new.  The small problem is
  solved (:mod:`cornerstep.kernel_svm.solvers.face`).  Then the gradient follows the coordinates
  that moved, and only their whole columns are ever computed, in batches.

Slim reduced hulls (K is small) *grow* from nothing: with sums of less than K, a few newcomers a
round bring their weight with them, until the sums are K.  So every column is chosen by a machine
that has seen all examples, one or two at a time, and few of them are wasted.

References
----------
.. [1] T. Joachims. Making large-scale SVM learning practical. In Advances in Kernel Methods, MIT
   Press, 1999.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.compiled.sweeps import least_idle, working_set
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.face import DAMPING, SmallProblem
from cornerstep.kernel_svm.solvers.headway import Headway
from cornerstep.optimiser.loop import Look, Move

_NEWCOMERS = 256  # coordinates whose columns may join a working set, ...
_NEWCOMERS_FEW = (16, 64)  # ... the larger of 16 and 1 in 64 examples if that is fewer, ...
_NEWCOMERS_SHARE = 0.1  # ... or this share of the free ones, if that is more
SLIM = 125.0  # hulls of fewer examples grow, ...
_SLIM_SHARE = 0.03  # ... by this share of the support in a round, but ...
_SLIM_LEAST = (2, 8)  # ... at least by so many while they grow, and so many join later, ...
_SLIM_SUPPORT = 3.0  # ... until the support is this many times the least possible, 2K;
_FILL = 0.75  # the share of its cap that a newcomer brings
_KNOWN = 256  # violators with kept columns that may join, at least
_LARGEST = 4000  # up to working sets of this size
_VIOLATION = 0.3  # who joins violates optimality by at least this share of the most
_INNER, _FINE = 0.1, 0.003  # a working set is solved to this share of the largest violation
_PATIENCE = 20  # rounds in which the largest violation halves; if not, both shares fall ...
_ZEAL = 0.1  # ... to this part of themselves: more join, and more is asked of Newton steps
_FAILURES = 2  # certificates that float32 columns may miss
_NOBODY = np.empty(0, np.intp)
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
        self.gradient = problem.linear.copy()
        support = beta.nonzero()[0]
        self.columns.add_product(support, beta[support], self.gradient)
        self._go_to(beta)
        self.growing = problem.is_short(beta)
        self._slim_support = _SLIM_SUPPORT * 2 * problem.width if self.growing else 0.0
        self._failures = 0
        self._headway, self._lost = Headway(), False
        self._rounds_left = problem.n  # in which hulls may grow: then they are filled up
        self._damping = DAMPING[0]
        self._least_violation, self._rounds = np.inf, 0  # the least so far, and rounds since

    def _go_to(self, beta: FloatArray) -> None:
        self.beta = beta
        self.support = int(np.count_nonzero(beta))

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
        extra = self.columns.evaluations, self.support
        if self.growing:
            return Look(value, np.inf, certified=False, extra=extra)
        look = problem.look(self.beta, self.gradient, extra)
        self._lost = self._lost or self._headway.is_lost(look)
        return look

    def _is_coarse(self) -> bool:
        return self.columns.precision is np.float32

    def certify(self, point: FloatArray) -> Look:
        """Gradient, value and gap in float64; float32 columns may fall short once.

        Hulls that were stopped while they grew are filled up first, and sums are put right.
        """
        if self.growing:
            point = self.problem.filled(point, self.gradient)
            self.growing = False
        self._go_to(self.problem.balanced(point))
        self.gradient = self.problem.gradient(self.beta)
        self._failures += 1
        if self._failures >= _FAILURES and self._is_coarse():
            self.columns.use_double()
        return self.look()

    def move(self) -> Move:
        problem = self.problem
        if self._lost:
            return Move(0.0, "none")
        start, joined = self._grown() if self.growing else (self.beta, _NOBODY)
        chosen, violation = self._working_set(joined)
        if chosen.size == 0:
            return Move(0.0, "none")
        before, inner = self.beta[chosen], start[chosen]
        K, gradient = self.columns.submatrix(chosen), self.gradient[chosen]
        if self.growing:
            gradient += K @ (inner - before)
            violation = float(gradient.max() - gradient.min())
        small = SmallProblem(
            K, inner, gradient, (problem.lower[chosen], problem.upper[chosen]),
            int(chosen.searchsorted(problem.split)), self._damping,
        )  # fmt: skip
        share = (_FINE if self.slim else _INNER) * self._zeal
        kind = small.solve(share * violation, newton=not self.growing)
        self._damping = small.damping
        change = small.beta - before
        moved = change.nonzero()[0]
        beta, self.gradient = self.beta.copy(), self.gradient.copy()
        beta[chosen] = small.beta
        self.columns.add_product(chosen[moved], change[moved], self.gradient)
        self._go_to(beta)
        if self.growing:
            self.growing = problem.is_short(beta)
            kind = "growth"
        return Move(1.0 if moved.size else 0.0, kind)

    @property
    def slim(self) -> bool:
        """Whether columns are few, and dear: hulls that grew and still have a small support."""
        return self.support <= self._slim_support

    def _newcomers(self) -> int:
        """How many coordinates may join whose columns are not kept."""
        if self.slim:
            least = _SLIM_LEAST[0 if self.growing else 1]
            return int(min(max(_SLIM_SHARE * self.support, least), _NEWCOMERS))
        few = max(_NEWCOMERS_FEW[0], self.problem.n // _NEWCOMERS_FEW[1])
        free = (self.beta > self.problem.lower) & (self.beta < self.problem.upper)
        return int(max(min(_NEWCOMERS, few), _NEWCOMERS_SHARE * np.count_nonzero(free)))

    def _grown(self) -> tuple[FloatArray, IntArray]:
        """More weight in each class, on the best of the examples that have none; and these."""
        problem = self.problem
        most = self._newcomers() // 2
        weights = problem.weights(self.beta)
        newcomers = [
            least_idle(self.beta, self.gradient, part.start, part.stop, sign, most)
            for part, sign in zip(problem.classes, (1.0, -1.0), strict=True)
        ]
        self._rounds_left -= 1
        if min(some.size for some in newcomers) == 0 or self._rounds_left < 0:
            beta = problem.filled(self.beta, self.gradient)
            return beta, (beta != self.beta).nonzero()[0]
        joined = np.concatenate(newcomers)
        self.columns.fetch(joined)
        brought = [_FILL * float(problem.caps[some].sum()) for some in newcomers]
        goal = min(problem.K or 0.0, *(w + b for w, b in zip(weights, brought, strict=True)))
        beta = self.beta.copy()
        for some, weight in zip(newcomers, weights, strict=True):
            caps = problem.caps[some]
            share = max(goal - weight, 0.0) / float(caps.sum())  # weights differ by rounding
            beta[some] = problem.signs[some] * caps * share
        return beta, joined

    def _working_set(self, joined: IntArray) -> tuple[IntArray, float]:
        """Coordinates to work on, in order, and the largest violation of optimality."""
        problem, newcomers = self.problem, self._newcomers()
        chosen, violation = working_set(
            self.beta, self.gradient, problem.lower, problem.upper, self.columns.slots, joined,
            problem.split, _VIOLATION * self._zeal, max(newcomers, _KNOWN) // 2,
            0 if self.growing else max(newcomers // 2, 1), _LARGEST - newcomers,
        )  # fmt: skip
        self._rounds += 1
        if self.growing or violation < 0.5 * self._least_violation:
            self._least_violation, self._rounds = violation, 0
        return chosen, violation

    @property
    def _zeal(self) -> float:
        """What to multiply shares by: less where the kernel is so bad that rounds gain little."""
        return float(_ZEAL ** (self._rounds // _PATIENCE))


def rounding(problem: ReducedHullProblem, beta: FloatArray) -> float:
    """About what rounding kernel entries to float32 does to the gap at ``beta``.

    Infinite where the entries leave the range of float32.
    """
    single = np.finfo(np.float32)
    largest = float((problem.columns.kernel.sizes**2).max())
    if not single.tiny / single.eps < largest < single.max * single.eps:
        return np.inf
    spread = float(np.linalg.norm(beta)) / max(float(np.abs(beta).sum()), 1e-300)
    return float(single.eps) / 2 * spread * problem.size(beta)
