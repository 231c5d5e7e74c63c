"""The problems of estimators with a single machine: training and verification pose the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.pairs import KernelParameters, kernel_on, without_offset
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.tube import PairedColumns, TubeProblem
from cornerstep.learning.kernel_columns import KernelColumns


class Rows(NamedTuple):
    """What a single machine is posed on.

    Attributes
    ----------
    X, examples, weights
        All rows, which of them have weight, and the weights of all.
    kernel, limit, threads, shift, device
        As in :class:`cornerstep.kernel_svm.pairs.Pairs`.
    """

    X: Any
    examples: IntArray
    weights: FloatArray
    kernel: KernelParameters
    limit: int
    threads: int | None = None
    shift: float = 0.0
    device: Any = None

    @property
    def caps(self) -> FloatArray:
        """The weights of the examples."""
        return self.weights[self.examples]

    def columns(self, rows: Any) -> KernelColumns:
        """Kernel columns of the examples, whose ``rows`` may have lost an offset."""
        kernel = kernel_on(rows, self.kernel, self.threads, self.shift, self.device)
        return KernelColumns(kernel, self.limit)


def pose_one_class(given: Rows, nu: float) -> ReducedHullProblem:
    """One hull and no other: what its coefficients have to be nearest to is the origin."""
    X, examples, caps = given.X, given.examples, given.caps
    precomputed = given.kernel.name == "precomputed"
    columns = given.columns(X[np.ix_(examples, examples)] if precomputed else X[examples])
    return ReducedHullProblem(columns, np.ones(caps.size), caps, K=nu * float(caps.sum()))


class Regression(NamedTuple):
    """The problem of a regression, and what was taken off its rows and targets.

    ``middle`` is None where the kernel is not linear, else an offset of the rows, which is idle as
    ``a - s`` sums to 0; so is ``level``, the mean of the targets.
    """

    problem: TubeProblem
    middle: FloatArray | None
    level: float


def pose_regression(given: Rows, y: FloatArray, size: dict[str, float | None]) -> Regression:
    """The problem of :mod:`cornerstep.kernel_svm.tube`.

    Parameters
    ----------
    given : Rows
    y : array of shape (n,)
        The targets of all rows.
    size : dict
        C, and epsilon or nu; the other is None.
    """
    rows, middle = without_offset(given.X, given.examples, given.kernel)
    columns = PairedColumns(given.columns(rows))
    own, y = given.caps, y[given.examples]
    level = float(np.average(y, weights=own))
    targets, caps = y - level, (size["C"] or 0.0) * own
    nu, epsilon = size["nu"], size["epsilon"] or 0.0
    linear = np.concatenate([epsilon - targets, -epsilon - targets])
    K = None if nu is None else nu * float(caps.sum()) / 2
    signs = np.repeat([1.0, -1.0], caps.size)
    sizes = np.tile(epsilon + np.abs(targets), 2)  # on the edge of the tube they cancel
    problem = TubeProblem(columns, signs, np.tile(caps, 2), K=K, linear=linear, linear_sizes=sizes)
    return Regression(problem, middle, level)


def tube_given(C: float, epsilon: float | None, nu: float | None) -> dict[str, float | None]:
    """C, epsilon and nu by name, ``epsilon = 0.1`` if neither of the two is given."""
    width = 0.1 if epsilon is None and nu is None else epsilon
    return {"C": float(C), "epsilon": width, "nu": nu}
