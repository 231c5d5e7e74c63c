"""What a model file holds of a boosted ensemble."""

from __future__ import annotations

from dataclasses import fields
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
    Kind,
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


def _write_tree(tree: Tree, encode: Any, name: str) -> Any:
    return [encode(part, f"{name}.{k}") for k, part in enumerate(tree)]


def _read_tree(parts: list[Any], decode: Any) -> Tree:
    return Tree(*(decode(part) for part in parts))


def _are_trees(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(v, Tree) for v in value)


def _write_trees(trees: list[Tree], encode: Any, name: str) -> Any:
    """Trees as one array for each of their parts: there may be thousands."""
    sizes = np.array([tree.features.size for tree in trees])
    parts = [np.concatenate(part) for part in zip(*trees, strict=True)]
    return [encode(part, f"{name}.{k}") for k, part in enumerate([sizes, *parts])]


def _read_trees(parts: list[Any], decode: Any) -> list[Tree]:
    sizes, features, thresholds, leaves = (decode(part) for part in parts)
    _require_parts(sizes, features, "trees")
    _require_parts(sizes, thresholds, "trees")
    _require_parts(sizes + 1, leaves, "trees")
    at, at_leaves = np.cumsum(sizes)[:-1], np.cumsum(sizes + 1)[:-1]
    pieces = (np.split(features, at), np.split(thresholds, at), np.split(leaves, at_leaves))
    return [Tree(*each) for each in zip(*pieces, strict=True)]


def _write_machine(machine: Machine, encode: Any, name: str) -> Any:
    """A machine: its stages share their hypotheses with each other."""
    parts = {f.name: getattr(machine, f.name) for f in fields(machine)}
    hypotheses, stages = parts.pop("hypotheses"), parts.pop("stages")
    every = hypotheses + [h for _, members, _ in stages for h in members]
    pool = {id(h): h for h in every}
    number = {key: k for k, key in enumerate(pool)}
    parts["pool"] = list(pool.values())
    parts["hypotheses"] = np.array([number[id(h)] for h in hypotheses], np.int64)
    parts["stage_rounds"] = np.array([stage[0] for stage in stages], np.int64)
    parts["stage_sizes"] = np.array([len(stage[1]) for stage in stages], np.int64)
    parts["stage_members"] = np.array(
        [number[id(h)] for _, members, _ in stages for h in members], np.int64
    )
    parts["stage_weights"] = np.concatenate([np.zeros(0), *(stage[2] for stage in stages)])
    return {key: encode(part, f"{name}.{key}") for key, part in parts.items()}


def _read_machine(parts: dict[str, Any], decode: Any) -> Machine:
    read = {key: decode(part) for key, part in parts.items()}
    pool, rounds = read.pop("pool"), read.pop("stage_rounds").tolist()
    sizes, every = read.pop("stage_sizes"), read.pop("stage_members")
    shares = read.pop("stage_weights")
    _require_parts(sizes, every, "stages")
    _require_parts(sizes, shares, "stages")
    ends = np.cumsum(sizes)[:-1]
    read["hypotheses"] = _chosen(pool, read["hypotheses"])
    read["stages"] = [
        (number, _chosen(pool, members), weights)
        for number, members, weights in zip(
            rounds, np.split(every, ends), np.split(shares, ends), strict=True
        )
    ]
    return Machine(**read)


def _require_parts(sizes: Any, whole: Any, name: str) -> None:
    """Complain unless the parts of these sizes, none empty, make up the whole."""
    fits = all(isinstance(part, np.ndarray) and part.ndim == 1 for part in (sizes, whole))
    fits = fits and sizes.dtype == np.int64 and (sizes > 0).all() and (sizes <= whole.size).all()
    if not fits or sizes.sum() != whole.size:
        raise ValueError(f"the sizes of its {name} do not fit")


def _chosen(pool: list[Any], numbers: Any) -> list[Any]:
    """Members of a pool by their numbers."""
    if numbers.ndim != 1 or (numbers.size and not 0 <= numbers.min() <= numbers.max() < len(pool)):
        raise ValueError(f"hypotheses must be numbers from 0 to {len(pool) - 1}")
    return [pool[k] for k in numbers]


_KINDS = (
    Kind("tree", lambda value: isinstance(value, Tree), _write_tree, _read_tree),
    Kind("trees", _are_trees, _write_trees, _read_trees),
    Kind("machine", lambda value: isinstance(value, Machine), _write_machine, _read_machine),
)


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
    kinds=_KINDS,
)  # fmt: skip
