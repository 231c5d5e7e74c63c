"""What a report says about one model: the certificate, the way there, and what it does on data."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from cornerstep.core.types import FloatArray
from cornerstep.data.arrays import made_of_numpy, numpy_of
from cornerstep.data.rows import labels_of
from cornerstep.learning import measures
from cornerstep.learning.certificates import Certificate, certificate
from cornerstep.learning.estimator import Importances, SupportExamples
from cornerstep.learning.pipelines import is_pipeline, last_step, prepared, prepared_names
from cornerstep.optimiser.result import Status
from cornerstep.reporting import charts
from cornerstep.structured.entities import entity_scores, of_entities

_CLASSES = 12  # most classes of a confusion table
_STRONGEST = 15  # most features or examples of a list
_HEAT = 24  # most labels of a transition matrix
_MACHINES = 100  # most machines of the table
_SENTENCES = 12  # most sentences with errors that are shown


@dataclass
class Section:
    """A model's part of a page."""

    title: str
    body: str


def section(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    data_name: str = "the data given",
    feature_names: Sequence[str] | None = None,
) -> Section:
    """A model's part of a page.

    Parameters
    ----------
    estimator : fitted estimator
    X, y
        Data to measure on.
    title, data_name : str
    feature_names : sequence of str, optional

    Returns
    -------
    Section
    """
    X, y = numpy_of(X, y)
    labelled = not is_outlier_detector(last_step(estimator))
    y = labels_of(X, y) if labelled else y
    names = _feature_names(estimator, feature_names)
    X, estimator = prepared(estimator, X), made_of_numpy(last_step(estimator))
    proof = certificate(estimator)
    figures = [*_convergence(estimator, proof)]
    if estimator.predicts_structures:
        facts, more = _structured(estimator, X, y, data_name)
    elif is_classifier(estimator):
        facts, more = _classifier(estimator, X, np.asarray(y), data_name)
    else:
        facts, more = _scored(estimator, X, y, data_name), []
    figures += more
    rows = len(y) if labelled else X.shape[0]
    figures += _strongest(estimator, names)
    body = (
        _proof(proof)
        + _facts(estimator, proof, {"data": f"{data_name}, {rows:,} rows", **facts})
        + f'<div class="grid">{"".join(figures)}</div>'
    )
    if len(proof.names) > 1:
        body += _machines(proof)
    body += _parameters(estimator)
    return Section(title or type(estimator).__name__, body)


def _proof(proof: Certificate) -> str:
    solved = proof.status is Status.SOLVED
    return (
        f'<div class="proof{"" if solved else " open"}"><span class="tag">'
        f"{html.escape(str(proof.status))}</span><strong>{html.escape(proof.sentence)}</strong>"
        f'<span class="soft">{html.escape(proof.status.message)} Asked for: '
        f"{html.escape(proof.target)}.</span></div>"
    )


def _facts(estimator: Any, proof: Certificate, measured: dict[str, str]) -> str:
    name, size = estimator.model_size()
    worst = ", worst machine" if len(proof.names) > 1 else ""
    rows = {
        "model": type(estimator).__name__,
        proof.quantity + worst: f"{proof.value:.7g}",
        "bound" + worst: f"{proof.bound:.7g}",
        "gap": proof.shown_gap,
        "iterations": f"{proof.n_iter:,}",
        "seconds": f"{proof.seconds:.2f}",
        name: f"{size:,}",
        **measured,
    }
    items = "".join(
        f"<div><dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd></div>"
        for key, value in rows.items()
    )
    return f"<dl>{items}</dl>"


