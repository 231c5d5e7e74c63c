"""Soft-margin boosting on the 13 Raetsch sets: problems, solvers and the judge.

The judge knows trees only as arrays: it evaluates the ensemble on the data with NumPy, sorts the
margins for the soft margin, and checks the distribution behind the bound.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.core import Answer, Measures, Recorder, Run, Solver

SETS = (
    "banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image", "ringnorm",
    "splice", "thyroid", "titanic", "twonorm", "waveform",
)  # fmt: skip
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
EPS = 0.01
METHODS: dict[str, dict[str, Any]] = {
    "mlpboost": {},
    "mlpboost, pairwise": {"step": "pairwise"},
    "lpboost": {"solver": "lpboost"},
    "erlpboost": {"solver": "erlpboost"},
    "cerlpboost": {"solver": "cerlpboost"},
    "cerlpboost, pairwise": {"solver": "cerlpboost", "step": "pairwise"},
}


@dataclass(frozen=True)
class Problem:
    """Examples, labels -1 and 1, the share nu; and examples to test on, if any."""

    X: Any
    y: Any
    nu: float
    X_test: Any = None
    y_test: Any = None


def load(name: str, nu: float, unique: bool = False) -> Problem:
    """The whole pool of a set, or each of its rows once."""
    X, y = data.load_raetsch(name, unique)
    return Problem(X, y, nu)


def classifier(name: str, nu: float, limit: float | None, **more: Any) -> Any:
    """The classifier for a row of METHODS."""
    from cornerstep import SoftMarginBoostingClassifier

    return SoftMarginBoostingClassifier(nu=nu, atol=EPS, time_limit=limit, **(METHODS[name] | more))


def solver(name: str, limit: float | None, textbook: bool = False) -> Solver:
    """Train from scratch with a method; compiling is set-up."""

    def prepare(problem: Problem) -> Run:
        more = {"textbook": textbook}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            classifier(name, problem.nu, None, max_iter=2, **more).fit(problem.X, problem.y)

        def run(recorder: Recorder | None) -> Answer:
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # limits
                fitted = classifier(name, problem.nu, limit, **more).fit(problem.X, problem.y)
            cpu = time.process_time() - start
            taken = int((fitted.trace_["kind"] == "secondary").sum())
            work = {"CPU s": cpu, "secondary": float(taken)}
            return Answer(fitted, fitted.n_iter_, str(fitted.status_), work)

        return run

    return Solver(name, prepare)


def tree_values(tree: Any, X: Any) -> Any:
    """A tree's leaves for the rows of X."""
    node = np.zeros(len(X), dtype=int)
    for _ in range(int(np.log2(tree.leaves.size))):
        right = X[np.arange(len(X)), tree.features[node]] > tree.thresholds[node]
        node = 2 * node + 1 + right
    return tree.leaves[node - tree.features.size]


def judge(problem: Problem, fitted: Any) -> Measures:
    """Soft margin from the trees as arrays; how far the distribution leaves P_nu."""
    values = np.array([tree_values(tree, problem.X) for tree in fitted.estimators_])
    margins = problem.y * (fitted.estimator_weights_ @ values)
    nu = problem.nu * problem.y.size
    caps = np.diff(np.minimum(np.arange(margins.size + 1), nu)) / nu
    soft = float(np.sort(margins) @ caps)
    d = fitted.example_weights_
    violation = max(abs(d.sum() - 1), (d * nu).max() - 1, -d.min(), 0.0)
    return {
        "soft margin": soft,
        "bound": fitted.bound_,
        "gap": fitted.bound_ - soft,
        "violation": violation,
        "trees": float(len(values)),
    }
