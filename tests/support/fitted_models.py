"""Small trained models of every estimator, made once."""

from functools import cache

import numpy as np
from sklearn.datasets import load_iris

from cornerstep import (
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    StructuredSVC,
    losses,
)
from cornerstep.structured import ChainModel, GraphModel, MatchingModel, MultilabelModel
from support.structured_problems import PROBLEMS, Ranking, rankings

X, LABELS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]
TWO = LABELS != 0


def chains(n=12, seed=0):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 3, rng.integers(2, 6)) for _ in range(n)]
    return [np.eye(3)[y] + 0.3 * rng.standard_normal((y.size, 3)) for y in Y], Y


CLASSIFIERS = {
    "linear": lambda: MulticlassSVC(random_state=0).fit(X, NAMES),
    "linear, two classes": lambda: MulticlassSVC(random_state=0).fit(X[TWO], LABELS[TWO]),
    "top-k object": lambda: MulticlassSVC(
        losses.TopK(2), smoothing=0.1, class_weight="balanced", random_state=0
    ).fit(X, LABELS),
    "joint rbf": lambda: MulticlassSVC(kernel="rbf", random_state=0).fit(X, LABELS),
    "no dual point": lambda: MulticlassSVC(solver="fw", tol=0.05, C=0.01, max_iter=5000).fit(
        X, LABELS
    ),
    "hull": lambda: ReducedHullSVC(0.3, random_state=0).fit(X[TWO], NAMES[TWO]),
    "hull, C, three classes": lambda: ReducedHullSVC(C=1.0, random_state=0).fit(X, NAMES),
    "trees": lambda: SoftMarginBoostingClassifier(nu=0.3, atol=0.1).fit(X[TWO], LABELS[TWO]),
    "trees, three classes": lambda: SoftMarginBoostingClassifier(nu=0.3, atol=0.1).fit(X, NAMES),
}


@cache
def classifier(name):
    """The model and the data that it was trained on."""
    model = CLASSIFIERS[name]()
    rows = TWO if model.classes_.size == 2 else slice(None)
    return model, X[rows], (NAMES if model.classes_.dtype.kind == "U" else LABELS)[rows]


STRUCTURED = {"chain": (ChainModel(), *chains()), "own": (Ranking(), *rankings())}
for _name, _problem in PROBLEMS.items():
    if isinstance(_problem[0], GraphModel | MatchingModel | MultilabelModel):
        STRUCTURED[_name] = _problem


@cache
def structured(name):
    model, inputs, labelings = STRUCTURED[name]
    clf = StructuredSVC(model, C=1.0, atol=0.05, max_iter=50, random_state=0)
    return clf.fit(inputs, labelings), inputs, labelings
