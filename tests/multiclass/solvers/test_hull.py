"""The hull of images."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.hull import Hull
from cornerstep.multiclass.solvers.passes import LocalRows, mixture
from cornerstep.multiclass.solvers.quasi_newton import Memory
from support.multiclass_problems import draw


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
