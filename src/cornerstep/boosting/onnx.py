"""Boosted trees as a node of an ONNX graph.

ONNX compares float32 features with float32 thresholds.  Thresholds are rounded down so that float32
values fall on the side they do in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.boosting.machine import Machine
from cornerstep.core.types import FloatArray


def tree_ensemble(machines: list[Machine]) -> Any:
    """All machines in one TreeEnsembleRegressor: a target for each."""
    from onnx import helper

    parts: dict[str, Any] = {
        name: []
        for name in (
            "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
            "nodes_truenodeids", "nodes_falsenodeids", "target_treeids", "target_nodeids",
            "target_ids", "target_weights",
        )
    }  # fmt: skip
    number = 0
    for target, machine in enumerate(machines):
        for tree, weight in zip(machine.hypotheses, machine.weights, strict=True):
            _add_tree(parts, number, target, tree, float(weight))
            number += 1
    return helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["scores"], domain="ai.onnx.ml",
        n_targets=len(machines), aggregate_function="SUM",
        post_transform="NONE", **parts,
    )  # fmt: skip


def _add_tree(parts: dict[str, Any], number: int, target: int, tree: Any, weight: float) -> None:
    """A heap of nodes: children of v are 2v + 1 and 2v + 2; the leaves come last."""
    inner = tree.features.size
    thresholds = _rounded_down(tree.thresholds)
    for v in range(2 * inner + 1):
        leaf = v >= inner
        parts["nodes_treeids"].append(number)
        parts["nodes_nodeids"].append(v)
        parts["nodes_featureids"].append(0 if leaf else int(tree.features[v]))
        parts["nodes_values"].append(0.0 if leaf else float(thresholds[v]))
        parts["nodes_modes"].append("LEAF" if leaf else "BRANCH_LEQ")
        parts["nodes_truenodeids"].append(0 if leaf else 2 * v + 1)
        parts["nodes_falsenodeids"].append(0 if leaf else 2 * v + 2)
        if leaf:
            parts["target_treeids"].append(number)
            parts["target_nodeids"].append(v)
            parts["target_ids"].append(target)
            parts["target_weights"].append(weight * float(tree.leaves[v - inner]))


def _rounded_down(values: FloatArray) -> FloatArray:
    """The largest float32 numbers that are not above: ``x <= t`` stays the same for float32 x."""
    rounded = values.astype(np.float32)
    above = rounded.astype(np.float64) > values
    rounded[above] = np.nextafter(rounded[above], np.float32(-np.inf))
    return np.where(np.isinf(values), np.float32(np.finfo(np.float32).max), rounded)
