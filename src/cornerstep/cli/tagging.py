"""The command that trains a tagger on sentences in columns, and what the others do with one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

import cornerstep
from cornerstep.cli import models
from cornerstep.cli.data import STDIN
from cornerstep.cli.options import Json, check_outputs, refuse_overwriting
from cornerstep.cli.screen import INTERRUPTED, LIMIT, SOLVED, UserError, facts, put, put_json, say
from cornerstep.core.output import replacing_text
from cornerstep.learning.certificates import certificate
from cornerstep.structured import ConllSentences, EntityScores, entity_scores, read_conll
from cornerstep.structured.entities import of_entities
from cornerstep.structured.models.constraints import rule_of

_FIRST = ("{0}[-2..2]", "{0}[-1..1]*2")  # of the first column: most often words
_OTHERS = ("{0}[-2..2]", "{0}[-2..2]*2", "{0}[-2..2]*3")  # of the others: parts of speech
_PARTS = ("{0}.lower[0]", "{0}.shape[-1..1]", "{0}.prefix3[0]", "{0}.suffix3[-1..1]")
_OWN_RULES = {"BIO": "BIO", "BIOES": "BIOES", "none": None}


def tag(
    train: Annotated[Path, typer.Argument(help="Text with a token per line, or .gz; or -.")],
    columns: Annotated[
        str, typer.Option(help="Names of the columns, separated by commas; _ for one to leave out.")
    ],
    target: Annotated[
        str | None, typer.Option(help="Column of the labels; by default the last.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Sentences to measure with.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report.")] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(help="Features of neighbours, as word[-2..2]; may be repeated."),
    ] = None,
    parts: Annotated[
        bool,
        typer.Option("--parts", help="Also prefixes, suffixes and shapes of the first column."),
    ] = False,
    constraints: Annotated[
        str, typer.Option(help="BIO, BIOES or none; auto: what the labels obey.")
    ] = "auto",
    lam: Annotated[float | None, typer.Option(help="lambda; by default found by a path.")] = None,
    min_count: Annotated[int, typer.Option(help="Features of fewer tokens are left out.")] = 1,
    tol: Annotated[
        float | None, typer.Option(help="The relative gap that counts as solved.")
    ] = None,
    atol: Annotated[float | None, typer.Option(help="The gap that counts as solved.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Most passes.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    seed: Annotated[int, typer.Option(help="For the order of the sentences.")] = 0,
    json: Json = False,
) -> None:
    """Train a tagger on sentences in columns, as the CoNLL shared tasks have them.

    Example: cornerstep tag train.conll --columns word,pos,tag --test test.conll
    -o chunks.cornerstep

    predict, evaluate, inspect and certify take such models and files.
    """
    names = [name.strip() for name in columns.split(",")]
    if constraints not in ("auto", *_OWN_RULES):
        known = ", ".join(("auto", *_OWN_RULES))
        raise UserError(f"--constraints must be one of {known}, got {constraints!r}")
    refuse_overwriting((train, *((test,) if test else ())), (output, report))
    check_outputs(output, report)
    found = _read(train, names, target)
    held = None if test is None else _read(test, names, target)
    features = list(found.X[0][0])
    options: dict[str, Any] = {
        "lam": lam, "tol": tol, "atol": atol, "max_iter": max_iter, "time_limit": time_limit,
    }  # fmt: skip
    tagger = cornerstep.SequenceTagger(
        template or _templates(features, parts),
        constraints=rule_of(found.y) if constraints == "auto" else _OWN_RULES[constraints],
        min_count=min_count, random_state=seed,
        verbose=0 if json else 1,
        **{name: value for name, value in options.items() if value is not None},
    )  # fmt: skip
    tagger.fit(found.X, found.y)
    proof = certificate(tagger)
    if output is not None:
        notes = {"data": train.name, "columns": names, "target": target or names[-1]}
        cornerstep.save(tagger.set_params(verbose=0), output, notes=notes)
    if report is not None:
        shown, name = (found, train.name) if held is None or test is None else (held, test.name)
        cornerstep.report(tagger, shown.X, shown.y, report, data_name=name)
    measured = None if held is None else _measured(tagger, held)
    if json:
        put_json({
            "certificate": proof.to_dict(), "sentences": len(found.X), "lambda": tagger.lam_,
            "constraints": tagger.constraints, "templates": list(tagger.templates),
            "test": measured and _plain(measured), "model": None if output is None else str(output),
            "report": None if report is None else str(report),
        })  # fmt: skip
    else:
        rows: dict[str, Any] = models.summary(proof)
        rows |= {"lambda": f"{tagger.lam_:.4g}", "constraints": tagger.constraints or "none"}
        rows |= {"labels": f"{len(tagger.classes_)}", "features": f"{tagger.n_features_in_:,}"}
        rows |= {"model": output} if output else {}
        rows |= {"report": report} if report else {}
        facts(f"SequenceTagger on {len(found.X):,} sentences", rows)
        if measured is not None:
            _show(f"{test}", measured)
        say(proof.sentence)
    if proof.status is cornerstep.Status.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(SOLVED if proof.status is cornerstep.Status.SOLVED else LIMIT)


def _templates(features: list[str], parts: bool) -> list[str]:
    """Windows of all columns, and of the first what its words are made of."""
    first, *others = features
    forms = [form.format(first) for form in _FIRST + _PARTS * parts]
    return forms + [form.format(name) for name in others for form in _OTHERS]


def _read(
    path: Path, columns: list[str], target: str | None, needs_labels: bool = True
) -> ConllSentences:
    try:
        source: Any = path
        if path == STDIN:
            source = TextIOWrapper(BytesIO(sys.stdin.buffer.read()), "utf-8-sig")
        found = read_conll(source, columns, target, needs_labels=needs_labels)
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise UserError(str(problem)) from None
    if needs_labels and not found.X:
        raise UserError(f"{path} has no sentences")
    return found


def refuse(**given: bool) -> None:
    """Complain of options that are for models of tables alone."""
    for name, is_given in given.items():
        if is_given:
            raise UserError(f"--{name.replace('_', '-')} is not for taggers")


def read_for(trained: models.Trained, path: Path, *, needs_labels: bool = True) -> ConllSentences:
    """Sentences in the columns that a tagger was trained on."""
    columns = trained.notes.get("columns")
    if columns is None:
        raise UserError("the model was not trained by cornerstep tag: it does not know the columns")
    return _read(path, columns, trained.notes.get("target"), needs_labels)


def predict(trained: models.Trained, path: Path, output: Path | None) -> None:
    """Print the lines of a file with the label that the tagger gives to each token behind them."""
    found = read_for(trained, path, needs_labels=False)
    lines = _labelled(found, trained.estimator.predict(found.X))
    if output is None:
        sys.stdout.writelines(lines)
        return
    with replacing_text(output) as file:
        file.writelines(lines)


def _labelled(found: ConllSentences, answers: list[list[str]]) -> Iterator[str]:
    for rows, labels in zip(found.rows, answers, strict=True):
        for row, label in zip(rows, labels, strict=True):
            separator = "\t" if any(" " in field for field in row) else " "
            yield separator.join([*row, label]) + "\n"
        yield "\n"


def evaluate(trained: models.Trained, path: Path, json: bool) -> None:
    """The share of right tokens, and precision, recall and F1 of entities."""
    measured = _measured(trained.estimator, read_for(trained, path))
    if json:
        put_json(_plain(measured))
    else:
        _show(str(path), measured)


def _measured(tagger: Any, found: ConllSentences) -> dict[str, Any]:
    answers = tagger.predict(found.X)
    pairs = list(zip(chain.from_iterable(found.y), chain.from_iterable(answers), strict=True))
    right = [a == b for a, b in zip(found.y, answers, strict=True)]
    out: dict[str, Any] = {
        "sentences": len(answers), "tokens": len(pairs),
        "token error": sum(a != b for a, b in pairs) / len(pairs),
        "sentence error": 1.0 - sum(right) / len(right),
    }  # fmt: skip
    if of_entities([*tagger.classes_, *{a for a, _ in pairs}]):
        out["entities"] = entity_scores(found.y, answers)
    return out


def _plain(measured: dict[str, Any]) -> dict[str, Any]:
    scores: EntityScores | None = measured.get("entities")
    out = {name.replace(" ", "_"): value for name, value in measured.items() if name != "entities"}
    if scores is not None:
        out["entities"] = {
            name: {"precision": s.precision, "recall": s.recall, "f1": s.f1, "entities": s.there}
            for name, s in {**scores.types, "all": scores.all}.items()
        }
    return out


def _show(title: str, measured: dict[str, Any]) -> None:
    shares = {name: f"{100 * measured[name]:.2f} %" for name in ("token error", "sentence error")}
    counts = {name: f"{measured[name]:,}" for name in ("sentences", "tokens")}
    facts(title, counts | shares)
    if "entities" in measured:
        put(str(measured["entities"]))
