"""The certificate of a multi-class SVM, recomputed for :mod:`cornerstep.learning.verification`.

Rows of linear models are read in blocks, from memory or from disk: no more than one block of scores
and dual points is held.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cornerstep.core.curvature import dense_array
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.rows import Rows
from cornerstep.learning.certificates import Certificate
from cornerstep.learning.claims import CLOSE, Recomputed
from cornerstep.learning.kernel_blocks import product_errors
from cornerstep.learning.kernel_functions import Kernel, gamma_value
from cornerstep.learning.verification import examples_of, require_rows
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.free_intercept import Balance, column_sums
from cornerstep.multiclass.low_rank import LandmarkExamples, numbers
from cornerstep.multiclass.parameters import (
    constant_of,
    given_loss,
    has_free_intercept,
    is_entropic,
    is_own,
    own_smoothing,
    smoothing_of,
)
from cornerstep.multiclass.prediction import joint_features
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import Reach, entry_sizes
from cornerstep.multiclass.simplex_loss import SimplexLoss

FEASIBLE = 1e-6  # by how much dual points may leave their domains
_BLOCK = 2**21  # entries of a kernel matrix or of scores held at a time
_COUNTS = 0.05  # share of the gap that rounding may be before twice the digits are taken
_ROUNDS = 10_000  # of a run that finds a bound anew
_REFACTORED = 1e-9  # by which landmark features, and with them a bound, may differ when made anew


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, _BLOCK // max(width, 1))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def recompute(
    clf: Any, X: Any, y: Any, sample_weight: Any, claimed: Certificate, problems: list[str]
) -> Recomputed:
    """``P(W)`` and ``D(A)`` of a model; adds what is wrong with it."""
    given = examples_of(clf, X, y, sample_weight, problems, in_blocks=hasattr(clf, "coef_"))
    X, labels, weights = given
    used, scales = weights > 0, clf.C * weights
    loss = given_loss(clf, clf.classes_.shape[0], labels.size)
    dual = clf.dual_coef_ if loss.has_projection else None  # which tells whether it is feasible
    if dual is not None:
        require_rows(dual.shape[0], used.size)
        dual = sp.csr_array(dual)
    check, parts = _check_linear, _linear_parts
    if joint := hasattr(clf, "_feature_map"):
        check, parts = _check_joint, _joint_parts
    elif not hasattr(clf, "coef_"):
        check, parts = _check_kernel, _kernel_parts
    if not check(clf, X, problems):
        nothing = np.full(1, np.nan)
        return Recomputed(nothing, nothing, np.zeros(1), "nothing: the model is not whole")
    mu = smoothing_of(clf, clf.classes_.shape[0])
    warmth = getattr(clf, "temperature_", 1.0)  # calibrated, not proven: but it keeps the order
    if not (isinstance(warmth, float) and 0.0 < warmth < math.inf):
        problems.append(f"temperature_ must be a positive number, got {warmth!r}")
    if clf.smoothing_ != mu:
        problems.append(f"smoothing_ is {clf.smoothing_!r}, but smoothing makes it {mu!r}")
    if hasattr(clf, "whole_bound_"):
        return _recompute_landmarks(clf, X, labels, weights, loss.rows(used), dual, problems)
    losses, terms, linear, outside = 0.0, 0.0, 0.0, 0
    state, mass = _Sizes(), loss.mass(clf.classes_.size)
    for rows, scores, own in parts(clf, X, scales, dual, state):
        there, s = loss.rows(rows), scales[rows]
        each = there.envelope(scores, labels[rows], mu) if mu else there.value(scores, labels[rows])
        losses += float(s @ each)
        if not loss.bounded:
            points = [there.dual_point(scores, labels[rows], mu)]
            points += [] if own is None else [own / s[:, None]]
            mass = max(mass, *(float(there.sizes(point).max(initial=0.0)) for point in points))
        if own is not None:
            alpha = own / s[:, None]
            conjugate = there.conjugate(-alpha, labels[rows], FEASIBLE)
            finite = np.isfinite(conjugate)
            outside += int((~finite).sum())
            linear -= float(s @ np.where(finite, conjugate, 0.0))
            terms += 0.5 * mu * float(s @ there.penalty(alpha, labels[rows]))
    value = 0.5 * state.primal + losses
    costs = float(scales[used] @ loss.rows(used).largest_deltas(labels[used]))
    reach = Reach(state.features, costs, mass, state.longest, state.summed)
    stretch = 1.0 if hasattr(clf, "coef_") else reach.stretch(state.peaks, scales[used])
    off = reach.of_value(state.peaks, state.primal, stretch)
    linear_model = hasattr(clf, "coef_") and not joint
    if off > _COUNTS * clf.gap_ and linear_model and loss.of_differences:
        losses = _doubled_losses(clf, X, labels, scales, loss, mu)
        value = 0.5 * state.primal + losses  # the claim may still be off by as much as before
    excess = np.array([min(3 * off, losses)])  # losses are no less than 0
    if dual is None:
        bound, reached = _bound_anew(clf, X, labels, weights)
        how = "a dual point found by a run from zero"
        return Recomputed(
            np.array([value]), np.array([bound]), np.array([3 * off]), how, False,
            np.array([min(reached, value)]), excess,
        )  # fmt: skip
    if outside:
        problems.append(
            f"{outside} dual points lie outside their domain: are these the training examples, in "
            "the order of training?"
        )
    off += reach.of_bound(state.dual_peaks, linear)
    bound = linear - terms - 0.5 * state.dual
    if has_free_intercept(clf):
        bound = _balanced_bound(clf, X, labels, scales, linear - terms, state)
    bound = max(bound, 0.0)  # losses are no less than 0
    how = "the dual coefficients of the model"
    return Recomputed(
        np.array([value]), np.array([bound]), np.array([3 * off]), how, False, None, excess
    )


def _recompute_landmarks(
    clf: Any, X: Any, labels: IntArray, weights: FloatArray, loss: Any, dual: Any,
    problems: list[str],
) -> Recomputed:  # fmt: skip
    """The same of a machine of landmarks, and whether the bound of the whole kernel is one."""
    used = np.flatnonzero(weights > 0)
    nothing = np.full(1, np.nan)
    if clf.kernel_rank is None or clf.support_.size > clf.kernel_rank:
        problems.append(
            f"the parameter kernel_rank is {clf.kernel_rank!r}, the model has {clf.support_.size} "
            "landmarks"
        )
    if clf.kernel_shift_ != 0:
        problems.append(f"kernel_shift_ is {clf.kernel_shift_}, landmarks have none")
    places = np.searchsorted(used, clf.support_)
    if not np.isin(clf.support_, used).all():
        problems.append("landmarks have no weight: are these the weights of training?")
        return Recomputed(nothing, nothing, np.zeros(1), "nothing: the model is not whole")
    kernel = Kernel(*clf._kernel_fit).inner_products(X[used]).raised(clf._constant_fit)
    triangle = cholesky(kernel.block(places, places), lower=True)
    problem = MulticlassProblem(
        LandmarkExamples(kernel, places, triangle), labels[used], clf.classes_.size, loss,
        clf.C * weights[used], clf.smoothing_, constant_of(clf),
    )  # fmt: skip
    dual = sp.csr_array(dual[used])
    gradients = -(dual.toarray() / problem.scales[:, None])
    outside = int((~np.isfinite(loss.conjugate(gradients, labels[used], FEASIBLE))).sum())
    if outside:
        problems.append(
            f"{outside} dual points lie outside their domain: are these the training examples, in "
            "the order of training?"
        )
    found = numbers(problem, clf._machine.toarray(), dual)
    off = found.value_off + found.bound_off + _REFACTORED * abs(found.value)
    whole = max(min(found.whole, found.bound), 0.0)
    if not abs(clf.whole_bound_ - whole) <= 3 * off:
        problems.append(f"whole_bound_ is {clf.whole_bound_:.6g}, the data prove {whole:.6g}")
    return Recomputed(
        np.array([found.value]), np.array([max(found.bound, 0.0)]), np.array([3 * off]),
        "the dual coefficients of the model, among machines of its landmarks", False, None,
        np.array([min(3 * off, found.value)]),
    )  # fmt: skip


def _check_linear(clf: Any, X: Any, problems: list[str]) -> bool:
    """Whether weights and intercepts are those of classes and features; adds what is wrong."""
    m, d = clf.classes_.size, X.shape[1]
    count = 1 if m == 2 else m
    before = len(problems)
    if clf.kernel != "linear":
        problems.append(f"the parameter kernel is {clf.kernel!r}, the model was trained without")
    if clf.n_features_in_ != d:
        problems.append(f"n_features_in_ is {clf.n_features_in_}, the data has {d} features")
    if np.shape(clf.coef_) != (count, d) or np.shape(clf.intercept_) != (count,):
        problems.append("coef_ and intercept_ do not fit classes_ and the features of the data")
    elif not clf.fit_intercept and np.any(clf.intercept_):
        problems.append("intercept_ is not 0 although fit_intercept is False")
    return len(problems) == before


def _check_joint(clf: Any, X: Any, problems: list[str]) -> bool:
    """Whether weights are those of joint features; adds what is wrong."""
    before = len(problems)
    if clf.feature_map is not clf._feature_map or clf.kernel != "linear":
        problems.append("feature_map or kernel is not that of training")
    if clf.n_features_in_ != X.shape[1]:
        problems.append(f"n_features_in_ is {clf.n_features_in_}, not {X.shape[1]}")
    if np.ndim(clf.coef_) != 2 or len(clf.coef_) != 1 or np.any(clf.intercept_):
        problems.append("coef_ is not a row of weights, or intercept_ is not 0")
    return len(problems) == before


def _check_kernel(clf: Any, X: Any, problems: list[str]) -> bool:
    """Whether the machine is made of examples of the data, and the kernel that of training."""
    before = len(problems)
    kernel, gamma, degree, coef0 = clf._kernel_fit
    used = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0"), "sigmoid": ("gamma", "coef0")}
    trained = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
    for name in ("kernel", *(used.get(kernel, ()) if isinstance(kernel, str) else ())):
        said = gamma_value(clf.gamma, X) if name == "gamma" else getattr(clf, name)
        if said != trained[name] and not (name == "gamma" and np.isclose(said, gamma, CLOSE, 0)):
            problems.append(
                f"the parameter {name} is {said!r}, the model was trained with {trained[name]!r}"
            )
    if clf.n_features_in_ != X.shape[1]:
        problems.append(f"n_features_in_ is {clf.n_features_in_}, not {X.shape[1]}")
    support, machine = np.asarray(clf.support_), clf._machine
    if support.size and (support.min() < 0 or support.max() >= X.shape[0]):
        require_rows(int(support.max()) + 1, X.shape[0])
    in_order = hasattr(clf, "whole_bound_") or (np.diff(support) > 0).all()
    if machine.shape != (support.size, clf.classes_.size) or not in_order:
        problems.append("support_ and the coefficients of the machine do not belong together")
        return False
    rows = clf._support_rows
    if kernel == "precomputed":
        if rows is not None:
            problems.append("a model of a precomputed kernel holds no examples")
    elif abs(rows - X[support]).sum() != 0 if rows.shape == X[support].shape else True:
        problems.append("the examples of the machine are not those of the data that support_ names")
    if clf._constant_fit != clf._constant():
        problems.append("fit_intercept and intercept_scaling are not those of training")
    return len(problems) == before


@dataclass
class _Sizes:
    """Squares of the weights and of the image of the dual points, and what rounding depends on."""

    primal: float = 0.0
    dual: float = 0.0
    features: Any = 0.0  # sum_i s_i |x_i|, or of a kernel's rows
    peaks: Any = 0.0
    dual_peaks: Any = 0.0
    longest: int = 0
    summed: int = 0
    image: Any = None  # of the dual points, without intercepts
    residual: Any = 0.0  # sum_i s_i alpha_i, of so many blocks
    blocks: int = 0


#: Numbers of some rows, their scores, and their dual coefficients where there are any.
_Parts = Iterator[tuple[IntArray, FloatArray, FloatArray | None]]


def _linear_parts(clf: Any, X: Any, scales: FloatArray, dual: Any, state: _Sizes) -> _Parts:
    root = constant_of(clf)
    penalised = 0.0 if has_free_intercept(clf) else root**2
    W, b = _weights(clf)
    state.primal = float((W**2).sum())
    if penalised:
        state.primal += float((b**2).sum()) / penalised
    m, d = W.shape
    image, sums, features, blocks = np.zeros((d, m)), np.zeros(m), np.zeros(d), 0
    for start, block in _read_blocks(X, m):
        inside = np.flatnonzero(scales[start : start + block.shape[0]] > 0)
        rows, block = start + inside, block[inside].astype(np.float64)
        blocks += 1
        state.summed = max(state.summed, rows.size)
        features += Examples(block, reorder=False).absolute_sums(slice(0, rows.size), scales[rows])
        own = None
        if dual is not None:
            own = dual[rows].toarray()
            image += np.asarray(block.T @ own)
            sums += column_sums(own)
        yield rows, np.asarray(block @ W.T) + b, own
    state.dual = float((image**2).sum()) + penalised * float((sums**2).sum())
    state.image, state.residual, state.blocks = image, sums, blocks
    state.features = np.append(features, root * scales.sum())
    own_weight = np.abs(b).max() / root if root else np.abs(b).max()
    state.peaks = np.append(np.abs(W).max(axis=0), own_weight)
    state.dual_peaks = np.append(np.abs(image).max(axis=1), root * np.abs(sums).max())
    state.longest, state.summed = d + 2, state.summed + blocks


def _balanced_bound(
    clf: Any, X: Any, labels: IntArray, scales: FloatArray, linear: float, state: _Sizes
) -> float:
    """D of dual points near those of the model that balance."""
    m = clf.classes_.size
    if np.setdiff1d(np.arange(m), labels[scales > 0]).size:
        return -math.inf  # an intercept has no optimum
    sums = np.zeros_like(state.image)
    for start, block in _read_blocks(X, m):
        rows = start + np.arange(block.shape[0])
        own = sp.csr_array((scales[rows], (rows - start, labels[rows])), (rows.size, m))
        sums += dense_array(own.T @ block.astype(np.float64, copy=False)).T
    masses: FloatArray = np.bincount(labels, weights=scales, minlength=m).astype(np.float64)
    mu = 0.0 if is_entropic(clf.loss) else smoothing_of(clf, m)
    balance = Balance.of(sums, masses, state.features[:-1], state.summed, mu)
    square = float((balance.balanced(state.image, state.residual) ** 2).sum())
    off = balance.rounding(state.residual, state.blocks)
    return balance.bound(linear, square, state.residual, off)


def _joint_parts(clf: Any, X: Any, scales: FloatArray, dual: Any, state: _Sizes) -> _Parts:
    m, w, blocks = clf.classes_.size, clf.coef_[0], 0
    image, state.features = np.zeros(w.size), np.zeros(w.size)
    state.primal, state.peaks, state.longest = float(w @ w), np.abs(w), w.size
    for start, block in _read_blocks(X, m * w.size):
        inside = np.flatnonzero(scales[start : start + block.shape[0]] > 0)
        if not inside.size:
            continue
        rows, psi = start + inside, joint_features(clf._feature_map, block[inside], m, w.size)
        blocks += 1
        state.summed = max(state.summed, m * rows.size)
        state.features += np.repeat(scales[rows], m) @ abs(psi)
        own = None if dual is None else dual[rows].toarray()
        if own is not None:
            image += own.ravel() @ psi
        yield rows, np.asarray(psi @ w).reshape(-1, m), own
    state.summed += blocks
    state.dual, state.dual_peaks = float(image @ image), np.abs(image)


def _weights(clf: Any) -> tuple[FloatArray, FloatArray]:
    """W and the intercepts, one row and one number per class."""
    if clf.classes_.size > 2:
        return clf.coef_, clf.intercept_
    return np.vstack([-clf.coef_, clf.coef_]) / 2, np.concatenate(
        [-clf.intercept_, clf.intercept_]
    ) / 2


def _doubled_losses(
    clf: Any, X: Any, labels: IntArray, scales: FloatArray, loss: SimplexLoss, mu: float
) -> float:
    """``sum_i s_i Phi_mu`` from margins with twice the digits."""
    from cornerstep.multiclass.compiled.doubled import margins

    weights = np.ascontiguousarray(np.column_stack(_weights(clf)))
    total = 0.0
    for start, block in _read_blocks(X, weights.shape[0]):
        rows = start + np.flatnonzero(scales[start : start + block.shape[0]] > 0)
        data = block[rows - start]
        data = data.toarray() if sp.issparse(data) else data
        data = np.column_stack([data.astype(np.float64), np.ones(rows.size)])
        there = loss.rows(rows)
        z = there.deltas(labels[rows], weights.shape[0])
        margins(np.ascontiguousarray(data), weights, labels[rows], z)
        total += float(scales[rows] @ there.of_margins(z, labels[rows], mu))
    return total


def _read_blocks(X: Any, m: int) -> Iterator[tuple[int, Any]]:
    """The first row and the rows of each block, of a matrix or of rows on disk."""
    if isinstance(X, Rows):
        yield from zip(X.starts[:-1].tolist(), X.blocks(), strict=True)
        return
    for block in _blocks(X.shape[0], max(m, X.shape[1])):
        yield block.start, X[block]


def _kernel_parts(clf: Any, X: Any, scales: FloatArray, dual: Any, state: _Sizes) -> _Parts:
    m, rows = clf.classes_.size, np.flatnonzero(scales > 0)
    machine = np.zeros((scales.size, m))
    machine[clf.support_] = clf._machine.todense()
    machine = machine[rows]
    own = None if dual is None else dual[rows].toarray()
    both = machine if own is None else np.hstack([machine, own])
    product, state.features = _kernel_product(clf, X, rows, both, scales[rows])
    product += clf.kernel_shift_ * both
    state.features = state.features + clf.kernel_shift_ * scales[rows]
    state.primal = float((machine * product[:, :m]).sum())
    state.peaks = np.abs(machine).max(axis=1)
    if own is not None:
        state.dual = float((own * product[:, m:]).sum())
        state.dual_peaks = np.abs(own).max(axis=1)
    state.longest = state.summed = rows.size
    yield rows, product[:, :m], own


def _bound_anew(clf: Any, X: Any, labels: IntArray, weights: FloatArray) -> tuple[float, float]:
    """A bound, and a value, by training again with a method whose dual points prove it.

    The run has limits of its own, whatever those of the model were.
    """
    own = is_own(clf.loss) or own_smoothing(clf.loss) > 0 or clf.feature_map is not None
    again = clone(clf).set_params(
        solver="auto" if own else "block", warm_start=False, verbose=0, class_weight=None,
        checkpoint=None, tol=max(0.1 * clf.relative_gap_, 1e-12), max_iter=_ROUNDS, time_limit=None,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again.fit(X, clf.classes_[labels], weights)
    return float(again.bound_), float(again.objective_)


def _kernel_product(
    clf: Any, X: Any, rows: IntArray, right: FloatArray, scales: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``K right`` by blocks of rows, K with the constant, and ``scales |K|``."""
    kernel, constant = Kernel(*clf._kernel_fit), clf._constant_fit
    data = X[np.ix_(rows, rows)] if kernel.name == "precomputed" else X[rows]
    values = kernel.blocks(data)
    out, sums = np.empty((rows.size, right.shape[1])), np.zeros(rows.size)
    for block in _blocks(rows.size, rows.size):
        part = values.block(np.arange(block.start, block.stop), None) + constant
        out[block] = part @ right
        sums += scales[block] @ np.abs(part)
    sums += entry_sizes(product_errors(values, scales))
    return out, sums
