"""Structured SVMs recomputed: what a model claims, from the data it was trained on.

``P(w)`` follows from decoding all examples.  The model holds no dual point: a run of its own, from
zero, looks for a bound as good as the claimed one, until it has it or a point below it refutes it.
Any w and any dual point certify each other, so that it does not matter by which way either came.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cornerstep.core.rounding import norm
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.claims import CLOSE, Recomputed
from cornerstep.optimiser.loop import Iterate, Stopping
from cornerstep.optimiser.result import Status
from cornerstep.structured.models.base import StructuredModel, items
from cornerstep.structured.problem import (
    ModelExamples,
    StructuredProblem,
    example_weights,
    lam_of,
    pose_examples,
    prox_of,
    weighed,
)
from cornerstep.structured.proofs import primal, value_error
from cornerstep.structured.training import Settings, train

_MAX_ITER = 100_000  # passes that the search for a bound may take
_PATIENCE = 1_000  # passes without a better one after which it is given up
_QUICK = 1_000  # of them by the quickest solver


def recompute(
    clf: Any, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
) -> Recomputed:
    """The objective of a structured SVM and a bound; what is wrong is added."""
    xs, ys = items(X), items(y)
    if not xs or len(xs) != len(ys):
        raise ValueError(f"X and y must be as many, at least one, got {len(xs)} and {len(ys)}")
    weights = example_weights(sample_weight, len(xs))
    given = weights[weights > 0]
    X, y, weights = weighed(X, y, weights)
    model = copy.copy(clf.model)
    model.prepare_weighted(X, y, weights)
    model.check(X, y)
    lam = lam_of(clf, model, X, y, given)
    _check_model(clf.model_, model, problems)
    if not abs(clf.lam_ - lam) <= CLOSE * lam:
        problems.append(f"lam_ is {clf.lam_:.9g}, but C, lam and the data make it {lam:.9g}")
    if getattr(clf, "n_features_in_", None) != getattr(model, "n_features_", None):
        problems.append("n_features_in_ is not the number of features of the data")
    if not isinstance(clf.status_, Status):
        problems.append(f"status_ is {clf.status_!r}, which is no status")
    w = np.asarray(clf.coef_)
    if w.shape != (model.size,) or w.dtype != np.float64 or not np.isfinite(w).all():
        problems.append(f"coef_ must be {model.size} finite numbers, got shape {w.shape}")
        none = np.full(1, np.nan)
        return Recomputed(none, none, none, "nothing: the model has no weights")
    examples: Any = ModelExamples(model, items(X), items(y), weights)
    if clf.loss == "softmax":
        examples = pose_examples(model, X, y, weights, clf.n_jobs, loss=clf.loss)
    ridge = lam if clf.radius is None else 0.0
    value, rounding = primal(examples, ridge, w, examples.hinges(w))
    posed: list[StructuredProblem] = []
    if clf.radius is not None and norm(w) > clf.radius * (1 + CLOSE):
        problems.append(f"coef_ has a norm above radius={clf.radius:g}")
    if norm(w - model.admissible(w)) > CLOSE * norm(w):
        problems.append(f"coef_ is not among the weights that {model!r} allows")

    def pose() -> StructuredProblem:
        prox = prox_of(lam, model, X, y, weights, clf.loss)
        seen = pose_examples(model, X, y, weights, clf.n_jobs, loss=clf.loss)
        posed.append(StructuredProblem(seen, lam, prox))
        return posed[-1]

    bound, how = _bound(clf, pose, float(claimed.bounds[0]), rounding)
    examples.hinges(np.zeros_like(w))  # training has seen other labelings than w decodes: at 0
    for seen in (examples, *(problem.examples for problem in posed)):
        rounding = max(rounding, value_error(seen, ridge, w, value))
    return Recomputed(
        np.array([value]), np.array([bound]), np.array([2.0 * rounding]), how, attained=False
    )


def _check_model(fitted: StructuredModel, fresh: StructuredModel, problems: list[str]) -> None:
    """The model that decodes must be what ``model`` makes of the data."""
    if type(fitted) is not type(fresh):
        problems.append(f"model_ is a {type(fitted).__name__}, model a {type(fresh).__name__}")
        return
    own = tuple(inspect.signature(type(fresh)).parameters)
    learned = [key for key in vars(fresh) if key.endswith("_") and key != "inference_"]
    for name in dict.fromkeys((*own, *learned, "size")):
        if not _same(getattr(fitted, name, None), getattr(fresh, name, None)):
            problems.append(f"{name} of model_ is not what model has, or makes of the data")


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return bool(np.array_equal(np.asarray(one), np.asarray(other)))
    except (ValueError, TypeError):  # ragged: compared part by part
        return len(one) == len(other) and all(map(_same, one, other))


def _bound(
    clf: Any, pose: Callable[[], StructuredProblem], claimed: float, rounding: float
) -> tuple[float, str]:
    """A lower bound of the optimum at least as large as the claimed one, if there is one.

    The quickest solver looks for it first, then the model's own, which is known to find it.
    """
    if claimed <= 0.0:
        return 0.0, "no objective is negative"
    slack = CLOSE * abs(claimed) + rounding
    asked = copy.copy(clf)
    asked.random_state = copy.deepcopy(clf.random_state)
    quick = replace(
        asked.settings(), solver="bcfw-auto", cache_passes=5, check_every=1, sampling="permuted",
        averaging=False, cache_size=50,
    )  # fmt: skip
    has_quick = clf.radius is None and not clf.model.constrained and clf.loss != "softmax"
    runs = [(quick, _QUICK)] if has_quick else []
    found = -np.inf
    for settings, max_iter in [*runs, (asked.settings(), _MAX_ITER)]:
        value, bound = _searched(pose(), settings, claimed, slack, max_iter)
        found = max(found, bound)
        if found >= claimed - slack or value < claimed - slack:
            return found, "a dual point found by a run from zero"
    raise ValueError(
        f"whether the bound of {claimed:.9g} holds could not be decided: runs of their own have "
        f"found {found:.9g}, and no point below it"
    )


def _searched(
    problem: StructuredProblem, settings: Settings, claimed: float, slack: float, max_iter: int
) -> tuple[float, float]:
    """Value and bound of a run that ends when it has decided about the claimed one."""
    best, since = -np.inf, 0

    def decided(look: Iterate) -> bool:
        nonlocal best, since
        bound = look.value - look.gap  # NaN where both are estimates, which refute nothing
        best, since = (bound, 0) if bound > best else (best, since + 1)
        refuted = bound < claimed - slack and look.value < claimed - slack
        return bound >= claimed - 0.5 * slack or refuted or since >= _PATIENCE

    settings = replace(
        settings, stopping=Stopping(0.0, 0.0, max_iter), callback=decided, verbose=0,
        keep_state=False,
    )  # fmt: skip
    proof = train(problem, settings).proof
    return proof.objective, proof.bound
