"""ReducedHullSVC: the optimum of LIBSVM, kernels, weights, pairs of classes, limits, bad input."""

from __future__ import annotations

import itertools
import pickle
import re
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC

from cornerstep import ReducedHullSVC, Status, certify
from cornerstep.core.threads import allowed_threads
from cornerstep.kernel_svm import training

METHODS = ("auto", "di-away", "di-pairwise")


def exact(nu=None, **parameters):
    return ReducedHullSVC(nu, **{"tol": 1e-9, "random_state": 0} | parameters)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(3)
    y = np.array(["no", "yes"])[(rng.random(150) < 0.4).astype(int)]
    return rng.standard_normal((150, 4)) + (y == "yes")[:, None], y


def dual_value(clf, matrix):
    """``1/2 c'Kc`` of a two-class machine with dual coefficients c, over all support vectors."""
    c = clf.dual_coef_.ravel()
    return 0.5 * c @ matrix[np.ix_(clf.support_, clf.support_)] @ c


def same_machine(ours, theirs, X, tol=1e-3):
    a, b = ours.decision_function(X), theirs.decision_function(X)
    assert np.abs(a - b).max() <= tol * np.abs(b).max()


# -- LIBSVM ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.3, 0.7])
@pytest.mark.parametrize("data", ["cancer", "blobs"])
def test_nu_machines_are_those_of_libsvm(data, nu, request):
    X, y = request.getfixturevalue(data)
    if data == "blobs" and nu < 0.1:
        nu = 0.3
    ours, theirs = exact(nu).fit(X, y), NuSVC(nu=nu, tol=1e-9).fit(X, y)
    same_machine(ours, theirs, X, 1e-5)
    matrix = rbf_kernel(X, gamma=1 / (X.shape[1] * X.var()))
    scaled = ours.objective_ * ours.C_**2  # LIBSVM divides by its margin
    assert dual_value(theirs, matrix) == pytest.approx(scaled, rel=1e-5)
    assert dual_value(ours, matrix) == pytest.approx(scaled, rel=1e-8)
    assert np.setxor1d(ours.support_, theirs.support_).size <= 2
    assert ours.n_support_.sum() == ours.support_.size
    assert ours.nu_ == pytest.approx(nu)
    assert pytest.approx(nu * len(y)) == 2 * ours.K_
    assert ours.margin_ == pytest.approx(2 / np.sqrt(2 * dual_value(ours, matrix)))
    same_machine(ours, SVC(C=ours.C_, tol=1e-9).fit(X, y), X, 1e-5)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("data", ["cancer", "blobs"])
def test_c_machines_are_those_of_libsvm(data, C, request):
    X, y = request.getfixturevalue(data)
    ours, theirs = exact(C=C).fit(X, y), SVC(C=C, tol=1e-9).fit(X, y)
    same_machine(ours, theirs, X, 1e-5)
    matrix = rbf_kernel(X, gamma=1 / (X.shape[1] * X.var()))
    standard = dual_value(theirs, matrix) - np.abs(theirs.dual_coef_).sum()
    assert ours.objective_ * C**2 == pytest.approx(standard, rel=1e-6)
    assert np.setxor1d(ours.support_, theirs.support_).size <= 2
    assert ours.C_ == C
    if C == 0.01:  # all of a class is at its cap: so it is for any smaller C
        return
    again = exact(ours.nu_).fit(X, y)
    assert pytest.approx(1, rel=1e-4) == again.C_ / C
    same_machine(again, ours, X, 1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{"nu": 0.2}, {"K": 21.7}, {"C": 0.5}], ids=str)
def test_all_methods_find_the_same_machine(method, options, cancer):
    X, y = cancer
    ours = exact(solver=method, **options | {"tol": 1e-5}).fit(X, y)
    best = exact(**options).fit(X, y)
    assert ours.status_ is Status.SOLVED
    assert best.objective_ - 1e-9 * abs(best.objective_) <= ours.objective_
    assert ours.objective_ - ours.gap_ <= best.objective_
    assert ours.objective_ == pytest.approx(best.objective_, rel=1e-5)
    same_machine(ours, best, X, 1e-2)


