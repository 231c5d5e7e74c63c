"""``min |Ax - b|²`` over ``Q_375 = {0 <= x <= 1, sum x <= 375}``, A 100 x 1000: AFW-2 and PFW-2.

In the literature's names di-away is AFW-2 and di-pairwise PFW-2.  With b as small as the entries
of A the residual can be brought to 0 inside Q_375, and every method is fast; with b a hundred times
larger the optimum lies on a face, which is where away steps matter.  Which of the two is ahead
there changes with the draw of A and b, so there are five draws, and the notes count.  --full:
twelve draws of three kinds, since the published one is not known, for these two methods alone.
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
#: Names, sizes of b, and how A and b are drawn.
KINDS = {
    ON_FACE: (100.0, "normal, normal"),
    "uniform A, b of size 300": (300.0, "uniform, uniform"),
    "uniform b of size 100": (100.0, "normal, uniform"),
}


def _problem(scale: float, seed: int, draws: str = "normal, normal") -> Problem:
    """``draws``: of the entries of A, and of b before it is scaled."""
    rng = np.random.default_rng(seed)
    A, b = (
        rng.standard_normal(shape) if kind == "normal" else rng.random(shape)
        for kind, shape in zip(draws.split(", "), ((M, N), M), strict=True)
    )
    b *= scale

    def evaluate(x: Array) -> tuple[float, Array]:
        residual = A @ x - b
        return float(residual @ residual), 2 * (A.T @ residual)

    def pair() -> tuple[Any, Any]:
        root = np.sqrt(2.0)  # LeastSquares has a factor 1/2
        return LeastSquares(root * A, root * b), CappedSimplex(N, K, at_most=True)

    return Problem(evaluate, Region(N, 1.0, total=K, at_most=True), pair)


def _kind(row: Row) -> str:
    return row.dataset.split(", draw")[0]


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    title = "min |Ax - b|² over Q_375, A 100 x 1000, against "
    count = 6 // len(dict.fromkeys(map(_kind, rows)))  # panels of a kind
    few = tuple(f", draw {seed}" for seed in range(count))
    rows = [row for row in rows if row.dataset.endswith(few)]
    return [
        convergence(rows, folder / f"q375_{x}.png", title + x, (x,), GAP)
        for x in ("iteration", "seconds")
    ]


def _notes(rows: list[Row]) -> list[str]:
    """di-pairwise over di-away, for each draw and in the geometric mean."""
    lines = ["", "di-pairwise / di-away (below 1: PFW-2 is ahead):"]
    for threads, kind in dict.fromkeys(
        (row.threads, row.dataset.split(", draw")[0]) for row in rows
    ):
        some = {
            (row.dataset, row.solver): row
            for row in rows
            if row.threads == threads and _kind(row) == kind and row.solved
        }
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
            if ratios:
                each = "  ".join(f"{ratio:.2f}" for ratio in ratios)
                mean = float(np.exp(np.mean(np.log(ratios))))
                ahead = f"ahead in {sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"
                lines.append(f"  {kind}, {threads} thread(s), {quantity:<10}  {each}")
                lines.append(f"      mean {mean:.2f}, {ahead}")
    return lines


def build(settings: Settings) -> Benchmark:
    """A run is ended after ``settings.limit`` seconds (2; with --full 20)."""
    methods = ("di-away", "di-pairwise", "away", "pairwise", "blended-pairwise", "fw")
    full = settings.full
    limit = settings.limit or (20.0 if full else 2.0)
    on_face = (
        Dataset(f"{kind}, draw {seed}", partial(_problem, scale, seed, draws))
        for kind, (scale, draws) in KINDS.items()
        for seed in range(12 if full else 5)
        if full or kind == ON_FACE
    )
    inside = Dataset("optimum inside (b of size 1), draw 0", partial(_problem, 1.0, 0))
    return Benchmark(
        name="q375",
        title="min |Ax - b|² over Q_375, A 100 x 1000, to a judged gap of 1e-6",
        datasets=(*on_face, inside),
        solvers=tuple(
            cornerstep(name, tol=GAP, time_limit=limit)
            for name in (methods[:2] if full else methods)
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
