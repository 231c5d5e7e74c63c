"""Small structured problems, and an independent solution of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from cornerstep.structured import (
    ChainModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    MultilabelModel,
    SecondOrderChainModel,
    StructuredModel,
)
from cornerstep.structured.models.base import as_vector, items


def chains(n=12, seed=0, n_features=3, n_labels=3, longest=4):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((rng.integers(1, longest + 1), n_features)) for _ in range(n)]
    truth = rng.standard_normal((n_features, n_labels))
    Y = [(x @ truth + rng.standard_normal((len(x), n_labels))).argmax(axis=1) for x in X]
    return X, Y


def rows(n=30, seed=0, n_features=4, n_classes=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    return X, (X[:, :n_classes] + rng.standard_normal((n, n_classes))).argmax(axis=1)


def tags(n=20, seed=0, n_features=3, n_tags=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    Y = X @ rng.standard_normal((n_features, n_tags)) + rng.standard_normal((n, n_tags)) > 0
    return X, Y.astype(int)


def graphs(n=10, seed=0, n_labels=2, nodes=(3, 5), edge_features=None, extra=2):
    """A cycle and some chords each."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(nodes[0], nodes[1] + 1))
        pairs = {tuple(sorted((k, (k + 1) % size))) for k in range(size)}
        pairs |= {tuple(sorted(rng.choice(size, 2, replace=False))) for _ in range(extra)}
        edges = np.array(sorted(pairs))
        features = rng.standard_normal((size, 3))
        x: tuple[Any, ...] = (features, edges)
        if edge_features:
            x += (rng.standard_normal((len(edges), edge_features)),)
        X.append(x)
        Y.append((features[:, :n_labels] + rng.standard_normal((size, n_labels))).argmax(axis=1))
    return X, Y


def trees(n=10, seed=0, n_labels=3):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(1, 6))
        edges = [[int(rng.integers(k)), k] for k in range(1, size)]
        edges = [edge[:: rng.choice([-1, 1])] for edge in edges]
        X.append((rng.standard_normal((size, 3)), np.array(edges, int).reshape(-1, 2)))
        Y.append(rng.integers(n_labels, size=size))
    return X, Y


def matchings(n=15, seed=0, shape=(3, 3)):
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((*shape, 3)) for _ in range(n)]
    w = np.array([1.0, -1.0, 0.5])
    Y = [linear_sum_assignment(x @ w + rng.standard_normal(shape), True)[1] for x in X]
    return X, Y


PROBLEMS = {
    "chain": (ChainModel(biases=True), *chains()),
    "second-order": (SecondOrderChainModel(biases=True), *chains(n=6)),
    "independent": (ChainModel(transitions=False, normalize=False), *chains()),
    "multiclass": (MulticlassModel(), *rows()),
    "multilabel": (MultilabelModel(), *tags()),
    "multilabel-tree": (MultilabelModel("tree"), *tags()),
    "multilabel-full": (MultilabelModel("full"), *tags()),
    "graph": (GraphModel(labels=[0, 1]), *graphs()),
    "edge-features": (GraphModel(labels=[0, 1]), *graphs(edge_features=2)),
    "loops": (GraphModel(labels=[0, 1, 2]), *graphs(n_labels=3, nodes=(3, 4), edge_features=2)),
    "tree": (GraphModel(labels=[0, 1, 2]), *trees()),
    "matching": (MatchingModel(), *matchings()),
    "rectangular": (MatchingModel(), *matchings(shape=(2, 4))),
}


class Ranking(StructuredModel):
    """A user's own model: which row of x comes first, second, ... (all orders enumerated)."""

    def joint_feature(self, x, y):
        return np.arange(len(x), 0, -1.0) @ x[list(y)] / len(x)

    def loss(self, x, y, y_hat):
        return float(np.mean([a != b for a, b in zip(y, y_hat, strict=True)]))

    def loss_augmented_decode(self, x, y, w):
        return max(
            self.labelings(x), key=lambda o: self.loss(x, y, o) + self.joint_feature(x, o) @ w
        )

    def decode(self, x, w):
        return max(self.labelings(x), key=lambda o: self.joint_feature(x, o) @ w)

    def labelings(self, x):
        return list(itertools.permutations(range(len(x))))


def rankings(n=8, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((3, 4)) for _ in range(n)]
    return X, [tuple(np.argsort(-x[:, 0] + 0.3 * rng.standard_normal(3)).tolist()) for x in X]


PROBLEMS["ranking"] = (Ranking(), *rankings())


def optimum(model, X, Y, lam):
    """The least objective, by cvxpy over all labelings."""
    import copy

    import cvxpy as cp

    model = copy.copy(model)
    model.prepare(X, Y)
    X, Y = items(X), items(Y)
    w = cp.Variable(model.size)
    total = 0
    for x, y in zip(X, Y, strict=True):
        truth = _dense(model, x, y)
        every = list(model.labelings(x))
        psi = np.array([truth - _dense(model, x, other) for other in every])
        losses = np.array([model.loss(x, y, other) for other in every])
        total += cp.max(losses - psi @ w)
    objective = lam / 2 * cp.sum_squares(w) + total / len(X)
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver="CLARABEL")
    return problem.value


def primal(model, X, Y, w, lam, weights=None):
    """The objective at w by brute force over all labelings."""
    X, Y = items(X), items(Y)
    hinges = []
    for x, y in zip(X, Y, strict=True):
        own = _dense(model, x, y) @ w
        hinges.append(
            max(model.loss(x, y, o) + _dense(model, x, o) @ w - own for o in model.labelings(x))
        )
    return lam / 2 * w @ w + np.average(hinges, weights=weights)


def _dense(model, x, y):
    vector = as_vector(model.joint_feature(x, y))
    return vector if isinstance(vector, np.ndarray) else vector.dense()
