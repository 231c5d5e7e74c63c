"""MulticlassSVC: LIBLINEAR's optimum, kernels, invariances, limits, predictions, bad input."""

from __future__ import annotations

import pickle
import signal
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from cornerstep import MulticlassSVC, certify, load, save
from cornerstep.learning.kernel_functions import gamma_value
from cornerstep.losses import CostSensitive, MaxHinge, TopK
from cornerstep.multiclass.solvers.batch import BatchDescent
from cornerstep.multiclass.solvers.block import BlockAscent
from cornerstep.multiclass.solvers.corrective import CorrectiveDescent
from cornerstep.optimiser.result import Status
from support.multiclass_problems import LOSS_KINDS, SOLVERS, draw, optimum

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def exact(**parameters):
    return MulticlassSVC(**{"tol": 1e-9, "random_state": 0} | parameters)


def hinge(model, X, y, C):
    """``1/2 |W|² + C sum max_j z_j`` of a model without intercept, in plain numpy."""
    scores = X @ model.coef_.T
    z = scores - scores[np.arange(y.size), y][:, None] + 1.0
    z[np.arange(y.size), y] = 0
    return 0.5 * (model.coef_**2).sum() + C * z.max(axis=1).sum()


# -- other solvers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
def test_max_hinge_is_crammer_singer_of_liblinear(load, C):
    X, y = load(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:600], y[:600]
    theirs = LinearSVC(
        multi_class="crammer_singer", fit_intercept=False, C=C, tol=1e-8, max_iter=100_000
    ).fit(X, y)
    ours = exact(C=C, fit_intercept=False, smoothing=0).fit(X, y)
    assert hinge(ours, X, y, C) == pytest.approx(ours.objective_, rel=1e-10)
    assert ours.objective_ <= hinge(theirs, X, y, C) * (1 + 1e-9)
    assert ours.objective_ == pytest.approx(hinge(theirs, X, y, C), rel=1e-5)
    assert ours.bound_ <= hinge(theirs, X, y, C)
    size = np.abs(theirs.coef_).max()
    assert np.abs(ours.coef_ - theirs.coef_).max() <= 1e-2 * size


def test_two_classes_are_the_binary_svm(iris):
    # max hinge with two classes: 1/4 |v|² + C sum hinge(v), v = w_1 - w_0: a binary SVM with 2 C
    X, y = iris
    X, y = X[y > 0], y[y > 0]
    ours = exact(fit_intercept=False).fit(X, y)
    theirs = LinearSVC(
        loss="hinge", C=2.0, fit_intercept=False, tol=1e-10, max_iter=1_000_000, random_state=0
    ).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-3)
    margins = np.where(y == 2, 1, -1) * (X @ ours.coef_[0])
    value = 0.25 * (ours.coef_**2).sum() + np.maximum(1 - margins, 0).sum()
    assert ours.objective_ == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@quiet
def test_shapes_of_two_classes(iris, solver, kernel):
    X, y = iris
    labels = np.array(["no", "yes"])[(y == 2).astype(int)]
    model = MulticlassSVC(solver=solver, kernel=kernel, max_iter=30).fit(X, labels)
    assert model.dual_coef_ is None or model.dual_coef_.shape == (150, 2)
    if kernel == "linear":
        assert model.coef_.shape == (1, 4)
        assert model.intercept_.shape == (1,)
        assert np.allclose(model.decision_function(X), (X @ model.coef_.T + model.intercept_)[:, 0])
    scores = model.decision_function(X)
    assert scores.shape == (150,)
    assert (model.predict(X) == np.where(scores > 0, "yes", "no")).all()
    assert (model.predict_top_k(X, 2)[:, 1] == np.where(scores > 0, "no", "yes")).all()


# -- kernels and intercept -------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_linear_kernel_is_its_gram_matrix(iris, smoothing):
    X, y = iris
    linear = exact(smoothing=smoothing).fit(X, y)
    gram = exact(smoothing=smoothing, kernel="precomputed").fit(X @ X.T, y)
    function = exact(smoothing=smoothing, kernel=lambda A, B: A @ B.T).fit(X, y)
    for model, data in ((gram, X @ X.T), (function, X)):
        assert model.objective_ == pytest.approx(linear.objective_, rel=1e-8)
        assert np.allclose(model.decision_function(data), linear.decision_function(X), atol=1e-3)
        assert not hasattr(model, "coef_")


@pytest.mark.parametrize("data", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.7])
def test_rbf_kernel_is_its_gram_matrix(iris, data, gamma):
    X, y = iris
    value = {"scale": 1 / (4 * X.var()), "auto": 0.25}.get(gamma, gamma)
    kernel = exact(kernel="rbf", gamma=gamma, C=2.0).fit(data(X), y)
    gram = exact(kernel="precomputed", C=2.0).fit(rbf_kernel(X, gamma=value), y)
    assert kernel.objective_ == pytest.approx(gram.objective_, rel=1e-8)
    new = X[:20] + 0.1
    assert np.allclose(
        kernel.decision_function(data(new)),
        gram.decision_function(rbf_kernel(new, X, gamma=value)),
        atol=1e-3,
    )


