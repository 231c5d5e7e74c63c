"""The parts of a boosting run: oracle, certificate, the tables of methods and steps."""

from typing import cast

import numpy as np
import pytest

from cornerstep.boosting.learners.trees import Answer, FiniteLearner, WeakLearner
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.frank_wolfe import STEPS
from cornerstep.boosting.solvers.methods import METHODS
from cornerstep.boosting.solvers.oracle import Oracle
from cornerstep.boosting.solvers.pool import Pool
from cornerstep.boosting.solvers.settings import MethodSettings
from cornerstep.boosting.solvers.solution import Pruning
from cornerstep.boosting.solvers.solver import BoostingSolver
from cornerstep.optimiser.loop import Stopping, run


class Proposing(FiniteLearner):
    """Proposals are of the first half of the hypotheses only."""

    def propose(self, distribution):
        half = FiniteLearner(self.matrix[: len(self.matrix) // 2])
        return half.query(distribution)._replace(largest=False)


def margins_of(k=60, m=50, seed=0):
    return np.sign(np.random.default_rng(seed).normal(size=(k, m)) + 0.2)


def what_rounds_go_by(solver):
    """All that the next look and move of a method depend on, but for the best ensemble's value."""
    state = solver.state
    current, pool, oracle = state.current, state.pool, state.oracle
    arrays = (
        current.numbers, current.weights, current.image, current.gradient,
        pool.numbers, pool.idle, pool.margins, oracle.estimated_witness,
    )  # fmt: skip
    corrections = getattr(solver.method, "corrections", None)
    numbers = (
        current.g, state.soft_margin, state.rounds, oracle.estimated_bound, oracle.discoveries,
        len(pool.hypotheses), vars(corrections).get("_gap_at_drop") if corrections else None,
    )  # fmt: skip
    return [array.tobytes() for array in arrays], numbers


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", STEPS)
def test_a_certificate_changes_only_what_it_reports(method, step):
    problem = SoftMargin(np.ones(50), 10.0, 1e-3)
    solver = BoostingSolver(problem, Proposing(margins_of()), method, step)
    for _ in range(8):
        look = solver.look()
        before, best = what_rounds_go_by(solver), solver.best
        certified = solver.certify(solver.point)
        assert what_rounds_go_by(solver) == before
        assert solver.best.numbers == best.numbers
        assert certified.value == pytest.approx(look.value, abs=1e-6)
        assert certified.gap <= look.gap + 1e-6
        solver.move()


@pytest.mark.parametrize("method", METHODS)
def test_a_point_is_never_changed_in_place(method):
    solver = BoostingSolver(
        SoftMargin(np.ones(50), 10.0, 1e-3), FiniteLearner(margins_of()), method
    )
    points = []
    for _ in range(6):
        solver.look()
        points.append((solver.point, solver.point.weights.copy(), solver.point.image.copy()))
        solver.move()
    solver.certify(points[-1][0])
    for point, weights, image in points:
        np.testing.assert_array_equal(point.weights, weights)
        np.testing.assert_array_equal(point.image, image)


def test_proposals_are_estimates_and_complete_searches_bounds():
    matrix = np.vstack([margins_of(59), np.ones(50)])
    problem = SoftMargin(np.ones(50), 10.0, 1e-3)
    oracle = Oracle(problem, Proposing(matrix), Pool(50), max_answers=40)
    d = oracle.witness
    oracle.collect(d, d, -1.0)
    assert oracle.bound == np.inf
    assert oracle.estimated_bound == (matrix[:30] @ d).max()
    before = oracle.estimated_bound, oracle.discoveries, len(oracle.pool)
    oracle.certify()
    assert oracle.bound == (matrix @ d).max()
    assert (oracle.estimated_bound, oracle.discoveries, len(oracle.pool)) == before
    oracle.bound = np.inf
    assert oracle.make_sure()
    assert oracle.estimated_bound == oracle.bound == (matrix @ d).max()
    assert len(oracle.pool) == 2


def test_hypotheses_found_for_a_certificate_may_refute_a_bound():
    """One that rests on an inexact search: no hypothesis may have more edge at the witness."""

    class Missing:
        exact = False
        matrix = np.array([[1.0, -1.0, -1.0, 1.0], [1.0, 1.0, 1.0, -1.0]])

        def expired(self):
            return False

        def query(self, d):
            k = 0 if d[0] < 0.3 else 1
            return Answer(float(self.matrix[k] @ d), [k], self.matrix[k : k + 1])

    problem = SoftMargin(np.ones(4), 2.0, 0.1)
    oracle = Oracle(problem, cast(WeakLearner, Missing()), Pool(4), max_answers=40)
    oracle.ask(np.full(4, 0.25))
    assert oracle.bound == 0.0
    oracle.estimated_bound = -1.0
    oracle.estimated_witness = np.array([0.5, 0.25, 0.25, 0.0])
    oracle.certify()
    assert oracle.bound == (Missing.matrix @ oracle.witness).max() == 0.5
    assert len(oracle.pool) == 1


def test_settings_reach_the_rounds():
    """One question per round, one hypothesis per answer: fewer searches, a smaller pool."""
    problem = SoftMargin(np.ones(50), 10.0, 0.05)
    calls = []
    for settings in (MethodSettings(), MethodSettings(mixtures=(0.5,), max_answers=1)):
        learner = FiniteLearner(margins_of(400), n_answers=20)
        solver = BoostingSolver(problem, learner, settings=settings)
        outcome = run(solver, Stopping(0.05, 0.0, 400))
        assert outcome.look.gap <= 0.05
        calls.append(solver.state.oracle.calls / max(outcome.n_iter, 1))
    assert calls[1] < calls[0]


def test_pruning_takes_weight_off_idle_hypotheses_only_where_that_is_cheap():
    problem = SoftMargin(np.ones(4), 2.0, 0.1)
    margins = np.array([[1.0, 1.0, -1.0, 1.0], [1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0]])
    weights = np.array([0.495, 0.495, 0.01])
    edges = np.array([0.5, 0.5, 0.1])
    value = problem.value(weights @ margins)

    def pruned(target):
        return Pruning().pruned(margins, weights, edges, 0.5, target, value, problem.value)

    kept = pruned(0.15)
    np.testing.assert_allclose(kept.weights, [0.5, 0.5, 0.0])
    np.testing.assert_allclose(kept.image, kept.weights @ margins)
    assert kept.value == problem.value(kept.image)
    assert pruned(0.25) is None  # nothing is idle
    assert pruned(0.05) is None  # it would cost more than a tenth of the target
