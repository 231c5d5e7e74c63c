"""One linear program kept in HiGHS and re-solved warm:

``min c'x  s.t.  row_lower <= A x <= row_upper,  lower <= x <= upper``.

The tolerances of HiGHS are absolute.  It sees costs of size 1; rows, bounds and columns of size 1
are the caller's.  What its answer is worth is not its word: every y proves, with ``d = c - A'y``,

``c'x = y'Ax + d'x >= sum_i min(y_i row_lower_i, y_i row_upper_i) + sum_j min(d_j l_j, d_j u_j)``

for each feasible x inside [l, u], and :meth:`LinearProgram.bound` computes that from its y.

References
----------
.. [1] Q. Huangfu, J. A. J. Hall. Parallelizing the dual revised simplex method. Mathematical
   Programming Computation 10, 119-142, 2018.
.. [2] A. Neumaier, O. Shcherbina. Safe bounds in linear and mixed-integer linear programming.
   Mathematical Programming 99, 283-296, 2004.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.clock import OutOfTimeError, must_end
from cornerstep.core.rounding import sum_error
from cornerstep.core.types import FloatArray

_TOLERANCE = 1e-10  # the tightest that HiGHS takes
_DUAL, _PRIMAL = 1, 4  # HiGHS's numbers of the two simplex methods


class InfeasibleError(ValueError):
    """The program has no feasible point."""


class UnboundedError(ValueError):
    """The program has feasible points of unbounded value."""


class _Watch:
    """HiGHS asks it, every few pivots, whether to go on.

    Ctrl-C is handled meanwhile, by whoever does; what that raises is kept until HiGHS has returned,
    since no exception may pass through it.
    """

    def __init__(self) -> None:
        self.raised: BaseException | None = None

    def __call__(self, kind: Any, message: Any, out: Any, answer: Any, data: Any) -> None:
        answer.user_interrupt = self.raised is not None or must_end()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raise at the end what handlers of Ctrl-C raise within."""
        previous = signal.getsignal(signal.SIGINT)
        here = threading.current_thread() is threading.main_thread()
        if not (here and callable(previous)):
            yield
            return

        def handler(number: int, frame: Any) -> None:
            try:
                previous(number, frame)
            except BaseException as error:
                self.raised = error

        signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)
            raised, self.raised = self.raised, None
        if raised is not None:
            raise raised


class LinearProgram:
    """A program whose costs and bounds may change between solves; the basis is kept.

    A solve that takes long asks the clock, and ends with an :class:`OutOfTimeError`.

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

        columns = self._matrix = sp.csc_array(matrix)
        self._row_bounds = row_lower, row_upper
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
        self._watch = _Watch()
        self._highs.setCallback(self._watch, None)
        self._highs.startCallback(highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._interrupted = highspy.HighsModelStatus.kInterrupt
        self._infeasible = highspy.HighsModelStatus.kInfeasible
        self._columns = np.arange(columns.shape[1], dtype=np.int32)
        self._rows = np.arange(columns.shape[0], dtype=np.int32)

    def minimize(self, cost: FloatArray) -> FloatArray:
        """A vertex of least cost, or an error that says why there is none."""
        return np.array(self._solve(cost).col_value)

    def solve(self, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A vertex of least cost, and the dual price of each row."""
        solution = self._solve(cost)
        return np.array(solution.col_value), np.array(solution.row_dual) * _size(cost)

    def _solve(self, cost: FloatArray) -> Any:
        """HiGHS's solution for ``cost`` scaled to size 1."""
        highs = self._highs
        highs.changeColsCost(self._columns.size, self._columns, cost / _size(cost))
        status = self._run()
        for strategy in (_DUAL, _PRIMAL):
            if status == self._optimal:
                break
            highs.clearSolver()  # a stale basis may be the reason: once more from scratch
            highs.setOptionValue("simplex_strategy", strategy)
            try:
                status = self._run()
            finally:
                highs.setOptionValue("simplex_strategy", _DUAL)
        if status == self._infeasible:
            raise InfeasibleError("no point satisfies all constraints")
        if status != self._optimal:
            raise UnboundedError(f"the linear program has no optimum: {status.name[1:]}")
        return highs.getSolution()

    def _run(self) -> Any:
        """HiGHS's status after a run, which may be cut short."""
        if must_end():  # a run of no pivots would not ask
            raise OutOfTimeError
        with self._watch.kept():
            self._highs.run()
        status = self._highs.getModelStatus()
        if status == self._interrupted:
            raise OutOfTimeError
        return status

    def bound(self, cost: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
        """A number proven to be at most ``c'x`` for every feasible x with ``lower <= x <= upper``.

        The bounds must be finite; rounding errors of the computation are taken off.
        """
        size = _size(cost)
        cost = cost / size
        y = np.array(self._solve(cost).row_dual)
        row_lower, row_upper = self._row_bounds
        ends = np.where(y > 0, row_lower, row_upper)
        y[np.isinf(ends)] = 0.0  # a sign that the row does not allow
        rows = y * np.where(np.isinf(ends), 0.0, ends)
        terms = self._rows.size + 1
        reduced = cost - self._matrix.T @ y
        error = sum_error(np.abs(cost) + abs(self._matrix.T) @ np.abs(y), terms)
        columns = np.minimum(reduced * lower, reduced * upper)
        widths = np.maximum(np.abs(lower), np.abs(upper))
        sizes = np.abs(rows).sum() + (np.abs(reduced) * widths).sum()
        lost = 2 * float(error @ widths) + sum_error(float(sizes), terms + cost.size)
        return (float(rows.sum() + columns.sum()) - lost) * size

    def set_bounds(self, lower: FloatArray, upper: FloatArray) -> None:
        """Change the bounds of the variables."""
        self._highs.changeColsBounds(self._columns.size, self._columns, lower, upper)

    def set_row_bounds(self, lower: FloatArray, upper: FloatArray) -> None:
        """Change the bounds of the rows."""
        self._row_bounds = lower, upper
        for row, low, high in zip(self._rows, lower, upper, strict=True):
            self._highs.changeRowBounds(int(row), float(low), float(high))

    def add_column(self, rows: FloatArray) -> None:
        """One more variable >= 0 with these entries (``bound`` is not for this)."""
        used = rows.nonzero()[0].astype(np.int32)
        self._highs.addCol(0.0, 0.0, np.inf, used.size, used, rows[used])
        self._columns = np.arange(self._columns.size + 1, dtype=np.int32)

    def set_column(self, j: int, rows: FloatArray) -> None:
        """Replace the entries of column j (of the program in HiGHS: ``bound`` is not for this)."""
        for row, value in zip(self._rows, rows, strict=True):
            self._highs.changeCoeff(int(row), j, float(value))


def _size(cost: FloatArray) -> float:
    """The largest absolute value, or 1 if all are 0."""
    return float(np.abs(cost).max(initial=0.0)) or 1.0
