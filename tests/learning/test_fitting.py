"""A fit that fails, for whatever reason and whenever, leaves the old model whole."""

from __future__ import annotations

import copy
import signal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from cornerstep import (
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    Status,
    StructuredSVC,
    certify,
    regularization_path,
)
from cornerstep.optimiser import loop
from cornerstep.structured import ChainModel

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.arange(60) % 2
WORDS = np.array(["yes", "no"])[Y]
WIDE = RNG.standard_normal((40, 5))
THREE = np.arange(40) % 3


class Broken(DecisionTreeClassifier):
    """A weak learner that gives up."""

    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("no")


def _negative(model):
    model.fit(X, WORDS, sample_weight=-np.ones(60))


def _one_class(model):
    model.fit(WIDE, np.zeros(40))


def _none(model):
    model.fit(X, WORDS, sample_weight=np.zeros(60))


MODELS = {
    "linear": MulticlassSVC(random_state=0),
    "rbf": MulticlassSVC(kernel="rbf", random_state=0),
    "envelope": MulticlassSVC(solver="envelope"),
    "hull": ReducedHullSVC(C=1.0),
    "trees": SoftMarginBoostingClassifier(),
}


@pytest.mark.parametrize("failure", [_negative, _one_class, _none])
@pytest.mark.parametrize("name", MODELS)
def test_bad_data(name, failure):
    model = copy.deepcopy(MODELS[name]).fit(X, Y)
    before, expected = dict(vars(model)), model.predict(X)
    with pytest.raises(ValueError):  # noqa: PT011
        failure(model)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is before[key] for key in before)
    assert np.array_equal(model.predict(X), expected)


@pytest.mark.parametrize("at", ["look", "certify"])
@pytest.mark.parametrize("name", MODELS)
def test_a_failure_on_the_way(name, at, monkeypatch):
    model = copy.deepcopy(MODELS[name]).fit(X, Y)
    if name == "hull":
        model.set_params(max_iter=1000)  # pairs with a limit of rounds are trained one by one
    before = dict(vars(model))
    run = loop.run

    def failing(solver, *args, **kwargs):
        monkeypatch.setattr(type(solver), at, lambda *_: 1 / 0)
        return run(solver, *args, **kwargs)

    for module in ("multiclass.training", "kernel_svm.training",
                   "boosting.training"):  # fmt: skip
        monkeypatch.setattr(f"cornerstep.{module}.run", failing)
    with pytest.raises(ZeroDivisionError):
        model.fit(WIDE, THREE)
    assert vars(model) == before or vars(model).keys() == before.keys()
    assert model.n_features_in_ == 3


def test_a_weak_learner_that_fails():
    model = SoftMarginBoostingClassifier().fit(X, Y)
    before = dict(vars(model))
    model.weak_learner = Broken()
    with pytest.raises(RuntimeError, match="no"):
        model.fit(WIDE, THREE)
    assert vars(model) | {"weak_learner": "tree"} == before


def test_a_structured_model_that_fails():
    data = [RNG.standard_normal((4, 2)) for _ in range(5)]
    labels = [np.array([0, 1, 0, 1]) for _ in range(5)]
    model = StructuredSVC(ChainModel()).fit(data, labels)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="finite"):
        model.fit([row * np.nan for row in data], labels)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is before[key] for key in before)


def interrupted_at(iteration):
    """A callback that presses Ctrl-C."""

    def press(iterate):
        if iterate.iteration == iteration:
            signal.raise_signal(signal.SIGINT)

    return press


INTERRUPTED = {
    name: clone(model).set_params(callback=interrupted_at(0), tol=1e-9)
    for name, model in MODELS.items()
}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_ctrl_c_ends_a_search_and_not_only_a_fit(name, capfd):
    model = clone(INTERRUPTED[name])
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {}, cv=3)
    with pytest.raises(KeyboardInterrupt, match="keeps the best model so far"):
        search.fit(X, Y)
    assert not hasattr(search, "cv_results_")
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(model, X, Y, cv=3)
    assert "finishing with the best so far" in capfd.readouterr().err


@pytest.mark.parametrize("name", INTERRUPTED)
def test_ctrl_c_in_the_last_iteration_of_a_fit_ends_a_search(name):
    """A fit that is solved at once has no other iteration; its model is finished all the same."""
    solved = clone(INTERRUPTED[name]).set_params(tol=1e9, atol=1e9)
    alone = clone(solved).fit(X, Y)
    assert alone.status_ is Status.SOLVED
    search = GridSearchCV(solved, {}, cv=3)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
    assert clone(solved).set_params(callback=None).fit(X, Y).status_ is Status.SOLVED
    assert GridSearchCV(solved.set_params(callback=None), {}, cv=3).fit(X, Y).best_score_ > 0


@pytest.mark.parametrize("name", INTERRUPTED)
def test_ctrl_c_leaves_the_model_of_a_fit_or_a_pipeline(name):
    model = clone(INTERRUPTED[name]).fit(X, Y)
    assert model.status_ is Status.INTERRUPTED
    assert certify(model, X, Y).gap >= 0
    pipeline = make_pipeline(StandardScaler(), clone(INTERRUPTED[name])).fit(X, Y)
    assert pipeline[-1].status_ is Status.INTERRUPTED


def test_ctrl_c_ends_a_path():
    model = MulticlassSVC(callback=interrupted_at(0), tol=1e-9)
    path = regularization_path(model, X, Y, [0.01, 0.1, 1.0])
    assert path.values.tolist() == [0.01]
    assert path.estimators[-1].status_ is Status.INTERRUPTED
