"""Weak learners: the linear minimisation oracle of boosting.

Asked with a distribution d over the examples, a weak learner answers hypotheses h with values in
[-1, 1] whose best *edge* ``sum_i d_i y_i h(x_i)`` is (nearly) the largest in its class, with their
margins ``y_i h(x_i)``.  It may answer several: the search for one often finds others on the way.

- :class:`TreeLearner`: the largest edge over all stumps or depth-2 trees on binned features; deeper
  trees put the best depth-2 trees below its leaves.
- :class:`~cornerstep.boosting.learners.classifiers.ClassifierLearner`: any classifier of
  scikit-learn that takes ``sample_weight``.
- :class:`FiniteLearner`: a given list of hypotheses.

References
----------
.. [1] A. Demiriz, K. P. Bennett, J. Shawe-Taylor. Linear programming boosting via column
   generation. Machine Learning 46, 225-254, 2002.
.. [2] R. Mitsuboshi, K. Hatano, E. Takimoto. Boosting as Frank-Wolfe. arXiv, 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from cornerstep.boosting.binning import Binning, Tree
from cornerstep.boosting.compiled import sweeps as kernels
from cornerstep.boosting.compiled import tree_values
from cornerstep.boosting.long_work import SearchExpiredError, in_parts, never
from cornerstep.core.types import FloatArray, IntArray

_PARTS = 2  # of a root's thresholds: a proposal for each
_COARSE_BINS = 64  # at most, when hypotheses are only proposed
_SHIFTS = 4  # ways to merge bins
_TRIED = 12  # thresholds of a root, then
_SLIGHT = 1e-3  # of the largest weight: examples below do not count then
_LARGE = 1 << 22  # elementary operations from which a search is worth several threads


Start = tuple[Sequence[Any], FloatArray]  # hypotheses and their weights


class Answer(NamedTuple):
    """Hypotheses in the order of falling edge, with their margins, one row each."""

    edge: float
    hypotheses: list[Any]
    margins: FloatArray
    largest: bool = True  # whether the search was complete; if not, others may have larger edges


class WeakLearner(Protocol):
    """What boosting asks of a weak learner.

    Long searches ask ``expired`` on the way, and raise :class:`SearchExpiredError` when it says so.
    """

    exact: bool  # whether the answer's edge is the largest of the whole class
    expired: Callable[[], bool]

    def query(self, distribution: FloatArray) -> Answer:
        """The hypothesis of largest edge under ``distribution``, and others."""

    def propose(self, distribution: FloatArray) -> Answer:
        """Hypotheses of large edge, where that is cheaper than the largest."""

    def adopt(self, hypotheses: Sequence[Any], weights: FloatArray) -> Start | None:
        """An ensemble to start from, as one of this learner's hypotheses; None: it has no such."""

    def margins(self, hypotheses: Sequence[Any]) -> FloatArray:
        """``y_i h(x_i)`` recomputed from the data, one row per hypothesis."""

    def image(self, hypotheses: Sequence[Any], weights: FloatArray) -> FloatArray:
        """``sum_j w_j y_i h_j(x_i)`` recomputed from the data."""


def evaluate(hypotheses: Sequence[Any], X: Any) -> FloatArray:
    """``h(x_i)``, one row per hypothesis: trees, or objects that answer ``values(X)``."""
    if not isinstance(X, np.ndarray):  # on a cluster
        found: FloatArray = X.evaluate(hypotheses)
        return found
    return _evaluate(hypotheses, X, np.ascontiguousarray(X.T))


def combine(hypotheses: Sequence[Any], weights: FloatArray, X: Any) -> FloatArray:
    """``sum_j w_j h_j(x_i)``, a few hypotheses at a time."""
    total = np.zeros(X.shape[0])
    here = isinstance(X, np.ndarray)  # otherwise on a cluster
    columns = np.ascontiguousarray(X.T) if here else None
    for some in in_parts(len(hypotheses), X.shape[0]):
        values = _evaluate(hypotheses[some], X, columns) if here else X.evaluate(hypotheses[some])
        total += weights[some] @ values
    return total


