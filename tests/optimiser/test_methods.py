"""Direction rules: rates, schedules, samples, blocks, and drops."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import Status, minimize
from cornerstep.core.vectors import dense
from cornerstep.domains import (
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    L1Ball,
    Polytope,
    Product,
    Simplex,
)
from cornerstep.domains.base import has_oracle
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.optimiser import (
    AwaySchedule,
    Block,
    FullyCorrective,
    Iterate,
    OpenLoop,
    PairwiseSchedule,
    RandomizedAway,
)
from cornerstep.optimiser.minimize import METHODS
from support.optimiser_problems import DOMAINS, domain_of, problem

LINEAR = ["away", "pairwise", "blended-pairwise", "fully-corrective", "di-away", "di-pairwise"]


# -------------------------------------------------------------------------------------- rates


def _projection(n: int = 40) -> tuple[LeastSquares, CappedSimplex]:
    """Well conditioned, with the optimum in the relative interior of a face."""
    rng = np.random.default_rng(2)
    A = np.vstack([np.eye(n), 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)])
    return LeastSquares(A, A @ (0.6 * rng.standard_normal(n))), CappedSimplex(n, 5)


def _gaps(method: str, tol: float, max_iter: int) -> np.ndarray:
    """The best gap so far, by iteration."""
    objective, domain = _projection()
    trace = minimize(objective, domain, method=method, tol=tol, max_iter=max_iter).trace
    return np.minimum.accumulate(trace["gap"])


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("method", LINEAR)
def test_linear_convergence_to_a_face(method: str) -> None:
    gaps = _gaps(method, tol=1e-11, max_iter=3000)
    assert gaps[-1] <= 1e-11
    late = gaps[gaps.size // 4 :]
    late = late[late > 0]
    t = np.arange(late.size) + gaps.size // 4
    rate = np.polyfit(t, np.log(late), 1)[0]
    assert rate < -0.005  # a factor of ten in 460 iterations at the least
    if late.size > 20:
        assert _correlation(t, np.log(late)) < -0.95


def test_frank_wolfe_is_sublinear_on_the_same_problem() -> None:
    gaps = _gaps("fw", tol=0.0, max_iter=3000)
    assert gaps[-1] > 1e-6
    t = np.arange(300, gaps.size)
    order = np.polyfit(np.log(t), np.log(gaps[300:]), 1)[0]
    assert -1.6 < order < -0.6  # about 1/t
    assert _correlation(np.log(t), np.log(gaps[300:])) < -0.98
    rate = np.polyfit(t, np.log(gaps[300:]), 1)[0]
    assert rate > -0.002


# ------------------------------------------------------------------------------ down to rounding


@pytest.mark.parametrize("method", [m for m in METHODS if not METHODS[m].own_step])
@pytest.mark.parametrize("kind", ["face", "vertex", "smooth"])
def test_a_tolerance_of_zero_ends_at_rounding(method: str, kind: str) -> None:
    """Near machine precision directions are noise: the point must stay inside, and the run end."""
    for name in DOMAINS:
        domain = domain_of(name)
        if not all(has_oracle(domain, need) for need in METHODS[method].needs):
            continue
        if method in ("interior-point", "projected-cg") and kind == "smooth":
            continue
        rng = np.random.default_rng(DOMAINS.index(name))
        objective: Any = Quadratic(1e-3 * np.eye(domain.size), rng.standard_normal(domain.size))
        if kind != "vertex":
            case = problem(name, "quadratic" if kind == "face" else "smooth", "face")
            objective = case.objective
        rule: Any = Block(direction="pairwise") if method == "block" else method
        result = minimize(objective, domain, method=rule, tol=0.0, max_iter=2000, random_state=0)
        if has_oracle(domain, "contains"):
            assert domain.contains(result.x, 1e-9), name
        if result.active_set is not None:
            np.testing.assert_allclose(result.active_set.point(), result.x, rtol=0, atol=1e-12)
            assert result.active_set.weights.min() > 0
        if method != "fw" and name != "nuclear":
            assert result.status in (Status.PRECISION_LIMIT, Status.NO_PROGRESS), (name, result)
            assert 0 < result.gap <= 1e-9, (name, result)


def test_a_tiny_tolerance_on_a_generic_problem_is_beyond_precision() -> None:
    case = problem("simplex", "quadratic", "interior")
    for method in (*LINEAR, "fw"):
        result = minimize(case.objective, case.domain, method=method, tol=1e-300, max_iter=5000)
        assert result.status is Status.PRECISION_LIMIT, method
        assert 0 < result.gap < 1e-13


# -------------------------------------------------------------------------------------- drops


@pytest.mark.parametrize("method", ["away", "pairwise", "blended-pairwise", "randomized-away"])
def test_dropped_atoms_leave_the_active_set(method: str) -> None:
    rng = np.random.default_rng(0)
    objective = LeastSquares(rng.standard_normal((60, 30)), rng.standard_normal(60))
    sizes = []
    for max_iter in range(60):
        result = minimize(
            objective, L1Ball(30, 0.6), method=method, max_iter=max_iter, tol=1e-9, random_state=0
        )
        assert result.active_set is not None
        sizes.append(len(result.active_set))
        keys = {tuple(dense(atom)) for atom in result.active_set.atoms}
        assert len(keys) == sizes[-1]
    kinds = result.trace["kind"]
    dropped = [kind.endswith("-drop") for kind in kinds]
    assert any(dropped)
    # A drop takes one atom away; a pairwise one may bring another in.
    for t in range(1, len(kinds)):
        change = sizes[t] - sizes[t - 1]
        if dropped[t]:
            assert change in ((-1,) if kinds[t] == "away-drop" else (-1, 0))
        elif sizes[t] > 1:  # a whole FW step leaves one atom
            assert change in (0, 1)


@pytest.mark.parametrize("method", ["away", "pairwise", "di-away", "di-pairwise"])
def test_drop_says_that_the_step_was_blocked(method: str) -> None:
    objective, domain = _projection()
    points: list[np.ndarray] = []
    result = minimize(objective, domain, method=method, callback=lambda it: points.append(it.x))
    kinds = result.trace["kind"]
    assert any(kind.endswith("-drop") for kind in kinds)
    assert not any(kind == "fw-drop" for kind in kinds)
    if method.startswith("di-"):
        for (before, after), kind in zip(pairwise(points), kinds[1:], strict=True):
            arrived = ((after != before) & ((after == 0) | (after == 1))).any()
            assert kind == "fw" or arrived == kind.endswith("-drop")


@pytest.mark.parametrize("method", ["away", "pairwise", "blended-pairwise", "fully-corrective"])
def test_long_runs_keep_the_point_and_its_decomposition_together(method: str) -> None:
    rng = np.random.default_rng(4)
    objective = LeastSquares(rng.standard_normal((50, 80)), rng.standard_normal(50))
    max_iter = 100 if method == "fully-corrective" else 3000  # each of them is many steps
    for domain in (L1Ball(80, 4.0), ConvexHull(rng.standard_normal((200, 80)))):
        result = minimize(objective, domain, method=method, tol=1e-10, max_iter=max_iter)
        assert result.active_set is not None
        np.testing.assert_allclose(result.active_set.point(), result.x, rtol=0, atol=1e-12)
        assert result.active_set.weights.min() > 0
        assert result.active_set.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_fully_corrective_is_optimal_over_its_atoms() -> None:
    objective, domain = _projection()
    result = minimize(objective, domain, method=FullyCorrective(accuracy=1e-3), max_iter=4, tol=0)
    gradient = objective.at(result.x).gradient
    assert result.active_set is not None
    inside = float(gradient @ result.x) - result.active_set.scores(gradient).min()
    assert 0 <= inside <= 1e-2 * result.gap
    assert set(result.trace["kind"]) == {"start", "corrective"}


# ---------------------------------------------------------------------------------- schedules


def _small(domain: Any, scale: float) -> Quadratic:
    """``scale/2 |x - target|²``: alpha = beta, as good as a condition number gets."""
    target = 0.4 + 0.3 * np.sin(np.arange(domain.size) * math.sqrt(2))
    return Quadratic(scale * np.eye(domain.size), -scale * target)


GRIDS: dict[str, Any] = {
    "simplex": Simplex(3),
    "simplex-2.5": Simplex(3, 2.5),
    "P_2": CappedSimplex(4, 2),
    "capped": CappedSimplex(4, 0.6, cap=0.3),
    "cube": Box(np.zeros(2), 1),
    "birkhoff": Birkhoff(2),
    "polytope": Polytope(
        A_eq=np.ones((1, 3)), b_eq=[1.0], lower=0, upper=np.ones(3), binary_vertices=True
    ),
    "product": Product([Simplex(2), Simplex(2)]),
}


@pytest.mark.parametrize("rule", [AwaySchedule, PairwiseSchedule])
@pytest.mark.parametrize("name", list(GRIDS))
def test_schedules_reach_the_optimum(rule: Any, name: str) -> None:
    # The schedules shrink their steps by a factor 1 - c1, with c1 of the order of 1e-4 (away) and
    # 1e-2 (pairwise) even for these few coordinates and alpha = beta.  With curvature times
    # diameter² at 1e-3 they are at 1e-6 within some thousand iterations.
    domain = GRIDS[name]
    objective = _small(domain, 1e-3 / domain.diameter**2)
    reference = minimize(objective, domain, method="di-away", tol=1e-13)
    assert reference.success
    result = minimize(objective, domain, method=rule(cardinality=2), tol=1e-6, max_iter=40_000)
    assert result.success
    assert result.step == "schedule"
    assert abs(result.value - reference.value) <= 1e-6
    assert domain.contains(result.x, 1e-12)


def _run(rule: Any, domain: Any, max_iter: int) -> list[Iterate]:
    seen: list[Iterate] = []
    minimize(
        _small(domain, 1.0), domain, method=rule, tol=0.0, max_iter=max_iter, callback=seen.append
    )
    assert len(seen) == max_iter + 1
    return seen


@pytest.mark.parametrize("name", ["simplex", "simplex-2.5", "P_2", "capped", "cube", "birkhoff"])
def test_away_schedule_follows_the_formulas(name: str) -> None:
    """AFW-1: n_0, gamma_t and q_t recomputed here; iterates integral on the grid 1/q_t."""
    domain, s = GRIDS[name], 1
    alpha = beta = 1.0
    facial = s / domain.grid**2  # H_s of {0 <= x <= g, Cx = d}
    m1, m2, theta = math.sqrt(alpha / (8 * facial)), beta * domain.diameter**2 / 2, 52
    c1 = m1**2 / m2 * (theta - 4) / (4 * theta**2)
    n_0 = math.ceil(1 / c1)
    c0 = 3 * m2 * math.log(n_0) / n_0 * (1 - c1) ** (1 - n_0)
    steps = n_0 + 2500
    seen = _run(AwaySchedule(cardinality=s), domain, steps)
    q, powers = 1, set()
    for t, iterate in enumerate(seen[1:], start=1):
        if t < n_0:
            assert iterate.kind == "fw"
            q = t
        else:
            gamma = m1 / (theta * m2) * math.sqrt(c0) * (1 - c1) ** ((t - 1) / 2)
            sign = {"fw": 1, "away": -1, "away-drop": -1}[iterate.kind]
            power = 0
            while 2**power * q + sign < math.ceil(1 / gamma):
                power += 1
            powers.add(power)
            q = 2**power * q + sign
        assert iterate.step == pytest.approx(1 / q, rel=1e-12)
        whole = q * iterate.x / domain.grid
        assert np.abs(whole - np.rint(whole)).max() <= 1e-9 * q
        assert domain.contains(iterate.x, 1e-12)
    assert any(iterate.kind.startswith("away") for iterate in seen)


def test_away_schedule_doubles() -> None:
    """Far enough out, gamma_t falls below 1/q and q doubles."""
    seen = _run(AwaySchedule(cardinality=1), Simplex(2), 12_000)
    q = np.rint(1 / np.array([iterate.step for iterate in seen[1:]]))
    assert (q[1:] > 1.9 * q[:-1])[2:].any()
    whole = q[-1] * seen[-1].x
    np.testing.assert_allclose(whole, np.rint(whole), rtol=0, atol=1e-9 * q[-1])


@pytest.mark.parametrize("name", ["simplex", "simplex-2.5", "P_2", "capped", "cube", "birkhoff"])
def test_pairwise_schedule_follows_the_formulas(name: str) -> None:
    """PFW-1: steps are the largest powers of 1/2 below gamma_t; iterates integral."""
    domain, s, alpha = GRIDS[name], 2, 0.9
    c1 = alpha / (16 * (s / domain.grid**2) * domain.diameter**2)
    seen = _run(PairwiseSchedule(strong_convexity=alpha, cardinality=s), domain, 600)
    for t, iterate in enumerate(seen[1:], start=1):
        gamma = math.sqrt(c1) * (1 - c1) ** ((t - 1) / 2)
        power = 0
        while 2.0**-power > gamma:
            power += 1
        assert iterate.step == 2.0**-power
        whole = 2**power * iterate.x / domain.grid
        assert np.abs(whole - np.rint(whole)).max() <= 1e-9 * 2**power
        assert domain.contains(iterate.x, 1e-12)


@pytest.mark.parametrize("rule", [AwaySchedule, PairwiseSchedule])
def test_schedules_take_their_constants_from_the_objective(rule: Any) -> None:
    domain = Simplex(3)
    objective = Quadratic(np.diag([1.0, 2.0, 4.0]), [-0.3, -0.9, -0.5])
    given_ = rule(strong_convexity=1.0, lipschitz=4.0, cardinality=3)
    first = minimize(objective, domain, method=given_, max_iter=200)
    second = minimize(objective, domain, method=rule(), max_iter=200)  # cardinality: the dimension
    np.testing.assert_array_equal(first.trace["step"], second.trace["step"])
    np.testing.assert_array_equal(first.x, second.x)


def test_a_schedule_that_has_run_out_stands_still() -> None:
    """Steps below rounding change nothing; a lipschitz far too small gets there quickly."""
    objective = Quadratic(np.eye(3), [-0.5, -0.3, 0.1])
    rule = PairwiseSchedule(lipschitz=0.1, cardinality=1)
    result = minimize(objective, Simplex(3), method=rule, tol=0.0, max_iter=6000)
    assert result.status in (Status.ITERATION_LIMIT, Status.PRECISION_LIMIT)
    assert Simplex(3).contains(result.x, 1e-12)
    assert result.value - minimize(objective, Simplex(3)).lower_bound <= result.gap + 1e-6


# ----------------------------------------------------------------------- randomized and blocks


def _lasso(n: int = 120) -> tuple[LeastSquares, L1Ball]:
    rng = np.random.default_rng(8)
    return LeastSquares(rng.standard_normal((150, n)), rng.standard_normal(150)), L1Ball(n, 1.0)


@pytest.mark.parametrize("sample_size", [None, 1, 5, 10_000])
def test_randomized_away_certifies_by_the_full_oracle(sample_size: int | None) -> None:
    objective, domain = _lasso()
    reference = minimize(objective, domain, tol=1e-9)
    for tol in (1e-1, 1e-3, 1e-6):
        result = minimize(
            objective, domain, method=RandomizedAway(sample_size), tol=tol, random_state=0
        )
        assert result.success
        gradient = objective.at(result.x).gradient
        gap = gradient @ result.x - domain.lmo(gradient) @ gradient
        assert result.gap == pytest.approx(gap, abs=1e-10)
        assert result.value - reference.value <= result.gap <= tol
        # Iterations look at a sample only: their gap is known where it was certified.
        unknown = np.isnan(result.trace["gap"].astype(float))
        assert unknown.any()


def test_randomized_away_survives_a_sample_that_says_solved() -> None:
    """S is optimal among the atoms that a sample is likely to show: the estimate is 0, not the gap.

    Five atoms of 1,000 matter.  A certificate that fails is no lack of progress: later samples
    bring the missing atoms in, or the full oracle where it is asked for.
    """
    n = 1000
    target = np.zeros(n)
    target[[3, 250, 450, 650, 999]] = [0.5, 0.4, 0.3, 0.25, 0.2]
    objective = LeastSquares(sp.eye_array(n), target)
    for seed, every in ((0, None), (1, None), (2, 100)):
        rule = RandomizedAway(1, full_every=every)
        result = minimize(objective, Simplex(n), method=rule, random_state=seed)
        assert result.success
        np.testing.assert_allclose(result.x, Simplex(n).project(target), atol=2e-3)


def test_randomized_away_draws_outside_the_active_set() -> None:
    """With all other atoms in the sample every step is that of the away-step method."""
    objective, domain = _lasso()
    full = minimize(objective, domain, method="away", max_iter=60)
    sampled = minimize(objective, domain, method=RandomizedAway(10_000), max_iter=60)
    np.testing.assert_array_equal(full.trace["kind"], sampled.trace["kind"])
    np.testing.assert_allclose(full.trace["value"], sampled.trace["value"], rtol=1e-12)


@pytest.mark.parametrize("domain", [CappedSimplex(9, 3.5), Box(np.zeros(70), 0.1)], ids=repr)
def test_randomized_away_on_vertices_by_number(domain: Any) -> None:
    rng = np.random.default_rng(1)
    objective = LeastSquares(rng.standard_normal((90, domain.size)), rng.standard_normal(90))
    rule = RandomizedAway(40, full_every=20)
    result = minimize(objective, domain, method=rule, tol=1e-3, random_state=0)
    assert result.success
    assert result.value <= minimize(objective, domain, tol=1e-9).value + 1e-3


ACTIVE_SET_METHODS = [
    "away", "pairwise", "blended-pairwise", "fully-corrective", "randomized-away"
]  # fmt: skip


@pytest.mark.parametrize("method", ACTIVE_SET_METHODS)
def test_a_start_from_atoms_and_weights(method: str) -> None:
    """A run that goes on from the active set of another takes the same steps."""
    objective, domain = _lasso()
    atoms = np.array([dense(domain.atom(i)) for i in (3, 200, 7)])
    weights = np.array([0.5, 0.2, 0.3])
    begun = minimize(objective, domain, method=method, x0=(atoms, weights), max_iter=0)
    assert begun.active_set is not None
    np.testing.assert_allclose(begun.active_set.weights, weights)
    np.testing.assert_allclose(begun.x, weights @ atoms)
    if method == "randomized-away":
        return
    whole = minimize(objective, domain, method=method, x0=(atoms, weights), max_iter=12)
    half = minimize(objective, domain, method=method, x0=(atoms, weights), max_iter=6)
    rest = minimize(objective, domain, method=method, x0=half.active_set, max_iter=6)
    np.testing.assert_allclose(rest.x, whole.x, atol=1e-9)


def test_randomized_away_is_reproducible() -> None:
    objective, domain = _lasso()
    runs = [
        minimize(objective, domain, method="randomized-away", random_state=s) for s in (3, 3, 4)
    ]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_array_equal(runs[0].trace["value"], runs[1].trace["value"])
    assert runs[0].n_oracle_calls == runs[1].n_oracle_calls < runs[0].n_iter
    assert not np.array_equal(runs[0].trace["value"][:50], runs[2].trace["value"][:50])


@pytest.mark.parametrize("order", ["permuted", "uniform", "gap"])
@pytest.mark.parametrize("direction", ["fw", "away", "pairwise"])
def test_block_is_reproducible_and_certified(order: str, direction: str) -> None:
    case = problem("product", "quadratic", "face")
    rule = Block(order, direction)
    runs = [
        minimize(case.objective, case.domain, method=rule, random_state=seed, max_iter=900)
        for seed in (5, 5, 6)
    ]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_array_equal(runs[0].trace["value"], runs[1].trace["value"])
    assert not np.array_equal(runs[0].trace["value"], runs[2].trace["value"])
    allowed = {"start", direction, f"{direction}-drop"} | ({"fw"} if direction == "away" else set())
    assert set(runs[0].trace["kind"]) <= allowed
    for result in runs:
        assert result.gap == pytest.approx(case.gap(result.x), abs=1e-10)
        assert case.function(result.x) - case.optimum <= result.gap + 1e-9


@pytest.mark.parametrize("order", ["permuted", "uniform", "gap"])
@pytest.mark.parametrize("direction", ["fw", "away", "pairwise"])
def test_blocks_that_are_done_do_not_stop_the_others(order: str, direction: str) -> None:
    """29 of 30 blocks are optimal at the start and answer steps of 0."""
    hessian, linear = np.eye(60), np.tile([-5.0, 5.0], 30)
    hessian[-2, -2], linear[-2:] = 3.0, -1.0
    result = minimize(
        Quadratic(hessian, linear), Product([Simplex(2) for _ in range(30)]),
        method=Block(order, direction), random_state=0,
    )  # fmt: skip
    assert result.success
    np.testing.assert_allclose(result.x[-2:], [0.25, 0.75], atol=1e-6)


def test_block_permuted_visits_every_block_once_a_pass() -> None:
    domain = Product([Simplex(2) for _ in range(7)])
    objective = Quadratic(np.eye(14), -np.tile([0.3, 0.6], 7))
    points: list[np.ndarray] = []
    minimize(
        objective, domain, method="block", step="open-loop", max_iter=14, random_state=0, tol=0,
        callback=lambda it: points.append(it.x),
    )  # fmt: skip
    moved = [{i for i in range(7) if (a[2 * i] != b[2 * i])} for a, b in pairwise(points)]
    assert set().union(*moved[:7]) == set().union(*moved[7:]) == set(range(7))


def test_block_counts_time_in_passes() -> None:
    domain = Product([Simplex(2) for _ in range(4)])
    objective = Quadratic(np.eye(8), -np.tile([0.3, 0.6], 4))
    result = minimize(objective, domain, method="block", step=OpenLoop(), max_iter=9, tol=0.0)
    expected = [2 / (t / 4 + 2) for t in range(9)]
    np.testing.assert_allclose(result.trace["step"][1:].astype(float), expected)
