"""What a fitted estimator is made of: type, shape and range of all that a model file sets.

``SCHEMAS`` has a table for each estimator: the parameters that its answers depend on, and its
fitted attributes.  Sizes are letters, which mean one number throughout a model: the first
attribute that has a letter says which, and all others must agree.

====  ===========================================  ====  ==========================================
 d    features                                      n    training examples
 m    classes                                       s    support vectors
 r    rows of weights: 1 for two classes, else m    p    machines, each with a certificate
 w    weights of a structured model                v, c  support vectors that are kept: s, d or none
====  ===========================================  ====  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cornerstep.boosting import parameters as boosting_parameters
from cornerstep.data.arrays import is_foreign, to_numpy
from cornerstep.kernel_svm.estimator import ReducedHullSVC
from cornerstep.learning.kernel_functions import KERNELS
from cornerstep.learning.specs import (
    Array,
    Count,
    Each,
    Fields,
    Flag,
    Float,
    Integer,
    Labels,
    Maybe,
    Number,
    OneOrEach,
    Record,
    Rows,
    Sizes,
    Spec,
    StatusOf,
    TraceOf,
    Trees,
    Word,
    require,
)
from cornerstep.multiclass import parameters as multiclass_input
from cornerstep.structured.estimator import StructuredSVC
from cornerstep.structured.models.base import StructuredModel

_DOUBLE, _WHOLE = ("f8",), ("i4", "i8")
_FLOAT = ("f4", "f8")
_KERNEL = Fields(Word(*KERNELS), Float(0), Number(0), Number())  # name, gamma, degree, coef0
_CERTIFIED: dict[str, Spec] = {
    "objective_": Float(), "dual_objective_": Float(), "gap_": Float(),
    "relative_gap_": Float(), "status_": StatusOf(), "n_iter_": Integer(), "trace_": TraceOf(),
}  # fmt: skip


class _Stage(Spec):
    """A stage of a boosting machine: its round, its hypotheses and their weights."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, tuple) and len(value) == 3, name, "a stage", value)
        Integer().check(value[0], f"{name} (round)", sizes)
        require(isinstance(value[1], list), name, "a list of trees", value[1])
        Array(_DOUBLE, "h").check(value[2], f"{name} (weights)", {"h": len(value[1])})


