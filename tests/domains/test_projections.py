"""Projections against cvxpy, and the two balls that are not polytopes."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerstep.domains import (
    Ball,
    Box,
    CappedSimplex,
    KSparsePolytope,
    L1Ball,
    NuclearNormBall,
    Permutahedron,
    Product,
    Simplex,
    Spectraplex,
)
from cornerstep.domains.base import slip
from support.domains_zoo import as_array

CAPS = np.array([0.5, 0.0, 0.9, 0.3, 1.2])


def capped(total, cap=1.0, at_most=False):
    def constraints(u):
        return [u >= 0, u <= cap, cp.sum(u) <= total if at_most else cp.sum(u) == total]

    return CappedSimplex(5, total, cap, at_most), constraints


PROJECTIONS = [
    (Simplex(5, 2.0), lambda u: [u >= 0, cp.sum(u) == 2]),
    (Simplex(1, 0.5), lambda u: [u >= 0, cp.sum(u) == 0.5]),
    capped(2),
    capped(2.5, at_most=True),
    capped(1, cap=0.3),
    capped(5),
    capped(1.7, CAPS),
    capped(1.7, CAPS, at_most=True),
    (Box(-CAPS, 2 * CAPS), lambda u: [u >= -CAPS, u <= 2 * CAPS]),
    (L1Ball(5, 1.5), lambda u: [cp.norm1(u) <= 1.5]),
    (Ball(5, 1.5), lambda u: [cp.norm2(u) <= 1.5]),
    (NuclearNormBall((2, 3), 1.5), lambda u: [cp.normNuc(cp.reshape(u, (2, 3), order="C")) <= 1.5]),
    (KSparsePolytope(5, 2, 0.5), lambda u: [cp.norm1(u) <= 1, cp.norm_inf(u) <= 0.5]),
    (
        Permutahedron([3.0, 1, 0, 0, -1]),
        lambda u: [cp.sum(u) == 3, cp.max(u) <= 3, *[cp.sum_largest(u, k) <= 4 for k in (2, 3, 4)]],
    ),
    (
        Spectraplex(2, 1.5),
        lambda u: [(X := cp.reshape(u, (2, 2), order="C")) >> 0, X == X.T, cp.trace(X) == 1.5],
    ),
    (
        Product([Simplex(2), L1Ball(2, 3.0)]),
        lambda u: [u[:2] >= 0, cp.sum(u[:2]) == 1, cp.norm1(u[2:]) <= 3],
    ),
]  # fmt: skip
every_projection = pytest.mark.parametrize(
    ("domain", "constraints"), PROJECTIONS, ids=[repr(domain) for domain, _ in PROJECTIONS]
)


@every_projection
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_project_is_the_nearest_point(domain, constraints, size):
    y = size * np.random.default_rng(int(10 * size)).standard_normal(domain.size)
    u = cp.Variable(domain.size)
    cp.Problem(cp.Minimize(cp.sum_squares(u - y)), constraints(u)).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    nearest = domain.project(y)
    assert domain.contains(nearest)
    assert u.value is not None
    np.testing.assert_allclose(nearest, u.value, atol=2e-5)
    assert np.sum((nearest - y) ** 2) <= np.sum((u.value - y) ** 2) * (1 + 1e-6) + 1e-9


@every_projection
def test_project_obeys_the_variational_inequality(domain, constraints):
    """u is the projection of y iff ``<y - u, v - u> <= 0`` for every v: the LMO finds the worst."""
    rng = np.random.default_rng(0)
    for size in (0.01, 1.0, 100.0):
        y = size * rng.standard_normal(domain.size)
        u = domain.project(y)
        worst = as_array(domain.lmo(u - y))
        assert (y - u) @ (worst - u) <= 1e-9 * (1 + np.linalg.norm(y))
        np.testing.assert_allclose(domain.project(u), u, atol=1e-9)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]) | st.floats(-9, 9), min_size=1, max_size=9))
def test_project_with_ties(values):
    y = np.array(values)
    for domain in (
        Simplex(y.size),
        CappedSimplex(y.size, 0.75 * y.size),
        CappedSimplex(y.size, 0.5, cap=0.5 * np.arange(1, y.size + 1)),
        L1Ball(y.size),
    ):
        u = domain.project(y)
        assert domain.contains(u)
        assert (y - u) @ (as_array(domain.lmo(u - y)) - u) <= 1e-9 * (1 + np.linalg.norm(y))


@pytest.mark.parametrize(
    "domain", [Simplex(4), Simplex(4, 3.0), Product([Simplex(2), Simplex(3, 0.5)])], ids=repr
)
def test_project_entropy(domain):
    log_weights = np.random.default_rng(3).standard_normal(domain.size)
    u = cp.Variable(domain.size)
    blocks = getattr(domain, "blocks", [(slice(None), domain)])
    sums = [cp.sum(u[block]) == factor.radius for block, factor in blocks]
    objective = cp.Maximize(log_weights @ u + cp.sum(cp.entr(u)))
    cp.Problem(objective, sums).solve(solver=cp.CLARABEL)
    best = domain.project_entropy(log_weights)
    assert u.value is not None
    np.testing.assert_allclose(best, u.value, atol=1e-3)  # the entropy is flat near its maximum
    assert log_weights @ best - best @ np.log(best) >= objective.value - 1e-7
    assert domain.contains(domain.project_entropy(1e4 * log_weights))


def test_product_has_the_projections_that_all_factors_have():
    assert Product([Simplex(2), Box([0], [1])]).project_entropy is None
    assert Product([Simplex(2), Box([0], [1])]).project is not None


@pytest.mark.parametrize("seed", range(5))
def test_ball_lmo_is_the_dual_norm(seed):
    gradient = np.random.default_rng(seed).standard_normal(6)
    ball, nuclear = Ball(6, 2.5), NuclearNormBall((2, 3), 2.5)
    assert gradient @ ball.lmo(gradient) == pytest.approx(-2.5 * np.linalg.norm(gradient))
    spectral = np.linalg.norm(gradient.reshape(2, 3), 2)
    assert gradient @ nuclear.lmo(gradient) == pytest.approx(-2.5 * spectral)
    assert np.linalg.matrix_rank(nuclear.lmo(gradient).reshape(2, 3)) == 1
    for domain in (ball, nuclear):
        for vertex in (domain.lmo(gradient), domain.lmo(np.zeros(6))):
            assert domain.contains(vertex)
            assert not domain.contains(1.001 * vertex)
            assert np.linalg.norm(vertex) == pytest.approx(2.5)
        assert np.linalg.norm(domain.lmo(gradient) - domain.lmo(-gradient)) == pytest.approx(
            domain.diameter
        )


def test_large_nuclear_lmo_is_as_exact_as_a_full_svd():
    gradient = np.random.default_rng(0).standard_normal((110, 130))
    domain = NuclearNormBall(gradient.shape)
    assert min(gradient.shape) > domain._FULL_SVD
    value = gradient.ravel() @ domain.lmo(gradient.ravel())
    assert value == pytest.approx(-np.linalg.norm(gradient, 2), rel=1e-12)
    assert domain.contains(domain.lmo(np.zeros(domain.size)))


@every_projection
def test_slips_lead_back_into_the_domain(domain, constraints):
    """Within the slips of a point that is outside, there is one inside; of a point inside, itself.

    Slips are about rounding; here they are 10^10 times as large, so that a program can see them.
    """
    rng = np.random.default_rng(4)
    for off in (1e-4, 1e-5, 0.0):
        x = domain.project(rng.standard_normal(domain.size))
        x = x * (1 + off * rng.choice([-1, 1])) + off * rng.standard_normal(x.size)
        slips = slip(domain, x)
        assert slips.shape == x.shape
        assert slips.min() >= 0
        if off == 0:
            assert slips.max() <= 1e-13
            continue
        u = cp.Variable(x.size)
        least = cp.Problem(cp.Minimize(cp.norm_inf(cp.pos(cp.abs(u - x) - slips))), constraints(u))
        assert least.solve(solver="CLARABEL") <= 1e-2 * off
        assert slips.max() <= 100 * off


@pytest.mark.parametrize("n", [2, 7, 1000])
def test_slips_of_sums_are_exact(n):
    """By fractions: what a sum, rounded or not, is off by, is in its slips."""
    rng = np.random.default_rng(n)
    for scale in (1e-150, 1.0, 1e150):
        caps = scale * rng.uniform(1, 2, n)
        total = float(caps.sum() / 3)
        for domain in (Simplex(n, total), CappedSimplex(n, total, caps)):
            x = domain.project(scale * rng.standard_normal(n))
            excess = abs(sum(map(Fraction, x.tolist())) - Fraction(total))
            slips = sum(map(Fraction, slip(domain, x).tolist()))
            assert excess * (1 - Fraction(1, 10**9)) <= slips <= 2 * excess
