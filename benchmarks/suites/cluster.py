"""Strong and weak scaling on Dask processes of this machine: seconds, rounds and bytes a round.

*strong*: the same rows on 1, 2, ... workers; *weak*: as many rows for each worker.  Each worker is
a process of one thread.  Rows are of unit norm around a centre for each class; training goes to a
proven relative gap of 1e-2, and ``fw`` does 10 iterations.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver

ROWS, WIDTH, CLASSES, NOISE, C, TOL = 16_000, 512, 100, 3.0, 0.01, 1e-2
WORKERS = tuple(k for k in (1, 2, 4, 8, 16) if k <= joblib.cpu_count())


class Problem(NamedTuple):
    """Rows to be spread over some workers."""

    X: Any
    y: Any
    workers: int


def _problem(n: int, workers: int) -> Problem:
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    X = rng.standard_normal((CLASSES, WIDTH))[y] + NOISE * rng.standard_normal((n, WIDTH))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Problem(X.astype(np.float32), y, workers)


def _solver(name: str) -> Solver:
    def prepare(problem: Problem) -> Run:
        def run(record: Recorder | None) -> Answer:
            return _fit(problem, name)

        return run

    return Solver(name, prepare, requires=("distributed",))


def _fit(problem: Problem, name: str) -> Answer:
    import dask.array as da
    from distributed import Client, LocalCluster

    from cornerstep import MulticlassSVC

    options: dict[str, Any] = {"C": C, "tol": TOL, "random_state": 0}
    if name == "fw":
        options |= {"solver": "fw", "max_iter": 10}
    chunk = -(-problem.y.size // problem.workers)
    X = da.from_array(problem.X, chunks=(chunk, WIDTH))
    with (
        warnings.catch_warnings(),
        LocalCluster(
            n_workers=problem.workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster),
    ):
        warnings.simplefilter("ignore")
        MulticlassSVC(**options | {"max_iter": 1}).fit(X, problem.y)  # imports and compiles
        start = time.perf_counter()
        model = MulticlassSVC(**options).fit(X, problem.y)
        seconds = time.perf_counter() - start
    trace = model.trace_
    rounds = np.diff(trace["seconds"])
    work = {
        "ms_a_round": 1e3 * float(np.median(rounds)),
        "mb_a_round": float(np.median(np.diff(trace["bytes_moved"]))) / 1e6,
    }
    return Answer(model.relative_gap_, model.n_iter_, str(model.status_), work, seconds)


def _judge(problem: Problem, gap: float) -> Measures:
    return {"relative_gap": gap}


def _notes(rows: list[Row]) -> list[str]:
    return [
        "",
        *(
            f"{row.dataset}, {row.solver}: {row.iterations} rounds, "
            f"{row.measures['ms_a_round']:.0f} ms and {row.measures['mb_a_round']:.2f} MB a round"
            for row in rows
        ),
    ]


BENCHMARK = Benchmark(
    name="cluster",
    title=f"Dask processes here, n = {ROWS:,} (strong) or {ROWS:,} a worker (weak), "
    f"d = {WIDTH}, m = {CLASSES}",
    datasets=(
        *(Dataset(f"strong, {k} workers", partial(_problem, ROWS, k)) for k in WORKERS),
        *(Dataset(f"weak, {k} workers", partial(_problem, ROWS * k, k)) for k in WORKERS[1:]),
    ),
    solvers=(_solver("auto"), _solver("fw")),
    judge=_judge,
    baseline="auto",
    repeat=1,
    shown=("relative_gap", "ms_a_round", "mb_a_round"),
    notes=_notes,
    slow=True,
)
