"""Semi-Markov chains: a row of nodes is cut into segments, each with a label and features.

References
----------
.. [1] S. Sarawagi, W. W. Cohen. Semi-Markov conditional random fields for information extraction.
   NIPS 2004.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from cornerstep.core.types import FloatArray
from cornerstep.structured.models.base import StructuredModel, shortened

_ENUMERABLE = 5_000


class _Example(NamedTuple):
    nodes: FloatArray  # (L, d)
    segments: FloatArray  # (L, K, q)


class SegmentModel(BaseEstimator, StructuredModel):
    r"""Segments of a row of nodes, each with a label, features of its own and of its nodes.

    .. math:: \sum_s \Bigl(\langle V_{y_s}, g_s \rangle + T_{y_{s-1}, y_s}
       + \sum_{t \in s} \langle W_{y_s}, x_t \rangle\Bigr)

    An example is a pair of arrays: ``nodes`` of shape (L, d), and ``segments`` of shape (L, K, q),
    where ``segments[t, k - 1]`` are the features g of the segment of k nodes that begins at node t
    (what would pass the end does not count); or ``nodes`` alone.  A labeling is a list of pairs
    ``(length, label)``, from left to right.  The loss counts nodes that have another label, or
    begin a segment in one of both labelings only.

    Parameters
    ----------
    max_length : int, optional
        The longest segment, K; by default the longest one of the training data.
    normalize : bool, default=True
        Whether losses are shares of the nodes.
    labels : sequence, optional
        All labels there are; by default those of the training data.

    Attributes
    ----------
    labels_ : array of shape (m,)
    max_length_, n_features_, n_segment_features_ : int
        K, d and q.
    size : int
        ``m (d + q + m)``.
    """

    workers = "threads"

    def __init__(
        self,
        max_length: int | None = None,
        normalize: bool = True,
        labels: Sequence[Any] | None = None,
    ) -> None:
        self.max_length = max_length
        self.normalize = normalize
        self.labels = labels

    def prepare(self, X: Any, Y: Any) -> None:
        if self.max_length is not None and not (
            isinstance(self.max_length, int | np.integer) and self.max_length >= 1
        ):
            raise ValueError(f"max_length must be an integer >= 1 or None, got {self.max_length!r}")
        pairs = [pair for i, y in enumerate(Y) for pair in _pairs(y, f"Y[{i}]")]
        given = [label for _, label in pairs] if self.labels is None else self.labels
        self.labels_ = np.unique(np.asarray(given))
        self.max_length_ = int(self.max_length or max(length for length, _ in pairs))
        first = X[0] if isinstance(X[0], tuple) else (X[0],)
        self.n_features_ = np.shape(first[0])[-1] if np.ndim(first[0]) == 2 else 0
        self.n_segment_features_ = np.shape(first[1])[-1] if len(first) == 2 else 0
        m = self.labels_.size
        self.size = m * (self.n_features_ + self.n_segment_features_ + m)
        self.check(X, Y)

    def check(self, X: Any, Y: Any = None) -> None:
        for i, x in enumerate(X):
            example = self._example(x, f"X[{i}]")
            if Y is not None:
                self._codes(Y[i], example.nodes.shape[0], f"Y[{i}]")

    def _example(self, x: Any, name: str = "x") -> _Example:
        parts = x if isinstance(x, tuple) else (x,)
        nodes = np.asarray(parts[0], dtype=np.float64)
        if nodes.ndim != 2 or nodes.shape[0] == 0 or nodes.shape[1] != self.n_features_:
            raise ValueError(
                f"{name} must have a row of {self.n_features_} features per node, at least one, "
                f"got shape {nodes.shape}"
            )
        wanted = (nodes.shape[0], self.max_length_, self.n_segment_features_)
        segments = np.asarray(parts[1], dtype=np.float64) if len(parts) == 2 else np.empty(wanted)
        if len(parts) > 2 or segments.shape != wanted:
            raise ValueError(
                f"{name} must be (nodes, segments) with features of segments of shape {wanted}, "
                f"got {shortened(segments.shape)}"
            )
        for part, what in ((nodes, "nodes"), (segments, "segments")):
            if not np.isfinite(part).all():
                t = int(np.argwhere(~np.isfinite(part))[0][0])
                raise ValueError(
                    f"{name} must be finite, got NaN or infinity in {what} at node {t}"
                )
        return _Example(nodes, segments)

    def _codes(self, y: Any, n: int, name: str = "y") -> tuple[Any, Any, Any]:
        """Where segments begin, their lengths, and the numbers of their labels."""
        pairs = _pairs(y, name)
        lengths = np.array([length for length, _ in pairs], dtype=np.int64)
        if lengths.sum() != n or (lengths < 1).any() or (lengths > self.max_length_).any():
            raise ValueError(
                f"{name} must have lengths from 1 to {self.max_length_} that sum to the {n} nodes, "
                f"got {shortened(lengths.tolist())}"
            )
        labels = np.asarray([label for _, label in pairs])
        codes = np.minimum(np.searchsorted(self.labels_, labels), self.labels_.size - 1)
        wrong = np.flatnonzero(self.labels_[codes] != labels)
        if wrong.size:
            raise ValueError(
                f"{name} has the label {labels[wrong[0]].item()!r} in segment {wrong[0]}, which is "
                "not one of the model's: give all there are to the model, as labels="
            )
        return np.cumsum(lengths) - lengths, lengths, codes

    def split(self, w: FloatArray) -> dict[str, FloatArray]:
        """The weights by name: 'nodes' (d, m), 'segments' (q, m), 'transitions' (m, m)."""
        d, q, m = self.n_features_, self.n_segment_features_, self.labels_.size
        return {
            "nodes": w[: d * m].reshape(d, m), "segments": w[d * m : (d + q) * m].reshape(q, m),
            "transitions": w[(d + q) * m :].reshape(m, m),
        }  # fmt: skip

    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        nodes, segments = self._example(x)
        begins, lengths, codes = self._codes(y, nodes.shape[0])
        out = np.zeros(self.size)
        parts = self.split(out)
        np.add.at(parts["nodes"].T, np.repeat(codes, lengths), nodes)
        np.add.at(parts["segments"].T, codes, segments[begins, lengths - 1])
        np.add.at(parts["transitions"], (codes[:-1], codes[1:]), 1.0)
        return out

    def _by_node(self, y: Any, n: int) -> npt.NDArray[Any]:
        """The number of each node's label, and whether a segment begins there."""
        begins, lengths, codes = self._codes(y, n)
        first = np.zeros(n, bool)
        first[begins] = True
        return np.column_stack([np.repeat(codes, lengths), first])

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        n = self._example(x).nodes.shape[0]
        wrong = (self._by_node(y, n) != self._by_node(y_hat, n)).any(axis=1)
        return float(wrong.mean() if self.normalize else wrong.sum())

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> list[tuple[int, Any]]:
        return self._decoded(x, y, w)

    def decode(self, x: Any, w: FloatArray) -> list[tuple[int, Any]]:
        return self._decoded(x, None, w)

    def _decoded(self, x: Any, y: Any, w: FloatArray) -> list[tuple[int, Any]]:
        from cornerstep.structured.compiled.segments import best_segments

        nodes, segments = self._example(x)
        parts, (n, m) = self.split(w), (nodes.shape[0], self.labels_.size)
        begins = nodes @ parts["nodes"]
        inside = begins.copy()
        if y is not None:
            unit = 1.0 / n if self.normalize else 1.0
            code, first = self._by_node(y, n).T
            own = code[:, None] == np.arange(m)
            begins += unit * ~(own & (first == 1)[:, None])
            inside += unit * ~(own & (first == 0)[:, None])
        best, out = np.empty((n + 1, m)), np.empty((n, 2), np.int64)
        before, lengths = np.empty((2, n + 1, m), np.int64)
        count = best_segments(
            begins, inside, segments @ parts["segments"], parts["transitions"], best, before,
            lengths, out,
        )  # fmt: skip
        labels = self.labels_[out[:count, 1]].tolist()
        return list(zip(out[:count, 0].tolist(), labels, strict=True))[::-1]

    def labelings(self, x: Any) -> Iterable[Any] | None:
        n, m = self._example(x).nodes.shape[0], self.labels_.size
        counts = [1]
        for e in range(1, n + 1):
            counts.append(m * sum(counts[max(0, e - self.max_length_) : e]))
        return None if counts[n] > _ENUMERABLE else self._all(n)

    def _all(self, n: int) -> Iterator[list[tuple[int, Any]]]:
        if n == 0:
            yield []
        for length in range(1, min(n, self.max_length_) + 1):
            for rest in self._all(n - length):
                for label in self.labels_.tolist():
                    yield [(length, label), *rest]


def _pairs(y: Any, name: str) -> list[tuple[int, Any]]:
    """Lengths and labels of segments."""
    try:
        pairs = [(int(length), label) for length, label in y]
    except (TypeError, ValueError):
        pairs = []
    if not pairs:
        raise ValueError(f"{name} must be a list of pairs (length, label), got {shortened(y)}")
    return pairs
