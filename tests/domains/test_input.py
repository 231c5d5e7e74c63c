"""What the domains refuse: one error each, naming the argument."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep.domains import (
    Ball,
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    Ellipsoid,
    FlowPolytope,
    Intersection,
    KSparsePolytope,
    KSupportBall,
    L1Ball,
    LpBall,
    NuclearNormBall,
    OWLBall,
    PathPolytope,
    Permutahedron,
    Polytope,
    Product,
    Simplex,
    Spectraplex,
    Transport,
)

nan, inf = np.nan, np.inf
SIZED = (
    Simplex, L1Ball, Ball, Birkhoff, Spectraplex, lambda n: CappedSimplex(n, 1),
    lambda n: LpBall(n, 2), lambda n: KSupportBall(n, 1), lambda n: KSparsePolytope(n, 1),
)  # fmt: skip
WITH_RADIUS = (
    lambda radius: Simplex(3, radius),
    lambda radius: L1Ball(3, radius),
    lambda radius: Ball(3, radius),
    lambda radius: NuclearNormBall((2, 3), radius),
    lambda radius: Spectraplex(2, radius),
    lambda radius: LpBall(3, 1.5, radius),
    lambda radius: KSupportBall(3, 2, radius),
    lambda radius: KSparsePolytope(3, 2, radius),
    lambda radius: OWLBall([2, 1], radius),
)


@pytest.mark.parametrize("domain", SIZED)
@pytest.mark.parametrize("n", [0, -3, 2.5, nan, inf])
def test_n_must_be_a_positive_integer(domain, n):
    with pytest.raises(ValueError, match=rf"^n must be a positive integer, got {n}"):
        domain(n)


@pytest.mark.parametrize("domain", SIZED)
@pytest.mark.parametrize("n", [None, "many", [2, 3]])
def test_n_must_be_a_number(domain, n):
    with pytest.raises(TypeError, match=r"^n must be a number, got"):
        domain(n)


@pytest.mark.parametrize("domain", WITH_RADIUS)
@pytest.mark.parametrize("radius", [0, -1.0, nan, inf])
def test_radius_must_be_positive(domain, radius):
    with pytest.raises(ValueError, match=rf"^radius must be a positive.*got {radius}"):
        domain(radius)


@pytest.mark.parametrize("domain", WITH_RADIUS)
def test_radius_must_be_a_number(domain):
    with pytest.raises(TypeError, match=r"^radius must be a number, got None"):
        domain(None)


REFUSED = {
    "total zero": (lambda: CappedSimplex(3, 0), "total must be a positive"),
    "total NaN": (lambda: CappedSimplex(3, nan), "total must be a positive"),
    "total too large": (lambda: CappedSimplex(3, 3.1), "total must be at most the sum of the caps"),
    "total above caps": (lambda: CappedSimplex(2, 1, [0.5, 0.4]), "total must be at most"),
    "cap zero": (lambda: CappedSimplex(3, 1, 0.0), "cap must be a positive"),
    "cap infinite": (lambda: CappedSimplex(3, 1, inf), "cap must be a positive"),
    "caps negative": (lambda: CappedSimplex(3, 1, [1, -1, 1]), "cap must not be negative, got -1$"),
    "caps NaN": (lambda: CappedSimplex(3, 1, [1, nan, 1]), "cap must be finite"),
    "caps short": (lambda: CappedSimplex(3, 1, [1, 1]), "cap must be a vector of length 3"),
    "box empty": (lambda: Box([0, 2], [1, 1]), r"lower must not exceed upper.*coordinate 1"),
    "box no coordinate": (lambda: Box([], []), "lower and upper"),
    "box shapes": (lambda: Box([0, 0], [1, 1, 1]), "lower and upper must match"),
    "box matrix": (lambda: Box(np.zeros((2, 2)), 1), "lower must be a vector"),
    "box lower NaN": (lambda: Box([0, nan], 1), "lower must be finite"),
    "box upper infinite": (lambda: Box([0, 0], inf), "upper must be finite"),
    "nuclear shape": (lambda: NuclearNormBall(cast(Any, 3)), "shape must be two integers"),
    "nuclear side": (lambda: NuclearNormBall((3, 0)), r"shape\[1\] must be a positive integer"),
    "hull no point": (lambda: ConvexHull(np.zeros((0, 3))), "vertices must have at least one row"),
    "hull no column": (lambda: ConvexHull(np.zeros((3, 0))), "vertices must have at least one row"),
    "hull vector": (lambda: ConvexHull([1.0, 2.0]), "vertices must have two dimensions"),
    "hull NaN": (lambda: ConvexHull([[1.0, nan]]), "vertices must be finite"),
    "hull sparse NaN": (lambda: ConvexHull(sp.csr_array([[1.0, nan]])), "vertices must be finite"),
    "polytope nothing": (lambda: Polytope(), "give A_ub, A_eq, lower or upper"),
    "polytope numbers": (lambda: Polytope(lower=0, upper=1), "give A_ub, A_eq, lower or upper"),
    "polytope no b_ub": (lambda: Polytope([[1.0, 1]]), "A_ub and b_ub must be given together"),
    "polytope no A_eq": (lambda: Polytope([[1.0]], [1], b_eq=[1]), "A_eq and b_eq must be given"),
    "polytope b_ub": (lambda: Polytope([[1.0, 1]], [1, 2]), "b_ub must be a vector of length 1"),
    "polytope A_eq": (
        lambda: Polytope([[1.0, 1]], [1], [[1.0, 1, 1]], [1]), "A_eq must have 2 columns"),
    "polytope A_ub 1-d": (lambda: Polytope([1.0, 1], [1]), "A_ub must have 2 columns"),
    "polytope A_ub NaN": (lambda: Polytope([[1.0, nan]], [1]), "A_ub must be finite"),
    "polytope b_eq NaN": (lambda: Polytope(None, None, [[1.0]], [nan]), "b_eq must be finite"),
    "polytope lower NaN": (lambda: Polytope(lower=[nan, 0], upper=1), "lower must not contain NaN"),
    "polytope lower inf": (lambda: Polytope(lower=[inf, 0], upper=inf), "lower must not contain"),
    "polytope upper -inf": (lambda: Polytope(lower=[0, 0], upper=-inf), "upper must not contain"),
    "polytope bounds": (lambda: Polytope(lower=[0, 0], upper=[1, 1, 1]), "upper must be a number"),
    "polytope width": (lambda: Polytope(np.zeros((1, 0)), [1]), "the number of coordinates"),
    "polytope empty": (
        lambda: Polytope([[1.0, 1]], [-1], lower=0, upper=1), "the polytope is empty"),
    "polytope crossed": (lambda: Polytope(lower=[0, 2], upper=[1, 1]), "the polytope is empty"),
    "polytope half": (lambda: Polytope([[1.0, 1]], [1]), "the polytope is unbounded.*the ray"),
    "polytope ray": (lambda: Polytope([[1.0, -1]], [1], lower=0), "the polytope is unbounded"),
    "polytope line": (
        lambda: Polytope(None, None, [[1.0, -1]], [0]), "the polytope is unbounded"),
    "polytope binary": (
        lambda: Polytope(lower=[0, 0], upper=2, binary_vertices=True), "binary_vertices needs"),
    "lp below 1": (lambda: LpBall(3, 0.5), "p must be at least 1, got 0.5"),
    "lp NaN": (lambda: LpBall(3, nan), "p must be a positive"),
    "k zero": (lambda: KSupportBall(3, 0), "k must be a positive integer"),
    "k large": (lambda: KSparsePolytope(3, 4), "k must be at most n = 3, got 4"),
    "owl rising": (lambda: OWLBall([1, 2]), "weights must be >= 0, in falling order"),
    "owl zero": (lambda: OWLBall([0, 0]), "weights must be >= 0"),
    "owl NaN": (lambda: OWLBall([nan, 0]), "weights must be finite"),
    "axes zero": (lambda: Ellipsoid([0, 0]), "axes must be a vector or a matrix"),
    "axes NaN": (lambda: Ellipsoid([1, nan]), "axes must be a vector or a matrix"),
    "center short": (lambda: Ellipsoid([1, 2], [0]), "center must be a vector of length 2"),
    "permutahedron of nothing": (lambda: Permutahedron([]), "the length of values must be"),
    "permutahedron NaN": (lambda: Permutahedron([nan]), "values must be finite"),
    "transport sums": (lambda: Transport([1], [2]), "supply and demand must have the same sum"),
    "transport negative": (lambda: Transport([1, -1], [0]), "supply must be numbers >= 0"),
    "edges flat": (lambda: FlowPolytope([0, 1], [0, 0]), r"edges must be an array of shape \(m, 2"),
    "edges loop": (lambda: PathPolytope([(1, 1)], 0, 1), "edges must connect different nodes"),
    "edges real": (lambda: PathPolytope([(0, 0.5)], 0, 1), "edges must be pairs of node numbers"),
    "edges beyond": (lambda: FlowPolytope([(0, 2)], [0, 0]), "below 2, the number of supplies"),
    "supply sum": (lambda: FlowPolytope([(0, 1)], [1, 0]), "supply must sum to 0, got 1"),
    "capacity": (lambda: FlowPolytope([(0, 1)], [1, -1], -1), "capacity must be >= 0, got -1"),
    "capacity NaN": (lambda: FlowPolytope([(0, 1)], [1, -1], nan), "capacity must be >= 0"),
    "capacity long": (lambda: FlowPolytope([(0, 1)], [1, -1], [1, 1]), "capacity must be a number"),
    "capacity small": (lambda: FlowPolytope([(0, 1)], [1, -1], 0.5), "the polytope is empty"),
    "flow cycle": (
        lambda: FlowPolytope([(0, 1), (1, 0)], [0, 0], inf), "the polytope is unbounded"),
    "path cycle": (
        lambda: PathPolytope([(0, 1), (1, 2), (2, 1)], 0, 2), "edges must have no cycle"),
    "path none": (lambda: PathPolytope([(0, 1), (2, 1)], 0, 2), "edges must have a path"),
    "path ends": (lambda: PathPolytope([(0, 1)], 1, 1), "source and sink must be different"),
    "path node": (lambda: PathPolytope([(0, 1)], 0, 2), "sink must be a node from 0 to 1, got 2"),
    "disjoint": (
        lambda: Intersection([Simplex(3), Simplex(3, 2)]), "domains must have a point in common"),
    "intersection of one": (lambda: Intersection([Simplex(3)]), "domains must be at least two"),
    "intersection sizes": (
        lambda: Intersection([Simplex(3), Simplex(2)]), r"of one size, got sizes \[3, 2\]"),
    "product of nothing": (lambda: Product([]), "domains must be a list of at least one"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED)
def test_value_error_names_the_argument(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_product_of_something_else():
    with pytest.raises(TypeError, match="domains must have size and lmo, got 3"):
        Product([Simplex(2), 3])


def test_points_outside_a_hull_have_no_face_and_no_step():
    hull = ConvexHull(np.eye(3))
    outside = np.array([0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="x must lie in the convex hull"):
        hull.in_face_lmo(np.ones(3), outside)
    with pytest.raises(ValueError, match="no point satisfies all constraints"):
        hull.max_step(outside, np.array([1.0, -1.0, 0.0]))
