"""Kernels that are not positive semidefinite: one rule for both kernel estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from cornerstep import MulticlassSVC, ReducedHullSVC, certify, load, save
from cornerstep.learning.kernel_blocks import InnerProductKernel

ESTIMATORS: list[Any] = [ReducedHullSVC(C=1.0), ReducedHullSVC(K=3.0), MulticlassSVC()]


def data(seed=0, n=30, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, (X[:, 0] + 0.3 * rng.standard_normal(n) > 0).astype(int) + classes - 2


def told(estimator, X, y):
    """What a fit says: its error, or its warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            estimator.fit(X, y)
        except ValueError as error:
            return str(error)
    return " ".join(str(warning.message) for warning in heard)


def indefinite(X, Z):
    return X @ Z.T - 3 * np.outer(X[:, 0], Z[:, 0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kernel", "coef0"),
    [("precomputed", 0.0), (indefinite, 0.0), ("poly", -2.0), ("sigmoid", 0.0), ("sigmoid", 1.0)],
    ids=["precomputed", "function", "poly", "sigmoid", "sigmoid+1"],
)
def test_both_estimators_say_the_same(seed, kernel, coef0):
    X, y = data(seed)
    if kernel == "precomputed":
        X = indefinite(X, X)
    answers = {
        told(est.set_params(kernel=kernel, coef0=coef0, gamma=0.7), X, y) for est in ESTIMATORS
    }
    assert len(answers) == 1
    expected = "is added to the diagonal" if kernel == "sigmoid" else "must be positive semidef"
    assert expected in answers.pop()


@pytest.mark.filterwarnings("ignore:kernel='sigmoid' is not positive")
@pytest.mark.parametrize("solver", ["auto", "di-away", "di-pairwise"])
def test_a_shifted_sigmoid_is_certified(solver, tmp_path):
    X, y = data(1)
    clf = ReducedHullSVC(K=3.0, kernel="sigmoid", solver=solver).fit(X, y)
    matrix = np.tanh(X @ X.T / (3 * X.var())) + clf.kernel_shift_ * np.eye(len(X))
    assert 0 <= np.linalg.eigvalsh(matrix)[0] <= 1e-9
    a = np.zeros(len(X))
    a[clf.support_] = clf.dual_coef_.ravel() / clf.C_
    assert 0.5 * a @ matrix @ a == pytest.approx(clf.objective_, rel=1e-9)
    save(clf, tmp_path / "model.cornerstep")
    back = load(tmp_path / "model.cornerstep")
    assert certify(back, X, y).holds
    back.kernel_shift_ *= 2
    assert any("kernel_shift_" in problem for problem in certify(back, X, y).problems)


def test_matrices_that_are_positive_to_rounding_pass():
    X, y = data(2)
    for kernel in ("precomputed", lambda X, Z: X @ Z.T):
        clf = ReducedHullSVC(C=1.0, kernel=kernel)
        clf.fit(X @ X.T if kernel == "precomputed" else X, y)
        assert clf.kernel_shift_ == 0
        assert clf.status_.value == "solved"


def test_a_shifted_kernel_is_the_kernel_but_for_its_diagonal():
    X, _ = data(3)
    kernel = InnerProductKernel(X, "sigmoid", 0.5)
    rows, columns = np.array([4, 7, 2]), np.array([7, 1, 2, 9])
    change = kernel.shifted(0.25).take(np.arange(20)).block(rows, columns)
    change -= kernel.block(rows, columns)
    np.testing.assert_allclose(change, 0.25 * (rows[:, None] == columns), atol=1e-15)
    sizes = kernel.shifted(0.25).sizes
    whole = kernel.shifted(0.25).block(np.arange(len(X)), None)
    assert (np.abs(whole) <= np.outer(sizes, sizes) * (1 + 1e-12)).all()


@pytest.mark.parametrize("clf", [ReducedHullSVC(C=1.0), MulticlassSVC()], ids=["pair", "joint"])
def test_the_warning_of_a_shift_points_at_the_line_that_called_fit(clf):
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="is added to the diagonal") as seen:
        clf.set_params(kernel="sigmoid").fit(X, y)
    assert {warning.filename for warning in seen} == {__file__}
