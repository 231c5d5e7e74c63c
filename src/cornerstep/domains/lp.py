"""One linear program kept in HiGHS and re-solved warm:

``min c'x  s.t.  row_lower <= A x <= row_upper,  lower <= x <= upper``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.vectors import FloatArray

_TOLERANCE = 1e-10  # the tightest that HiGHS takes


class InfeasibleError(ValueError):
    """The program has no feasible point."""


class UnboundedError(ValueError):
    """The program has feasible points of unbounded value."""


class LinearProgram:
    """A program whose costs and bounds may change between solves; the basis is kept.

    Parameters
    ----------
    matrix : sparse matrix of shape (m, n)
    row_lower, row_upper : arrays of shape (m,)
    lower, upper : arrays of shape (n,)
        Infinite entries mean no bound.
    """

    def __init__(
        self,
        matrix: Any,
        row_lower: FloatArray,
        row_upper: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
    ) -> None:
        import highspy

        columns = sp.csc_array(matrix)
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = columns.shape
        lp.col_cost_ = np.zeros(columns.shape[1])
        lp.col_lower_, lp.col_upper_ = lower, upper
        lp.row_lower_, lp.row_upper_ = row_lower, row_upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = columns.indptr
        lp.a_matrix_.index_ = columns.indices
        lp.a_matrix_.value_ = columns.data
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("presolve", "off"),  # presolve would throw the basis away
            ("solver", "simplex"),  # the answer must be a vertex
            ("threads", 1),
            ("primal_feasibility_tolerance", _TOLERANCE),
            ("dual_feasibility_tolerance", _TOLERANCE),
            ("small_matrix_value", 1e-12),  # the least it takes; smaller entries are dropped
        ):
            self._highs.setOptionValue(option, value)
        self._highs.passModel(lp)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._infeasible = highspy.HighsModelStatus.kInfeasible
        self._columns = np.arange(columns.shape[1], dtype=np.int32)
        self._rows = np.arange(columns.shape[0], dtype=np.int32)

    def minimize(self, cost: FloatArray) -> FloatArray:
        """A vertex of least cost, or an error that says why there is none."""
        highs = self._highs
        highs.changeColsCost(self._columns.size, self._columns, cost)
        highs.run()
        status = highs.getModelStatus()
        if status != self._optimal:
            highs.clearSolver()  # a stale basis may be the reason: once more from scratch
            highs.run()
            status = highs.getModelStatus()
        if status == self._infeasible:
            raise InfeasibleError("no point satisfies all constraints")
        if status != self._optimal:
            raise UnboundedError(f"the linear program has no optimum: {status.name[1:]}")
        return np.array(highs.getSolution().col_value)

    def set_bounds(self, lower: FloatArray, upper: FloatArray) -> None:
        """Change the bounds of the variables."""
        self._highs.changeColsBounds(self._columns.size, self._columns, lower, upper)

    def set_row_bounds(self, lower: FloatArray, upper: FloatArray) -> None:
        """Change the bounds of the rows."""
        for row, low, high in zip(self._rows, lower, upper, strict=True):
            self._highs.changeRowBounds(int(row), float(low), float(high))

    def set_column(self, j: int, rows: FloatArray) -> None:
        """Replace the entries of column j."""
        for row, value in zip(self._rows, rows, strict=True):
            self._highs.changeCoeff(int(row), j, float(value))