def _convergence(estimator: Any, proof: Certificate) -> list[str]:
    """Value and bound, and the gap on a log scale, of the machine with the largest gap."""
    worst = int(proof.gaps.argmax())
    trace = estimator.machines_[worst].trace
    if not len(trace):
        return []
    which = f" Machine: {proof.names[worst]}." if proof.names[worst] else ""
    proven = trace["gap"].astype(float)
    first = int(np.isfinite(proven).argmax())  # before it points need not be feasible
    x = {name: trace[name][first:] for name in ("iteration", "seconds")}
    if "soft_margin" in trace.columns:
        value, bound = (trace[name].astype(float)[first:] for name in ("soft_margin", "bound"))
        bound = np.fmin.accumulate(bound)
    else:
        value = trace["value"].astype(float)[first:]
        bound = np.fmax.accumulate(value - proven[first:])
    gap = np.abs(value - bound)
    before = f" The first {first:,} iterations, in which nothing was proven, are left out."
    which += before if first else ""
    target = float(proof.allowed[worst])
    parts = [
        charts.figure(
            f"{proof.quantity.capitalize()} and bound",
            "The optimum lies between the two lines; “all” shows what is above and below the "
            f"picture.{which}",
            charts.lines(
                f"{proof.quantity} and bound against iteration or seconds, from {value[0]:.4g} to "
                f"{value[-1]:.4g}",
                x,
                {proof.quantity: value, "bound": bound},
                near=True,
            ),
        ),
        charts.figure(
            "Gap",
            f"Between the two lines, on a log scale; the dashed line was asked for.{which}",
            charts.lines(
                f"Gap on a log scale, from {gap[0]:.3g} to {gap[-1]:.3g}, target {target:.3g}",
                x,
                {"gap": gap},
                log=True,
                target=target,
            ),
        ),
    ]
    if "edge" in trace.columns:
        edge = trace["edge"].astype(float)[first:]
        parts.append(
            charts.figure(
                "Edges",
                "The edge of the hypothesis found in each round: the best any hypothesis does on "
                f"the examples that the ensemble finds hard.{which}",
                charts.lines(
                    f"Edges from {edge[0]:.3g} to {edge[-1]:.3g}",
                    x,
                    {"edge": edge, "soft margin": value},
                ),
            )
        )
    return parts


def _scored(estimator: Any, X: Any, y: Any, data_name: str) -> dict[str, str]:
    """What a regression is off by, or the share of outliers."""
    predicted = estimator.predict(X)
    if is_outlier_detector(estimator):
        return {f"outliers, {data_name}": f"{100 * float((predicted < 0).mean()):.2f} %"}
    off = np.abs(predicted - np.asarray(y))
    return {
        f"mean absolute error, {data_name}": f"{float(off.mean()):.4g}",
        f"R², {data_name}": f"{estimator.score(X, y):.4f}",
    }


def _classifier(estimator: Any, X: Any, y: Any, data_name: str) -> tuple[dict[str, str], list[str]]:
    classes = estimator.classes_
    predicted = estimator.predict(X)
    most = min(10, classes.size - 1)
    errors = measures.top_k_errors(estimator, X, y, max(most, 1))
    facts = {f"top-1 error, {data_name}": f"{100 * errors[0]:.2f} %"}
    parts = []
    if len(errors) > 1:
        k = min(5, len(errors))
        facts[f"top-{k} error, {data_name}"] = f"{100 * errors[k - 1]:.2f} %"
        parts.append(
            charts.figure(
                "Error of the first k guesses",
                f"Share of examples whose label is not among the k best classes, {data_name}.",
                charts.bars(
                    f"Top-k errors: {', '.join(f'{100 * e:.1f} %' for e in errors)}",
                    [f"k = {k}" for k in range(1, len(errors) + 1)],
                    [100 * e for e in errors],
                    ".2f",
                    " %",
                ),
            )
        )
    parts.append(_confusion(classes, y, predicted, data_name))
    spread = measures.margins(estimator, X, y)
    proof = certificate(estimator)
    mark, mark_name = (1.0, "margin 1")
    if estimator.maximises:
        single = len(proof.names) == 1
        mark, mark_name = (proof.value, proof.quantity) if single else (0.0, "0")
    wrong = float((spread < 0).mean())
    parts.append(
        charts.figure(
            "Margins",
            "Score of the right class minus the best other one"
            f"{', halved' if classes.size == 2 else ''}; below 0 (orange): errors, {data_name}.",
            charts.histogram(
                f"Margins from {spread.min():.3g} to {spread.max():.3g}, {wrong:.1%} below 0",
                spread,
                mark,
                mark_name,
            ),
        )
    )
    return facts, parts


