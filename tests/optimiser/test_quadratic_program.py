"""Quadratic programs by the central path: against another solver, whatever is singular."""

from __future__ import annotations

import tracemalloc
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import Status, minimize
from cornerstep.core.curvature import Curvature
from cornerstep.domains import Birkhoff, Box, CappedSimplex, Polytope, Product, Simplex
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.optimiser.quadratic_program import InteriorPoint, Program
from support.optimiser_problems import ill_conditioned


def draw(seed: int) -> tuple[Program, Any]:
    """A program with a point of its rows inside its bounds, and its linear term.

    Rows that depend on each other, coordinates without bounds, curvature by any of its parts.
    """
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 25)), int(rng.integers(0, 4))
    diagonal = rng.uniform(0.1, 2.0, n) if seed % 3 == 0 else np.zeros(n)
    root = rng.standard_normal((int(rng.integers(1, 30)), n)) if seed % 3 != 1 else None
    matrix = None
    if seed % 3 == 1:
        factor = rng.standard_normal((n, n // 2 + 1))
        matrix = factor @ factor.T
    if root is not None and seed % 2:
        root = sp.csc_array(np.where(rng.random(root.shape) < 0.4, root, 0.0))
    rows = rng.standard_normal((p, n))
    if p > 1 and seed % 4 == 0:
        rows[-1] = rows[0]
    lower = np.where(rng.random(n) < 0.8, -rng.uniform(0, 2, n), -np.inf)
    upper = np.where((rng.random(n) < 0.5) | np.isinf(lower), rng.uniform(0.1, 2, n), np.inf)
    inside = np.clip(rng.uniform(-0.5, 0.05, n), np.maximum(lower, -1) * 0.9, upper)
    # a linear term that keeps the minimum finite where the curvature is singular
    linear = np.where(np.isinf(upper), 1.0, -1.0) * rng.uniform(0.1, 2, n)
    linear = np.where(np.isinf(lower) | np.isinf(upper), linear, rng.standard_normal(n))
    curvature = Curvature(diagonal, root, matrix)
    x = rng.standard_normal(n)
    program = Program(curvature, curvature.times(x) + linear, x, lower, upper, rows, rows @ inside)
    return program, linear


@pytest.mark.parametrize("seed", range(40))
def test_the_path_ends_at_the_optimum(seed: int) -> None:
    program, linear = draw(seed)
    n = linear.size
    hessian = np.array([program.curvature.times(e) for e in np.eye(n)])
    x = cp.Variable(n)
    low, high = np.isfinite(program.lower), np.isfinite(program.upper)
    constraints: list[Any] = [x[low] >= program.lower[low], x[high] <= program.upper[high]]
    constraints += [program.rows @ x == program.right] if program.right.size else []
    objective = 0.5 * cp.quad_form(x, cp.psd_wrap(hessian)) + linear @ x
    least = cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)

    point = InteriorPoint(program, lambda: False)
    for _ in range(40):
        if point.gap <= 1e-10 or not point.step():
            break
    values = []
    for answer, off in ((point.x, 1e-6), (point.on_face(), 1e-9)):
        if answer is not None:
            assert (answer >= program.lower).all()
            assert (answer <= program.upper).all()
            np.testing.assert_allclose(program.rows @ answer, program.right, rtol=0, atol=off)
            values.append(0.5 * answer @ hessian @ answer + linear @ answer)
    assert min(values) == pytest.approx(least, rel=1e-6, abs=1e-6)


def test_the_parts_of_a_hessian() -> None:
    rng = np.random.default_rng(0)
    root, matrix = rng.standard_normal((3, 5)), np.diag(rng.uniform(size=5)) + 1.0
    curvature = Curvature(np.arange(5.0), root, matrix)
    full = np.diag(np.arange(5.0)) + root.T @ root + matrix
    np.testing.assert_allclose(curvature.full(), full)
    np.testing.assert_allclose(curvature.times(np.ones(5)), full @ np.ones(5))
    assert curvature.mean == pytest.approx(np.trace(full) / 5)
    kept = np.array([0, 3])
    np.testing.assert_allclose(curvature.part(kept).full(), full[np.ix_(kept, kept)])
    sparse = Curvature(np.arange(5.0), sp.csc_array(root), sp.csc_array(matrix))
    np.testing.assert_allclose(sparse.with_zeros(2).full(), np.pad(full, ((0, 2), (0, 2))))
    np.testing.assert_allclose(curvature.with_zeros(2).full(), np.pad(full, ((0, 2), (0, 2))))
    of_diagonal = Curvature.of(sp.diags_array(np.arange(5.0)))
    assert of_diagonal.matrix is None
    np.testing.assert_array_equal(of_diagonal.diagonal, np.arange(5))


@pytest.mark.parametrize(
    "domain",
    [
        Box(np.zeros(60), 1.0),
        Box(np.where(np.arange(60) % 7, -1.0, 0.5), np.where(np.arange(60) % 7, 1.0, 0.5)),
        CappedSimplex(60, 12.5),
        CappedSimplex(60, 12, at_most=True),
        Product([Simplex(20), Box(-np.ones(20), 2.0), CappedSimplex(20, 3)]),
        Polytope(np.vander(np.linspace(0, 1, 8), 60), np.ones(8), lower=-1.0 * np.ones(60)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("m", [20, 200])
def test_the_condition_number_does_not_matter(domain: Any, m: int) -> None:
    f = ill_conditioned(m, 60, seed=0)
    result = minimize(f, domain, method="interior-point", tol=0.0, rtol=1e-9)
    assert result.status is Status.SOLVED
    kinds = list(result.trace["kind"])
    assert kinds.count("interior") <= 3
    assert kinds.count("corrective") <= 30  # half the work of a path at most
    other = minimize(f, domain, method="fully-corrective", tol=0.0, rtol=1e-7)
    assert result.lower_bound <= other.value
    assert other.lower_bound <= result.value


@pytest.mark.parametrize("method", ["interior-point", "projected-cg"])
@pytest.mark.parametrize("scale", [1e-120, 1e-30, 1e30, 1e120])
def test_scales_of_objective_and_domain_do_not_matter(scale: float, method: str) -> None:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 12)), 3 * rng.standard_normal(30)
    stop: dict[str, Any] = {"method": method, "tol": 0.0, "rtol": 1e-9}
    near = minimize(LeastSquares(A, b), Box(np.zeros(12), 1.0), **stop)
    far = minimize(LeastSquares(A / scale, b), Box(np.zeros(12), scale), **stop)
    assert far.status is Status.SOLVED
    np.testing.assert_allclose(far.x / scale, near.x, rtol=0, atol=1e-6)


def test_the_projection_of_a_matrix_has_the_zeros_of_the_optimum() -> None:
    rng = np.random.default_rng(0)
    side = 12
    target = 2 * rng.random((side, side))
    f = Quadratic(sp.eye_array(side * side, format="csc"), -target.ravel())
    result = minimize(f, Birkhoff(side), tol=1e-10)
    assert result.method == "interior-point"
    assert result.success
    x = result.x.reshape(side, side)
    assert (x == 0).sum() > side
    # the optimum is max(target + u + v', 0): where it is positive, x - target has rank one and one
    free = x > 0
    design = np.zeros((int(free.sum()), 2 * side))
    rows, columns = free.nonzero()
    design[np.arange(rows.size), rows] = design[np.arange(rows.size), side + columns] = 1.0
    left = (x - target)[free]
    fitted = design @ np.linalg.lstsq(design, left)[0]
    np.testing.assert_allclose(fitted, left, rtol=0, atol=1e-7)


def test_a_diagonal_on_a_box_and_nothing_that_moves() -> None:
    target = np.array([-1.0, 0.5, 3.0, 0.2])
    f = Quadratic(sp.diags_array([1.0, 2.0, 3.0, 4.0]), -target * [1.0, 2.0, 3.0, 4.0])
    box = Box(np.zeros(4), [1.0, 1.0, 2.0, 1.0])
    result = minimize(f, box, method="interior-point", tol=1e-12)
    np.testing.assert_allclose(result.x, [0.0, 0.5, 2.0, 0.2], rtol=0, atol=1e-9)
    point = minimize(f, Box(np.ones(4), 1.0), method="interior-point")
    assert point.status is Status.SOLVED
    np.testing.assert_array_equal(point.x, 1.0)


def test_a_path_ends_with_the_time_and_the_point_is_certified() -> None:
    f = ill_conditioned(400, 2000, seed=1)
    result = minimize(f, Box(np.zeros(2000), 1.0), tol=0.0, rtol=1e-9, time_limit=0.0)
    assert result.status is Status.TIME_LIMIT
    assert result.lower_bound <= result.value


def test_what_cannot_be_factorised_is_refused() -> None:
    with pytest.raises(ValueError, match="one of order 5,001"):
        minimize(
            Quadratic(sp.eye_array(5001, format="csc") + sp.eye_array(5001, k=1) * 0.1
                      + sp.eye_array(5001, k=-1) * 0.1),
            Box(np.zeros(5001), 1.0), method="interior-point",
        )  # fmt: skip
    operator = sp.linalg.aslinearoperator(np.eye(3))
    with pytest.raises(ValueError, match="which has none"):
        minimize(LeastSquares(operator, np.ones(3)), Box(np.zeros(3), 1.0), method="interior-point")
    assert minimize(LeastSquares(operator, np.ones(3)), Box(np.zeros(3), 1.0)).success


@pytest.mark.parametrize("held", [True, False])
def test_slacks_of_many_inequalities_are_eliminated(held: bool) -> None:
    """Memory and work follow the coordinates, not the rows; an equation among them holds."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2500, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    equations: dict[str, Any] = {"A_eq": np.ones((1, 8)), "b_eq": np.array([0.5])} if held else {}
    domain = Polytope(A_ub=rows, b_ub=np.ones(2500), lower=-3.0, upper=3.0, **equations)
    f = LeastSquares(rng.standard_normal((30, 8)), 4 * rng.standard_normal(30))
    tracemalloc.start()
    result = minimize(f, domain, method="interior-point", tol=0.0, rtol=1e-9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.success
    assert "interior" in result.trace["kind"]
    assert peak < 8 * 2500**2
    other = minimize(f, domain, method="fully-corrective", tol=0.0, rtol=1e-9)
    assert abs(result.value - other.value) <= result.gap + other.gap
