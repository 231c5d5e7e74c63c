"""``ReducedHullSVC``: nu, K or C, every kernel and method, two or three classes, sometimes a dozen.

Judged for every pair of classes: the dual point against its caps and sums, its value and its
Frank-Wolfe gap with a kernel matrix in long double, every bound against every other point, and a
refusal because the hulls touch by a linear program.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from sklearn.base import clone

from attack.draws import chance, count, labels, one_of, positive, rows, tolerance, weights
from attack.exact import EPS, LONG, kernel, real
from attack.judge import Judge, RefusedError
from attack.region import spent
from cornerstep import ReducedHullSVC

METHODS = ("auto", "auto", "auto", "di-away", "di-pairwise", "di-away-schedule",
           "di-pairwise-schedule")  # fmt: skip


@dataclass
class Pair:
    """The problem of two classes: which examples, their signs, caps, kernel, and K or C."""

    used: Any
    signs: Any
    caps: Any
    gram: Any
    K: Any
    C: float | None

    def value(self, b: Any) -> Any:
        """``1/2 b'Kb`` (minus ``1'|b| / C``)."""
        linear = 0 if self.C is None else np.abs(b).sum() / LONG(self.C)
        return (b * (self.gram @ b)).sum() / 2 - linear

    def size(self, b: Any) -> Any:
        """What the value is made of."""
        linear = 0 if self.C is None else np.abs(b).sum() / LONG(self.C)
        return (np.abs(b) * (np.abs(self.gram) @ np.abs(b))).sum() + linear

    def gap(self, b: Any) -> Any:
        """``<g, a> - min <g, v>`` over the domain."""
        g = self.signs * (self.gram @ b)
        g = g if self.C is None else g - 1 / LONG(self.C)
        here = (g * np.abs(b)).sum()
        sides = [self.signs > 0, self.signs < 0]
        if self.K is not None:
            return here - sum(spent(g[side], self.caps[side], self.K) for side in sides)
        totals = np.unique(np.concatenate([_corners(g[side], self.caps[side]) for side in sides]))
        totals = totals[totals <= min(self.caps[side].sum() for side in sides)]
        costs = [sum(spent(g[s], self.caps[s], t) for s in sides) for t in totals]
        return here - min([LONG(0), *costs])

    def outside(self, b: Any) -> float:
        """By how much b leaves its domain, relative."""
        a = self.signs * b
        over = np.maximum(-a, a - self.caps).max() / self.caps.max()
        if self.K is None:
            return float(max(over, abs(b.sum()) / max(np.abs(b).sum(), LONG(1e-300))))
        off = [abs(a[self.signs == sign].sum() - self.K) / self.K for sign in (1, -1)]
        return float(max(over, *off))

    def apart(self) -> float:
        """The distance of the reduced hulls in the largest coordinate, relative: an LP."""
        size = np.abs(self.gram).max() or LONG(1)
        values, vectors = np.linalg.eigh((self.gram / size).astype(float))
        points = (vectors * np.sqrt(np.maximum(values, 0)))[:, values > 1e-12 * values.max()]
        shares, (n, d) = np.minimum((self.caps / self.K).astype(float), 1.0), points.shape
        rows_ = (self.signs.astype(float)[:, None] * points).T
        A = np.block([[rows_, -np.ones((d, 1))], [-rows_, -np.ones((d, 1))]])
        E = np.array([np.append(self.signs > 0, 0), np.append(self.signs < 0, 0)], float)
        bounds = [*((0, share) for share in shares), (0, None)]
        cost = np.append(np.zeros(n), 1.0)
        limit = {"time_limit": 2.0}
        answer = linprog(cost, A, np.zeros(2 * d), E, np.ones(2), bounds, options=limit)
        return float(answer.fun) if answer.status == 0 else 0.0


def _corners(g: Any, caps: Any) -> Any:
    return np.cumsum(caps[np.argsort(g)])


def _gram(X: Any, given: dict[str, Any]) -> Any:
    name = given["kernel"]
    if name == "precomputed":
        return real(X)
    if name == "linear":  # the coefficients sum to 0: a common offset changes nothing
        X = real(X) - real(X).mean(axis=0)
    return kernel(X, X, name, given.get("gamma", 1.0), 2, 1.0)


def pairs(X: Any, y: Any, share: Any, given: dict[str, Any]) -> list[Pair]:
    """The problems of all pairs of classes."""
    caps = real(np.ones(y.size) if share is None else share)
    m = int(y.max()) + 1
    out = []
    for first, second in [(1, 0)] if m == 2 else itertools.combinations(range(m), 2):
        used = np.flatnonzero(((y == first) | (y == second)) & (caps > 0))
        signs = np.where(y[used] == first, LONG(1), LONG(-1))
        K = given.get("K")
        if "C" not in given and K is None:
            K = LONG(given.get("nu", 0.5)) * caps[used].sum() / 2
        if K is not None:
            K = min(LONG(K), *(caps[used][signs == sign].sum() for sign in (1, -1)))
        rows_ = X[np.ix_(used, used)] if given["kernel"] == "precomputed" else X[used]
        out.append(Pair(used, signs, caps[used], _gram(rows_, given), K, given.get("C")))
    return out


def points(model: Any, y: Any) -> list[Any]:
    """The signed dual point of each machine, of all examples, from what the model shows."""
    m, coefficients = int(y.max()) + 1, real(model.dual_coef_)
    owner, C = y[model.support_], np.atleast_1d(model.C_).astype(LONG)
    out = []
    for k, (i, j) in enumerate([(1, 0)] if m == 2 else itertools.combinations(range(m), 2)):
        b = np.zeros(y.size, dtype=LONG)
        if m == 2:
            b[model.support_] = coefficients[0]
        else:
            b[model.support_[owner == i]] = coefficients[j - 1, owner == i]
            b[model.support_[owner == j]] = coefficients[i, owner == j]
        out.append(b / C[k])
    return out


def check(problems: list[Pair], model: Any, y: Any, judge: Judge) -> list[tuple[Any, Any]]:
    """What must hold of every machine; its value and its bound."""
    found = []
    values, gaps = ([getattr(m, name) for m in model.machines_] for name in ("objective", "gap"))
    statuses = [machine.status for machine in model.machines_]
    for pair, b, value, gap, status in zip(
        problems, points(model, y), values, gaps, statuses, strict=True
    ):
        b = b[pair.used]
        if not judge.that(np.isfinite([value, gap]).all() and np.isfinite(b).all(),
                          f"finite certificate: {value}, {gap}"):  # fmt: skip
            found.append((LONG(np.inf), LONG(-np.inf)))
            continue
        judge.at_most(0.0, gap, "gap_ >= 0")
        true, slack = pair.value(b), 16 * EPS * pair.size(b) + 1e-300
        inside = judge.at_most(pair.outside(b), 1e-9, "the dual point lies in its domain")
        judge.at_most(abs(true - value), gap, "objective_ is the value of the dual point", slack)
        error = pair.gap(b) if pair.K is None else min(pair.gap(b), true)  # distances are >= 0
        judge.at_most(error, gap, "gap_ >= true Frank-Wolfe gap", slack + 1e-9 * abs(gap))
        if status.value == "solved":
            judge.at_most(gap, model.tol * abs(value), "solved means gap <= tol", 1e-300)
        found.append((true + slack if inside else LONG(np.inf), LONG(value) - LONG(gap)))
    return found


def parameters(rng: Any, y: Any, share: Any) -> dict[str, Any]:
    """Of the problem: nu, K or C, and the kernel."""
    caps = np.ones(y.size) if share is None else share
    totals = np.bincount(y, caps)
    smallest, feasible = totals.min(), 2 * totals.min() / (totals.min() + totals.max())
    out: dict[str, Any] = {"kernel": one_of(rng, "linear", "rbf", "rbf", "poly", "precomputed")}
    if out["kernel"] in ("rbf", "poly"):
        out.update(gamma=positive(rng, -6, 6), degree=2, coef0=1.0)
    kind = rng.random()
    if kind < 0.4:
        out["C"] = positive(rng)
    elif kind < 0.7:
        out["K"] = float(smallest * one_of(rng, rng.uniform(0, 1), 1.0, 1e-6)) or 1.0
    else:
        out["nu"] = float(feasible * one_of(rng, rng.uniform(0.01, 1), 1.0)) or 0.5
    return out


def draw(rng: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Examples, labels, weights and parameters."""
    many = chance(rng, 0.05)  # classes, from which on pairs of equal weights are solved in one call
    m = int(rng.integers(10, 14)) if many else int(one_of(rng, 2, 2, 3))
    y = labels(rng, count(rng, m), m)
    X = rows(rng, y, int(rng.integers(1, 4)))
    share = None if many and chance(rng, 0.7) else weights(rng, y.size)
    given = parameters(rng, y, share)
    if given["kernel"] == "precomputed":
        X = X @ X.T
        X = (X + X.T) / 2
    if not np.isfinite(X).all():
        raise RefusedError("the numbers drawn are not finite")
    return X, y, share, given


