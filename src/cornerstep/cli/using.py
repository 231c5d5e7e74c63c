"""``predict``, ``evaluate``, ``convert`` and ``export``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import cornerstep
from cornerstep.cli import models, tagging
from cornerstep.cli.data import read
from cornerstep.cli.options import (
    Data,
    Drop,
    Header,
    Json,
    ModelFile,
    Sep,
    Stream,
    flag,
    layout_of,
    refuse_overwriting,
)
from cornerstep.cli.screen import UserError, facts, put_json, say
from cornerstep.cli.writing import write
from cornerstep.core.output import replacing_text
from cornerstep.data.rows import Rows
from cornerstep.learning import measures

Target = Annotated[str | None, typer.Option(help="Column of the labels, if not as in training.")]


def predict(
    model: ModelFile,
    data: Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Instead of stdout.")
    ] = None,
    top_k: Annotated[int, typer.Option(help="The first k guesses, separated by tabs.")] = 1,
    scores: Annotated[bool, flag("--scores", help="The score of every class instead.")] = False,
    sep: Sep = None,
    header: Header = None,
    stream: Stream = None,
) -> None:
    """Print a prediction for every row of DATA.

    Example: cornerstep predict digits.cornerstep new.csv > predictions.txt
    """
    refuse_overwriting((model, data), (output,))
    trained = models.load_model(model)
    if trained.estimator.reads_sentences:
        tagging.refuse(
            top_k=top_k != 1, scores=scores, sep=sep is not None, header=header is not None,
            stream=stream is not None,
        )  # fmt: skip
        tagging.predict(trained, data, output)
        return
    layout = layout_of(sep, header)
    table = models.read_for(trained, data, layout, needs_labels=False, streamed=stream)
    estimator = trained.estimator
    lines = _predictions(estimator, table, top_k, scores)
    if output is None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    with replacing_text(output) as file:
        file.writelines(f"{line}\n" for line in lines)


def _predictions(estimator: Any, table: Any, top_k: int, scores: bool) -> Iterable[str]:
    if estimator.predicts_structures:
        if top_k != 1 or scores:
            raise UserError("--top-k and --scores are not for models of chains")
        X, _, where = table.chains()
        out = np.empty(table.n, dtype=object)
        for rows, labels in zip(where, estimator.predict(X), strict=True):
            out[rows] = labels
        return [str(label) for label in out]
    X, _ = estimator.table_inputs(table)
    if not 1 <= top_k <= estimator.classes_.size:
        raise UserError(f"--top-k must be from 1 to {estimator.classes_.size}, got {top_k}")
    heading = ["\t".join(str(label) for label in estimator.classes_)] if scores else []
    pieces = X.pieces() if isinstance(X, Rows) else [X]
    lines = (_lines(estimator, piece, top_k, scores) for piece in pieces)
    return chain(heading, chain.from_iterable(lines))


def _lines(estimator: Any, X: Any, top_k: int, scores: bool) -> list[str]:
    if scores:
        values = measures.class_scores(estimator, X)
        return ["\t".join(f"{v!r}" for v in row) for row in values.tolist()]
    if top_k == 1:
        return [str(label) for label in estimator.predict(X)]
    order = np.argsort(-measures.class_scores(estimator, X), axis=1, kind="stable")[:, :top_k]
    return ["\t".join(map(str, row)) for row in estimator.classes_[order]]


def evaluate(
    model: ModelFile,
    data: Data,
    target: Target = None,
    top_k: Annotated[int, typer.Option(help="Errors of the first 1, ..., k guesses.")] = 1,
    sep: Sep = None,
    header: Header = None,
    stream: Stream = None,
    json: Json = False,
) -> None:
    """Measure the error of a model on labelled DATA.

    Example: cornerstep evaluate digits.cornerstep test.csv --top-k 3
    """
    trained = models.load_model(model)
    if trained.estimator.reads_sentences:
        tagging.refuse(
            target=target is not None, top_k=top_k != 1, sep=sep is not None,
            header=header is not None, stream=stream is not None,
        )  # fmt: skip
        tagging.evaluate(trained, data, json)
        return
    layout = layout_of(sep, header)
    table = models.read_for(trained, data, layout, target=target, streamed=stream)
    estimator = trained.estimator
    models.check_labels(estimator, table)
    X, y = estimator.table_inputs(table)
    if estimator.predicts_structures:
        if top_k != 1:
            raise UserError("--top-k is not for models of chains")
        answers = estimator.predict(X)
        wrong = [np.asarray(a) != np.asarray(b) for a, b in zip(answers, y, strict=True)]
        result: dict[str, Any] = {
            "examples": len(y),
            "mean loss": 1.0 - float(estimator.score(X, y)),
            "label error": float(np.concatenate(wrong).mean()),
            "chain error": float(np.mean([part.any() for part in wrong])),
        }
    else:
        if not 1 <= top_k <= estimator.classes_.size:
            raise UserError(f"--top-k must be from 1 to {estimator.classes_.size}, got {top_k}")
        errors = measures.top_k_errors(estimator, X, y, top_k)
        result = {"examples": len(y)}
        result |= {f"top-{k} error": error for k, error in enumerate(errors, start=1)}
    if json:
        put_json({name.replace(" ", "_").replace("-", "_"): v for name, v in result.items()})
        return
    shown = {name: v if name == "examples" else f"{100 * v:.2f} %" for name, v in result.items()}
    facts(f"{model.name} on {data.name}", shown)


def convert(
    source: Annotated[Path, typer.Argument(help="File to read.", metavar="FROM")],
    destination: Annotated[Path, typer.Argument(help="File to write.", metavar="TO")],
    target: Annotated[str | None, typer.Option(help="Column of the labels (CSV, Parquet).")] = None,
    sequence: Annotated[
        str | None, typer.Option(help="Column of the chains (CSV, Parquet).")
    ] = None,
    drop: Drop = None,
    sep: Sep = None,
    header: Header = None,
) -> None:
    """Turn a data file into another format; the ending of TO says which.

    Example: cornerstep convert digits.csv digits.svm --target digit
    """
    refuse_overwriting((source,), (destination,))
    table = read(
        source, target=target, sequence=sequence, drop=drop, needs_labels=False,
        layout=layout_of(sep, header),
    )  # fmt: skip
    write(table, destination, target or "target")
    say(f"{destination}: {table.n:,} rows, {table.X.shape[1]:,} features")


def export(
    model: ModelFile,
    output: Annotated[Path, typer.Argument(help="ONNX file to write.", metavar="OUT")],
) -> None:
    """Write a linear or boosted model as ONNX, for runtimes without Python.

    Example: cornerstep export digits.cornerstep digits.onnx
    """
    refuse_overwriting((model,), (output,))
    found = cornerstep.load(model)
    if output.suffix.lower() != ".onnx":
        raise UserError(f"{output} must end in .onnx")
    try:
        cornerstep.to_onnx(found, output)
    except ImportError as problem:
        raise UserError(str(problem)) from None
    say(
        f"{output}: takes X (float32, {found.n_features_in_} features), answers scores and "
        f"label (the number of the class, {found.classes_.size} in all)"
    )
