"""The dual extragradient method against linear programs and closed forms."""

from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.linalg import aslinearoperator

from cornerstep import Status, extragradient
from cornerstep.domains import (
    Ball,
    Birkhoff,
    Box,
    CappedSimplex,
    NuclearNormBall,
    Permutahedron,
    Product,
    Simplex,
    Spectraplex,
)
from cornerstep.saddle import Bilinear

GEOMETRIES: list[str | tuple[str, str]] = [
    "euclidean",
    "entropic",
    ("euclidean", "entropic"),
    ("entropic", "euclidean"),
]


def game(seed, p=7, q=11):
    rng = np.random.default_rng(seed)
    F, a, c = rng.standard_normal((p, q)), rng.standard_normal(p), rng.standard_normal(q)
    # min over the simplex of max_j (F'w)_j - a'w + c_j is a linear program in (w, t).
    rows = np.hstack([F.T - a, -np.ones((q, 1))])
    answer = linprog(
        np.append(np.zeros(p), 1.0),
        A_ub=rows,
        b_ub=-c,
        A_eq=np.append(np.ones(p), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * p + [(None, None)],
    )
    return Bilinear(F, a, c), Simplex(p), Simplex(q), answer.fun


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_matrix_games_reach_the_value_of_the_linear_program(geometry, seed):
    saddle, W, Z, value = game(seed)
    result = extragradient(saddle, W, Z, geometry=geometry, tol=2e-3, max_iter=50_000)
    assert result.status is Status.SOLVED
    assert result.gap <= 2e-3
    assert result.lower_bound - 1e-9 <= value <= result.value + 1e-9
    assert result.value - value <= result.gap
    assert W.contains(result.x)
    assert Z.contains(result.dual)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_gap_falls_like_one_over_t(geometry):
    saddle, W, Z, _ = game(5)
    trace = extragradient(saddle, W, Z, geometry=geometry, tol=0, max_iter=4000).trace
    gap, t = trace["gap"], trace["iteration"]
    late = gap[400:] * t[400:]
    assert late.max() <= 3 * late.min()
    assert gap[4000] <= gap[400] / 5


def test_gap_is_that_of_the_returned_pair():
    saddle, W, Z, _ = game(1)
    result = extragradient(saddle, W, Z, tol=0, max_iter=100)
    F, a, c = saddle.matrix.data, saddle.a, saddle.c
    upper = (F.T @ result.x + c).max() - a @ result.x
    lower = (F @ result.dual - a).min() + c @ result.dual
    assert result.value == pytest.approx(upper, abs=1e-12)
    assert result.gap == pytest.approx(upper - lower, abs=1e-12)


def test_ball_against_simplex_is_a_minimum_norm_point():
    """min over |w| <= R of max_j w'f_j: R times minus the distance of 0 from conv(f_j)."""
    rng = np.random.default_rng(3)
    F = rng.standard_normal((4, 6)) + 1.5
    result = extragradient(
        Bilinear(F), Ball(4, 2.0), Simplex(6), geometry=("euclidean", "entropic"), tol=1e-3,
        max_iter=50_000,
    )  # fmt: skip
    from cornerstep import minimize
    from cornerstep.objectives import Quadratic

    nearest = minimize(Quadratic(F.T @ F), Simplex(6), tol=1e-12)
    distance = np.sqrt(2 * nearest.value)
    assert result.success
    assert -2 * distance == pytest.approx(result.value, abs=1.1e-3)


def test_products_of_simplices_and_boxes():
    rng = np.random.default_rng(4)
    F = rng.standard_normal((5, 9))
    Z = Product([Simplex(4), Simplex(5, radius=2.0)])
    for geometry in ("euclidean", ("euclidean", "entropic")):
        result = extragradient(
            Bilinear(F), Box(-np.ones(5), 1.0), Z, geometry=geometry, tol=5e-3, max_iter=50_000
        )
        assert result.success
        assert result.dual is not None
        blocks = (F @ result.dual, F.T @ result.x)
        upper = blocks[1][:4].max() + 2 * blocks[1][4:].max()
        assert result.value == pytest.approx(upper, abs=1e-10)
        assert upper + np.abs(blocks[0]).sum() == pytest.approx(result.gap, abs=1e-10)


@pytest.mark.parametrize("wrap", [sp.csr_array, aslinearoperator])
def test_sparse_and_matrix_free_data_give_the_same_run(wrap):
    saddle, W, Z, _ = game(6)
    dense = extragradient(saddle, W, Z, tol=0, max_iter=50)
    other = extragradient(
        Bilinear(wrap(saddle.matrix.data), saddle.a, saddle.c), W, Z, tol=0, max_iter=50
    )
    np.testing.assert_allclose(other.x, dense.x, atol=1e-8)


def test_sparse_entropic_norm_equals_the_dense_one():
    saddle, W, Z, _ = game(6)
    sparse = Bilinear(sp.csr_array(saddle.matrix.data), saddle.a, saddle.c)
    for geometry in GEOMETRIES[1:]:
        runs = [
            extragradient(s, W, Z, geometry=geometry, tol=0, max_iter=20) for s in (saddle, sparse)
        ]
        np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-10)


