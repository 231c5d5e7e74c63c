"""Losses of every kind, drawn at random, and their domains as programs."""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

from cornerstep.losses import (
    CostSensitive,
    Loss,
    MaxHinge,
    TopK,
    Usunier,
    WeightedTopK,
    WeightedUsunier,
)

PAPER = np.maximum(0, 6 - np.arange(1, 8)) / 15
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}


class WholeWithCosts(Loss):
    whole = True


class Case(NamedTuple):
    loss: Loss
    rho: np.ndarray  # padded with zeros to the number of classes
    delta: np.ndarray  # a row for each example
    y: np.ndarray

    def draw_scores(self, rng, size=2.0):
        return size * rng.standard_normal(self.delta.shape)

    def margins(self, scores):
        return scores - scores[np.arange(self.y.size), self.y][:, None] + self.delta

    def one(self, i):
        """The case of example i alone."""
        return Case(self.loss.rows(slice(i, i + 1)), self.rho, self.delta[i], self.y[i])


def draw_rho(rng, m):
    return np.sort(rng.random(rng.integers(1, m)))[::-1] * rng.choice([0.3, 1.0, 4.0])


KINDS = {
    "max-hinge": lambda rng, m, n: MaxHinge(),
    "cost-sensitive": lambda rng, m, n: CostSensitive(3 * rng.random((m, m))),
    "cost-sensitive, per example": lambda rng, m, n: CostSensitive(
        3 * rng.random((n, m)), per_example=True
    ),
    "top-k": lambda rng, m, n: TopK(int(rng.integers(1, m))),
    "usunier": lambda rng, m, n: Usunier(int(rng.integers(1, m))),
    "weighted-top-k": lambda rng, m, n: WeightedTopK(draw_rho(rng, m)),
    "weighted-usunier": lambda rng, m, n: WeightedUsunier(draw_rho(rng, m)),
    "each with costs": lambda rng, m, n: Loss(draw_rho(rng, m), 3 * rng.random((m, m))),
    "whole with costs": lambda rng, m, n: WholeWithCosts(
        draw_rho(rng, m), 3 * rng.random((n, m)), per_example=True
    ),
}


def draw(kind, rng, m, n=6):
    loss = KINDS[kind](rng, m, n)
    y = rng.integers(0, m, n)
    delta = np.ones((n, m))
    if loss.costs is not None:
        delta = np.array([loss.costs[i if loss.per_example else y[i]] for i in range(n)])
    delta[np.arange(n), y] = 0
    return Case(loss, np.pad(loss.rho, (0, m - loss.rho.size)), delta, y)


def vertices(case, m):
    """Every vertex of B: rho permuted, cut after any number of entries (each) or whole or 0."""
    kept = [0, m] if case.loss.whole else range(m + 1)
    cut = [np.where(np.arange(m) < k, case.rho, 0) for k in kept]
    return np.unique([p for rho in cut for p in permutations(rho)], axis=0)


def alphas(beta, y):
    """``(1'beta) e_y - beta`` for every row."""
    out = -np.array(beta)
    out[..., y] -= out.sum(axis=-1)
    return out


def program(case, m):
    """A variable beta and the constraints that keep it in B, the label's entry included."""
    beta, scale = cp.Variable(m), cp.Variable()
    limits: Any = np.cumsum(case.rho)
    constraints = [beta >= 0]
    if case.loss.whole:
        constraints += [scale >= 0, scale <= 1, cp.sum(beta) == scale * limits[-1]]
        limits = [scale * limit for limit in limits]
    constraints += [cp.sum_largest(beta, k + 1) <= limits[k] for k in range(m - 1)]
    return beta, [*constraints, cp.sum(beta) <= limits[-1]]


def alpha_of(beta, y, m):
    return cp.sum(beta) * np.eye(m)[y] - beta


sizes = pytest.mark.parametrize("m", [2, 3, 4, 6])
every_kind = pytest.mark.parametrize("kind", KINDS)


def brute_vertex(case, z):
    """A vertex of B that maximises ``<beta, z>``."""
    order = sorted(range(z.size), key=lambda j: -z[j])
    beta = np.zeros(z.size)
    beta[order] = case.rho
    if case.loss.whole:
        return beta if beta @ z > 0 else 0 * beta
    return np.where(z > 0, beta, 0)


def draw_inside(case, rng, m):
    """A random gradient in the domain for every example: a combination of vertices of B."""
    out = np.empty((case.y.size, m))
    for i, y in enumerate(case.y):
        parts = []
        for _ in range(4):
            z = rng.standard_normal(m) + rng.choice([-1, 0, 2])
            z[y] = 0
            parts.append(brute_vertex(case, z))
        out[i] = -alphas(rng.dirichlet(np.ones(4)) @ np.array(parts), y)
    return out