class _BoostingMachine(Record):
    """One machine of boosting; all its trees are looked at together, each once."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(type(value).__name__ == "Machine", name, "a machine", value)
        super().check(value, name, sizes | {"h": len(value.hypotheses)})
        stages = (tree for stage in value.stages for tree in stage[1])
        every = {id(tree): tree for tree in (*value.hypotheses, *stages)}
        Trees().check(list(every.values()), f"{name}.hypotheses", sizes)


_MACHINE = _BoostingMachine({
    "weights": Array(_DOUBLE, "h"), "soft_margin": Float(), "bound": Float(),
    "status": StatusOf(), "n_iter": Integer(), "trace": TraceOf(), "margins": Array(_DOUBLE, "n"),
    "distribution": Array(_DOUBLE, "n"), "stages": Each(_Stage()),
})  # fmt: skip

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
         "n_features_": Count("d"), "edges_": Array(("i8",), "e", 2, below="t")},
        lambda model: model.n_labels_ * (model.n_features_ + bool(model.fit_intercept))
        + 4 * len(model.edges_),
    ),
    "GraphModel": (
        {"normalize": Flag(), "labels_": Labels(1), "n_features_": Count("d"),
         "n_edge_features_": Count("q", 0)},
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


#: The parameters and the fitted attributes of each estimator: nothing else is written or set.
SCHEMAS: dict[str, tuple[dict[str, Spec], dict[str, Spec]]] = {
    "MulticlassSVC": (
        {"tol": Number(0)},
        {
            "_kernel_fit": _KERNEL, "n_features_in_": Count("d"),
            "classes_": Labels(r=lambda m: 1 if m == 2 else m),
            "feature_names_in_": Array(("O",), "d"), "coef_": Array(_FLOAT, "r", "d"),
            "intercept_": Array(_FLOAT, "r"), "dual_coef_": Maybe(Rows(_FLOAT, "n", "m")),
            **_CERTIFIED, "kernel_shift_": Float(0), "_constant_fit": Number(0),
            "support_": Array(_WHOLE, "s", below="n"),
            "_support_rows": Maybe(Rows(_FLOAT, "s", "d")), "_machine": Rows(_DOUBLE, "s", "m"),
        },
    ),
    "ReducedHullSVC": (
        {"tol": Number(0)},
        {
            "_kernel_fit": _KERNEL, "n_features_in_": Count("d"),
            "classes_": Labels(p=lambda m: m * (m - 1) // 2, r=lambda m: m - 1),
            "feature_names_in_": Array(("O",), "d"), "_shape_fit": Each(Count(None), length=2),
            "support_": Array(_WHOLE, "s", below="n"), "support_vectors_": Rows(_FLOAT, "v", "c"),
            "n_support_": Array(_WHOLE, "m", total="s"), "dual_coef_": Array(_DOUBLE, "r", "s"),
            "_machines": Array(_DOUBLE, "p", "s"), "intercept_": Array(_DOUBLE, "p"),
            **{
                f"{name}_": OneOrEach(Float(), Array(_DOUBLE, "p", finite=False))
                for name in ("C", "nu", "K", "margin", "objective", "gap")
            },
            "status_": OneOrEach(StatusOf(), Each(StatusOf(), "p")), "n_iter_": Array(_WHOLE, "p"),
            "n_kernel_evaluations_": Integer(),
            "trace_": OneOrEach(TraceOf(), Each(TraceOf(), "p")),
        },
    ),
    "SoftMarginBoostingClassifier": (
        {"tol": Number(0)},
        {
            "n_features_in_": Count("d"), "classes_": Labels(p=lambda m: 1 if m == 2 else m),
            "feature_names_in_": Array(("O",), "d"), "bound_is_exact_": Flag(),
            "estimators_": OneOrEach(Trees(), Each(Trees(), "p")),
            "estimator_weights_": OneOrEach(Array(_DOUBLE, "_"), Each(Array(_DOUBLE, "_"), "p")),
            **{
                name: OneOrEach(Float(), Array(_DOUBLE, "p"))
                for name in ("soft_margin_", "bound_", "gap_")
            },
            "margins_": OneOrEach(Array(_DOUBLE, "n"), Array(_DOUBLE, "n", "p")),
            "example_weights_": OneOrEach(Array(_DOUBLE, "n"), Array(_DOUBLE, "n", "p")),
            "status_": StatusOf(), "n_iter_": Integer(),
            "trace_": OneOrEach(TraceOf(), Each(TraceOf(), "p")), "_kind": Word("tree"),
            "_reweighted": Flag(), "_machines": Each(_MACHINE, "p"),
            "_importances": Maybe(Array(_DOUBLE, "d")),
        },
    ),
    "StructuredSVC": (
        {"tol": Number(0), "rtol": Number(0), "n_jobs": Maybe(Integer(None))},
        {
            "n_features_in_": Count("d"), "model_": _Model(), "coef_": Array(_DOUBLE, "w"),
            "lam_": Float(0), **_CERTIFIED, "n_oracle_calls_": Integer(),
        },
    ),
}  # fmt: skip

#: What each estimator asks of its parameters when it is fitted.
_CHECKS: dict[str, Callable[[Any], None]] = {
    "MulticlassSVC": multiclass_input.check_parameters,
    "ReducedHullSVC": ReducedHullSVC._check_parameters,
    "SoftMarginBoostingClassifier": boosting_parameters.check_parameters,
    "StructuredSVC": StructuredSVC._check_parameters,
}

_ALWAYS_OPTIONAL = ("feature_names_in_",)
_OF_WEIGHTS = ("coef_", "intercept_")
_OF_KERNELS = (
    "support_", "_support_rows", "_machine", "_kernel_fit", "_constant_fit", "kernel_shift_",
)  # fmt: skip


def check_model(estimator: Any) -> None:
    """Say which parameter or attribute of a fitted estimator cannot be what it is.

    Parameters that predictions depend on are in the table; the others are the estimator's affair.

    Parameters
    ----------
    estimator : estimator whose parameters and attributes are set

    Raises
    ------
    ValueError
    """
    parameters, attributes = SCHEMAS[type(estimator).__name__]
    sizes: Sizes = {}
    _CHECKS[type(estimator).__name__](estimator)
    for name, spec in parameters.items():
        spec.check(_as_kept(getattr(estimator, name)), name, sizes)
    optional = _optional(estimator)
    for name, spec in attributes.items():
        if hasattr(estimator, name):
            spec.check(_as_kept(getattr(estimator, name)), name, sizes)
            _derive(estimator, name, sizes)
        elif name not in optional:
            raise ValueError(f"it has no {name}")


def _as_kept(value: Any) -> Any:
    """A value as model files have it: tensors as arrays, numbers of NumPy as numbers."""
    value = to_numpy(value) if is_foreign(value) else value
    return value.item() if isinstance(value, np.generic) else value


def _optional(estimator: Any) -> tuple[str, ...]:
    """Attributes that an estimator of these parameters may lack."""
    if type(estimator).__name__ == "StructuredSVC":
        return () if hasattr(getattr(estimator, "model_", None), "n_features_") else (
            "n_features_in_",
        )  # fmt: skip
    if type(estimator).__name__ != "MulticlassSVC":
        return _ALWAYS_OPTIONAL
    return _ALWAYS_OPTIONAL + (_OF_KERNELS if hasattr(estimator, "coef_") else _OF_WEIGHTS)


def _derive(estimator: Any, name: str, sizes: Sizes) -> None:
    """What one attribute says of others."""
    value, precomputed = getattr(estimator, name), _is_precomputed(estimator)
    if name == "n_features_in_" and precomputed:
        sizes["n"] = sizes["d"]
    elif name == "_shape_fit":
        require(value[1] == sizes["d"], f"{name}[1]", f"{sizes['d']}, as n_features_in_", value[1])
        sizes["n"] = value[0]
    elif name == "support_":
        sizes.update({"v": 0, "c": 0} if precomputed else {"v": sizes["s"], "c": sizes["d"]})
    elif name == "_support_rows":
        must = "None" if precomputed else "the support vectors"
        require((value is None) == precomputed, name, must, value)


def _is_precomputed(estimator: Any) -> bool:
    return hasattr(estimator, "_kernel_fit") and estimator._kernel_fit[0] == "precomputed"
