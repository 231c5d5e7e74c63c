"""Training on a cluster: rows stay on Dask's workers, with their dual points.

    >>> from distributed import Client                       # doctest: +SKIP
    >>> client = Client("scheduler:8786")                    # doctest: +SKIP
    >>> MulticlassSVC().fit(X, y)           # Dask arrays    # doctest: +SKIP
    >>> fit(MulticlassSVC(), "rows.parquet", target="label") # doctest: +SKIP

Each round sends W to the workers, has each of them do one task on its rows (the tasks are those of
:class:`cornerstep.problems.partitions.Partition`; a worker goes through its chunks one after the
other), and brings back one sum.  Workers are best processes of one thread.

*When a worker dies*, Dask computes its rows again elsewhere.  The methods without dual points on
the workers ('fw' and the like without smoothing) do not notice.  Others do: every chunk has a stamp
that says which round its dual points have seen, a worker that was asked to go on from another one
says so, and its chunks start again from the last checkpoint, or from 0.  W is then computed anew
from the dual points that there are, so that it always is their image.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.problems.multiclass import MulticlassProblem
from cornerstep.problems.partitions import (
    LostDualsError,
    Partition,
    Reply,
    Shared,
    SpreadProblem,
    joined,
    split,
    total,
)
from cornerstep.vectors import FloatArray

_FAN = 8  # sums added at a time on the way to one
_ATTEMPTS = 10  # at a round, before what stops it is shown
_STATELESS = ("losses", "uniform")


def _imported() -> Any:
    try:
        import dask
        import dask.array
        import distributed
    except ImportError:
        raise ImportError(
            "training on a cluster needs Dask: pip install cornerstep[dask]"
        ) from None
    return dask, distributed


def _client() -> Any:
    _, distributed = _imported()
    try:
        return distributed.get_client()
    except ValueError:
        raise ValueError(
            "Dask collections need a cluster: make a distributed.Client before fit"
        ) from None


def fit(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    features: list[str] | None = None,
    sample_weight: Any = None,
) -> Any:
    """Train an estimator on the workers of the current Dask client.

    Parameters
    ----------
    estimator : MulticlassSVC or StructuredSVC
    X : Dask array of shape (n, d), or path of a Parquet file or a folder of them
        Chunks may be CSR matrices.
        Workers read the row groups of a path themselves: it must be one that they all see.  For
        a StructuredSVC with solver='fw', a Dask bag of examples.
    y : Dask or NumPy array of shape (n,), or Dask bag of labelings
        For arrays and bags.
    target : str, optional
        For Parquet: the column of the labels.
    features : list of str, optional
        For Parquet: the columns of the features; by default all but the target.
    sample_weight : Dask or NumPy array of shape (n,), optional
        For arrays.

    Returns
    -------
    The fitted estimator.
    """
    _imported()
    if isinstance(X, str | Path):
        if target is None or y is not None or sample_weight is not None:
            raise ValueError(
                "for a Parquet path give target, the column of the labels, and neither y nor "
                "sample_weight"
            )
        X, y = read_parquet(Path(X), target, features)
    elif target is not None or features is not None:
        raise ValueError("target and features are for Parquet paths, X is none")
    return estimator.fit(X, y, *(() if sample_weight is None else (sample_weight,)))


def read_parquet(path: Path, target: str, features: list[str] | None = None) -> tuple[Any, Any]:
    """X and y of Parquet files as Dask arrays, a chunk for each row group."""
    dask, _ = _imported()
    from cornerstep.streaming import ParquetRows

    rows = ParquetRows(path, target, features)
    read = dask.delayed(_row_group, pure=True)
    X, y = [], []
    assert rows.target is not None
    for name, group, count in rows.row_groups():
        shape = (count, rows.shape[1])
        part = read(name, group, features, target)
        X.append(dask.array.from_delayed(part[0], shape, rows.dtype))
        y.append(dask.array.from_delayed(part[1], (count,), rows.target.dtype))
    return dask.array.concatenate(X), dask.array.concatenate(y)


def _row_group(name: str, group: int, features: list[str] | None, target: str) -> tuple[Any, Any]:
    from cornerstep.streaming import ParquetRows

    rows = ParquetRows(Path(name), target, features)
    return rows.row_group(group)


def pose(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[SpreadProblem, Any, Any]:
    """The problem of Dask arrays; see ``MulticlassSVC._pose``."""
    from cornerstep.estimators.spread import require_plain, shared_of
    from cornerstep.estimators.targets import class_factors

    dask, _ = _imported()
    require_plain(model, "Dask arrays")
    client = _client()
    X, y, sample_weight = _aligned(dask.array, X, y, sample_weight)
    n, d = X.shape
    parts = [_delayed(part) for part in (X, y, sample_weight)]
    summaries = [dask.delayed(_summary)(*part) for part in zip(*parts[1:], strict=True)]
    seen = client.gather(client.compute(summaries))
    model.classes_, model.n_features_in_ = np.unique(np.concatenate([s[0] for s in seen])), d
    model.__dict__.pop("feature_names_in_", None)
    m = model.classes_.size
    if m < 2:
        raise ValueError(f"y must have at least two classes, got {model.classes_!r}")
    counts = np.zeros(m)
    for classes, of_classes, _ in seen:
        counts[np.searchsorted(model.classes_, classes)] += of_classes
    if not any(positive for _, _, positive in seen):
        raise ValueError("sample_weight must be >= 0, and positive for some example")
    factors = model.C * class_factors(model.class_weight, model.classes_, counts)
    shared = shared_of(model, n)
    starts = np.cumsum([0, *X.chunks[0]])
    prepared = [
        dask.delayed(_prepared)(
            *part, model.classes_, factors, shared._replace(loss=shared.loss.rows(slice(*ends)))
        )
        for part, ends in zip(zip(*parts, strict=True), pairwise(starts.tolist()), strict=True)
    ]
    crew = DaskCrew(client, _placed(client, X, prepared), np.diff(starts), shared)
    problem = SpreadProblem(
        crew, shared, n, d + bool(shared.constant), sp.issparse(X._meta), X.dtype == np.float32
    )
    return problem, np.ones(n, dtype=bool), X


def _placed(client: Any, X: Any, prepared: list[Any]) -> list[Any]:
    """Chunks on their way to workers: near their data if that is there, else as many on each."""
    from distributed import futures_of

    if futures_of(X):  # type: ignore[no-untyped-call]
        return list(client.compute(prepared))
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    share = len(workers) / len(prepared)
    return [
        client.compute(part, workers=[workers[int(k * share)]], allow_other_workers=True)
        for k, part in enumerate(prepared)
    ]


def by_blocks(X: Any, function: Callable[[Any], Any], dtype: Any, columns: int) -> Any:
    """A function of rows on each chunk of a Dask array; with so many columns, 0 for none."""
    _imported()
    X = X.rechunk({1: -1})
    if not columns:
        return X.map_blocks(function, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
    chunks = (X.chunks[0], (columns,))
    return X.map_blocks(function, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype))


def computed(*collections: Any) -> Any:
    """Dask's collections as arrays; what is none comes back as it is."""
    dask, _ = _imported()
    return dask.compute(*collections)


