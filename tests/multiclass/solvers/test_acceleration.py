"""Accelerated proximal steps of the block solver: their problem, their pull, what they certify."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.acceleration import Acceleration, AccelerationSettings
from cornerstep.multiclass.solvers.block import BlockAscent
from cornerstep.multiclass.solvers.pace import ACCELERATED, SECOND_ORDER, SWEEPS
from cornerstep.multiclass.solvers.pool import active_examples, coefficients_of, empty_pool
from support.multiclass_problems import LOSS_KINDS, draw, optimum

every_loss = pytest.mark.parametrize("kind", LOSS_KINDS)


def started(kind, smoothing=0.0, seed=0):
    """A solver that accelerates from its first round on, and the problem it was given."""
    given = draw(kind, smoothing, seed)
    problem = MulticlassProblem(
        Examples(given.X), given.y, given.rho.size, given.loss, given.scales, smoothing
    )
    solver = BlockAscent(problem, np.random.default_rng(seed), 1e-9)
    solver.pace.stage = ACCELERATED
    return solver, given


def recomputed(solver):
    """``W(A)`` of the dual points that the sweeps are at, from the data."""
    problem = solver.problem
    pool = solver.iterate.pool
    coefficients = coefficients_of(pool, problem.labels, problem.scales, problem.n_classes)
    return problem.examples.image(coefficients)


def pulled_dual(solver):
    """``l(A) - |W(A) + pull V|²/(2 (1 + pull)) + pull/2 |V|²``, from the coefficients."""
    problem, iterate = solver.problem, solver.iterate
    steps, own = iterate.acceleration, recomputed(solver)
    pull, centre = steps.pull, steps.centre
    square = ((own + pull * centre) ** 2).sum() / (1 + pull) - pull * (centre**2).sum()
    return float(kernels.dual_terms(iterate.pool, problem.record)) - 0.5 * square


def pulled_primal(solver):
    """``P(W) + pull/2 |W - V|²``."""
    steps, W = solver.iterate.acceleration, solver.iterate.image
    apart = ((W - steps.centre) ** 2).sum()
    return 0.5 * (W**2).sum() + solver.problem.losses(W) + 0.5 * steps.pull * apart


# -- the problem of a step -------------------------------------------------------------------------


def test_weights_and_own_weights():
    rng = np.random.default_rng(0)
    W, V, own = rng.standard_normal((3, 4, 5))
    steps = Acceleration(V)
    assert np.allclose(steps.own(steps.weights(own)), own)
    assert np.allclose(steps.weights(steps.own(W)), W)
    assert np.array_equal(steps.weights(V), V)


@every_loss
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_sweeps_gain_in_the_dual_of_the_pulled_problem(kind, smoothing):
    solver, _ = started(kind, smoothing)
    for _ in range(3):
        solver.look()
        solver.move()
    active = active_examples(solver.iterate.pool)
    solver.iterate.advance(solver.settings.acceleration)
    for _ in range(3):
        before = pulled_dual(solver)
        gained = solver.iterate.sweep(active.copy(), solver.order.seed()).sum()
        assert gained >= 0
        assert pulled_dual(solver) - before == pytest.approx(gained, rel=1e-6, abs=1e-10)
        assert pulled_dual(solver) <= pulled_primal(solver) + 1e-9


@every_loss
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_sweeps_solve_the_pulled_problem(kind, smoothing):
    solver, _ = started(kind, smoothing)
    solver.look()
    solver.move()
    for _ in range(200):
        solver.look()
        active = solver.iterate.admit(solver.entering)
        for _ in range(20):
            solver.iterate.sweep(active.copy(), solver.order.seed())
    value = pulled_primal(solver)
    assert value - pulled_dual(solver) <= 1e-6 * value


# -- what is certified -----------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_at_every_look(kind, smoothing, seed):
    solver, given = started(kind, smoothing, seed)
    best = optimum(kind, smoothing, seed)
    slack = 1e-7 * (1 + abs(best))
    duals = []
    for _ in range(60):
        look = solver.look()
        dual, _ = look.extra
        assert dual <= best + slack
        assert look.value >= best - slack
        assert look.gap == pytest.approx(look.value - dual, abs=slack)
        assert given.primal(solver.weights_image()) == pytest.approx(look.value, rel=1e-8)
        assert given.dual(solver.coefficients()) == pytest.approx(dual, rel=1e-8, abs=1e-9)
        duals.append(dual)
        if look.gap <= 1e-7 * look.value:
            break
        assert solver.move().kind == ACCELERATED
    assert np.all(np.diff(duals) >= 0)
    assert look.gap <= 1e-4 * look.value


@every_loss
def test_weights_without_dual_points(kind):
    """A warm start may bring good weights and no dual points at all."""
    solver, given = started(kind)
    for _ in range(20):
        solver.look()
        solver.move()
    n, weights = given.y.size, solver.weights_image()
    state = (*empty_pool(n), weights)
    again = BlockAscent(solver.problem, np.random.default_rng(0), 1e-9, state)
    for look in (again.look(), again.certify(again.point)):
        assert np.array_equal(again.weights_image(), weights)
        assert look.value == pytest.approx(given.primal(weights), rel=1e-9)
        assert look.extra[0] == 0


@every_loss
def test_second_order_steps_go_on_from_there(kind):
    """The stages may change at any time, and a certificate may come before the dual is back."""
    solver, given = started(kind)
    for _ in range(3):
        solver.look()
        solver.move()
    solver.pace.stage = SECOND_ORDER
    for _ in range(3):
        solver.move()
        assert np.allclose(solver.iterate.image, recomputed(solver), rtol=1e-9, atol=1e-9)
        look = solver.certify(solver.point)
        dual, _ = look.extra
        assert given.dual(solver.coefficients()) == pytest.approx(dual, rel=1e-9)
        assert np.allclose(solver.iterate.image, recomputed(solver), rtol=1e-9, atol=1e-9)
        solver.look()


def heavy_tailed(n=1500, d=60, m=6, seed=0):
    """Standardised features, many alike and some nearly always 0: hard for sweeps."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 12)) @ rng.standard_normal((12, d))
    X += 0.1 * rng.standard_normal((n, d))
    X[:, ::4] *= rng.random((n, d))[:, ::4] < 0.02
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (X @ rng.standard_normal((d, m)) + 8 * rng.standard_normal((n, m))).argmax(axis=1)
    return X, y


