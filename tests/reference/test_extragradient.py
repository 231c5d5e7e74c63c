"""The dual extragradient method is the published one, iterate by iterate."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest

from cornerstep import StructuredSVC, extragradient
from cornerstep.domains import Ball, Product, Simplex
from cornerstep.optimiser.saddle import Bilinear
from cornerstep.structured import GraphModel, MulticlassModel
from reference.extragradient import dual_extragradient, onto_cut
from reference.structured import cut_problem, multiclass_problem

STEPS = 15


def averages(model, X, y, geometry, radius):
    """The averages of w by the published steps, which keep what the theorem promises, and eta."""
    steps: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in range(STEPS):
            clf = StructuredSVC(
                model, solver="extragradient", geometry=geometry, radius=radius, fixed_step=True,
                atol=0.0, max_iter=t, callback=lambda iterate: steps.append(iterate.x.w.copy()),
            ).fit(X, y)  # fmt: skip
    promised = clf.trace_["promised_gap"].astype(float)
    gaps = clf.trace_["gap_average"].astype(float)
    assert (gaps[1:] <= promised[1:] * (1 + 1e-9)).all()
    return steps[-STEPS:], float(clf.trace_["step"][1])


@pytest.mark.parametrize("geometry", ["entropic", "euclidean"])
@pytest.mark.parametrize("seed", range(4))
def test_structured(geometry, seed):
    X, y, F, c = multiclass_problem(seed)
    radius, weights = 2.0, np.full(len(X), 1 / len(X))
    seen, eta = averages(MulticlassModel(fit_intercept=False), X, y, geometry, radius)
    norms = (X**2).sum(axis=1).mean()  # |F_i|²: of columns that differ by half, or of all
    kappa = 1 / (eta * norms * (0.5 if geometry == "entropic" else 1.0))
    literal = dual_extragradient(F, c, weights, radius, eta, kappa, geometry)
    for ours, theirs in zip(seen, islice(literal, STEPS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("geometry", ["entropic", "euclidean"])
@pytest.mark.parametrize("seed", range(4))
def test_bilinear(geometry, seed):
    _, _, F, c = multiclass_problem(seed)
    eta, radius = 0.05, 2.0
    saddle = Bilinear(-np.hstack(F), c=np.concatenate(c))
    blocks = Product([Simplex(ci.size) for ci in c])
    seen: list[Any] = []
    extragradient(
        saddle, Ball(F[0].shape[0], radius), blocks, geometry=("euclidean", geometry), step=eta,
        tol=0.0, max_iter=STEPS, callback=lambda iterate: seen.append(iterate.x[0]),
    )  # fmt: skip
    literal = dual_extragradient(F, c, np.ones(len(F)), radius, eta, eta, geometry)
    for ours, theirs in list(zip(seen, islice(literal, STEPS), strict=False))[1:]:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def attracting(w, n_edge_weights):
    """The nearest w whose edges attract: V_00 + V_11 >= V_01 + V_10, for each edge feature."""
    w = w.copy()
    edges = w[-4 * n_edge_weights :].reshape(-1, 4)
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    edges -= np.minimum(edges @ signs, 0.0)[:, None] * signs / 4
    return w


@pytest.mark.parametrize("seed", range(4))
def test_minimum_cuts(seed):
    """Both projections are right to 1e-11 of their targets, and so are the iterates."""
    X, Y, F, c = cut_problem(seed)
    radius, weights, edges = 2.0, np.full(len(X), 1 / len(X)), X[0][1]
    seen, eta = averages(GraphModel(attractive=True), X, Y, "euclidean", radius)
    squares = [
        2 * np.linalg.norm(x, 2) ** 2 + np.bincount(edges.ravel()).max() * np.linalg.norm(f, 2) ** 2
        for x, _, f in X
    ]
    for Fi, square in zip(F, squares, strict=True):  # the bound is one
        assert np.linalg.norm(Fi[:, 1:], 2) ** 2 <= square * (1 + 1e-9)
    literal = dual_extragradient(
        F, c, weights, radius, eta, 1 / (eta * np.mean(squares)), "euclidean",
        centre=[np.append(1.0, np.full(ci.size - 1, 0.5)) for ci in c],
        onto=[lambda y: onto_cut(y, edges)] * len(c), cone=lambda w: attracting(w, 1),
    )  # fmt: skip
    for ours, theirs in zip(seen, islice(literal, STEPS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(12))
def test_projection_onto_cuts(seed):
    """Ties, fixed nodes and targets far away included; right to 1e-11 of the target's size."""
    rng = np.random.default_rng(seed)
    n, scale = int(rng.integers(1, 7)), 10.0 ** rng.integers(-1, 2)
    pairs = [rng.choice(n, 2, replace=False) for _ in range(rng.integers(0, 2 * n) if n > 1 else 0)]
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    target = 0.5 + scale * rng.standard_normal(1 + n + len(edges))
    if seed % 2:
        target = target.round()
    x = np.zeros((n, 1)), edges
    model = GraphModel(labels=[0, 1], attractive=True)
    model.prepare([x], [[0] * n])
    atol = 1e-11 * max(np.abs(target).max(), 1.0)
    np.testing.assert_allclose(model.project(x, target), onto_cut(target, edges), rtol=0, atol=atol)
