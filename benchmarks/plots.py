"""Figures: convergence of the judged gap, and bars."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from benchmarks.core import Row

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Colours of Okabe and Ito, distinct to all eyes; solid lines keep no active set, dashed ones do.
_STYLES: dict[str, tuple[str, str]] = {
    "di-pairwise": ("#0072B2", "-"),
    "di-away": ("#D55E00", "-"),
    "pairwise": ("#56B4E9", "--"),
    "away": ("#E69F00", "--"),
    "blended-pairwise": ("#009E73", "--"),
    "fully-corrective": ("#CC79A7", "--"),
    "fw": ("#000000", ":"),
    "copt fw": ("#888888", ":"),
    "di-pairwise-schedule": ("#0072B2", "-."),
    "di-away-schedule": ("#D55E00", "-."),
    "projected-gradient": ("#E69F00", "--"),
    "fw-open-loop": ("#56B4E9", "-."),
    "block": ("#D55E00", "-"),
    "cornerstep": ("#009E73", "-"),
    "SMO": ("#000000", "--"),
    "SMO, Platt": ("#888888", "--"),
    "bcfw": ("#0072B2", "-"),
    "bcfw, default": ("#000000", "-"),
    "bcfw, default, gap": ("#56B4E9", "-"),
    "bcfw-pairwise": ("#D55E00", "-"),
    "bcfw-pairwise, cache": ("#E69F00", "-"),
    "bcfw-away": ("#009E73", "--"),
    "bcfw-auto": ("#CC79A7", "--"),
    "subgradient": ("#888888", ":"),
    "extragradient": ("#444444", "-."),
}
_LABELS = {"iteration": "iterations", "seconds": "seconds", "oracle_calls": "oracle calls"}
LOOK: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "legend.frameon": False,
}


def convergence(
    rows: list[Row], file: Path, title: str, across: tuple[str, ...], target: float
) -> Path:
    """The gap against ``across`` (iteration, seconds), both on log scales; a panel a dataset.

    With two entries in ``across`` each dataset gets a row of two panels; with one, panels wrap.
    """
    rows = [row for row in rows if row.path and row.threads == rows[0].threads]
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    wide = len(across) if len(across) > 1 else min(3, len(datasets))
    tall = -(-len(datasets) * len(across) // wide)
    with plt.rc_context(LOOK):
        figure, axes = plt.subplots(
            tall, wide, figsize=(4.3 * wide, 3.1 * tall + 0.9), squeeze=False, layout="constrained"
        )
        for axis in axes.flat:
            axis.set_visible(False)
        panels = [(dataset, x) for dataset in datasets for x in across]
        for axis, (dataset, x) in zip(axes.flat, panels, strict=False):
            axis.set_visible(True)
            for row in rows:
                if row.dataset == dataset:
                    _curve(axis, row, x)
            axis.axhline(target, color="#999999", linewidth=0.8, zorder=1)
            axis.set(xscale="log", yscale="log", xlabel=_LABELS[x], title=dataset)
            axis.set_ylim(bottom=target / 10)
            if axis in axes[:, 0]:
                axis.set_ylabel("duality gap (judged)")
        known: dict[str, Any] = {}
        for axis in axes.flat:
            known |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        columns = min(5 if wide > 2 else 4, len(known))
        figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=columns)
        figure.savefig(file, dpi=150)
        plt.close(figure)
    return file


def _curve(axis: Axes, row: Row, x: str) -> None:
    colour, line = _STYLES.get(row.solver, ("#444444", "-"))
    across = np.array([point[x] for point in row.path], dtype=float)
    gap = np.array([point["gap"] for point in row.path])
    seen = (gap > 0) & (across > 0)
    axis.plot(across[seen], gap[seen], color=colour, linestyle=line, label=row.solver, lw=1.6)
    if row.solved and seen.any():
        axis.plot(across[seen][-1], gap[seen][-1], "o", color=colour, markersize=4)


def bars(values: Mapping[str, Mapping[str, float]], file: Path, title: str, quantity: str) -> Path:
    """Horizontal bars, a panel a key of ``values``, on one common scale."""
    with plt.rc_context(LOOK | {"axes.grid": False}):
        figure, axes = plt.subplots(
            1, len(values), figsize=(4.0 * len(values), 2.9), sharex=True, sharey=True,
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axis, (panel, measured) in zip(axes.flat, values.items(), strict=True):
            colours = [_STYLES.get(name.split(",")[0], ("#444444", "-"))[0] for name in measured]
            drawn = axis.barh(list(measured), list(measured.values()), color=colours, height=0.7)
            axis.bar_label(drawn, fmt="{:,.0f}", padding=3, fontsize=9)
            axis.set(title=panel, xlabel=quantity)
            axis.margins(x=0.18)
        axes[0, 0].invert_yaxis()
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        figure.savefig(file, dpi=150)
        plt.close(figure)
    return file


def grid(rows: list[Row], file: Path, title: str, across: str, down: tuple[str, ...]) -> Path:
    """Judged measures ``down`` against ``across``, log scales; a column of panels a dataset."""
    rows = [row for row in rows if row.path and row.threads == rows[0].threads]
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    shape = (len(down), max(len(datasets), 1))
    with plt.rc_context(LOOK):
        figure, axes = plt.subplots(
            *shape, figsize=(max(3.6 * shape[1] + 0.6, 7.0), 2.8 * shape[0] + 0.9), sharex="col",
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for column, dataset in enumerate(datasets):
            some = [row for row in rows if row.dataset == dataset]
            floor = min(row.path[-1].get("bound gap", 0.0) for row in some)
            for axis, measure in zip(axes[:, column], down, strict=True):
                for row in some:
                    colour, line = _STYLES.get(row.solver, ("#444444", "-"))
                    points = [(point[across], point[measure]) for point in row.path]
                    shown = np.array([point for point in points if min(point) > 0] or [(1, np.nan)])
                    axis.plot(*shown.T, color=colour, linestyle=line, label=row.solver, lw=1.6)
                if measure == "error" and floor > 0:  # below it the bound, not the point, is off
                    axis.axhline(floor, color="#999999", linewidth=0.8, zorder=1)
                axis.set(xscale="log", yscale="log")
                if column == 0:
                    axis.set_ylabel({"error": "objective error", "gap": "duality gap"}[measure])
            axes[0, column].set_title(dataset.split(": ")[-1])
            axes[-1, column].set_xlabel(_LABELS[across])
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=max(len(labels), 1))
        figure.savefig(file, dpi=150)
        plt.close(figure)
    return file


def evaluations(rows: list[Row], file: Path) -> Path:
    """The least judged ``primal error`` so far against ``columns`` of the kernel matrix.

    A panel a dataset, both on log scales.
    """
    rows = [row for row in rows if row.path]
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    with plt.rc_context(LOOK):
        figure, axes = plt.subplots(
            1, len(datasets), figsize=(max(3.6 * len(datasets), 5.0), 3.6), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for ax, dataset in zip(axes.flat, datasets, strict=True):
            for row in (row for row in rows if row.dataset == dataset):
                colour, style = _STYLES[row.solver]
                path = [point for point in row.path if point["columns"] >= 1]
                across = [point["columns"] for point in path]
                error = np.minimum.accumulate([max(point["primal error"], 1e-9) for point in path])
                ax.loglog(across, error, style, color=colour, label=row.solver)
                ax.plot(across[-1], max(error[-1], 1e-6), "o", color=colour, ms=4, clip_on=False)
            ax.axhline(1e-3, color="#999999", linewidth=0.8, zorder=1)
            ax.set_title(dataset)
            ax.set_xlabel("kernel evaluations / n")
            ax.set_ylim(bottom=1e-6)
            ax.xaxis.set_minor_formatter(NullFormatter())
        axes.flat[0].set_ylabel("least primal objective so far,\nrelative error")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        figure.savefig(file, dpi=150)
        plt.close(figure)
    return file
