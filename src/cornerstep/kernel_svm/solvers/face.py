"""A small kernel SVM problem solved well: two-coordinate descent, then Newton steps on faces.

*Problem.*  ``min 1/2 b'Kb + <p, b>`` *subject to* ``lower <= b <= upper`` with the sums of the
coordinates before ``split`` and of those from it on as they are.  These are the few coordinates of
a working set: all of their matrix K is at hand.

*Input*: K, b, its gradient ``h = Kb + p``, the bounds.  *Output*: b and h, changed in place.

*Algorithm.*

1. **Two-coordinate steps** [1]_, a few for each coordinate
   (:func:`cornerstep.kernel_svm.compiled.sweeps.two_coordinate_descent`): b_i rises and b_j falls
   by the exact step, for the pair that promises the largest decrease.  Stop if the largest
   violation ``max h over b > lower  -  min h over b < upper`` is at most the tolerance.
2. **A Newton step** to the minimum over the face of the free coordinates F: solve
   ``(K_FF + damping) d = -h_F + sum multipliers``, with the sums of d given.  Coordinates that it
   would push beyond a bound are put onto it, and the rest is solved for again, until all are
   inside.  Then an exact line search.  The damping falls after whole steps and rises after short
   ones.
3. **Two-coordinate steps** again.  Back to 2 while it gains more than they do.

References
----------
.. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin. Working set selection using second order information for
   training support vector machines. Journal of Machine Learning Research 6, 1889-1918, 2005.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dgesv, dpotrf, dpotrs

from cornerstep.core.clock import is_over
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.compiled.sweeps import two_coordinate_descent
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.learning.compiled.columns import gather

_FACTORISED = 90.0  # a factorisation takes a third of the cube, of operations 30 times as quick
_HOPELESS = 1e9  # damping, relative to the diagonal: a matrix that takes more is of no kernel


class SmallProblem:
    """The problem in the coordinates of a working set, the others fixed.

    Parameters
    ----------
    K : array of shape (m, m)
    beta, gradient : arrays of shape (m,)
        Where to start, and ``h = Kb + p`` there; both are changed in place.
    bounds : pair of arrays
        lower and upper.
    split : int
        Coordinates from it on have a sum of their own.
    settings : WorkingSetSettings
    damping : float
        Of the next Newton step; it adapts.
    """

    def __init__(
        self,
        K: FloatArray,
        beta: FloatArray,
        gradient: FloatArray,
        bounds: tuple[FloatArray, FloatArray],
        split: int,
        settings: WorkingSetSettings,
        damping: float,
    ) -> None:
        self.K, self.beta, self.gradient = K, beta, gradient
        self.lower, self.upper = bounds
        self.split, self.settings, self.damping = split, settings, damping
        self.size = beta.size
        self.is_hard, self._free = False, 0

    def solve(self, tol: float, *, newton: bool, hard: bool = False) -> str:
        """Lower the violation of optimality to tol, or do a fair amount of work towards it.

        A large problem that takes Newton steps is left as ``is_hard``, to go on with them later:
        ``hard`` says that this is now.
        """
        settings, most_work = self.settings, self.settings.face_work
        work = 0.0
        if not hard:
            most = self._affordable(settings.first_steps)
            steps, _ = self._descend(tol, most)
            if steps < most or not newton:
                return "two-coordinate"
            work = steps * self.size
            if work > 0.5 * most_work:
                self.is_hard = True
                return "two-coordinate"
        most = self._affordable(settings.steps)
        for _ in range(settings.newton_steps):
            with np.errstate(over="ignore", invalid="ignore"):  # such steps are not taken
                newton_gain = self._newton()
            steps, gain = self._descend(tol, most)
            if steps < most or newton_gain < settings.newton_worth * gain:
                break
            work += steps * self.size + self._free**3 / _FACTORISED
            if work > most_work:
                self.is_hard = True
                break
        return "newton"

    def _affordable(self, steps_each: int) -> int:
        """Two-coordinate steps: so many for each coordinate, if that is not too long."""
        return min(steps_each * self.size, max(int(self.settings.face_work) // self.size, 1))

    def _descend(self, tol: float, max_iter: int) -> tuple[int, float]:
        return two_coordinate_descent(
            self.K, self.beta, self.gradient, self.lower, self.upper, self.split, tol, max_iter,
            np.empty((4, self.size)),
        )  # fmt: skip

    def _newton(self) -> float:
        """A step towards the minimum over the face of the free coordinates; how much it gained.

        Coordinates that the minimum would push beyond a bound are put onto it, and the rest is
        solved for again, until all are inside.  That end is feasible, so any part of the way is.
        """
        settings = self.settings
        free = np.flatnonzero((self.beta > self.lower) & (self.beta < self.upper))
        self._free = free.size
        if not 1 < free.size <= settings.largest_face:
            return 0.0
        try:
            target = self._face_minimum(free)
        except LinAlgError:  # not a kernel matrix, or all but one coordinate went to bounds
            return 0.0
        change = target - self.beta
        image = change @ self.K
        slope, curvature = float(self.gradient @ change), float(image @ change)
        if not slope < 0:
            self.damping = min(self.damping * settings.braking, settings.most_damping)
            return 0.0
        step = 1.0 if curvature <= -slope else -slope / curvature
        if step == 1.0:
            self.damping = max(self.damping * settings.easing, settings.least_damping)
        elif step < settings.short_step:
            self.damping = min(self.damping * settings.braking, settings.most_damping)
        if step == 1.0:
            self.beta[free] = target[free]  # bounds are reached exactly
        else:
            moved = self.beta[free] + step * change[free]
            self.beta[free] = np.clip(moved, self.lower[free], self.upper[free])
        self.gradient += step * image
        return -step * (slope + 0.5 * step * curvature)

    def _face_minimum(self, free: IntArray) -> FloatArray:
        """The minimum over the face.

        Or beta itself, if nothing is left to balance a sum with, or the time is up.
        """
        target = self.beta.copy()
        inside, here = free, self.gradient[free]
        while inside.size and not is_over():
            matrix = np.empty((inside.size, inside.size))
            gather(self.K, inside, inside, matrix)
            sums = np.zeros((inside.size, 2))
            first = int(inside.searchsorted(self.split))
            sums[:first, 0] = sums[first:, 1] = 1.0
            change = target - self.beta
            missing = np.array([change[: self.split].sum(), change[self.split :].sum()])
            used = np.array([first > 0, first < inside.size])
            if missing[~used].any():
                break
            sums, missing = sums[:, used], missing[used]
            solved = _solve_damped(matrix, self.damping, here, sums)
            forces = sums.T @ solved
            _, _, multipliers, failed = dgesv(forces[:, 1:], forces[:, 0] - missing)
            if failed:
                break
            # stay on the sums: what clipped coordinates took must come back here
            target[inside] += -solved[:, 0] + solved[:, 1:] @ multipliers
            lower, upper = self.lower[inside], self.upper[inside]
            out = (target[inside] <= lower) | (target[inside] >= upper)
            if not out.any():
                return target
            target[inside] = np.minimum(np.maximum(target[inside], lower), upper)
            inside = inside[~out]
            here = self.gradient[inside] + ((target - self.beta) @ self.K)[inside]
        return self.beta.copy()


def _solve_damped(
    matrix: FloatArray, damping: float, gradient: FloatArray, sums: FloatArray
) -> FloatArray:
    """Solve ``(matrix + damping * mean diagonal) x = right``, with more damping if indefinite.

    The right sides are the gradient and the columns of ``sums``.
    """
    diagonal = matrix.diagonal().copy()
    scale = max(float(diagonal.mean()), np.finfo(float).tiny)
    right = np.column_stack([gradient, sums])
    while True:
        np.fill_diagonal(matrix, diagonal + damping * scale)
        factor, failed = dpotrf(matrix.T, lower=1, clean=0)
        if not failed:
            solved, _ = dpotrs(factor, right, lower=1)
            return np.asarray(solved)
        if damping > _HOPELESS:
            raise LinAlgError("not a kernel matrix")
        damping *= 10
