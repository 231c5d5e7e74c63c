"""Weak learners: exact searches against brute force, bins, deeper trees, wrappers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from cornerstep.boosting.binning import Binning
from cornerstep.boosting.compiled import sweeps as kernels
from cornerstep.boosting.compiled.lanes import LANES
from cornerstep.boosting.learners.classifiers import ClassifierLearner
from cornerstep.boosting.learners.trees import (
    FiniteLearner,
    TreeLearner,
    evaluate,
)


def learner_for(X, y, max_depth=2, max_bins=255, n_threads=1):
    X = np.ascontiguousarray(X, dtype=float)
    return TreeLearner(X, y, Binning(X, np.ones(len(y)), max_bins), max_depth, n_threads)


def splits(X):
    """Every way to part the rows by a threshold on a feature, and not at all."""
    ways = {(True,) * len(X)}
    for column in X.T:
        for value in np.unique(column):
            ways.add(tuple(column <= value))
    return np.array(sorted(ways))


def brute_force(X, u, depth):
    """The largest ``sum over leaves |sum of u|``."""
    ways = splits(X)
    if depth == 1:
        return max(abs(u[way].sum()) + abs(u[~way].sum()) for way in ways)

    def child(inside):
        return max(abs(u[inside & way].sum()) + abs(u[inside & ~way].sum()) for way in ways)

    return max(child(way) + child(~way) for way in ways)


@pytest.mark.parametrize("seed", range(4))
def test_thresholds_that_are_passed_over_could_not_win(seed):
    """More bins than are tried at first; an incomplete search is never better."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(70, 3))
    y = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0.3) ^ (rng.uniform(size=70) < 0.2), 1.0, -1.0)
    d = rng.dirichlet(np.full(70, 0.3))
    learner = learner_for(X, y)
    answer = learner.query(d)
    assert answer.largest
    assert answer.edge == pytest.approx(brute_force(X, d * y, 2), abs=1e-12)
    edges, nodes, leaves = learner.sample(d * y)
    assert edges.max() <= answer.edge + 1e-12
    trees = learner.binning.trees(nodes, leaves)
    np.testing.assert_allclose(learner.margins(trees) @ d, edges, atol=1e-12)
    assert learner_for(X, y, n_threads=2).query(d).edge == pytest.approx(answer.edge, abs=1e-12)


