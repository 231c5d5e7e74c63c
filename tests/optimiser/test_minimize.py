"""minimize: every combination that is allowed is right, and what is not allowed says so."""

from __future__ import annotations

from contextlib import suppress
from itertools import permutations
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cornerstep import Status, minimize
from cornerstep.domains import BalancedBox, Box, ConvexHull, L1Ball, Polytope, Product, Simplex
from cornerstep.domains.base import has_oracle
from cornerstep.objectives import LeastSquares, Quadratic, Smooth
from cornerstep.optimiser import AwaySchedule, Block, FullyCorrective, RandomizedAway
from cornerstep.optimiser.interior import can_follow
from cornerstep.optimiser.minimize import METHODS
from cornerstep.optimiser.steps import STEPS
from support.optimiser_problems import (
    DOMAINS,
    ROUND,
    OracleOnly,
    Problem,
    domain_of,
    problem,
    random_vertices,
)

# The schedules have tests of their own: their rate is that of the worst case.
LINE_SEARCH_METHODS = [name for name, method in METHODS.items() if not method.own_step]


def _allowed(method: str, domain: str, objective: str = "quadratic") -> bool:
    if method in ("interior-point", "projected-cg") and objective in ("smooth", "logistic"):
        return False
    return all(has_oracle(domain_of(domain), name) for name in METHODS[method].needs)


COMBINATIONS = [
    (method, step, domain)
    for method in LINE_SEARCH_METHODS
    for step in METHODS[method].steps or STEPS
    for domain in DOMAINS
    if _allowed(method, domain)
]


def check_certificate(result: Any, problem: Problem) -> None:
    """The numbers of a result against numbers computed elsewhere."""
    value = problem.function(result.x)
    assert result.value == pytest.approx(value, rel=1e-11, abs=1e-11)
    gap = max(problem.gap(result.x), 0.0)
    # with its rounding, and what the bound of a linear program proves less than its answer says
    more = 1e-7 if isinstance(problem.domain, Polytope) else 1e-10
    assert gap * (1 - 1e-9) - 1e-11 <= result.gap <= gap * (1 + 1e-9) + more
    assert value - problem.optimum <= result.gap + 1e-9
    assert result.lower_bound <= problem.optimum + 1e-9
    assert result.lower_bound >= result.value - result.gap
    if has_oracle(problem.domain, "contains"):
        cheap = getattr(problem.domain, "cheap_contains", True)  # else a program says so, to 1e-10
        assert problem.domain.contains(result.x, 1e-12 if cheap else 1e-9)
    if result.active_set is not None:
        weights = result.active_set.weights
        assert weights.min() > 0
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(result.active_set.point(), result.x, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("method", "step", "domain"), COMBINATIONS)
def test_every_combination_reaches_the_optimum(method: str, step: str, domain: str) -> None:
    # FW directions alone are O(1/t) towards an optimum on a face, but linear towards one inside;
    # on a round domain with a flat part (nuclear) that is so for every method.
    sublinear = method in ("fw", "block") or domain == "nuclear"
    # The gap of the open loop is about curvature * diameter² / t wherever the optimum is.
    scale = 2e-4 if step == "open-loop" else 1.0
    for objective in ("quadratic", "least-squares", "gram", "smooth", "logistic"):
        if not _allowed(method, domain, objective):
            continue
        case = problem(domain, objective, "interior" if sublinear else "face", scale)
        result = minimize(
            case.objective, case.domain, method=method, step=step, tol=1e-6, random_state=0
        )
        assert result.status is Status.SOLVED, (objective, result)
        assert result.gap <= 1e-6
        assert case.function(result.x) - case.optimum <= 1e-6
        assert (result.method, result.step) == (method, step)
        check_certificate(result, case)


@pytest.mark.parametrize("domain", [d for d in DOMAINS if d.startswith("product")])
@pytest.mark.parametrize("order", ["permuted", "uniform", "gap"])
@pytest.mark.parametrize("direction", ["away", "pairwise"])
@pytest.mark.parametrize("step", ["exact", "short", "backtracking"])
def test_blocks_reach_an_optimum_on_a_face(
    domain: str, order: str, direction: str, step: str
) -> None:
    for objective in ("quadratic", "least-squares", "smooth", "logistic"):
        case = problem(domain, objective, "face")
        rule = Block(order, direction)
        result = minimize(case.objective, case.domain, method=rule, step=step, random_state=0)
        assert result.success
        check_certificate(result, case)


