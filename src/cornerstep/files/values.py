"""Values of model files: what an attribute is in JSON, and back.

Plain numbers, words, lists and None are themselves; everything else is an object with one key that
names its kind: ``{"array": "coef_"}`` is an array of the file, ``{"tree": [...]}`` a tree.
The kinds below are all there are.
"""

from __future__ import annotations

import copy
import io
import math
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep import structured
from cornerstep.core.npy import require_rows_of_entries
from cornerstep.data.arrays import is_other_library, to_numpy
from cornerstep.learning.certificates import MachineProof
from cornerstep.multiclass import losses
from cornerstep.optimiser.result import Status, Trace
from cornerstep.structured.models.base import StructuredModel

_DEEPEST = 40  # values in values; what the library writes has some five
_LOSSES = (
    "Loss",
    "MaxHinge",
    "CostSensitive",
    "TopK",
    "Usunier",
    "WeightedTopK",
    "WeightedUsunier",
)
_MODELS: dict[str, tuple[str, ...]] = {
    "ChainModel": (
        "transitions", "biases", "normalize", "labels", "labels_", "n_features_", "size",
    ),
    "MulticlassModel": ("fit_intercept", "intercept_scaling", "labels_", "n_features_", "size"),
    "MultilabelModel": (
        "edges", "fit_intercept", "normalize", "n_labels_", "n_features_", "edges_", "size",
        "attractive",
    ),
    "GraphModel": (
        "normalize", "labels", "labels_", "n_features_", "n_edge_features_", "size", "attractive",
    ),
    "MatchingModel": ("normalize", "size"),
}  # fmt: skip


def as_kept(value: Any) -> Any:
    """A value as model files have it: tensors as arrays, numbers of NumPy as numbers."""
    value = to_numpy(value) if is_other_library(value) else value
    return value.item() if isinstance(value, np.generic) else value


class UnsavableError(ValueError):
    """A value that model files cannot hold."""


