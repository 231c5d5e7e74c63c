"""Exact trees for boosting on the workers of a Dask cluster.

Rows and their bins stay on the workers.  A search sends each chunk its part of the distribution and
brings back one sum: for stumps the histogram of every feature, for trees of depth 2 the histograms
of every feature within every bin of every root, ``(F B)²`` numbers, from which the best tree for
each root follows without a further look at the rows.  A second round evaluates the trees found; its
answers, a byte per example and tree, are all that the client sees of the examples, beside their
labels and weights: the masters of boosting work on such vectors.

Workers keep nothing that cannot be made again from the rows: one that dies costs time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cornerstep.boosting.binning import Binning, Tree, cut_points
from cornerstep.boosting.compiled import sweeps as kernels
from cornerstep.boosting.learners.trees import (
    Answer,
    Start,
    combine,
    evaluate,
    leaf_sums,
)
from cornerstep.boosting.long_work import SearchExpiredError, never
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.dask import (
    aligned,
    attempted,
    current_client,
    delayed,
    imported,
    placed,
    sum_replies,
    tree_sum,
)
from cornerstep.data.reductions import Reply

_ANSWERS = 20  # trees of a search that are evaluated
_ENTRIES = 2**25  # numbers in the tables of a search
_DISTINCT = 2**16  # values of a feature that a chunk tells of: with more, those at quantiles


class SpreadColumns:
    """Examples whose features are on the workers, as boosting sees them.

    Parameters
    ----------
    client : distributed Client
    chunks : list of futures
        Matrices.
    counts : array of int
        Their rows.
    n_features : int
    """

    def __init__(self, client: Any, chunks: list[Any], counts: IntArray, n_features: int) -> None:
        self.client, self.chunks, self.moved = client, chunks, 0
        self.ends = np.cumsum(counts)
        self.shape = int(self.ends[-1]), n_features

    def __getitem__(self, rows: IntArray) -> SpreadColumns:
        if rows.size != self.shape[0]:
            raise ValueError(
                "sample_weight times class_weight must be positive for all rows of a Dask array: "
                "leave out those without weight"
            )
        return self

    def parts(self, vector: FloatArray) -> list[FloatArray]:
        """A vector over the examples, cut as the chunks are."""
        self.moved += vector.nbytes
        return np.split(vector, self.ends[:-1])

    def evaluate(self, hypotheses: Sequence[Any]) -> FloatArray:
        """``h(x_i)``, one row per tree; leaves must be small whole numbers."""

        def ask() -> Any:
            submit = self.client.submit
            found = [submit(_values, part, hypotheses, pure=False) for part in self.chunks]
            return np.concatenate(self.client.gather(found), axis=1)

        values = attempted(ask)
        self.moved += values.nbytes
        return np.asarray(values, dtype=np.float64)

    def leaf_sums(
        self, features: IntArray, thresholds: FloatArray, signed: FloatArray
    ) -> FloatArray:
        """The sums of ``signed`` over the examples in each leaf, one row per tree."""
        parts = self.parts(signed)

        def ask() -> Any:
            submit = self.client.submit
            replies = [
                submit(_sums, features, thresholds, *pair, pure=False)
                for pair in zip(self.chunks, parts, strict=True)
            ]
            return tree_sum(self.client, replies, sum_replies)["sums"]

        sums = np.asarray(attempted(ask))
        self.moved += sums.nbytes * len(parts)
        return sums

    def binning(self, weights: FloatArray, max_bins: int) -> Binning:
        """Bins at the thresholds that one machine would take, up to quantiles of large chunks."""
        cuts = []
        parts = self.parts(weights)
        for f in range(self.shape[1]):

            def ask(f: int = f) -> Any:
                pairs = zip(self.chunks, parts, strict=True)
                found = [self.client.submit(_distinct, *pair, f, pure=False) for pair in pairs]
                return self.client.gather(found)

            told = attempted(ask)
            values, shares = (np.concatenate(part) for part in zip(*told, strict=True))
            self.moved += values.nbytes + shares.nbytes
            cuts.append(cut_points(values, shares, max_bins))
        return Binning.at(cuts)


def columns_of(X: Any, y: Any, sample_weight: Any) -> tuple[SpreadColumns, Any, Any]:
    """Examples for boosting: features on the workers, labels and weights here."""
    dask, _ = imported()
    client = current_client()
    given = sample_weight is not None
    X, y, sample_weight = aligned(dask.array, X, y, sample_weight)
    if sp.issparse(X._meta):
        raise ValueError("X must have dense chunks for boosting, got sparse ones")
    chunks = [dask.delayed(_finite)(part) for part in delayed(X)]
    columns = SpreadColumns(client, placed(client, X, chunks), np.array(X.chunks[0]), X.shape[1])
    y, weights = client.gather(client.compute([y, sample_weight]))
    return columns, y, weights if given else None


def _finite(X: Any) -> FloatArray:
    if not np.isfinite(X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    return np.asarray(X, dtype=np.float64)


class SpreadTreeLearner:
    """What :class:`~cornerstep.boosting.learners.trees.TreeLearner` does, on the workers.

    Parameters
    ----------
    columns : SpreadColumns
    labels : array of -1 and 1
    binning : Binning
    max_depth : int
        1 or 2.
    """

    exact = True

    def __init__(
        self, columns: SpreadColumns, labels: FloatArray, binning: Binning, max_depth: int
    ) -> None:
        self.columns, self.labels, self.binning = columns, labels, binning
        self.max_depth = max_depth
        self.expired = never
        n_bins = binning.n_bins
        most = int((_ENTRIES ** (1 / max_depth)) // n_bins.size)
        if n_bins.max() > most:
            raise ValueError(
                f"max_bins must be at most {most} for {n_bins.size} features on a cluster, where "
                f"tables of pairs of bins are summed up; got {n_bins.max()} bins"
            )
        submit = columns.client.submit
        self._bins = [submit(_binned, part, binning, pure=False) for part in columns.chunks]

    @property
    def moved(self) -> int:
        """Bytes moved so far."""
        return self.columns.moved

    def query(self, distribution: FloatArray) -> Answer:
        if self.expired():
            raise SearchExpiredError
        signed = distribution * self.labels
        table = attempted(lambda: self._tables(signed))
        if self.max_depth == 1:
            edges, nodes, leaves = kernels.stumps_of(table, self.binning.n_bins)
        else:
            edges, nodes, leaves = kernels.trees_of(table, self.binning.n_bins)
        best = np.argsort(-edges, kind="stable")[:_ANSWERS]
        trees = self.binning.trees(nodes[best], leaves[best])
        margins = self.margins(trees)
        found = margins @ distribution
        order = np.argsort(-found, kind="stable")
        return Answer(float(found[order[0]]), [trees[k] for k in order], margins[order])

    propose = query

    def _tables(self, signed: FloatArray) -> npt.NDArray[Any]:
        columns, slots = self.columns, self.binning.n_bins.max()
        pairs = zip(self._bins, columns.parts(signed), strict=True)
        submit = columns.client.submit
        replies = [submit(_table, *pair, slots, self.max_depth, pure=False) for pair in pairs]
        table = np.asarray(tree_sum(columns.client, replies, sum_replies)["table"])
        columns.moved += table.nbytes * len(replies)
        return table

    def adopt(self, hypotheses: Sequence[Any], weights: FloatArray) -> Start | None:
        return self.binning.adopt(hypotheses, weights, self.max_depth)

    def margins(self, hypotheses: Sequence[Any]) -> FloatArray:
        return self.columns.evaluate(hypotheses) * self.labels

    def image(self, hypotheses: Sequence[Any], weights: FloatArray) -> FloatArray:
        return combine(hypotheses, weights, self.columns) * self.labels


def _values(X: FloatArray, hypotheses: Sequence[Tree]) -> npt.NDArray[np.int8]:
    return evaluate(hypotheses, X).astype(np.int8)


def _sums(features: IntArray, thresholds: FloatArray, X: FloatArray, signed: FloatArray) -> Reply:
    return {"sums": leaf_sums(features, thresholds, X, signed)}


def _binned(X: FloatArray, binning: Binning) -> npt.NDArray[Any]:
    return binning.transform(X)


def _table(bins: npt.NDArray[Any], signed: FloatArray, slots: int, depth: int) -> Reply:
    histograms = kernels.histograms if depth == 1 else kernels.histograms_of_roots
    return {"table": histograms(bins, signed, slots)}


def _distinct(X: FloatArray, weights: FloatArray, f: int) -> tuple[FloatArray, FloatArray]:
    """The values of a feature, with the weight of each; of too many those at quantiles."""
    values, where = np.unique(X[:, f], return_inverse=True)
    shares: FloatArray = np.bincount(where, weights=weights).astype(np.float64)
    if values.size > _DISTINCT:
        chosen = np.linspace(0, values.size - 1, _DISTINCT).astype(np.int64)
        shares = np.diff(np.cumsum(shares)[chosen], prepend=0.0)
        values = values[chosen]
    return values, shares
