"""What is measured of a trained model on data: scores, ranks, errors, margins, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.arrays import to_numpy
from cornerstep.data.rows import Rows


def top_k_errors(estimator: Any, X: Any, y: Any, most: int) -> list[float]:
    """The error of the first k guesses for k = 1, ..., most."""
    if estimator.predicts_structures:
        return [1.0 - float(estimator.score(X, y))]
    if isinstance(X, Rows):  # a block of scores at a time
        hits = estimator.predict_top_k(X, most) == np.asarray(y)[:, None]
        return [float(1.0 - hits[:, :k].any(axis=1).mean()) for k in range(1, most + 1)]
    first = float(np.mean(to_numpy(estimator.predict(X)) != to_numpy(y)))
    if most == 1:
        return [first]
    ranks = label_ranks(estimator, X, y)
    return [first, *(float(np.mean(ranks >= k)) for k in range(2, most + 1))]


def class_scores(estimator: Any, X: Any) -> FloatArray:
    """One column of scores for each class."""
    scores: FloatArray = to_numpy(estimator.decision_function(X))
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def label_ranks(estimator: Any, X: Any, y: Any) -> IntArray:
    """How many classes score more than the right one; of equal scores the first class wins.

    All of them do where the right one is none of the model's.
    """
    scores, classes, y = class_scores(estimator, X), to_numpy(estimator.classes_), to_numpy(y)
    labels = np.minimum(np.searchsorted(classes, y), classes.size - 1)[:, None]
    own = np.take_along_axis(scores, labels, axis=1)
    before = np.arange(scores.shape[1]) < labels
    ranks: IntArray = ((scores > own) | ((scores == own) & before)).sum(axis=1)
    return np.where(classes[labels[:, 0]] == y, ranks, classes.size)


def margins(estimator: Any, X: Any, y: Any) -> FloatArray:
    """The score of the right class minus the best of the others; halved for two classes."""
    scores = class_scores(estimator, X)
    at, labels = np.arange(len(y)), np.searchsorted(estimator.classes_, y)
    own = scores[at, labels]
    others = scores.copy()
    others[at, labels] = -np.inf
    return (own - others.max(axis=1)) / (2.0 if scores.shape[1] == 2 else 1.0)
