"""How much longer a fit takes where every core has a busy loop beside it.

A share of a core instead of a whole one: what that costs, a plain loop in Python shows (about 2
where nothing else runs).  More is the price of threads that wait for one another.

The system takes a core away for milliseconds at a time: a fit that is as short is over before, or
twice as late, whatever it does.  So short fits are repeated within a run, for their mean.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver

_QUIET, _BUSY = "quiet", "busy"
_SECONDS = 60.0  # after which a fit gives up
_STARTED = 0.2  # seconds after which the loops are busy
_RUN = 0.5  # seconds of fits in a run, at least: many of the system's slices

Fit = Callable[[], Any]


@contextmanager
def _busy_loops() -> Iterator[None]:
    """A process for each core that does nothing as fast as it can."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(joblib.cpu_count())]
    time.sleep(_STARTED)
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _multiclass(n: int, d: int, classes: int, C: float = 1.0) -> Fit:
    from cornerstep import MulticlassSVC

    X, y = make_classification(
        n, d, n_informative=d // 2, n_classes=classes, n_clusters_per_class=1, random_state=0
    )
    return lambda: MulticlassSVC(C=C, tol=1e-2, random_state=0, time_limit=_SECONDS).fit(X, y)


def _kernel() -> Fit:
    from cornerstep import ReducedHullSVC

    X, y = make_classification(4000, 20, random_state=0)
    return lambda: ReducedHullSVC(C=1.0, random_state=0, time_limit=_SECONDS).fit(X, y)


def _boosting(load: Callable[..., Any]) -> Fit:
    from cornerstep import SoftMarginBoostingClassifier

    X, y = load(return_X_y=True)
    return lambda: SoftMarginBoostingClassifier(nu=0.1, time_limit=_SECONDS).fit(X, y)


def _structured() -> Fit:
    from cornerstep import StructuredSVC
    from cornerstep.structured import ChainModel

    rng = np.random.default_rng(0)
    y = [rng.integers(0, 8, 12) for _ in range(300)]
    X = [np.eye(8)[labels] @ rng.standard_normal((8, 30)) for labels in y]
    X = [x + 2 * rng.standard_normal(x.shape) for x in X]
    return lambda: StructuredSVC(ChainModel(), random_state=0, time_limit=_SECONDS).fit(X, y)


def _minimize(hull: bool) -> Fit:
    from cornerstep import minimize
    from cornerstep.domains import CappedSimplex, ConvexHull
    from cornerstep.objectives import LeastSquares, Quadratic

    rng = np.random.default_rng(0)
    if hull:
        objective: Any = Quadratic(np.eye(60), -rng.standard_normal(60))
        domain: Any = ConvexHull(rng.standard_normal((5000, 60)))
    else:
        objective = LeastSquares(rng.standard_normal((500, 1000)), rng.standard_normal(500))
        domain = CappedSimplex(1000, 1.0, cap=0.01)
    return lambda: minimize(objective, domain, rtol=1e-4, time_limit=_SECONDS, max_iter=10**6)


def _extragradient() -> Fit:
    from cornerstep import extragradient
    from cornerstep.domains import Simplex
    from cornerstep.saddle import Bilinear

    game = Bilinear(np.random.default_rng(0).standard_normal((300, 300)))
    sides = Simplex(300), Simplex(300)
    return lambda: extragradient(game, *sides, geometry="entropic", time_limit=_SECONDS)


def _plain_loop() -> Fit:
    return lambda: SimpleNamespace(gap=float(sum(0 for _ in range(200_000))))


_FITS: dict[str, Callable[[], Fit]] = {
    "a plain loop": _plain_loop,
    "MulticlassSVC, 3,000 x 64, 10 classes": partial(_multiclass, 3000, 64, 10),
    "MulticlassSVC, 8,000 x 512, 20 classes": partial(_multiclass, 8000, 512, 20, 0.01),
    "ReducedHullSVC, 4,000 x 20": _kernel,
    "StructuredSVC, 300 chains": _structured,
    "SoftMarginBoosting, breast cancer": partial(_boosting, load_breast_cancer),
    "SoftMarginBoosting, digits": partial(_boosting, load_digits),
    "minimize, least squares, capped simplex": partial(_minimize, False),
    "minimize, hull of 5,000 points": partial(_minimize, True),
    "extragradient, 300 x 300": _extragradient,
}


def _solver(name: str, beside: Callable[[], Any]) -> Solver:
    def prepare(fit: Fit) -> Run:
        fit()  # compiled, and in the caches
        start = time.perf_counter()
        fit()
        count = math.ceil(_RUN / (time.perf_counter() - start))

        def run(record: Recorder | None) -> Answer:
            with beside():
                start = time.perf_counter()
                for _ in range(count):
                    fitted = fit()
                seconds = (time.perf_counter() - start) / count
            return Answer(fitted, seconds=seconds)

        return run

    return Solver(name, prepare)


def _judge(fit: Fit, fitted: Any) -> Measures:
    return {"gap": float(fitted.gap_ if hasattr(fitted, "gap_") else fitted.gap)}


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", "busy / quiet (medians):"]
    times = {(row.dataset, row.solver): row.median for row in rows}
    for dataset in dict.fromkeys(row.dataset for row in rows):
        ratio = times[dataset, _BUSY] / times[dataset, _QUIET]
        lines.append(f"  {dataset:<42}{ratio:6.2f}")
    return lines


BENCHMARK = Benchmark(
    name="busy",
    title="fits on an idle machine, and with a busy loop on every core",
    datasets=tuple(Dataset(name, build) for name, build in _FITS.items()),
    solvers=(_solver(_QUIET, nullcontext), _solver(_BUSY, _busy_loops)),
    judge=_judge,
    baseline=_QUIET,
    repeat=5,
    patience=20.0,
    notes=_notes,
    compact=True,
)
