"""Corrections over sections of matrix domains: closed forms, cvxpy, any scale, hostile spectra."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import Status, minimize
from cornerstep.domains import NuclearNormBall, Spectraplex
from cornerstep.domains.sections import Section
from cornerstep.objectives import Huber, LeastSquares, Logistic, Smooth
from cornerstep.optimiser import FullyCorrective

DOMAINS = [NuclearNormBall((7, 5), 2.0), NuclearNormBall((4, 9), 0.5), Spectraplex(6, 1.5)]
every = pytest.mark.parametrize("domain", DOMAINS, ids=repr)


def constraints(domain: Any, X: Any) -> list[Any]:
    if isinstance(domain, Spectraplex):
        return [X >> 0, X == X.T, cp.trace(X) == domain.radius]
    return [cp.normNuc(X) <= domain.radius]


def data(domain: Any, rows: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, domain.size)), 3 * rng.standard_normal(rows)


@every
def test_a_section_contains_its_point_and_the_best_vertices(domain: Any) -> None:
    rng = np.random.default_rng(1)
    x = domain.project(rng.standard_normal(domain.size))
    section = domain.section(x)
    rank = np.linalg.matrix_rank(x.reshape(domain.shape))
    assert section.left.shape == (domain.shape[0], rank)
    np.testing.assert_allclose(section.left.T @ section.left, np.eye(rank), atol=1e-14)
    np.testing.assert_allclose(section.right @ section.right.T, np.eye(rank), atol=1e-14)
    np.testing.assert_allclose(section.lift(section.restrict(x)), x, atol=1e-14)
    assert section.domain.contains(section.restrict(x))

    gradient = rng.standard_normal(domain.size)
    wide, vertex = section.widened(gradient, 1)
    assert vertex @ gradient == pytest.approx(domain.lmo(gradient) @ gradient, rel=1e-12)
    for point in (x, vertex):
        s = wide.restrict(point)
        np.testing.assert_allclose(wide.lift(s), point, atol=1e-13)
    narrow = wide.narrowed(wide.restrict(vertex))
    assert narrow.left.shape[1] == narrow.right.shape[0] == 1
    np.testing.assert_allclose(narrow.lift(narrow.restrict(vertex)), vertex, atol=1e-13)


@pytest.mark.parametrize("rank", [1, 9, 25])
def test_the_space_of_a_point_of_any_rank_is_found(rank: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, rank)) @ rng.standard_normal((rank, 25))
    section = Section.containing(NuclearNormBall((40, 25), 1e4), X.ravel())
    assert section.left.shape[1] == rank
    np.testing.assert_allclose(section.lift(section.restrict(X.ravel())), X.ravel(), atol=1e-12)


@every
def test_least_squares_to_a_true_certificate(domain: Any) -> None:
    A, b = data(domain)
    result = minimize(LeastSquares(A, b), domain, tol=0.0, rtol=1e-9)
    X = cp.Variable(domain.shape)
    loss = 0.5 * cp.sum_squares(A @ cp.vec(X, order="C") - b)
    least = cp.Problem(cp.Minimize(loss), constraints(domain, X)).solve(solver="CLARABEL")
    assert result.method == "fully-corrective"
    assert result.status is Status.SOLVED
    assert domain.contains(result.x)
    assert result.lower_bound <= least * (1 + 1e-6)
    assert result.value == pytest.approx(least, rel=1e-6)


@every
@pytest.mark.parametrize("kind", [Logistic, Huber])
def test_other_losses_take_sections_too(domain: Any, kind: Any) -> None:
    A, b = data(domain, 30)
    result = minimize(kind(A, np.sign(b)), domain, tol=0.0, rtol=1e-7, max_iter=500)
    plain = minimize(kind(A, np.sign(b)), domain, method="fw", tol=0.0, rtol=1e-2)
    assert (result.method, result.status) == ("fully-corrective", Status.SOLVED)
    assert result.lower_bound <= plain.value
    assert plain.lower_bound <= result.value <= plain.value * (1 + 1e-7)


@pytest.mark.parametrize("domain", [NuclearNormBall((3, 1), 1e301), Spectraplex(3, 1e301)])
@pytest.mark.parametrize("f", [Huber, Logistic])
def test_radii_at_the_end_of_float64(domain: Any, f: Any) -> None:
    A = np.random.default_rng(0).standard_normal((5, domain.size))
    target = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    result = minimize(f(A, target), domain, max_iter=20)
    assert np.isfinite(result.value)
    assert result.gap > 0
    assert domain.contains(result.x)


@pytest.mark.parametrize("scale", [1e-120, 1e-8, 1e120])
def test_scales_do_not_matter(scale: float) -> None:
    A, b = data(DOMAINS[0])
    near = minimize(LeastSquares(A, b), DOMAINS[0], tol=0.0, rtol=1e-8)
    ball = NuclearNormBall((7, 5), 2.0 * scale)
    far = minimize(LeastSquares(A / scale, b), ball, tol=0.0, rtol=1e-8)
    assert far.status is Status.SOLVED
    np.testing.assert_allclose(far.x / scale, near.x, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "domain", [NuclearNormBall((260, 210), 30.0), Spectraplex(210, 30.0)], ids=repr
)
def test_the_projection_of_a_large_matrix_is_found(domain: Any) -> None:
    """By Lanczos's method, with leading values that are equal at the optimum."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((domain.shape[0], 3)), rng.standard_normal((3, 210))
    M = left @ (left.T if isinstance(domain, Spectraplex) else right)
    M = M + 0.1 * rng.standard_normal(M.shape)
    M = (M + M.T) / 2 if isinstance(domain, Spectraplex) else M
    f = LeastSquares(sp.eye_array(domain.size, format="csc"), M.ravel())
    result = minimize(f, domain, tol=0.0, rtol=1e-8)
    assert result.status is Status.SOLVED
    assert result.n_iter <= 12
    np.testing.assert_allclose(result.x, domain.project(M.ravel()), atol=2e-2)


