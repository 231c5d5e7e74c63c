"""Model files: ``save(estimator, path)`` and ``load(path)``.

A model file is a zip archive of

- ``manifest.json``: format and version, library version, estimator, parameters, fitted attributes,
  the steps of a pipeline that come before it, the certificate, and size, type and SHA-256 of every
  array; to be read with any unzip and editor;
- ``manifest.sha256``: the SHA-256 of the manifest;
- ``arrays/NAME.npy``: the arrays, in NumPy's format, without pickled objects.

Loading runs no code from the file: there is no pickle, the classes come from a fixed table, and
only attributes that the table names are set.  Checksums find damage, they are no signature: a file
that somebody made on purpose loads as what it says, but can do no more than hold wrong numbers.  No
array is read whose bytes are not there, no file unpacks to much more than it is, and everything set
has the type, the shape and the range that the estimator's ``model_schema`` says.

Why not `skops <https://skops.readthedocs.io>`_: it rebuilds objects by type names found in the
file, so that each private class of each version (trees, traces, structured models) must be trusted
by name when loading, and its schema is an object graph rather than a page one can read.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cornerstep.core.npy import Archive, DamagedError
from cornerstep.core.output import WriteError, replacing
from cornerstep.core.version import __version__
from cornerstep.files.values import (
    Decoder,
    Encoder,
    UnsavableError,
    as_kept,
)
from cornerstep.learning.certificates import certificate
from cornerstep.learning.estimator import CertifiedEstimator
from cornerstep.learning.pipelines import is_pipeline, last_step
from cornerstep.learning.specs import Sizes

FORMAT = "cornerstep model"
VERSION = 2  # of the format; grows when a file of one library can no longer be read by the other
PLAIN = 1  # the version of a file without steps before the estimator, which are new in 2
OLDEST = 1  # the oldest that is read: every release reads what the one before it wrote

#: Where the library's own estimators are; others are given to :func:`load`.
_HOMES = {
    "MulticlassSVC": "multiclass.estimator",
    "OneClassHull": "kernel_svm.one_class",
    "ReducedHullSVC": "kernel_svm.estimator",
    "ReducedHullSVR": "kernel_svm.regression",
    "SoftMarginBoostingClassifier": "boosting.estimator",
    "SequenceTagger": "structured.tagger",
    "StructuredSVC": "structured.estimator",
}

#: Parameters that only a new fit would need: where they cannot be written they are left out.
_FIT_ONLY = ("random_state", "secondary", "class_weight", "checkpoint", "callback")


_EXPANSION = 2**26  # bytes that a file may unpack to beyond its own size
_MANIFEST = 2**24  # bytes of the longest manifest: it is parsed as a whole
_PARTS: dict[str, type] = {
    "library_version": str, "estimator": str, "certificate": dict, "parameters": dict,
    "parameters_left_out": list, "notes": dict, "attributes": dict, "arrays": dict, "steps": list,
}  # fmt: skip


class ModelFileError(ValueError):
    """A model file that cannot be written or read, and why."""


def _damaged(path: Any, how: str) -> str:
    return f"{path} is damaged ({how}): copy it again, or train and save it anew"


def save(
    estimator: Any, path: str | os.PathLike[str], *, notes: dict[str, Any] | None = None
) -> None:
    """Write a fitted estimator to ``path``.

    The file appears whole or not at all.  State that only a warm start needs is left out.  Tensors
    are written as NumPy arrays, so that a model trained on a GPU loads as one that needs none.

    Parameters
    ----------
    estimator : fitted estimator
        Or a pipeline of scikit-learn that ends in one, after scalers, imputers, encoders and
        column transformers.
    path : path-like
        By custom ending in ``.cornerstep``.
    notes : dict, optional
        Anything JSON can hold, kept in the manifest: where the data came from, for instance.

    Raises
    ------
    ModelFileError
        If the model holds functions or foreign objects, such as a kernel function.
    """
    pipeline, estimator = estimator, last_step(estimator)
    if not isinstance(estimator, CertifiedEstimator):
        raise ModelFileError(
            f"estimator must be a CertifiedEstimator, such as {', '.join(_HOMES)}, or a "
            f"pipeline that ends in one, got {type(estimator)!r}"
        )
    name = type(estimator).__name__
    proof = certificate(estimator)
    arrays: dict[str, bytes] = {}
    schema = estimator.model_schema()
    encode = Encoder(arrays, schema.kinds)
    parameters, left_out = {}, []
    for key, value in estimator.get_params(deep=False).items():
        try:
            parameters[key] = encode(value, key)
        except UnsavableError as problem:
            if key not in _FIT_ONLY:
                raise ModelFileError(str(problem)) from None
            left_out.append(key)
    try:
        attributes = {
            key: encode(getattr(estimator, key), key)
            for key in schema.attributes
            if hasattr(estimator, key)
        }
        steps = encode(_steps_before(pipeline), "steps")
    except UnsavableError as problem:
        raise ModelFileError(str(problem)) from None
    _require_loadable(estimator, steps, arrays)
    manifest = {
        "format": FORMAT,
        "format_version": VERSION if steps else PLAIN,
        "library_version": __version__,
        "estimator": name,
        "certificate": proof.to_dict(),
        "parameters": parameters,
        "parameters_left_out": left_out,
        "notes": notes or {},
        "attributes": attributes,
        "steps": steps,
        "arrays": {
            key: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for key, data in arrays.items()
        },
    }
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > _MANIFEST:
        raise ModelFileError(
            f"the manifest would have {len(text)} bytes, and may have {_MANIFEST}: give fewer "
            "notes, or columns without names"
        )
    try:
        with replacing(path) as file:
            _write_archive(file, text, arrays)
    except WriteError as problem:
        raise ModelFileError(f"cannot write {path}: {problem.strerror}") from None


def _steps_before(estimator: Any) -> list[Any]:
    """Names and transformers of a pipeline, up to its last step; none of another estimator."""
    steps = []
    while is_pipeline(estimator):
        *before, (_, estimator) = estimator.steps
        steps += [[name, step] for name, step in before if step not in (None, "passthrough")]
    return steps


def _require_loadable(estimator: Any, steps: list[Any], arrays: dict[str, bytes]) -> None:
    """Complain about what :func:`load` would: a parameter that was changed after the fit, say."""
    try:
        check_model(estimator)
        if steps:
            kept = {key: np.load(io.BytesIO(data)) for key, data in arrays.items()}
            _pipeline(Decoder(kept)(steps), estimator)
    except (TypeError, ValueError) as problem:
        raise ModelFileError(f"the estimator is not as it was fitted: {problem}") from None


def _write_archive(file: Any, text: bytes, arrays: dict[str, bytes]) -> None:
    """Packed where it is small: a large file need not unpack to more than it is."""
    small = sum(map(len, arrays.values())) + len(text) < _EXPANSION
    method = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        archive.writestr("manifest.json", text)
        archive.writestr("manifest.sha256", hashlib.sha256(text).hexdigest() + "\n")
        for key, data in arrays.items():
            archive.writestr(f"arrays/{key}.npy", data)


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a model file, checked, without its arrays.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict
    """
    with _opened(path) as archive:
        return _checked_manifest(archive, path)


