"""Estimators by name, their options, and what is measured of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cornerstep
from cornerstep.cli.data import Dataset, format_of, is_large, read, stream
from cornerstep.cli.screen import UserError
from cornerstep.learning.certificates import Certificate

MODELS = {
    "multiclass": "MulticlassSVC",
    "kernel": "ReducedHullSVC",
    "structured-chain": "StructuredSVC",
    "boost": "SoftMarginBoostingClassifier",
}
_NOTES: dict[str, Callable[[Any], bool]] = {  # that commands use; others are the user's own
    "data": lambda note: isinstance(note, str),
    "rows": lambda note: type(note) is int,
    "training_rows": lambda note: type(note) is int,
    "holdout": lambda note: isinstance(note, float) and 0 <= note < 1,
    "seed": lambda note: type(note) is int and 0 <= note < 2**32,
    "target": lambda note: isinstance(note, str),
    "sequence": lambda note: isinstance(note, str),
    "features": lambda note: isinstance(note, list) and all(isinstance(v, str) for v in note),
}
_OWN = {"model", "verbose", "warm_start"}  # parameters that commands set themselves


def make(model: str, options: dict[str, Any], extra: list[str]) -> Any:
    """An estimator with the options that were given and the ``name=value`` of ``--set``."""
    if model not in MODELS:
        raise UserError(f"--model must be one of {', '.join(MODELS)}, got {model!r}")
    estimator = getattr(cornerstep, MODELS[model]).for_tables()
    known = sorted(set(estimator.get_params(deep=False)) - _OWN)
    chosen = {name: value for name, value in options.items() if value is not None}
    for name, value in [*chosen.items(), *map(_assignment, extra)]:
        if name not in known:
            shown = f"--{name.replace('_', '-')}" if name in chosen else f"--set {name}=..."
            raise UserError(f"{shown} is not for --model {model}; it has {', '.join(known)}")
        estimator.set_params(**{name: value})
    return estimator


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set takes NAME=VALUE, got {text!r}")
    try:
        return name.strip(), json.loads(value)
    except json.JSONDecodeError:
        return name.strip(), value.strip()


def split(data: Dataset, holdout: float, seed: int) -> tuple[Dataset, Dataset | None]:
    """Rows for training and rows held out; whole sequences, or every class in proportion."""
    from sklearn.model_selection import train_test_split

    if not 0 <= holdout < 1:
        raise UserError(f"--holdout must be a share from 0 to less than 1, got {holdout:g}")
    if holdout == 0:
        return data, None
    if data.sequence is not None:
        names = np.unique(data.sequence)
        units, labels = names, None
    else:
        units, labels = np.arange(data.n), data.y
        if np.unique(labels, return_counts=True)[1].min() < 2:
            labels = None
    try:
        train, test = train_test_split(units, test_size=holdout, random_state=seed, stratify=labels)
    except ValueError as problem:
        raise UserError(f"--holdout {holdout:g} cannot split {data.path}: {problem}") from None
    if data.sequence is not None:
        return data.rows(np.isin(data.sequence, train)), data.rows(np.isin(data.sequence, test))
    return data.rows(np.sort(train)), data.rows(np.sort(test))


def load_model(path: Path) -> tuple[Any, dict[str, Any]]:
    """The estimator of a model file, and the notes that were taken when it was trained."""
    notes = cornerstep.read_manifest(path)["notes"]
    return cornerstep.load(path), {
        name: notes[name] for name, fits in _NOTES.items() if name in notes and fits(notes[name])
    }


def read_for(
    estimator: Any,
    notes: dict[str, Any],
    path: Path,
    *,
    target: str | None = None,
    needs_labels: bool = True,
    streamed: bool | None = None,
    whole: str | None = None,
) -> Dataset:
    """Data for a trained model: its own columns of a table, or as many features.

    Read in blocks if ``streamed``, or by default if the file is large and the model can do with
    that; ``whole`` says what needs all rows in memory, if anything does.
    """
    if not estimator.reads_tables:
        raise UserError("commands read data for structured models of chains only")
    expected = int(estimator.n_features_in_)
    if streamed is None:
        streamed = estimator.reads_blocks and whole is None and is_large(path)
    if streamed and not estimator.reads_blocks:
        raise UserError("--stream is for multi-class models with a linear kernel")
    if streamed and whole is not None:
        raise UserError(f"{whole}: give --no-stream")
    named = is_table(path) or format_of(path) == "npy"
    features = notes.get("features") if is_table(path) else None
    wanted = target or (notes.get("target") if named else None)
    if streamed:
        data = stream(
            path,
            target=wanted,
            features=features,
            n_features=expected,
            needs_labels=needs_labels,
        )
    else:
        data = read(
            path,
            target=wanted if needs_labels else target,
            sequence=notes.get("sequence") if is_table(path) else None,
            features=features,
            n_features=expected,
            needs_labels=needs_labels,
        )
    if data.X.shape[1] != expected:
        raise UserError(
            f"the model takes {expected} features, {path} has {data.X.shape[1]}: it must "
            "have those of the training data"
        )
    return data


def is_table(path: Path) -> bool:
    """Whether the columns of a file have names."""
    return format_of(path) in ("csv", "parquet")


def check_labels(estimator: Any, data: Dataset) -> None:
    """Complain about the first label that the model does not know."""
    known = estimator.known_labels()
    data.labelled()
    strange = ~np.isin(data.y, known)
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        raise UserError(
            f"{data.path} has the label {data.y[row]!s} in row {row + 1}, which the model does not "
            f"know; it knows {', '.join(map(str, known[:12]))}"
        )


def summary(proof: Certificate) -> dict[str, Any]:
    """The certificate as rows of a table."""
    name = proof.quantity
    several = len(proof.names) > 1
    worst = " (worst machine)" if several else ""
    return {
        "status": f"{proof.status}: {proof.status.message}",
        f"{name}{worst}": f"{proof.value:.8g}",
        f"bound{worst}": f"{proof.bound:.8g}",
        "gap": f"{proof.gap:.3g}  ({100 * proof.relative_gap:.2g} % of the {name})",
        "asked": proof.target,
        "iterations": f"{proof.n_iter:,}",
        "seconds": f"{proof.seconds:.2f}",
    }
