"""Examples of a structured SVM on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.data.dask import attempted, current_client, imported, sum_replies, tree_sum
from cornerstep.data.reductions import Reply


class SpreadExamples:
    """Examples of a structured SVM on the workers, for batch Frank-Wolfe.

    Workers keep no dual points: one that dies costs the time to prepare its examples elsewhere.

    Parameters
    ----------
    X, y : Dask bags
        With the same partitions.
    n, size : int
        Examples, and entries of w.
    make : callable
        ``make(X, y)``: the examples of a partition.
    """

    def __init__(self, X: Any, y: Any, n: int, size: int, make: Callable[..., Any]) -> None:
        dask, distributed = imported()
        if not hasattr(X, "npartitions") or X.npartitions != getattr(y, "npartitions", None):
            raise ValueError("X and y must be Dask bags with as many partitions")
        self.n, self.size, self.oracle_calls, self.moved = n, size, 0, 0
        self.interrupted: Callable[[], bool] = lambda: False
        self._sizes = np.zeros(5)
        self._client = current_client()
        pairs = zip(X.to_delayed(), y.to_delayed(), strict=True)
        self._parts = self._client.compute([dask.delayed(make)(*pair) for pair in pairs])
        distributed.wait(self._parts)

    def corners(self, w: FloatArray) -> Any:
        """The vertex of every block that w points to, summed up."""
        from cornerstep.structured.problem import Corners

        reply = attempted(lambda: self._reduced(w))
        self.oracle_calls += self.n
        self._sizes = reply["sizes"]
        return Corners(reply["image"], reply["losses"], np.concatenate(reply["hinges"]))

    def terms(self, w: FloatArray) -> float:
        """What ``sum_k |phi_k w_k|`` is at most, on average, at the weights decoded last."""
        return float(self._sizes[0]) / self.n

    @property
    def width(self) -> float:
        """What the mean of ``|phi(x, y)| + |phi(x, y')|`` is at most."""
        return float(self._sizes[1]) / self.n

    @property
    def longest(self) -> int:
        """Roundings of a score, at most."""
        return int(self._sizes[2])

    @property
    def n_sums(self) -> int:
        """What the entries of an image are sums of."""
        return int(self._sizes[3])

    @property
    def inexact(self) -> float:
        """What decoding loses of its scores where a linear program is solved for it."""
        return float(self._sizes[4])

    def _reduced(self, w: FloatArray) -> Reply:
        weights = self._client.scatter(w, hash=False)
        replies = [self._client.submit(_decoded, part, weights, pure=False) for part in self._parts]
        self.moved += 2 * w.nbytes * len(replies) + 8 * self.n
        return tree_sum(self._client, replies, sum_replies)


def _decoded(examples: Any, w: FloatArray) -> Reply:
    found = examples.corners(w)
    n = examples.n
    sizes = [n * examples.terms(w), n * examples.width, examples.longest]
    sizes += [examples.n_sums, examples.inexact]
    return {
        "image": found.image, "losses": found.losses, "hinges": [found.hinges],
        "sizes": np.array(sizes),
    }  # fmt: skip
