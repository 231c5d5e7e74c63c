"""Intercepts that are not penalised: logistic regression, dual points that balance, refusals."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from cornerstep import MulticlassSVC, Status, certify, load, regularization_path, save, select_C
from cornerstep.losses import Softmax
from cornerstep.multiclass.free_intercept import Balance

FREE: dict[str, Any] = {"loss": "softmax", "intercept_scaling": np.inf}


def objective(W: Any, b: Any, X: Any, y: Any, C: Any) -> float:
    """``1/2 |W|² + sum_i C_i (ln sum_j exp(s_ij) - s_iy)``."""
    scores = np.asarray(X @ W.T) + b
    own = scores[np.arange(y.size), y]
    losses = np.logaddexp.reduce(scores, axis=1) - own
    return float(0.5 * (W**2).sum() + (C * losses).sum())


@pytest.mark.parametrize(
    ("load_data", "C"),
    [(data, C) for data in (load_iris, load_wine, load_digits) for C in (1e-3, 1.0)]
    + [(load_iris, 30.0), (load_wine, 30.0)]
    + [pytest.param(load_digits, 30.0, marks=pytest.mark.slow)],  # the peer takes 7 to 14 s
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_objective_is_that_of_logistic_regression(C: float, load_data: Any, kind: Any) -> None:
    """As the features are: far from 0, of different sizes."""
    X, y = load_data(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding, at large C
        ours = MulticlassSVC(**FREE, C=C, tol=1e-8).fit(kind(X), y)
        solver = "newton-cg" if X.shape[1] > 50 else "newton-cholesky"
        theirs = LogisticRegression(C=C, tol=1e-9, max_iter=5000, solver=solver).fit(X, y)
    there = objective(theirs.coef_, theirs.intercept_, X, y, C)
    assert ours.objective_ == pytest.approx(
        objective(ours.coef_, ours.intercept_, X, y, C), rel=1e-9
    )
    assert ours.objective_ == pytest.approx(there, rel=1e-8)
    assert ours.bound_ <= there
    assert ours.relative_gap_ <= 1e-6
    assert ours.status_ in (Status.SOLVED, Status.PRECISION_LIMIT)
    assert ours.n_iter_ <= 40
    assert certify(ours, kind(X), y).holds


@pytest.mark.parametrize("loss", ["max-hinge", "cost-sensitive"])
@pytest.mark.parametrize("mu", [0.1, 0.5, 3.0])
def test_hinges_against_a_conic_solver(loss: str, mu: float) -> None:
    """The dual: a quadratic program over shares of the classes whose sums are given."""
    X, y = load_iris(return_X_y=True)
    X, y, C = X[::3], y[::3], 2.0
    weights = np.random.default_rng(0).uniform(0.2, 2.0, y.size)
    costs = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])
    delta = costs[y] if loss == "cost-sensitive" else 1.0 - np.eye(3)[y]
    given: dict[str, Any] = {"costs": costs} if loss == "cost-sensitive" else {}
    model = MulticlassSVC(loss, **given, C=C, smoothing=mu, intercept_scaling=np.inf, tol=1e-7).fit(
        X, y, weights
    )
    share = cp.Variable(delta.shape, nonneg=True)
    alpha = np.eye(3)[y] - share
    scales = C * weights
    scaled = cp.multiply(scales[:, None], alpha)
    gain = cp.sum(cp.multiply(scales[:, None] * delta, share))
    penalty = 0.5 * mu * cp.sum(cp.multiply(scales, cp.sum(cp.square(alpha), axis=1)))
    dual = gain - penalty - 0.5 * cp.sum_squares(X.T @ scaled)
    constraints = [cp.sum(share, axis=1) == 1, cp.sum(scaled, axis=0) == 0]
    best = cp.Problem(cp.Maximize(dual), constraints).solve(cp.CLARABEL)
    assert model.status_ is Status.SOLVED
    assert model.objective_ == pytest.approx(best, rel=1e-6)
    assert model.bound_ <= best * (1 + 1e-7)
    assert certify(model, X, y, sample_weight=weights).holds


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("load_data", [load_iris, load_wine, load_digits])
def test_newton_steps_on_hinges_find_what_blocks_find(kind: Any, load_data: Any) -> None:
    X, y = load_data(return_X_y=True)
    X = X / np.abs(X).max(axis=0).clip(1)
    newton = MulticlassSVC(solver="newton", tol=1e-5).fit(kind(X), y)
    blocks = MulticlassSVC(solver="block", tol=1e-5, random_state=0).fit(X, y)
    free = MulticlassSVC(intercept_scaling=np.inf, tol=1e-5).fit(kind(X), y)
    assert newton.status_ is free.status_ is Status.SOLVED
    assert max(newton.bound_, blocks.bound_) <= min(newton.objective_, blocks.objective_)
    assert free.bound_ <= newton.objective_
    for model in (newton, free):
        assert certify(model, kind(X), y).holds


def test_two_classes() -> None:
    X, y = load_wine(return_X_y=True)
    X, y = X[y > 0], y[y > 0] - 1
    ours = MulticlassSVC(**FREE, C=0.5, tol=1e-9).fit(X, y)
    theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4)


def test_weights_move_the_intercept() -> None:
    """An example of weight 2 is two examples; without features there are the shares of classes."""
    X, y = load_iris(return_X_y=True)
    weights = np.random.default_rng(0).integers(0, 3, y.size)
    model = MulticlassSVC(**FREE, tol=1e-10).fit(X, y, weights)
    repeated = np.repeat(np.arange(y.size), weights)
    again = MulticlassSVC(**FREE, tol=1e-10).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(model.coef_, again.coef_, rtol=0, atol=1e-4)
    assert certify(model, X, y, sample_weight=weights).holds
    flat = MulticlassSVC(**FREE, C=1e-8, tol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat.fit(X, y, weights)
    shares = np.bincount(y, weights=weights) / weights.sum()
    np.testing.assert_allclose(flat.predict_proba(X), np.tile(shares, (150, 1)), atol=1e-4)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_the_optimum_does_not_depend_on_the_mean_of_the_features(shift: float) -> None:
    X, y = load_iris(return_X_y=True)
    here = MulticlassSVC(**FREE, tol=1e-8).fit(X, y)
    there = MulticlassSVC(**FREE, tol=1e-8).fit(X + shift, y)
    assert here.objective_ == pytest.approx(there.objective_, rel=1e-8)
    assert max(here.bound_, there.bound_) <= min(here.objective_, there.objective_)


def test_a_scaling_without_limit_is_the_limit() -> None:
    X, y = load_iris(return_X_y=True)
    limit = MulticlassSVC(**FREE, tol=1e-9).fit(X, y).objective_
    before = np.inf
    for scaling in (1.0, 10.0, 100.0, 1000.0):
        model = MulticlassSVC("softmax", intercept_scaling=scaling, tol=1e-9).fit(X, y)
        assert limit * (1 - 1e-8) <= model.objective_ <= before
        before = model.objective_
    assert before == pytest.approx(limit, rel=1e-4)


@pytest.mark.parametrize("size", [1e-14, 1e-6, 1e-2, 0.5])
def test_a_bound_is_below_the_optimum_however_far_from_balance(size: float) -> None:
    X, y = load_iris(return_X_y=True)
    X, C = X - X.mean(axis=0), 0.7
    best = MulticlassSVC(**FREE, C=C, tol=1e-9).fit(X, y)
    scores = X @ best.coef_.T + best.intercept_
    scales, loss = np.full(y.size, C), Softmax()
    sums = C * np.stack([X[y == c].sum(axis=0) for c in range(3)], axis=1)
    features = C * np.abs(X).sum(axis=0)
    masses: Any = C * np.bincount(y)
    balance = Balance.of(sums, masses, features, y.size)
    rng = np.random.default_rng(0)
    bounds = []
    for _ in range(20):
        alpha = loss.dual_point(scores + size * rng.standard_normal(scores.shape), y, 1.0)
        linear = -0.5 * float(scales @ loss.penalty(alpha, y))
        residual = (scales[:, None] * alpha).sum(axis=0)
        image = balance.balanced(X.T @ (scales[:, None] * alpha), residual)
        off = balance.rounding(residual, 1)
        bounds.append(balance.bound(linear, float((image**2).sum()), residual, off))
        assert bounds[-1] <= best.objective_
    if size < 1e-5:
        assert max(bounds) >= best.objective_ * (1 - 1e-4)


def test_models_are_certified_and_kept(tmp_path: Any) -> None:
    X, y = load_digits(return_X_y=True)
    weights = np.random.default_rng(1).uniform(0, 2, y.size)
    model = MulticlassSVC(**FREE, C=0.1, smoothing=0.5).fit(X, y, weights)
    tight = MulticlassSVC(**FREE, C=0.1, smoothing=0.5, tol=1e-7).fit(X, y, weights)
    assert model.bound_ <= tight.objective_
    assert tight.bound_ <= model.objective_
    save(model, tmp_path / "model")
    kept = load(tmp_path / "model")
    assert kept.intercept_scaling == np.inf
    assert certify(kept, X, y, sample_weight=weights).holds
    np.testing.assert_array_equal(kept.predict_proba(X), model.predict_proba(X))
    kept.intercept_ = kept.intercept_ + np.eye(10)[0]
    assert not certify(kept, X, y, sample_weight=weights).holds


def test_a_claim_that_leaves_out_the_balance_is_found_out() -> None:
    """Dual points of penalised intercepts prove more than the optimum without a penalty."""
    X, y = load_iris(return_X_y=True)
    free = MulticlassSVC(**FREE, tol=1e-6).fit(X, y)
    penalised = MulticlassSVC("softmax", tol=1e-6).fit(X, y)
    assert penalised.bound_ > free.objective_
    free.dual_coef_, free.bound_ = penalised.dual_coef_, penalised.bound_
    assert not certify(free, X, y).holds


def test_a_path_is_certified_from_end_to_end() -> None:
    X, y = load_digits(return_X_y=True)
    path = regularization_path(MulticlassSVC(**FREE), X / 16, y, [0.01, 0.1, 1.0, 10.0])
    for C, model in zip(path.values, path.estimators, strict=True):
        cold = MulticlassSVC(**FREE, C=C).fit(X / 16, y)
        assert model.status_ is Status.SOLVED
        assert max(model.bound_, cold.bound_) <= min(model.objective_, cold.objective_)
        assert certify(model, X / 16, y).holds


def test_a_fit_that_was_cut_short_is_certified() -> None:
    X, y = load_digits(return_X_y=True)
    model = MulticlassSVC(**FREE, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.status_ is Status.ITERATION_LIMIT
    assert certify(model, X, y).holds
    assert model.bound_ <= MulticlassSVC(**FREE).fit(X, y).objective_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "top-k"}, "intercept_scaling must be finite unless loss is 'softmax'"),
        ({"loss": "top-k-entropy"}, "intercept_scaling must be finite unless loss is 'softmax'"),
        ({"loss": "max-hinge", "kernel": "rbf"}, "kernel must be 'linear' with intercept_scaling"),
        ({"loss": "max-hinge", "smoothing": 0}, "smoothing must be positive with solver='newton'"),
        ({"loss": "max-hinge", "probability": True}, "probability must be False with intercept_sc"),
        ({"solver": "envelope"}, "solver must be 'auto' or 'newton' with intercept_scaling=inf"),
        ({"feature_map": lambda X: X}, "feature_map must be None with intercept_scaling=inf"),
        ({"intercept_scaling": np.nan}, "intercept_scaling must be a positive number, got nan"),
        ({"intercept_scaling": -np.inf}, "intercept_scaling must be a positive number, got -inf"),
    ],
)
def test_refusals(parameters: Any, message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(**FREE | parameters).fit(X, y)


def test_refusals_of_data(tmp_path: Any) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="must be positive for some example of each class"):
        MulticlassSVC(**FREE).fit(X, y, (y > 0).astype(float))
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match=r"intercept_scaling must be finite for .*, got inf"):
        MulticlassSVC(**FREE).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    with pytest.raises(ValueError, match="estimator must have a finite intercept_scaling"):
        select_C(MulticlassSVC(**FREE), X, y, X, y)
    model = MulticlassSVC(**FREE | {"fit_intercept": False}).fit(X, y)
    assert not model.intercept_.any()
    assert certify(model, X, y).holds


def test_two_classes_need_a_smooth_hinge() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    with pytest.raises(ValueError, match=r"smoothing must be positive .* and 2 classes"):
        MulticlassSVC(intercept_scaling=np.inf).fit(X, y)
    model = MulticlassSVC(intercept_scaling=np.inf, smoothing=0.5, tol=1e-6).fit(X, y)
    assert model.status_ is Status.SOLVED
    assert certify(model, X, y).holds
    shifted = MulticlassSVC(intercept_scaling=np.inf, smoothing=0.5, tol=1e-6).fit(X + 100.0, y)
    assert shifted.objective_ == pytest.approx(model.objective_, rel=1e-5)


@pytest.mark.parametrize("loss", ["max-hinge", "softmax"])
def test_dual_points_are_kept_as_they_were_proven(loss: str) -> None:
    """Rounded otherwise their sums are further from 0, and the bound below what was claimed."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = np.concatenate([np.arange(4), rng.integers(0, 4, 60)])
        X = (5 * rng.standard_normal((4, 5)))[y] + rng.standard_normal((64, 5)) + 1e5
        model = MulticlassSVC(
            loss, C=100.0, smoothing=0.3, intercept_scaling=np.inf, tol=1e-10, max_iter=100
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        sums = np.abs(model.dual_coef_.sum(axis=0)) / (100.0 * np.bincount(y))
        assert sums.max() <= 1e-14
        assert certify(model, X, y).holds
