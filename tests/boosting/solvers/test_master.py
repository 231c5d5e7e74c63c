"""The master: weights of largest soft margin, by the interior point method and by smoothing."""

import cvxpy as cp
import numpy as np
import pytest

from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.master import Master
from cornerstep.boosting.solvers.smoothed import NewtonAscent, SmoothedSettings, solve_smoothed
from cornerstep.boosting.solvers.solution import Start
from support.soft_margins import lp_optimum


def random_margins(rng, k=12, m=40, ties=False):
    margins = rng.uniform(-1, 1, (k, m)) + 0.1
    return np.clip(np.round(margins, 1) if ties else margins, -1, 1)


@pytest.mark.parametrize("nu", [1, 4, 12.5, 30, 40])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("target", [1e-2, 1e-6])
def test_master_finds_the_linear_programs_optimum(nu, ties, target):
    rng = np.random.default_rng(int(10 * nu) + ties)
    margins = random_margins(rng, ties=ties)
    problem = SoftMargin(np.ones(40), nu, 0.01)
    solution = Master(problem).solve(margins, target)
    optimum = lp_optimum(margins, problem.caps)
    assert solution.soft_margin <= optimum + 1e-9
    assert solution.edge >= optimum - 1e-9
    assert solution.edge - solution.soft_margin <= 1.2 * target  # pruning may cost a tenth
    np.testing.assert_allclose(solution.image, solution.weights @ margins)
    assert solution.weights.sum() == pytest.approx(1)
    assert solution.weights.min() >= 0
    assert solution.distribution.sum() == pytest.approx(1)
    assert (solution.distribution <= problem.caps * (1 + 1e-12)).all()


def test_master_with_weights_and_one_hypothesis():
    rng = np.random.default_rng(3)
    margins = random_margins(rng)
    problem = SoftMargin(rng.uniform(0.2, 3, 40), 7.0, 0.01)
    solution = Master(problem).solve(margins, 1e-7)
    assert solution.soft_margin == pytest.approx(lp_optimum(margins, problem.caps), abs=2e-7)
    single = Master(problem).solve(margins[:1], 1e-7)
    assert single.soft_margin == pytest.approx(problem.value(margins[0]))


def test_entropic_master_maximises_the_smoothed_margin():
    rng = np.random.default_rng(4)
    margins = random_margins(rng, 6, 25)
    problem = SoftMargin(np.ones(25), 6, 0.1)
    solution = Master(problem, entropic=True).solve(margins, 1e-7)
    d = cp.Variable(25)
    gamma = cp.Variable()
    kl = cp.sum(cp.kl_div(d, problem.prior)) / problem.eta
    dual = cp.Problem(
        cp.Minimize(gamma + kl),
        [margins @ d <= gamma, cp.sum(d) == 1, d <= problem.caps],
    )
    dual.solve(solver=cp.CLARABEL)
    assert problem.smoothed(solution.image)[0] == pytest.approx(dual.value, abs=1e-6)


def test_examples_left_out_of_the_master_change_nothing():
    """Once most examples are decided the master works on the others; the answer is as good."""
    rng = np.random.default_rng(5)
    m = 2000
    quality = rng.normal(size=m)
    margins = np.sign(quality + rng.normal(size=(40, m)))
    problem = SoftMargin(np.ones(m), 200, 0.01)
    master = Master(problem)
    for k in range(10, 41, 5):
        solution = master.solve(margins[:k], 1e-3)
        assert solution.edge - solution.soft_margin <= 1.2e-3
    assert solution.soft_margin == pytest.approx(lp_optimum(margins, problem.caps), abs=1.2e-3)


@pytest.mark.parametrize("target", [0.02, 0.01])
@pytest.mark.parametrize("weighted", [False, True])
def test_smoothed_master_comes_as_near_as_its_smoothing(target, weighted):
    """Hypotheses come in parts; each solution starts from the last one."""
    rng = np.random.default_rng(6)
    m = 3000
    margins = np.sign(rng.normal(size=m) + 0.4 + rng.normal(size=(60, m)))
    weights = rng.uniform(0.5, 2.0, m) if weighted else np.ones(m)
    problem = SoftMargin(weights, 0.15 * weights.sum(), 0.01)
    solution = None
    for k in (20, 40, 60):
        start = np.ones(k)
        if solution is not None:
            start = np.append(solution.weights, np.zeros(20))
        solution = solve_smoothed(problem, margins[:k], start, target)
        assert solution is not None
        d = solution.distribution
        np.testing.assert_allclose(solution.image, solution.weights @ margins[:k], atol=1e-12)
        np.testing.assert_allclose(solution.edges, margins[:k] @ d, atol=1e-12)
        assert solution.weights.min() >= 0
        assert solution.weights.sum() == pytest.approx(1)
        assert d.sum() == pytest.approx(1)
        assert (d <= problem.caps * (1 + 1e-12)).all()
        assert solution.edges.max() - solution.edge <= 2.0 * target
        assert solution.soft_margin == pytest.approx(problem.value(solution.image))
    assert solution is not None
    optimum = lp_optimum(margins, problem.caps)
    assert optimum - 5.0 * target <= solution.soft_margin <= optimum + 1e-9
    assert solution.edges.max() >= optimum - 1e-9


def test_smoothed_master_may_converge_at_its_last_step():
    rng = np.random.default_rng(3)
    margins = np.sign(rng.normal(size=(30, 400)) + 0.2)
    problem = SoftMargin(np.ones(400), 40.0, 0.01)

    def converges(max_steps):
        settings = SmoothedSettings(max_steps=max_steps)
        ascent = NewtonAscent(problem, margins, 0.02, 0.05, np.full(30, 1 / 30), settings)
        converged = ascent.run(0.01)
        assert converged == (ascent.edges.max() - ascent.w @ ascent.edges <= 0.01)
        return converged

    found = [converges(k) for k in range(1, 11)]
    assert found[-1]
    assert not found[0]


def test_curvature_of_the_smoothed_master():
    """``-A'' dw`` is how the edges change, by finite differences; no cap binds here."""
    settings = SmoothedSettings(least_curvature=0.0, examples_per_hypothesis=1000)
    rng = np.random.default_rng(7)
    margins = np.sign(rng.normal(size=(5, 200)) + 0.2)
    problem = SoftMargin(rng.uniform(0.5, 2.0, 200), 20.0, 0.1)
    w = rng.dirichlet(np.ones(5))
    hessian = NewtonAscent(problem, margins, 3.0, 0.1, w, settings).hessian()
    for j in range(5):
        up, down = w + 1e-6 * np.eye(5)[j], w - 1e-6 * np.eye(5)[j]
        edges = [margins @ problem.smoothed(v @ margins, 1 / 3.0)[1] for v in (up, down)]
        np.testing.assert_allclose(-hessian[:, j], (edges[0] - edges[1]) / 2e-6, atol=1e-6)


def test_master_goes_on_by_the_interior_point_method_where_smoothing_fails():
    """Few examples and a small target: corners everywhere."""
    rng = np.random.default_rng(8)
    margins = np.sign(rng.normal(size=(60, 40)) + 0.2)
    problem = SoftMargin(np.ones(40), 6.0, 1e-4)
    master = Master(problem, smooth=True)
    start = Start(rng.dirichlet(np.ones(60)), 1e-3)
    solution = master.solve(margins, 1e-6, start)
    assert not master.smooth
    assert solution.soft_margin == pytest.approx(lp_optimum(margins, problem.caps), abs=2e-6)
