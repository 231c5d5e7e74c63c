"""The hull of images and its small program: against the interior point method, and never worse."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep.multiclass.compiled.simplex_active_set import improve
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.hull import Hull
from cornerstep.multiclass.solvers.passes import LocalRows, mixture
from cornerstep.multiclass.solvers.quasi_newton import Memory
from cornerstep.multiclass.solvers.simplex_interior import best_mixture
from support.multiclass_problems import draw


def _value(gram, linear, x):
    return 0.5 * x @ gram @ x - linear @ x


@pytest.mark.parametrize("seed", range(20))
def test_best_weights(seed):
    """Also of singular programs, from any start."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 40))
    root = rng.standard_normal((int(rng.integers(1, 50)), k))
    if seed % 3 == 0:
        root[:, k // 2 :] = root[:, : k - k // 2]  # points that occur twice
    gram, linear = root.T @ root, rng.standard_normal(k)
    start = np.zeros(k)
    start[rng.choice(k, size=max(1, k // 3), replace=False)] = 1.0
    x = start / start.sum()
    before = _value(gram, linear, x)
    tol = 1e-7 * max(np.abs(gram).max(), 1.0)
    gap = improve(gram, linear, x, tol, 500)
    gradient = gram @ x - linear
    assert gap <= tol
    assert gap == pytest.approx(gradient @ x - gradient.min(), abs=tol)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    assert _value(gram, linear, x) <= before + 1e-12 * abs(before)
    expected = best_mixture(gram, linear, 1e-3 * tol)
    assert _value(gram, linear, x) <= _value(gram, linear, expected) + 1.1 * tol


def test_programs_without_curvature():
    """The best vertex; where all are the same, any point."""
    for k in (1, 2, 7):
        linear, x = np.arange(float(k)), np.full(k, 1 / k)
        assert improve(np.zeros((k, k)), linear, x, 0.0, 50) == 0.0
        assert linear @ x == pytest.approx(k - 1)
        x = np.full(k, 1 / k)
        assert improve(np.ones((k, k)), np.ones(k), x, 1e-12, 50) <= 1e-12
        assert x.sum() == pytest.approx(1.0)


def test_a_limit_leaves_weights_of_the_simplex():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((30, 20))
    gram, linear, x = root.T @ root, rng.standard_normal(20), np.full(20, 0.05)
    for _ in range(30):
        before = _value(gram, linear, x)
        improve(gram, linear, x, 0.0, 1)
        assert (x >= 0).all()
        assert x.sum() == pytest.approx(1.0, abs=1e-12)
        assert _value(gram, linear, x) <= before + 1e-12


@pytest.fixture(params=["float64", "float32"])
def rows(request):
    problem = draw("top-k")
    examples = Examples(problem.X.astype(request.param))
    return LocalRows(MulticlassProblem(examples, problem.y, 5, problem.loss, problem.scales))


@pytest.mark.parametrize("limit", [2, 3, 6])
def test_hull_knows_its_best_point(rows, limit):
    """Sizes and bound are those of the mixture itself, also where points have been merged."""
    rng = np.random.default_rng(0)
    hull, states, duals, merged = Hull(rows, limit), [], [], 0
    shape = rows.zero_state().image.shape
    for k in range(25):
        found = rows.envelopes((0.1 + k / 10) * rng.standard_normal(shape), 0.1)
        state = found.nearest
        states.append(state)
        merged += int(hull.count == limit and hull.weights.all())
        hull.add(state.linear, *rows.read(*hull.put(state)))
        hull.correct(1e-9)
        best = hull.state()
        square, error = rows.size(best)
        assert hull.size()[0] == pytest.approx(square, rel=1e-9)
        assert hull.size()[1] == pytest.approx(error, rel=1e-6, abs=1e-12)
        duals.append(best.linear - 0.5 * square)
        weights = dict.fromkeys(range(len(states)), 0.0)
        assert best.provenance is not None
        for weight, source in best.provenance:
            place = next(i for i, s in enumerate(states) if s.provenance[0][1] is source)
            weights[place] += weight
        again = mixture(states, np.array(list(weights.values())))
        np.testing.assert_allclose(again.image, best.image, rtol=0, atol=1e-9)
        np.testing.assert_allclose(again.probed, best.probed, rtol=0, atol=1e-9)
    assert (np.diff(duals) >= -1e-9 * abs(duals[-1])).all()
    assert hull.count == limit
    assert merged or limit == 6  # with few places, all of them have weight


def test_quasi_newton_steps_minimise_a_quadratic(rows):
    """As many steps as dimensions, with exact line searches and enough pairs: the minimum."""
    rng = np.random.default_rng(0)
    shape = rows.zero_state().image.shape
    size = int(np.prod(shape))
    root = rng.standard_normal((size, size))
    hessian = np.eye(size) + 0.05 * root.T @ root
    least = rng.standard_normal(size)
    for factor in (0.0, 0.3):
        memory = Memory(rows, rows.moments().inverse(factor), size + 1)
        x = np.zeros(size)
        for step in range(size + 1):
            gradient = hessian @ (x - least)
            memory.set_products(*rows.read(memory.look(x.reshape(shape), gradient.reshape(shape))))
            memory.accept_pair()
            if step == 2:
                memory.set_metric(rows.moments().inverse(factor))  # nothing changes
            direction, slope = memory.direction()
            assert slope == pytest.approx(float(gradient @ direction.ravel()), rel=1e-6)
            d = direction.ravel()
            if np.linalg.norm(gradient) < 1e-9:
                break
            x = x - (gradient @ d) / (d @ hessian @ d) * d
        np.testing.assert_allclose(x, least, atol=1e-6)


def test_steepness_of_a_known_hessian(rows):
    """``I + t T`` is told from its pairs."""
    rng = np.random.default_rng(0)
    shape = rows.zero_state().image.shape
    memory = Memory(rows, rows.moments().inverse(1.0), 4)
    assert memory.steepness(rows.moments().times).size == 0
    for _ in range(7):
        image = rng.standard_normal(shape)
        gradient = image + 0.7 * rows.moments().times(image)
        memory.set_products(*rows.read(memory.look(image, gradient)))
        memory.accept_pair()
    found = memory.steepness(rows.moments().times)
    assert found.size == 4
    np.testing.assert_allclose(found, 0.7, rtol=1e-9)
