"""Losses of images: differences, cvxpy, long double, and what they refuse."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from cornerstep import minimize
from cornerstep.core.vectors import Direction
from cornerstep.domains import Box, L1Ball, Simplex
from cornerstep.objectives import (
    Entropy,
    Huber,
    KullbackLeibler,
    Logistic,
    Poisson,
    check_objective,
)

RNG = np.random.default_rng(0)
A = RNG.standard_normal((12, 5))
POSITIVE = RNG.uniform(0.1, 1.0, (12, 5))
B = RNG.standard_normal(12)
COUNTS = RNG.poisson(2.0, 12).astype(float)
LABELS = np.where(RNG.random(12) < 0.5, "no", "yes")
SIGNS = np.where(LABELS == "yes", 1.0, -1.0)
W = RNG.integers(0, 4, 12).astype(float)
Q = RNG.uniform(0.1, 2.0, 5)
L = np.longdouble


def huber(r):
    size = np.abs(r)
    return np.where(size <= 0.3, r * r / 2, L(0.3) * size - L(0.3) ** 2 / 2)


def divergence(b, z):
    positive = b > 0
    return np.where(positive, b * np.log(np.where(positive, b, 1) / z), 0) - b + z


#: the objective, its domain, f in long double, f for cvxpy
CASES = [
    (lambda M=A, **w: Huber(M, B, 0.3, **w), L1Ball(5, 1.5),
     lambda x, w: (w * huber(A @ x - B)).sum(),
     lambda x, w: 0.5 * cp.sum(cp.multiply(w, cp.huber(A @ x - B, 0.3)))),
    (lambda M=A, **w: Logistic(M, LABELS, **w), L1Ball(5, 1.5),
     lambda x, w: (w * np.logaddexp(L(0), -SIGNS * (A @ x))).sum(),
     lambda x, w: cp.sum(cp.multiply(w, cp.logistic(-cp.multiply(SIGNS, A @ x))))),
    (lambda M=A, **w: Poisson(M, COUNTS, **w), Box(np.zeros(5), 0.8),
     lambda x, w: (w * (np.exp(A @ x) - COUNTS * (A @ x))).sum(),
     lambda x, w: cp.sum(cp.multiply(w, cp.exp(A @ x) - cp.multiply(COUNTS, A @ x)))),
    (lambda M=POSITIVE, **w: KullbackLeibler(M, COUNTS, **w), Simplex(5, 4.0),
     lambda x, w: (w * divergence(COUNTS, POSITIVE @ x)).sum(),
     lambda x, w: cp.sum(cp.multiply(w, cp.kl_div(COUNTS, POSITIVE @ x)))),
]  # fmt: skip
every = pytest.mark.parametrize(
    ("build", "domain", "exact", "convex"), CASES, ids=["huber", "logistic", "poisson", "kl"]
)


@every
def test_objectives_agree_with_themselves(build, domain, exact, convex):
    check_objective(build(), domain, n_trials=5)


@every
def test_values_and_gradients_in_long_double_differ_by_no_more_than_is_said(
    build, domain, exact, convex
):
    objective = build(sample_weight=W)
    for seed in range(5):
        x = np.random.default_rng(seed).dirichlet(np.ones(5)) * 0.8
        position = objective.at(x)
        off, errors = objective.errors(position)
        assert abs(exact(x.astype(L), W) - L(position.value)) <= off <= 1e-11
        for j, slope in enumerate(position.gradient):
            ahead, behind = x.astype(L), x.astype(L)
            ahead[j], behind[j] = x[j] + L(1e-5), x[j] - L(1e-5)
            difference = (exact(ahead, W) - exact(behind, W)) / (ahead[j] - behind[j])
            assert float(difference) == pytest.approx(slope, rel=1e-7, abs=1e-8)
        assert 0 <= errors.max() <= 1e-11


@every
def test_minima_are_those_of_an_independent_solver(build, domain, exact, convex):
    x = cp.Variable(5)
    constraints = {
        L1Ball: [cp.norm1(x) <= 1.5], Box: [x >= 0, x <= 0.8], Simplex: [x >= 0, cp.sum(x) == 4],
    }[type(domain)]  # fmt: skip
    program = cp.Problem(cp.Minimize(convex(x, W)), constraints)
    program.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    results = [
        minimize(build(M, sample_weight=W), domain, tol=1e-7, method=method)
        for M, method in (
            (build().matrix.data, "auto"),
            (sp.csr_array(build().matrix.data), "blended-pairwise"),
            (aslinearoperator(build().matrix.data), "away"),
        )
    ]
    for result in results:
        assert result.success
        assert result.lower_bound <= program.value + 1e-6
        assert result.value == pytest.approx(program.value, abs=1e-6)


@every
def test_a_weight_of_two_is_a_row_twice(build, domain, exact, convex):
    twice = build(sample_weight=np.full(12, 2.0))
    x = np.full(5, 0.16)
    assert twice.at(x).value == pytest.approx(2 * build().at(x).value)
    np.testing.assert_allclose(twice.at(x).gradient, 2 * build().at(x).gradient)


@every
def test_curvatures_bound_those_nearby(build, domain, exact, convex):
    objective = build()
    z = objective.matrix.times(np.full(5, 0.16))
    slopes = (objective.slopes(z + 1e-6) - objective.slopes(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(objective.curvatures(z), slopes, rtol=1e-4, atol=1e-6)
    for near in (z - 0.05, z + 0.05, z + 0.02):
        assert (objective.curvatures(z, 0.05) >= objective.curvatures(near) * (1 - 1e-12)).all()


def test_the_nearest_distribution_in_entropy():
    """Without further constraints it is the prior, scaled; from inside, whatever the method."""
    for method in ("fw", "pairwise", "blended-pairwise", "di-pairwise"):
        result = minimize(Entropy(Q), Simplex(5), x0=np.full(5, 0.2), method=method, tol=1e-5)
        assert result.success
        np.testing.assert_allclose(result.x, Q / Q.sum(), atol=5e-3)
        share = Q / Q.sum()
        least = np.sum(share * np.log(share / Q)) - 1 + Q.sum()
        assert result.lower_bound <= least <= result.value + 1e-15
    check_objective(Entropy(Q), Simplex(5), n_trials=5)


def test_entropy_and_divergence_at_zero():
    """0 ln 0 is 0; a slope without bound is an error at the start, not a wrong answer."""
    assert Entropy(Q).at(np.full(5, 0.0) + 1e-300).value == pytest.approx(Q.sum())
    assert KullbackLeibler(np.eye(2), [0.0, 1.0]).at(np.array([0.0, 1.0])).value == 0
    np.testing.assert_array_equal(
        KullbackLeibler(np.eye(2), [0.0, 1.0]).at(np.array([0.0, 2.0])).gradient, [1.0, 0.5]
    )
    with pytest.raises(ValueError, match="finite with a finite gradient at the starting point"):
        minimize(Entropy(Q), Simplex(5))
    with pytest.raises(ValueError, match="finite with a finite gradient at the starting point"):
        minimize(KullbackLeibler(np.eye(2), [1.0, 1.0]), Simplex(2))


def test_rays_meet_positions():
    objective = Logistic(A, LABELS)
    x, d = np.full(5, 0.1), np.arange(5.0)
    ray = objective.at(x).along(Direction(d, 0.0, None, d))
    landed, fresh = ray.land(0.3, x + 0.3 * d), objective.at(x + 0.3 * d)
    assert ray.value(0.3) == pytest.approx(fresh.value, rel=1e-14)
    assert ray.derivative(0.3) == pytest.approx(fresh.gradient @ d, rel=1e-12)
    np.testing.assert_allclose(landed.gradient, fresh.gradient, rtol=1e-12)


def test_extreme_images_are_finite_or_refused():
    far = 1e300 * np.eye(2)
    assert np.isfinite(Logistic(far, [0, 1]).at(np.array([1.0, -1.0])).value)
    with pytest.raises(ValueError, match="the objective must be finite"):
        minimize(Poisson(1e3 * np.eye(2), [1, 1]), Simplex(2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Logistic(A, np.zeros(12)), "labels must have two different values, got 1"),
        (lambda: Logistic(A, ["a", "b"]), "labels must be a vector of length 12"),
        (lambda: Huber(A, B, 0.0), "delta must be a positive"),
        (lambda: Huber(A, B[:3]), "b must be a vector of length 12"),
        (lambda: Poisson(A, -COUNTS - 1), "counts must be >= 0"),
        (lambda: KullbackLeibler(A, [np.nan] * 12), "b must be finite"),
        (lambda: KullbackLeibler(A, B), "b must be >= 0"),
        (lambda: Entropy([1.0, 0.0]), "prior must be positive"),
        (lambda: Huber(A, B, sample_weight=-W - 1), "sample_weight must be >= 0"),
        (lambda: Huber(A, B, sample_weight=[1]), "sample_weight must be a vector of length 12"),
    ],
)
def test_what_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
