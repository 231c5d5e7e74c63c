"""What a model file holds of a multi-class SVM."""

from __future__ import annotations

from typing import Any

from cornerstep.learning.kernel_functions import KERNEL, derive_sizes
from cornerstep.learning.specs import (
    DOUBLE,
    FLOAT,
    WHOLE,
    Array,
    Count,
    Each,
    Float,
    Kind,
    Labels,
    Maybe,
    Number,
    Proof,
    Rows,
    Schema,
)
from cornerstep.multiclass import losses
from cornerstep.multiclass.entropic import Softmax, TopKEntropy
from cornerstep.multiclass.squared import SquaredHinge

_LOSSES = {
    kind.__name__: kind
    for kind in (
        losses.Loss, losses.MaxHinge, losses.CostSensitive, losses.TopK, losses.Usunier,
        losses.WeightedTopK, losses.WeightedUsunier,
    )
}  # fmt: skip
_PARTS = ("rho", "costs", "per_example")

_OF_WEIGHTS = ("coef_", "intercept_")
_OF_KERNELS = (
    "support_", "_support_rows", "_machine", "_kernel_fit", "_constant_fit", "kernel_shift_",
    "whole_bound_",
)  # fmt: skip


def _optional(estimator: Any) -> tuple[str, ...]:
    linear = hasattr(estimator, "coef_")
    return (
        "feature_names_in_",
        "temperature_",
        "whole_bound_",
        *(_OF_KERNELS if linear else _OF_WEIGHTS),
    )


def _write_loss(loss: losses.Loss, encode: Any, name: str) -> Any:
    parts = {key: encode(getattr(loss, key), f"{name}.{key}") for key in _PARTS}
    return [type(loss).__name__, parts]


def _read_loss(content: list[Any], decode: Any) -> losses.Loss:
    kind, parts = content
    if kind not in _LOSSES:
        raise ValueError(f"there is no loss {kind!r}")
    read = {key: decode(parts[key]) for key in _PARTS}
    loss = object.__new__(_LOSSES[kind])
    losses.Loss.__init__(loss, read.pop("rho"), **read)
    return loss


def _write_entropic(loss: TopKEntropy, encode: Any, name: str) -> Any:
    return [isinstance(loss, Softmax), loss.k, loss.margin]


def _read_entropic(content: list[Any], decode: Any) -> TopKEntropy:
    softmax, k, margin = content
    return Softmax(margin) if softmax else TopKEntropy(k, margin)


_KINDS = (
    Kind("loss", lambda value: type(value) in _LOSSES.values(), _write_loss, _read_loss),
    Kind(
        "entropic loss", lambda value: type(value) in (Softmax, TopKEntropy),
        _write_entropic, _read_entropic,
    ),
    Kind(
        "squared hinge", lambda value: type(value) is SquaredHinge,
        lambda loss, encode, name: [], lambda content, decode: SquaredHinge(),
    ),
)  # fmt: skip

SCHEMA = Schema(
    {"tol": Number(0), "atol": Number(0)},
    {
        "_kernel_fit": KERNEL, "n_features_in_": Count("d"),
        "classes_": Labels(r=lambda m: 1 if m == 2 else m),
        "feature_names_in_": Array(("O",), "d"), "coef_": Array(FLOAT, "r", "d"),
        "intercept_": Array(FLOAT, "r"), "dual_coef_": Maybe(Rows(FLOAT, "n", "m")),
        "machines_": Each(Proof(), length=1), "kernel_shift_": Float(0), "_constant_fit": Number(0),
        "smoothing_": Float(0), "temperature_": Float(0), "support_": Array(WHOLE, "s", below="n"),
        "whole_bound_": Float(0),
        "_support_rows": Maybe(Rows(FLOAT, "s", "d")), "_machine": Rows(DOUBLE, "s", "m"),
    },
    _optional,
    derive_sizes,
    _KINDS,
)  # fmt: skip
