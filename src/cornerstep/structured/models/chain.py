"""Chains: ``w'phi(x, y) = sum_t <W[:, y_t], x_t> + sum_t T[y_t, y_t+1] (+ start[y_1] + end[y_L])``.

Decoding is Viterbi's algorithm in a compiled kernel; features may be dense or CSR.

References
----------
.. [1] A. J. Viterbi. Error bounds for convolutional codes and an asymptotically optimum decoding
   algorithm. IEEE Transactions on Information Theory 13, 260-269, 1967.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector
from cornerstep.structured.compiled.records import Chains, Shape, no_walls
from cornerstep.structured.models.base import StructuredModel, shortened
from cornerstep.structured.models.constraints import (
    check_constraints,
    forbidden_table,
    require_allowed,
    require_possible,
)
from cornerstep.structured.models.stacked import StackedChains

_MOST_LABELS = 32_767  # labelings are kept in 16 bits
_ENUMERABLE = 5_000

_HINT = ": make numbers of words and dicts by DictVectorizer or FeatureHasher of scikit-learn"


class ChainModel(BaseEstimator, StructuredModel):
    r"""Labels in a row, each with features, and a weight for each pair of neighbours.

    .. math:: \sum_t \langle W_{y_t}, x_t \rangle + T_{y_t, y_{t+1}}

    Biases of the first and the last label are optional.  An example x is an array or CSR matrix of
    shape (L, d), one row per node, or ``(features, node_weights)``, or ``(features, node_weights,
    ends)`` of a piece of a sequence: ``ends`` says whether it has the first and the last node of
    it, where alone biases and constraints of the first and the last label count.  A labeling y is
    a sequence of L labels.  The loss is the Hamming loss ``sum_t c_t [y_t != y_hat_t]``.

    Parameters
    ----------
    transitions : bool, default=True
        Whether neighbours have weights T.
    biases : bool, default=False
        Whether the first and the last node have weights of their own for each label.
    normalize : bool, default=True
        ``c_t = weight_t / sum of weights``, so that a loss is a share of the chain; else
        ``c_t = weight_t``.  Weights are 1 where x brings none.
    labels : sequence, optional
        All labels there are; by default those of the training data.
    constraints : {'BIO', 'BIOES'} or list of pairs, optional
        What no labeling may have: ``('O', 'I-NP')`` forbids I-NP right after O, ``(None, 'I-NP')``
        as the first label, ``('B-NP', None)`` as the last one.  The names stand for the rules of
        such labels.  Training and decoding obey, so that the labelings of the training data must.

    Attributes
    ----------
    labels_ : array of shape (m,)
    forbidden_ : bool array of shape (m + 2, m) or None
        What the constraints forbid: after each label, as the first and as the last one.
    n_features_ : int
    size : int
        ``m d (+ 2 m) (+ m²)``.
    """

    workers = "threads"

    sequences = True
    constraints: Any = None  # also of models in files that were written before there were any

    def __init__(
        self,
        transitions: bool = True,
        biases: bool = False,
        normalize: bool = True,
        labels: Sequence[Any] | None = None,
        constraints: Any = None,
    ) -> None:
        self.transitions = transitions
        self.biases = biases
        self.normalize = normalize
        self.labels = labels
        self.constraints = constraints

    def prepare(self, X: Any, Y: Any) -> None:
        given = Y if self.labels is None else [self.labels]
        self.labels_ = np.unique(
            np.concatenate([_labels(y, f"Y[{i}]") for i, y in enumerate(given)])
        )
        if self.labels_.size > _MOST_LABELS:
            raise ValueError(f"labels must be at most {_MOST_LABELS}, got {self.labels_.size}")
        self.complete()
        self.n_features_ = _matrix(X[0], "X[0]")[0].shape[1]
        m, d = self.labels_.size, self.n_features_
        self.size = m * d + 2 * m * bool(self.biases) + m * m * bool(self.transitions)

    def complete(self) -> None:
        if self.constraints is not None and not self.transitions:
            check_constraints(self.constraints)
            raise ValueError(
                f"constraints need transitions=True, got constraints={self.constraints!r}"
            )
        self.forbidden_ = forbidden_table(self.constraints, self.labels_)

    def check(self, X: Any, Y: Any = None) -> None:
        self.encode_chains(X, Y)

    def encode_chains(self, X: Sequence[Any], Y: Sequence[Any] | None = None) -> Chains:
        """The chains as arrays; labels are numbered, 0 where Y is None."""
        stacked, costs, lengths, whole = self._stacked(X)
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        finite = np.isfinite(stacked.data)
        if not finite.all():
            entry = np.flatnonzero(~finite)[0]
            row = np.searchsorted(stacked.indptr, entry, side="right") - 1
            i = int(np.searchsorted(ptr, row, side="right") - 1)
            raise ValueError(
                f"X[{i}] must be finite, got {stacked.data[entry]} in node {row - ptr[i]}"
            )
        truth = np.zeros(ptr[-1], np.int64)
        if Y is not None:
            truth = self._encode_labels(Y, lengths)
        m, walls = self.labels_.size, no_walls(self.labels_.size)
        if self.forbidden_ is not None:
            if whole.all():  # a piece of a sequence may be anything
                require_possible(self.forbidden_, lengths, lambda i: f"X[{i}]")
            if Y is not None:
                require_allowed(
                    self.forbidden_, truth, ptr, self.labels_, whole,
                    lambda i, t: f"Y[{i}] at node {t}",
                )  # fmt: skip
            walls = np.where(self.forbidden_, -np.inf, 0.0)
        if self.biases:
            stacked = _with_ends(stacked, ptr, whole)
        shape = Shape(stacked.shape[1], m, int(bool(self.transitions)))
        return Chains(
            ptr,
            stacked.indptr.astype(np.int64),
            stacked.indices.astype(np.int32),
            stacked.data,
            truth.astype(np.int16),
            costs,
            shape,
            np.ones(len(lengths)),
            float(len(lengths)),
            walls,
            whole,
        )

    def _stacked(
        self, X: Sequence[Any]
    ) -> tuple[Any, FloatArray, list[int], npt.NDArray[np.bool_]]:
        """All nodes in one matrix, their costs, the lengths of the chains, and their ends."""
        if isinstance(X, StackedChains):
            sizes, given = np.diff(X.ptr), X.weights
            if self.normalize:
                sums = np.repeat(np.add.reduceat(given, X.ptr[:-1]), sizes)
                given = np.divide(given, sums, out=given.copy(), where=sums > 0)
            return X.nodes, given, sizes.tolist(), X.ends
        parts, costs, lengths = [], [], []
        for i, x in enumerate(X):
            features, weights = _matrix(x, f"X[{i}]")
            if features.shape[0] == 0:
                raise ValueError(f"X[{i}] must have at least one node, got an empty sequence")
            if features.shape[1] != self.n_features_:
                raise ValueError(
                    f"X[{i}] must have {self.n_features_} features a node, got {features.shape[1]}"
                )
            total = weights.sum() if self.normalize else 1.0
            parts.append(features)
            costs.append(weights / total if total > 0 else weights)
            lengths.append(features.shape[0])
        return _stack(parts), np.concatenate(costs), lengths, np.array([_ends(x) for x in X])

    def _encode_labels(self, Y: Sequence[Any], lengths: Sequence[int]) -> npt.NDArray[np.int64]:
        if len(Y) != len(lengths):
            raise ValueError(f"Y must have a labeling for each x: {len(lengths)}, got {len(Y)}")
        arrays = [_labels(y, f"Y[{i}]") for i, y in enumerate(Y)]
        for i, (labels, length) in enumerate(zip(arrays, lengths, strict=True)):
            if labels.size != length:
                raise ValueError(
                    f"Y[{i}] must have a label for each of the {length} nodes of X[{i}], "
                    f"got {labels.size}"
                )
        flat = np.concatenate(arrays)
        codes = np.searchsorted(self.labels_, flat)
        codes[codes == self.labels_.size] = 0
        wrong = self.labels_[codes] != flat
        if wrong.any():
            node = int(np.flatnonzero(wrong)[0])
            i = int(np.searchsorted(np.cumsum(lengths), node, side="right"))
            raise ValueError(
                f"Y[{i}] has the label {flat[node].item()!r}, which is not one of the model's "
                f"{self.labels_.size} labels: give all there are to the model, as labels="
            )
        return codes

    def split(self, w: FloatArray) -> dict[str, FloatArray]:
        """The weights by name: 'nodes' (d, m), 'start', 'end' (m,), 'transitions' (m, m)."""
        m, d = self.labels_.size, self.n_features_
        parts, at = {"nodes": w[: m * d].reshape(d, m)}, m * d
        if self.biases:
            parts["start"], parts["end"] = w[at : at + m], w[at + m : at + 2 * m]
            at += 2 * m
        if self.transitions:
            parts["transitions"] = w[at:].reshape(m, m)
        return parts

    def joint_feature(self, x: Any, y: Any) -> SparseVector:
        features = _matrix(x, "x")[0]
        m, d = self.labels_.size, self.n_features_
        labels = self._encode_labels([y], [features.shape[0]])
        if sp.issparse(features):
            entries = sp.coo_array(features)
            (node, feature), entry = entries.coords, entries.data
        else:
            node, feature = features.nonzero()
            entry = features[node, feature]
        indices = [feature.astype(np.int64) * m + labels[node]]
        values, at = [entry], m * d
        if self.biases:
            indices.append(np.array([at + labels[0], at + m + labels[-1]])[_ends(x)])
            values.append(np.ones(indices[-1].size))
            at += 2 * m
        if self.transitions:
            indices.append(at + labels[:-1] * m + labels[1:])
            values.append(np.ones(labels.size - 1))
        where, inverse = np.unique(np.concatenate(indices), return_inverse=True)
        return SparseVector(
            where, np.bincount(inverse, np.concatenate(values), where.size), self.size
        )

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        weights = _matrix(x, "x")[1]
        total = weights.sum() if self.normalize else 1.0
        wrong = np.asarray(y) != np.asarray(y_hat)
        return float(weights @ wrong / total) if total > 0 else 0.0

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> npt.NDArray[Any]:
        return self.loss_augmented_decode_batch([x], [y], w)[0]

    def decode(self, x: Any, w: FloatArray) -> npt.NDArray[Any]:
        return self.decode_batch([x], w)[0]

    def loss_augmented_decode_batch(
        self, X: Sequence[Any], Y: Sequence[Any], w: FloatArray
    ) -> list[npt.NDArray[Any]]:
        return self._decoded(self.encode_chains(X, Y), w, True)

    def decode_batch(self, X: Sequence[Any], w: FloatArray) -> list[npt.NDArray[Any]]:
        return self._decoded(self.encode_chains(X), w, False)

    def _decoded(self, chains: Chains, w: FloatArray, augment: bool) -> list[npt.NDArray[Any]]:
        from cornerstep.structured.compiled.chain import decode

        labels = np.empty(chains.ptr[-1], np.int16)
        decode(chains, w, 0, chains.n, augment, labels, np.empty(chains.n))
        return np.split(self.labels_[labels], chains.ptr[1:-1])

    def decode_n_best(
        self, X: Sequence[Any], w: FloatArray, n: int
    ) -> list[list[tuple[npt.NDArray[Any], float]]]:
        """The n labelings of largest score of each chain, with their scores, best first.

        Fewer where a chain has no more.
        """
        from cornerstep.structured.compiled.chain import all_scores, links_in
        from cornerstep.structured.compiled.n_best import n_best

        chains, m = self.encode_chains(X), self.labels_.size
        theta = np.empty((chains.ptr[-1], m))
        all_scores(chains, w, theta)
        links = links_in(chains.shape, w) if self.transitions else np.zeros((m, m))
        if self.forbidden_ is not None:
            links = links + chains.walls[:m]
        answers = []
        for first, last in itertools.pairwise(chains.ptr.tolist()):
            labels, scores = np.empty((n, last - first), np.int16), np.empty(n)
            found = n_best(theta[first:last], np.ascontiguousarray(links), n, labels, scores)
            answers.append(
                list(zip(self.labels_[labels[:found]], scores[:found].tolist(), strict=True))
            )
        return answers

    def marginals(self, X: Sequence[Any], w: FloatArray) -> list[FloatArray]:
        """How likely each label of each node is where ``p(y) ~ exp(w'phi(x, y))``."""
        from cornerstep.structured.compiled.sum_product import messages, sum_product

        chains, m = self.encode_chains(X), self.labels_.size
        out, size = np.empty((chains.ptr[-1], m)), int(np.diff(chains.ptr).max())
        pairs = np.empty((chains.n * bool(self.transitions), m, m))
        work, lost = messages(size, m), np.empty(chains.n)
        sum_product(chains, work, w, 1.0, 0.0, 0, chains.n, out, pairs, lost)
        return np.split(out, chains.ptr[1:-1])

    def labelings(self, x: Any) -> Iterable[Any] | None:
        length = _matrix(x, "x")[0].shape[0]
        if self.labels_.size**length > _ENUMERABLE:
            return None
        every = map(np.array, itertools.product(self.labels_, repeat=length))
        first, last = _ends(x)
        return (labels for labels in every if self._allows(labels, first, last))

    def _allows(self, labels: npt.NDArray[Any], first: bool, last: bool) -> bool:
        table, codes = self.forbidden_, np.searchsorted(self.labels_, labels)
        return table is None or not (
            table[codes[:-1], codes[1:]].any()
            or (first and table[-2, codes[0]])
            or (last and table[-1, codes[-1]])
        )


def _matrix(x: Any, name: str) -> tuple[Any, FloatArray]:
    """Features (dense or CSR, two-dimensional) and node weights of an example."""
    weights = None
    if isinstance(x, tuple):
        if len(x) not in (2, 3):
            raise ValueError(
                f"{name} must be features or (features, node_weights[, ends]), got {len(x)} parts"
            )
        x, weights = x[:2]
    try:
        features = x if sp.issparse(x) else np.asarray(x)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} must be a matrix, got rows of different lengths") from None
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be a matrix of numbers with a row per node, got shape {features.shape} "
            f"of {features.dtype}{_HINT if features.dtype.kind in 'OU' else ''}"
        )
    if weights is None:
        return features, np.ones(features.shape[0])
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (features.shape[0],):
        raise ValueError(
            f"{name} must have a node weight for each of its {features.shape[0]} nodes, "
            f"got shape {weights.shape}"
        )
    wrong = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if wrong.size:
        raise ValueError(
            f"{name} must have finite node weights >= 0, got {weights[wrong[0]]} at node {wrong[0]}"
        )
    return features, weights


