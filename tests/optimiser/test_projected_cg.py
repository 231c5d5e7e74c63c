"""Projected and conjugate gradients on boxes: constructed optima, flat directions, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import Status, minimize
from cornerstep.domains import Box, Simplex
from cornerstep.objectives import LeastSquares, Quadratic, Smooth
from support.optimiser_problems import ill_conditioned


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_an_optimum_that_was_constructed(condition: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    Q = (basis * np.geomspace(1.0, condition, n)) @ basis.T
    Q = 0.5 * (Q + Q.T)
    lower, upper = -rng.uniform(0, 1, n), rng.uniform(0, 1, n)
    lower[:5] = upper[:5]  # fixed
    where = rng.integers(0, 3, n)
    best = np.choose(where, [lower, upper, 0.5 * (lower + upper)])
    slopes = np.choose(where, [1.0, -1.0, 0.0]) * rng.uniform(0.1, 1.0, n)  # of f at the optimum
    f = Quadratic(Q, slopes - Q @ best)
    result = minimize(f, Box(lower, upper), tol=1e-9)
    assert result.method == "projected-cg"
    assert result.status is Status.SOLVED or result.gap < 1e-6 * condition
    value = f.at(best).value
    assert result.lower_bound <= value + 1e-12 * condition
    assert result.value - value <= result.gap + 1e-12 * condition


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)])
@pytest.mark.parametrize("kind", ["dense", "sparse", "gram"])
def test_least_squares_as_by_the_path(shape: tuple[int, int], kind: str) -> None:
    rng = np.random.default_rng(5)
    A, b = rng.standard_normal(shape), rng.standard_normal(shape[0])
    given = sp.csr_array(A) if kind == "sparse" else A
    f, box = LeastSquares(given, b, gram=kind == "gram"), Box(np.zeros(shape[1]), 0.1)
    ours = minimize(f, box, tol=1e-10)
    path = minimize(f, box, method="interior-point", tol=1e-10)
    assert ours.method == "projected-cg"
    assert ours.success
    assert ours.value == pytest.approx(path.value, abs=2e-10)


def test_slow_moves_give_way_to_corrections_or_the_path() -> None:
    f = ill_conditioned(40, 120, seed=1)
    result = minimize(f, Box(np.zeros(120), 1.0), tol=0.0, rtol=1e-9)
    kinds = list(dict.fromkeys(result.trace["kind"]))
    assert result.success
    assert kinds[:2] == ["start", "projected"]
    assert set(kinds[2:]) & {"corrective", "interior"}


def test_directions_without_curvature_end_at_the_bounds() -> None:
    c = np.array([1.0, -2.0, 0.0, 3.0])
    linear = minimize(Quadratic(sp.csr_array((4, 4)), c), Box(-np.ones(4), np.ones(4)), tol=1e-12)
    np.testing.assert_array_equal(linear.x[[0, 1, 3]], [-1.0, 1.0, -1.0])
    half = Quadratic(np.diag([2.0, 0.0]), [-1.0, -1.0])
    np.testing.assert_allclose(minimize(half, Box(np.zeros(2), 3.0), tol=1e-12).x, [0.5, 3.0])


def test_every_limit_leaves_a_certified_point() -> None:
    f, box = ill_conditioned(100, 400, seed=2), Box(np.zeros(400), 1.0)
    best = minimize(f, box, tol=0.0, rtol=1e-9).value
    for limit in ({"time_limit": 0.0}, {"max_iter": 1}, {"max_iter": 3}):
        result = minimize(f, box, tol=0.0, rtol=1e-12, **limit)
        assert not result.success
        assert result.lower_bound <= best <= result.value * (1 + 1e-12)


def test_other_domains_and_functions_are_refused() -> None:
    f = Quadratic(np.eye(3))
    with pytest.raises(ValueError, match=r"needs, and Simplex.* lacks, bounds as its only"):
        minimize(f, Simplex(3), method="projected-cg")
    smooth = Smooth(lambda x: float(x @ x), lambda x: 2 * x)
    with pytest.raises(ValueError, match="needs a quadratic objective"):
        minimize(smooth, Box(np.zeros(3), 1.0), method="projected-cg")