def leaf_sums(features: IntArray, thresholds: FloatArray, X: Any, signed: FloatArray) -> FloatArray:
    """The sums of ``signed`` over the examples in each leaf, one row per tree of the same depth."""
    if not isinstance(X, np.ndarray):  # on a cluster
        found: FloatArray = X.leaf_sums(features, thresholds, signed)
        return found
    sums = np.zeros((features.shape[0], features.shape[1] + 1))
    tree_values.leaf_sums(np.ascontiguousarray(X.T), features, thresholds, signed, sums)
    return sums


def _evaluate(hypotheses: Sequence[Any], X: FloatArray, columns: Any) -> FloatArray:
    out = np.empty((len(hypotheses), X.shape[0]))
    by_size: dict[int, list[int]] = {}
    for k, hypothesis in enumerate(hypotheses):
        if isinstance(hypothesis, Tree):
            by_size.setdefault(hypothesis.features.size, []).append(k)
        else:
            out[k] = hypothesis.values(X)
    for members in by_size.values():
        chosen = [hypotheses[k] for k in members]
        features, thresholds, leaves = (np.array(part) for part in zip(*chosen, strict=True))
        alone = len(members) == len(hypotheses)
        part = out if alone else np.empty((len(members), X.shape[0]))
        tree_values.evaluate(columns, features, thresholds, leaves, part)
        if not alone:
            out[members] = part
    return out