@pytest.mark.parametrize("method", LINE_SEARCH_METHODS)
def test_the_certificate_holds_wherever_the_run_ends(method: str) -> None:
    for domain in DOMAINS:
        for objective in ("quadratic", "smooth"):
            if not _allowed(method, domain, objective):
                continue
            case = problem(domain, objective, "face")
            for max_iter in (0, 1, 2, 3, 5, 8, 13, 21, 34):
                result = minimize(
                    case.objective, case.domain, method=method, max_iter=max_iter, tol=1e-9,
                    random_state=max_iter,
                )  # fmt: skip
                assert result.n_iter <= max_iter
                check_certificate(result, case)


@given(
    target=arrays(np.float64, 6, elements=st.floats(-3, 3, width=32)),
    method=st.sampled_from([m for m in METHODS if m not in ("block", "projected-cg")]),
    max_iter=st.integers(0, 40),
    vertex=st.integers(0, 5),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_certificate_holds_on_any_projection(
    target: np.ndarray, method: str, max_iter: int, vertex: int
) -> None:
    """``1/2 |x - target|²`` on the simplex: the optimum is a projection, known in closed form."""
    domain = Simplex(6)
    best = domain.project(target)

    def f(x: np.ndarray) -> float:
        return 0.5 * float((x - target) @ (x - target))

    result = minimize(
        LeastSquares(np.eye(6), target), domain, method=method, max_iter=max_iter,
        x0=np.eye(6)[vertex], random_state=0,
    )  # fmt: skip
    assert domain.contains(result.x, 1e-12)
    assert result.value == pytest.approx(f(result.x), abs=1e-12)
    assert f(result.x) - f(best) <= result.gap + 1e-12
    assert result.lower_bound <= f(best) + 1e-12
    # Strong convexity: the certificate bounds the distance, too.
    assert 0.5 * np.sum((result.x - best) ** 2) <= result.gap + 1e-12


def test_auto_takes_second_order_methods_and_cheap_faces() -> None:
    expected = {"birkhoff", "hull", "polytope", "flow", "own", *ROUND}
    for domain in DOMAINS:
        case = problem(domain, "quadratic", "interior")
        for step in ("exact", "short"):
            result = minimize(case.objective, case.domain, step=step)
            assert result.success
            blended = domain in expected
            if step == "exact":
                several = has_oracle(case.domain, "lmo_many")
                follows = not several and can_follow(case.objective, case.domain)
                wanted = "interior-point" if follows else "fully-corrective"
                wanted = "projected-cg" if domain in ("box", "cube") else wanted
                assert result.method == wanted, domain
            else:
                assert result.method == ("blended-pairwise" if blended else "di-pairwise"), domain


@pytest.mark.parametrize("method", ["fw", "away", "pairwise", "blended-pairwise", "auto"])
def test_a_domain_of_ones_own_needs_size_and_lmo_only(method: str) -> None:
    case = problem("own", "quadratic", "interior")
    ours = problem("own", "quadratic", "interior")
    ours.domain = Simplex(6)
    result = minimize(case.objective, case.domain, method=method)
    reference = minimize(ours.objective, ours.domain, method=method)
    assert result.success
    assert result.value == pytest.approx(reference.value, abs=1e-6)
    check_certificate(result, case)


class _Half:
    """Half of the exact step on a quadratic: still descends."""

    monotone = True

    def size(self, ray: Any, max_step: float, time: float) -> float:
        return min(max(-0.5 * ray.slope / ray.curvature, 0.0), max_step) if ray.curvature else 0.0


@pytest.mark.parametrize("method", ["fw", "away", "pairwise", "blended-pairwise", "di-pairwise"])
def test_a_step_of_ones_own(method: str) -> None:
    case = problem("simplex", "quadratic", "interior")
    result = minimize(case.objective, case.domain, method=method, step=_Half())
    assert result.success
    assert result.step == "_Half"
    check_certificate(result, case)


class _Full:
    """Always as far as possible: mostly a bad idea, which the certificate must survive."""

    def size(self, ray: Any, max_step: float, time: float) -> float:
        return max_step


@pytest.mark.parametrize(
    "method", [m for m in LINE_SEARCH_METHODS if m not in ("block", "projected-cg")]
)
def test_the_certificate_survives_any_step_rule(method: str) -> None:
    case = problem("simplex", "quadratic", "face")
    for max_iter in range(12):
        result = minimize(
            case.objective, case.domain, method=method, step=_Full(), max_iter=max_iter,
            random_state=0,
        )  # fmt: skip
        check_certificate(result, case)


# ---------------------------------------------------------------------------- starting points


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("place", ["vertex", "face", "inside"])
def test_x0_is_used_and_never_changed(domain: str, place: str) -> None:
    case = problem(domain, "quadratic", "interior" if domain == "nuclear" else "face")
    count = {"vertex": 1, "face": 2, "inside": 30}[place]
    x0 = random_vertices(case.domain, count, seed=3).mean(axis=0)
    kept = x0.copy()
    for method in LINE_SEARCH_METHODS:
        if not _allowed(method, domain) or (method == "block" and domain != "product-grid"):
            continue
        start = minimize(case.objective, case.domain, method=method, x0=x0, max_iter=0)
        np.testing.assert_allclose(start.x, x0, rtol=0, atol=1e-14)
        rule: Any = Block(direction="pairwise") if method == "block" else method
        result = minimize(case.objective, case.domain, method=rule, x0=x0, random_state=0)
        np.testing.assert_array_equal(x0, kept)
        if method != "fw":  # sublinear on a face
            assert result.success, method
        check_certificate(result, case)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_warm_start_from_the_solution_is_done_at_once(domain: str) -> None:
    case = problem(domain, "quadratic", "interior")
    cold = minimize(case.objective, case.domain)
    for method in LINE_SEARCH_METHODS:
        if _allowed(method, domain):
            warm = minimize(case.objective, case.domain, method=method, x0=cold.x)
            assert warm.success
            assert warm.n_iter == 0
            np.testing.assert_allclose(warm.x, cold.x, rtol=0, atol=1e-13)


def test_a_domain_that_is_a_point_is_solved_to_rounding() -> None:
    for method in METHODS:
        needed = {"block": Product([Simplex(1)]), "projected-cg": Box([1.0], 1.0)}
        domain: Any = needed.get(method, Simplex(1))
        result = minimize(Quadratic(np.eye(1)), domain, method=method, tol=0.0)
        assert result.status is Status.PRECISION_LIMIT
        assert result.n_iter == 0
        assert result.value == 0.5
        assert 0 < result.gap < 1e-14


# ------------------------------------------------------------------------------------- errors

OBJECTIVE = Quadratic(np.eye(3), [-0.2, -0.7, 0.1])
DOMAIN = Simplex(3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1e-3}, "tol must be a number >= 0, got -0.001"),
        ({"tol": float("nan")}, "tol must be"),
        ({"tol": "tiny"}, "tol must be a number >= 0, got 'tiny'"),
        ({"rtol": -1}, "rtol must be"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0, got -1"),
        ({"max_iter": 2.5}, "max_iter must be an integer"),
        ({"max_iter": None}, "max_iter must be an integer"),
        ({"max_iter": float("inf")}, "max_iter must be an integer"),
        ({"time_limit": -0.1}, "time_limit must be seconds >= 0 or None, got -0.1"),
        ({"time_limit": "1 s"}, "time_limit must be"),
        ({"verbose": 3}, "verbose must be 0, 1 or 2, got 3"),
        ({"method": "newton"}, "method must be one of auto, fw, away.*got 'newton'"),
        ({"step": "long"}, "step must be one of exact, short, backtracking .*got 'long'"),
        ({"method": "away", "step": "open-loop"}, "step must be one of .*method='away'"),
        ({"method": "fully-corrective", "step": "short"}, "step must be one of exact for"),
        ({"method": "di-away-schedule", "step": "short"}, "is its own step rule; leave out"),
        ({"method": "block"}, r"method='block' needs, and Simplex\(3.* lacks, a product structure"),
        ({"x0": np.ones(4) / 4}, r"x0 must have shape \(3,\), got \(4,\)"),
        ({"x0": np.ones((3, 1)) / 3}, r"x0 must have shape \(3,\), got \(3, 1\)"),
        ({"x0": ([[0.2, 0.2, 0.2]], [1.0])}, "x0 must have atoms in the domain, Simplex"),
        ({"x0": [1.0, np.nan, 0.0]}, "x0 must be finite"),
        ({"x0": [0.5, 0.5, 0.0], "method": "di-away-schedule"}, "x0 must be a vertex"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minimize(OBJECTIVE, DOMAIN, **options)


@pytest.mark.parametrize(
    ("objective", "domain", "options", "message"),
    [
        (lambda x: 0.0, DOMAIN, {}, "objective must be one of cornerstep.objectives"),
        (OBJECTIVE, np.eye(3), {}, r"domain must have size and lmo\(gradient\)"),
        (OBJECTIVE, Simplex, {}, "domain must have size and lmo"),
        (OBJECTIVE, DOMAIN, {"method": 3}, "method must be a name or a Method, got 3"),
        (OBJECTIVE, DOMAIN, {"step": 0.1}, "step must be a name or have size"),
    ],
)
def test_wrong_types_are_named(
    objective: Any, domain: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        minimize(objective, domain, **options)


def test_sizes_must_agree() -> None:
    with pytest.raises(ValueError, match="the same size, got 3 and 4"):
        minimize(OBJECTIVE, Simplex(4))


@pytest.mark.parametrize(
    ("method", "missing"),
    [
        ("di-away", ["in_face_lmo", "max_step"]),
        ("di-pairwise", ["in_face_lmo", "max_step"]),
        ("di-away-schedule", ["diameter", "facial_constant", "grid"]),
        ("randomized-away", ["n_atoms", "atom_scores"]),
        ("block", ["blocks"]),
    ],
)
def test_what_a_domain_lacks_is_named(method: str, missing: list[str]) -> None:
    with pytest.raises(ValueError, match=f"method='{method}' needs") as error:
        minimize(Quadratic(np.eye(4)), OracleOnly(4), method=method)
    assert all(name in str(error.value) for name in missing)


@pytest.mark.parametrize("direction", ["away", "pairwise"])
def test_block_says_what_a_factor_lacks(direction: str) -> None:
    domain = Product([Simplex(2), OracleOnly(2)])
    with pytest.raises(ValueError, match=f"direction='{direction}' needs an in-face oracle"):
        minimize(Quadratic(np.eye(4)), domain, method=Block(direction=direction))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Block("sorted"), "order must be one of permuted, uniform, gap, got 'sorted'"),
        (lambda: Block(direction="up"), "direction must be one of fw, away, pairwise"),
        (lambda: RandomizedAway(0), "sample_size must be an integer >= 1"),
        (lambda: RandomizedAway(cast(Any, 1.5)), "sample_size must be an integer"),
        (lambda: RandomizedAway(1, full_every=0), "full_every must be an integer >= 1"),
        (lambda: FullyCorrective(accuracy=1.0), "accuracy must be between 0 and 1"),
    ],
)
def test_bad_method_options_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_schedules_ask_for_the_constants_they_need() -> None:
    flat = LeastSquares(np.ones((1, 3)), [0.0])  # not strongly convex
    with pytest.raises(ValueError, match="needs a positive strong_convexity, got 0"):
        minimize(flat, DOMAIN, method="di-away-schedule")
    unknown = Smooth(lambda x: float(0.5 * x @ x), lambda x: x, strong_convexity=1.0)
    with pytest.raises(ValueError, match="needs a positive lipschitz, got None"):
        minimize(unknown, DOMAIN, method="di-pairwise-schedule")
    rule = AwaySchedule(strong_convexity=1.0, lipschitz=1.0)
    assert minimize(unknown, DOMAIN, method=rule, max_iter=3).n_iter == 3


