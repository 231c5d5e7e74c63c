"""Certificates at every scale, judged in long double by formulas of their own."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from cornerstep import Status, extragradient, minimize
from cornerstep.core.matrix import Matrix
from cornerstep.core.rounding import gamma, norm, sum_error
from cornerstep.core.vectors import dense
from cornerstep.domains import (
    BalancedBox,
    Ball,
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    L1Ball,
    NuclearNormBall,
    Polytope,
    Product,
    Simplex,
)
from cornerstep.domains.base import has_oracle, reach
from cornerstep.objectives import LeastSquares, Quadratic, Smooth
from cornerstep.optimiser.minimize import METHODS
from cornerstep.saddle import Bilinear

LONG = np.longdouble


class Judge(NamedTuple):
    """A domain, ``min <g, v>`` over it and the relative violation of its constraints at x."""

    domain: Any
    least: Callable[[Any], Any]
    violation: Callable[[Any], Any]


def _cheapest(g: Any, caps: Any, total: float, at_most: bool) -> Any:
    left, out = LONG(total), LONG(0)
    for i in np.argsort(g):
        if left <= 0 or (at_most and g[i] >= 0):
            break
        amount = min(LONG(caps[i]), left)
        out, left = out + g[i] * amount, left - amount
    return out


def _pairs(g: Any, signs: Any, caps: Any) -> Any:
    sides = [
        sorted(([g[i], LONG(caps[i])] for i in np.flatnonzero(signs == sign)), key=lambda t: t[0])
        for sign in (1, -1)
    ]
    out = LONG(0)
    while all(sides) and sides[0][0][0] + sides[1][0][0] < 0:
        amount = min(sides[0][0][1], sides[1][0][1])
        out += amount * (sides[0][0][0] + sides[1][0][0])
        for side in sides:
            side[0][1] -= amount
            if side[0][1] <= 0:
                side.pop(0)
    return out


def _length(x: Any) -> Any:
    size = abs(x).max()
    return size * np.sqrt(((x / size) ** 2).sum()) if size > 0 else size


def _singular(x: Any) -> tuple[Any, Any]:
    """Both singular values of a 2 x 2 matrix."""
    size = abs(x).max() or LONG(1)
    a, b, c, d = x / size
    one, two = np.hypot(a + d, b - c), np.hypot(a - d, b + c)
    return (one + two) / 2 * size, abs(one - two) / 2 * size


def _capped(rng: Any, scale: float, kind: str) -> Judge:
    n = int(rng.integers(1, 8))
    caps = rng.uniform(0.1, 3, n).round(1) * scale
    share = 1.0 if rng.random() < 0.2 else rng.uniform(0.05, 0.99)
    total, at_most = float(share * caps.sum()), kind == "at most"
    if kind == "uneven":
        caps = np.where(rng.random(n) < 0.5, caps, caps * 1e-10)
        total = float(share * caps.sum())
    domain: Any = CappedSimplex(n, total, caps, at_most)
    if kind == "polytope":
        domain = Polytope(A_eq=np.ones((1, n)), b_eq=[total], lower=np.zeros(n), upper=caps)

    def violation(x: Any) -> Any:
        excess = x.sum() - LONG(total)
        return max((-x).max(), (x - caps).max(), excess if at_most else abs(excess)) / total

    return Judge(domain, lambda g: _cheapest(g, caps, total, at_most), violation)


def _balanced(rng: Any, scale: float) -> Judge:
    n = int(rng.integers(2, 8))
    signs = np.r_[1.0, -1.0, rng.choice([-1.0, 1.0], n - 2)]
    caps = rng.uniform(0.1, 3, n).round(1) * scale
    most = min(caps[signs > 0].sum(), caps[signs < 0].sum())
    return Judge(
        BalancedBox(signs, caps),
        lambda g: _pairs(g, signs, caps),
        lambda x: max((-x).max(), (x - caps).max(), abs((signs * x).sum())) / most,
    )


def _simple(rng: Any, scale: float, kind: str) -> Judge:
    n, r = int(rng.integers(1, 8)), float(rng.uniform(0.1, 3)) * scale
    if kind == "simplex":
        return Judge(
            Simplex(n, r),
            lambda g: g.min() * LONG(r),
            lambda x: max(-x.min(), abs(x.sum() - LONG(r))) / r,
        )
    if kind == "l1":
        return Judge(
            L1Ball(n, r), lambda g: -abs(g).max() * LONG(r), lambda x: abs(x).sum() / LONG(r) - 1
        )
    if kind == "ball":
        return Judge(
            Ball(n, r), lambda g: -_length(g) * LONG(r), lambda x: _length(x) / LONG(r) - 1
        )
    if kind == "nuclear":
        return Judge(
            NuclearNormBall((2, 2), r),
            lambda g: -_singular(g)[0] * LONG(r),
            lambda x: sum(_singular(x)) / LONG(r) - 1,
        )
    if kind == "hull":
        points = rng.standard_normal((n + 1, n)) * scale
        return Judge(
            ConvexHull(points),
            lambda g: (points.astype(LONG) @ g).min(),
            lambda x: (abs(x) - abs(points).max(axis=0)).max() / abs(points).max(),
        )
    lower = rng.standard_normal(n) * scale
    upper = lower + rng.uniform(0, 3, n) * scale
    size = np.maximum(abs(lower), abs(upper))
    return Judge(
        Box(lower, upper),
        lambda g: np.minimum(g * lower.astype(LONG), g * upper.astype(LONG)).sum(),
        lambda x: np.maximum(lower - x, x - upper).max() / size.max(),
    )


def _birkhoff() -> Judge:
    def off(x: Any) -> Any:
        matrix = x.reshape(3, 3)
        return max(-x.min(), *(abs(matrix.sum(axis=axis) - 1).max() for axis in (0, 1)))

    orders = list(itertools.permutations(range(3)))
    return Judge(
        Birkhoff(3), lambda g: min(sum(g[3 * i + p[i]] for i in range(3)) for p in orders), off
    )


SIMPLE = ("simplex", "l1", "ball", "nuclear", "hull", "box")
CAPPED = ("caps", "at most", "uneven", "polytope")
SLOW = ("fully-corrective", "di-away-schedule", "di-pairwise-schedule")  # at a tolerance of 0
KINDS = (*SIMPLE, *CAPPED, "balanced", "birkhoff", "product")


def draw(kind: str, rng: Any, scale: float) -> Judge:
    if kind in SIMPLE:
        return _simple(rng, scale, kind)
    if kind in CAPPED:
        return _capped(rng, scale, kind)
    if kind == "balanced":
        return _balanced(rng, scale)
    if kind == "birkhoff":
        return _birkhoff()
    first, second = _capped(rng, scale, "caps"), _balanced(rng, scale)
    cut = first.domain.size
    return Judge(
        Product([first.domain, second.domain]),
        lambda g: first.least(g[:cut]) + second.least(g[cut:]),
        lambda x: max(first.violation(x[:cut]), second.violation(x[cut:])),
    )


def check(result: Any, judge: Judge, f: Any, gradient: Any, proven: Any) -> None:
    """The point is inside, the value is f's, and ``value - gap`` is below what x proves."""
    x = result.x.astype(LONG)
    g = gradient(x)
    size = abs(f(x)) + abs(g) @ abs(x)
    assert judge.violation(x) <= 1e-11
    assert abs(LONG(result.value) - f(x)) <= 1e-10 * size + LONG(1e-320)
    slack = LONG(1e-19) * size + LONG(5e-324)
    assert LONG(result.value) - LONG(result.gap) <= proven(judge, x) + slack
    assert result.value - result.gap <= result.lower_bound <= result.value
    assert result.status is not Status.SOLVED or result.gap <= 1e-6


