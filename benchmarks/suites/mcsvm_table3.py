"""Table 3: how the cost of an iteration grows with n, d and m.

Normal data; each size is made four times larger by itself.  The published orders, ``O(mnd)`` for
joint features ``psi(x, j)`` of d entries and ``O(nd)`` for ``e_j (x) x`` (where d is m times the
number of features of x), both mean: in proportion to n, to the features and to m.  CPU seconds; the
notes have the exponents.
"""

from __future__ import annotations

import math
import time
import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver
from benchmarks.multiclass import Problem, run_once
from benchmarks.suites.fw_iteration import random_problem

BASE = {"n": 2_000, "d": 256, "m": 64}
JOINT = {"n": 200, "d": 256, "m": 32}
TIMES = 4
ITERATIONS = 10


def _sizes(base: dict[str, int]) -> dict[str, dict[str, int]]:
    larger = {f"{TIMES} {name}": base | {name: TIMES * base[name]} for name in base}
    return {"base": base} | larger


def _special(problem: Problem) -> Run:
    run_once(problem, "fw", 1, None)

    def run(record: Recorder | None) -> Answer:
        start = time.process_time()
        run_once(problem, "fw", ITERATIONS, None)
        return Answer(None, ITERATIONS, work={"CPU s": time.process_time() - start})

    return run


def _joint(problem: Problem) -> Run:
    """Each ``psi(x, j)`` of d entries of its own, kept as they are."""
    from cornerstep import MulticlassSVC

    rng = np.random.default_rng(2)
    (n, d), m = problem.X.shape, problem.n_classes
    features = rng.standard_normal((n, m, d)) / math.sqrt(d)

    def fit(iterations: int) -> Any:
        options = {
            "fit_intercept": False, "smoothing": 0, "tol": 0.0, "max_iter": iterations,
        }  # fmt: skip
        clf = MulticlassSVC(solver="fw", feature_map=lambda X: features, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # limits
            return clf.fit(problem.X, problem.y)

    fit(1)

    def run(record: Recorder | None) -> Answer:
        times = []
        for iterations in (ITERATIONS, 3 * ITERATIONS):  # their difference has no set-up in it
            start = time.process_time()
            fit(iterations)
            times.append(time.process_time() - start)
        return Answer(None, ITERATIONS, work={"CPU s": (times[1] - times[0]) / 2})

    return run


def _judge(problem: Problem, point: Any) -> Measures:
    return {}


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", "exponents of the CPU time of an iteration:"]
    for kind in dict.fromkeys(row.solver for row in rows):
        seconds = {
            row.dataset.split(": ")[1]: row.measures["CPU s"]
            for row in rows
            if row.solver == kind and row.measures.get("CPU s", 0) > 0
        }
        grown = [
            f"{name.split()[1]} {math.log(value / seconds['base'], TIMES):.2f}"
            for name, value in seconds.items()
            if name != "base"
        ]
        lines.append(f"  {kind}: {', '.join(grown)}")
    return lines


BENCHMARK = Benchmark(
    name="mcsvm_table3",
    title="Table 3: how the cost of an iteration of LSFW grows",
    datasets=tuple(
        Dataset(f"{kind}: {name}", partial(random_problem, **sizes))
        for kind, base in (("features of x", BASE), ("joint features", JOINT))
        for name, sizes in _sizes(base).items()
    ),
    solvers=(
        Solver("fw", _special, lambda problem: problem.y.size >= BASE["n"]),
        Solver("fw, joint features", _joint, lambda problem: problem.y.size < BASE["n"]),
    ),
    judge=_judge,
    baseline="fw",
    repeat=1,
    shown=("CPU s",),
    notes=_notes,
    slow=True,
    compact=True,
)
