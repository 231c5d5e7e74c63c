"""Facial constants and distances: closed forms, and brute force on random polytopes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from cornerstep.domains import (
    BalancedBox,
    CappedSimplex,
    ConvexHull,
    Polytope,
    facial_constant,
    facial_distance,
)
from support.domains_zoo import as_array, binary_vertices, cases
from support.domains_zoo import facial_constant as of_exactly

CUBES = {n: binary_vertices(n, lambda total: True) for n in range(1, 6)}


def distinct(points):
    """The points that differ by more than rounding, none of them rounded."""
    return np.array(points)[np.unique(np.round(points, 9), axis=0, return_index=True)[1]]


def brute_force(rows, vertices, s):
    """The largest over all sets of at most s rows."""
    count = sum(len(np.unique((vertices @ row).round(9))) > 1 for row in rows)
    return max(of_exactly(rows, vertices, r) for r in range(1, min(s, count) + 1))


@pytest.mark.parametrize("n", range(2, 6))
def test_facial_distances_of_cube_simplex_and_cross_polytope(n):
    assert facial_distance(CUBES[n]) == pytest.approx(1 / math.sqrt(n))
    simplex = 2 / math.sqrt(n if n % 2 == 0 else n - 1 / n)
    assert facial_distance(np.eye(n)) == pytest.approx(simplex)
    cross = np.vstack([np.eye(n), -np.eye(n)])
    assert facial_distance(cross) == pytest.approx(1 / math.sqrt(n - 1))


@pytest.mark.parametrize("seed", range(6))
def test_facial_distance_is_the_least_over_all_faces(seed):
    """A set of vertices is a face if some linear function is largest there and nowhere else."""
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    points = rng.integers(-2, 3, size=(6, n)).astype(float)
    hull = ConvexHull(points)
    vertices = np.unique([hull.lmo(rng.standard_normal(n)) for _ in range(300)], axis=0)
    least = math.inf
    for size in range(1, len(vertices)):
        for some in itertools.combinations(range(len(vertices)), size):
            rest = np.setdiff1d(np.arange(len(vertices)), some)
            face, others = vertices[list(some)], vertices[rest]
            # c'v equal on the face and at least 1 less on the others
            found = linprog(
                np.zeros(n + 1), np.column_stack([others, -np.ones(len(others))]),
                -np.ones(len(others)), np.column_stack([face, -np.ones(len(face))]),
                np.zeros(len(face)), bounds=(None, None),
            )  # fmt: skip
            if found.status != 0:
                continue
            p, q = cp.Variable(len(face), nonneg=True), cp.Variable(len(others), nonneg=True)
            rules = [cp.sum(p) == 1, cp.sum(q) == 1]
            goal = cp.Minimize(cp.sum_squares(face.T @ p - others.T @ q))
            least = min(least, math.sqrt(cp.Problem(goal, rules).solve(solver="CLARABEL")))
    assert facial_distance(points) == pytest.approx(least, rel=1e-5)


def test_facial_distance_of_little_and_of_much():
    assert facial_distance([[1.0, 2.0]]) == math.inf
    assert facial_distance([[0.0, 0.0], [3.0, 4.0], [1.5, 2.0]]) == pytest.approx(5.0)
    with pytest.raises(ValueError, match="at most 8 dimensions"):
        facial_distance(np.eye(12))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_constants_scale(scale):
    vertices = CUBES[3]
    assert facial_distance(scale * vertices) == pytest.approx(scale / math.sqrt(3))
    assert ConvexHull(scale * vertices).facial_constant(2) == pytest.approx(2 / scale**2)


@pytest.mark.parametrize("s", range(1, 5))
def test_general_polytopes_agree_with_closed_forms(s):
    """The cube, P_k and Q_k as rows and as hulls."""
    assert Polytope(lower=np.zeros(5), upper=1.0).facial_constant(s) == pytest.approx(s)
    P = Polytope(A_eq=np.ones((1, 5)), b_eq=[2.0], lower=0.0, upper=1.0)
    assert P.facial_constant(s) == pytest.approx(s)
    Q = Polytope(np.ones((1, 5)), [3.0], lower=0.0, upper=1.0)
    assert Q.facial_constant(s) == pytest.approx(5 + 3 * s - 3)
    assert ConvexHull(CUBES[4]).facial_constant(s) == pytest.approx(s)
    k = min(s, 2)  # facets of the simplex inside its plane: sums of rows shrink beyond half of them
    assert ConvexHull(np.eye(4)).facial_constant(s) == pytest.approx(k - k**2 / 4)


@pytest.mark.parametrize("seed", range(8))
def test_enumerated_constants_are_the_formula(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, size=(4, 3)).astype(float)
    domain = Polytope(rows, np.full(4, 2.0), lower=-1.0, upper=1.0)
    everything = np.vstack([rows, np.eye(3), -np.eye(3)])
    vertices = distinct([domain.lmo(rng.standard_normal(3)) for _ in range(1000)])
    for s in (1, 2, 3):
        assert domain.facial_constant(s) == pytest.approx(brute_force(everything, vertices, s))
    caps = rng.uniform(0.3, 1.0, 4)
    both = np.vstack([np.eye(4), -np.eye(4)])
    capped = CappedSimplex(4, 1.1, caps)
    balanced = BalancedBox([1, 1, -1, -1], caps)
    for box in (capped, balanced):
        corners = distinct([as_array(box.lmo(rng.standard_normal(4))) for _ in range(1000)])
        for s in (1, 2, 3):
            assert box.facial_constant(s) == pytest.approx(brute_force(both, corners, s))


@pytest.mark.parametrize("s", [3, 6, 11])
def test_a_bound_takes_over_where_sets_of_rows_are_too_many(s):
    """No less than any set of rows says; equal to the closed form of the cube."""
    rng = np.random.default_rng(s)
    rows, vertices = rng.standard_normal((40, 6)), rng.standard_normal((30, 6))
    bound = facial_constant(rows, vertices, s)
    for _ in range(200):
        some = rows[rng.choice(40, s, replace=False)]
        assert of_exactly(some, vertices, s) <= bound * (1 + 1e-9)
    eye = np.eye(24)
    both, corners = np.vstack([eye, -eye]), np.vstack([np.zeros(24), eye, np.ones(24), 1 - eye])
    assert facial_constant(both, corners, s) == pytest.approx(s)


def test_every_domain_of_the_zoo_has_one_or_says_none():
    for case in cases():
        constant = getattr(case.domain, "facial_constant", None)
        value = constant(2) if constant is not None else None
        assert value is None or value >= 0
    assert Polytope(lower=np.zeros(30), upper=np.arange(1.0, 31)).facial_constant(2) is None
    assert ConvexHull(np.eye(40)).facial_constant(2) is None