def objectives(A: Any, b: Any) -> list[tuple[Any, Any, Any, Any]]:
    """Objectives with their values, gradients and what a point proves, in long double."""
    Q, long_A, long_b = (A @ A.T).astype(LONG), A.astype(LONG), b.astype(LONG)

    def squares_prove(judge: Judge, x: Any) -> Any:
        """``f(y) >= <A'r, y> - <r, b> - 1/2 |r|²`` for any r; and f >= 0."""
        r = (A @ x.astype(float) - b).astype(LONG)
        return max(judge.least(long_A.T @ r) - r @ long_b - r @ r / 2, LONG(0))

    def quadratic_proves(judge: Judge, x: Any) -> Any:
        g = Q @ x + long_b
        return judge.least(g) - x @ (Q @ x) / 2

    return [
        (
            LeastSquares(A, b),
            lambda x: ((long_A @ x - long_b) ** 2).sum() / 2,
            lambda x: long_A.T @ (long_A @ x - long_b),
            squares_prove,
        ),
        (
            Quadratic(A @ A.T, b),
            lambda x: x @ (Q @ x) / 2 + long_b @ x,
            lambda x: Q @ x + long_b,
            quadratic_proves,
        ),
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tol", [0.0, 1e-14, 1e-6])
def test_certificates_hold_at_every_scale(kind: str, tol: float) -> None:
    for seed in range(12):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        size, scale = 10.0 ** (rng.uniform(-60, 60, 2) * rng.integers(0, 2, 2))
        judge = draw(kind, rng, scale)
        n = judge.domain.size
        A = rng.standard_normal((n, n)) * size
        b = rng.standard_normal(n) * size * (1.0 if kind == "birkhoff" else scale)
        rules = [
            name
            for name, rule in METHODS.items()
            if name not in SLOW and all(has_oracle(judge.domain, need) for need in rule.needs)
        ]
        for objective, f, gradient, proven in objectives(A, b):
            result = minimize(
                objective, judge.domain, method=str(rng.choice(rules)), tol=tol, max_iter=60
            )
            check(result, judge, f, gradient, proven)


@pytest.mark.parametrize("kind", ["caps", "at most", "uneven", "balanced", "product", "polytope"])
def test_directions_of_rounding_lead_nowhere(kind: str) -> None:
    """Where the gap asked for is below rounding, in-face vertices differ by rounding alone."""
    for seed, method in itertools.product(range(25), ("di-pairwise", "di-away")):
        rng = np.random.default_rng(seed)
        judge = draw(kind, rng, 1.0)
        Q = rng.uniform(0.1, 1) * np.eye(judge.domain.size)
        objective = Quadratic(Q, rng.standard_normal(judge.domain.size))
        result = minimize(objective, judge.domain, method=method, tol=0.0, max_iter=300)
        assert judge.violation(result.x.astype(LONG)) <= 1e-12
        assert result.status in (Status.PRECISION_LIMIT, Status.NO_PROGRESS, Status.ITERATION_LIMIT)


def test_a_point_given_as_a_capped_simplex_is_its_answer() -> None:
    caps = np.array([2.9, 0.3, 0.5, 0.1, 2.8])
    result = minimize(Quadratic(np.eye(5), -np.arange(5.0)), CappedSimplex(5, 6.6, caps), tol=0.0)
    np.testing.assert_allclose(result.x, caps, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1.0, 1e8, 1e150])
