"""Partitions on the workers of a Dask cluster: tasks out, sums back.

:mod:`cornerstep.data.dask` says what happens when a worker dies.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray
from cornerstep.data.dask import attempted, imported, tree_sum
from cornerstep.data.reductions import Reply, total
from cornerstep.multiclass.distributed.partitions import (
    LostDualsError,
    Partition,
    Shared,
    Task,
    joined,
    split,
)
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.provenance import KEPT, Provenance

_GATHERED = 2**31  # bytes of dual coefficients that are brought to one machine
_STATELESS = (
    Partition.losses, Partition.uniform, Partition.envelopes, Partition.moments, Partition.reach,
)  # fmt: skip


# On a worker: partitions by fit and number, with the stamp of the round they have seen.
_HELD: dict[tuple[str, int], tuple[Partition, int]] = {}


def _answer(
    image: FloatArray,
    *problems: MulticlassProblem,
    run: str,
    chunks: tuple[int, ...],
    task: Task,
    stamps: tuple[int, int] | None,
    arguments: dict[str, Any],
) -> Reply:
    """Do a task on some chunks, one after the other; or say which have lost their dual points."""
    keys = [(run, chunk) for chunk in chunks]
    held = [_HELD.get(key, (Partition(), 0)) for key in keys]
    place = [(chunk, _address()) for chunk in chunks]
    if stamps is not None:
        lost = [chunk for chunk, (_, seen) in zip(chunks, held, strict=True) if seen != stamps[0]]
        if lost:
            return {"lost": lost, "place": place}
    reply: Reply | None = None
    for key, (partition, stamp), problem in zip(keys, held, problems, strict=True):
        if task is Partition.round and reply is not None:
            arguments["current"] = image + arguments["sigma"] * reply["image"]
        answer = task(partition, problem, image, **arguments)
        _HELD[key] = partition, stamp if stamps is None else stamps[1]
        reply = answer if reply is None else total((reply, answer))
    assert reply is not None
    return reply | {"lost": [], "place": place}


def _restore(
    problem: MulticlassProblem, *, run: str, chunk: int, stamp: int, pool: Any, fresh: bool
) -> None:
    """Hold a chunk's dual points from now on under this stamp: ``pool``, or what is held."""
    if pool is not None:
        problem.check_duals(pool)
    partition, _stamp = _HELD.get((run, chunk), (None, 0))
    if fresh:
        partition = Partition()
        partition.restore(pool)
    if partition is not None:
        _HELD[run, chunk] = partition, stamp


def _pool(problem: MulticlassProblem, *, run: str, chunk: int, stamp: int) -> Any:
    partition, seen = _HELD.get((run, chunk), (Partition(), 0))
    if seen != stamp:
        return None
    return partition.held(problem)


def _digest(problem: MulticlassProblem, *, run: str, chunk: int, stamp: int, first: int) -> int:
    return problem.digest(first)


class _Sources(NamedTuple):
    """One object for Dask, which would send a tuple entry by entry."""

    provenance: Provenance


def _rebuilt(
    problem: MulticlassProblem, sources: _Sources, *, run: str, chunk: int, stamp: int
) -> Any:
    """A chunk's dual coefficients; None where some were kept there and are lost."""
    partition, seen = _HELD.get((run, chunk), (Partition(), 0))
    if seen != stamp and any(source.task in KEPT for _, source in sources.provenance):
        return None
    return partition.rebuilt(problem, sources.provenance)


def _size(matrix: Any) -> int | None:
    """Bytes of a sparse matrix."""
    if matrix is None:
        return None
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def _forget(run: str) -> None:
    for key in [key for key in _HELD if key[0] == run]:
        del _HELD[key]


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def _sum(*replies: Reply) -> Reply:
    places = [place for reply in replies for place in reply["place"]]
    lost = [chunk for reply in replies for chunk in reply["lost"]]
    if lost:
        return {"lost": lost, "place": places}
    return total(replies)


