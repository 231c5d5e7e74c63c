"""Training on a cluster: rows stay on Dask's workers, with their dual points.

    >>> from distributed import Client                       # doctest: +SKIP
    >>> client = Client("scheduler:8786")                    # doctest: +SKIP
    >>> MulticlassSVC().fit(X, y)           # Dask arrays    # doctest: +SKIP
    >>> fit(MulticlassSVC(), "rows.parquet", target="label") # doctest: +SKIP

Each round sends W to the workers, has each of them do one task on its rows (the tasks are those of
:class:`cornerstep.multiclass.distributed.partitions.Partition`; a worker goes through its chunks
one after the other), and brings back one sum.  Workers are best processes of one thread.

*When a worker dies*, Dask computes its rows again elsewhere.  The methods without dual points on
the workers ('fw' and the like without smoothing) do not notice.  Others do: every chunk has a stamp
that says which round its dual points have seen, a worker that was asked to go on from another one
says so, and its chunks start again from the last checkpoint, or from 0.  W is then computed anew
from the dual points that there are, so that it always is their image.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cornerstep.data.reductions import Reply, total

_FAN = 8  # sums added at a time on the way to one
_ATTEMPTS = 10  # at a round, before what stops it is shown


def imported() -> Any:
    """Dask and distributed, or a line that says how to install them."""
    try:
        import dask
        import dask.array
        import distributed
    except ImportError:
        raise ImportError(
            "training on a cluster needs Dask: pip install cornerstep[dask]"
        ) from None
    return dask, distributed


def current_client() -> Any:
    """The client of the cluster to train on."""
    _, distributed = imported()
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
    estimator : MulticlassSVC, StructuredSVC or SoftMarginBoostingClassifier
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
    imported()
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
    dask, _ = imported()
    from cornerstep.data.parquet_rows import ParquetRows

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
    from cornerstep.data.parquet_rows import ParquetRows

    rows = ParquetRows(Path(name), target, features)
    return rows.row_group(group)


def placed(client: Any, X: Any, prepared: list[Any]) -> list[Any]:
    """Chunks on their way to workers: near their data if that is there, else as many on each."""
    from distributed import futures_of

    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    if not workers or futures_of(X):  # type: ignore[no-untyped-call]
        return list(client.compute(prepared))  # without a worker they wait for one
    share = len(workers) / len(prepared)
    return [
        client.compute(part, workers=[workers[int(k * share)]], allow_other_workers=True)
        for k, part in enumerate(prepared)
    ]


def by_blocks(X: Any, function: Callable[[Any], Any], dtype: Any, columns: int) -> Any:
    """A function of rows on each chunk of a Dask array; with so many columns, 0 for none."""
    imported()
    X = X.rechunk({1: -1})
    if not columns:
        return X.map_blocks(function, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
    chunks = (X.chunks[0], (columns,))
    return X.map_blocks(function, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype))


def computed(*collections: Any) -> Any:
    """Dask's collections as arrays; what is none comes back as it is."""
    dask, _ = imported()
    return dask.compute(*collections)


def aligned(array: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
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
    rows = tuple(count for count in X.chunks[0] if count)  # workers without rows have no part
    X = X.rechunk({0: rows, 1: -1})
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


def delayed(part: Any) -> list[Any]:
    """The chunks of a Dask array."""
    return part.to_delayed(optimize_graph=True).ravel().tolist()


def sum_replies(*replies: Reply) -> Reply:
    """The sum of replies."""
    return total(replies)


def tree_sum(client: Any, level: list[Any], add: Callable[..., Reply]) -> Reply:
    """The sum of futures, a few at a time, on the workers."""
    while len(level) > 1:
        level = [
            client.submit(add, *level[k : k + _FAN], pure=False) for k in range(0, len(level), _FAN)
        ]
    reply: Reply = level[0].result()
    return reply


def attempted(action: Callable[[], Any]) -> Any:
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
