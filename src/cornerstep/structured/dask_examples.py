"""Examples of a structured SVM on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.data.dask import attempted, current_client, imported, sum_replies, tree_sum
from cornerstep.data.reductions import Reply
from cornerstep.structured.problem import Corners, Examples


class Bags:
    """Dask bags of examples and of labelings, as pairs of partitions; and all that they hold."""

    def __init__(self, X: Any, y: Any) -> None:
        dask, _ = imported()
        if not hasattr(X, "npartitions") or X.npartitions != getattr(y, "npartitions", None):
            raise ValueError("X and y must be Dask bags with as many partitions")
        whole = dask.delayed(list)
        pairs = zip(X.to_delayed(), y.to_delayed(), strict=True)
        self.parts = [tuple(map(whole, pair)) for pair in pairs]
        found = dask.compute(*(part for pair in self.parts for part in pair))
        self.X, self.y = (list(chain.from_iterable(found[k::2])) for k in (0, 1))
        self.lengths = [len(part) for part in found[::2]]


class SpreadExamples(Examples):
    """Examples of a structured SVM on the workers, for batch Frank-Wolfe.

    Workers keep no dual points: one that dies costs the time to prepare its examples elsewhere.

    Parameters
    ----------
    bags : Bags
    size : int
        Entries of w.
    weights : array
        Of all examples in the bags; those of weight 0 are left out.
    make : callable
        ``make(X, y, weights)``: the examples of a partition.
    """

    def __init__(
        self, bags: Bags, size: int, weights: FloatArray, make: Callable[..., Any]
    ) -> None:
        dask, distributed = imported()
        super().__init__(int(np.count_nonzero(weights)), size, weights[weights > 0])
        self._weighing = self.longest
        self.moved = 0
        self._sizes = np.zeros(5)
        self._client = current_client()
        parts = zip(bags.parts, np.split(weights, np.cumsum(bags.lengths)[:-1]), strict=True)
        pose = dask.delayed(partial(_posed, make))
        self._parts = self._client.compute([pose(*pair, own) for pair, own in parts if own.any()])
        distributed.wait(self._parts)

    def corners(self, w: FloatArray) -> Any:
        """The vertex of every block that w points to, summed up."""
        reply = attempted(lambda: self._reduced(w))
        self.oracle_calls += self.n
        self._sizes = reply["sizes"]
        self.longest, self.n_sums = (self._weighing + int(size) for size in self._sizes[2:4])
        return Corners(reply["image"], reply["losses"], np.concatenate(reply["hinges"]))

    def terms(self, w: FloatArray) -> float:
        """What ``sum_k |phi_k w_k|`` is at most, on average, at the weights decoded last."""
        return float(self._sizes[0]) / self.total

    @property
    def width(self) -> float:
        """What the mean of ``|phi(x, y)| + |phi(x, y')|`` is at most."""
        return float(self._sizes[1]) / self.total

    @property
    def inexact(self) -> float:
        """What decoding loses of its scores where a linear program is solved for it."""
        return float(self._sizes[4])

    def _reduced(self, w: FloatArray) -> Reply:
        weights = self._client.scatter(w, hash=False)
        replies = [self._client.submit(_decoded, part, weights, pure=False) for part in self._parts]
        self.moved += 2 * w.nbytes * len(replies) + 8 * self.n
        return tree_sum(self._client, replies, sum_replies)


def _posed(make: Callable[..., Any], X: Any, y: Any, weights: FloatArray) -> Any:
    kept = np.flatnonzero(weights)
    return make([X[i] for i in kept], [y[i] for i in kept], weights[kept])


def _decoded(examples: Any, w: FloatArray) -> Reply:
    found = examples.corners(w)
    total = examples.total
    sizes = [total * examples.terms(w), total * examples.width, examples.longest]
    sizes += [examples.n_sums, examples.inexact]
    return {
        "image": found.image, "losses": found.losses, "hinges": [found.hinges],
        "sizes": np.array(sizes),
    }  # fmt: skip
