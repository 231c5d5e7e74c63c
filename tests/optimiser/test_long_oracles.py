"""Oracles that take long ask the clock: runs end in time, with what has been proven."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cornerstep import Status, minimize
from cornerstep.core.clock import OutOfTimeError, asking, is_over, must_end, never
from cornerstep.domains import Ball, Intersection, L1Ball, Polytope, Simplex
from cornerstep.domains.lp import LinearProgram
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.optimiser import minimize_many

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((30, 60))


def always() -> bool:
    return True


def program() -> LinearProgram:
    zeros = np.zeros(60)
    return LinearProgram(ROWS, np.full(30, -np.inf), ROWS @ np.full(60, 0.4), zeros, zeros + 1.0)


def polytope() -> Polytope:
    zeros = np.zeros(60)
    return Polytope(A_ub=ROWS, b_ub=ROWS @ np.full(60, 0.4), lower=zeros, upper=zeros + 1.0)


class Press:
    """Says no, and presses Ctrl-C the k-th time that it is asked."""

    def __init__(self, k: int) -> None:
        self.left = k

    def __call__(self) -> bool:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return False


def test_work_within_work_ends_with_either() -> None:
    assert not is_over()
    with asking(always, never), asking(never, never):
        assert is_over()
        assert not must_end()
        with asking(never, always):
            assert must_end()
    assert not is_over()


def test_a_linear_program_that_was_cut_short_solves_later() -> None:
    cost, cut = RNG.standard_normal(60), program()
    expected = cost @ program().minimize(cost)
    for k in range(1, 12, 2):
        asked = iter([False] * k)
        with asking(never, lambda left=asked: next(left, True)):  # type: ignore[misc]
            try:
                answer = cut.minimize(cost)
            except OutOfTimeError:
                continue
            assert cost @ answer == pytest.approx(expected)
    with pytest.raises(OutOfTimeError), asking(never, always):
        cut.minimize(-cost)
    assert cost @ cut.minimize(cost) == pytest.approx(expected)


@pytest.mark.parametrize("k", [2, 5])
def test_ctrl_c_ends_a_linear_program_and_leaves_it_whole(k: int) -> None:
    cost, cut = RNG.standard_normal(60), program()
    expected = cost @ program().minimize(cost)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), asking(never, Press(k)):
        cut.minimize(cost)
    assert signal.getsignal(signal.SIGINT) is before
    assert cost @ cut.minimize(cost) == pytest.approx(expected)


def test_an_intersection_answers_what_it_has() -> None:
    domain, curved = Intersection([Ball(12, 0.5), Simplex(12)]), RNG.standard_normal((4, 12))
    exact = [float(g @ domain.lmo(g)) for g in curved]
    asked: list[int] = []

    def over() -> bool:
        asked.append(1)
        return True

    with asking(over, never):
        for g, least in zip(curved, exact, strict=True):
            domain.forget()
            vertex = domain.lmo(g)
            assert domain.contains(vertex, 1e-6)
            assert float(g @ vertex) - domain.lmo_error(g, vertex) <= least + 1e-9
    assert len(asked) <= 4 * len(curved)  # else it went on for rounds


class Slow:
    """A polytope whose oracle has no time left from some call on."""

    def __init__(self, calls: int) -> None:
        self.inner, self.left = polytope(), calls
        self.size = self.inner.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def lmo(self, gradient: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OutOfTimeError
        return self.inner.lmo(gradient)


@pytest.mark.parametrize("method", ["fw", "away", "fully-corrective"])
@pytest.mark.parametrize("calls", [1, 2, 5, 20])
def test_a_run_whose_oracle_gives_up_tells_what_was_proven(method: str, calls: int) -> None:
    f = Quadratic(np.eye(60), RNG.standard_normal(60))
    least = minimize(f, polytope(), tol=1e-9).lower_bound
    result = minimize(f, Slow(calls), method=method, tol=0.0, max_iter=500)
    if result.status is not Status.TIME_LIMIT:
        assert result.lower_bound <= result.value
        return
    assert polytope().contains(result.x)
    assert result.value >= least
    assert result.lower_bound <= least + 1e-8
    assert result.gap >= result.value - least - 1e-8


@pytest.mark.parametrize("method", ["fw", "fully-corrective"])
def test_a_run_in_which_no_oracle_answers_has_the_bound_of_the_box_around(method: str) -> None:
    f = Quadratic(np.eye(60), RNG.standard_normal(60))
    start = polytope().lmo(RNG.standard_normal(60))
    result = minimize(f, Slow(0), method=method, tol=0.0, x0=start)
    gradient = f.at(start).gradient
    assert result.status is Status.TIME_LIMIT
    assert result.gap == pytest.approx(gradient @ start - np.minimum(gradient, 0.0).sum())
    assert result.lower_bound <= minimize(f, polytope(), tol=1e-9).value


def _after(seconds: float, call: Callable[[], Any]) -> Any:
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        return call()
    finally:
        timer.cancel()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("domain", [L1Ball(80, 2.0), Ball(80, 2.0)], ids=["listed", "alone"])
def test_ctrl_c_ends_many_problems(domain: Any, n_jobs: int) -> None:
    A, targets = RNG.standard_normal((80, 80)), 30 * RNG.standard_normal((20_000, 80))
    objective = LeastSquares(A, targets[0])
    call = lambda: minimize_many(objective, domain, targets, rtol=1e-12, n_jobs=n_jobs)  # noqa: E731
    results = _after(0.3, call)
    assert Status.INTERRUPTED in results.status
    for i in np.flatnonzero(np.isfinite(results.gap))[:: len(targets) // 20]:
        assert results.value[i] == pytest.approx(0.5 * np.sum((A @ results.x[i] - targets[i]) ** 2))
