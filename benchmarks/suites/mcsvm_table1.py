"""Table 1: top-1, 3, 5 and 10 test errors after 1,000 iterations, on random halves of the data.

Half of the examples train, the other half test, several times over (20 as published, 3 by default).
lambda = 1/(Cn) by 3-fold cross-validation on the training half: top-1 error of the certified block
solver, on a path of C.  All methods then get the same C, so that they differ in how well they
minimise.  The block solver, to a proven 1e-3, is a fourth row.  A half is a dataset; the notes have
means, standard deviations and the paired t-test against LSFW.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import ttest_rel
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from benchmarks import data
from benchmarks.core import Benchmark, Dataset, Measures, Row, Run, Settings, Solver
from benchmarks.multiclass import WEIGHTED_USUNIER, Point, Problem, run_once
from benchmarks.suites.mcsvm_figures import RULES, SETS

KS = (1, 3, 5, 10)
CS = (0.1, 1.0, 10.0, 100.0)
FOLDS = 3
#: Means; other features than ours, so not for comparison of the levels.
PUBLISHED = {
    "caltech": {
        "projected-gradient": (0.469, 0.307, 0.257, 0.183),
        "fw-open-loop": (0.481, 0.317, 0.266, 0.192),
        "fw": (0.467, 0.300, 0.244, 0.169),
    },
    "cub200": {
        "projected-gradient": (0.431, 0.247, 0.184, 0.114),
        "fw-open-loop": (0.443, 0.257, 0.196, 0.126),
        "fw": (0.415, 0.231, 0.166, 0.098),
    },
    "flowers102": {
        "projected-gradient": (0.219, 0.107, 0.075, 0.041),
        "fw-open-loop": (0.220, 0.108, 0.076, 0.041),
        "fw": (0.211, 0.104, 0.071, 0.037),
    },
    "news20": {
        "projected-gradient": (0.348, 0.142, 0.083, 0.031),
        "fw-open-loop": (0.348, 0.143, 0.084, 0.052),
        "fw": (0.339, 0.136, 0.080, 0.028),
    },
}
TABLE_SETS = (*SETS, "news20 counts")


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


def _split(name: str, number: int) -> Split:
    X, y = data.load_paper(name)
    common = np.bincount(y)[y] >= 2 * FOLDS
    X, y = X[common], np.unique(y[common], return_inverse=True)[1]
    halves = StratifiedShuffleSplit(number, train_size=0.5, random_state=0)
    train, test = list(halves.split(X, y))[-1]
    C = _best_scale(X[train], y[train])
    return Split(Problem(X[train], y[train], C, WEIGHTED_USUNIER), X[test], y[test])


def _solver(rule: str, iterations: int) -> Solver:
    def prepare(split: Split) -> Run:
        run_once(split.problem, rule, 1, None)
        return lambda record: run_once(split.problem, rule, iterations, None, 1e-3)

    return Solver(rule, prepare)


def _judge(split: Split, point: Point) -> Measures:
    errors = top_k_errors(point.W, split.X_test, split.y_test)
    return {f"top-{k}": error for k, error in zip(KS, errors, strict=True)} | {"C": split.problem.C}


def errors_of(rows: list[Row], name: str, rule: str) -> Any:
    """The errors of a method on a set, a row a half, a column a k."""
    some = [row.measures for row in rows if _set(row) == name and row.solver == rule]
    return np.array([[measures[f"top-{k}"] for k in KS] for measures in some if measures])


def _set(row: Row) -> str:
    return row.dataset.split(",")[0]


def _notes(rows: list[Row]) -> list[str]:
    rows = [row for row in rows if row.threads == rows[0].threads]
    lines = ["", "test errors, mean (standard deviation); below, the paired t-test against fw"]
    for name in dict.fromkeys(map(_set, rows)):
        own = errors_of(rows, name, "fw")
        chosen = sorted(row.measures["C"] for row in rows if _set(row) == name and row.measures)
        lines.append(f"{name}, {len(own)} halves, median C {chosen[len(chosen) // 2]:g}")
        lines[-1] += "".join(f"top-{k}".rjust(17) for k in KS)
        for rule in RULES:
            errors = errors_of(rows, name, rule)
            lines.append(f"  {rule:<40}" + _cells(errors.mean(axis=0), _spread(errors)))
            if rule != "fw" and len(errors) == len(own) > 1:
                p = ttest_rel(errors, own).pvalue
                ahead = ["ahead" if d < 0 else "behind" for d in (errors - own).mean(axis=0)]
                cells = (f"{word}, p {value:.0e}" for word, value in zip(ahead, p, strict=True))
                lines.append(f"  {'':<40}" + "".join(cell.rjust(17) for cell in cells))
        for rule, published in PUBLISHED.get(name, {}).items():
            name_there = f"{rule} as published, other features"
            lines.append(f"  {name_there:<40}" + _cells(published, None))
    return lines


def _spread(errors: Any) -> Any:
    return errors.std(axis=0, ddof=1) if len(errors) > 1 else None


def _cells(means: Any, spread: Any) -> str:
    if spread is None:
        return "".join(f"{mean:.3f}".rjust(17) for mean in means)
    return "".join(f"{m:.3f} ({s:.3f})".rjust(17) for m, s in zip(means, spread, strict=True))


def build(settings: Settings) -> Benchmark:
    """Three splits, or as many as asked for, or 20 for all of it."""
    count = settings.splits or (20 if settings.full else 3)
    return Benchmark(
        name="mcsvm_table1",
        title=f"Table 1: test errors on {count} random halves",
        datasets=tuple(
            Dataset(f"{name}, half {number}", partial(_split, name, number))
            for number in range(1, count + 1)
            for name in TABLE_SETS
        ),
        solvers=tuple(_solver(rule, settings.iterations or 1_000) for rule in RULES),
        judge=_judge,
        baseline="fw",
        repeat=1,
        shown=(*(f"top-{k}" for k in KS), "C"),
        notes=_notes,
        slow=True,
        real_data=True,
        compact=True,
    )
