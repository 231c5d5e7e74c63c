"""Table 1: top-1, 3, 5 and 10 test errors after 1,000 iterations, on random halves of the data.

Half of the examples train, the other half test, several times over (20 as published, 3 by default).
lambda = 1/(Cn) by 3-fold cross-validation on the training half: top-1 error of the certified block
solver, on a path of C.  All methods then get the same C, so that they differ in how well they
minimise.  The block solver, to a proven 1e-3, is a fourth row.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from benchmarks import data
from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Measures,
    Recorder,
    Row,
    Run,
    Settings,
    Solver,
)
from benchmarks.multiclass import WEIGHTED_USUNIER, Problem, run_once
from benchmarks.suites.mcsvm_figures import RULES, SETS

KS = (1, 3, 5, 10)
CS = (0.1, 1.0, 10.0, 100.0)
FOLDS = 3
#: Of LSFW, with its standard deviations left out; other features, so not for comparison.
PUBLISHED = {
    "caltech": (0.467, 0.300, 0.244, 0.169),
    "cub200": (0.415, 0.231, 0.166, 0.098),
    "flowers102": (0.211, 0.104, 0.071, 0.037),
    "news20": (0.339, 0.136, 0.080, 0.028),
}


@dataclass(frozen=True)
class Split:
    """A training problem with its C, and what to test on."""

    problem: Problem
    X_test: Any
    y_test: Any


def top_k_errors(W: Any, X: Any, y: Any) -> list[float]:
    """The share of examples with k or more classes scored at least as high as the label."""
    scores = X @ W.T
    own = scores[np.arange(y.size), y]
    rank = (scores >= own[:, None]).sum(axis=1) - 1
    return [float((rank >= k).mean()) for k in KS]


def _best_scale(X: Any, y: Any) -> float:
    from cornerstep import MulticlassSVC, regularization_path

    estimator = MulticlassSVC(
        fit_intercept=False, tol=1e-2, random_state=0, **WEIGHTED_USUNIER.estimator_options()
    )
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    errors = np.zeros(len(CS))
    for train, test in folds.split(X, y):
        path = regularization_path(estimator, X[train], y[train], CS)
        errors += [1 - fitted.score(X[test], y[test]) for fitted in path.estimators]
    return CS[int(errors.argmin())]


def _splits(name: str, count: int) -> list[Split]:
    X, y = data.load_paper(name)
    common = np.bincount(y)[y] >= 2 * FOLDS
    X, y = X[common], np.unique(y[common], return_inverse=True)[1]
    halves = StratifiedShuffleSplit(count, train_size=0.5, random_state=0)
    return [
        Split(
            Problem(X[train], y[train], _best_scale(X[train], y[train]), WEIGHTED_USUNIER),
            X[test], y[test],
        )
        for train, test in halves.split(X, y)
    ]  # fmt: skip


def _solver(rule: str, iterations: int) -> Solver:
    def prepare(splits: list[Split]) -> Run:
        run_once(splits[0].problem, rule, 1, None)

        def run(record: Recorder | None) -> Answer:
            answers = [run_once(split.problem, rule, iterations, None, 1e-3) for split in splits]
            total = sum(answer.iterations or 0 for answer in answers)
            return Answer([answer.point.W for answer in answers], total, answers[-1].stopped)

        return run

    return Solver(rule, prepare)


def _judge(splits: list[Split], weights: list[Any]) -> Measures:
    errors = np.array(
        [
            top_k_errors(W, split.X_test, split.y_test)
            for W, split in zip(weights, splits, strict=True)
        ]
    )
    measures = {f"top-{k}": float(errors[:, j].mean()) for j, k in enumerate(KS)}
    if len(errors) > 1:
        measures |= {f"top-{k} sd": float(errors[:, j].std(ddof=1)) for j, k in enumerate(KS)}
    return measures | {"C": statistics.median(split.problem.C for split in splits)}


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", f"test errors, mean (standard deviation); C is the median{'':<11}C"]
    lines[-1] += "".join(f"top-{k}".rjust(16) for k in KS)
    for row in rows:
        if row.threads != rows[0].threads or not row.measures:
            continue
        lines.append(f"{row.dataset:<16}{row.solver:<36}{row.measures['C']:>12g}")
        for k in KS:
            spread = row.measures.get(f"top-{k} sd")
            cell = f"{row.measures[f'top-{k}']:.3f}"
            lines[-1] += (cell + ("" if spread is None else f" ({spread:.3f})")).rjust(16)
    for name in dict.fromkeys(row.dataset for row in rows):
        head = f"{name:<16}{'LSFW as published, other features':<48}"
        lines.append(head + "".join(f"{error:.3f}".rjust(16) for error in PUBLISHED[name]))
    return lines


def build(settings: Settings) -> Benchmark:
    """Three splits, or as many as asked for, or 20 for all of it."""
    count = settings.splits or (20 if settings.full else 3)
    return Benchmark(
        name="mcsvm_table1",
        title=f"Table 1: test errors over {count} random halves, seconds and iterations of all",
        datasets=tuple(Dataset(name, partial(_splits, name, count)) for name in SETS),
        solvers=tuple(_solver(rule, settings.iterations or 1_000) for rule in RULES),
        judge=_judge,
        baseline="fw",
        repeat=1,
        shown=(),
        notes=_notes,
        slow=True,
        real_data=True,
        compact=True,
    )