class Encoder:
    """Turns values into JSON, and puts their arrays aside under names of their own.

    Parameters
    ----------
    arrays : dict
        Filled with the bytes of the arrays.
    """

    def __init__(self, arrays: dict[str, bytes]) -> None:
        self.arrays = arrays

    def __call__(self, value: Any, name: str) -> Any:
        """The JSON of ``value``; ``name`` is for its arrays and for complaints."""
        value = as_kept(value)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        if sp.issparse(value):
            return self._sparse(value, name)
        if isinstance(value, Status):
            return {"status": value.value}
        if isinstance(value, Trace):
            return {
                "trace": {key: self(value[key], f"{name}.{key}") for key in value.columns},
            }
        if isinstance(value, MachineProof):
            return {"proof": [self(part, f"{name}.{k}") for k, part in enumerate(value)]}
        return self._object(value, name)

    def _object(self, value: Any, name: str) -> Any:
        kind = type(value).__name__
        if kind == "Tree":
            return {"tree": [self(part, f"{name}.{k}") for k, part in enumerate(value)]}
        if kind == "Machine":
            return self._machine(value, name)
        if isinstance(value, list):
            if len(value) and all(type(part).__name__ == "Tree" for part in value):
                return self._trees(value, name)
            return [self(part, f"{name}.{k}") for k, part in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": [self(part, f"{name}.{k}") for k, part in enumerate(value)]}
        if isinstance(value, dict):
            pairs = [[self(k, name), self(v, f"{name}.{k}")] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, losses.Loss) and getattr(losses, kind, None) is type(value):
            parts = {"rho": value.rho, "costs": value.costs, "per_example": value.per_example}
            return {
                "loss": [kind, {key: self(part, f"{name}.{key}") for key, part in parts.items()}]
            }
        if isinstance(value, StructuredModel):
            return self._model(value, name)
        if hasattr(value, "transform"):
            return self._transformer(value, name)
        raise UnsavableError(
            f"{name} holds {_shown(value)}, which a model file cannot: it holds arrays, numbers "
            "and words, never code"
        )

    def _model(self, model: StructuredModel, name: str) -> Any:
        kind = type(model).__name__
        known = _MODELS.get(kind) if getattr(structured, kind, None) is type(model) else None
        own = known is None
        names = tuple(vars(model)) if known is None else known
        parts = {
            key: self(getattr(model, key), f"{name}.{key}") for key in names if hasattr(model, key)
        }
        return {"own_model" if own else "model": [kind, parts]}

    def _transformer(self, value: Any, name: str) -> Any:
        from cornerstep.files import transformers

        kind = type(value).__name__
        if not transformers.is_transformer(value):
            raise UnsavableError(
                f"{name} is a {kind}, which a model file cannot hold; of transformers it holds "
                f"{transformers.KINDS}"
            )
        try:
            parts = transformers.parts_of(value)
        except ValueError as problem:
            raise UnsavableError(f"{name}: {problem}, or a model file cannot hold it") from None
        return {"transformer": [kind, self(parts, name)]}

    def _trees(self, trees: list[Any], name: str) -> Any:
        """Trees as one array for each of their parts: there may be thousands."""
        sizes = np.array([tree.features.size for tree in trees])
        parts = [np.concatenate(part) for part in zip(*trees, strict=True)]
        return {
            "trees": [self(part, f"{name}.{k}") for k, part in enumerate([sizes, *parts])],
        }

    def _machine(self, machine: Any, name: str) -> Any:
        """A boosting machine: its stages share their hypotheses with each other."""
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
        return {"machine": {key: self(part, f"{name}.{key}") for key, part in parts.items()}}

    def _array(self, array: Any, name: str) -> Any:
        if array.dtype.kind == "O":
            if array.ndim == 1 and all(isinstance(v, str | int | float) for v in array):
                return {"objects": [self(v, name) for v in array]}
            raise UnsavableError(
                f"{name} is an array of Python objects, which a model file cannot hold"
            )
        if array.dtype.kind not in "biufUS":
            raise UnsavableError(
                f"{name} is an array of {array.dtype}, which a model file cannot hold"
            )
        key = name if name not in self.arrays else f"{name}.{len(self.arrays)}"
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array).reshape(array.shape),
                                  allow_pickle=False)  # fmt: skip
        self.arrays[key] = buffer.getvalue()
        return {"array": key}

    def _sparse(self, matrix: Any, name: str) -> Any:
        rows = sp.csr_array(matrix)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        return {
            "csr": {key: self(part, f"{name}.{key}") for key, part in parts.items()}
            | {"shape": list(rows.shape), "matrix": not isinstance(matrix, sp.sparray)}
        }


def _shown(value: Any) -> str:
    if isinstance(value, type(_shown)) or callable(value):
        return f"the function {getattr(value, '__name__', value)!r}"
    return f"an object of type {type(value).__name__}"


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


