"""The machines of a :class:`~cornerstep.ReducedHullSVC`: one for each pair of classes.

Training and verification pose the same problem of a pair: its examples, kernel, caps, and K or C.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.columns import KernelColumns
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.learning.kernel_blocks import (
    CallableKernel,
    InnerProductKernel,
    Kernel,
    PrecomputedKernel,
    centre,
    centred,
)
from cornerstep.learning.kernel_functions import Kernel as KernelFunction

_EXAMINED = 1000  # examples whose kernel matrix is factorised: a fraction of a second


class KernelParameters(NamedTuple):
    """The kernel that a model is trained with; gamma is a number."""

    name: Any
    gamma: float
    degree: int
    coef0: float


class Pair(NamedTuple):
    """A machine of two classes: its examples, positives first, and its problem.

    ``middle`` is what was taken off the rows of a linear kernel, None for others: as the
    coefficients sum to 0, ``sum b_i <x_i, x> = <w, x>`` with ``w = sum b_i (x_i - middle)``.
    """

    first: int
    second: int
    examples: IntArray
    problem: ReducedHullProblem
    middle: FloatArray | None


def pairs_of(classes: int) -> list[tuple[int, int]]:
    """The positive and the negative class of each machine.

    Of two classes the larger one is positive, of several the first of each pair.
    """
    if classes == 2:
        return [(1, 0)]
    return list(combinations(range(classes), 2))


def sizes_given(nu: float | None, K: float | None, C: float | None) -> dict[str, float | None]:
    """nu, K and C by name, ``C = 1`` if none of the three is given."""
    given = {"nu": nu, "K": K, "C": C}
    none = all(value is None for value in given.values())
    return given | {"C": 1.0} if none else given


def kernel_shift(kernel: KernelParameters, X: Any) -> tuple[float, int]:
    """What is added to the diagonal of the matrix of X, and how many entries that has taken.

    Kernels that no theorem makes positive semidefinite are tried on up to ``_EXAMINED`` examples
    (the sigmoid one on all, for what its diagonal lacks); an error says which are refused.
    """
    values = KernelFunction(*kernel)
    if values.is_positive:
        return 0.0, 0
    if kernel.name != "sigmoid" and X.shape[0] > _EXAMINED:
        some = np.linspace(0, X.shape[0] - 1, _EXAMINED).astype(np.intp)
        X = X[np.ix_(some, some)] if kernel.name == "precomputed" else X[some]
    shift = values.training_matrix(X)[1]
    return shift, 0 if kernel.name == "precomputed" else X.shape[0] ** 2


def pose(
    X: Any,
    labels: IntArray,
    weights: FloatArray,
    classes: tuple[int, int],
    kernel: KernelParameters,
    size: dict[str, float | None],
    limit: int,
    threads: int | None = None,
    shift: float = 0.0,
) -> Pair:
    """The problem of two classes.

    Parameters
    ----------
    X, labels, weights
        All examples; those of weight 0 are left out.
    classes : pair of int
        The positive and the negative one.
    kernel : KernelParameters
    size : dict
        nu, K and C, two of them None.
    limit : int
        Bytes that kept columns may take.
    threads : int, optional
        That share large blocks of the kernel matrix; None for as many as BLAS may use.
    shift : float
        What the diagonal of the kernel matrix lacks to be positive semidefinite.
    """
    first, second = classes
    positive, negative = (np.flatnonzero((labels == c) & (weights > 0)) for c in classes)
    examples = np.concatenate([positive, negative])
    signs = np.repeat([1.0, -1.0], [positive.size, negative.size])
    caps = weights[examples]
    K, nu = size["K"], size["nu"]
    if nu is not None:
        K = nu * float(caps.sum()) / 2
    if K is not None:
        K = min(float(K), *(float(caps[signs == sign].sum()) for sign in (1, -1)))
    rows, middle = without_offset(X, examples, kernel)
    columns = columns_of(rows, kernel, limit, threads, shift)
    problem = ReducedHullProblem(columns, signs, caps, K=K, C=size["C"])
    return Pair(first, second, examples, problem, middle)


def without_offset(
    X: Any, examples: IntArray, kernel: KernelParameters
) -> tuple[Any, FloatArray | None]:
    """Rows of the examples, for a linear kernel without an offset that they share, and the offset.

    For machines whose coefficients sum to 0, where it is idle.
    """
    if kernel.name == "precomputed":
        return X[np.ix_(examples, examples)], None
    rows = X[examples]
    if kernel.name != "linear":
        return rows, None
    middle = centre(rows)
    return centred(rows, middle), middle


def columns_of(
    rows: Any, kernel: KernelParameters, limit: int, threads: int | None, shift: float
) -> KernelColumns:
    """Columns of the kernel matrix of some rows; the other parameters are those of ``pose``."""
    values: Kernel
    if kernel.name == "precomputed":
        values = PrecomputedKernel(rows)
    elif callable(kernel.name):
        values = CallableKernel(rows, kernel.name)
    else:
        values = InnerProductKernel(rows, *kernel)
        if threads is not None:
            values.threads = threads
        if shift:
            values = values.shifted(shift)
    return KernelColumns(values, limit)


def one_against_one(machines: FloatArray, labels: IntArray, classes: int) -> FloatArray:
    """``dual_coef_`` of :class:`sklearn.svm.SVC` from the coefficients of the machines.

    Row ``other`` (counted without its own class) for the support vectors of each class.
    """
    if classes == 2:
        return machines.copy()
    out = np.zeros((classes - 1, labels.size))
    for machine, (first, second) in zip(machines, pairs_of(classes), strict=True):
        of_first, of_second = labels == first, labels == second
        out[second - 1, of_first] = machine[of_first]
        out[first, of_second] = machine[of_second]
    return out