def training(rng: Any, methods: tuple[str, ...] = METHODS) -> dict[str, Any]:
    """How to train."""
    method = one_of(rng, *methods)
    limits = (0, 1, 5, 50, 300) if method != "auto" else (0, 1, 5, 50, -1, -1, -1)
    return {
        "solver": method, "tol": tolerance(rng), "max_iter": int(one_of(rng, *limits)),
        "random_state": int(rng.integers(100)),
        "time_limit": float(one_of(rng, 0.0, 0.05)) if chance(rng, 0.05) else None,
    }  # fmt: skip


def fit(model: Any, X: Any, y: Any, share: Any, problems: list[Pair], judge: Judge) -> Any:
    """The model, fitted; a refusal because hulls touch is checked."""
    try:
        judge.call(model.fit, X, y, share)
    except RefusedError as why:
        if "needs" in str(why):  # schedules need more than others
            return fit(model.set_params(solver="di-away"), X, y, share, problems, judge)
        if "touch" in str(why):
            judge.at_most(min(pair.apart() for pair in problems), 1e-4, "the hulls touch")
        raise
    return model


def _scored(model: Any, X: Any, given: dict[str, Any], judge: Judge) -> None:
    """Scores are ``sum_i dual_coef_i k(x_i, x) + b`` of the support vectors."""
    K = kernel(X, X[model.support_], given["kernel"], given["gamma"], 2, 1.0)
    b = real(model.dual_coef_)[0]
    scores, size = K @ b + model.intercept_[0], np.abs(K) @ np.abs(b) + abs(model.intercept_[0])
    off = np.abs(real(judge.call(model.decision_function, X)) - scores)
    judge.that((off <= 1e-9 * size + 1e-300).all(), f"scores are off by {float(off.max()):.3g}")