class Decoder:
    """Turns the JSON of model files into values.

    Parameters
    ----------
    arrays : dict
        The arrays of the file by name.
    model : StructuredModel or None
        Stands in for a model class that is not the library's.
    """

    def __init__(self, arrays: dict[str, Any], model: Any = None) -> None:
        self.arrays, self.model = arrays, model
        self._depth = 0

    def __call__(self, value: Any) -> Any:
        """The value of some JSON."""
        if not isinstance(value, list | dict):
            return value
        if self._depth == _DEEPEST:
            raise ValueError(f"its values are nested more than {_DEEPEST} deep")
        self._depth += 1
        found = self._nested(value)
        self._depth -= 1
        return found

    def _nested(self, value: list[Any] | dict[str, Any]) -> Any:
        if isinstance(value, list):
            return [self(part) for part in value]
        if len(value) != 1:
            raise ValueError(f"a value has the keys {sorted(value)}, it must have one")
        ((kind, content),) = value.items()
        reader = getattr(self, f"_read_{kind}", None)
        if reader is None:
            raise ValueError(f"there are no values of the kind {kind!r}")
        return reader(content)

    def _read_float(self, text: str) -> float:
        return float(text)

    def _read_array(self, key: str) -> Any:
        if key not in self.arrays:
            raise ValueError(f"the array {key!r} is not there, or used twice")
        return self.arrays.pop(key)

    def _read_objects(self, parts: list[Any]) -> Any:
        out = np.empty(len(parts), object)
        out[:] = [self(part) for part in parts]
        return out

    def _read_csr(self, parts: dict[str, Any]) -> Any:
        data = tuple(self(parts[key]) for key in ("data", "indices", "indptr"))
        require_rows_of_entries(data, parts["shape"][0])
        kind = sp.csr_matrix if parts["matrix"] else sp.csr_array
        matrix = kind(data, shape=tuple(parts["shape"]))
        matrix.check_format(full_check=True)
        return matrix

    def _read_status(self, text: str) -> Status:
        return Status(text)

    def _read_trace(self, columns: dict[str, Any]) -> Trace:
        first = Trace().columns
        if tuple(columns)[: len(first)] != first:
            raise ValueError(f"a trace must begin with the columns {', '.join(first)}")
        trace = Trace(tuple(columns)[len(first) :])
        read = [np.asarray(self(column)).tolist() for column in columns.values()]
        for row in zip(*read, strict=True):
            trace.append(row)
        return trace

    def _read_proof(self, parts: list[Any]) -> MachineProof:
        return MachineProof(*(self(part) for part in parts))

    def _read_tuple(self, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(self(part) for part in parts)

    def _read_dict(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self(key): self(part) for key, part in pairs}

    def _read_tree(self, parts: list[Any]) -> Any:
        from cornerstep.boosting.binning import Tree

        return Tree(*(self(part) for part in parts))

    def _read_trees(self, parts: list[Any]) -> list[Any]:
        from cornerstep.boosting.binning import Tree

        sizes, features, thresholds, leaves = (self(part) for part in parts)
        _require_parts(sizes, features, "trees")
        _require_parts(sizes, thresholds, "trees")
        _require_parts(sizes + 1, leaves, "trees")
        at, at_leaves = np.cumsum(sizes)[:-1], np.cumsum(sizes + 1)[:-1]
        pieces = (np.split(features, at), np.split(thresholds, at), np.split(leaves, at_leaves))
        return [Tree(*each) for each in zip(*pieces, strict=True)]

    def _read_machine(self, parts: dict[str, Any]) -> Any:
        from cornerstep.boosting.machine import Machine

        read = {key: self(part) for key, part in parts.items()}
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

    def _read_loss(self, content: list[Any]) -> Any:
        kind, parts = content
        if kind not in _LOSSES:
            raise ValueError(f"there is no loss {kind!r}")
        read = {key: self(parts[key]) for key in ("rho", "costs", "per_example")}
        loss = object.__new__(getattr(losses, kind))
        losses.Loss.__init__(loss, read.pop("rho"), **read)
        return loss

    def _read_model(self, content: list[Any]) -> Any:
        kind, parts = content
        if kind not in _MODELS or not set(parts) <= set(_MODELS[kind]):
            raise ValueError(f"there is no structured model {kind!r} with {sorted(parts)}")
        model = object.__new__(getattr(structured, kind))
        for key, part in parts.items():
            setattr(model, key, self(part))
        return model

    def _read_own_model(self, content: list[Any]) -> Any:
        kind, parts = content
        if type(self.model).__name__ != kind:
            raise ValueError(
                f"it was trained with a structured model of the class {kind}, which is not the "
                f"library's: call load(path, model={kind}(...)) with an object of that class"
            )
        model = copy.copy(self.model)
        for key, part in parts.items():
            setattr(model, key, self(part))
        return model

    def _read_transformer(self, content: list[Any]) -> Any:
        from cornerstep.files import transformers

        kind, parts = content
        return transformers.rebuilt(kind, self(parts))
