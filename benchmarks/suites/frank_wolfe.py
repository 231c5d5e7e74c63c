"""``f(x) = 1/m |Ax + b|²`` to a gap of 1e-7 on the simplex and the capped simplex.

A and b are standard normal; the Hessian ``2/m A'A`` is formed once, outside the clock, for every
solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Recorded,
    Recorder,
    Row,
    Run,
    Solver,
    Yardstick,
)
from benchmarks.plots import convergence
from benchmarks.problems import Array, Problem, Region, cornerstep, judge
from cornerstep.domains import CappedSimplex, Simplex
from cornerstep.objectives import Quadratic

GAP = 1e-7
SECONDS = 2.0  # limit of one solve

SMALL, LARGE, CAPPED = "simplex 1000 x 500", "simplex 3000 x 1500", "capped 1/50, 1000 x 500"

_RUN = "FrankWolfe.jl: measured on other draws of A and b; iterations exact, times within 2x."
_PUBLISHED = "FrankWolfe.jl, simplex 3000 x 1500: published by its authors, on their machine."

#: In-face pairwise is FrankWolfe.jl's name for di-pairwise.
FRANK_WOLFE_JL = {
    (SMALL, "di-pairwise"): Recorded(0.011, 180, _RUN),
    (SMALL, "away"): Recorded(0.030, 318, _RUN),
    (SMALL, "blended-pairwise"): Recorded(0.044, 225, _RUN),
    (CAPPED, "di-pairwise"): Recorded(0.244, 232, _RUN),
    (CAPPED, "blended-pairwise"): Recorded(0.103, 896, _RUN),
    (LARGE, "away"): Recorded(5.9, None, _PUBLISHED),
    (LARGE, "di-pairwise"): Recorded(0.315, None, _PUBLISHED),
}


def _problem(m: int, n: int, cap: float) -> Problem:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((m, n)), rng.standard_normal(m)
    hessian, linear = 2 / m * (A.T @ A), 2 / m * (A.T @ b)

    def evaluate(x: Array) -> tuple[float, Array]:
        residual = A @ x + b
        return float(residual @ residual) / m, 2 / m * (A.T @ residual)

    def pair() -> tuple[Any, Any]:
        domain = Simplex(n) if cap == 1 else CappedSimplex(n, 1.0, cap=cap)
        return Quadratic(hessian, linear), domain

    return Problem(evaluate, Region(n, cap, total=1.0), pair, hessian, linear)


def _copt(problem: Problem) -> Run:
    """copt's vanilla FW with its default line search; its own simplex oracle raises, so ours."""
    from copt import minimize_frank_wolfe

    hessian, linear, region = problem.hessian, problem.linear, problem.region
    assert hessian is not None
    assert linear is not None
    lipschitz = float(np.linalg.eigvalsh(hessian)[-1])
    count = round(1 / region.cap)
    x0 = region.vertex(np.arange(region.size, dtype=float))

    def value_and_gradient(x: Array) -> tuple[float, Array]:
        image = hessian @ x
        return float(x @ (0.5 * image + linear)), image + linear

    def lmo(u: Array, x: Array, active_set: None) -> tuple[Array, None, None, float]:
        best = [u.argmax()] if count == 1 else u.argpartition(-count)[-count:]
        direction = -x
        direction[best] += region.cap
        return direction, None, None, 1.0

    def run(record: Recorder | None) -> Answer:
        start = time.perf_counter()

        def callback(state: dict[str, Any]) -> bool:
            seconds = time.perf_counter() - start
            if record is not None:
                record(state["it"], seconds, state["x"])
            return seconds < SECONDS

        result = minimize_frank_wolfe(
            value_and_gradient, x0, lmo, jac=True, lipschitz=lipschitz, max_iter=10**6, tol=GAP,
            callback=callback,
        )  # fmt: skip
        late = time.perf_counter() - start >= SECONDS
        return Answer(result.x, result.nit, "time limit" if late else "its own test")

    return run


def _product(problem: Problem) -> Callable[[], Any]:
    assert problem.hessian is not None
    return partial(np.matmul, problem.hessian, np.full(problem.region.size, 0.5))


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    title = "1/m |Ax + b|² to a duality gap of 1e-7"
    return [convergence(rows, folder / "frank_wolfe.png", title, ("iteration", "seconds"), GAP)]


BENCHMARK = Benchmark(
    name="frank_wolfe",
    title="f = 1/m |Ax + b|², Hessian formed once, to a judged gap of 1e-7",
    datasets=(
        Dataset(SMALL, partial(_problem, 1000, 500, 1.0)),
        Dataset(LARGE, partial(_problem, 3000, 1500, 1.0)),
        Dataset(CAPPED, partial(_problem, 1000, 500, 1 / 50)),
    ),
    solvers=(
        *(
            cornerstep(name, tol=GAP, time_limit=SECONDS)
            for name in (
                "di-pairwise", "di-away", "pairwise", "away", "blended-pairwise",
                "fully-corrective", "fw",
            )
        ),
        Solver("copt fw", _copt, requires=("copt",)),
    ),
    judge=judge,
    baseline="di-pairwise",
    target=("gap", GAP),
    memory=True,
    yardstick=Yardstick("H @ x", _product),
    recorded=FRANK_WOLFE_JL,
    recorded_name="FW.jl",
    plot=_plot,
    paths=True,
)  # fmt: skip
