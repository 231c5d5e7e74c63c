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
from cornerstep.structured import MulticlassModel
from reference.extragradient import dual_extragradient
from reference.structured import multiclass_problem

STEPS = 15


@pytest.mark.parametrize("geometry", ["entropic", "euclidean"])
@pytest.mark.parametrize("seed", range(4))
def test_structured(geometry, seed):
    X, y, F, c = multiclass_problem(seed)
    radius, weights = 2.0, np.full(len(X), 1 / len(X))
    steps: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in range(STEPS):
            clf = StructuredSVC(
                MulticlassModel(fit_intercept=False), solver="extragradient", geometry=geometry,
                radius=radius, fixed_step=True, atol=0.0, max_iter=t,
                callback=lambda iterate: steps.append(iterate.x.w.copy()),
            ).fit(X, y)  # fmt: skip
    seen = steps[-STEPS:]
    promised = clf.trace_["promised_gap"].astype(float)
    gaps = clf.trace_["gap_average"].astype(float)
    assert (gaps[1:] <= promised[1:] * (1 + 1e-9)).all()
    eta = float(clf.trace_["step"][1])
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
