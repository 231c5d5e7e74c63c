"""A fit that fails, for whatever reason and whenever, leaves the old model whole."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from cornerstep import MulticlassSVC, ReducedHullSVC, SoftMarginBoostingClassifier, StructuredSVC
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
