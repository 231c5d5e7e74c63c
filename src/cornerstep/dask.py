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

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.problems.clustered import DaskCrew, current_client, imported
from cornerstep.problems.clustered_trees import SpreadColumns
from cornerstep.problems.examples import holds
from cornerstep.problems.multiclass import MulticlassProblem
from cornerstep.problems.partitions import Shared, SpreadProblem
from cornerstep.vectors import FloatArray


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
    from cornerstep.parquet_rows import ParquetRows

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
    from cornerstep.parquet_rows import ParquetRows

    rows = ParquetRows(Path(name), target, features)
    return rows.row_group(group)


def pose(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[SpreadProblem, Any, Any]:
    """The problem of Dask arrays; see ``MulticlassSVC._pose``."""
    from cornerstep.estimators.spread import require_plain, shared_of
    from cornerstep.estimators.targets import class_factors

    dask, _ = imported()
    require_plain(model, "Dask arrays")
    client = current_client()
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
        raise ValueError("sample_weight times class_weight must be positive for some example")
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
        crew,
        shared,
        n,
        d + bool(shared.constant),
        sp.issparse(X._meta),
        X.dtype == np.float32 and holds(X.dtype, shared.constant),
    )
    return problem, np.ones(n, dtype=bool), X


def columns_of(X: Any, y: Any, sample_weight: Any) -> tuple[SpreadColumns, Any, Any]:
    """Examples for boosting: features on the workers, labels and weights here."""
    dask, _ = imported()
    client = current_client()
    given = sample_weight is not None
    X, y, sample_weight = _aligned(dask.array, X, y, sample_weight)
    if sp.issparse(X._meta):
        raise ValueError("X must have dense chunks for boosting, got sparse ones")
    chunks = [dask.delayed(_finite)(part) for part in _delayed(X)]
    columns = SpreadColumns(client, _placed(client, X, chunks), np.array(X.chunks[0]), X.shape[1])
    y, weights = client.gather(client.compute([y, sample_weight]))
    return columns, y, weights if given else None


def _finite(X: Any) -> FloatArray:
    if not np.isfinite(X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    return np.asarray(X, dtype=np.float64)


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
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight must be finite, got NaN or infinity")
    if (weights < 0).any():
        raise ValueError(f"sample_weight must be >= 0, got {weights.min()}")
    classes, counts = np.unique(y, return_counts=True)
    return classes, counts, bool((weights > 0).any())


def _prepared(
    X: Any, y: Any, weights: Any, classes: Any, factors: FloatArray, shared: Shared
) -> MulticlassProblem:
    """The rows of a chunk as they stay on a worker."""
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    labels = np.searchsorted(classes, y)
    return shared.problem(X, labels, weights * factors[labels])