@pytest.mark.parametrize("method", ["di-away-schedule", "di-pairwise-schedule"])
def test_schedules_run_where_their_theory_holds(method):
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], 6)
    X = rng.standard_normal((12, 2)) + 2 * y[:, None]
    clf = ReducedHullSVC(K=3, gamma=5.0, solver=method, tol=0.02, max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    best = exact(K=3, gamma=5.0).fit(X, y)
    assert clf.objective_ - clf.gap_ <= best.objective_ <= clf.objective_ * (1 + 1e-9)
    with pytest.raises(ValueError, match=r"an integer K \(or C\), got K = 2.5"):
        ReducedHullSVC(K=2.5, solver=method).fit(X, y)
    with pytest.raises(ValueError, match="needs a positive definite kernel matrix"):
        ReducedHullSVC(K=3, solver=method).fit(X[[0] * 6 + [7] * 6], y)


@pytest.mark.parametrize("options", [{"nu": 0.15}, {"C": 2.0}], ids=str)
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_several_classes_go_one_against_one_as_in_libsvm(load, options):
    X, y = load(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), np.array(["a", "c", "b"])[y]
    ours = exact(**options).fit(X, y)
    theirs = (NuSVC if "nu" in options else SVC)(**options, tol=1e-9).fit(X, y)
    same_machine(ours, theirs, X, 1e-3)
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.dual_coef_.shape == (2, ours.support_.size)
    assert len(ours.machines_) == ours.C_.size == 3
    for machine in ours.machines_:
        assert machine.gap <= 1e-9 * abs(machine.objective)
        assert machine.status is Status.SOLVED
    assert ours.status_ is Status.SOLVED
    assert ours.n_iter_ == max(machine.n_iter for machine in ours.machines_)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=2e-2)
    if np.array_equal(ours.support_, theirs.support_):
        largest = np.abs(theirs.dual_coef_).max()
        assert np.abs(ours.dual_coef_ - theirs.dual_coef_).max() <= 1e-2 * largest
    assert (
        ours.n_support_ == np.bincount(np.unique(y, return_inverse=True)[1][ours.support_])
    ).all()


def test_attributes_look_like_those_of_libsvm(cancer):
    X, y = cancer
    ours, theirs = exact(0.2).fit(X, y), NuSVC(nu=0.2).fit(X, y)
    for name in (
        "support_",
        "support_vectors_",
        "n_support_",
        "dual_coef_",
        "intercept_",
        "classes_",
    ):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.shape == b.shape, name
        assert np.abs(np.asarray(a, dtype=float) - b).max() <= 1e-2 * max(np.abs(b).max(), 1), name


# -- kernels and data ------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.1])
def test_kernels_are_those_of_scikit_learn(kernel, gamma, blobs):
    X, y = blobs
    parameters = {"kernel": kernel, "gamma": gamma, "degree": 2, "coef0": 1.0}
    ours = exact(0.5, **parameters).fit(X, y)
    theirs = NuSVC(nu=0.5, **parameters, tol=1e-9).fit(X, y)
    same_machine(ours, theirs, X, 1e-3)


