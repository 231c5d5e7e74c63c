"""Chains of second order: enumeration, what a chain is without triples, constraints, files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cornerstep import StructuredSVC, certify, load, save
from cornerstep.structured import ChainModel, SecondOrderChainModel, check_model
from support.structured_problems import chains

WALLS = [(0, 1), (None, 2)]


@pytest.mark.parametrize("constraints", [None, WALLS])
def test_decoders_find_the_best_of_all_labelings(constraints):
    rng = np.random.default_rng(0)
    labels = [[0, 2, 1, 1], [1], [0, 0], [1, 0, 2, 1, 0]]
    X = [rng.standard_normal((len(y), 2)) for y in labels]
    model = SecondOrderChainModel(biases=True, labels=[0, 1, 2], constraints=constraints)
    check_model(model, X, labels)
    model.prepare(X, labels)
    w = rng.standard_normal(model.size)
    parts = model.split(w)
    for x, found in zip(X, model.decode_batch(X, w), strict=True):
        best = -np.inf
        for y in itertools.product(range(3), repeat=len(x)):
            pairs = list(itertools.pairwise(y))
            if constraints and ((0, 1) in pairs or y[0] == 2):
                continue
            score = (x @ parts["nodes"])[np.arange(len(y)), list(y)].sum()
            score += parts["start"][y[0]] + parts["end"][y[-1]]
            score += sum(parts["transitions"][pair] for pair in pairs)
            score += sum(parts["triples"][y[t : t + 3]] for t in range(len(y) - 2))
            best = max(best, score)
            if y == tuple(found):
                reached = score
        assert reached == pytest.approx(best, rel=1e-12)


def test_it_learns_what_a_chain_cannot():
    """Labels that repeat the one before the last: pairs of neighbours are all as frequent."""
    rng = np.random.default_rng(0)
    Y = [np.tile(rng.permutation(4)[:2], 4) for _ in range(60)]
    X = []
    for y in Y:
        x = np.zeros((8, 4))
        x[np.arange(2), y[:2]] = 1.0  # only the first two are seen
        X.append(x)
    errors = []
    for model in (ChainModel(), SecondOrderChainModel()):
        clf = StructuredSVC(model, lam=0.01, atol=0.05, random_state=0).fit(X[:40], Y[:40])
        assert clf.gap_ <= 0.05
        errors.append(1 - clf.score(X[40:], Y[40:]))
    assert errors[1] < 0.02 < 0.2 < errors[0]


def test_files(tmp_path):
    X, Y = chains(n=8)
    clf = StructuredSVC(SecondOrderChainModel(), lam=0.1, random_state=0).fit(X, Y)
    save(clf, tmp_path / "model")
    read = load(tmp_path / "model")
    np.testing.assert_array_equal(np.concatenate(read.predict(X)), np.concatenate(clf.predict(X)))
    assert certify(read, X, Y).holds
    with pytest.raises(ValueError, match="labels must be at most 200, got 201"):
        StructuredSVC(SecondOrderChainModel(labels=range(201))).fit(X, Y)
