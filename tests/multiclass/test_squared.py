"""The squared hinge of one class against the rest: LinearSVC, its conjugate, certificates."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from cornerstep import MulticlassSVC, Status, certify, load, regularization_path, save, select_C
from cornerstep.losses import SquaredHinge


def objective(W: Any, b: Any, X: Any, y: Any, C: Any, scaling: float = 1.0) -> float:
    """That of LinearSVC, summed over its machines."""
    scores = np.asarray(X @ W.T) + b
    signs = np.where(np.equal.outer(y, np.arange(len(W)) if len(W) > 1 else [1]), 1.0, -1.0)
    hinges = np.maximum(0.0, 1.0 - signs * scores)
    penalty = (W**2).sum() + (b**2).sum() / scaling**2
    return float(0.5 * penalty + (C * (hinges**2).sum(axis=1)).sum())


@pytest.mark.parametrize("C", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize(
    ("load_data", "scaling"),
    [(load_iris, 20.0), (load_wine, 1.0), (load_digits, 1.0), (load_breast_cancer, 20.0)],
)
def test_the_objective_is_that_of_linear_svc(C: float, load_data: Any, scaling: float) -> None:
    X, y = load_data(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    two = y.max() == 1
    ours = MulticlassSVC(
        "squared-hinge", C=C / 2 if two else C, intercept_scaling=scaling, tol=1e-8
    ).fit(X, y)
    theirs = LinearSVC(
        C=C, intercept_scaling=scaling, tol=1e-8, max_iter=10**5, random_state=0, dual=False
    ).fit(X, y)
    there = objective(theirs.coef_, theirs.intercept_, X, y, C, scaling)
    here = objective(ours.coef_, ours.intercept_, X, y, C, scaling)
    factor = 2.0 if two else 1.0
    assert ours.status_ is Status.SOLVED
    assert factor * ours.objective_ == pytest.approx(here, rel=1e-9)
    assert factor * ours.bound_ <= there
    assert here == pytest.approx(there, rel=1e-8)
    assert ours.coef_.shape == theirs.coef_.shape
    away = ((ours.coef_ - theirs.coef_) ** 2).sum()
    radii = [np.sqrt(2 * (value - factor * ours.bound_)) for value in (here, there)]
    assert np.sqrt(away) <= sum(radii)  # both are that near to the optimum
    assert certify(ours, X, y).holds


@pytest.mark.parametrize("m", [2, 3, 5])
@pytest.mark.parametrize("mu", [0.5, 0.1, 3.0])
def test_the_loss_is_the_maximum_over_dual_points(m: int, mu: float) -> None:
    rng, loss = np.random.default_rng(m), SquaredHinge()
    for _ in range(5):
        s, y = 2 * rng.standard_normal(m), int(rng.integers(m))
        value, alpha = loss.envelope(s, y, mu), loss.dual_point(s, y, mu)
        a = cp.Variable(m, nonneg=True)
        t = np.where(np.arange(m) == y, 1.0, -1.0)
        gain = cp.sum(cp.multiply(a, 1 - t * s)) - mu / 2 * cp.sum_squares(a)
        if m == 2:
            gain = a[0] * (1 - s[y] + s[1 - y]) - mu / 2 * a[0] ** 2
        best = cp.Problem(cp.Maximize(gain)).solve(cp.CLARABEL)
        assert value == pytest.approx(best, rel=1e-6, abs=1e-6)
        rows, labels = alpha[None], np.array([y])
        dual = -loss.conjugate(-alpha, y) - 0.5 * mu * loss.penalty(rows, labels)[0] - alpha @ s
        assert value == pytest.approx(dual, rel=1e-12, abs=1e-12)
        wrong = -alpha - np.where(np.arange(m) == y, 1.0, -1.0)
        assert loss.conjugate(-wrong, y) == np.inf
        step, slope = 1e-6, np.zeros(m)
        for j in range(m):
            e = step * (np.arange(m) == j)
            slope[j] = (loss.envelope(s + e, y, mu) - loss.envelope(s - e, y, mu)) / (2 * step)
        np.testing.assert_allclose(slope, -alpha, rtol=1e-5, atol=1e-5)
        bent = loss.bent(loss.shares(rows, labels), rng.standard_normal((1, m)), mu)
        assert bent.shape == (1, m)
        near = loss.project(alpha + 0.1 * rng.standard_normal(m), y)
        assert np.isfinite(loss.conjugate(-near, y))


@pytest.mark.parametrize("loss", ["squared-hinge", SquaredHinge()])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.float32])
def test_models_are_certified_and_kept(loss: Any, kind: Any, tmp_path: Any) -> None:
    X, y = load_digits(return_X_y=True)
    X, weights = kind(X / 16), np.random.default_rng(0).uniform(0, 2, y.size)
    model = MulticlassSVC(loss, C=0.3).fit(X, y, weights)
    tight = MulticlassSVC(loss, C=0.3, tol=1e-8).fit(X, y, weights)
    assert model.bound_ <= tight.objective_
    assert tight.bound_ <= model.objective_
    assert certify(model, X, y, sample_weight=weights).holds
    save(model, tmp_path / "model")
    kept = load(tmp_path / "model")
    assert certify(kept, X, y, sample_weight=weights).holds
    np.testing.assert_array_equal(kept.decision_function(X), model.decision_function(X))
    kept.bound_ = kept.objective_
    assert not certify(kept, X, y, sample_weight=weights).holds


@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_features_of_any_size(size: float) -> None:
    """Dual points have no bound of their own: what rounds is measured by what they are."""
    X, y = load_wine(return_X_y=True)
    model = MulticlassSVC("squared-hinge", C=10.0, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(size * X, y)
    assert certify(model, size * X, y).holds
    # the same machine where C makes up for the size, but for the intercept's penalty
    same = MulticlassSVC("squared-hinge", C=10.0, intercept_scaling=1 / size, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        same.fit(X, y)
    assert certify(same, X, y).holds


def test_a_fit_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    X, y = load_digits(return_X_y=True)
    model = MulticlassSVC("squared-hinge", checkpoint=tmp_path / "state", max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = model.fit(X / 16, y).objective_
    model.set_params(max_iter=1000).fit(X / 16, y)
    assert model.status_ is Status.SOLVED
    assert model.trace_["value"][0] <= first * (1 + 1e-9)
    assert certify(model, X / 16, y).holds


def test_a_path_and_probabilities() -> None:
    X, y = load_digits(return_X_y=True)
    path = regularization_path(MulticlassSVC("squared-hinge"), X / 16, y, [0.01, 1.0, 10.0])
    for C, model in zip(path.values, path.estimators, strict=True):
        cold = MulticlassSVC("squared-hinge", C=C).fit(X / 16, y)
        assert max(model.bound_, cold.bound_) <= min(model.objective_, cold.objective_)
    model = MulticlassSVC("squared-hinge", probability=True, random_state=0).fit(X / 16, y)
    shares = model.predict_proba(X / 16)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X / 16))


@pytest.mark.parametrize("classes", [2, 4])
def test_a_grid_never_beats_the_proven_errors(classes: int) -> None:
    rng = np.random.default_rng(classes)
    y = rng.integers(classes, size=200)
    X = rng.standard_normal((200, 5)) + rng.standard_normal((classes, 5))[y]
    model = MulticlassSVC("squared-hinge")
    choice = select_C(model, X[:120], y[:120], X[120:], y[120:], (1e-3, 10.0), within=6)
    assert choice.proven
    for C in np.geomspace(1e-3, 10.0, 60):
        model.set_params(C=C, tol=1e-8).fit(X[:120], y[:120])
        errors = int((model.predict(X[120:]) != y[120:]).sum())
        assert errors >= choice.lower_bound(C)
        assert errors >= choice.least_errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be 'linear' with loss='squared-hinge'"),
        ({"solver": "block"}, "solver must be 'auto' or 'newton' with loss='squared-hinge'"),
        ({"solver": "envelope"}, "solver must be 'auto' or 'newton' with loss='squared-hinge'"),
        ({"smoothing": 0}, "smoothing must be 'auto' or positive with loss='squared-hinge'"),
        ({"feature_map": np.asarray}, "feature_map must be None with loss='squared-hinge'"),
        (
            {"intercept_scaling": np.inf},
            "intercept_scaling must be finite unless loss is",
        ),
    ],
)
def test_refusals(parameters: Any, message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(**{"loss": "squared-hinge", **parameters}).fit(X, y)


def test_refusals_of_data(tmp_path: Any) -> None:
    X, y = load_iris(return_X_y=True)
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="loss must be another one for"):
        MulticlassSVC("squared-hinge").fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="loss must be another one for"):
        MulticlassSVC("squared-hinge", solver="newton").fit(torch.tensor(X), y)
    from cornerstep.torch import MarginLoss

    with pytest.raises(ValueError, match="loss must be one of differences of scores"):
        MarginLoss("squared-hinge")
