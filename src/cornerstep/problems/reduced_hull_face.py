"""A small kernel SVM problem solved well: two-coordinate descent, then Newton steps on faces.

``min 1/2 b'Kb + <p, b>`` over ``lower <= b <= upper`` with one or two fixed sums, for the few
coordinates of a working set, all of whose kernel entries are at hand.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cornerstep.domains.base import snap_to_bounds
from cornerstep.kernels.reduced_hull import two_coordinate_descent
from cornerstep.vectors import FloatArray, IntArray

_BURST = 2  # two-coordinate steps, per coordinate of the working set, between Newton steps ...
_FIRST_BURST = 10  # ... and before the first one
_WORTH = 1.0  # another Newton step follows one that gained this many times what a burst does
_NEWTON = 4  # Newton steps in a round, at most
_FACE = 3000  # free coordinates that a Newton step may have
DAMPING = (1e-3, 1e-9, 1.0)  # of Newton steps, relative to the diagonal: at first, least, most
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
            self.damping = min(self.damping * _BRAKE, DAMPING[2])
            return 0.0
        step = 1.0 if curvature <= -slope else -slope / curvature
        if step == 1.0:
            self.damping = max(self.damping * _EASE, DAMPING[1])
        elif step < _SHORT:
            self.damping = min(self.damping * _BRAKE, DAMPING[2])
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
