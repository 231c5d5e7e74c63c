"""Many problems at once: each as if it were alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from cornerstep import Status, minimize
from cornerstep.domains import (
    BalancedBox,
    Box,
    CappedSimplex,
    ConvexHull,
    L1Ball,
    Polytope,
    Product,
    Simplex,
)
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.optimiser import minimize_many

M, N, K = 15, 30, 70


def draw(seed: int = 0) -> tuple[Any, Any]:
    """Correlated columns, and targets near their hull."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((M, 3)) @ rng.standard_normal((3, N)) + 0.1 * rng.standard_normal(
        (M, N)
    )
    return A, A[:, :5] @ rng.dirichlet(np.ones(5), K).T + 0.1 * rng.standard_normal((M, K))


DOMAINS = [
    Simplex(N, 1.5), L1Ball(N, 0.7), ConvexHull(np.random.default_rng(1).random((40, N))),
    CappedSimplex(N, 1, cap=0.2), Box(np.zeros(N), np.full(N, 0.1)),
    CappedSimplex(N, 0.7, cap=np.linspace(0.05, 0.4, N), at_most=True),
    Product([Simplex(N - 2), Box([-2.0, 0.5], [5.0, 0.5])]),
    BalancedBox(np.where(np.arange(N) % 3, 1.0, -1.0), 0.1), Product([Simplex(10), Simplex(20)]),
    Polytope(A_eq=np.linspace(-1, 2, N)[None], b_eq=[0.1], lower=[-0.02] * N, upper=[0.03] * N),
]  # fmt: skip


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, aslinearoperator])
def test_each_is_solved_as_alone(domain: Any, form: Any) -> None:
    A, B = draw()
    objective = LeastSquares(form(A), np.zeros(M))
    few = K if domain is DOMAINS[0] and form is np.asarray else 4  # K: more than one block
    results = minimize_many(objective, domain, B.T[:few], rtol=1e-5)
    assert results.success
    assert len(results) == few
    for x, value, gap, b in zip(results.x, results.value, results.gap, B.T, strict=False):
        alone = minimize(LeastSquares(A, b), domain, tol=0, rtol=1e-7)
        assert domain.contains(x)
        assert value == pytest.approx(0.5 * np.sum((A @ x - b) ** 2), rel=1e-12)
        assert gap <= 1e-5 * value
        assert value - gap <= alone.value
        assert alone.lower_bound <= value
    frame = results.to_pandas()
    assert (frame["lower_bound"] == results.lower_bound).all()
    assert f"{few} solved" in str(results)


def test_threads_change_nothing() -> None:
    A, B = draw()
    given = LeastSquares(A, np.zeros(M)), Simplex(N), B.T
    one, two = (minimize_many(*given, n_jobs=jobs) for jobs in (None, 2))
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.gap, two.gap)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_what_is_not_solved_in_time_has_an_honest_certificate(domain: Any) -> None:
    A, B = draw()
    results = minimize_many(LeastSquares(A, np.zeros(M)), domain, B.T[:3], time_limit=0)
    for x, value, gap, status, b in zip(
        results.x, results.value, results.gap, results.status, B.T, strict=False
    ):
        best = minimize(LeastSquares(A, b), domain, tol=0, rtol=1e-7).value
        assert domain.contains(x)
        assert value - gap <= best <= value * (1 + 1e-6)
        assert status is Status.TIME_LIMIT or gap <= 1e-6 * value


def test_scales_do_not_matter_and_a_perfect_fit_is_no_lie() -> None:
    A, B = draw()
    for scale in (1e-60, 1e60):
        results = minimize_many(LeastSquares(scale * A, np.zeros(M)), Simplex(N), scale * B.T[:5])
        assert results.success
    results = minimize_many(LeastSquares(A, np.zeros(M)), Simplex(N), A.T[:5])
    assert (results.gap >= 0).all()
    assert (results.value <= 1e-20).all()
    solved = [status is Status.SOLVED for status in results.status]
    np.testing.assert_array_equal(solved, results.gap <= 1e-6 * results.value)


def test_refusals() -> None:
    A, B = draw()
    objective = LeastSquares(A, np.zeros(M))
    with pytest.raises(ValueError, match=r"targets must be finite, of shape \(k, 15\)"):
        minimize_many(objective, Simplex(N), B)
    with pytest.raises(ValueError, match="targets must be finite"):
        minimize_many(objective, Simplex(N), np.full((2, M), np.nan))
    with pytest.raises(ValueError, match="the same size"):
        minimize_many(objective, Simplex(N + 1), B.T)
    with pytest.raises(TypeError, match="must be a LeastSquares"):
        minimize_many(Quadratic(np.eye(N)), Simplex(N), B.T)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rtol must be"):
        minimize_many(objective, Simplex(N), B.T, rtol=-1)
    assert len(minimize_many(objective, Simplex(N), np.empty((0, M)))) == 0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_numbers_beyond_float64_claim_nothing_false_and_warn_of_nothing(n_jobs):
    objective = LeastSquares(np.full((1, 2), 1e300), np.zeros(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = minimize_many(
            objective, L1Ball(2, 1e300), np.zeros((3, 1)), time_limit=0.0, n_jobs=n_jobs
        )
    assert (results.lower_bound <= 0.0).all()  # the optimum
    assert (results.value >= 0.0).all()
    assert (results.gap >= results.value).all()


@pytest.mark.parametrize("size", [1e-301, 1e-307, 1.0])
@pytest.mark.parametrize("limit", [0.0, 5.0])
def test_answers_lie_in_domains_of_any_size(size, limit):
    """Where the small program's own numbers leave float64 each problem is solved alone."""
    rng = np.random.default_rng(0)
    objective = LeastSquares(rng.standard_normal((6, 5)), np.zeros(6))
    signs = np.array([1.0, -1.0, -1.0, 1.0, 1.0])
    for domain in (
        CappedSimplex(5, size, cap=size), CappedSimplex(5, size, cap=size * np.linspace(0.3, 1, 5)),
        BalancedBox(signs, size * np.array([2.7, 0.47, 2.6, 2.0, 0.56])),
    ):  # fmt: skip
        targets = size * rng.standard_normal((4, 6))
        for x in minimize_many(objective, domain, targets, time_limit=limit).x:
            assert domain.contains(x), (domain, x)


def test_a_problem_beyond_float64_is_refused_as_alone():
    objective = LeastSquares(np.array([[1e200, 0.0]]), np.zeros(1))
    with pytest.raises(ValueError, match="must be finite"):
        minimize_many(objective, CappedSimplex(2, 1e200, cap=1e200), np.zeros((1, 1)))
