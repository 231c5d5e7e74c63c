"""Small programs over the simplex: optimal, from any start, whatever is singular."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from cornerstep import minimize
from cornerstep.domains import L1Ball, Simplex
from cornerstep.objectives import LeastSquares
from cornerstep.optimiser.correction import Correction
from cornerstep.optimiser.wolfe import Factor, improve


def value(gram: Any, linear: Any, x: Any) -> float:
    return float(0.5 * x @ gram @ x - linear @ x)


def gap(gram: Any, linear: Any, x: Any) -> float:
    gradient = gram @ x - linear
    return float(gradient @ x - gradient.min())


def draw(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 40))
    root = rng.standard_normal((int(rng.integers(1, 50)), k))
    if seed % 3 == 0:
        root[:, k // 2 :] = root[:, : k - k // 2]  # points that occur twice
    if seed % 4 == 0:
        root = root * 10.0 ** rng.uniform(-3, 3, k)
    linear = root.T @ rng.standard_normal(root.shape[0]) if seed % 2 else rng.standard_normal(k)
    start = np.zeros(k)
    start[rng.choice(k, size=max(1, k // 3), replace=False)] = 1.0
    return root.T @ root, linear, start / start.sum()


@pytest.mark.parametrize("seed", range(40))
def test_best_weights(seed: int) -> None:
    """Also of singular programs, from any start, with the factor of the run before."""
    gram, linear, x = draw(seed)
    before = value(gram, linear, x)
    tol = 1e-7 * max(np.abs(gram).max(), np.abs(linear).max(), 1.0)
    factor = Factor()
    for change in (0.0, 0.1, -0.3):
        linear = linear + change * linear[::-1]
        before = value(gram, linear, x)
        assert improve(gram, linear, x, tol, 1000, factor)
        assert gap(gram, linear, x) <= tol
        assert (x >= 0).all()
        assert x.sum() == pytest.approx(1.0, abs=1e-12)
        assert value(gram, linear, x) <= before + 1e-12 * (abs(before) + tol)
        free = factor.order[: factor.count]
        assert set(np.flatnonzero(x)) == set(free)  # also where a step ends with several at 0
        rows = np.tril(factor.rows[: free.size, : free.size])
        expected = gram[np.ix_(free, free)] + factor.shift
        np.testing.assert_allclose(rows @ rows.T, expected, atol=1e-10 * np.abs(expected).max())


def test_programs_without_curvature() -> None:
    """The best vertex; where all are the same, any point."""
    for k in (1, 2, 7):
        linear, x = np.arange(float(k)), np.full(k, 1 / k)
        assert improve(np.zeros((k, k)), linear, x, 0.0, 50, Factor())
        assert linear @ x == pytest.approx(k - 1)
        x = np.full(k, 1 / k)
        assert improve(np.ones((k, k)), np.ones(k), x, 1e-12, 50, Factor())
        assert x.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1e-310, 1e-250, 1e-100, 1e-25])
def test_curvature_that_float64_hardly_sees(size: float) -> None:
    """Next to nothing beside l: the answer is about the best vertex, and never NaN."""
    gram, linear, x = draw(1)
    assert improve(size * gram, linear, x, 1e-12, 1000, Factor())
    assert gap(size * gram, linear, x) <= 1e-12
    assert linear @ x == pytest.approx(linear.max(), abs=1e-10)


def test_weights_of_a_linear_function_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        k = int(rng.integers(1, 6))
        linear = rng.standard_normal(k) * 10.0 ** rng.uniform(-8, 8)
        x = np.zeros(k)
        x[rng.integers(k)] = 1.0
        assert improve(np.zeros((k, k)), linear, x, 0.0, 100, Factor())
        assert x.sum() == 1.0
        assert x[linear.argmax()] == 1.0


def test_entries_beyond_float64_leave_the_weights_as_they_are() -> None:
    gram, linear, x = draw(1)
    factor = Factor()
    gram[0, 0] = np.inf
    assert improve(gram, np.where(np.arange(x.size) == 0, 1e300, linear), x, 1e-12, 1000, factor)
    assert np.isfinite(x).all()
    assert x.sum() == pytest.approx(1.0)


def test_a_limit_leaves_weights_of_the_simplex() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((30, 20))
    gram, linear, x = root.T @ root, rng.standard_normal(20), np.full(20, 0.05)
    factor, solved = Factor(), False
    while not solved:
        before = value(gram, linear, x)
        solved = improve(gram, linear, x, 0.0, 1, factor)
        assert (x >= 0).all()
        assert x.sum() == pytest.approx(1.0, abs=1e-12)
        assert value(gram, linear, x) <= before + 1e-12


def test_coordinates_may_be_renamed_and_joined_by_others() -> None:
    gram, linear, x = draw(5)
    factor = Factor()
    improve(gram, linear, x, 1e-12, 1000, factor)
    kept = np.flatnonzero(x)
    names = np.full(x.size, -1)
    names[kept] = np.arange(kept.size)
    factor.rename(names)
    rng = np.random.default_rng(0)
    wider = rng.standard_normal((60, kept.size + 30))
    wider = wider.T @ wider
    wider[: kept.size, : kept.size] = gram[np.ix_(kept, kept)]
    wider += 1e3 * np.eye(len(wider)) * (np.arange(len(wider)) >= kept.size)
    more = np.append(x[kept], np.zeros(30))
    aims = np.append(linear[kept], 500 + rng.standard_normal(30))
    assert improve(wider, aims, more, 1e-9, 1000, factor)
    assert gap(wider, aims, more) <= 1e-9


def test_a_correction_asks_the_clock() -> None:
    rng = np.random.default_rng(0)
    k = 1500
    correction = Correction(LeastSquares(np.eye(k), rng.standard_normal(k)))
    correction.extend(list(np.eye(k)))
    weights, asked = np.full(k, 1 / k), 0
    scores = correction.gram @ weights - rng.standard_normal(k)

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return True

    better = correction.minimise(weights, scores, 0.0, expired)
    assert asked == 1
    assert better.min() >= 0
    assert better.sum() == pytest.approx(1.0, abs=1e-12)


def test_corrections_of_sparse_data_are_those_of_dense_data() -> None:
    """Also where a dense start is among sparse atoms, so that some images are sparse."""
    rng = np.random.default_rng(0)
    A, b = sp.random_array((80, 300), density=0.03, rng=rng), rng.standard_normal(80)
    start = rng.random(300)
    start *= 2 / start.sum()
    for x0 in (None, start):
        for domain in (Simplex(300, 2.0), L1Ball(300, 2.0)):
            sparse, dense = (
                minimize(LeastSquares(data, b), domain, x0=x0, method="fully-corrective", rtol=1e-9)
                for data in (A, A.toarray())
            )
            assert sparse.success
            assert sparse.n_iter == dense.n_iter
            np.testing.assert_allclose(sparse.x, dense.x, atol=1e-8)


@pytest.mark.parametrize("seed", range(80))
def test_caps_groups_and_coordinates_outside_them(seed: int) -> None:
    """The gap over the polytope, by an independent solver, from starts at bounds and between."""
    gram, linear, _ = draw(seed)
    rng, k = np.random.default_rng(seed), linear.size
    groups = rng.integers(0, (1, 2, 4, 1)[seed % 4], k)
    groups[rng.random(k) < (0.0, 0.4, 1.0)[seed % 3]] = -1
    caps = np.where((rng.random(k) < 0.3) & (groups >= 0), np.inf, rng.uniform(0.05, 1.0, k))
    caps = np.full(k, 0.2) if seed % 5 == 0 else caps
    x = np.minimum(rng.random(k) * (rng.random(k) < 0.5), caps)
    if seed % 4 == 1:  # a vertex of equal caps
        x = np.where(np.isfinite(caps) & (rng.random(k) < 0.5), caps, 0.0)
    sums = (groups == np.arange(4)[:, None]).astype(float)
    goals, factor = sums @ x, Factor()
    size = max(np.abs(gram).max(), np.abs(linear).max(), 1.0)
    for change in (0.0, 0.2):
        linear = linear + change * linear[::-1]
        before = value(gram, linear, x)
        solved = False
        for _ in range(20):
            solved = solved or improve(gram, linear, x, 1e-9 * size, 100, factor, caps, groups)
        assert solved
        gradient = gram @ x - linear
        most = [min(cap, goals.max() + 1) for cap in caps]
        best = linprog(gradient, A_eq=sums, b_eq=goals, bounds=[(0, cap) for cap in most])
        assert gradient @ x - best.fun <= 1e-6 * size
        assert (x >= 0).all()
        assert (x <= caps).all()
        np.testing.assert_allclose(sums @ x, goals, atol=1e-12)
        assert value(gram, linear, x) <= before + 1e-12 * size
