"""``MulticlassSVC`` in memory: every solver, loss and kernel, weights and scales of any size.

Judged: P of the returned weights and D of the dual point in long double, the dual point against the
inequalities of its domain, and every bound against every objective of the same problem.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import clone

from attack.draws import chance, count, labels, one_of, positive, rows, tolerance, weights
from attack.exact import EPS, LONG, real
from attack.judge import SLOW, Judge, RefusedError
from attack.multiclass_task import Task, check
from cornerstep import MulticlassSVC

SOLVERS = (
    "auto", "auto", "block", "envelope", "envelope", "fw-corrective", "fw", "fw-open-loop",
    "projected-gradient",
)  # fmt: skip
ENTROPIC = "softmax", "top-k-entropy"
KERNELS = ("rbf", "rbf", "poly", "precomputed")


def parameters(rng: Any, m: int, n: int, kernels: bool = True) -> dict[str, Any]:
    """Of the problem: loss, C, smoothing, intercept, kernel."""
    out: dict[str, Any] = {"C": positive(rng), "fit_intercept": chance(rng, 0.6)}
    if chance(rng, 0.1):
        out["class_weight"] = {0: 3.0}
    if chance(rng, 0.3):
        out["intercept_scaling"] = float(one_of(rng, 0.1, 0.01, 10.0, 1e4))
    if (smooth := rng.random()) < 0.2:
        out["smoothing"] = float(10 ** rng.uniform(-6, 2))
    elif smooth < 0.7:
        out["smoothing"] = 0.0
    kind = rng.random()
    if kind < 0.15 and m > 1:
        per_example = chance(rng, 0.3) and n != m
        costs = np.round(rng.uniform(0, 3, (n if per_example else m, m)), 1)
        out.update(loss="cost-sensitive", costs=costs)
    elif kind < 0.4:
        out.update(loss=one_of(rng, "top-k", "usunier"), k=int(rng.integers(1, m)))
    elif kind < 0.6:
        rho = np.sort(rng.uniform(0, 1, int(rng.integers(1, m))))[::-1]
        out.update(loss=one_of(rng, "weighted-top-k", "weighted-usunier"), rho=rho)
    elif kind < 0.75:
        out.update(loss=one_of(rng, "softmax", "softmax", "top-k-entropy"))
        out["smoothing"] = float(10 ** rng.uniform(-3, 2)) if smooth < 0.2 else "auto"
        if out["loss"] == "top-k-entropy":
            out["k"] = int(rng.integers(1, m))
        return out
    if kernels and chance(rng, 0.25):
        out.update(kernel=one_of(rng, *KERNELS), gamma=positive(rng, -4, 2), degree=2, coef0=1.0)
        out["cache_size"] = one_of(rng, 1000.0, 1e-3, 1e-6)  # megabytes: all rows, some, or none
    return out


def task_of(given: dict[str, Any], X: Any, y: Any, sample_weight: Any, m: int) -> Task:
    """The same problem for the evaluators; X is exact."""
    n = y.size
    loss = given.get("loss", "max-hinge")
    if "rho" in given:
        rho = real(given["rho"])
    elif "k" in given:
        rho = real(np.full(given["k"], 1 / given["k"]))
    else:
        rho = real([1.0])
    deltas = np.ones((n, m))
    if loss == "cost-sensitive":
        deltas = given["costs"].copy() if len(given["costs"]) == n != m else given["costs"][y]
    deltas[np.arange(n), y] = 0
    entropic = loss in ENTROPIC
    if entropic:
        deltas[:] = 0
    share = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    share = share * np.where(y == 0, given.get("class_weight", {}).get(0, 1.0), 1.0)
    constant = given.get("intercept_scaling", 1.0) if given["fit_intercept"] else 0.0
    kernel = None
    if given.get("kernel", "linear") != "linear":
        kernel = (given["kernel"], given["gamma"], given["degree"], given["coef0"])
    mu = given.get("smoothing", 0.5 if loss == "max-hinge" and m > 2 else 0.0)
    return Task(
        real(X), y, LONG(given["C"]) * real(share), rho, entropic or loss.endswith("top-k"),
        real(deltas), 1.0 if mu == "auto" else mu, constant, kernel, entropic,
    )  # fmt: skip


def training(rng: Any, given: dict[str, Any]) -> dict[str, Any]:
    """How to train: solver, tolerance, limits; not all solvers solve all problems."""
    solver, loss = one_of(rng, *SOLVERS), given.get("loss")
    if loss in ENTROPIC:
        solver = one_of(rng, "auto", "envelope", "newton" if loss == "softmax" else "envelope")
    return {
        "solver": "auto" if "kernel" in given and solver == "envelope" else solver,
        "tol": tolerance(rng),
        "max_iter": int(one_of(rng, 0, 1, 3, 30, 200, 200)),
        "random_state": int(rng.integers(100)),
        "time_limit": float(one_of(rng, 0.0, 0.05)) if chance(rng, 0.05) else None,
    }


def draw(rng: Any, kernels: bool = True) -> tuple[Any, Any, Any, int, dict[str, Any]]:
    """Examples, labels, weights, the number of classes and the parameters of a problem."""
    many = chance(rng, 0.05)
    m = int(rng.integers(2, 15 if many else 5))
    n = count(rng, m)
    y = labels(rng, n, m)
    with np.errstate(all="ignore"):
        X = rows(rng, y, int(rng.integers(1, 5)))
        given = parameters(rng, m, n, kernels)
        if many:
            given["smoothing"] = 0.0  # its evaluator lists all vertices
        if given.get("kernel") == "precomputed":
            X = X @ X.T
            X = (X + X.T) / 2
    if not np.isfinite(X).all():
        raise RefusedError("the numbers drawn are not finite")
    return X, y, weights(rng, n), m, given


def fit(judge: Judge, model: Any, X: Any, y: Any, share: Any) -> Any:
    """The model, fitted, with its limits judged."""
    begun = time.process_time()
    judge.call(model.fit, X, y, share)
    if model.time_limit is not None:
        spent = time.process_time() - begun
        judge.at_most(spent, 1.05 * model.time_limit + 2.0, SLOW)
    judge.at_most(model.n_iter_, max(model.max_iter, 1), "max_iter is kept")
    return model


def bounded(found: list[tuple[Any, Any]], judge: Judge) -> None:
    """No bound is above any objective of the same problem."""
    best, bound = min(pair[0] for pair in found), max(pair[1] for pair in found)
    judge.at_most(bound, best, "bound_ <= every objective", 4 * EPS * abs(best))


def attack(rng: Any, judge: Judge) -> None:
    """One problem by two solvers; sometimes a third fit starts from the last, or repeats it."""
    X, y, share, m, given = draw(rng)
    judge.says({k: v for k, v in given.items() if k not in ("costs", "rho")}, X.shape, m)
    task = task_of(given, X, y, share, m)
    found, context = [], list(judge.context)
    model: Any = None
    for _ in range(2):
        how = training(rng, given)
        judge.context = [*context, str(how)]
        model = fit(judge, MulticlassSVC(**given, **how), X, y, share)
        found.append(check(task, model, how["tol"], judge))
    if chance(rng, 0.1):
        judge.context = [*context, f"warm start {how}"]
        model.set_params(warm_start=True)
        judge.call(model.fit, X, y, share)
        model.set_params(max_iter=50)
        found.append(check(task, fit(judge, model, X, y, share), how["tol"], judge))
    elif chance(rng, 0.05) and how["time_limit"] is None:
        again = judge.call(clone(model).fit, X, y, share)
        judge.that(again.objective_ == model.objective_, "the same fit twice is the same")
    judge.context = context
    bounded(found, judge)
    if task.kernel is None and chance(rng, 0.2):
        _scored(model, X, judge)
    elif task.kernel is None and chance(rng, 0.1):
        _sure(clone(model).set_params(probability=True), X, y, share, judge)


def _sure(model: Any, X: Any, y: Any, share: Any, judge: Judge) -> None:
    """Probabilities sum to 1, and the likeliest class is that of the largest score."""
    judge.call(model.fit, X, y, share)
    found, scores = (judge.call(ask, X) for ask in (model.predict_proba, model.decision_function))
    judge.that(np.isfinite(found).all() and (found >= 0).all(), "probabilities are finite")
    judge.at_most(np.abs(found.sum(axis=1) - 1).max(), 1e-12, "probabilities sum to 1")
    scores = np.stack([0 * scores, scores], axis=1) if scores.ndim == 1 else scores
    likeliest = found >= found.max(axis=1, keepdims=True) * (1 - 4 * np.finfo(float).eps)
    below = scores.max(axis=1) - np.where(likeliest, scores, -np.inf).max(axis=1)
    judge.at_most((below / (np.abs(scores).max(axis=1) + 1e-300)).max(), 1e-12,
                  "the likeliest class has the largest score")  # fmt: skip


def _scored(model: Any, X: Any, judge: Judge) -> None:
    """Scores are ``<w, x> + b``, and the largest is predicted."""
    W, b = real(model.coef_), real(model.intercept_)
    scores = real(X) @ W.T + b
    size = np.abs(real(X)) @ np.abs(W).T + np.abs(b)
    said = real(judge.call(model.decision_function, X)).reshape(scores.shape)
    off = np.abs(said - scores)
    judge.that((off <= 16 * EPS * size + 1e-300).all(), f"scores are off by {float(off.max()):.3g}")
    codes = said.argmax(axis=1) if len(W) > 1 else (said[:, 0] > 0).astype(int)
    answers = judge.call(model.predict, X)
    judge.that((answers == model.classes_[codes]).all(), "the largest score is predicted")
