"""Losses ``Phi(s; y) = max over beta in B of <beta, z>``, known by an oracle of the set B.

For scores s over m classes, a label y and costs Delta >= 0 with ``Delta_y = 0`` (by default 1 for
every other class), ``z_j = s_j - s_y + Delta_j``, so ``z_y = 0``.  B is a convex set of vectors
``beta >= 0``, which may depend on y; what beta gives to the label has no effect, and B has a vector
that gives nothing to any other class, so that ``Phi >= 0``.

The dual point of an example is ``alpha = (1'beta) e_y - beta``, which is minus a subgradient.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cornerstep.core.types import FloatArray, IntArray

_BLOCK = 2**19  # entries of margins that an oracle is asked about at a time


class SimplexLoss:
    """A loss of one's own: derive from this class and define :meth:`argmax`.

    All other methods of a loss follow from it and, where smoothing needs it, from
    :meth:`projection`.  :func:`cornerstep.losses.check_loss` tries whether they fit together:
    certificates rest on them.

    Parameters
    ----------
    costs : array of shape (m, m) or (n, m), optional
        ``costs[y]`` is Delta for label y, or ``costs[i]`` for example i if ``per_example``.
    per_example : bool
        Which of the two the rows of ``costs`` are.
    """

    costs: FloatArray | None = None
    per_example: bool = False
    margin: float = 1.0  # what other classes' scores get where there are no costs
    entropic: bool = False  # whether smoothing is by entropy: no solver of vertices takes it
    has_curvature: bool = False  # whether smoothed it has a second derivative, for 'newton'
    own_smoothing: float = 0.0  # mu where 'auto' asks, of a loss that is never without
    of_differences: bool = True  # whether scores count by their differences only
    bounded: bool = True  # whether dual points are

    def __init__(self, costs: npt.ArrayLike | None = None, *, per_example: bool = False) -> None:
        self.costs = None if costs is None else _checked_costs(costs)
        self.per_example = per_example

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def argmax(self, z: FloatArray, labels: IntArray) -> FloatArray:
        """A beta of B with the largest ``<beta, z>`` for each row of margins.

        Parameters
        ----------
        z : array of shape (n, m)
            Not to be changed; 0 at the label.
        labels : array of int of shape (n,)

        Returns
        -------
        array of shape (n, m)
        """
        raise NotImplementedError(f"{type(self).__name__} must define argmax(z, labels)")

    def maximum(self, z: FloatArray, labels: IntArray) -> FloatArray:
        """``max over beta in B of <beta, z>`` of each row: to be defined where there is a way
        faster than by :meth:`argmax`, and as exact.
        """
        return (self._ask("argmax", z, labels) * z).sum(axis=1)

    def projection(self, points: FloatArray, labels: IntArray) -> FloatArray:
        """The dual point ``(1'beta) e_y - beta`` with beta in B that is nearest to each row.

        To be defined for smoothing, and for the solver 'envelope'.
        """
        raise NotImplementedError(f"{type(self).__name__} has no projection(points, labels)")

    @property
    def has_projection(self) -> bool:
        """Whether :meth:`projection` is defined."""
        return type(self).projection is not SimplexLoss.projection

    def _ask(self, oracle: str, rows: FloatArray, labels: IntArray) -> FloatArray:
        """What one of the oracles says, if it is what it may be."""
        given = rows.view()
        given.flags.writeable = False
        out = np.asarray(getattr(self, oracle)(given, labels), dtype=np.float64)
        shape = rows.shape[:1] if oracle == "maximum" else rows.shape
        if out.shape != shape or not np.isfinite(out).all():
            raise ValueError(
                f"{oracle} of {self!r} must return finite numbers of shape {shape}, got "
                f"{'some that are not' if out.shape == shape else f'shape {out.shape}'}"
            )
        if oracle == "argmax" and (out < 0).any():
            raise ValueError(f"argmax of {self!r} must return numbers >= 0, got {out.min():.3g}")
        return out

    def penalty(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """What smoothing takes mu/2 of, at each row of dual points: ``|alpha|²``."""
        squares: FloatArray = np.einsum("ij,ij->i", alpha, alpha)
        return squares

    def mass(self, n_classes: int) -> float:
        """The most that a beta of B gives to the classes other than its label, over all labels."""
        largest = 0.0
        step = max(1, _BLOCK // n_classes)
        for start in range(0, n_classes, step):
            labels = np.arange(start, min(start + step, n_classes))
            z = np.ones((labels.size, n_classes))
            z[np.arange(labels.size), labels] = 0.0
            largest = max(largest, float(self._ask("maximum", z, labels).max()))
            least = float(self._ask("maximum", -z, labels).min())
            if least < 0:
                raise ValueError(
                    f"{self!r} must be a loss >= 0, got {least:.3g} at margins -1: B needs a beta "
                    "that is 0 for all classes but the label"
                )
        if largest == 0.0:
            raise ValueError(f"{self!r} must be a loss that is not always 0")
        return largest

    def check(self, n_classes: int, n_examples: int | None = None) -> None:
        """Say what is wrong if the loss does not fit the number of classes (and examples)."""
        if self.costs is None:
            return
        rows = n_examples if self.per_example else n_classes
        if self.costs.shape[1] != n_classes or rows not in (None, self.costs.shape[0]):
            raise ValueError(
                f"costs must have shape ({n_classes}, {n_classes}), or with per_example one row "
                f"per example and {n_classes} columns; got {self.costs.shape}"
                + ("" if n_examples is None else f" for {n_examples} examples")
            )

    def rows(self, block: Any) -> Any:
        """The loss for some of the examples: itself, unless costs are per example."""
        if self.costs is None or not self.per_example:
            return self
        part = copy.copy(self)
        part.costs = self.costs[block]
        return part

    def deltas(self, labels: IntArray, n_classes: int) -> FloatArray:
        """Delta of each example, one row each."""
        if self.costs is None:
            out = np.ones((labels.size, n_classes))
        else:
            out = self.costs.copy() if self.per_example else self.costs[labels]
        out[np.arange(labels.size), labels] = 0.0
        return out

    def largest_deltas(self, labels: IntArray) -> FloatArray:
        """The largest ``|Delta_j|`` of each example."""
        if self.costs is None:
            return np.ones(labels.size)
        largest = np.abs(self.costs).max(axis=1)
        return largest if self.per_example else largest[labels]

    def value(self, scores: npt.ArrayLike, y: Any) -> Any:
        """``Phi(s; y)``: a float, or one for each row."""
        return batched(self._values, scores, y)

    def subgradient(self, scores: npt.ArrayLike, y: Any) -> FloatArray:
        """``beta - (1'beta) e_y`` at a maximiser beta."""
        return batched(lambda s, labels: -self._vertices(s, labels)[0], scores, y)

    def conjugate(self, gradient: npt.ArrayLike, y: Any, tol: float = 1e-9) -> Any:
        """``Phi*(g) = -<Delta, beta>`` where ``g = beta - (1'beta) e_y``; infinity outside.

        The domain is widened by ``tol`` times the largest ``1'beta``, for rounding.
        """
        return batched(lambda g, labels: self._conjugates(g, labels, tol), gradient, y)

    def envelope(self, scores: npt.ArrayLike, y: Any, smoothing: float) -> Any:
        """``Phi_mu(s) = max over beta of <beta, z> - mu/2 |alpha|²``, with mu = ``smoothing``."""
        return batched(lambda s, labels: self._envelopes(s, labels, smoothing)[0], scores, y)

    def dual_point(self, scores: npt.ArrayLike, y: Any, smoothing: float) -> FloatArray:
        """The alpha that attains the envelope: minus its gradient, ``project(-(s + Delta)/mu)``."""
        return batched(lambda s, labels: self._envelopes(s, labels, smoothing)[1], scores, y)

    def smoothed(
        self, scores: FloatArray, labels: IntArray, smoothing: float
    ) -> tuple[FloatArray, FloatArray]:
        """The envelopes of rows of scores, and the dual points that attain them."""
        self.check(scores.shape[1], labels.size)
        return self._envelopes_of(self._margins(scores, labels), labels, smoothing)

    def gains(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """``-<Delta, alpha>`` of each row of dual points, which sum to 0."""
        if self.costs is None:
            own: FloatArray = alpha[np.arange(labels.size), labels]
            return own
        return -np.einsum("ij,ij->i", alpha, self.deltas(labels, alpha.shape[1]))

    def project(self, point: npt.ArrayLike, y: Any) -> FloatArray:
        """The nearest dual point ``alpha = (1'beta) e_y - beta`` with beta in B."""
        return batched(self._projections, point, y)

    def vertices(self, scores: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
        """The dual points that rows of scores point to, and Phi of each row."""
        alpha, z = self._vertices(scores, labels)
        return alpha, self._ask("maximum", z, labels)

    def of_margins(self, z: FloatArray, labels: IntArray, smoothing: float = 0.0) -> FloatArray:
        """``Phi``, or its envelope, of each row of margins ``z = s - s_y + Delta``."""
        if smoothing:
            return self._envelopes_of(z, labels, smoothing)[0]
        return self._ask("maximum", z, labels)

    def _margins(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        own = scores[np.arange(labels.size), labels]
        return scores - own[:, None] + self.deltas(labels, scores.shape[1])

    def _values(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        self.check(scores.shape[1], labels.size)
        return self.of_margins(self._margins(scores, labels), labels)

    def _vertices(self, scores: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
        self.check(scores.shape[1], labels.size)
        z = self._margins(scores, labels)
        beta = self._ask("argmax", z, labels)
        alpha = -beta
        alpha[np.arange(labels.size), labels] += beta.sum(axis=1)
        return alpha, z

    def _conjugates(self, gradients: FloatArray, labels: IntArray, tol: float) -> FloatArray:
        m = gradients.shape[1]
        away = np.abs(self._projections(-gradients, labels) + gradients).max(axis=1)
        value = -(self.deltas(labels, m) * gradients).sum(axis=1)
        return np.where(away <= tol * self.mass(m), value, np.inf)

    def _projections(self, points: FloatArray, labels: IntArray) -> FloatArray:
        self.check(points.shape[1], labels.size)
        return self._ask("projection", points, labels)

    def _envelopes(
        self, scores: FloatArray, labels: IntArray, smoothing: float
    ) -> tuple[FloatArray, FloatArray]:
        if not 0 < smoothing < np.inf:
            raise ValueError(f"smoothing must be positive and finite, got {smoothing!r}")
        return self.smoothed(scores, labels, smoothing)

    def _envelopes_of(
        self, z: FloatArray, labels: IntArray, smoothing: float
    ) -> tuple[FloatArray, FloatArray]:
        # alpha sums to 0, so that s + Delta may be shifted
        alpha = self._projections(-z / smoothing, labels)
        value = -(alpha * z).sum(axis=1) - 0.5 * smoothing * (alpha**2).sum(axis=1)
        return value, alpha


def _checked_costs(costs: npt.ArrayLike) -> FloatArray:
    out = np.asarray(costs, dtype=np.float64)
    if out.ndim != 2 or not np.isfinite(out).all() or (out < 0).any():
        raise ValueError(f"costs must be a matrix of finite numbers >= 0, got {costs!r}")
    return out


def batched(function: Callable[..., Any], rows: npt.ArrayLike, y: Any) -> Any:
    """Apply a function of (matrix, labels) to one vector and label, or to a batch."""
    matrix = np.asarray(rows, dtype=np.float64)
    given = np.asarray(y)
    if given.dtype.kind not in "iuf" or not (np.isfinite(given) & (np.floor(given) == given)).all():
        raise ValueError(f"labels must be integers, got {y!r}")
    labels = given.astype(np.intp)
    if matrix.ndim not in (1, 2) or labels.shape != matrix.shape[:-1]:
        raise ValueError(
            "give a vector with one label, or a matrix with a label per row; "
            f"got shapes {matrix.shape} and {labels.shape}"
        )
    n_classes = matrix.shape[-1]
    if labels.size and (labels.min() < 0 or labels.max() >= n_classes):
        raise ValueError(f"labels must be between 0 and {n_classes - 1}, got {y!r}")
    out = function(np.atleast_2d(matrix), np.atleast_1d(labels))
    return out[0] if matrix.ndim == 1 else out
