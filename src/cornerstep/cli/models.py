"""Estimators by name, their options, and what is measured of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cornerstep
from cornerstep.cli import tables
from cornerstep.cli.data import Dataset, Layout, format_of, is_large, read, stream
from cornerstep.cli.screen import UserError
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.pipelines import is_pipeline

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
    "features": lambda note: _are_words(note),
    "words": lambda note: _are_words(note),
    "left_out": lambda note: _are_words(note),
    "sep": lambda note: isinstance(note, str) and len(note) == 1,
    "heading": lambda note: isinstance(note, bool),
    "columns": lambda note: _are_words(note),
}
_OWN = {"model", "verbose", "warm_start"}  # parameters that commands set themselves


def _are_words(note: Any) -> bool:
    return isinstance(note, list) and all(isinstance(value, str) for value in note)


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


class Trained(NamedTuple):
    """The estimator of a model file, what prepares its data, if anything, and notes of training."""

    estimator: Any
    prepare: Any
    notes: dict[str, Any]


def load_model(path: Path) -> Trained:
    """What is in a model file."""
    notes = cornerstep.read_manifest(path)["notes"]
    known = {
        name: notes[name] for name, fits in _NOTES.items() if name in notes and fits(notes[name])
    }
    found = cornerstep.load(path)
    return (
        Trained(found[-1], found[:-1], known) if is_pipeline(found) else Trained(found, None, known)
    )


def read_for(
    trained: Trained,
    path: Path,
    layout: Layout,
    *,
    target: str | None = None,
    needs_labels: bool = True,
    streamed: bool | None = None,
) -> Dataset:
    """Data for a trained model, prepared: its own columns of a table, or as many features.

    Read in blocks if ``streamed``, or by default if the file is large and the model can do with
    that.
    """
    estimator, prepare, notes = trained
    if not estimator.reads_tables:
        raise UserError("commands read data for structured models of chains only, and for taggers")
    expected = int((prepare or estimator).n_features_in_)
    if streamed is None:
        streamed = estimator.reads_blocks and is_large(path)
    if streamed and not estimator.reads_blocks:
        raise UserError("--stream is for multi-class models with a linear kernel")
    named = is_table(path) or format_of(path) == "npy"
    own = getattr(prepare, "feature_names_in_", None)
    features = notes.get("features", own if own is None else [str(name) for name in own])
    wanted = target or (notes.get("target") if named else None)
    options: dict[str, Any] = {
        "features": features if is_table(path) else None,
        "words": notes.get("words") if is_table(path) and features else None,
        "n_features": expected, "needs_labels": needs_labels,
        "layout": _layout(layout, notes, path),
    }  # fmt: skip
    if streamed:
        data = stream(path, target=wanted, **options)
    else:
        sequence = notes.get("sequence") if is_table(path) else None
        data = read(path, target=wanted if needs_labels else target, sequence=sequence, **options)
    if data.X.shape[1] != expected:
        raise UserError(
            f"the model takes {expected} features, {path} has {data.X.shape[1]}: it must "
            "have those of the training data"
        )
    return data.numeric() if prepare is None else tables.prepared(prepare, data)


def _layout(given: Layout, notes: dict[str, Any], path: Path) -> Layout:
    """How a CSV file is written: as the user says, else headless if the training data were."""
    if format_of(path) == "csv" and given.heading is None and notes.get("heading") is False:
        return given._replace(heading=False)
    return given


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
        "gap": proof.shown_gap,
        "asked": proof.target,
        "iterations": f"{proof.n_iter:,}",
        "seconds": f"{proof.seconds:.2f}",
    }
