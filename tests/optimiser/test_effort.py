"""The pace of steps tells whether another way arrives first; runs that have arrived know it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import Status, minimize, minimize_many
from cornerstep.domains import BalancedBox, Birkhoff, Box, CappedSimplex, Product, Simplex
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.optimiser.effort import Pace, path_work
from support.optimiser_problems import ill_conditioned


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_steps_go_on_while_they_promise_less_work_than_the_other_way(share: float) -> None:
    """Of gaps that fall by a factor, the first two steps tell; a third of their pace has to do."""
    needed = np.log(1e-6) / np.log(share)
    for other, goes_on in ((3.3 * needed, True), (needed, False)):
        pace, gap, answers = Pace(other), 1.0, []
        for _ in range(30):
            answers.append(pace.pays(gap, 1e-6))
            pace.spent += 1.0
            gap *= share
        assert all(answers) == goes_on


def test_steps_that_bring_nothing_are_given_up() -> None:
    pace, answers = Pace(10.0), []
    for gap in (1.0, 2.0, 1.0, 3.0):
        answers.append(pace.pays(gap, 0.0))
        pace.spent += 1.0
    assert answers == [True, True, False, False]


def test_a_gap_within_reach_of_one_more_step_is_not_left() -> None:
    pace = Pace(1.0)
    pace.spent = 100.0
    assert all(pace.pays(gap, 1e-6) for gap in (1.0, 0.5, 1e-7))


def domains(n: int) -> list[object]:
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    halves = Product([Simplex(n // 2), Box(np.zeros(n // 2), 0.05)])
    return [BalancedBox(signs, 0.05), CappedSimplex(n, 1.0, 10 / n), halves, Box(np.zeros(n), 0.01)]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("condition", ["independent", "ill"])
def test_auto_arrives_by_corrections_or_by_the_path(number: int, condition: str) -> None:
    rng = np.random.default_rng(0)
    domain = domains(400)[number]
    A = rng.standard_normal((160, 400))
    f = LeastSquares(A, 3 * rng.standard_normal(160))
    if condition == "ill":
        f = ill_conditioned(160, 400, seed=3)
    ours = minimize(f, domain, tol=0.0, rtol=1e-8)
    other = minimize(f, domain, method="fully-corrective", tol=0.0, rtol=1e-8)
    assert ours.success
    assert set(ours.trace["kind"]) <= {"start", "projected", "corrective", "interior"}
    assert abs(ours.value - other.value) <= ours.gap + other.gap
    assert path_work(f, domain) > 0


def test_many_vertices_of_a_balanced_box_are_the_path_s() -> None:
    """Where hundreds of vertices make the optimum, corrections are given up early."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 500))
    f = LeastSquares(A, 0.2 * A[:, :10].sum(axis=1) + 0.2 * rng.standard_normal(200))
    domain = BalancedBox(np.where(np.arange(500) % 2, 1.0, -1.0), 0.05)
    ours = minimize(f, domain, tol=0.0, rtol=1e-6)
    whole = minimize(f, domain, method="fully-corrective", tol=0.0, rtol=1e-6)
    assert ours.success
    assert "interior" in ours.trace["kind"]
    assert 3 * ours.n_iter < whole.n_iter


def test_a_perfect_fit_is_at_once_at_the_limit_of_precision() -> None:
    """A residual of rounding alone has a gap that no step makes smaller, and no relative one."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((20, 200))
    targets = rng.dirichlet(np.ones(200), 5) @ A.T
    f = LeastSquares(A, targets[0])
    result = minimize(f, Simplex(200), tol=0.0, rtol=1e-6)
    assert result.status is Status.PRECISION_LIMIT
    assert result.n_iter < 50
    assert result.gap < 1e-11
    again = minimize(f, Simplex(200), tol=0.0, rtol=1e-6, x0=result)
    assert again.status is Status.PRECISION_LIMIT
    assert again.n_iter == 0
    several = minimize_many(f, Simplex(200), targets)
    assert set(several.status) == {Status.PRECISION_LIMIT}
    assert several.gap.max() < 1e-11
    assert minimize_many(f, Simplex(200), targets, tol=1e-10).success


@pytest.mark.parametrize("form", ["csc", "csr"])
def test_a_matrix_that_samples_entries_has_a_diagonal_hessian(form: str) -> None:
    """Projections onto doubly stochastic matrices as least squares: no factor of order n²."""
    side = 75
    target = 2 * np.random.default_rng(0).random(side * side)
    eye = sp.eye_array(side * side, format=form)
    result = minimize(LeastSquares(2 * eye, target), Birkhoff(side), tol=0.0, rtol=1e-6)
    assert result.method == "interior-point"
    assert result.success
    rows = sp.csr_array(([3.0, 4.0, 1.0], [2, 2, 0], [0, 1, 2, 3]), shape=(3, 4))
    curvature = LeastSquares(rows, np.zeros(3)).curvature
    assert curvature is not None
    np.testing.assert_allclose(curvature.full(), (rows.T @ rows).toarray())


def test_a_diagonal_is_one_however_it_is_given() -> None:
    """The path factorises the rows of the domain alone, not a matrix of the size of x."""
    diagonal = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    given = [Quadratic(form) for form in (np.diag(diagonal), sp.diags_array(diagonal))]
    works = [path_work(f, Birkhoff(20)) for f in given]
    assert works[0] == works[1]
    assert works[0] < path_work(Quadratic(np.diag(diagonal) + 1e-3), Birkhoff(20))
    for f in given:
        result = minimize(f, Birkhoff(20), method="interior-point", tol=0.0, rtol=1e-8)
        assert result.success
