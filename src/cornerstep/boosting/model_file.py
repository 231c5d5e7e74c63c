"""What a model file holds of a boosted ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.boosting.binning import Tree
from cornerstep.boosting.machine import Machine
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
    OneOrEach,
    Record,
    Schema,
    Sizes,
    Spec,
    StatusOf,
    TraceOf,
    Word,
    require,
)

_DEEPEST = 16  # of a tree


class Trees(Spec):
    """A list of complete trees over d features."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, list) and value, name, "a list of trees", value)
        require(all(isinstance(tree, Tree) for tree in value), name, "a list of trees", value)
        counts = set()
        for part, dtype in (("features", "i8"), ("thresholds", "f8"), ("leaves", "f8")):
            arrays = [getattr(tree, part) for tree in value]
            fits = all(isinstance(a, np.ndarray) and a.ndim == 1 for a in arrays)
            fits = fits and {a.dtype for a in arrays} == {np.dtype(dtype)}
            require(fits, f"{part} of {name}", f"arrays of {np.dtype(dtype)}", arrays[0])
        for tree in value:
            counts.add((tree.features.size, tree.thresholds.size, tree.leaves.size))
        depths = {(2**k - 1, 2**k - 1, 2**k) for k in range(1, _DEEPEST + 1)}
        require(counts <= depths, name, "complete trees", max(counts))
        Array(("i8",), "_", below="d").check(
            np.concatenate([tree.features for tree in value]), f"features of {name}", sizes
        )
        Array(("f8",), "_").check(
            np.concatenate([tree.leaves for tree in value]), f"leaves of {name}", sizes
        )


class _Stage(Spec):
    """A stage of a boosting machine: its round, its hypotheses and their weights."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, tuple) and len(value) == 3, name, "a stage", value)
        Integer().check(value[0], f"{name} (round)", sizes)
        require(isinstance(value[1], list), name, "a list of trees", value[1])
        Array(DOUBLE, "h").check(value[2], f"{name} (weights)", {"h": len(value[1])})


class _BoostingMachine(Record):
    """One machine of boosting; all its trees are looked at together, each once."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        require(isinstance(value, Machine), name, "a machine", value)
        super().check(value, name, sizes | {"h": len(value.hypotheses)})
        stages = (tree for stage in value.stages for tree in stage[1])
        every = {id(tree): tree for tree in (*value.hypotheses, *stages)}
        Trees().check(list(every.values()), f"{name}.hypotheses", sizes)


_MACHINE = _BoostingMachine({
    "weights": Array(DOUBLE, "h"), "soft_margin": Float(), "bound": Float(),
    "status": StatusOf(), "n_iter": Integer(), "trace": TraceOf(), "margins": Array(DOUBLE, "n"),
    "distribution": Array(DOUBLE, "n"), "stages": Each(_Stage()),
})  # fmt: skip


SCHEMA = Schema(
    {"tol": Number(0), "atol": Number(0)},
    {
        "n_features_in_": Count("d"), "classes_": Labels(p=lambda m: 1 if m == 2 else m),
        "feature_names_in_": Array(("O",), "d"), "bound_is_exact_": Flag(),
        "estimators_": OneOrEach(Trees(), Each(Trees(), "p")),
        "estimator_weights_": OneOrEach(Array(DOUBLE, "_"), Each(Array(DOUBLE, "_"), "p")),
        "margins_": OneOrEach(Array(DOUBLE, "n"), Array(DOUBLE, "n", "p")),
        "example_weights_": OneOrEach(Array(DOUBLE, "n"), Array(DOUBLE, "n", "p")),
        "nu_": Number(0), "_kind": Word("tree"),
        "_reweighted": Flag(), "_machines": Each(_MACHINE, "p"),
        "_importances": Maybe(Array(DOUBLE, "d")),
    },
)  # fmt: skip