@pytest.mark.parametrize("answer", [float("nan"), -0.5])
def test_a_step_rule_must_answer_a_step(answer: float) -> None:
    class Wrong:
        def size(self, ray: Any, max_step: float, time: float) -> float:
            return answer

    with pytest.raises(ValueError, match=f"must answer a number >= 0, got {answer}"):
        minimize(OBJECTIVE, DOMAIN, method="fw", step=Wrong())


def test_short_needs_a_lipschitz_constant() -> None:
    with pytest.raises(ValueError, match="needs a Lipschitz constant"):
        minimize(Smooth(lambda x: float(0.5 * x @ x), lambda x: x), DOMAIN, step="short")


def test_methods_and_steps_are_copied() -> None:
    """A method or step object serves many runs; none of them leaves anything in it."""
    rule = RandomizedAway(sample_size=2)
    case = problem("l1", "quadratic", "face")
    first = minimize(case.objective, L1Ball(6, 1.5), method=rule, random_state=1)
    second = minimize(case.objective, L1Ball(6, 1.5), method=rule, random_state=1)
    np.testing.assert_array_equal(first.x, second.x)
    assert vars(rule) == {"sample_size": 2, "full_every": None}


def test_numpy_numbers_are_numbers() -> None:
    numbers: dict[str, Any] = {
        "tol": np.float32(1e-3), "rtol": np.int64(0), "max_iter": np.int32(50)
    }  # fmt: skip
    assert minimize(OBJECTIVE, DOMAIN, **numbers).success


