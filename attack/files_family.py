"""Model files: what was saved is what is loaded; a damaged file is refused or the same model.

Files are damaged at random, and edited on purpose with checksums that are right again: those must
be refused, or give a model that answers without an error of any other kind.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from attack.draws import one_of
from attack.judge import Judge, RefusedError
from attack.models import fitted, further
from cornerstep import load, save


def answers(judge: Judge, model: Any, X: Any) -> Any:
    """What a model says of X."""
    return judge.call(getattr(model, "decision_function", model.predict), X)


def _quietly(function: Any, X: Any) -> None:
    """An answer from wrong numbers, which may overflow."""
    with np.errstate(all="ignore"):
        function(X)


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal bit for bit."""
    if isinstance(one, list):
        return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    return np.array_equal(one, other, equal_nan=False)


def damaged(rng: Any, data: bytes) -> bytes:
    """Some bytes changed, cut off, repeated or added."""
    raw, kind = bytearray(data), int(rng.integers(5))
    at = int(rng.integers(len(raw)))
    if kind == 0:
        raw[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        raw[at : at + int(rng.integers(1, 20))] = rng.bytes(int(rng.integers(1, 20)))
    elif kind == 2:
        del raw[at:]
    elif kind == 3:
        raw += rng.bytes(int(rng.integers(1, 50)))
    else:
        raw[at:at] = raw[at : at + 30]
    return bytes(raw)


def _strange(rng: Any, array: Any) -> Any:
    """An array that is not what it was."""
    out = np.array(array)
    kind = int(rng.integers(8))
    if kind == 0:
        return out[:-1] if out.ndim and out.size > 1 else np.zeros(3)
    if kind == 1:
        return out.reshape(-1)[None]
    if kind == 2:
        numbers = (np.float32, np.int8, np.uint64, np.complex128) if out.dtype.kind != "U" else ()
        return out.astype(one_of(rng, *numbers, "U3"))
    if kind == 3:
        return np.zeros(0, out.dtype)
    if out.dtype.kind == "f":
        return np.where(rng.random(out.shape) < 0.5, one_of(rng, np.nan, np.inf, 1e300, 0), out)
    if out.dtype.kind in "iu":
        odd = one_of(rng, -1, 10**9, -(10**9), 127, 2**31)
        return np.where(rng.random(out.shape) < 0.5, odd, out.astype(np.int64))
    return out[::-1]


def _walk(rng: Any, value: Any) -> Any:
    """A JSON value with one entry changed."""
    if isinstance(value, dict) and value:
        key = one_of(rng, *value)
        return {**value, key: _walk(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = int(rng.integers(len(value)))
        return [*value[:at], _walk(rng, value[at]), *value[at + 1 :]]
    return one_of(rng, None, -1, 0, 1e300, "x", [], {}, True, [[1]], 10**30, 3.5)


def _edit(rng: Any, data: bytes) -> bytes:
    """An array or an entry of the manifest changed, and all checksums made right again."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(parts["manifest.json"])
    arrays = [name for name in parts if name.startswith("arrays/")]
    if arrays and rng.random() < 0.6:
        name = one_of(rng, *arrays)
        file = io.BytesIO()
        np.save(file, _strange(rng, np.load(io.BytesIO(parts[name]))))
        parts[name] = file.getvalue()
        key = name.removeprefix("arrays/").removesuffix(".npy")
        manifest["arrays"][key] = {
            "bytes": len(parts[name]), "sha256": hashlib.sha256(parts[name]).hexdigest(),
        }  # fmt: skip
    else:
        part = one_of(rng, "attributes", "attributes", "parameters", "certificate", "arrays")
        manifest[part] = _walk(rng, manifest[part])
    text = json.dumps(manifest).encode()
    parts["manifest.json"] = text
    parts["manifest.sha256"] = hashlib.sha256(text).hexdigest().encode() + b"\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)
    return out.getvalue()


def attack(rng: Any, judge: Judge) -> None:
    """A round trip, then several bad copies of the file."""
    model, X = one_of(rng, fitted, further)(rng, judge)
    judge.says(model)
    path: Path = judge.folder() / "model.cornerstep"
    judge.call(save, model, path)
    before = answers(judge, model, X)
    judge.that(same(before, answers(judge, judge.call(load, path), X)), "loaded is what was saved")
    data, context = path.read_bytes(), list(judge.context)
    for k in range(16):
        edited = k % 2 == 0
        path.write_bytes((_edit if edited else damaged)(rng, data))
        judge.context = [*context, f"{'edit' if edited else 'damage'} {k}"]
        try:
            other = judge.call(load, path)
        except RefusedError:
            continue
        if edited:
            judge.call(_quietly, getattr(other, "decision_function", other.predict), X)
        else:
            judge.that(
                same(before, answers(judge, other, X)), "a damaged file loads as another model"
            )
