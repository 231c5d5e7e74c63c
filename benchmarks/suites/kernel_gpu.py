"""Kernel SVMs of ten classes on a GPU beside the CPU cores of the same machine, in real seconds.

mnist divided by 255, one against one, RBF, to a proven relative gap of 1e-3.  Both train pairs on
all cores (``n_jobs=-1``); what differs is where kernel values are computed.  The measure is the
largest relative gap of a pair, and the errors on the test set.
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Measures,
    Recorder,
    Run,
    Settings,
    Solver,
    UnavailableError,
    torch_for_data,
)

TOL = 1e-3
_CACHE = 1_000


@dataclass
class Task:
    """Training and test examples on the host, and the parameters."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    parameters: dict[str, float]


def _task(rows: int, parameters: dict[str, float]) -> Task:
    if not torch_for_data().cuda.is_available():
        raise UnavailableError("there is no GPU")
    z = data.read("mnist")
    some = np.random.default_rng(0).permutation(len(z["y_train"]))[:rows]
    X, X_test = (z[name].reshape(len(z[name]), -1) / 255.0 for name in ("X_train", "X_test"))
    return Task(X[some], z["y_train"][some], X_test, z["y_test"], parameters)


def _solver(name: str, on_gpu: bool) -> Solver:
    def prepare(task: Task) -> Run:
        from cornerstep import ReducedHullSVC

        X, X_test = task.X, task.X_test
        if on_gpu:
            torch = torch_for_data()
            X, X_test = (torch.as_tensor(rows, device="cuda") for rows in (X, X_test))
        make = partial(ReducedHullSVC, tol=TOL, cache_size=_CACHE, n_jobs=-1, random_state=0)

        def run(recorder: Recorder | None) -> Answer:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begun = time.perf_counter()
                model = make(**task.parameters).fit(X, task.y)
                seconds = time.perf_counter() - begun
            begun = time.perf_counter()
            errors = float((model.predict(X_test) != task.y_test).mean())
            work = {"predict": time.perf_counter() - begun, "errors": errors}
            return Answer(model, int(np.max(model.n_iter_)), str(model.status_), work, seconds)

        few = np.concatenate([np.flatnonzero(task.y == c)[:30] for c in np.unique(task.y)])
        make(**task.parameters).fit(X[few], task.y[few])  # compiles, and wakes the device
        return run

    return Solver(name, prepare)


def _judge(task: Task, model: Any) -> Measures:
    return {"gap": max(machine.relative_gap for machine in model.machines_)}


def build(settings: Settings) -> Benchmark:
    """60,000 rows at C = 10; with ``--full`` also at C = 1 and nu = 0.1; 2,000 rows to try it."""
    kinds: tuple[dict[str, float], ...] = ({"C": 10.0},)
    if settings.full:
        kinds += ({"C": 1.0}, {"nu": 0.1})
    cores = os.cpu_count() or 1
    return Benchmark(
        name="kernel_gpu",
        title="mnist, ten classes, RBF, to a proven relative gap of 1e-3; real seconds",
        datasets=tuple(
            Dataset(f"mnist {rows:,}, {key} = {value:g}", partial(_task, rows, given))
            for rows in (2_000, 60_000)
            for given in kinds
            for key, value in given.items()
        ),
        solvers=(_solver("GPU", True), _solver(f"CPU, {cores} cores", False)),
        judge=_judge,
        baseline=f"CPU, {cores} cores",
        target=("gap", TOL),
        repeat=1,
        shown=("gap", "predict", "errors"),
        slow=True,
        real_data=True,
        compact=True,
    )
