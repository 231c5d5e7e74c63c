"""Truncated Newton steps: the same optimum as other methods, in any units, from any start."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, Status, certify, regularization_path
from cornerstep.losses import Softmax
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.newton import Metric, NewtonDescent, Products
from cornerstep.optimiser.loop import Stopping, run


def problem_of(X: Any, y: Any, scales: Any, *, mu: float = 1.0, sweeps: bool = True) -> Any:
    loss = Softmax(0.5)
    examples = Examples(X, sweeps=sweeps)
    return MulticlassProblem(examples, y, int(y.max()) + 1, loss, scales, mu)


def small_problem(*, sparse: bool = False) -> Any:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 6)), np.arange(30) % 4
    return problem_of(sp.csr_array(X) if sparse else X, y, rng.uniform(0.1, 2.0, 30), mu=0.7)


@pytest.mark.parametrize("sparse", [False, True])
def test_products_with_the_hessian_are_differences_of_gradients(sparse: bool) -> None:
    problem = small_problem(sparse=sparse)
    solver = NewtonDescent(problem, lambda value: 1e-3 * value)
    rng = np.random.default_rng(1)
    image, way = rng.standard_normal((2, *problem.examples.empty_image(4).shape))
    here = solver.at(image)
    ahead, behind = solver.at(image + 1e-5 * way), solver.at(image - 1e-5 * way)
    slope = np.vdot(image - here.own, way)
    assert (ahead.value - behind.value) / 2e-5 == pytest.approx(slope, rel=1e-7)
    change = way - (ahead.own - behind.own) / 2e-5
    np.testing.assert_allclose(solver.curved(here, way), change, rtol=0, atol=1e-7)
    # half the square of the gradient is the gap of the dual points there
    assert here.gap == pytest.approx(0.5 * ((image - here.own) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_metric_is_an_inverse_where_it_has_all_eigenvalues(sparse: bool) -> None:
    problem = small_problem(sparse=sparse)
    metric = Metric(Products(problem), rank=50)
    bends = np.array([0.0, 0.1, 1.0, 100.0])
    X = problem.examples.data
    T = np.asarray(X.T @ (problem.scales[:, None] * (X.toarray() if sparse else X)))
    image = np.random.default_rng(2).standard_normal((4, 6))
    found = metric.at(bends)(image.T if sparse else image)
    for t, row, given in zip(bends, found.T if sparse else found, image, strict=True):
        np.testing.assert_allclose(row + t * (T @ row), given, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_features_of_any_size_are_solved(scale: float, kind: Any) -> None:
    X, y = load_iris(return_X_y=True)
    X = (scale * X).astype(kind)
    model = MulticlassSVC(loss="softmax").fit(X, y)
    assert model.status_ is Status.SOLVED
    assert model.relative_gap_ <= 1e-3
    assert certify(model, X, y).holds


def test_rounded_products_lead_to_exact_certificates() -> None:
    """Products in float32, refined: as far as in float64."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=400)
    X = rng.standard_normal((400, 40)) + 2.0 * rng.standard_normal((5, 40))[y] + 5.0
    values = []
    for sweeps in (True, False):
        problem = problem_of(X, y, np.full(400, 10.0), sweeps=sweeps)
        if sweeps:
            problem.examples.quick = X.astype(np.float32)
        solver = NewtonDescent(problem, lambda value: 1e-9 * value)
        assert solver.products.exact is not sweeps
        outcome = run(solver, Stopping(0.0, 2e-8, 40))  # the rounding of P and D is 8e-9
        assert outcome.status is Status.SOLVED
        values.append(outcome.look.value)
    assert values[0] == pytest.approx(values[1], rel=1e-8)


def test_a_path_has_the_optima_of_single_fits() -> None:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Cs = np.logspace(-3, 3, 7).tolist()
    path = regularization_path(MulticlassSVC(loss="softmax", tol=1e-8), X, y, Cs)
    steps = 0
    for C, model in zip(Cs, path.estimators, strict=True):
        alone = MulticlassSVC(loss="softmax", tol=1e-8, C=C, solver="envelope").fit(X, y)
        assert model.status_ is Status.SOLVED
        assert model.bound_ <= alone.objective_
        assert alone.bound_ <= model.objective_
        cold = MulticlassSVC(loss="softmax", tol=1e-8, C=C).fit(X, y)
        steps += cold.trace_["products"][-1] - model.trace_["products"][-1]
    assert steps > 0  # earlier solutions save products


def test_two_classes_keep_the_difference_only() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 2] / 16, y[y < 2]
    for rows in (X, sp.csr_array(X)):
        model = MulticlassSVC(loss="softmax", tol=1e-9, fit_intercept=False).fit(rows, y)
        assert certify(model, rows, y).holds
        scores = X @ model.coef_[0] * np.where(y == 1, 1.0, -1.0)
        value = 0.25 * (model.coef_**2).sum() + np.logaddexp(0.0, -scores).sum()
        assert model.objective_ == pytest.approx(value, rel=1e-10)


def test_a_start_of_other_data_does_no_harm() -> None:
    X, y = load_digits(return_X_y=True)
    model = MulticlassSVC(loss="softmax", warm_start=True).fit(X, y)
    model.fit(-X / 16, y)
    assert model.status_ is Status.SOLVED
    assert certify(model, -X / 16, y).holds


def test_training_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    X, y = load_digits(return_X_y=True)
    file = tmp_path / "state.npz"
    options: dict[str, Any] = {"loss": "softmax", "tol": 1e-7, "checkpoint": file}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        short = MulticlassSVC(max_iter=3, **options).fit(X, y)
    assert short.status_ is Status.ITERATION_LIMIT
    model = MulticlassSVC(**options).fit(X, y)
    assert model.status_ is Status.SOLVED
    assert model.trace_["value"][0] <= short.objective_  # a multiple of its weights


def test_a_time_limit_ends_a_step() -> None:
    X, y = load_digits(return_X_y=True)
    model = MulticlassSVC(loss="softmax", C=1e6, tol=1e-12, time_limit=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.status_ is Status.TIME_LIMIT
    assert certify(model, X, y).holds


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "top-k"}, "^solver='newton' needs loss='softmax', 'squared-hinge', 'max-hinge'"),
        ({"loss": "max-hinge", "smoothing": 0}, "^smoothing must be positive with solver='newton'"),
        ({"loss": "max-hinge", "kernel": "rbf"}, "^solver='newton' needs kernel='linear'"),
        ({"feature_map": lambda X: X}, "^solver must be one of auto, envelope"),
        ({"kernel": "rbf"}, "^kernel must be 'linear'"),
    ],
)
def test_refusals(parameters: Any, message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(**{"loss": "softmax", "solver": "newton", **parameters}).fit(X, y)
