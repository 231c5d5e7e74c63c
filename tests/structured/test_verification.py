"""Structured SVMs certified anew: every claim and parameter, changed, is found out or harmless."""

import copy
import signal
import time
import warnings

import numpy as np
import pytest

from cornerstep import StructuredSVC, certify
from cornerstep.optimiser import Trace
from cornerstep.optimiser.result import Status
from cornerstep.structured import (
    ChainModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    MultilabelModel,
    check_model,
)
from support.fitted_models import chains
from support.structured_problems import Ranking, rankings

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: What certify need not find out when it is changed, and why.
HARMLESS = {
    "solver": "the way, not the problem: value and bound are recomputed",
    "sampling": "the way",
    "averaging": "the way",
    "max_iter": "the way",
    "time_limit": "the way",
    "check_every": "the way",
    "cache_passes": "the way",
    "cache_size": "the way",
    "geometry": "the way",
    "warm_start": "where the next fit starts",
    "n_jobs": "how many workers decode",
    "random_state": "the order of the examples",
    "debug": "what is checked on the way",
    "verbose": "what is printed",
    "callback": "who is told",
    "n_oracle_calls_": "the course of the run",
}

PARAMETERS = {
    "model": ChainModel(normalize=False), "C": 1.1, "lam": 0.2, "atol": 1e-9, "radius": 1.0,
    "solver": "fw", "sampling": "gap", "averaging": False, "tol": 1e-3, "max_iter": 1,
    "time_limit": 0.0, "check_every": 2, "cache_passes": 0, "cache_size": 1,
    "geometry": "euclidean", "warm_start": True, "n_jobs": 2, "random_state": None, "debug": True,
    "verbose": 0, "callback": print,
}  # fmt: skip
HARMLESS_VALUES = {"tol": "a looser tolerance claims less"}


def fitted(**options):
    X, Y = chains()
    return (
        StructuredSVC(ChainModel(), **{"atol": 0.01, "random_state": 0} | options).fit(X, Y),
        X,
        Y,
    )


def refused(model, X, Y):
    try:
        return not certify(model, X, Y).holds
    except (ValueError, TypeError, AttributeError):
        return True


@pytest.mark.parametrize("name", PARAMETERS)
def test_changed_parameters(name):
    model, X, Y = fitted()
    model.set_params(**{name: PARAMETERS[name]})
    assert refused(model, X, Y) == (name not in HARMLESS and name not in HARMLESS_VALUES)


def test_changed_attributes():
    model, X, Y = fitted()
    public = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    off = model.coef_.copy()
    off[0] += 1e-5
    values = {
        "coef_": [off, model.coef_[:-1], 1.001 * model.coef_, np.full_like(off, np.nan)],
        "status_": ["solved", None],
        "n_features_in_": [4],
        "n_iter_": [model.n_iter_ + 1],
        "trace_": [Trace(model.trace_.columns)],
        "machines_": [[], [model.machines_[0]._replace(gap=0.0)]],
        "model_": [ChainModel(biases=True)],
    }
    for name in ("lam_", "objective_", "bound_", "gap_", "relative_gap_"):
        value = getattr(model, name)
        values[name] = [value * (1 + 1e-5), value * (1 - 1e-5), np.nan]
    assert set(public) == set(values) | {name for name in HARMLESS if name.endswith("_")}
    for name, others in values.items():
        for value in others:
            liar = copy.copy(model)
            setattr(liar, name, value)
            assert refused(liar, X, Y), (name, value)


@pytest.mark.parametrize("name", ["labels_", "n_features_", "size", "transitions", "normalize"])
def test_changed_models(name):
    model, X, Y = fitted()
    liar = copy.copy(model)
    liar.model_ = copy.copy(model.model_)
    value = getattr(model.model_, name)
    setattr(liar.model_, name, value[::-1] if name == "labels_" else not value)
    assert refused(liar, X, Y)


@pytest.mark.parametrize("options", [
    {"max_iter": 0}, {"max_iter": 3}, {"solver": "fw", "max_iter": 7}, {"time_limit": 0.0},
    {"solver": "subgradient", "max_iter": 4}, {"solver": "extragradient", "max_iter": 30},
    {"solver": "extragradient", "radius": 2.0, "max_iter": 40}, {"lam": 1e-9, "max_iter": 30},
    {"atol": 1e-13, "max_iter": 300}, {"lam": 1e9},
])  # fmt: skip
def test_early_stops_and_any_lambda_hold(options):
    model, X, Y = fitted(**options)
    check = certify(model, X, Y)
    assert check.holds, check.problems
    assert model.bound_ <= model.objective_
    if options.get("max_iter") == 0:
        assert model.n_iter_ == 0


def exact_objective(model, X, Y, w, lam):
    """P(w) by enumeration in long double."""
    w, total = w.astype(np.longdouble), np.longdouble(0)

    def score(x, y):
        vector = model.joint_feature(x, y)
        vector = vector.dense() if hasattr(vector, "dense") else vector
        return np.asarray(vector, np.longdouble) @ w

    for x, y in zip(X, Y, strict=True):
        best = max(np.longdouble(model.loss(x, y, z)) + score(x, z) for z in model.labelings(x))
        total += best - score(x, y)
    return total / len(X) + np.longdouble(lam) / 2 * (w @ w)


