"""Quasi-Newton steps on smoothed losses: optimum, true bounds, and data with common directions."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, certify, load, save
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.envelope import EnvelopeDescent
from cornerstep.multiclass.solvers.passes import LocalRows
from support.multiclass_problems import LOSS_KINDS, draw, optimum


@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.5, 0.01])
def test_optimum(kind, smoothing):
    problem, least = draw(kind, smoothing), optimum(kind, smoothing)
    model = problem.fit(solver="envelope", tol=1e-3, max_iter=500)
    assert model.status_.value == "solved"
    assert model.bound_ <= least * (1 + 1e-8)
    assert least * (1 - 1e-8) <= model.objective_ <= least * (1 + 1.1e-3)
    assert model.objective_ == pytest.approx(problem.primal(model.coef_), rel=1e-9)
    proven = problem.dual(model.dual_coef_)
    assert proven <= least * (1 + 1e-8)
    if smoothing:  # what a mixture has of squares is less than the mixture of squares
        assert proven >= model.bound_ * (1 - 1e-12)
    else:
        assert proven == pytest.approx(model.bound_, rel=1e-9)


def test_dual_coefficients_are_made_when_asked_for(tmp_path):
    """Once, also for a copy, a pickle or a file; then the data is let go."""
    problem = draw("weighted-usunier")
    weight = problem.weight * (np.arange(problem.y.size) != 1)
    fits = [
        problem.estimator(solver="envelope", tol=1e-2).fit(problem.X, problem.y, weight)
        for _ in range(3)
    ]
    assert all(callable(model._dual_coef) for model in fits)
    save(fits[1], tmp_path / "model.cornerstep")
    models = fits[0], load(tmp_path / "model.cornerstep"), pickle.loads(pickle.dumps(fits[2]))
    for model in models:
        assert model.dual_coef_ is model.dual_coef_
        assert model.dual_coef_.shape == (problem.y.size, 5)
        assert not model.dual_coef_.toarray()[1].any()
        np.testing.assert_array_equal(model.dual_coef_.toarray(), fits[0].dual_coef_.toarray())
        proof = certify(model, problem.X, problem.y, weight)
        assert proof.holds
        assert proof.how == "the dual coefficients of the model"
        assert proof.bounds[0] == pytest.approx(model.bound_, rel=1e-9)
    assert not any(callable(model._dual_coef) for model in fits)


def test_dual_coefficients_of_a_warm_start():
    problem = draw("top-k")
    model = problem.estimator(solver="envelope", tol=1e-2, warm_start=True)
    for C in (problem.C, 1.5 * problem.C):
        model.set_params(C=C).fit(problem.X, problem.y, problem.weight)
        here = replace(problem, C=C)
        assert here.dual(model.dual_coef_) == pytest.approx(model.bound_, rel=1e-9)


@pytest.mark.parametrize("kind", ["csr", "dense-32", "csr-32"])
@pytest.mark.parametrize("solver", ["envelope", "fw-corrective"])
def test_kinds_of_examples(kind, solver):
    problem = draw("top-k")
    model = problem.fit(kind, solver=solver, tol=1e-3, max_iter=1000)
    assert model.status_.value == "solved"
    assert model.bound_ <= optimum("top-k") * (1 + 1e-8) <= model.objective_ * (1 + 1e-8)
    # the bound allows for the rounding of float32 products, what is proven in float64 does not
    proven = problem.dual(model.dual_coef_)
    assert model.bound_ * (1 - 1e-12) <= proven <= model.bound_ * (1 + 1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_every_bound_on_the_way_is_true(smoothing):
    problem, least = draw("usunier", smoothing), optimum("usunier", smoothing)
    posed = MulticlassProblem(
        Examples(problem.X), problem.y, 5, problem.loss, problem.scales, problem.smoothing
    )
    solver = EnvelopeDescent(LocalRows(posed), posed)
    gaps = []
    for _ in range(40):
        look = solver.look()
        assert solver.best_dual <= least * (1 + 1e-9) <= look.value * (1 + 2e-9)
        gaps.append(look.gap)
        solver.move()
    assert (np.diff(gaps) <= 1e-12 * gaps[0]).all()
    assert gaps[-1] < 0.02 * least


def test_metric_is_the_inverse():
    problem = draw("max-hinge")
    posed = MulticlassProblem(Examples(problem.X), problem.y, 5, problem.loss, problem.scales)
    moments = (problem.X * problem.scales[:, None]).T @ problem.X
    image = np.random.default_rng(0).standard_normal((5, problem.X.shape[1]))
    found = LocalRows(posed).moments().inverse(0.7)(image)
    np.testing.assert_allclose(found @ (np.eye(moments.shape[0]) + 0.7 * moments), image)


def _shifted(n=3000, d=40, m=30):
    """Features none of which is negative: their mean is most of them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, m, n)
    X = 10.0 + rng.standard_normal((m, d))[y] + 1.5 * rng.standard_normal((n, d))
    return X / np.sqrt((X**2).sum(axis=1).mean()), y


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_common_directions_do_no_harm(C):
    """A mean of the features and an intercept, along which the objective is steep."""
    X, y = _shifted()
    options = {"C": C, "tol": 1e-2, "max_iter": 70}
    model = MulticlassSVC("top-k", k=3, solver="envelope", **options).fit(X, y)
    assert model.status_.value == "solved"
    with pytest.warns(match="stopped at a gap"):  # the corrective method needs longer
        MulticlassSVC("top-k", k=3, solver="fw-corrective", **options).fit(X, y)


