"""Problems whose rows are not in this process's memory: streamed from disk, or on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from cornerstep.data.rows import Rows
from cornerstep.learning.targets import classes_and_labels, example_weights
from cornerstep.multiclass.distributed.partitions import Shared, SpreadProblem
from cornerstep.multiclass.examples import holds
from cornerstep.multiclass.parameters import Posed, given_loss, require_plain, smoothing_of


def require_spreadable(model: Any, what: str) -> None:
    """Complain about what needs all rows in memory."""
    require_plain(model, what)
    if model.warm_start:
        raise ValueError(f"warm_start must be False for {what}: give a checkpoint instead")


def shared_of(model: Any, m: int, n: int) -> Shared:
    """What all partitions share, of an estimator's parameters, m classes and n examples."""
    constant = model.intercept_scaling if model.fit_intercept else 0.0
    return Shared(m, given_loss(model, m, n), smoothing_of(model, m), constant)


def pose_streamed(model: Any, rows: Rows, y: Any, sample_weight: Any) -> Posed:
    """The problem of an estimator's parameters on rows on disk."""
    from cornerstep.multiclass.distributed.streamed import StreamExecutor

    require_spreadable(model, "rows on disk")
    n, d = rows.shape
    if y is None and rows.target is None:
        raise ValueError("y must be given: the rows on disk have no labels of their own (target)")
    y = rows.target if y is None else column_or_1d(np.asarray(y), warn=True)
    if n == 0 or d == 0:
        raise ValueError(f"X must have rows and features, got shape {rows.shape}")
    check_consistent_length(rows, y)
    classes, labels = classes_and_labels(y)
    weights = example_weights(y, labels, classes, sample_weight, model.class_weight)
    if not (weights > 0).any():
        raise ValueError("sample_weight times class_weight must be positive for some example")
    shared = shared_of(model, classes.size, n)
    executor = StreamExecutor(rows, labels, model.C * weights, shared)
    problem = SpreadProblem(
        executor,
        shared,
        n,
        d + bool(shared.constant),
        rows.sparse,
        rows.dtype != np.float64 and holds(rows.dtype, shared.constant),
    )
    return Posed(problem, np.ones(n, dtype=bool), rows, classes, rows.feature_names)
