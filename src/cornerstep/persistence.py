"""Model files: ``save(estimator, path)`` and ``load(path)``.

A model file is a zip archive of

- ``manifest.json``: format and version, library version, estimator, parameters, fitted attributes,
  the certificate, and size, type and SHA-256 of every array; to be read with any unzip and editor;
- ``manifest.sha256``: the SHA-256 of the manifest;
- ``arrays/NAME.npy``: the arrays, in NumPy's format, without pickled objects.

Loading runs no code from the file: there is no pickle, the classes come from a fixed table, and
only attributes that the table names are set.  Checksums find damage, they are no signature: a file
that somebody made on purpose loads as what it says, but can do no more than hold wrong numbers.

Why not `skops <https://skops.readthedocs.io>`_: it rebuilds objects by type names found in the
file, so that each private class of each version (trees, traces, structured models) must be trusted
by name when loading, and its schema is an object graph rather than a page one can read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cornerstep.certificates import certificate
from cornerstep.persistence_values import Decoder, Encoder, UnsavableError

FORMAT = "cornerstep model"
VERSION = 1

#: The estimators and their fitted attributes: nothing else is written or set.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "MulticlassSVC": (
        "classes_", "n_features_in_", "feature_names_in_", "coef_", "intercept_", "dual_coef_",
        "objective_", "dual_objective_", "gap_", "relative_gap_", "status_", "n_iter_", "trace_",
        "support_", "kernel_shift_", "_kernel_fit", "_constant_fit", "_support_rows", "_machine",
    ),
    "ReducedHullSVC": (
        "classes_", "n_features_in_", "feature_names_in_", "support_", "support_vectors_",
        "n_support_", "dual_coef_", "intercept_", "C_", "nu_", "K_", "margin_", "objective_",
        "gap_", "status_", "n_iter_", "n_kernel_evaluations_", "trace_", "_machines", "_shape_fit",
        "_kernel_fit",
    ),
    "SoftMarginBoostingClassifier": (
        "classes_", "n_features_in_", "feature_names_in_", "bound_is_exact_", "estimators_",
        "estimator_weights_", "soft_margin_", "bound_", "gap_", "margins_", "example_weights_",
        "status_", "n_iter_", "trace_", "_kind", "_reweighted", "_machines", "_importances",
    ),
    "StructuredSVC": (
        "coef_", "model_", "lam_", "n_features_in_", "objective_", "dual_objective_", "gap_",
        "relative_gap_", "status_", "n_iter_", "n_oracle_calls_", "trace_",
    ),
}  # fmt: skip

#: Parameters that only a new fit would need: where they cannot be written they are left out.
_FIT_ONLY = ("random_state", "secondary", "class_weight", "checkpoint")


# What a broken archive, manifest or array raises when it is read.
_DAMAGE = (
    KeyError, TypeError, ValueError, AttributeError, EOFError, NotImplementedError, RuntimeError,
    zlib.error,
)  # fmt: skip


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
    path : path-like
        By custom ending in ``.cornerstep``.
    notes : dict, optional
        Anything JSON can hold, kept in the manifest: where the data came from, for instance.

    Raises
    ------
    ModelFileError
        If the model holds functions or foreign objects, such as a kernel function.
    """
    from cornerstep import __version__

    name = type(estimator).__name__
    if name not in ATTRIBUTES or _class(name) is not type(estimator):
        raise ModelFileError(
            f"estimator must be one of {', '.join(sorted(ATTRIBUTES))}, got {type(estimator)!r}"
        )
    proof = certificate(estimator)
    arrays: dict[str, bytes] = {}
    encode = Encoder(arrays)
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
            for key in ATTRIBUTES[name]
            if hasattr(estimator, key)
        }
    except UnsavableError as problem:
        raise ModelFileError(str(problem)) from None
    manifest = {
        "format": FORMAT,
        "format_version": VERSION,
        "library_version": __version__,
        "estimator": name,
        "certificate": proof.to_dict(),
        "parameters": parameters,
        "parameters_left_out": left_out,
        "notes": notes or {},
        "attributes": attributes,
        "arrays": {
            key: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for key, data in arrays.items()
        },
    }
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False).encode()
    _write_whole(Path(path), lambda file: _write_archive(file, text, arrays))


