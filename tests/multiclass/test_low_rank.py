"""Machines of landmarks: their optimum, both bounds, and what they share with other models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from cornerstep import MulticlassSVC, certificate, certify, load, save
from cornerstep.learning.kernel_blocks import InnerProductKernel
from cornerstep.learning.kernel_low_rank import landmark_factor, landmark_features

N, M = 150, 3
KERNELS: dict[str, tuple[dict[str, Any], Any]] = {
    "rbf": ({"kernel": "rbf", "gamma": 0.5}, lambda A, B: rbf_kernel(A, B, gamma=0.5)),
    "poly": (
        {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
        lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.5, coef0=1.0),
    ),
}  # fmt: skip
every_kernel = pytest.mark.parametrize("name", KERNELS)


def data(seed=0, n=N, classes=M):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return np.eye(M)[y] + rng.standard_normal((n, M)), y


def fitted(name="rbf", rank=20, *, rows=data, tol=1e-6, **options):
    X, y = rows()
    options = {"C": 2.0, "tol": tol, "random_state": 0, **KERNELS[name][0], **options}
    return MulticlassSVC(kernel_rank=rank, **options).fit(X, y)


@every_kernel
@pytest.mark.parametrize("rank", [1, 5, 40])
@pytest.mark.parametrize("loss", ["max-hinge", "top-k", "usunier"])
def test_it_is_the_linear_machine_of_landmark_features(name, rank, loss):
    """The same optimum as without a kernel on ``K_nL T'^-1``, made here."""
    X, y = data()
    tol = 1e-6 if loss == "max-hinge" else 1e-4
    model = fitted(name, rank, loss=loss, k=2, tol=tol)
    function, landmarks = KERNELS[name][1], model.support_
    triangle = cholesky(function(X[landmarks], X[landmarks]) + 1.0, lower=True)
    F = solve_triangular(triangle, function(X[landmarks], X) + 1.0, lower=True).T
    linear = MulticlassSVC(loss, k=2, C=2.0, tol=tol, fit_intercept=False, random_state=0).fit(F, y)
    assert model.objective_ >= linear.bound_ * (1 - 1e-9)
    assert linear.objective_ >= model.bound_ * (1 - 1e-9)


@every_kernel
@pytest.mark.parametrize("rank", [1, 10, 60, N])
def test_both_bounds_hold(name, rank):
    X, y = data()
    model = fitted(name, rank)
    best = MulticlassSVC(C=2.0, tol=1e-8, random_state=0, **KERNELS[name][0]).fit(X, y)
    assert model.whole_bound_ <= best.objective_ <= model.objective_ * (1 + 1e-7)
    assert model.whole_bound_ <= model.bound_ <= model.objective_
    if rank == N:  # all that the kernel has
        assert model.objective_ - model.whole_bound_ <= 1e-5 * model.objective_
    said = certificate(model)
    assert f"these {model.support_.size} landmarks" in said.sentence
    assert "of the whole kernel more than" in said.sentence
    assert said.to_dict()["whole"] == model.whole_bound_


@every_kernel
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_files_and_certify(name, classes, fit_intercept, tmp_path):
    X, y = data(classes=classes)
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    model = MulticlassSVC(
        kernel_rank=4, C=2.0, fit_intercept=fit_intercept, random_state=0, **KERNELS[name][0]
    ).fit(X, y, weight)
    assert (weight[model.support_] > 0).all()
    found = certify(model, X, y, weight)
    assert found.holds, found.problems
    path = tmp_path / "model.cstep"
    save(model, path)
    again = load(path)
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert certify(again, X, y, weight).holds
    again.whole_bound_ = again.bound_  # a claim that nothing proves
    assert not certify(again, X, y, weight).holds
    again = clone(model).fit(X, y, weight)
    assert np.array_equal(again.support_, model.support_)
    assert again.objective_ == model.objective_


@pytest.mark.parametrize("rows", [csr_array, lambda X: X.astype(np.float32)])
def test_other_arrays(rows):
    X, y = data()
    model = MulticlassSVC(kernel="rbf", kernel_rank=15, probability=True, random_state=0)
    model.fit(rows(X), y)
    assert model.status_.value == "solved"
    assert certify(model, rows(X), y).holds
    assert np.allclose(model.predict_proba(rows(X)).sum(axis=1), 1.0)


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e6, 1e150])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.filterwarnings("ignore")
def test_certificates_hold_at_any_scale(scale, C):
    X, y = data(n=60)
    X = np.vstack([X, X[:20]]) * scale  # with duplicates
    y = np.append(y, (y[:20] + 1) % M)
    model = MulticlassSVC(kernel="rbf", kernel_rank=12, C=C, random_state=0, max_iter=200).fit(X, y)
    found = certify(model, X, y)
    assert found.holds, found.problems
    whole = MulticlassSVC(kernel="rbf", C=C, random_state=0, max_iter=200).fit(X, y)
    assert model.whole_bound_ <= whole.objective_


@pytest.mark.filterwarnings("ignore")
def test_one_landmark_is_enough_for_constant_rows():
    X, y = np.ones((30, 2)), np.arange(30) % 3
    model = MulticlassSVC(kernel="rbf", kernel_rank=10).fit(X, y)
    assert model.support_.size == 1
    assert certify(model, X, y).holds


@every_kernel
def test_landmarks_are_pivots(name):
    """The first is the largest on the diagonal, and each further one what is left the most of."""
    X, _ = data()
    options, function = KERNELS[name]
    options = {key: value for key, value in options.items() if key != "kernel"}
    kernel = InnerProductKernel(X, name, **options)
    landmarks, triangle = landmark_factor(kernel, 8, np.random.default_rng(0))
    K = function(X, X)
    assert np.allclose(triangle @ triangle.T, K[np.ix_(landmarks, landmarks)])
    for k, place in enumerate(landmarks):
        F = landmark_features(kernel, landmarks[:k], triangle[:k, :k])
        left = K.diagonal() - (F**2).sum(axis=1)
        assert left[place] == pytest.approx(left.max(), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_rank": 0}, "kernel_rank must be an integer >= 1 or None, got 0"),
        ({"kernel_rank": 2.0}, "kernel_rank must be an integer >= 1 or None, got 2.0"),
        ({"kernel": "linear"}, "kernel must be 'rbf', or 'poly' .* with kernel_rank=5, got 'linea"),
        ({"kernel": "poly", "coef0": -1.0}, "kernel must be 'rbf', or 'poly'"),
        ({"kernel": rbf_kernel}, "kernel must be 'rbf', or 'poly'"),
        ({"solver": "fw"}, "solver must be 'auto' or 'block' with kernel_rank=5, got 'fw'"),
    ],
)
def test_what_it_may_be(options, message):
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(**{"kernel": "rbf", "kernel_rank": 5, **options}).fit(*data())
