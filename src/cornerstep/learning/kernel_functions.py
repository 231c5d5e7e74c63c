"""Kernels of machines that are trained on a kernel matrix."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, eigvalsh

from cornerstep.core.types import FloatArray
from cornerstep.learning import kernel_blocks
from cornerstep.learning.kernel_blocks import (
    CallableKernel,
    InnerProductKernel,
    PrecomputedKernel,
    kernel_matrix,
)
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.learning.kernel_device import DeviceKernel
from cornerstep.learning.specs import Fields, Float, Number, Sizes, Word, require

KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")


@dataclass
class Kernel:
    """``k(x, x')`` with the parameters of :class:`sklearn.svm.SVC`.

    Parameters
    ----------
    name : str or callable
        One of ``KERNELS`` or a function of two sets of examples.
    gamma : float
    degree : int
    coef0 : float
    device : torch.device, optional
        That computes kernels known by their names, of dense rows.
    """

    name: str | Callable[[Any, Any], Any]
    gamma: float
    degree: int
    coef0: float
    device: Any = None

    def __call__(self, X: Any, Y: Any) -> FloatArray:
        """The matrix of all ``k(x, y)``; X itself if it is precomputed."""
        if self.name == "precomputed":
            return np.asarray(X)
        if callable(self.name):
            return np.asarray(self.name(X, Y))
        numbers = self.name, self.gamma, self.degree, self.coef0
        if self.device is None or X is Y:
            return kernel_matrix(X, Y, *numbers)
        kernel = DeviceKernel(np.vstack([X, Y]), *numbers, device=self.device)
        n = X.shape[0]
        return kernel.block(np.arange(n), np.arange(n, kernel.n))

    def blocks(self, X: Any) -> kernel_blocks.Kernel:
        """The matrix of the rows of X, by blocks."""
        if self.name == "precomputed":
            return PrecomputedKernel(X)
        if callable(self.name):
            return CallableKernel(X, self.name)
        return InnerProductKernel(X, self.name, self.gamma, self.degree, self.coef0)

    def columns(self, X: Any, constant: float, limit: int) -> tuple[KernelColumns, float]:
        """The columns of the matrix of the training examples, with ``constant >= 0`` added.

        Comes with what was added to its diagonal besides.  Where nothing says that the kernel is
        positive semidefinite the whole matrix is computed to find out.

        Parameters
        ----------
        X : examples
        constant : float
        limit : int
            Bytes that columns of a kernel that is positive semidefinite may take: in float32, if it
            is too little for all in float64.
        """
        if self.name == "precomputed" or callable(self.name):
            matrix, shift = self.training_matrix(X)
            if callable(self.name):
                kernel: Any = CallableKernel(X, self.name, float(np.abs(matrix).max(initial=0.0)))
            else:
                kernel = PrecomputedKernel(matrix)
            return KernelColumns(kernel, 0, matrix + constant), shift
        values = self.inner_products(X)
        if not self.is_positive:
            matrix, shift = self.training_matrix(X)
            return KernelColumns(
                values.shifted(shift).raised(constant), 0, matrix + constant
            ), shift
        kind = np.float64 if 8 * values.n**2 <= limit else np.float32
        return KernelColumns(values.raised(constant), limit, dtype=kind), 0.0

    def inner_products(self, X: Any) -> InnerProductKernel:
        """The matrix of the rows of X for a kernel that is known by its name."""
        values = InnerProductKernel(X, str(self.name), self.gamma, self.degree, self.coef0)
        with np.errstate(over="ignore"):
            if not np.isfinite(values.sizes**2).all():
                raise self._not_finite()
        return values

    def _not_finite(self) -> ValueError:
        return ValueError(
            f"kernel={self.name!r} must give finite numbers, got NaN or infinity: scale X, or "
            "take other parameters of the kernel"
        )

    def training_matrix(self, X: Any) -> tuple[FloatArray, float]:
        """The matrix of the training examples, and what was added to its diagonal.

        It must be symmetric and positive semidefinite.  What no theorem says of the kernel is found
        out, to the rounding of the matrix.  The sigmoid kernel hardly ever is: it gets what it
        lacks, so that an example is a little more like itself than the kernel says.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = self(X, X)
        n = X.shape[0]
        if matrix.shape != (n, n) or matrix.dtype.kind not in "iuf":
            raise ValueError(
                f"kernel={self.name!r} must give a matrix of numbers of shape {(n, n)} for {n} "
                f"examples, got shape {matrix.shape} of {matrix.dtype}"
            )
        if not np.isfinite(matrix).all():
            raise self._not_finite()
        size = float(np.abs(matrix).max()) or 1.0
        precision = float(np.finfo(np.result_type(matrix.dtype, np.float32)).eps)
        away = float(np.abs(matrix - matrix.T).max())
        if away > np.sqrt(precision) * size:
            raise ValueError(
                f"kernel={self.name!r} must be symmetric, got a matrix that differs from its "
                f"transpose by up to {away:.3g}"
            )
        matrix = 0.5 * (matrix.astype(np.float64) + matrix.T)
        try:
            shift = 4 * n * precision * size * np.eye(n)
            cholesky(matrix + shift, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            least = float(eigvalsh(matrix, subset_by_index=[0, 0])[0])
            if self.name == "sigmoid":
                lack = -least + 4 * n * precision * size
                warnings.warn(
                    "kernel='sigmoid' is not positive semidefinite on the training examples: "
                    f"{lack:.3g} is added to the diagonal of its matrix (kernel_shift_)",
                    stacklevel=_outside(),
                )
                return matrix + lack * np.eye(n), lack
            raise ValueError(
                f"kernel={self.name!r} must be positive semidefinite on the training examples, got "
                f"a smallest eigenvalue of {least:.3g}: it may be 'rbf', 'poly' with coef0 >= 0, "
                f"one with other parameters, or have {-least:.3g} added to its diagonal"
            ) from None
        return matrix, 0.0

    @property
    def is_positive(self) -> bool:
        """Whether the kernel is positive semidefinite whatever the examples are."""
        if self.name == "poly":
            return isinstance(self.degree, Integral) and self.degree >= 0 and self.coef0 >= 0
        return self.name in ("rbf", "linear")


def _outside() -> int:
    """The level of the caller who is not this library: whom a warning is for."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("cornerstep."):
        level, frame = level + 1, frame.f_back
    return level


def gamma_value(gamma: Any, X: Any) -> float:
    """``gamma``, or what 'scale' (``1/(d var X)``) and 'auto' (``1/d``) stand for."""
    if isinstance(gamma, str) and gamma == "scale":
        variance = _variance(X)
        with np.errstate(over="ignore", divide="ignore"):
            value = float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0
        if not 0 < value < np.inf:
            raise ValueError(
                f"gamma='scale' needs an X whose variance is a float64, got values up to "
                f"{np.abs(X).max():.3g}: scale X, or give gamma a number"
            )
        return value
    if isinstance(gamma, str) and gamma == "auto":
        return 1.0 / X.shape[1]
    if not (isinstance(gamma, Real) and 0 <= float(gamma) < np.inf):
        raise ValueError(f"gamma must be 'scale', 'auto' or a number >= 0, got {gamma!r}")
    return float(gamma)


def _variance(X: Any) -> float:
    """Of all entries, about their mean; infinite or subnormal where float64 ends."""
    values = X.data if sp.issparse(X) else X
    count = X.shape[0] * X.shape[1]
    zeros = count - values.size  # that a sparse matrix does not store
    lowest, highest = (
        values.min(initial=0.0 if zeros else np.inf),
        values.max(initial=0.0 if zeros else -np.inf),
    )
    if lowest == highest:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        mean = values.sum(dtype=np.float64) / count
        squares = ((values - mean) ** 2).sum(dtype=np.float64) + zeros * mean**2
    if not np.isfinite(squares):
        return float(np.inf)
    return max(float(squares / count), float(np.finfo(np.float64).smallest_subnormal))


#: What a model file holds of a kernel: name, gamma, degree, coef0.
KERNEL = Fields(Word(*KERNELS), Float(0), Number(0), Number())


def derive_sizes(estimator: Any, name: str, sizes: Sizes) -> None:
    """What an attribute of a kernel machine in a model file says of others."""
    value = getattr(estimator, name)
    precomputed = hasattr(estimator, "_kernel_fit") and estimator._kernel_fit[0] == "precomputed"
    if name == "n_features_in_" and precomputed:
        sizes["n"] = sizes["d"]
    elif name == "_shape_fit":
        require(value[1] == sizes["d"], f"{name}[1]", f"{sizes['d']}, as n_features_in_", value[1])
        sizes["n"] = value[0]
    elif name == "support_":
        sizes.update({"v": 0, "c": 0} if precomputed else {"v": sizes["s"], "c": sizes["d"]})
    elif name == "_support_rows":
        must = "None" if precomputed else "the support vectors"
        require((value is None) == precomputed, name, must, value)
