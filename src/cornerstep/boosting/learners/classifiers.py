"""Scikit-learn classifiers as weak learners of boosting: their votes are the hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cornerstep.boosting.learners.trees import (
    Answer,
    Start,
    combine,
    evaluate,
)
from cornerstep.boosting.long_work import SearchExpiredError, never
from cornerstep.core.types import FloatArray, IntArray

_ROUNDED = 1e-6  # by how much probabilities may leave [0, 1]


class Vote:
    """``h(x)`` of a fitted classifier for one of its classes: in {-1, 1}, or ``2 p(x) - 1``.

    Parameters
    ----------
    estimator : fitted scikit-learn classifier
    rated : bool
        Confidence-rated: ``2 p(x) - 1``.
    label : default=1
        The class.
    known : array, default=(0, 1)
        All classes that it may answer.
    features : array of int, optional
        The columns that it sees; by default all.
    """

    def __init__(
        self,
        estimator: Any,
        rated: bool,
        label: Any = 1,
        known: Any = (0, 1),
        features: IntArray | None = None,
    ) -> None:
        self.estimator, self.rated, self.label = estimator, rated, label
        self.known, self.features = known, features

    def values(self, X: FloatArray) -> FloatArray:
        """``h(x_i)`` for the rows of X."""
        X = X if self.features is None else X[:, self.features]
        return self._ratings(X) if self.rated else self._decisions(X)

    def _decisions(self, X: FloatArray) -> FloatArray:
        answers = np.asarray(self.estimator.predict(X))
        if answers.shape != (X.shape[0],):
            raise ValueError(
                f"predict of {self.estimator!r} must answer a class for each of the {X.shape[0]} "
                f"rows, got shape {answers.shape}"
            )
        foreign = ~np.isin(answers, self.known)
        if foreign.any():
            known = ", ".join(str(label) for label in self.known)
            raise ValueError(
                f"predict of {self.estimator!r} must answer one of the classes {known}, "
                f"got {answers[foreign][0]}"
            )
        return np.where(answers == self.label, 1.0, -1.0)

    def _ratings(self, X: FloatArray) -> FloatArray:
        shares = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        classes = np.asarray(self.estimator.classes_)
        if shares.shape != (X.shape[0], classes.size):
            raise ValueError(
                f"predict_proba of {self.estimator!r} must have a column for each of its "
                f"{classes.size} classes, got shape {shares.shape}"
            )
        wrong = ~((shares >= -_ROUNDED) & (shares <= 1 + _ROUNDED))
        if wrong.any():
            raise ValueError(
                f"predict_proba of {self.estimator!r} must answer probabilities from 0 to 1, "
                f"got {shares[wrong][0]}"
            )
        column = np.flatnonzero(classes == self.label)
        if not column.size:  # the classifier never saw the class
            return np.full(X.shape[0], -1.0)
        return np.clip(2.0 * shares[:, column[0]] - 1.0, -1.0, 1.0)


class ClassifierLearner:
    """Fits a scikit-learn classifier with ``sample_weight = m d`` each time it is asked.

    Answers its decisions (values -1 and 1) and, where it has ``predict_proba``, the
    confidence-rated hypothesis ``2 p(x) - 1``.  Its edges bound only what this learner can find.

    Parameters
    ----------
    estimator : scikit-learn classifier
    X : array of shape (m, F)
    labels : array of -1 and 1
    rng : numpy.random.RandomState
        Seeds ``random_state`` of the copies, where they have one.
    """

    exact = False

    def __init__(
        self, estimator: Any, X: FloatArray, labels: FloatArray, rng: np.random.RandomState
    ) -> None:
        self.estimator, self.X, self.labels, self._rng = estimator, X, labels, rng
        self.expired = never

    def query(self, distribution: FloatArray) -> Answer:
        from sklearn.base import clone

        if self.expired():
            raise SearchExpiredError
        copy = clone(self.estimator)
        if "random_state" in copy.get_params():
            copy.set_params(random_state=self._rng.randint(np.iinfo(np.int32).max))
        used = distribution > 0
        classes = (self.labels > 0).astype(np.int64)
        copy.fit(self.X[used], classes[used], sample_weight=self.labels.size * distribution[used])
        rated = hasattr(copy, "predict_proba")
        votes = [Vote(copy, False), Vote(copy, True)] if rated else [Vote(copy, False)]
        margins = self.margins(votes)
        edges = margins @ distribution
        order = np.argsort(-edges, kind="stable")
        return Answer(float(edges[order[0]]), [votes[k] for k in order], margins[order])

    propose = query

    def adopt(self, hypotheses: Sequence[Any], weights: FloatArray) -> Start | None:
        return hypotheses, weights

    def margins(self, hypotheses: Sequence[Any]) -> FloatArray:
        return evaluate(hypotheses, self.X) * self.labels

    def image(self, hypotheses: Sequence[Any], weights: FloatArray) -> FloatArray:
        return combine(hypotheses, weights, self.X) * self.labels
