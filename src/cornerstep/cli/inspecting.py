"""``inspect``, ``certify`` and ``demo``."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

import cornerstep
from cornerstep.cli import models, tables, tagging
from cornerstep.cli.data import Layout
from cornerstep.cli.options import Data, Header, Json, ModelFile, Sep, Stream, layout_of
from cornerstep.cli.screen import UNPROVEN, UserError, facts, put_json
from cornerstep.cli.using import Target
from cornerstep.learning.certificates import certificate


def inspect(model: ModelFile, json: Json = False) -> None:
    """Show what is in a model file, with its certificate; every checksum is verified.

    Example: cornerstep inspect digits.cornerstep
    """
    estimator, prepare, notes = models.load_model(model)
    manifest = cornerstep.read_manifest(model)
    name, size = estimator.model_size()
    if json:
        kept = ("format_version", "library_version", "estimator", "certificate", "notes")
        shown = {key: manifest[key] for key in kept}
        shown["parameters"] = {key: _plain(v) for key, v in manifest["parameters"].items()}
        shown["chosen"] = estimator.chosen()
        shown |= {name.replace(" ", "_"): size, "bytes": model.stat().st_size}
        shown["prepared"] = [type(step).__name__ for _, step in prepare.steps] if prepare else []
        shown["features"] = _names(estimator, prepare, notes)
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
        "parameters": _assigned(changed) or "defaults",
        **({"chosen": _assigned(estimator.chosen())} if estimator.chosen() else {}),
        **_columns(prepare, notes),
        "features": f"{getattr(estimator, 'n_features_in_', 'any')}"
        + _listed(_names(estimator, prepare, notes)),
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


def _assigned(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in values.items())


def _names(estimator: Any, prepare: Any, notes: dict[str, Any]) -> list[str]:
    """Names of the features that the estimator is given, where they are known."""
    if prepare is not None:
        return tables.names_of(prepare, notes.get("features"))
    own = getattr(estimator, "feature_names_in_", None)
    return notes.get("features", []) if own is None else [str(name) for name in own]


def _columns(prepare: Any, notes: dict[str, Any]) -> dict[str, str]:
    """What the model takes of a table, and how it makes numbers of it."""
    if prepare is None or "features" not in notes:
        return {}
    words = notes.get("words", [])
    numbers = [name for name in notes["features"] if name not in words]
    kinds = (("numbers", numbers), ("words", words), ("left out", notes.get("left_out", [])))
    shown = {kind: f"{len(names)}{_listed(names, '; ')}" for kind, names in kinds if names}
    steps = [text for text in map(_step, _steps(prepare)) if text]
    return shown | {"prepared by": ", ".join(steps)}


def _steps(prepare: Any) -> Iterator[Any]:
    """The transformers of a pipeline, those in others too."""
    parts = getattr(prepare, "steps", None) or getattr(prepare, "transformers_", None)
    if parts is None:
        yield prepare
    for part in parts or ():
        if part[0] != "remainder":
            yield from _steps(part[1])


def _step(step: Any) -> str:
    known = {
        "SimpleImputer": "gaps filled, and a feature that says where",
        "StandardScaler": "mean 0 and variance 1",
        "OneHotEncoder": "a feature for each word, rare ones together",
    }
    return known.get(type(step).__name__, type(step).__name__)


def _listed(names: list[str], comma: str = ", ", most: int = 20) -> str:
    more = f"{comma}... (--json has all)" if len(names) > most else ""
    return f": {comma.join(names[:most])}{more}" if names else ""


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
    sep: Sep = None,
    header: Header = None,
    stream: Stream = None,
    json: Json = False,
) -> None:
    """Recompute the gap of a saved model from its training DATA and say whether the claim holds.

    The split of --holdout is made again, so give the file that was given to fit.

    Example: cornerstep certify digits.cornerstep digits.csv
    """
    trained = models.load_model(model)
    if trained.estimator.reads_sentences:
        tagging.refuse(
            target=target is not None, sep=sep is not None, header=header is not None,
            stream=stream is not None,
        )  # fmt: skip
        found = tagging.read_for(trained, data)
        count, inputs = len(found.X), (found.X, found.y)
    else:
        count, inputs = _training_part(trained, data, target, stream, layout_of(sep, header))
    try:
        check = cornerstep.certify(trained.estimator, *inputs)
    except ValueError as problem:
        raise UserError(str(problem)) from None
    if json:
        put_json(check.to_dict())
    else:
        claimed = check.claimed
        rows: dict[str, Any] = {
            "certificate": "holds" if check.holds else "DOES NOT HOLD",
            "claimed gap": claimed.in_words(claimed.gap, claimed.relative_gap, 6),
            "recomputed gap": claimed.in_words(check.gap, check.relative_gap, 6),
            "bound by": check.how,
        }
        rows |= {f"problem {k}": text for k, text in enumerate(check.problems[:5], start=1)}
        facts(f"{model.name} on {count:,} examples of {data.name}", rows)
    if not check.holds:
        raise typer.Exit(UNPROVEN)


def _training_part(
    trained: models.Trained, data: Path, target: str | None, stream: bool | None, layout: Layout
) -> tuple[int, tuple[Any, Any]]:
    """How many rows of a table the model was trained on, and these."""
    estimator, _, notes = trained
    table = models.read_for(trained, data, layout, target=target, streamed=stream)
    models.check_labels(estimator, table)
    if "rows" in notes and table.n != notes["rows"]:
        raise UserError(
            f"the model was trained on {notes.get('data', 'data')} with {notes['rows']} rows, "
            f"{data} has {table.n}: give the same data"
        )
    train, _ = models.split(table, notes.get("holdout", 0.0), notes.get("seed", 0))
    return train.n, estimator.table_inputs(train)


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
