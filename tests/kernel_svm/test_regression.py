"""``ReducedHullSVR``: regression by epsilon or nu."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR, NuSVR

import cornerstep
from cornerstep import OneClassHull, ReducedHullSVR, certify
from cornerstep.kernel_svm.machines import Rows, pose_regression
from cornerstep.kernel_svm.pairs import KernelParameters
from cornerstep.kernel_svm.tube import PairedColumns
from cornerstep.learning.kernel_blocks import InnerProductKernel
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.optimiser.result import Status

WIDTHS: list[dict[str, Any]] = [{"epsilon": 0.1}, {"nu": 0.3}]
PRECISE: dict[str, Any] = {"tol": 1e-8, "random_state": 0}


def curve(n=200, d=2, seed=0, level=7.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 3
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n) + level, rng.uniform(0, 2, n)


def value(c, K, y, epsilon):
    return 0.5 * float(c @ K @ c) - float(y @ c) + epsilon * float(np.abs(c).sum())


@pytest.mark.parametrize(
    ("n", "d", "options"),
    [
        (300, 3, {"epsilon": 0.1}), (400, 5, {"epsilon": 0.01, "C": 100.0}),
        (900, 2, {"nu": 0.4}), (300, 2, {"nu": 0.9, "C": 10.0}), (300, 2, {"nu": 1.0}),
        (200, 3, {"epsilon": 0.0}), (200, 3, {"kernel": "linear", "epsilon": 0.2}),
        (200, 3, {"kernel": "linear", "nu": 0.5}), (150, 2, {"nu": 0.1}),
    ],
)  # fmt: skip
def test_the_optimum_is_that_of_libsvm(n, d, options):
    X, y, weights = curve(n, d)
    ours = ReducedHullSVR(**options, **PRECISE).fit(X, y, weights)
    other = (NuSVR if "nu" in options else SVR)(tol=1e-9, **options).fit(X, y, weights)
    gamma = 1 / (d * X.var())
    K = X @ X.T if "kernel" in options else rbf_kernel(X, gamma=gamma)
    found = []
    for model in (ours, other):
        c = np.zeros(n)
        c[model.support_] = model.dual_coef_[0]
        found.append(value(c, K, y - np.average(y, weights=weights), options.get("epsilon", 0)))
    assert ours.objective_ == pytest.approx(found[1], rel=1e-6)
    assert ours.objective_ == pytest.approx(found[0], rel=1e-9)
    assert ours.bound_ <= found[1] + 1e-12 * abs(found[1])
    assert abs(ours.predict(X) - other.predict(X)).max() < 1e-3
    assert certify(ours, X, y, weights).problems == ()


@pytest.mark.parametrize("width", [{"epsilon": 0.2}, {"nu": 0.5}])
def test_the_optimum_is_that_of_an_interior_point_solver(width):
    X, y, _ = curve(40, level=0.0)
    root = np.linalg.cholesky(rbf_kernel(X, gamma=0.5) + 1e-12 * np.eye(40))
    a, s = cp.Variable(40), cp.Variable(40)
    cost = 0.5 * cp.sum_squares(root.T @ (a - s)) - y @ (a - s)
    cost = cost + width.get("epsilon", 0.0) * cp.sum(a + s)
    limits = [a >= 0, a <= 2, s >= 0, s <= 2, cp.sum(a) == cp.sum(s)]
    if "nu" in width:
        limits.append(cp.sum(a) == width["nu"] * 2.0 * 40 / 2)
    best = cp.Problem(cp.Minimize(cost), limits)
    best.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    model = ReducedHullSVR(C=2.0, gamma=0.5, **width, **PRECISE).fit(X, y)
    assert model.objective_ == pytest.approx(best.value, rel=1e-6)


def test_nu_and_its_epsilon_are_the_same_machine():
    X, y, _ = curve(300)
    by_nu = ReducedHullSVR(nu=0.4, **PRECISE).fit(X, y)
    by_width = ReducedHullSVR(epsilon=by_nu.epsilon_, **PRECISE).fit(X, y)
    assert by_width.predict(X) == pytest.approx(by_nu.predict(X), abs=1e-4)
    off = np.abs(y - by_nu.predict(X))
    assert (off > by_nu.epsilon_ + 1e-4).mean() <= 0.4 <= (off > by_nu.epsilon_ - 1e-4).mean()


def test_what_lies_in_the_tube_is_no_support():
    X, y, _ = curve(100)
    model = ReducedHullSVR(epsilon=50.0, atol=1e-9).fit(X, y)
    assert model.support_.size == 0
    assert model.objective_ == 0
    assert model.status_ is Status.SOLVED
    assert np.ptp(model.predict(X)) == 0
    assert np.abs(model.predict(X) - y).max() <= 50
    assert certify(model, X, y).holds


def test_a_level_of_the_targets_and_an_offset_of_the_rows_are_idle():
    X, y, _ = curve(150)
    for options in WIDTHS:
        plain = ReducedHullSVR(kernel="linear", **options, **PRECISE).fit(X, y)
        moved = ReducedHullSVR(kernel="linear", **options, **PRECISE).fit(X + 1e4, y + 1e4)
        assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-6)
        assert moved.predict(X + 1e4) - 1e4 == pytest.approx(plain.predict(X), abs=1e-3)
        assert certify(moved, X + 1e4, y + 1e4).problems == ()


def test_repeated_rows_are_weights():
    X, y, _ = curve(100)
    counts = np.random.default_rng(2).integers(0, 4, 100)
    for options in WIDTHS:
        once = ReducedHullSVR(gamma=0.5, **options, **PRECISE).fit(X, y, counts)
        often = ReducedHullSVR(gamma=0.5, **options, **PRECISE)
        often.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert once.objective_ == pytest.approx(often.objective_, rel=1e-7)


def test_kinds_of_input_agree():
    X, y, _ = curve(120)
    K = rbf_kernel(X, gamma=0.5)
    dense = ReducedHullSVR(gamma=0.5, **PRECISE).fit(X, y)
    others = {
        "csr": (ReducedHullSVR(gamma=0.5, **PRECISE), sp.csr_array(X)),
        "function": (ReducedHullSVR(kernel=lambda A, B: rbf_kernel(A, B, 0.5), **PRECISE), X),
        "precomputed": (ReducedHullSVR(kernel="precomputed", **PRECISE), K),
    }
    for name, (model, data) in others.items():
        model.fit(data, y)
        assert model.objective_ == pytest.approx(dense.objective_, rel=1e-7), name
        assert certify(model, data, y).holds, name


def test_columns_are_computed_once_for_both_variables():
    X, _, _ = curve(30)
    columns = PairedColumns(KernelColumns(InnerProductKernel(X, "rbf", 0.5), 10**6))
    K = np.tile(rbf_kernel(X, gamma=0.5), (2, 2))
    some, values = np.array([3, 8, 33, 50]), np.array([1.0, -2.0, 0.5, 3.0])
    out = np.zeros(60)
    columns.add_product(some, values, out)
    assert out == pytest.approx(K[:, some] @ values, rel=1e-12)
    assert columns.exact_product(some, values) == pytest.approx(out, rel=1e-12)
    assert columns.evaluations == 3 * 30  # 3 and 33 are one example
    assert (columns.slots[[3, 8, 20, 33, 38, 50]] >= 0).all()
    assert columns.submatrix(some) == pytest.approx(K[np.ix_(some, some)], rel=1e-12)
    assert columns.evaluations == 3 * 30
    half = np.array([1, 5, 31, 35])
    assert columns.take(half).submatrix(np.arange(4)) == pytest.approx(K[np.ix_(half, half)])
    assert columns.kernel.block(half, None) == pytest.approx(K[half])
    assert columns.kernel.block(half, some) == pytest.approx(K[np.ix_(half, some)])


@pytest.mark.parametrize(
    ("falsify", "said"),
    [
        (lambda m: setattr(m, "intercept_", m.intercept_ + 0.01), "intercept_ is"),
        (lambda m: setattr(m, "epsilon_", 0.2), "epsilon_ is"),
        (lambda m: setattr(m, "dual_coef_", m.dual_coef_ * 2), "outside its domain"),
        (lambda m: setattr(m, "support_", m.support_[::-1].copy()), "support_vectors_ are not"),
        (lambda m: setattr(m, "epsilon", 0.3), "epsilon_ is"),
    ],
)
def test_certify_finds_what_is_false(falsify, said):
    X, y, _ = curve(120)
    model = ReducedHullSVR(tol=1e-6).fit(X, y)
    falsify(model)
    problems = certify(model, X, y).problems
    assert any(said in problem for problem in problems), problems
    assert not certify(ReducedHullSVR(nu=0.5).fit(X, y), X, y + np.arange(120)).holds


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("nu", [None, 0.5, 1.0])
def test_certify_believes_models_that_are_all_rounding(nu):
    """The certificate is that of the coefficients, whichever dual point training ended at."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = 10.0 ** rng.integers(0, 13) * rng.standard_normal((8, 2))
        model = ReducedHullSVR(C=3e9, nu=nu, kernel="poly", gamma=1.6, degree=2, coef0=1.0)
        y = rng.standard_normal(8)
        check = certify(model.fit(X, y), X, y)
        assert check.holds, (seed, check.problems)


