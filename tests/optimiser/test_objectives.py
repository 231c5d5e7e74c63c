"""Objectives: gradients, rays and constants, recomputed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from cornerstep.core.matrix import Matrix
from cornerstep.core.vectors import Direction, SparseVector
from cornerstep.objectives import LeastSquares, Quadratic, Smooth

N, M = 12, 17
RNG = np.random.default_rng(0)
A = RNG.standard_normal((M, N)) * (RNG.random((M, N)) < 0.5)
Q = A.T @ A
B, C = RNG.standard_normal(M), RNG.standard_normal(N)


def quadratic(x):
    return 0.5 * x @ Q @ x + C @ x


def squares(x):
    return 0.5 * np.sum((A @ x - B) ** 2)


def softplus(x):
    return np.logaddexp(0, A @ x).sum()


OBJECTIVES: dict[str, tuple[Any, Any]] = {
    "quadratic": (Quadratic(Q, C), quadratic),
    "quadratic csr": (Quadratic(sp.csr_array(Q), C), quadratic),
    "quadratic operator": (Quadratic(aslinearoperator(Q), C), quadratic),
    "quadratic of its own": (Quadratic(Matrix(Q, "Q", symmetric=True), C), quadratic),
    "squares": (LeastSquares(A, B), squares),
    "squares csr": (LeastSquares(sp.csr_array(A), B), squares),
    "squares operator": (LeastSquares(aslinearoperator(A), B), squares),
    "squares gram": (LeastSquares(A, B, gram=True), squares),
    "squares csr gram": (LeastSquares(sp.csr_array(A), B, gram=True), squares),
    "smooth": (
        Smooth(softplus, lambda x: A.T @ (1 / (1 + np.exp(-A @ x))), lipschitz=1.0),
        softplus,
    ),
}  # fmt: skip
every_objective = pytest.mark.parametrize(
    ("objective", "function"), OBJECTIVES.values(), ids=OBJECTIVES
)


def directions(x, rng):
    sparse_v = SparseVector([1, 7], [0.5, 2.0], N)
    sparse_u = SparseVector([1, 3], [0.5, -1.0], N)
    many = SparseVector(rng.permutation(N)[:9], rng.standard_normal(9), N)
    dense_v = rng.standard_normal(N)
    for v in (sparse_v, many, dense_v):
        yield Direction.towards(x, v)
        yield Direction.away(x, v)
        yield Direction.between(v, sparse_u)
    yield Direction.inside(slice(3, 8), rng.standard_normal(5), N)


@every_objective
def test_value_and_gradient(objective, function):
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(N)
        position = objective.at(x)
        assert position.x is x
        assert position.value == pytest.approx(function(x), rel=1e-12)
        np.testing.assert_allclose(
            position.gradient, approx_fprime(x, function, 1e-7), rtol=1e-5, atol=1e-5
        )


@every_objective
def test_rays_agree_with_recomputation(objective, function):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(N)
    position = objective.at(x)
    for direction in directions(x, rng):
        d, ray = direction.dense, position.along(direction)
        assert ray.direction is direction
        assert ray.slope == pytest.approx(position.gradient @ d, rel=1e-12)
        if ray.curvature is not None:
            assert ray.curvature == pytest.approx(d @ Q @ d, rel=1e-10)
        for step in (0.0, 0.3, 1.0):
            there = objective.at(x + step * d)
            landed = ray.land(step, x + step * d)
            assert ray.value(step) == pytest.approx(function(x + step * d), rel=1e-10)
            assert ray.derivative(step) == pytest.approx(there.gradient @ d, rel=1e-9, abs=1e-11)
            assert landed.value == pytest.approx(there.value, rel=1e-10)
            np.testing.assert_allclose(landed.gradient, there.gradient, rtol=1e-9, atol=1e-11)
            np.testing.assert_array_equal(landed.x, x + step * d)


@every_objective
def test_a_ray_changes_nothing_it_was_given(objective, function):
    rng = np.random.default_rng(2)
    x = rng.standard_normal(N)
    position = objective.at(x)
    kept = x.copy(), position.value, position.gradient.copy()
    for direction in directions(x, rng):
        d, values = direction.dense.copy(), direction.values.copy()
        position.along(direction).land(0.5, x + 0.5 * d)
        np.testing.assert_array_equal(direction.dense, d)
        np.testing.assert_array_equal(direction.values, values)
    for before, after in zip(kept, (x, position.value, position.gradient), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("build", [Quadratic, lambda A: LeastSquares(A, np.ones(4))])
def test_an_operator_that_answers_with_its_argument(build):
    identity = LinearOperator((4, 4), matvec=lambda x: x, rmatvec=lambda x: x, dtype=float)
    x, v = np.full(4, 0.25), np.eye(4)[0]
    ray = build(identity).at(x).along(Direction.towards(x, v))
    np.testing.assert_array_equal(v, np.eye(4)[0])
    assert ray.curvature == pytest.approx(np.sum((v - x) ** 2))


def test_a_long_walk_keeps_its_value_and_gradient():
    """Positions move by updates; a thousand of them stay at rounding of the truth."""
    for name, (objective, function) in OBJECTIVES.items():
        rng = np.random.default_rng(3)
        x = rng.random(N)
        position = objective.at(x)
        for _ in range(1000):
            v = SparseVector([rng.integers(N)], [1.0], N)
            direction = Direction.towards(position.x, v)
            step = 0.1 * rng.random()
            position = position.along(direction).land(step, position.x + step * direction.dense)
        assert position.value == pytest.approx(function(position.x), rel=1e-10), name
        np.testing.assert_allclose(
            position.gradient, objective.at(position.x).gradient, atol=1e-11, err_msg=name
        )


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "smooth"])
def test_constants_are_eigenvalues(name):
    objective, _ = OBJECTIVES[name]
    eigenvalues = np.linalg.eigvalsh(Q)
    assert objective.lipschitz == pytest.approx(eigenvalues[-1], rel=1e-9)
    if name == "squares operator":
        assert objective.strong_convexity is None
    else:
        assert objective.strong_convexity == pytest.approx(eigenvalues[0], rel=1e-6)


def test_flat_directions_have_no_strong_convexity():
    wide = A[:5]
    for form in (np.asarray, sp.csr_array, aslinearoperator):
        assert LeastSquares(form(wide), B[:5]).strong_convexity == 0.0
    for form in (np.asarray, sp.csr_array, aslinearoperator):
        singular = Quadratic(form(wide.T @ wide))
        assert 0.0 <= singular.strong_convexity <= 1e-9
    assert Quadratic([[0.0]]).lipschitz == 0.0


def test_linear_term_defaults_to_zero():
    x = np.arange(3.0)
    position = Quadratic(np.eye(3)).at(x)
    assert position.value == 2.5
    np.testing.assert_array_equal(position.gradient, x)


REFUSED = {
    "Q asymmetric": (lambda: Quadratic([[1.0, 2.0], [0.0, 1.0]]), "Q must be symmetric"),
    "Q sparse asymmetric": (
        lambda: Quadratic(sp.csr_array([[1.0, 2.0], [0.0, 1.0]])), "Q must be symmetric"),
    "Q NaN": (lambda: Quadratic([[np.nan]]), "Q must be finite"),
    "Q wide": (lambda: Quadratic(np.ones((2, 3))), "Q must be square"),
    "Q vector": (lambda: Quadratic(np.ones(3)), "Q must have two dimensions"),
    "c long": (lambda: Quadratic(np.eye(2), [1, 2, 3]), "c must be a vector of length 2"),
    "c NaN": (lambda: Quadratic(np.eye(2), [1, np.nan]), "c must be finite"),
    "A infinite": (lambda: LeastSquares([[np.inf]], [1]), "A must be finite"),
    "A sparse NaN": (lambda: LeastSquares(sp.csr_array([[np.nan]]), [1]), "A must be finite"),
    "b short": (lambda: LeastSquares(A, B[1:]), f"b must be a vector of length {M}"),
    "b matrix": (lambda: LeastSquares(A, B[:, None]), f"b must be a vector of length {M}"),
    "b NaN": (lambda: LeastSquares([[1.0]], [np.nan]), "b must be finite"),
    "gram operator": (
        lambda: LeastSquares(aslinearoperator(A), B, gram=True), "Gram matrix of a LinearOperator"),
    "lipschitz": (lambda: Smooth(softplus, softplus, lipschitz=0), "lipschitz must be positive"),
    "gradient shape": (
        lambda: Smooth(softplus, lambda x: x[1:]).at(C),
        r"gradient must return an array of shape \(12,\), got shape \(11,\)"),
    "gradient number": (
        lambda: Smooth(softplus, softplus).at(C), r"gradient must return.*got shape \(\)"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED)
def test_value_error_names_the_argument(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_smooth_takes_functions():
    with pytest.raises(TypeError, match="gradient must be a function of x, got 3"):
        Smooth(softplus, cast(Any, 3))
    with pytest.raises(TypeError, match="value must be a function of x, got None"):
        Smooth(cast(Any, None), softplus)