@pytest.mark.parametrize("data", [np.asarray, sp.csr_array])
def test_gamma_scale_in_single_precision(iris, data):
    # a mean far from 0: the variance must not drown in rounding
    X = (iris[0] + (1000 if data is np.asarray else 5)).astype(np.float32)
    assert gamma_value("scale", data(X)) == pytest.approx(1 / (4 * X.astype(float).var()), rel=1e-4)


def test_polynomial_kernel_has_the_parameters_of_svc(iris):
    X, y = iris
    parameters = {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5}
    model = exact(**parameters).fit(X, y)
    gram = exact(kernel="precomputed").fit((0.5 * X @ X.T + 1) ** 2, y)
    assert model.objective_ == pytest.approx(gram.objective_, rel=1e-8)
    assert model.score(X, y) == pytest.approx(SVC(**parameters).fit(X, y).score(X, y), abs=0.03)


INDEFINITE: dict[str, dict[str, Any]] = {
    "callable": {"kernel": lambda A, B: -rbf_kernel(A, B)},
    "poly": {"kernel": "poly", "degree": 2, "coef0": -1.0, "gamma": 1.0},
}


@pytest.mark.parametrize("kernel", INDEFINITE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_must_be_positive_semidefinite(iris, kernel, dtype):
    X, y = iris[0].astype(dtype), iris[1]
    with pytest.raises(ValueError, match=r"kernel=.* positive semidefinite .* eigenvalue of -"):
        MulticlassSVC(fit_intercept=False, **INDEFINITE[kernel]).fit(X, y)


def test_a_precomputed_kernel_must_be_positive_semidefinite(iris):
    X, y = iris
    model = MulticlassSVC(kernel="precomputed", fit_intercept=False)
    K = X @ X.T
    model.fit(K, y)  # rank 4: eigenvalues of 0 are -1e-14 by rounding
    K[np.diag_indices(150)] -= 1e-6
    with pytest.raises(ValueError, match=r"kernel='precomputed'.* eigenvalue of -1e-06: it may be"):
        model.fit(K, y)
    with pytest.raises(ValueError, match=r"kernel='precomputed' must be symmetric.* up to 0\.25"):
        model.fit(X @ X.T + 0.25 * (np.arange(150) == 3), y)
    weight = np.ones(150)
    weight[-1] = 0  # the offending example is left out
    K = X @ X.T
    K[-1, -1] = -1.0
    model.fit(K, y, sample_weight=weight)
    with pytest.raises(ValueError, match="positive semidefinite"):
        model.fit(K, y)


def test_a_callable_kernel_must_give_a_matrix(iris):
    with pytest.raises(ValueError, match=r"kernel=.* of shape \(150, 150\)"):
        MulticlassSVC(kernel=lambda A, B: A @ B[:10].T).fit(*iris)
    with pytest.raises(ValueError, match=r"kernel=.* must give finite numbers"):
        MulticlassSVC(kernel=lambda A, B: np.nan * A @ B.T).fit(*iris)


def test_sigmoid_kernel_where_it_is_one(iris):
    X, y = iris[0][::10], iris[1][::10]
    K = np.tanh(0.01 * X @ X.T + 0.5)
    K = K + 0.1 * np.eye(15)
    model = exact(kernel="precomputed").fit(K, y)
    assert model.status_ is Status.SOLVED
    single = X[[0, 7, 14]]
    assert np.linalg.eigvalsh(np.tanh(0.01 * single @ single.T))[0] > 0
    sigmoid = exact(kernel="sigmoid", gamma=0.01).fit(single, y[[0, 7, 14]])
    assert sigmoid.status_ is Status.SOLVED


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sigmoid_kernel_gets_what_it_lacks(iris, weighted, fit_intercept, tmp_path):
    X, y = iris[0][::3], iris[1][::3]
    weight = np.where(np.arange(50) % 7, 1.5, 0.0) if weighted else np.ones(50)
    used = weight > 0
    model = exact(kernel="sigmoid", gamma=0.1, fit_intercept=fit_intercept)
    with pytest.warns(UserWarning, match=r"kernel='sigmoid' is not positive .* is added"):
        model.fit(X, y, sample_weight=weight)
    K = np.tanh(0.1 * X @ X.T)
    least = np.linalg.eigvalsh(K[np.ix_(used, used)])[0]
    assert least < -1e-3
    assert model.kernel_shift_ == pytest.approx(-least, rel=1e-6)
    shifted = K + model.kernel_shift_ * np.eye(50)
    gram = exact(kernel="precomputed", fit_intercept=fit_intercept)
    gram.fit(shifted, y, sample_weight=weight)
    assert model.objective_ == pytest.approx(gram.objective_, rel=1e-8)
    assert np.allclose(model.decision_function(X), gram.decision_function(K), atol=1e-3)
    save(model, tmp_path / "m.cornerstep")
    again = certify(load(tmp_path / "m.cornerstep"), X, y, sample_weight=weight)
    assert again.gap == pytest.approx(model.gap_, rel=1e-3, abs=1e-9 * model.objective_)
    assert not hasattr(model.set_params(kernel="linear").fit(X, y), "kernel_shift_")


@pytest.mark.parametrize("kernel", ["rbf", "poly", rbf_kernel])
@pytest.mark.parametrize("data", [np.array, sp.csr_array])
@pytest.mark.parametrize("solver", ["block", "fw"])
@quiet
def test_predictions_do_not_depend_on_the_training_array(iris, kernel, data, solver):
    X, y = data(iris[0]), iris[1]
    weight = np.where(np.arange(150) % 5, 1.0, 0.0)
    model = MulticlassSVC(kernel=kernel, solver=solver, max_iter=20, random_state=0)
    model.fit(X, y, sample_weight=weight)
    new = data(iris[0] + 0.1)
    before = model.decision_function(new)
    (X.data if sp.issparse(X) else X)[:] = 0
    assert np.array_equal(model.decision_function(new), before)
    assert model._support_rows.shape == (model.support_.size, 4)
    assert 0 < model.support_.size < 150
    assert (weight[model.support_] > 0).all()
    model.set_params(kernel="linear").fit(new, y)
    assert not hasattr(model, "support_")


@quiet
def test_a_kernel_machine_without_support(iris):
    model = MulticlassSVC(kernel="rbf", max_iter=0).fit(*iris)
    assert model.support_.size == 0
    assert np.array_equal(model.decision_function(iris[0]), np.zeros((150, 3)))


@pytest.mark.parametrize("scaling", [1.0, 5.0])
@pytest.mark.parametrize("data", [np.asarray, sp.csr_array])
def test_intercept_is_a_constant_feature(iris, scaling, data):
    X, y = iris
    model = exact(intercept_scaling=scaling).fit(data(X), y)
    wide = np.hstack([X, np.full((150, 1), scaling)])
    other = exact(fit_intercept=False).fit(data(wide), y)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-8)
    assert np.allclose(model.coef_, other.coef_[:, :-1], atol=1e-3)
    assert np.allclose(model.intercept_, scaling * other.coef_[:, -1], atol=1e-3)
    assert np.array_equal(other.intercept_, np.zeros(3))
    # float64 proves 1.2e-9 of the matrix with a constant of 25
    gram = exact(kernel="precomputed", intercept_scaling=scaling, tol=2e-9).fit(X @ X.T, y)
    assert gram.objective_ == pytest.approx(other.objective_, rel=1e-8)


