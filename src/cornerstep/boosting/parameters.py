"""The parameters of soft-margin boosting: each checked, with one line that says what it may be."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils.validation import has_fit_parameter

from cornerstep.boosting.solvers.frank_wolfe import STEPS
from cornerstep.boosting.solvers.methods import METHODS, SECONDARIES
from cornerstep.core.types import FloatArray
from cornerstep.learning.parameters import check_stopping


def check_parameters(clf: Any) -> None:
    """Raise :class:`ValueError` for the first parameter of the classifier that is out of range."""
    _one_of("solver", clf.solver, METHODS)
    _one_of("step", clf.step, STEPS)
    if not callable(clf.secondary):
        _one_of("secondary", clf.secondary, SECONDARIES, " or a callable")
    if isinstance(clf.weak_learner, str):
        _one_of("weak_learner", clf.weak_learner, ("tree",), " or a scikit-learn classifier")
    elif (
        isinstance(clf.weak_learner, type)
        or not (hasattr(clf.weak_learner, "fit") and hasattr(clf.weak_learner, "predict"))
        or is_regressor(clf.weak_learner)
    ):
        raise ValueError(
            f"weak_learner must be 'tree' or a scikit-learn classifier, got {clf.weak_learner!r}"
        )
    elif not has_fit_parameter(clf.weak_learner, "sample_weight"):
        raise ValueError(
            f"weak_learner must take sample_weight in fit, {clf.weak_learner!r} does not"
        )
    if not _is_integer(clf.max_depth, 1, 16):
        raise ValueError(f"max_depth must be an integer from 1 to 16, got {clf.max_depth!r}")
    if not _is_integer(clf.max_bins, 2, 65_535):
        raise ValueError(f"max_bins must be an integer from 2 to 65535, got {clf.max_bins!r}")
    if not isinstance(clf.textbook, bool):
        raise ValueError(f"textbook must be True or False, got {clf.textbook!r}")
    check_stopping(clf)
    if not 0 < float(clf.atol) < np.inf:
        raise ValueError(
            f"atol must be a positive number, by which losses are smoothed, got {clf.atol!r}"
        )
    share = isinstance(clf.nu, Real) and not isinstance(clf.nu, Integral) and 0 < float(clf.nu) <= 1
    auto = isinstance(clf.nu, str) and clf.nu == "auto"
    if not (share or auto or _is_integer(clf.nu, 1, np.inf)):
        raise ValueError(
            f"nu must be 'auto', a share in (0, 1] or a count >= 1 given as an int, got {clf.nu!r}"
        )


def share_of_weight(nu: Any, weights: FloatArray) -> float:
    """Nu as a share of the total weight."""
    if not isinstance(nu, Integral):
        return float(nu)
    total = float(weights.sum())
    if int(nu) > total * (1 + 1e-12):
        raise ValueError(
            f"nu must be at most the number of examples (their total weight), {total:g}, got {nu!r}"
        )
    return min(float(nu) / total, 1.0)


def _one_of(name: str, value: Any, choices: Collection[str], others: str = "") -> None:
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}{others}, got {value!r}")


def _is_integer(value: Any, least: float, most: float) -> bool:
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most
    )