def test_gradients_of_any_size_have_a_best_vertex(scale: float) -> None:
    rng = np.random.default_rng(0)
    domain = Polytope(
        rng.standard_normal((6, 4)), np.ones(6), lower=-2 * np.ones(4), upper=2 * np.ones(4)
    )
    for _ in range(10):
        gradient = rng.standard_normal(4)
        vertex, expected = domain.lmo(scale * gradient), domain.lmo(gradient)
        assert gradient @ vertex == pytest.approx(gradient @ expected, abs=1e-12)
        error = domain.lmo_error(scale * gradient, vertex)
        assert 0 <= error <= 1e-9 * scale
        worse = expected + 0.1 * (domain.lmo(-gradient) - expected)
        lost = scale * float(gradient @ (worse - vertex))
        assert domain.lmo_error(scale * gradient, worse) == pytest.approx(lost, rel=1e-6)


def test_an_early_bound_that_was_rounding_is_not_kept() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        B = rng.standard_normal((2, 2))
        objective = Quadratic(B.T @ B + 0.1 * np.eye(2), rng.standard_normal(2))
        result = minimize(objective, Box([-1e6] * 2, [1e6] * 2))
        x: Any = np.linalg.solve(B.T @ B + 0.1 * np.eye(2), -objective.linear)
        best = objective.at(x).value
        assert result.lower_bound <= min(result.value, best + 1e-14 * abs(best))


@pytest.mark.parametrize("kind", KINDS)
def test_reach_bounds_every_vertex(kind: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        domain = draw(kind, rng, 1.0).domain
        weights = rng.uniform(0, 1, domain.size)
        x = dense(domain.lmo(rng.standard_normal(domain.size)))
        bound = reach(domain, weights, x)
        for _ in range(20):
            vertex = dense(domain.lmo(rng.standard_normal(domain.size)))
            assert weights @ np.abs(vertex - x) <= bound * (1 + 1e-12)


class OutOfBounds(Simplex):
    """A domain whose largest step is a lie."""

    def max_step(self, x: Any, d: Any) -> float:
        return 3.0


def test_what_leaves_the_domain_does_not_come_back() -> None:
    for method in ("di-away", "di-pairwise"):
        result = minimize(
            Quadratic(np.eye(3), [-9.0, 2.0, 1.0]), OutOfBounds(3), method=method, max_iter=50
        )
        assert Simplex(3).contains(result.x)
        assert result.value >= 0.5 - 9.0 - 1e-9


def test_an_oracle_that_its_domain_denies_is_named() -> None:
    domain = Simplex(3)
    outside: Any = lambda: domain.atom(0).dense() * 2  # noqa: E731
    domain.start = outside  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"Simplex\(3, radius=1\) must contain the point"):
        minimize(Quadratic(np.eye(3)), domain)


