"""Kernel SVMs of several classes, one against one: ours beside ``SVC`` and ``NuSVC``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.core import Benchmark, Dataset, Settings
from benchmarks.kernel_machines import Task, beside_libsvm

_ROWS = {"mnist": 10_000, "ocr letters": 10_000, "connect4": 10_000}
SETS = (
    "vowel", "8 x 8 digits", "plants100", "yaleb32", "pendigits", "usps", "isolet", "ocr letters",
    "connect4", "covtype", "mnist",
)  # fmt: skip
_KINDS: tuple[dict[str, float], ...] = (
    {"C": 1.0}, {"C": 10.0}, {"C": 100.0}, {"nu": 0.1}, {"nu": 0.3},
)  # fmt: skip


def _raw(name: str) -> tuple[Any, Any]:
    if name == "8 x 8 digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    z = data.read({"covtype": "covtype_kaggle15120", "ocr letters": "ocr_letters"}.get(name, name))
    if name == "ocr letters":
        return np.unpackbits(z["X"], axis=1)[:, : int(z["n_features"])], z["y"]
    names = {"connect4": ("X_ternary", "y"), "plants100": ("X_shape", "y_shape")}
    X, y = names.get(name, ("X_train", "y_train") if "X_train" in z else ("X", "y"))
    return z[X], z[y]


def _task(name: str, parameters: dict[str, float]) -> Task:
    """Standardised, in a random order, a part of the large ones."""
    X, y = _raw(name)
    rows = np.random.default_rng(0).permutation(len(X))[: _ROWS.get(name)]
    X = X[rows].astype(np.float64)
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return Task(np.ascontiguousarray(X), np.unique(y[rows], return_inverse=True)[1], parameters)


def _ours(task: Task) -> Any:
    from cornerstep import ReducedHullSVC

    return partial(ReducedHullSVC, random_state=0)


def _peer(task: Task) -> Any:
    from sklearn.svm import SVC, NuSVC

    return SVC if "C" in task.parameters else NuSVC


def build(settings: Settings) -> Benchmark:
    """Eleven sets at three C and two nu; C = 10 and nu = 0.1 alone unless ``--full``."""
    kinds = _KINDS if settings.full else (_KINDS[1], _KINDS[3])
    datasets = (
        Dataset(f"{name}, {key} = {value:g}", partial(_task, name, given))
        for name in SETS
        for given in kinds
        for key, value in given.items()
    )
    return beside_libsvm(
        "kernel_classes",
        "kernel SVMs of several classes",
        datasets,
        _ours,
        _peer,
    )
