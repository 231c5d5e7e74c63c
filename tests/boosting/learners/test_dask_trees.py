"""Boosting with its rows on a cluster: trees from summed tables, certificates, lost workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.tree import DecisionTreeClassifier

from cornerstep import MulticlassSVC, SoftMarginBoostingClassifier
from cornerstep.boosting.binning import Binning
from cornerstep.boosting.compiled import sweeps as kernels
from cornerstep.boosting.learners.trees import TreeLearner
from cornerstep.boosting.solvers.solver import BoostingSolver
from cornerstep.multiclass.solvers.envelope import EnvelopeDescent
from support.clusters import chunked, cluster, computed, kill_a_worker, quiet

pytestmark = quiet


@pytest.fixture(scope="module")
def client():
    with cluster() as client:
        yield client


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("depth", [1, 2])
def test_trees_from_tables_are_those_from_rows(depth, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((150, 5)), 1)
    X[:, 0] = 1.0  # nothing to split
    labels = np.where(rng.random(150) < 0.4, 1.0, -1.0)
    d = rng.dirichlet(np.ones(150))
    binning = Binning(X, np.ones(150), 12)
    learner = TreeLearner(X, labels, binning, depth)
    bins, n_bins = binning.transform(X), binning.n_bins
    halves = slice(0, 60), slice(60, 150)
    count = kernels.histograms if depth == 1 else kernels.histograms_of_roots
    table = sum(count(bins[part], (d * labels)[part], n_bins.max()) for part in halves)
    if depth == 1:
        edges, nodes, leaves = kernels.stumps_of(table, n_bins)
    else:
        edges, nodes, leaves = kernels.trees_of(table, n_bins)
    assert edges.max() == pytest.approx(learner.query(d).edge, rel=1e-12)
    trees = binning.trees(nodes, leaves)
    np.testing.assert_allclose(learner.margins(trees) @ d, edges, rtol=1e-12)


@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_certificate_of_one_machine(client, depth):
    X, y = load_breast_cancer(return_X_y=True)
    X, weight = X[:, :6], 1.0 + np.arange(y.size) % 2
    options: dict[str, Any] = {"nu": 0.2, "atol": 0.02, "max_bins": 20, "max_depth": depth}
    here = SoftMarginBoostingClassifier(**options).fit(X, y, weight)
    model = SoftMarginBoostingClassifier(**options)
    model.fit(chunked(X, (200, 300, 69)), chunked(y, 569), chunked(weight, 100))
    assert model.status_.value == "solved"
    assert model.bound_is_exact_
    assert max(model.objective_, here.objective_) <= min(model.bound_, here.bound_) + 1e-12
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.margins_, np.where(y > 0, 1, -1) * scores, atol=1e-12)
    np.testing.assert_array_equal(computed(model.predict(chunked(X, 90))), model.predict(X))
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_several_classes(client):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    options: dict[str, Any] = {"nu": 0.3, "atol": 0.05, "max_bins": 10}
    here = SoftMarginBoostingClassifier(**options).fit(X, names)
    model = SoftMarginBoostingClassifier(**options).fit(chunked(X, 60), chunked(names, 60))
    for there, one in zip(model.machines_, here.machines_, strict=True):
        assert there.objective <= one.bound + 1e-12
        assert one.objective <= there.bound + 1e-12
    assert computed(model.decision_function(chunked(X, 60))).shape == (150, 3)


def test_a_killed_worker_costs_time_not_the_result(monkeypatch):
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :4]
    options: dict[str, Any] = {"nu": 0.2, "atol": 0.05, "max_bins": 10}
    here = SoftMarginBoostingClassifier(**options).fit(X, y)
    with cluster() as doomed:
        looks = kill_a_worker(doomed, BoostingSolver, monkeypatch, at=2)
        model = SoftMarginBoostingClassifier(**options).fit(chunked(X, 150), chunked(y, 150))
    assert len(looks) >= 2
    assert model.status_.value == "solved"
    assert max(model.objective_, here.objective_) <= min(model.bound_, here.bound_) + 1e-12


@pytest.mark.slow
def test_envelopes_go_on_when_a_worker_dies(monkeypatch):
    X, y = load_iris(return_X_y=True)
    options: dict[str, Any] = {"solver": "envelope", "smoothing": 0.1, "tol": 0.02}
    with cluster() as doomed:
        kill_a_worker(doomed, EnvelopeDescent, monkeypatch, at=3)
        model = MulticlassSVC(**options).fit(chunked(X, 40), chunked(y, 40))
    assert model.status_.value == "solved"
    assert model.n_iter_ == MulticlassSVC(**options).fit(X, y).n_iter_


@pytest.mark.parametrize(
    ("parameters", "weight", "message"),
    [
        ({"weak_learner": DecisionTreeClassifier()}, None, "weak_learner must be 'tree'"),
        ({"max_depth": 3}, None, "max_depth 1 or 2 for Dask arrays"),
        ({}, np.arange(150.0), "must be positive for all rows of a Dask array"),
        ({"max_bins": 40}, None, "max_bins must be at most 5 for 4 features on a cluster"),
    ],
)
def test_what_a_cluster_cannot_do(client, monkeypatch, parameters, weight, message):
    monkeypatch.setattr("cornerstep.boosting.learners.dask_trees._ENTRIES", 400)
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        SoftMarginBoostingClassifier(**parameters).fit(chunked(X, 60), chunked(y, 60), weight)
