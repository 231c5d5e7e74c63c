"""Problems whose rows are not in this process's memory: streamed from disk, or on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from cornerstep.data.rows import Rows
from cornerstep.learning.targets import classes_and_labels, example_weights
from cornerstep.multiclass.distributed.partitions import Shared, SpreadProblem
from cornerstep.multiclass.examples import holds
from cornerstep.multiclass.parameters import given_loss


def require_plain(model: Any, what: str) -> None:
    """Complain about what needs all rows in memory."""
    if model.kernel != "linear":
        raise ValueError(f"kernel must be 'linear' for {what}, got {model.kernel!r}")
    if model.warm_start:
        raise ValueError(f"warm_start must be False for {what}: give a checkpoint instead")


def shared_of(model: Any, n: int) -> Shared:
    """What all partitions share, of an estimator that knows its classes."""
    constant = model.intercept_scaling if model.fit_intercept else 0.0
    return Shared(model.classes_.size, given_loss(model, n), float(model.smoothing), constant)


def pose_streamed(
    model: Any, rows: Rows, y: Any, sample_weight: Any
) -> tuple[SpreadProblem, Any, Any]:
    """The problem of rows on disk; see ``MulticlassSVC._pose``."""
    from cornerstep.multiclass.distributed.streamed import StreamCrew

    require_plain(model, "rows on disk")
    n, d = rows.shape
    if y is None and rows.target is None:
        raise ValueError("y must be given: the rows on disk have no labels of their own (target)")
    y = rows.target if y is None else column_or_1d(np.asarray(y), warn=True)
    if n == 0 or d == 0:
        raise ValueError(f"X must have rows and features, got shape {rows.shape}")
    check_consistent_length(rows, y)
    model.n_features_in_ = d
    model.__dict__.pop("feature_names_in_", None)
    if rows.feature_names is not None:
        model.feature_names_in_ = np.asarray(rows.feature_names, dtype=object)
    model.classes_, labels = classes_and_labels(y)
    weights = example_weights(y, labels, model.classes_, sample_weight, model.class_weight)
    if not (weights > 0).any():
        raise ValueError("sample_weight times class_weight must be positive for some example")
    shared = shared_of(model, n)
    crew = StreamCrew(rows, labels, model.C * weights, shared)
    problem = SpreadProblem(
        crew,
        shared,
        n,
        d + bool(shared.constant),
        rows.sparse,
        rows.dtype != np.float64 and holds(rows.dtype, shared.constant),
    )
    return problem, np.ones(n, dtype=bool), rows
