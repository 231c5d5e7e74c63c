"""Cube, P_k, Q_k and an arbitrary polytope, with an optimum made of s vertices.

``f(x) = 1/2 (x - x*)'Q(x - x*) + <g, x - x*>`` with x* a combination of s vertices of a face and g
in the (relative interior of the) normal cone there: x* is the minimiser, f(x*) = 0, and the face
is the one the methods have to find.  The fixed schedules AFW-1 and PFW-1 take steps as small as
their theory prescribes, so they meet the simplex-like domains at sizes of a few coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import Benchmark, Dataset, Row, Settings
from benchmarks.plots import convergence
from benchmarks.problems import Array, Problem, Region, cornerstep, judge
from cornerstep.domains import Box, CappedSimplex, Polytope
from cornerstep.objectives import Quadratic
from cornerstep.optimiser import AwaySchedule, PairwiseSchedule

GAP = 1e-6
TINY_S = 3  # the cardinality that the schedules are told


def _problem(
    region: Region, domain: Callable[[], Any], s: int, condition: float, shift: float = 0.0
) -> Problem:
    """``shift`` makes coordinates dearer, so that the vertices of x* fill fewer of them."""
    rng = np.random.default_rng(0)
    n = region.size
    base = shift + rng.standard_normal(n)
    vertices = [region.vertex(base + 0.5 * rng.standard_normal(n)) for _ in range(s)]
    optimum = rng.dirichlet(np.full(s, 5.0)) @ np.array(vertices)
    normal = _normal(region, optimum, rng)
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    hessian = (basis * np.geomspace(1.0, condition, n)) @ basis.T
    hessian = (hessian + hessian.T) / 2
    linear = normal - hessian @ optimum
    offset = 0.5 * optimum @ hessian @ optimum - normal @ optimum

    def evaluate(x: Array) -> tuple[float, Array]:
        image = hessian @ x
        return float(x @ (0.5 * image + linear) + offset), image + linear

    def pair() -> tuple[Any, Any]:
        return Quadratic(hessian, linear), domain()

    return Problem(evaluate, region, pair, hessian, linear, minimum=0.0)


def _normal(region: Region, x: Array, rng: np.random.Generator) -> Array:
    """A gradient that makes x optimal, with positive multipliers for all constraints tight at x."""
    g = np.zeros(x.size)
    at_0, at_cap = x < 1e-9, x > region.cap - 1e-9
    g[at_0] += rng.uniform(0.1, 1.0, at_0.sum())
    g[at_cap] -= rng.uniform(0.1, 1.0, at_cap.sum())
    if region.total is not None and x.sum() > region.total - 1e-9:
        g -= 0.5
    if region.A is not None and region.b is not None:
        tight = region.b - region.A @ x < 1e-9
        g -= rng.uniform(0.1, 1.0, tight.sum()) @ region.A[tight]
    return g


def _polytope(n: int, rows: int) -> tuple[Region, Callable[[], Any]]:
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((rows, n)), np.full(rows, np.sqrt(n) / 4)
    return Region(n, 1.0, A=A, b=b), lambda: Polytope(A, b, lower=0.0, upper=np.ones(n))


def _cube(n: int) -> tuple[Region, Callable[[], Any]]:
    return Region(n, 1.0), lambda: Box(np.zeros(n), 1.0)


def _capped(n: int, k: int, at_most: bool) -> tuple[Region, Callable[[], Any]]:
    domain = partial(CappedSimplex, n, k, at_most=at_most)
    return Region(n, 1.0, total=k, at_most=at_most), domain


def _is_tiny(problem: Problem) -> bool:
    return problem.region.size <= 5


def _is_simplex_like(problem: Problem) -> bool:
    return _is_tiny(problem) and not problem.region.at_most


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    title = "Quadratics with an optimum of s vertices, to a duality gap of 1e-6"
    return [convergence(rows, folder / "table1.png", title, ("iteration",), GAP)]


def build(settings: Settings) -> Benchmark:
    """A run is ended after ``settings.limit`` seconds (2, the schedules 10)."""
    limit = settings.limit or 2.0
    schedules = {
        "di-away-schedule": AwaySchedule(cardinality=TINY_S),
        "di-pairwise-schedule": PairwiseSchedule(cardinality=TINY_S),
    }
    return Benchmark(
        name="table1",
        title="strongly convex quadratics with an optimum of s vertices, to a judged gap of 1e-6",
        datasets=(
            Dataset("cube, n = 300, s = 8", partial(_problem, *_cube(300), 8, 10.0)),
            Dataset("P_30, n = 300, s = 8", partial(_problem, *_capped(300, 30, False), 8, 10.0)),
            Dataset(
                "Q_30, n = 300, s = 8", partial(_problem, *_capped(300, 30, True), 8, 10.0, 1.4)
            ),
            Dataset(
                "30 random rows, n = 60, s = 8", partial(_problem, *_polytope(60, 30), 8, 10.0)
            ),
            Dataset("cube, n = 3, s = 3", partial(_problem, *_cube(3), TINY_S, 2.0)),
            Dataset("P_2, n = 5, s = 3", partial(_problem, *_capped(5, 2, False), TINY_S, 2.0)),
        ),
        solvers=(
            *(
                cornerstep(name, tol=GAP, time_limit=limit)
                for name in ("di-away", "di-pairwise", "away", "pairwise", "blended-pairwise", "fw")
            ),
            *(
                cornerstep(
                    name, tol=GAP, method=method, time_limit=5 * limit, applies=_is_simplex_like
                )
                for name, method in schedules.items()
            ),
        ),
        judge=judge,
        baseline="di-away",
        target=("gap", GAP),
        repeat=3,
        patience=1.0,
        shown=("gap", "error"),
        plot=_plot,
        paths=True,
    )
