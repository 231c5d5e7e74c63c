"""check_domain: what is right passes, every planted mistake is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cornerstep.domains import (
    Ball,
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    Ellipsoid,
    Intersection,
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
    check_domain,
)

RIGHT = [
    Simplex(5, 2.0), CappedSimplex(6, 2.5), CappedSimplex(6, 2.5, at_most=True), Birkhoff(3),
    Box([-1.0, 0.0, 2.0], [1.0, 0.0, 5.0]), L1Ball(4, 1e-3), Ball(4, 3.0),
    NuclearNormBall((3, 2), 2.0), ConvexHull(np.random.default_rng(0).standard_normal((8, 3))),
    Polytope(np.ones((1, 3)), [1.5], lower=0.0, upper=1.0), Product([Simplex(3), L1Ball(2)]),
    LpBall(4, 1.0), LpBall(4, 1.3, 2.0), LpBall(4, 5.0), LpBall(4, np.inf),
    KSupportBall(5, 2, 3.0),
    OWLBall([2.0, 1.0, 0.5]), OWLBall([1.0, 0.0]), Ellipsoid([1.0, 0.0, 1e-3], [5.0, 1.0, 0.0]),
    Ellipsoid([[1.0, 2.0], [0.5, 0.0], [1.5, 2.0]]), Spectraplex(3, 1e-3),
    Transport([1, 2], [0, 3]),
    PathPolytope([(0, 1), (1, 2), (0, 2)], 0, 2), Permutahedron([1e-5, 0.0, 1e-5]),
    Intersection([L1Ball(4, 1.5), Ball(4)]),
]  # fmt: skip


@pytest.mark.parametrize("domain", RIGHT, ids=repr)
def test_the_domains_of_the_library_pass(domain):
    check_domain(domain, n_trials=5)


class Plain:
    """The cube of side 2 with every optional member; mistakes are planted by name."""

    size = 4

    def __init__(self, **mistakes: Any) -> None:
        cube = Box(-np.ones(4), np.ones(4))
        for name in ("lmo", "in_face_lmo", "max_step", "contains", "project", "reach", "start",
                     "diameter", "n_atoms", "atom", "atom_scores"):  # fmt: skip
            setattr(self, name, mistakes.get(name, getattr(cube, name)))


CUBE = Box(-np.ones(4), np.ones(4))
MISTAKES: list[tuple[str, Any, str]] = [
    ("lmo", lambda g: -CUBE.lmo(g), "lmo is probably wrong"),
    ("lmo", lambda g: list(CUBE.lmo(g)), "must be an array of shape"),
    ("lmo", lambda g: np.ones(5), r"got ndarray of shape \(5,\)"),
    ("lmo", lambda g: np.full(4, np.nan), "NaN or infinity"),
    ("lmo", lambda g: 0.5 * CUBE.lmo(g), "lmo is probably wrong"),
    ("in_face_lmo", lambda g, x: CUBE.lmo(g), "in_face_lmo or max_step"),
    ("in_face_lmo", lambda g, x: CUBE.in_face_lmo(-g, x), "in_face_lmo is probably wrong"),
    ("max_step", lambda x, d: 2 * CUBE.max_step(x, d), "largest step is not in the domain"),
    ("max_step", lambda x, d: 0.5 * CUBE.max_step(x, d), "beyond the largest step"),
    ("contains", lambda x: False, "it denies an answer"),
    ("contains", lambda x: True, "better than lmo's answer"),
    ("project", lambda y: np.zeros(4), "another point of the domain is nearer"),
    ("project", lambda y: y, "outside the domain"),
    ("diameter", 1.0, "diameter is probably wrong"),
    ("reach", lambda weights, x: 0.1, "reach is probably wrong"),
    ("atom_scores", lambda indices, g: np.zeros(len(indices)), "atom_scores is probably wrong"),
    ("start", lambda: 2 * np.ones(4), "lmo is probably wrong"),
]


@pytest.mark.parametrize(
    ("name", "mistake", "message"),
    MISTAKES,
    ids=[f"{k}-{row[0]}" for k, row in enumerate(MISTAKES)],
)
def test_every_mistake_is_named(name, mistake, message):
    check_domain(Plain())
    with pytest.raises(AssertionError, match=message):
        check_domain(Plain(**{name: mistake}))


def test_what_is_no_domain():
    with pytest.raises(AssertionError, match="it must have size and lmo"):
        check_domain(object())