def _aligned(array: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """All three as Dask arrays with the same chunks of whole rows."""
    if not isinstance(X, array.Array) or X.ndim != 2:
        raise ValueError(
            "X must be a Dask array of shape (n, d), "
            f"got {type(X).__name__}: make one of a data frame by to_dask_array(lengths=True)"
        )
    if y is None:
        raise ValueError("y must be given with Dask arrays: it requires y to be passed")
    if np.isnan(X.shape[0]):
        X = X.compute_chunk_sizes()
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    X = X.rechunk({1: -1})
    out = []
    for name, part in (("y", y), ("sample_weight", sample_weight)):
        if part is None:
            part = array.ones(X.shape[0], chunks=(X.chunks[0],))
        elif not isinstance(part, array.Array):
            part = array.from_array(np.asarray(part), chunks=-1)
        elif np.isnan(part.shape[0]):
            part = part.compute_chunk_sizes()
        if part.shape != (X.shape[0],):
            raise ValueError(f"{name} must have shape ({X.shape[0]},), got {part.shape}")
        out.append(part.rechunk((X.chunks[0],)))
    return X, *out


def _delayed(part: Any) -> list[Any]:
    return part.to_delayed(optimize_graph=True).ravel().tolist()


def _summary(y: Any, weights: Any) -> tuple[Any, Any, bool]:
    if y.dtype.kind == "f" and not (np.isfinite(y) & (y % 1 == 0)).all():
        raise ValueError("Unknown label type: y must be classes, got numbers that are not whole")
    classes, counts = np.unique(y, return_counts=True)
    valid = bool(np.isfinite(weights).all() and (weights >= 0).all())
    return classes, counts, valid and bool((weights > 0).any())


def _prepared(
    X: Any, y: Any, weights: Any, classes: Any, factors: FloatArray, shared: Shared
) -> MulticlassProblem:
    """The rows of a chunk as they stay on a worker."""
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    labels = np.searchsorted(classes, y)
    return shared.problem(X, labels, weights * factors[labels])


# On a worker: partitions by fit and number, with the stamp of the round they have seen.
_HELD: dict[tuple[str, int], tuple[Partition, int]] = {}


def _answer(
    image: FloatArray,
    *problems: MulticlassProblem,
    run: str,
    chunks: tuple[int, ...],
    task: str,
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
        if task == "round" and reply is not None:
            arguments["current"] = image + arguments["sigma"] * reply["image"]
        answer = getattr(partition, task)(problem, image, **arguments)
        _HELD[key] = partition, stamp if stamps is None else stamps[1]
        reply = answer if reply is None else total((reply, answer))
    assert reply is not None
    return reply | {"lost": [], "place": place}


def _restore(
    *_: MulticlassProblem, run: str, chunk: int, stamp: int, pool: Any, fresh: bool
) -> None:
    """Hold a chunk's dual points from now on under this stamp: ``pool``, or what is held."""
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


class DaskCrew:
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
        _, distributed = _imported()
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

    def reduce(self, task: str, image: FloatArray, **arguments: Any) -> Reply:
        stamps = None
        if task == "round" or (task == "corner" and self._stateful):
            stamps = self._stamp, self._stamp + 1
        elif task != "corner" and task not in _STATELESS:
            stamps = self._stamp, self._stamp
        reply = _attempted(lambda: self._reduced(task, image, stamps, arguments))
        for chunk, place in reply.pop("place"):
            self._places[chunk] = place
        lost = reply.pop("lost")
        if lost:
            _attempted(lambda: self._recover(lost))
            raise LostDualsError
        if stamps is not None:
            self._stamp = stamps[1]
        return reply

    def _groups(self) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for chunk, place in enumerate(self._places):
            groups.setdefault(place, []).append(chunk)
        return groups

    def _reduced(self, task: str, image: FloatArray, stamps: Any, arguments: Any) -> Reply:
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
        reply = _tree_sum(client, level, _sum)
        assert self.moved is not None
        size = sum(np.asarray(part).nbytes for name, part in reply.items() if name != "place")
        self.moved += len(groups) * (image.nbytes + size)
        return reply

    def _recover(self, lost: list[int]) -> None:
        """Give all chunks one new stamp; the lost ones go back to the last checkpoint."""
        self._stamp += 2
        self._restamp({chunk: self._kept[chunk] for chunk in lost})

    def _restamp(self, pools: dict[int, Any]) -> None:
        client = self._client
        client.gather(
            [
                client.submit(
                    _restore,
                    self._problems[chunk],
                    run=self._run,
                    chunk=chunk,
                    stamp=self._stamp,
                    pool=pools.get(chunk),
                    fresh=chunk in pools,
                    pure=False,
                    workers=[place],
                    allow_other_workers=True,
                )
                for chunk, place in enumerate(self._places)
            ]
        )

    def coefficients(self) -> None:
        """Too many to bring together."""

    def duals(self) -> tuple[Any, ...] | None:
        client = self._client
        pools = _attempted(
            lambda: client.gather(
                [
                    client.submit(
                        _pool,
                        problem,
                        run=self._run,
                        chunk=chunk,
                        stamp=self._stamp,
                        pure=False,
                        workers=[place],
                        allow_other_workers=True,
                    )
                    for chunk, (problem, place) in enumerate(
                        zip(self._problems, self._places, strict=True)
                    )
                ]
            )
        )
        if any(pool is None for pool in pools):
            return None  # the next round recovers
        self._kept = pools
        return joined(pools)

    def restore(self, pool: tuple[Any, ...]) -> None:
        self._kept = split(pool, self._counts)
        self._stamp += 2
        _attempted(lambda: self._restamp(dict(enumerate(self._kept))))

    def close(self) -> None:
        """Let the workers forget the dual points."""
        self._client.run(_forget, self._run, on_error="ignore")


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
        dask, distributed = _imported()
        if not hasattr(X, "npartitions") or X.npartitions != getattr(y, "npartitions", None):
            raise ValueError("X and y must be Dask bags with as many partitions")
        self.n, self.size, self.oracle_calls, self.moved = n, size, 0, 0
        self._client = _client()
        pairs = zip(X.to_delayed(), y.to_delayed(), strict=True)
        self._parts = self._client.compute([dask.delayed(make)(*pair) for pair in pairs])
        distributed.wait(self._parts)

    def corners(self, w: FloatArray) -> Any:
        """The vertex of every block that w points to, summed up."""
        from cornerstep.problems.structured import Corners

        reply = _attempted(lambda: self._reduced(w))
        self.oracle_calls += self.n
        return Corners(reply["image"], reply["losses"], np.concatenate(reply["hinges"]))

    def _reduced(self, w: FloatArray) -> Reply:
        weights = self._client.scatter(w, hash=False)
        replies = [self._client.submit(_decoded, part, weights, pure=False) for part in self._parts]
        self.moved += 2 * w.nbytes * len(replies) + 8 * self.n
        return _tree_sum(self._client, replies, _total)


def _decoded(examples: Any, w: FloatArray) -> Reply:
    found = examples.corners(w)
    return {"image": found.image, "losses": found.losses, "hinges": [found.hinges]}


def _total(*replies: Reply) -> Reply:
    return total(replies)


def _tree_sum(client: Any, level: list[Any], add: Callable[..., Reply]) -> Reply:
    """The sum of futures, a few at a time, on the workers."""
    while len(level) > 1:
        level = [
            client.submit(add, *level[k : k + _FAN], pure=False) for k in range(0, len(level), _FAN)
        ]
    reply: Reply = level[0].result()
    return reply


def _attempted(action: Callable[[], Any]) -> Any:
    """The result of an action; again, where a worker that dies takes what it needs along."""
    from concurrent.futures import CancelledError

    # connections that closed are OSErrors
    transient = (CancelledError, OSError, TimeoutError)
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except transient:
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.1 * 2**attempt)
    return None
