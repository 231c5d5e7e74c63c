"""LPBoost's worst case: rounds of the published methods as the number of examples grows.

M. K. Warmuth, K. A. Glocer, G. Raetsch. Boosting algorithms for maximizing the soft margin. NIPS
2007: m examples and m/2 + 1 hypotheses, of which two suffice.  LPBoost, whose distribution is a
vertex, goes through all of them; a distribution that is spread sees the second at once.  nu = 1,
eps = 0.01.  Rounds include that of the first hypothesis.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Run, Settings, Solver

EPS = 0.01
SMALL = 1e-6  # by which the construction breaks ties
METHODS: dict[str, dict[str, Any]] = {
    "lpboost, textbook": {"solver": "lpboost", "textbook": True},
    "erlpboost, textbook": {"solver": "erlpboost", "textbook": True},
    "cerlpboost, textbook": {"solver": "cerlpboost", "textbook": True},
    "cerlpboost, line search, textbook": {
        "solver": "cerlpboost", "step": "line-search", "textbook": True,
    },
    "mlpboost, textbook": {"solver": "mlpboost", "textbook": True},
    "lpboost": {"solver": "lpboost"},
    "mlpboost": {},
}  # fmt: skip


def worst_case(m: int, small: float = SMALL) -> Any:
    """The margins ``A[i, j] = y_i h_j(x_i)``.

    The first hypothesis is right on the first half of the examples.  Number k + 1 is right on one
    example of the second half, which is where LPBoost's distribution is by then, and hopeless on
    the others, a little less than those before it.  The last is right on the whole second half.
    """
    half = m // 2
    A = np.empty((m, half + 1))
    A[:half, 0], A[half, 0], A[half + 1 :, 0] = 1.0, -1.0 + 2 * small, -1.0 + 3 * small
    for k in range(1, half):
        A[:, k] = -1.0 + (2 * k + 3) * small
        A[half + k - 1, k], A[half + k, k] = 1.0, -1.0 + (2 * k + 2) * small
    A[:half, half], A[half:, half] = -1.0 + small, 1.0 - small
    return A


class Given:
    """A hypothesis given by its values, as a fitted classifier: x is the number of the example."""

    classes_ = np.array([-1, 1])

    def __init__(self, values: Any) -> None:
        self.values = values

    def predict(self, X: Any) -> Any:
        return np.where(self.values[X[:, 0].astype(int)] > 0, 1, -1)

    def predict_proba(self, X: Any) -> Any:
        positive = (1.0 + self.values[X[:, 0].astype(int)]) / 2
        return np.column_stack([1.0 - positive, positive])


def as_ensemble(A: Any) -> tuple[Any, Any, list[Given]]:
    """X, y and the members whose margins are A, for ``reweight(X, y, members, rated=True)``."""
    y = np.where(np.arange(len(A)) % 2, 1, -1)
    return np.arange(len(A))[:, None], y, [Given(y * column) for column in A.T]


def _solver(name: str, limit: float) -> Solver:
    def prepare(A: Any) -> Run:
        from cornerstep import SoftMarginBoostingClassifier

        X, y, members = as_ensemble(A)
        clf = SoftMarginBoostingClassifier(nu=1, atol=EPS, time_limit=limit, **METHODS[name])

        def run(recorder: Recorder | None) -> Answer:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # limits
                clf.reweight(X, y, members, rated=True)
            return Answer(clf, clf.n_iter_ + 1, str(clf.status_))

        return run

    return Solver(name, prepare)


def _judge(A: Any, fitted: Any) -> Measures:
    """The hard margin of the weights, and the largest edge of the distribution."""
    y = as_ensemble(A)[1]
    chosen = np.array([vote.estimator.values for vote in fitted.estimators_])
    margin = float((y * (fitted.estimator_weights_ @ chosen)).min())
    bound = float((fitted.example_weights_ @ A).max())
    return {"margin": margin, "gap": bound - margin, "hypotheses": float(len(chosen))}


def build(settings: Settings) -> Benchmark:
    """The examples double; --full: up to 1,600 of them."""
    sizes = (50, 100, 200, 400, 800, 1600)[: 6 if settings.full else 4]
    return Benchmark(
        name="boosting_worst_case",
        title=f"LPBoost's worst case, eps = {EPS}: rounds of the published methods",
        datasets=tuple(Dataset(f"{m} examples", partial(worst_case, m)) for m in sizes),
        solvers=tuple(_solver(name, settings.limit or 20.0) for name in METHODS),
        judge=_judge,
        baseline="mlpboost, textbook",
        target=("gap", EPS),
        repeat=1,
        shown=("margin", "gap", "hypotheses"),
        compact=True,
    )
