"""The fast solver of kernel SVMs: working sets, two-coordinate descent, Newton steps on faces.

It solves ``min 1/2 b'Kb + <p, b>`` over a box with one or two fixed sums
(:mod:`cornerstep.problems.reduced_hull`).  A *round* is one look and one move.

- The look calls the domain's oracle at the gradient h: value and duality gap.
- The move takes a working set: all free coordinates and those that violate optimality the most.
  Their own small kernel matrix is read from kept columns; only entries between newcomers are new.
  Two-coordinate descent with second-order selection solves the small problem; where it slows down,
  Newton steps on the face of the free coordinates take over.  Then the gradient follows the
  coordinates that moved, and only their whole columns are ever computed, in batches.

Large problems start from the solution of a smaller one, on a share of the examples: it tells which
examples will be support vectors, and their columns are most of what has to be computed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cornerstep.domains.base import snap_to_bounds
from cornerstep.kernels.reduced_hull import two_coordinate_descent
from cornerstep.optimiser.loop import Look, Move, Stopping, run
from cornerstep.optimiser.result import Status
from cornerstep.problems.reduced_hull import ReducedHullProblem
from cornerstep.vectors import FloatArray, IntArray

_NEWCOMERS = 256  # violating coordinates that may join a working set, ...
_NEWCOMERS_FEW = (16, 64)  # ... the larger of 16 and 1 in 64 examples if that is fewer, ...
_NEWCOMERS_SHARE = 0.1  # ... or this share of the free ones, if that is more,
_LARGEST = 4000  # up to working sets of this size
_VIOLATION = 0.3  # newcomers violate optimality by at least this share of the most
_INNER = 0.1  # a working set is solved until it violates optimality by this share of the most
_BURST = 2  # two-coordinate steps, per coordinate of the working set, between Newton steps ...
_FIRST_BURST = 10  # ... and before the first one
_WORTH = 1.0  # another Newton step follows one that gained this many times what a burst does
_NEWTON = 4  # Newton steps in a round, at most
_FACE = 3000  # free coordinates that a Newton step may have
_DAMPING = (1e-3, 1e-9, 1.0)  # of Newton steps, relative to the diagonal: at first, least, most
_HOPELESS = 1e9  # a matrix that takes more is not one of a kernel
_EASE, _BRAKE = 0.1, 4.0  # the damping is multiplied by after whole steps, and after short ones
_SHORT = 0.25  # a step this short was bent too much by the bounds
_SHRINK = 5  # a smaller problem has this many times fewer examples ...
_SMALL = 100  # ... but at least so many, ...
_COARSE = 0.1  # ... and is solved to this relative gap
_FAILURES = 2  # certificates that float32 columns may miss
_NOISE = 0.5  # what rounding to float32 may do to the gap, as a share of what is allowed of it
_GUESS = 0.1  # the value on all examples, at the least, as a share of what fewer examples suggest


class WorkingSetDescent:
    """Rounds of working sets, for the loop.

    Parameters
    ----------
    problem : ReducedHullProblem
    beta : array of shape (n,)
        Signed variables to start from; not changed.
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
        self._failures = 0
        self._damping = _DAMPING[0]

    @property
    def point(self) -> FloatArray:
        return self.beta

    def look(self) -> Look:
        problem = self.problem
        value = problem.value(self.beta, self.gradient)
        if self._is_coarse() and _rounding(problem, self.beta) > _NOISE * self.tol * abs(value):
            self.columns.use_double()
            self.gradient = problem.gradient(self.beta)
            value = problem.value(self.beta, self.gradient)
        gap = problem.gap(self.beta, self.gradient)
        extra = self.columns.evaluations, int(np.count_nonzero(self.beta))
        return Look(value, max(gap, 0.0), extra=extra)

    def _is_coarse(self) -> bool:
        return self.columns.precision is np.float32

    def certify(self, point: FloatArray) -> Look:
        """Gradient, value and gap in float64; float32 columns may fall short once."""
        self.beta = point
        self.gradient = self.problem.gradient(point)
        self._failures += 1
        if self._failures >= _FAILURES and self._is_coarse():
            self.columns.use_double()
        return self.look()

    def move(self) -> Move:
        chosen, violation = self._working_set()
        if chosen.size == 0:
            return Move(0.0, "none")
        small = _SmallProblem(self.problem, chosen, self.beta, self.gradient, self._damping)
        kind = small.solve(_INNER * violation)
        self._damping = small.damping
        change = small.beta - self.beta[chosen]
        moved = change.nonzero()[0]
        beta, gradient = self.beta.copy(), self.gradient.copy()
        beta[chosen] = small.beta
        self.columns.add_product(chosen[moved], change[moved], gradient)
        self.beta, self.gradient = beta, gradient
        return Move(1.0 if moved.size else 0.0, kind)

    def _working_set(self) -> tuple[IntArray, float]:
        """Free coordinates and the worst violators, in order; and the largest violation."""
        problem, beta, gradient = self.problem, self.beta, self.gradient
        may_rise, may_fall = beta < problem.upper, beta > problem.lower
        free = may_rise & may_fall
        few = max(_NEWCOMERS_FEW[0], problem.n // _NEWCOMERS_FEW[1])
        count = int(max(min(_NEWCOMERS, few), _NEWCOMERS_SHARE * free.sum()))
        parts = [part for part in (slice(0, problem.split), slice(problem.split, None))
                 if beta[part].size]  # fmt: skip
        chosen, largest = [np.flatnonzero(free)], 0.0
        if chosen[0].size > _LARGEST - count:
            chosen = []  # too many: the worst of them join like the others
            free = np.zeros_like(free)
            count = _LARGEST
        for part in parts:
            h = gradient[part]
            rising, falling = (side[part].nonzero()[0] for side in (may_rise, may_fall))
            if rising.size == 0 or falling.size == 0:
                continue
            low, high = float(h[rising].min()), float(h[falling].max())
            if high <= low:
                continue
            largest = max(largest, high - low)
            margin = _VIOLATION * (high - low)
            for side, keys, bound in ((rising, h, high - margin), (falling, -h, -low - margin)):
                worst = side[(keys[side] < bound) & ~free[part][side]]
                most = count // (2 * len(parts))
                if worst.size > most:
                    worst = worst[np.argpartition(keys[worst], most)[:most]]
                chosen.append(worst + part.start)
        return np.unique(np.concatenate(chosen)), largest


class _SmallProblem:
    """The problem in the coordinates of a working set, the others fixed."""

    def __init__(
        self,
        problem: ReducedHullProblem,
        chosen: IntArray,
        beta: FloatArray,
        gradient: FloatArray,
        damping: float,
    ) -> None:
        self.damping = damping
        self.K = problem.columns.submatrix(chosen)
        self.beta, self.gradient = beta[chosen], gradient[chosen]
        self.lower, self.upper = problem.lower[chosen], problem.upper[chosen]
        self.split = int(np.searchsorted(chosen, problem.split))
        self.size = chosen.size

    def solve(self, tol: float) -> str:
        """Lower the violation of optimality to tol, or do a fair amount of work towards it."""
        steps, _ = self._descend(tol, _FIRST_BURST * self.size)
        if steps < _FIRST_BURST * self.size:
            return "two-coordinate"
        for _ in range(_NEWTON):
            newton_gain = self._newton()
            steps, gain = self._descend(tol, _BURST * self.size)
            if steps < _BURST * self.size or newton_gain < _WORTH * gain:
                break
        return "newton"

    def _descend(self, tol: float, max_iter: int) -> tuple[int, float]:
        return two_coordinate_descent(
            self.K, self.beta, self.gradient, self.lower, self.upper, self.split, tol, max_iter
        )

    def _newton(self) -> float:
        """A step towards the minimum over the face of the free coordinates; how much it gained.

        Coordinates that the minimum would push beyond a bound are put onto it, and the rest is
        solved for again, until all are inside.  That end is feasible, so any part of the way is.
        """
        free = np.flatnonzero((self.beta > self.lower) & (self.beta < self.upper))
        if not 1 < free.size <= _FACE:
            return 0.0
        try:
            change = self._to_face_minimum(free)
        except LinAlgError:  # not a kernel matrix, or all but one coordinate went to bounds
            return 0.0
        image = change[free] @ self.K[free]
        slope, curvature = float(self.gradient @ change), float(image @ change)
        if not slope < 0:
            self.damping = min(self.damping * _BRAKE, _DAMPING[2])
            return 0.0
        step = 1.0 if curvature <= -slope else -slope / curvature
        if step == 1.0:
            self.damping = max(self.damping * _EASE, _DAMPING[1])
        elif step < _SHORT:
            self.damping = min(self.damping * _BRAKE, _DAMPING[2])
        moved = self.beta[free] + step * change[free]
        snap_to_bounds(moved, self.lower[free], self.upper[free])
        self.beta[free] = moved
        self.gradient += step * image
        return -step * (slope + 0.5 * step * curvature)

    def _to_face_minimum(self, free: IntArray) -> FloatArray:
        change = np.zeros(self.size)
        inside = free
        while inside.size:
            sums = np.column_stack([inside < self.split, inside >= self.split]).astype(np.float64)
            missing = np.array([change[: self.split].sum(), change[self.split :].sum()])
            used = sums.any(axis=0)
            sums, missing = sums[:, used], missing[used]
            here = self.gradient[inside] + change[free] @ self.K[np.ix_(free, inside)]
            solved = _solve_damped(
                self.K[np.ix_(inside, inside)], self.damping, np.column_stack([here, sums])
            )
            forces = sums.T @ solved
            multipliers = np.linalg.solve(forces[:, 1:], forces[:, 0] - missing)
            # stay on the sums: what clipped coordinates took must come back here
            change[inside] += -solved[:, 0] + solved[:, 1:] @ multipliers
            target = self.beta[inside] + change[inside]
            out = (target <= self.lower[inside]) | (target >= self.upper[inside])
            if not out.any():
                return change
            clipped = np.clip(target, self.lower[inside], self.upper[inside])
            change[inside] = clipped - self.beta[inside]
            inside = inside[~out]
        return np.zeros(self.size)  # nothing is left to balance the sums with


def _solve_damped(matrix: FloatArray, damping: float, right: FloatArray) -> FloatArray:
    """Solve ``(matrix + damping * mean diagonal) x = right``, with more damping if indefinite."""
    diagonal = matrix.diagonal().copy()
    scale = max(float(diagonal.mean()), np.finfo(float).tiny)
    while True:
        np.fill_diagonal(matrix, diagonal + damping * scale)
        try:
            factor = cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            if damping > _HOPELESS:
                raise
            damping *= 10
            continue
        return cho_solve(factor, right, check_finite=False)


def starting_point(
    problem: ReducedHullProblem,
    rng: np.random.Generator,
    tol: float,
    time_limit: float | None = None,
) -> tuple[FloatArray, bool]:
    """Signed variables to start from, and whether the user asked to stop on the way to them.

    From the solution on a random share of each class, if there are examples enough: the vertex that
    is best for the gradient of that solution on all examples.  Columns of the problem become
    float32 if not all fit in float64 and that is precise enough for ``tol``.
    """
    begun = time.perf_counter()
    order = np.empty(problem.n)
    for part in (slice(0, problem.n_positive), slice(problem.n_positive, None)):
        order[part] = rng.permutation(order[part].size) / order[part].size
    shares, size = [1.0], problem.n / _SHRINK
    while size >= _SMALL:
        shares.insert(0, size / problem.n)
        size /= _SHRINK
    examples = np.flatnonzero(order < shares[0])
    level = problem if len(shares) == 1 else problem.sample(examples)
    beta = level.start()
    for share in shares[1:]:
        left = None if time_limit is None else max(time_limit - (time.perf_counter() - begun), 0.0)
        descent = WorkingSetDescent(level, beta, _COARSE)
        outcome = run(_Uncertified(descent), Stopping(0.0, _COARSE, 1000, left))
        wider = np.flatnonzero(order < share)
        finer = problem if share == 1.0 else problem.sample(wider)
        problem.columns.evaluations += level.columns.evaluations
        if share == 1.0 and 8 * problem.n**2 > problem.columns.limit:
            growth = problem.n / level.n
            noise = growth**1.5 * _rounding(level, descent.beta)
            if noise <= _NOISE * tol * _GUESS * growth**2 * abs(outcome.look.value):
                problem.columns.use_single()
        beta = _lifted(level, descent.beta, finer, np.searchsorted(wider, examples))
        level, examples = finer, wider
        if outcome.status is Status.INTERRUPTED:
            return (beta if level is problem else problem.start()), True
    return beta, False


def _rounding(problem: ReducedHullProblem, beta: FloatArray) -> float:
    """About what rounding kernel entries to float32 does to the gap at ``beta``."""
    spread = float(np.linalg.norm(beta)) / max(float(np.abs(beta).sum()), 1e-300)
    return float(np.finfo(np.float32).eps) / 2 * spread * problem.scale(beta)


def _lifted(
    level: ReducedHullProblem, beta: FloatArray, finer: ReducedHullProblem, places: IntArray
) -> FloatArray:
    """A start on more examples: ``places`` are those of the smaller problem among them."""
    support = beta.nonzero()[0]
    if support.size == 0:
        return finer.start()
    gradient = np.zeros(finer.n)
    finer.columns.add_product(places[support], beta[support], gradient)
    K = finer.K
    if K is None:
        growth = float(finer.caps.sum() / level.caps.sum())
        most = min(float(finer.caps[finer.signs == sign].sum()) for sign in (1, -1))
        K = min(0.5 * growth * float(np.abs(beta).sum()), most)
    return finer.vertex(gradient, K)


class _Uncertified:
    """A descent whose certificate is its look: a start has nothing to prove."""

    monotone = True
    extra_columns: tuple[str, ...] = WorkingSetDescent.extra_columns

    def __init__(self, descent: WorkingSetDescent) -> None:
        self.descent = descent

    @property
    def point(self) -> Any:
        return self.descent.point

    def look(self) -> Look:
        return self.descent.look()

    def move(self) -> Move:
        return self.descent.move()

    def certify(self, point: Any) -> Look:
        return self.descent.look()
