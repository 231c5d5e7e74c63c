"""What a model file holds of kernel machines."""

from __future__ import annotations

from cornerstep.learning.kernel_functions import KERNEL, derive_sizes
from cornerstep.learning.specs import (
    DOUBLE,
    FLOAT,
    WHOLE,
    Array,
    Count,
    Each,
    Float,
    Integer,
    Labels,
    Maybe,
    Number,
    OneOrEach,
    Proof,
    Rows,
    Schema,
)

_STOPPING = {"tol": Number(0), "atol": Number(0), "n_jobs": Maybe(Integer(None))}

SCHEMA = Schema(
    _STOPPING,
    {
        "_kernel_fit": KERNEL, "n_features_in_": Count("d"),
        "classes_": Labels(p=lambda m: m * (m - 1) // 2, r=lambda m: m - 1),
        "feature_names_in_": Array(("O",), "d"), "_shape_fit": Each(Count(None), length=2),
        "support_": Array(WHOLE, "s", below="n"), "support_vectors_": Rows(FLOAT, "v", "c"),
        "n_support_": Array(WHOLE, "m", total="s"), "dual_coef_": Array(DOUBLE, "r", "s"),
        "intercept_": Array(DOUBLE, "p"),
        **{
            f"{name}_": OneOrEach(Float(), Array(DOUBLE, "p", finite=False))
            for name in ("C", "nu", "K", "margin")
        },
        "machines_": Each(Proof(), "p"), "n_kernel_evaluations_": Integer(),
        "kernel_shift_": Float(0),
    },
    lambda estimator: ("feature_names_in_", "kernel_shift_"),  # earlier releases had no shift
    derive=derive_sizes,
)  # fmt: skip

#: Of an estimator with one machine.
_SINGLE = {
    "_kernel_fit": KERNEL, "n_features_in_": Count("d"), "feature_names_in_": Array(("O",), "d"),
    "_shape_fit": Each(Count(None), length=2), "support_": Array(WHOLE, "s", below="n"),
    "support_vectors_": Rows(FLOAT, "v", "c"), "dual_coef_": Array(DOUBLE, 1, "s"),
    "machines_": Each(Proof(), length=1), "n_kernel_evaluations_": Integer(),
    "kernel_shift_": Float(0),
}  # fmt: skip

ONE_CLASS = Schema(
    {"nu": Number(0), **_STOPPING}, {**_SINGLE, "offset_": Float()}, derive=derive_sizes
)
REGRESSION = Schema(
    {"C": Number(0), "epsilon": Maybe(Number(0)), "nu": Maybe(Number(0)), **_STOPPING},
    {**_SINGLE, "intercept_": Array(DOUBLE, 1), "epsilon_": Float(0)},
    derive=derive_sizes,
)
