"""``OneClassHull`` and ``ReducedHullSVR``: nu or epsilon, every kernel, weights, limits.

Judged: the dual point against its caps and sums, its value and its Frank-Wolfe gap with a kernel
matrix in long double, bounds against every other point, scores, and ``certify``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from attack.draws import chance, count, labels, one_of, positive, rows, scale, tolerance, weights
from attack.exact import EPS, LONG, kernel, real
from attack.judge import Judge, RefusedError
from attack.region import spent
from cornerstep import OneClassHull, ReducedHullSVR, certify

TINY = 1e-300


@dataclass
class Hulls:
    """``1/2 c'Kc + e'|c| - y'c``: coefficients c, their caps, what amounts sum to (None: free)."""

    gram: Any
    caps: Any
    y: Any
    width: Any
    total: Any
    signed: bool  # a regression: two hulls, and the coefficients sum to 0

    def value(self, c: Any) -> Any:
        """The objective."""
        return (c * (self.gram @ c)).sum() / 2 + self.width * np.abs(c).sum() - (self.y * c).sum()

    def size(self, c: Any) -> Any:
        """What the value is made of."""
        a = np.abs(c)
        linear = ((self.width + np.abs(self.y) + np.abs(self.y).max()) * a).sum()
        return (a * (np.abs(self.gram) @ a)).sum() + linear

    def gap(self, c: Any) -> Any:
        """``<g, c> - min <g, v>`` over the domain."""
        g = self.gram @ c - self.y
        here = (g * c).sum() + self.width * np.abs(c).sum()
        if not self.signed:
            return here - spent(g, self.caps, self.total)
        sides = g + self.width, self.width - g
        if self.total is not None:
            return here - sum(spent(side, self.caps, self.total) for side in sides)
        totals = np.concatenate([np.cumsum(self.caps[np.argsort(side)]) for side in sides])
        costs = [sum(spent(side, self.caps, t) for side in sides) for t in np.unique(totals)]
        return here - min([LONG(0), *costs])

    def outside(self, c: Any) -> float:
        """By how much c leaves its domain, relative."""
        over, all_ = (np.abs(c) - self.caps).max() / self.caps.max(), np.abs(c).sum()
        if not self.signed:
            return float(max(over, -c.min() / self.caps.max(), abs(all_ / self.total - 1)))
        if self.total is None:
            return float(max(over, abs(c.sum()) / max(all_, LONG(TINY))))
        # what |c| leaves of the totals has room where both variables of an example are positive
        return float(max(over, abs(c.sum()) / self.total, all_ / (2 * self.total) - 1))


def parameters(rng: Any, signed: bool) -> dict[str, Any]:
    """Of the problem: nu, or C and epsilon or nu, and the kernel."""
    out: dict[str, Any] = {"kernel": one_of(rng, "linear", "rbf", "rbf", "poly", "precomputed")}
    if out["kernel"] in ("rbf", "poly"):
        out.update(gamma=positive(rng, -6, 6), degree=2, coef0=1.0)
    if signed:
        out["C"] = positive(rng)
    if not signed or chance(rng, 0.4):
        out["nu"] = float(one_of(rng, rng.uniform(0, 1), 1.0, 1e-3, 0.5)) or 0.5
    elif chance(rng, 0.7):
        out["epsilon"] = float(one_of(rng, 0.0, positive(rng), positive(rng, -3, 1)))
    return out


def targets(rng: Any, X: Any) -> Any:
    """Numbers to be fitted: smooth or noise, with ties, offsets and scales."""
    y = rng.standard_normal(len(X))
    if chance(rng, 0.5):
        spread = np.abs(X).max() or 1.0
        y = 0.1 * y + np.sin(3 * (X / spread).sum(axis=1))
    if chance(rng, 0.2):
        y = np.round(y)
    if chance(rng, 0.2):
        y = y + 10.0 ** rng.integers(2, 9)
    return y * scale(rng)


def training(rng: Any) -> dict[str, Any]:
    """How to train."""
    return {
        "tol": tolerance(rng), "max_iter": int(one_of(rng, 0, 1, 5, 50, -1, -1, -1)),
        "random_state": int(rng.integers(100)),
        "time_limit": float(one_of(rng, 0.0, 0.05)) if chance(rng, 0.05) else None,
    }  # fmt: skip


def posed(X: Any, y: Any, share: Any, given: dict[str, Any]) -> tuple[Hulls, Any]:
    """The problem in long double, and which examples it is of."""
    signed = "C" in given
    share = np.ones(len(X)) if share is None else share
    used = np.flatnonzero(share > 0)
    caps = LONG(given.get("C", 1.0)) * real(share[used])
    name, nu = given["kernel"], given.get("nu")
    half = 2 if signed else 1
    total = None if nu is None else LONG(nu) * caps.sum() / half
    if name == "precomputed":
        gram = real(X)[np.ix_(used, used)]
    else:
        Z = real(X[used])
        Z = Z - Z.mean(axis=0) if signed and name == "linear" else Z  # coefficients sum to 0
        gram = kernel(Z, Z, name, given.get("gamma", 1.0), 2, 1.0)
    goals = 0 * caps  # also where all targets are the same, whatever their mean is rounded to
    if signed and np.ptp(y[used]):
        goals = real(y[used]) - np.average(real(y[used]), weights=caps)
    width = LONG(0 if nu is not None or not signed else given.get("epsilon", 0.1))
    return Hulls(gram, caps, goals, width, total, signed), used


