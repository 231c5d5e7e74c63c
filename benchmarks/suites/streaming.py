"""Data larger than memory: a fit on rows on disk, with the peak of resident memory.

A memory-mapped float32 file of unit rows (d = 2,048, m = 100) is trained on in a process of its
own, to a proven relative gap of 1e-2.  ``--only 20`` takes the one of 20 GB, for which a peak of
4 GiB is the bar; files go to the folder named by CORNERSTEP_SCRATCH (default: the temporary folder)
and are removed at the end.  ``--limit`` ends training after so many seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

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
from benchmarks.streamed import write_rows

SIZES = (0.4, 4.0, 20.0)  # GB
TOL = 1e-2


def _folder(size: float) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(dir=os.environ.get("CORNERSTEP_SCRATCH"))
    write_rows(Path(folder.name), 1e9 * size)
    return folder


def _solver(name: str, limit: float | None) -> Solver:
    def prepare(folder: tempfile.TemporaryDirectory[str]) -> Run:
        def run(record: Recorder | None) -> Answer:
            words = [sys.executable, "-m", "benchmarks.streamed", folder.name, name, str(TOL)]
            words += [] if limit is None else [str(limit)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return Answer(found, found["passes"], found["status"], seconds=found["seconds"])

        return run

    return Solver(name, prepare)


def _judge(folder: Any, found: dict[str, Any]) -> Measures:
    return {
        "relative_gap": found["relative_gap"],
        "peak_gib": found["peak_bytes"] / 2**30,
        "data_over_peak": found["bytes"] / found["peak_bytes"],
    }


def _notes(rows: list[Row]) -> list[str]:
    return [
        "",
        *(
            f"{row.dataset}, {row.solver}: peak {row.measures['peak_gib']:.2f} GiB, data "
            f"{row.measures['data_over_peak']:.1f} times that, {row.per_iteration:.1f} s a pass"
            for row in rows
        ),
    ]


def build(settings: Settings) -> Benchmark:
    """The small file, or those that ``--only`` names."""
    sizes = SIZES if settings.only or settings.full else SIZES[:1]
    return Benchmark(
        name="streaming",
        title="rows on disk, d = 2,048, m = 100, to a proven relative gap of 1e-2",
        datasets=tuple(Dataset(f"{size:g} GB", partial(_folder, size)) for size in sizes),
        solvers=(_solver("auto", settings.limit),),
        judge=_judge,
        baseline="auto",
        target=("relative_gap", TOL),
        repeat=1,
        shown=("relative_gap", "peak_gib", "data_over_peak"),
        notes=_notes,
        slow=True,
    )
