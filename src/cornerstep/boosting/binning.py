"""Features cut into bins, what the exact search for trees works on; and the trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cornerstep.boosting.long_work import SearchExpiredError, never
from cornerstep.core.types import FloatArray, IntArray


class Tree(NamedTuple):
    """A complete tree as a heap: ``x[feature] <= threshold`` goes left; leaves hold -1 or 1."""

    features: IntArray
    thresholds: FloatArray
    leaves: FloatArray


def cut_points(values: FloatArray, weights: FloatArray, max_bins: int) -> FloatArray:
    """Thresholds between neighbouring values: all of them, or ``max_bins - 1`` at quantiles."""
    distinct, where = np.unique(values, return_inverse=True)
    if distinct.size <= max_bins:
        chosen = np.arange(distinct.size - 1)
    else:
        below = np.cumsum(np.bincount(where, weights=weights))
        levels = below[-1] * np.arange(1, max_bins) / max_bins
        chosen = np.unique(np.searchsorted(below, levels * (1 - 1e-12)))
        chosen = chosen[chosen < distinct.size - 1]
    left, right = distinct[chosen], distinct[chosen + 1]
    middle = left + (right - left) / 2
    return np.where(middle < right, middle, left)


class Binning:
    """Features cut at thresholds: ``bin <= b`` if and only if ``x <= cuts[b]``.

    Parameters
    ----------
    X : array of shape (m, F)
    weights : array of shape (m,)
    max_bins : int
    expired : callable, optional
        Asked before each feature.
    """

    def __init__(
        self,
        X: FloatArray,
        weights: FloatArray,
        max_bins: int,
        expired: Callable[[], bool] = never,
    ) -> None:
        cuts = []
        for column in X.T:
            if expired():
                raise SearchExpiredError
            cuts.append(cut_points(column, weights, max_bins))
        self._set(cuts)

    @classmethod
    def at(cls, cuts: list[FloatArray]) -> Binning:
        """Features cut at given thresholds."""
        binning = cls.__new__(cls)
        binning._set(cuts)
        return binning

    def _set(self, cuts: list[FloatArray]) -> None:
        self.cuts = cuts
        # the kernels want features with many bins first
        self.features = np.argsort([-cuts.size for cuts in self.cuts], kind="stable")
        self.n_bins = np.array([self.cuts[f].size + 1 for f in self.features])
        self._thresholds = np.full((self.n_bins.size, self.n_bins.max()), np.inf)
        for g, f in enumerate(self.features):
            self._thresholds[g, : self.cuts[f].size] = self.cuts[f]

    def transform(self, X: FloatArray, expired: Callable[[], bool] = never) -> npt.NDArray[Any]:
        """The bins, one row per example, features in the order of ``features``."""
        bins = np.empty(X.shape, dtype=np.uint16)
        for g, f in enumerate(self.features):
            if expired():
                raise SearchExpiredError
            bins[:, g] = np.searchsorted(self.cuts[f], X[:, f])
        return bins

    def trees(self, nodes: IntArray, leaves: FloatArray) -> list[Tree]:
        """The trees of nodes that name features in the order of ``features``, and bins."""
        places, cuts = nodes[..., 0], nodes[..., 1]
        thresholds = self._thresholds[places, cuts]
        return list(map(Tree, self.features[places], thresholds, leaves.copy()))

    def adopt(
        self, trees: Sequence[Any], weights: FloatArray, max_depth: int
    ) -> tuple[list[Tree], FloatArray] | None:
        """Trees of an earlier fit with their thresholds moved to cuts of these bins.

        None if one is deeper than ``max_depth``: the bound would not be one for it.
        """
        most = 2**max_depth
        if any(not isinstance(tree, Tree) or tree.leaves.size > most for tree in trees):
            return None
        return [tree._replace(thresholds=self._nearest(tree)) for tree in trees], weights

    def _nearest(self, tree: Tree) -> FloatArray:
        """A cut next to each threshold; infinity where a feature has none, or beyond them."""
        moved = np.full(tree.thresholds.size, np.inf)
        for v, (f, threshold) in enumerate(zip(tree.features, tree.thresholds, strict=True)):
            cuts = self.cuts[f]
            if cuts.size and threshold < np.inf:
                k = np.searchsorted(cuts, [threshold])[0]
                near = cuts[max(k - 1, 0) : k + 1]
                moved[v] = near[abs(near - threshold).argmin()]
        return moved

    def has(self, tree: Tree) -> bool:
        """Whether every threshold of a tree is one of the cuts, or infinite."""
        return all(
            threshold == np.inf or threshold in self.cuts[f]
            for f, threshold in zip(tree.features, tree.thresholds, strict=True)
        )
