"""The certificates of one-class hulls and of regressions, recomputed as those of classifiers are.

The dual point is ``dual_coef_`` itself, so that value and gap follow from it, the data and the
parameters (:mod:`cornerstep.kernel_svm.verification`); ``offset_`` must be a threshold of its
gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray
from cornerstep.kernel_svm.base import single_weights
from cornerstep.kernel_svm.machines import (
    Regression,
    Rows,
    pose_one_class,
    pose_regression,
    tube_given,
)
from cornerstep.kernel_svm.pairs import KernelParameters
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.tube import signed
from cornerstep.kernel_svm.verification import (
    CLOSE,
    HOW,
    Proven,
    check_shift,
    equal_rows,
    expect,
    kernel_of,
    proven,
)
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.claims import Recomputed
from cornerstep.learning.kernel_blocks import centred
from cornerstep.learning.verification import require_rows


def recompute_one_class(
    model: Any, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
) -> Recomputed:
    """Value and bound of a ``OneClassHull``; adds what is wrong."""
    X = _rows(model, X)
    weights = single_weights(X, sample_weight)
    kernel = kernel_of(model, X, problems)
    if not _is_whole(model, X, weights, problems):
        return Recomputed(np.full(1, np.nan), np.full(1, np.nan), np.zeros(1), HOW)
    shift = float(model.kernel_shift_)
    check_shift(kernel, X, shift, problems)
    examples = np.flatnonzero(weights > 0)
    problem = pose_one_class(Rows(X, examples, weights, kernel, 0, shift=shift), float(model.nu))
    beta = _coefficients(model, weights.size)[examples]
    found = proven(problem, beta, "", problems)
    (low, high), *_ = _threshold_ends(problem, beta, found)
    expect(problems, "offset_", float(model.offset_), low, high)
    return _answer(found)


def _rows(model: Any, X: Any) -> Any:
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    X = X.astype(np.float64)
    require_rows(model._shape_fit[0], X.shape[0])
    return X


def _answer(found: Proven) -> Recomputed:
    """With the rounding of both ways of summing up."""
    rounding = np.array([2 * found.look.rounding])
    return Recomputed(np.array([found.value]), np.array([found.bound]), rounding, HOW)


def _coefficients(model: Any, n: int) -> FloatArray:
    out = np.zeros(n)
    out[model.support_] = model.dual_coef_[0]
    return out


def _is_whole(model: Any, X: Any, weights: FloatArray, problems: list[str]) -> bool:
    """Whether support and coefficients fit together and are those of the data."""
    support, coefficients = np.asarray(model.support_), np.asarray(model.dual_coef_)
    if not (
        support.ndim == 1
        and support.dtype.kind in "iu"
        and (support.size == 0 or (support.min() >= 0 and support.max() < weights.size))
        and np.unique(support).size == support.size
        and coefficients.shape == (1, support.size)
        and np.isfinite(coefficients).all()
    ):
        problems.append("support_ and dual_coef_ do not belong together")
        return False
    if tuple(model._shape_fit) != tuple(X.shape) or model.n_features_in_ != X.shape[1]:
        problems.append(
            f"the model was trained on {model.n_features_in_} features, not {X.shape[1]}"
        )
        return False
    if not (weights[support] > 0).all():
        problems.append("examples of weight 0 have coefficients")
    if KernelParameters(*model._kernel_fit).name != "precomputed":
        if not equal_rows(model.support_vectors_, X[support]):
            problems.append("support_vectors_ are not the rows of the data that support_ names")
    elif model.support_vectors_.size:
        problems.append("support_vectors_ must be empty where the kernel is precomputed")
    return True


def _threshold_ends(
    problem: ReducedHullProblem, beta: FloatArray, found: Proven
) -> list[tuple[float, float]]:
    """For each sum all thresholds that the gradient allows, to its rounding."""
    errors = problem.errors(beta) + CLOSE * float(np.ptp(found.gradient))
    lows = problem.threshold_ranges(found.gradient - errors)
    highs = problem.threshold_ranges(found.gradient + errors)
    return [(low, high) for (low, _), (_, high) in zip(lows, highs, strict=True)]


def recompute_regression(
    model: Any, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
) -> Recomputed:
    """Value and bound of a ``ReducedHullSVR``; adds what is wrong."""
    X, y = _rows(model, X), np.asarray(y, dtype=np.float64)
    if y.shape != (X.shape[0],):
        raise ValueError(f"X and y must be as many, got {X.shape[0]} and {y.size}")
    weights = single_weights(X, sample_weight)
    kernel = kernel_of(model, X, problems)
    shape = np.shape(model.intercept_)
    if shape != (1,):
        problems.append(f"intercept_ must be one number, got shape {shape}")
    if not _is_whole(model, X, weights, problems) or shape != (1,):
        return Recomputed(np.full(1, np.nan), np.full(1, np.nan), np.zeros(1), HOW)
    shift = float(model.kernel_shift_)
    check_shift(kernel, X, shift, problems)
    examples = np.flatnonzero(weights > 0)
    size = tube_given(model.C, model.epsilon, model.nu)
    posed = pose_regression(Rows(X, examples, weights, kernel, 0, shift=shift), y, size)
    coefficients = _coefficients(model, weights.size)[examples]
    beta = signed(coefficients, posed.problem)
    found = proven(posed.problem, beta, "", problems)
    _check_line(model, X[model.support_], posed, _threshold_ends(posed.problem, beta, found),
                problems)  # fmt: skip
    return _answer(found)


def _check_line(
    model: Any, rows: Any, posed: Regression, ends: list[tuple[float, float]], problems: list[str]
) -> None:
    """``intercept_`` and ``epsilon_``, from all thresholds that the gradient allows."""
    moved = away = 0.0
    if posed.middle is not None:
        rows, coefficients = centred(rows, posed.middle), model.dual_coef_[0]
        moved = float(coefficients @ rows @ posed.middle)
        away = CLOSE * float(abs(coefficients) @ abs(rows) @ abs(posed.middle))
    away += CLOSE * abs(posed.level)
    low, high = (posed.level - moved - sum(e[side] for e in ends) / len(ends) for side in (1, 0))
    expect(problems, "intercept_", float(model.intercept_[0]), low - away, high + away)
    if model.nu is None:
        expect(problems, "epsilon_", float(model.epsilon_), posed_width(model))
    else:
        least, most = (0.5 * (ends[1][k] - ends[0][1 - k]) for k in (0, 1))
        expect(problems, "epsilon_", float(model.epsilon_), max(least, 0.0), max(most, 0.0))


def posed_width(model: Any) -> float:
    """The epsilon that a model without nu was asked for."""
    return float(tube_given(model.C, model.epsilon, None)["epsilon"] or 0.0)
