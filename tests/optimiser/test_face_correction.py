"""Corrections over coordinates: inside the domain, down, and to the optimum in a few looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cornerstep import minimize
from cornerstep.core.vectors import dense
from cornerstep.domains import BalancedBox, Box, CappedSimplex, Polytope, Product, Simplex
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.optimiser.face_correction import FaceCorrection
from cornerstep.optimiser.small_form import form_of_bounds


def domains(n: int, scale: float) -> list[Any]:
    rng = np.random.default_rng(n)
    half, signs = n // 2, np.where(np.arange(n) % 2, -1.0, 1.0)
    return [
        CappedSimplex(n, scale, 10 * scale / n),
        CappedSimplex(n, scale, scale * rng.uniform(0, 0.3, n)),
        CappedSimplex(n, n * scale / 8, scale, at_most=True),
        BalancedBox(signs, scale * rng.uniform(0.1, 1, n)),
        Product([Simplex(half, scale), CappedSimplex(n - half, 2 * scale, 0.2 * scale)]),
        Product([Simplex(n - 2, scale), Box([-scale, scale], [scale, scale])]),
        Polytope(
            A_eq=np.repeat([[2.0, 0.0], [0.0, -3.0]], [half, n - half], axis=1).reshape(2, n),
            b_eq=[scale, -scale], lower=np.zeros(n), upper=np.full(n, scale),
        ),
    ]  # fmt: skip


def data(factors: bool, m: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(m)
    A = rng.standard_normal((m, n))
    if factors:
        A = rng.standard_normal((m, 4)) @ rng.standard_normal((4, n)) + 0.1 * A
    return A, rng.standard_normal(m)


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
@pytest.mark.parametrize("kind", range(7))
def test_corrections_go_down_inside_the_domain(kind: int, scale: float) -> None:
    """From vertices and from between, with the products of the corrections before."""
    A, b = data(True, 60, 40)
    domain = domains(40, scale)[kind]
    f = LeastSquares(A, b * scale)
    form = form_of_bounds(domain.constraints)
    assert form is not None
    rng, faces = np.random.default_rng(kind), FaceCorrection(f, form)
    vertices = [dense(domain.lmo(rng.standard_normal(40))) for _ in range(3)]
    for start in (vertices[0], np.mean(vertices, axis=0)):
        x, gap = start, np.inf
        for _ in range(30):
            position = f.at(x)
            vertex = dense(domain.lmo(position.gradient))
            gap = float(position.gradient @ (x - vertex))
            if gap <= 1e-9 * position.value:
                break
            new = faces.minimise(position, vertex, 1e-8 * gap, 1000, np.inf, lambda: False)
            assert new is not None
            assert domain.contains(new)
            if not np.array_equal(new, vertex):
                assert f.at(new).value <= position.value * (1 + 1e-12)
                x = new
        assert gap <= 1e-9 * f.at(x).value


@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("kind", range(7))
def test_a_few_looks_whatever_the_condition_number(kind: int, factors: bool) -> None:
    """Vertices one by one took 10 to 130 looks."""
    A, b = data(factors, 250, 120)
    domain = domains(120, 1.0)[kind]
    result = minimize(LeastSquares(A, b), domain, method="interior-point", tol=0.0, rtol=1e-9)
    assert result.success
    assert result.n_iter <= 10
    assert set(result.trace["kind"][1:]) == {"corrective"}


def test_more_coordinates_than_are_kept_at_a_time() -> None:
    rng = np.random.default_rng(0)
    n = 1500
    Q, c = np.diag(rng.uniform(1, 2, n)), -rng.random(n) * 2
    result = minimize(Quadratic(Q, c), CappedSimplex(n, n / 3, 1.0), tol=0.0, rtol=1e-8)
    assert result.success
    low, high = -10.0, 10.0  # x = clip((level - c) / q, 0, 1) in closed form
    for _ in range(200):
        level = (low + high) / 2
        x = np.clip((level - c) / np.diag(Q), 0, 1)
        low, high = (level, high) if x.sum() < n / 3 else (low, level)
    np.testing.assert_allclose(result.x, x, atol=1e-3)
    assert result.value == pytest.approx(0.5 * x @ Q @ x + c @ x, rel=1e-7)


def test_forms_are_of_rows_without_a_coordinate_in_common() -> None:
    rows = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    shared = Polytope(A_eq=rows, b_eq=[1.0, 1.0], lower=np.zeros(3), upper=np.ones(3))
    assert form_of_bounds(shared.constraints) is None
    many = Product([Simplex(2)] * 40)  # too many sums
    assert many.constraints is not None
    assert form_of_bounds(many.constraints) is None
    assert minimize(Quadratic(np.eye(80), np.arange(80.0)), many).success
