"""``fit`` and ``path``: train one model, or one for each C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.pipeline import Pipeline

import cornerstep
from cornerstep.cli import models, tables
from cornerstep.cli.data import Dataset, format_of, is_large, read, require_room
from cornerstep.cli.data import stream as open_stream
from cornerstep.cli.options import (
    Data,
    Drop,
    Header,
    Json,
    Sep,
    Stream,
    check_outputs,
    flag,
    layout_of,
    refuse_overwriting,
)
from cornerstep.cli.screen import (
    INTERRUPTED,
    LIMIT,
    SOLVED,
    UserError,
    columns,
    facts,
    put_json,
    say,
)
from cornerstep.data.rows import PreparedRows, Rows, unpacked
from cornerstep.learning import measures
from cornerstep.learning.certificates import certificate

Model = Annotated[str, typer.Option(help="multiclass, kernel, structured-chain or boost.")]
Target = Annotated[str | None, typer.Option(help="Column of the labels, or npy file.")]
Sequence = Annotated[str | None, typer.Option(help="Column that says which rows form a chain.")]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to take although it reads like an identifier; may be repeated.", metavar="NAME"
    ),
]
Scale = Annotated[
    bool | None,
    flag(
        "--scale/--no-scale",
        help="CSV, Parquet: mean 0 and variance 1; by default for all models but boost.",
    ),
]
Loss = Annotated[str | None, typer.Option(help="multiclass: max-hinge, top-k, usunier, ...")]
TopLoss = Annotated[int | None, typer.Option("-k", help="k of the losses top-k and usunier.")]
Constant = Annotated[float | None, typer.Option("-C", help="Weight of the losses.")]
Nu = Annotated[float | None, typer.Option(help="kernel, boost: share of the hard examples.")]
Smoothing = Annotated[str | None, typer.Option(help="multiclass: of the loss, a number or auto.")]
Kernel = Annotated[str | None, typer.Option(help="multiclass, kernel: linear, rbf, poly, ...")]
Gamma = Annotated[str | None, typer.Option(help="Width of the kernel: scale, auto or a number.")]
Solver = Annotated[str | None, typer.Option(help="The solver.")]
Tol = Annotated[float | None, typer.Option(help="The relative gap that counts as solved.")]
Atol = Annotated[float | None, typer.Option(help="The gap that counts as solved.")]
MaxIter = Annotated[int | None, typer.Option(help="Most iterations.")]
TimeLimit = Annotated[float | None, typer.Option(help="Most seconds.")]
Holdout = Annotated[float, typer.Option(help="Share of the data kept for testing.")]
Seed = Annotated[int, typer.Option(help="For the split and the solver.")]
Quiet = Annotated[bool, flag("--quiet", "-q", help="No live display.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Any other parameter of the estimator; may be repeated.", metavar="NAME=VALUE"
    ),
]


def fit(
    data: Data,
    model: Model = "multiclass",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report.")] = None,
    target: Target = None,
    sequence: Sequence = None,
    drop: Drop = None,
    keep: Keep = None,
    sep: Sep = None,
    header: Header = None,
    scale: Scale = None,
    loss: Loss = None,
    k: TopLoss = None,
    smoothing: Smoothing = None,
    C: Constant = None,
    nu: Nu = None,
    kernel: Kernel = None,
    gamma: Gamma = None,
    solver: Solver = None,
    tol: Tol = None,
    atol: Atol = None,
    max_iter: MaxIter = None,
    time_limit: TimeLimit = None,
    holdout: Holdout = 0.0,
    seed: Seed = 0,
    top_k: Annotated[int, typer.Option(help="Also measure the error of the first k guesses.")] = 1,
    stream: Stream = None,
    set_: Set = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model and prove how good it is.

    Example: cornerstep fit digits.csv --target digit --loss top-k -k 3
    --holdout 0.2 -o digits.cornerstep --report report.html

    Ctrl-C stops training and keeps the best model so far.
    """
    options = {
        "loss": loss, "k": k, "smoothing": _number(smoothing), "C": C, "nu": nu, "kernel": kernel,
        "gamma": _number(gamma), "solver": solver, "tol": tol, "atol": atol,
        "max_iter": max_iter, "time_limit": time_limit,
    }  # fmt: skip
    estimator = models.make(model, options, set_ or [])
    inputs = (data, Path(target)) if target else (data,)
    refuse_overwriting(inputs, (output, report))
    check_outputs(output, report)
    layout = layout_of(sep, header)
    if stream is None:
        stream = model == "multiclass" and kernel in (None, "linear") and is_large(data)
    if stream:
        _check_streamed(model, kernel, sequence)
        whole = open_stream(data, target=target, drop=drop, layout=layout)
    else:
        whole = read(data, target=target, sequence=sequence, drop=drop, layout=layout)
    whole, left_out = _reviewed(whole, keep, scale)
    raw, raw_test = models.split(whole, holdout, seed)
    estimator.set_params(random_state=seed, verbose=0 if quiet or json else 1)
    _check_top_k(estimator, raw, top_k)
    prepare = tables.fitted(estimator, raw, scale) if models.is_table(data) else None
    train, test = (_prepared(prepare, part) for part in (raw, raw_test))
    assert train is not None
    if isinstance(train.X, PreparedRows):
        train = replace(train, X=unpacked(train.X))
    _check_room(estimator, train)
    X, y = estimator.table_inputs(train)
    estimator.fit(X, y)
    proof = certificate(estimator)
    errors = _errors(estimator, train, test, top_k)
    if output is not None:
        notes = _notes(whole, train, target, sequence, holdout, seed) | {"left_out": left_out}
        kept = estimator if prepare is None else Pipeline([*prepare.steps, ("model", estimator)])
        cornerstep.save(kept, output, notes=notes)
    if report is not None:
        _report(estimator, train, test, report)
    name, size = estimator.model_size()
    if json:
        put_json({
            "estimator": type(estimator).__name__, "certificate": proof.to_dict(),
            "examples": {"training": train.n, "held_out": 0 if test is None else test.n},
            "errors": errors, name.replace(" ", "_"): size,
            "model": None if output is None else str(output),
            "report": None if report is None else str(report),
        })  # fmt: skip
    else:
        rows = models.summary(proof)
        rows |= {f"{part} error": _shares(values) for part, values in errors.items() if values}
        rows[name] = f"{size:,}"
        rows |= {"model": output} if output else {}
        rows |= {"report": report} if report else {}
        facts(f"{type(estimator).__name__} on {train.n:,} examples", rows)
        say(proof.sentence)
    if proof.status is cornerstep.Status.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(SOLVED if proof.status is cornerstep.Status.SOLVED else LIMIT)


