"""Kernel regressions with a tube: ours beside ``SVR`` and ``NuSVR``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.core import Benchmark, Dataset, Settings
from benchmarks.kernel_machines import Task, beside_libsvm

_ROWS = 10_000
_KINDS: tuple[dict[str, float], ...] = (
    {"C": 1.0, "epsilon": 0.1}, {"C": 10.0, "epsilon": 0.1}, {"C": 10.0, "epsilon": 0.01},
)  # fmt: skip


def _rows(name: str) -> tuple[Any, Any]:
    """Ten thousand rows: a function with noise, the height of forests, the end of a stroke."""
    if name == "friedman":
        from sklearn.datasets import make_friedman1

        return make_friedman1(_ROWS, n_features=10, noise=1.0, random_state=0)
    if name == "covtype height":
        X = data.read("covtype_kaggle15120")["X"].astype(np.float64)
        return X[:, 1:], X[:, 0]
    z = data.read("pendigits")
    X = np.vstack([z["X_train"], z["X_test"]]).astype(np.float64)
    return X[:, :-1], X[:, -1]


def _task(name: str, parameters: dict[str, float]) -> Task:
    X, y = _rows(name)
    rows = np.random.default_rng(0).permutation(len(X))[:_ROWS]
    X, y = X[rows], y[rows]
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return Task(np.ascontiguousarray(X), (y - y.mean()) / y.std(), parameters)


def _ours(task: Task) -> Any:
    from cornerstep import ReducedHullSVR

    return partial(ReducedHullSVR, random_state=0)


def _peer(task: Task) -> Any:
    from sklearn.svm import SVR

    return SVR


def build(settings: Settings) -> Benchmark:
    """Three sets of 10,000 rows, three kinds of tubes."""
    datasets = (
        Dataset(
            f"{name}, C = {given['C']:g}, epsilon = {given['epsilon']:g}",
            partial(_task, name, given),
        )
        for name in ("friedman", "covtype height", "pendigits end")
        for given in _KINDS
    )
    return beside_libsvm(
        "kernel_regression",
        "regressions with a tube",
        datasets,
        _ours,
        _peer,
    )
