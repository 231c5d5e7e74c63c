"""``SoftMarginBoostingClassifier`` on few examples: every method, step, depth 1 and 2, weights.

Judged: the soft margin of the trees and weights that the model shows, and the largest soft margin
of any ensemble by a linear program over all sign patterns that trees of that depth can have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from sklearn.base import clone

from attack.draws import chance, labels, one_of, rows, weights
from attack.exact import EPS, LONG, real
from attack.judge import Judge, RefusedError
from cornerstep import SoftMarginBoostingClassifier

METHODS = ("mlpboost", "mlpboost", "lpboost", "erlpboost", "cerlpboost")
STEPS = ("short", "open-loop", "line-search", "pairwise", "blended-pairwise")


def patterns(X: Any, depth: int) -> Any:
    """All vectors ``h(x_i)`` of trees of depth 1 or 2, one row each: thresholds between values."""
    splits = {tuple(np.ones(len(X), dtype=bool))}
    for column in X.T:
        splits |= {tuple(column <= value) for value in column}
    left = np.array(sorted(splits))
    stumps = np.unique(np.concatenate([left, ~left]), axis=0)
    if depth == 1:
        return np.where(stumps, 1.0, -1.0)
    found = set()
    for root in left:
        left_parts, right_parts = (
            np.unique(stumps & root, axis=0),
            np.unique(stumps & ~root, axis=0),
        )
        for part in left_parts:
            found |= {tuple(row) for row in part | right_parts}
    return np.where(np.array(sorted(found)), 1.0, -1.0)


def soft_margin(margins: Any, caps: Any) -> Any:
    """``min over 0 <= d <= caps, sum d = 1 of <d, margins>``: the smallest first."""
    order = np.argsort(margins)
    before = np.concatenate([[LONG(0)], np.cumsum(caps[order])[:-1]])
    return (margins[order] * np.clip(1 - before, 0, caps[order])).sum()


def largest(margins: Any, caps: Any) -> float:
    """The largest soft margin of any weights of these hypotheses, by the dual linear program.

    ``min t`` with ``margins d <= t`` for d in the capped simplex.
    """
    H, n = margins.shape
    answer = linprog(
        np.append(np.zeros(n), 1.0), np.column_stack([margins, -np.ones(H)]), np.zeros(H),
        np.append(np.ones(n), 0.0)[None], [1.0], [*((0, float(c)) for c in caps), (None, None)],
    )  # fmt: skip
    if answer.status != 0:
        raise RefusedError("the linear program of the judge has no answer")
    return float(answer.fun)


def _values(trees: Any, X: Any) -> Any:
    """What each tree says of each example."""
    out = []
    for tree in trees:
        features, thresholds, leaves = tree
        at = np.zeros(len(X), dtype=int)
        while (at < len(features)).any():
            goes = np.minimum(at, len(features) - 1)
            right = X[np.arange(len(X)), features[goes]] > thresholds[goes]
            at = np.where(at < len(features), 2 * at + 1 + right, at)
        out.append(leaves[at - len(features)])
    return real(out)


def check(model: Any, X: Any, y: Any, share: Any, judge: Judge) -> None:
    """What must hold of every machine."""
    used = share > 0
    total = real(share).sum()
    nu = model.nu_ if isinstance(model.nu_, float) else model.nu_ / total
    caps = (real(share) / (LONG(nu) * total))[used]
    alone = y.max() == 1
    trees = [model.estimators_] if alone else model.estimators_
    shares = [model.estimator_weights_] if alone else model.estimator_weights_
    every = patterns(X[used], model.max_depth)
    numbers = (
        [getattr(m, name) for m in model.machines_] for name in ("objective", "bound", "gap")
    )
    for k, (value, bound, gap) in enumerate(zip(*numbers, strict=True)):
        signs = np.where(y == (1 if alone else k), 1.0, -1.0)[used]
        if not judge.that(np.isfinite([value, bound, gap]).all(), "finite certificate"):
            continue
        w = real(shares[k])
        judge.that((w >= 0).all() and abs(w.sum() - 1) <= 1e-12, "weights sum to 1")
        true = soft_margin(w @ _values(trees[k], X[used]) * signs, caps)
        judge.at_most(abs(true - value), 0.0, "objective_ of the trees", 1e-12)
        best = largest(every * signs, caps)
        judge.at_most(value, best, "objective_ <= largest", 1e-6)
        judge.at_most(best, bound, "largest <= bound_", 1e-6)
        judge.at_most(abs(bound - value - gap), 0.0, "gap_ is the difference", 4 * EPS)
        judge.at_most(0.0, gap, "gap_ >= 0")
        d = real(np.asarray(model.example_weights_).reshape(len(X), -1)[used, k])
        judge.at_most(max(-d.min(), (d / caps).max() - 1, abs(d.sum() - 1)), 1e-9,
                      "example_weights_ are a distribution within the caps")  # fmt: skip
        judge.at_most((real(every) * signs @ d).max(), bound, "bound_ is the largest edge", 1e-9)
    if model.status_.value == "solved":
        judge.at_most(np.max(model.gap_), model.atol, "solved means gap <= atol", 4 * EPS)


def attack(rng: Any, judge: Judge) -> None:
    """One fit, sometimes twice or from a warm start."""
    m = int(one_of(rng, 2, 2, 2, 3))
    n = int(rng.integers(m, 9))
    y, share = labels(rng, n, m), weights(rng, n)
    X = rows(rng, y, int(rng.integers(1, 4)))
    if not np.isfinite(X).all():
        raise RefusedError("the numbers drawn are not finite")
    given = {
        "solver": one_of(rng, *METHODS), "step": one_of(rng, *STEPS),
        "secondary": one_of(rng, "lp", "entropic"), "max_depth": int(rng.integers(1, 3)),
        "nu": float(rng.uniform(0.05, 1)) if chance(rng, 0.7) else int(rng.integers(1, n + 1)),
        "atol": float(one_of(rng, 0.3, 0.1, 0.01, 1e-4, 1e-9)),
        "max_iter": one_of(rng, 0, 1, 3, 20, 60),
        "time_limit": float(one_of(rng, 0.0, 0.05)) if chance(rng, 0.05) else None,
    }  # fmt: skip
    judge.says(given, X.shape, m, None if share is None else "weighted")
    model = judge.call(SoftMarginBoostingClassifier(**given).fit, X, y, share)
    kept = np.ones(n) if share is None else share
    check(model, X, y, kept, judge)
    if chance(rng, 0.1):
        model.set_params(warm_start=True, max_iter=5)
        check(judge.call(model.fit, X, y, share), X, y, kept, judge)
    elif chance(rng, 0.05) and given["time_limit"] is None:
        again = judge.call(clone(model).fit, X, y, share)
        judge.that(np.array_equal(again.bound_, model.bound_), "the same fit twice is the same")
