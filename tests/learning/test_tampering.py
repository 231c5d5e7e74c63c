"""Whatever of a fitted multi-class model is changed, `certify` finds out, or it does no harm."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, Status, certify
from cornerstep.optimiser import Trace

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)) + 2.0 * (np.arange(60) % 3)[:, None] * [1.0, -1.0, 0.5]
Y = np.array(["a", "b", "c"])[np.arange(60) % 3]
TWO = Y != "c"
COSTS = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 1.5, 0.0]])

MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "two classes": {},
    "without intercept": {"fit_intercept": False},
    "csr": {},
    "scaled intercept": {"intercept_scaling": 0.3, "class_weight": "balanced"},
    "top-k": {"loss": "top-k", "k": 2, "smoothing": 0.2},
    "weighted": {"loss": "weighted-usunier", "rho": [0.7, 0.3]},
    "costs": {"loss": "cost-sensitive", "costs": COSTS},
    "envelope": {"solver": "envelope"},
    "corrective": {"solver": "fw-corrective"},
    "no dual point": {"solver": "fw", "smoothing": 0, "C": 0.01, "tol": 0.1, "max_iter": 3000},
    "rbf": {"kernel": "rbf"},
    "poly": {"kernel": "poly", "coef0": 1.0, "degree": 2},
    "precomputed": {"kernel": "precomputed"},
    "landmarks": {"kernel": "rbf", "kernel_rank": 8},
}

#: How the model was found, not what it is.
HISTORY = {
    "solver", "max_iter", "time_limit", "warm_start", "checkpoint", "n_jobs", "random_state",
    "verbose", "callback", "last_iterate", "cache_size",
}  # fmt: skip

#: Of probabilities, which are calibrated and not certified; classes and scores do not use them.
CALIBRATION = {"probability"}

#: What a loss or a kernel does not have; it is used by no other.
FOREIGN = {
    "k": lambda model: model.loss != "top-k",
    "rho": lambda model: not str(model.loss).startswith("weighted"),
    "costs": lambda model: model.loss != "cost-sensitive",
    "gamma": lambda model: model.kernel not in ("rbf", "poly"),
    "degree": lambda model: model.kernel != "poly",
    "coef0": lambda model: model.kernel != "poly",
    "intercept_scaling": lambda model: not model.fit_intercept,
    "kernel_rank": lambda model: model.kernel_rank is None,
}


def _fitted(name):
    rows = TWO if name == "two classes" else np.ones(60, dtype=bool)
    data = X[rows]
    data = sp.csr_array(data) if name == "csr" else data @ data.T if name == "precomputed" else data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MulticlassSVC(**{"random_state": 0, "tol": 1e-4} | MODELS[name]).fit(data, Y[rows])
    return model, data, Y[rows]


def _others(name, value, model):
    """Other values of an attribute or a parameter, as a forger might choose them."""
    if name == "loss":
        return ["top-k"] if value == "max-hinge" else ["max-hinge"]
    if name == "k":
        return [1]
    if name == "kernel_rank":
        return [None, value - 1]
    if name == "rho":
        return [[0.6, 0.4]]
    if name == "costs":
        return [1.1 * value]
    if name == "kernel":
        return ["rbf" if value == "linear" else "linear"]
    if name == "gamma":
        return [0.123]
    if name == "class_weight":
        return [{"a": 3.0}]
    if name == "tol":
        return [1e-9 * value]
    if name == "status_":
        return [Status.SOLVED] if model.status_ is not Status.SOLVED else []
    if name == "classes_":
        return [value[::-1], np.array(["a", "d", "e"])[: value.size]]
    if name == "fit_intercept":
        return [not value]
    if name in ("n_features_in_", "degree"):
        return [value + 1]
    if name == "smoothing":
        return [0.6] if value == "auto" else [value + 0.1]
    if name == "support_":
        return [np.roll(value, 1), value[:-1]]
    if name == "n_iter_":
        return [value + 1]
    if name == "trace_":
        return [Trace(value.columns)]
    if name == "machines_":
        one = value[0]
        return [[], [one._replace(gap=0.0)], [one._replace(bound=one.objective)]]
    if name == "atol":
        return []  # a looser one claims less
    if name == "gap_":
        return [0.0, -value, 0.5 * value, 2.0 * value, 1e9]
    if isinstance(value, float):
        return [value + 0.01, 0.9 * value, 1e9, np.nan]
    if sp.issparse(value):
        changed = value.copy()
        changed.data[0] *= 1.001
        return [1.01 * value, changed]
    values = np.array(value, dtype=float)
    changed = values.copy()
    changed[0] += 1e-3 * (1 + abs(changed[0]))
    return [values + 5, 1.01 * values if values.any() else values + 1, changed]


def _is_same(one, other):
    return isinstance(one, float) and one == other


def _is_found_out(model, key, value, data, labels):
    forged = copy.copy(model)
    setattr(forged, key, value)
    try:
        with np.errstate(all="ignore"):
            return not certify(forged, data, labels).holds
    except ValueError as error:  # it says what does not fit
        return bool(str(error))


@pytest.mark.parametrize("name", MODELS)
def test_every_change_is_found_out_or_harmless(name):
    model, data, labels = _fitted(name)
    honest = certify(model, data, labels)
    assert honest.holds, honest.problems
    fitted = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
    fitted |= {"dual_coef_"} if model.dual_coef_ is not None else set()
    fitted |= {"_machine", "_support_rows"} & set(vars(model))
    missed = []
    for key in sorted((fitted | set(model.get_params())) - HISTORY - CALIBRATION):
        value = getattr(model, key)
        if key in FOREIGN and FOREIGN[key](model):
            continue
        if value is None and key != "class_weight":
            continue
        missed += [
            f"{key} = {other!r}"
            for other in _others(key, value, model)
            if not _is_same(other, value) and not _is_found_out(model, key, other, data, labels)
        ]
    assert not missed


@pytest.mark.parametrize("name", ["default", "rbf", "no dual point"])
def test_changes_in_company(name):
    model, data, labels = _fitted(name)
    forged = copy.copy(model)
    forged.objective_, forged.bound_, forged.gap_, forged.relative_gap_ = 1e9, 1e9, 0, 0
    assert not certify(forged, data, labels).holds
    forged = copy.copy(model)
    forged.gap_ = forged.objective_ * 1e-12
    forged.bound_ = forged.objective_ - forged.gap_
    forged.relative_gap_ = 1e-12
    assert not certify(forged, data, labels).holds


@pytest.mark.parametrize("solver", ["fw", "fw-open-loop", "projected-gradient", "envelope"])
@pytest.mark.parametrize("max_iter", [1, 3])
def test_models_that_were_cut_short_are_honest(solver, max_iter):
    """The bound is found by a run with limits of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MulticlassSVC(C=10.0, solver=solver, max_iter=max_iter, time_limit=60.0).fit(X, Y)
        tiny = MulticlassSVC(C=10.0, solver=solver, max_iter=max_iter, fit_intercept=False)
        tiny.fit([[1.0], [1.0]], [0, 1])
    check = certify(model, X, Y)
    assert check.holds, check.problems
    check = certify(tiny, [[1.0], [1.0]], [0, 1])
    assert check.holds, check.problems


def test_scores_are_those_of_the_fit_whatever_the_parameters_become():
    model, data, _ = _fitted("default")
    before = model.decision_function(data)
    model.set_params(kernel="rbf", gamma=3.0, fit_intercept=False)
    assert np.array_equal(model.decision_function(data), before)
    machine, data, _ = _fitted("rbf")
    before = machine.decision_function(data)
    machine.set_params(kernel="linear", gamma=3.0, intercept_scaling=7.0)
    assert np.array_equal(machine.decision_function(data), before)
