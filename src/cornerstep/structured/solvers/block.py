"""Block-coordinate Frank-Wolfe for structured SVMs: examples are blocks of the optimiser's method.

:class:`~cornerstep.optimiser.block.BlockSolver` draws the order, counts the passes and keeps the
gaps.  Here is what its blocks are: a step in each is a step of the dual state, one sweep over many
examples a call; a full look decodes all examples at w and, with averaging, at the weighted average.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
.. [3] W. Saint-Arnaud, E. Lamouchi, F. Boileau. Review of Frank Wolfe and its variants. Université
   de Montréal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.optimiser.loop import Look, Move
from cornerstep.structured.problem import Blocks
from cornerstep.structured.proofs import Waiting, primal

Score = Callable[[FloatArray], float]


class ExampleBlocks(Waiting):
    """The examples of a structured SVM, for :class:`~cornerstep.optimiser.block.BlockSolver`.

    Parameters
    ----------
    dual : Blocks
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
        self, dual: Blocks, rule: str, *, averaging: bool, score: Score | None = None
    ) -> None:
        self.dual = dual
        self.examples = dual.examples
        self.gaps = dual.gaps
        self.rule = rule
        self.averaging = averaging
        self.score = score
        self._returned: FloatArray | None = None
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

    def glance(self, gap: float) -> Look:
        value = self.dual.dual()
        unknown = (np.nan,) * (len(self.extra_columns) - 2)
        extra = (value, self.dual.examples.oracle_calls, *unknown)
        return Look(value + gap, gap, False, extra)

    def look(self) -> Look:
        begin, state, dual = time.perf_counter(), self.dual, self.dual.dual()
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
        self.dual.rebuild()
        return self.look()