def _write_archive(file: Any, text: bytes, arrays: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("manifest.json", text)
        archive.writestr("manifest.sha256", hashlib.sha256(text).hexdigest() + "\n")
        for key, data in arrays.items():
            archive.writestr(f"arrays/{key}.npy", data)


def _write_whole(path: Path, write: Callable[[Any], None]) -> None:
    """Write beside the target, then move: a reader never sees half a file."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    except OSError as problem:
        raise ModelFileError(f"cannot write {path}: {problem.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # as an ordinary new file
        os.replace(temporary, path)
    except BaseException as problem:
        os.unlink(temporary)
        if isinstance(problem, OSError):
            raise ModelFileError(f"cannot write {path}: {problem.strerror}") from None
        raise


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a model file, checked, without its arrays.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict
    """
    return _read(Path(path), with_arrays=False)[0]


def load(path: str | os.PathLike[str], *, model: Any = None) -> Any:
    """The estimator of a model file; it predicts exactly as the one that was saved.

    Parameters
    ----------
    path : path-like
    model : StructuredModel, optional
        For a :class:`~cornerstep.StructuredSVC` with a model class of your own: an object of that
        class, which the file cannot bring along.  It is copied, not changed.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, no model file, or from a newer version.
    """
    manifest, arrays = _read(Path(path), with_arrays=True)
    decode = Decoder(arrays, model)
    name = manifest["estimator"]
    try:
        parameters = {key: decode(value) for key, value in manifest["parameters"].items()}
        unknown = set(parameters) - set(_class(name)._get_param_names())
        if unknown:
            raise ValueError(f"{name} has no parameter {sorted(unknown)[0]!r}")
        estimator = _class(name)(**parameters)
        for key, value in manifest["attributes"].items():
            if key not in ATTRIBUTES[name]:
                raise ValueError(f"{name} has no attribute {key!r}")
            setattr(estimator, key, decode(value))
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        raise ModelFileError(f"{path} does not hold a usable {name}: {problem}") from None
    return estimator


def _class(name: str) -> Any:
    import cornerstep

    return getattr(cornerstep, name)


def _read(path: Path, with_arrays: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _checked_manifest(archive, path)
            listed = manifest["arrays"]
            there = {i.filename: i for i in archive.infolist()}
            arrays = {}
            for key, facts in listed.items() if with_arrays else ():
                entry = there.get(f"arrays/{key}.npy")
                if entry is None or entry.file_size != facts["bytes"]:
                    raise ModelFileError(_damaged(path, f"the array {key} is not as listed"))
                data = archive.read(entry)
                if hashlib.sha256(data).hexdigest() != facts["sha256"]:
                    raise ModelFileError(_damaged(path, f"the checksum of {key} is wrong"))
                arrays[key] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except OSError as problem:
        raise ModelFileError(f"cannot read {path}: {problem.strerror or problem}") from None
    except zipfile.BadZipFile:
        raise ModelFileError(
            f"{path} is not a cornerstep model file, or only a part of one: "
            "copy it again, or train and save it anew"
        ) from None
    except ModelFileError:
        raise
    except _DAMAGE as problem:
        raise ModelFileError(_damaged(path, str(problem))) from None
    return manifest, arrays


def _checked_manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    if "manifest.json" not in archive.namelist():
        raise ModelFileError(f"{path} is not a cornerstep model file: it has no manifest.json")
    text = archive.read("manifest.json")
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a cornerstep model file")
    if manifest["format_version"] != VERSION:
        raise ModelFileError(
            f"{path} has format version {manifest['format_version']} (written by cornerstep "
            f"{manifest.get('library_version')}), this library reads version {VERSION}: "
            "update cornerstep"
        )
    if hashlib.sha256(text).hexdigest().encode() != archive.read("manifest.sha256").strip():
        raise ModelFileError(_damaged(path, "the checksum of its manifest is wrong"))
    if manifest["estimator"] not in ATTRIBUTES:
        raise ModelFileError(f"{path} holds an unknown estimator, {manifest['estimator']!r}")
    return manifest
