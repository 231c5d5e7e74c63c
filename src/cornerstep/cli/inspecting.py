"""``inspect``, ``certify`` and ``demo``."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

import cornerstep
from cornerstep.cli import models
from cornerstep.cli.screen import UNPROVEN, UserError, facts, put_json
from cornerstep.cli.using import Data, ModelFile, Stream, Target
from cornerstep.learning.certificates import certificate

Json = Annotated[bool, typer.Option("--json", help="Results as JSON.")]


def inspect(model: ModelFile, json: Json = False) -> None:
    """Show what is in a model file, with its certificate; every checksum is verified.

    Example: cornerstep inspect digits.cornerstep
    """
    estimator, notes = models.load_model(model)
    manifest = cornerstep.read_manifest(model)
    name, size = estimator.model_size()
    if json:
        kept = ("format_version", "library_version", "estimator", "certificate", "notes")
        shown = {key: manifest[key] for key in kept}
        shown["parameters"] = {key: _plain(v) for key, v in manifest["parameters"].items()}
        shown |= {name.replace(" ", "_"): size, "bytes": model.stat().st_size}
        put_json(shown)
        return
    usual = signature(type(estimator)).parameters
    changed = {
        key: value
        for key, value in estimator.get_params(deep=False).items()
        if repr(value) != repr(usual[key].default)
    }
    rows: dict[str, Any] = {
        "estimator": manifest["estimator"],
        "written by": f"cornerstep {manifest['library_version']}, "
        f"format {manifest['format_version']}",
        "parameters": ", ".join(f"{key}={value!r}" for key, value in changed.items()) or "defaults",
        "features": getattr(estimator, "n_features_in_", "any"),
        "classes": _classes(estimator),
        name: f"{size:,}",
    }
    rows |= models.summary(certificate(estimator))
    if {"data", "rows", "training_rows"} <= set(notes):
        rows["trained on"] = (
            f"{notes['training_rows']:,} of {notes['rows']:,} rows of {notes['data']}"
        )
    rows["file"] = (
        f"{model.stat().st_size:,} bytes, {len(manifest['arrays'])} arrays, checksums right"
    )
    facts(str(model), rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        kind, content = next(iter(value.items()))
        return f"<{kind} {content[0] if isinstance(content, list) else content}>"
    return value


def _classes(estimator: Any) -> str:
    labels = estimator.known_labels()
    more = ", ..." if len(labels) > 10 else ""
    return f"{len(labels)}: {', '.join(map(str, labels[:10]))}{more}"


def certify(
    model: ModelFile,
    data: Data,
    target: Target = None,
    stream: Stream = None,
    json: Json = False,
) -> None:
    """Recompute the gap of a saved model from its training DATA and say whether the claim holds.

    The split of --holdout is made again, so give the file that was given to fit.

    Example: cornerstep certify digits.cornerstep digits.csv
    """
    estimator, notes = models.load_model(model)
    whole = "the split of --holdout needs all rows in memory" if notes.get("holdout") else None
    table = models.read_for(estimator, notes, data, target=target, streamed=stream, whole=whole)
    models.check_labels(estimator, table)
    if "rows" in notes and table.n != notes["rows"]:
        raise UserError(
            f"the model was trained on {notes.get('data', 'data')} with {notes['rows']} rows, "
            f"{data} has {table.n}: give the same data"
        )
    train, _ = models.split(table, notes.get("holdout", 0.0), notes.get("seed", 0))
    try:
        check = cornerstep.certify(estimator, *estimator.table_inputs(train))
    except ValueError as problem:
        raise UserError(str(problem)) from None
    if json:
        put_json(check.to_dict())
    else:
        claimed = check.claimed
        rows: dict[str, Any] = {
            "certificate": "holds" if check.holds else "DOES NOT HOLD",
            "claimed gap": f"{claimed.gap:.6g}  ({100 * claimed.relative_gap:.3g} %)",
            "recomputed gap": f"{check.gap:.6g}  ({100 * check.relative_gap:.3g} %)",
            "bound by": check.how,
        }
        rows |= {f"problem {k}": text for k, text in enumerate(check.problems[:5], start=1)}
        facts(f"{model.name} on {train.n:,} examples of {data.name}", rows)
    if not check.holds:
        raise typer.Exit(UNPROVEN)


def demo(
    folder: Annotated[Path, typer.Argument(help="Where the report goes.", metavar="FOLDER")] = (
        Path("report")
    ),
) -> None:
    """Train certified models on data that ship with scikit-learn and write a report.

    Example: cornerstep demo report
    """
    from cornerstep import demo as demonstration

    demonstration.main([str(folder)])
