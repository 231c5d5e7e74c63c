"""Semi-Markov chains: enumeration, what chains are, files, errors that name the node."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep import StructuredSVC, certify, load, save
from cornerstep.structured import SegmentModel, check_model


def rows(n=10, seed=0, q=2, K=3):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        y: list[tuple[int, str]] = []
        while sum(length for length, _ in y) < 3:
            y.append((int(rng.integers(1, K + 1)), str(rng.choice(["a", "b"]))))
        L = sum(length for length, _ in y)
        X.append((rng.standard_normal((L, 2)), rng.standard_normal((L, K, q))))
        Y.append(y)
    Y[0] = [(K, "b")] * 2
    X[0] = (rng.standard_normal((2 * K, 2)), rng.standard_normal((2 * K, K, q)))
    return X, Y


def test_decoders_find_the_best_of_all_segments():
    X, Y = rows()
    check_model(SegmentModel(), X, Y)
    model = SegmentModel(normalize=False)
    model.prepare(X, Y)
    w = np.random.default_rng(1).standard_normal(model.size)
    parts, names = model.split(w), ["a", "b"]
    for (nodes, segments), found in zip(X, model.decode_batch(X, w), strict=True):

        def score(y, nodes=nodes, segments=segments):
            at, total, before = 0, 0.0, None
            for length, label in y:
                k = names.index(label)
                total += (nodes[at : at + length] @ parts["nodes"][:, k]).sum()
                total += segments[at, length - 1] @ parts["segments"][:, k]
                total += 0.0 if before is None else parts["transitions"][before, k]
                at, before = at + length, k
            return total

        every = list(model.labelings((nodes, segments)) or ())
        assert len({tuple(y) for y in every}) == len(every)
        assert score(found) == pytest.approx(max(map(score, every)), rel=1e-12)


def test_segments_are_learnt_from_features_of_their_own(tmp_path):
    """Which cut is right is written in features of segments alone."""
    X, Y = rows(n=40)
    for (_, segments), y in zip(X, Y, strict=True):
        at = 0
        for length, label in y:
            segments[at, length - 1] += 3.0 * np.array([label == "a", label == "b"])
            at += length
    clf = StructuredSVC(SegmentModel(), lam=0.02, atol=1e-3, random_state=0).fit(X[:30], Y[:30])
    assert clf.gap_ <= 1e-3
    assert clf.score(X[30:], Y[30:]) > 0.9
    save(clf, tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.predict(X) == clf.predict(X)
    assert certify(read, X[:30], Y[:30]).holds


def test_nodes_alone():
    X, Y = rows(n=6)
    X = [nodes for nodes, _ in X]
    clf = StructuredSVC(SegmentModel(max_length=4), lam=0.1, random_state=0).fit(X, Y)
    assert all(sum(k for k, _ in y) == len(x) for x, y in zip(X, clf.predict(X), strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [(1, "a")]}, r"Y\[1\] must have lengths from 1 to 3 that sum to the .* nodes"),
        ({"y": ["a", "b"]}, r"Y\[1\] must be a list of pairs \(length, label\)"),
        ({"x": np.ones((3, 5))}, r"X\[1\] must have a row of 2 features per node"),
        ({"x": (np.ones((3, 2)), np.ones((3, 2, 2)))}, r"X\[1\] must be \(nodes, segments\)"),
        ({"x": (np.full((3, 2), np.nan), np.ones((3, 3, 2)))}, r"in nodes at node 0"),
        ({"max_length": 0}, "max_length must be an integer >= 1"),
        ({"labels": ["a"]}, r"Y\[0\] has the label 'b' in segment 0"),
    ],
)
def test_bad_input_is_one_clear_error(change, message):
    X, Y = rows(n=3)
    model = SegmentModel(change.get("max_length", 3), labels=change.get("labels"))
    X[1], Y[1] = change.get("x", X[1]), change.get("y", Y[1])
    with pytest.raises(ValueError, match=message):
        StructuredSVC(model, random_state=0).fit(X, Y)
