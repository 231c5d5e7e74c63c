"""Chains of second order: a chain's score, and ``sum_t S[y_t, y_t+1, y_t+2]``.

Decoding is Viterbi's algorithm on pairs of labels, compiled; it takes m times as long as that of a
chain of m labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector
from cornerstep.structured.models.base import StructuredModel
from cornerstep.structured.models.chain import ChainModel

_MOST_LABELS = 200  # weights grow with the cube


class SecondOrderChainModel(BaseEstimator, StructuredModel):
    r"""Labels in a row, with a weight for each three of them besides those of a chain.

    .. math:: \sum_t \langle W_{y_t}, x_t \rangle + T_{y_t, y_{t+1}} + S_{y_t, y_{t+1}, y_{t+2}}

    Examples, labelings and losses are those of :class:`ChainModel`.

    Parameters
    ----------
    biases : bool, default=False
        Whether the first and the last node have weights of their own for each label.
    normalize : bool, default=True
        Whether losses are shares of the chain.
    labels : sequence, optional
        All labels there are, at most 200; by default those of the training data.
    constraints : {'BIO', 'BIOES'} or list of pairs, optional
        What no labeling may have, as :class:`ChainModel` has it.

    Attributes
    ----------
    labels_ : array of shape (m,)
    n_features_ : int
    size : int
        That of a chain, and ``m³``.
    """

    workers = "threads"
    sequences = True

    def __init__(
        self,
        biases: bool = False,
        normalize: bool = True,
        labels: Sequence[Any] | None = None,
        constraints: Any = None,
    ) -> None:
        self.biases = biases
        self.normalize = normalize
        self.labels = labels
        self.constraints = constraints

    def prepare(self, X: Any, Y: Any) -> None:
        self._chain = ChainModel(True, self.biases, self.normalize, self.labels, self.constraints)
        self._chain.prepare(X, Y)
        self.labels_, self.n_features_ = self._chain.labels_, self._chain.n_features_
        m = self.labels_.size
        if m > _MOST_LABELS:
            raise ValueError(f"labels must be at most {_MOST_LABELS}, got {m}")
        self.size = self._chain.size + m**3

    def complete(self) -> None:
        self._chain = ChainModel(True, self.biases, self.normalize, None, self.constraints)
        self._chain.labels_, self._chain.n_features_ = self.labels_, self.n_features_
        self._chain.size = self.size - self.labels_.size**3
        self._chain.complete()

    def check(self, X: Any, Y: Any = None) -> None:
        self._chain.check(X, Y)

    def split(self, w: FloatArray) -> dict[str, FloatArray]:
        """The weights by name: those of a chain, and 'triples' (m, m, m)."""
        chain, triples = self._parts(w)
        return {**self._chain.split(chain), "triples": triples}

    def _parts(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        m, at = self.labels_.size, self._chain.size
        return w[:at], w[at:].reshape(m, m, m)

    def joint_feature(self, x: Any, y: Any) -> SparseVector:
        chain, m = self._chain.joint_feature(x, y), self.labels_.size
        codes = np.searchsorted(self.labels_, np.asarray(y))
        places = (codes[:-2] * m + codes[1:-1]) * m + codes[2:]
        where, counts = np.unique(places, return_counts=True)
        return SparseVector(
            np.concatenate([chain.indices, chain.size + where]),
            np.concatenate([chain.values, counts.astype(np.float64)]),
            self.size,
        )

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        return self._chain.loss(x, y, y_hat)

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> npt.NDArray[Any]:
        return self._decoded([x], [y], w)[0]

    def decode(self, x: Any, w: FloatArray) -> npt.NDArray[Any]:
        return self._decoded([x], None, w)[0]

    def loss_augmented_decode_batch(
        self, X: Sequence[Any], Y: Sequence[Any], w: FloatArray
    ) -> list[npt.NDArray[Any]]:
        return self._decoded(X, Y, w)

    def decode_batch(self, X: Sequence[Any], w: FloatArray) -> list[npt.NDArray[Any]]:
        return self._decoded(X, None, w)

    def _decoded(
        self, X: Sequence[Any], Y: Sequence[Any] | None, w: FloatArray
    ) -> list[npt.NDArray[Any]]:
        from cornerstep.structured.compiled.chain import links_in
        from cornerstep.structured.compiled.second_order import decode_triples

        chains, m = self._chain.encode_chains(X, Y), self.labels_.size
        own, triples = self._parts(w)
        links = links_in(chains.shape, own)
        if chains.walls.size:
            links = links + chains.walls[:m]
        size = int(np.diff(chains.ptr).max())
        work = np.empty((size, m)), *np.empty((2, m, m)), np.empty((size, m, m), np.int16)
        labels = np.empty(chains.ptr[-1], np.int16)
        decode_triples(
            chains, w, np.ascontiguousarray(links), triples, 0.0 if Y is None else 1.0, labels,
            *work,
        )  # fmt: skip
        return np.split(self.labels_[labels], chains.ptr[1:-1])

    def labelings(self, x: Any) -> Iterable[Any] | None:
        return self._chain.labelings(x)
