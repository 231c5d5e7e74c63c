"""The runner: one process per benchmark and thread setting, so that the setting holds throughout.

The parent calls :func:`run`, which starts ``python -m benchmarks.runner`` with the thread counts in
its environment, before any library is loaded; the child calls :func:`measure` and writes each row
as it comes to a file with a row a line (:class:`Kept`), so that a run that was ended goes on there.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Recorder,
    Row,
    Settings,
    Solver,
    UnavailableError,
)
from benchmarks.suites import load

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip


def run(
    name: str,
    threads: int,
    repeat: int | None = None,
    paths: bool = False,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    keep: Path | None = None,
) -> list[Row]:
    """Measure benchmark ``name`` in a process of its own that uses ``threads`` threads.

    Rows that the file ``keep`` has, of a run with the same settings, are not measured again.
    """
    environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(threads))
    with tempfile.TemporaryDirectory() as folder:
        out = (keep or Path(folder) / "rows.jsonl").absolute()
        command = [sys.executable, "-m", "benchmarks.runner", name, str(out)]
        command += ["--threads", str(threads)]
        command += ["--repeat", str(repeat)] if repeat else []
        command += ["--paths"] if paths else []
        command += ["--settings", json.dumps(asdict(settings))]
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
        benchmark = load(name, settings)
        wanted = {dataset.name for dataset in benchmark.datasets}
        return [row for row in Kept(out, settings).rows.values() if row.dataset in wanted]


class Kept:
    """Rows in a file, one a line below the settings of the run; a new one is written at once.

    Rows of other settings and the half line of a run that was ended do not count.
    """

    def __init__(self, file: Path, settings: Settings) -> None:
        self.file = file
        self.rows: dict[tuple[str, str, int], Row] = {}
        head = json.dumps(asdict(replace(settings, only=())), sort_keys=True)
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        if lines[:1] == [head]:
            for row in (Row(**json.loads(line)) for line in lines[1:]):
                self.rows[row.dataset, row.solver, row.threads] = row
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".fresh")
        fresh.write_text(head + "\n" + "".join(map(_line, self.rows.values())))
        fresh.replace(file)

    def add(self, row: Row) -> None:
        """Keep a row."""
        self.rows[row.dataset, row.solver, row.threads] = row
        with self.file.open("a") as file:
            file.write(_line(row))


def _line(row: Row) -> str:
    return json.dumps(asdict(row)) + "\n"


def measure(
    benchmark: Benchmark, threads: int, repeat: int, paths: bool, kept: Kept | None = None
) -> list[Row]:
    """Every solver on every dataset it applies to; those not installed are said once."""
    rows = []
    solvers = []
    old = {} if kept is None else kept.rows
    known = {key: row for key, row in old.items() if row.measures}  # failed ones are tried again
    for solver in benchmark.solvers:
        if missing := solver.missing():
            words = f"  {solver.name} left out: not installed: {', '.join(missing)}"
            print(words, file=sys.stderr, flush=True)
        else:
            solvers.append(solver)
    count, number = len(benchmark.datasets) * len(solvers), 0
    for dataset in benchmark.datasets:
        if all((dataset.name, solver.name, threads) in known for solver in solvers):
            rows += [known[dataset.name, solver.name, threads] for solver in solvers]
            number += len(solvers)
            continue
        try:
            problem = dataset.build()
        except UnavailableError as reason:
            print(f"  {dataset.name} left out: {reason}", file=sys.stderr, flush=True)
            number += len(solvers)
            continue
        bare = _yardstick(benchmark, problem)
        for solver in solvers:
            number += 1
            if not solver.applies(problem):
                continue
            if (row := known.get((dataset.name, solver.name, threads))) is None:
                row = _measure_one(benchmark, dataset, problem, solver, threads, repeat, paths)
                row.yardstick_seconds = bare
                if kept is not None:
                    kept.add(row)
                said = f"{dataset.name}, {solver.name}: {row.median:.3g} s {row.stopped}"
                print(f"  [{number}/{count}] {said}", file=sys.stderr, flush=True)
            rows.append(row)
    return rows


def _measure_one(
    benchmark: Benchmark,
    dataset: Dataset,
    problem: Any,
    solver: Solver,
    threads: int,
    repeat: int,
    paths: bool,
) -> Row:
    row = Row(dataset.name, solver.name, threads)
    try:
        start = time.perf_counter()
        solve = solver.prepare(problem)
        row.setup_seconds = time.perf_counter() - start
        recorder = Recorder() if paths and repeat == 0 else None
        while len(row.seconds) < max(repeat, 1) and sum(row.seconds) <= benchmark.patience:
            gc.collect()
            start = time.perf_counter()
            answer = solve(recorder)
            wall = time.perf_counter() - start
            row.seconds.append(wall if answer.seconds is None else answer.seconds)
        row.iterations, row.stopped = answer.iterations, answer.stopped
        row.measures = answer.work | benchmark.judge(problem, answer.point)
        row.solved = benchmark.solved(row.measures)
        if paths and recorder is None:
            recorder = Recorder()
            start = time.perf_counter()
            answer = solve(recorder)
            wall = time.perf_counter() - start
        if recorder is not None:
            row.path = _path(benchmark, problem, recorder, answer, wall)
        del answer, recorder
        if benchmark.memory and row.solved:
            row.peak_bytes = _peak_bytes(lambda: solve(None))
    except Exception as error:  # one broken solver must not hide the others
        row.stopped, row.solved = f"{type(error).__name__}: {error}", False
    return row


def _path(
    benchmark: Benchmark, problem: Any, recorder: Recorder, answer: Answer, seconds: float
) -> list[dict[str, float]]:
    """The points of a recorded solve, judged along the way and at the end."""
    last = [(answer.iterations or 0, seconds, answer.point)]
    return [
        {"iteration": iteration, "seconds": seconds} | benchmark.judge(problem, point)
        for iteration, seconds, point in recorder.kept + last
    ]


def _peak_bytes(work: Callable[[], Any]) -> int:
    """The most that was allocated at once during ``work``, beyond what was before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _yardstick(benchmark: Benchmark, problem: Any) -> float | None:
    """The median time of the bare operation, in batches long enough for the clock."""
    if benchmark.yardstick is None:
        return None
    operation = benchmark.yardstick.prepare(problem)
    start = time.perf_counter()
    operation()
    once = time.perf_counter() - start
    batches, size = (15, 20) if once < 0.01 else (5, 1)
    times = []
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(size):
            operation()
        times.append((time.perf_counter() - start) / size)
    return sorted(times)[len(times) // 2]


def write(name: str, rows: list[Row], folder: Path = RESULTS) -> list[Path]:
    """``name.json`` with everything, ``name.csv`` with a line per row."""
    folder.mkdir(parents=True, exist_ok=True)
    whole, flat = folder / f"{name}.json", folder / f"{name}.csv"
    whole.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    with flat.open("w", newline="") as file:
        lines = [_flat(row) for row in rows]
        columns = list(dict.fromkeys(key for line in lines for key in line))
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(lines)
    return [whole, flat]


def _flat(row: Row) -> dict[str, Any]:
    line = asdict(row) | {"median_seconds": row.median, "min_seconds": row.best} | row.measures
    for nested in ("seconds", "measures", "path"):
        del line[nested]
    return line


def main() -> None:
    """The child process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runner")
    parser.add_argument("name")
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--paths", action="store_true")
    parser.add_argument("--settings", default="{}")
    options = parser.parse_args()
    given = json.loads(options.settings)
    given["only"] = tuple(given.get("only", ()))
    settings = Settings(**given)
    benchmark = load(options.name, settings)
    repeat = options.repeat or benchmark.repeat
    paths = options.paths and benchmark.paths
    measure(benchmark, options.threads, repeat, paths, Kept(options.out, settings))


if __name__ == "__main__":
    main()
