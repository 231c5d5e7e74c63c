"""What a model file holds of a structured SVM, and of its structured model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from cornerstep.learning.specs import (
    DOUBLE,
    Array,
    Count,
    Each,
    Flag,
    Float,
    Integer,
    Kind,
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
from cornerstep.structured.models.chain import ChainModel
from cornerstep.structured.models.graph import GraphModel
from cornerstep.structured.models.matching import MatchingModel
from cornerstep.structured.models.multiclass import MulticlassModel
from cornerstep.structured.models.multilabel import MultilabelModel
from cornerstep.structured.models.second_order import SecondOrderChainModel
from cornerstep.structured.models.segments import SegmentModel


class _Contents(NamedTuple):
    """What a file holds of a model of the library.

    Attributes
    ----------
    specs : dict
        What its attributes must be; the file may hold these.
    weights : function of the model
        How many it must have.
    free : tuple of str
        Other attributes that the file may hold.
    """

    specs: dict[str, Spec]
    weights: Callable[[Any], int]
    free: tuple[str, ...] = ("size",)


_MODELS: dict[type[StructuredModel], _Contents] = {
    ChainModel: _Contents(
        {"transitions": Flag(), "biases": Flag(), "normalize": Flag(), "labels_": Labels(1, 32_767),
         "n_features_": Count("d")},
        lambda model: model.labels_.size * (
            model.n_features_ + 2 * bool(model.biases)
            + model.labels_.size * bool(model.transitions)
        ),
        ("labels", "constraints", "size"),
    ),
    SecondOrderChainModel: _Contents(
        {"biases": Flag(), "normalize": Flag(), "labels_": Labels(1, 200),
         "n_features_": Count("d")},
        lambda model: model.labels_.size * (
            model.n_features_ + 2 * bool(model.biases) + model.labels_.size
            + model.labels_.size**2
        ),
        ("labels", "constraints", "size"),
    ),
    SegmentModel: _Contents(
        {"normalize": Flag(), "labels_": Labels(1), "max_length_": Count("k"),
         "n_features_": Count("d", 0), "n_segment_features_": Count("q", 0)},
        lambda model: model.labels_.size * (
            model.n_features_ + model.n_segment_features_ + model.labels_.size
        ),
        ("labels", "max_length", "size"),
    ),
    MulticlassModel: _Contents(
        {"fit_intercept": Flag(), "intercept_scaling": Number(), "labels_": Labels(2, 32_767),
         "n_features_": Count("d")},
        lambda model: model.labels_.size * (model.n_features_ + bool(model.fit_intercept)),
    ),
    MultilabelModel: _Contents(
        {"fit_intercept": Flag(), "normalize": Flag(), "n_labels_": Count("t"),
         "n_features_": Count("d"), "edges_": Array(("i8",), "e", 2, below="t"),
         "attractive": Flag()},
        lambda model: model.n_labels_ * (model.n_features_ + bool(model.fit_intercept))
        + 4 * len(model.edges_),
        ("edges", "size"),
    ),
    GraphModel: _Contents(
        {"normalize": Flag(), "labels_": Labels(1), "n_features_": Count("d"),
         "n_edge_features_": Count("q", 0), "attractive": Flag()},
        lambda model: model.labels_.size * (
            model.n_features_ + model.labels_.size * model.n_edge_features_
        ),
        ("labels", "size"),
    ),
    MatchingModel: _Contents(
        {"normalize": Flag(), "size": Count("w")}, lambda model: model.size, ()
    ),
}  # fmt: skip


def _write_model(model: StructuredModel, encode: Any, name: str) -> Any:
    """A model of the library by its contents, one of the user's own by all its attributes.

    What the class says itself is left out.
    """
    contents = _MODELS.get(type(model))
    names = vars(model) if contents is None else (*contents.specs, *contents.free)
    defaults = vars(type(model))
    kept = {
        key: value
        for key, value in vars(model).items()
        if key not in defaults or value is not defaults[key]
    }
    parts = {key: encode(kept[key], f"{name}.{key}") for key in names if key in kept}
    return [type(model).__name__, parts]


def _read_model(content: list[Any], decode: Any) -> StructuredModel:
    kind, parts = content
    for known, contents in _MODELS.items():
        if known.__name__ == kind and set(parts) <= {*contents.specs, *contents.free}:
            return _with(object.__new__(known), parts, decode)
    raise ValueError(f"there is no structured model {kind!r} with {sorted(parts)}")


def _read_own_model(content: list[Any], decode: Any) -> StructuredModel:
    kind, parts = content
    if type(decode.model).__name__ != kind:
        raise ValueError(
            f"it was trained with a structured model of the class {kind}, which is not the "
            f"library's: call load(path, model={kind}(...)) with an object of that class"
        )
    return _with(copy.copy(decode.model), parts, decode)


def _with(model: StructuredModel, parts: dict[str, Any], decode: Any) -> StructuredModel:
    """A new model, given its attributes."""
    for key, part in parts.items():
        setattr(model, key, decode(part))
    return model


_KINDS = (
    Kind("model", lambda value: type(value) in _MODELS, _write_model, _read_model),
    Kind("own_model", lambda value: isinstance(value, StructuredModel), _write_model,
         _read_own_model),
)  # fmt: skip


class _Model(Spec):
    """A structured model that is prepared for as many weights as there are, letter w."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, StructuredModel), name, "a structured model", value)
        Count("w").check(getattr(value, "size", None), f"{name}.size", sizes)
        if contents := _MODELS.get(type(value)):
            Record(contents.specs).check(value, name, sizes)
            size = contents.weights(value)
            require(value.size == size, f"{name}.size", str(size), value.size)


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
    kinds=_KINDS,
)  # fmt: skip
