"""Block-coordinate Frank-Wolfe for structured SVMs: one example at a time, an iteration is a pass.

A pass visits n examples in an order that is *permuted* (a fresh permutation), *uniform* (drawn with
replacement) or by *gap* (drawn in proportion to the blocks' last known gaps; every tenth pass is
permuted, so that no gap grows stale).  Full looks, every few passes, decode all examples at w and,
with averaging, at the weighted average; between them the gaps seen during the pass estimate it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.optimiser.loop import Look, Move
from cornerstep.problems.structured import Blocks
from cornerstep.vectors import FloatArray, IntArray

SAMPLINGS = ("permuted", "uniform", "gap")
_REFRESH = 10  # a permuted pass among those drawn by gap
_PORTION = 10  # gaps are read anew so often in a pass

Score = Callable[[FloatArray], float]


class BlockSolver:
    """Passes of block steps, for the loop.

    Parameters
    ----------
    blocks : Blocks
        The dual state to start from.
    rule : str
        One of ``RULES`` of :mod:`.structured_planes`.
    sampling : str
        One of ``SAMPLINGS``.
    averaging : bool
        Whether the point to return is the weighted average.
    cache_passes : int
        Corrective passes over the stored planes after each pass of oracle calls.  After plain steps
        they are pairwise: plain ones never drop a plane.
    check_every : int
        Passes between full looks.
    rng : numpy Generator
    score : callable, optional
        Of w; taken of both models at every full look, for the trace.
    """

    monotone = True

    def __init__(
        self,
        blocks: Blocks,
        rule: str,
        *,
        sampling: str,
        averaging: bool,
        cache_passes: int,
        check_every: int,
        rng: np.random.Generator,
        score: Score | None = None,
    ) -> None:
        self.blocks = blocks
        self.rule = rule
        self.sampling = sampling
        self.averaging = averaging
        self.cache_passes = cache_passes
        self.check_every = check_every
        self.rng = rng
        self.score = score
        self.extra_columns: tuple[str, ...] = (
            "dual", "oracle_calls", "objective_last", "objective_average",
            "gap_last", "gap_average",
        )  # fmt: skip
        if score is not None:
            self.extra_columns += ("score_last", "score_average")
        self.passes = 0
        self._optimism = 1.0  # certified gap over the estimate of the same pass

    @property
    def point(self) -> Any:
        return self

    def weights(self) -> FloatArray:
        """The point to return."""
        return self.blocks.average()[0] if self.averaging else self.blocks.w

    def state(self) -> Any:
        """The dual point, apart from lambda."""
        return self.blocks.state()

    def primal(self, w: FloatArray) -> float:
        """P(w), from the data."""
        hinges = np.maximum(self.blocks.examples.hinges(w), 0.0)
        gaps = self.blocks.gaps
        unknown = np.isinf(gaps)  # not visited yet: what it would be if the block were the truth
        gaps[unknown] = hinges[unknown] / hinges.size
        return 0.5 * self.blocks.lam * float(w @ w) + float(hinges.mean())

    def look(self) -> Look:
        if self.passes % self.check_every == 0:
            return self._full_look()
        dual = self.blocks.dual()
        estimate = float(self.blocks.gaps.sum()) * self._optimism
        unknown = (np.nan,) * (len(self.extra_columns) - 2)
        extra = (dual, self.blocks.examples.oracle_calls, *unknown)
        return Look(dual + estimate, estimate, False, extra)

    def _full_look(self) -> Look:
        blocks, dual = self.blocks, self.blocks.dual()
        calls = blocks.examples.oracle_calls
        w, linear = blocks.average()
        models = [blocks.w, w]
        last = self.primal(blocks.w)
        average = self.primal(w) if blocks.numbers[0] else last
        blocks.examples.oracle_calls = calls  # those that training needs
        value = average if self.averaging else last
        gap = max(value - dual, 0.0)
        estimate = float(blocks.gaps.sum())
        if 0 < estimate < np.inf and gap > 0:
            self._optimism = gap / estimate
        own = linear - 0.5 * blocks.lam * float(w @ w)  # the dual at the average itself
        extra: tuple[Any, ...] = (dual, calls, last, average, last - dual, average - own)
        if self.score is not None:
            extra += tuple(self.score(w) for w in models)
        return Look(value, gap, True, extra)

    def move(self) -> Move:
        for order in self._orders():
            self.blocks.sweep(order, self.rule, False)
        rule = "bcfw-pairwise" if self.rule == "bcfw" else self.rule
        for _ in range(self.cache_passes):
            self.blocks.sweep(self._permutation(), rule, True)
        self.passes += 1
        return Move(1.0, self.rule)

    def _permutation(self) -> IntArray:
        return self.rng.permutation(self.blocks.examples.n)

    def _orders(self) -> Any:
        """The visits of one pass, in portions."""
        n = self.blocks.examples.n
        if self.sampling == "uniform":
            yield self.rng.integers(n, size=n)
        elif self.sampling == "permuted" or self.passes % _REFRESH == 0:
            yield self._permutation()
        else:
            for portion in np.array_split(np.empty(n), min(_PORTION, n)):
                gaps = self.blocks.gaps
                total = gaps.sum()
                shares = gaps / total if 0 < total < np.inf else np.full(n, 1.0 / n)
                yield self.rng.choice(n, size=portion.size, p=shares)

    def certify(self, point: Any) -> Look:
        """With w and l from the planes and the primal from the data."""
        self.blocks.rebuild()
        return self._full_look()
