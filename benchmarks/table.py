"""Tables: one per dataset or one for all, with ratios against the baseline and the peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import groupby

from rich.console import Console
from rich.table import Table

from benchmarks.core import Benchmark, Row

Cell = Callable[[Row], str]


def show(benchmark: Benchmark, rows: list[Row], console: Console) -> None:
    """Print the tables and notes of a benchmark."""
    console.print(f"\n[bold]{benchmark.name}[/bold]: {benchmark.title}")
    for (dataset, threads), group in groupby(
        rows, lambda row: ("" if benchmark.compact else f"{row.dataset}, ", row.threads)
    ):
        some = list(group)
        plural = "" if threads == 1 else "s"
        table = Table(
            title=f"{dataset}{threads} thread{plural}", title_justify="left", box=None,
            pad_edge=False, padding=(0, 2, 0, 0),
        )  # fmt: skip
        columns = _columns(benchmark, some)
        for heading in columns:
            left = heading in ("dataset", "solver", "stopped")
            table.add_column(heading, justify="left" if left else "right", no_wrap=True)
        for row in some:
            table.add_row(*(cell(row) for cell in columns.values()))
        console.print()
        console.print(table)
    if any(_bound(row) for row in rows) and benchmark.target:
        name, value = benchmark.target
        console.print(f"[dim]> : {name} {value:g} not reached in that time[/dim]")
    for source in dict.fromkeys(recorded.source for recorded in benchmark.recorded.values()):
        console.print(f"[dim]{source}[/dim]")
    for line in benchmark.notes(rows) if benchmark.notes else []:
        console.print(line)


def _columns(benchmark: Benchmark, rows: list[Row]) -> dict[str, Cell]:
    """Headings and how to fill them; columns that would be empty are left out."""
    bases = {row.dataset: row for row in rows if row.solver == benchmark.baseline}
    columns: dict[str, Cell] = {}
    if benchmark.compact:
        columns["dataset"] = lambda row: row.dataset
    columns["solver"] = lambda row: row.solver
    if any(row.iterations is not None for row in rows):
        columns["iterations"] = lambda row: "" if row.iterations is None else f"{row.iterations:,}"
    unit, scale = ("s", 1.0) if benchmark.compact else ("ms", 1e3)
    columns[unit] = lambda row: _bound(row) + _number(scale * row.median)
    if any(len(row.seconds) > 1 for row in rows):
        columns[f"min {unit}"] = lambda row: _number(scale * row.best)
    if any(row.iterations for row in rows):
        columns["ms/it"] = lambda row: _number(1e3 * row.per_iteration)
    if bases and len(rows) > len(bases):
        columns[f"/ {benchmark.baseline}"] = lambda row: (
            _bound(row) + _ratio(row.median, bases[row.dataset].median)
            if row.dataset in bases else ""
        )  # fmt: skip
    yardstick = benchmark.yardstick
    if yardstick is not None:
        columns[f"it / {yardstick.name}"] = lambda row: _ratio(
            row.per_iteration, row.yardstick_seconds
        )
    for measure in benchmark.shown:
        if not benchmark.compact or any(measure in row.measures for row in rows):
            columns[measure] = partial(_measure, measure)
    if any(row.peak_bytes is not None for row in rows):
        columns["peak kB"] = lambda row: (
            "" if row.peak_bytes is None else f"{row.peak_bytes / 1e3:,.0f}"
        )
    if any((row.dataset, row.solver) in benchmark.recorded for row in rows):
        columns |= _recorded_columns(benchmark)
    columns["stopped"] = lambda row: row.stopped
    return columns


def _recorded_columns(benchmark: Benchmark) -> dict[str, Cell]:
    def iterations(row: Row) -> str:
        peer = benchmark.recorded.get((row.dataset, row.solver))
        return "" if peer is None or peer.iterations is None else f"{peer.iterations:,}"

    def milliseconds(row: Row) -> str:
        peer = benchmark.recorded.get((row.dataset, row.solver))
        return "" if peer is None else _number(1e3 * peer.seconds)

    def ratio(row: Row) -> str:
        peer = benchmark.recorded.get((row.dataset, row.solver))
        return "" if peer is None else _ratio(row.median, peer.seconds)

    name = benchmark.recorded_name
    return {f"{name} it": iterations, f"{name} ms": milliseconds, f"ours / {name}": ratio}


def _bound(row: Row) -> str:
    """Times of runs that did not reach the target are lower bounds."""
    return "" if row.solved or not row.seconds else "> "


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float, base: float | None) -> str:
    if base is None or not base > 0 or math.isnan(value):
        return ""
    ratio = value / base
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x"


def _measure(name: str, row: Row) -> str:
    value = row.measures.get(name)
    if value is None:
        return ""
    if math.isfinite(value) and value == round(value) != 0:
        return f"{value:,.0f}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"
