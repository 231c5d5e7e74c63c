"""``select_C``: the bound on validation errors against models trained anywhere in the interval.

A model at C whose gap is g lies within ``sqrt(2 g)`` of the optimum there, so that examples whose
margin is larger than ``2 sqrt(g) |x|`` are decided: those wrong and those undecided are at least as
many as the optimum gets wrong, and the bound must not be above that number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attack.draws import chance, one_of, positive, scale
from attack.exact import EPS, LONG, real
from attack.judge import Judge
from cornerstep import MulticlassSVC, select_C


def _points(rng: Any, n: int, means: Any, far: float) -> tuple[Any, Any]:
    y = np.concatenate([np.arange(len(means)), rng.integers(0, len(means), n)])
    X = means[y] + rng.standard_normal((y.size, means.shape[1])) * far
    return np.round(X) if chance(rng, 0.2) else X, y


def errors(model: Any, X: Any, y: Any) -> tuple[int, int]:
    """How many examples the optimum may get wrong, and how many this model does but for ties."""
    W, b = real(model.coef_), real(model.intercept_)
    if len(W) == 1:
        W, b = np.concatenate([-W, W]) / 2, np.concatenate([-b, b]) / 2
    scores = real(X) @ W.T + b
    constant = LONG(model.intercept_scaling if model.fit_intercept else 0.0)
    length = np.sqrt((real(X) ** 2).sum(axis=1) + constant**2)
    at = np.arange(y.size)
    others = scores.copy()
    others[at, y] = -np.inf
    margins = scores[at, y] - others.max(axis=1)
    sizes = (np.abs(real(X)) @ np.abs(W).T + np.abs(b)).max(axis=1)
    rounding = 16 * EPS * sizes
    doubt = 2 * np.sqrt(LONG(model.gap_)) * length + rounding
    return int((margins <= doubt).sum()), int((margins < -rounding).sum())


def attack(rng: Any, judge: Judge) -> None:
    """A choice, and models at other C."""
    m, d = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    means, far, size = rng.standard_normal((m, d)), rng.uniform(0.3, 2), scale(rng)
    if not 1e-50 < size < 1e50:
        size = 1.0
    X, y = _points(rng, int(rng.integers(2, 30)), means, far)
    Z, z = _points(rng, int(rng.integers(2, 40)), means, far)
    given: dict[str, Any] = {"fit_intercept": chance(rng, 0.7), "random_state": 0}
    if chance(rng, 0.5):
        given["loss"] = one_of(rng, "softmax", "usunier", "top-k")
        if given["loss"] != "softmax":
            given["k"] = int(rng.integers(1, m))
    if given.get("loss") != "softmax":
        given["smoothing"] = float(one_of(rng, 0.0, 0.5, 2.0))
    if chance(rng, 0.2):
        given["intercept_scaling"] = float(one_of(rng, 0.1, 10.0))
    low = positive(rng, -6, 2) / size**2
    interval = (low, low * 10 ** rng.uniform(0, 4))
    how = {"within": int(rng.integers(0, 4)), "max_fits": int(one_of(rng, 1, 5, 30))}
    judge.says(given, interval, how, size, X.shape, m)
    choice = judge.call(select_C, MulticlassSVC(**given), size * X, y, size * Z, z, interval, **how)
    judge.at_most(choice.least_errors, choice.errors, "the bound is not above the choice")
    if choice.proven:
        judge.at_most(choice.errors - how["within"], choice.least_errors, "proven means within")
    Cs = np.exp(rng.uniform(*np.log(interval), 3))
    for C, bound in zip(Cs, choice.lower_bound(Cs), strict=True):
        model = judge.call(MulticlassSVC(C=C, tol=1e-9, max_iter=300, **given).fit, size * X, y)
        most, _ = errors(model, size * Z, z)
        judge.at_most(bound, most, f"no fewer errors than the bound at C={C}")
        judge.at_most(choice.least_errors, most, f"no fewer errors than proven at C={C}")
    _, wrong = errors(choice.estimator, size * Z, z)
    judge.at_most(wrong, choice.errors, "errors of the choice are counted")
