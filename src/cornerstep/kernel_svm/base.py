"""What the estimators of the package have in common: a kernel, its columns, and scores by it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from joblib import hash as digest
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cornerstep.core.rounding import EPSILON
from cornerstep.core.threads import allowed_threads
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.arrays import numpy_of
from cornerstep.kernel_svm.machines import Rows
from cornerstep.kernel_svm.pairs import KernelParameters, kernel_shift
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.training import Settings, Training, train
from cornerstep.learning.callbacks import Watchable, iteration_callback
from cornerstep.learning.estimator import CertifiedEstimator, SupportExamples
from cornerstep.learning.kernel_blocks import centre, centred, row_norms
from cornerstep.learning.kernel_device import device_of
from cornerstep.learning.kernel_functions import Kernel, gamma_value
from cornerstep.learning.kernel_onnx import IN_GRAPHS, KernelGraph
from cornerstep.optimiser.loop import Callback, Stopping

_SCORED = 2**22  # kernel values held at a time in prediction
_COARSE = 1e-9  # of the weights of a linear machine: rounding above which they are formed with care


class KernelMachine(Watchable, CertifiedEstimator):
    """An estimator whose scores are sums of kernel values over its support vectors."""

    kernel: Any
    gamma: str | float
    degree: int
    coef0: float
    max_iter: int
    time_limit: float | None
    cache_size: float
    n_jobs: int | None
    random_state: Any
    callback: Callback | None
    verbose: int
    warm_start: bool
    solver: str = "auto"
    _state: tuple[Any, ...] | None = None  # of the last fit, for a warm start
    _sums_to_zero: ClassVar[bool] = True  # the coefficients: an offset of all rows is idle

    support_: Any
    support_vectors_: Any
    dual_coef_: Any
    n_kernel_evaluations_: int
    kernel_shift_: float
    _kernel_fit: Any
    _shape_fit: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def model_size(self) -> tuple[str, int]:
        return "support vectors", int(self.support_.size)

    def strongest(self) -> SupportExamples:
        return SupportExamples(np.abs(self.dual_coef_).max(axis=0), self.support_)

    def onnx_parts(self) -> tuple[list[Any], list[Any]]:
        kernel = getattr(self, "_kernel_fit", None)
        if kernel is None or kernel[0] not in IN_GRAPHS:
            return super().onnx_parts()
        machines, constants = self._sums()
        return self._onnx_answer(
            KernelGraph(Kernel(*kernel), self.support_vectors_, machines.T, constants)
        )

    def _sums(self) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the support vectors, a row per machine, and what is added to the sums."""
        raise NotImplementedError

    def _onnx_answer(self, graph: KernelGraph) -> tuple[list[Any], list[Any]]:
        """The graph from the sums of the machines to ``scores``."""
        return graph.answer("sums")

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        """X (and y) for training: a square matrix where the kernel is precomputed."""
        given = validate_data(
            self, X, *y, accept_sparse=False if self.kernel == "precomputed" else "csr",
            dtype=[np.float64, np.float32], order="C", **options,
        )  # fmt: skip
        rows = given[0] if y else given
        if self.kernel == "precomputed" and rows.shape[0] != rows.shape[1]:
            raise ValueError(f"X must be a square kernel matrix, got shape {rows.shape}")
        return given

    def _set_kernel(self, X: Any) -> int:
        """Take the kernel of the rows, for attributes; entries of it that had to be computed."""
        plain = callable(self.kernel) or self.kernel in ("linear", "precomputed")
        gamma = 1.0 if plain else gamma_value(self.gamma, X)
        self._kernel_fit = KernelParameters(self.kernel, gamma, self.degree, self.coef0)
        self.kernel_shift_, entries = kernel_shift(self._kernel_fit, X)
        return entries

    def _keep_support(self, X: Any, support: IntArray, coefficients: FloatArray) -> None:
        """Take the support vectors and what belongs to each, a column, for attributes."""
        self.support_ = support.astype(np.int32)
        precomputed = self.kernel == "precomputed"
        self.support_vectors_ = np.empty((0, 0)) if precomputed else X[self.support_]
        self._shape_fit = X.shape
        # in the order of files: products round by it
        self.dual_coef_ = np.ascontiguousarray(coefficients)

    def _settings(self) -> Settings:
        """How to train a machine."""
        max_iter = sys.maxsize if self.max_iter == -1 else int(self.max_iter)
        stopping = Stopping(float(self.atol), float(self.tol), max_iter, self.time_limit)
        return Settings(
            solver=self.solver, stopping=stopping, rng=np.random.default_rng(self._seeds(1)[0]),
            callback=iteration_callback(self), verbose=self.verbose,
            title=f"{type(self).__name__}, {self.solver}",
        )  # fmt: skip

    def _seeds(self, machines: int) -> IntArray:
        """Where the random numbers of each machine begin."""
        rng = check_random_state(self.random_state)
        return np.asarray(rng.randint(np.iinfo(np.int32).max, size=machines))

    def _products(self, X: Any, machines: FloatArray) -> FloatArray:
        """``sum_i machines_ki k(x_i, x)`` of each row x of X, one column per machine.

        By the kernel that the model was trained with.
        """
        check_is_fitted(self)
        if self._kernel_fit[0] != "linear" or self.support_.size == 0:
            return self._by_blocks(X, lambda values: values @ machines.T, machines.shape[0])
        X = self._rows_to_score(X)  # without the offset that all rows share, as in training
        middle = centre(self.support_vectors_) if self._sums_to_zero else np.zeros(X.shape[1])
        weights = self._weights(machines, middle)
        return np.asarray(centred(X, middle) @ weights) + middle @ weights

    def _by_blocks(
        self, X: Any, sums: Callable[[FloatArray], FloatArray], columns: int
    ) -> FloatArray:
        """Sums of kernel values with the support vectors, from blocks of rows."""
        kernel = KernelParameters(*self._kernel_fit)
        device = None if sp.issparse(self.support_vectors_) else device_of(X)
        X = self._rows_to_score(X)
        if self.support_.size == 0:
            return np.zeros((X.shape[0], columns))
        if kernel.name == "precomputed":
            return np.asarray(sums(X[:, self.support_]))
        step = max(1, _SCORED // self.support_.size)
        blocks = [X[start : start + step] for start in range(0, X.shape[0], step)]
        values = Kernel(*kernel, device)
        return np.concatenate([sums(values(rows, self.support_vectors_)) for rows in blocks])

    def _rows_to_score(self, X: Any) -> Any:
        (X,) = numpy_of(X)
        return validate_data(
            self, X, accept_sparse=False if self._kernel_fit[0] == "precomputed" else "csr",
            dtype=[np.float64, np.float32], reset=False,
        )  # fmt: skip

    def _weights(self, machines: FloatArray, middle: FloatArray) -> FloatArray:
        """``sum_i machines_ki (x_i - middle)`` of a linear kernel, one column per machine.

        Of machines of which rounding would leave too little, without the offset of their own rows.
        """
        vectors = centred(self.support_vectors_, middle)
        weights = np.asarray(vectors.T @ machines.T)
        off = EPSILON * (np.abs(machines) @ row_norms(vectors))
        coarse = off > _COARSE * np.linalg.norm(weights, axis=0)
        for k in np.flatnonzero(coarse & self._sums_to_zero):
            used = np.flatnonzero(machines[k])
            rows = self.support_vectors_[used]
            weights[:, k] = centred(rows, centre(rows)).T @ machines[k, used]
        return weights


class SingleMachine(KernelMachine):
    """An estimator with one machine, of examples without classes."""

    def _rows(self, X: Any, sample_weight: Any, device: Any) -> Rows:
        """What the machine is posed on; the kernel is taken, and what its check has computed."""
        weights = single_weights(X, sample_weight)
        self.n_kernel_evaluations_ = self._set_kernel(X)
        return Rows(
            X, np.flatnonzero(weights > 0), weights, self._kernel_fit, int(self.cache_size * 1e6),
            allowed_threads(), self.kernel_shift_, device,
        )  # fmt: skip

    def _trained(self, problem: ReducedHullProblem, rows: Rows) -> Training:
        """The machine; from the coefficients of the last fit, if that was on these rows."""
        signature = digest(rows.weights > 0)
        kept = self._state if self.warm_start else None
        start = kept[1] if kept is not None and kept[0] == signature else None
        training = train(problem, replace(self._settings(), start=start))
        self._state = signature, training.beta
        return training

    def _read_off(self, rows: Rows, coefficients: FloatArray, training: Training) -> IntArray:
        """Attributes of the solution; which of the examples are support vectors."""
        used = np.flatnonzero(coefficients)
        self._keep_support(rows.X, rows.examples[used], coefficients[used][None])
        self.n_kernel_evaluations_ += training.evaluations
        self.record([training.proof])
        return used

    def _sum(self, X: Any) -> FloatArray:
        """``sum_i c_i k(x_i, x)`` of each row x."""
        return self._products(X, getattr(self, "dual_coef_", np.empty((1, 0)))).ravel()


def single_weights(X: Any, sample_weight: Any) -> FloatArray:
    """Weights of the examples of a machine without classes; one of them is positive."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight must be positive for some example, but is 0 for all")
    return np.asarray(weights)
