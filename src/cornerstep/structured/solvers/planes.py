"""Blocks of any model: each a convex combination of labelings, kept as sparse vectors of parts.

:mod:`cornerstep.structured.compiled.part_sweeps` makes the steps.  Models of nodes and edges are
encoded as :class:`~cornerstep.structured.compiled.parts.Parts`, and forests and what is enumerated
decode there, too; for other graphs and models of the user's own a step asks Python for one answer,
its joint feature and its loss.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.structured.compiled import part_sweeps as compiled
from cornerstep.structured.compiled.part_sweeps import Cache, Point, Steps, Vectors, Work, vectors
from cornerstep.structured.problem import DualBlocks
from cornerstep.structured.solvers.settings import BLOCK

_CODES = {
    "bcfw": compiled.FW, "bcfw-pairwise": compiled.PAIRWISE, "bcfw-away": compiled.AWAY,
    "bcfw-auto": compiled.AUTO,
}  # fmt: skip
RULES = tuple(_CODES)


def joined(parts: list[tuple[Any, FloatArray]]) -> tuple[Vectors, Any]:
    """Sparse vectors one after the other, and where each begins."""
    ends = np.cumsum([len(places) for places, _ in parts])
    pool = Vectors(
        np.concatenate([places for places, _ in parts]).astype(np.int32),
        np.concatenate([values for _, values in parts]).astype(np.float64),
    )
    return pool, np.concatenate([[0], ends]).astype(np.int64)


def scratch(examples: Any, room: int) -> Work:
    """What visits of the examples overwrite, for blocks of so many planes."""
    parts, n_parts = examples.parts, examples.most_parts
    n_nodes = int(np.diff(parts.node_ptr).max(initial=1))
    theta, back, delta = np.zeros((3, n_parts))
    slopes, along, moved, change = np.empty((4, room))
    return Work(
        theta, back, delta, np.empty((n_nodes, parts.n_labels)), np.empty(n_nodes, np.int64),
        np.empty((2, examples.table_size)), slopes, along, moved, change, np.zeros(examples.size),
        vectors(max(n_parts, examples.size if parts.direct else 0)),
    )  # fmt: skip


class PlaneBlocks(DualBlocks):
    """The dual state of examples of any model but chains."""

    def __init__(self, examples: Any, lam: float, keep: int, prox: float = 0.0) -> None:
        super().__init__(examples, lam, keep, prox)
        n, room = examples.n, BLOCK.room
        truths, ptr = joined([examples.true_parts(i) for i in range(n)])
        self._steps_of = Steps(
            examples.parts, examples.weights / examples.total, self.stiff, keep, BLOCK.inner
        )
        weights = np.zeros((n, room))
        weights[:, 0] = 1.0
        sizes = np.zeros((n, room), np.int64)
        sizes[:, 0] = np.diff(ptr)
        starts = np.zeros((n, room), np.int64)
        starts[:, 0] = ptr[:-1]
        self._work = scratch(examples, room)
        pool = vectors(2 * int(ptr[-1]) + self._most)
        pool.indices[: ptr[-1]], pool.values[: ptr[-1]] = truths
        self.cache = Cache(
            weights, np.zeros((n, room)), starts, sizes, np.zeros((n, room, room)),
            np.ones(n, np.int64), pool, np.array([ptr[-1]]), truths, ptr,
        )  # fmt: skip

    @property
    def inner(self) -> int:
        """Steps over stored planes that a visit makes at most."""
        return self._steps_of.inner

    @inner.setter
    def inner(self, steps: int) -> None:
        self._steps_of = self._steps_of._replace(inner=steps)

    @property
    def _most(self) -> int:
        """Parts that an answer may have."""
        return self._work.answer.indices.size

    def sweep(self, order: Any, rule: str, remembered: bool) -> None:
        self._steps += len(order)
        if not remembered:
            self.examples.oracle_calls += len(order)
        order, asked, given = np.asarray(order, np.int64), False, (0, 0.0)
        while len(order):
            done, why = compiled.sweep(
                order, _CODES[rule], remembered, asked, self._steps_of,
                Point(self.w, self.v, self.numbers, self.gaps), self.cache, self._work, given,
            )  # fmt: skip
            asked = asked and done == 0
            order = order[done:]
            if why == compiled.FULL:
                self._widen()
            elif why == compiled.LONG:
                self._lengthen()
            elif why == compiled.ASKS:
                asked, given = True, self._ask(int(order[0]))

    def _ask(self, i: int) -> tuple[int, float]:
        """Put the answer of an oracle in Python where a visit looks for it; its length and loss."""
        cache, answer = self.cache, self._work.answer
        own = np.nan  # examples in parts have it themselves
        if self.examples.parts.direct:
            own = self._score(cache.truths, *cache.truth_ptr[i : i + 2])
        places, values, loss = self.examples.answer_in_parts(i, self.w, own)
        answer.indices[: len(places)], answer.values[: len(places)] = places, values
        if self.examples.debug:
            above = loss + float(self.w[places] @ values) - own
            for k in range(cache.counts[i]):
                at = cache.starts[i, k]
                score = self._score(cache.pool, at, at + cache.sizes[i, k])
                if (earlier := cache.losses[i, k] + score - own) > above + 1e-7 * (1 + abs(own)):
                    raise ValueError(
                        f"loss_augmented_decode is probably wrong: its answer for example {i} has "
                        f"a hinge of {above:.9g}, an earlier one still has {earlier:.9g}"
                    )
        return len(places), loss

    def _score(self, vectors: Vectors, begin: int, end: int) -> float:
        """The score of an example's own features, given where they are."""
        return float(self.w[vectors.indices[begin:end]] @ vectors.values[begin:end])

    def _widen(self) -> None:
        """Give every block room for twice as many planes."""
        cache = self.cache
        old = cache.weights.shape[1]
        flat, square = ((0, 0), (0, old)), ((0, 0), (0, old), (0, old))
        self.cache = cache._replace(
            weights=np.pad(cache.weights, flat), losses=np.pad(cache.losses, flat),
            starts=np.pad(cache.starts, flat), sizes=np.pad(cache.sizes, flat),
            products=np.pad(cache.products, square),
        )  # fmt: skip
        self._work = scratch(self.examples, 2 * old)

    def _lengthen(self) -> None:
        """Close the gaps of the pool, and give it twice the room of what is left."""
        cache = self.cache
        rows = np.arange(cache.weights.shape[1]) < cache.counts[:, None]
        pool = vectors(2 * int(cache.sizes[rows].sum()) + self._most)
        cache.numbers[0] = compiled.move_together(cache, pool.indices, pool.values)
        self.cache = cache._replace(pool=pool)

    def _summed(self) -> tuple[FloatArray, float]:
        w, steps = np.zeros(self.examples.size), self._steps_of._replace(lam=self.lam)
        return w, float(compiled.rebuild(steps, self.cache, self._work, w))

    def _n_terms(self) -> int:
        rows = self.examples.n_rows
        return int(rows * (1 + self.cache.counts.max()) + 2 * self.examples.most_parts)

    def state(self) -> Cache:
        return _copied(self.cache)

    def restore(self, state: Cache) -> None:
        self.cache = _copied(state)._replace(
            truths=self.cache.truths, truth_ptr=self.cache.truth_ptr
        )
        self._work = scratch(self.examples, state.weights.shape[1])
        compiled.reproduct(self._steps_of, self.cache, self._work)
        self._restored()


def _copied(cache: Cache) -> Cache:
    pool = Vectors(*(part.copy() for part in cache.pool))
    return cache._replace(pool=pool, **{
        name: getattr(cache, name).copy()
        for name in ("weights", "losses", "starts", "sizes", "products", "counts", "numbers")
    })  # fmt: skip
