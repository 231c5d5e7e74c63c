r"""The squared hinge of one class against the rest: what LIBLINEAR and ``LinearSVC`` minimise.

With ``t_y = 1`` and ``t_j = -1`` for the other classes, and hinges ``h_j = max(0, 1 - t_j s_j)``,

``Phi_mu(s; y) = sum_j h_j² / (2 mu) = max over a >= 0 of sum_j a_j (1 - t_j s_j) - mu/2 a_j²``

with mu = 1/2, the square itself.  Dual points are ``alpha_j = t_j a_j``: of any size, and they need
not sum to 0.  Two classes have one machine, whose score is the difference of the two: half of these
terms, at ``s_j`` less the other score.

References
----------
.. [1] R.-E. Fan, K.-W. Chang, C.-J. Hsieh, X.-R. Wang, C.-J. Lin. LIBLINEAR: a library for large
   linear classification. Journal of Machine Learning Research 9, 1871-1874, 2008.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.simplex_loss import SimplexLoss


class SquaredHinge(SimplexLoss):
    r"""The squared hinges of one class against the rest, :math:`\sum_j \max(0, 1 - t_j s_j)^2`.

    :math:`t_y = 1`, and -1 for other classes.  With two classes :math:`\max(0, 1 - s_y + s_j)^2`.
    """

    own_smoothing = 0.5
    has_curvature = True
    of_differences = False
    bounded = False

    def __init__(self) -> None:
        super().__init__()

    def mass(self, n_classes: int) -> float:
        """What dual points have at scores of 0; elsewhere they may have more."""
        return float(n_classes)

    def sizes(self, alpha: FloatArray) -> FloatArray:
        """What takes the place of the mass for each row of dual points."""
        sums: FloatArray = np.abs(alpha).sum(axis=1)
        return sums

    def projection(self, points: FloatArray, labels: IntArray) -> FloatArray:
        """The nearest dual point of each row."""
        signs = _signs(labels, points.shape[1])
        if points.shape[1] == 2:
            points = 0.5 * (points - points[:, ::-1])
        return signs * np.maximum(signs * points, 0.0)

    def gains(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """``sum_j a_j`` of each row of dual points."""
        return _share(alpha) * np.abs(alpha).sum(axis=1)

    def penalty(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """What mu/2 is multiplied by: ``sum_j a_j²``."""
        return _share(alpha) * super().penalty(alpha, labels)

    def smoothed(
        self, scores: FloatArray, labels: IntArray, smoothing: float
    ) -> tuple[FloatArray, FloatArray]:
        """The losses of rows of scores, and the dual points that attain them."""
        if scores.shape[1] == 2:
            scores = scores - scores[:, ::-1]
        signs = _signs(labels, scores.shape[1])
        hinges = np.maximum(1.0 - signs * scores, 0.0)
        values = _share(scores) * np.einsum("ij,ij->i", hinges, hinges) / (2.0 * smoothing)
        return values, signs * hinges / smoothing

    def _conjugates(self, gradients: FloatArray, labels: IntArray, tol: float) -> FloatArray:
        away = np.abs(self.projection(-gradients, labels) + gradients).max(axis=1)
        inside = away <= tol * (1.0 + np.abs(gradients).max(axis=1))
        return np.where(inside, -self.gains(gradients, labels), np.inf)

    def shares(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """Which hinges are at work: what the second derivative is made of."""
        return (alpha != 0.0).astype(np.float64)

    def bent(self, shares: FloatArray, directions: FloatArray, smoothing: float) -> FloatArray:
        """The second derivative times a direction of each row."""
        if directions.shape[1] == 2:
            directions = directions - directions[:, ::-1]
        return shares * directions / smoothing

    def bends(self, shares: FloatArray, smoothing: float) -> FloatArray:
        """Its diagonal."""
        return shares / smoothing


def _signs(labels: IntArray, n_classes: int) -> FloatArray:
    """t, a row for each label."""
    out = np.full((labels.size, n_classes), -1.0)
    out[np.arange(labels.size), labels] = 1.0
    return out


def _share(rows: FloatArray) -> float:
    """Two classes have every term twice."""
    return 0.5 if rows.shape[1] == 2 else 1.0
