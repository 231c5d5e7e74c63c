"""Soft-margin boosting: all methods reach the optimum of the full matrix, truly certified."""

import signal
import time
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from cornerstep import SoftMarginBoostingClassifier, Status, certify
from cornerstep.boosting import estimator as boosting
from cornerstep.boosting import long_work
from cornerstep.boosting import training as boosting_machine
from cornerstep.boosting.learners import trees as weak_learners
from cornerstep.boosting.learners.trees import FiniteLearner
from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.machine import mean_importances
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers import smoothed as soft_margin_smoothed
from cornerstep.boosting.solvers.frank_wolfe import STEPS
from cornerstep.boosting.solvers.master import Master
from cornerstep.boosting.solvers.methods import METHODS
from cornerstep.boosting.solvers.pool import Pool
from cornerstep.boosting.solvers.restriction import add_tail
from cornerstep.boosting.solvers.solver import BoostingSolver
from cornerstep.boosting.training import tree_learner
from cornerstep.core.clock import work_seconds
from cornerstep.optimiser.loop import Stopping, run
from support.soft_margins import lp_optimum


def all_stumps(X, y):
    """The margins of every stump, both signs, and of the constants."""
    rows = {tuple(y), tuple(-y)}
    for column in X.T:
        for value in np.unique(column):
            vote = np.where(column <= value, y, -y)
            rows |= {tuple(vote), tuple(-vote)}
    return np.array(sorted(rows))


def noisy(m=80, n_features=3, seed=0, decimals=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n_features)).round(decimals)
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=m) > 0, 1.0, -1.0)
    return X, y


def solve(problem, learner, tol, max_iter=5000, **options):
    solver = BoostingSolver(problem, learner, **options)
    return solver, run(solver, Stopping(tol, 0.0, max_iter))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nu", [0.1, 0.35, 1.0])
@pytest.mark.parametrize("real", [False, True])
def test_ends_within_eps_of_the_optimum_over_all_stumps(method, nu, real):
    if real:
        X, labels = load_breast_cancer(return_X_y=True)
        X, y = X[::6, :6].round(1), np.where(labels[::6], 1.0, -1.0)
    else:
        X, y = noisy()
    tol = 0.05 if method != "cerlpboost" else 0.2
    clf = SoftMarginBoostingClassifier(
        method, nu=nu, atol=tol, max_depth=1, step="line-search"
    ).fit(X, y)
    caps = np.full(y.size, 1 / (nu * y.size))
    optimum = lp_optimum(all_stumps(X, y), caps)
    assert clf.status_ is Status.SOLVED
    assert clf.bound_is_exact_
    assert optimum - tol - 1e-9 <= clf.objective_ <= optimum + 1e-9
    assert clf.bound_ >= optimum - 1e-9
    assert clf.gap_ == pytest.approx(clf.bound_ - clf.objective_)
    # every bound on the way is one, and never rises
    assert (clf.trace_["bound"] >= optimum - 1e-9).all()
    assert (clf.trace_["soft_margin"] <= optimum + 1e-9).all()
    # what is shown agrees with the data
    scores = y * clf.decision_function(X)
    np.testing.assert_allclose(scores, clf.margins_)
    problem = SoftMargin(np.ones(y.size), nu * y.size, tol)
    assert problem.value(scores) == pytest.approx(clf.objective_)
    d = clf.example_weights_
    assert d.sum() == pytest.approx(1)
    assert (d <= caps * (1 + 1e-9)).all()
    assert (all_stumps(X, y) @ d).max() == pytest.approx(clf.bound_)
    assert clf.estimator_weights_.sum() == pytest.approx(1)
    assert clf.estimator_weights_.min() > 0


def test_tight_tolerance():
    X, y = noisy()
    clf = SoftMarginBoostingClassifier(nu=0.2, atol=1e-6, max_depth=1).fit(X, y)
    optimum = lp_optimum(all_stumps(X, y), np.full(80, 1 / 16))
    assert clf.status_ is Status.SOLVED
    assert clf.objective_ == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("method", ["cerlpboost", "mlpboost"])