def test_given_kernels_and_functions_are_the_same_machine(blobs):
    X, y = blobs
    plain = exact(0.5, gamma=0.3).fit(X, y)
    function = exact(0.5, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)).fit(X, y)
    given = exact(0.5, kernel="precomputed").fit(rbf_kernel(X, gamma=0.3), y)
    expected = plain.decision_function(X)
    assert function.decision_function(X) == pytest.approx(expected, abs=1e-6)
    assert given.decision_function(rbf_kernel(X, gamma=0.3)) == pytest.approx(expected, abs=1e-6)
    assert (
        given.support_vectors_.shape
        == NuSVC(nu=0.5, kernel="precomputed")
        .fit(rbf_kernel(X, gamma=0.3), y)
        .support_vectors_.shape
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_sparse_examples_are_dense_examples(method, kernel, blobs):
    X, y = blobs
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    dense = exact(0.6, kernel=kernel, solver=method, tol=1e-4).fit(X, y)
    sparse = exact(0.6, kernel=kernel, solver=method, tol=1e-4).fit(sp.csr_matrix(X), y)
    expected = dense.decision_function(X)
    assert sp.issparse(sparse.support_vectors_)
    scale = np.abs(expected).max()
    found = sparse.decision_function(sp.csr_matrix(X))
    assert np.abs(found - expected).max() <= 2e-2 * scale
    assert np.abs(sparse.decision_function(X) - found).max() <= 1e-9 * scale


def test_float32_examples(cancer):
    X, y = cancer
    single = exact(0.2).fit(X.astype(np.float32), y)
    same_machine(single, exact(0.2).fit(X, y), X, 1e-4)


def test_kernel_evaluations_are_counted(blobs):
    X, y = blobs
    entries = 0

    def counting(A, B):
        nonlocal entries
        entries += A.shape[0] * B.shape[0]
        return rbf_kernel(A, B)

    clf = ReducedHullSVC(kernel=counting).fit(X, y)
    assert clf.n_kernel_evaluations_ == entries
    assert clf.trace_["kernel_evaluations"][-1] <= entries
    assert "kernel_evaluations" in clf.trace_.to_pandas()


@pytest.mark.parametrize("method", METHODS)
def test_a_small_cache_changes_only_the_cost(method, cancer):
    X, y = cancer
    large = exact(0.1, solver=method, tol=1e-4).fit(X, y)
    small = exact(0.1, solver=method, tol=1e-4, cache_size=0.05).fit(X, y)  # 11 columns
    assert small.status_ is Status.SOLVED
    assert small.objective_ == pytest.approx(large.objective_, rel=2e-4)
    assert small.n_kernel_evaluations_ > large.n_kernel_evaluations_


# -- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"nu": 0.4}, {"K": 30.5}, {"C": 1.5}], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_two_is_a_row_twice(options, method, blobs):
    X, y = blobs
    weights = np.random.default_rng(0).integers(0, 3, y.size)
    tol = 1e-9 if method == "auto" else 1e-4
    options = options | {"gamma": 0.2, "solver": method, "tol": tol}
    weighted = exact(**options).fit(X, y, weights)
    repeated = exact(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=10 * tol)
    same_machine(weighted, repeated, X, 1e-5 if method == "auto" else 2e-2)
    assert not np.isin(weighted.support_, np.flatnonzero(weights == 0)).any()


def test_weights_are_those_of_libsvm(blobs):
    X, y = blobs
    weights = np.random.default_rng(0).uniform(0.5, 2, y.size)
    same_machine(exact(0.4).fit(X, y, weights), NuSVC(nu=0.4, tol=1e-9).fit(X, y, weights), X, 1e-4)
    same_machine(exact(C=2).fit(X, y, weights), SVC(C=2, tol=1e-9).fit(X, y, weights), X, 1e-4)
    for weight in ("balanced", {"yes": 3.0}):
        ours = exact(C=2, class_weight=weight).fit(X, y)
        same_machine(ours, SVC(C=2, class_weight=weight, tol=1e-9).fit(X, y), X, 1e-4)


def test_row_order_and_class_names_do_not_matter(blobs):
    X, y = blobs
    order = np.random.default_rng(0).permutation(y.size)
    base = exact(0.4).fit(X, y).decision_function(X)
    assert exact(0.4).fit(X[order], y[order]).decision_function(X) == pytest.approx(base, abs=1e-5)
    turned = exact(0.4).fit(X, np.where(y == "yes", 0, 1)).decision_function(X)
    assert turned == pytest.approx(-base, abs=1e-5)


# -- running ---------------------------------------------------------------------------------------


def test_a_warm_start_saves_the_way(cancer):
    X, y = np.vstack([cancer[0], 1.01 * cancer[0]]), np.tile(cancer[1], 2)
    clf = ReducedHullSVC(0.1, warm_start=True, tol=1e-6).fit(X, y)
    first = clf.n_kernel_evaluations_
    clf.set_params(nu=0.11).fit(X, y)
    cold = ReducedHullSVC(0.11, tol=1e-6).fit(X, y)
    assert clf.n_kernel_evaluations_ < min(first, cold.n_kernel_evaluations_)
    assert clf.objective_ == pytest.approx(cold.objective_, rel=1e-5)
    clf.set_params(nu=None, C=1.0).fit(X, y)
    assert clf.objective_ == pytest.approx(ReducedHullSVC(C=1.0).fit(X, y).objective_, rel=1e-3)
    clf.set_params(C=None, nu=0.2).fit(X[:300], y[:300])  # other examples: from the start
    assert clf.status_ is Status.SOLVED


@pytest.mark.parametrize("method", METHODS)
def test_limits_keep_a_certified_model(method, cancer):
    X, y = cancer
    best = exact(0.1).fit(X, y).objective_
    with pytest.warns(ConvergenceWarning, match=r"relative gap <= 1e-08\): The iteration limit"):
        clf = ReducedHullSVC(0.1, solver=method, tol=1e-8, max_iter=0).fit(X, y)
    assert clf.status_ is Status.ITERATION_LIMIT
    assert clf.objective_ - clf.gap_ <= best <= clf.objective_
    clf = ReducedHullSVC(0.1, solver=method, tol=1e-8, time_limit=0).fit(X, y)
    assert clf.status_ is Status.TIME_LIMIT
    assert clf.objective_ - clf.gap_ <= best <= clf.objective_
    assert np.isfinite(clf.decision_function(X)).all()


@pytest.mark.parametrize("n", [500, 3000])
def test_an_interrupt_keeps_a_certified_model(n, monkeypatch):
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.5).astype(int)
    X = rng.standard_normal((n, 6)) + y[:, None]
    best = ReducedHullSVC(0.5, tol=1e-6).fit(X, y).objective_

    @contextmanager
    def pressed():  # as the first pair begins
        asked = itertools.count()
        yield lambda: next(asked) > 0

    monkeypatch.setattr(training, "deferred_interrupt", pressed)
    clf = ReducedHullSVC(0.5, tol=1e-6).fit(X, y)
    assert clf.status_ is Status.INTERRUPTED
    assert clf.objective_ - clf.gap_ <= best <= clf.objective_
    labels, weights = rng.integers(0, 3, n), np.linspace(0.9, 1.1, n)
    with pytest.warns(ConvergenceWarning, match="interrupted: 2 of 3 pairs of classes were not"):
        clf = ReducedHullSVC(0.5, tol=1e-6).fit(X, labels, weights)
    assert clf.status_ is Status.INTERRUPTED
    assert [machine.status for machine in clf.machines_] == [Status.INTERRUPTED] * 3
    assert np.isfinite(clf.decision_function(X)).all()
    assert all(machine.gap > 0 for machine in clf.machines_)
    monkeypatch.undo()
    solved = ReducedHullSVC(0.5, tol=1e-6).fit(X, labels, weights)
    for ended, right in zip(clf.machines_, solved.machines_, strict=True):
        assert ended.bound <= right.objective <= ended.objective * (1 + 1e-6)


