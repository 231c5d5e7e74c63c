"""Polytopes twice: as a domain of the package, and by inequalities written down here.

``{x : A_ub x <= b_ub, A_eq x = b_eq}`` is what the tests believe; the domain is what they doubt.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag
from scipy.optimize import linprog
from scipy.spatial import ConvexHull as Qhull

from cornerstep.core.vectors import dense
from cornerstep.domains import (
    BalancedBox,
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    FlowPolytope,
    Intersection,
    KSparsePolytope,
    L1Ball,
    OWLBall,
    PathPolytope,
    Permutahedron,
    Polytope,
    Product,
    Simplex,
    Transport,
)


@dataclass(frozen=True)
class Inequalities:
    """``A_ub x <= b_ub, A_eq x = b_eq``."""

    A_ub: np.ndarray
    b_ub: np.ndarray
    A_eq: np.ndarray
    b_eq: np.ndarray

    @classmethod
    def of(cls, rows=(), equalities=(), n=None):
        """From lists of (row, right-hand side)."""
        n = n or len(next(itertools.chain(rows, equalities))[0])
        parts = []
        for constraints in (rows, equalities):
            parts.append(np.array([row for row, _ in constraints], dtype=float).reshape(-1, n))
            parts.append(np.array([right for _, right in constraints], dtype=float))
        return cls(*parts)

    @cached_property
    def scale(self) -> float:
        return 1.0 + float(np.abs(np.concatenate([self.b_ub, self.b_eq])).max(initial=0.0))

    def violation(self, x) -> float:
        over = (self.A_ub @ x - self.b_ub).max(initial=0.0)
        return max(over, np.abs(self.A_eq @ x - self.b_eq).max(initial=0.0)) / self.scale

    def tight(self, x, tol=1e-9) -> np.ndarray:
        return self.b_ub - self.A_ub @ x <= tol * self.scale

    def is_vertex(self, x) -> bool:
        """Whether the constraints tight at x determine it."""
        rows = np.vstack([self.A_eq, self.A_ub[self.tight(x)]])
        return np.linalg.matrix_rank(rows, tol=1e-8) == len(x)

    def minimum(self, gradient, face=None) -> float:
        """The least ``<gradient, x>``, by HiGHS, with the rows in ``face`` made equalities."""
        return float(gradient @ self.solve(gradient, face))

    def solve(self, gradient, face=None) -> np.ndarray:
        keep = np.zeros(len(self.b_ub), dtype=bool) if face is None else face
        answer = linprog(
            gradient,
            A_ub=self.A_ub[~keep],
            b_ub=self.b_ub[~keep],
            A_eq=np.vstack([self.A_eq, self.A_ub[keep]]),
            b_eq=np.concatenate([self.b_eq, self.b_ub[keep]]),
            bounds=(None, None),
            method="highs",
        )
        assert answer.success, answer.message
        return answer.x

    def largest_step(self, x, d) -> float:
        growth = self.A_ub @ d
        moving = growth > 1e-10 * np.abs(d).max()
        slack = np.maximum(self.b_ub - self.A_ub @ x, 0.0)
        return float((slack[moving] / growth[moving]).min(initial=np.inf))


def box_rows(lower, upper):
    unit = np.eye(len(lower))
    return [(unit[i], upper[i]) for i in range(len(lower)) if np.isfinite(upper[i])] + [
        (-unit[i], -lower[i]) for i in range(len(lower)) if np.isfinite(lower[i])
    ]


def simplex_rows(n, radius):
    unit = np.eye(n)
    return Inequalities.of([(-unit[i], 0.0) for i in range(n)], [(np.ones(n), radius)])


def capped_rows(n, total, cap=1.0, at_most=False):
    rows = box_rows(np.zeros(n), np.broadcast_to(cap, n))
    budget = [(np.ones(n), total)]
    return Inequalities.of(rows + budget) if at_most else Inequalities.of(rows, budget)


def l1_rows(n, radius):
    signs = itertools.product((-1.0, 1.0), repeat=n)
    return Inequalities.of([(np.array(sign), radius) for sign in signs])


def birkhoff_rows(side):
    unit = np.eye(side)
    lines = [np.kron(unit[i], np.ones(side)) for i in range(side)]
    lines += [np.kron(np.ones(side), unit[i]) for i in range(side)]
    return Inequalities.of(
        [(row, 0.0) for row in -np.eye(side**2)], [(line, 1.0) for line in lines]
    )


def sparse_rows(n, k, radius):
    rows = box_rows(np.full(n, -radius), np.full(n, radius))
    signs = itertools.product((-1.0, 1.0), repeat=n)
    return Inequalities.of(rows + [(np.array(sign), k * radius) for sign in signs])


def ordered_rows(weights, radius):
    """All signed orders of the weights."""
    orders = set(itertools.permutations(weights))
    signs = list(itertools.product((-1.0, 1.0), repeat=len(weights)))
    rows = {tuple(np.array(s) * w) for s in signs for w in orders}
    return Inequalities.of([(np.array(row), radius) for row in rows])


def permutation_rows(values):
    values, n = np.sort(values)[::-1], len(values)
    sets = [s for s in itertools.product((0.0, 1.0), repeat=n) if 0 < sum(s) < n]
    rows = [(np.array(s), values[: int(sum(s))].sum()) for s in sets]
    return Inequalities.of(rows, [(np.ones(n), values.sum())])


def flow_rows(edges, supply, capacity):
    balance = np.zeros((len(supply), len(edges)))
    for j, (tail, head) in enumerate(edges):
        balance[tail, j], balance[head, j] = 1.0, -1.0
    rows = box_rows(np.zeros(len(edges)), np.broadcast_to(capacity, len(edges)))
    return Inequalities.of(rows, list(zip(balance, supply, strict=True)))


def transport_rows(supply, demand):
    lines = [np.kron(row, np.ones(len(demand))) for row in np.eye(len(supply))]
    lines += [np.kron(np.ones(len(supply)), row) for row in np.eye(len(demand))]
    unit = np.eye(len(supply) * len(demand))
    return Inequalities.of(
        [(row, 0.0) for row in -unit], list(zip(lines, [*supply, *demand], strict=True))
    )


def hull_rows(points):
    """Facets by Qhull inside the affine span; the span by an SVD."""
    points = np.asarray(points)
    centre = points.mean(axis=0)
    _, spread, axes = np.linalg.svd(points - centre)
    dimension = int((spread > 1e-9 * spread.max(initial=1.0)).sum())
    across = [(row, row @ centre) for row in axes[dimension:]]
    inside = (points - centre) @ axes[:dimension].T
    if dimension == 0:
        rows = []
    elif dimension == 1:
        rows = [(axes[0], axes[0] @ centre + inside.max())]
        rows += [(-axes[0], -axes[0] @ centre - inside.min())]
    else:
        facets = np.unique(Qhull(inside).equations.round(12), axis=0)
        normals = facets[:, :-1] @ axes[:dimension]
        rows = [(a, a @ centre - b) for a, b in zip(normals, facets[:, -1], strict=True)]
    return Inequalities.of(rows, across, points.shape[1])


def product_of(members):
    return Product([member.build() for member in members])


def rows_of(members):
    return stacked(*[member.rows for member in members])


def stacked(*parts):
    return Inequalities(
        block_diag(*[part.A_ub for part in parts]),
        np.concatenate([part.b_ub for part in parts]),
        block_diag(*[part.A_eq for part in parts]),
        np.concatenate([part.b_eq for part in parts]),
    )


@dataclass(frozen=True)
class Case:
    """A domain, the inequalities it should obey, and its coordinate bounds where it has some."""

    name: str
    build: Callable[[], Any]
    inequalities: Callable[[], Inequalities]
    lower: Any = None
    upper: Any = None
    all_atoms_extreme: bool = True
    has_faces: bool = True

    def __str__(self) -> str:
        return self.name

    @cached_property
    def domain(self):
        return self.build()

    @cached_property
    def rows(self) -> Inequalities:
        return self.inequalities()

    @cached_property
    def vertices(self) -> np.ndarray:
        """Some vertices: found by HiGHS, then solved for from the rows that are tight there."""
        rng = np.random.default_rng(len(self.name))
        n = self.rows.A_ub.shape[1]
        found = np.array([self.rows.solve(rng.standard_normal(n)) for _ in range(15)])
        _, distinct = np.unique(found.round(9), axis=0, return_index=True)
        return np.array([self._exactly(vertex) for vertex in found[distinct]])

    def _exactly(self, vertex) -> np.ndarray:
        rows, tight = self.rows, self.rows.tight(vertex)
        matrix = np.vstack([rows.A_eq, rows.A_ub[tight]])
        exact = np.linalg.lstsq(matrix, np.concatenate([rows.b_eq, rows.b_ub[tight]]), rcond=None)
        out = exact[0]
        for bound in (self.lower, self.upper):
            if bound is not None:
                out = np.where(np.abs(out - bound) <= 1e-12 * rows.scale, bound, out)
        return out

    def gradient(self, kind: str, seed: int) -> np.ndarray:
        rng, n = np.random.default_rng(seed), self.domain.size
        return {
            "normal": lambda: rng.standard_normal(n),
            "ties": lambda: rng.integers(-1, 2, n).astype(float),
            "zero": lambda: np.zeros(n),
            "constant": lambda: np.full(n, float(rng.choice([-1.0, 1.0]))),
        }[kind]()

    def point(self, count: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """A combination of ``count`` vertices (as many as there are), snapped; and those."""
        count = min(count, len(self.vertices))
        used = self.vertices[rng.choice(len(self.vertices), count, replace=False)]
        x = (0.05 + rng.dirichlet(np.ones(count))) @ used / (1 + 0.05 * count)
        self.snap(x)
        return x, used

    def snap(self, x) -> None:
        if hasattr(self.domain, "snap"):
            self.domain.snap(x)


def _hull_case(name, points, matrix=np.asarray, **options):
    return Case(
        name,
        lambda: ConvexHull(matrix(points)),
        lambda: hull_rows(points),
        **options,
    )


def _capped(n, total, cap=1.0, at_most=False):
    sign = "<=" if at_most else "="
    kind = f"{cap:g}" if np.ndim(cap) == 0 else "per-coordinate"
    return Case(
        f"capped n={n} sum{sign}{total:g} cap={kind}",
        lambda: CappedSimplex(n, total, cap, at_most),
        lambda: capped_rows(n, total, cap, at_most),
        lower=np.zeros(n),
        upper=np.broadcast_to(np.asarray(cap, dtype=float), n),
    )


def _box(name, lower, upper):
    lower, upper = np.array(lower, dtype=float), np.array(upper, dtype=float)
    return Case(
        name,
        lambda: Box(lower, upper),
        lambda: Inequalities.of(box_rows(lower, upper)),
        lower=lower,
        upper=upper,
    )


def _balanced(name, signs, cap=1.0):
    signs = np.array(signs, dtype=float)
    caps = np.broadcast_to(np.asarray(cap, dtype=float), signs.size)
    return Case(
        f"balanced {name}",
        lambda: BalancedBox(signs, cap),
        lambda: Inequalities.of(box_rows(np.zeros(signs.size), caps), [(signs, 0.0)]),
        lower=np.zeros(signs.size),
        upper=caps,
    )


def _polytope(name, n, A_ub=None, b_ub=None, A_eq=None, b_eq=None, lower=None, upper=None, **cast):
    """``cast`` turns the arrays into what the domain is given."""
    low = np.broadcast_to(-np.inf if lower is None else lower, n)
    high = np.broadcast_to(np.inf if upper is None else upper, n)
    as_given = cast.get("matrix", lambda rows: rows)

    def build():
        given = [None if rows is None else as_given(rows) for rows in (A_ub, A_eq)]
        return Polytope(given[0], b_ub, given[1], b_eq, lower, upper)

    def inequalities():
        rows = box_rows(low, high)
        rows += [] if A_ub is None else list(zip(A_ub, b_ub, strict=True))
        return Inequalities.of(rows, [] if A_eq is None else list(zip(A_eq, b_eq, strict=True)), n)

    return Case(name, build, inequalities, lower=low, upper=high)


@cache
def cases() -> tuple[Case, ...]:
    rng = np.random.default_rng(0)
    caps = np.array([0.5, 0.0, 0.9, 0.3, 0.0, 1.2, 0.7])
    sphere = rng.standard_normal((12, 3))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    flat = sphere[:9] @ rng.standard_normal((3, 6)) + rng.standard_normal(6)
    sparse_points = np.vstack([np.eye(5), -2 * np.eye(5)[:3], [[1.0, 1, 0, 0, 1]]])
    redundant = np.vstack([np.eye(4), np.eye(4)[:2], np.full((1, 4), 0.25), [[0.5, 0.5, 0, 0]]])
    tangents = rng.standard_normal((14, 4))
    tangents /= np.linalg.norm(tangents, axis=1)[:, None]
    transport = np.vstack([np.kron(np.eye(3), np.ones(4)), np.kron(np.ones(3), np.eye(4))])
    cube3 = np.vstack([np.eye(3), -np.eye(3)])
    graph = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (3, 4), (2, 4), (3, 5), (0, 4), (0, 4)]
    circle, ends = [(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (1, 3)], [1.5, -0.5, 0.0, -1.0]
    caps6, cheap = [0.9, 2.0, 0.7, 1.0, 0.6, 0.8], np.array([3.0, -1, -5, 2.5, 2.5])
    simple = [
        Case("simplex", lambda: Simplex(6), lambda: simplex_rows(6, 1.0), np.zeros(6)),
        Case("simplex r=250", lambda: Simplex(5, 250), lambda: simplex_rows(5, 250.0), np.zeros(5)),
        Case("simplex n=1", lambda: Simplex(1, 2), lambda: simplex_rows(1, 2.0), np.zeros(1)),
        _capped(7, 3),
        _capped(7, 3, at_most=True),
        _capped(5, 4),
        _capped(4, 4),
        _capped(6, 2.5),
        _capped(6, 2.5, at_most=True),
        _capped(8, 1, cap=0.3),
        _capped(8, 1, cap=1 / 3),
        _capped(10, 1, cap=0.1),
        _capped(5, 1, cap=7.0),
        _capped(6, 1000.0, cap=437.0),
        _capped(7, 1.7, cap=caps),
        _capped(7, 1.7, cap=caps, at_most=True),
        _capped(7, float(caps.sum()), cap=caps),
        _capped(4, 9, at_most=True),
        _box("cube", np.zeros(5), np.ones(5)),
        _box("box", [-1, 0, 2, 0.5, -3], [1, 0, 2.5, 4, 1e-3]),
        _box("long box", [-1e6, 0, 3e5], [1e6, 7e6, 4e5]),
        _balanced("even", [1, 1, 1, -1, -1, -1]),
        _balanced("uneven", [1, -1, -1, -1, 1, -1, -1], 0.5),
        _balanced("one positive", [-1, 1, -1, -1]),
        _balanced("per-coordinate", [1, 1, -1, -1, -1, 1, 1], caps),
        Case("l1", lambda: L1Ball(4, 1.5), lambda: l1_rows(4, 1.5)),
        Case("l1 n=1", lambda: L1Ball(1), lambda: l1_rows(1, 1.0)),
        Case("k-sparse", lambda: KSparsePolytope(4, 2, 1.5), lambda: sparse_rows(4, 2, 1.5)),
        Case("k-sparse cube", lambda: KSparsePolytope(3, 3), lambda: sparse_rows(3, 3, 1.0)),
        Case("owl", lambda: OWLBall([3.0, 1, 1, 0.5], 2.0),
             lambda: ordered_rows([3, 1, 1, 0.5], 2.0), has_faces=False),
        Case("permutahedron", lambda: Permutahedron([1, 2, 3, 4]),
             lambda: permutation_rows([1, 2, 3, 4])),
        Case("permutahedron ties", lambda: Permutahedron(cheap), lambda: permutation_rows(cheap)),
        Case("paths", lambda: PathPolytope(graph, 0, 4),
             lambda: flow_rows(graph, [1, 0, 0, 0, -1, 0], 1.0), np.zeros(10)),
        Case("flow", lambda: FlowPolytope(circle, ends, caps6),
             lambda: flow_rows(circle, ends, caps6), np.zeros(6), np.array(caps6)),
        Case("transport", lambda: Transport([1, 0.5, 2], [1.25, 2.25]),
             lambda: transport_rows([1, 0.5, 2], [1.25, 2.25]), np.zeros(6)),
        Case("intersection",
             lambda: Intersection([Simplex(5), Box(np.zeros(5), 0.4), L1Ball(5, 1.2)]),
             lambda: capped_rows(5, 1.0, 0.4), has_faces=False, all_atoms_extreme=False),
        Case("intersection of rows",
             lambda: Intersection([Simplex(5), Box(np.full(5, -1.0), 0.4)]),
             lambda: capped_rows(5, 1.0, 0.4), has_faces=False, all_atoms_extreme=False),
        Case("birkhoff 1", lambda: Birkhoff(1), lambda: birkhoff_rows(1), np.zeros(1)),
        Case("birkhoff 3", lambda: Birkhoff(3), lambda: birkhoff_rows(3), np.zeros(9)),
        Case("birkhoff 4", lambda: Birkhoff(4), lambda: birkhoff_rows(4), np.zeros(16)),
        _hull_case("hull", sphere),
        _hull_case("hull flat", flat),
        _hull_case("hull sparse", sparse_points, sp.csr_array),
        _hull_case("hull sparse flat", redundant[:4], sp.coo_array),
        _hull_case("hull redundant", redundant, all_atoms_extreme=False),
        _hull_case("hull point", np.array([[1.0, -2.0]])),
        _hull_case("hull segment", np.array([[1.0, -2.0, 0.0], [0.0, 1.0, 3.0]])),
        _polytope("polytope A_ub", 4, tangents, np.ones(14)),
        _polytope("polytope cube rows", 3, cube3, np.ones(6)),
        _polytope("polytope cube rows off 0", 3, cube3, np.r_[3 * np.ones(3), -np.ones(3)]),
        _polytope(
            "polytope transport", 12, None, None, transport, [1, 1, 2, 0.5, 1.5, 1, 1], 0.0,
            matrix=sp.csc_array,
        ),
        _polytope("polytope bounds", 3, lower=[-1.0, 0, 0], upper=[1.0, 0, 2]),
        _polytope(
            "polytope mixed", 5, rng.standard_normal((6, 5)), np.ones(6),
            np.ones((1, 5)), [0.3], [-np.inf, -2, -2, -2, 0], [2, 2, np.inf, 3, 1],
        ),
        _polytope(
            "polytope sparse", 6, np.tri(6)[2:5], [1.5, 1.5, 2.0], np.eye(6)[[0]] - np.eye(6)[[5]],
            [0.0], 0.0, 1.0, matrix=sp.csr_array,
        ),
    ]  # fmt: skip
    by_name = {case.name: case for case in simple}
    products = [
        ("product", ["simplex", "box", "capped n=7 sum=3 cap=1"]),
        ("product mixed", ["l1", "hull sparse", "polytope A_ub", "polytope bounds"]),
        ("product one", ["capped n=6 sum<=2.5 cap=1"]),
    ]
    for name, factors in products:
        members = [by_name[factor] for factor in factors]
        simple.append(
            Case(
                name,
                partial(product_of, members),
                partial(rows_of, members),
            )
        )
    return tuple(simple)


def binary_vertices(n, keep):
    """The 0/1 vectors of length n whose sum satisfies ``keep``."""
    return np.array([v for v in itertools.product((0.0, 1.0), repeat=n) if keep(sum(v))])


def balanced_vertices(signs):
    """The 0/1 vectors with as many positive as negative entries."""
    every = binary_vertices(len(signs), lambda total: True)
    return every[every @ np.array(signs) == 0]


def largest_distance(vertices) -> float:
    return max(float(np.linalg.norm(u - v)) for u, v in itertools.product(vertices, repeat=2))


def facial_constant(rows, vertices, s) -> float:
    """``max over s rows of sum_j (sum_k a_kj / g_k)²``, row by row and subset by subset."""
    scaled = []
    for row in rows:
        values = np.unique((vertices @ row).round(9))
        if len(values) > 1:
            scaled.append(row / (values[-1] - values[-2]))
    return max(
        float((np.sum(chosen, axis=0) ** 2).sum()) for chosen in itertools.combinations(scaled, s)
    )


def as_array(vector) -> np.ndarray:
    return np.array(dense(vector), dtype=float)
