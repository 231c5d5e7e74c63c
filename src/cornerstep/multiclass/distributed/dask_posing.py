"""The multi-class problem of Dask arrays: every chunk is checked where it is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray
from cornerstep.data.dask import aligned, current_client, delayed, imported, placed
from cornerstep.multiclass.distributed.dask_executor import DaskExecutor
from cornerstep.multiclass.distributed.partitions import Shared, SpreadProblem
from cornerstep.multiclass.examples import holds
from cornerstep.multiclass.parameters import Posed
from cornerstep.multiclass.problem import MulticlassProblem


def pose(model: Any, X: Any, y: Any, sample_weight: Any) -> Posed:
    """The problem of an estimator's parameters on Dask arrays."""
    from cornerstep.learning.targets import class_factors
    from cornerstep.multiclass.distributed.posing import require_spreadable, shared_of

    dask, _ = imported()
    require_spreadable(model, "Dask arrays")
    client = current_client()
    X, y, sample_weight = aligned(dask.array, X, y, sample_weight)
    n, d = X.shape
    parts = [delayed(part) for part in (X, y, sample_weight)]
    summaries = [dask.delayed(_summary)(*part) for part in zip(*parts[1:], strict=True)]
    seen = client.gather(client.compute(summaries))
    known = np.unique(np.concatenate([s[0] for s in seen]))
    m = known.size
    if m < 2:
        raise ValueError(f"y must have at least two classes, got {known!r}")
    counts = np.zeros(m)
    for classes, of_classes, _ in seen:
        counts[np.searchsorted(known, classes)] += of_classes
    if not any(positive for _, _, positive in seen):
        raise ValueError("sample_weight times class_weight must be positive for some example")
    factors = model.C * class_factors(model.class_weight, known, counts)
    shared = shared_of(model, m, n)
    starts = np.cumsum([0, *X.chunks[0]])
    prepared = [
        dask.delayed(_prepared)(
            *part,
            (ends[1] - ends[0], d),
            known,
            factors,
            shared._replace(loss=shared.loss.rows(slice(*ends))),
        )
        for part, ends in zip(zip(*parts, strict=True), pairwise(starts.tolist()), strict=True)
    ]
    executor = DaskExecutor(client, placed(client, X, prepared), np.diff(starts), shared)
    problem = SpreadProblem(
        executor,
        shared,
        n,
        d + bool(shared.constant),
        sp.issparse(X._meta),
        X.dtype == np.float32 and holds(X.dtype, shared.constant),
    )
    return Posed(problem, np.ones(n, dtype=bool), X, known)


def _require_shape(part: Any, shape: tuple[int, ...], name: str) -> None:
    """Complain about a chunk that is not what the collection says of it."""
    if part.shape != shape:
        raise ValueError(
            f"{name} must have chunks of the shapes that it declares, got one of shape "
            f"{part.shape} where it says {shape}"
        )


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
    X: Any, y: Any, weights: Any, shape: tuple[int, int], classes: Any, factors: FloatArray,
    shared: Shared,
) -> MulticlassProblem:  # fmt: skip
    """The rows of a chunk as they stay on a worker."""
    _require_shape(X, shape, "X")
    _require_shape(y, shape[:1], "y")
    _require_shape(weights, shape[:1], "sample_weight")
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    labels = np.searchsorted(classes, y)
    return shared.problem(X, labels, weights * factors[labels])
