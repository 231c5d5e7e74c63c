"""Small fitted models of every estimator, drawn at random, for files and checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from attack.draws import labels, one_of
from attack.judge import Judge
from cornerstep import (
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    StructuredSVC,
)
from cornerstep.structured import ChainModel, MatchingModel, MulticlassModel


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
