"""The command that trains the last layer of a network for a list of C, and keeps the best."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import cornerstep
from cornerstep.cli.data import Dataset, read
from cornerstep.cli.options import Json, check_outputs, refuse_overwriting
from cornerstep.cli.screen import INTERRUPTED, LIMIT, SOLVED, UserError, columns, put_json, say
from cornerstep.core.npy import load_npy
from cornerstep.core.output import replacing
from cornerstep.core.types import FloatArray
from cornerstep.learning import measures
from cornerstep.learning.path import RegularizationPath, models_along

_DECADES = np.logspace(-1, 3, 10)  # of C times the mean of |x|²
DEVICES = ("auto", "cpu", "cuda")
PICTURES = (".svg", ".png", ".pdf")
DTYPES = ("float32", "float64", "bfloat16")


def probe(
    features: Annotated[Path, typer.Argument(help="npy file of a matrix, or a folder of them.")],
    labels: Annotated[Path, typer.Argument(help="npy file of the labels of its rows.")],
    validation: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Features and labels to choose C by.", metavar="FEATURES LABELS"),
    ] = None,
    holdout: Annotated[float, typer.Option(help="Without --validation: share kept for it.")] = 0.2,
    values: Annotated[
        str,
        typer.Option(
            help="Values of C, separated by commas; auto: ten over four decades, around 10 over "
            "the mean square of a row."
        ),
    ] = "auto",
    loss: Annotated[str, typer.Option(help="softmax, top-k, max-hinge, ...")] = "softmax",
    k: Annotated[int, typer.Option("-k", help="Guesses that count, and of top-k losses.")] = 5,
    tol: Annotated[float, typer.Option(help="The relative gap that counts as solved.")] = 0.01,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float32, float64 or bfloat16 (cuda).")] = "float32",
    time_limit: Annotated[float | None, typer.Option(help="Most seconds for each C.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file.")] = None,
    head: Annotated[
        Path | None, typer.Option(help="File for torch.load: weight, bias, classes.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of errors and gaps over C.")] = None,
    seed: Annotated[int, typer.Option(help="For the split and the solver.")] = 0,
    json: Json = False,
) -> None:
    """Train the last layer of a network for a list of C, each certified, and keep the best.

    Example: cornerstep probe features.npy labels.npy --validation val.npy val_labels.npy
    --head head.pt --plot probe.svg
    """
    for name, given, known in (("device", device, DEVICES), ("dtype", dtype, DTYPES)):
        if given not in known:
            raise UserError(f"--{name} must be one of {', '.join(known)}, got {given!r}")
    inputs = (features, labels, *(validation or ()))
    refuse_overwriting(inputs, (output, head, plot))
    check_outputs(output, head, plot)
    if plot is not None and plot.suffix not in PICTURES:
        raise UserError(f"--plot must end in one of {', '.join(PICTURES)}, got {plot}")
    if plot is not None and find_spec("matplotlib") is None:
        raise UserError("--plot needs matplotlib: pip install 'cornerstep[plot]'")
    (X, y), (X_val, y_val) = _parts(features, labels, validation, holdout, seed)
    classes = np.unique(y).size
    if classes < 2:
        raise UserError(f"{labels} must have two classes or more, got {classes} to train with")
    if not 1 <= k < classes:
        raise UserError(f"-k must be from 1 to {classes - 1}, one less than the classes, got {k}")
    X, y_train = _placed(X, y, device, dtype, head is not None)
    X_val, _ = _placed(X_val, y_val, device, dtype, False)
    estimator = cornerstep.MulticlassSVC(
        loss=loss, k=k, tol=tol, time_limit=time_limit, random_state=seed
    )
    found: dict[str, list[Any]] = {"values": [], "estimators": []}
    rows: list[dict[str, Any]] = []
    interrupted, begun = False, time.perf_counter()
    try:
        for C, fitted in models_along(estimator, X, y_train, _list_of(values, X)):
            seconds = time.perf_counter() - begun
            errors = measures.top_k_errors(fitted, X_val, y_val, k)
            found["values"].append(C)
            found["estimators"].append(fitted)
            rows.append({
                "C": C, "top-1 error": errors[0], f"top-{k} error": errors[-1],
                "objective": fitted.objective_, "relative gap": fitted.relative_gap_,
                "status": str(fitted.status_), "seconds": seconds,
            })  # fmt: skip
            say(
                f"C = {C:.4g}: {seconds:.2f} s, top-1 {100 * errors[0]:.2f} %, "
                f"top-{k} {100 * errors[-1]:.2f} % wrong, {fitted.status_}"
            )
            begun = time.perf_counter()
    except KeyboardInterrupt:  # between the steps of a solver, which hears it itself
        if not rows:
            raise
        interrupted = True
        say(f"interrupted after {len(rows)} C: the best of them is kept")
    path = RegularizationPath(np.array(found["values"]), found["estimators"])
    best = int(np.argmin([row["top-1 error"] for row in rows]))
    if json:
        put_json({"best": rows[best]["C"], "models": rows})
    else:
        names = list(rows[0])
        columns(names, [[_cell(row[name]) for name in names] for row in rows])
        end = " (the largest tried: --values with larger ones)" if 0 < best == len(rows) - 1 else ""
        error = 100 * rows[best]["top-1 error"]
        say(f"best: C = {rows[best]['C']:.4g}, {error:.2f} % wrong{end}")
    _write(path.estimators[best], output, head)
    if plot is not None:
        _draw(path, rows, k, plot)
    if interrupted or any(row["status"] == "interrupted" for row in rows):
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(SOLVED if all(row["status"] == "solved" for row in rows) else LIMIT)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _pair(features: Path, labels: Path) -> tuple[Any, Any]:
    """A matrix and its labels; of a folder the rows of its files in the order of their names."""
    if not features.is_dir():
        part = read(features, target=str(labels))
        return part.X, part.y
    files = sorted(features.glob("*.npy"))
    if not files:
        raise UserError(f"there is no npy file in the folder {features}")
    try:
        X = np.concatenate([load_npy(file) for file in files])
        y = load_npy(labels)
    except (OSError, ValueError) as problem:
        raise UserError(f"{features} and {labels} must be npy files that fit: {problem}") from None
    if X.ndim != 2 or X.dtype.kind not in "iuf" or y.shape != X.shape[:1]:
        raise UserError(
            f"{features} must have a matrix of numbers with a row for each label, got shapes "
            f"{X.shape} and {y.shape}"
        )
    return Dataset(features, X, y).numeric().X, y


def _parts(
    features: Path, labels: Path, validation: tuple[Path, Path] | None, holdout: float, seed: int
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Examples to train with and to choose C by."""
    X, y = _pair(features, labels)
    if validation is None:
        if not 0 < holdout < 1:
            raise UserError(f"--holdout must be a share between 0 and 1, got {holdout}")
        order = np.random.default_rng(seed).permutation(len(y))
        kept = max(1, round(holdout * len(y)))
        return (X[order[kept:]], y[order[kept:]]), (X[order[:kept]], y[order[:kept]])
    X_val, y_val = _pair(*validation)
    if X_val.shape[1] != X.shape[1]:
        raise UserError(
            f"{validation[0]} has {X_val.shape[1]} features, {features} has {X.shape[1]}"
        )
    if unknown := sorted(set(y_val.tolist()) - set(y.tolist())):
        raise UserError(
            f"{validation[1]} has classes that {labels} has not: "
            f"{', '.join(map(str, unknown[:5]))}{', ...' if len(unknown) > 5 else ''}"
        )
    return (X, y), (X_val, y_val)