def test_the_time_limit_is_for_all_pairs_together(monkeypatch):
    now, left = [0.0], []
    train = training.train

    def slow(problem, settings):
        left.append(settings.stopping.time_limit)
        now[0] += 30.0
        return train(problem, settings)

    monkeypatch.setattr(training, "train", slow)
    monkeypatch.setattr(training, "work_seconds", lambda: now[0])
    X, y = load_iris(return_X_y=True)
    ReducedHullSVC(0.5, time_limit=50.0, kernel="linear").fit(X, y)
    assert left == [50.0, 20.0, 0.0]


def three_clouds(n=150):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.standard_normal((n, 4)) + y[:, None], y


@pytest.mark.parametrize(
    "options",
    [
        {"nu": 0.4},
        {"C": 10.0, "tol": 1e-6},
        {"C": 1.0, "kernel": "linear"},
        {"C": 1.0, "kernel": rbf_kernel},
        {"nu": 0.3, "solver": "di-away", "tol": 1e-2},
    ],
    ids=["nu", "C", "linear", "function", "di-away"],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_pairs_trained_in_threads_are_the_same(options, sparse):
    X, y = three_clouds()
    X = sp.csr_array(X) if sparse else X
    before, alone = allowed_threads(), ReducedHullSVC(random_state=0, **options).fit(X, y)
    for n_jobs in (2, -1):
        clf = ReducedHullSVC(random_state=0, n_jobs=n_jobs, **options).fit(X, y)
        assert np.array_equal(clf.dual_coef_, alone.dual_coef_)
        assert np.array_equal(clf.intercept_, alone.intercept_)
        assert [m[:5] for m in clf.machines_] == [m[:5] for m in alone.machines_]
        assert clf.n_kernel_evaluations_ == alone.n_kernel_evaluations_
    assert allowed_threads() == before


def test_pairs_are_trained_in_threads_unless_somebody_watches():
    X, y = three_clouds()
    main, seen = threading.main_thread(), set()

    def kernel(A, B):
        seen.add(threading.current_thread())
        return rbf_kernel(A, B)

    ReducedHullSVC(kernel=kernel, n_jobs=2).fit(X, y)
    assert len(seen - {main}) > 0  # the caller's own thread has looked at the whole matrix
    for watch in ({"callback": lambda iterate: None}, {"verbose": 1}):
        seen.clear()
        ReducedHullSVC(kernel=kernel, n_jobs=2, **watch).fit(X, y)
        assert seen == {main}


def test_limits_and_failures_are_the_same_in_threads():
    X, y = three_clouds()
    clf = ReducedHullSVC(0.4, tol=1e-8, time_limit=0, n_jobs=3).fit(X, y)
    assert {machine.status for machine in clf.machines_} == {Status.TIME_LIMIT}
    X[y == 2] = X[y == 1]
    said = []
    for n_jobs in (1, 3):
        with pytest.raises(ValueError, match="touch") as error:
            ReducedHullSVC(0.4, n_jobs=n_jobs).fit(X, y)
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.posix
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_all_pairs(n_jobs):
    X, y = three_clouds(300)
    best = ReducedHullSVC(0.4, gamma=1.0, tol=1e-6).fit(X, y)
    calls = itertools.count()

    def kernel(A, B):
        if next(calls) == 3:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(1.0)  # in which the main thread sees it, on a busy machine too
        return rbf_kernel(A, B, gamma=1.0)

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        clf = ReducedHullSVC(0.4, kernel=kernel, tol=1e-6, n_jobs=n_jobs).fit(X, y)
    assert clf.status_ is Status.INTERRUPTED
    for ended, right in zip(clf.machines_, best.machines_, strict=True):
        assert ended.bound <= right.objective <= ended.objective * (1 + 1e-6)


def test_random_state_makes_fits_repeatable():
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 2
    X = rng.standard_normal((3000, 5)) + 0.5 * y[:, None]
    first, second = (ReducedHullSVC(random_state=3).fit(X, y) for _ in range(2))
    assert np.array_equal(first.dual_coef_, second.dual_coef_)
    assert first.n_kernel_evaluations_ == second.n_kernel_evaluations_


def test_progress_is_shown(blobs, capsys):
    ReducedHullSVC(verbose=2).fit(*blobs)
    assert "ReducedHullSVC, auto" in capsys.readouterr().err


def test_lives_with_pickle_clone_pipelines_and_searches(blobs):
    X, y = blobs
    clf = ReducedHullSVC(0.4).fit(X, y)
    again = pickle.loads(pickle.dumps(clf))
    assert np.array_equal(again.decision_function(X), clf.decision_function(X))
    assert clone(clf).get_params() == clf.get_params()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ReducedHullSVC()), {"reducedhullsvc__nu": [0.3, 0.6]}, cv=3
    ).fit(X, y)
    assert search.best_score_ > 0.6
    frame = pd.DataFrame(X, columns=list("abcd"))
    assert (ReducedHullSVC(0.4).fit(frame, y).predict(frame) == clf.predict(X)).all()
    matrix = pairwise_kernels(X)
    assert GridSearchCV(ReducedHullSVC(kernel="precomputed"), {"nu": [0.5]}, cv=3).fit(matrix, y)
    with pytest.raises(NotFittedError):
        ReducedHullSVC().predict(X)


