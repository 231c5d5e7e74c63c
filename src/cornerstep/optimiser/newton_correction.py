"""Corrections of sums of losses over the hull of some atoms, by proximal Newton steps.

``f(x) = sum_i w_i phi(z_i)`` with ``z = A x``; of atoms with images ``M = (A a_k)`` and weights
u the gradient is ``M' diag(w) phi'(z)`` and the Hessian ``M' diag(w phi''(z)) M``.  A step:

1. The minimum of the quadratic model over the simplex of weights, by the method of quadratics
   (:mod:`cornerstep.optimiser.wolfe`).
2. The best point of f on the way there, by its slope, which the images give without the data.

References
----------
.. [1] J. D. Lee, Y. Sun, M. A. Saunders. Proximal Newton-type methods for minimizing composite
   functions. SIAM Journal on Optimization 24, 1420-1443, 2014.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import Direction, Vector
from cornerstep.optimiser.composites import Composite
from cornerstep.optimiser.correction import solve_small
from cornerstep.optimiser.steps import Exact
from cornerstep.optimiser.wolfe import Factor

_MODEL = 0.01  # of the gap in the hull: to what a model is minimised
_STEPS = 30  # of a correction, at most


class NewtonCorrection:
    """The images of atoms, and Newton steps of a composite over their weights.

    Parameters
    ----------
    objective : Composite
    """

    share = 0.01  # of the gap outside, that a correction leaves in the hull

    def __init__(self, objective: Composite) -> None:
        self.objective = objective
        self.clear()

    @property
    def known(self) -> int:
        """How many atoms there are."""
        return len(self.images)

    def clear(self) -> None:
        """Forget all atoms."""
        self.images: FloatArray = np.empty((0, self.objective.image_size))

    def extend(self, atoms: list[Vector]) -> None:
        """Learn about more atoms."""
        if atoms:
            self.images = np.concatenate([self.images, self.objective.atom_images(atoms)])

    def minimise(
        self, weights: FloatArray, scores: FloatArray, tol: float, expired: Callable[[], bool]
    ) -> FloatArray:
        """Better weights of the atoms, from these and the atoms' inner products with the gradient.

        To a gap of ``tol`` over the hull of the atoms, as far as the clock lets them.
        """
        f, images = self.objective.of_images(), self.images
        position = f.at(weights @ images)
        for _ in range(_STEPS):
            gap = float(scores @ weights - scores.min())
            if gap <= tol or expired():
                break
            bends = f.weights * f.curvatures(position.x)
            gram = (images * bends) @ images.T
            goal = solve_small(gram, weights, scores, _MODEL * gap, expired, Factor())
            change = (goal - weights) @ images
            ray = position.along(Direction(change, 0.0, None, change))
            step = Exact().size(ray, 1.0, 0.0)
            blind = not step > 0  # rounding hides the slope: the gap says whether the step is good
            trial = goal if blind or step == 1 else weights + step * (goal - weights)
            position = f.at(trial @ images)
            scores = images @ position.gradient
            if blind and not float(scores @ trial - scores.min()) < gap:
                break
            weights = trial
        return weights

    def keep(self, kept: IntArray) -> None:
        """Forget all atoms but these, which are renumbered in this order."""
        self.images = self.images[kept]