def _placed(X: Any, y: Any, device: str, dtype: str, needs_torch: bool) -> tuple[Any, Any]:
    """The examples as the solvers of a device take them: NumPy arrays, or tensors on a GPU."""
    if device == "cpu" and not needs_torch:
        return _on_host(X, dtype), y
    try:
        import torch
    except ImportError:
        if device == "auto" and not needs_torch:
            return _on_host(X, dtype), y
        raise UserError(
            "--device cuda and --head need torch: pip install 'cornerstep[torch]'"
        ) from None
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise UserError("--device cuda needs a GPU that torch can use; there is none")
    if device == "cpu" or not there:
        return _on_host(X, dtype), y
    if y.dtype.kind not in "iu":
        raise UserError(f"labels must be whole numbers on a GPU, got {y.dtype}; or --device cpu")
    rows = torch.from_numpy(np.ascontiguousarray(X)).to("cuda", getattr(torch, dtype))
    return rows, torch.from_numpy(y.astype(np.int64)).to("cuda")


def _on_host(X: Any, dtype: str) -> Any:
    if dtype == "bfloat16":
        raise UserError("--dtype bfloat16 needs a GPU")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(X, dtype)
    if not np.isfinite(rows).all():
        raise UserError(f"features must be finite as {dtype}: scale them, or --dtype float64")
    return rows


def _list_of(values: str, X: Any) -> FloatArray:
    if values == "auto":
        square = float((X[:: max(1, len(X) // 1000)] ** 2).sum(-1).mean())
        return _DECADES / (square or 1.0)
    try:
        given = np.array([float(value) for value in values.split(",")])
    except ValueError:
        raise UserError(f"--values takes numbers separated by commas, got {values!r}") from None
    return given


def _write(model: Any, output: Path | None, head: Path | None) -> None:
    if output is not None:
        cornerstep.save(model.set_params(warm_start=False), output)
    if head is not None:
        import torch

        layer = {name: part.cpu() for name, part in model.to_torch().state_dict().items()}
        with replacing(head) as file:
            torch.save(layer | {"classes": np.asarray(model.classes_).tolist()}, file)


def _draw(path: RegularizationPath, rows: list[dict[str, Any]], k: int, file: Path) -> None:
    """Errors over C, and below them the proven gaps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for name, marker in (("top-1 error", "o-"), (f"top-{k} error", "s-")):
        upper.semilogx(path.values, [row[name] for row in rows], marker, label=name)
    upper.set_ylabel("share of the validation examples")
    upper.set_ylim(bottom=0)
    upper.legend()
    gaps = np.maximum(path.column("relative_gap_"), np.finfo(float).eps)
    lower.loglog(path.values, gaps, "k.-")
    lower.set(xlabel="C", ylabel="proven gap")
    with replacing(file) as out:
        figure.savefig(out, format=file.suffix.lstrip("."))
