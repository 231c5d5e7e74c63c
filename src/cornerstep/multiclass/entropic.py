"""Losses smoothed by entropy: softmax, and its form for several guesses.

``Phi_mu(s; y) = max over beta in B of <beta, z> - mu sum_j beta_j ln beta_j``, where B has the beta
of top-k (:class:`~cornerstep.multiclass.losses.TopK`) and the label gets ``1 - sum of the others``.
With ``beta = t u``, ``sum u = 1``, the maximum over t is closed form:

``Phi_mu = mu ln(1 + exp(G / mu))``,  ``G = max over u <= 1/k of <u, z> - mu sum_j u_j ln u_j``

over the classes other than the label.  The u of G is ``min(1/k, e^{z_j / mu} / c)``: the largest
of the sorted margins are at the cap, and the number of them is found from sums of the others.  With
k = 1 nothing is capped, and ``Phi_mu = mu ln sum_j exp(z_j / mu)``, which is multinomial logistic
regression.  ``value``, ``subgradient`` and ``conjugate`` are of mu = 0, which is top-k.

References
----------
.. [1] M. Lapin, M. Hein, B. Schiele. Loss functions for top-k error: analysis and insights. CVPR
   2016.
.. [2] Yu. Nesterov. Smooth minimization of non-smooth functions. Mathematical Programming 103,
   127-152, 2005.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.losses import TopK
from cornerstep.multiclass.simplex_loss import SimplexLoss

_LARGEST_LOG = 40.0  # of a number of classes: the size of an entropy


class TopKEntropy(SimplexLoss):
    r"""Cross-entropy for k guesses, :math:`\mu \ln(1 + e^{G(z) / \mu})`.

    :math:`G(z) = \max_u \langle u, z \rangle - \mu \sum_j u_j \ln u_j` over the classes other than
    the label, with :math:`\sum_j u_j = 1` and :math:`0 \le u_j \le 1/k`.

    Parameters
    ----------
    k : int, default=5
    margin : float, default=0
        What the scores of other classes get before they are compared with the label's.
    """

    entropic = True
    own_smoothing = 1.0
    whole = True  # as top-k, whose dual points it has

    def __init__(self, k: int = 5, margin: float = 0.0) -> None:
        super().__init__()
        if not (isinstance(margin, Real) and 0 <= float(margin) < np.inf):
            raise ValueError(f"margin must be a number >= 0, got {margin!r}")
        self._hinge: TopK = TopK(k)  # its dual points are those of this loss
        self.k: int = int(k)
        self.margin: float = float(margin)
        self.rho: FloatArray = self._hinge.rho

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k}, margin={self.margin:g})"

    def check(self, n_classes: int, n_examples: int | None = None) -> None:
        """Say what is wrong if the loss does not fit the number of classes."""
        if self.k >= n_classes:
            raise ValueError(
                f"k must be less than the number of classes, {n_classes}, got {self.k}"
            )

    def mass(self, n_classes: int) -> float:
        """One."""
        return 1.0

    def argmax(self, z: FloatArray, labels: IntArray) -> FloatArray:
        """That of top-k."""
        return self._hinge.argmax(z, labels)

    def maximum(self, z: FloatArray, labels: IntArray) -> FloatArray:
        """That of top-k."""
        return self._hinge.maximum(z, labels)

    def projection(self, points: FloatArray, labels: IntArray) -> FloatArray:
        """That of top-k."""
        return self._hinge.projection(points, labels)

    def deltas(self, labels: IntArray, n_classes: int) -> FloatArray:
        """The margin for every class but the label."""
        return self.margin * super().deltas(labels, n_classes)

    def gains(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """The margin times what the label gets."""
        return self.margin * super().gains(alpha, labels)

    def largest_deltas(self, labels: IntArray) -> FloatArray:
        """The size of the terms: the margin, and an entropy."""
        return np.full(labels.size, self.margin + _LARGEST_LOG)

    def penalty(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """``2 sum_j beta_j ln beta_j`` of each row, the label's share included.

        That share is 1 less what the others have: of little, the logarithm keeps all digits.
        """
        beta = np.maximum(-alpha, 0.0)  # 0 for the label
        logs = np.log(beta, out=np.zeros_like(beta), where=beta > 0)
        less = np.clip(alpha[np.arange(labels.size), labels], 0.0, 1.0)
        own = np.log1p(-less, out=np.zeros_like(less), where=less < 1)
        return 2.0 * ((beta * logs).sum(axis=1) + (1.0 - less) * own)

    def sizes_of_margins(self, z: FloatArray, smoothing: float) -> FloatArray:
        """What envelopes of margins sum up, without signs: of what size their rounding is.

        A margin counts by its share, and so do the logarithms of the classes that err.
        """
        shares = softmax(z / smoothing, axis=1)
        erring = -np.expm1(-logsumexp(z / smoothing, axis=1))  # the label's margin is 0
        out: FloatArray = (shares * np.abs(z)).sum(axis=1) + 2.0 * _LARGEST_LOG * smoothing * erring
        return out

    def _envelopes_of(
        self, z: FloatArray, labels: IntArray, smoothing: float
    ) -> tuple[FloatArray, FloatArray]:
        at = np.arange(labels.size)
        others = z / smoothing
        others[at, labels] = -np.inf
        total, u = self._capped(others)
        value = np.logaddexp(0.0, total)
        share = np.exp(total - value)  # of the classes other than the label
        alpha = -share[:, None] * u
        alpha[at, labels] = share
        return smoothing * value, alpha

    def _capped(self, others: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``G / mu`` and u, of rows of ``z / mu`` with minus infinity at the label."""
        peak = others.max(axis=1, keepdims=True)
        if self.k == 1:
            u = np.exp(others - peak)
            sums = u.sum(axis=1, keepdims=True)
            return (peak + np.log(sums))[:, 0], u / sums
        k = self.k
        largest = -np.partition(-others, k - 1, axis=1)[:, :k]
        largest = -np.sort(-largest, axis=1)
        # sums of all but the c largest, for c = 0, ..., k - 1: of the rest first, then back; from
        # the k-th largest on, so that ties are counted whatever their size
        place = largest[:, -1:]
        below = np.exp(np.where(others < place, others, -np.inf) - place).sum(axis=1)
        ties = (others == place).sum(axis=1) - (largest == place).sum(axis=1)
        largest = largest - place
        tails = np.empty_like(largest)
        tails[:, -1] = np.log1p(below + ties)
        for c in range(k - 2, -1, -1):
            tails[:, c] = np.logaddexp(tails[:, c + 1], largest[:, c])
        scales = np.log((k - np.arange(k)) / k) - tails
        fits = scales + largest <= -np.log(k) * (1 - 1e-15)
        fits[:, -1] = True
        capped = fits.argmax(axis=1)
        at = np.arange(len(others))
        logs = np.minimum(others - place + scales[at, capped][:, None], -np.log(k))
        u = np.exp(logs)
        finite = np.where(np.isneginf(logs), 0.0, logs)
        total = (u * (np.where(u > 0, others, 0.0) - finite)).sum(axis=1)
        return total, u