def test_warm_start_goes_on():
    X, y = _shifted(n=400, m=4)
    model = MulticlassSVC(solver="envelope", warm_start=True, smoothing=0.1, tol=1e-4).fit(X, y)
    cold = model.n_iter_
    assert model.fit(X, y).n_iter_ < cold
    assert model.set_params(C=2.0).fit(X, y).status_.value == "solved"


def test_kernels_are_refused():
    with pytest.raises(ValueError, match="solver='envelope' needs kernel='linear', got 'rbf'"):
        MulticlassSVC(solver="envelope", kernel="rbf").fit(np.eye(3), [0, 1, 2])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_two_classes_are_certified_by_what_is_returned(scale):
    """The model keeps the difference of two rows of weights; the objective is of its halves."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        X = scale * rng.standard_normal((n, 3)) * rng.choice([1.0, 30.0, 800.0])
        y, weight = np.arange(n) % 2, rng.uniform(0.5, 2, n)
        model = MulticlassSVC(
            C=0.5, solver="envelope", tol=1e-12, max_iter=150, fit_intercept=False
        ).fit(X, y, weight)
        margins = np.maximum(1 - np.where(y, 1, -1) * (X @ model.coef_[0]), 0)
        value = 0.25 * float(model.coef_[0] @ model.coef_[0]) + 0.5 * float(weight @ margins)
        assert model.objective_ == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert certify(model, X, y, weight).holds


@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
def test_smoothing_ends_where_float64_does_not_see_it(kind, C):
    problem = draw(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = problem.fit(solver="envelope", C=C, tol=0.0, max_iter=2500)
    assert model.bound_ <= model.objective_


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("smoothing", [1e-6, 1e-4, 1.0])
def test_dual_points_of_huge_scores_prove_no_more_than_they_attain(scale, smoothing):
    """What smoothing takes off is computed from the dual points, not from what scores cancel to."""
    y: list[int] = [1, 2, 0, 0, 2, 3, 3]
    given: dict[str, Any] = {"loss": "weighted-top-k", "rho": [0.08], "C": 0.5}
    for seed in range(4):
        rows = np.random.default_rng(seed).standard_normal((3, 3))
        X = np.repeat(rows, [2, 2, 3], axis=0) * scale
        model = MulticlassSVC(solver="envelope", smoothing=smoothing, max_iter=200, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        check = certify(model, X, y)
        assert check.holds, check.problems


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e4])
@pytest.mark.parametrize("seed", range(4))
def test_features_far_from_the_size_of_the_constant_one(seed, scale):
    """The first dual points are 1e12 times the last there: the bound comes from the last."""
    rng = np.random.default_rng(seed)
    y = np.arange(60) % (4 + 2 * seed)
    X = 0.5 * rng.standard_normal((12, 12))[y] + 0.5 * rng.standard_normal((60, 12))
    model = MulticlassSVC("softmax", C=scale**-2, tol=1e-6, solver="envelope", max_iter=150)
    model.fit(scale * X, y)
    assert model.status_.value == "solved"
