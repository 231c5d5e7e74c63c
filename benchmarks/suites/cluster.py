"""Strong and weak scaling on Dask processes of this machine: seconds, rounds and bytes per round.

*strong*: the same rows on 1, 2, ... workers; *weak*: as many rows for each worker.  Each worker is
a process of one thread and makes its own rows, of unit norm around a centre for each class, in
chunks of 15,000.  Training goes to a proven relative gap of 1e-2, and ``fw`` does 5 iterations.
The client, in whose process the scheduler runs too, has one thread for its matrix products, so
that workers have the other cores to themselves.  Processor seconds tell scaling from what else the
machine does at the time.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver

ROWS, CHUNK, WIDTH, CLASSES, NOISE, C, TOL = 30_000, 15_000, 1_024, 100, 4.0, 0.01, 1e-2
WORKERS = tuple(k for k in (1, 2, 4, 8, 16) if k <= joblib.cpu_count())


class Problem(NamedTuple):
    """So many rows, to be spread over some workers."""

    n: int
    workers: int


def _chunk(k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    rng = np.random.default_rng([1, k])
    y = rng.integers(CLASSES, size=CHUNK)
    X = centres[y] + np.float32(NOISE) * rng.standard_normal((CHUNK, WIDTH), dtype=np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def _arrays(n: int) -> tuple[Any, Any]:
    import dask.array as da
    from dask import delayed

    parts = [delayed(_chunk, nout=2)(k) for k in range(n // CHUNK)]
    X = [da.from_delayed(part[0], (CHUNK, WIDTH), np.float32) for part in parts]
    y = [da.from_delayed(part[1], (CHUNK,), np.int64) for part in parts]
    return da.concatenate(X), da.concatenate(y)


def _solver(name: str) -> Solver:
    def prepare(problem: Problem) -> Run:
        def run(record: Recorder | None) -> Answer:
            return _fit(problem, name)

        return run

    return Solver(name, prepare, requires=("distributed",))


def _fit(problem: Problem, name: str) -> Answer:
    from distributed import Client, LocalCluster

    from cornerstep import MulticlassSVC

    options: dict[str, Any] = {"C": C, "smoothing": 0, "tol": TOL, "random_state": 0}
    if name == "fw":
        options |= {"solver": "fw", "max_iter": 5}
    X, y = _arrays(problem.n)
    with (
        warnings.catch_warnings(),
        threadpool_limits(1),
        LocalCluster(
            n_workers=problem.workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        MulticlassSVC(**options | {"max_iter": 1}).fit(X, y)  # imports and compiles
        before, own = client.run(time.process_time), time.process_time()
        start = time.perf_counter()
        model = MulticlassSVC(**options).fit(X, y)
        seconds = time.perf_counter() - start
        own, after = time.process_time() - own, client.run(time.process_time)
    trace = model.trace_
    rounds = np.diff(trace["seconds"])
    work = {
        "ms_a_round": 1e3 * float(np.median(rounds)),
        "worker_cpu": max(after[place] - before[place] for place in before),
        "client_cpu": own,  # with the scheduler
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
            f"{row.measures['ms_a_round']:.0f} ms and {row.measures['mb_a_round']:.2f} MB a round; "
            f"processor seconds: {row.measures['worker_cpu']:.2f} of the busiest worker, "
            f"{row.measures['client_cpu']:.2f} of client and scheduler"
            for row in rows
        ),
    ]


BENCHMARK = Benchmark(
    name="cluster",
    title=f"Dask processes here, {ROWS:,} rows a worker (weak) or {ROWS * WORKERS[-1]:,} in all "
    f"(strong), d = {WIDTH:,}, m = {CLASSES}",
    datasets=(
        *(Dataset(f"strong, {k}", partial(Problem, ROWS * WORKERS[-1], k)) for k in WORKERS),
        *(Dataset(f"weak, {k}", partial(Problem, ROWS * k, k)) for k in WORKERS),
    ),
    solvers=(_solver("auto"), _solver("fw")),
    judge=_judge,
    baseline="auto",
    repeat=1,
    shown=("relative_gap", "ms_a_round", "mb_a_round"),
    notes=_notes,
    slow=True,
)