class DaskExecutor:
    """Workers of a Dask cluster, each with some chunks of the rows.

    Parameters
    ----------
    client : distributed.Client
    problems : list of futures
        The rows of each chunk.
    counts : array of int
        How many rows a chunk has.
    shared : Shared
    """

    sequential = False

    def __init__(self, client: Any, problems: list[Any], counts: Any, shared: Shared) -> None:
        self._client, self._problems, self._counts = client, problems, counts
        self._stateful = bool(shared.smoothing)
        self._run = uuid.uuid4().hex
        self._stamp = 0
        self._kept: list[Any] = [None] * len(problems)  # pools of the last checkpoint
        self.moved: int | None = 0
        _, distributed = imported()
        distributed.wait(problems)
        for problem in problems:
            if problem.status == "error":
                problem.result()
        where = client.who_has(problems)
        self._places = [next(iter(where[problem.key])) for problem in problems]

    @property
    def count(self) -> int:
        """Workers with rows: each goes through its chunks one after the other."""
        return len(set(self._places))

    def reduce(self, task: Task, image: FloatArray, **arguments: Any) -> Reply:
        stamps = None
        if task is Partition.round or (task is Partition.corner and self._stateful):
            stamps = self._stamp, self._stamp + 1
        elif task is not Partition.corner and task not in _STATELESS:
            stamps = self._stamp, self._stamp
        reply = attempted(lambda: self._reduced(task, image, stamps, arguments))
        for chunk, place in reply.pop("place"):
            self._places[chunk] = place
        lost = reply.pop("lost")
        if lost:
            attempted(lambda: self._recover(lost))
            raise LostDualsError
        if stamps is not None:
            self._stamp = stamps[1]
        return reply

    def _groups(self) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for chunk, place in enumerate(self._places):
            groups.setdefault(place, []).append(chunk)
        return groups

    def _reduced(self, task: Task, image: FloatArray, stamps: Any, arguments: Any) -> Reply:
        client, groups = self._client, self._groups()
        # to one worker, from where the others fetch it: a broadcast waits for dead ones
        weights = client.scatter(image, hash=False)
        level = [
            client.submit(
                _answer,
                weights,
                *(self._problems[chunk] for chunk in chunks),
                run=self._run,
                chunks=tuple(chunks),
                task=task,
                stamps=stamps,
                arguments=arguments,
                pure=False,
                workers=[place],
                allow_other_workers=True,
            )
            for place, chunks in groups.items()
        ]
        reply = tree_sum(client, level, _sum)
        assert self.moved is not None
        size = sum(np.asarray(part).nbytes for name, part in reply.items() if name != "place")
        self.moved += len(groups) * (image.nbytes + size)
        return reply

    def _recover(self, lost: list[int]) -> None:
        """Give all chunks one new stamp; the lost ones go back to the last checkpoint."""
        self._stamp += 2
        self._restamp({chunk: self._kept[chunk] for chunk in lost})

    def _restamp(self, pools: dict[int, Any]) -> None:
        self._client.gather(
            self._by_chunk(
                _restore, each=lambda chunk: {"pool": pools.get(chunk), "fresh": chunk in pools}
            )
        )

    def _by_chunk(
        self,
        task: Callable[..., Any],
        *shared: Any,
        each: Callable[[int], dict[str, Any]] = lambda chunk: {},
    ) -> list[Any]:
        """Futures of a task on every chunk of this run, where its rows are."""
        return [
            self._client.submit(
                task,
                self._problems[chunk],
                *shared,
                run=self._run,
                chunk=chunk,
                stamp=self._stamp,
                pure=False,
                workers=[place],
                allow_other_workers=True,
                **each(chunk),
            )
            for chunk, place in enumerate(self._places)
        ]

    def coefficients(self, provenance: Provenance) -> Any:
        """On this machine, as a sparse matrix, unless that is too large for it."""
        return attempted(lambda: self._coefficients(provenance))

    def _coefficients(self, provenance: Provenance) -> Any:
        client = self._client
        (sources,) = client.scatter([_Sources(provenance)], hash=False)
        parts = self._by_chunk(_rebuilt, sources)
        sizes = client.gather(client.map(_size, parts, pure=False))
        if any(size is None for size in sizes) or sum(sizes) > _GATHERED:
            return None
        assert self.moved is not None
        images = sum(source.image.nbytes for _, source in provenance if source.image is not None)
        self.moved += sum(sizes) + self.count * images
        return sp.vstack(client.gather(parts), "csr")

    def digest(self) -> int:
        firsts = np.cumsum([0, *self._counts]).tolist()
        parts = attempted(
            lambda: self._client.gather(
                self._by_chunk(_digest, each=lambda chunk: {"first": firsts[chunk]})
            )
        )
        return int(sum(parts)) % 2**64

    def duals(self) -> tuple[Any, ...] | None:
        pools = attempted(lambda: self._client.gather(self._by_chunk(_pool)))
        if any(pool is None for pool in pools):
            return None  # the next round recovers
        self._kept = pools
        return joined(pools)

    def restore(self, pool: tuple[Any, ...]) -> None:
        self._kept = split(pool, self._counts)
        self._stamp += 2
        attempted(lambda: self._restamp(dict(enumerate(self._kept))))

    def close(self) -> None:
        """Let the workers forget the dual points."""
        self._client.run(_forget, self._run, on_error="ignore")
