"""Taggers whose labels are known in part: pieces of sentences, judged by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from cornerstep import SequenceTagger, StructuredSVC, certify
from cornerstep.structured import ChainModel, check_model

LABELS = ["B-X", "I-X", "O"]


def sentences(n=12, seed=0):
    """Matrices of features and labels that obey BIO, some of them None."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        labels: list[str | None] = []
        for _ in range(int(rng.integers(1, 6))):
            inside = bool(labels) and labels[-1] != "O"
            labels.append(str(rng.choice(LABELS if inside else ["B-X", "O"])))
        X.append(rng.standard_normal((len(labels), 2)))
        Y.append([None if rng.random() < 0.3 else label for label in labels])
    Y[0] = [None] * len(Y[0])
    return X, Y


def pieces(y):
    """Begin and end of each longest run of known labels."""
    runs = itertools.groupby(range(len(y)), lambda t: y[t] is not None)
    return [(run[0], run[-1] + 1) for known, run in ((k, list(r)) for k, r in runs) if known]


def objective(tagger, X, Y):
    """P of the tagger's weights, from all labelings of the pieces that BIO allows."""
    parts, labels = tagger.model_.split(tagger.coef_), tagger.classes_.tolist()
    every = [(x, y, a, b) for x, y in zip(X, Y, strict=True) for a, b in pieces(y)]
    unit, total = len(every) / sum(b - a for *_, a, b in every), 0.0
    for x, y, a, b in every:
        nodes, scores, costs = x[a:b] @ parts["nodes"], [], []
        for labeling in itertools.product(range(len(labels)), repeat=b - a):
            names = [labels[k] for k in labeling]
            pairs = itertools.pairwise(names if a else ["O", *names])
            if any(after == "I-X" and before == "O" for before, after in pairs):
                continue
            score = nodes[np.arange(b - a), labeling].sum()
            score += sum(parts["transitions"][pair] for pair in itertools.pairwise(labeling))
            score += parts["start"][labeling[0]] * (a == 0) + parts["end"][labeling[-1]] * (
                b == len(y)
            )
            scores.append(score)
            costs.append(unit * sum(one != other for one, other in zip(names, y[a:b], strict=True)))
            if names == y[a:b]:
                own = score
        whole = logsumexp(scores) if tagger.loss == "softmax" else np.add(scores, costs).max()
        total += whole - own
    return tagger.lam_ / 2 * tagger.coef_ @ tagger.coef_ + total / len(every)


@pytest.mark.parametrize("loss", ["max-hinge", "softmax"])
def test_unknown_labels_cut_sentences_into_pieces(loss):
    X, Y = sentences()
    tagger = SequenceTagger(
        constraints="BIO", loss=loss, lam=0.05, atol=1e-4, max_iter=5000, random_state=0
    ).fit(X, Y)
    assert tagger.gap_ <= 1e-4
    assert tagger.objective_ == pytest.approx(objective(tagger, X, Y), rel=1e-9)
    assert certify(tagger, X, Y).holds
    assert [len(y) for y in tagger.predict(X)] == [len(y) for y in Y]
    # labels that nobody knows are as good as sentences that are not there
    again = SequenceTagger(
        constraints="BIO", loss=loss, lam=0.05, atol=1e-4, max_iter=5000, random_state=0
    ).fit(X[1:], Y[1:])
    np.testing.assert_array_equal(again.coef_, tagger.coef_)


def test_pieces_are_examples_of_the_chain_model():
    """The model's functions agree on pieces, whose ends have no biases and no constraints."""
    rng = np.random.default_rng(0)
    model = ChainModel(biases=True, constraints="BIO", labels=LABELS)
    ends = itertools.cycle([(True, False), (False, True), (False, False), (True, True)])
    Y = [["O", "O"], ["I-X", "O"], ["I-X", "I-X", "B-X"], ["B-X", "I-X"]] * 2
    X = [(rng.standard_normal((len(y), 2)), np.ones(len(y)), next(ends)) for y in Y]
    check_model(model, X, Y)
    fits = [
        StructuredSVC(model, lam=0.1, atol=1e-6, averaging=False, debug=debug, random_state=0)
        .fit(X, Y).objective_ for debug in (False, True)
    ]  # fmt: skip
    assert fits[0] == pytest.approx(fits[1], abs=2e-6)


def test_weights_of_sentences_are_those_of_their_pieces():
    X, Y = sentences(n=8)
    share = np.arange(8.0)
    how: dict[str, Any] = {"loss": "softmax", "lam": 0.05, "atol": 1e-7, "random_state": 0}
    weighted = SequenceTagger(**how).fit(X, Y, share)
    repeated = SequenceTagger(**how).fit(
        *([part[i] for i in range(8) for _ in range(i)] for part in (X, Y))
    )
    assert weighted.objective_ == pytest.approx(repeated.objective_, abs=2e-7)


def test_what_unknown_labels_cannot_be():
    x = np.ones((3, 1))
    with pytest.raises(ValueError, match="y must have a label that is not None"):
        SequenceTagger().fit([x], [[None] * 3])
    with pytest.raises(ValueError, match=r"y\[1\] at token 2 must obey .* 'I-X' after 'O'"):
        SequenceTagger(constraints="BIO").fit([x, x], [["O"] * 3, [None, "O", "I-X"]])
    SequenceTagger(constraints="BIO").fit([x, x], [["O"] * 3, [None, "I-X", None]])
    with pytest.raises(ValueError, match=r"y\[0\] must be strings, or None .*, got 3 at token 1"):
        SequenceTagger().fit([x], [["O", 3, None]])
    tagger = SequenceTagger().fit([x], [["O", "A", None]])
    with pytest.raises(ValueError, match=r"y\[0\] must be strings, got None"):
        tagger.score([x], [["O", "A", None]])
