"""Certificates assume a convex objective, its own gradient and an exact oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cornerstep import minimize
from cornerstep.domains import (
    Box,
    CappedSimplex,
    ConvexHull,
    L1Ball,
    Polytope,
    Product,
    Simplex,
)
from cornerstep.objectives import LeastSquares, Quadratic, Smooth, check_objective

METHODS = ("auto", "fw", "away", "pairwise", "blended-pairwise", "fully-corrective", "di-away")
DOMAINS = [
    Simplex(5), CappedSimplex(5, 2.0), Box(-np.ones(5), np.ones(5)), L1Ball(5),
    ConvexHull(np.random.default_rng(1).standard_normal((9, 5))), Product([Simplex(3), L1Ball(2)]),
]  # fmt: skip


def residuals(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((8, 5)), 3 * rng.standard_normal(8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_a_concave_quadratic_is_never_certified(method, domain):
    for Q in (-np.diag([1.0, 2, 3, 4, 5]), -np.eye(5), -np.ones((5, 5)) - np.eye(5)):
        with pytest.raises(ValueError, match="not convex"):
            minimize(Quadratic(Q), domain, method=method)
        A, _ = residuals()
        assert minimize(Quadratic(A.T @ A), domain, method=method, tol=1e-4).success


@pytest.mark.parametrize("step", ["exact", "backtracking", "open-loop"])
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("mistake", ["sign", "half", "double", "order", "shift", "dropped"])
def test_a_wrong_gradient_is_never_certified(step, domain, mistake):
    A, b = residuals()

    def gradient(x):
        right = 2 * A.T @ (A @ x - b)
        wrong = {
            "sign": -right, "half": right / 2, "double": 2 * right, "order": right[::-1].copy(),
            "shift": right + np.arange(5.0) * 4, "dropped": np.where(np.arange(5) < 3, 0, right),
        }  # fmt: skip
        return wrong[mistake]

    objective = Smooth(lambda x: float(((A @ x - b) ** 2).sum()), gradient)
    with pytest.raises(ValueError, match="gradient not its own"):
        minimize(objective, domain, method="fw", step=step, max_iter=300)
    with pytest.raises(AssertionError, match="gradient is probably wrong"):
        check_objective(objective, domain)


@pytest.mark.parametrize("step", ["exact", "backtracking"])
def test_a_concave_or_wavy_function_is_never_certified(step):
    box = Box(-np.ones(5), np.ones(5))
    wavy = Smooth(lambda x: float(np.cos(3 * x).sum()), lambda x: -3 * np.sin(3 * x))
    hill = Smooth(lambda x: -float(x @ x), lambda x: -2 * x)
    for objective in (wavy, hill):
        with pytest.raises(ValueError, match="not convex"):
            minimize(objective, box, step=step)
        with pytest.raises(AssertionError, match="convexity is probably wrong"):
            check_objective(objective, box)


class Cube:
    """Oracles of the cube of side 2, right or wrong."""

    size = 5

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def lmo(self, gradient: Any) -> Any:
        right = np.where(gradient > 0, -1.0, 1.0)
        answers: dict[str, Any] = {
            "right": right, "whole numbers": right.astype(int), "sign": -right, "lazy": np.ones(5),
            "list": right.tolist(), "long": np.ones(7), "row": right[None], "none": None,
        }  # fmt: skip
        return answers[self.kind]


@pytest.mark.parametrize("method", ["fw", "away", "pairwise", "blended-pairwise"])
@pytest.mark.parametrize("seed", range(3))
def test_an_oracle_that_does_not_minimise_is_never_certified(method, seed):
    objective = LeastSquares(*residuals(seed))
    one, other = (
        minimize(objective, Cube(kind), method=method, tol=1e-3)
        for kind in ("right", "whole numbers")
    )
    assert one.success
    assert other.value == one.value
    with pytest.raises(ValueError, match="lmo is probably wrong"):
        minimize(objective, Cube("sign"), method=method)


@pytest.mark.parametrize("method", ["fw", "away", "pairwise", "blended-pairwise"])
@pytest.mark.parametrize("kind", ["list", "long", "row", "none"])
def test_an_oracle_that_answers_no_vector_is_one_clear_error(method, kind):
    with pytest.raises(TypeError, match=r"lmo\(gradient\) must be an array of shape \(5,\)"):
        minimize(LeastSquares(*residuals()), Cube(kind), method=method)


def test_a_function_of_single_precision_is_not_accused():
    A, b = (part.astype(np.float32) for part in residuals())

    def value(x):
        return float(((A @ x.astype(np.float32) - b) ** 2).sum())

    def gradient(x):
        return (2 * A.T @ (A @ x.astype(np.float32) - b)).astype(float)

    for step in ("exact", "backtracking"):
        result = minimize(Smooth(value, gradient), Simplex(5), step=step, tol=1e-3)
        assert result.value >= result.lower_bound


def test_the_certificate_says_what_it_assumes():
    result = minimize(LeastSquares(*residuals()), Simplex(5))
    assert "if f is convex, the gradient its own and the oracle exact" in result.certificate
    assert result.certificate in result._repr_html_()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_objectives_that_are_right_pass(scale):
    A, b = residuals()
    box = Box(-scale * np.ones(5), scale * np.ones(5))
    value, gradient = (lambda x: float(((A @ x - b) ** 2).sum()), lambda x: 2 * A.T @ (A @ x - b))
    ends = np.linalg.eigvalsh(A.T @ A)[[0, -1]]
    for objective in (
        Quadratic(A.T @ A, b[:5]), LeastSquares(A, b), LeastSquares(A, b, gram=True),
        Smooth(value, gradient, lipschitz=2 * ends[1], strong_convexity=2 * ends[0]),
    ):  # fmt: skip
        check_objective(objective, box)


def test_an_objective_need_not_be_finite_on_the_boundary():
    entropy = Smooth(lambda x: float((x * np.log(x)).sum()), lambda x: np.log(x) + 1)
    barrier = Smooth(lambda x: -float(np.log(x).sum()), lambda x: -1 / x)
    for objective in (entropy, barrier):
        check_objective(objective, Simplex(5))
        result = minimize(objective, Simplex(5), x0=np.full(5, 0.2), step="backtracking")
        assert result.success


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lipschitz": 1.0}, "lipschitz is probably wrong"),
        ({"strong_convexity": 1e3}, "strong_convexity is probably wrong"),
    ],
)
def test_constants_that_are_wrong_are_named(options, message):
    A, b = residuals()
    objective = Smooth(
        lambda x: float(((A @ x - b) ** 2).sum()), lambda x: 2 * A.T @ (A @ x - b), **options
    )
    with pytest.raises(AssertionError, match=message):
        check_objective(objective, Simplex(5))


def test_sizes_must_agree():
    with pytest.raises(AssertionError, match="it is 5, that of the domain 4"):
        check_objective(LeastSquares(*residuals()), Simplex(4))


def test_a_linear_program_may_take_tiny_entries_of_the_gradient_for_zero():
    """Its tolerance is relative to the largest; that is no mistake of the oracle."""
    square = Polytope(lower=np.zeros(2), upper=1.0)
    for tiny in (1e-16, 1e-13):
        tilted = Quadratic(np.zeros((2, 2)), [1.0, -tiny])
        for x0 in ([0.0, 0.3], [0.0, 1.0], [0.5, 0.5]):
            assert minimize(tilted, square, x0=x0).success
