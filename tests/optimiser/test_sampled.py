"""Samples that grow: estimates without a gap, certificates of the whole sum."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import minimize
from cornerstep.domains import L1Ball, Simplex
from cornerstep.objectives import Huber, LeastSquares, Logistic, Sampled

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3000, 8))
LABELS = np.where(A[:, :2].sum(axis=1) + RNG.standard_normal(3000) > 0, 1, -1)
WEIGHTS = RNG.integers(0, 3, 3000).astype(float)
BALL = L1Ball(8, 1.5)


@pytest.mark.parametrize("method", ["fw", "away", "pairwise", "di-pairwise", "fully-corrective"])
@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array])
def test_the_certificate_is_that_of_the_whole_sum(method, matrix):
    whole = Logistic(matrix(A), LABELS, WEIGHTS)
    best = minimize(whole, BALL, rtol=1e-9, tol=0.0)
    result = minimize(Sampled(whole, batch=20), BALL, method=method, rtol=1e-3, tol=0.0)
    position = whole.at(result.x)
    assert result.success
    assert result.value == pytest.approx(position.value, rel=1e-14)
    assert result.gap >= position.inner + 1.5 * np.abs(position.gradient).max() - 1e-9
    assert result.lower_bound <= best.value <= result.value + 1e-9
    gaps = result.trace["gap"].astype(float)
    assert np.isfinite(gaps[0])  # of the start, which is whole
    if method != "fully-corrective":  # its second look is of the whole sum
        assert np.isnan(gaps[1:4]).all()


def test_a_run_that_ends_early_has_the_gap_of_the_whole_sum():
    whole = Huber(A, A @ np.linspace(0, 0.25, 8), 0.5)
    result = minimize(Sampled(whole, batch=5), Simplex(8), max_iter=3, method="fw")
    position = whole.at(result.x)
    assert result.status.value == "iteration limit"
    assert result.value == position.value
    gap = position.inner - position.gradient.min()
    assert gap <= result.gap <= gap * (1 + 1e-9) + 1e-9


def test_estimates_are_those_of_the_sum_on_the_average():
    objective, x = Sampled(Logistic(A, LABELS, WEIGHTS), batch=30), np.full(8, 0.1)
    found = []
    for seed in range(300):
        objective.random_state = seed
        objective.begin()
        found.append(objective.sample(x).value)
    true = objective.at(x).value
    assert np.mean(found) == pytest.approx(true, abs=4 * np.std(found) / np.sqrt(len(found)))


def test_samples_grow_to_the_whole_and_each_run_begins_anew():
    objective = Sampled(Logistic(A, LABELS), batch=200)
    estimates = [objective.sample(np.zeros(8)).estimate for _ in range(5)]
    assert estimates == [True, True, True, False, False]  # 200, 800, 1,800, 3,200 rows
    first, second = (minimize(objective, BALL, rtol=1e-3) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"objective must be a Composite .* got LeastSquares"):
        Sampled(LeastSquares(A, LABELS))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch must be a positive integer"):
        Sampled(Logistic(A, LABELS), batch=0)