def load(path: str | os.PathLike[str], *, estimator: Any = None, model: Any = None) -> Any:
    """The estimator of a model file; it predicts exactly as the one that was saved.

    Parameters
    ----------
    path : path-like
    estimator : class, optional
        For an estimator that is not the library's, such as a subclass of your own: that class,
        which the file cannot bring along.
    model : StructuredModel, optional
        For a :class:`~cornerstep.StructuredSVC` with a model class of your own: an object of that
        class, which the file cannot bring along.  It is copied, not changed.

    Returns
    -------
    estimator, or the pipeline that was saved

    Raises
    ------
    ModelFileError
        If the file is damaged, no model file, or of a format that this version does not read.
    """
    with _opened(path) as archive:
        manifest = _checked_manifest(archive, path)
        arrays = {
            key: _array(archive, path, key, facts) for key, facts in manifest["arrays"].items()
        }
    name = manifest["estimator"]
    try:
        kind = _class(name, estimator)
        decode = Decoder(arrays, kind.model_schema().kinds, model)
        found = _built(kind, manifest, decode)
        return _pipeline(decode(manifest["steps"]), found) if manifest["steps"] else found
    except Exception as problem:  # nothing is known of what is in the file
        why = " ".join(str(problem).split())
        if manifest["library_version"] != __version__:
            why += f" (it was written by {_writer(manifest)}, this is {__version__})"
        raise ModelFileError(f"{path} does not hold a usable {name}: {why}") from None


def _built(kind: type[CertifiedEstimator], manifest: dict[str, Any], decode: Decoder) -> Any:
    """The estimator that a manifest describes, checked."""
    name = kind.__name__
    parameters = {key: decode(value) for key, value in manifest["parameters"].items()}
    unknown = set(parameters) - set(kind._get_param_names())
    if unknown:
        raise ValueError(f"{name} has no parameter {sorted(unknown)[0]!r}")
    estimator = kind(**parameters)
    for key, value in manifest["attributes"].items():
        if key not in kind.model_schema().attributes:
            raise ValueError(f"{name} has no attribute {key!r}")
        setattr(estimator, key, decode(value))
    check_model(estimator)
    estimator.complete()
    return estimator