def test_refit_with_a_kernel_forgets_the_weights(iris):
    model = MulticlassSVC().fit(*iris)
    assert hasattr(model.set_params(solver="block"), "coef_")
    model.set_params(kernel="rbf").fit(*iris)
    assert not hasattr(model, "coef_")


# -- invariances -----------------------------------------------------------------------------------


def objective(problem, X, y, weight, **parameters):
    model = problem.estimator(**{"tol": 1e-9, "solver": "block"} | parameters)
    return model.fit(X, y, sample_weight=weight).objective_


@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_invariances(kind, smoothing):
    problem = draw(kind, smoothing)
    X, y, weight = problem.X, problem.y, problem.weight
    least = pytest.approx(optimum(kind, smoothing), rel=2e-8)
    rng = np.random.default_rng(1)
    costs: Any = problem.parameters.get("costs")
    per_example = kind.endswith("per example")

    def rows(index):
        return {"costs": costs[index]} if per_example else {}

    order = rng.permutation(y.size)
    assert objective(problem, X[order], y[order], weight[order], **rows(order)) == least
    twice = np.append(np.arange(y.size), [2, 2])
    halves = np.append(weight, [weight[2] / 4, weight[2] / 4])
    halves[2] /= 2
    assert objective(problem, X[twice], y[twice], halves, **rows(twice)) == least
    padded = np.append(weight, [0.0, 0.0])
    assert objective(problem, X[twice], y[twice], padded, **rows(twice)) == least
    factor = 3.7
    assert objective(problem, X, y, factor * weight, C=problem.C / factor) == least
    names = rng.permutation(5)  # class j is called names[j]
    renamed = {}
    if costs is not None:
        back = np.argsort(names)
        renamed = {"costs": costs[:, back] if per_example else costs[np.ix_(back, back)]}
    assert objective(problem, X, names[y], weight, **renamed) == least
    words = np.array(list("edcba"))[::-1]
    assert objective(problem, X, words[y], weight) == least
    assert objective(problem, X[:, ::-1], y, weight) == least
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    assert objective(problem, X @ Q, y, weight) == least


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_zero_weight_is_removal(iris, kernel):
    X, y = iris
    weight = (np.arange(150) % 3 > 0).astype(float)
    weighted = exact(kernel=kernel, gamma=0.5).fit(X, y, sample_weight=weight)
    removed = exact(kernel=kernel, gamma=0.5).fit(X[weight > 0], y[weight > 0])
    assert weighted.objective_ == pytest.approx(removed.objective_, rel=1e-8)
    assert np.allclose(weighted.decision_function(X), removed.decision_function(X), atol=1e-3)
    assert weighted.dual_coef_.shape == (150, 3)
    assert np.abs(weighted.dual_coef_[np.flatnonzero(weight == 0)]).sum() == 0


