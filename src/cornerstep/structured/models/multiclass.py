"""Multi-class classification as a structured model: ``w'phi(x, y) = <W[:, y], x>``.

The same problem as :class:`cornerstep.MulticlassSVC` with its default loss: a chain of one node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector
from cornerstep.structured.compiled.records import Chains, Shape, no_walls
from cornerstep.structured.models.base import StructuredModel


class MulticlassModel(BaseEstimator, StructuredModel):
    r"""One label for each example, scored by :math:`\langle W_y, x \rangle`; zero-one loss.

    Examples are the rows of an array or CSR matrix, labelings the entries of a vector.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Add a constant feature ``intercept_scaling``; its weights are regularised like all others.
    intercept_scaling : float, default=1

    Attributes
    ----------
    labels_ : array of shape (m,)
    n_features_ : int
        As given, without the constant.
    size : int
    """

    workers = "threads"

    def __init__(self, fit_intercept: bool = True, intercept_scaling: float = 1.0) -> None:
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    def prepare(self, X: Any, Y: Any) -> None:
        Y = np.asarray(Y)
        check_classification_targets(Y)
        self.labels_ = np.unique(Y)
        if self.labels_.size < 2:
            raise ValueError(
                "Y must have at least two classes: the classifier can't train when only one class "
                f"is present, {self.labels_.tolist()[0]!r}"
            )
        self.n_features_ = _rows(X).shape[1]
        self.size = self.labels_.size * (self.n_features_ + bool(self.fit_intercept))

    def check(self, X: Any, Y: Any = None) -> None:
        self.encode_chains(X, Y)

    def encode_chains(self, X: Any, Y: Any = None) -> Chains:
        """The examples as chains of one node."""
        rows = sp.csr_array(_rows(X))
        n, d = rows.shape
        if d != self.n_features_:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting "
                f"{self.n_features_} features as input"
            )
        if self.fit_intercept:
            constant = np.full((n, 1), float(self.intercept_scaling))
            rows = sp.csr_array(sp.hstack([rows, constant], "csr"))
        labels = np.zeros(n, np.int16) if Y is None else self._codes(Y, n)
        return Chains(
            np.arange(n + 1, dtype=np.int64),
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32),
            rows.data.astype(np.float64),
            labels,
            np.ones(n),
            Shape(rows.shape[1], self.labels_.size, 0),
            np.ones(n),
            float(n),
            no_walls(self.labels_.size),
            np.ones((n, 2), bool),
        )

    def _codes(self, Y: Any, n: int) -> npt.NDArray[np.int16]:
        Y = np.asarray(Y)
        if Y.shape != (n,):
            raise ValueError(f"Y must have a label for each of the {n} examples, got {Y.shape}")
        codes = np.minimum(np.searchsorted(self.labels_, Y), self.labels_.size - 1)
        wrong = np.flatnonzero(self.labels_[codes] != Y)
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(
                f"Y[{i}] has the label {Y[i].item()!r}, which is not one of the model's "
                f"{self.labels_.size} labels"
            )
        return codes.astype(np.int16)

    def split(self, w: FloatArray) -> dict[str, FloatArray]:
        """The weights by name: 'coef' (m, d) and, if there is one, 'intercept' (m,)."""
        W = w.reshape(-1, self.labels_.size).T
        if not self.fit_intercept:
            return {"coef": W}
        return {"coef": W[:, :-1], "intercept": W[:, -1] * float(self.intercept_scaling)}

    def joint_feature(self, x: Any, y: Any) -> SparseVector:
        chain = self.encode_chains(_one(x), [y])
        indices = chain.indices.astype(np.int64) * self.labels_.size + int(chain.truth[0])
        return SparseVector(indices, chain.values, self.size)

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        return float(y != y_hat)

    def loss_batch(self, X: Any, Y: Any, Y_hat: Any) -> FloatArray:
        return (np.asarray(Y) != np.asarray(Y_hat)).astype(np.float64)

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> Any:
        return self.loss_augmented_decode_batch(_one(x), [y], w)[0]

    def decode(self, x: Any, w: FloatArray) -> Any:
        return self.decode_batch(_one(x), w)[0]

    def loss_augmented_decode_batch(self, X: Any, Y: Any, w: FloatArray) -> Any:
        return self._decoded(self.encode_chains(_rows(X), Y), w, True)

    def decode_batch(self, X: Any, w: FloatArray) -> Any:
        return self._decoded(self.encode_chains(X), w, False)

    def _decoded(self, chains: Chains, w: FloatArray, augment: bool) -> npt.NDArray[Any]:
        from cornerstep.structured.compiled.chain import decode

        labels = np.empty(chains.n, np.int16)
        decode(chains, w, 0, chains.n, augment, labels, np.empty(chains.n))
        return self.labels_[labels]

    def labelings(self, x: Any) -> Iterable[Any]:
        return iter(self.labels_)


def _one(x: Any) -> Any:
    """One example as a matrix of one row."""
    return x if sp.issparse(x) else np.asarray(x).reshape(1, -1)


def _rows(X: Any) -> Any:
    if isinstance(X, list) and X and sp.issparse(X[0]):
        X = sp.vstack(X, "csr")
    return check_array(X, accept_sparse="csr", dtype=np.float64, input_name="X")