def check(hulls: Hulls, used: Any, model: Any, judge: Judge) -> tuple[Any, Any]:
    """What must hold of a fitted model; its value and its bound."""
    value, gap = LONG(model.objective_), LONG(model.gap_)
    c = np.zeros(int(used[-1]) + 1, dtype=LONG)
    c[model.support_] = real(model.dual_coef_).ravel()
    c = c[used]
    if not judge.that(np.isfinite([value, gap]).all() and np.isfinite(c).all(),
                      f"finite certificate: {value}, {gap}"):  # fmt: skip
        return LONG(np.inf), LONG(-np.inf)
    judge.at_most(0.0, gap, "gap_ >= 0")
    true, slack = hulls.value(c), 16 * EPS * hulls.size(c) + TINY
    inside = judge.at_most(hulls.outside(c), 1e-9, "the dual point lies in its domain")
    judge.at_most(abs(true - value), gap, "objective_ is the value of the dual point", slack)
    error = hulls.gap(c)
    if not hulls.y.any() and not hulls.width:  # half a squared distance is >= 0
        error = min(error, true)
    judge.at_most(error, gap, "gap_ >= true Frank-Wolfe gap", slack + 1e-9 * abs(gap))
    if model.status_.value == "solved":
        target = max(model.atol, model.tol * abs(model.objective_))
        judge.at_most(gap, target, "solved means gap <= tol", TINY)
    return (true + slack if inside else LONG(np.inf)), value - gap


def _scored(model: Any, X: Any, given: dict[str, Any], judge: Judge) -> None:
    """Answers are ``sum_i dual_coef_i k(x_i, x)`` and a constant."""
    K = kernel(X, X[model.support_], given["kernel"], given["gamma"], 2, 1.0)
    c = real(model.dual_coef_).ravel()
    signed = isinstance(model, ReducedHullSVR)
    constant = LONG(np.ravel(model.intercept_ if signed else -model.offset_)[0])
    scores, size = K @ c + constant, np.abs(K) @ np.abs(c) + abs(constant)
    said = judge.call(model.predict if signed else model.decision_function, X)
    off = np.abs(real(said).ravel() - scores)
    judge.that((off <= 1e-9 * size + TINY).all(), f"scores are off by {float(off.max()):.3g}")


def draw(rng: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Examples, targets (None: one class), weights and parameters."""
    X = rows(rng, labels(rng, count(rng, 2), 2), int(rng.integers(1, 4)))
    signed = chance(rng, 0.6)
    given, share = parameters(rng, signed), weights(rng, len(X))
    y = targets(rng, X) if signed else None
    if given["kernel"] == "precomputed":
        X = X @ X.T
        X = (X + X.T) / 2
    if not np.isfinite(X).all() or (y is not None and not np.isfinite(y).all()):
        raise RefusedError("the numbers drawn are not finite")
    return X, y, share, given


def made(given: dict[str, Any], **how: Any) -> Any:
    """The estimator of these parameters."""
    return (ReducedHullSVR if "C" in given else OneClassHull)(**given, **how)


def attack(rng: Any, judge: Judge) -> None:
    """One problem twice, with other limits; sometimes repeated."""
    with np.errstate(all="ignore"):
        X, y, share, given = draw(rng)
    judge.says("SVR" if "C" in given else "one class", given, X.shape)
    if share is not None and not share.any():
        judge.refuses("no weight", made(given).fit, X, y, share)
        return
    hulls, used = posed(X, y, share, given)
    context, runs = list(judge.context), []
    for _ in range(2):
        how = training(rng)
        judge.context = [*context, str(how)]
        model = judge.call(made(given, **how).fit, X, y, share)
        runs.append(check(hulls, used, model, judge))
    if chance(rng, 0.2):
        proof = judge.call(certify, model, X, y, share)
        judge.that(proof.holds, f"certify rejects an honest model: {proof.problems[:1]}")
    elif chance(rng, 0.05) and how["time_limit"] is None:
        again = judge.call(clone(model).fit, X, y, share)
        judge.that(np.array_equal(again.dual_coef_, model.dual_coef_), "the same fit twice")
    judge.context = context
    if given["kernel"] in ("rbf", "poly"):
        _scored(model, X, given, judge)
    best, bound = min(run[0] for run in runs), max(run[1] for run in runs)
    judge.at_most(bound, best, "objective_ - gap_ <= every value", 4 * EPS * abs(best))
