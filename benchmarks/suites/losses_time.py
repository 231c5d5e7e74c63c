"""What the other losses cost: weighted Usunier and top-5 beside max hinge, on the same data."""

from __future__ import annotations

import math

import numpy as np

from benchmarks import data
from benchmarks.core import Benchmark, Dataset, Row, Settings
from benchmarks.multiclass import MAX_HINGE, TOP_5, WEIGHTED_USUNIER, Problem, cornerstep, judge
from benchmarks.suites.multiclass import GAP, QUICK

_TARGET = 3.0


def _problem(name: str, scaling: str) -> Problem:
    return Problem(*data.load(name, scaling))


def _dataset(name: str, scaling: str) -> Dataset:
    return Dataset(f"{name} {scaling}, C = 1", lambda: _problem(name, scaling))


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", f"time / time of {MAX_HINGE.name} (aim: at most {_TARGET:g}):"]
    for threads in dict.fromkeys(row.threads for row in rows):
        some = {(row.dataset, row.solver): row.median for row in rows if row.threads == threads}
        for loss in (WEIGHTED_USUNIER.name, TOP_5.name):
            ratios = [
                time / some[dataset, MAX_HINGE.name]
                for (dataset, solver), time in some.items() if solver == loss
            ]  # fmt: skip
            mean = math.exp(float(np.mean(np.log(ratios))))
            lines.append(
                f"  {threads} thread(s), {loss:<18} geometric mean {mean:.2f}x, "
                f"largest {max(ratios):.2f}x"
            )
    return lines


def build(settings: Settings) -> Benchmark:
    """The sets of ``multiclass`` with C = 1."""
    names = data.NAMES if settings.full or settings.only else QUICK
    return Benchmark(
        name="losses_time",
        title="other losses beside max hinge, to a proven relative gap of 1e-3",
        datasets=tuple(
            _dataset(name, scaling)
            for name in names
            for scaling in (("tf-idf",) if name in data.SPARSE else ("unit", "std"))
        ),
        solvers=tuple(
            cornerstep(loss.name, tol=GAP, loss=loss)
            for loss in (MAX_HINGE, WEIGHTED_USUNIER, TOP_5)
        ),
        judge=judge,
        baseline=MAX_HINGE.name,
        target=("gap", GAP),
        repeat=3,
        patience=2.0,
        shown=("sweeps", "gap"),
        notes=_notes,
        slow=settings.full,
        real_data=True,
        compact=True,
    )
