"""The methods of ``minimize`` are the published ones, iterate by iterate."""

from __future__ import annotations

from functools import partial
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from cornerstep import ReducedHullSVC, minimize
from cornerstep.core.vectors import dense
from cornerstep.domains import Box, CappedSimplex, Product, Simplex
from cornerstep.objectives import Quadratic
from cornerstep.optimiser import AwaySchedule, Block, PairwiseSchedule, RandomizedAway
from reference import frank_wolfe as published

STEPS = 20
DOMAINS: dict[str, Any] = {
    "simplex": Simplex(6),
    "P_3": CappedSimplex(7, 3),
    "Q_2": CappedSimplex(6, 2, at_most=True),
    "cube": Box(np.zeros(5), 1.0),
}


def pose(domain, seed, *, condition=3.0, short=False, inside=False):
    """A random strictly convex quadratic whose minimum is outside, in both forms.

    With short steps, or after one exact step from ``inside``, no two atoms tie; an exact step
    leaves the two that it went between with the same score.
    """
    rng = np.random.default_rng(seed)
    n = domain.size
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Q = basis @ np.diag(np.geomspace(1.0, condition, n)) @ basis.T
    b = -Q @ (0.5 + 0.4 * rng.standard_normal(n))
    V = np.array([dense(domain.atom(i)) for i in range(domain.n_atoms)])
    weights = (dense(domain.start()) == V).all(1).astype(float)
    if inside:
        weights = np.zeros(len(V))
        weights[rng.choice(len(V), 3, replace=False)] = rng.dirichlet(np.ones(3))
    lipschitz = Quadratic(Q, b).lipschitz if short else None
    total = getattr(domain, "total", np.inf)
    reference = published.Problem(Q, b, V, np.zeros(n), np.ones(n), weights, lipschitz, total)
    return Quadratic(Q, b), reference


def iterates(objective, domain, method, reference, *, steps=STEPS, step="exact", seed=None):
    seen = []
    start = (reference.V, reference.weights) if reference.weights.max() < 1 else reference.start
    minimize(
        objective, domain, method=method, step=step, tol=0.0, max_iter=steps - 1, x0=start,
        callback=lambda iterate: seen.append(iterate.x.copy()), random_state=seed,
    )  # fmt: skip
    return seen


def require_equal(ours, literal):
    """Until a step of ours is 0: at the optimum, or where a sample shows nothing better."""
    steps = 0
    for mine, theirs in zip(ours, literal, strict=False):
        if steps and np.array_equal(mine, ours[steps - 1]):
            break
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-10, err_msg=f"step {steps}")
        steps += 1
    assert steps >= min(3, len(ours))


def compare(domain, seed, method, literal):
    """Short steps from a vertex, and an exact one from a point inside."""
    objective, reference = pose(domain, seed, short=True)
    ours = iterates(objective, domain, method, reference, step="short", seed=seed)
    require_equal(ours, islice(literal(reference), STEPS))
    objective, reference = pose(domain, seed, inside=True)
    ours = iterates(objective, domain, method, reference, steps=2, seed=seed)
    require_equal(ours, islice(literal(reference), 2))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("open_loop", [False, True])
def test_fw(name, seed, open_loop):
    objective, reference = pose(DOMAINS[name], seed)
    step = "open-loop" if open_loop else "exact"
    ours = iterates(objective, DOMAINS[name], "fw", reference, step=step)
    require_equal(ours, islice(published.fw(reference, open_loop=open_loop), STEPS))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("rule", ["away", "pairwise"])
def test_active_sets(name, seed, rule):
    compare(DOMAINS[name], seed, rule, partial(published.active_set, rule=rule))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", DOMAINS)
def test_randomized_away(name, seed):
    def literal(reference):
        rng = np.random.default_rng(seed)
        return published.active_set(reference, "randomized", 3, rng)

    compare(DOMAINS[name], seed, RandomizedAway(3), literal)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("rule", ["away", "pairwise"])
