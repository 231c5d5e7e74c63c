"""Scores ``w'psi(x, j)`` with a feature map: the ordinary model, brute force, certificates."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, certify, regularization_path, save
from cornerstep.files.model_file import ModelFileError
from support.multiclass_problems import LOSS_KINDS, TIGHT, M, draw
from support.own_losses import Groups, Round, Wrapped

SOLVERS = ("fw", "fw-open-loop", "projected-gradient", "fw-corrective", "envelope", "auto")
VECTORS = np.random.default_rng(5).standard_normal((M, 3))


def per_class(X):
    """``e_j (x) x``: the ordinary model."""
    out = np.zeros((X.shape[0], M, M, X.shape[1]))
    out[:, np.arange(M), np.arange(M)] = X[:, None]
    return out.reshape(X.shape[0], M, -1)


def shared(X):
    """Products with a vector of each class, a constant for each class, and one for none."""
    products = np.einsum("ik,jl->ijkl", X, VECTORS).reshape(len(X), M, -1)
    constants = np.broadcast_to(np.eye(M), (len(X), M, M))
    return np.concatenate([products, constants, np.zeros((len(X), M, 1))], axis=2)


def as_sparse(feature_map):
    def sparse(X):
        psi = feature_map(X)
        return sp.csr_array(psi.reshape(-1, psi.shape[2]))

    return sparse


def fit(problem, feature_map, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return problem.fit(feature_map=feature_map, **parameters)


# Against the ordinary model


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("solver", ["fw", "fw-open-loop", "projected-gradient", "fw-corrective"])
@pytest.mark.parametrize("of", [per_class, as_sparse(per_class)], ids=["dense", "sparse"])
def test_a_block_per_class_is_the_ordinary_model(of, solver, kind, smoothing):
    problem = draw(kind, smoothing)
    # steps of 1/t beyond the inverse of a curvature of 1/mu take rounding apart
    expands = smoothing and solver == "projected-gradient"
    for steps in (1, 2, 5) if expands else (1, 2, 5, 20):
        options = {"solver": solver, "max_iter": steps, "tol": 0.0}
        joint, plain = fit(problem, of, **options), fit(problem, None, **options)
        assert joint.coef_.shape == (1, M * problem.X.shape[1])
        assert joint.objective_ == pytest.approx(plain.objective_, rel=1e-10)
        assert joint.bound_ == pytest.approx(plain.bound_, rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(joint.coef_.ravel(), plain.coef_.ravel(), rtol=0, atol=1e-10)
        scores = [model.decision_function(problem.X) for model in (joint, plain)]
        np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("kind", LOSS_KINDS)
def test_the_metric_of_envelope_is_that_of_the_ordinary_model(kind, smoothing):
    problem = draw(kind, smoothing)
    options = {"solver": "envelope", "max_iter": 6, "tol": 0.0}
    joint, plain = fit(problem, per_class, **options), fit(problem, None, **options)
    assert joint.objective_ == pytest.approx(plain.objective_, rel=1e-7)
    np.testing.assert_allclose(joint.coef_.ravel(), plain.coef_.ravel(), rtol=0, atol=1e-6)


def test_costs_weights_and_classes_of_no_weight():
    problem = draw("cost-sensitive, per example")
    weight = problem.weight * (np.arange(problem.y.size) % 3 > 0)
    models = [
        problem.estimator(feature_map=of, tol=1e-6, solver="fw-corrective").fit(
            problem.X, problem.y, weight
        )
        for of in (per_class, None)
    ]
    np.testing.assert_allclose(models[0].coef_.ravel(), models[1].coef_.ravel(), atol=1e-9)
    for model in models:
        assert model.dual_coef_.shape == (problem.y.size, M)
        assert certify(model, problem.X, problem.y, weight).holds
        assert not certify(model, problem.X, problem.y).holds


# Shared features


def least(problem, psi):
    """The least P by cvxpy."""
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable(psi.shape[2])
    total = 0.5 * cp.sum_squares(w)
    steps = problem.rho - np.append(problem.rho[1:], 0)
    for i, y in enumerate(problem.y):
        z = psi[i] @ w - psi[i, y] @ w + problem.delta[i]
        z = z if problem.whole else cp.pos(z)
        largest = sum(steps[h] * cp.sum_largest(z, h + 1) for h in range(M) if steps[h] > 0)
        total += problem.scales[i] * cp.pos(largest)
    return float(cp.Problem(cp.Minimize(total)).solve(**TIGHT))


@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("of", [shared, as_sparse(shared)], ids=["dense", "sparse"])
def test_optimum_of_cvxpy(kind, of):
    problem = draw(kind)
    psi = shared(problem.X)
    best = least(problem, psi)
    for solver in SOLVERS:
        for steps in (3, 3000):
            model = fit(problem, of, solver=solver, tol=1e-3, max_iter=steps)
            assert model.bound_ <= best * (1 + 1e-8)
            assert best <= model.objective_ * (1 + 1e-8)
            scores = psi @ model.coef_[0]
            np.testing.assert_allclose(model.decision_function(problem.X), scores, atol=1e-12)
            np.testing.assert_array_equal(model.predict(problem.X), scores.argmax(axis=1))
            own = np.take_along_axis(scores, problem.y[:, None], axis=1)
            value = problem.loss.of_margins(scores - own + problem.delta, problem.y)
            exact = 0.5 * float((model.coef_**2).sum()) + float(problem.scales @ value)
            assert model.objective_ == pytest.approx(exact, rel=1e-9)
            assert certify(model, problem.X, problem.y, problem.weight).holds
        assert model.status_.value == "solved" or solver in SOLVERS[:3]
    model.coef_ = 1.2 * model.coef_
    assert not certify(model, problem.X, problem.y, problem.weight).holds


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_own_losses(solver, smoothing):
    problem = draw("usunier", smoothing)
    options = {"solver": solver, "max_iter": 500, "tol": 1e-3}
    plain, hidden = (
        fit(problem, shared, loss=loss, **options) for loss in ("usunier", Wrapped(problem.loss))
    )
    assert plain.bound_ <= hidden.objective_
    assert hidden.bound_ <= plain.objective_
    for loss in (Round(), Groups([0, 0, 1, 1, 2]))[: 1 if smoothing or solver == "envelope" else 2]:
        model = fit(problem, shared, loss=loss, **options)
        assert certify(model, problem.X, problem.y, problem.weight).holds


def test_two_classes():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]

    def of(X):
        return np.stack([-X / np.sqrt(2), X / np.sqrt(2)], axis=1)  # W of two classes is (-w, w)

    options: dict[str, Any] = {"fit_intercept": False, "tol": 1e-6, "solver": "fw-corrective"}
    joint = MulticlassSVC(feature_map=of, **options).fit(X, y)
    plain = MulticlassSVC(**options).fit(X, y)
    assert joint.objective_ == pytest.approx(plain.objective_, rel=2e-6)
    np.testing.assert_array_equal(joint.predict(X), plain.predict(X))
    np.testing.assert_allclose(joint.decision_function(X), plain.decision_function(X), atol=0.02)
    assert certify(joint, X, y).holds


# State


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("solver", ["fw", "fw-corrective", "envelope"])
def test_warm_starts_and_checkpoints(solver, smoothing, tmp_path):
    problem = draw("usunier", smoothing)
    options = {"solver": solver, "tol": 0.02, "max_iter": 3000}
    model = problem.estimator(feature_map=shared, warm_start=True, **options)
    first = model.fit(problem.X, problem.y).n_iter_
    assert model.fit(problem.X, problem.y).n_iter_ < max(first, 2)
    model.set_params(feature_map=per_class).fit(problem.X, problem.y)
    plain = problem.estimator(**options).fit(problem.X, problem.y)
    assert model.bound_ <= plain.objective_
    assert plain.bound_ <= model.objective_
    kept = options | {"checkpoint": tmp_path / "state"}
    begun = fit(problem, shared, **kept)
    assert fit(problem, shared, **kept).n_iter_ < max(begun.n_iter_, 2)
    with pytest.raises(ValueError, match="checkpoint"):
        fit(problem, per_class, **kept)


def test_copies_and_paths():
    problem = draw("top-k")
    path = regularization_path(
        problem.estimator(feature_map=shared), problem.X, problem.y, [0.1, 1]
    )
    assert (path.column("relative_gap_") <= 1e-3).all()
    model = clone(problem.estimator(feature_map=shared)).fit(problem.X, problem.y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.predict_top_k(problem.X, 2), model.predict_top_k(problem.X, 2)
    )
    model.set_params(feature_map=None)  # the machine is that of training
    np.testing.assert_array_equal(again.predict(problem.X), model.predict(problem.X))
    problems = certify(model, problem.X, problem.y).problems
    assert any("feature_map" in each for each in problems)
    model.fit(problem.X, problem.y)
    assert model.coef_.shape == (M, problem.X.shape[1])


def test_nothing_but_zero_features():
    problem = draw("max-hinge")
    for solver in SOLVERS:
        model = fit(problem, lambda X: np.zeros((len(X), M, 2)), solver=solver)
        assert model.status_.value == "solved"
        assert not model.coef_.any()


def test_integers_and_single_precision():
    problem = draw("max-hinge")
    exact = fit(problem, lambda X: np.round(4 * shared(X)), solver="fw-corrective")
    for kind in (np.int64, np.float32):
        of = fit(problem, lambda X: np.round(4 * shared(X)).astype(kind), solver="fw-corrective")  # noqa: B023
        np.testing.assert_array_equal(of.coef_, exact.coef_)


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "block"}, "^solver must be one of auto, .* with feature_map=.*, got 'block'"),
        ({"kernel": "rbf"}, "^kernel must be 'linear' with a feature_map, got 'rbf'"),
        ({"feature_map": "psi"}, "^feature_map must be a function or None, got 'psi'"),
        ({"feature_map": lambda X: X}, r"^feature_map must return numbers of shape \(14, 5, D\), "),
        ({"feature_map": lambda X: shared(X)[1:]}, r"got shape \(13, 5, 18\)"),
        ({"feature_map": lambda X: shared(X)[:, 1:]}, r"got shape \(14, 4, 18\)"),
        ({"feature_map": lambda X: shared(X)[:, :, :0]}, r"got shape \(14, 5, 0\)"),
        ({"feature_map": lambda X: sp.csr_array(X)}, r"got shape \(14, 4\)"),
        ({"feature_map": lambda X: shared(X).astype(str)}, "got shape .* of <U"),
        ({"feature_map": lambda X: np.log(0 * shared(X) - 1)}, "must return finite numbers, got"),
    ],
)
def test_what_it_cannot_be(parameters, message):
    problem = draw("max-hinge")
    with pytest.raises(ValueError, match=message), np.errstate(invalid="ignore"):
        problem.fit(**{"feature_map": shared} | parameters)


def test_another_number_of_features_at_prediction():
    problem = draw("max-hinge")
    width = [3]
    model = fit(problem, lambda X: shared(X)[:, :, : width[0]])
    width[0] = 4
    with pytest.raises(ValueError, match=r"^feature_map must return .*\(14, 5, 3\).*\(14, 5, 4\)"):
        model.predict(problem.X)


def test_other_places_of_rows(tmp_path):
    problem = draw("max-hinge")
    model = problem.estimator(feature_map=shared)
    np.save(tmp_path / "X.npy", problem.X)
    refused = "^feature_map must be None for {}, got "
    with pytest.raises(ValueError, match=refused.format("rows on disk")):
        model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), problem.y)
    arrays = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match=refused.format("arrays of array_api_strict")):
        model.fit(arrays.asarray(problem.X), problem.y)
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=refused.format("Dask arrays")):
        model.fit(dask.from_array(problem.X), dask.from_array(problem.y))


def test_model_files_hold_no_code(tmp_path):
    problem = draw("max-hinge")
    with pytest.raises(ModelFileError, match=r"^feature_map holds the function 'shared'"):
        save(fit(problem, shared), tmp_path / "model.cornerstep")
