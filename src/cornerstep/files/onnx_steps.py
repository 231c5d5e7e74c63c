"""The steps of a pipeline before its estimator, as nodes of an ONNX graph of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)

from cornerstep.files.transformers import positions


class Steps:
    """Nodes and constants, gathered while a pipeline is gone through.

    Attributes
    ----------
    nodes, constants : list
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._of: dict[type, Any] = {
            Pipeline: self._pipeline, ColumnTransformer: self._columns,
            StandardScaler: self._standard, MinMaxScaler: self._min_max,
            MaxAbsScaler: self._max_abs, Normalizer: self._normalizer,
            SimpleImputer: self._imputer, OneHotEncoder: self._encoder,
        }  # fmt: skip

    def of(self, step: Any, X: str) -> str:
        """Add a transformer that reads ``X``; the name of what it makes.

        A pipeline that ends in an estimator is gone through up to that.
        """
        if type(step) not in self._of:
            raise ValueError(
                f"a graph has no nodes for {type(step).__name__}; pipelines may have "
                f"{', '.join(kind.__name__ for kind in self._of)}"
            )
        made: str = self._of[type(step)](step, X)
        return made

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"step{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _constant(self, values: Any) -> str:
        name = f"constant{len(self.constants)}"
        values = np.asarray(values)
        kind = np.float32 if values.dtype.kind == "f" else np.int64
        self.constants.append(numpy_helper.from_array(values.astype(kind), name))
        return name

    def _number(self, X: str) -> str:
        return self._node("Cast", X, to=TensorProto.FLOAT)

    def _take(self, X: str, columns: Any) -> str:
        return self._node("Gather", X, self._constant(np.asarray(columns, np.int64)), axis=1)

    def _pipeline(self, pipeline: Pipeline, X: str) -> str:
        for _, step in pipeline.steps:
            if hasattr(step, "onnx_parts"):
                break
            X = X if step in (None, "passthrough") else self.of(step, X)
        return X

    def _columns(self, transformer: ColumnTransformer, X: str) -> str:
        parts = []
        for _, step, columns in transformer.transformers_:
            at = positions(transformer, columns)
            if not at or step == "drop":
                continue
            part = self._take(X, at)
            same = step == "passthrough" or getattr(step, "func", self) is None
            parts.append(part if same else self.of(step, part))
        return self._node("Concat", *parts, axis=1)

    def _standard(self, scaler: StandardScaler, X: str) -> str:
        if scaler.with_mean:
            X = self._node("Sub", X, self._constant(scaler.mean_))
        return self._node("Div", X, self._constant(scaler.scale_)) if scaler.with_std else X

    def _min_max(self, scaler: MinMaxScaler, X: str) -> str:
        X = self._node("Mul", X, self._constant(scaler.scale_))
        X = self._node("Add", X, self._constant(scaler.min_))
        if scaler.clip:
            ends = (self._constant(float(end)) for end in scaler.feature_range)
            X = self._node("Clip", X, *ends)
        return X

    def _max_abs(self, scaler: MaxAbsScaler, X: str) -> str:
        return self._node("Div", X, self._constant(scaler.scale_))

    def _normalizer(self, normalizer: Normalizer, X: str) -> str:
        size = self._node("Abs", X)
        if normalizer.norm == "l2":
            size = self._node("ReduceL2", X, axes=[1])
        elif normalizer.norm == "l1":
            size = self._node("ReduceL1", X, axes=[1])
        else:
            size = self._node("ReduceMax", size, axes=[1])
        nothing = self._node("Equal", size, self._constant(0.0))
        return self._node("Div", X, self._node("Where", nothing, self._constant(1.0), size))

    def _imputer(self, imputer: SimpleImputer, X: str) -> str:
        if imputer.missing_values == imputer.missing_values:
            raise ValueError("a graph knows NaN as missing, the imputer takes "
                             f"{imputer.missing_values!r}")  # fmt: skip
        _require_numbers(imputer.statistics_, "SimpleImputer")
        gaps = self._node("IsNaN", X)
        filled = self._node("Where", gaps, self._constant(imputer.statistics_.astype(float)), X)
        kept = np.flatnonzero(~np.isnan(imputer.statistics_.astype(float)))
        if kept.size < imputer.statistics_.size:
            filled = self._take(filled, kept)
        if not imputer.add_indicator or imputer.indicator_.features_.size == 0:
            return filled
        shown = self._take(self._number(gaps), imputer.indicator_.features_)
        return self._node("Concat", filled, shown, axis=1)

    def _encoder(self, encoder: OneHotEncoder, X: str) -> str:
        if encoder.drop is not None:
            raise ValueError("a graph has no nodes for OneHotEncoder with drop")
        grouped = encoder.min_frequency is not None or encoder.max_categories is not None
        rare = encoder.infrequent_categories_ if grouped else [None] * len(encoder.categories_)
        parts = []
        for k, (levels, few) in enumerate(zip(encoder.categories_, rare, strict=True)):
            _require_numbers(levels, "OneHotEncoder")
            levels = levels.astype(float)
            common = np.ones(levels.size, bool) if few is None else ~np.isin(levels, few)
            same = self._node("Equal", self._take(X, [k]), self._constant(levels[common]))
            shown = self._number(same)
            parts.append(shown)
            if few is not None:
                # ... and what is none of these: rare, or never seen where that counts as rare
                if encoder.handle_unknown != "infrequent_if_exist":
                    same = self._node("Equal", self._take(X, [k]), self._constant(levels[~common]))
                    parts.append(self._node("ReduceMax", self._number(same), axes=[1]))
                    continue
                known = self._node("ReduceSum", shown, self._constant(np.array([1])))
                parts.append(self._node("Sub", self._constant(1.0), known))
        return self._node("Concat", *parts, axis=1)


def _require_numbers(values: Any, of: str) -> None:
    if values.dtype.kind not in "biuf" or (of == "OneHotEncoder" and (values != values).any()):
        raise ValueError(
            f"a graph takes one matrix of numbers, and a {of} of the pipeline takes words or has "
            "missing values as a level: export the estimator alone, pipeline[-1]"
        )