def _confusion(classes: Any, truth: Any, predicted: Any, data_name: str) -> str:
    """The classes that are confused most, as a table."""
    rows = np.searchsorted(classes, truth)
    columns = np.searchsorted(classes, predicted)
    counts = np.zeros((classes.size, classes.size), int)
    np.add.at(counts, (rows, columns), 1)
    off = counts - np.diag(counts.diagonal())
    chosen = np.sort(np.argsort(-(off.sum(axis=0) + off.sum(axis=1)), kind="stable")[:_CLASSES])
    names = [str(label) for label in classes[chosen]]
    whole = (
        "All classes" if chosen.size == classes.size else f"The {chosen.size} most confused classes"
    )
    shown = counts[np.ix_(chosen, chosen)]
    wrong = off[np.ix_(chosen, chosen)]
    right = shown - wrong
    # errors are few: they have a colour and a scale of their own
    shades = 0.6 * right / max(right.max(), 1) - wrong / max(wrong.max(), 1)
    text = charts.heat(f"Confusion of {', '.join(names)}", names, names, shown, "d", shades)
    return charts.figure(
        "Confusion",
        f"{whole}: rows are the truth, columns the predictions (orange: errors), {data_name}.",
        text,
        wide=len(names) > 7,
    )


def _structured(estimator: Any, X: Any, y: Any, data_name: str) -> tuple[dict[str, str], list[str]]:
    model = estimator.model_
    answers = estimator.predict(X)
    losses = estimator.losses(X, y, answers)
    facts = {
        f"mean loss, {data_name}": f"{float(np.mean(losses)):.4g}",
        f"labelings all right, {data_name}": f"{100 * float(np.mean(losses == 0)):.1f} %",
    }
    parts = []
    labels = getattr(model, "labels_", None)
    if labels is not None and model.sequences:
        truth, guess = (
            np.concatenate([np.asarray(part).ravel() for part in all_]) for all_ in (y, answers)
        )
        parts.append(_confusion(labels, truth, guess, data_name))
    parts.append(
        charts.figure(
            "Losses",
            f"How the losses of the predictions are spread, {data_name}.",
            charts.histogram(
                f"Losses with mean {np.mean(losses):.3g}",
                np.asarray(losses, float),
                float(np.mean(losses)),
                "mean",
            ),
        )
    )
    words = estimator.words(X)
    if words is not None:
        parts += _sentences(words, y, answers, data_name)
    weights = model.split(estimator.coef_)
    if "transitions" in weights and weights["transitions"].ndim == 2 and labels is not None:
        matrix: FloatArray = weights["transitions"]
        strong = np.sort(np.argsort(-np.abs(matrix).sum(axis=1), kind="stable")[:_HEAT])
        names = [str(label) for label in labels[strong]]
        unit = charts.unit_of(matrix)
        shown = np.round(matrix[np.ix_(strong, strong)] / unit) + 0.0  # 0, not -0
        parts.append(
            charts.figure(
                "Transitions",
                f"Weights of a label (row) followed by another (column), in units of {unit:g}: "
                "what the chain prefers.",
                charts.heat("Transition weights", names, names, shown, ".0f"),
                wide=len(names) > 7,
            )
        )
    return facts, parts


def _sentences(words: Any, y: Any, answers: Any, data_name: str) -> list[str]:
    """Scores of entities, where labels are of such, and the sentences with most errors."""
    parts = []
    if of_entities(sorted({str(label) for labels in (*y, *answers) for label in labels})):
        scores = entity_scores(y, answers)
        rows = [
            (name, f"{s.precision:.4f}", f"{s.recall:.4f}", f"{s.f1:.4f}", f"{s.there:,}")
            for name, s in {**scores.types, "all": scores.all}.items()
        ]
        table = charts.table(("type", "precision", "recall", "F1", "there"), rows)
        caption = f"Whole entities, right in type, begin and end, {data_name}."
        parts.append(charts.figure("Entities", caption, table))
    wrong = np.array([sum(a != b for a, b in zip(t, g, strict=True))
                      for t, g in zip(y, answers, strict=True)])  # fmt: skip
    worst = np.argsort(-wrong, kind="stable")[: min(_SENTENCES, np.count_nonzero(wrong))]
    if worst.size:
        body = "".join(_sentence(words[i], y[i], answers[i]) for i in worst.tolist())
        caption = f"Those with most errors, {data_name}: what is right, and what was said."
        parts.append(charts.figure("Sentences with errors", caption, body, wide=True))
    return parts


