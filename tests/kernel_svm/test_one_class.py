"""``OneClassHull``: the reduced hull against the origin."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

import cornerstep
from cornerstep import OneClassHull, certify
from cornerstep.kernel_svm.machines import Rows, pose_one_class
from cornerstep.kernel_svm.pairs import KernelParameters
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.kernel_svm.solvers.start import starting_point
from cornerstep.kernel_svm.solvers.working_set import WorkingSetDescent
from cornerstep.optimiser.loop import Stopping, run
from cornerstep.optimiser.result import Status

PRECISE: dict[str, Any] = {"tol": 1e-9, "random_state": 0}


def clouds(n=300, d=3, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) + offset


@pytest.mark.parametrize(
    ("n", "d", "nu", "options"),
    [
        (500, 3, 0.1, {}), (900, 2, 0.5, {}), (800, 10, 0.03, {"gamma": 0.3}),
        (200, 4, 1.0, {}), (400, 3, 0.2, {"kernel": "linear"}),
        (400, 3, 0.2, {"kernel": "poly", "coef0": 1.0, "degree": 2}),
    ],
)  # fmt: skip
def test_the_optimum_is_that_of_libsvm(n, d, nu, options):
    X = clouds(n, d, offset=4.0 if "kernel" in options else 0.0)
    weights = np.random.default_rng(1).uniform(0, 2, n)
    ours = OneClassHull(nu, **options, **PRECISE).fit(X, sample_weight=weights)
    other = OneClassSVM(nu=nu, tol=1e-9, **options).fit(X, sample_weight=weights)
    w_norm = [
        float((m.dual_coef_ @ m.decision_function(m.support_vectors_)).item())
        + float(m.dual_coef_.sum()) * float(np.ravel(m.offset_)[0])
        for m in (ours, other)
    ]
    assert ours.objective_ == pytest.approx(0.5 * w_norm[1], rel=1e-6)
    assert ours.objective_ == pytest.approx(0.5 * w_norm[0], rel=1e-9)
    assert ours.bound_ <= 0.5 * w_norm[1] * (1 + 1e-12)
    scores = other.decision_function(X)
    assert abs(ours.decision_function(X) - scores).max() < 1e-4 * abs(scores).max()
    assert np.array_equal(ours.predict(X), np.where(ours.decision_function(X) >= 0, 1, -1))
    assert certify(ours, X, None, weights).holds


def test_the_nearest_point_of_a_segment_by_hand():
    """Two points and nu = 1/2: the hull is the segment, its nearest point to 0 is a foot."""
    X = np.array([[1.0, 2.0], [3.0, -1.0]])
    model = OneClassHull(0.5, kernel="linear", tol=1e-12).fit(X)
    along = X[1] - X[0]
    foot = X[0] - along * float(X[0] @ along) / float(along @ along)
    assert model.objective_ == pytest.approx(0.5 * float(foot @ foot), rel=1e-11)
    assert model.dual_coef_ @ model.support_vectors_ == pytest.approx(foot[None], rel=1e-9)
    assert model.offset_ == pytest.approx(float(foot @ foot), rel=1e-9)


def test_the_optimum_of_few_examples_by_brute_force():
    """Of all choices of examples at 0 and at 1, the best whose free ones solve their equations."""
    X, nu = clouds(6, 2, seed=3), 0.45
    K, total = rbf_kernel(X, gamma=0.7), 0.45 * 6
    best = np.inf
    for states in itertools.product((0, 1, 2), repeat=6):
        fixed = np.array(states)
        free = np.flatnonzero(fixed == 2)
        a = np.where(fixed == 1, 1.0, 0.0)
        if free.size == 0:
            continue
        system = np.block([[K[np.ix_(free, free)], -np.ones((free.size, 1))],
                           [np.ones((1, free.size)), np.zeros((1, 1))]])  # fmt: skip
        right = np.append(-K[free] @ a, total - a.sum())
        a[free] = np.linalg.solve(system, right)[:-1]
        if a.min() >= 0 and a.max() <= 1:
            best = min(best, 0.5 * float(a @ K @ a))
    model = OneClassHull(nu, gamma=0.7, tol=1e-11).fit(X)
    assert model.objective_ == pytest.approx(best, rel=1e-9)


def test_nu_bounds_the_outliers_and_the_support():
    X = clouds(400)
    for nu in (0.05, 0.3, 0.8):
        model = OneClassHull(nu, **PRECISE).fit(X)
        strictly = int((model.decision_function(X) < -1e-7).sum())
        assert strictly <= nu * 400 <= model.support_.size


def test_repeated_rows_are_weights():
    X = clouds(120)
    counts = np.random.default_rng(2).integers(0, 4, 120)
    once = OneClassHull(0.3, gamma=0.5, **PRECISE).fit(X, sample_weight=counts)
    often = OneClassHull(0.3, gamma=0.5, **PRECISE).fit(np.repeat(X, counts, axis=0))
    assert once.objective_ == pytest.approx(often.objective_, rel=1e-8)
    assert once.offset_ == pytest.approx(often.offset_, rel=1e-6)
    assert not np.isin(np.flatnonzero(counts == 0), once.support_).any()


def test_kinds_of_input_agree():
    X = clouds(150)
    X[X < 0] = 0
    kernel = rbf_kernel(X, gamma=0.5)
    dense = OneClassHull(0.2, gamma=0.5, **PRECISE).fit(X)
    others = {
        "csr": (OneClassHull(0.2, gamma=0.5, **PRECISE), sp.csr_array(X)),
        "single": (OneClassHull(0.2, gamma=0.5, **PRECISE), X.astype(np.float32)),
        "function": (OneClassHull(0.2, kernel=lambda A, B: rbf_kernel(A, B, 0.5), **PRECISE), X),
        "precomputed": (OneClassHull(0.2, kernel="precomputed", **PRECISE), kernel),
    }
    for name, (model, data) in others.items():
        model.fit(data)
        close = 1e-5 if name == "single" else 1e-8
        assert model.objective_ == pytest.approx(dense.objective_, rel=close), name
        assert certify(model, data).holds, name


@pytest.mark.parametrize(
    ("falsify", "said"),
    [
        (lambda m: setattr(m, "offset_", m.offset_ * 1.01), "offset_ is"),
        (lambda m: setattr(m, "dual_coef_", m.dual_coef_ * 0.99), "outside its domain"),
        (lambda m: setattr(m, "support_", m.support_[::-1].copy()), "support_vectors_ are not"),
        (lambda m: setattr(m, "support_", m.support_[:-1]), "do not belong together"),
        (lambda m: setattr(m, "nu", 0.21), "outside its domain"),
        (lambda m: setattr(m, "gamma", 2.0), "the parameter gamma"),
    ],
)
def test_certify_finds_what_is_false(falsify, said):
    X = clouds(150)
    model = OneClassHull(0.2, tol=1e-6).fit(X)
    falsify(model)
    problems = certify(model, X).problems
    assert any(said in problem for problem in problems), problems


def test_files_keep_the_model(tmp_path):
    X = clouds(150)
    model = OneClassHull(0.2).fit(X)
    cornerstep.save(model, tmp_path / "model")
    again = cornerstep.load(tmp_path / "model")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert certify(again, X).holds


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nu": 0.0}, r"nu must be a number in \(0, 1\], got 0.0"),
        ({"nu": 1.5}, r"nu must be a number in \(0, 1\], got 1.5"),
        ({"nu": "auto"}, "nu must be"), ({"kernel": "cubic"}, "kernel must be one of"),
        ({"tol": -1}, "tol must be"), ({"max_iter": -2}, "max_iter must be"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        OneClassHull(**options).fit(clouds(20))


def test_what_cannot_be_solved_is_said():
    X = clouds(50)
    with pytest.raises(ValueError, match="contains the origin"):
        OneClassHull(0.05, kernel="linear").fit(X)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        OneClassHull().fit(X, sample_weight=np.zeros(50))
    with pytest.raises(ValueError, match="square kernel matrix"):
        OneClassHull(kernel="precomputed").fit(X)


def test_runs_end_with_what_they_have():
    X = clouds(400)
    model = OneClassHull(0.3, tol=1e-9, max_iter=0)
    with pytest.warns(match="OneClassHull stopped"):
        model.fit(X)
    assert model.status_ is Status.ITERATION_LIMIT
    best = clone(model).set_params(max_iter=-1).fit(X)
    assert model.bound_ <= best.objective_ <= model.objective_
    none = clone(model).set_params(max_iter=-1, time_limit=0.0).fit(X)
    assert none.status_ is Status.TIME_LIMIT
    assert none.bound_ <= best.objective_ <= none.objective_
    assert certify(none, X).holds


@pytest.mark.parametrize("options", [{}, {"kernel": "linear"}])
@pytest.mark.parametrize("nu", [0.1, 0.7])
def test_a_start_on_a_matrix_of_low_rank_is_an_optimum_of_the_true_one(nu, options):
    X = clouds(3000, 2, offset=4.0 if options else 0.0)
    kernel = KernelParameters(options.get("kernel", "rbf"), 0.5, 3, 0.0)
    problem = pose_one_class(Rows(X, np.arange(3000), np.ones(3000), kernel, 10**7), nu)
    few = WorkingSetSettings(least_low_rank=1000, whole_columns=0)
    start, stopped = starting_point(
        problem, np.random.default_rng(0), Stopping(0.0, 1e-5), None, few
    )
    assert not stopped
    look = problem.look(start, problem.gradient(start))
    assert look.gap <= 1e-5 * look.value
    assert problem.weights(start) == pytest.approx([nu * 3000], rel=1e-12)
    counts = problem.columns.evaluations
    model = WorkingSetDescent(problem, start, few)
    run(model, Stopping(0.0, 1e-5))
    support = np.count_nonzero(start)
    assert problem.columns.evaluations - counts <= support * 3000  # the certificate is not twice
