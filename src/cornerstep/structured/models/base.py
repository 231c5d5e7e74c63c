"""A structured model: ``score(x, y) = w'phi(x, y)``, a loss, and two decoders.

- ``joint_feature(x, y)``: phi(x, y);
- ``loss(x, y, y_hat)``: what answering y_hat costs when y is right; 0 for y itself;
- ``loss_augmented_decode(x, y, w)``: the y_hat of largest ``loss(x, y, y_hat) + w'phi(x, y_hat)``;
- ``decode(x, w)``: the y_hat of largest ``w'phi(x, y_hat)``.

Batch forms of the four default to loops; a model that can do better overrides them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector, Vector


class StructuredModel:
    """The base of all models, and of yours: override the four methods that raise here.

    Attributes
    ----------
    size : int
        The length of phi and w, known after :meth:`prepare`.
    workers : {'threads', 'processes'}
        What ``n_jobs`` of the estimator starts for the batch forms of this model.
    exact : bool
        Whether ``decode`` always finds the best labeling; ``debug=True`` then checks that it does.
    sequences : bool
        Whether a labeling is a sequence of labels out of ``labels_``.
    constrained : bool
        Whether :meth:`admissible` weights are not all; ``solver="extragradient"`` keeps to them.
    """

    size: int
    exact: bool = True
    sequences: bool = False
    constrained: bool = False
    workers: str = "processes"

    def prepare(self, X: Any, Y: Any) -> None:
        """Learn labels and sizes from the training data, and check it.

        The default takes the length of the first joint feature for ``size``.
        """
        self.size = as_vector(self.joint_feature(X[0], Y[0])).size

    def prepare_weighted(self, X: Any, Y: Any, weights: FloatArray) -> None:
        """The same where examples have weights; by default these do not matter to a model."""
        self.prepare(X, Y)

    def check(self, X: Any, Y: Any = None) -> None:
        """Check data before anything is decoded; raise a ValueError that names what is wrong."""

    def joint_feature(self, x: Any, y: Any) -> Any:
        """phi(x, y): an array of length ``size``, a SparseVector or a sparse matrix of one row."""
        raise NotImplementedError(f"{type(self).__name__} must define joint_feature(x, y)")

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        """The loss of answering y_hat where y is right."""
        raise NotImplementedError(f"{type(self).__name__} must define loss(x, y, y_hat)")

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> Any:
        """The labeling of largest ``loss(x, y, y_hat) + w'phi(x, y_hat)``."""
        raise NotImplementedError(
            f"{type(self).__name__} must define loss_augmented_decode(x, y, w)"
        )

    def decode(self, x: Any, w: FloatArray) -> Any:
        """The labeling of largest ``w'phi(x, y_hat)``."""
        raise NotImplementedError(f"{type(self).__name__} must define decode(x, w)")

    def joint_feature_batch(self, X: Sequence[Any], Y: Sequence[Any]) -> list[Any]:
        """Joint features of each pair."""
        return [self.joint_feature(x, y) for x, y in zip(X, Y, strict=True)]

    def loss_batch(self, X: Sequence[Any], Y: Sequence[Any], Y_hat: Sequence[Any]) -> FloatArray:
        """The loss of each triple."""
        return np.array(
            [self.loss(x, y, y_hat) for x, y, y_hat in zip(X, Y, Y_hat, strict=True)], dtype=float
        )

    def loss_augmented_decode_batch(
        self, X: Sequence[Any], Y: Sequence[Any], w: FloatArray
    ) -> list[Any]:
        """The loss-augmented answer for each pair."""
        return [self.loss_augmented_decode(x, y, w) for x, y in zip(X, Y, strict=True)]

    def decode_batch(self, X: Sequence[Any], w: FloatArray) -> list[Any]:
        """The answer for each x."""
        return [self.decode(x, w) for x in X]

    def admissible(self, w: FloatArray) -> FloatArray:
        """The nearest weights that the model allows, a closed convex cone; by default all are."""
        return w

    def complete(self) -> None:
        """Make what decoding needs beside the attributes that a model file holds."""

    def split(self, w: FloatArray) -> dict[str, FloatArray]:
        """The weights by the names of their parts, if they have any."""
        return {}

    def labelings(self, x: Any) -> Iterable[Any] | None:
        """All labelings of x, or None if there are too many: what :func:`check_model` tries."""
        return None

    def __repr__(self) -> str:
        names = inspect.signature(type(self)).parameters
        values = ", ".join(
            f"{name}={getattr(self, name)!r}" for name in names if hasattr(self, name)
        )
        return f"{type(self).__name__}({values})"


def as_vector(feature: Any) -> Vector:
    """A joint feature as an array or a SparseVector, whatever the model returned."""
    if isinstance(feature, SparseVector):
        return feature
    if sp.issparse(feature):
        row = sp.coo_array(feature.reshape((1, -1)))
        row.sum_duplicates()
        return SparseVector(row.coords[1], row.data, row.shape[1])
    return np.asarray(feature, dtype=np.float64).ravel()


def shortened(value: Any) -> str:
    """What a value looks like, on one line of an error."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def items(X: Any) -> list[Any]:
    """The examples of a list, an array or a sparse matrix, as a list."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        return [X[[i]] for i in range(X.shape[0])]
    return list(X)