def test_rtol_is_relative_to_the_value() -> None:
    objective = Quadratic(1e6 * np.eye(5), 1e6 * np.linspace(-1, 1, 5))
    domain = Box(-2 * np.ones(5), 2.0)
    result = minimize(objective, domain, tol=0.0, rtol=1e-4, method="fw")
    assert result.success
    assert 0 < result.gap <= 1e-4 * abs(result.value)


def test_an_objective_may_add_columns_to_the_trace():
    class Counting(Quadratic):
        extra_columns = ("positions", "twice")
        count = 0

        def at(self, x):
            self.count += 1
            return super().at(x)

        def extra(self):
            return self.count, 2 * self.count

    objective = Counting(np.eye(4), -np.arange(4.0))
    trace = minimize(objective, Simplex(4)).trace
    assert trace.columns[-2:] == ("positions", "twice")
    assert trace["positions"][0] == 1
    assert trace["positions"][-1] == objective.count
    assert (trace["twice"] == 2 * trace["positions"]).all()


METHODS_OF_FACES = [name for name in METHODS if name.startswith("di-") and "schedule" not in name]


@pytest.mark.parametrize("method", ["pairwise", *METHODS_OF_FACES])
@pytest.mark.parametrize("seed", range(10))
def test_long_runs_do_not_leave_a_polytope(method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    middle = rng.uniform(0.2, 0.8, n)
    A, b = rng.standard_normal((n, n)), 3 * rng.standard_normal(n)
    domain = Polytope(A, A @ middle + 0.1, np.ones((1, n)), [middle.sum()], np.zeros(n), 1.0)
    objective = Smooth(lambda x: float(((x - b) ** 4).sum()), lambda x: 4 * (x - b) ** 3)
    result = minimize(objective, domain, method=method, tol=0.0, max_iter=500)
    assert domain.contains(result.x, 1e-12)
    assert result.gap <= 1e-6 * result.value, "and none is stopped by its rounding"


@pytest.mark.parametrize("method", LINE_SEARCH_METHODS)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_gap_beyond_float64_claims_nothing(method: str, order: tuple[int, ...]) -> None:
    box = BalancedBox(np.array([1.0, -1.0, -1.0])[list(order)], np.full(3, 3e149))
    domain: Any = Product([box]) if method == "block" else box
    if not all(has_oracle(domain, name) for name in METHODS[method].needs):
        return
    for linear in ([1e164, -3e164, -6e163], [1e164, 2e164, -3e164], [-1e164, -1e164, 0.0]):
        objective = Quadratic(np.zeros((3, 3)), np.array(linear)[list(order)])
        result = minimize(objective, domain, method=method, tol=0.0)
        assert result.value == 0
        assert result.gap == np.inf
        assert result.lower_bound == -np.inf
        assert not result.success


@pytest.mark.parametrize("method", LINE_SEARCH_METHODS)
@pytest.mark.parametrize("size", [1e-305, 1e-200, 1e-150, 1e150, 1e200, 1e305])
def test_numbers_at_the_ends_of_float64_raise_no_warning(method: str, size: float) -> None:
    rng = np.random.default_rng(0)
    B = rng.standard_normal((3, 3))
    objectives: list[Any] = [
        Quadratic(B.T @ B * weight, rng.standard_normal(3) * other)
        for weight in (1.0, size, 1 / size)
        for other in (1.0, size)
    ]
    objectives += [LeastSquares(B * weight, B[0] * size) for weight in (1.0, size)]
    answers = []
    for objective in objectives:
        for domain in (Simplex(3, size), Box(np.zeros(3), size), BalancedBox([1, 1, -1], size)):
            whole: Any = Product([domain]) if method == "block" else domain
            if not all(has_oracle(whole, name) for name in METHODS[method].needs):
                continue
            with np.errstate(all="raise"), suppress(ValueError):  # values beyond are refused
                result = minimize(objective, whole, method=method, tol=0.0, max_iter=20)
                answers.append((result, whole))
    for result, whole in answers:
        assert np.isfinite(result.value)
        assert result.gap >= 0
        assert whole.contains(result.x)


@pytest.mark.parametrize("method", METHODS_OF_FACES)
@pytest.mark.parametrize("seed", range(6))
def test_a_run_does_not_depend_on_those_before_it(method: str, seed: int) -> None:
    points = np.random.default_rng(seed).standard_normal((15, 6))
    A, b, middle = points[:8], points[8:, 0].repeat(2)[:8], points.mean(axis=0)
    objective = LeastSquares(A * 10.0 ** np.arange(-3, 3), b)
    for make in (
        lambda: ConvexHull(points),
        lambda: Polytope(A, A @ middle + 1, None, None, middle - 1, middle + 1),
    ):
        used = make()
        minimize(Quadratic(np.eye(6), points[9]), used, method="di-away", max_iter=50)
        first, second = (
            minimize(objective, domain, method=method, step="short", tol=0.0, max_iter=200)
            for domain in (used, make())
        )
        np.testing.assert_array_equal(first.x, second.x)