def path(
    data: Data,
    values: Annotated[
        str, typer.Option("--values", help="Values of the parameter, separated by commas.")
    ] = "0.01,0.1,1,10,100",
    parameter: Annotated[
        str, typer.Option(help="C, nu, K, lam or another number of the model.")
    ] = "C",
    model: Model = "multiclass",
    target: Target = None,
    sequence: Sequence = None,
    drop: Drop = None,
    keep: Keep = None,
    sep: Sep = None,
    header: Header = None,
    scale: Scale = None,
    loss: Loss = None,
    k: TopLoss = None,
    smoothing: Smoothing = None,
    kernel: Kernel = None,
    gamma: Gamma = None,
    tol: Tol = None,
    atol: Atol = None,
    max_iter: MaxIter = None,
    time_limit: Annotated[float | None, typer.Option(help="Most seconds for each model.")] = None,
    holdout: Holdout = 0.2,
    seed: Seed = 0,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Train a model for every C, nu or lambda, each from the last, each with its certificate.

    Example: cornerstep path digits.csv --target digit --values 0.01,0.1,1,10 --holdout 0.2
    """
    options = {
        "loss": loss, "k": k, "smoothing": _number(smoothing), "kernel": kernel,
        "gamma": _number(gamma), "tol": tol, "atol": atol, "max_iter": max_iter,
        "time_limit": time_limit,
    }  # fmt: skip
    estimator = models.make(model, options, set_ or [])
    known = estimator.get_params(deep=False)
    if parameter not in known:
        raise UserError(
            f"--model {model} has no {parameter}: --parameter must be one of "
            f"{', '.join(name for name in ('C', 'nu', 'K', 'lam', 'smoothing') if name in known)}"
        )
    try:
        given = [float(value) for value in values.split(",")]
    except ValueError:
        raise UserError(f"--values takes numbers separated by commas, got {values!r}") from None
    whole = read(
        data, target=target, sequence=sequence, drop=drop, layout=layout_of(sep, header)
    )  # fmt: skip
    whole, _ = _reviewed(whole, keep, scale)
    raw, raw_test = models.split(whole, holdout, seed)
    prepare = tables.fitted(estimator, raw, scale) if models.is_table(data) else None
    train, test = (_prepared(prepare, part) for part in (raw, raw_test))
    assert train is not None
    estimator.set_params(random_state=seed)
    _check_room(estimator, train)
    X, y = estimator.table_inputs(train)
    found = cornerstep.regularization_path(estimator, X, y, given, parameter=parameter)
    rows = []
    for value, fitted in zip(found.values, found.estimators, strict=True):
        proof = certificate(fitted)
        errors = _errors(fitted, train, test, 1)
        rows.append({
            parameter: float(value), "objective": proof.value, "gap": proof.gap,
            "relative gap": proof.relative_gap, "status": str(proof.status),
            "iterations": proof.n_iter, "seconds": proof.seconds,
            "training error": errors["training"][0],
            "held-out error": errors["held-out"][0] if test is not None else None,
        })  # fmt: skip
    if json:
        put_json(rows)
    else:
        columns(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])
    solved = all(row["status"] == "solved" for row in rows)
    raise typer.Exit(SOLVED if solved else LIMIT)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _number(text: str | None) -> Any:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _reviewed(
    whole: Dataset, keep: list[str] | None, scale: bool | None
) -> tuple[Dataset, list[str]]:
    """The data without columns that tell nothing, and a line on each of those."""
    if whole.sequence is None:
        tables.require_classes(whole)
    if models.is_table(whole.path):
        return tables.features_of(whole, keep or [])
    for option, given in (("--keep", keep), ("--scale", scale)):
        if given:
            raise UserError(
                f"{option} is for CSV and Parquet files, {whole.path} is {format_of(whole.path)}"
            )
    return whole, []


def _prepared(prepare: Any, part: Dataset | None) -> Dataset | None:
    return part if part is None or prepare is None else tables.prepared(prepare, part)


def _check_streamed(model: str, kernel: str | None, sequence: str | None) -> None:
    """What needs all rows in memory."""
    if model != "multiclass" or kernel not in (None, "linear"):
        raise UserError("--stream is for --model multiclass with a linear kernel")
    if sequence:
        raise UserError(
            "--sequence needs all rows in memory, and these are read in blocks: leave it out, or "
            "give --no-stream"
        )


def _check_room(estimator: Any, train: Dataset) -> None:
    """Before training: a file may name features up to any number."""
    if getattr(estimator, "kernel", "linear") == "linear" and train.y is not None:
        weights = 2 * np.unique(train.y).size
        require_room(weights, train.X.shape[1], "the weights of the model, in two copies,")


def _check_top_k(estimator: Any, train: Dataset, top_k: int) -> None:
    """Before training: there must be as many guesses to make."""
    if estimator.predicts_structures:
        if top_k != 1:
            raise UserError("--top-k is not for --model structured-chain")
        return
    n_classes = len(set(train.y.tolist()))
    if not 1 <= top_k <= n_classes:
        raise UserError(
            f"--top-k must be from 1 to {n_classes}, the number of classes, got {top_k}"
        )


def _errors(
    estimator: Any, train: Dataset, test: Dataset | None, top_k: int
) -> dict[str, list[float]]:
    """Errors of the first 1, ..., k guesses on both parts of the data."""
    errors: dict[str, list[float]] = {"training": [], "held-out": []}
    for name, part in (("training", train), ("held-out", test)):
        if part is not None:
            X, y = estimator.table_inputs(part)
            errors[name] = measures.top_k_errors(estimator, X, y, top_k)
    return errors


def _shares(values: list[float]) -> str:
    first = f"{100 * values[0]:.2f} %"
    if len(values) == 1:
        return first
    return f"{first}, top {len(values)}: {100 * values[-1]:.2f} %"


def _notes(
    whole: Dataset, train: Dataset, target: str | None, sequence: str | None, holdout: float,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """What certify and predict need to know about the training data."""
    return {
        "data": whole.path.name, "rows": whole.n, "training_rows": train.n, "holdout": holdout,
        "seed": seed, "target": target, "sequence": sequence, "features": whole.names or None,
        "words": whole.words, "sep": whole.layout.sep, "heading": whole.layout.heading,
    }  # fmt: skip


def _report(estimator: Any, train: Dataset, test: Dataset | None, path: Path) -> None:
    part = train if test is None else test
    name = "the training data" if test is None else "held-out data"
    if isinstance(part.X, Rows):
        some, at = tables.sample_of(part)
        name = name if at.size == part.n else f"{at.size:,} rows of {name}"
        part = some
    X, y = estimator.table_inputs(part)
    cornerstep.report(
        estimator, X, y, path, data_name=name, feature_names=train.names or None
    )  # fmt: skip
