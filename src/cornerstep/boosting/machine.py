"""A trained two-class ensemble: what it answers, and how it came to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerstep.boosting.binning import Tree
from cornerstep.boosting.learners.trees import combine, evaluate, leaf_sums
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.certificates import MachineProof
from cornerstep.optimiser.result import Status, Trace


@dataclass
class Machine:
    """A trained ensemble for two classes, with its certificate."""

    hypotheses: list[Any]
    weights: FloatArray
    soft_margin: float
    bound: float
    status: Status
    n_iter: int
    trace: Trace
    margins: FloatArray
    distribution: FloatArray
    stages: list[tuple[int, list[Any], FloatArray]]

    @property
    def proof(self) -> MachineProof:
        """What is proven of the machine."""
        gap = max(self.bound - self.soft_margin, 0.0)
        return MachineProof(self.soft_margin, self.bound, gap, self.status, self.n_iter, self.trace)

    def scores(self, X: FloatArray) -> FloatArray:
        """``sum_j w_j h_j(x)``."""
        return combine(self.hypotheses, self.weights, X)

    def staged_scores(self, X: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Round and scores, as the soft margin rose."""
        known: dict[int, FloatArray] = {}
        for number, hypotheses, weights in self.stages:
            new = [h for h in hypotheses if id(h) not in known]
            if new:
                for h, values in zip(new, evaluate(new, X), strict=True):
                    known[id(h)] = values
            yield number, weights @ np.array([known[id(h)] for h in hypotheses])

    def importances(self, X: FloatArray, signed: FloatArray) -> FloatArray | None:
        """Per feature, the weighted gains in edge of the splits on it, with examples ``|signed|``.

        Of other hypotheses than trees the classifiers tell; None if they do not.
        """
        total = np.zeros(X.shape[1])
        if all(isinstance(hypothesis, Tree) for hypothesis in self.hypotheses):
            by_size: dict[int, list[int]] = {}
            for k, tree in enumerate(self.hypotheses):
                by_size.setdefault(tree.leaves.size, []).append(k)
            for members in by_size.values():
                trees = [self.hypotheses[k] for k in members]
                total += _gains(trees, self.weights[members], X, signed)
        else:
            for hypothesis, weight in zip(self.hypotheses, self.weights, strict=True):
                told = getattr(hypothesis.estimator, "feature_importances_", None)
                if told is None:
                    return None
                seen = hypothesis.features
                every = np.arange(total.size) if seen is None else seen
                np.add.at(total, every, weight * np.asarray(told))
        return total / total.sum() if total.sum() > 0 else total


def _gains(
    trees: Sequence[Tree], weights: FloatArray, X: FloatArray, signed: FloatArray
) -> FloatArray:
    """The weighted rises of ``sum |signed weight of a part|`` by the splits on each feature."""
    features = np.array([tree.features for tree in trees])
    thresholds = np.array([tree.thresholds for tree in trees])
    sums = leaf_sums(features, thresholds, X, signed)
    gains = np.zeros(X.shape[1])
    level = sums.shape[1] // 2
    while level:
        pairs = sums.reshape(len(trees), level, 2)
        joined = pairs.sum(axis=2)
        rise = abs(pairs).sum(axis=2) - abs(joined)
        np.add.at(gains, features[:, level - 1 : 2 * level - 1], weights[:, None] * rise)
        sums, level = joined, level // 2
    return gains


def mean_importances(
    machines: Sequence[Machine], X: FloatArray, labels: IntArray, weights: FloatArray
) -> FloatArray | None:
    """The mean of the machines' importances; None if their classifiers tell none.

    Parameters
    ----------
    machines : sequence of Machine
    X : array of shape (n, d)
    labels, weights : arrays of shape (n,)
        Numbers of classes; the weights of the examples.
    """
    share = weights / weights.sum()
    total = np.zeros(X.shape[1])
    for k, machine in enumerate(machines):
        positive = labels == (1 if len(machines) == 1 else k)
        part = machine.importances(X, np.where(positive, share, -share))
        if part is None:
            return None
        total += part
    return total / len(machines)