def test_zero_weight_of_a_precomputed_kernel(iris):
    X, y = iris
    keep = np.arange(150) % 3 > 0
    K = X @ X.T
    weighted = exact(kernel="precomputed").fit(K, y, sample_weight=keep.astype(float))
    removed = exact(kernel="precomputed").fit(K[np.ix_(keep, keep)], y[keep])
    assert weighted.objective_ == pytest.approx(removed.objective_, rel=1e-8)
    assert np.allclose(
        weighted.decision_function(K), removed.decision_function(K[:, keep]), atol=1e-3
    )


@pytest.mark.parametrize("given", [{0: 2.0, 2: 0.5}, "balanced"])
def test_class_weight_is_sample_weight(iris, given):
    X, y = iris[0][:110], iris[1][:110]
    per_class = {0: 2.0, 1: 1.0, 2: 0.5}
    if given == "balanced":
        per_class = {c: 110 / (3 * (y == c).sum()) for c in range(3)}
    weight = np.array([per_class[label] for label in y])
    extra = np.linspace(0.5, 2, 110)
    by_class = exact(class_weight=given).fit(X, y, sample_weight=extra)
    by_sample = exact().fit(X, y, sample_weight=weight * extra)
    assert by_class.objective_ == pytest.approx(by_sample.objective_, rel=1e-8)
    words = np.array(["a", "b", "c"])
    if given != "balanced":
        given = {words[c]: value for c, value in given.items()}
    assert exact(class_weight=given).fit(X, words[y], sample_weight=extra).objective_ == (
        pytest.approx(by_sample.objective_, rel=1e-8)
    )


@pytest.mark.parametrize("solver", SOLVERS)
@quiet
def test_single_precision(iris, solver):
    X, y = iris
    X = X.astype(np.float32)
    models = [
        MulticlassSVC(solver=solver, tol=1e-5, max_iter=200, random_state=0).fit(data, y)
        for data in (X, X.astype(float), sp.csr_array(X), sp.csr_matrix(X.astype(float)))
    ]
    for model in models[1:]:
        bracket = max(models[0].gap_, model.gap_) + 1e-5
        assert model.objective_ == pytest.approx(models[0].objective_, abs=bracket)
    assert models[0].decision_function(X).shape == (150, 3)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_number_of_threads_does_not_matter(iris, n_jobs):
    X, y = iris
    model = MulticlassSVC(n_jobs=n_jobs, random_state=0).fit(X, y)
    other = MulticlassSVC(random_state=0).fit(X, y)
    assert np.allclose(model.coef_, other.coef_, atol=1e-10)
    assert model.n_iter_ == other.n_iter_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_deterministic(iris, kernel):
    fits = [MulticlassSVC(kernel=kernel, random_state=3).fit(*iris) for _ in range(2)]
    first, second = (model.decision_function(iris[0]) for model in fits)
    assert np.array_equal(first, second)
    assert np.array_equal(fits[0].trace_["value"], fits[1].trace_["value"])


@pytest.mark.parametrize("solver", SOLVERS)
@quiet
def test_fit_leaves_its_input_alone(iris, solver):
    X, y = iris[0].copy(), iris[1].copy()
    costs, weight = np.arange(9.0).reshape(3, 3), np.linspace(0, 1, 150)
    given = [X, y, costs, weight]
    copies = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    for data, kernel in ((X, "linear"), (sp.csr_array(X), "linear"), (X @ X.T, "precomputed")):
        before = data.copy()
        model = MulticlassSVC("cost-sensitive", costs=costs, solver=solver, kernel=kernel)
        model.set_params(fit_intercept=False, max_iter=10).fit(data, y, sample_weight=weight)
        model.predict(data)
        assert abs(data - before).max() == 0
    for array, copy in zip(given, copies, strict=True):
        assert np.array_equal(array, copy)


# -- data with a twist -----------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_badly_scaled_features(C):
    X, y = load_wine(return_X_y=True)
    model = MulticlassSVC(C=C, tol=1e-3, random_state=0).fit(X, y)
    assert model.status_ is Status.SOLVED
    assert model.relative_gap_ <= 1e-3


@pytest.mark.parametrize("kind", ["array", "csr", "rbf", "joint", "streamed", "torch"])
def test_max_hinge_of_three_classes_is_smoothed_unless_told_otherwise(iris, kind, tmp_path):
    X, y = iris
    options: dict[str, Any] = {"tol": 1e-6, "random_state": 0}
    if kind == "csr":
        X = sp.csr_array(X)
    elif kind == "rbf":
        options |= {"kernel": "rbf", "gamma": 0.3}
    elif kind == "joint":
        options["feature_map"] = lambda rows: np.einsum("ik,jl->ijkl", rows, np.eye(3)).reshape(
            len(rows), 3, -1
        )
    elif kind == "streamed":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "torch":
        X = pytest.importorskip("torch").asarray(X)
    for loss in ("max-hinge", MaxHinge()):
        chosen = MulticlassSVC(loss, **options).fit(X, y)
        told = MulticlassSVC(loss, smoothing=0.5, **options).fit(X, y)
        assert chosen.smoothing_ == told.smoothing_ == 0.5
        assert chosen.smoothing == "auto"
        assert chosen.objective_ == told.objective_
        assert certify(chosen, X, y).holds


