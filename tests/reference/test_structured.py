"""The plain structured solvers are the published ones, iterate by iterate."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest
from sklearn.utils import check_random_state

from cornerstep import StructuredSVC
from cornerstep.optimiser.order import Order
from cornerstep.structured import MulticlassModel
from reference import structured as published

PASSES = 8


def fitted(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MulticlassModel(fit_intercept=False)
        return StructuredSVC(model, lam=0.1, atol=0.0, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("seed", range(5))
def test_batch(seed):
    """Every iterate, of which ``fit`` returns the best."""
    X, y, psi, losses = published.multiclass_problem(seed)
    seen: list[Any] = []
    fitted(X, y, solver="fw", max_iter=PASSES, callback=lambda step: seen.append(step.x[0]))
    literal = islice(published.batch(psi, losses, 0.1), PASSES + 1)
    for ours, theirs in zip(seen, literal, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sampling", ["permuted", "uniform"])
def test_block_coordinates(seed, sampling):
    """Passes of the examples in the same order; the last point, and the weighted average."""
    X, y, psi, losses = published.multiclass_problem(seed)
    drawn = np.random.default_rng(check_random_state(0).randint(np.iinfo(np.int32).max))
    visits = Order(sampling, len(X), drawn)
    order = np.concatenate([visits.take(len(X)) for _ in range(PASSES)])
    literal = list(published.block_coordinate(psi, losses, 0.1, order))
    for passes in range(PASSES + 1):
        for averaging in (False, True):
            ours = fitted(
                X, y, sampling=sampling, averaging=averaging, cache_passes=0, max_iter=passes
            )
            theirs = literal[passes * len(X)][int(averaging)]
            np.testing.assert_allclose(ours.coef_, theirs, rtol=0, atol=1e-10)
