"""Where a run starts: from results, and from points outside of the domain."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep import minimize
from cornerstep.domains import (
    Birkhoff,
    ConvexHull,
    L1Ball,
    Permutahedron,
    Polytope,
    Simplex,
    Transport,
)
from cornerstep.objectives import LeastSquares
from support.optimiser_problems import problem


@pytest.mark.parametrize("method", ["auto", "pairwise", "di-pairwise", "fw"])
def test_a_result_is_a_start(method):
    case = problem("Q_3", "least-squares", "face")
    first = minimize(case.objective, case.domain, method=method, max_iter=3)
    again = minimize(case.objective, case.domain, method=method, max_iter=0, x0=first)
    assert again.value == pytest.approx(first.value, rel=1e-12)
    if first.active_set is not None and again.active_set is not None:
        assert len(again.active_set) == len(first.active_set)
    assert minimize(case.objective, case.domain, x0=first).success


def test_a_result_of_a_larger_domain_is_projected():
    f = LeastSquares(np.eye(4), [2.0, 1.0, 0.5, 0.0])
    wide = minimize(f, L1Ball(4, 3.0))
    with pytest.warns(UserWarning, match=r"x0 lies outside L1Ball\(4, radius=1\).*projection, "):
        narrow = minimize(f, L1Ball(4, 1.0), x0=wide)
    assert narrow.success
    assert narrow.value == pytest.approx(minimize(f, L1Ball(4, 1.0)).value)


@pytest.mark.parametrize(
    "domain",
    [Simplex(9), L1Ball(9, 2.0), Birkhoff(3), Permutahedron(np.arange(9.0)),
     ConvexHull(np.random.default_rng(0).standard_normal((12, 9))), Transport([1, 2, 1], [2, 1, 1]),
     Polytope(np.ones((1, 9)), [2.0], lower=0.0, upper=1.0)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("size", [3.0, 1e200])
def test_points_outside_are_projected_and_it_is_said(domain, size):
    """The start is the nearest point, up to a thousandth of the square of the distance."""
    outside = size * (1 + np.arange(9.0)[::-1])
    f = LeastSquares(np.eye(9), np.ones(9))
    with pytest.warns(UserWarning, match="x0 lies outside") as caught:
        start = minimize(f, domain, x0=outside, max_iter=0)
    assert caught[0].filename == __file__
    assert domain.contains(start.x)
    if size == 3.0:
        nearest = minimize(LeastSquares(np.eye(9), outside), domain, rtol=1e-9)
        distance = 0.5 * np.sum((start.x - outside) ** 2)
        assert distance <= nearest.value * (1 + 2e-3) + 1e-9


@pytest.mark.parametrize("domain", [Birkhoff(3), Transport([1, 2, 1], [2, 1, 1])], ids=repr)
def test_tiny_points_are_projected(domain):
    with pytest.warns(UserWarning, match="x0 lies outside"):
        start = minimize(
            LeastSquares(np.eye(9), np.ones(9)), domain, x0=np.full(9, 1e-200), max_iter=0
        )
    assert domain.contains(start.x)
    nearest = minimize(LeastSquares(np.eye(9), np.zeros(9)), domain, rtol=1e-9)
    assert 0.5 * start.x @ start.x <= nearest.value * (1 + 2e-3)
