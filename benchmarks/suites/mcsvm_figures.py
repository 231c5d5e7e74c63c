"""Figures 1 and 2: objective error and duality gap of the plain methods, without and with envelope.

Weighted Usunier with ``rho_j = max(0, 6 - j)/15``, lambda = 1/n (C = 1), smoothing 0 and 0.01;
PG, StdFW and LSFW are projected-gradient, fw-open-loop and fw.  The block solver is a fourth curve,
whose iterations are rounds.  Values are in the published scale, ``P/n``.  The error is taken
against a proven lower bound, so it is never understated.  Features of the image sets are those of
another network than the published ones, scaled to unit mean squared norm.  The published scale is
not known and matters: Figure 1 has flowers102 also with features ten times longer.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.core import Benchmark, Dataset, Measures, Row, Settings
from benchmarks.multiclass import WEIGHTED_USUNIER, Point, Problem, judge, plain, reference
from benchmarks.plots import grid

SETS = ("caltech", "cub200", "flowers102", "news20")
LONGER = ("flowers102 x 10",)
RULES = ("projected-gradient", "fw-open-loop", "fw", "block")
FIGURES = {0.0: "Figure 1", 0.01: "Figure 2"}
#: Sets of the one figure of the paper in Japanese, which is Figure 1 on other sets (ALOI as well).
IN_JAPANESE = ("caltech", "cub200", "flowers102")


def _problem(name: str, smoothing: float, limit: float) -> Problem:
    name, _, factor = name.partition(" x ")
    X, y = data.load_paper(name)
    problem = Problem(X * float(factor or 1), y, loss=WEIGHTED_USUNIER, smoothing=smoothing)
    return reference(problem, tol=1e-6, time_limit=limit)


def _name(name: str, smoothing: float) -> str:
    return f"{FIGURES[smoothing]}: {name}"


def _judge(problem: Problem, point: Point) -> Measures:
    found = judge(problem, point)
    n, value = problem.y.size, found["primal"]
    return {
        "P": value / n,
        "error": max(value - problem.bound, 0.0) / n,
        "gap": (value - found["dual"]) / n,
        "bound gap": problem.bound_gap * value / n,
    }


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    files = []
    for smoothing, figure in FIGURES.items():
        some = [row for row in rows if row.dataset.startswith(figure)]
        title = f"{figure}: weighted Usunier, lambda = 1/n, smoothing {smoothing:g}"
        for across in ("iteration", "seconds") if some else ():
            file = folder / f"mcsvm_{figure.lower().replace(' ', '')}_{across}.png"
            files.append(grid(some, file, title, across, ("error", "gap")))
    japanese = [row for row in rows if row.dataset in [_name(name, 0.0) for name in IN_JAPANESE]]
    if japanese:
        file, title = folder / "mcsvm_japanese_figure1.png", "Figure 1 of the paper in Japanese"
        files.append(grid(japanese, file, title, "iteration", ("error", "gap")))
    return files


def errors_at(row: Row, iteration: int) -> Measures:
    """What was judged at the last recorded iteration up to the given one."""
    return [point for point in row.path if point["iteration"] <= iteration][-1]


def _notes(rows: list[Row]) -> list[str]:
    """Objective error and gap on the way, and where projected-gradient is ahead of fw."""
    lines = ["", "objective error / duality gap after 10, 30, 100, 300 and 1,000 iterations:"]
    for row in (row for row in rows if row.path and row.solver != "block"):
        seen = [errors_at(row, iteration) for iteration in (10, 30, 100, 300, 1_000)]
        cells = "".join(f"{p['error']:.1e} / {p['gap']:.1e}".rjust(21) for p in seen)
        lines.append(f"  {row.dataset:<28}{row.solver:<20}{cells}")
    for dataset in dict.fromkeys(row.dataset for row in rows if row.path):
        curves = {row.solver: row.path for row in rows if row.dataset == dataset}
        both = list(zip(curves.get("projected-gradient", []), curves.get("fw", []), strict=False))
        ahead = [int(p["iteration"]) for p, f in both if p["error"] < f["error"]]
        said = f"{len(ahead)} of {len(both)}" + (f", from {min(ahead)} on" if ahead else "")
        lines.append(f"  {dataset}: recorded iterations with PG's error below LSFW's: {said}")
    return lines


def build(settings: Settings) -> Benchmark:
    """1,000 iterations, as published, or as many as asked for; 120 s for the bound."""
    limit = settings.limit or 120.0
    return Benchmark(
        name="mcsvm_figures",
        title="Figures 1 and 2: objective error and duality gap, in the scale P/n",
        datasets=tuple(
            Dataset(_name(name, smoothing), partial(_problem, name, smoothing, limit))
            for smoothing in FIGURES
            for name in (*SETS, *LONGER)
            if smoothing == 0 or name in SETS
        ),
        solvers=tuple(plain(rule, settings.iterations or 1_000) for rule in RULES),
        judge=_judge,
        baseline="fw",
        repeat=0,
        shown=("P", "error", "gap"),
        notes=_notes,
        plot=_plot,
        paths=True,
        slow=True,
        real_data=True,
        compact=True,
    )