def _voted(model: Any, X: Any, judge: Judge) -> None:
    """Scores of pairs give votes, votes the scores of classes, and these the answers.

    A score of 0 votes for one class in answers and for the other in scores, as those of ``SVC``;
    which scores are 0 is rounding.
    """
    pairs_ = judge.call(model.set_params(decision_function_shape="ovo").decision_function, X)
    sure = (np.abs(pairs_) > 1e-9 * np.abs(pairs_).max()).all(axis=1)
    each = judge.call(model.set_params(decision_function_shape="ovr").decision_function, X)
    m, votes = len(model.classes_), np.zeros((len(X), len(model.classes_)))
    for score, (i, j) in zip(pairs_.T, itertools.combinations(range(m), 2), strict=True):
        votes[:, i] += score > 0
        votes[:, j] += score <= 0
    near = (np.abs(each - votes) < 0.5)[sure].all()
    judge.that(near, "scores of classes are votes and less than one")
    said = judge.call(model.predict, X) == model.classes_[votes.argmax(axis=1)]
    judge.that(said[sure].all(), "the most votes are predicted")
    said = judge.call(model.set_params(break_ties=True).predict, X)
    judge.that((said == model.classes_[each.argmax(axis=1)]).all(), "ties are broken by scores")


def attack(rng: Any, judge: Judge) -> None:
    """One problem by two methods; sometimes repeated, or from a warm start."""
    X, y, share, given = draw(rng)
    judge.says(given, X.shape, int(y.max()) + 1)
    if share is not None and not np.bincount(y, share).all():
        judge.refuses("a class without weight", ReducedHullSVC(**given).fit, X, y, share)
        return
    problems = pairs(X, y, share, given)
    context, runs = list(judge.context), []
    for _ in range(2):
        how = training(rng, METHODS[:3] if len(problems) > 3 else METHODS)
        judge.context = [*context, str(how)]
        model = fit(ReducedHullSVC(**given, **how), X, y, share, problems, judge)
        runs.append(check(problems, model, y, judge))
    if chance(rng, 0.1):
        judge.context = [*context, f"warm start {how}"]
        model.set_params(warm_start=True, max_iter=20)
        fit(model, X, y, share, problems, judge)
        runs.append(check(problems, fit(model, X, y, share, problems, judge), y, judge))
    elif chance(rng, 0.05) and how["time_limit"] is None:
        again = judge.call(clone(model).fit, X, y, share)
        judge.that(np.array_equal(again.dual_coef_, model.dual_coef_), "the same fit twice")
    judge.context = context
    if len(problems) == 1 and given["kernel"] in ("rbf", "poly"):
        _scored(model, X, given, judge)
    if len(problems) > 1 and given["kernel"] != "precomputed":
        _voted(model, X, judge)
    for machine in zip(*runs, strict=True):
        best, bound = min(pair[0] for pair in machine), max(pair[1] for pair in machine)
        judge.at_most(bound, best, "objective_ - gap_ <= every value", 4 * EPS * abs(best))
