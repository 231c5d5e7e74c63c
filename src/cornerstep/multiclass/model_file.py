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
    Labels,
    Maybe,
    Number,
    Proof,
    Rows,
    Schema,
)

_OF_WEIGHTS = ("coef_", "intercept_")
_OF_KERNELS = (
    "support_", "_support_rows", "_machine", "_kernel_fit", "_constant_fit", "kernel_shift_",
)  # fmt: skip


def _optional(estimator: Any) -> tuple[str, ...]:
    linear = hasattr(estimator, "coef_")
    return ("feature_names_in_", *(_OF_KERNELS if linear else _OF_WEIGHTS))


SCHEMA = Schema(
    {"tol": Number(0), "atol": Number(0)},
    {
        "_kernel_fit": KERNEL, "n_features_in_": Count("d"),
        "classes_": Labels(r=lambda m: 1 if m == 2 else m),
        "feature_names_in_": Array(("O",), "d"), "coef_": Array(FLOAT, "r", "d"),
        "intercept_": Array(FLOAT, "r"), "dual_coef_": Maybe(Rows(FLOAT, "n", "m")),
        "machines_": Each(Proof(), length=1), "kernel_shift_": Float(0), "_constant_fit": Number(0),
        "smoothing_": Float(0), "support_": Array(WHOLE, "s", below="n"),
        "_support_rows": Maybe(Rows(FLOAT, "s", "d")), "_machine": Rows(DOUBLE, "s", "m"),
    },
    _optional,
    derive_sizes,
)  # fmt: skip