@pytest.mark.parametrize("max_bins", [2, 63, 200, 1000])
def test_proposals_are_good_trees_whatever_the_bins(max_bins):
    """Merged bins, others each time: every threshold is one of the binning, edges come near."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(900, 2)), rng.integers(0, 2, 900), np.zeros(900)])
    y = np.where((X[:, 0] > 0.4) ^ (X[:, 1] > -0.2), 1.0, -1.0)
    binning = Binning(X, np.ones(900), max_bins)
    learner = TreeLearner(X, y, binning)
    d = rng.dirichlet(np.ones(900))
    largest = learner.query(d).edge
    for _ in range(6):
        edges, nodes, leaves = learner.sample(d * y)
        assert 0.8 * largest <= edges.max() <= largest + 1e-12
        trees = learner.binning.trees(nodes, leaves)
        np.testing.assert_allclose(learner.margins(trees) @ d, edges, atol=1e-12)
        for tree in trees:
            for feature, threshold in zip(tree.features, tree.thresholds, strict=True):
                assert threshold in [*binning.cuts[feature], np.inf]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 14), st.integers(1, 4), st.sampled_from([1, 2]))
def test_exact_trees_match_brute_force(seed, m, n_features, depth):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, rng.integers(1, 6) + 1, (m, n_features)).astype(float)
    y = rng.choice([-1.0, 1.0], m)
    d = rng.uniform(size=m) * (rng.uniform(size=m) < 0.8) + 1e-3
    d /= d.sum()
    answer = learner_for(X, y, depth).query(d)
    assert answer.edge == pytest.approx(brute_force(X, d * y, depth), abs=1e-12)
    # the tree itself, on the data as given, has this edge; so has its row of margins
    values = evaluate(answer.hypotheses, X)
    np.testing.assert_array_equal(values * y, answer.margins)
    assert (values[0] * y) @ d == pytest.approx(answer.edge, abs=1e-12)
    assert set(np.unique(values)) <= {-1.0, 1.0}
    edges = answer.margins @ d
    assert (np.diff(edges) <= 1e-12).all()


@pytest.mark.parametrize("seed", range(6))
def test_exact_trees_over_blocks_of_features(seed):
    """More features than lanes, with very different numbers of bins; both children anywhere."""
    rng = np.random.default_rng(seed)
    m, n_features = 24, [7, 8, 9, 16, 17, 19][seed]
    X = rng.integers(0, rng.integers(1, 20, n_features), (m, n_features)).astype(float)
    y = rng.choice([-1.0, 1.0], m)
    d = rng.dirichlet(np.ones(m))
    answer = learner_for(X, y).query(d)
    assert answer.edge == pytest.approx(brute_force(X, d * y, 2), abs=1e-12)
    assert answer.margins[0] @ d == pytest.approx(answer.edge, abs=1e-12)


@pytest.mark.parametrize("n_slots", [5, 5000])
def test_cells_are_the_places_of_bins(n_slots):
    """Histograms over cells, whatever integers hold them, are those of every feature."""
    rng = np.random.default_rng(n_slots)
    bins = rng.integers(0, n_slots, (60, 11)).astype(np.uint16)
    bins[0] = n_slots - 1
    signed = rng.normal(size=60)
    n_bins = np.full(11, n_slots)
    cells = kernels.cells_of(bins, n_slots)
    assert cells.dtype == (np.uint16 if n_slots == 5 else np.uint32)
    beyond = kernels.balances(cells, n_bins, signed)
    for g in range(11):
        table = np.bincount(bins[:, g], weights=signed, minlength=n_slots)
        found = beyond[g // LANES, :, g % LANES]
        np.testing.assert_allclose(found, signed.sum() / 2 - np.cumsum(table), atol=1e-12)
    assert not beyond[1, :, 11 - LANES :].any()


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_passed_over_could_not_win(seed):
    """Many bins, so that the search skips most thresholds: the same as trying every one."""
    rng = np.random.default_rng(seed)
    X, m = rng.normal(size=(250, 3)), 250
    y = np.sign(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=m))
    d = rng.dirichlet(np.ones(m) * (0.2 if seed % 2 else 2.0))
    answer = learner_for(X, y).query(d)
    stumps = learner_for(X, y, max_depth=1)
    best = 0.0
    for f, cut in product(range(3), range(m)):
        order = np.argsort(X[:, f])
        left = np.zeros(m, dtype=bool)
        left[order[:cut]] = True
        value = sum(stumps.query(np.where(part, d, 0.0)).edge for part in (left, ~left))
        best = max(best, value)
    assert answer.edge == pytest.approx(best, abs=1e-12)


def test_beats_greedy_trees():
    rng = np.random.default_rng(0)
    for k in range(10):
        X = rng.normal(size=(200, 4)).round(1 if k % 2 else 8)
        y = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0), 1.0, -1.0)
        y[rng.uniform(size=200) < 0.1] *= -1
        d = rng.dirichlet(np.ones(200))
        exact = learner_for(X, y).query(d).edge
        greedy = DecisionTreeClassifier(max_depth=2).fit(X, y, sample_weight=d)
        assert exact >= d @ (y * greedy.predict(X)) - 1e-12
        assert learner_for(X, y, 1).query(d).edge <= exact + 1e-12


def test_deeper_trees_gain_edge():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(250, 3))
    y = np.sign(np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2])
    d = np.full(250, 1 / 250)
    last = 0.0
    for depth in range(1, 5):
        learner = learner_for(X, y, depth)
        answer = learner.query(d)
        assert learner.exact == (depth <= 2)
        assert answer.edge >= last - 1e-12
        np.testing.assert_array_equal(evaluate(answer.hypotheses, X) * y, answer.margins)
        greedy = DecisionTreeClassifier(max_depth=depth).fit(X, y)
        if depth <= 2:
            assert answer.edge >= d @ (y * greedy.predict(X)) - 1e-12
        last = answer.edge


def test_constant_features_and_no_variation():
    y = np.array([1.0, -1.0, 1.0, 1.0])
    d = np.array([0.1, 0.2, 0.3, 0.4])
    for depth in (1, 2, 3):
        answer = learner_for(np.ones((4, 3)), y, depth).query(d)
        assert answer.edge == pytest.approx(0.6)
        np.testing.assert_array_equal(answer.margins[0], y)
    X = np.column_stack([np.zeros(4), [0, 1, 0, 0], np.full(4, 7.0)])
    assert learner_for(X, y).query(d).edge == pytest.approx(1.0)


def test_many_examples_with_few_distinct_values():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 3, (20_000, 4)).astype(float)
    y = np.where((X[:, 0] == 1) & (X[:, 1] > 0), 1.0, -1.0)
    d = np.full(len(y), 1 / len(y))
    answer = learner_for(X, y).query(d)
    cells, where = np.unique(X, axis=0, return_inverse=True)
    mass = np.bincount(where.ravel(), weights=d * y)
    assert answer.edge == pytest.approx(brute_force(cells, mass, 2), abs=1e-9)


def test_bins_are_all_thresholds_or_quantiles():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 5, 1000), rng.normal(size=1000)]).astype(float)
    binning = Binning(X, np.ones(1000), 16)
    assert binning.cuts[0].size == 4
    assert binning.cuts[1].size == 15
    shares = np.bincount(np.searchsorted(binning.cuts[1], X[:, 1]))
    assert shares.min() >= 1000 // 16 - 1
    assert shares.max() <= 1000 // 16 + 2
    bins = binning.transform(X)
    for g, f in enumerate(binning.features):
        for b, cut in enumerate(binning.cuts[f]):
            np.testing.assert_array_equal(bins[:, g] <= b, X[:, f] <= cut)
    # weights are repetitions
    weights = rng.integers(1, 4, 1000)
    repeated = Binning(np.repeat(X, weights, axis=0), np.ones(weights.sum()), 16)
    weighted = Binning(X, weights.astype(float), 16)
    np.testing.assert_array_equal(repeated.cuts[1], weighted.cuts[1])


def test_neighbouring_floats_are_parted():
    X = np.array([[1.0], [np.nextafter(1.0, 2)], [1e300], [-1e300]])
    y = np.array([1.0, -1.0, 1.0, 1.0])
    assert learner_for(X, y).query(np.full(4, 0.25)).edge == pytest.approx(1.0)


def test_more_bins_find_more():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1000, 2))
    y = rng.choice([-1.0, 1.0], 1000)
    d = rng.dirichlet(np.ones(1000))
    few, all_of_them = (learner_for(X, y, 2, bins).query(d).edge for bins in (255, 1000))
    assert all_of_them >= few - 1e-12


def test_threads_answer_the_same():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(3000, 12)), rng.choice([-1.0, 1.0], 3000)
    d = rng.dirichlet(np.ones(3000))
    one, two = (learner_for(X, y, n_threads=n).query(d) for n in (1, 2))
    np.testing.assert_array_equal(one.margins, two.margins)


def test_classifiers_give_decisions_and_ratings():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    y = np.sign(X[:, 0] + 0.2 * rng.normal(size=60))
    d = rng.dirichlet(np.ones(60))
    answer = ClassifierLearner(LogisticRegression(), X, y, np.random.RandomState(0)).query(d)
    rated = next(vote for vote in answer.hypotheses if vote.rated)
    decided = next(vote for vote in answer.hypotheses if not vote.rated)
    np.testing.assert_array_equal(np.sign(rated.values(X)), decided.values(X))
    assert answer.edge == pytest.approx((answer.margins @ d).max())
    assert (abs(answer.margins) <= 1).all()


def test_finite_learner_checks_its_matrix():
    with pytest.raises(ValueError, match=r"entries in \[-1, 1\]"):
        FiniteLearner(np.array([[2.0, 0.0]]))
