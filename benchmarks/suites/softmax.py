"""Softmax for ten values of C over four decades: ours beside ``LogisticRegression``.

Ours ends each model at a proven relative gap.  A peer gets, for every C, the loosest tolerance
whose objective is as good as ours, found before the clock starts, and starts from its model before.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Run, Settings, Solver

CS = np.logspace(-1, 3, 10)
GAP = 1e-3
_TOLERANCES = 10.0 ** np.arange(-3, -10, -0.5)
_ITERATIONS = 1000

Array = NDArray[np.float64]


@dataclass
class Problem:
    """Examples, labels 0, ..., m - 1, and for each C what ours proved, as soon as it has."""

    X: Any
    y: Any
    objectives: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)

    def value(self, W: Array, C: float) -> float:
        """``1/2 |W|² + C sum_i (ln sum_j exp(s_ij) - s_iy)``."""
        scores = np.asarray(self.X @ W.T)
        own = scores[np.arange(self.y.size), self.y]
        losses = np.logaddexp.reduce(scores, axis=1) - own
        return 0.5 * float(np.vdot(W, W)) + C * float(losses.sum())


class Path(list[Array]):
    """The weights for each C."""

    def copy(self) -> Path:
        """Itself."""
        return self


def _ours(problem: Problem) -> Run:
    from cornerstep import MulticlassSVC

    def run(recorder: Recorder | None) -> Answer:
        model: Any = MulticlassSVC("softmax", fit_intercept=False, warm_start=True, tol=GAP)
        path, proven = Path(), []
        products = 0.0
        for C in CS:
            model.set_params(C=C).fit(problem.X, problem.y)
            path.append(model.coef_.copy())
            proven.append((model.objective_, model.bound_))
            products += model.trace_["products"][-1]
        problem.objectives, problem.bounds = (list(part) for part in zip(*proven, strict=True))
        return Answer(path, int(products), str(model.status_.value))

    return run


def _peer(problem: Problem, solver: str) -> Run:
    """Find the tolerances; the run has these."""
    if not problem.objectives:
        _ours(problem)(None)
    before: Any = None
    tolerances: list[float] = []
    for C, wanted in zip(CS, problem.objectives, strict=True):
        for tol in _TOLERANCES:
            model = _fitted(problem, solver, C, tol, before)
            if problem.value(model.coef_, C) <= wanted:
                break
        tolerances.append(float(tol))
        before = model

    def run(recorder: Recorder | None) -> Answer:
        path, model, steps = Path(), None, 0
        for C, tol in zip(CS, tolerances, strict=True):
            model = _fitted(problem, solver, C, tol, model)
            path.append(model.coef_.copy())
            steps += int(model.n_iter_[0])
        return Answer(path, steps)

    return run


def _fitted(problem: Problem, solver: str, C: float, tol: float, before: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    model: Any = LogisticRegression(
        C=C, tol=tol, solver=solver, fit_intercept=False, warm_start=True, max_iter=_ITERATIONS,
        random_state=0,
    )  # fmt: skip
    if before is not None:
        model.coef_, model.intercept_ = before.coef_.copy(), before.intercept_
        model.classes_ = before.classes_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(problem.X, problem.y)


def judge(problem: Problem, path: Path | None) -> Measures:
    """The largest relative error against the bounds, and the mean of its logarithm."""
    if not path:
        return {}
    bounds = problem.bounds
    errors = [
        problem.value(W, C) / bound - 1.0 for W, C, bound in zip(path, CS, bounds, strict=True)
    ]
    return {
        "error": float(max(errors)),
        "mean": float(np.exp(np.log(np.maximum(errors, 1e-16)).mean())),
    }


def _problem(name: str) -> Problem:
    return Problem(*data.load(name, "tf-idf" if name in data.SPARSE else "unit"))


def build(settings: Settings) -> Benchmark:
    """flowers102 and cub200; others with ``--only``, all peers with ``--full``."""
    names = data.NAMES if settings.only else ("flowers102", "cub200")
    peers = ("lbfgs", "newton-cg", "sag", "saga") if settings.full else ("lbfgs", "newton-cg")
    return Benchmark(
        name="softmax",
        title="softmax, ten C over four decades, each to a proven relative gap of 1e-3",
        datasets=tuple(Dataset(f"{name}, ten C", partial(_problem, name)) for name in names),
        solvers=(
            Solver("cornerstep", _ours),
            *(Solver(f"LogisticRegression {peer}", partial(_peer, solver=peer)) for peer in peers),
        ),
        judge=judge,
        baseline="cornerstep",
        target=("error", 2 * GAP),
        repeat=3,
        patience=10.0,
        shown=("error", "mean"),
        slow=True,
        real_data=True,
        compact=True,
    )
