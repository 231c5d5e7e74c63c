"""Every kind of array: in memory, sparse, in single precision, tensors, mapped and streamed files.

The certificate is of the numbers as given, whatever holds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attack import kernel_family, multiclass_family
from attack.array_kinds import ELSEWHERE, IN_MEMORY, as_kind
from attack.draws import chance
from attack.judge import Judge, RefusedError
from attack.multiclass_task import check
from cornerstep import MulticlassSVC, ReducedHullSVC


def _kernel(rng: Any, judge: Judge) -> None:
    X, y, share, given = kernel_family.draw(rng)
    if given["kernel"] == "precomputed" or (share is not None and not np.bincount(y, share).all()):
        raise RefusedError("not of interest here")
    kind, array, X = as_kind(rng, X, judge, IN_MEMORY)
    how = kernel_family.training(rng)
    judge.says(kind, given, how, X.shape)
    problems = kernel_family.pairs(X, y, share, given)
    model = ReducedHullSVC(**given, **how)
    kernel_family.check(
        problems, kernel_family.fit(model, array, y, share, problems, judge), y, judge
    )
    if kind == "pandas":  # whose columns have names
        return
    scores, same = (judge.call(model.decision_function, Z) for Z in (array, X))
    size = np.abs(same).max()
    if np.isfinite(size):
        judge.at_most(np.abs(scores - same).max(), 0.0, "scores do not depend on the kind of array",
                      1e-6 * (size + np.abs(model.intercept_).max()))  # fmt: skip


def _multiclass(rng: Any, judge: Judge) -> None:
    X, y, share, m, given = multiclass_family.draw(rng, kernels=False)
    kind, array, X = as_kind(rng, X, judge, (*IN_MEMORY, *ELSEWHERE, *ELSEWHERE))
    shown = {k: v for k, v in given.items() if k not in ("costs", "rho")}
    judge.says(kind, shown, X.shape, m)
    task = multiclass_family.task_of(given, X, y, share, m)
    context, found = list(judge.context), []
    for _ in range(2):
        how = multiclass_family.training(rng, given)
        judge.context = [*context, str(how)]
        model = multiclass_family.fit(judge, MulticlassSVC(**given, **how), array, y, share)
        found.append(check(task, model, how["tol"], judge))
    judge.context = context
    multiclass_family.bounded(found, judge)
    answers = judge.call(model.predict, array)
    judge.that(answers.shape == y.shape, "a prediction for every row")


def attack(rng: Any, judge: Judge) -> None:
    """A multi-class machine, or sometimes a kernel machine."""
    (_kernel if chance(rng, 0.25) else _multiclass)(rng, judge)