def problem(kind, rng, scale):
    n = 4
    if kind == "chain":
        Y = [rng.integers(0, 3, 3) for _ in range(n)]
        return ChainModel(labels=[0, 1, 2]), [scale * rng.standard_normal((3, 2)) for _ in Y], Y
    if kind == "multiclass":
        return MulticlassModel(), scale * rng.standard_normal((6, 2)), np.arange(6) % 3
    if kind == "multilabel":
        tags = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0]])
        return MultilabelModel("full"), scale * rng.standard_normal((n, 2)), tags
    if kind == "graph":
        edges = np.array([[0, 1], [1, 2], [2, 0]])
        Y = [np.array([0, 1, 0]), np.array([1, 1, 0])]
        return GraphModel(), [(scale * rng.standard_normal((3, 2)), edges) for _ in Y], Y
    X = [scale * rng.standard_normal((2, 3, 2)) for _ in range(n)]
    return MatchingModel(), X, [rng.permutation(3)[:2] for _ in X]


@pytest.mark.parametrize("kind", ["chain", "multiclass", "multilabel", "graph", "matching"])
@pytest.mark.parametrize("seed", range(6))
def test_objectives_are_no_less_and_bounds_no_more_than_the_truth(kind, seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-6, 6)
    model, X, Y = problem(kind, rng, scale)
    lam = 10.0 ** rng.uniform(-6, 6) * scale**2
    names = ["bcfw", "bcfw-auto", "fw", "subgradient"]
    names += ["extragradient"] if kind in ("chain", "matching", "multiclass") else []
    points, bounds = [], []
    for solver in names:
        clf = StructuredSVC(model, lam=lam, solver=solver, atol=1e-14, max_iter=60, random_state=0)
        clf.fit(X, Y)
        value = exact_objective(clf.model_, X, Y, clf.coef_, lam)
        assert value <= np.longdouble(clf.objective_)
        size = 1 + float(np.abs(clf.coef_).max())  # of what is summed up, where X is not larger
        assert clf.objective_ - value <= 1e-12 * (value + max(scale, 1.0) * size)
        assert clf.status_ is not Status.SOLVED or clf.gap_ <= 1e-14
        points.append(value)
        bounds.append(np.longdouble(clf.bound_))
    assert max(bounds) <= min(points)


class Slow(Ranking):
    """Every answer takes its time."""

    seconds = 0.0
    press_at = -1
    calls = 0

    def loss_augmented_decode(self, x, y, w):
        Slow.calls += 1
        time.sleep(Slow.seconds)
        if Slow.calls == Slow.press_at:
            signal.raise_signal(signal.SIGINT)
        return super().loss_augmented_decode(x, y, w)


@pytest.mark.parametrize("solver", ["bcfw", "fw", "subgradient"])
def test_ctrl_c_does_not_wait_for_another_look(solver, monkeypatch):
    X, Y = rankings()
    n = len(X)
    monkeypatch.setattr(Slow, "seconds", 0.5 / n)
    monkeypatch.setattr(Slow, "calls", 0)
    monkeypatch.setattr(Slow, "press_at", 5 * n // 2)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        clf = StructuredSVC(Slow(), C=1.0, solver=solver, atol=1e-12, random_state=0).fit(X, Y)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert clf.status_ is Status.INTERRUPTED
    assert Slow.calls <= 5 * n // 2 + 4
    monkeypatch.setattr(Slow, "seconds", 0.0)
    assert certify(clf, X, Y).holds


@pytest.mark.parametrize("solver", ["bcfw", "subgradient"])
def test_a_time_limit_is_asked_for_within_a_pass(solver, monkeypatch):
    X, Y = rankings()
    X, Y = list(X) * 8, list(Y) * 8
    n = len(X)
    monkeypatch.setattr(Slow, "seconds", 0.2 / n)
    monkeypatch.setattr(Slow, "calls", 0)
    clf = StructuredSVC(Slow(), solver=solver, atol=1e-12, time_limit=0.5, averaging=False)
    clf.fit(X, Y)
    assert clf.status_ is Status.TIME_LIMIT
    assert Slow.calls < 6 * n
    monkeypatch.setattr(Slow, "seconds", 0.0)
    assert certify(clf, X, Y).holds


def test_edges_must_be_pairs_of_different_whole_numbers():
    nodes = np.ones((2, 1))
    with pytest.raises(ValueError, match="pairs of node numbers"):
        StructuredSVC(GraphModel()).fit([(nodes, [[0.5, 1]])], [[0, 1]])
    for edges in ([[0, 0]], [[0.5, 1.0]]):
        with pytest.raises(ValueError, match="pairs of different tags"):
            StructuredSVC(MultilabelModel(edges)).fit(np.eye(2), np.eye(2, dtype=int))


def test_no_examples_are_refused_clearly():
    model = fitted()[0]
    for ask in (lambda: model.predict([]), lambda: model.score([], [])):
        with pytest.raises(ValueError, match="at least one example"):
            ask()


def test_check_model_notices_what_is_overwritten():
    class Overwriting(ChainModel):
        def decode(self, x, w):
            answer = super().decode(x, w)
            x[:] = 0.0
            return answer

    X, Y = chains()
    with pytest.raises(AssertionError, match="decode is probably wrong: it changes"):
        check_model(Overwriting(), X, Y)
    check_model(ChainModel(), *chains())


def test_a_warning_turned_into_an_error_keeps_the_model():
    X, Y = chains()
    clf = StructuredSVC(ChainModel(), atol=1e-12, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="iteration limit"):
            clf.fit(X, Y)
    assert clf.predict(X)


def test_certify_knows_the_rounding_of_labelings_that_training_saw():
    """Labelings of large features raise the rounding that a model claims; w may decode others."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = [10.0 ** rng.uniform(3, 6) * rng.standard_normal((2, 2, 1)) for _ in range(2)]
        Y = [rng.permutation(2) for _ in X]
        clf = StructuredSVC(
            MatchingModel(normalize=True), C=4.0, atol=0.0, averaging=False, check_every=1,
            max_iter=1, random_state=seed,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(X, Y)
        assert certify(clf, X, Y).problems == ()
