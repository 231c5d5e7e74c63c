"""The soft margin and its smoothing."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerstep.boosting.problem import SoftMargin


@pytest.mark.parametrize("nu", [1, 2.5, 4, 11.3, 12])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_projection_is_the_kl_projection(nu, ties, weighted):
    rng = np.random.default_rng(0)
    m, eps = 12, 0.8
    weights = rng.integers(1, 4, m).astype(float) if weighted else np.ones(m)
    nu = nu * weights.sum() / m
    problem = SoftMargin(weights, nu, eps)
    z = rng.normal(size=m)
    if ties:
        z = np.round(z)
    g, d = problem.smoothed(z)

    x = cp.Variable(m)
    kl = cp.sum(cp.kl_div(x, problem.prior)) / problem.eta  # sums to 1: the linear terms cancel
    other = cp.Problem(cp.Minimize(z @ x + kl), [cp.sum(x) == 1, x <= problem.caps])
    other.solve(solver=cp.CLARABEL)
    assert x.value is not None
    np.testing.assert_allclose(d, x.value, atol=1e-4)
    assert g == pytest.approx(other.value, abs=1e-7)
    assert d.sum() == pytest.approx(1, abs=1e-12)
    assert (d <= problem.caps * (1 + 1e-12)).all()
    assert (d >= 0).all()
    value = z @ d + (d * np.log(d / problem.prior)).sum() / problem.eta
    assert g == pytest.approx(value, abs=1e-12)


def test_the_cap_binds():
    problem = SoftMargin(np.ones(10), 4, 0.1)
    z = np.array([-1.0, -1.0, -1.0] + [1.0] * 7)
    d = problem.smoothed(z)[1]
    np.testing.assert_allclose(d[:3], 1 / 4, rtol=1e-12)
    np.testing.assert_allclose(d[3:], 1 / 28, rtol=1e-12)
    assert problem.value(z) == pytest.approx((-3 + 1) / 4)
    assert SoftMargin(np.ones(10), 10, 0.1).value(z) == pytest.approx(z.mean())
    assert SoftMargin(np.ones(10), 1, 0.1).value(z) == -1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.floats(0, 1), st.floats(1e-3, 1))
def test_smoothing_is_between_the_soft_margin_and_half_eps_above(seed, m, share, eps):
    rng = np.random.default_rng(seed)
    problem = SoftMargin(rng.uniform(0.6, 2, m), 1.0, eps)
    problem = SoftMargin(problem.weights, problem.weights.sum() * max(share, 1 / m), eps)
    z = rng.choice([-1.0, -0.5, 0.0, 0.3, 1.0], m) if seed % 2 else rng.uniform(-1, 1, m)
    rho, (g, d) = problem.value(z), problem.smoothed(z)
    assert rho <= g + 1e-12
    assert g <= rho + eps / 2 + 1e-12
    assert d.sum() == pytest.approx(1)
    assert (d <= problem.caps * (1 + 1e-9)).all()
    assert problem.worst(z) @ z == pytest.approx(rho)
    assert d @ z >= rho - 1e-12


def test_gradient_and_smoothness_by_finite_differences():
    rng = np.random.default_rng(1)
    problem = SoftMargin(np.ones(30), 6, 0.2)
    for _ in range(20):
        z, step = rng.uniform(-1, 1, 30), rng.normal(size=30)
        d = problem.smoothed(z)[1]
        h = 1e-5
        ahead, behind = problem.smoothed(z + h * step), problem.smoothed(z - h * step)
        assert (ahead[0] - behind[0]) / (2 * h) == pytest.approx(d @ step, abs=1e-4)
        far = z + rng.uniform(0, 0.3) * step
        change = abs(problem.smoothed(far)[1] - d).sum()
        assert change <= problem.eta * abs(far - z).max() * (1 + 1e-9)
        # concave: below its tangents
        assert problem.smoothed(far)[0] <= problem.smoothed(z)[0] + d @ (far - z) + 1e-12


def test_very_uneven_margins_do_not_underflow():
    problem = SoftMargin(np.ones(4), 2, 1e-6)
    g, d = problem.smoothed(np.array([-1.0, 0.0, 0.5, 1.0]))
    np.testing.assert_allclose(d, [0.5, 0.5, 0, 0])
    assert g == pytest.approx(-0.5, abs=1e-6)


def test_admissible_repairs_rounding():
    problem = SoftMargin(np.ones(5), 2, 0.1)
    d = problem.admissible(np.array([0.5 + 1e-9, 0.3, 0.2, -1e-9, 0.0]))
    assert d.sum() == pytest.approx(1, abs=1e-15)
    assert d.min() >= 0
    assert (d <= problem.caps).all()


@pytest.mark.parametrize("nu", [0, -1, 6, np.nan])
def test_nu_out_of_range(nu):
    with pytest.raises(ValueError, match="nu must be between 1 and the total weight 5"):
        SoftMargin(np.ones(5), nu, 0.1)


def test_rounds_bound():
    problem = SoftMargin(np.ones(1000), 100, 0.01)
    assert problem.rounds_bound() == pytest.approx(32 * np.log(10) / 1e-4, abs=2)
    assert problem.eta == pytest.approx(2 * np.log(10) / 0.01)


@pytest.mark.parametrize("eps", [0.3, 0.01, 1e-4])
@pytest.mark.parametrize("gap", [0.01, 2.0])
def test_ties_share_equally_however_steep_the_smoothing(eps, gap):
    """Eight examples at -1, the others one step above: they share what the caps leave."""
    m, nu = 215, 21.5
    problem = SoftMargin(np.ones(m), nu, eps)
    z = np.where(np.arange(m) < 8, -1.0, -1.0 + gap)
    value, d = problem.smoothed(z)
    if np.exp(-problem.eta * gap) < 1e-3:
        expected = np.where(np.arange(m) < 8, 1 / nu, (1 - 8 / nu) / (m - 8))
        np.testing.assert_allclose(d, expected, rtol=1e-10)
    assert d.sum() == pytest.approx(1, abs=1e-12)
    assert np.ptp(d[8:]) <= 1e-15
    # the minimum: no other distribution does better
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = problem.admissible(d * rng.uniform(0.5, 1.5, m))
        there = other @ z + other @ np.log(m * other) / problem.eta
        assert value <= there + 1e-12
