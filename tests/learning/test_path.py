"""Regularisation paths: every point certified, equal to cold fits, independent of the others."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from cornerstep import (
    MulticlassSVC,
    OneClassHull,
    ReducedHullSVC,
    ReducedHullSVR,
    SoftMarginBoostingClassifier,
    StructuredSVC,
    regularization_path,
)
from cornerstep.structured import MulticlassModel
from support.multiclass_problems import LINEAR_SOLVERS, SOLVERS

mpl.use("Agg")

CS = (3.0, 0.01, 100.0, 0.3)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def path(iris):
    return regularization_path(MulticlassSVC(tol=1e-6, random_state=0), iris[0], iris[1], CS)


def test_certified_and_in_order(path):
    assert len(path) == 4
    assert np.array_equal(path.values, sorted(CS))
    assert [model.C for model in path.estimators] == sorted(CS)
    assert (path.column("relative_gap_") <= 1e-6).all()
    assert (np.diff(path.column("objective_")) > 0).all()
    assert all(model.status_.value == "solved" for model in path.estimators)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("loss", ["max-hinge", "top-k", "weighted-usunier"])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_same_optimum_as_cold_fits(iris, kernel, loss, smoothing):
    rho = [0.8, 0.3] if loss.startswith("weighted") else None
    model = MulticlassSVC(
        loss, k=2, rho=rho, kernel=kernel, smoothing=smoothing, tol=1e-8, random_state=0
    )
    weight = np.linspace(0.5, 1.5, 150)
    path = regularization_path(model, iris[0], iris[1], [0.1, 1.0, 10.0], sample_weight=weight)
    for C, fitted in zip(path.values, path.estimators, strict=True):
        cold = clone(model).set_params(C=C).fit(*iris, sample_weight=weight)
        assert fitted.objective_ == pytest.approx(cold.objective_, rel=2e-8)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_true_certificates_of_every_solver(iris, solver, smoothing, kernel):
    model = MulticlassSVC(solver=solver, smoothing=smoothing, kernel=kernel, max_iter=50)
    path = regularization_path(model, iris[0], iris[1], [10.0, 0.1, 1.0])
    for C, fitted in zip(path.values, path.estimators, strict=True):
        best = clone(model).set_params(C=C, solver="block", tol=1e-8, max_iter=1000).fit(*iris)
        assert fitted.bound_ <= best.objective_ * (1 + 1e-12)
        assert fitted.objective_ >= best.bound_ * (1 - 1e-12)


PARAMETERS = {
    "nu": (lambda: ReducedHullSVC(tol=1e-6), [0.1, 0.6, 0.3]),
    "K": (lambda: ReducedHullSVC(tol=1e-6), [5.0, 30.0]),
    "nu of boosting": (lambda: SoftMarginBoostingClassifier(tol=0.0, atol=1e-3), [0.2, 0.5]),
    "lam": (lambda: StructuredSVC(MulticlassModel(), atol=1e-3, random_state=0), [0.01, 1.0]),
    "C": (lambda: ReducedHullSVR(tol=1e-6), [0.1, 10.0, 1.0]),
    "epsilon": (lambda: ReducedHullSVR(tol=1e-6), [0.1, 0.3]),
    "nu of one class": (lambda: OneClassHull(tol=1e-6), [0.1, 0.9, 0.5]),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_other_parameters_from_strong_to_weak(iris, name):
    make, values = PARAMETERS[name]
    X, y = iris
    X, y = X[y > 0], y[y > 0]
    parameter = name.split()[0]
    path = regularization_path(make(), X, y, values, parameter=parameter)
    assert path.values.tolist() == sorted(values, reverse=parameter != "C")
    assert path.to_pandas()[parameter].tolist() == path.values.tolist()
    for value, fitted in zip(path.values, path.estimators, strict=True):
        cold = make().set_params(**{parameter: value}).fit(X, y)
        assert fitted.status_.value == cold.status_.value == "solved"
        least = max(fitted.bound_, cold.bound_) if cold.bound_ < cold.objective_ else None
        if least is not None:
            assert least <= min(fitted.objective_, cold.objective_) * (1 + 1e-9)


def test_estimators_are_independent(iris):
    X, y = iris
    runner = MulticlassSVC(smoothing=0, tol=1e-6, random_state=0)
    short = regularization_path(runner, X, y, [0.01])
    long = regularization_path(runner, X, y, [0.01, 1.0, 100.0])
    assert np.array_equal(short.estimators[0].coef_, long.estimators[0].coef_)
    for model in long.estimators:
        scores = X @ model.coef_.T + model.intercept_
        z = scores - scores[np.arange(150), y][:, None] + (np.arange(3) != y[:, None])
        square = (model.coef_**2).sum() + (model.intercept_**2).sum()
        value = 0.5 * square + model.C * z.max(axis=1).sum()
        assert model.objective_ == pytest.approx(value, rel=1e-10)
    before = long.estimators[0].coef_.copy()
    long.estimators[1].set_params(C=7.0).fit(X, y)
    assert np.array_equal(long.estimators[0].coef_, before)
    assert long.estimators[0].C == 0.01


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", LINEAR_SOLVERS)
def test_without_an_intercept_nothing_is_shared(iris, solver):
    model = MulticlassSVC(solver=solver, fit_intercept=False, max_iter=10, random_state=0)
    short = regularization_path(model, iris[0], iris[1], [0.01])
    long = regularization_path(model, iris[0], iris[1], [0.01, 1.0])
    assert np.array_equal(short.estimators[0].coef_, long.estimators[0].coef_)


def test_the_estimator_is_not_changed(iris):
    model = MulticlassSVC(C=5.0, random_state=0)
    regularization_path(model, iris[0], iris[1], [1.0])
    assert not hasattr(model, "coef_")
    assert model.C == 5.0
    assert model.warm_start is False


def test_to_pandas(path):
    frame = path.to_pandas()
    assert list(frame.columns) == [
        "C", "objective", "bound", "gap", "relative_gap", "status", "n_iter",
    ]  # fmt: skip
    assert len(frame) == 4
    assert np.allclose(frame.objective - frame.bound, frame.gap)


def test_plot(path, iris):
    import matplotlib.pyplot as plt

    axes = path.plot()
    assert axes.get_xlabel() == "C"
    assert len(axes.lines) == 1
    assert np.allclose(axes.lines[0].get_xdata(), path.values)
    own = plt.figure().add_subplot()
    assert path.plot(*iris, ax=own) is own
    assert len(own.lines) == 2
    errors = [max(1 - model.score(*iris), np.finfo(float).eps) for model in path.estimators]
    assert np.allclose(own.lines[1].get_ydata(), errors)
    plt.close("all")


@pytest.mark.parametrize(
    "Cs", [[], 1.0, [0.0, 1.0], [-1.0], ["a"], [np.nan], [1.0, np.inf], [[1.0, 2.0]]]
)
def test_bad_cs(iris, Cs):
    with pytest.raises(ValueError, match="values must be a sequence of positive numbers"):
        regularization_path(MulticlassSVC(), iris[0], iris[1], Cs)


def test_bad_estimator(iris):
    with pytest.raises(TypeError, match="estimator must have warm_start"):
        regularization_path(SVC(), iris[0], iris[1], [1.0])


def test_errors_of_fit_come_through(iris):
    with pytest.raises(ValueError, match="solver must be one of"):
        regularization_path(MulticlassSVC(solver="nonsense"), iris[0], iris[1], [1.0])
