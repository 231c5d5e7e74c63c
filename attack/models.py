"""Small fitted models of every estimator, drawn at random, for files and checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from attack.draws import labels, one_of
from attack.judge import Judge
from cornerstep import (
    MulticlassSVC,
    OneClassHull,
    ReducedHullSVC,
    ReducedHullSVR,
    SequenceTagger,
    SoftMarginBoostingClassifier,
    StructuredSVC,
)
from cornerstep.structured import (
    ChainModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    MultilabelModel,
)


def _structured(rng: Any, judge: Judge) -> tuple[Any, Any]:
    kind = one_of(rng, ChainModel, MatchingModel, MulticlassModel)
    if kind is MulticlassModel:
        Y: Any = labels(rng, 8, 3)
        X: Any = rng.standard_normal((8, 2))
    elif kind is MatchingModel:
        X = [rng.standard_normal((2, 3, 2)) for _ in range(4)]
        Y = [rng.permutation(3)[:2] for _ in X]
    else:
        Y = [rng.integers(0, 3, 4) for _ in range(5)]
        X = [rng.standard_normal((4, 2)) for _ in Y]
    return judge.call(StructuredSVC(kind(), max_iter=5, random_state=0).fit, X, Y), X


def further(rng: Any, judge: Judge) -> tuple[Any, Any]:
    """One of the other estimators."""
    X, y = rng.standard_normal((12, 3)), labels(rng, 12, 3)
    kernel = one_of(rng, "linear", "rbf", "poly")
    words = [[{"word": str(word), "place": float(t)} for t, word in enumerate(row)]
             for row in rng.integers(0, 4, (5, 3))]  # fmt: skip
    tags = [[str(one_of(rng, "O", "B-X")) for _ in row] for row in words]
    edges = np.array([[0, 1], [1, 2]])
    estimator, data = one_of(
        rng,
        (OneClassHull(kernel=kernel), (X + 3, None)),
        (ReducedHullSVR(kernel=kernel, nu=one_of(rng, None, 0.5)), (X, X[:, 0])),
        (MulticlassSVC(loss="softmax", solver="newton", max_iter=20), (X, y)),
        (MulticlassSVC(probability=True, max_iter=20, random_state=0), (X, y)),
        (SequenceTagger(hashing=one_of(rng, None, 8), max_iter=5, random_state=0), (words, tags)),
        (SequenceTagger(constraints="BIO", lam=0.1, max_iter=5), (words, tags)),
        (StructuredSVC(GraphModel(), max_iter=5), ([(X[:3], edges)] * 3, [y[:3], y[3:6], y[6:9]])),
        (StructuredSVC(MultilabelModel("full"), max_iter=5), (X, (X > 0).astype(int))),
    )
    return judge.call(estimator.fit, *data), data[0]


def fitted(rng: Any, judge: Judge) -> tuple[Any, Any]:
    """A model and inputs to predict."""
    kind = int(rng.integers(5))
    if kind == 4:
        return _structured(rng, judge)
    m = int(rng.integers(2, 4))
    y = labels(rng, 12, m)
    X = rng.standard_normal((12, 3)) + 2 * rng.standard_normal((m, 3))[y]
    names = np.array(["a", "b", "c"])[y] if rng.random() < 0.5 else y
    kernel = one_of(rng, "linear", "rbf", "poly")
    estimator = (
        MulticlassSVC(kernel="linear", solver=one_of(rng, "auto", "envelope", "fw"), max_iter=20),
        MulticlassSVC(kernel=kernel, max_iter=20, random_state=0),
        ReducedHullSVC(C=1.0, kernel=kernel, random_state=0),
        SoftMarginBoostingClassifier(nu=0.3, atol=0.1, max_depth=int(rng.integers(1, 4))),
    )[kind]
    return judge.call(estimator.fit, X, names), X
