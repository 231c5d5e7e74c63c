"""``to_onnx``: fitted models as ONNX graphs, for runtimes without Python.

A graph takes ``X`` (float32, any number of rows) and answers ``scores`` (a column for each class;
for two classes the score of the second) and ``label``: the number of the predicted class in
``classes_``, whose names are in the metadata of the model as JSON.  A regression answers ``scores``
alone: its predictions.

- linear: ``scores = X W' + b``;
- kernels: ``scores = k(X, V) A + b`` in float64, and votes of pairs of classes;
- pipelines of numbers: what is done to ``X`` before, as nodes of their own;
- boosted trees: ``scores_k = sum_j w_kj h_kj(X)``, one tree ensemble for each machine.

ONNX compares float32 features with float32 thresholds.  Thresholds are rounded down so that float32
values fall on the side they do in float64.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from cornerstep.core.optional import optional_import
from cornerstep.core.output import replacing
from cornerstep.data.arrays import made_of_numpy
from cornerstep.learning.pipelines import last_step


def to_onnx(estimator: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """A fitted estimator as an ONNX model.

    Parameters
    ----------
    estimator : fitted estimator
        Linear, with a kernel that has a name, or boosted on trees; or a pipeline that ends in one,
        after scalers, imputers, encoders and column transformers for numbers.
    path : path-like, optional
        Where to write the model.

    Returns
    -------
    onnx.ModelProto
    """
    with optional_import():
        import onnx
    from onnx import TensorProto, helper

    from cornerstep.core.version import __version__

    pipeline, estimator = estimator, last_step(estimator)
    is_alone, estimator = pipeline is estimator, made_of_numpy(estimator)
    nodes, weights = estimator.onnx_parts()
    n_features = int(estimator.n_features_in_)
    if not is_alone:
        from cornerstep.files.onnx_steps import Steps

        steps = Steps()
        ready = steps.of(pipeline, "X")
        for node in nodes:
            node.input[:] = [ready if name == "X" else name for name in node.input]
        nodes, weights = [*steps.nodes, *nodes], [*steps.constants, *weights]
        n_features = int(pipeline.n_features_in_)
    labels = list(estimator.known_labels())
    decided = any("label" in node.output for node in nodes)
    if len(labels) == 2 and not decided:
        zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])
        nodes += [
            helper.make_node("Greater", ["scores", "zero"], ["positive"]),
            helper.make_node("Cast", ["positive"], ["column"], to=TensorProto.INT64),
            helper.make_node("Squeeze", ["column", "axis"], ["label"]),
        ]
        weights += [zero, helper.make_tensor("axis", TensorProto.INT64, [1], [1])]
    elif labels and not decided:
        nodes.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
    columns = None if decided else len(labels) if len(labels) > 2 else 1
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, columns])]
    if labels:
        outputs.append(helper.make_tensor_value_info("label", TensorProto.INT64, [None]))
    graph = helper.make_graph(
        nodes,
        type(estimator).__name__,
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, n_features])],
        outputs,
        weights,
    )
    proto = helper.make_model(
        graph,
        producer_name="cornerstep",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)],
    )
    proto.ir_version = 8
    if labels:
        helper.set_model_props(proto, {"classes": json.dumps(np.asarray(labels).tolist())})
    onnx.checker.check_model(proto)
    if path is not None:
        with replacing(path) as file:
            file.write(proto.SerializeToString())
    return proto
