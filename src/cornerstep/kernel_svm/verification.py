"""The certificate of a kernel SVM, recomputed for :mod:`cornerstep.learning.verification`.

What the model says of each machine follows from its coefficients, the data and the parameters: the
dual point ``a = coefficients / C_``, its gradient ``Qa`` by blocks of the kernel matrix, the value
``1/2 a'Qa (- 1'a / C)`` and the thresholds of the gradient by sorting, from which the gap follows.
So do ``C_`` and ``intercept_``: intervals, as wide as rounding and the data leave them.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.pairs import (
    KernelParameters,
    Pair,
    Pairs,
    kernel_shift,
    pair_coefficients,
    pairs_of,
    sizes_given,
)
from cornerstep.kernel_svm.problem import ReducedHullProblem, least_width
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.claims import Recomputed
from cornerstep.learning.kernel_blocks import UNIT, centred
from cornerstep.learning.kernel_functions import gamma_value
from cornerstep.learning.verification import examples_of, require_rows
from cornerstep.optimiser.loop import Look

HOW = "the best vertex of the domain, by sorting gradients"
_BLOCK = 2**21  # entries of a kernel matrix held at a time
_SHIFTED = 1e-6  # by how much eigenvalues may be, relative
CLOSE = 1e-9  # by how much numbers that follow from a few operations may be off, relative


class _Claims(NamedTuple):
    """What a model says of one machine."""

    coefficients: FloatArray
    intercept: float
    C: float
    nu: float
    K: float
    margin: float


class Proven(NamedTuple):
    """Value and bound at a dual point, the look that a solver would have, and the gradient."""

    value: float
    bound: float
    look: Look
    gradient: FloatArray


def recompute(
    clf: Any, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
) -> Recomputed:
    """Value and bound of each machine; adds what is wrong."""
    X, labels, weights = examples_of(clf, X, y, sample_weight, problems)
    require_rows(clf._shape_fit[0], labels.size)
    machines = pairs_of(clf.classes_.size)
    how = HOW
    kernel = kernel_of(clf, X, problems)
    if not (
        _has_classes(clf, labels, weights, problems)
        and _is_whole(clf, X, labels, problems)
        and _is_posed(clf, problems)
    ):
        nothing = np.full(len(machines), np.nan)
        return Recomputed(nothing, nothing, np.zeros(len(machines)), how)
    shift = float(getattr(clf, "kernel_shift_", 0.0))
    check_shift(kernel, X, shift, problems)
    size = sizes_given(clf.nu, clf.K, clf.C)
    found = []
    pairs = Pairs(X, labels, weights, kernel, size, 0, shift=shift)
    coefficients = pair_coefficients(
        clf.dual_coef_, np.bincount(labels[clf.support_], minlength=clf.classes_.size)
    )
    for k, classes in enumerate(machines):
        pair = pairs.pose(classes)
        numbers = (np.atleast_1d(getattr(clf, name))[k] for name in _NUMBERS)
        whole = np.zeros(labels.size)
        whole[clf.support_] = coefficients[k]
        which = f" of the machine {k}" if len(machines) > 1 else ""
        claims = _Claims(whole[pair.examples], *(float(number) for number in numbers))
        found.append(_machine(pair, X, claims, which, problems))
    values, bounds, rounding = np.array(found).T
    return Recomputed(values, bounds, rounding, how)


_NUMBERS = ("intercept_", "C_", "nu_", "K_", "margin_")


def kernel_of(clf: Any, X: Any, problems: list[str]) -> KernelParameters:
    """The kernel that the model was trained with, after comparing it with the parameters."""
    fitted = KernelParameters(*clf._kernel_fit)
    used = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0"), "sigmoid": ("gamma", "coef0")}
    names = ("kernel", *used.get(clf.kernel if isinstance(clf.kernel, str) else "", ()))
    for name in names:
        said, trained = getattr(clf, name), getattr(fitted, "name" if name == "kernel" else name)
        if name == "gamma":
            said = gamma_value(said, X)
        same = np.isclose(said, trained, rtol=CLOSE, atol=0) if name == "gamma" else said == trained
        if not same:
            problems.append(
                f"the parameter {name} is {said!r}, the model was trained with {trained!r}"
            )
    return fitted


def check_shift(kernel: KernelParameters, X: Any, shift: float, problems: list[str]) -> None:
    """The kernel matrix must be positive semidefinite, after what was added to its diagonal."""
    try:
        with warnings.catch_warnings(action="ignore"):  # what a sigmoid lacks is what is compared
            lack, _ = kernel_shift(kernel, X)
    except ValueError as indefinite:
        problems.append(str(indefinite))
        return
    if abs(shift - lack) > _SHIFTED * lack:
        problems.append(f"kernel_shift_ is {shift:.9g}, but the kernel matrix lacks {lack:.9g}")


def _has_classes(clf: Any, labels: IntArray, weights: FloatArray, problems: list[str]) -> bool:
    """Whether the classes are those of the examples."""
    counts = np.bincount(labels[weights > 0], minlength=clf.classes_.size)
    right = counts.size == clf.classes_.size and bool(counts.all())
    if not right:
        problems.append("classes_ are not those of the examples, in order")
    return right


def _is_posed(clf: Any, problems: list[str]) -> bool:
    """Whether the parameters say which problem was solved."""
    given = [name for name in ("nu", "K", "C") if getattr(clf, name) is not None]
    if len(given) > 1:
        problems.append(f"only one of nu, K and C can have been given, got {' and '.join(given)}")
    return len(given) <= 1


def _is_whole(clf: Any, X: Any, labels: IntArray, problems: list[str]) -> bool:
    """Whether support and coefficients fit together and are those of the data."""
    n, m = labels.size, clf.classes_.size
    support, coefficients = np.asarray(clf.support_), np.asarray(clf.dual_coef_)
    if not (
        support.ndim == 1
        and support.dtype.kind in "iu"
        and (support.size == 0 or (support.min() >= 0 and support.max() < n))
        and np.unique(support).size == support.size
        and coefficients.shape == (m - 1, support.size)
        and np.isfinite(coefficients).all()
        and (np.diff(labels[support]) >= 0).all()
    ):
        problems.append("support_ and the coefficients do not belong together")
        return False
    if tuple(clf._shape_fit) != tuple(X.shape) or clf.n_features_in_ != X.shape[1]:
        problems.append(f"the model was trained on {clf.n_features_in_} features, not {X.shape[1]}")
        return False
    if not np.array_equal(clf.n_support_, np.bincount(labels[support], minlength=m)):
        problems.append("n_support_ is not the number of support vectors of each class")
    if KernelParameters(*clf._kernel_fit).name != "precomputed":
        if not equal_rows(clf.support_vectors_, X[support]):
            problems.append("support_vectors_ are not the rows of the data that support_ names")
    elif clf.support_vectors_.size:
        problems.append("support_vectors_ must be empty where the kernel is precomputed")
    short = [
        name for name in _NUMBERS
        if np.atleast_1d(getattr(clf, name)).shape != (len(pairs_of(m)),)
    ]  # fmt: skip
    if short:
        problems.append(f"{short[0]} must have a number for each of {len(pairs_of(m))} machines")
    return not short


def equal_rows(first: Any, second: Any) -> bool:
    """Whether two sets of rows are the same, and kept in the same way."""
    if first.shape != second.shape or sp.issparse(first) != sp.issparse(second):
        return False
    return (first != second).nnz == 0 if sp.issparse(first) else np.array_equal(first, second)


def _machine(
    pair: Pair, X: Any, claims: _Claims, which: str, problems: list[str]
) -> tuple[float, float, float]:
    """Value, bound and rounding of one machine; compares what the model says with the data."""
    problem = pair.problem
    if not 0 < claims.C < np.inf:
        problems.append(f"C_{which} must be a positive number, is {claims.C:g}")
        return np.nan, np.nan, 0.0
    beta = claims.coefficients / claims.C
    value, bound, look, gradient = proven(problem, beta, which, problems)
    total = float(np.abs(beta).sum())
    expect(problems, f"K_{which}", claims.K, total / 2)
    expect(problems, f"nu_{which}", claims.nu, total / problem.weight)
    errors = problem.errors(beta)
    square = float(beta @ (gradient - problem.linear))
    spread = float(np.abs(beta) @ errors) + CLOSE * abs(square)
    ends = [claims.C * np.sqrt(max(square + sign * spread, 0.0)) for sign in (1, -1)]
    low, high = (2.0 / end if end > 0 else np.inf for end in ends)
    expect(problems, f"margin_{which}", claims.margin, low, high)
    _check_thresholds(pair, X, claims, beta, gradient, errors, which, problems)
    # both ways of summing up are off by their rounding
    return value, bound, 2 * look.rounding


def proven(
    problem: ReducedHullProblem, beta: FloatArray, which: str, problems: list[str]
) -> Proven:
    """What the data say of a dual point; adds whether it lies outside its domain."""
    if not is_feasible(problem, beta):
        problems.append(f"the dual point{which} lies outside its domain")
    gradient = product(problem, beta) + problem.linear
    look = problem.look(beta, gradient)
    value = 0.5 * float(beta @ gradient + beta @ problem.linear)
    # of two gaps that hold the larger one: at huge caps training may have found no better
    bound = value - max(_gap(problem, beta, gradient), look.gap - look.rounding)
    if problem.is_distance:  # no less than 0
        bound = min(max(bound, 0.0), value)
    return Proven(value, bound, look, gradient)


def _gap(problem: ReducedHullProblem, beta: FloatArray, gradient: FloatArray) -> float:
    """``max <h, b - v>`` over the domain: the least, over t for each sum, of the dual function

    ``sum of max (h_i - t) (b_i - v_i)`` over the box.  It is convex in t, least where t is one of
    the h_i, and no term is negative: vertices of huge caps would be rounded relative to these.
    """
    total = 0.0
    for part, ends in zip(problem.sums, problem.threshold_ranges(gradient), strict=True):
        h, down, up = (v[part] for v in (gradient, beta - problem.lower, beta - problem.upper))

        def excess(t: float, h: Any = h, down: Any = down, up: Any = up) -> float:
            return float(np.maximum((h - t) * down, (h - t) * up).sum())

        choices = np.unique(h)
        low, high = 0, choices.size - 1
        while low < high:
            middle = (low + high) // 2
            if excess(choices[middle]) <= excess(choices[middle + 1]):
                high = middle
            else:
                low = middle + 1
        total += min(excess(t) for t in (choices[low], *ends))
    return total


def is_feasible(problem: ReducedHullProblem, beta: FloatArray) -> bool:
    """Whether bounds and sums hold, to the rounding of coefficients divided by C."""
    slack = 8 * UNIT * problem.caps
    sums = [
        abs(float(beta[part].sum()) - total) <= CLOSE * float(np.abs(beta[part]).sum())
        for part, total in zip(problem.sums, problem.totals, strict=True)
    ]
    inside = (beta >= problem.lower - slack) & (beta <= problem.upper + slack)
    return bool(inside.all() and all(sums))


def product(problem: ReducedHullProblem, beta: FloatArray) -> FloatArray:
    """``K b`` by blocks of the kernel matrix."""
    support = np.flatnonzero(beta)
    out = np.zeros(beta.size)
    step = max(1, _BLOCK // beta.size)
    for start in range(0, support.size, step):
        some = support[start : start + step]
        out += beta[some] @ problem.columns.kernel.block(some, None)
    return out


def _check_thresholds(
    pair: Pair, X: Any, claims: _Claims, beta: FloatArray, gradient: FloatArray,
    errors: FloatArray, which: str, problems: list[str],
) -> None:  # fmt: skip
    """``C_ = 2 / (t_+ - t_-)`` and ``intercept_``, from all thresholds that the gradient allows."""
    problem = pair.problem
    lows = problem.threshold_ranges(gradient - errors)
    highs = problem.threshold_ranges(gradient + errors)
    slack = CLOSE * float(np.ptp(gradient))
    ends = [(a[0] - slack, b[1] + slack) for a, b in zip(lows, highs, strict=True)]
    if problem.C is not None:
        expect(problems, f"C_{which}", claims.C, problem.C)
    else:
        widths = _possible_widths(
            (ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]), beta, gradient, errors
        )
        expect(problems, f"C_{which}", claims.C, 2.0 / max(widths), 2.0 / min(widths))
    moved = 0.0
    if pair.middle is not None:
        used = np.flatnonzero(beta)
        rows = centred(X[pair.examples[used]], pair.middle)
        coefficients = claims.coefficients[used]
        terms = (coefficients @ rows) * pair.middle
        moved = float(terms.sum())
        away = CLOSE * float(np.abs(terms).sum())
        away += (
            (sum(rows.shape) + 4) * UNIT * float(abs(coefficients) @ abs(rows) @ abs(pair.middle))
        )
    else:
        away = 0.0
    middle = [sum(end[side] for end in ends) / len(ends) for side in (0, 1)]
    low, high = (-claims.C * middle[side] - moved for side in (1, 0))
    expect(problems, f"intercept_{which}", claims.intercept, low - away, high + away)


def _possible_widths(
    apart: tuple[float, float], beta: FloatArray, gradient: FloatArray, errors: FloatArray
) -> list[float]:
    """What ``2 / C_`` may be: the distance between the thresholds, or what takes its place."""
    off, total = float(errors.max()), float(np.abs(beta).sum())
    spread, size = float(np.ptp(gradient)), float(np.abs(gradient).max())
    least, most = (least_width(total, max(size + sign * off, 0.0)) for sign in (-1, 1))
    out = [max(width, least) for width in apart if apart[1] > least]
    if apart[0] <= most:
        if spread + 2 * off > least:
            out += [max(spread - 2 * off, least), spread + 2 * off]
        if spread - 2 * off <= most:
            out.append(total)
    return out


def expect(
    problems: list[str], name: str, claimed: float, low: float, high: float | None = None
) -> None:
    """Add a problem if a claimed number is not in ``[low, high]``, to rounding."""
    high = low if high is None else high
    if low == claimed or high == claimed:
        return
    slack = CLOSE * max(
        abs(low) if np.isfinite(low) else 0.0, abs(high) if np.isfinite(high) else 0.0
    )
    if not low - slack <= claimed <= high + slack:
        problems.append(f"{name} is {claimed:.9g}, not {0.5 * (low + high):.9g}")
