"""The order of block visits, and the one block method that all kinds of blocks run in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cornerstep import StructuredSVC, minimize
from cornerstep.domains import Product, Simplex
from cornerstep.objectives import Quadratic
from cornerstep.optimiser import Block, block
from cornerstep.optimiser.block import BlockSolver
from cornerstep.optimiser.loop import Look, Move, Stopping, run
from cornerstep.optimiser.order import ORDERS, Order
from cornerstep.structured import ChainModel


def whole_pass(order: Order) -> np.ndarray:
    """The blocks of one pass, and how many portions they came in."""
    parts: list[np.ndarray] = []
    while sum(part.size for part in parts) < order.n_blocks:
        parts.append(order.take(order.n_blocks))
    assert sum(part.size for part in parts) == order.n_blocks
    return np.concatenate(parts)


@pytest.mark.parametrize("n", [1, 2, 7, 64])
@pytest.mark.parametrize("portion", [1, 3, 1000])
def test_permuted_is_a_permutation_each_pass(n: int, portion: int) -> None:
    order = Order("permuted", n, np.random.default_rng(0))
    passes = []
    for _ in range(20):
        taken: list[int] = []
        while len(taken) < n:
            taken += order.take(portion).tolist()
        passes.append(taken)
    assert all(sorted(taken) == list(range(n)) for taken in passes)
    assert order.passes == 20
    assert order.visits == 20 * n
    if n == 64:
        assert len({tuple(taken) for taken in passes}) == 20


@pytest.mark.parametrize("portion", [1, 13, 1000])
def test_what_a_seed_draws_does_not_depend_on_how_it_is_handed_out(portion: int) -> None:
    for kind in ("permuted", "uniform"):
        whole = Order(kind, 40, np.random.default_rng(5))
        parts = Order(kind, 40, np.random.default_rng(5))
        taken: list[int] = []
        while len(taken) < 200:
            taken += parts.take(portion).tolist()
        expected = np.concatenate([whole_pass(whole) for _ in range(5)])
        np.testing.assert_array_equal(taken[:200], expected)


@pytest.mark.parametrize("kind", ORDERS)
def test_order_is_reproducible(kind: str) -> None:
    gaps = np.arange(30.0)
    one, same, other = (Order(kind, 30, np.random.default_rng(s), gaps) for s in (1, 1, 2))
    for _ in range(12):
        taken = whole_pass(one)
        np.testing.assert_array_equal(taken, whole_pass(same))
        assert not np.array_equal(taken, whole_pass(other))


def test_uniform_is_uniform() -> None:
    order = Order("uniform", 10, np.random.default_rng(0))
    counts = np.sum([np.bincount(whole_pass(order), minlength=10) for _ in range(2000)], axis=0)
    # chi-square with 9 degrees of freedom: 27.9 has probability 0.001
    assert ((counts - 2000) ** 2 / 2000).sum() < 27.9
    assert any(np.unique(whole_pass(order)).size < 10 for _ in range(5))


def test_gap_draws_in_proportion_to_the_gaps() -> None:
    gaps = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 10.0, -1e-17])
    order = Order("gap", 7, np.random.default_rng(0), gaps)
    counts = np.zeros(7)
    for _ in range(500):
        order.gaps_refreshed()
        counts += np.bincount(whole_pass(order), minlength=7)
    expected = np.maximum(gaps, 0.0) / 20 * 500 * 7
    assert counts[0] == counts[6] == 0
    # chi-square with 4 degrees of freedom: 18.5 has probability 0.001
    assert ((counts - expected)[1:6] ** 2 / expected[1:6]).sum() < 18.5


def test_gap_reads_the_gaps_anew_within_a_pass() -> None:
    gaps = np.zeros(100)
    gaps[3] = 1.0
    order = Order("gap", 100, np.random.default_rng(0), gaps)
    order.gaps_refreshed()
    first = order.take(100)
    assert first.size == 10
    assert set(first) == {3}
    gaps[3], gaps[77] = 0.0, 1.0
    assert set(order.take(4)) == {77}
    gaps[77], gaps[5] = 0.0, 1.0
    second = order.take(100)
    assert second.size == 6
    assert set(second) == {5}


def test_stale_gaps_are_read_anew_by_a_permuted_pass() -> None:
    gaps = np.full(50, np.inf)
    order = Order("gap", 50, np.random.default_rng(0), gaps)
    permuted = []
    for _ in range(31):
        permuted.append(bool(np.unique(whole_pass(order)).size == 50))
        gaps[:] = np.arange(50.0)
    assert np.flatnonzero(permuted).tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize("gaps", [np.zeros(4), np.full(4, np.inf)])
def test_gap_without_any_knowledge_is_uniform(gaps: np.ndarray) -> None:
    order = Order("gap", 4, np.random.default_rng(0), gaps)
    order.gaps_refreshed()
    assert set(np.concatenate([whole_pass(order) for _ in range(8)])) == {0, 1, 2, 3}


def test_permutation_among_some_blocks() -> None:
    order = Order("permuted", 9, np.random.default_rng(0))
    some = np.array([1, 4, 8, 2])
    assert sorted(order.permutation(some)) == [1, 2, 4, 8]
    assert order.visits == 0


class Bowls:
    """``sum_i (x_i - i)²/2`` over [0, 20]^n as blocks that are solved in one visit."""

    monotone = True
    extra_columns: tuple[str, ...] = ()

    def __init__(self, n: int, reads_gaps: bool) -> None:
        self.targets = np.arange(float(n))
        self.x = np.zeros(n)
        self.gaps = np.full(n, np.inf)
        self.reads_gaps = reads_gaps
        self.interrupted: Callable[[], bool] = lambda: False
        self.visited: list[list[int]] = []
        self.corrected: list[list[int]] = []
        self.looks = 0

    @property
    def point(self) -> Any:
        return self.x

    def _gaps(self) -> np.ndarray:
        gradient = self.x - self.targets
        return gradient * self.x - np.minimum(20 * gradient, 0.0)

    def look(self) -> Look:
        self.looks += 1
        if self.reads_gaps:
            self.gaps[:] = self._gaps()
        value = 0.5 * float(((self.x - self.targets) ** 2).sum())
        return Look(value, float(self._gaps().sum()))

    def estimate(self, gap: float) -> Look:
        return Look(0.5 * float(((self.x - self.targets) ** 2).sum()), gap, False)

    def sweep(self, order: np.ndarray) -> Move:
        self.visited.append(order.tolist())
        for i in order:
            self.gaps[i] = self._gaps()[i]
            self.x = self.x.copy()
            self.x[i] = self.targets[i]
        return Move(1.0, "bowl")

    def correct(self, order: np.ndarray) -> None:
        self.corrected.append(order.tolist())

    def certify(self, point: Any) -> Look:
        self.x = point
        return self.look()


@pytest.mark.parametrize(("reads_gaps", "visits"), [(True, 1), (False, None), (False, 3)])
@pytest.mark.parametrize("order", ORDERS)
def test_any_blocks_run_in_the_block_method(
    order: str, reads_gaps: bool, visits: int | None
) -> None:
    blocks = Bowls(12, reads_gaps)
    solver = BlockSolver(blocks, order, np.random.default_rng(0), visits=visits)
    outcome = run(solver, Stopping(tol=1e-9, max_iter=1000))
    assert outcome.look.gap == 0
    assert outcome.status.value == "solved"
    np.testing.assert_array_equal(blocks.x, blocks.targets)
    assert sum(map(len, blocks.visited)) == solver.order.visits == outcome.n_iter * (visits or 12)
    if reads_gaps and order == "gap":  # block 0 is solved at the start
        assert [0] not in blocks.visited


def test_looks_and_corrections_come_when_they_should() -> None:
    blocks = Bowls(12, False)
    rng = np.random.default_rng(0)
    solver = BlockSolver(
        blocks, "permuted", rng, look_every=3, corrections=[blocks.correct, blocks.correct]
    )
    certified = []
    for _ in range(7):
        certified.append(solver.look().certified)
        solver.move()
    assert np.flatnonzero(certified).tolist() == [0, 3, 6]
    assert blocks.looks == 3
    for visits, passes in ((blocks.visited, 7), (blocks.corrected, 14)):
        order = np.concatenate(visits).reshape(passes, 12)  # in pieces, for the clock
        assert (np.sort(order, axis=1) == np.arange(12)).all()


@pytest.mark.parametrize("order", ORDERS)
def test_minimize_and_structured_svc_share_the_block_method(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[tuple[str, int]] = []
    original = block.BlockSolver.move

    def counted(self: BlockSolver) -> Move:
        before = self.order.visits
        move = original(self)
        moves.append((type(self.blocks).__name__, self.order.visits - before))
        return move

    monkeypatch.setattr(block.BlockSolver, "move", counted)
    domain = Product([Simplex(3) for _ in range(4)])
    result = minimize(Quadratic(np.eye(12)), domain, method=Block(order), random_state=0)
    assert moves == [("Factors", 1)] * result.n_iter
    moves.clear()
    rng = np.random.default_rng(0)
    words = [rng.standard_normal((3, 4)) for _ in range(8)]
    labels = [rng.integers(3, size=3) for _ in range(8)]
    svc = StructuredSVC(ChainModel(), sampling=order, atol=0.05, random_state=0).fit(words, labels)
    assert moves == [("ExampleBlocks", 8)] * svc.n_iter_
    assert svc.n_oracle_calls_ == 8 * svc.n_iter_
