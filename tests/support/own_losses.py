"""Losses given by their oracles, as a user would write them."""

from __future__ import annotations

import numpy as np

from cornerstep.losses import SimplexLoss


class RootSquare(SimplexLoss):
    """``sqrt(sum_j max(0, z_j)²)``: B is a part of the unit ball."""

    def argmax(self, z, labels):
        positive = np.maximum(z, 0.0)
        sizes = np.linalg.norm(positive, axis=1, keepdims=True)
        return positive / np.where(sizes > 0, sizes, 1.0)


class Groups(SimplexLoss):
    """``max(0, the largest mean over a group of classes without the label)``."""

    def __init__(self, groups, costs=None, **options):
        super().__init__(costs, **options)
        self.groups = np.asarray(groups)  # of each class

    def argmax(self, z, labels):
        beta, best = np.zeros_like(z), np.zeros(len(z))
        for group in np.unique(self.groups):
            inside = self.groups == group
            means = np.where(self.groups[labels] == group, 0.0, z[:, inside].mean(axis=1))
            better = means > best
            beta[better] = inside / inside.sum()
            best = np.maximum(best, means)
        return beta


class Round(SimplexLoss):
    """Dual points are those with ``|alpha| <= radius`` that sum to 0 and are <= 0 off the label."""

    def __init__(self, radius=1.0):
        self.radius = radius

    def argmax(self, z, labels):
        alpha = self._on_cone(-z, labels)
        sizes = np.linalg.norm(alpha, axis=1, keepdims=True)
        beta = -alpha * (self.radius / np.where(sizes > 0, sizes, 1.0))
        beta[np.arange(len(z)), labels] = 0.0
        return np.maximum(beta, 0.0)

    def projection(self, points, labels):
        alpha = self._on_cone(points, labels)
        sizes = np.linalg.norm(alpha, axis=1, keepdims=True)
        return alpha * np.minimum(1.0, self.radius / np.where(sizes > 0, sizes, 1.0))

    def _on_cone(self, points, labels):
        """``p_y - t`` and ``min(p_j - t, 0)``, with the t for which they sum to 0."""
        out = np.zeros_like(points)
        for row, p, y in zip(out, points, labels, strict=True):
            others = np.sort(np.delete(p, y))
            for k in range(others.size + 1):  # so many are below t
                t = (p[y] + others[:k].sum()) / (k + 1)
                if k == others.size or others[k] >= t:
                    break
            row[:] = np.minimum(p - t, 0.0)
            row[y] = p[y] - t
        return out


class Wrapped(SimplexLoss):
    """A loss of the library that hides all but its oracles."""

    def __init__(self, inner):
        super().__init__(inner.costs, per_example=inner.per_example)
        self.inner = inner

    def argmax(self, z, labels):
        return self.inner.argmax(z, labels)

    def projection(self, points, labels):
        return self.inner.projection(points, labels)


class OnlyArgmax(SimplexLoss):
    """The same without a projection."""

    def __init__(self, inner):
        super().__init__(inner.costs, per_example=inner.per_example)
        self.inner = inner

    def argmax(self, z, labels):
        return self.inner.argmax(z, labels)