def test_steps_raise_the_smoothed_margin(step, method):
    X, y = noisy(60)
    problem = SoftMargin(np.ones(60), 12, 0.3)
    solver, outcome = solve(
        problem, FiniteLearner(all_stumps(X, y)), 0.3, max_iter=3000, method=method, step=step
    )
    g = outcome.trace["g"][:-1]  # the last row is the ensemble of largest soft margin, certified
    if step != "open-loop":
        assert (np.diff(g) >= -1e-10).all()
    assert outcome.status is Status.SOLVED
    assert (outcome.trace["g"] <= outcome.trace["soft_margin"] + 0.15 + 1e-9).all()
    assert (outcome.trace["g"] >= outcome.trace["soft_margin"] - 1e-12).all()
    assert sum(solver.best.weights) == pytest.approx(1)
    image = solver.best.weights @ solver.learner.margins(solver.chosen(solver.best))
    np.testing.assert_allclose(image, solver.best.image, atol=1e-12)


@pytest.mark.parametrize("secondary", ["lp", "entropic", "useless", "uniform"])
def test_any_secondary_keeps_the_guarantee(secondary):
    X, y = noisy(60)

    def first_only(margins, problem):
        return np.eye(len(margins))[0]

    def uniform(margins, problem):
        return np.ones(len(margins))

    chosen = {"useless": first_only, "uniform": uniform}.get(secondary, secondary)
    clf = SoftMarginBoostingClassifier(
        nu=0.4, atol=0.3, max_depth=1, secondary=chosen, step="line-search"
    ).fit(X, y)
    assert clf.status_ is Status.SOLVED
    assert clf.n_iter_ <= 32 * np.log(2.5) / 0.3**2 + 1


def test_secondary_must_answer_weights():
    X, y = noisy(30)
    with pytest.raises(ValueError, match="secondary must answer"):
        SoftMarginBoostingClassifier(secondary=lambda margins, problem: [1.0, 2.0, -1.0]).fit(X, y)


def worst_case(m, rise=0.002):
    """Margins on which LPBoost goes through m/2 hypotheses before it sees the second that matters.

    The first hypothesis is right on the first half, hopeless on the second.  Number k + 1 is right
    on the k-th example of the second half, hopeless on those after it, a little less so than the
    one before: the dual solution is all on the next example, where the next hypothesis is best.
    The last one is nearly right on the whole second half; with the first it makes the optimum.
    """
    half = m // 2
    hopeless = -1 + rise * np.arange(half)
    first = np.concatenate([np.ones(half), hopeless])
    rows = [first]
    for k in range(half):
        row = np.full(m, -0.5)
        row[half + k] = 1.0
        row[half + k + 1 :] = hopeless[k + 1 :] + rise * (k + 1)
        rows.append(row)
    return np.array([*rows, np.concatenate([np.full(half, -0.9), np.full(half, 0.9)])])


@pytest.mark.parametrize("m", [20, 60])
def test_lpboosts_worst_case_and_the_immunity_of_the_others(m):
    margins = worst_case(m)
    optimum = lp_optimum(margins, np.ones(m))
    rounds = {}
    for method in ("lpboost", "erlpboost", "mlpboost"):
        problem = SoftMargin(np.ones(m), 1.0, 0.1)
        solver, outcome = solve(problem, FiniteLearner(margins), 0.1, method=method)
        assert outcome.status is Status.SOLVED
        assert optimum - 0.1 <= solver.soft_margin <= optimum + 1e-9
        rounds[method] = outcome.n_iter
    assert rounds["lpboost"] >= m // 2
    assert rounds["mlpboost"] <= 4
    assert rounds["erlpboost"] <= 4


def test_fw_candidate_is_taken_when_it_is_better():
    X, y = noisy(60)

    def bad(margins, problem):
        return np.eye(len(margins))[int(np.argmin(margins.sum(axis=1)))]

    clf = SoftMarginBoostingClassifier(nu=0.3, atol=0.05, max_depth=1, secondary=bad).fit(X, y)
    assert len(clf.trace_) > 2
    assert (clf.trace_["kind"] == "fw").mean() > 0.5


def test_sample_weights_are_repetitions():
    X, y = noisy(40, decimals=8)
    weights = np.random.default_rng(0).integers(0, 4, 40)
    options: dict[str, Any] = {"nu": 0.3, "atol": 0.02}
    weighted = SoftMarginBoostingClassifier(**options).fit(X, y, sample_weight=weights)
    repeated = SoftMarginBoostingClassifier(**options).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    assert weighted.objective_ == pytest.approx(repeated.objective_, abs=1e-12)
    assert weighted.bound_ == pytest.approx(repeated.bound_, abs=1e-12)
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X))
    assert (weighted.example_weights_[weights == 0] == 0).all()
    scaled = SoftMarginBoostingClassifier(**options).fit(X, y, sample_weight=0.1 * weights)
    assert scaled.objective_ == pytest.approx(weighted.objective_, abs=1e-3)
    count = SoftMarginBoostingClassifier(nu=int(0.3 * weights.sum()), atol=0.02)
    assert count.fit(X, y, sample_weight=weights).gap_ <= 0.02


