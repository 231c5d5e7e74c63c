"""From sentences to a trained tagger: training data as chains, lambda by a path, the last fit."""

from __future__ import annotations

import warnings
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray
from cornerstep.optimiser.result import Status
from cornerstep.structured import tokens
from cornerstep.structured.entities import entity_scores, of_entities
from cornerstep.structured.estimator import StructuredSVC
from cornerstep.structured.models.base import shortened
from cornerstep.structured.models.chain import ChainModel
from cornerstep.structured.models.constraints import forbidden_table, require_allowed
from cornerstep.structured.models.stacked import StackedChains
from cornerstep.structured.problem import example_weights, lam_of, weighed

#: What a path takes lambda times: docs/tagging.md has figures.
_FACTORS = {"max-hinge": (3.0, 1.0, 1.0 / 3.0), "softmax": (1.0, 0.3, 0.1)}
_FEWEST = 10  # sentences of which a tenth is held out
_PATH_SHARE = 0.5  # of the time limit that all fits of a path may take together

_SHARED = (
    "loss", "solver", "averaging", "tol", "atol", "max_iter", "time_limit", "n_jobs",
    "random_state",
)  # fmt: skip


class PathPoint(NamedTuple):
    """A lambda that was tried: what it found on the sentences held out, and its certificate.

    Attributes
    ----------
    factor : float
        Of what lambda is by default for a structured SVM.
    lam : float
        On the sentences that are left for training.
    score : float
        On those held out.
    objective, bound, gap : float
    status : Status
    """

    factor: float
    lam: float
    score: float
    objective: float
    bound: float
    gap: float
    status: Status


class Data(NamedTuple):
    """Training data: pieces of sentences whose labels are known, these labels, and weights."""

    chains: StackedChains
    labels: list[list[str]]
    weights: FloatArray


def listed(value: Any, name: str) -> list[Any]:
    """Sentences, or their labels, as a list."""
    if isinstance(value, str) or sp.issparse(value) or not hasattr(value, "__len__"):
        raise ValueError(
            f"{name} must be a list with an entry per sentence, got {shortened(value)}"
        )
    return list(value)


def labels_of_tokens(X: list[Any], y: list[Any], partial: bool = False) -> list[list[Any]]:
    """The labels of each sentence, once there is a word for each token, or ``partial`` and None."""
    if len(X) != len(y):
        raise ValueError(f"X and y must be as many sentences, got {len(X)} and {len(y)}")
    lengths = np.diff(tokens.boundaries(X)).tolist()
    found = []
    for i, (labels, length) in enumerate(zip(y, lengths, strict=True)):
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise ValueError(f"y[{i}] must be a list of labels, got {shortened(labels)}")
        if len(labels) != length:
            raise ValueError(
                f"y[{i}] must have a label for each of the {length} tokens of X[{i}], "
                f"got {len(labels)}"
            )
        for t, label in enumerate(labels):
            if not (isinstance(label, str) or (partial and label is None)):
                allowed = "strings, or None where unknown" if partial else "strings"
                raise ValueError(f"y[{i}] must be {allowed}, got {label!r} at token {t}")
        found.append(list(labels))
    return found


def share_of_right(y: Any, answers: Any) -> float:
    """The share of tokens whose label is right; 1 if there are none."""
    pairs = zip(chain.from_iterable(y), chain.from_iterable(answers), strict=True)
    right = [a == b for a, b in pairs]
    return float(np.mean(right)) if right else 1.0


def encoded(
    tagger: Any, kind: str, X: list[Any], vocabulary: tokens.Vocabulary | None, width: int | None
) -> Any:
    """A row of numbers per token, in the columns of training."""
    if kind == tokens.MATRICES:
        return tokens.stacked_matrices(X, width)
    rows, names = tokens.named_features(X, kind, tagger.templates)
    if tagger.hashing is not None:
        return tokens.recoded(rows, tokens.hashed_columns(names, tagger.hashing), tagger.hashing)
    assert vocabulary is not None
    return tokens.recoded(rows, vocabulary.columns(names), len(vocabulary))


def training_data(
    tagger: Any, kind: str, X: list[Any], y: list[Any], sample_weight: Any
) -> tuple[Data, tokens.Vocabulary | None]:
    """Sentences as chains, and the vocabulary that they make, if any."""
    labels = labels_of_tokens(X, y, partial=True)
    weights = example_weights(sample_weight, len(X))
    ptr = tokens.boundaries(X)
    vocabulary = None
    if kind == tokens.MATRICES or tagger.hashing is not None:
        if kind == tokens.MATRICES and (tagger.templates or tagger.min_count > 1 or tagger.hashing):
            raise ValueError(
                "X must have tokens that are dicts or lists of strings for templates, min_count "
                "and hashing, got matrices"
            )
        rows = encoded(tagger, kind, X, None, None)
    else:
        if kind == tokens.STRINGS and tagger.templates:
            raise ValueError("X must have tokens that are dicts for templates, got lists")
        rows, names = tokens.named_features(X, kind, tagger.templates)
        kept = np.bincount(rows.indices, minlength=len(names)) >= tagger.min_count
        if not kept.any():
            raise ValueError(f"X has no feature that min_count={tagger.min_count} tokens have")
        vocabulary = tokens.Vocabulary([name for name, is_kept in zip(names, kept, strict=True)
                                        if is_kept])  # fmt: skip
        rows = tokens.recoded(rows, np.where(kept, np.cumsum(kept) - 1, -1), len(vocabulary))
    data, places = _known_pieces(tokens.chains_of(rows, ptr), ptr, labels, weights)
    weights = data.weights
    if not weights.any():
        raise ValueError("y must have a label that is not None in a sentence that has weight")
    data.chains.weights[:] = weights.sum() / (weights @ np.diff(data.chains.ptr))
    _require_allowed(tagger.constraints, data, places)
    return data if weights.all() else _some(data, np.flatnonzero(weights)), vocabulary