def _sentence(words: Sequence[str], truth: Sequence[str], said: Sequence[str]) -> str:
    """A sentence whose wrong tokens have both labels below them."""
    tokens = (
        html.escape(word)
        if right == guess
        else f"<ruby>{html.escape(word)}<rt>{html.escape(f'{right} → {guess}')}</rt></ruby>"
        for word, right, guess in zip(words, truth, said, strict=True)
    )
    return f'<p class="sentence">{" ".join(tokens)}</p>'


def _feature_names(estimator: Any, given: Sequence[str] | None) -> list[str] | None:
    names = given if given is not None else prepared_names(estimator)
    if names is None and not is_pipeline(estimator):
        names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _strongest(estimator: Any, names: list[str] | None) -> list[str]:
    """The features, or the examples, that decide most."""
    title = "Strongest features"

    def label(k: int) -> str:
        return names[k] if names else f"feature {k + 1}"

    found = estimator.strongest()
    if found is None:
        return []
    if isinstance(found, Importances):
        order = np.argsort(-found.shares, kind="stable")[:_STRONGEST]
        order = order[found.shares[order] > 0]
        body = charts.bars("Feature importances", [label(k) for k in order], found.shares[order])
        return [charts.figure(title, found.caption, body)]
    if isinstance(found, SupportExamples):
        return _support_examples(found)
    coefficients, classes = found
    size = np.abs(coefficients).max(axis=0)
    order = np.argsort(-size, kind="stable")[:_STRONGEST]
    rows = np.abs(coefficients[:, order]).argmax(axis=0)
    values = coefficients[rows, order]
    owners = classes[rows] if len(coefficients) > 1 else [classes[-1]] * order.size
    shown = [
        f"{charts.shortened(label(k), 12)} → {owner}"
        for k, owner in zip(order, charts.told_apart([str(v) for v in owners], 8), strict=True)
    ]
    caption = "The largest weight of a feature and the class it speaks for (orange: against)."
    return [charts.figure(title, caption, charts.bars("Largest weights", shown, values))]


def _support_examples(found: SupportExamples) -> list[str]:
    size, rows = found
    order = np.argsort(-size, kind="stable")[:_STRONGEST]
    order = order[size[order] > 0]
    body = charts.bars(
        "Support examples", [f"training row {rows[k] + 1}" for k in order], size[order]
    )
    caption = "The training examples with the largest dual coefficients: they hold the margin."
    return [charts.figure("Strongest support examples", caption, body)]


def _machines(proof: Certificate) -> str:
    chosen = np.sort(np.argsort(-proof.gaps, kind="stable")[:_MACHINES])
    rows = [
        [proof.names[k], f"{proof.values[k]:.6g}", f"{proof.bounds[k]:.6g}",
         f"{proof.gaps[k]:.2e}", str(proof.statuses[k])]
        for k in chosen
    ]  # fmt: skip
    total = len(proof.names)
    of = f"All {total} machines"
    if total > len(rows):
        of = f"The {len(rows)} of {total:,} machines with the largest gaps"
    body = charts.table(["machine", proof.quantity, "bound", "gap", "status"], rows)
    return f"<details><summary>{of}</summary>{body}</details>"


def _parameters(estimator: Any) -> str:
    rows = [[key, repr(value)[:80]] for key, value in estimator.get_params(deep=False).items()]
    rows += [[f"{key}, chosen", repr(value)] for key, value in estimator.chosen().items()]
    return (
        f"<details><summary>Parameters</summary>{charts.table(['name', 'value'], rows)}</details>"
    )
