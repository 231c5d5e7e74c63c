"""Fully corrective Frank-Wolfe on all examples: program over the hull, bounds, optimum."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.corrective import CorrectiveDescent, CorrectiveSettings
from cornerstep.optimiser.quadratic_program import best_mixture
from support.multiclass_problems import LOSS_KINDS, TIGHT, draw, optimum


@pytest.mark.parametrize("seed", range(6))
def test_program_over_the_simplex(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 12))
    factor = rng.standard_normal((k, int(rng.integers(1, 15)))) * 10.0 ** rng.integers(-3, 4)
    linear = rng.standard_normal(k) * 10.0 ** rng.integers(-3, 4)
    gram = factor @ factor.T
    x = best_mixture(gram, linear, 1e-10)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    variable = cp.Variable(k)
    objective = 0.5 * cp.sum_squares(factor.T @ variable) - linear @ variable
    least = cp.Problem(cp.Minimize(objective), [variable >= 0, cp.sum(variable) == 1]).solve(
        **TIGHT
    )
    size = np.abs(gram).max() + np.abs(linear).max()
    assert 0.5 * x @ gram @ x - linear @ x <= least + 1e-8 * size


def test_program_whose_vertices_are_the_same():
    x = best_mixture(np.ones((5, 5)), np.ones(5), 1e-12)
    assert x.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(best_mixture(np.zeros((3, 3)), np.zeros(3), 0.0), 1 / 3)


@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_optimum(kind, smoothing):
    problem, least = draw(kind, smoothing), optimum(kind, smoothing)
    model = problem.fit(solver="fw-corrective", tol=1e-6, max_iter=2000)
    assert model.status_.value == "solved"
    assert model.bound_ <= least * (1 + 1e-8)
    assert least * (1 - 1e-8) <= model.objective_ <= least * (1 + 2e-6)
    assert model.objective_ == pytest.approx(problem.primal(model.coef_), rel=1e-9)


@pytest.mark.parametrize("kind", ["csr", "gram", "dense-32", "csr-32"])
def test_kinds_of_examples(kind):
    problem = draw("top-k")
    model = problem.fit(kind, solver="fw-corrective", tol=1e-4, max_iter=2000)
    assert model.status_.value == "solved"
    assert model.bound_ <= optimum("top-k") * (1 + 1e-8) <= model.objective_ * (1 + 1e-8)


def test_merged_vertices_prove_as_much():
    """With four vertices at most the run is longer, and each bound still holds."""
    problem = draw("usunier")
    posed = MulticlassProblem(
        Examples(problem.X), problem.y, 5, problem.loss, problem.scales, problem.smoothing
    )
    solver = CorrectiveDescent(posed, settings=CorrectiveSettings(atoms=4))
    duals = []
    for _ in range(60):
        look = solver.look()
        solver.move()
        assert len(solver.atoms) <= 4
        duals.append(solver.best_dual)
        assert solver.best_dual <= optimum("usunier") * (1 + 1e-9) <= look.value * (1 + 1e-8)
    assert (np.diff(duals) >= 0).all()
    assert look.gap < 0.05 * look.value


def test_needs_fewer_passes_than_fw():
    problem = draw("top-k")
    ours = problem.fit(solver="fw-corrective", tol=1e-3, max_iter=2000)
    with pytest.warns(match="stopped at a gap"):
        plain = problem.fit(solver="fw", tol=1e-3, max_iter=3 * ours.n_iter_)
    assert plain.relative_gap_ > ours.relative_gap_
