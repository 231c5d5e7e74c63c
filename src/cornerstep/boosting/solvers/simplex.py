"""LPBoost's linear program by the simplex method of HiGHS: its dual solution is a vertex.

``min over d in P_nu and gamma of  gamma   s.t.  (A'd)_j <= gamma  for each hypothesis j``

The weights are the prices of the rows.  Hypotheses come as rows, and the basis is kept.  Nothing
rests on HiGHS's word: the weights are put on the simplex, and the soft margin is recomputed.

References
----------
.. [1] A. Demiriz, K. P. Bennett, J. Shawe-Taylor. Linear programming boosting via column
   generation. Machine Learning 46, 2002.
.. [2] Q. Huangfu, J. A. J. Hall. Parallelizing the dual revised simplex method. Mathematical
   Programming Computation 10, 119-142, 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.solution import MasterSolution, edges_of, image_of
from cornerstep.core.types import FloatArray

_TOLERANCE = 1e-10  # the tightest that HiGHS takes
# Entries of the matrix that simplex iterations go over, between two questions for the time.  Fewer
# end sooner, and factorise the basis more often.
_AT_ONCE = 1 << 28


class SimplexMaster:
    """The vertex solutions of the linear program, as hypotheses come; none may leave.

    Parameters
    ----------
    problem : SoftMargin
    expired : callable
        Asked on the way: whether the time is over.
    """

    def __init__(self, problem: SoftMargin, expired: Callable[[], bool]) -> None:
        import highspy

        self.problem, self.expired = problem, expired
        self._status = highspy.HighsModelStatus
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("presolve", "off"),  # presolve would throw the basis away
            ("solver", "simplex"),
            ("threads", 1),
            ("primal_feasibility_tolerance", _TOLERANCE),
            ("dual_feasibility_tolerance", _TOLERANCE),
        ):
            self._highs.setOptionValue(option, value)
        m, no = problem.size, np.empty(0)
        none = np.empty(0, np.int32)
        self._columns = np.arange(m + 1, dtype=np.int32)
        caps = np.minimum(problem.caps, 1.0)
        self._highs.addCols(m, np.zeros(m), np.zeros(m), caps, 0, none, none, no)
        self._highs.addCol(1.0, -np.inf, np.inf, 0, none, no)  # gamma
        self._highs.addRow(1.0, 1.0, m, self._columns[:m], np.ones(m))

    def solve(self, margins: FloatArray) -> MasterSolution:
        """The solution for the rows of ``margins``: those of the last call, and further ones.

        A :class:`SearchExpiredError` says that there was no time for it.
        """
        for row in margins[self._highs.getNumRow() - 1 :]:
            values = np.append(row, -1.0).astype(np.float64)
            self._highs.addRow(-np.inf, 0.0, values.size, self._columns, values)
        self._run(margins.size)
        solution = self._highs.getSolution()
        distribution = self.problem.admissible(np.array(solution.col_value)[:-1])
        weights = np.maximum(-np.array(solution.row_dual)[1:], 0.0)
        weights /= weights.sum()
        image, edges = image_of(weights, margins), edges_of(margins, distribution)
        soft_margin, edge = self.problem.value(image), float(edges.max())
        return MasterSolution(weights, image, soft_margin, distribution, edge, edges)

    def _run(self, size: int) -> None:
        """Run HiGHS over a matrix of so many entries, some iterations at a time."""
        highs = self._highs
        highs.setOptionValue("simplex_iteration_limit", max(_AT_ONCE // size, 20))
        for basis in ("kept", "new"):  # a stale basis may be the reason of a failure
            if basis == "new":
                highs.clearSolver()
            highs.run()
            while highs.getModelStatus() == self._status.kIterationLimit:
                if self.expired():
                    raise SearchExpiredError
                highs.run()
            if highs.getModelStatus() == self._status.kOptimal:
                return
        name = highs.getModelStatus().name[1:]
        raise RuntimeError(f"HiGHS finds no optimum of LPBoost's linear program: {name}")
