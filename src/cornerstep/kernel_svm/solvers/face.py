"""A small kernel SVM problem solved well: two-coordinate descent, then Newton steps on faces.

``min 1/2 b'Kb + <p, b>`` over ``lower <= b <= upper`` with one or two fixed sums, for the few
coordinates of a working set, all of whose kernel entries are at hand.

References
----------
.. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin. Working set selection using second order information for
   training support vector machines. Journal of Machine Learning Research 6, 1889-1918, 2005.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dgesv, dpotrf, dpotrs

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.compiled.sweeps import gather, two_coordinate_descent

_BURST = 2  # two-coordinate steps, per coordinate of the working set, between Newton steps ...
_FIRST_BURST = 5  # ... and before the first one
_WORTH = 1.0  # another Newton step follows one that gained this many times what a burst does
_NEWTON = 4  # Newton steps in a round, at most
_FACE = 3000  # free coordinates that a Newton step may have
DAMPING = (1e-3, 1e-15, 1.0)  # of Newton steps, relative to the diagonal: at first, least, most
_HOPELESS = 1e9  # a matrix that takes more is not one of a kernel
_EASE, _BRAKE = 0.1, 4.0  # the damping is multiplied by after whole steps, and after short ones
_SHORT = 0.25  # a step this short was bent too much by the bounds


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
        damping: float,
    ) -> None:
        self.K, self.beta, self.gradient = K, beta, gradient
        self.lower, self.upper = bounds
        self.split, self.damping = split, damping
        self.size = beta.size

    def solve(self, tol: float, *, newton: bool) -> str:
        """Lower the violation of optimality to tol, or do a fair amount of work towards it."""
        steps, _ = self._descend(tol, _FIRST_BURST * self.size)
        if steps < _FIRST_BURST * self.size or not newton:
            return "two-coordinate"
        for _ in range(_NEWTON):
            with np.errstate(over="ignore", invalid="ignore"):  # such steps are not taken
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
            target = self._face_minimum(free)
        except LinAlgError:  # not a kernel matrix, or all but one coordinate went to bounds
            return 0.0
        change = target - self.beta
        image = change @ self.K
        slope, curvature = float(self.gradient @ change), float(image @ change)
        if not slope < 0:
            self.damping = min(self.damping * _BRAKE, DAMPING[2])
            return 0.0
        step = 1.0 if curvature <= -slope else -slope / curvature
        if step == 1.0:
            self.damping = max(self.damping * _EASE, DAMPING[1])
        elif step < _SHORT:
            self.damping = min(self.damping * _BRAKE, DAMPING[2])
        if step == 1.0:
            self.beta[free] = target[free]  # bounds are reached exactly
        else:
            moved = self.beta[free] + step * change[free]
            self.beta[free] = np.clip(moved, self.lower[free], self.upper[free])
        self.gradient += step * image
        return -step * (slope + 0.5 * step * curvature)

    def _face_minimum(self, free: IntArray) -> FloatArray:
        """The minimum over the face, or beta itself if nothing is left to balance a sum with."""
        target = self.beta.copy()
        inside, here = free, self.gradient[free]
        while inside.size:
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
