"""Kernel machines beside scikit-learn's (LIBSVM), both at their tolerance of 1e-3, in CPU seconds.

Several classes, one class and regression have dual problems of one form, a machine each:
``f(b) = 1/2 b'Kb - t'b + w |b|_1`` over bounded b with a known sum.  The judge computes f of every
machine from the coefficients that an estimator shows, in scikit-learn's scale, and compares it with
bounds that a run of ours to 1e-6 proves; K is the RBF kernel with ``gamma='scale'``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver

TOL = 1e-3
REFERENCE = 1e-6
CACHE = 1_000
_SCORED = 2_000  # examples on which times of predictions are taken

Array = np.ndarray[Any, np.dtype[np.float64]]
Make = Callable[..., Any]


@dataclass
class Task:
    """Examples, targets, and the parameters that both sides have.

    ``bounds`` are those of the machines, as soon as a run to ``REFERENCE`` has proven them.
    """

    X: Any
    y: Any
    parameters: dict[str, Any]
    bounds: list[float] = field(default_factory=list)

    @property
    def gamma(self) -> float:
        return float(1 / (self.X.shape[1] * self.X.var()))


def solver(name: str, make: Callable[[Task], Make]) -> Solver:
    """An estimator, fitted from scratch; CPU seconds of it, and of its predictions."""

    def prepare(task: Task) -> Run:
        kind = make(task)
        few = np.linspace(0, task.y.size - 1, 200).astype(np.intp)
        if np.unique(task.y[few]).size > 1:
            _fit(kind, task, few)  # compiles

        def run(recorder: Recorder | None) -> Answer:
            begun = time.process_time()
            model = _fit(kind, task, slice(None))
            seconds = time.process_time() - begun
            begun = time.process_time()
            model.predict(task.X[:_SCORED])
            work = {"predict": time.process_time() - begun}
            iterations = int(np.max(model.n_iter_))
            return Answer(model, iterations, str(getattr(model, "status_", "")), work, seconds)

        return run

    return Solver(name, prepare)


def _fit(make: Make, task: Task, rows: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(**task.parameters, tol=TOL, cache_size=CACHE)
        return model.fit(task.X[rows], task.y[rows])


def beside_libsvm(
    name: str, title: str, datasets: Iterable[Dataset], ours: Callable[[Task], Make],
    peer: Callable[[Task], Make], *, real_data: bool = True,
) -> Benchmark:  # fmt: skip
    """The benchmark of an estimator of ours and one of scikit-learn's."""
    return Benchmark(
        name=name,
        title=f"{title}, both to 1e-3 (ours certified); CPU seconds",
        datasets=tuple(datasets),
        solvers=(solver("cornerstep", ours), solver("LIBSVM", peer)),
        judge=lambda task, model: judge(task, model, ours(task)),
        baseline="cornerstep",
        target=("error", 1e-2),
        repeat=3,
        patience=3.0,
        shown=("error", "predict"),
        notes=notes,
        slow=True,
        real_data=real_data,
        compact=True,
    )


def judge(task: Task, model: Any, prove: Make) -> Measures:
    """The largest relative distance of a machine from its bound, and the error in training."""
    if not task.bounds:
        proven = prove(**task.parameters, tol=REFERENCE, cache_size=CACHE).fit(task.X, task.y)
        task.bounds = [
            value - machine.gap / abs(machine.objective or 1.0) * abs(value)
            for value, machine in zip(_values(task, proven), proven.machines_, strict=True)
        ]
    apart = [
        (value - bound) / abs(value or 1.0)
        for value, bound in zip(_values(task, model), task.bounds, strict=True)
    ]
    return {"error": float(np.max(apart))}


def _values(task: Task, model: Any) -> list[float]:
    """f of each machine."""
    coefficients = model.dual_coef_
    dense = coefficients.toarray() if sp.issparse(coefficients) else np.asarray(coefficients)
    support = np.asarray(model.support_)
    if not hasattr(model, "classes_"):
        return [_value(task, support, dense[0], model)]
    labels = np.searchsorted(model.classes_, task.y[support])
    values = []
    for i, j in combinations(range(len(model.classes_)), 2):
        b = np.where(labels == i, dense[j - 1], np.where(labels == j, dense[i], 0.0))
        values.append(_value(task, support[b != 0], b[b != 0], model))
    return values


def _value(task: Task, support: Any, b: Array, model: Any) -> float:
    rows, given = task.X[support], task.parameters
    if hasattr(model, "classes_") and "nu" in given:
        b = b / np.abs(b).sum()  # LIBSVM shows what has the margin 1: sums are known otherwise
    square = 0.5 * float(b @ rbf_kernel(rows, gamma=task.gamma) @ b)
    if hasattr(model, "classes_"):
        return square - (0.0 if "nu" in given else float(np.abs(b).sum()))
    if "C" not in given:
        return square / float(np.abs(b).sum()) ** 2
    linear = float(task.y[support] @ b)
    return square - linear + given.get("epsilon", 0.0) * float(np.abs(b).sum())


def notes(rows: list[Row]) -> list[str]:
    """The geometric mean of LIBSVM's CPU time over ours, and the worst; predictions likewise."""
    lines = [""]
    ours = {(row.dataset, row.threads): row for row in rows if row.solver == "cornerstep"}
    pairs = [
        (ours[row.dataset, row.threads], row) for row in rows
        if row.solver != "cornerstep" and row.seconds and (row.dataset, row.threads) in ours
    ]  # fmt: skip
    for threads in dict.fromkeys(row.threads for row in rows):
        some = [(own, peer) for own, peer in pairs if own.threads == threads]
        if not some:
            continue
        ratios = np.array([peer.best / own.best for own, peer in some])
        mean, worst = np.exp(np.log(ratios).mean()), some[int(ratios.argmin())][0].dataset
        lines.append(
            f"{threads} thread(s), LIBSVM / cornerstep: geometric mean {mean:.2f}x over "
            f"{ratios.size} problems, least {ratios.min():.2f}x ({worst})"
        )
        scored = [peer.measures["predict"] / own.measures["predict"] for own, peer in some]
        lines.append(f"  predictions: {np.exp(np.log(scored).mean()):.2f}x")
    return lines
