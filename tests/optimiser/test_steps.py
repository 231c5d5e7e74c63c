"""Step rules on rays with known answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cornerstep import Status, minimize
from cornerstep.core.vectors import Direction
from cornerstep.domains import Ball, Simplex
from cornerstep.objectives import Quadratic, Smooth
from cornerstep.optimiser import Backtracking, Exact, OpenLoop, Short
from support.optimiser_problems import problem

X = np.array([0.5, -1.0, 2.0])
D = Direction.towards(X, np.array([1.0, 1.0, 1.0]))
HESSIAN = np.diag([1.0, 2.0, 3.0])


def _value(x: np.ndarray) -> float:
    return 0.5 * float(x @ HESSIAN @ x)


def _rays() -> list[Any]:
    """The same ray of the same quadratic, with and without its closed form."""
    smooth = Smooth(_value, lambda x: HESSIAN @ x, lipschitz=3.0)
    return [Quadratic(HESSIAN).at(X).along(D), smooth.at(X).along(D)]


def test_exact_is_the_minimum_of_the_ray() -> None:
    best = -(HESSIAN @ X @ D.dense) / (D.dense @ HESSIAN @ D.dense)
    assert 0 < best < 1
    for ray in _rays():
        assert Exact().size(ray, 1.0, 0.0) == pytest.approx(best, rel=1e-12)
        assert Exact().size(ray, best / 2, 0.0) == best / 2
        assert Exact().size(ray, 0.0, 0.0) == 0.0


def test_no_rule_that_descends_moves_uphill() -> None:
    up = Direction.away(X, np.array([1.0, 1.0, 1.0]))
    for objective in (Quadratic(HESSIAN), Smooth(_value, lambda x: HESSIAN @ x)):
        ray = objective.at(X).along(up)
        assert ray.slope > 0
        for rule in (Exact(), Short(3.0), Backtracking()):
            assert rule.size(ray, 1.0, 0.0) == 0.0


@pytest.mark.parametrize("rule", [Exact(), Short(3.0), Backtracking(), Backtracking(1.0)])
def test_no_rule_moves_along_nothing(rule: Any) -> None:
    nothing = Direction.between(X, X)
    for objective in (Quadratic(HESSIAN), Smooth(_value, lambda x: HESSIAN @ x)):
        assert rule.size(objective.at(X).along(nothing), 1.0, 0.0) == 0.0


@pytest.mark.parametrize("rule", [Exact(), Short(3.0), Backtracking(), OpenLoop()])
def test_no_room_means_no_step(rule: Any) -> None:
    for ray in _rays():
        assert rule.size(ray, 0.0, 0.0) == 0.0


def test_exact_goes_all_the_way_where_f_is_linear() -> None:
    c = np.array([1.0, 0.0, -1.0])
    for objective in (Quadratic(np.zeros((3, 3)), c), Smooth(lambda x: float(c @ x), lambda x: c)):
        ray = objective.at(X).along(Direction.towards(X, np.array([0.0, 0.0, 3.0])))
        assert Exact().size(ray, 0.7, 0.0) == 0.7


def test_exact_stays_inside_the_domain_of_f() -> None:
    """``-ln x_1 + x_1`` is not defined at the far end of the ray."""

    def value(x: np.ndarray) -> float:
        return float(x[0] - np.log(x[0])) if x[0] > 0 else math.nan

    def gradient(x: np.ndarray) -> np.ndarray:
        return np.array([1 - 1 / x[0] if x[0] > 0 else math.nan])

    start = np.array([4.0])
    ray = Smooth(value, gradient).at(start).along(Direction.towards(start, np.array([-1.0])))
    assert Exact().size(ray, 1.0, 0.0) == pytest.approx(0.6)  # x = 1


def test_exact_survives_noise_and_cliffs() -> None:
    """Derivatives of a few ulps, and a root far below the end of the ray."""

    class Ray:
        curvature = None
        direction = D

        def __init__(self, derivative: Any) -> None:
            self.derivative = derivative
            self.slope = derivative(0.0)

    rng = np.random.default_rng(0)
    for root in (1e-12, 1e-6, 0.3, 1 - 1e-9):
        noisy: Any = Ray(lambda t, root=root: t - root + 1e-17 * rng.standard_normal())
        if noisy.slope < 0:
            assert Exact().size(noisy, 1.0, 0.0) == pytest.approx(root, abs=1e-14)
        cliff: Any = Ray(lambda t, root=root: -1e-300 if t < root else 1e300)
        assert Exact().size(cliff, 1.0, 0.0) == pytest.approx(root, abs=1e-14)


def test_short_is_the_formula() -> None:
    square = float(D.dense @ D.dense)
    for ray in _rays():
        assert Short(3.0).size(ray, 1.0, 0.0) == pytest.approx(-ray.slope / (3 * square))
        assert Short(1e-9).size(ray, 1.0, 0.0) == 1.0
    rule = Short()
    rule.begin(Quadratic(HESSIAN))
    assert rule.lipschitz == pytest.approx(3.0)


def test_open_loop_is_the_formula() -> None:
    ray = _rays()[0]
    assert [OpenLoop().size(ray, 1.0, t) for t in (0, 1, 2, 6)] == [1, 2 / 3, 0.5, 0.25]
    assert OpenLoop().size(ray, 0.1, 0) == 0.1


def test_backtracking_keeps_its_promise_and_its_estimate() -> None:
    for ray in _rays():
        rule = Backtracking()
        step = rule.size(ray, 1.0, 0.0)
        assert 0 < step <= 1
        assert rule.estimate is not None
        square = float(D.dense @ D.dense)
        model = ray.value(0.0) + step * ray.slope + 0.5 * rule.estimate * step**2 * square
        assert ray.value(step) <= model
        assert rule.estimate <= 2 * 3.0  # at most `grow` times the true constant
    patient = Backtracking(1e-8)
    assert 0 < patient.size(_rays()[0], 1.0, 0.0) <= 1
    assert patient.estimate is not None
    assert patient.estimate > 0.5


@pytest.mark.parametrize(("grow", "shrink"), [(1.0, 0.9), (2.0, 0.0), (2.0, 1.1)])
def test_backtracking_factors(grow: float, shrink: float) -> None:
    with pytest.raises(ValueError, match="need grow > 1 and 0 < shrink <= 1"):
        Backtracking(grow=grow, shrink=shrink)


@pytest.mark.parametrize("step", ["exact", "short", "backtracking"])
@pytest.mark.parametrize("domain", ["simplex", "P_3", "box", "l1", "birkhoff", "polytope", "ball"])
def test_descent_rules_never_increase_the_value(step: str, domain: str) -> None:
    for objective in ("quadratic", "least-squares", "smooth", "logistic"):
        case = problem(domain, objective, "face")
        for method in ("fw", "away", "blended-pairwise"):
            result = minimize(
                case.objective, case.domain, method=method, step=step, max_iter=300, tol=1e-9
            )
            values = result.trace["value"]
            rounding = 1e-14 * (1 + np.abs(values).max())
            assert np.diff(values).max(initial=0.0) <= rounding, (objective, method)


def test_backtracking_works_under_a_large_constant() -> None:
    """f = 1e8 + something small: decreases drown in rounding long before the gap is small."""
    target = np.array([0.5, 0.3, -0.2, 0.9])
    smooth = Smooth(lambda x: 1e8 + 0.5 * (x - target) @ (x - target), lambda x: x - target)
    for method in ("away", "pairwise", "blended-pairwise", "di-away", "di-pairwise"):
        result = minimize(smooth, Simplex(4), method=method, step="backtracking", tol=1e-7)
        assert result.status is Status.PRECISION_LIMIT, method  # the value itself is that uncertain
        assert result.gap < 1e-6
        np.testing.assert_allclose(result.x, Simplex(4).project(target), atol=1e-3)


def test_steps_are_inside_their_limits_all_along() -> None:
    case = problem("ball", "quadratic", "face")
    for step in ("exact", "short", "open-loop", "backtracking"):
        result = minimize(case.objective, Ball(5, 1.5), method="fw", step=step, max_iter=200)
        steps = result.trace["step"].astype(float)
        assert math.isnan(steps[0])
        assert ((steps[1:] >= 0) & (steps[1:] <= 1)).all()