class TreeLearner:
    """``argmax over trees of sum_i d_i y_i h(x_i)``: one tree for every root feature.

    Exact for depth 1 and 2 over the bins.  A deeper tree is the exact tree of depth 2 with, below
    each of its leaves, the best tree of the remaining depth for the examples there.

    Parameters
    ----------
    X : array of shape (m, F)
    labels : array of -1 and 1
    binning : Binning
    max_depth : int
    n_threads : int
    expired : callable, optional
        Asked between the features here, and in the searches.
    bins : array of shape (m, F), optional
        ``binning.transform(X)``, if it is known.
    """

    def __init__(
        self,
        X: FloatArray,
        labels: FloatArray,
        binning: Binning,
        max_depth: int = 2,
        n_threads: int = 1,
        expired: Callable[[], bool] = never,
        bins: Any = None,
    ) -> None:
        self.X, self.labels, self.binning, self.max_depth = X, labels, binning, max_depth
        self.exact = max_depth <= 2
        self.expired = expired
        self._bins = binning.transform(X) if bins is None else bins
        self._ask()
        self._columns = np.ascontiguousarray(self._bins.T)
        n_bins = binning.n_bins
        self._cells = kernels.cells_of(self._bins, n_bins.max())
        edges = np.arange(n_bins.max() + 1)
        self._order = np.empty(self._columns.shape, np.int32)
        self._starts = np.empty((n_bins.size, edges.size), np.int64)
        for g, column in enumerate(self._columns):
            self._ask()
            self._order[g] = np.argsort(column, kind="stable")
            self._starts[g] = np.searchsorted(column[self._order[g]], edges)
        self._merged: dict[int, tuple[Any, ...]] = {}
        self._large = n_bins.size**2 * (labels.size + float(n_bins.max()) ** 2) > _LARGE
        self._threads = min(n_threads, n_bins.size) if self._large else 1
        self._asked = 0

    def _ask(self) -> None:
        if self.expired():
            raise SearchExpiredError

    def query(self, distribution: FloatArray) -> Answer:
        return self._answer(distribution, complete=True)

    def propose(self, distribution: FloatArray) -> Answer:
        return self._answer(distribution, complete=self.max_depth != 2 or not self._large)

    def _answer(self, distribution: FloatArray, complete: bool) -> Answer:
        signed = distribution * self.labels
        if complete:
            edges, nodes, leaves = self.search(signed, self.max_depth)
        else:
            edges, nodes, leaves = self.sample(signed)
        best = np.argsort(-edges, kind="stable")
        nodes, leaves = nodes[best], leaves[best]
        if self.max_depth > 2:
            grown = [
                self._deepen(*tree, signed, self.max_depth)
                for tree in zip(nodes, leaves, strict=True)
            ]
            nodes, leaves = (np.array(part) for part in zip(*grown, strict=True))
        margins, found = np.empty((len(nodes), self.labels.size)), np.empty(len(nodes))
        for some in in_parts(*margins.shape):
            self._ask()
            part = margins[some]
            places, cuts = nodes[some, :, 0], nodes[some, :, 1]
            tree_values.evaluate(self._columns, places, cuts, leaves[some], part)
            part *= self.labels
            found[some] = part @ distribution
        order = np.argsort(-found, kind="stable")
        if (np.diff(order) != 1).any():  # rare: sums are exact
            nodes, leaves, margins = nodes[order], leaves[order], margins[order]
        trees = self.binning.trees(nodes, leaves)
        return Answer(float(found[order[0]]), trees, margins, complete)

    def search(self, signed: FloatArray, depth: int) -> tuple[FloatArray, IntArray, FloatArray]:
        """Edges, nodes and leaves of a tree of depth 1 or 2 for every root; the best is exact."""
        n_bins = self.binning.n_bins
        self._ask()
        if depth == 1:
            return kernels.best_stumps(self._bins, n_bins, signed)
        beyond = kernels.balances(self._cells, n_bins, signed)
        fixed = (self._cells, self._order, self._starts, n_bins, signed, beyond)
        tried = np.full((n_bins.size, n_bins.max()), np.nan)
        room = kernels.room
        self._by_roots(lambda a, b: kernels.try_roots(*fixed, a, b, room(beyond), tried))
        record = float(np.nanmax(tried))
        F = n_bins.size
        found = np.empty(F), np.empty((F, 3, 2), np.int64), np.empty((F, 4))
        self._by_roots(
            lambda a, b: kernels.best_trees(*fixed, a, b, room(beyond), tried, record, found)
        )
        return found

    def sample(self, signed: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
        """Trees of depth 2 and of large edge, some for every root.

        Neighbouring bins are merged and some thresholds of the roots tried, others each time; the
        thresholds of the children are the best for the features found that way.
        """
        few = signed.astype(np.float32)
        few[abs(few) < _SLIGHT * abs(few).max()] = 0.0
        self._asked += 1
        cells, starts, n_bins, merged, shift = self._merging(self._asked % _SHIFTS)
        fixed = (cells, self._order, starts, n_bins, few, kernels.balances(cells, n_bins, few))

        def propose(first: int, last: int) -> IntArray:
            nodes = np.zeros((_PARTS * (last - first), 3, 2), np.int64)
            numbers = first, last, _TRIED, self._asked, _PARTS
            return nodes[: kernels.propose_trees(*fixed, *numbers, kernels.room(fixed[-1]), nodes)]

        nodes = np.concatenate(self._by_roots(propose))
        f = nodes[:, 0, 0]
        last = (nodes[:, 0, 1] + 1) * merged[f] - shift[f]
        nodes[:, 0, 1] = np.minimum(last, self.binning.n_bins[f]) - 1
        leaves, edges = np.empty((len(nodes), 4)), np.empty(len(nodes))
        table = np.empty((2, self.binning.n_bins.max()))
        kernels.finish_trees(
            self._columns, self.binning.n_bins, signed, table, nodes, leaves, edges
        )
        return edges, nodes, leaves

    def _merging(self, number: int) -> tuple[Any, ...]:
        """Cells of bins merged to fewer, where they start, their number, the borders' shift."""
        if number not in self._merged:
            n_bins = self.binning.n_bins
            merged = -(-n_bins // _COARSE_BINS)
            shift = number * merged // _SHIFTS
            coarse = (n_bins - 1 + shift) // merged + 1
            slots = np.arange(coarse.max() + 1)
            first = np.clip(slots * merged[:, None] - shift[:, None], 0, n_bins.max())
            self._merged[number] = (
                kernels.cells_of(
                    (self._bins + shift.astype(np.uint32)) // merged.astype(np.uint32), coarse.max()
                ),
                np.take_along_axis(self._starts, first, axis=1),
                coarse,
                merged,
                shift,
            )
        return self._merged[number]

    def _by_roots(self, search: Callable[[int, int], Any]) -> list[Any]:
        """``search(first, last)`` over the root features; one by one, in threads, if it is long."""
        n_roots = self.binning.n_bins.size
        if not self._large:
            return [search(0, n_roots)]

        def one(root: int) -> Any:
            self._ask()
            return search(root, root + 1)

        if self._threads == 1:
            return [one(root) for root in range(n_roots)]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(one, range(n_roots)))

    def _deepen(
        self, nodes: IntArray, leaves: FloatArray, signed: FloatArray, depth: int
    ) -> tuple[IntArray, FloatArray]:
        """Put the best tree of the remaining depth below each leaf of a depth-2 tree."""
        rest = depth - 2
        reached = np.empty((1, signed.size))
        tree_values.evaluate(
            self._columns, nodes[None, :, 0], nodes[None, :, 1], np.arange(4.0)[None], reached
        )
        heap = np.empty((2**depth - 1, 2), dtype=np.int64)
        values = np.empty(2**depth)
        heap[:3] = nodes
        for leaf in range(4):
            inside = np.where(reached[0] == leaf, signed, 0.0)
            edges, below, ends = self.search(inside, min(rest, 2))
            k = int(np.argmax(edges))
            part, part_values = below[k], ends[k]
            if rest > 2:
                part, part_values = self._deepen(part, part_values, inside, rest)
            size = 2**rest
            values[leaf * size : (leaf + 1) * size] = part_values
            for level in range(rest):  # node v of the part at this level -> node of the heap
                n = 2**level
                start = 4 * n - 1 + leaf * n
                heap[start : start + n] = part[n - 1 : 2 * n - 1]
        return heap, values

    def adopt(self, hypotheses: Sequence[Any], weights: FloatArray) -> Start | None:
        return self.binning.adopt(hypotheses, weights, self.max_depth)

    def margins(self, hypotheses: Sequence[Any]) -> FloatArray:
        return evaluate(hypotheses, self.X) * self.labels

    def image(self, hypotheses: Sequence[Any], weights: FloatArray) -> FloatArray:
        return combine(hypotheses, weights, self.X) * self.labels


class FiniteLearner:
    """The hypotheses of largest edge among given ones.

    Parameters
    ----------
    matrix : array of shape (n, m)
        ``y_i h_j(x_i)`` in [-1, 1], one row per hypothesis.
    hypotheses : sequence, optional
        What to answer for the rows; by default their numbers.
    n_answers : int, default=1
    """

    exact = True

    def __init__(
        self, matrix: FloatArray, hypotheses: Sequence[Any] | None = None, n_answers: int = 1
    ) -> None:
        self.matrix = np.asarray(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or not self.matrix.size or not (abs(self.matrix) <= 1).all():
            raise ValueError("margins must be a matrix with entries in [-1, 1]")
        self.hypotheses = list(range(len(matrix))) if hypotheses is None else list(hypotheses)
        self._row = {id(h): k for k, h in enumerate(self.hypotheses)}
        self.n_answers = n_answers
        self.expired = never

    def query(self, distribution: FloatArray) -> Answer:
        edges = self.matrix @ distribution
        order = np.argsort(-edges, kind="stable")[: self.n_answers]
        chosen = [self.hypotheses[k] for k in order]
        return Answer(float(edges[order[0]]), chosen, self.matrix[order])

    propose = query

    def adopt(self, hypotheses: Sequence[Any], weights: FloatArray) -> Start | None:
        return None if any(id(h) not in self._row for h in hypotheses) else (hypotheses, weights)

    def margins(self, hypotheses: Sequence[Any]) -> FloatArray:
        return self.matrix[[self._row[id(h)] for h in hypotheses]]

    def image(self, hypotheses: Sequence[Any], weights: FloatArray) -> FloatArray:
        return weights @ self.margins(hypotheses)
