"""Values of model files: what an attribute is in JSON, and back.

Plain numbers, words, lists and None are themselves; everything else is an object with one key that
names its kind: ``{"array": "coef_"}`` is an array of the file, ``{"tree": [...]}`` a tree.
The kinds below, and those of the estimator's schema, are all there are.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.npy import require_rows_of_entries
from cornerstep.data.arrays import is_other_library, to_numpy
from cornerstep.learning.certificates import MachineProof
from cornerstep.learning.specs import Kind
from cornerstep.optimiser.result import Status, Trace

_DEEPEST = 40  # values in values; what the library writes has some five


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
    kinds : iterable of Kind
        Of the estimator's own.
    """

    def __init__(self, arrays: dict[str, bytes], kinds: Iterable[Kind] = ()) -> None:
        self.arrays, self.kinds = arrays, tuple(kinds)

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
        for kind in self.kinds:
            if kind.holds(value):
                return {kind.name: kind.write(value, self, name)}
        if isinstance(value, list):
            return [self(part, f"{name}.{k}") for k, part in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": [self(part, f"{name}.{k}") for k, part in enumerate(value)]}
        if isinstance(value, dict):
            pairs = [[self(k, name), self(v, f"{name}.{k}")] for k, v in value.items()]
            return {"dict": pairs}
        if hasattr(value, "transform"):
            return self._transformer(value, name)
        raise UnsavableError(
            f"{name} holds {_shown(value)}, which a model file cannot: it holds arrays, numbers "
            "and words, never code"
        )

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


class Decoder:
    """Turns the JSON of model files into values.

    Parameters
    ----------
    arrays : dict
        The arrays of the file by name.
    kinds : iterable of Kind
        Of the estimator's own.
    model : StructuredModel or None
        Stands in for a model class that is not the library's.
    """

    def __init__(
        self, arrays: dict[str, Any], kinds: Iterable[Kind] = (), model: Any = None
    ) -> None:
        self.arrays, self.model = arrays, model
        self._kinds = {kind.name: kind for kind in kinds}
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
        if kind in self._kinds:
            return self._kinds[kind].read(content, self)
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

    def _read_transformer(self, content: list[Any]) -> Any:
        from cornerstep.files import transformers

        kind, parts = content
        return transformers.rebuilt(kind, self(parts))
