"""Pipelines of scikit-learn around a certified estimator: their last step, and what it is given."""

from __future__ import annotations

from typing import Any


def is_pipeline(estimator: Any) -> bool:
    """Whether an estimator is a pipeline; scikit-learn's are not imported for the question."""
    return hasattr(estimator, "named_steps")


def last_step(estimator: Any) -> Any:
    """The estimator at the end of a pipeline; any other estimator is its own."""
    while is_pipeline(estimator):
        estimator = estimator.steps[-1][1]
    return estimator


def prepared(estimator: Any, X: Any) -> Any:
    """X as it arrives at the last step of a pipeline."""
    while is_pipeline(estimator):
        X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        estimator = estimator.steps[-1][1]
    return X


def prepared_names(estimator: Any) -> list[str] | None:
    """Names of the features that arrive at the last step of a pipeline, where they are known."""
    if not is_pipeline(estimator) or len(estimator.steps) == 1:
        return None
    try:
        return [str(name) for name in estimator[:-1].get_feature_names_out()]
    except (ValueError, AttributeError):  # a name twice, or a step that gives none
        return None
