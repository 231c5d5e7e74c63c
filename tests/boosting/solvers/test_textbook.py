"""The published forms: one question and one hypothesis a round, exact masters, their own rule."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from cornerstep import SoftMarginBoostingClassifier, Status, certify
from cornerstep.boosting.learners.trees import FiniteLearner
from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers import simplex
from cornerstep.boosting.solvers.frank_wolfe import STEPS
from cornerstep.boosting.solvers.methods import METHODS
from cornerstep.boosting.solvers.settings import TEXTBOOK
from cornerstep.boosting.solvers.simplex import SimplexMaster
from cornerstep.boosting.solvers.solver import BoostingSolver
from support.soft_margins import lp_optimum


def margins_of(k=60, m=50, seed=0):
    return np.sign(np.random.default_rng(seed).normal(size=(k, m)) + 0.2)


class Counting(FiniteLearner):
    """Answers several hypotheses; notes where it is asked, and refuses to propose."""

    def __init__(self, matrix):
        super().__init__(matrix, n_answers=20)
        self.asked = []

    def query(self, distribution):
        self.asked.append(distribution)
        return super().query(distribution)

    def propose(self, distribution):
        raise AssertionError


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", STEPS)
def test_a_round_asks_once_and_takes_one_hypothesis(method, step):
    problem = SoftMargin(np.ones(50), 10.0, 0.05)
    learner = Counting(margins_of())
    solver = BoostingSolver(problem, learner, method, step, settings=TEXTBOOK)
    for k in range(12):
        w = solver.state.current
        solver.look()
        assert len(learner.asked) == k + 2
        d, pool = learner.asked[-1], solver.state.pool
        if method != "lpboost":
            np.testing.assert_array_equal(d, problem.admissible(w.gradient))
        best = learner.query(d).margins[0]
        learner.asked.pop()
        assert pool.number(best) in pool.numbers  # no other has come, and none has left
        hypotheses = {learner.query(asked).hypotheses[0] for asked in [*learner.asked]}
        del learner.asked[k + 2 :]
        assert set(pool.hypotheses) == hypotheses
        assert len(pool) == len(hypotheses)
        solver.move()
        np.testing.assert_array_equal(solver.point.image, solver.state.current.image)
        np.testing.assert_array_equal(solver.point.weights, solver.state.current.weights)


@pytest.mark.parametrize("nu", [1, 6.4, 20, 50])
@pytest.mark.parametrize("weighted", [False, True])
def test_lpboost_is_exact_in_every_round(nu, weighted):
    """Its soft margin is the optimum over the hypotheses so far, its d a vertex that attains it."""
    weights = np.random.default_rng(1).uniform(1, 2, 50) if weighted else np.ones(50)
    problem = SoftMargin(weights, nu, 0.01)
    learner = Counting(margins_of())
    solver = BoostingSolver(problem, learner, "lpboost", settings=TEXTBOOK)
    for _ in range(15):
        solver.look()
        solver.move()
        margins = solver.state.pool.margins
        optimum = lp_optimum(margins, problem.caps)
        assert solver.soft_margin == pytest.approx(optimum, abs=1e-9)
        solver.look()
        d = learner.asked[-1]
        assert (margins @ d).max() == pytest.approx(optimum, abs=1e-9)
        assert ((d > 1e-9) & (d < problem.caps - 1e-9)).sum() <= len(margins)


def test_the_simplex_method_asks_the_clock(monkeypatch):
    margins = np.clip(np.random.default_rng(0).normal(0.1, 0.5, (80, 300)), -1, 1)
    problem = SoftMargin(np.ones(300), 30.5, 0.01)
    whole = SimplexMaster(problem, lambda: False).solve(margins)
    asked = []

    def ask() -> bool:
        asked.append(1)
        return False

    monkeypatch.setattr(simplex, "_AT_ONCE", 1)
    parts = SimplexMaster(problem, ask).solve(margins)
    assert len(asked) > 3
    assert whole.soft_margin == pytest.approx(parts.soft_margin, abs=1e-9)
    with pytest.raises(SearchExpiredError):
        SimplexMaster(problem, lambda: True).solve(margins)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("secondary", ["lp", "entropic", "uniform"])
def test_ends_by_the_published_rule_and_is_certified(method, secondary):
    X, y = load_breast_cancer(return_X_y=True)
    secondary = (
        secondary if secondary != "uniform" else lambda margins, problem: np.ones(len(margins))
    )
    clf = SoftMarginBoostingClassifier(
        method, nu=0.2, atol=0.1, max_depth=1, step="line-search", secondary=secondary,
        textbook=True,
    ).fit(X, y)  # fmt: skip
    assert clf.status_ is Status.SOLVED
    assert certify(clf, X, y).holds
    trace = clf.trace_
    value = trace["soft_margin"] if method == "lpboost" else trace["g"] - 0.05
    over = np.minimum.accumulate(trace["bound"]) - value <= 0.1 + 1e-12
    assert over[-1]
    assert not over[:-1].any()
    assert (np.diff(trace["hypotheses"]) <= 1).all() or method == "lpboost"


def test_other_learners_and_limits():
    X, y = load_breast_cancer(return_X_y=True)
    stump = DecisionTreeClassifier(max_depth=1)
    for method in METHODS:
        clf = SoftMarginBoostingClassifier(
            method, nu=0.2, atol=1e-3, weak_learner=stump, max_iter=3, textbook=True
        )
        with pytest.warns(UserWarning, match="iteration limit"):
            clf.fit(X, y)
        assert len(clf.estimators_) <= 4
        assert clf.objective_ <= clf.bound_


def test_a_limit_of_rounds_within_the_tolerance_is_no_warning():
    """The published rule may come later than the gap: then what was asked for has been proven."""
    X, y = load_breast_cancer(return_X_y=True)
    options: dict[str, Any] = {
        "nu": 0.2,
        "atol": 0.05,
        "max_depth": 1,
        "step": "line-search",
        "textbook": True,
    }
    whole = SoftMarginBoostingClassifier("cerlpboost", **options).fit(X, y)
    gaps = whole.trace_["bound"] - whole.trace_["soft_margin"]
    first = int(np.argmax(gaps <= 0.0495))
    assert first < whole.n_iter_
    clf = SoftMarginBoostingClassifier("cerlpboost", **options, max_iter=first).fit(X, y)
    assert clf.status_ is Status.SOLVED
    assert clf.gap_ <= 0.05
