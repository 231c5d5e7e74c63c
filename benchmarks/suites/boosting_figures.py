"""Figures 1 to 4: soft margin and test error over time, rounds that took the second candidate.

nu = 0.1 m, eps = 0.01, the first of five folds for testing.  Figure 1: soft margin against seconds;
Figure 2: test error against seconds; Figure 3: how often MLPBoost took its second candidate;
Figure 4: MLPBoost with short and pairwise steps beside the plain Frank-Wolfe methods.
--published: the textbook forms of the methods, on the rows of the paper.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from benchmarks.boosting import METHODS, SETS, Problem, judge, load, solver
from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Measures,
    Recorder,
    Row,
    Run,
    Settings,
    Solver,
)

FIGURES = {
    "figure1": ("soft margin", ("mlpboost", "lpboost", "erlpboost")),
    "figure2": ("test error", ("mlpboost", "lpboost", "erlpboost")),
    "figure3": ("secondary", ("mlpboost", "mlpboost, pairwise")),
    "figure4": (
        "soft margin",
        ("mlpboost", "mlpboost, pairwise", "cerlpboost", "cerlpboost, pairwise"),
    ),
}


def _fold(name: str, unique: bool) -> Problem:
    pool = load(name, 0.1, unique)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    train, test = next(iter(folds.split(pool.X, pool.y)))
    return Problem(pool.X[train], pool.y[train], 0.1, pool.X[test], pool.y[test])


class _Stage(dict[str, float]):
    """A point of a curve; the runner copies it."""

    def copy(self) -> _Stage:
        return self


def _curve(problem: Problem, fitted: Any) -> list[tuple[int, float, _Stage]]:
    """Round, seconds, and what the figures show there."""
    trace = fitted.trace_
    taken = np.cumsum(trace["kind"] == "secondary")
    errors = [
        float((seen != problem.y_test).mean()) for seen in fitted.staged_predict(problem.X_test)
    ]
    stage = np.searchsorted(fitted.staged_rounds_, trace["iteration"], side="right") - 1
    return [
        (
            int(k), float(seconds),
            _Stage(
                {
                    "soft margin": -float(value),
                    "test error": errors[max(at, 0)],
                    "secondary": float(count),
                }
            ),
        )
        for k, seconds, value, at, count in zip(
            trace["iteration"], trace["seconds"], trace["value"], stage, taken.astype(float),
            strict=True,
        )
    ]  # fmt: skip


def _recorded(plain: Solver) -> Solver:
    def prepare(problem: Problem) -> Run:
        run = plain.prepare(problem)

        def recording(recorder: Recorder | None) -> Answer:
            answer = run(None)
            if recorder is not None:
                recorder.kept.extend(_curve(problem, answer.point))
            return answer

        return recording

    return Solver(plain.name, prepare)


def _judge(problem: Problem, point: Any) -> Measures:
    if isinstance(point, _Stage):
        return dict(point)
    wrong = point.predict(problem.X_test) != problem.y_test
    taken = float((point.trace_["kind"] == "secondary").sum())
    return judge(problem, point) | {"test error": float(wrong.mean()), "secondary": taken}


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    files = []
    names = list(dict.fromkeys(row.dataset for row in rows))
    for figure_name, (measure, methods) in FIGURES.items():
        wide = min(4, len(names))
        tall = -(-len(names) // wide)
        figure, axes = plt.subplots(
            tall, wide, figsize=(3.6 * wide, 2.7 * tall + 0.8), squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(names) :]:
            axis.set_visible(False)
        across = "iteration" if measure == "secondary" else "seconds"
        for axis, name in zip(axes.flat, names, strict=False):
            for row in rows:
                if row.dataset == name and row.solver in methods:
                    points = [(point[across], point[measure]) for point in row.path]
                    axis.plot(*np.array(points).T, label=row.solver)
            axis.set(title=name, xlabel=across, ylabel=measure)
            if measure == "soft margin":  # the first rounds are far below
                low, high = axis.get_ylim()
                axis.set_ylim(max(low, high - 0.3), high)
            if across == "seconds":
                axis.set_xscale("log")
            else:
                axis.axline((0, 0), slope=1, color="#999999", linestyle=":")
        axes[0, 0].legend()
        file = folder / f"boosting_{figure_name}.png"
        figure.savefig(file, dpi=130)
        plt.close(figure)
        files.append(file)
    return files


def build(settings: Settings) -> Benchmark:
    """Every method once, its course kept."""
    return Benchmark(
        name="boosting_figures",
        title="Figures 1 to 4: soft margin and test error over time, second candidates taken",
        datasets=tuple(Dataset(name, partial(_fold, name, settings.published)) for name in SETS),
        solvers=tuple(
            _recorded(solver(name, settings.limit or 20.0, settings.published)) for name in METHODS
        ),
        judge=_judge,
        baseline="mlpboost",
        repeat=0,
        shown=("soft margin", "gap", "test error", "secondary"),
        plot=_plot,
        paths=True,
        slow=True,
        real_data=True,
        compact=True,
    )
