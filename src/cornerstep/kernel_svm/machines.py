"""The problems of estimators with a single machine: training and verification pose the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.pairs import KernelParameters, columns_of
from cornerstep.kernel_svm.problem import ReducedHullProblem


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
        As in :func:`cornerstep.kernel_svm.pairs.pose`.
    nu : float
    """
    caps = weights[examples]
    rows = X[np.ix_(examples, examples)] if kernel.name == "precomputed" else X[examples]
    columns = columns_of(rows, kernel, limit, threads, shift)
    return ReducedHullProblem(columns, np.ones(caps.size), caps, K=nu * float(caps.sum()))