def _pipeline(steps: Any, estimator: Any) -> Any:
    """The steps and the estimator as a pipeline; what goes in at its beginning must fit the end."""
    from cornerstep.files.transformers import as_input, example, rebuilt

    before = rebuilt("Pipeline", {"parameters": {}, "attributes": {}, "steps": steps})
    names = [name for name, _ in steps]
    last = next(name for name in ("model", "estimator", "last step") if name not in names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        width = before.transform(as_input(before, example(before))).shape[1]
    expected = getattr(estimator, "n_features_in_", width)
    if width != expected:
        raise ValueError(f"its steps make {width} features, its estimator takes {expected}")
    return type(before)([*before.steps, (last, estimator)])


def _class(name: str, given: Any) -> type[CertifiedEstimator]:
    """The class of that name: the library's, or the one that is given."""
    if given is not None:
        if not (isinstance(given, type) and issubclass(given, CertifiedEstimator)):
            raise TypeError(f"estimator must be a class of certified estimators, got {given!r}")
        if given.__name__ != name:
            raise ValueError(f"it was trained by {name}, estimator is the class {given.__name__}")
        return given
    if name not in _HOMES:
        raise ValueError(
            f"it was trained by {name[:60]!r}, which is not the library's: call load(path, "
            "estimator=...) with that class"
        )
    home = importlib.import_module(f"cornerstep.{_HOMES[name]}")
    kind: type[CertifiedEstimator] = getattr(home, name)
    return kind


def check_model(estimator: CertifiedEstimator) -> None:
    """Say which parameter or attribute of a fitted estimator cannot be what it is.

    Parameters
    ----------
    estimator : estimator whose parameters and attributes are set

    Raises
    ------
    ValueError
    """
    schema, sizes = estimator.model_schema(), Sizes()
    estimator.check_parameters()
    for name, spec in schema.parameters.items():
        spec.check(as_kept(getattr(estimator, name)), name, sizes)
    for name, spec in schema.attributes.items():
        if hasattr(estimator, name):
            spec.check(as_kept(getattr(estimator, name)), name, sizes)
            schema.derive(estimator, name, sizes)
        elif name not in schema.optional(estimator):
            raise ValueError(f"it has no {name}")


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Archive]:
    try:
        with Archive(path, _EXPANSION) as archive:
            yield archive
    except OSError as problem:
        raise ModelFileError(f"cannot read {path}: {problem.strerror or problem}") from None
    except DamagedError as problem:
        raise ModelFileError(
            f"{path} is not a cornerstep model file, or only a part of one ({problem}): "
            "copy it again, or train and save it anew"
        ) from None


def _array(archive: Archive, path: Any, key: str, facts: Any) -> Any:
    """An array that is as the manifest lists it."""
    name = f"arrays/{key}.npy"
    there = name in archive.names() and isinstance(facts, dict)
    if not there or archive.size(name) != facts.get("bytes"):
        raise ModelFileError(_damaged(path, f"the array {key} is not as listed"))
    try:
        array, digest = archive.array(name)
    except DamagedError as problem:
        raise ModelFileError(_damaged(path, f"the array {key}: {problem}")) from None
    if digest != facts.get("sha256"):
        raise ModelFileError(_damaged(path, f"the checksum of {key} is wrong"))
    return array


def _writer(manifest: dict[str, Any]) -> str:
    """The library that wrote a file, by its own word: one short line."""
    return "cornerstep " + " ".join(str(manifest.get("library_version")).split())[:40]


def _checked_manifest(archive: Archive, path: Any) -> dict[str, Any]:
    if not {"manifest.json", "manifest.sha256"} <= set(archive.names()):
        raise ModelFileError(f"{path} is not a cornerstep model file: it has no manifest")
    text = archive.read("manifest.json", _MANIFEST)
    try:
        manifest = json.loads(text)
    except Exception as problem:  # no JSON, or nested too deeply to be parsed
        raise ModelFileError(_damaged(path, f"its manifest: {problem}")) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a cornerstep model file")
    version = manifest.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelFileError(
            _damaged(path, f"its format version must be an integer >= 1, got {version!r:.40}")
        )
    if not OLDEST <= version <= VERSION:
        raise ModelFileError(
            f"{path} has format version {version} (written by {_writer(manifest)}), this library "
            f"reads {OLDEST} to {VERSION}: "
            + ("update cornerstep" if version > VERSION else
               "load and save it with a version of cornerstep in between, or train it anew")
        )  # fmt: skip
    if hashlib.sha256(text).hexdigest().encode() != archive.read("manifest.sha256", 100).strip():
        raise ModelFileError(_damaged(path, "the checksum of its manifest is wrong"))
    if version == PLAIN:
        manifest["steps"] = []  # whatever it says: a library that reads no other sees none
    for part, kind in _PARTS.items():
        if not isinstance(manifest.get(part), kind):
            raise ModelFileError(_damaged(path, f"its manifest has no {part}"))
    return manifest
