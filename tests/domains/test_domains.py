"""Every polytope against its inequalities: oracles, faces, steps, starts, constants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from cornerstep.core.vectors import dense
from cornerstep.domains import (
    BalancedBox,
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    Domain,
    L1Ball,
    Polytope,
    Product,
    Simplex,
)
from cornerstep.domains.base import has_oracle
from cornerstep.domains.product import starting_vertex
from support.domains_zoo import (
    as_array,
    balanced_vertices,
    binary_vertices,
    cases,
    facial_constant,
    largest_distance,
)

TOL = 1e-8  # of what passes through a linear program; direct oracles are far closer
SEEDS = range(3)
KINDS = ("normal", "ties", "zero", "constant")

every_case = pytest.mark.parametrize("case", cases(), ids=str)
every_case_with_faces = pytest.mark.parametrize(
    "case", [case for case in cases() if case.has_faces], ids=str
)
every_seed = pytest.mark.parametrize("seed", SEEDS)


def allclose(case, value, expected):
    return abs(value - expected) <= TOL * case.rows.scale


@every_case
def test_is_a_domain_and_prints(case):
    assert isinstance(case.domain, Domain)
    assert case.domain.size == case.rows.A_ub.shape[1]
    assert type(case.domain).__name__ in repr(case.domain)


@every_case
@pytest.mark.parametrize("kind", KINDS)
@every_seed
def test_lmo_is_a_vertex_of_least_value(case, kind, seed):
    gradient = case.gradient(kind, seed)
    vertex = as_array(case.domain.lmo(gradient))
    assert case.rows.violation(vertex) <= TOL
    assert case.rows.is_vertex(vertex) or not case.all_atoms_extreme
    assert allclose(case, gradient @ vertex, case.rows.minimum(gradient))


@every_case_with_faces
@pytest.mark.parametrize("count", [1, 2, 3, 100], ids=["vertex", "edge", "face", "inside"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_face_lmo_is_the_best_vertex_of_the_smallest_face(case, count, kind):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        x, used = case.point(count, rng)
        gradient = case.gradient(kind, seed)
        vertex = as_array(case.domain.in_face_lmo(gradient, x))
        tight = case.rows.tight(x)
        assert case.rows.violation(vertex) <= TOL
        assert case.rows.tight(vertex, TOL)[tight].all()
        assert case.rows.is_vertex(vertex) or not case.all_atoms_extreme
        assert allclose(case, gradient @ vertex, case.rows.minimum(gradient, tight))
        assert (gradient @ vertex <= used @ gradient + TOL * case.rows.scale).all()


def directions(case, x, rng):
    """What the methods move along, and a direction into P that none of them would take."""
    gradient = rng.standard_normal(case.domain.size)
    towards = as_array(case.domain.lmo(gradient))
    away = as_array(case.domain.in_face_lmo(-gradient, x))
    inside, _ = case.point(4, rng)
    return {
        "towards": towards - x,
        "away": x - away,
        "pairwise": towards - away,
        "anywhere": rng.uniform(0.1, 10) * (inside - x),
    }


@every_case_with_faces
@pytest.mark.parametrize("count", [1, 2, 4, 100], ids=["vertex", "edge", "face", "inside"])
def test_max_step_ends_on_the_boundary_and_on_the_bound(case, count):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        x, _ = case.point(count, rng)
        for name, d in directions(case, x, rng).items():
            if np.abs(d).max() <= 1e-9 * case.rows.scale:
                continue
            step = case.domain.max_step(x, d)
            assert step == pytest.approx(case.rows.largest_step(x, d), rel=1e-6, abs=TOL), name
            beyond = x + 1.01 * step * d + 1e-3 * d / np.abs(d).max()
            assert case.domain.contains(x + step * d, tol=TOL), name
            assert not case.domain.contains(beyond, tol=TOL), name
            landed = x + step * d
            case.snap(landed)
            assert case.rows.violation(landed) <= TOL, name
            for bound in (case.lower, case.upper):
                blocked = reached(x, d, step, bound)
                assert bound is None or (landed[blocked] == bound[blocked]).all(), name


def reached(x, d, step, bound):
    """Coordinates that arrive at ``bound`` after ``step``, as far as arithmetic can tell."""
    if bound is None:
        return slice(0)
    towards = np.flatnonzero(np.isfinite(bound) & (d != 0))
    times = (bound - x)[towards] / d[towards]
    return towards[(times > 0) & (np.abs(times - step) <= 1e-15 * step)]


@every_case_with_faces
def test_max_step_along_nothing_is_unlimited(case):
    x = as_array(case.domain.start())
    assert case.domain.max_step(x, np.zeros(case.domain.size)) == np.inf


@every_case
def test_start_is_a_vertex(case):
    start = as_array(starting_vertex(case.domain))
    assert case.rows.violation(start) <= TOL
    assert case.rows.is_vertex(start) or not case.all_atoms_extreme


@every_case
@every_seed
def test_contains(case, seed):
    rng = np.random.default_rng(seed)
    for count in (1, 3, 100):
        x, _ = case.point(count, rng)
        assert case.domain.contains(x)
        y = x + rng.standard_normal(x.size) * case.rows.scale * 10.0 ** rng.uniform(-6, 1)
        assert case.domain.contains(y) == (case.rows.violation(y) <= 1e-9)
    for i in range(x.size):
        out = x.copy()
        out[i] += 100 * case.rows.scale
        assert not case.domain.contains(out)


@every_case
def test_diameter_bounds_every_distance_between_vertices(case):
    diameter = case.domain.diameter
    if diameter is None:
        assert isinstance(case.domain, (Polytope, Product))
    else:
        assert largest_distance(case.vertices) <= diameter * (1 + 1e-9) + 1e-12


@every_case
def test_constraints_are_those_of_the_domain(case):
    if not has_oracle(case.domain, "constraints"):
        return
    lower, upper, rows, row_lower, row_upper = case.domain.constraints
    rows = rows.toarray() if sp.issparse(rows) else rows
    tied = row_lower == row_upper
    over, under = np.isfinite(row_upper) & ~tied, np.isfinite(row_lower) & ~tied
    for seed in range(3):
        gradient = np.random.default_rng(seed).standard_normal(case.domain.size)
        answer = linprog(
            gradient, np.vstack([rows[over], -rows[under]]),
            np.concatenate([row_upper[over], -row_lower[under]]), rows[tied], row_upper[tied],
            np.column_stack([lower, upper]),
        )  # fmt: skip
        assert answer.fun == pytest.approx(case.rows.minimum(gradient), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("domain", "vertices"),
    [
        (Simplex(4, 3.0), 3 * np.eye(4)),
        (Simplex(1), np.eye(1)),
        (L1Ball(3, 2.0), 2 * np.vstack([np.eye(3), -np.eye(3)])),
        (Box([-1, 0, 2], [1, 4, 2]), list(itertools.product([-1.0, 1], [0.0, 4], [2.0]))),
        (CappedSimplex(6, 2), binary_vertices(6, lambda total: total == 2)),
        (CappedSimplex(6, 5), binary_vertices(6, lambda total: total == 5)),
        (CappedSimplex(6, 3, cap=0.5), 0.5 * binary_vertices(6, lambda total: total == 6)),
        (CappedSimplex(6, 2, at_most=True), binary_vertices(6, lambda total: total <= 2)),
        (CappedSimplex(6, 4, at_most=True), binary_vertices(6, lambda total: total <= 4)),
        (CappedSimplex(3, 8, at_most=True), binary_vertices(3, lambda total: total <= 8)),
        (BalancedBox([1, 1, -1, -1, -1], 2.0), 2 * balanced_vertices([1, 1, -1, -1, -1])),
        (BalancedBox([1, -1, -1]), balanced_vertices([1, -1, -1])),
        (Birkhoff(1), np.eye(1)),
        (Birkhoff(3), [np.eye(3)[list(p)].ravel() for p in itertools.permutations(range(3))]),
        (ConvexHull([[0.0, 0], [3, 4], [1, 1]]), [[0.0, 0], [3, 4], [1, 1]]),
        (Product([Simplex(2), Box([0], [2])]), [[1.0, 0, 0], [0, 1, 0], [1, 0, 2], [0, 1, 2]]),
    ],
    ids=repr,
)
def test_diameter_is_attained(domain, vertices):
    assert domain.diameter == pytest.approx(largest_distance(np.array(vertices, dtype=float)))


def both_bounds(n):
    return [*np.eye(n), *-np.eye(n)]


FACIAL = [
    (Simplex(4, 2.5), -np.eye(4), 2.5 * np.eye(4)),
    (Box(np.zeros(4), 1.0), both_bounds(4), binary_vertices(4, lambda total: True)),
    (
        Box([0.0, -1, 2], [0.5, 1, 5]),
        both_bounds(3),
        np.array(list(itertools.product([0.0, 0.5], [-1.0, 1], [2.0, 5]))),
    ),
    (
        BalancedBox([1, 1, -1, -1, -1], 0.5),
        both_bounds(5),
        0.5 * balanced_vertices([1, 1, -1, -1, -1]),
    ),
    (CappedSimplex(5, 2), both_bounds(5), binary_vertices(5, lambda total: total == 2)),
    (
        CappedSimplex(5, 1.5, cap=0.5),
        both_bounds(5),
        0.5 * binary_vertices(5, lambda total: total == 3),
    ),
    (
        CappedSimplex(5, 3, at_most=True),
        [*both_bounds(5), np.ones(5)],
        binary_vertices(5, lambda total: total <= 3),
    ),
    (
        Birkhoff(3),
        -np.eye(9),
        np.array([np.eye(3)[list(p)].ravel() for p in itertools.permutations(range(3))]),
    ),
    (
        Product([Simplex(2, 0.5), Box(np.zeros(2), 2.0)]),
        [*-np.eye(4), *np.eye(4)[2:]],
        np.array([[*v, *w] for v in 0.5 * np.eye(2) for w in itertools.product([0, 2], repeat=2)]),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("domain", "rows", "vertices"), FACIAL, ids=[repr(row[0]) for row in FACIAL]
)
def test_facial_constant_is_the_formula(domain, rows, vertices):
    for s in range(1, min(domain.size, 5)):
        assert domain.facial_constant(s) == pytest.approx(facial_constant(rows, vertices, s))


def test_facial_constant_stops_at_the_dimension():
    for domain in (Simplex(3), CappedSimplex(3, 2), Box(np.zeros(3), 1.0), Birkhoff(2)):
        assert domain.facial_constant(50) == domain.facial_constant(domain.size)


def test_unknown_facial_constant_is_none_in_products_too():
    unknown = CappedSimplex(50, 2.5)
    assert unknown.facial_constant(2) is None
    product = Product([Simplex(3), unknown])
    assert product.facial_constant is None or product.facial_constant(2) is None


def test_balanced_pairs_are_taken_while_they_are_worth_it():
    domain = BalancedBox([1, 1, 1, -1, -1])
    gradient = np.array([-3.0, 1.0, 0.0, 2.0, -0.5])
    assert as_array(domain.lmo(gradient)) == pytest.approx([1, 0, 0, 0, 1])
    assert not as_array(domain.lmo(np.ones(5))).any()
    assert as_array(domain.lmo(-np.ones(5))).sum() == 4


def test_grid_is_the_common_entry_of_the_vertices():
    for case in cases():
        grid = getattr(case.domain, "grid", None)
        if grid is not None:
            assert np.isin(case.vertices.round(9), np.round([0.0, grid], 9)).all(), case
    assert CappedSimplex(8, 1, cap=0.25).grid == 0.25
    assert CappedSimplex(8, 1, cap=0.3).grid is None
    assert CappedSimplex(8, 3, at_most=True).grid is None
    assert BalancedBox([1, -1], 0.3).grid == 0.3
    assert BalancedBox([1, -1], [0.3, 0.2]).grid is None
    assert Product([Simplex(3), Birkhoff(2)]).grid == 1.0
    assert Product([Simplex(3), Simplex(3, 2.0)]).grid is None
    square = Polytope(A_eq=np.ones((1, 3)), b_eq=[2], lower=0, upper=1, binary_vertices=True)
    assert square.grid == 1.0
    assert square.facial_constant(2) == 2.0


@pytest.mark.parametrize(
    "domain",
    [
        Simplex(5, 2), L1Ball(4, 3), ConvexHull(np.random.default_rng(1).random((6, 3))),
        Box([0, -1, 2, 0], [1, 3, 2, 0.5]), CappedSimplex(6, 3), CappedSimplex(5, 2.5),
        CappedSimplex(6, 2, at_most=True), CappedSimplex(5, 2.5, at_most=True),
        CappedSimplex(6, 1, cap=0.3), CappedSimplex(3, 7, cap=2, at_most=True), CappedSimplex(4, 4),
    ],
    ids=repr,
)  # fmt: skip
def test_atoms_and_their_scores(domain):
    gradient = np.random.default_rng(0).standard_normal(domain.size)
    everything = np.arange(domain.n_atoms)
    values = [gradient @ as_array(domain.atom(i)) for i in everything]
    np.testing.assert_allclose(domain.atom_scores(everything, gradient), values)
    np.testing.assert_allclose(domain.atom_scores(everything[::2], gradient), values[::2])
    assert gradient @ as_array(domain.lmo(gradient)) == pytest.approx(min(values))
    assert len({as_array(domain.atom(i)).tobytes() for i in everything}) == domain.n_atoms
    assert all(domain.contains(as_array(domain.atom(i))) for i in everything)


@pytest.mark.parametrize(
    "domain", [Simplex(6, 2.0), L1Ball(5, 0.5), ConvexHull(np.eye(7))], ids=repr
)
@pytest.mark.parametrize("count", [1, 3, 5])
def test_several_vertices_are_the_best_in_order(domain, count):
    gradient = np.random.default_rng(count).standard_normal(domain.size)
    found = [vertex @ gradient for vertex in domain.lmo_many(gradient, count)]
    every = domain.atom_scores(np.arange(domain.n_atoms), gradient)
    np.testing.assert_allclose(found, np.sort(every)[:count])
    assert found[0] == domain.lmo(gradient) @ gradient


def test_vertices_of_capped_simplices_are_those_that_the_oracle_finds():
    """The oracle of random directions finds every vertex, and nothing else."""
    rng = np.random.default_rng(0)
    for domain in (CappedSimplex(4, 2.5), CappedSimplex(4, 1.5, at_most=True), Box(0, [1, 2, 3])):
        listed = {as_array(domain.atom(i)).round(9).tobytes() for i in range(domain.n_atoms)}
        found = {
            (as_array(domain.lmo(rng.standard_normal(domain.size))) + 0.0).round(9).tobytes()
            for _ in range(3000)
        }
        assert found == listed


def test_domains_with_more_vertices_than_an_integer_holds():
    for domain in (Box(np.zeros(200), 1.0), CappedSimplex(200, 100)):
        assert domain.n_atoms > 2**63
        assert domain.contains(as_array(domain.atom(domain.n_atoms - 1)))
    assert CappedSimplex(3, 1, cap=[0.5, 0.6, 0.7]).atom_scores is None


@every_seed
def test_lmo_of_rows_without_bounds_starts_from_a_vertex(seed):
    """The simplex method leaves a free coordinate without cost at 0, inside the polytope."""
    case = next(case for case in cases() if case.name == "polytope cube rows")
    for gradient in (np.zeros(3), np.eye(3)[seed], -np.eye(3)[seed]):
        assert case.rows.is_vertex(case.build().lmo(gradient))
        assert case.rows.is_vertex(case.build().in_face_lmo(gradient, np.zeros(3)))
        on_facet = 0.3 * np.eye(3)[seed - 1] + np.eye(3)[seed]
        vertex = case.build().in_face_lmo(gradient, on_facet)
        assert case.rows.is_vertex(vertex)
        assert vertex[seed] == pytest.approx(1.0)


@every_seed
def test_long_steps_land_on_the_bound(seed):
    rng = np.random.default_rng(seed)
    lower, upper = np.array([-1e6, 0.0, 3e5, 0.0]), np.array([1e6, 7e6, 4e5, 1e-3])
    box = Box(lower, upper)
    for _ in range(100):
        x, d = rng.uniform(lower, upper), rng.standard_normal(4) * (upper - lower)
        step = box.max_step(x, d)
        landed = x + step * d
        box.snap(landed)
        assert ((landed == lower) | (landed == upper)).sum() == 1


@pytest.mark.parametrize("drift", [0.0, 1e-16, -1e-16, -5e-13])
def test_l1_steps_land_on_zero_despite_drift(drift):
    """On the sphere up to rounding is on the sphere: a blocked coordinate leaves the support."""
    ball = L1Ball(40, 2.0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1, 1], 40) * rng.dirichlet(np.ones(40)) * 2.0 * (1 + drift)
        gradient = rng.standard_normal(40)
        away = as_array(ball.in_face_lmo(gradient, x))
        for d in (as_array(ball.in_face_lmo(-gradient, x)) - away, x / (1 + drift) - away):
            landed = x + ball.max_step(x, d) * d
            ball.snap(landed)
            assert np.count_nonzero(landed) == 39


RESTING = ("l1", "hull", "hull flat", "polytope A_ub", "capped n=7 sum<=3 cap=1")


@pytest.mark.parametrize("case", [case for case in cases() if case.name in RESTING], ids=str)
def test_a_block_that_rests_up_to_rounding_does_not_block_the_others(case):
    """One block one rounding away from its vertex: its d is noise, and must not stop the rest."""
    product = Product([Simplex(4), case.build()])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        vertex = case.vertices[rng.integers(len(case.vertices))]
        noise = 1 + 2e-16 * rng.choice([-1, 0, 1], vertex.size)
        x = np.concatenate([[0.5, 0.5, 0, 0], vertex * noise])
        product.snap(x)
        d = np.concatenate([[-0.5, 0.5, 0, 0], x[4:] - vertex])
        assert product.max_step is not None
        assert product.max_step(x, d) == pytest.approx(1.0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("flat", [False, True])
def test_hull_faces_at_any_scale_and_with_tiny_weights(scale, flat):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        points = scale * rng.standard_normal((8, 3 if flat else 6)) @ np.eye(3 if flat else 6, 6)
        hull = ConvexHull(points)
        used = rng.choice(8, 4, replace=False)
        weights = np.array([1.0, 1e-3, 1e-9, 1e-13])
        x = weights @ points[used] / weights.sum()
        gradient = rng.standard_normal(6)
        vertex = dense(hull.in_face_lmo(gradient, x))
        assert gradient @ vertex <= (points[used[:2]] @ gradient).min() + 1e-9 * scale
        for d in (x - vertex, dense(hull.lmo(gradient)) - vertex):
            step = hull.max_step(x, d)
            assert step == np.inf or hull.contains(x + step * d, 1e-7)


def test_points_far_from_a_hull_are_outside():
    """A program of such sizes has no answer at all."""
    rng = np.random.default_rng(0)
    hull = ConvexHull(rng.standard_normal((300, 200)))
    for size in (1e1, 1e3, 1e100, 1e300):
        assert not hull.contains(size * rng.standard_normal(200))


def test_hull_step_along_a_short_direction():
    hull = ConvexHull(np.eye(4))
    for tiny in (1e-3, 2.0**-20, 2.0**-30):
        x = np.array([1 - tiny, tiny, 0.0, 0.0])
        assert hull.max_step(x, x - np.eye(4)[0]) == pytest.approx(1 / tiny - 1, rel=1e-6)


@np.errstate(over="ignore")  # as ``minimize`` has it
def test_a_subnormal_direction_never_arrives():
    for domain in (Simplex(3), Box(np.zeros(3), 1.0), CappedSimplex(3, 1.0)):
        assert domain.max_step(np.full(3, 1 / 3), np.array([5e-324, -5e-324, 0])) == np.inf


def _random_polytope(rng):
    """Inequalities, perhaps equations, and bounds around a point, at any scale."""
    n = int(rng.integers(2, 12))
    scale, upper = 10.0 ** rng.integers(-100, 100), rng.uniform(0.5, 2, n)
    middle = rng.uniform(0.2, 0.8, n) * upper
    A = rng.standard_normal((int(rng.integers(2 * n)), n))
    E = rng.standard_normal((int(rng.integers(n // 2 + 1)), n))
    b = A @ middle + rng.uniform(0, 0.3, len(A))
    return Polytope(A, scale * b, E, scale * (E @ middle), np.zeros(n), scale * upper)


@pytest.mark.parametrize("seed", range(40))
def test_points_of_a_polytope_satisfy_its_rows_to_rounding(seed):
    rng = np.random.default_rng(seed)
    domain = _random_polytope(rng)
    n = domain.size
    vertices = [domain.lmo(rng.standard_normal(n)) for _ in range(5)]
    assert all(domain.contains(vertex, 1e-12) for vertex in vertices)
    x = np.mean(vertices, axis=0)
    drifted = x + 1e-10 * np.abs(x).max() * rng.standard_normal(n)
    domain.snap(drifted)
    assert domain.contains(drifted, 1e-12)
    assert np.abs(drifted - x).max() <= 1e-7 * np.abs(x).max()
    edge = (vertices[0] + vertices[1]) / 2
    tight = domain.A_ub @ edge >= domain.b_ub - 1e-12 * np.abs(domain.A_ub) @ np.abs(edge)
    corner = domain.in_face_lmo(rng.standard_normal(n), edge)
    assert domain.contains(corner, 1e-12)
    slack = (domain.b_ub - domain.A_ub @ corner)[tight]
    assert (slack <= 1e-12 * (np.abs(domain.A_ub) @ np.abs(domain.upper))[tight]).all()


def test_membership_of_a_polytope_is_relative_to_the_sizes_of_its_rows():
    for scale in (1e-150, 0.5000001, 1.0, 1.9999999, 1e150):
        domain = Polytope(None, None, [[1.0, 1.0]], [scale], 0.0, [scale, scale])
        assert domain.contains(np.array([scale * (1 + 0.9e-9), 0.0]))
        assert not domain.contains(np.array([scale / 2, scale * (0.5 + 1.1e-9)]))
        assert not domain.contains(np.array([scale * (1 + 1.1e-9), -1.1e-9 * scale]))
