"""Partitions that are blocks of rows on disk, read one after the other.

Memory holds W a few times, the labels, one block and the dual points of all rows: for the block
method a few classes an example, for the batch methods nothing unless there is smoothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.reductions import Reply, total
from cornerstep.data.rows import Rows
from cornerstep.multiclass.distributed.partitions import Partition, Shared, Task, joined, split
from cornerstep.multiclass.problem import MulticlassProblem, check_duals
from cornerstep.multiclass.solvers.provenance import Provenance


class StreamExecutor:
    """An executor of one: every task is a pass over the rows on disk.

    Parameters
    ----------
    rows : Rows
    labels : array of int of shape (n,)
    scales : array of shape (n,)
    shared : Shared
        Costs of single examples are for all n.
    """

    sequential = True
    count = 1
    moved: int | None = None

    def __init__(self, rows: Rows, labels: IntArray, scales: FloatArray, shared: Shared) -> None:
        self._rows, self._labels, self._scales, self._shared = rows, labels, scales, shared
        bounds = rows.starts.tolist()
        self._slices = [slice(*pair) for pair in pairwise(bounds)]
        self._parts = [Partition() for _ in self._slices]

    def reduce(self, task: Task, image: FloatArray, **arguments: Any) -> Reply:
        reply: Reply | None = None
        for part, problem in self._problems():
            if task is Partition.round and reply is not None:
                arguments["current"] = image + reply["image"]
            answer = task(part, problem, image, **arguments)
            part.forget_rows()
            reply = answer if reply is None else total((reply, answer))
        assert reply is not None
        return reply

    def _problems(self) -> Iterator[tuple[Partition, MulticlassProblem]]:
        for part, block, X in zip(self._parts, self._slices, self._rows.blocks(), strict=True):
            shared = self._shared._replace(loss=self._shared.loss.rows(block))
            yield part, shared.problem(X, self._labels[block], self._scales[block])

    def coefficients(self, provenance: Provenance) -> Any:
        if {source.task for _, source in provenance} != {"held"}:
            return partial(self._rebuilt, provenance)
        m = self._shared.n_classes
        parts = [
            part.coefficients(self._labels[block], self._scales[block], m)
            for part, block in zip(self._parts, self._slices, strict=True)
        ]
        return sp.vstack(parts, "csr")

    def _rebuilt(self, provenance: Provenance) -> Any:
        """One pass over the rows, with a product for each source."""
        found = []
        for part, problem in self._problems():
            found.append(part.rebuilt(problem, provenance))
            part.forget_rows()
        return sp.vstack(found, "csr")

    def digest(self) -> int:
        starts = self._rows.starts[:-1].tolist()
        parts = (problem for _, problem in self._problems())
        return sum(part.digest(first) for part, first in zip(parts, starts, strict=True)) % 2**64

    def duals(self) -> tuple[Any, ...]:
        return joined([part.pool for part in self._parts if part.pool is not None])

    def restore(self, pool: tuple[Any, ...]) -> None:
        check_duals(pool, self._labels, self._shared.n_classes, self._shared.loss)
        pools = split(pool, np.diff(self._rows.starts))
        for part, own in zip(self._parts, pools, strict=True):
            part.restore(own)

    def close(self) -> None:
        pass
