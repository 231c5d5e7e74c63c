"""The solvers of the multi-class SVM: the optimum of cvxpy, certificates, traces, memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import MulticlassSVC
from cornerstep.losses import Loss, MaxHinge
from cornerstep.multiclass.examples import Examples, KernelExamples
from cornerstep.multiclass.parameters import PLAIN
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.batch import BatchDescent
from cornerstep.multiclass.solvers.block import BlockAscent
from cornerstep.optimiser.loop import Stopping, run
from support.multiclass_problems import (
    LOSS_KINDS,
    SOLVERS,
    D,
    N,
    draw,
    dual,
    optimum,
    primal,
    solve,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

every_loss = pytest.mark.parametrize("kind", LOSS_KINDS)
every_smoothing = pytest.mark.parametrize("smoothing", [0.0, 0.5])
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def assert_brackets(model, least, slack=1e-8):
    """The certificate is true: the optimum lies between the two objectives, the gap is theirs."""
    assert model.bound_ - slack <= least <= model.objective_ + slack
    assert model.objective_ - least <= model.gap_ + slack
    assert model.gap_ == pytest.approx(model.objective_ - model.bound_, abs=1e-12)


@every_loss
@every_smoothing
@every_solver
@pytest.mark.parametrize("data", ["dense", "csr", "gram"])
def test_optimum_of_cvxpy(kind, smoothing, solver, data):
    tol, max_iter = (1e-9, 1000) if solver == "block" else (1e-5, 200)
    model = draw(kind, smoothing).fit(data, solver=solver, tol=tol, max_iter=max_iter)
    least = optimum(kind, smoothing)
    assert_brackets(model, least)
    if solver == "block":
        assert model.status_.value == "solved"
        assert model.objective_ == pytest.approx(least, rel=1e-8)
    else:
        assert model.objective_ == pytest.approx(least, rel=0.2)


@every_loss
@every_smoothing
@pytest.mark.parametrize("data", ["dense-32", "csr-32"])
def test_optimum_in_single_precision(kind, smoothing, data):
    least = optimum(kind, smoothing)  # of the same numbers: X fits in float32
    model = draw(kind, smoothing).fit(data, solver="block", tol=1e-8)
    assert_brackets(model, least)
    assert model.objective_ == pytest.approx(least, rel=1e-7)
    for solver in PLAIN:
        model = draw(kind, smoothing).fit(data, solver=solver, tol=1e-3, max_iter=50)
        assert_brackets(model, least, slack=1e-6 * least)


@every_smoothing
@pytest.mark.parametrize("seed", range(1, 8))
def test_block_on_more_problems(seed, smoothing):
    for kind in ("usunier", "weighted-top-k", "weighted-usunier"):
        model = draw(kind, smoothing, seed).fit(solver="block", tol=1e-9)
        assert_brackets(model, optimum(kind, smoothing, seed))
        assert model.objective_ == pytest.approx(optimum(kind, smoothing, seed), rel=1e-8)


@pytest.mark.parametrize("whole", [False, True])
@every_solver
def test_costs_with_any_rho(whole, solver):
    class Any(Loss):
        pass

    Any.whole = whole
    problem = draw("cost-sensitive, per example")
    rho = np.array([0.7, 0.4, 0.4])
    problem = replace(problem, rho=np.append(rho, [0, 0]), whole=whole)
    loss = Any(rho, problem.parameters["costs"], per_example=True)
    model = problem.estimator(loss=loss, costs=None, solver=solver, tol=1e-9, max_iter=400)
    model.fit(problem.X, problem.y, sample_weight=problem.weight)
    least, W = solve(problem)
    assert_brackets(model, least)
    if solver == "block":
        assert model.objective_ == pytest.approx(least, rel=1e-8)
        assert np.allclose(model.coef_, W, atol=1e-3)


# -- certificates ----------------------------------------------------------------------------------


@every_loss
@every_smoothing
@every_solver
@pytest.mark.parametrize("max_iter", [0, 1, 4, 30])
def test_certificate_from_attributes(kind, smoothing, solver, max_iter):
    problem = draw(kind, smoothing)
    model = problem.fit(solver=solver, tol=1e-9, max_iter=max_iter)
    value = problem.primal(model.coef_)
    assert value == pytest.approx(model.objective_, rel=1e-9)
    if solver in ("block", "fw-corrective") or smoothing:
        dual_value = problem.dual(model.dual_coef_)
        # what they differ by is the rounding that the bound allows for
        assert -1e-15 * value <= dual_value - model.bound_ <= 1e-11 * value
        assert model.gap_ == pytest.approx(value - dual_value, abs=1e-9 * value)
    else:
        assert model.dual_coef_ is None


@every_smoothing
@every_solver
@pytest.mark.parametrize("max_iter", [0, 1, 2, 5, 30])
@pytest.mark.parametrize("size", [0.03, 0.3, 1.0])
def test_certificate_with_a_kernel(smoothing, solver, max_iter, size):
    # eigenvalues far below and above 1: |W|² is neither |K A|² nor |A|²
    problem = draw("max-hinge", smoothing)
    problem = replace(problem, X=size * problem.X, C=20.0)
    K = problem.X @ problem.X.T
    model = problem.fit("gram", solver=solver, tol=1e-9, max_iter=max_iter)
    machine = model.decision_function(np.eye(N))
    scores = model.decision_function(K)
    assert np.allclose(scores, K @ machine)
    value = primal(problem, scores, float((machine * scores).sum()))
    assert value == pytest.approx(model.objective_, rel=1e-9)
    A = np.asarray(model.dual_coef_.todense())
    assert dual(problem, A, float((A * (K @ A)).sum())) == pytest.approx(
        model.bound_, rel=1e-9, abs=1e-9
    )


def problem_of(kind="usunier", smoothing=0.0, data="dense"):
    given = draw(kind, smoothing)
    makes: dict[str, Callable[[], Examples | KernelExamples]] = {
        "dense": lambda: Examples(given.X),
        "csr": lambda: Examples(sp.csr_array(given.X)),
        "gram": lambda: KernelExamples.of_matrix(given.X @ given.X.T),
    }
    examples = makes[data]()
    return MulticlassProblem(
        examples, given.y, given.rho.size, given.loss, given.scales, given.smoothing
    )


@every_loss
@pytest.mark.parametrize("data", ["dense", "csr", "gram"])
def test_frank_wolfe_gap_is_the_duality_gap(kind, data):
    problem = problem_of(kind, data=data)
    solver = BatchDescent(problem, "fw")
    for _ in range(30):
        look = solver.look()
        square = solver.rows.square(solver.state)
        P = problem.losses(solver.state.image) + 0.5 * square
        gap = P - solver.dual_value(solver.state)
        assert look.extra[1] == pytest.approx(gap, rel=1e-10, abs=1e-10 * P)
        assert look.value == pytest.approx(P, rel=1e-10)
        solver.move()


@every_loss
@every_smoothing
@pytest.mark.parametrize("data", ["dense", "gram"])
def test_line_search_never_lowers_the_dual_and_is_exact(kind, smoothing, data):
    solver = BatchDescent(problem_of(kind, smoothing, data), "fw")
    for _ in range(30):
        solver.look()
        here = solver.state
        move = solver.move()
        value = solver.dual_value(solver.state)
        assert value >= solver.dual_value(here) - 1e-12 * abs(value)
        for share in (0.99, min(1.01, 1.0 / move.step)):
            other = here.towards(solver.state, share)
            assert solver.dual_value(other) <= value + 1e-12 * abs(value)


@every_loss
@pytest.mark.parametrize("rule", ["fw", "fw-open-loop"])
def test_the_gap_is_the_tighter_one(kind, rule):
    problem = problem_of(kind, 0.5)
    solver = BatchDescent(problem, rule)
    tighter = 0
    for _ in range(15):
        look = solver.look()
        P = problem.losses(solver.state.image) + 0.5 * solver.rows.square(solver.state)
        assert look.value == pytest.approx(P, rel=1e-10)
        assert look.gap == pytest.approx(P - solver.best_dual, abs=1e-10 * P)
        frank_wolfe = look.extra[1]
        assert frank_wolfe >= P - solver.dual_value(solver.state) - 1e-10 * P
        tighter += frank_wolfe > 1.01 * look.gap
        solver.move()
    assert tighter >= 3


def test_a_smoothed_run_stops_on_the_tighter_gap():
    model = draw("max-hinge", 0.5).fit(solver="fw", tol=0.1, max_iter=1000)
    assert model.status_.value == "solved"
    gaps, values = model.trace_["gap"], model.trace_["value"]
    assert (gaps[:-1] > 0.1 * values[:-1]).all()
    assert model.trace_["frank_wolfe_gap"][-1] > 0.15 * values[-1]  # would have gone on


@every_loss
@every_smoothing
@pytest.mark.parametrize("data", ["dense", "csr", "gram"])
def test_block_trace_is_monotone(kind, smoothing, data):
    solver = BlockAscent(problem_of(kind, smoothing, data), np.random.default_rng(0), 1e-9)
    trace = run(solver, Stopping(0.0, 1e-9)).trace
    slack = 1e-12 * np.abs(trace["dual"]).max()
    assert (np.diff(trace["dual"]) >= -slack).all()
    assert (np.diff(trace["value"]) <= slack).all()
    assert (trace["gap"] >= 0).all()
    assert (np.diff(trace["sweeps"]) >= 1).all()


@every_loss
@every_smoothing
def test_rounded_sweeps_leave_trace_and_certificate_sound(kind, smoothing, monkeypatch):
    """The estimator reads float32 until the gap is small: a trace that exact, a certificate not."""
    monkeypatch.setattr("cornerstep.multiclass.examples._LARGE", 0)
    problem = draw(kind, smoothing)
    model = problem.fit("dense", solver="block", tol=1e-9)
    dual = model.trace_["dual"]
    assert (np.diff(dual) >= -1e-6 * np.abs(dual).max()).all()
    exact = BlockAscent(problem_of(kind, smoothing, "dense"), np.random.default_rng(0), 1e-11)
    optimum = run(exact, Stopping(0.0, 1e-11)).look.value
    assert model.bound_ <= optimum * (1 + 1e-11)
    assert model.objective_ >= optimum * (1 - 2e-11)


@every_solver
@every_smoothing
def test_every_row_of_the_trace_brackets_the_optimum(solver, smoothing):
    least = optimum("weighted-usunier", smoothing)
    trace = draw("weighted-usunier", smoothing).fit(solver=solver, tol=1e-6, max_iter=60).trace_
    assert (trace["dual"] <= least + 1e-8).all()
    assert (trace["value"] >= least - 1e-8).all()
    assert (trace["value"] - least <= trace["gap"] + 1e-8).all()


@pytest.mark.parametrize("rule", PLAIN)
@every_smoothing
def test_dual_points_and_image_stay_together(rule, smoothing):
    problem = problem_of("weighted-top-k", smoothing, "gram")
    solver = BatchDescent(problem, rule)
    run(solver, Stopping(0.0, 1e-9, 25))
    for state in (solver.state, solver.primal, solver.best):
        image = problem.examples.image(problem.scales[:, None] * state.alpha)
        assert np.allclose(state.image, image)
        assert np.isfinite(problem.loss.conjugate(-state.alpha, problem.labels)).all()
    alpha = solver.best.alpha
    deltas = problem.loss.deltas(problem.labels, problem.n_classes)
    assert solver.best.linear == pytest.approx(-(problem.scales[:, None] * alpha * deltas).sum())


def test_open_loop_steps():
    trace = draw("max-hinge").fit(solver="fw-open-loop", tol=0, max_iter=5).trace_
    assert np.allclose(trace["step"][1:], [2 / 2, 2 / 3, 2 / 4, 2 / 5, 2 / 6])


@every_smoothing
@pytest.mark.parametrize(("solver", "lead"), [("fw-open-loop", 2), ("projected-gradient", 1)])
def test_a_warm_start_goes_on_with_the_schedule(solver, lead, smoothing):
    problem = draw("max-hinge", smoothing)
    model = problem.estimator(solver=solver, tol=0, max_iter=20, warm_start=True)
    data = problem.X, problem.y, problem.weight
    model.fit(*data)
    dual = model.trace_["dual"][-1]
    model.set_params(max_iter=3).fit(*data)
    assert np.allclose(model.trace_["step"][1:], lead / (lead + np.arange(20, 23)))
    if solver == "fw-open-loop":  # the same iterates as in one run
        cold = problem.estimator(solver=solver, tol=0, max_iter=23).fit(*data)
        assert np.allclose(model.trace_["value"], cold.trace_["value"][20:], rtol=1e-10)
    assert model.bound_ >= 0.8 * dual
    model.set_params(C=1.1 * problem.C, max_iter=1).fit(*data)
    assert np.allclose(model.trace_["step"][1:], [lead / (lead + 23)])


@every_smoothing
def test_projected_gradient_stays_in_the_ball_and_converges(smoothing):
    problem = problem_of("max-hinge", smoothing)
    solver = BatchDescent(problem, "projected-gradient")
    radius = np.sqrt(problem.losses(np.zeros_like(solver.state.image)))
    best = np.inf
    for _ in range(2000):
        best = min(best, solver.look().value)
        solver.move()
        assert solver.rows.square(solver.primal) <= radius**2 * (1 + 1e-12)
    assert best == pytest.approx(optimum("max-hinge", smoothing), rel=1e-3)
    again = BatchDescent(problem, "projected-gradient", solver.state)
    again.look()
    assert again.radius == pytest.approx(radius)  # sqrt(P(W)) would leave the optimum outside


def test_block_from_any_feasible_pool():
    problem = problem_of("usunier")
    rng = np.random.default_rng(3)
    m, K = problem.n_classes, problem.loss.rho.size
    classes = np.concatenate(
        [rng.choice(np.delete(np.arange(m), y), K, replace=False) for y in problem.labels]
    ).astype(np.int32)
    pool = np.arange(N + 1) * K, classes, np.repeat(problem.loss.rho.min(), N * K)
    solver = BlockAscent(problem, rng, 1e-9, (*pool, None))
    outcome = run(solver, Stopping(0.0, 1e-9, 200))
    assert outcome.look.value == pytest.approx(optimum("usunier"), rel=1e-8)


# -- rounded products ------------------------------------------------------------------------------


def rounded(seed, shift, data):
    """Float32 data, with a shift far from 0 so that sums cancel."""
    rng = np.random.default_rng(seed)
    n, d, m = 300, 40, 2 + seed % 3
    y = np.append(np.arange(m), rng.integers(0, m, n - m))
    X = rng.standard_normal((m, d))[y] + rng.standard_normal((n, d)) + shift
    return data(X.astype(np.float32)), y


@pytest.mark.parametrize("rule", PLAIN)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("data", [np.asarray, sp.csr_array])
def test_dual_value_is_below_the_exact_one(rule, smoothing, data):
    X, y = rounded(1, 10.0, data)
    examples = Examples(X)
    scales = np.random.default_rng(0).random(y.size)
    problem = MulticlassProblem(examples, y, 3, MaxHinge(), scales, smoothing)
    corner, add_image = np.zeros((y.size, 3)), examples.add_image

    def recorded(image, block, coefficients):
        corner[block] = coefficients
        add_image(image, block, coefficients)

    examples.add_image = recorded  # type: ignore[method-assign]
    solver = BatchDescent(problem, rule)
    A = np.zeros_like(corner)
    dense = examples.data.astype(float)
    above = 0
    for _ in range(25):
        solver.look()
        W = A.T @ dense
        ridge = smoothing * (A**2 / scales[:, None]).sum()
        D = -(A * (np.arange(3) != y[:, None])).sum() - 0.5 * ((W**2).sum() + ridge)
        value = solver.dual_value(solver.state)
        assert value <= D + 1e-13 * (W**2).sum()
        square = solver.rows.square(solver.state)
        assert D - value <= 2e-5 * (square + abs(D))
        naive = solver.state.linear - 0.5 * square - 0.5 * solver.rows.ridge(solver.state.alpha)
        above += naive > D  # what it would be without the margin
        move = solver.move()
        A += move.step * (corner - A)
    assert above > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("data", [np.asarray, sp.csr_array])
def test_rounding_never_makes_a_gap_too_small(seed, data):
    X, y = rounded(seed, 3.0, data)
    C = [1e-7, 1e-5, 1e-3][seed % 3]  # for the smallest the first vertex is the optimum
    exact = MulticlassSVC(C=C, tol=1e-11, fit_intercept=False, random_state=0)
    best = exact.fit(X.astype(np.float64), y)
    assert best.relative_gap_ <= 1e-11
    for solver in PLAIN:
        model = MulticlassSVC(solver=solver, C=C, tol=1e-5, max_iter=40, fit_intercept=False)
        model.fit(X, y)
        assert model.bound_ <= best.objective_
        assert model.gap_ >= model.objective_ - best.objective_
        assert (model.trace_["dual"] <= best.objective_).all()


# -- sizes and shapes ------------------------------------------------------------------------------


def many_classes(n=4800, m=1200, d=6):
    rng = np.random.default_rng(0)
    y = np.arange(n) % m
    return rng.standard_normal((m, d))[y] + 0.1 * rng.standard_normal((n, d)), y


@pytest.mark.parametrize(
    ("solver", "max_iter", "smoothing"), [("fw", 3, 0), ("block", 4, 0), ("block", 4, "auto")]
)
@pytest.mark.parametrize("loss", ["max-hinge", "top-k"])
def test_many_classes_without_a_matrix_of_examples_by_classes(solver, max_iter, smoothing, loss):
    X, y = many_classes()
    model = MulticlassSVC(
        loss=loss, smoothing=smoothing, solver=solver, max_iter=max_iter, random_state=0
    )
    model.fit(X[:8], y[:8])  # compiles
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.75 * 8 * X.shape[0] * 1200
    W = np.hstack([model.coef_, model.intercept_[:, None]])
    scores = X @ model.coef_.T + model.intercept_
    z = scores - scores[np.arange(y.size), y][:, None] + (np.arange(1200) != y[:, None])
    largest = -np.sort(-z, axis=1)
    value = largest[:, 0] if loss == "max-hinge" else np.maximum(largest[:, :5].mean(axis=1), 0)
    if model.smoothing_:
        value = MaxHinge().envelope(scores, y, 0.5)
    P = 0.5 * (W**2).sum() + value.sum()
    assert model.objective_ == pytest.approx(P, rel=1e-9)
    assert 0 <= model.bound_ <= model.objective_


@every_loss
@every_smoothing
@every_solver
def test_zero_rows(kind, smoothing, solver):
    problem = draw(kind, smoothing)
    X = problem.X.copy()
    X[::3] = 0
    problem = replace(problem, X=X)
    max_iter = 1000 if solver == "block" else 100
    model = problem.fit(solver=solver, tol=1e-9, max_iter=max_iter)
    least = solve(problem)[0]
    assert_brackets(model, least)
    if solver == "block":
        assert model.objective_ == pytest.approx(least, rel=1e-8)


@every_solver
@every_smoothing
@pytest.mark.parametrize("kind", ["max-hinge", "top-k", "weighted-usunier"])
@pytest.mark.parametrize("data", ["dense", "csr", "gram"])
def test_nothing_but_zero_rows(solver, smoothing, kind, data):
    problem = draw(kind, smoothing)
    problem = replace(problem, X=np.zeros((N, D)))
    model = problem.fit(data, solver=solver, tol=1e-9, max_iter=3000)
    zero = np.zeros((N, problem.rho.size))
    assert model.objective_ == pytest.approx(primal(problem, zero, 0.0))
    assert model.relative_gap_ <= (1e-9 if solver == "block" or not smoothing else 1e-2)


@every_solver
@pytest.mark.parametrize("shape", ["fewer examples than classes", "constant", "large", "small"])
def test_odd_data(solver, shape):
    rng = np.random.default_rng(5)
    problem = draw("max-hinge")
    X = problem.X
    if shape == "fewer examples than classes":
        X, y = X[:3], np.array([0, 3, 4])
        examples = Examples(X)
        problem = replace(problem, X=X, y=y, weight=problem.weight[:3], delta=1.0 - np.eye(5)[y])
        given = MulticlassProblem(examples, y, 5, MaxHinge(), problem.scales)
        ascent = BlockAscent(given, rng, 1e-9) if solver == "block" else BatchDescent(given, solver)
        outcome = run(ascent, Stopping(0.0, 1e-9, 100))
        least = solve(problem)[0]
        assert outcome.look.value - outcome.look.gap <= least + 1e-8
        assert least <= outcome.look.value + 1e-8
        return
    X = {
        "constant": lambda: np.hstack([X, np.ones((N, 2)), np.zeros((N, 1))]),
        "large": lambda: 100 * X,
        "small": lambda: 1e-3 * X,
    }[shape]()
    problem = replace(problem, X=X)
    max_iter = 1000 if solver == "block" else 100
    model = problem.fit(solver=solver, tol=1e-9, max_iter=max_iter)
    least = solve(problem)[0]
    assert_brackets(model, least, slack=1e-7)
    if solver == "block":
        assert model.objective_ == pytest.approx(least, rel=1e-7, abs=1e-7)


def test_tolerance_zero_ends():
    model = draw("weighted-top-k").fit(solver="block", tol=0.0, max_iter=1000)
    assert model.status_.value in ("precision limit", "no progress")
    assert model.relative_gap_ < 1e-11