def test_other_losses_and_two_classes_are_as_published(iris):
    X, y = iris
    for options in ({"loss": "usunier", "k": 2}, {"loss": TopK(2)}):
        model = exact(**options).fit(X, y)
        assert model.smoothing_ == 0
        assert model.objective_ == exact(**options, smoothing=0).fit(X, y).objective_
    assert exact().fit(X[:100], y[:100]).smoothing_ == 0
    with pytest.raises(ValueError, match="smoothing must be a number >= 0 or 'auto', got 'much'"):
        MulticlassSVC(smoothing="much").fit(X, y)


def test_classes_that_overlap_are_told_apart_by_default():
    """No class is ever as likely as all others together: W = 0 is best without smoothing."""
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 8
    X = 0.5 * rng.standard_normal((8, 4))[y] + rng.standard_normal((2000, 4))
    with pytest.warns(UserWarning, match="answers the same for all examples"):
        MulticlassSVC(smoothing=0, random_state=0).fit(X, y)
    assert len(set(MulticlassSVC(random_state=0).fit(X, y).predict(X))) == 8


def test_duplicated_examples_with_different_labels():
    X = np.repeat(np.eye(3), 4, axis=0)
    y = np.tile([0, 1, 2, 3], 3)
    with pytest.warns(UserWarning, match="answers the same for all examples"):
        model = exact(fit_intercept=False, smoothing=0).fit(X, y)
    # all labels are alike: W = 0 is optimal and every example loses 1
    assert model.objective_ == pytest.approx(12.0, rel=1e-9)
    assert np.allclose(model.coef_, 0, atol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("m", "smoothing"), [(2, "auto"), (5, "auto"), (5, 0)])