def test_the_edge_of_the_tube_is_rounded_as_its_targets_are():
    """``epsilon - (y - level)`` of an example there is small, and off by what y is rounded to."""
    y = np.array([0.8, -0.6, 0.99, 0.7, 0.5, -0.99, -0.07, -0.5])
    rows = Rows(
        np.arange(8.0)[:, None],
        np.arange(8),
        np.ones(8),
        KernelParameters("rbf", 1.0, 3, 0.0),
        10**6,
    )
    problem = pose_regression(rows, y, {"C": 7.0, "epsilon": 0.98, "nu": None}).problem
    least = np.finfo(float).eps / 2 * np.abs(np.tile(y - np.average(y), 2))
    assert (problem.errors(np.zeros(16)) >= least).all()


def test_files_and_reports(tmp_path):
    X, y, _ = curve(120)
    for model in (ReducedHullSVR(), ReducedHullSVR(nu=0.3), OneClassHull(0.2)):
        model.fit(X, y)
        cornerstep.save(model, tmp_path / "model")
        again = cornerstep.load(tmp_path / "model")
        assert np.array_equal(again.predict(X), model.predict(X))
        assert certify(again, X, y).holds
        page = cornerstep.report(again, X, y)
        assert ("outliers" if isinstance(model, OneClassHull) else "mean absolute error") in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": 0.1, "nu": 0.5}, "only one of epsilon and nu"),
        ({"epsilon": -0.1}, "epsilon must be a number >= 0 or None, got -0.1"),
        ({"nu": 0}, r"nu must be a number in \(0, 1\], got 0"),
        ({"C": 0.0}, "C must be a positive number, got 0.0"),
        ({"kernel": "cubic"}, "kernel must be one of"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(options, said):
    X, y, _ = curve(20)
    with pytest.raises(ValueError, match=said):
        ReducedHullSVR(**options).fit(X, y)


def test_numbers_that_leave_the_range_are_refused():
    X, y, _ = curve(20)
    with pytest.raises(ValueError, match="y is too large"):
        ReducedHullSVR().fit(X, y * 1e301)


@pytest.mark.filterwarnings("ignore:ReducedHullSVR stopped")
def test_runs_end_with_what_they_have():
    X, y, _ = curve(300)
    best = ReducedHullSVR(C=100.0, epsilon=0.01, tol=1e-8).fit(X, y)
    for limits in ({"time_limit": 0.0}, {"max_iter": 0}, {"callback": lambda iterate: True}):
        model = ReducedHullSVR(C=100.0, epsilon=0.01, tol=1e-8, **limits)
        model.fit(X, y)
        assert model.status_ is not Status.SOLVED
        assert model.bound_ <= best.objective_ <= model.objective_
        assert certify(model, X, y).holds


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_a_start_is_no_worse_than_no_function_at_all(C):
    X, y, weights = curve(4000, 3)
    model = ReducedHullSVR(C, random_state=0, callback=lambda at: True).fit(X, y, weights)
    assert model.trace_["value"][0] <= 0