# -- edges -----------------------------------------------------------------------------------------


def test_hard_margins_in_closed_form():
    X = np.array([[0.0, 0], [0, 2], [-1, 1], [3, 0], [3, 2], [5, 5]])
    clf = exact(K=1, kernel="linear").fit(X, [0, 0, 0, 1, 1, 1])
    assert clf.margin_ == pytest.approx(3.0)
    assert clf.decision_function([[0.0, 7], [1.5, 3], [3, -4]]) == pytest.approx([-1, 0, 1])
    hard = SVC(C=1e9, kernel="linear").fit(X, [0, 0, 0, 1, 1, 1])
    assert clf.decision_function(X) == pytest.approx(hard.decision_function(X), abs=1e-5)


def test_K_of_a_class_size_is_the_mean_of_that_class():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), np.repeat([0, 1], [10, 20])
    X[y == 1] += 2
    clf = exact(K=10, kernel="linear").fit(X, y)
    assert clf.n_support_[0] == 10
    assert clf.dual_coef_[0, :10] == pytest.approx(-clf.C_)
    theirs = SVC(C=clf.C_, kernel="linear", tol=1e-9).fit(X, y)  # the intercept is not unique
    assert np.ptp(clf.decision_function(X) - theirs.decision_function(X)) <= 1e-4
    means = exact(K=20, kernel="linear").fit(np.vstack([X, X[:10]]), np.r_[y, y[:10]])
    direction = means.dual_coef_ @ means.support_vectors_
    towards = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    assert direction / np.linalg.norm(direction) == pytest.approx(
        (towards / np.linalg.norm(towards))[None], abs=1e-7
    )