def is_softmax(loss: Any) -> bool:
    """Whether a loss, or the name of one, is the negative logarithm of a probability."""
    return loss == "softmax" if isinstance(loss, str) else isinstance(loss, Softmax)


class Softmax(TopKEntropy):
    r"""Cross-entropy of softmax, :math:`\mu \ln \sum_j e^{z_j / \mu}`: logistic regression.

    Parameters
    ----------
    margin : float, default=0
        What the scores of other classes get before they are compared with the label's.
    """

    has_curvature = True

    def __init__(self, margin: float = 0.0) -> None:
        super().__init__(1, margin)

    def __repr__(self) -> str:
        return f"Softmax(margin={self.margin:g})"

    def shares(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """The probabilities p of rows of dual points, of which the second derivative is made."""
        out = -alpha
        out[np.arange(labels.size), labels] += 1.0
        return out

    def bent(self, shares: FloatArray, directions: FloatArray, smoothing: float) -> FloatArray:
        """The second derivative ``(diag(p) - p p') / mu`` times a direction of each row."""
        out = shares * directions
        out -= shares * out.sum(axis=1, keepdims=True)
        out /= smoothing
        return out

    def bend_sum(self, shares: FloatArray, scales: FloatArray, smoothing: float) -> FloatArray:
        """The sum of the second derivatives of all rows, an array of shape (m, m)."""
        weighted = scales[:, None] * shares
        out: FloatArray = (np.diag(weighted.sum(axis=0)) - weighted.T @ shares) / smoothing
        return out

    def bends(self, shares: FloatArray, smoothing: float) -> FloatArray:
        """Its diagonal."""
        return shares * (1.0 - shares) / smoothing
