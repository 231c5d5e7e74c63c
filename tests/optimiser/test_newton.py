"""Newton's corrections of losses of a linear image: closed forms, cvxpy, correlated columns."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from cornerstep import Status, minimize
from cornerstep.core.vectors import SparseVector
from cornerstep.domains import Box, CappedSimplex, L1Ball, Simplex
from cornerstep.objectives import Entropy, Huber, KullbackLeibler, Logistic, Poisson
from cornerstep.optimiser.newton_correction import NewtonCorrection


def correlated(m: int = 40, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((m, 3)) @ rng.standard_normal((3, n))
    return A + 0.05 * rng.standard_normal((m, n)), A[:, 0] + rng.standard_normal(m)


A, B = correlated()
SIGNS = np.where(B > 0, 1.0, -1.0)
COUNTS = np.random.default_rng(1).poisson(2.0, 40).astype(float)
X = cp.Variable(60)
LOSSES: dict[str, tuple[Any, Any]] = {
    "logistic": (Logistic(A, SIGNS), cp.sum(cp.logistic(-cp.multiply(SIGNS, A @ X)))),
    "poisson": (Poisson(A, COUNTS), cp.sum(cp.exp(A @ X) - cp.multiply(COUNTS, A @ X))),
    "huber": (Huber(A, 3 * B, 0.3), 0.5 * cp.sum(cp.huber(A @ X - 3 * B, 0.3))),
    "kl": (KullbackLeibler(np.abs(A), COUNTS), cp.sum(cp.kl_div(COUNTS, np.abs(A) @ X))),
}
DOMAINS: list[tuple[Any, list[Any]]] = [
    (Simplex(60, 2.0), [X >= 0, cp.sum(X) == 2]),
    (L1Ball(60, 2.0), [cp.norm1(X) <= 2]),
    (Box(np.zeros(60), 0.05), [X >= 0, X <= 0.05]),
    (CappedSimplex(60, 2.0, cap=0.3), [X >= 0, X <= 0.3, cp.sum(X) == 2]),
]
#: the divergence has no value at images below 0, where the l1 ball goes
CASES = [(n, *d) for n in LOSSES for d in DOMAINS if n != "kl" or not isinstance(d[0], L1Ball)]


@pytest.mark.parametrize(
    ("name", "domain", "constraints"), CASES, ids=[f"{n}-{d!r}" for n, d, _ in CASES]
)
def test_correlated_columns_do_not_matter(name: str, domain: Any, constraints: list[Any]) -> None:
    f, loss = LOSSES[name]
    x0 = np.full(60, 1 / 30) if name == "kl" else None
    result = minimize(f, domain, x0=x0, tol=0.0, rtol=1e-8)
    least = cp.Problem(cp.Minimize(loss), constraints).solve(solver="CLARABEL")
    assert (result.method, result.status) == ("fully-corrective", Status.SOLVED)
    assert result.n_iter <= 150
    assert result.lower_bound <= least + 1e-6 * abs(least)
    assert result.value == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array, aslinearoperator])
def test_a_correction_ends_within_its_tolerance(kind: Any) -> None:
    f = Logistic(kind(A), SIGNS)
    atoms: list[Any] = [SparseVector([i], [2.0], 60) for i in range(0, 60, 3)]
    correction = NewtonCorrection(f)
    correction.extend(atoms[:7])
    correction.extend(atoms[7:])
    weights = np.full(20, 1 / 20)
    points = np.array([atom.dense() for atom in atoms])
    scores = points @ f.at(weights @ points).gradient
    found = correction.minimise(weights, scores, 1e-9, lambda: False)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)
    scores = points @ f.at(found @ points).gradient
    assert scores @ found - scores.min() <= 1.1e-9
    correction.keep(np.array([0, 5]))
    np.testing.assert_allclose(correction.images, points[[0, 5]] @ A.T)
    late = correction.minimise(np.array([0.5, 0.5]), scores[[0, 5]], 0.0, lambda: True)
    np.testing.assert_array_equal(late, [0.5, 0.5])


def test_entropy_ends_at_its_closed_form_and_is_left_to_steps_by_default() -> None:
    prior = np.random.default_rng(0).dirichlet(np.ones(30)) * 3
    start = np.full(30, 1 / 30)
    by_name = minimize(Entropy(prior), Simplex(30), method="fully-corrective", x0=start, tol=1e-10)
    assert by_name.success
    np.testing.assert_allclose(by_name.x, prior / 3, atol=2e-5)
    assert minimize(Entropy(prior), Simplex(30), x0=start, max_iter=1).method == "di-pairwise"


def test_weights_of_rows_are_repeated_rows_and_scales_do_not_matter() -> None:
    times = np.random.default_rng(2).integers(0, 3, 40)
    some = minimize(Logistic(A, SIGNS, times), Simplex(60, 2.0), tol=0.0, rtol=1e-9)
    twice = Logistic(np.repeat(A, times, axis=0), np.repeat(SIGNS, times))
    all_rows = minimize(twice, Simplex(60, 2.0), tol=0.0, rtol=1e-9)
    assert some.value == pytest.approx(all_rows.value, rel=1e-8)
    for scale in (1e-100, 1e100):
        scaled = minimize(Logistic(A / scale, SIGNS, times), Simplex(60, 2.0 * scale), rtol=1e-9)
        assert scaled.status is Status.SOLVED
        assert scaled.value == pytest.approx(some.value, rel=1e-5)


def test_a_correction_ends_with_the_time() -> None:
    result = minimize(LOSSES["logistic"][0], Simplex(60), tol=0.0, rtol=1e-8, time_limit=0.0)
    assert result.status is Status.TIME_LIMIT
    assert result.lower_bound <= result.value
