"""Exact corrections: the minimum of a quadratic over the hull of some atoms.

``f(sum_k w_k a_k) = 1/2 w'Gw - l'w + const`` with ``G_jk = <a_j, H a_k>``: a small program over the
simplex (:mod:`cornerstep.optimiser.wolfe`), whose matrix gains a row for each new atom and whose
factor is kept from one correction to the next.  What l is follows from the gradient at the point
that the correction starts from, so that rounding of G does not accumulate in the answers.

References
----------
.. [1] B. von Hohenbalken. Simplicial decomposition in nonlinear programming algorithms.
   Mathematical Programming 13, 49-68, 1977.
.. [2] J. Halbey, S. Rakotomandimby, M. Besançon, S. Designolle, S. Pokutta. Efficient quadratic
   corrections for Frank-Wolfe algorithms. arXiv 2506.02635, 2025.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import Vector
from cornerstep.optimiser.objectives import Correctable
from cornerstep.optimiser.wolfe import Factor, improve

_WORK = 1 << 26  # multiply-adds between two looks at the clock
_ROUNDS = 8  # steps of a correction, at most, for each atom and a few more


class Correction:
    """The images of atoms under a quadratic, and what is known of their products.

    Parameters
    ----------
    objective : Correctable
    """

    share = 1e-8  # of the gap outside, that a correction leaves in the hull

    def __init__(self, objective: Correctable) -> None:
        self.objective = objective
        self.clear()

    @property
    def known(self) -> int:
        """How many atoms there are."""
        return len(self.gram)

    def clear(self) -> None:
        """Forget all atoms."""
        self.images: Any = np.empty((0, 0))  # an array, or CSR where few entries are not 0
        self.gram: FloatArray = np.empty((0, 0))
        self.factor = Factor()

    def extend(self, atoms: list[Vector]) -> None:
        """Learn about more atoms."""
        if not atoms:
            return
        known, k = self.known, self.known + len(atoms)
        new = self.objective.atom_images(atoms)
        self.images = _below(self.images, new) if known else new
        products = self.objective.atom_products(atoms, new, self.images)
        gram = np.empty((k, k))
        gram[:known, :known] = self.gram
        gram[known:] = products
        gram[:known, known:] = products[:, :known].T
        corner = gram[known:, known:]
        gram[known:, known:] = 0.5 * (corner + corner.T)
        self.gram = gram

    def minimise(
        self, weights: FloatArray, scores: FloatArray, tol: float, expired: Callable[[], bool]
    ) -> FloatArray:
        """Better weights of the atoms, from these and the atoms' inner products with the gradient.

        To a gap of ``tol`` over the hull of the atoms, as far as rounding and the clock let them.
        """
        return solve_small(self.gram, weights, scores, tol, expired, self.factor)

    def keep(self, kept: IntArray) -> None:
        """Forget all atoms but these, which are renumbered in this order."""
        if kept.size == self.known:
            return
        names = np.full(self.gram.shape[0], -1)
        names[kept] = np.arange(kept.size)
        self.factor.rename(names)
        self.images = self.images[kept]
        self.gram = self.gram[kept].take(kept, axis=1)


def _below(one: Any, other: Any) -> Any:
    """The rows of one and of the other: in CSR if both are."""
    if sp.issparse(one) and sp.issparse(other):
        return sp.vstack([one, other], format="csr")
    return np.concatenate([p.toarray() if sp.issparse(p) else p for p in (one, other)])


def solve_small(
    gram: FloatArray, weights: FloatArray, scores: FloatArray, tol: float,
    expired: Callable[[], bool], factor: Factor, caps: FloatArray | None = None,
    groups: IntArray | None = None,
) -> FloatArray:  # fmt: skip
    """Better weights for the quadratic with this matrix, and these slopes at the weights given.

    Parameters
    ----------
    gram : array of shape (k, k)
    weights, scores : array of shape (k,)
    tol : float
    expired : callable
    factor, caps, groups
        See :func:`cornerstep.optimiser.wolfe.improve`; by default over the simplex.

    Returns
    -------
    array of shape (k,)
    """
    out = weights.copy()
    linear = gram @ weights - scores
    left = _ROUNDS * (out.size + 8)
    while left > 0:
        steps = min(left, max(1, _WORK // (4 * out.size**2)))
        left -= steps
        if improve(gram, linear, out, tol, steps, factor, caps, groups) or expired():
            break
    return out