def test_in_faces(name, seed, rule):
    compare(DOMAINS[name], seed, f"di-{rule}", partial(published.in_face, rule=rule))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["simplex", "P_3", "cube"])
@pytest.mark.parametrize("rule", [AwaySchedule, PairwiseSchedule])
def test_schedules(name, seed, rule):
    domain = DOMAINS[name]
    objective, reference = pose(domain, seed, condition=1.5)
    eigenvalues = np.linalg.eigvalsh(reference.Q)
    constants = eigenvalues[0], eigenvalues[-1], domain.diameter, domain.facial_constant(2)
    ours = iterates(objective, domain, rule(cardinality=2), reference)
    literal = published.away_schedule if rule is AwaySchedule else published.pairwise_schedule
    require_equal(ours, islice(literal(reference, *constants), STEPS))


@pytest.mark.parametrize("seed", range(5))
def test_block_coordinates(seed):
    parts: list[Any] = [Simplex(3), CappedSimplex(4, 2), Simplex(2)]
    domain = Product(parts)
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((12, 9))
    b = rng.standard_normal(9)
    objective = Quadratic(Q.T @ Q + np.eye(9), b)
    blocks = [
        (block, np.array([dense(part.atom(i)) for i in range(part.n_atoms)]))
        for block, part in domain.blocks
    ]
    start = np.concatenate([dense(part.start()) for part in parts])
    reference = published.Problem(Q.T @ Q + np.eye(9), b, start[None], None, None, np.ones(1))
    seen = []
    minimize(
        objective, domain, method=Block("permuted"), tol=0.0, max_iter=STEPS - 1, x0=start,
        callback=lambda iterate: seen.append(iterate.x.copy()), random_state=seed,
    )  # fmt: skip
    moved = [k for k in range(len(seen) - 1) if not np.array_equal(seen[k + 1], seen[k])]
    places = [int(np.flatnonzero(seen[k + 1] != seen[k])[0]) for k in moved]
    order = [sum(block.stop <= place for block, _ in blocks) for place in places]
    assert set(order) == {0, 1, 2}
    kept = [seen[0]] + [seen[k + 1] for k in moved]
    require_equal(kept, published.block_coordinate(reference, blocks, order))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["di-away-schedule", "di-pairwise-schedule"])
@pytest.mark.parametrize("cardinality", [None, 2, 5])
@pytest.mark.parametrize("seed", range(2))
def test_schedules_of_kernel_machines(name, cardinality, seed):
    """The same iterates on the reduced hulls of a kernel machine, with the s that it is given."""
    rng = np.random.default_rng(seed)
    X, y, K = rng.standard_normal((10, 4)), np.repeat([1, 0], 5), 2
    signs = np.repeat([1.0, -1.0], 5)
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    Q = np.outer(signs, signs) * np.exp(-0.3 * distances)
    domain: Any = Product([CappedSimplex(5, K), CappedSimplex(5, K)])
    ends = np.linalg.eigvalsh(Q)[[0, -1]]
    facial = domain.facial_constant(cardinality or 10)
    corners = [v for v in product((0.0, 1.0), repeat=5) if sum(v) == K]
    V = np.array([np.concatenate(pair) for pair in product(corners, repeat=2)])
    weights = (dense(domain.start()) == V).all(axis=1).astype(float)
    reference = published.Problem(Q, np.zeros(10), V, np.zeros(10), np.ones(10), weights)
    away = name == "di-away-schedule"
    form = published.away_schedule if away else published.pairwise_schedule
    seen: list[Any] = []
    ReducedHullSVC(
        K=K, gamma=0.3, solver=name, cardinality=cardinality, tol=0.0, max_iter=STEPS,
        callback=lambda iterate: seen.append(iterate.x.copy()),
    ).fit(X, y)  # fmt: skip
    literal = form(reference, ends[0], ends[1], domain.diameter, facial)
    for ours, theirs in zip(seen, islice(literal, len(seen)), strict=False):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    assert len(seen) > 5