def test_start_is_used_and_not_changed():
    saddle, W, Z, _ = game(2)
    start = (np.full(7, 1 / 7), np.full(11, 1 / 11))
    kept = tuple(point.copy() for point in start)
    first = extragradient(saddle, W, Z, start=start, geometry="entropic", max_iter=200, tol=0)
    again = extragradient(saddle, W, Z, geometry="entropic", max_iter=200, tol=0)
    np.testing.assert_array_equal(start[0], kept[0])
    np.testing.assert_allclose(first.x, again.x, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"geometry": "hyperbolic"}, "geometry must be"),
        ({"step": -1.0}, "step must be a positive number"),
        ({"tol": -1.0}, "tol must be"),
        ({"primal": Simplex(3)}, "primal must be a domain of size 7"),
        ({"dual": Ball(11), "geometry": "entropic"}, "lacks, an entropic projection"),
        ({"primal": Birkhoff(2), "F": np.ones((4, 11))}, "lacks, a Euclidean projection"),
        ({"start": (np.ones(7), np.full(11, 1 / 11))}, r"start\[0\] must lie in its domain"),
        ({"start": (np.eye(1, 7)[0], np.eye(1, 11)[0]), "geometry": "entropic"}, "positive"),
        ({"F": np.full((7, 11), np.nan)}, "F must be finite"),
    ],
)
def test_bad_input_is_named(arguments, message):
    arguments = dict(arguments)
    F = arguments.pop("F", np.ones((7, 11)))
    primal = arguments.pop("primal", Simplex(7))
    dual = arguments.pop("dual", Simplex(11))
    with pytest.raises(ValueError, match=message):
        extragradient(Bilinear(F), primal, dual, **arguments)


def test_matrix_free_entropic_needs_a_step():
    saddle = Bilinear(aslinearoperator(np.ones((2, 3))))
    with pytest.raises(ValueError, match="give step"):
        extragradient(saddle, Simplex(2), Simplex(3), geometry="entropic")
    result = extragradient(saddle, Simplex(2), Simplex(3), geometry="entropic", step=1.0)
    assert result.success


@pytest.mark.parametrize("geometry", ["euclidean", "entropic"])
@pytest.mark.parametrize("size", [1e-305, 1e-200, 1e-150, 1e150, 1e200, 1e305])
def test_numbers_at_the_ends_of_float64_raise_no_warning(geometry, size):
    rng = np.random.default_rng(0)
    for weight in (1.0, size, 1 / size):
        saddle = Bilinear(weight * rng.standard_normal((3, 2)), rng.standard_normal(3))
        sides = Simplex(3, size), Simplex(2)
        with np.errstate(all="raise"), suppress(ValueError):  # values beyond are refused
            result = extragradient(saddle, *sides, geometry=geometry, tol=0.0, max_iter=20)
            assert np.isfinite(result.value)
            assert result.gap >= 0
            assert result.lower_bound <= result.value


def test_bounds_beyond_float64_claim_nothing():
    saddle = Bilinear(np.zeros((3, 1)), [1e164, -3e164, 6e163])
    result = extragradient(saddle, Box(np.zeros(3), 3e149), Box([0.0], [1.0]), max_iter=3)
    assert result.status is Status.NON_FINITE
    assert result.value == 0
    assert result.gap == np.inf
    assert result.lower_bound == -np.inf


def test_a_step_beyond_float64_ends_at_the_point_before_it():
    saddle = Bilinear(1e150 * np.ones((1, 2)), c=[1e200, 0.0])
    for geometry in ("euclidean", "entropic"):
        result = extragradient(
            saddle, Simplex(1), Simplex(2), geometry=geometry, step=1e200, tol=0.0, max_iter=5
        )
        assert result.status is Status.NON_FINITE
        assert np.isfinite(result.value)
        assert result.dual is not None
        assert Simplex(2).contains(result.dual)


ONE = [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("domain", "g", "best"),
    [
        (CappedSimplex(4, 2), [1, 1, 0.5, 0], [1, 1, 1e-10, 0]),  # no entry has room for the rest
        (Ball(4), ONE, ONE),
        (NuclearNormBall((2, 2)), ONE, ONE),
        (Spectraplex(2), ONE, ONE),
        (Permutahedron([2, 1, 0, 0]), [2, 1, 0, 0], [2, 1, 0, 0]),
        (Product([Simplex(2), Ball(2)]), [0, 0, 1, 0], [1, 0, 1, 0]),
    ],
    ids=repr,
)
def test_bounds_count_what_a_point_is_outside_its_domain(domain, g, best):
    """Of the game ``(w_1 + 2 w_2) <g, z>`` the value is ``max <g, z>``, and no bound is above."""
    g, best = np.array(g, dtype=float), np.array(best, dtype=float)
    value = domain.lmo(-g) @ g
    start = np.array([0.5, 0.5]), best * (1 + 8e-10 * (best == best.max()))
    result = extragradient(
        Bilinear(np.vstack([g, 2 * g])), Simplex(2), domain, start=start, max_iter=0
    )
    assert value * (1 - 1e-7) <= result.lower_bound <= value
    # Of the transposed game the value at the point is below the optimum, by less than the gap.
    result = extragradient(
        Bilinear(-np.vstack([g, 2 * g]).T), domain, Simplex(2), start=start[::-1], max_iter=0
    )
    assert result.value - result.gap <= -value <= result.value + result.gap
