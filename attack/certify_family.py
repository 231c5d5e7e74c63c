"""``certify``: an honest model holds, whatever its scale; one that claims what is not so does not.

Lies are told of fitted models one at a time: better objectives, smaller gaps, other weights or dual
coefficients, a status that was not reached, other data.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from attack import (
    boosting_family,
    hulls_family,
    kernel_family,
    multiclass_family,
    structured_family,
)
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
    how = multiclass_family.training(rng, given)
    if given.get("kernel") in ("rbf", "poly") and chance(rng, 0.5):
        given = {**given, "kernel_rank": int(rng.integers(1, 40))}
        how = {**how, "solver": "auto", "last_iterate": False}
    judge.says({k: v for k, v in {**given, **how}.items() if k not in ("costs", "rho")}, X.shape)
    return judge.call(MulticlassSVC(**given, **how).fit, X, y, share), (X, y, share)


def _kernel(rng: Any, judge: Judge) -> tuple[Any, tuple[Any, ...]]:
    X, y, share, given = kernel_family.draw(rng)
    how = {**kernel_family.training(rng), "solver": "auto"}
    judge.says(given, how, X.shape)
    return judge.call(ReducedHullSVC(**given, **how).fit, X, y, share), (X, y, share)


def _hulls(rng: Any, judge: Judge) -> tuple[Any, tuple[Any, ...]]:
    X, y, share, given = hulls_family.draw(rng)
    how = hulls_family.training(rng)
    judge.says(given, how, X.shape)
    return judge.call(hulls_family.made(given, **how).fit, X, y, share), (X, y, share)


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
        "solver": one_of(rng, *boosting_family.METHODS), "max_depth": int(rng.integers(1, 3)),
        "nu": float(rng.uniform(0.05, 1)), "atol": float(one_of(rng, 0.1, 0.01)),
        "max_iter": one_of(rng, 1, 20),
    }  # fmt: skip
    judge.says(given, X.shape, m)
    model = judge.call(SoftMarginBoostingClassifier(**given).fit, X, y, share)
    return model, (X, y, share)


def lies(model: Any, found: float) -> list[tuple[str, dict[str, Any]]]:
    """What a forger might write: a name, and attributes; ``found`` is the gap that there is.

    A lie is larger than the gap, which has the rounding of the honest numbers in it.
    """
    worst = max(model.machines_, key=lambda machine: machine.gap)
    value, bound, gap = worst.objective, worst.bound, worst.gap
    far = 100 * (abs(value) + gap) + (value == 0)
    out = [
        ("another objective", {"objective_": value + far}),
        ("another objective", {"objective_": value - far}),
        ("a bound beyond the objective", {"bound_": value + far}),
        ("another certificate", _whole(model, objective=value + far, bound=bound + far)),
        ("another objective everywhere", _whole(model, objective=value + far)),
    ]
    if len(model.machines_) == 1 and found > max(0.95 * gap, 1e-6 * abs(value)):
        out.append(("half the gap", _whole(model, gap=gap / 2)))
        target = max(model.atol, model.tol * abs(value))
        if model.status_ is not Status.SOLVED and gap > 1.1 * target:
            out.append(("solved", _whole(model, status=Status.SOLVED)))
    return out


def _whole(model: Any, **changes: Any) -> dict[str, Any]:
    """Attributes that say the same lie everywhere: of the machine with the largest gap."""
    worst = max(model.machines_, key=lambda machine: machine.gap)
    lie = worst._replace(**changes)
    machines = [lie if machine is worst else machine for machine in model.machines_]
    names = {"objective": "objective_", "bound": "bound_", "gap": "gap_", "status": "status_"}
    out: dict[str, Any] = {"machines_": machines}
    out |= {names[name]: value for name, value in changes.items()}
    out["relative_gap_"] = max(machine.relative_gap for machine in machines)
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
    kind = one_of(rng, _multiclass, _multiclass, _kernel, _hulls, _structured, _boosting)
    model, data = kind(rng, judge)
    check = judge.call(certify, model, *data)
    if not judge.that(check.holds, f"certify rejects an honest model: {check.problems[:1]}"):
        return
    told = lies(model, check.gap)
    if chance(rng, 0.3) and hasattr(model, "coef_") and np.abs(model.coef_).max() > 0:
        value = abs(model.objective_)
        # their objective is at least 50 |W|²; below the claim they would be as good as claimed
        if 50 * (np.asarray(model.coef_) ** 2).sum() > 2 * value and kind is _multiclass:
            told.append(("weights of ten times the size", {"coef_": 10 * model.coef_}))
    what, changes = told[int(rng.integers(len(told)))]
    try:
        check = judge.call(certify, forged(model, changes), *data)
    except RefusedError:
        return
    judge.that(not check.holds, f"certify believes a lie: {what}")
