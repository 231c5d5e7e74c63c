"""Balls, ellipsoids, the spectraplex and intersections against cvxpy, at any scale."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from cornerstep import minimize
from cornerstep.domains import (
    Ball,
    Box,
    Ellipsoid,
    Intersection,
    KSparsePolytope,
    KSupportBall,
    L1Ball,
    LpBall,
    OWLBall,
    Permutahedron,
    Simplex,
    Spectraplex,
)
from cornerstep.objectives import LeastSquares
from support.domains_zoo import as_array

AXES = np.array([[1.0, 2.0, 0.0], [0.5, 0.0, 1.0], [1.5, 2.0, 1.0], [0.0, 1.0, 3.0]])
CENTER = np.array([1.0, -2.0, 0.5, 0.0])
OWL = np.array([3.0, 2.0, 2.0, 0.5])


def in_ellipsoid(x):
    u = cp.Variable(3)
    return [x == CENTER + AXES @ u, cp.norm2(u) <= 1]


def is_owl(x, radius):
    drops = OWL - np.append(OWL[1:], 0.0)
    sums = [drop * cp.sum_largest(cp.abs(x), k) for k, drop in enumerate(drops, 1)]
    return [cp.sum(sums) <= radius]


def is_k_sparse_mixture(x, k, radius):
    """``x_i² <= radius² t_i s_i`` with sums at most k and 1, ``t <= 1``: vectors of k entries."""
    t, s = cp.Variable(4, nonneg=True), cp.Variable(4, nonneg=True)
    cones = [cp.quad_over_lin(x[i], t[i]) <= radius**2 * s[i] for i in range(4)]
    return [*cones, t <= 1, cp.sum(t) <= k, cp.sum(s) <= 1]


def is_density(x):
    X = cp.reshape(x, (3, 3), order="C")
    return [X >> 0, X == X.T, cp.trace(X) == 2.5]


CURVED = [
    (LpBall(4, 1.5, 2.0), lambda x: [cp.pnorm(x, 1.5) <= 2]),
    (LpBall(4, 4.0, 0.5), lambda x: [cp.pnorm(x, 4) <= 0.5]),
    (LpBall(4, 1.0), lambda x: [cp.norm1(x) <= 1]),
    (LpBall(4, np.inf, 3.0), lambda x: [cp.norm_inf(x) <= 3]),
    (KSupportBall(4, 2, 1.5), lambda x: is_k_sparse_mixture(x, 2, 1.5)),
    (KSupportBall(4, 3), lambda x: is_k_sparse_mixture(x, 3, 1.0)),
    (OWLBall(OWL, 1.5), lambda x: is_owl(x, 1.5)),
    (Ellipsoid([1.0, 2.0, 0.5], CENTER[:3]), lambda x: [
        cp.norm2((x - CENTER[:3]) / np.array([1, 2, 0.5])) <= 1]),
    (Ellipsoid(AXES, CENTER), in_ellipsoid),
    (Spectraplex(3, 2.5), is_density),
    (Intersection([L1Ball(4, 1.5), Ball(4)]), lambda x: [cp.norm1(x) <= 1.5, cp.norm2(x) <= 1]),
    (Intersection([Simplex(4), Ellipsoid([0.5] * 4, [0.25] * 4), Box([0.2, 0, 0, 0], [1] * 4)]),
     lambda x: [x >= 0, cp.sum(x) == 1, cp.norm2(x - 0.25) <= 0.5, x[0] >= 0.2]),
]  # fmt: skip
every_curved = pytest.mark.parametrize(
    ("domain", "constraints"), CURVED, ids=[repr(domain) for domain, _ in CURVED]
)


def solved(loss, constraints):
    program = cp.Problem(cp.Minimize(loss), constraints)
    program.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert program.status == "optimal"
    return program.value


@every_curved
def test_lmo_is_the_least_value(domain, constraints):
    for seed in range(3):
        g = np.random.default_rng(seed).standard_normal(domain.size)
        x = cp.Variable(domain.size)
        least = solved(g @ x, constraints(x))
        vertex = as_array(domain.lmo(g))
        assert g @ vertex == pytest.approx(least, abs=1e-6)
        assert 0 <= domain.lmo_error(g, vertex) <= 1e-7
        assert g @ vertex - domain.lmo_error(g, vertex) <= least + 1e-8
        assert domain.contains(vertex)
        assert domain.contains(x.value, 1e-6)


@every_curved
def test_minimize_has_a_true_certificate(domain, constraints):
    rng = np.random.default_rng(domain.size)
    A, b = rng.standard_normal((6, domain.size)), 3 * rng.standard_normal(6)
    result = minimize(LeastSquares(A, b), domain, rtol=1e-5, tol=0.0, max_iter=2000)
    x = cp.Variable(domain.size)
    least = solved(0.5 * cp.sum_squares(A @ x - b), constraints(x))
    assert result.success
    assert domain.contains(result.x)
    assert result.lower_bound <= least * (1 + 1e-6) <= result.value * (1 + 2e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize(
    "build",
    [
        lambda s: LpBall(4, 1.5, s), lambda s: LpBall(4, 9.0, s), lambda s: KSupportBall(4, 2, s),
        lambda s: OWLBall(OWL, s), lambda s: OWLBall(s * OWL, 1.0),
        lambda s: Ellipsoid(s * AXES, s * CENTER), lambda s: Ellipsoid(s * OWL),
        lambda s: KSparsePolytope(4, 2, s), lambda s: Permutahedron(s * CENTER),
        lambda s: Spectraplex(2, s),
        lambda s: Intersection([L1Ball(4, 2.5 * s), LpBall(4, np.inf, s)]),
    ],
)  # fmt: skip
def test_oracles_scale(build, scale):
    """The answer of a multiple of the domain is the multiple of its answer."""
    plain, domain = build(1.0), build(scale)
    factor = domain.diameter / plain.diameter
    for size in (1e-250, 1.0, 1e250):
        g = np.random.default_rng(1).standard_normal(plain.size)
        vertex, expected = as_array(domain.lmo(size * g)), as_array(plain.lmo(g))
        np.testing.assert_allclose(vertex / factor, expected, rtol=1e-9, atol=1e-9)
        assert domain.contains(vertex)
        assert not domain.contains(vertex * (1 + 1e-6) - 1e-6 * as_array(domain.lmo(-g)))


def test_lp_balls_between_the_polytopes():
    """p near its ends tends to the l1 ball and the cube; p = 2 is the Euclidean ball."""
    g = np.array([1.0, -0.5, 0.3, 0.0])
    np.testing.assert_allclose(LpBall(4, 2.0, 3.0).lmo(g), Ball(4, 3.0).lmo(g))
    np.testing.assert_allclose(LpBall(4, 1 + 1e-9).lmo(g), [-1, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(LpBall(4, 1e9).lmo(g)[:3], [-1, 1, -1], rtol=1e-6)


def test_large_spectraplex_is_as_exact_as_all_eigenvalues():
    rng, domain = np.random.default_rng(0), Spectraplex(120)
    for _ in range(3):
        G = rng.standard_normal((120, 120))
        least = np.linalg.eigvalsh((G + G.T) / 2)[0]
        vertex = domain.lmo(G.ravel())
        assert G.ravel() @ vertex == pytest.approx(least, rel=1e-12)
        assert domain.lmo_error(G.ravel(), vertex) <= 1e-9
        wrong = domain.lmo(-G.ravel())  # not a minimiser: the error says by how much
        missed = G.ravel() @ wrong - least
        assert domain.lmo_error(G.ravel(), wrong) == pytest.approx(missed, rel=1e-9)
        assert domain.lmo_error(G.ravel(), wrong) >= missed


def test_polytopes_in_common_are_exact():
    """Of the cube and the l1 ball: the k-sparse polytope, to the last digits of an LP."""
    both, known = Intersection([L1Ball(20, 4.0), Box(-np.ones(20), 1.0)]), KSparsePolytope(20, 4)
    for seed in range(5):
        g = np.random.default_rng(seed).standard_normal(20)
        vertex, best = both.lmo(g), as_array(known.lmo(g))
        assert known.contains(vertex)
        assert g @ vertex == pytest.approx(g @ best, rel=1e-11)
        assert g @ vertex - both.lmo_error(g, vertex) <= g @ best <= g @ vertex + 1e-10


def test_an_intersection_begins_anew_with_each_run():
    both = Intersection([L1Ball(6, 2.0), Box(-np.ones(6), 1.0)])
    f = LeastSquares(np.random.default_rng(0).standard_normal((8, 6)), np.ones(8))
    first, second = minimize(f, both), minimize(f, both)
    np.testing.assert_array_equal(first.x, second.x)


def test_sets_that_touch_have_one_point():
    touching = Intersection([Box([0.0, 0.0], [1.0, 1.0]), Box([1.0, 1.0], [2.0, 2.0])])
    np.testing.assert_allclose(touching.lmo(np.array([-1.0, 1.0])), [1.0, 1.0])
