"""``min |Ax - b|²`` over ``Q_375 = {0 <= x <= 1, sum x <= 375}``, A 100 x 1000: AFW-2 and PFW-2.

In the literature's names di-away is AFW-2 and di-pairwise PFW-2.  With b as small as the entries
of A the residual can be brought to 0 inside Q_375, and every method is fast; with b a hundred times
larger the optimum lies on a face, which is where away steps matter.  Which of the two is ahead
there changes with the draw of A and b, so there are five draws, and the notes count.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import Benchmark, Dataset, Row, Settings
from benchmarks.plots import convergence
from benchmarks.problems import Array, Problem, Region, cornerstep, judge
from cornerstep.domains import CappedSimplex
from cornerstep.objectives import LeastSquares

GAP = 1e-6
M, N, K = 100, 1000, 375
ON_FACE = "optimum on a face (b of size 100)"


def _problem(scale: float, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((M, N)), scale * rng.standard_normal(M)

    def evaluate(x: Array) -> tuple[float, Array]:
        residual = A @ x - b
        return float(residual @ residual), 2 * (A.T @ residual)

    def pair() -> tuple[Any, Any]:
        root = np.sqrt(2.0)  # LeastSquares has a factor 1/2
        return LeastSquares(root * A, root * b), CappedSimplex(N, K, at_most=True)

    return Problem(evaluate, Region(N, 1.0, total=K, at_most=True), pair)


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    title = "min |Ax - b|² over Q_375, A 100 x 1000, against "
    return [
        convergence(rows, folder / f"q375_{x}.png", title + x, (x,), GAP)
        for x in ("iteration", "seconds")
    ]


def _notes(rows: list[Row]) -> list[str]:
    """di-pairwise over di-away, for each draw and in the geometric mean."""
    lines = ["", "di-pairwise / di-away (below 1: PFW-2 is ahead):"]
    on_face = [row for row in rows if row.dataset.startswith(ON_FACE) and row.solved]
    for threads in dict.fromkeys(row.threads for row in on_face):
        some = {(row.dataset, row.solver): row for row in on_face if row.threads == threads}
        pairs = [
            (some[name, "di-pairwise"], some[name, "di-away"])
            for name in dict.fromkeys(dataset for dataset, _ in some)
            if (name, "di-pairwise") in some and (name, "di-away") in some
        ]
        iterations = [(p.iterations or 0) / max(a.iterations or 0, 1) for p, a in pairs]
        for quantity, ratios in (
            ("iterations", iterations),
            ("time", [p.median / a.median for p, a in pairs]),
        ):
            each = "  ".join(f"{ratio:.2f}" for ratio in ratios)
            mean = float(np.exp(np.mean(np.log(ratios))))
            lines.append(f"  {threads} thread(s), {quantity:<10}  {each}   mean {mean:.2f}")
    return lines


def build(settings: Settings) -> Benchmark:
    """A run is ended after ``settings.limit`` seconds (2)."""
    inside = Dataset("optimum inside (b of size 1)", partial(_problem, 1.0, 0))
    on_face = (
        Dataset(f"{ON_FACE}, draw {seed}", partial(_problem, 100.0, seed)) for seed in range(5)
    )
    return Benchmark(
        name="q375",
        title="min |Ax - b|² over Q_375, A 100 x 1000 standard normal, to a judged gap of 1e-6",
        datasets=(*on_face, inside),
        solvers=tuple(
            cornerstep(name, tol=GAP, time_limit=settings.limit or 2.0)
            for name in ("di-away", "di-pairwise", "away", "pairwise", "blended-pairwise", "fw")
        ),
        judge=judge,
        baseline="di-away",
        target=("gap", GAP),
        repeat=3,
        patience=0.5,
        notes=_notes,
        plot=_plot,
        paths=True,
    )
