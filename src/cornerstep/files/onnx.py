"""``to_onnx``: linear and boosted models as ONNX graphs, for runtimes without Python.

A graph takes ``X`` (float32, any number of rows) and answers ``scores`` (a column for each class;
for two classes the score of the second) and ``label``: the number of the predicted class in
``classes_``, whose names are in the metadata of the model as JSON.

- linear: ``scores = X W' + b``;
- boosted trees: ``scores_k = sum_j w_kj h_kj(X)``, one tree ensemble for each machine.

ONNX compares float32 features with float32 thresholds.  Thresholds are rounded down so that float32
values fall on the side they do in float64.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from cornerstep.core.output import replacing
from cornerstep.core.types import FloatArray


def to_onnx(estimator: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """A fitted estimator as an ONNX model.

    Parameters
    ----------
    estimator : MulticlassSVC with a linear kernel, or SoftMarginBoostingClassifier on trees
    path : path-like, optional
        Where to write the model.

    Returns
    -------
    onnx.ModelProto
    """
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX export needs onnx: pip install 'cornerstep[onnx]'") from None
    from onnx import TensorProto, helper

    from cornerstep.core.version import __version__

    if getattr(estimator, "kernel", None) == "linear" and hasattr(estimator, "coef_"):
        nodes, weights = _linear(estimator)
    elif getattr(estimator, "_kind", None) == "tree":
        nodes, weights = _trees(estimator)
    else:
        raise ValueError(
            "estimator must be a fitted MulticlassSVC with kernel='linear' or a "
            f"SoftMarginBoostingClassifier on trees, got {estimator!r}"
        )
    binary = estimator.classes_.size == 2
    columns = 1 if binary else int(estimator.classes_.size)
    if binary:
        zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])
        nodes += [
            helper.make_node("Greater", ["scores", "zero"], ["positive"]),
            helper.make_node("Cast", ["positive"], ["column"], to=TensorProto.INT64),
            helper.make_node("Squeeze", ["column", "axis"], ["label"]),
        ]
        weights += [zero, helper.make_tensor("axis", TensorProto.INT64, [1], [1])]
    else:
        nodes.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
    graph = helper.make_graph(
        nodes,
        type(estimator).__name__,
        [
            helper.make_tensor_value_info(
                "X", TensorProto.FLOAT, [None, int(estimator.n_features_in_)]
            )
        ],
        [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, columns]),
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
        ],
        weights,
    )
    model = helper.make_model(
        graph,
        producer_name="cornerstep",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)],
    )
    model.ir_version = 8
    helper.set_model_props(model, {"classes": json.dumps(estimator.classes_.tolist())})
    onnx.checker.check_model(model)
    if path is not None:
        with replacing(path) as file:
            file.write(model.SerializeToString())
    return model


def _linear(estimator: Any) -> tuple[list[Any], list[Any]]:
    from onnx import helper, numpy_helper

    weights = [
        numpy_helper.from_array(estimator.coef_.astype(np.float32), "W"),
        numpy_helper.from_array(estimator.intercept_.astype(np.float32), "b"),
    ]
    return [helper.make_node("Gemm", ["X", "W", "b"], ["scores"], transB=1)], weights


def _trees(estimator: Any) -> tuple[list[Any], list[Any]]:
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
    for target, machine in enumerate(estimator._machines):
        for tree, weight in zip(machine.hypotheses, machine.weights, strict=True):
            _add_tree(parts, number, target, tree, float(weight))
            number += 1
    node = helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["scores"], domain="ai.onnx.ml",
        n_targets=len(estimator._machines), aggregate_function="SUM",
        post_transform="NONE", **parts,
    )  # fmt: skip
    return [node], []


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