def test_a_solved_model_that_is_constant_says_so(m, smoothing, sparse):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), np.arange(300) % m
    X[:, 0] += y == 1
    y[:200] = 0  # the answer, if C is small
    data = sp.csr_array(X) if sparse else X
    with pytest.warns(UserWarning, match="MulticlassSVC is solved, and answers the same") as seen:
        model = MulticlassSVC(C=1e-6, smoothing=smoothing).fit(data, y)
    assert len(set(model.predict(X))) == 1
    assert ("smoothing=0.5" in str(seen[0].message)) == (smoothing == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MulticlassSVC(C=1.0).fit(X, X[:, 0] > 1)  # few are on the other side
        MulticlassSVC(C=1.0).fit(X, y, sample_weight=(y == 0) + 0.0)  # all are of one class
    with pytest.warns(ConvergenceWarning):
        MulticlassSVC(C=1e-6, max_iter=0).fit(X, y)  # not solved: that is enough to say


def test_more_classes_than_features():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    model = exact(C=0.1).fit(X, np.arange(60) % 30)
    assert model.coef_.shape == (30, 3)
    assert model.relative_gap_ <= 1e-9


def test_loss_objects(iris):
    X, y = iris
    assert exact(loss=TopK(2)).fit(X, y).objective_ == pytest.approx(
        exact(loss="top-k", k=2).fit(X, y).objective_, rel=1e-8
    )
    costs = np.random.default_rng(0).random((150, 3))
    weight = np.arange(150.0) % 4  # zeros too
    by_object = exact(loss=CostSensitive(costs, per_example=True)).fit(X, y, sample_weight=weight)
    by_name = exact(loss="cost-sensitive", costs=costs).fit(X, y, sample_weight=weight)
    assert by_object.objective_ == pytest.approx(by_name.objective_, rel=1e-8)


# -- warm start ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("solver", ["block", "fw"])
@quiet
def test_refit_of_the_same_problem(iris, kernel, smoothing, solver):
    model = MulticlassSVC(
        kernel=kernel, smoothing=smoothing, solver=solver, warm_start=True, random_state=0,
        tol=1e-6 if solver == "block" else 0.05, max_iter=2000,
    )  # fmt: skip
    first = clone(model).fit(*iris)
    rounds, value, gap = first.n_iter_, first.objective_, first.gap_
    first.fit(*iris)
    assert first.status_ is Status.SOLVED
    assert first.n_iter_ <= max(2, rounds // 5)
    assert first.objective_ == pytest.approx(value, abs=gap)


@pytest.mark.parametrize("solver", ["block", "fw"])
@quiet
def test_the_dual_state_is_kept_for_a_warm_start_only(iris, solver):
    model = MulticlassSVC(solver=solver, max_iter=5, random_state=0).fit(*iris)
    assert model._state is None
    warm = clone(model).set_params(warm_start=True).fit(*iris)
    again = pickle.loads(pickle.dumps(warm))
    assert again._state is not None
    dual = warm.trace_["dual"][-1]
    assert again.fit(*iris).trace_["dual"][0] >= dual - 1e-6 * abs(dual)
    again.set_params(warm_start=False).fit(*iris)
    assert again._state is None


CHANGES = {
    "smaller C": lambda X, y, w: (0.1, X, y, w),
    "larger C": lambda X, y, w: (10.0, X, y, w),
    "weights": lambda X, y, w: (1.0, X, y, w[::-1]),
    "zero weights": lambda X, y, w: (1.0, X, y, np.where(w > 1, w, 0)),
    "labels": lambda X, y, w: (1.0, X, (y + 1) % 3, w),
    "names of labels": lambda X, y, w: (1.0, X, np.array(["u", "v", "w"])[y], w),
    "features": lambda X, y, w: (1.0, X[:, ::-1] + 1, y, w),
    "fewer features": lambda X, y, w: (1.0, X[:, :2], y, w),
    "fewer examples": lambda X, y, w: (1.0, X[:140], y[:140], w[:140]),
    "fewer classes": lambda X, y, w: (1.0, X[:100], y[:100], w[:100]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
@quiet
def test_warm_start_certifies_whatever_changed(iris, change, smoothing, kernel):
    X, y = iris
    weight = 0.5 + np.arange(150) % 3

    def data(X):
        return X if kernel == "linear" else X @ X.T

    C, X_new, y_new, weight_new = CHANGES[change](X, y, weight)
    parameters = {"kernel": kernel, "smoothing": smoothing, "random_state": 0}
    cold = exact(C=C, **parameters).fit(data(X_new), y_new, sample_weight=weight_new)
    for solver in SOLVERS:
        tol, max_iter = (1e-9, 1000) if solver == "block" else (0.05, 60)
        model = MulticlassSVC(solver=solver, tol=tol, max_iter=max_iter, **parameters)
        model.set_params(warm_start=True).fit(data(X), y, sample_weight=weight)
        model.set_params(C=C).fit(data(X_new), y_new, sample_weight=weight_new)
        slack = 1e-8 * cold.objective_
        assert model.bound_ <= cold.objective_ + slack
        assert model.objective_ >= cold.bound_ - slack
        if solver == "block":
            assert model.objective_ == pytest.approx(cold.objective_, rel=2e-8)


def test_warm_start_with_another_loss_or_smoothing(iris):
    model = exact(loss="usunier", k=2, warm_start=True).fit(*iris)
    changes = {"loss": "top-k"}, {"k": 1}, {"smoothing": 0.5}, {"smoothing": 1.0}, {"kernel": "rbf"}
    for change in changes:
        model.set_params(**change).fit(*iris)
        cold = clone(model).fit(*iris)
        assert model.objective_ == pytest.approx(cold.objective_, rel=1e-8)
        assert model.relative_gap_ <= 1e-9


def test_warm_start_with_other_costs(iris):
    rng = np.random.default_rng(0)
    for solver in ("block", "fw"):
        model = MulticlassSVC("cost-sensitive", costs=rng.random((3, 3)), solver=solver, tol=0.05)
        model.set_params(warm_start=True, max_iter=500, random_state=0).fit(*iris)
        model.set_params(costs=3 * rng.random((3, 3))).fit(*iris)
        best = exact(loss="cost-sensitive", costs=model.costs).fit(*iris)
        assert model.bound_ <= best.objective_ <= model.objective_ * (1 + 1e-8)


def test_larger_c_from_old_duals_takes_fewer_iterations(iris):
    model = MulticlassSVC(solver="fw", tol=0.05, max_iter=5000, warm_start=True).fit(*iris)
    model.set_params(C=1.1).fit(*iris)
    cold = clone(model).fit(*iris)
    assert model.n_iter_ < cold.n_iter_


# -- limits, interrupts, progress ------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ({"time_limit": 0}, Status.TIME_LIMIT),
        ({"max_iter": 0}, Status.ITERATION_LIMIT),
        ({"max_iter": 1}, Status.ITERATION_LIMIT),
    ],
)
@quiet
def test_limits_leave_a_usable_model(iris, solver, kernel, limit, status):
    X, y = iris
    model = MulticlassSVC(solver=solver, kernel=kernel, tol=1e-6, random_state=0, **limit)
    model.fit(X, y)
    assert model.status_ is status
    assert model.predict(X).shape == (150,)
    best = exact(kernel=kernel).fit(X, y)
    assert model.bound_ <= best.objective_
    assert best.bound_ <= model.objective_
    assert model.gap_ == pytest.approx(model.objective_ - model.bound_)
    assert len(model.trace_) == 1 + limit.get("max_iter", 0)


def test_an_early_end_warns(iris):
    with pytest.warns(ConvergenceWarning, match=r"asked for \(relative gap <= 1e-09\)"):
        exact(max_iter=1).fit(*iris)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact(time_limit=0).fit(*iris)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("presses", [1, 2])
def test_interrupt_keeps_the_model(solver, presses, monkeypatch):
    X, y = load_digits(return_X_y=True)
    kinds = {"block": BlockAscent, "fw-corrective": CorrectiveDescent}
    kind: Any = kinds.get(solver, BatchDescent)
    move = kind.move
    moves: list[None] = []

    def pressed(self):
        moves.append(None)
        if len(moves) == 4:
            for _ in range(presses):  # the first waits for the iteration to end
                signal.raise_signal(signal.SIGINT)
        return move(self)

    monkeypatch.setattr(kind, "move", pressed)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    model = MulticlassSVC(solver=solver, smoothing=0, C=1000.0, tol=1e-14, random_state=0)
    model.fit(X, y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert model.status_ is Status.INTERRUPTED
    assert model.n_iter_ == 5 - presses
    assert_certificate(model, X, y)


@pytest.mark.posix
def test_interrupt_by_a_timer():
    X, y = load_digits(return_X_y=True)
    model = MulticlassSVC(solver="fw", smoothing=0, C=1000.0, tol=1e-14, max_iter=3, time_limit=60)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)  # compiles
    previous = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        model.set_params(max_iter=10**9).fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert model.status_ is Status.INTERRUPTED
    assert_certificate(model, X, y)


def assert_certificate(model, X, y):
    scores = X @ model.coef_.T + model.intercept_
    z = scores - scores[np.arange(y.size), y][:, None] + (np.arange(10) != y[:, None])
    square = (model.coef_**2).sum() + (model.intercept_**2).sum()
    value = 0.5 * square + model.C * z.max(axis=1).sum()
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert 0 <= model.bound_ <= model.objective_


@pytest.mark.parametrize("verbose", [0, 1, 2])
@pytest.mark.parametrize("solver", ["block", "fw"])
@quiet
def test_progress_goes_to_stderr(iris, verbose, solver, capfd):
    MulticlassSVC(verbose=verbose, solver=solver, max_iter=5).fit(*iris)
    out, err = capfd.readouterr()
    assert out == ""
    assert bool(err) == bool(verbose)
    if verbose:
        assert f"MulticlassSVC, {solver}" in err


# -- predictions -----------------------------------------------------------------------------------


def test_top_k_by_sorting():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], np.array([f"digit {label}" for label in y[:300]])
    model = MulticlassSVC(C=1e-4, random_state=0).fit(X, y)
    scores = model.decision_function(X)
    for k in (1, 2, 5, 10):
        top = model.predict_top_k(X, k)
        assert top.shape == (300, k)
        hits = 0
        for i in range(300):
            best = sorted(range(10), key=(-scores[i]).__getitem__)[:k]
            assert list(top[i]) == [model.classes_[j] for j in best]
            hits += y[i] in model.classes_[best]
        assert model.top_k_score(X, y, k) == pytest.approx(hits / 300)
    assert (model.predict_top_k(X, 1)[:, 0] == model.predict(X)).all()
    assert model.top_k_score(X, y, 10) == 1.0
    assert model.top_k_score(X, y, 1) == model.score(X, y)
    weight = np.arange(300.0)
    assert model.top_k_score(X, y, 1, sample_weight=weight) == pytest.approx(
        model.score(X, y, sample_weight=weight)
    )


@pytest.mark.parametrize("m", [2, 3, 40])
def test_ties_go_to_the_first_classes(m):
    X = np.random.default_rng(0).standard_normal((2 * m, 2))
    model = MulticlassSVC(fit_intercept=False).fit(X, np.arange(2 * m) % m)
    for k in range(1, m + 1):
        assert np.array_equal(model.predict_top_k(np.zeros((3, 2)), k), [np.arange(k)] * 3)
    assert np.array_equal(model.predict(np.zeros((3, 2))), [0, 0, 0])


@pytest.mark.parametrize("k", [0, 4, -1, 1.5, "2", None])
def test_bad_k_of_top_k(iris, k):
    model = MulticlassSVC().fit(*iris)
    with pytest.raises(ValueError, match="k must be an integer from 1 to 3"):
        model.predict_top_k(iris[0], k)
    with pytest.raises(ValueError, match="k must be an integer from 1 to 3"):
        model.top_k_score(iris[0], iris[1], k=k)


# -- a citizen of scikit-learn ---------------------------------------------------------------------


def test_data_frames_and_words(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    words = pd.Series(np.array(["setosa", "versicolor", "virginica"])[y], dtype=object)
    model = MulticlassSVC(random_state=0).fit(frame, words)
    assert list(model.feature_names_in_) == ["sl", "sw", "pl", "pw"]
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    assert set(model.predict(frame)) == set(words)
    assert np.array_equal(model.coef_, MulticlassSVC(random_state=0).fit(X, y).coef_)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["pw", "pl", "sw", "sl"]])


