"""The default solver of structured SVMs: block-coordinate Frank-Wolfe on the dual.

*Problem.*  Given examples x_i with labelings y_i and shares p_i of the weights (1/n without),
losses L_i and joint features, ``psi_i(y) = phi(x_i, y_i) - phi(x_i, y)``, minimise over w

``P(w) = lambda/2 |w|² + sum_i p_i max_y (L_i(y) - w'psi_i(y))``.

Its dual, which the solver works on, is

``max over a of  D = l - lambda/2 |w|²``,  ``w = sum_i p_i sum_y a_i(y) psi_i(y) / lambda``,
``l = sum_i p_i sum_y a_i(y) L_i(y)``,

*subject to*, for every example (a *block*), a_i in the simplex over its labelings.  Few of these
have weight; those, and some that had or were answers, are stored (*planes*).

*Input*: the dual state to start from; at first every block is its truth, so that ``w = 0``.
*Output*: the last w, or the average of w after all steps t with weights growing like t; its P, and
D of the last a.  Any w and any a certify each other: ``P - D`` bounds the error of both.

*Algorithm.*  :class:`~cornerstep.optimiser.block.BlockSolver` draws the order, counts the passes
and keeps the gaps of the blocks.  An iteration is:

1. **Look**, once in ``check_every`` passes (:meth:`ExampleBlocks.look`): decode all examples at w
   and at the average, for P of both; D is at hand.  In other passes the gap is estimated by the sum
   of the blocks' gaps as last seen.
2. **Stop** if the gap is within the tolerance (the loop does it, after
   :meth:`ExampleBlocks.certify` has computed w and l anew from the planes).
3. **A pass of the oracle** (:meth:`ExampleBlocks.sweep`): visit n examples, permuted, uniformly
   drawn or by their gaps [2]_.  For each:

   a. decode ``v = argmax_y L_i(y) - w'psi_i(y)``; the block's gap is what it gains over a_i;
   b. take the direction of the rule: ``v - a_i`` ('bcfw' [1]_), ``v - u`` ('bcfw-pairwise'), the
      steeper of ``v - a_i`` and ``a_i - u`` ('bcfw-away'), or that of the three along which D gains
      most ('bcfw-auto'); u is the plane with weight of least slope;
   c. go the exact best step ``gamma = slope / curvature``, at most to where a weight is 0: D, w, l
      and the average change by it; v becomes a plane.

4. **Corrective passes** (:meth:`ExampleBlocks.correct`), ``cache_passes`` of them, each over all
   examples in a fresh order: step 3 with the best stored plane for v, which costs no decoding.
   Those of 'bcfw' are pairwise: its own steps never take all weight off a plane.

Steps are those of :mod:`.planes` for any model, of :mod:`cornerstep.structured.compiled.sweeps` for
chains.  Numbers that steer them are in :mod:`.settings`.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016: also the corrective passes.
.. [3] W. Saint-Arnaud, E. Lamouchi, F. Boileau. Review of Frank Wolfe and its variants. Université
   de Montréal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.optimiser.loop import Look, Move
from cornerstep.structured.problem import DualBlocks
from cornerstep.structured.proofs import Waiting, primal

Score = Callable[[FloatArray], float]


class ExampleBlocks(Waiting):
    """The examples of a structured SVM, for :class:`~cornerstep.optimiser.block.BlockSolver`.

    Parameters
    ----------
    dual : DualBlocks
        The dual state to start from.
    rule : str
        One of ``RULES`` of :mod:`.structured_planes`.
    averaging : bool
        Whether the point to return is the weighted average.
    score : callable, optional
        Of w; taken of both models at every full look, for the trace.
    """

    monotone = False  # the dual objective is; the primal one is what is looked at
    reads_gaps = False  # a look sees the hinges, not what a block has of its own

    def __init__(
        self, dual: DualBlocks, rule: str, *, averaging: bool, score: Score | None = None
    ) -> None:
        self.dual = dual
        self.examples = dual.examples
        self.gaps = dual.gaps
        self.rule = rule
        self.averaging = averaging
        self.score = score
        self._returned: FloatArray | None = None
        self._visited = 0
        self.extra_columns: tuple[str, ...] = (
            "dual", "oracle_calls", "objective_last", "objective_average",
            "gap_last", "gap_average",
        )  # fmt: skip
        if score is not None:
            self.extra_columns += ("score_last", "score_average")

    @property
    def point(self) -> Any:
        return self

    def weights(self) -> FloatArray:
        """The point to return."""
        if self._returned is not None:
            return self._returned
        return self.dual.average()[0] if self.averaging else self.dual.w

    def state(self) -> Any:
        """The dual point, apart from lambda."""
        return self.dual.state()

    def primal(self, w: FloatArray) -> tuple[float, float]:
        """P(w), from the data, and its rounding."""
        hinges = np.maximum(self.examples.hinges(w), 0.0)
        unknown = np.isinf(self.gaps)  # not visited yet: as if the block were the truth
        self.gaps[unknown] = (hinges * self.examples.weights)[unknown] / self.examples.total
        return primal(self.examples, self.dual.lam, w, hinges)

    def estimate(self, gap: float) -> Look:
        value = self.dual.dual()
        unknown = (np.nan,) * (len(self.extra_columns) - 2)
        extra = (value, self.dual.examples.oracle_calls, *unknown)
        return Look(value + gap, gap, False, extra)

    def look(self) -> Look:
        begin, state = work_seconds(), self.dual
        if state.prox:
            state.rebuild()
        dual = (
            state.dual()
            if not state.prox
            else state.linear - 0.5 * state.lam * float(state.anchor @ state.anchor)
        )
        calls = state.examples.oracle_calls
        w, linear = state.average()
        last, last_error = self.primal(state.w)
        average, error = self.primal(w) if state.numbers[0] else (last, last_error)
        state.examples.oracle_calls = calls  # those that training needs
        value, error = (average, error) if self.averaging else (last, last_error)
        own = linear - 0.5 * state.lam * float(w @ w)  # the dual at the average itself
        extra: tuple[Any, ...] = (dual, calls, last, average, last - dual, average - own)
        if self.score is not None:
            extra += (self.score(state.w), self.score(w))
        look = certified(value, dual, Rounding(error, state.dual_error()), extra)
        return self.keep(w if self.averaging else state.w.copy(), look, begin)

    def sweep(self, order: IntArray) -> Move:
        if self._visited and self._visited % self.examples.n == 0:
            self.dual.go_ahead()
        self._visited += len(order)
        self.dual.sweep(order, self.rule, False)
        return Move(1.0, self.rule)

    def correct(self, order: IntArray) -> None:
        """Steps over the stored planes; pairwise after plain ones, which never drop a plane."""
        rule = "bcfw-pairwise" if self.rule == "bcfw" else self.rule
        self.dual.sweep(order, rule, True)

    def certify(self, point: Any) -> Look:
        """With w and l from the planes and the primal from the data."""
        if (kept := self.proof()) is not None:
            self._returned = kept[0]
            return kept[1]
        self._returned = None
        self.dual.rebuild()
        look = self.look()
        if self._proof is None or self.dual.remembers or not self._proof[1].value < look.value:
            return look
        self._returned, best = self._proof
        bound = max(best.bound, look.bound)
        gap = math.nextafter(best.value - bound, math.inf)
        return best._replace(gap=gap, bound=bound, extra=look.extra)
