"""The problems of estimators with a single machine: training and verification pose the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.columns import KernelColumns
from cornerstep.kernel_svm.pairs import KernelParameters, kernel_on, without_offset
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.tube import PairedColumns, TubeProblem


def pose_one_class(
    X: Any, examples: IntArray, weights: FloatArray, kernel: KernelParameters, nu: float,
    limit: int, threads: int | None = None, shift: float = 0.0,
) -> ReducedHullProblem:  # fmt: skip
    """One hull and no other: what its coefficients have to be nearest to is the origin.

    Parameters
    ----------
    X, examples, weights
        All rows, which of them have weight, and the weights of all.
    kernel, limit, threads, shift
        As in :class:`cornerstep.kernel_svm.pairs.Pairs`.
    nu : float
    """
    caps = weights[examples]
    rows = X[np.ix_(examples, examples)] if kernel.name == "precomputed" else X[examples]
    columns = KernelColumns(kernel_on(rows, kernel, threads, shift), limit)
    return ReducedHullProblem(columns, np.ones(caps.size), caps, K=nu * float(caps.sum()))


class Regression(NamedTuple):
    """The problem of a regression, and what was taken off its rows and targets.

    ``middle`` is None where the kernel is not linear, else an offset of the rows, which is idle as
    ``a - s`` sums to 0; so is ``level``, the mean of the targets.
    """

    problem: TubeProblem
    middle: FloatArray | None
    level: float


def pose_regression(
    X: Any, y: FloatArray, examples: IntArray, weights: FloatArray, kernel: KernelParameters,
    size: dict[str, float | None], limit: int, threads: int | None = None, shift: float = 0.0,
) -> Regression:  # fmt: skip
    """The problem of :mod:`cornerstep.kernel_svm.tube`.

    Parameters
    ----------
    X, y, examples, weights
        All rows and targets, which of them have weight, and the weights of all.
    kernel, limit, threads, shift
        As in :class:`cornerstep.kernel_svm.pairs.Pairs`.
    size : dict
        C, and epsilon or nu; the other is None.
    """
    rows, middle = without_offset(X, examples, kernel)
    columns = PairedColumns(KernelColumns(kernel_on(rows, kernel, threads, shift), limit))
    own = weights[examples]
    level = float(np.average(y[examples], weights=own))
    targets, caps = y[examples] - level, (size["C"] or 0.0) * own
    nu, epsilon = size["nu"], size["epsilon"] or 0.0
    linear = np.concatenate([epsilon - targets, -epsilon - targets])
    K = None if nu is None else nu * float(caps.sum()) / 2
    signs = np.repeat([1.0, -1.0], caps.size)
    problem = TubeProblem(columns, signs, np.tile(caps, 2), K=K, linear=linear)
    return Regression(problem, middle, level)


def tube_given(C: float, epsilon: float | None, nu: float | None) -> dict[str, float | None]:
    """C, epsilon and nu by name, ``epsilon = 0.1`` if neither of the two is given."""
    width = 0.1 if epsilon is None and nu is None else epsilon
    return {"C": float(C), "epsilon": width, "nu": nu}