def test_pipeline_and_grid_search():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), MulticlassSVC(k=2, random_state=0))
    grid = {
        "multiclasssvc__C": [0.01, 1.0],
        "multiclasssvc__loss": ["max-hinge", "usunier", "top-k"],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_[-1].relative_gap_ <= 1e-3
    K = StandardScaler().fit_transform(X) @ StandardScaler().fit_transform(X).T
    gram = GridSearchCV(MulticlassSVC(kernel="precomputed"), {"C": [0.01, 1.0]}, cv=3).fit(K, y)
    assert gram.best_score_ > 0.9


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@quiet
def test_clone_and_pickle(iris, solver, kernel):
    X, y = iris
    model = MulticlassSVC(solver=solver, kernel=kernel, max_iter=20, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    X = X + 0.1  # scikit-learn's kernels know an array from itself
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.predict_top_k(X, 3), model.predict_top_k(X, 3))
    assert again.status_ is model.status_
    fresh = clone(model)
    assert not hasattr(fresh, "classes_")
    assert np.array_equal(fresh.fit(*iris).decision_function(X), model.decision_function(X))


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *[({"C": C}, "C must be a positive number") for C in (0, -1.0, np.nan, np.inf, "1")],
        *[({"smoothing": mu}, "smoothing must be a number >= 0") for mu in (-1, np.nan, np.inf)],
        *[({"tol": tol}, "tol must be a number >= 0") for tol in (-1, np.nan, None)],
        ({"intercept_scaling": 0}, "intercept_scaling must be a positive number"),
        ({"loss": "hinge"}, "loss must be one of max-hinge, .*, got 'hinge'"),
        ({"solver": "nonsense"}, "solver must be one of auto, .*, got 'nonsense'"),
        ({"kernel": "laplace"}, "kernel must be one of linear, .*, got 'laplace'"),
        ({"kernel": 3}, "kernel must be one of linear"),
        ({"loss": "top-k", "k": 3}, "give a smaller k"),
        ({"loss": "usunier"}, "give a smaller k"),
        ({"loss": "usunier", "k": 0}, "k must be an integer >= 1"),
        ({"loss": "weighted-top-k"}, "needs rho"),
        ({"loss": "weighted-usunier"}, "needs rho"),
        ({"loss": "weighted-usunier", "rho": [1, 2]}, "rho must be a decreasing sequence"),
        ({"loss": "weighted-usunier", "rho": [3, 2, 1]}, "shorter rho"),
        ({"loss": "cost-sensitive"}, "needs costs"),
        *[
            ({"loss": loss, "costs": np.ones((3, 3))}, "costs must be None with loss=")
            for loss in ("max-hinge", "top-k", "weighted-usunier", TopK(2))
        ],
        *[
            ({"loss": loss, "rho": [1.0]}, "rho must be None with loss=.* weighted-top-k and")
            for loss in ("max-hinge", "cost-sensitive", "usunier", TopK(2))
        ],
        *[
            ({"loss": "cost-sensitive", "costs": np.ones(shape)}, "costs must")
            for shape in [(), (3,), (150,), (2, 3), (3, 2), (150, 2), (149, 3)]
        ],
        ({"loss": "cost-sensitive", "costs": -np.ones((3, 3))}, "costs must be .* >= 0"),
        *[
            ({"kernel": "rbf", "gamma": gamma}, "gamma must be 'scale', 'auto' or a number")
            for gamma in (-1.0, "wide", np.nan, np.inf, None)
        ],
        ({"kernel": "precomputed"}, "X must be a square kernel matrix, got shape"),
        ({"max_iter": -1}, "max_iter must be"),
        ({"max_iter": 1.5}, "max_iter must be"),
        ({"time_limit": -1}, "time_limit must be"),
        ({"verbose": 3}, "verbose must be"),
        ({"class_weight": {0: -1.0}}, "class_weight must be"),
        ({"class_weight": {0: 0, 1: 0, 2: 0}}, "sample_weight times class_weight"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(**parameters).fit(*iris)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(150), "sample_weight"),
        (np.zeros(150), "[Ss]ample.weight"),
        (np.ones(3), "sample_weight"),
        (np.full(150, np.nan), "sample_weight"),
    ],
)
def test_bad_weights(iris, weight, message):
    with pytest.raises(ValueError, match=message):
        MulticlassSVC().fit(iris[0], iris[1], sample_weight=weight)


