"""The kernel SVM problem and its solvers: optima, certificates, faces, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

import cornerstep.kernel_svm.solvers.face as face
import cornerstep.kernel_svm.solvers.start as beginning
from cornerstep import ReducedHullSVC, Status, certify, minimize
from cornerstep.core.clock import asking, never
from cornerstep.kernel_svm.compiled.sweeps import two_coordinate_descent
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.kernel_svm.solvers.working_set import WorkingSetDescent
from cornerstep.kernel_svm.training import SOLVERS
from cornerstep.learning.kernel_blocks import CallableKernel, InnerProductKernel
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.optimiser.loop import Stopping, run
from support.kernel_problems import draw, optimum, problem, train

SETTINGS: dict[str, dict[str, Any]] = {
    "K": {"K": 7},
    "real K": {"K": 7.4},
    "hard margin": {"K": 1},
    "K below 1": {"K": 0.3},
    "K a class": {"K": 24},
    "C": {"C": 2.0},
    "small C": {"C": 1e-2},
    "large C": {"C": 1e3},
}


def caps_of(kind, n=60):
    return np.ones(n) if kind == "equal" else np.random.default_rng(1).uniform(0.7, 2.0, n)


def feasible(task, beta, tol=1e-12):
    """Bounds exactly, sums to rounding."""
    assert (beta >= task.lower).all()
    assert (beta <= task.upper).all()
    size = max(1.0, np.abs(beta).sum())
    if task.C is not None:
        assert abs(beta.sum()) <= tol * size
    else:
        positive, negative = beta[: task.n_positive].sum(), beta[task.n_positive :].sum()
        assert abs(positive - task.K) <= tol * size
        assert abs(negative + task.K) <= tol * size


@pytest.mark.parametrize("columns", [0, 5000])
@pytest.mark.parametrize("weights", ["equal", "different"])
@pytest.mark.parametrize("name", SETTINGS)
def test_auto_finds_the_optimum(name, weights, columns):
    _, signs, matrix = draw()
    caps, options = caps_of(weights), SETTINGS[name]
    task = problem(matrix, signs, caps, **options)
    found = train(task, tol=1e-9, max_iter=300, whole_columns=columns)
    best, _ = optimum(matrix, signs, caps, **options)
    feasible(task, found.beta)
    assert found.proof.status is Status.SOLVED
    assert found.proof.objective == pytest.approx(best, rel=1e-6)
    assert found.proof.bound <= best + 1e-8 * abs(best)
    assert found.proof.gap <= 1e-9 * abs(found.proof.objective)
    value = 0.5 * found.beta @ matrix @ found.beta + task.linear @ found.beta
    assert found.proof.objective == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("name", ["K", "real K", "C", "K a class"])
@pytest.mark.parametrize("method", ["di-away", "di-pairwise"])
def test_plain_methods_find_the_optimum_inside_the_polytope(name, method):
    _, signs, matrix = draw()
    task = problem(matrix, signs, **SETTINGS[name])
    seen, counts = [], []

    def check(iterate):
        feasible(task, signs * iterate.x)
        seen.append(iterate.value)
        counts.append(task.columns.evaluations)

    result = minimize(
        task.objective(), task.domain, method=method, tol=0, rtol=1e-6, callback=check
    )
    best, _ = optimum(matrix, signs, np.ones(60), **SETTINGS[name])
    assert result.success
    assert result.value == pytest.approx(best, rel=2e-6)
    assert (np.diff(seen) <= 1e-12 * abs(best)).all()
    np.testing.assert_array_equal(result.trace["kernel_evaluations"], counts)


@pytest.mark.parametrize("options", [{"K": 3}, {"C": 0.5}], ids=str)
@pytest.mark.parametrize("method", ["di-away-schedule", "di-pairwise-schedule"])
def test_schedules_go_down_inside_the_polytope(options, method):
    _, signs, matrix = draw(12, 0.5, gap=3)
    task = problem(matrix + np.eye(12), signs, **options)
    result = minimize(
        task.objective(), task.domain, method=method, tol=0, rtol=1e-2, max_iter=3000,
        callback=lambda iterate: feasible(task, signs * iterate.x),
    )  # fmt: skip
    best, _ = optimum(matrix + np.eye(12), signs, np.ones(12), **options)
    assert result.value >= best - 1e-9
    assert result.lower_bound <= best + 1e-9
    assert result.value - best < 0.3 * (result.trace["value"][0] - best)


@pytest.mark.parametrize("method", SOLVERS)
def test_counts_of_kernel_evaluations_are_true(method):
    X, signs, _ = draw(30, 0.5)
    entries = 0

    def counting(A, B):
        nonlocal entries
        entries += A.shape[0] * B.shape[0]
        return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=2))

    columns = KernelColumns(CallableKernel(X, counting), 30 * 8 * 9)
    task = ReducedHullProblem(columns, signs, np.ones(30), K=4)
    found = train(task, method, tol=0.05, max_iter=100)
    assert found.evaluations == columns.evaluations == entries
    assert found.proof.trace["kernel_evaluations"][-1] <= entries
    assert (np.diff(found.proof.trace["kernel_evaluations"]) >= 0).all()


@pytest.mark.parametrize("room", [0, 1, 5, 25])
@pytest.mark.parametrize("method", ["auto", "di-away", "di-pairwise"])
def test_methods_converge_without_room_for_all_columns(room, method):
    _, signs, matrix = draw()
    task = problem(matrix, signs, limit=room * 60 * 8, K=7)
    found = train(task, method, tol=1e-5, max_iter=10_000)
    assert found.proof.status is Status.SOLVED
    assert found.proof.objective == pytest.approx(
        optimum(matrix, signs, np.ones(60), K=7)[0], rel=2e-5
    )


@given(
    st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 12), st.floats(0.02, 1.0),
    st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_gap_is_never_below_the_error(seed, p, q, share, use_C, weighted, duplicated):
    rng = np.random.default_rng(seed)
    signs = np.repeat([1.0, -1.0], [p, q])
    X = rng.standard_normal((p + q, 2))
    if duplicated:
        X[-1] = X[0]
        X[1] = X[0]
    matrix = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    caps = rng.uniform(0.5, 3, p + q) if weighted else np.ones(p + q)
    most = min(caps[signs > 0].sum(), caps[signs < 0].sum())
    options = {"C": 10 ** (4 * share - 2)} if use_C else {"K": share * most}
    task = problem(matrix, signs, caps, **options)
    best = train(task, tol=1e-8, max_iter=200)
    feasible(task, best.beta)
    low = best.proof.bound
    for stop in (0, 1, 3):
        found = train(problem(matrix, signs, caps, **options), tol=0, max_iter=stop)
        feasible(task, found.beta)
        exact = 0.5 * found.beta @ matrix @ found.beta + task.linear @ found.beta
        slack = 1e-12 * (1 + np.abs(found.beta).sum() ** 2)
        assert abs(found.proof.objective - exact) <= slack
        assert found.proof.bound <= best.proof.objective + slack
        assert low <= found.proof.objective + slack


def test_rounds_never_increase_the_value():
    _, signs, matrix = draw(400, 0.3, gap=0.5)
    for options in ({"K": 15}, {"C": 30.0}):
        found = train(problem(matrix, signs, **options), tol=1e-10, max_iter=500, whole_columns=0)
        grown = np.array(found.proof.trace["kind"]) == "growth"  # those are hulls of another size
        values = found.proof.trace["value"][np.flatnonzero(grown).max(initial=0) :]
        assert values.size > 10
        rounding = 1e-15 * np.abs(found.beta).sum() ** 2
        assert (np.diff(values) <= 1e-11 * abs(found.proof.objective) + rounding).all()


@pytest.mark.parametrize("weights", ["equal", "different"])
def test_slim_hulls_grow_within_their_size(weights):
    _, signs, matrix = draw(120, 0.3)
    caps = caps_of(weights, 120)
    task = problem(matrix, signs, caps, K=12.5)
    sizes = []

    def watch(iterate):
        beta = iterate.x
        assert (signs * beta >= 0).all()
        assert (np.abs(beta) <= caps).all()
        sums = [abs(beta[part].sum()) for part in task.classes]
        assert sums[0] == pytest.approx(sums[1], rel=1e-12)
        sizes.append(sums[0])
        if "growth" in iterate.kind and sums[0] < 12.5 * (1 - 1e-9):
            assert np.isnan(iterate.gap)

    found = train(task, tol=1e-6, callback=watch, whole_columns=0)
    assert sizes[0] == 0
    assert (np.diff(sizes) >= -1e-12).all()
    assert sizes[-1] == pytest.approx(12.5, rel=1e-12)
    assert found.proof.status is Status.SOLVED
    best, _ = optimum(matrix, signs, caps, K=12.5)
    assert found.proof.objective == pytest.approx(best, rel=1e-5)


def test_growth_that_is_cut_short_is_filled_up_and_certified():
    _, signs, matrix = draw(120, 0.3)
    best, _ = optimum(matrix, signs, np.ones(120), K=20)
    for rounds in (0, 1, 5):
        task = problem(matrix, signs, K=20)
        found = train(task, tol=1e-6, max_iter=rounds, whole_columns=0)
        assert found.proof.status is Status.ITERATION_LIMIT
        feasible(task, found.beta)
        assert found.proof.bound <= best <= found.proof.objective * (1 + 1e-12)


def test_hulls_that_grow_may_need_everyone():
    _, signs, matrix = draw(60, 0.3)
    K = float((signs > 0).sum())
    found = train(problem(matrix, signs, K=K), tol=1e-8, whole_columns=0)
    assert found.proof.status is Status.SOLVED
    np.testing.assert_allclose(found.beta[signs > 0], 1.0)


def test_slim_hulls_touch_no_more_columns_than_smo():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.argsort(-y, kind="stable")
    kernel = InnerProductKernel(X[order], "rbf", 1 / 30)
    task = ReducedHullProblem(
        KernelColumns(kernel, 10**8), np.where(y[order] > 0, 1.0, -1.0), np.ones(y.size), K=20
    )
    found = train(task, tol=1e-3, whole_columns=0)
    assert found.proof.status is Status.SOLVED
    assert found.evaluations <= 108 * y.size  # SMO with second-order selection, from zero


@given(
    st.integers(0, 10**6), st.integers(2, 12), st.integers(0, 12), st.floats(0.01, 30.0),
    st.sampled_from([1e-9, 1e-3, 1.0]),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_newton_steps_keep_bounds_and_sums_and_never_go_up(seed, size, split, width, damping):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((size, 2))
    matrix = np.exp(-width * ((X[:, None] - X) ** 2).sum(axis=2))
    lower = -rng.uniform(0, 1, size) * rng.integers(0, 2, size)
    upper = rng.uniform(0, 1, size)
    beta = np.clip(rng.uniform(-1.5, 1.5, size), lower, upper)
    beta *= rng.choice([1.0, 1e-6])  # 1e-6: next to bounds of 0
    linear, split = rng.standard_normal(size), min(split, size)

    def value(b):
        return 0.5 * b @ matrix @ b + linear @ b

    before = beta.copy()
    small = face.SmallProblem(
        matrix, beta, matrix @ beta + linear, (lower, upper), split, WorkingSetSettings(), damping
    )  # fmt: skip
    for _ in range(3):
        last = value(small.beta)
        gain = small._newton()
        assert (small.beta >= lower).all()
        assert (small.beta <= upper).all()
        for part in (slice(0, split), slice(split, size)):
            assert abs((small.beta - before)[part].sum()) <= 1e-12
        np.testing.assert_allclose(small.gradient, matrix @ small.beta + linear, atol=1e-11)
        assert last - value(small.beta) == pytest.approx(gain, abs=1e-11)
        assert gain >= 0


def descend(task, tol, **changes):
    """A run from the start of the domain, with other settings."""
    solver = WorkingSetDescent(task, task.start(), WorkingSetSettings(**changes))
    return run(solver, Stopping(0.0, tol, 2000))


def test_newton_steps_help_where_two_coordinates_at_a_time_are_slow():
    X, signs, _ = draw(300, 0.5, gap=2.0, d=2)
    matrix = np.exp(-2.0 * ((X[:, None] - X) ** 2).sum(axis=2))
    with_newton = descend(problem(matrix, signs, K=1.5), 1e-6)
    without = descend(problem(matrix, signs, K=1.5), 1e-6, largest_face=0)
    assert "newton" in with_newton.trace["kind"]
    assert with_newton.status is Status.SOLVED
    assert with_newton.n_iter < without.n_iter
    assert with_newton.look.value <= without.look.value * (1 + 1e-5)


def test_more_free_coordinates_than_a_working_set_holds():
    _, signs, matrix = draw(200, 0.5)
    full = train(problem(matrix, signs, C=0.9), tol=1e-7)
    found = descend(problem(matrix, signs, C=0.9), 1e-7, largest=40, newcomers=20)
    assert found.status is Status.SOLVED
    assert found.look.value == pytest.approx(full.proof.objective, rel=1e-6)


@pytest.mark.parametrize("options", [{"K": 200.0}, {"K": 300.0}, {"C": 1.0}], ids=str)
def test_a_start_on_fewer_examples_is_feasible_and_changes_nothing_but_the_way(options):
    _, signs, matrix = draw(3000, 0.2, d=8)
    caps = caps_of("different", 3000)
    task = problem(matrix, signs, caps, **options)
    start, stopped = beginning.starting_point(task, np.random.default_rng(0), Stopping(0.0, 1e-3))
    assert not stopped
    feasible(task, start)
    found = train(task, tol=1e-5, seed=1)
    cold = train(problem(matrix, signs, caps, **options), tol=1e-5, start=task.start())
    assert found.proof.status is Status.SOLVED
    assert found.proof.objective == pytest.approx(cold.proof.objective, rel=1e-4)


@pytest.mark.parametrize("options", [{"K": 5.0}, {"K": 24.0}, {"C": 0.3}], ids=str)
def test_a_start_from_another_problem_is_made_feasible(options):
    _, signs, matrix = draw()
    first = train(problem(matrix, signs, K=9), tol=1e-8)
    task = problem(matrix, signs, **options)
    for method in ("auto", "di-pairwise"):
        found = train(task, method, tol=1e-6, start=first.beta)
        feasible(task, found.beta)
        best, _ = optimum(matrix, signs, np.ones(60), **options)
        assert found.proof.objective == pytest.approx(best, rel=1e-5)


def test_two_points_in_closed_form():
    for distance in (0.5, 4.0):
        X, signs = np.array([[0.0], [distance]]), np.array([1.0, -1.0])
        task = problem(X @ X.T + 1, signs, K=1)
        found = train(task, tol=1e-10)
        machine = task.machine(found.beta, found.gradient)
        assert found.proof.objective == pytest.approx(0.5 * distance**2)
        assert machine.margin == pytest.approx(distance)
        scores = (X @ X.T + 1) @ machine.coefficients + machine.intercept
        assert scores == pytest.approx([1, -1])


def test_thresholds_of_centroids_are_midway():
    """K is each class: the hulls are the centroids, every coordinate is at its cap."""
    X, signs, _ = draw(20, 0.5)
    task = problem(X @ X.T, signs, K=10)
    found = train(task, tol=1e-10)
    assert np.abs(found.beta) == pytest.approx(1)
    centroids = X[:10].sum(axis=0) - X[10:].sum(axis=0)
    assert found.proof.objective == pytest.approx(0.5 * centroids @ centroids)


@pytest.mark.parametrize("solver", ["auto", "di-away"])
def test_kernel_values_beyond_float64_are_refused_whatever_K_is(solver):
    """A tiny K makes the objective small, not the kernel values that it is made of."""
    X = 1e155 * np.array([[2.0, 0.0], [4.0, 1.0], [2.0, 0.0]])
    model = ReducedHullSVC(K=5e-13, kernel="linear", solver=solver)
    with pytest.raises(ValueError, match="too large: kernel values"):
        model.fit(X, [1, 0, 1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_thresholds_that_nearly_meet_leave_finite_coefficients():
    """Kernel values of rows far apart underflow: thresholds differ by denormal numbers, or not."""
    for gap in (25.0, 26.0, 27.0, 27.2, 27.25, 27.28, 27.29, 27.3, 28.0):
        X = np.array([[0.0], [gap], [2 * gap], [3 * gap]])
        model = ReducedHullSVC(0.5, gamma=1.0, max_iter=0, random_state=0).fit(X, [0, 1, 0, 1])
        assert np.isfinite(model.dual_coef_).all()
        assert np.isfinite(model.C_)
        assert np.isfinite(model.intercept_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", ["linear", "poly", "precomputed"])
@pytest.mark.parametrize("weight", [1e-10, 1.0, 1e12])
@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e50])
def test_hulls_that_meet_leave_finite_machines(kernel, weight, scale):
    """No threshold lies between the classes: whatever the weights, the machine has a length."""
    X = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [3.0, -1.0]])
    X = scale * (X @ X.T if kernel == "precomputed" else X[:, :2])
    y, weights = np.array([0, 1, 0, 1]), weight * np.array([2.0, 2.0, 3.0, 1.0])
    given = {"kernel": kernel, "gamma": scale**-1.5, "degree": 2, "coef0": 1.0}
    for K in (weights[1], 3 * weight, 1e-3 * weight):
        for max_iter in (0, 1, 5):
            model = ReducedHullSVC(K=K, max_iter=max_iter, random_state=0, **given)
            try:
                model.fit(X, y, weights)
            except ValueError as refusal:
                if "touch" not in str(refusal):
                    raise
                continue
            assert np.isfinite(model.dual_coef_).all()
            assert np.isfinite(model.intercept_).all()
            assert np.isfinite(model.decision_function(X)).all()
            assert certify(model, X, y, weights).holds


@pytest.mark.parametrize("over", [False, True])
def test_newton_steps_hear_that_the_time_is_up(over):
    X = np.random.default_rng(0).standard_normal((200, 4))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2)) + np.eye(200)
    beta = np.full(200, 0.5)
    gradient = K @ beta - 0.1 * X[:, 0]
    small = face.SmallProblem(
        K, beta.copy(), gradient.copy(), (np.zeros(200), np.ones(200)), 200,
        WorkingSetSettings(first_steps=0), 1e-3,
    )  # fmt: skip
    with asking(lambda: over, never):
        gained = small._newton()
    assert (gained == 0.0) == over
    assert np.array_equal(small.beta, beta) == over


def test_a_large_working_set_comes_back_before_its_newton_steps_and_goes_on_with_them():
    X = np.random.default_rng(0).standard_normal((300, 4))
    K = np.exp(-0.01 * ((X[:, None] - X) ** 2).sum(axis=2))
    beta = np.full(300, 0.5)
    gradient = K @ beta - X[:, 0]
    bounds = np.zeros(300), np.ones(300)
    few = WorkingSetSettings(face_work=3000.0)
    small = face.SmallProblem(K, beta, gradient, bounds, 300, few, 1e-3)
    assert small.solve(1e-9, newton=True) == "two-coordinate"
    assert small.is_hard
    value = 0.5 * beta @ (gradient - X[:, 0])
    again = face.SmallProblem(K, beta, gradient, bounds, 300, few, 1e-3)
    assert again.solve(1e-9, newton=True, hard=True) == "newton"
    assert 0.5 * beta @ (gradient - X[:, 0]) < value
    assert gradient == pytest.approx(K @ beta - X[:, 0], abs=1e-8)
    assert beta.sum() == pytest.approx(150.0, rel=1e-12)


@pytest.mark.parametrize("split", [0, 13, 40])
def test_two_coordinate_steps_keep_sums_bounds_and_the_gradient(split):
    rng = np.random.default_rng(split)
    factor = rng.standard_normal((40, 6))
    K, linear = factor @ factor.T + 0.1 * np.eye(40), rng.standard_normal(40)
    lower, upper = -rng.uniform(0.5, 1, 40), rng.uniform(0.5, 1, 40)
    beta = rng.uniform(lower, upper)
    beta[::5], beta[1::5] = lower[::5], upper[1::5]
    gradient, given = K @ beta + linear, beta.copy()
    scratch = np.empty((4, 40))
    steps, decrease = two_coordinate_descent(
        K, beta, gradient, lower, upper, split, 1e-8, 10_000, scratch
    )
    assert 0 < steps < 10_000
    assert (beta >= lower).all()
    assert (beta <= upper).all()
    assert gradient == pytest.approx(K @ beta + linear, abs=1e-10)

    def value(b):
        return 0.5 * b @ K @ b + linear @ b

    assert decrease == pytest.approx(value(given) - value(beta), rel=1e-9)
    for part in (slice(0, split), slice(split, 40)):
        assert beta[part].sum() == pytest.approx(given[part].sum(), abs=1e-12)
        most = gradient[part][beta[part] > lower[part]].max(initial=-np.inf)
        assert most - gradient[part][beta[part] < upper[part]].min(initial=np.inf) <= 1e-8
