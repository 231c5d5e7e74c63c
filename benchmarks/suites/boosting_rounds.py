"""Rounds of LPBoost as published, and what they hang on: nu, the tolerance, the weak learner, rows.

Textbook LPBoost on the smaller Raetsch sets.  Solvers are weak learners: the best tree of depth 2
(the paper's words), the best stump, and scikit-learn's greedy trees of depth 2: those are not the
best, so the search sooner finds none that is better than those at hand.  The measures have the
rounds to gaps of 0.1 and 0.05 on the way to 0.01.  The first hypothesis is a round.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from benchmarks.boosting import EPS, SHARES, Problem, load
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

SETS = ("thyroid", "breast_cancer", "heart", "titanic", "flare_solar", "diabetis")
#: Whether each row counts once, as in the paper, or as often as the set has it.
ROWS = {"": True, ", repeated rows": False}
REPEATED = ("flare_solar",)
LEARNERS: dict[str, dict[str, Any]] = {
    "best trees": {},
    "best stumps": {"max_depth": 1},
    "greedy trees": {"weak_learner": DecisionTreeClassifier(max_depth=2, random_state=0)},
}
TOLERANCES = (0.1, 0.05, EPS)


def _solver(learner: str, limit: float) -> Solver:
    def prepare(problem: Problem) -> Run:
        from cornerstep import SoftMarginBoostingClassifier

        clf = SoftMarginBoostingClassifier(
            "lpboost", textbook=True, nu=problem.nu, atol=EPS, time_limit=limit, **LEARNERS[learner]
        )

        def run(recorder: Recorder | None) -> Answer:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # limits
                clf.fit(problem.X, problem.y)
            return Answer(clf, clf.n_iter_ + 1, str(clf.status_))

        return run

    return Solver(learner, prepare)


def _judge(problem: Problem, fitted: Any) -> Measures:
    gaps, rounds = fitted.trace_["gap"], fitted.trace_["iteration"] + 1.0
    found = {"rows": float(problem.y.size), "gap": float(fitted.gap_)}
    for tolerance in TOLERANCES:
        there = rounds[np.asarray(gaps) <= tolerance]
        found |= {f"rounds to {tolerance:g}": float(there[0])} if there.size else {}
    return found


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", f"rounds to gaps of {', '.join(f'{t:g}' for t in TOLERANCES)}, by nu/m:"]
    for learner in LEARNERS:
        for name in dict.fromkeys(row.dataset.split(", nu")[0] for row in rows):
            cells = ""
            for row in rows:
                if row.solver == learner and row.dataset.split(", nu")[0] == name and row.measures:
                    found = [row.measures.get(f"rounds to {t:g}") for t in TOLERANCES]
                    cells += " / ".join("-" if k is None else f"{k:.0f}" for k in found).rjust(20)
            lines.append(f"  {learner:<14}{name:<28}{cells}")
    return lines


def build(settings: Settings) -> Benchmark:
    """All five nu; a run is ended after ``settings.limit`` seconds (20)."""
    kinds = [
        (name + words, partial(load, name, unique=unique))
        for name in SETS
        for words, unique in ROWS.items()
        if unique or name in REPEATED
    ]
    return Benchmark(
        name="boosting_rounds",
        title=f"rounds of LPBoost as published to a gap of {EPS}, by weak learner",
        datasets=tuple(
            Dataset(f"{name}, nu = {nu} m", partial(build, nu=nu))
            for name, build in kinds
            for nu in SHARES
        ),
        solvers=tuple(_solver(learner, settings.limit or 20.0) for learner in LEARNERS),
        judge=_judge,
        baseline="best trees",
        repeat=1,
        shown=("rows", "gap", *(f"rounds to {t:g}" for t in TOLERANCES)),
        notes=_notes,
        slow=True,
        real_data=True,
        compact=True,
    )