def _ends(x: Any) -> npt.NDArray[np.bool_]:
    """Whether an example has the first and the last node of its sequence, as it says itself."""
    if isinstance(x, tuple) and len(x) == 3:
        return np.asarray(x[2], bool)
    return np.ones(2, bool)


def _labels(y: Any, name: str) -> npt.NDArray[Any]:
    try:
        labels = np.asarray(y)
    except ValueError:  # nested and ragged
        labels = np.empty(0, object)
    if labels.ndim != 1 or labels.dtype == object:
        raise ValueError(f"{name} must be a sequence of labels, got {shortened(y)}")
    return labels


def _with_ends(nodes: Any, ptr: npt.NDArray[np.int64], whole: npt.NDArray[np.bool_]) -> Any:
    """Two more features: 1 at the first and 1 at the last node of each chain, for the biases.

    Pieces of a sequence have none where they were cut.
    """
    places = np.concatenate([ptr[:-1][whole[:, 0]], ptr[1:][whole[:, 1]] - 1])
    which = np.repeat([0, 1], whole.sum(axis=0))
    ends = sp.csr_array((np.ones(places.size), (places, which)), shape=(nodes.shape[0], 2))
    return sp.hstack([nodes, ends], format="csr")


def _stack(parts: list[Any]) -> Any:
    """All nodes in one CSR matrix of float64, explicit zeros left out."""
    if any(sp.issparse(part) for part in parts):
        stacked = sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts], format="csr"))
    else:
        stacked = sp.csr_array(np.concatenate(parts).astype(np.float64))
    stacked = stacked.astype(np.float64)
    stacked.sum_duplicates()
    return stacked