def test_bad_data(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"y must have at least two classes.*only one class"):
        MulticlassSVC().fit(X, np.zeros(150))
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        MulticlassSVC().fit(broken, y)
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        MulticlassSVC(kernel="precomputed").fit(sp.csr_array(X @ X.T), y)
    with pytest.raises(NotFittedError):
        MulticlassSVC().predict(X)
    model = MulticlassSVC().fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but MulticlassSVC is expecting 4"):
        model.predict(X[:, :2])
    gram = MulticlassSVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="X has 10 features"):
        gram.predict(X @ X[:10].T)
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        gram.predict(sp.csr_array(X @ X.T))


@pytest.mark.parametrize("solver", ["block", "fw-corrective", "fw", "fw-open-loop"])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_a_kernel_machine_of_one_example_is_certified(solver, kernel):
    """The scores of one example are not a view of the image that they are made of."""
    rows, labels, share = [[0.3], [-1.0], [2.0]], [0, 1, 2], [2.0, 0.0, 0.0]
    model = MulticlassSVC(C=17.0, kernel=kernel, solver=solver, tol=1e-6, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check = certify(model.fit(rows, labels, share), rows, labels, share)
    assert check.holds, check.problems


@pytest.mark.parametrize("solver", ["fw", "fw-open-loop", "fw-corrective", "projected-gradient"])
def test_a_singular_kernel_matrix_has_no_weights_of_negative_size(solver):
    row = np.array([[0.3, -0.7]]) * 1e3  # equal examples: coefficients cancel
    model = MulticlassSVC(C=1e9, kernel="poly", solver=solver, max_iter=30, fit_intercept=False)
    for count in range(2, 8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(np.repeat(row, count, axis=0), np.arange(count) % 2)
        assert 0 <= model.bound_ <= model.objective_