def test_order_of_rows_and_names_of_classes_do_not_matter():
    X, y = noisy(50)
    names = np.where(y > 0, "yes", "no")
    shuffle = np.random.default_rng(0).permutation(50)
    plain = SoftMarginBoostingClassifier(nu=0.1, atol=0.05).fit(X, y)
    other = SoftMarginBoostingClassifier(nu=0.1, atol=0.05).fit(X[shuffle], names[shuffle])
    assert plain.objective_ == pytest.approx(other.objective_, abs=1e-12)
    np.testing.assert_array_equal(np.where(plain.predict(X) > 0, "yes", "no"), other.predict(X))


def test_nu_counts_and_shares():
    X, y = noisy(50)
    share = SoftMarginBoostingClassifier(nu=0.2, atol=0.05).fit(X, y)
    count = SoftMarginBoostingClassifier(nu=10, atol=0.05).fit(X, y)
    assert share.objective_ == count.objective_
    hard = SoftMarginBoostingClassifier(nu=1, atol=0.05).fit(X, y)
    assert hard.objective_ == pytest.approx(hard.margins_.min())
    mean = SoftMarginBoostingClassifier(nu=1.0, atol=0.05).fit(X, y)
    assert mean.objective_ == pytest.approx(mean.margins_.mean())


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_nu_is_chosen_by_examples_held_out(noise):
    """The more labels are wrong the larger; the model is that of the number, and certified."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1) * np.where(rng.random(300) < noise, -1, 1)
    clf = SoftMarginBoostingClassifier(atol=0.05).fit(X, y)
    assert (clf.nu_ >= 0.5) == (noise > 0)
    same = SoftMarginBoostingClassifier(nu=clf.nu_, atol=0.05).fit(X, y)
    assert clf.objective_ == same.objective_
    assert clf.bound_ == same.bound_
    assert certify(clf, X, y).holds
    again = SoftMarginBoostingClassifier(atol=0.05, random_state=7)
    assert again.fit(X, y).nu_ == again.fit(X, y).nu_


def test_nothing_is_held_out_where_a_class_is_rare():
    X, y = noisy(40)
    y = np.where(np.arange(40) < 3, 7, y)
    assert SoftMarginBoostingClassifier(atol=0.1).fit(X, y).nu_ == 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_nu_is_chosen_without_time():
    X, y = noisy(60)
    assert SoftMarginBoostingClassifier(time_limit=0.0).fit(X, y).nu_ == 0.1


def test_a_single_hypothesis_that_errs_is_warned_of():
    X, y = noisy(60)
    with pytest.warns(UserWarning, match=r"is a single hypothesis: nu=1.0 .* take a smaller nu"):
        SoftMarginBoostingClassifier(nu=1.0, atol=0.1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SoftMarginBoostingClassifier(nu=1.0, atol=0.1).fit(X, X[:, 0] > 0)  # one tree is right


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nu": 0.0}, "nu must be 'auto', a share"),
        ({"nu": 1.5}, "nu must be 'auto', a share"),
        ({"nu": 0}, "nu must be 'auto', a share"),
        ({"nu": True}, "nu must be 'auto', a share"),
        ({"nu": 51}, "nu must be at most the number of examples"),
        ({"atol": 0}, "atol must be a positive number"),
        ({"solver": "adaboost"}, "solver must be one of"),
        ({"step": "long"}, "step must be one of"),
        ({"secondary": "third"}, "secondary must be one of"),
        ({"weak_learner": "forest"}, "weak_learner must be one of"),
        ({"weak_learner": 3}, "weak_learner must be 'tree' or"),
        ({"weak_learner": KNeighborsClassifier()}, "must take sample_weight"),
        ({"max_depth": 0}, "max_depth must be an integer"),
        ({"max_bins": 1}, "max_bins must be an integer"),
        ({"max_iter": -1}, "max_iter must be an integer"),
    ],
)
def test_bad_parameters_give_one_clear_line(options, message):
    X, y = noisy(50)
    with pytest.raises(ValueError, match=message):
        SoftMarginBoostingClassifier(**options).fit(X, y)


def test_bad_data():
    X, y = noisy(50)
    with pytest.raises(ValueError, match="only one class"):
        SoftMarginBoostingClassifier().fit(X, np.ones(50))
    with pytest.raises(ValueError, match="NaN"):
        SoftMarginBoostingClassifier().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="minimum of 2"):
        SoftMarginBoostingClassifier().fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="at least two classes"):
        SoftMarginBoostingClassifier().fit(X, y, sample_weight=(y > 0).astype(float))


@pytest.mark.parametrize(
    "weak_learner", [DecisionTreeClassifier(max_depth=2), GaussianNB(), Perceptron()]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_weak_learners(weak_learner):
    X, y = noisy(60)
    clf = SoftMarginBoostingClassifier(
        weak_learner=weak_learner, nu=0.4, atol=0.1, max_iter=40, random_state=0
    )
    clf.fit(X, y)
    assert not clf.bound_is_exact_
    assert clf.objective_ <= clf.bound_ + 0.1
    np.testing.assert_allclose(y * clf.decision_function(X), clf.margins_)
    if isinstance(weak_learner, DecisionTreeClassifier):
        assert clf.feature_importances_.sum() == pytest.approx(1)
    else:
        assert not hasattr(clf, "feature_importances_")


def test_more_classes():
    X, y = load_iris(return_X_y=True)
    clf = SoftMarginBoostingClassifier(atol=0.05).fit(X, y)
    assert [machine.gap <= 0.05 for machine in clf.machines_] == [True] * 3
    assert clf.gap_ == max(machine.gap for machine in clf.machines_)
    assert clf.relative_gap_ == max(machine.relative_gap for machine in clf.machines_)
    assert clf.margins_.shape == clf.example_weights_.shape == (150, 3)
    assert clf.decision_function(X).shape == (150, 3)
    assert clf.score(X, y) > 0.95
    last = list(clf.staged_predict(X))[-1]
    np.testing.assert_array_equal(last, clf.predict(X))


def test_reweighting_a_forest():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    forest = RandomForestClassifier(15, max_depth=2, random_state=0).fit(X, names)
    clf = SoftMarginBoostingClassifier(nu=0.2, atol=1e-4).reweight(X, names, forest)
    for k in range(3):
        signs = np.where(y == k, 1.0, -1.0)
        margins = np.array([np.where(t.predict(X) == k, signs, -signs) for t in forest.estimators_])
        optimum = lp_optimum(margins, np.full(150, 1 / 30))
        machine = clf.machines_[k]
        assert machine.objective <= optimum + 1e-9 <= machine.bound + 2e-9
        assert machine.gap <= 1e-4
    assert clf.bound_is_exact_
    assert set(clf.predict(X)) <= {"a", "b", "c"}
    with pytest.raises(ValueError, match="estimators must be fitted classifiers"):
        SoftMarginBoostingClassifier().reweight(X, y, [LogisticRegression()])


def test_stages_importances_and_trace():
    X, y = noisy(100, 4)
    clf = SoftMarginBoostingClassifier(nu=0.2, atol=0.05).fit(X, y)
    stages = list(clf.staged_decision_function(X))
    np.testing.assert_allclose(stages[-1], clf.decision_function(X))
    assert len(stages) == len(clf.staged_rounds_)
    problem = SoftMargin(np.ones(100), 20, 0.05)
    rhos = [problem.value(y * scores) for scores in stages]
    assert (np.diff(rhos) > 0).all()
    importances = clf.feature_importances_
    assert importances.sum() == pytest.approx(1)
    assert importances.min() >= 0
    assert importances[:2].sum() > importances[2:].sum()
    for column in ("iteration", "seconds", "edge", "g", "soft_margin", "bound", "gap", "kind"):
        assert len(clf.trace_[column]) == len(clf.trace_)
    assert clf.trace_["hypotheses"][-1] == len(clf.estimators_)


def test_warm_start_continues():
    X, y = noisy(100)
    clf = SoftMarginBoostingClassifier(nu=0.2, atol=0.1, warm_start=True).fit(X, y)
    cold = SoftMarginBoostingClassifier(nu=0.2, atol=0.02).fit(X, y)
    first = clf.objective_
    clf.set_params(atol=0.02).fit(X, y)
    assert clf.gap_ <= 0.02
    assert -clf.trace_["value"][0] >= first - 1e-9
    assert clf.n_iter_ <= cold.n_iter_
    clf.fit(X[:, :2], y)  # other features: from scratch
    assert clf.n_features_in_ == 2


def test_limits_keep_the_best_model():
    X, y = noisy(100)
    clf = SoftMarginBoostingClassifier(nu=0.1, atol=1e-3, time_limit=0.0).fit(X, y)
    assert clf.status_ is Status.TIME_LIMIT
    assert clf.bound_ >= clf.objective_
    with pytest.warns(UserWarning, match="stopped at a gap of"):
        clf = SoftMarginBoostingClassifier(nu=0.1, atol=1e-3, max_iter=2).fit(X, y)
    assert clf.status_ is Status.ITERATION_LIMIT


def test_one_interrupt_is_enough_for_several_classes(monkeypatch):
    runs = []

    def counted(*arguments, **options):
        runs.append(1)
        return run(*arguments, **options)

    monkeypatch.setattr(boosting_machine, "run", counted)
    monkeypatch.setattr(boosting, "deferred_interrupt", lambda: nullcontext(lambda: bool(runs)))
    X, y = load_iris(return_X_y=True)
    y = np.random.default_rng(0).permutation(y)
    clf = SoftMarginBoostingClassifier(nu=0.1, atol=1e-6).fit(X, y)
    assert clf.status_ is Status.INTERRUPTED
    assert [len(machine.trace) for machine in clf.machines_] == [1, 1, 1]
    assert len(runs) == 1
    assert all(machine.bound >= machine.objective for machine in clf.machines_)
    assert clf.predict(X).shape == y.shape


class Odd(ClassifierMixin, BaseEstimator):
    """Answers what it is told to."""

    def __init__(self, label=0, probability=None):
        self.label, self.probability = label, probability

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return None if self.label is None else np.full(len(X), self.label)


class OddRated(Odd):
    def predict_proba(self, X):
        return np.full((len(X), 2), self.probability)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (DecisionTreeRegressor(max_depth=1), "scikit-learn classifier, got DecisionTreeRegressor"),
        (DecisionTreeClassifier, "scikit-learn classifier, got <class"),
        (Odd(7), "one of the classes 0, 1, got 7"),
        (Odd("a"), "one of the classes 0, 1, got a"),
        (Odd(None), "a class for each of the"),
        (OddRated(0, np.nan), "probabilities from 0 to 1, got nan"),
        (OddRated(0, 2.0), "probabilities from 0 to 1, got 2"),
    ],
)
def test_learners_that_are_no_classifiers_give_one_clear_line(learner, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        SoftMarginBoostingClassifier(weak_learner=learner).fit(X, y)


@pytest.mark.parametrize("first", [0, 1, "name"])
def test_reweighting_members_that_see_some_features(first):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y] if first == "name" else y + first
    members = BaggingClassifier(
        DecisionTreeClassifier(max_depth=2), 12, max_features=2, random_state=0
    ).fit(X, names)
    clf = SoftMarginBoostingClassifier(nu=0.3, atol=1e-3).reweight(X, names, members)
    for k in range(3):
        signs = np.where(y == k, 1.0, -1.0)
        pairs = zip(members.estimators_, members.estimators_features_, strict=True)
        rows = [np.where(tree.predict(X[:, seen]) == k, signs, -signs) for tree, seen in pairs]
        edges = np.array(rows) @ clf.example_weights_[:, k]
        assert edges.max() <= clf.machines_[k].bound
    assert clf.score(X, names) > 0.9
    assert clf.feature_importances_.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="know the class"):
        clf.reweight(X, np.array(["x", "y", "z"])[y], [DecisionTreeClassifier().fit(X, y + 5)])


def test_long_rounds_ask_the_clock(monkeypatch):
    """Every search and every step of the masters asks; what is known then is certified."""
    X, y = load_breast_cancer(return_X_y=True)
    original = weak_learners.TreeLearner.search
    slow: list[bool] = []

    def search(self, signed, depth):
        if slow:
            time.sleep(0.05)
        slow.append(self.expired())
        return original(self, signed, depth)

    monkeypatch.setattr(weak_learners.TreeLearner, "search", search)
    for method in ("mlpboost", "lpboost", "cerlpboost"):
        slow.clear()
        clf = SoftMarginBoostingClassifier(method, nu=0.1, atol=1e-6, time_limit=0.3).fit(X, y)
        assert clf.status_ is Status.TIME_LIMIT
        assert sum(slow) <= 2  # asked by a move and by the look after it, which give up at once
        assert clf.objective_ <= clf.bound_


class Answering:
    """Says that the time is up when asked for the ``k``-th time, and from then on."""

    def __init__(self, k):
        self.k, self.asked = k, 0

    def __call__(self):
        self.asked += 1
        return self.asked >= self.k


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 2, 3, 7, 20, 60, 150, 400])
def test_work_that_is_told_to_end_ends_at_once(method, k, monkeypatch):
    """Whatever is going on then: set-up, search, Newton step, line search."""
    monkeypatch.setattr(long_work, "_AT_ONCE", 2000)  # several parts of everything
    X, y = load_breast_cancer(return_X_y=True)
    ask = Answering(k)
    monkeypatch.setattr(boosting, "deferred_interrupt", lambda: nullcontext(ask))
    clf = SoftMarginBoostingClassifier(method, nu=0.1, atol=1e-9).fit(X, y)
    assert clf.status_ is Status.INTERRUPTED
    assert ask.asked <= k + 9  # those on the way out, which give up as well
    assert certify(clf, X, y).holds


def test_long_work_asks_for_every_part(monkeypatch):
    X, y = load_breast_cancer(return_X_y=True)
    signs, weights = np.where(y, 1.0, -1.0), np.ones(y.size)
    d = np.full(y.size, 1 / 512)
    monkeypatch.setattr(weak_learners, "_LARGE", 0)
    answers = []
    for size in (1 << 20, 5690):
        monkeypatch.setattr(long_work, "_AT_ONCE", size)
        ask = Answering(np.inf)
        learner, groups = tree_learner(2, 255, 1)(X, signs, weights, ask)
        assert ask.asked > 3 * X.shape[1]  # cuts, bins, orders
        assert groups.size == y.size
        ask.asked = 0
        answers.append(learner.query(d[: learner.labels.size]))
        assert ask.asked >= 2 * X.shape[1] + X.shape[1] * y.size // size
        ask.asked = 0
        learner.propose(d[: learner.labels.size])
        assert ask.asked >= X.shape[1] + 2 * X.shape[1] * y.size // size
    first, second = answers
    assert first.edge == second.edge
    np.testing.assert_array_equal(first.margins, second.margins)
    # the master
    problem = SoftMargin(np.ones(y.size), 60, 0.01)
    asked = []
    for size in (1 << 20, 5690):
        monkeypatch.setattr(long_work, "_AT_ONCE", size)
        master = Master(problem)
        master.expired = Answering(np.inf)
        solution = master.solve(first.margins, 1e-6)
        assert solution.edge - solution.soft_margin <= 1e-6
        asked.append(master.expired.asked / master.iterations)
    assert asked[0] >= 2
    assert asked[1] >= 5 * asked[0]


@pytest.mark.parametrize("kind", ["bins", "floats"])
def test_equal_rows_are_grouped_and_the_clock_is_asked(kind):
    """By the bytes of the rows; groups are in the order of their bytes, members in their own."""
    rng = np.random.default_rng(0)
    rows: Any = rng.integers(0, 300 if kind == "bins" else 2, (400, 2)).astype(np.uint16)
    rows = np.tile(rows, (2, 1)) if kind == "bins" else rows - np.float64(0.5)
    labels = np.where(rng.random(len(rows)) < 0.5, 1.0, -1.0)
    ask = Answering(np.inf)
    first, groups = boosting_machine.group_equal_rows(rows, labels, ask)
    keys = [row.tobytes() for row in np.column_stack([rows, labels > 0])]
    assert ask.asked >= 2 * rows.shape[1]
    assert [keys[k] for k in first] == sorted(set(keys))
    assert [keys[first[group]] for group in groups] == keys
    assert [keys.index(key) for key in sorted(set(keys))] == first.tolist()
    with pytest.raises(SearchExpiredError):
        boosting_machine.group_equal_rows(rows, labels, Answering(3))


def test_hypotheses_come_in_all_or_not_at_all(monkeypatch):
    monkeypatch.setattr(long_work, "_AT_ONCE", 100)
    margins = np.sign(np.random.default_rng(0).normal(size=(30, 50)))
    pool = Pool(50)
    with pytest.raises(SearchExpiredError):
        pool.add(range(30), margins, Answering(10))
    assert len(pool) == len(pool.hypotheses) == 0
    assert pool.add(range(30), margins, Answering(16)) == 30


def test_the_first_search_leaves_time_for_what_follows_it():
    X, y = noisy()
    needed = []
    problem = SoftMargin(np.ones(80), 8.0, 0.1)

    def ask(closing: float) -> bool:
        needed.append(closing)
        return False

    BoostingSolver(
        problem, tree_learner(1, 255, 1)(X, y, np.ones(80))[0],
        expired=ask,
    )  # fmt: skip
    assert needed
    assert min(needed) > 0
    clock = boosting_machine.Clock(lambda: False, work_seconds() + 1000, 0.0)
    assert not clock.expired()
    assert clock.expired(1001.0)


def test_limits_too_short_for_a_first_hypothesis_give_one_answer_for_all(monkeypatch):
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr(boosting_machine, "_LEAST", 0.0)
    clf = SoftMarginBoostingClassifier(time_limit=0.0).fit(X, y)
    assert clf.status_ is Status.TIME_LIMIT
    assert np.unique(clf.predict(X)).size == 1
    assert all(machine.bound == 1 for machine in clf.machines_)
    assert certify(clf, X, y).holds


def test_ctrl_c_at_the_end_does_not_lose_the_model(monkeypatch):
    def pressing(*arguments):
        signal.raise_signal(signal.SIGINT)
        return mean_importances(*arguments)

    X, y = load_breast_cancer(return_X_y=True)
    monkeypatch.setattr(boosting, "mean_importances", pressing)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # background: ignored
    try:
        clf = SoftMarginBoostingClassifier(nu=0.1, atol=0.1).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert clf.status_ is Status.SOLVED
    assert clf.feature_importances_.sum() == pytest.approx(1)


def test_plot_margins():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = load_iris(return_X_y=True)
    clf = SoftMarginBoostingClassifier(atol=0.1).fit(X, y)
    assert len(clf.plot_margins().get_lines()) == 6


@pytest.mark.parametrize("presses", [(9,), (1,)])
def test_ctrl_c_ends_all_machines_and_keeps_a_model(presses):
    """Pressed in the second machine's rounds, or before the first round of the first one."""
    X, y = load_iris(return_X_y=True)
    calls = []

    class Pressing(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            calls.append(len(X))
            if len(calls) in presses:
                signal.raise_signal(signal.SIGINT)
            return super().fit(X, y, sample_weight)

    clf = SoftMarginBoostingClassifier(
        "cerlpboost", nu=0.2, atol=1e-3, weak_learner=Pressing(max_depth=1), max_iter=6
    )
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # background: ignored
    try:
        clf.fit(X, y)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert clf.status_ is Status.INTERRUPTED
    assert len(calls) <= presses[0] + 6  # those to come were not trained
    assert len(clf.machines_) == 3
    assert all(machine.objective <= machine.bound + 1e-9 for machine in clf.machines_)
    assert clf.predict(X).shape == y.shape
    assert clf.machines_[2].trace["iteration"][-1] == 0
    for k in range(3):
        margins = np.where(y == k, 1, -1) * clf.decision_function(X)[:, k]
        problem = SoftMargin(np.ones(150), 30, 1e-3)
        assert problem.value(margins) == pytest.approx(clf.machines_[k].objective)


@pytest.mark.parametrize("seed", [0, 2, 10, 16, 17, 27, 29, 31])
def test_few_rows_that_contradict_each_other_end(seed, monkeypatch):
    """The examples near the threshold change with every solution; the master must not go round."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (12, 3)).astype(float)
    y = np.where(rng.random(12) < 0.5, 1, -1)
    y[:2] = 1, -1
    calls = []

    def near(*arguments):
        calls.append(1)
        assert len(calls) < 500
        return add_tail(*arguments)

    monkeypatch.setattr(soft_margin_smoothed, "add_tail", near)
    fitted = SoftMarginBoostingClassifier(nu=0.1, atol=0.01).fit(X, y)
    assert calls
    assert fitted.status_ is Status.SOLVED
    assert fitted.gap_ <= 0.01
