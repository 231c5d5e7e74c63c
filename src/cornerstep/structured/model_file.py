"""What a model file holds of a structured SVM, and of its structured model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cornerstep.learning.specs import (
    DOUBLE,
    Array,
    Count,
    Each,
    Flag,
    Float,
    Integer,
    Labels,
    Maybe,
    Number,
    Proof,
    Record,
    Schema,
    Sizes,
    Spec,
    require,
)
from cornerstep.structured.models.base import StructuredModel

_MODELS: dict[str, tuple[dict[str, Spec], Callable[[Any], int]]] = {
    "ChainModel": (
        {"transitions": Flag(), "biases": Flag(), "normalize": Flag(), "labels_": Labels(1, 32_767),
         "n_features_": Count("d")},
        lambda model: model.labels_.size * (
            model.n_features_ + 2 * bool(model.biases)
            + model.labels_.size * bool(model.transitions)
        ),
    ),
    "MulticlassModel": (
        {"fit_intercept": Flag(), "intercept_scaling": Number(), "labels_": Labels(2, 32_767),
         "n_features_": Count("d")},
        lambda model: model.labels_.size * (model.n_features_ + bool(model.fit_intercept)),
    ),
    "MultilabelModel": (
        {"fit_intercept": Flag(), "normalize": Flag(), "n_labels_": Count("t"),
         "n_features_": Count("d"), "edges_": Array(("i8",), "e", 2, below="t"),
         "attractive": Flag()},
        lambda model: model.n_labels_ * (model.n_features_ + bool(model.fit_intercept))
        + 4 * len(model.edges_),
    ),
    "GraphModel": (
        {"normalize": Flag(), "labels_": Labels(1), "n_features_": Count("d"),
         "n_edge_features_": Count("q", 0), "attractive": Flag()},
        lambda model: model.labels_.size * (
            model.n_features_ + model.labels_.size * model.n_edge_features_
        ),
    ),
    "MatchingModel": ({"normalize": Flag(), "size": Count("w")}, lambda model: model.size),
}  # fmt: skip


class _Model(Spec):
    """A structured model that is prepared for as many weights as there are, letter w."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, StructuredModel), name, "a structured model", value)
        Count("w").check(getattr(value, "size", None), f"{name}.size", sizes)
        if type(value).__name__ in _MODELS:
            parts, weights = _MODELS[type(value).__name__]
            Record(parts).check(value, name, sizes)
            require(value.size == weights(value), f"{name}.size", str(weights(value)), value.size)


def _optional(estimator: Any) -> tuple[str, ...]:
    flat = hasattr(getattr(estimator, "model_", None), "n_features_")
    return () if flat else ("n_features_in_",)


SCHEMA = Schema(
    {"tol": Number(0), "atol": Number(0), "n_jobs": Maybe(Integer(None))},
    {
        "n_features_in_": Count("d"), "model_": _Model(), "coef_": Array(DOUBLE, "w"),
        "lam_": Float(0), "machines_": Each(Proof(), length=1), "n_oracle_calls_": Integer(),
    },
    _optional,
)  # fmt: skip
