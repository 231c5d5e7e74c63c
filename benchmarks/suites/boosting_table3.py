"""Table 3: test errors of 5-fold cross-validation, nu by an inner one; scikit-learn's boosters.

A row of a set is the mean over the folds.  nu is chosen in {0.1, ..., 0.5} m by 3-fold
cross-validation on the training part.  AdaBoost, GradientBoosting and HistGradientBoosting run with
their defaults (AdaBoost on depth-2 trees).  Sets of more than 2,000 rows are cut to 2,000 unless
--full is given.  Seconds are those of all fits: 80 a set for ours, 5 for the others.  One fit is
ended after 1 s (--limit), which the slower methods need on the larger sets.  --published: the rows
of the paper; the methods stay the quick ones, since all of them end at the same optimum.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
)
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from benchmarks.boosting import SETS, SHARES, Problem, classifier, load
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

FOLDS = 5
OURS = ("mlpboost", "lpboost", "erlpboost")
PEERS: dict[str, Callable[[], Any]] = {
    "AdaBoost": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), random_state=0),
    "GradientBoosting": lambda: GradientBoostingClassifier(random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
#: LPBoost, ERLPBoost, MLPBoost (short step).
PUBLISHED = {
    "banana": (0.28, 0.37, 0.10), "breast_cancer": (0.40, 0.49, 0.28),
    "diabetis": (0.26, 0.26, 0.24), "flare_solar": (0.38, 0.52, 0.69),
    "german": (0.28, 0.35, 0.27), "heart": (0.24, 0.29, 0.17), "image": (0.10, 0.20, 0.02),
    "ringnorm": (0.18, 0.18, 0.03), "splice": (0.11, 0.10, 0.05), "thyroid": (0.09, 0.05, 0.05),
    "titanic": (0.60, 0.60, 0.60), "twonorm": (0.03, 0.04, 0.03),
}  # fmt: skip


def _cut(name: str, size: int | None, unique: bool) -> Problem:
    problem = load(name, 0.1, unique)
    if size is None or problem.y.size <= size:
        return problem
    kept = np.random.default_rng(0).permutation(problem.y.size)[:size]
    return Problem(problem.X[kept], problem.y[kept], 0.1)


def _model(name: str, limit: float, folds: int) -> Any:
    if name in PEERS:
        return PEERS[name]()
    inner = StratifiedKFold(min(folds, 3), shuffle=True, random_state=0)
    return GridSearchCV(classifier(name, 0.1, limit), {"nu": list(SHARES)}, cv=inner)


def _solver(name: str, limit: float, count: int) -> Solver:
    def prepare(problem: Problem) -> Run:
        def run(recorder: Recorder | None) -> Answer:
            folds = StratifiedKFold(count, shuffle=True, random_state=0)
            errors = []
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for train, test in folds.split(problem.X, problem.y):
                    model = _model(name, limit, count).fit(problem.X[train], problem.y[train])
                    errors.append(1 - model.score(problem.X[test], problem.y[test]))
            return Answer(errors, work={"CPU s": time.process_time() - start})

        return run

    return Solver(name, prepare)


def _judge(problem: Problem, errors: list[float]) -> Measures:
    return {"test error": float(np.mean(errors)), "deviation": float(np.std(errors))}


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", "test errors (CPU s): here, and published for LPBoost / ERLPBoost / MLPBoost"]
    for name in dict.fromkeys(row.dataset for row in rows):
        here = "  ".join(
            f"{row.solver} {row.measures['test error']:.3f} ({row.measures['CPU s']:.1f})"
            for row in rows
            if row.dataset == name and "test error" in row.measures
        )
        published = " / ".join(f"{value:.2f}" for value in PUBLISHED.get(name, ()))
        lines.append(f"{name:<14} {here}  | {published}")
    return lines


def build(settings: Settings) -> Benchmark:
    """Our fully corrective methods beside three peers; ``settings.splits`` folds (5)."""
    size = None if settings.full else 2_000
    limit = settings.limit or 1.0
    cut = partial(_cut, size=size, unique=settings.published)
    return Benchmark(
        name="boosting_table3",
        title="Table 3: test errors, 5-fold cross-validation, nu by inner cross-validation",
        datasets=tuple(Dataset(name, partial(cut, name)) for name in SETS),
        solvers=tuple(_solver(name, limit, settings.splits or FOLDS) for name in (*OURS, *PEERS)),
        judge=_judge,
        baseline="mlpboost",
        repeat=1,
        shown=("test error", "deviation", "CPU s"),
        notes=_notes,
        slow=True,
        real_data=True,
        compact=True,
    )
