"""The certificate of a multi-class SVM, recomputed for :mod:`cornerstep.verification`.

Rows of linear models are read in blocks, from memory or from disk: no more than one block of scores
and dual points is held.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

from cornerstep.estimators.multiclass_input import given_loss
from cornerstep.streaming import Rows
from cornerstep.vectors import FloatArray, IntArray

FEASIBLE = 1e-6  # by how much dual points may leave their domains
_BLOCK = 2**21  # entries of a kernel matrix or of scores held at a time


def require_rows(trained: int, given: int) -> None:
    """Complain if the data is not as long as that of training."""
    if trained != given:
        raise ValueError(
            f"the model was trained on {trained} examples, the data has {given}: give the training "
            "data"
        )


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, _BLOCK // max(width, 1))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def multiclass(
    clf: Any, X: Any, labels: IntArray, weights: FloatArray, problems: list[str]
) -> tuple[FloatArray, FloatArray, str]:
    """``P(W)`` and ``D(A)`` of a model, and how the bound was found; adds what is wrong."""
    used = weights > 0
    scales = clf.C * weights
    loss = given_loss(clf, labels.size)
    dual = clf.dual_coef_
    if dual is not None:
        require_rows(dual.shape[0], used.size)
        dual = sp.csr_array(dual)
    parts = _linear_parts if clf.kernel == "linear" else _kernel_parts
    losses, terms, outside = 0.0, 0.0, 0
    state = _Squares()
    for rows, scores, own in parts(clf, X, used, dual, state):
        there, mu, s = loss.rows(rows), float(clf.smoothing), scales[rows]
        each = there.envelope(scores, labels[rows], mu) if mu else there.value(scores, labels[rows])
        losses += float(s @ each)
        if own is not None:
            alpha = own / s[:, None]
            conjugate = there.conjugate(-alpha, labels[rows], FEASIBLE)
            finite = np.isfinite(conjugate)
            outside += int((~finite).sum())
            ridge = 0.5 * mu * (alpha**2).sum(axis=1)
            terms += float(s @ (np.where(finite, conjugate, 0.0) + ridge))
    value = np.array([0.5 * state.primal + losses])
    if dual is None:
        bound = _bound_anew(clf, X, labels, weights)
        return value, np.array([bound]), "a dual point found by a run from zero"
    if outside:
        problems.append(f"{outside} dual points lie outside their domain")
    return value, np.array([-0.5 * state.dual - terms]), "the dual coefficients of the model"


@dataclass
class _Squares:
    """``|W|²`` of the weights and of the image of the dual points, known when all rows are."""

    primal: float = 0.0
    dual: float = 0.0


#: Numbers of some rows, their scores, and their dual coefficients where there are any.
_Parts = Iterator[tuple[IntArray, FloatArray, FloatArray | None]]


def _linear_parts(clf: Any, X: Any, used: Any, dual: Any, state: _Squares) -> _Parts:
    two, constant = clf.classes_.size == 2, clf._constant()
    W = np.vstack([-clf.coef_, clf.coef_]) / 2 if two else clf.coef_
    b = np.concatenate([-clf.intercept_, clf.intercept_]) / 2 if two else clf.intercept_
    state.primal = float((W**2).sum())
    if constant:
        state.primal += float((b**2).sum()) / constant
    image, sums = np.zeros((W.shape[1], W.shape[0])), np.zeros(W.shape[0])
    for start, block in _read_blocks(X, W.shape[0]):
        inside = np.flatnonzero(used[start : start + block.shape[0]])
        rows, block = start + inside, block[inside].astype(np.float64)
        own = None
        if dual is not None:
            own = dual[rows].toarray()
            image += np.asarray(block.T @ own)
            sums += own.sum(axis=0)
        yield rows, np.asarray(block @ W.T) + b, own
    state.dual = float((image**2).sum()) + constant * float((sums**2).sum())


def _read_blocks(X: Any, m: int) -> Iterator[tuple[int, Any]]:
    """The first row and the rows of each block, of a matrix or of rows on disk."""
    if isinstance(X, Rows):
        yield from zip(X.starts[:-1].tolist(), X.blocks(), strict=True)
        return
    for block in _blocks(X.shape[0], max(m, X.shape[1])):
        yield block.start, X[block]


def _kernel_parts(clf: Any, X: Any, used: Any, dual: Any, state: _Squares) -> _Parts:
    m, rows = clf.classes_.size, np.flatnonzero(used)
    if clf.support_.size and clf.support_[-1] >= used.size:
        require_rows(int(clf.support_[-1]) + 1, used.size)
    machine = np.zeros((used.size, m))
    machine[clf.support_] = clf._machine.todense()
    machine = machine[used]
    own = None if dual is None else dual[rows].toarray()
    both = machine if own is None else np.hstack([machine, own])
    product = kernel_product(clf, X, used, both) + clf._constant() * both.sum(axis=0)
    product += clf.kernel_shift_ * both
    state.primal = float((machine * product[:, :m]).sum())
    if own is not None:
        state.dual = float((own * product[:, m:]).sum())
    yield rows, product[:, :m], own


def _bound_anew(clf: Any, X: Any, labels: IntArray, weights: FloatArray) -> float:
    """A dual bound by training again with the method that keeps dual points."""
    again = clone(clf).set_params(solver="block", warm_start=False, verbose=0, class_weight=None)
    again.set_params(checkpoint=None)
    again.set_params(tol=max(0.1 * clf.relative_gap_, 1e-12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again.fit(X, clf.classes_[labels], weights)
    return float(again.dual_objective_)


def kernel_product(clf: Any, X: Any, used: Any, right: FloatArray) -> FloatArray:
    """``K right`` for the kernel of a classifier, by blocks of rows."""
    rows = np.flatnonzero(used)
    if clf.kernel == "precomputed":
        return np.asarray(X[np.ix_(rows, rows)] @ right)
    data = X[rows]
    out = np.empty((rows.size, right.shape[1]))
    for block in _blocks(rows.size, rows.size):
        if callable(clf.kernel):
            part = np.asarray(clf.kernel(data[block], data), dtype=np.float64)
        else:
            part = pairwise_kernels(
                data[block], data, metric=clf.kernel, filter_params=True, gamma=clf._gamma,
                degree=clf.degree, coef0=clf.coef0,
            )  # fmt: skip
        out[block] = part @ right
    return out
