"""``certify``: an honest model holds, whatever its scale; one that claims what is not so does not.

Lies are told of fitted models one at a time: better objectives, smaller gaps, other weights or dual
coefficients, a status that was not reached, other data.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from attack import boosting_family, kernel_family, multiclass_family, structured_family
from attack.draws import chance, labels, one_of, positive, rows, weights
from attack.judge import Judge, RefusedError
from cornerstep import (
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    Status,
    StructuredSVC,
    certify,
)


def _multiclass(rng: Any, judge: Judge) -> tuple[Any, tuple[Any, ...]]:
    X, y, share, _, given = multiclass_family.draw(rng)
    how = multiclass_family.training(rng, "kernel" in given)
    judge.says({k: v for k, v in {**given, **how}.items() if k not in ("costs", "rho")}, X.shape)
    return judge.call(MulticlassSVC(**given, **how).fit, X, y, share), (X, y, share)


def _kernel(rng: Any, judge: Judge) -> tuple[Any, tuple[Any, ...]]:
    X, y, share, given = kernel_family.draw(rng)
    how = {**kernel_family.training(rng), "method": "auto"}
    judge.says(given, how, X.shape)
    return judge.call(ReducedHullSVC(**given, **how).fit, X, y, share), (X, y, share)


def _structured(rng: Any, judge: Judge) -> tuple[Any, tuple[Any, ...]]:
    task = structured_family.draw(rng)
    given = {"C": positive(rng, -4, 4), **structured_family.training(rng, task)}
    judge.says(type(task.model).__name__, given)
    return judge.call(StructuredSVC(task.model, **given).fit, task.X, task.Y), (task.X, task.Y)


def _boosting(rng: Any, judge: Judge) -> tuple[Any, tuple[Any, ...]]:
    m = int(one_of(rng, 2, 3))
    y = labels(rng, int(rng.integers(m, 20)), m)
    X, share = rows(rng, y, int(rng.integers(1, 4))), weights(rng, y.size)
    given = {
        "method": one_of(rng, *boosting_family.METHODS), "max_depth": int(rng.integers(1, 3)),
        "nu": float(rng.uniform(0.05, 1)), "tol": float(one_of(rng, 0.1, 0.01)),
        "max_iter": one_of(rng, 1, 20),
    }  # fmt: skip
    judge.says(given, X.shape, m)
    model = judge.call(SoftMarginBoostingClassifier(**given).fit, X, y, share)
    return model, (X, y, share)


def lies(model: Any, found: float) -> list[tuple[str, dict[str, Any]]]:
    """What a forger might write: a name, and attributes; ``found`` is the gap that there is.

    A lie is larger than the gap, which has the rounding of the honest numbers in it.
    """
    name = "soft_margin_" if hasattr(model, "soft_margin_") else "objective_"
    value, gap = np.asarray(getattr(model, name)), np.asarray(model.gap_)
    far = 100 * (np.abs(value) + gap) + (value == 0)
    out = [(f"another {name}", {name: value + far}), (f"another {name}", {name: value - far})]
    if hasattr(model, "dual_objective_"):
        bound = model.dual_objective_
        share = {"relative_gap_": gap / (value + far)} if hasattr(model, "relative_gap_") else {}
        moved = {"objective_": value + far, "dual_objective_": bound + far, "gap_": gap}
        out += [
            ("another certificate", {**moved, **share}),
            ("a bound beyond the objective", {"dual_objective_": value + far}),
        ]
    if gap.ndim == 0 and found > max(0.95 * gap, 1e-6 * np.abs(value)):
        out.append(("half the gap", {"gap_": gap / 2}))
        if model.status_ is not Status.SOLVED and not hasattr(model, "rtol"):
            target = model.tol * (np.abs(value) if name == "objective_" else 1.0)
            if gap > 1.1 * target:
                out.append(("solved", {"status_": Status.SOLVED}))
    return out


def forged(model: Any, changes: dict[str, Any]) -> Any:
    """A copy of the model that says something else."""
    liar = copy.copy(model)
    for name, value in changes.items():
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        setattr(liar, name, value)
    return liar


def attack(rng: Any, judge: Judge) -> None:
    """An honest model, and a lie or two."""
    kind = one_of(rng, _multiclass, _multiclass, _kernel, _kernel, _structured, _boosting)
    model, data = kind(rng, judge)
    check = judge.call(certify, model, *data)
    if not judge.that(check.holds, f"certify rejects an honest model: {check.problems[:1]}"):
        return
    told = lies(model, check.gap)
    if chance(rng, 0.3) and hasattr(model, "coef_") and np.abs(model.coef_).max() > 0:
        value = np.abs(np.atleast_1d(model.objective_)).max()
        # their objective is at least 50 |W|²; below the claim they would be as good as claimed
        if 50 * (np.asarray(model.coef_) ** 2).sum() > 2 * value and kind is _multiclass:
            told.append(("weights of ten times the size", {"coef_": 10 * model.coef_}))
    what, changes = told[int(rng.integers(len(told)))]
    try:
        check = judge.call(certify, forged(model, changes), *data)
    except RefusedError:
        return
    judge.that(not check.holds, f"certify believes a lie: {what}")