def rounds_to(tol, most, *, accelerated):
    X, y = heavy_tailed()
    loss = draw("max-hinge", 0.0, 0).loss
    problem = MulticlassProblem(Examples(X), y, 6, loss, np.full(len(y), 10.0))
    solver = BlockAscent(problem, np.random.default_rng(0), tol)
    for count in range(most):
        look = solver.look()
        if look.gap <= tol * look.value:
            return count
        solver.pace.stage = solver.pace.stage if accelerated else SWEEPS
        solver.move()
    return most


def test_hard_problems_take_far_fewer_rounds():
    with_steps = rounds_to(1e-3, 1200, accelerated=True)
    assert rounds_to(1e-3, 5 * with_steps, accelerated=False) == 5 * with_steps


# -- how hard to pull ------------------------------------------------------------------------------


def test_the_pull_follows_the_dual():
    rng = np.random.default_rng(0)
    settings = AccelerationSettings(raise_pull=1.2, lower_pull=0.4)
    steps = Acceleration(np.zeros((2, 3)), settings)
    first = steps.pull
    for dual in range(10):
        steps.advance(rng.standard_normal((2, 3)), float(dual))
    assert steps.pull == pytest.approx(first * settings.raise_pull**10)
    before = steps.pull
    weights = rng.standard_normal((2, 3))
    steps.advance(weights, 3.5)  # less than the 9 it had
    assert steps.pull == pytest.approx(max(settings.lower_pull * before, first))
    assert np.array_equal(steps.centre, weights)  # without momentum
    for _ in range(200):
        steps.advance(weights, 3.5)
    assert steps.pull == first


def test_momentum_grows_on_the_way_and_ends_where_it_turns_back():
    steps = Acceleration(np.zeros(1))
    beyond = []
    for k in range(1, 12):
        steps.advance(np.array([float(k)]), float(k))
        beyond.append(steps.centre[0] - k)
    assert beyond[0] == 0
    assert np.all(np.diff(beyond) >= 0)
    assert 0.3 < beyond[-1] < 1
    steps.advance(np.array([11.1]), 12.0)  # back from the centre, which was too far ahead
    assert steps.centre[0] == 11.1


def test_the_mean_is_over_the_last_steps():
    steps = Acceleration(np.zeros(1))
    for k in range(1, 400):
        steps.advance(np.array([1.0 if k > 200 else 100.0]), float(k))
    assert steps.mean[0] == pytest.approx(1.0, abs=1.0)
