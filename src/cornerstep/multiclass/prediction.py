"""What a trained multi-class machine says of new examples: scores, classes, the best k of them."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from cornerstep.core.optional import optional_import
from cornerstep.core.types import FloatArray
from cornerstep.data.arrays import (
    as_kind_of,
    device_errors,
    is_other_library,
    on_host,
    require_whole,
    to_numpy,
)
from cornerstep.data.rows import Rows, as_rows, is_dask, labels_of
from cornerstep.learning.kernel_functions import Kernel
from cornerstep.multiclass.entropic import is_softmax


def joint_features(feature_map: Any, X: Any, n_classes: int, size: int | None = None) -> Any:
    """The rows ``psi(x_i, j)``, by example, then class, as a map has them, checked; in float64.

    There must be ``size`` features, if that is known.
    """
    psi = feature_map(X)
    n = X.shape[0]
    psi = sp.csr_array(psi) if sp.issparse(psi) else np.asarray(psi)
    shape = (n * n_classes, size) if sp.issparse(psi) else (n, n_classes, size)
    fits = len(psi.shape) == len(shape) and psi.shape[-1] > 0
    fits = fits and all(want in (None, got) for want, got in zip(shape, psi.shape, strict=True))
    if not fits or psi.dtype.kind not in "biuf":
        raise ValueError(
            f"feature_map must return numbers of shape ({n}, {n_classes}, {size or 'D'}), or a "
            f"sparse matrix of shape ({n * n_classes}, {size or 'D'}), for {n} examples and "
            f"{n_classes} classes, got shape {psi.shape} of {psi.dtype}"
        )
    psi = psi.astype(np.float64, copy=False)
    if not np.isfinite(psi.data if sp.issparse(psi) else psi).all():
        raise ValueError("feature_map must return finite numbers, got NaN or infinity")
    return psi if sp.issparse(psi) else psi.reshape(n * n_classes, -1)


def _has_probabilities(machine: Any) -> bool:
    """Whether a machine has probabilities, or say that it has not."""
    if is_softmax(machine.loss) or machine.probability:
        return True
    raise AttributeError(
        f"predict_proba needs loss='softmax' or probability=True, got loss={machine.loss!r}"
    )


class MulticlassScores:
    """``s(x) = W x + b``, ``sum_i a_i k(x_i, x) + b`` or ``w'psi(x, .)``, wherever x are."""

    loss: Any
    smoothing_: float
    probability: bool
    temperature_: float
    kernel: Any
    degree: int
    coef0: float
    fit_intercept: bool
    intercept_scaling: float
    classes_: Any
    coef_: Any
    intercept_: Any
    support_: Any
    n_features_in_: int
    _kernel_fit: tuple[Any, float, int, float]
    _constant_fit: float
    _machine: Any
    _support_rows: Any
    _feature_map: Any

    @property
    def _is_linear(self) -> bool:
        """Whether the machine is one of weights: parameters may have changed since the fit."""
        return hasattr(self, "coef_")

    def _accepts(self, kernel: Any) -> str | bool:
        """What scikit-learn's validation is told of sparse matrices."""
        return False if kernel == "precomputed" else "csr"

    def _constant(self) -> float:
        return self.intercept_scaling**2 if self.fit_intercept else 0.0

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        require_whole(X)
        if is_other_library(X):
            if self._is_linear and not hasattr(self, "_feature_map") and not on_host(X):
                return X  # checked with the scores
            from cornerstep.multiclass.arrays.posing import dense

            X = to_numpy(dense(X))
        return validate_data(
            self,
            X,
            accept_sparse=self._accepts("linear" if self._is_linear else self._kernel_fit[0]),
            dtype=[np.float64, np.float32],
            reset=False,
        )

    def _read(self, rows: Rows) -> Iterator[Any]:
        """The blocks of rows on disk, if they have the features of the model."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if (
            rows.feature_names is not None
            and names is not None
            and list(names) != list(rows.feature_names)
        ):
            raise ValueError("X must have the features of fit in the same order")
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but MulticlassSVC is expecting "
                f"{self.n_features_in_} features as input"
            )
        return rows.blocks()

    def _scores(self, X: Any) -> FloatArray:
        """One column per class (one in all for two classes)."""
        if is_other_library(X):
            from cornerstep.multiclass.arrays.posing import scores as array_scores

            with device_errors(X):
                return array_scores(self, X)
        if hasattr(self, "_feature_map"):
            m = self.classes_.shape[0]
            psi = joint_features(self._feature_map, X, m, self.coef_.shape[1])
            scores = np.asarray(psi @ to_numpy(self.coef_)[0]).reshape(-1, m)
        elif self._is_linear:
            return np.asarray(X @ to_numpy(self.coef_).T) + to_numpy(self.intercept_)
        elif self.support_.size == 0:
            scores = np.zeros((X.shape[0], self.classes_.shape[0]))
        else:
            precomputed = self._support_rows is None
            kernel = Kernel(*self._kernel_fit)
            matrix = X[:, self.support_] if precomputed else kernel(X, self._support_rows)
            scores = np.asarray((self._machine.T @ (matrix + self._constant_fit).T).T)
        return scores[:, 1:] - scores[:, :1] if self.classes_.shape[0] == 2 else scores

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the classes, one column each; of the second against the first for two classes.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)

        Returns
        -------
        array of shape (n, m), or (n,) for two classes
        """
        if is_dask(X):
            from cornerstep.data.dask import by_blocks

            m = self.classes_.shape[0]
            return by_blocks(X, self.decision_function, np.float64, m * (m > 2))
        rows = as_rows(X)
        if rows is not None:
            scores = np.concatenate([self._scores(block) for block in self._read(rows)])
        else:
            scores = as_kind_of(self._scores(self._checked(X)), X)
        return scores[:, 0] if self.classes_.shape[0] == 2 else scores

    def to_torch(self) -> Any:
        """The machine as the last layer of a network: a ``torch.nn.Linear`` in float32.

        Its outputs are the scores, one per class, also for two classes: their softmax is
        ``predict_proba`` of ``loss='softmax'`` at a temperature of 1.

        Returns
        -------
        torch.nn.Linear
            Of d inputs and m outputs, on the CPU or where the model was trained.
        """
        check_is_fitted(self)
        if not self._is_linear or hasattr(self, "_feature_map"):
            raise TypeError("to_torch needs kernel='linear' and no feature_map: there is no W else")
        with optional_import():
            import torch

        W, b = (
            torch.as_tensor(part, dtype=torch.float32) for part in (self.coef_, self.intercept_)
        )
        if self.classes_.shape[0] == 2:
            W, b = torch.cat([-W, W]) / 2, torch.cat([-b, b]) / 2
        with torch.no_grad():
            head = torch.nn.Linear(W.shape[1], W.shape[0], device=W.device)
            head.weight.copy_(W)
            head.bias.copy_(b)
        return head

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class with the largest score.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        return self.predict_top_k(X, 1)[:, 0]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:
        """The logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)

        Returns
        -------
        array of shape (n, m)
        """
        if is_dask(X):
            from cornerstep.data.dask import by_blocks

            return by_blocks(X, self.predict_log_proba, np.float64, self.classes_.shape[0])
        scores = to_numpy(self.decision_function(X))
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        if is_softmax(self.loss):
            warmth = self.smoothing_
        elif hasattr(self, "temperature_"):
            warmth = self.temperature_
        else:
            raise AttributeError("predict_proba needs a fit with probability=True")
        return as_kind_of(log_softmax(scores / warmth, axis=1), X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """The probabilities of the classes, ``softmax(scores / T)``.

        Those of ``loss='softmax'`` are the model's own, what the loss is the negative
        log-likelihood of, with T = mu.  With ``probability=True`` other losses have them too, T
        fitted to held-out scores.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)

        Returns
        -------
        array of shape (n, m)
            In the order of ``classes_``.
        """
        logs = self.predict_log_proba(X)
        return np.exp(logs) if is_dask(X) else as_kind_of(np.exp(to_numpy(logs)), X)

    def predict_top_k(self, X: Any, k: int = 5) -> npt.NDArray[Any]:
        """The k classes with the largest scores, best first.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        k : int, default=5
            At most the number of classes.

        Returns
        -------
        array of shape (n, k)
        """
        check_is_fitted(self)
        if not (isinstance(k, Integral) and 1 <= k <= self.classes_.shape[0]):
            raise ValueError(f"k must be an integer from 1 to {self.classes_.shape[0]}, got {k!r}")
        if is_dask(X):
            from cornerstep.data.dask import by_blocks

            return by_blocks(X, lambda part: self._top(part, k), to_numpy(self.classes_).dtype, k)
        rows = as_rows(X)
        if rows is not None:
            return np.concatenate([self._top(block, k) for block in self._read(rows)])
        return as_kind_of(self._top(self._checked(X), k), X)

    def _top(self, X: Any, k: int) -> npt.NDArray[Any]:
        scores = self._scores(X)
        if is_other_library(scores):
            from cornerstep.multiclass.arrays.posing import labels_at, top_columns, with_first

            return labels_at(self, top_columns(with_first(self, scores), k))
        if self.classes_.shape[0] == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        classes = to_numpy(self.classes_)
        if k == 1:
            return classes[scores.argmax(axis=1)][:, None]
        return classes[np.argsort(-scores, axis=1, kind="stable")[:, :k]]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of examples whose label has the largest score.

        Parameters
        ----------
        X : array, CSR matrix or rows on disk of shape (n, d)
        y : array of shape (n,)
            May be left out where X has labels of its own.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        return self.top_k_score(X, y, 1, sample_weight)

    def top_k_score(self, X: Any, y: Any = None, k: int = 5, sample_weight: Any = None) -> float:
        """The share of examples whose label is among the k classes with the largest scores.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        y : array of shape (n,)
        k : int, default=5
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        best, y = self.predict_top_k(X, k), labels_of(X, y)
        if is_dask(X):
            from cornerstep.data.dask import computed

            best, y, sample_weight = computed(best, y, sample_weight)
        hits = (to_numpy(best) == to_numpy(y)[:, None]).any(axis=1)
        weights = None if sample_weight is None else to_numpy(sample_weight)
        return float(np.average(hits, weights=weights))
