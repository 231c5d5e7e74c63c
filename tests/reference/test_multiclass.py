"""The plain multi-class methods are the published ones, iterate by iterate."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest

from reference.multiclass import frank_wolfe, per_class, projected_gradient, weighted
from support.multiclass_problems import M, draw
from support.own_losses import Groups, RootSquare, Round

LOSSES = ["max-hinge", "cost-sensitive", "top-k", "usunier", "weighted-top-k", "weighted-usunier"]
OWN = {"root": RootSquare(), "groups": Groups([0, 0, 1, 1, 2]), "round": Round(0.7)}
STEPS = 25


def equal_iterates(problem, solver, published, **parameters):
    """Whether w of the library after 0, 1, ... steps is the published one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t, theirs in enumerate(islice(published, STEPS)):
            stopped = {"solver": solver, "max_iter": t, "tol": 0.0, "last_iterate": True}
            ours = problem.estimator(**stopped | parameters).fit(problem.X, problem.y).coef_
            accuracy = 1e-10 * (1 + abs(theirs).max())
            np.testing.assert_allclose(ours.ravel(), theirs, rtol=0, atol=accuracy)


def shared(X):
    """Joint features that classes share: products with a vector of each class, and a constant."""
    vectors = np.random.default_rng(3).standard_normal((M, 3))
    products = np.einsum("ik,jl->ijkl", X, vectors).reshape(len(X), M, -1)
    return np.concatenate([products, np.broadcast_to(np.eye(M), (len(X), M, M))], axis=2)


def posed(loss, smoothing, features):
    """A problem, the arguments of the published methods, and those of the estimator."""
    own = loss in OWN
    problem = draw("max-hinge" if own else loss, smoothing)
    psi = per_class(problem.X, M) if features == "per class" else shared(problem.X)
    oracle: Any = weighted(problem.rho, problem.whole)
    if own:

        def oracle(z, y):
            return OWN[loss].argmax(z[None], np.array([y]))[0]

    parameters: dict[str, Any] = {"loss": OWN[loss]} if own else {}
    if features == "joint":
        parameters["feature_map"] = shared
    arguments: Any = (psi, problem.y, problem.delta, oracle, problem.C)
    return problem, arguments, parameters


SMOOTHED = [*LOSSES, *(name for name, loss in OWN.items() if loss.has_projection)]
KINDS = [(loss, 0.0) for loss in (*LOSSES, *OWN)] + [(loss, 0.3) for loss in SMOOTHED]
of_features = pytest.mark.parametrize("features", ["per class", "joint"])


@of_features
@pytest.mark.parametrize(("loss", "smoothing"), KINDS)
@pytest.mark.parametrize("solver", ["fw", "fw-open-loop"])
def test_frank_wolfe(solver, loss, smoothing, features):
    problem, arguments, parameters = posed(loss, smoothing, features)
    published = frank_wolfe(*arguments, mu=smoothing, line_search=solver == "fw")
    equal_iterates(problem, solver, published, **parameters)


@of_features
@pytest.mark.parametrize("loss", [*LOSSES, *OWN])
def test_projected_gradient(loss, features):
    problem, arguments, parameters = posed(loss, 0.0, features)
    equal_iterates(problem, "projected-gradient", projected_gradient(*arguments), **parameters)
