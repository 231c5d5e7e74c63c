"""The kernel SVM at the edges: certificates judged in long double, forged models, endings."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, ReducedHullSVC, certify
from cornerstep.kernel_svm.solvers.stagnation import Stagnation
from cornerstep.learning.kernel_blocks import InnerProductKernel, kernel_matrix, product_errors
from cornerstep.learning.kernel_functions import gamma_value
from cornerstep.optimiser.loop import Look
from cornerstep.optimiser.result import Status

Long = np.longdouble


def clouds(n=40, d=3, m=2, seed=0, apart=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % m
    return rng.standard_normal((n, d)) + apart * y[:, None], y


def fit(X, y, weights=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ReducedHullSVC(random_state=0, **options).fit(X, y, weights)


# Kernels


def exact_kernel(X, name, gamma, degree=3, coef0=0.0):
    X = X.astype(Long)
    if name == "rbf":
        return np.exp(-Long(gamma) * ((X[:, None] - X) ** 2).sum(axis=2))
    products = X @ X.T
    return products if name == "linear" else (Long(gamma) * products + Long(coef0)) ** degree


@pytest.mark.parametrize("form", ["dense", "csr", "wide csr"])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_rbf_is_exact_to_its_bound_at_any_offset_and_scale(form, offset, scale):
    X, _ = clouds(30)
    X = np.vstack([X, X + 1e-3 * scale, X[:3]]) * [scale, 1.0, 1.0] + offset
    gamma = 0.3
    exact = exact_kernel(X, "rbf", gamma)
    given = X
    if form != "dense":
        wide = sp.csr_array((len(X), 1000)) if form == "wide csr" else sp.csr_array((len(X), 1))
        given = sp.hstack([sp.csr_array(X), wide], "csr")
    kernel = InnerProductKernel(given, "rbf", gamma)
    everyone = np.arange(len(X))
    found = kernel.block(everyone, None)
    assert (found.diagonal() == 1).all()
    amounts = np.random.default_rng(1).random(len(X))
    assert (np.abs(found - exact) @ amounts <= product_errors(kernel, amounts)).all()
    assert product_errors(kernel, amounts).max() <= 1e-9 * amounts.sum()
    assert np.abs(kernel_matrix(given, given, "rbf", gamma) - exact).max() <= 1e-10
    assert np.abs(kernel_matrix(given[:5], given, "rbf", gamma) - exact[:5]).max() <= 1e-10


@pytest.mark.parametrize("name", ["linear", "poly"])
def test_inner_products_are_exact_to_their_bound(name):
    rng = np.random.default_rng(0)
    X = clouds(40)[0] * 10.0 ** rng.uniform(-4, 4, (40, 1))
    kernel = InnerProductKernel(X, name, 0.3, 3, 2.0)
    amounts = 10.0 ** rng.uniform(-6, 0, 40)
    found = kernel.block(np.arange(40), None)
    exact = exact_kernel(X, name, 0.3, 3, 2.0)
    assert (np.abs(found - exact) @ amounts <= product_errors(kernel, amounts)).all()
    assert (np.abs(exact) <= np.outer(kernel.sizes, kernel.sizes) * (1 + 1e-12)).all()


def test_the_scale_of_gamma_is_that_of_the_spread_at_any_offset():
    X = clouds(50)[0]
    for offset in (0.0, 1e6):
        dense = gamma_value("scale", X + offset)
        assert dense == pytest.approx(1 / (3 * X.var()), rel=1e-6)
        assert gamma_value("scale", sp.csr_array(X + offset)) == pytest.approx(dense, rel=1e-12)
    assert gamma_value("scale", np.full((4, 2), 0.1)) == 1.0
    for factor in (1e200, 1e-200):
        with pytest.raises(ValueError, match=r"^gamma='scale' needs an X .*: scale X, or give"):
            gamma_value("scale", factor * X)


def test_multiclass_kernels_gain_too():
    X, y = clouds(60, m=3)
    options: dict[str, Any] = {"kernel": "rbf", "gamma": 0.3, "tol": 1e-6, "random_state": 0}
    here = MulticlassSVC(**options).fit(X, y)
    there = MulticlassSVC(**options).fit(X + 2.0**20, y)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-5)
    assert (there.predict(X + 2.0**20) == here.predict(X)).all()


# Certificates


def judge(clf, X, y, weights, C=None, K=None, nu=None, **kernel):
    """The exact value and lower bound of a model of two classes; its dual point must be exact."""
    used = weights > 0
    a = np.zeros(y.size, Long)
    a[clf.support_] = clf.dual_coef_[0].astype(Long) / Long(clf.C_)
    assert (a[~used] == 0).all()
    signs = np.where(y[used] == 1, 1, -1)
    a, caps = signs * a[used], weights[used].astype(Long)
    assert (a >= 0).all()
    assert (a <= caps * (1 + 1e-15)).all()
    sums = [a[signs == sign].sum() for sign in (1, -1)]
    if C is None:
        K = Long(nu) * caps.sum() / 2 if K is None else Long(K)
        K = min(K, *(caps[signs == sign].sum() for sign in (1, -1)))
        assert max(abs(total - K) for total in sums) <= 1e-14 * K
    else:
        assert abs(sums[0] - sums[1]) <= 1e-14 * max(sums)
    rows = X[used].astype(Long)
    if kernel["name"] == "linear":
        rows = rows - rows.mean(axis=0)  # nothing changes, as the signed sums are 0
    linear = Long(0) if C is None else -1 / Long(C)
    gradient = signs * (exact_kernel(rows, **kernel) @ (signs * a)) + linear
    value = (a @ gradient + linear * a.sum()) / 2
    bound = value - (a @ gradient - _least(gradient, signs, caps, K if C is None else None))
    return value, max(bound, Long(0)) if C is None else bound


def _least(gradient, signs, caps, K):
    """``min <g, v>`` over the domain."""
    parts = []
    for sign in (1, -1):
        order = np.argsort(gradient[signs == sign])
        amounts = np.concatenate([[0], np.cumsum(caps[signs == sign][order])])
        slopes = gradient[signs == sign][order]
        parts.append((amounts, slopes))
    most = min(amounts[-1] for amounts, _ in parts)
    knots = [K] if K is not None else [k for amounts, _ in parts for k in amounts if k <= most]
    return min(
        sum((np.diff(np.minimum(amounts, k)) * slopes).sum() for amounts, slopes in parts)
        for k in knots
    )


@pytest.mark.parametrize("seed", range(150))
def test_certificates_are_true_whatever_the_scales(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 30)), int(rng.integers(1, 5))
    X, y = clouds(n, d, seed=seed, apart=rng.choice([0.0, 2.0]))
    X = X[rng.integers(0, n, n)] if rng.random() < 0.2 else X
    X = X * 10.0 ** rng.uniform(-8, 8, rng.choice([1, d])) if rng.random() < 0.6 else X
    X = X + np.abs(X).max() * 10.0 ** rng.uniform(0, 6) if rng.random() < 0.3 else X
    weights = np.ones(n)
    if rng.random() < 0.5:
        reach = rng.choice([12, 1])
        weights = 10.0 ** rng.uniform(-reach, reach, n)
    smallest, total = np.bincount(y, weights).min(), weights.sum()
    share = rng.choice([1.0, 0.5, 10.0 ** rng.uniform(-8, 0)])
    size = [
        {"C": 10.0 ** rng.uniform(-8, 12)}, {"K": share * smallest},
        {"nu": share * min(2 * smallest / total, 1.0)},
    ][rng.integers(3)]  # fmt: skip
    name = str(rng.choice(["linear", "rbf", "poly"]))
    method = str(rng.choice(["auto", "auto", "di-away", "di-pairwise"]))
    tol = float(rng.choice([1e-3, 1e-6, 1e-9, 0.0]))
    max_iter = -1 if method == "auto" else 300
    try:
        clf = fit(
            X, y, weights, kernel=name, gamma=0.5, coef0=1.0, tol=tol, solver=method,
            max_iter=max_iter, **size,
        )  # fmt: skip
    except ValueError as error:
        if "touch" in str(error) or "leave the range" in str(error):
            return
        raise
    value, bound = judge(clf, X, y, weights, **size, name=name, gamma=0.5, coef0=1.0)
    assert abs(clf.objective_ - value) <= clf.gap_
    assert clf.objective_ - clf.gap_ <= bound + 1e-15 * abs(bound)
    solved = clf.gap_ <= tol * abs(clf.objective_)
    assert (clf.status_ is Status.SOLVED) == solved
    assert clf.status_ in (Status.SOLVED, Status.PRECISION_LIMIT, Status.ITERATION_LIMIT)
    assert not complaints(clf, X, y, weights)


def complaints(clf, X, y, weights=None):
    """What verification finds wrong."""
    return certify(clf, X, y, weights).problems


def test_a_tolerance_that_float64_cannot_prove_is_a_precision_limit():
    X, y = clouds()
    for method in ("auto", "di-pairwise"):
        clf = fit(X, y, C=1.0, tol=0.0, solver=method)
        assert clf.status_ is Status.PRECISION_LIMIT
        assert 0 < clf.gap_ <= 1e-11 * abs(clf.objective_)


def test_linear_machines_do_not_see_a_common_offset():
    X, y = clouds(60, 2, apart=3.0)
    X = np.round(X * 2**20) / 2**20  # exact at any offset below
    here = fit(X, y, nu=0.3, kernel="linear", tol=1e-9)
    for offset in (2.0**10, 2.0**20, 2.0**30):
        for form in (np.asarray, sp.csr_array):
            rows = form(X + offset)
            there = fit(rows, y, nu=0.3, kernel="linear", tol=1e-9)
            assert there.objective_ == pytest.approx(here.objective_, rel=1e-9)
            scores = there.decision_function(rows)
            assert scores == pytest.approx(here.decision_function(X), rel=1e-4, abs=1e-4)
            assert not complaints(there, rows, y)


def test_tiny_hulls_of_huge_weights_end():
    clf = fit([[0.0], [3.0]], [0, 1], [1e12, 1e-3], K=1e-3, kernel="linear")
    assert clf.status_ is Status.SOLVED
    assert clf.objective_ == pytest.approx(4.5e-6)
    rng = np.random.default_rng(0)
    X, y = clouds(80)
    weights = 10.0 ** rng.uniform(-12, 12, 80)
    clf = fit(X, y, weights, K=0.9 * np.bincount(y, weights).min())
    assert clf.status_ in (Status.SOLVED, Status.PRECISION_LIMIT)


def test_runs_that_creep_end():
    steady, creeping = Stagnation(), Stagnation()
    for gap in 0.99 ** np.arange(2000) + 1e-9:
        steady.observe(Look(gap, gap))
    for k in range(4001):
        creeping.observe(Look(1.0 - 1e-9 * k, 1.0))
    assert not steady.found
    assert creeping.found
    X, y = clouds(12, 1)
    for method in ("auto", "di-away", "di-pairwise"):
        clf = fit(1e4 * X, y, C=1e-3, kernel="poly", gamma=0.5, coef0=1.0, tol=0, solver=method)
        assert clf.status_ in (Status.NO_PROGRESS, Status.PRECISION_LIMIT)
        assert not complaints(clf, 1e4 * X, y)


@pytest.mark.parametrize("factor", [1e200, 1e-200])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_data_beyond_float64_is_named(kernel, factor):
    X, y = clouds()
    size = "large" if factor > 1 else "small"
    with pytest.raises(ValueError, match=f"^X, or a parameter of the kernel, is too {size}"):
        fit(factor * X, y, nu=0.5, kernel=kernel, gamma=1.0)


def test_distances_may_overflow():
    X, y = clouds()
    clf = fit(1e200 * X, y, C=1.0, gamma=1.0)  # all examples are infinitely far apart
    assert clf.objective_ == pytest.approx(-20.0)
    assert (clf.predict(1e200 * X) == y).all()


# Tampering

MODELS: dict[str, dict[str, Any]] = {
    "nu": {"nu": 0.4}, "K": {"K": 5.0}, "C": {"C": 2.0}, "linear": {"C": 0.5, "kernel": "linear"},
    "linear nu": {"nu": 0.4, "kernel": "linear"}, "precomputed": {"nu": 0.4},
    "poly": {"K": 5.0, "kernel": "poly", "coef0": 1.0},
}  # fmt: skip

#: Parameters and attributes that neither predictions nor the certificate depend on.
HARMLESS = {"decision_function_shape", "break_ties",
    "solver", "max_iter", "time_limit", "cache_size", "warm_start", "n_jobs", "random_state",
    "verbose",
    # how the model was found, not what it is
    "n_iter_", "n_kernel_evaluations_", "trace_",
    # a larger tolerance is reached as well, and another status claims less
    "tol", "atol", "callback",
}  # fmt: skip

#: Parameters that only some kernels have.
PARAMETERS_OF = {"poly": {"gamma", "degree", "coef0"}, "rbf": {"gamma"}}


def other(name, value, clf):
    """Another value of an attribute or parameter, as a forger would choose it."""
    if name in ("nu", "K", "C"):
        return None if value is None else 0.9 * value
    if name == "kernel":
        return "sigmoid"
    if name == "gamma":
        return 0.123
    if name == "class_weight":
        return {clf.classes_[0]: 3.0}
    if name == "classes_":
        return value[::-1]
    if name in ("support_", "n_support_"):
        return np.roll(value, 1) if np.ptp(value) else value + 1
    if name == "kernel_shift_":
        return value + 0.1
    if name in ("n_features_in_", "degree"):
        return value + 1
    if name == "coef0":
        return value + 0.5
    if name == "gap_":
        return value + 1e-3 * abs(clf.objective_)
    if name == "status_":
        return Status.TIME_LIMIT
    if name == "machines_":
        return [value[0]._replace(objective=1.001 * value[0].objective), *value[1:]]
    if name == "intercept_":  # more than the free choice where thresholds are not unique
        return value + 2.0
    return value * 1.001


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_whatever_is_tampered_with_is_found_out(name, classes):
    X, y = clouds(45, m=classes, apart=2.0)
    options = dict(MODELS[name])
    if name == "precomputed":
        X, options["kernel"] = exact_kernel(X, "rbf", 0.3).astype(float), "precomputed"
    honest = fit(X, y, tol=1e-4, **options)
    assert not complaints(honest, X, y)
    fitted = {key for key in vars(honest) if key.endswith("_") and not key.startswith("_")}
    missed = []
    for key in sorted((fitted | set(honest.get_params())) - HARMLESS):
        kernel = {"gamma", "degree", "coef0"} - PARAMETERS_OF.get(honest.kernel, set())
        value = getattr(honest, key)
        forged = other(key, value, honest) if value is not None or key == "class_weight" else None
        if key in kernel or forged is None or (key == "support_vectors_" and value.size == 0):
            continue
        clf = copy.deepcopy(honest)
        setattr(clf, key, forged)
        if not complaints(clf, X, y):
            missed.append(key)
    assert not missed


def test_forgeries_in_company_are_found_out():
    X, y = clouds(45)
    for options in ({"nu": 0.4}, {"C": 2.0}):
        honest = fit(X, y, **options)
        for names in (("dual_coef_", "C_"), ("dual_coef_", "intercept_"), ("objective_", "gap_")):
            clf = copy.deepcopy(honest)
            for name in names:
                setattr(clf, name, 3 * getattr(clf, name))
            assert complaints(clf, X, y)
        clf = copy.deepcopy(honest)
        clf.intercept_ = clf.intercept_ + 5
        assert complaints(clf, X, y)
        clf = copy.deepcopy(honest)
        clf.support_vectors_ = clf.support_vectors_ + 1
        assert complaints(clf, X, y)


def test_models_that_were_cut_short_are_honest():
    X, y = clouds(60, m=3)
    for max_iter in (0, 1, 3):
        for options in ({"nu": 0.3}, {"K": 2.0}, {"C": 10.0}, {"K": 15.0, "kernel": "linear"}):
            clf = fit(X, y, tol=1e-9, max_iter=max_iter, **options)
            assert not complaints(clf, X, y)


# State


def test_a_fit_that_fails_leaves_the_old_model():
    X, y = clouds(40)
    clf = fit(X, y, nu=0.3)
    before = clf.predict(X)
    names = np.array(["yes", "no"])[y]
    refused = r"Negative|non-zero|must be positive|samples|two classes|gamma"
    for rows, labels, weights in (
        (X, names, -np.ones(40)), (X, names, np.zeros(40)), (X[:, :2], names[:1], None),
        (X[:, :2], np.zeros(40), None), (1e300 * X[:, :2], names, None),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=refused):
            clf.fit(rows, labels, weights)
        assert (clf.predict(X) == before).all()
        assert not complaints(clf, X, y)


def test_predictions_are_those_of_the_kernel_that_was_fitted():
    X, y = clouds(40)
    for first, second in (("linear", "rbf"), ("rbf", "linear"), ("rbf", "precomputed")):
        clf = fit(X, y, C=1.0, kernel=first)
        before = clf.decision_function(X)
        clf.set_params(kernel=second, gamma=7.0)
        assert (clf.decision_function(X) == before).all()
        assert any("kernel" in problem for problem in complaints(clf, X, y))