def test_duplicated_rows_change_nothing(blobs):
    X, y = blobs
    once = exact(0.4, gamma=0.3).fit(X, y)
    twice = exact(0.4, gamma=0.3).fit(np.vstack([X, X]), np.r_[y, y])
    same_machine(twice, once, X, 1e-4)
    assert twice.objective_ == pytest.approx(4 * once.objective_, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("X", "parameters"),
    [
        (np.ones((20, 2)), {}),
        (np.arange(40.0).reshape(20, 2), {"gamma": 0.0}),
        (np.zeros((20, 2)), {"kernel": "linear"}),
        (np.tile(np.arange(10.0)[:, None], (2, 2)), {}),
        (np.tile(np.arange(10.0)[:, None], (2, 2)), {"kernel": "linear"}),
    ],
    ids=["one point", "constant kernel", "zero kernel", "same points", "same points, linear"],
)
def test_hulls_that_touch_are_said_to(X, parameters, method):
    y = np.repeat([0, 1], 10)
    with pytest.raises(ValueError, match=r"^the reduced convex hulls of the two classes touch"):
        ReducedHullSVC(0.4, solver=method, max_iter=2000, **parameters).fit(X, y)


def test_the_c_machine_has_an_answer_where_hulls_touch():
    X, y = np.tile(np.arange(10.0)[:, None], (2, 2)), np.repeat([0, 1], 10)
    clf = exact(C=1.0).fit(X, y)
    assert clf.decision_function(X) == pytest.approx(np.zeros(20), abs=1e-6)
    assert clf.objective_ == pytest.approx(-20)
    assert np.isfinite(exact(C=1.0).fit(np.ones((4, 2)), [0, 1, 1, 0]).decision_function(X)).all()


