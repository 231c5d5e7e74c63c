"""Figures 1 and 2 of the review: the dual extragradient's dependencies, and zig-zags.

Figure 2: ``|x - x*|²`` over a triangle, x* on an edge of it: Frank-Wolfe zig-zags between the ends
of that edge, an away step or a pairwise step leads there.  Figure 1 is a diagram and needs no run;
the notes check what it rests on: the sum of gradients is ``-t`` times the gradient at the average,
so that averages are all that dual extragradient has to keep.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver
from cornerstep import minimize
from cornerstep.domains import ConvexHull
from cornerstep.objectives import LeastSquares

CORNERS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.2, 1.0]])
OPTIMUM = np.array([0.3, 0.0])
METHODS = ("fw", "away", "pairwise")
MOST = 200


def _solver(method: str) -> Solver:
    def prepare(optimum: Any) -> Run:
        def run(recorder: Recorder | None) -> Answer:
            def callback(now: Any) -> None:
                if recorder is not None:
                    recorder(now.iteration, now.seconds, now.x)

            found = minimize(
                LeastSquares(np.eye(2), optimum), ConvexHull(CORNERS), method=method, tol=1e-9,
                x0=CORNERS[2], max_iter=MOST, callback=callback,
            )  # fmt: skip
            return Answer(found.x, found.n_iter, found.status.value)

        return run

    return Solver(method, prepare)


def _judge(optimum: Any, x: Any) -> Measures:
    error = float(np.sum((x - optimum) ** 2)) / 2
    return {"x": float(x[0]), "y": float(x[1]), "error": error}


def identity_error(steps: int = 50, seed: int = 0) -> float:
    """How far the sum of an affine operator's values is from that at the average, times t."""
    rng = np.random.default_rng(seed)
    F, a, points = (rng.standard_normal(shape) for shape in ((8, 8), 8, (steps, 8)))
    skew = F - F.T
    total = sum(skew @ u - a for u in points)
    return float(np.abs(total - steps * (skew @ points.mean(axis=0) - a)).max())


def _notes(rows: list[Row]) -> list[str]:
    said = [f"{row.solver} {row.iterations} ({row.measures['error']:.0e})" for row in rows]
    return [
        "",
        f"Figure 2, iterations (and error): {', '.join(said)}",
        f"Figure 1, sum of gradients less t times that at the average: {identity_error():.0e}",
    ]


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    return [_dependencies(folder / "review_figure1.png"), _zigzag(rows, folder)]


def _zigzag(rows: list[Row], folder: Path) -> Path:
    from benchmarks.plots import LOOK, plt

    with plt.rc_context(LOOK | {"axes.grid": False}):
        figure, axes = plt.subplots(1, len(rows), figsize=(3.4 * len(rows), 2.7), squeeze=False)
        for axis, row in zip(axes.flat, rows, strict=True):
            axis.fill(*CORNERS.T, color="#eef3f8", edgecolor="#555555")
            path = np.array([[point["x"], point["y"]] for point in row.path])
            axis.plot(*path.T, "o-", color="#0072B2", markersize=2.5, linewidth=0.9)
            axis.plot(*OPTIMUM, "*", color="#D55E00", markersize=11)
            axis.set_title(f"{row.solver}: {row.iterations} iterations")
            axis.set_axis_off()
        file = folder / "review_figure2.png"
        figure.savefig(file, dpi=130, bbox_inches="tight")
        plt.close(figure)
    return file


def _dependencies(file: Path) -> Path:
    """Which quantity of an iteration needs which; the box is one iteration."""
    from benchmarks.plots import LOOK, plt

    boxes = {
        "$\\bar u^{t-1}$": (0.0, 0.5), "$s^{t-1} = -t\\,(F\\bar u^{t-1} - a)$": (0.27, 0.5),
        "$v = \\Pi(\\hat u + \\eta s^{t-1})$": (0.62, 0.5),
        "$u^t = \\Pi(v - \\eta (Fv - a))$": (0.62, 0.12), "$\\bar u^t$": (1.0, 0.12),
    }  # fmt: skip
    arrows = (
        ((0.03, 0.5), (0.15, 0.5)), ((0.39, 0.5), (0.52, 0.5)), ((0.62, 0.43), (0.62, 0.2)),
        ((0.74, 0.12), (0.97, 0.12)), ((0.0, 0.43), (0.97, 0.06)),
    )  # fmt: skip
    with plt.rc_context(LOOK | {"axes.grid": False}):
        figure, axis = plt.subplots(figsize=(8.5, 2.6))
        axis.set(xlim=(-0.06, 1.06), ylim=(-0.3, 0.75))
        axis.set_axis_off()
        axis.add_patch(
            plt.Rectangle((0.1, 0.0), 0.68, 0.64, fill=False, linestyle=":", edgecolor="#555555")
        )
        for start, end in arrows:
            curved = "arc3,rad=0.3" if (start, end) == arrows[-1] else "arc3"
            look = {"arrowstyle": "->", "color": "#555555", "connectionstyle": curved}
            axis.annotate("", end, start, arrowprops=look)
        for words, (x, y) in boxes.items():
            frame = {"boxstyle": "round", "facecolor": "white", "edgecolor": "#0072B2"}
            axis.text(x, y, words, ha="center", va="center", bbox=frame, fontsize=10)
        figure.savefig(file, dpi=130, bbox_inches="tight")
        plt.close(figure)
    return file


BENCHMARK = Benchmark(
    name="review_figures",
    title="the review's Figures 1 and 2: dependencies of dual extragradient, zig-zags",
    datasets=(Dataset("triangle", lambda: OPTIMUM),),
    solvers=tuple(_solver(method) for method in METHODS),
    judge=_judge,
    baseline="fw",
    repeat=0,
    shown=("error",),
    notes=_notes,
    plot=_plot,
    paths=True,
)
