"""Boosting certified anew: every claim and parameter, changed, is found out or harmless."""

import copy
import signal
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

from cornerstep import SoftMarginBoostingClassifier, certify
from cornerstep.boosting.learners.trees import TreeLearner, evaluate
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.methods import METHODS
from cornerstep.learning.certificates import MachineProof
from cornerstep.optimiser.result import Status, Trace

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: What certify need not find out when it is changed, and why.
HARMLESS = {
    "solver": "the way, not the problem: value and bound are recomputed",
    "step": "the way",
    "secondary": "the way",
    "max_iter": "the way",
    "time_limit": "the way",
    "warm_start": "where the next fit starts",
    "random_state": "the trees draw nothing",
    "n_jobs": "how many threads search",
    "verbose": "what is printed",
    "callback": "who is told",
    "trace_": "the course of the run",
}


def data(seed=0, n=60, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = (X @ rng.standard_normal((3, classes)) + rng.standard_normal((n, classes))).argmax(axis=1)
    y[:classes] = range(classes)
    return X, y


def fitted(classes, **options):
    X, y = data(classes=classes)
    options = {"nu": 0.2, "atol": 0.05, "max_depth": 2, "max_bins": 20} | options
    return SoftMarginBoostingClassifier(**options).fit(X, y), X, y


def refused(model, X, y, **more):
    """Whether a model is found out: by what certify says, or by an error of its own."""
    try:
        return not certify(model, X, y, **more).holds
    except (ValueError, TypeError, AttributeError):
        return True


PARAMETERS = {
    "nu": 0.25, "atol": 1e-4, "weak_learner": DecisionTreeClassifier(), "max_depth": 1,
    "max_bins": 7, "class_weight": {0: 3.0}, "solver": "lpboost", "step": "pairwise",
    "secondary": "entropic", "max_iter": 1, "time_limit": 1.0, "warm_start": True,
    "random_state": 3, "n_jobs": 2, "verbose": 1, "callback": print, "tol": 1e-3,
}  # fmt: skip


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", PARAMETERS)
def test_changed_parameters(name, classes):
    model, X, y = fitted(classes)
    assert certify(model, X, y).holds
    model.set_params(**{name: PARAMETERS[name]})
    assert refused(model, X, y) == (name not in {*HARMLESS, "tol"})  # a looser one claims less


def changes(value):
    """Values other than this one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, Status):
        return [Status.TIME_LIMIT, "solved"]
    if isinstance(value, (int, float)):
        return [type(value)(value + 1), *([value * (1 + 1e-6)] if value % 1 else [])]
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        off = value.copy()
        off.flat[0] += 1e-6
        return [off, value[:-1], 1.001 * value, np.full_like(value, np.nan)]
    if isinstance(value, np.ndarray):
        return [value[::-1], value + 1]
    if isinstance(value, Trace):
        return [Trace(value.columns)]
    if isinstance(value[0], MachineProof):
        first = value[0]._replace(objective=value[0].objective + 1e-6)
        return [value[:-1], [first, *value[1:]], [value[0]._replace(gap=0.0), *value[1:]]]
    return [value[:-1], value[::-1]]


@pytest.mark.parametrize("classes", [2, 3])
def test_changed_attributes(classes):
    model, X, y = fitted(classes)
    public = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    assert {"objective_", "bound_", "gap_", "estimators_", "margins_"} <= set(public)
    for name in [*public, "_importances", "_kind", "_reweighted"]:
        if name in HARMLESS:
            continue
        for value in changes(getattr(model, name)):
            liar = copy.copy(model)
            setattr(liar, name, value)
            assert refused(liar, X, y), (name, value)


@pytest.mark.parametrize("part", ["weights", "soft_margin", "bound", "margins", "distribution"])
def test_changed_machines(part):
    model, X, y = fitted(3)
    for value in changes(getattr(model._machines[1], part)):
        liar = copy.copy(model)
        liar._machines = list(model._machines)
        liar._machines[1] = replace(model._machines[1], **{part: value})
        assert refused(liar, X, y), value


def test_changed_trees():
    model, X, y = fitted(2)
    tree = model._machines[0].hypotheses[0]
    for other in (
        tree._replace(leaves=-tree.leaves),
        tree._replace(features=(tree.features + 1) % 3),
        tree._replace(features=tree.features + 10**9),
        tree._replace(thresholds=tree.thresholds + 1e-3),
        tree._replace(leaves=tree.leaves[:-1]),
    ):
        liar = copy.copy(model)
        trees = [other, *model._machines[0].hypotheses[1:]]
        stages = [*model._machines[0].stages[:-1], (1, trees, model._machines[0].weights)]
        liar._machines = [replace(model._machines[0], hypotheses=trees, stages=stages)]
        liar.estimators_ = trees
        assert refused(liar, X, y), other


@pytest.mark.parametrize("seed", range(40))
def test_random_models_hold_at_any_scale(seed):
    """Early stops, warm starts with other parameters, weights of any size, ties."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.integers(4, 50)), int(rng.integers(2, 4))
    X = rng.standard_normal((n, int(rng.integers(1, 4)))) * 10.0 ** rng.uniform(-9, 9)
    if seed % 2:
        X = np.round(3 * X / abs(X).max())
    y = rng.integers(0, classes, n)
    y[:classes] = range(classes)
    weights = 10.0 ** rng.uniform(-12, 12, n) if seed % 3 else np.ones(n)
    depths, bins = rng.integers(1, 5, 2), rng.choice([2, 4, 255], 2)
    model = SoftMarginBoostingClassifier(
        nu=rng.uniform(0.01, 1.0), atol=10.0 ** rng.uniform(-10, -1), max_depth=int(depths[0]),
        max_bins=int(bins[0]), max_iter=int(rng.choice([0, 1, 30])), warm_start=True,
    )  # fmt: skip
    for depth, most in zip(depths, bins, strict=True):
        model.set_params(max_depth=int(depth), max_bins=int(most)).fit(X, y, weights)
        check = certify(model, X, y, sample_weight=weights)
        assert check.holds, check.problems
        X = X + rng.integers(-1, 2, X.shape)
        if model.max_iter == 0:
            assert model.n_iter_ == 0


@pytest.mark.parametrize("seed", range(12))
def test_optimum_over_all_stumps_lies_between(seed):
    """The whole linear program, by HiGHS, with the bound compared to the last digit."""
    rng = np.random.default_rng(seed)
    n, nu = int(rng.integers(5, 25)), rng.uniform(0.1, 1.0)
    X = np.round(rng.standard_normal((n, 2)), 1)
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    weights = 10.0 ** rng.uniform(-6, 6, n)
    model = SoftMarginBoostingClassifier(nu=nu, atol=1e-9, max_depth=1).fit(X, y, weights)
    signs = np.where(y == 1, 1.0, -1.0)
    cuts = [(f, t) for f in range(2) for t in np.unique(X[:, f])]
    rows = np.array([np.where(X[:, f] <= t, signs, -signs) for f, t in cuts])
    rows = np.vstack([rows, -rows])
    caps = weights / (nu * weights.sum())
    cost = np.append(np.zeros(n), 1.0)
    answer = linprog(
        cost, np.column_stack([rows, -np.ones(len(rows))]), np.zeros(len(rows)),
        np.append(np.ones(n), 0.0)[None], [1.0],
        [(0, min(cap, 1.0)) for cap in caps] + [(None, None)], method="highs",
    )  # fmt: skip
    assert model.objective_ - 1e-7 <= answer.fun <= model.bound_ + 1e-7
    # the bound is that of the distribution, in long double
    d = model.example_weights_.astype(np.longdouble)
    assert d.sum() == 1
    assert (rows.astype(np.longdouble) @ d).max() <= model.bound_
    margins = signs * (model.estimator_weights_ @ evaluate(model.estimators_, X))
    assert model.objective_ <= SoftMargin(weights, nu * weights.sum(), 0.1).value(margins)


@pytest.mark.parametrize("seed", range(30))
def test_distributions_are_made_of_units_within_their_caps(seed):
    """They sum to 1, or to the caps in whole units where those sum to less."""
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(-12, 12, int(rng.integers(1, 200)))
    total = float(weights.sum())
    shares = (1.0, 1e-30, rng.uniform(0.01, 1), 1 - 1e-14)
    for share in shares:
        problem = SoftMargin(weights, total * share, 0.1)
        most = np.floor(np.minimum(problem.caps, 1.0) * 2.0**52)
        for d in (problem.prior, problem.caps, rng.random(weights.size), np.zeros(weights.size)):
            units = problem.admissible(d) * 2.0**52
            assert (units % 1 == 0).all()
            assert (units >= 0).all()
            assert (units <= most).all()
            assert sum(int(u) for u in units) == min(2**52, sum(int(u) for u in most))
        groups = rng.integers(0, int(rng.integers(1, 50)), weights.size)
        groups = np.unique(groups, return_inverse=True)[1]
        whole = problem.merged(groups)
        for d in (whole.prior, whole.caps, rng.random(whole.size)):
            d = whole.admissible(d)
            parts = problem.spread(d, groups)
            np.testing.assert_array_equal(np.bincount(groups, weights=parts), d)
            assert (parts >= 0).all()
            assert (parts * 2.0**52 <= most).all()
            missing = 1 - parts.astype(np.longdouble).sum()
            assert 0 <= missing <= weights.size * 2.0**-52 * (share > 0.99)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nu", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_examples_that_weigh_next_to_nothing_keep_their_caps(method, nu, seed):
    """Also where several of them look the same to the weak learner and share a part."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (24, 2)).astype(float)
    y = np.append(rng.integers(0, 2, 22), [0, 1])
    weights = 10.0 ** rng.uniform(-14, 0, 24)
    model = SoftMarginBoostingClassifier(method, nu=nu, atol=1e-3, max_iter=20)
    model.fit(X, y, weights)
    d = model.example_weights_.astype(np.longdouble)
    own = weights.astype(np.longdouble)
    caps = own / (np.longdouble(nu) * own.sum())
    assert (d >= 0).all()
    assert (d <= caps * (1 + 1e-12)).all()
    assert abs(d.sum() - 1) <= 24 * 2.0**-52
    assert certify(model, X, y, sample_weight=weights).holds
    # one of them above its cap, by as little as it weighs
    least = int(weights.argmin())
    liar, above = copy.copy(model), model.example_weights_.copy()
    above[least] = 2 * caps[least]
    liar.example_weights_ = above
    liar._machines = [replace(model._machines[0], distribution=above)]
    assert not certify(liar, X, y, sample_weight=weights).holds


def test_other_learners_are_recomputed_as_far_as_they_can_be():
    X, y = data(classes=3)
    stumps = DecisionTreeClassifier(max_depth=1)
    bag = BaggingClassifier(stumps, 9, max_features=2, random_state=0).fit(X, y)
    models = [
        SoftMarginBoostingClassifier(nu=0.3, weak_learner=stumps, max_iter=5).fit(X, y),
        SoftMarginBoostingClassifier(nu=0.3).reweight(X, y, bag),
    ]
    for model in models:
        with pytest.raises(ValueError, match="all else the model claims was recomputed"):
            certify(model, X, y)
        liar = copy.copy(model)
        liar._machines = [replace(m, soft_margin=m.soft_margin + 0.01) for m in model._machines]
        liar.objective_ = model.objective_ + 0.01
        assert not certify(liar, X, y).holds


def test_machines_that_were_never_trained_are_certified_too(monkeypatch):
    """Ctrl-C in the first of three: the others give one answer for all, and claim no more."""
    X, y = data(classes=3)
    original, calls = TreeLearner.search, []

    def search(self, signed, depth):
        calls.append(depth)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        return original(self, signed, depth)

    monkeypatch.setattr(TreeLearner, "search", search)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        model = SoftMarginBoostingClassifier(nu=0.2, atol=1e-9).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert model.status_ is Status.INTERRUPTED
    assert len(calls) == 4
    assert [machine.bound for machine in model.machines_[1:]] == [1.0, 1.0]
    check = certify(model, X, y)
    assert check.holds, check.problems
