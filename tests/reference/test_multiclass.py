"""The plain multi-class methods are the published ones, iterate by iterate."""

from __future__ import annotations

import warnings
from itertools import islice

import numpy as np
import pytest

from reference.multiclass import frank_wolfe, projected_gradient
from support.multiclass_problems import draw

LOSSES = ["max-hinge", "cost-sensitive", "top-k", "usunier", "weighted-top-k", "weighted-usunier"]
STEPS = 25


def iterates(problem, solver):
    """W of the library after 0, 1, ... steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in range(STEPS):
            model = problem.estimator(
                solver=solver, max_iter=t, tol=0.0, atol=0.0, last_iterate=True
            ).fit(problem.X, problem.y)
            yield model.coef_


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["fw", "fw-open-loop"])
def test_frank_wolfe(solver, loss, smoothing):
    problem = draw(loss, smoothing)
    arguments = problem.X, problem.y, problem.delta, problem.rho, problem.whole, problem.C
    published = frank_wolfe(*arguments, smoothing, line_search=solver == "fw")
    for ours, theirs in zip(iterates(problem, solver), islice(published, STEPS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * (1 + abs(theirs).max()))


@pytest.mark.parametrize("loss", LOSSES)
def test_projected_gradient(loss):
    problem = draw(loss)
    published = projected_gradient(
        problem.X, problem.y, problem.delta, problem.rho, problem.whole, problem.C
    )
    ours = iterates(problem, "projected-gradient")
    for mine, theirs in zip(ours, islice(published, STEPS), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-10 * (1 + abs(theirs).max()))
