"""Probabilities of losses that have none: their order, their temperature, their log loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from cornerstep import MulticlassSVC, certify, load, save
from cornerstep.data.rows import open_rows
from cornerstep.multiclass.calibration import fitted_temperature


@pytest.mark.parametrize("m", [2, 5])
def test_the_temperature_has_the_least_log_loss(m: int) -> None:
    rng = np.random.default_rng(m)
    n, weights = 200, rng.uniform(0.5, 2.0, 200)
    scores = rng.standard_normal((n, m))
    labels = (7.0 * scores + 5.0 * rng.gumbel(size=(n, m))).argmax(axis=1)

    def loss(log: float) -> float:
        logs = log_softmax(scores / np.exp(log), axis=1)
        wanted = n * logs[np.arange(n), labels] + 2.0 * logs.mean(axis=1)
        return -float(weights @ wanted) / (n + 2)

    best = minimize_scalar(loss, (-3.0, 0.0, 3.0), options={"xtol": 1e-10}).x
    found = fitted_temperature(scores, labels, weights)
    assert found == pytest.approx(np.exp(best), rel=1e-4)
    for unit in (1e-200, 1e200):
        assert fitted_temperature(unit * scores, labels, weights) == pytest.approx(unit * found)


def test_scores_without_errors_or_without_anything_have_a_temperature() -> None:
    labels = np.arange(40) % 4
    right = np.eye(4)[labels]
    assert 0.0 < fitted_temperature(right, labels, np.ones(40)) < 1.0
    assert 1.0 < fitted_temperature(-right, labels, np.ones(40)) < np.inf
    assert fitted_temperature(0.0 * right, labels, np.ones(40)) == 1.0


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "top-k", "k": 2}, {"kernel": "rbf"}, {"solver": "envelope", "tol": 0.01}],
)
def test_the_order_is_that_of_the_scores(options: Any, tmp_path: Any) -> None:
    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    model = MulticlassSVC(probability=True, random_state=0, **options).fit(X, y)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
    plain = MulticlassSVC(random_state=0, **options).fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(X), model.decision_function(X))
    assert certify(model, X, y).holds
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), shares)
    assert not hasattr(plain, "predict_proba")


@pytest.mark.parametrize("load_set", [load_digits, load_breast_cancer, load_wine])
def test_log_losses_are_no_worse_than_of_a_cross_validation(load_set: Any) -> None:
    X, y = load_set(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    train, test = np.arange(y.size) % 2 == 0, np.arange(y.size) % 2 == 1
    plain = MulticlassSVC(random_state=0)
    theirs = CalibratedClassifierCV(plain, cv=5).fit(X[train], y[train])
    ours = MulticlassSVC(probability=True, random_state=0).fit(X[train], y[train])
    least = log_loss(y[test], theirs.predict_proba(X[test]))
    assert log_loss(y[test], ours.predict_proba(X[test])) <= least
    rows = sp.csr_array(X[train])
    sparse = MulticlassSVC(probability=True, random_state=0).fit(rows, y[train])
    assert sparse.temperature_ == pytest.approx(ours.temperature_, rel=0.2)


def test_refusals(tmp_path: Any) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"^probability must be True or False, got 'yes'"):
        MulticlassSVC(probability="yes").fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^probability must be False with a feature_map"):
        MulticlassSVC(probability=True, feature_map=lambda X: X).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match=r"^probability must be False for rows on disk"):
        MulticlassSVC(probability=True).fit(open_rows(tmp_path / "X.npy"), y)
    model = MulticlassSVC().fit(X, y).set_params(probability=True)
    with pytest.raises(AttributeError, match="predict_proba needs a fit with probability=True"):
        model.predict_proba(X)


def test_a_single_example_leaves_nothing_to_hold_out():
    X, y = np.eye(3), np.arange(3)
    model = MulticlassSVC(probability=True, smoothing=0).fit(X, y, [1.0, 0.0, 0.0])
    assert model.temperature_ == 1.0
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_useless_scores_leave_probabilities_in_their_order():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.integers(0, 3, 60)
    model = MulticlassSVC(loss="usunier", k=2, smoothing=0, probability=True, random_state=0)
    model.fit(X, y)
    scores, shares = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_array_equal(scores.argmax(axis=1), shares.argmax(axis=1))