@pytest.mark.parametrize(
    "domain", [NuclearNormBall((230, 220), 2.0), Spectraplex(220, 2.0)], ids=repr
)
def test_equal_values_do_not_defeat_the_oracle(domain: Any) -> None:
    rng = np.random.default_rng(0)
    columns = np.linalg.qr(rng.standard_normal((domain.shape[0], 220)))[0]
    values = 1 + 1e-13 * rng.random(220)
    rows = columns if isinstance(domain, Spectraplex) else np.linalg.qr(columns[:220])[0]
    gradient = (columns * values @ rows.T).ravel()
    vertex = domain.lmo(gradient)
    best = 2.0 if isinstance(domain, Spectraplex) else -2.0
    assert vertex @ gradient == pytest.approx(best, rel=1e-9)
    assert domain.contains(vertex)


def test_starts_limits_and_functions_known_by_answers() -> None:
    ball = NuclearNormBall((7, 5), 2.0)
    A, b = data(ball)
    f = Smooth(lambda x: 0.5 * ((A @ x - b) ** 2).sum(), lambda x: A.T @ (A @ x - b))
    wanted = minimize(LeastSquares(A, b), ball, tol=0.0, rtol=1e-8)
    inside = ball.project(np.random.default_rng(3).standard_normal(ball.size))
    for x0 in (None, inside, np.zeros(ball.size), wanted):
        result = minimize(f, ball, x0=x0, tol=0.0, rtol=1e-6)
        assert result.status is Status.SOLVED
        assert result.value == pytest.approx(wanted.value, rel=2e-6)
    late = minimize(f, ball, tol=0.0, rtol=1e-8, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT
    assert late.lower_bound <= wanted.value
    lazy = minimize(f, ball, method=FullyCorrective(lazy=True), tol=0.0, rtol=1e-2)
    assert lazy.active_set is not None
    assert len(lazy.active_set) > 1


def test_at_the_optimum_there_is_nothing_to_do() -> None:
    ball = NuclearNormBall((4, 4), 100.0)
    target = np.diag([3.0, 2.0, 1.0, 0.0]).ravel()
    result = minimize(LeastSquares(np.eye(16), target), ball, tol=1e-10)
    assert result.success
    np.testing.assert_allclose(result.x, target, atol=1e-5)
    again = minimize(LeastSquares(np.eye(16), target), ball, x0=target, tol=1e-10)
    assert again.success
    assert again.n_iter == 0