def test_some_points_in_both_classes():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16, (y[:200] % 2).copy()
    X, y = np.vstack([X, X[:20]]), np.r_[y, 1 - y[:20]]
    same_machine(exact(0.4).fit(X, y), NuSVC(nu=0.4, tol=1e-9).fit(X, y), X, 1e-3)


# -- bad input -------------------------------------------------------------------------------------

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "two given": ({"nu": 0.1, "C": 1.0}, "only one of nu, K and C may be given, got nu=0.1, C=1.0"),
    "three given": ({"nu": 0.1, "K": 2, "C": 1.0}, "only one of nu, K and C"),
    "nu zero": ({"nu": 0}, "nu must be a positive number, got 0"),
    "nu large": ({"nu": 1.2}, "nu must be in (0, 1], got 1.2"),
    "nu a word": ({"nu": "half"}, "nu must be a positive number, got 'half'"),
    "K negative": ({"K": -1}, "K must be a positive number, got -1"),
    "K large": (
        {"K": 51},
        "K must be at most the size (the sum of the weights) of the smallest class, 50, got 51",
    ),
    "C infinite": ({"C": np.inf}, "C must be a positive number, got inf"),
    "nu infeasible": (
        {"nu": 0.7},
        "nu=0.7 is infeasible for these classes: the largest feasible nu is 0.666667",
    ),
    "kernel": (
        {"kernel": "cosine"},
        "kernel must be one of linear, rbf, poly, sigmoid, precomputed",
    ),
    "gamma": ({"gamma": "large"}, "gamma must be 'scale', 'auto' or a number >= 0, got 'large'"),
    "solver": ({"solver": "smo"}, "solver must be one of auto, di-away, di-pairwise"),
    "cardinality": (
        {"cardinality": 0, "solver": "di-away-schedule"},
        "cardinality must be None or an integer >= 1, got 0",
    ),
    "cardinality of": ({"cardinality": 3}, "cardinality needs solver='di-away-schedule'"),
    "degree": ({"degree": 2.5}, "degree must be an integer >= 0, got 2.5"),
    "coef0": ({"coef0": np.nan}, "coef0 must be a finite number, got nan"),
    "tol": ({"tol": -1}, "tol must be a number >= 0, got -1"),
    "max_iter": ({"max_iter": -2}, "max_iter must be an integer >= 0, or -1, got -2"),
    "time_limit": ({"time_limit": -2}, "time_limit must be seconds >= 0 or None, got -2"),
    "cache_size": ({"cache_size": 0}, "cache_size must be a positive number, got 0"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0, got 0"),
    "class_weight": ({"class_weight": {0: -1.0}}, "class_weight must be numbers >= 0"),
    "no weight": ({"class_weight": {0: 0.0}}, "sample_weight times class_weight must be positive"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused_in_a_line(name):
    parameters, message = BAD[name]
    X, y = np.random.default_rng(0).standard_normal((150, 2)), np.repeat([0, 1], [50, 100])
    with pytest.raises(ValueError, match="^" + re.escape(message)) as error:
        ReducedHullSVC(**parameters).fit(X, y)
    assert "\n" not in str(error.value)


def test_one_class_and_wrong_shapes_are_refused():
    X = np.random.default_rng(0).standard_normal((10, 2))
    with pytest.raises(ValueError, match="y must have at least two classes"):
        ReducedHullSVC().fit(X, np.zeros(10))
    with pytest.raises(ValueError, match=r"X must be a square kernel matrix, got shape \(10, 2\)"):
        ReducedHullSVC(kernel="precomputed").fit(X, np.arange(10) % 2)


def test_the_largest_feasible_nu_is_feasible():
    X, y = np.random.default_rng(0).standard_normal((150, 2)), np.repeat([0, 1], [50, 100])
    largest = exact(2 * 50 / 150).fit(X, y)
    assert pytest.approx(50) == largest.K_
    three = np.repeat([0, 1, 2], [30, 50, 70])
    with pytest.raises(ValueError, match=r"the largest feasible nu is 0\.6$"):
        ReducedHullSVC(0.61).fit(X, three)
    pairs = ReducedHullSVC(0.6).fit(X, three)
    assert pytest.approx([24, 30, 36]) == pairs.K_


def test_by_default_any_classes_can_be_trained():
    rng = np.random.default_rng(0)
    X = 100 * rng.standard_normal((200, 3))
    y = np.arange(200) % 10 == 0  # a tenth, and nothing tells it from the rest
    with pytest.warns(UserWarning, match="ReducedHullSVC is solved, and answers the same"):
        clf = ReducedHullSVC(tol=1e-6).fit(X, y)
    assert len(set(clf.predict(X))) == 1
    assert clf.C_ == 1.0
    assert certify(clf, X, y).holds


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_votes_and_ties_are_those_of_scikit_learn(shape):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 5
    X = rng.standard_normal((300, 2)) + 0.8 * np.eye(5)[y, :2]
    strangers = 1.5 * rng.standard_normal((2000, 2))
    theirs = SVC(tol=1e-9, decision_function_shape=shape).fit(X, y)
    ours = ReducedHullSVC(C=1.0, tol=1e-10, decision_function_shape=shape).fit(X, y)
    scores = theirs.decision_function(strangers)
    assert ours.decision_function(strangers) == pytest.approx(scores, abs=1e-4)
    clear = np.abs(ours.set_params(decision_function_shape="ovo").decision_function(strangers))
    clear = clear.min(axis=1) > 1e-4
    votes = ours.predict(strangers)
    assert (votes[clear] == theirs.predict(strangers)[clear]).all()
    for model in (ours, theirs):
        model.set_params(decision_function_shape="ovr", break_ties=True)
    assert (ours.predict(strangers)[clear] == theirs.predict(strangers)[clear]).all()
    assert (ours.predict(strangers) != votes).any()


def test_ties_of_pairs_are_not_broken():
    with pytest.raises(ValueError, match="break_ties must be False"):
        ReducedHullSVC(break_ties=True, decision_function_shape="ovo").fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="must be 'ovr' or 'ovo', got 'pairs'"):
        ReducedHullSVC(decision_function_shape="pairs").fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("options", [{"C": 3.0}, {"nu": 0.1}], ids=str)
def test_pairs_of_small_and_of_large_classes_are_those_of_two_classes(options):
    """Whether the matrix of a pair is computed at once or by columns, together or alone."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [700, 500, 60])
    X = rng.standard_normal((y.size, 3)) + 3.0 * np.eye(3)[y]
    gamma = 0.5
    several = ReducedHullSVC(tol=1e-8, gamma=gamma, **options).fit(X, y)
    for k, pair in enumerate(((0, 1), (0, 2), (1, 2))):
        some = np.isin(y, pair)
        alone = ReducedHullSVC(tol=1e-8, gamma=gamma, **options).fit(X[some], y[some])
        assert several.machines_[k].objective == pytest.approx(alone.objective_, rel=1e-7)
        assert several.intercept_[k] == pytest.approx(-alone.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_pair_far_from_the_other_classes_keeps_its_digits(form):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = 2.0**-24 * (rng.standard_normal((60, 2)) + np.outer(y, [6, 0])) + [100, 50]
    X[y == 2] = rng.standard_normal((20, 2)) + 1
    model = exact(nu=0.5, kernel="linear").fit(form(X), y)
    alone = exact(nu=0.5, kernel="linear").fit(2.0**24 * (X[y < 2] - [100, 50]), y[y < 2])
    assert model.machines_[0].objective == pytest.approx(2.0**-48 * alone.objective_, rel=1e-6)
    assert (model.predict(form(X)) == y).all()
    assert certify(model, form(X), y).holds
