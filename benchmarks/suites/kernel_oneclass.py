"""One-class SVMs: ours beside ``OneClassSVM``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.core import Benchmark, Dataset, Settings
from benchmarks.kernel_machines import Task, beside_libsvm


def _plain(n: int, d: int, nu: float) -> Task:
    """Two clouds, and a twentieth of the rows anywhere."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 3.0 * (rng.random(n) < 0.5)[:, None]
    strange = rng.random(n) < 0.05
    X[strange] = rng.uniform(-6, 9, (int(strange.sum()), d))
    return Task(X, np.zeros(n), {"nu": nu})


def _ours(task: Task) -> Any:
    from cornerstep import OneClassHull

    return partial(OneClassHull, random_state=0)


def _peer(task: Task) -> Any:
    from sklearn.svm import OneClassSVM

    return OneClassSVM


def build(settings: Settings) -> Benchmark:
    """20,000 rows of 2 and 20 features; with ``--full`` 100,000, where LIBSVM takes minutes."""
    sizes = ((20_000, 2), (20_000, 20), *(((100_000, 2),) if settings.full else ()))
    datasets = (
        Dataset(f"{n:,} x {d}, nu = {nu:g}", partial(_plain, n, d, nu))
        for n, d in sizes
        for nu in (0.01, 0.1, 0.5)
    )
    return beside_libsvm(
        "kernel_oneclass",
        "one-class SVMs",
        datasets,
        _ours,
        _peer,
        real_data=False,
    )