def _known_pieces(
    chains: StackedChains, ptr: Any, labels: list[list[Any]], weights: FloatArray
) -> tuple[Data, Any]:
    """The longest pieces of sentences whose labels are all known, and where each begins.

    A sentence whose labels are all known is one piece; ``ptr`` says where all sentences begin.
    """
    flat = list(chain.from_iterable(labels))
    known = np.array([label is not None for label in flat])
    first, last = np.zeros(known.size, bool), np.zeros(known.size, bool)
    first[chains.ptr[:-1]] = last[chains.ptr[1:] - 1] = True
    begins = np.flatnonzero(known & (first | ~np.roll(known, 1)))
    stops = np.flatnonzero(known & (last | ~np.roll(known, -1))) + 1
    sentences = np.searchsorted(ptr, begins, side="right") - 1
    ends = np.column_stack([first[begins], last[stops - 1]])
    bounds = np.concatenate([[0], np.cumsum(stops - begins)])
    nodes = chains.nodes if known.all() else chains.nodes[np.flatnonzero(known)]
    pieces = StackedChains(nodes, bounds, chains.weights[known], ends)
    parts = [flat[a:b] for a, b in zip(begins.tolist(), stops.tolist(), strict=True)]
    return Data(pieces, parts, weights[sentences]), (sentences, begins - ptr[sentences])


def _require_allowed(constraints: Any, data: Data, places: Any) -> None:
    if constraints is None:
        return
    known, codes = np.unique(list(chain.from_iterable(data.labels)), return_inverse=True)
    table, (sentences, offsets) = forbidden_table(constraints, known), places
    assert table is not None
    require_allowed(
        table, codes, data.chains.ptr, known, data.chains.ends,
        lambda i, t: f"y[{sentences[i]}] at token {offsets[i] + t}",
    )  # fmt: skip


def inner_svm(tagger: Any, lam: float | str, **options: Any) -> StructuredSVC:
    """The structured SVM that a tagger is."""
    model = ChainModel(biases=True, normalize=False, constraints=tagger.constraints)
    shared = {name: getattr(tagger, name) for name in _SHARED}
    return StructuredSVC(model, lam=lam, **(shared | options))


def fitted_svm(tagger: Any, data: Data) -> tuple[list[PathPoint], StructuredSVC]:
    """What was tried for lambda, and the structured SVM on all sentences."""
    begin, path = work_seconds(), []
    lam = tagger.lam
    if isinstance(lam, str):
        path = _path(tagger, data)
        best = max(path, key=lambda point: point.score).factor if path else 1.0
        lam = best * _auto(tagger, data)
    limit = tagger.time_limit
    left = None if limit is None else max(limit - (work_seconds() - begin), 1e-3)
    svm = inner_svm(tagger, lam, time_limit=left, callback=tagger.callback, verbose=tagger.verbose)
    return path, _fit(svm, data)


def _fit(svm: StructuredSVC, data: Data) -> StructuredSVC:
    """Fitted; the tagger itself warns of what the last fit has not proven."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return svm.fit(*data)


def _auto(tagger: Any, data: Data) -> float:
    """What lambda is by default for a structured SVM."""
    X, y, kept = weighed(data.chains, data.labels, data.weights)
    svm = inner_svm(tagger, "auto")
    model: Any = svm.model
    model.prepare_weighted(X, y, kept)
    return lam_of(svm, model, X, y, data.weights[data.weights > 0])


def _path(tagger: Any, data: Data) -> list[PathPoint]:
    """Lambda from large to small on nine tenths of the sentences, each from the dual point before.

    The labels that only sentences held out have are not known there, and count as not found.
    """
    n = len(data.labels)
    if n < _FEWEST:
        return []
    order = check_random_state(tagger.random_state).permutation(n)
    held, rest = np.sort(order[: n // 10]), np.sort(order[n // 10 :])
    train, test = _some(data, rest), _some(data, held)
    if not train.weights.any():
        return []
    limit = tagger.time_limit
    factors = _FACTORS[tagger.loss]
    share = None if limit is None else _PATH_SHARE * limit / len(factors)
    lam = _auto(tagger, train)
    svm = inner_svm(tagger, "auto", warm_start=True, time_limit=share)
    counted = of_entities(sorted(set(chain.from_iterable(data.labels))))
    path = []
    for factor in factors:
        _fit(svm.set_params(lam=factor * lam), train)
        if svm.status_ is Status.INTERRUPTED:
            raise KeyboardInterrupt("on the path of lambda, before there was a model")
        answers = [labels.tolist() for labels in svm.predict(test.chains)]
        found = (
            entity_scores(test.labels, answers).all.f1
            if counted
            else share_of_right(test.labels, answers)
        )
        path.append(
            PathPoint(factor, svm.lam_, found, svm.objective_, svm.bound_, svm.gap_, svm.status_)
        )
    return path


def _some(data: Data, chosen: Any) -> Data:
    """Some of the sentences."""
    rows, ptr, weights = data.chains.nodes, data.chains.ptr, data.chains.weights
    lengths = np.diff(ptr)[chosen]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    nodes = np.repeat(ptr[:-1][chosen] - ends[:-1], lengths) + np.arange(ends[-1])
    chains = StackedChains(rows[nodes], ends, weights[nodes], data.chains.ends[chosen])
    return Data(chains, [data.labels[i] for i in chosen], data.weights[chosen])
