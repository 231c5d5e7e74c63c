"""Peak extra memory per coordinate: decomposition-invariant methods need O(n), whatever the time.

``f(x) = 1/2 x'Dx + c'x``, D a diagonal LinearOperator, on ``{0 <= x <= 10/n, sum x = 1}``, whose
vertices have n/10 entries.  An active set stores one such vertex per atom, so it grows with the
iterations; a method that asks the face of x for its away vertex does not.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from benchmarks.core import Benchmark, Dataset, Row, Solver
from benchmarks.plots import bars
from benchmarks.problems import Array, Problem, Region, cornerstep, judge
from cornerstep.domains import CappedSimplex
from cornerstep.objectives import Quadratic

SIZES = (10_000, 100_000, 1_000_000)
ITERATIONS = (10, 40)
METHODS = ("di-pairwise", "di-away", "blended-pairwise")
_LABELS = {f"n = {n:,}": n for n in SIZES}


def _problem(n: int) -> Problem:
    rng = np.random.default_rng(0)
    diagonal, linear = n * rng.uniform(0.1, 1.0, n), rng.standard_normal(n)

    def evaluate(x: Array) -> tuple[float, Array]:
        image = diagonal * x
        return float(x @ (0.5 * image + linear)), image + linear

    def pair() -> tuple[Any, Any]:
        operator = LinearOperator((n, n), matvec=lambda x: diagonal * x, dtype=np.float64)
        return Quadratic(operator, linear), CappedSimplex(n, 1.0, cap=10 / n)

    return Problem(evaluate, Region(n, 10 / n, total=1.0), pair)


def _solver(method: str, iterations: int) -> Solver:
    return cornerstep(
        f"{method}, {iterations} steps", tol=0.0, method=method, max_iter=iterations,
        time_limit=None,
    )  # fmt: skip


def bytes_per_coordinate(row: Row) -> float:
    """Peak allocated bytes over n."""
    return (row.peak_bytes or 0) / _LABELS[row.dataset]


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", "bytes per coordinate at the peak:"]
    for solver in dict.fromkeys(row.solver for row in rows):
        cells = [
            f"{row.dataset}: {bytes_per_coordinate(row):,.0f}" for row in rows
            if row.solver == solver
        ]  # fmt: skip
        lines.append(f"  {solver:<28}" + "   ".join(f"{cell:<20}" for cell in cells))
    return lines


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    values = {
        dataset: {row.solver: bytes_per_coordinate(row) for row in rows if row.dataset == dataset}
        for dataset in dict.fromkeys(row.dataset for row in rows)
    }
    title = "Peak memory of a solve on the capped simplex"
    return [bars(values, folder / "memory.png", title, "bytes per coordinate")]


BENCHMARK = Benchmark(
    name="memory",
    title="peak extra memory on the capped simplex, diagonal Hessian as a LinearOperator",
    datasets=tuple(Dataset(label, partial(_problem, n)) for label, n in _LABELS.items()),
    solvers=tuple(_solver(method, count) for method in METHODS for count in ITERATIONS),
    judge=judge,
    baseline="di-pairwise, 40 steps",
    repeat=1,
    memory=True,
    notes=_notes,
    plot=_plot,
)