def test_the_rounding_of_a_smooth_function_shows_where_terms_cancel() -> None:
    centre = np.array([1e6 + 0.3, 1e6 + 0.2, 1e6 - 0.1])
    smooth = Smooth(
        lambda x: 0.5 * float((x + centre) @ (x + centre)) - 1.5e12,
        lambda x: (x + centre) - 1e6,
    )
    value_error, errors = smooth.errors(smooth.at(np.full(3, 1 / 3)))
    assert (errors > 0).all()
    assert value_error > 0


def test_sizes_are_those_of_the_terms() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((7, 5))
    for x in (rng.standard_normal(5), np.eye(5)[2], np.zeros(5)):
        np.testing.assert_allclose(Matrix(A, "A").sizes(x), np.abs(A) @ np.abs(x))
    r = rng.standard_normal(7)
    np.testing.assert_allclose(Matrix(A, "A").transpose_sizes(r), np.abs(A).T @ np.abs(r))
    assert norm(np.array([3e-200, 4e-200])) == pytest.approx(5e-200)
    assert norm(np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert sum_error(1.0, 10) >= gamma(10) > 10 * 2.0**-53


def test_saddle_points_hold_at_every_scale() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size, scale = 10.0 ** rng.uniform(-60, 60, 2)
        F = rng.standard_normal((3, 4)) * size
        primal, dual = Simplex(3, scale), (Simplex(4, 2.0), Box(-np.ones(4), np.ones(4)))[seed % 2]
        result = extragradient(Bilinear(F), primal, dual, tol=0.0, max_iter=200)
        F = F.astype(LONG)
        assert result.dual is not None
        w, z = result.x.astype(LONG), result.dual.astype(LONG)
        upper = 2 * (F.T @ w).max() if seed % 2 == 0 else abs(F.T @ w).sum()
        lower = (F @ z).min() * LONG(scale)
        assert LONG(result.value) - LONG(result.gap) <= lower
        assert result.value == pytest.approx(float(upper), rel=1e-12)
        assert result.lower_bound <= result.value
        assert primal.contains(result.x, 1e-12)
        assert dual.contains(result.dual, 1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e10, 1e40])
def test_projections_from_afar_are_inside(scale: float) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        judge, y = _capped(rng, 1.0, "caps"), scale * rng.standard_normal(8)
        x = judge.domain.project(y[: judge.domain.size])
        assert judge.violation(x.astype(LONG)) <= 1e-14
        near = Simplex(8).project(y)
        assert Simplex(8).contains(near, 1e-14)
        best = dense(judge.domain.lmo(-y[: judge.domain.size]))  # its limit as y goes far
        assert scale < 1e10 or np.abs(x - best).max() <= 1e-6


def _corrected_with(event: Callable[[], Any], at: int, limit: float) -> tuple[Any, int]:
    """A run whose inner steps meet an event at one gradient, and the gradients asked for in all."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((60, 40)), rng.standard_normal(60)
    calls = 0

    def gradient(x: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            event()
        return A.T @ (1 / (1 + np.exp(b - A @ x)))

    f = Smooth(lambda x: float(np.logaddexp(0, A @ x - b).sum()), gradient)
    result = minimize(f, Ball(40, 5.0), method="fully-corrective", tol=0.0, time_limit=limit)
    return result, calls


def test_a_correction_ends_with_the_time() -> None:
    result, calls = _corrected_with(lambda: time.sleep(0.6), 40, 0.5)
    assert result.status is Status.TIME_LIMIT
    assert 40 <= calls <= 50


def test_a_correction_ends_with_ctrl_c() -> None:
    result, calls = _corrected_with(lambda: signal.raise_signal(signal.SIGINT), 40, 60)
    assert result.status is Status.INTERRUPTED
    assert 40 <= calls <= 50
