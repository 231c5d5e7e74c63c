"""The default solver of kernel SVMs: working sets, two-coordinate descent, Newton steps on faces.

*Problem.*  Given the kernel matrix K of n examples, p, lower and upper
(:mod:`cornerstep.kernel_svm.problem` says how they follow from labels, weights, and nu, K or C),

``min f(b) = 1/2 b'Kb + <p, b>``  *subject to*  ``lower <= b <= upper``

and to one fixed sum of b (C-SVM), or one for each class (reduced hulls).  With the gradient
``h = Kb + p``, b is optimal if in each sum ``max h over b > lower`` is at most
``min h over b < upper``; by how much it is not is the *violation* of the sum.

*Input*: a :class:`~cornerstep.kernel_svm.problem.ReducedHullProblem`, a point to start from
(:mod:`cornerstep.kernel_svm.solvers.start`).  *Output*: b, h, and a gap that bounds
``f(b) - min f``.

*Algorithm.*  Columns of K are expensive, and kept once they are computed.  A round is:

1. **Look** (:meth:`WorkingSetDescent.look`).  Value and duality gap from b and h.
2. **Stop** if the gap is within the target (the loop does it, after
   :meth:`WorkingSetDescent.certify` has recomputed h, without the rounding of many updates).
3. **Choose a working set** [1]_
   (:func:`cornerstep.kernel_svm.compiled.sweeps.working_set`): all free coordinates, the worst
   violators whose columns are kept, and a few *newcomers*, the worst violators of the others.  Its
   own matrix is read from kept columns; only entries between newcomers are computed.
4. **Solve** the problem of the working set, the others fixed, to a share of the violation
   (:mod:`cornerstep.kernel_svm.solvers.face`).  If rounds do not halve the violation for long,
   later ones work harder.
5. **Update** h by the coordinates that moved: only their whole columns are computed, in batches.

*Slim* reduced hulls (K is small) *grow*: they start at ``b = 0``, and as long as the sums are less
than K a round begins with

0. **Growth**: the one or two examples of each class with the best h, of those that have no weight,
   get most of their caps, the same in both classes.

So every column is chosen by a machine that has seen all examples, and few of them are wasted.

References
----------
.. [1] T. Joachims. Making large-scale SVM learning practical. In Advances in Kernel Methods, MIT
   Press, 1999.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.compiled.rounds import HARD, WANTING, rounds
from cornerstep.kernel_svm.compiled.sweeps import least_idle, working_set
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.face import SmallProblem
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.kernel_svm.solvers.stagnation import Stagnation
from cornerstep.optimiser.loop import Look, Move

_NONE = np.empty(0, np.intp)


class WorkingSetDescent:
    """Rounds of working sets, for the loop.

    Parameters
    ----------
    problem : ReducedHullProblem
    beta : array of shape (n,)
        Signed variables to start from, not changed; reduced hulls whose sums are below K grow.
    settings : WorkingSetSettings, optional
    """

    monotone = True
    extra_columns: tuple[str, ...] = ("kernel_evaluations", "support")

    def __init__(
        self,
        problem: ReducedHullProblem,
        beta: FloatArray,
        settings: WorkingSetSettings | None = None,
        target: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.problem = problem
        self._target = target
        self.settings = settings = settings or WorkingSetSettings()
        self.columns = problem.columns
        self.gradient = problem.gradient(beta)
        self._is_exact = True  # the gradient, as no update has been added yet
        self._set_point(beta)
        self.growing = problem.lacks_weight(beta)
        least = len(problem.classes) * problem.width  # support that the sums need
        self._slim_support = settings.slim_support * least if self.growing else 0.0
        self._stagnation = Stagnation(settings)
        #: Whether whole columns cost less than care for them, and all of them can be kept.
        self._columns_are_cheap = self.columns.are_cheap(settings.whole_columns)
        self._rounds_left = problem.n  # in which hulls may grow: then they are filled up
        self._damping, self._is_hard = settings.damping, False  # of the last working set
        self._least_violation, self._rounds = np.inf, 0  # the least so far, and rounds since

    def _set_point(self, beta: FloatArray) -> None:
        self.beta = beta
        self.support = int(np.count_nonzero(beta))

    @property
    def point(self) -> FloatArray:
        return self.beta

    def look(self) -> Look:
        problem = self.problem
        extra = self.columns.evaluations, self.support
        if self.growing:
            value = problem.value(self.beta, self.gradient)
            return Look(value, np.inf, certified=False, extra=extra)
        look = problem.look(self.beta, self.gradient, extra)
        self._stagnation.observe(look)
        return look

    def certify(self, point: FloatArray) -> Look:
        """Gradient, value and gap anew, without what updates have rounded.

        Hulls that were stopped while they grew are filled up first, and sums are put right.
        """
        if self.growing:
            point = self.problem.filled(point, self.gradient)
            self.growing = False
        balanced = self.problem.balanced(point)
        if not (self._is_exact and np.array_equal(balanced, self.beta)):
            self.gradient = self.problem.gradient(balanced)
            self._is_exact = True
        self._set_point(balanced)
        return self.look()

    def move(self) -> Move:
        problem, settings = self.problem, self.settings
        if self._stagnation.found:
            return Move(0.0, "none")
        self._is_exact = False
        if self._columns_are_cheap and not self.growing and self._rounds_on_kept():
            return Move(1.0, "two-coordinate")
        start, joined = self._grow() if self.growing else (self.beta, _NONE)
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
            int(chosen.searchsorted(problem.split)), settings, self._damping,
        )  # fmt: skip
        share = (settings.slim_accuracy if self.slim else settings.accuracy) * self._sharpening
        kind = small.solve(share * violation, newton=not self.growing, hard=self._is_hard)
        self._damping, self._is_hard = small.damping, small.is_hard
        change = small.beta - before
        moved = change.nonzero()[0]
        beta, self.gradient = self.beta.copy(), self.gradient.copy()
        beta[chosen] = small.beta
        self.columns.add_product(chosen[moved], change[moved], self.gradient)
        self._set_point(beta)
        if self.growing:
            self.growing = problem.lacks_weight(beta)
            kind = "growth"
        return Move(1.0 if moved.size else 0.0, kind)

    def _rounds_on_kept(self) -> bool:
        """Rounds of two-coordinate steps on coordinates whose columns are kept, and fetched.

        Whether they moved anything; a working set that needs Newton steps ends them.
        """
        problem, settings, columns = self.problem, self.settings, self.columns
        beta, gradient = self.beta.copy(), self.gradient.copy()
        numbers = (*self._target, settings.violation, settings.accuracy, settings.worth)
        longest = max(problem.n, columns.store.shape[1])
        reals, integers = np.empty((5, longest)), np.empty((3, longest), np.intp)
        moved = False
        for _ in range(settings.fetches):
            newcomers = max(
                int(settings.newcomers_per_support * np.count_nonzero(beta)),
                settings.least_newcomers,
            )
            counts = (
                settings.kept_violators,
                newcomers,
                settings.largest,
                settings.first_steps,
                settings.patience,
            )
            state, wanted, some = rounds(
                beta, gradient, problem.linear, problem.lower, problem.upper, columns.store,
                columns.slots, columns.places, problem.split, numbers, counts, settings.most_work,
                reals, integers,
            )  # fmt: skip
            moved |= some
            if state != WANTING or wanted.size == 0:
                break
            columns.fetch(wanted)
        if moved:
            self._set_point(beta)
            self.gradient = gradient
        return moved and state != HARD

    @property
    def slim(self) -> bool:
        """Whether columns are few, and costly: hulls that grew and still have a small support."""
        return self.support <= self._slim_support

    def _newcomers(self) -> int:
        """How many coordinates may join whose columns are not kept."""
        settings, most = self.settings, self.settings.newcomers
        if self.slim:
            least = settings.growth_newcomers if self.growing else settings.least_slim_newcomers
            return int(min(max(settings.slim_newcomers * self.support, least), most))
        few = max(settings.least_newcomers, self.problem.n // settings.examples_per_newcomer)
        free = (self.beta > self.problem.lower) & (self.beta < self.problem.upper)
        return int(max(min(most, few), settings.newcomers_per_free * np.count_nonzero(free)))

    def _grow(self) -> tuple[FloatArray, IntArray]:
        """More weight in each class, on the best of the examples that have none; and these."""
        problem = self.problem
        most = self._newcomers() // len(problem.classes)
        weights = problem.weights(self.beta)
        newcomers = [
            least_idle(self.beta, self.gradient, part.start, part.stop, sign, most)
            for part, sign in zip(problem.classes, problem.class_signs, strict=True)
        ]
        self._rounds_left -= 1
        if min(some.size for some in newcomers) == 0 or self._rounds_left < 0:
            beta = problem.filled(self.beta, self.gradient)
            return beta, (beta != self.beta).nonzero()[0]
        joined = np.concatenate(newcomers)
        self.columns.fetch(joined)
        brought = [self.settings.fill * float(problem.caps[some].sum()) for some in newcomers]
        goal = min(problem.K or 0.0, *(w + b for w, b in zip(weights, brought, strict=True)))
        beta = self.beta.copy()
        for some, weight in zip(newcomers, weights, strict=True):
            caps = problem.caps[some]
            share = max(goal - weight, 0.0) / float(caps.sum())  # weights differ by rounding
            beta[some] = problem.signs[some] * caps * share
        return beta, joined

    def _working_set(self, joined: IntArray) -> tuple[IntArray, float]:
        """Coordinates to work on, in order, and the largest violation of optimality."""
        problem, settings, newcomers = self.problem, self.settings, self._newcomers()
        chosen, violation = working_set(
            self.beta, self.gradient, problem.lower, problem.upper, self.columns.slots, joined,
            problem.split, settings.violation * self._sharpening,
            max(newcomers, settings.kept_violators) // 2,
            0 if self.growing else max(newcomers // 2, 1), settings.largest - newcomers,
        )  # fmt: skip
        self._rounds += 1
        if self.growing or violation < 0.5 * self._least_violation:
            self._least_violation, self._rounds = violation, 0
        return np.flatnonzero(chosen), violation

    @property
    def _sharpening(self) -> float:
        """What to multiply shares by: less where the kernel is so bad that rounds gain little."""
        return float(self.settings.sharpening ** (self._rounds // self.settings.patience))
