"""Small problems for the tests of the optimiser, with optima from an independent solver.

A problem is ``f`` on a domain of the zoo; ``Problem.optimum`` is what cvxpy and CLARABEL say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np

from cornerstep.domains import (
    Ball,
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    L1Ball,
    NuclearNormBall,
    Polytope,
    Product,
    Simplex,
)
from cornerstep.objectives import LeastSquares, Quadratic, Smooth


class OracleOnly:
    """A user's own domain, the simplex: ``size`` and ``lmo`` and nothing else."""

    def __init__(self, n: int) -> None:
        self.size = n

    def lmo(self, gradient: np.ndarray) -> np.ndarray:
        out = np.zeros(self.size)
        out[gradient.argmin()] = 1.0
        return out


def _hull_points(n_points: int, size: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((n_points, size))


def _in_hull(points: np.ndarray) -> Callable[[Any], list[Any]]:
    def constraints(x: Any) -> list[Any]:
        weights = cp.Variable(len(points), nonneg=True)
        return [x == points.T @ weights, cp.sum(weights) == 1]

    return constraints


_CAPS = np.array([0.3, 1.0, 0.6, 1.2, 0.5, 0.9])
_LOWER, _UPPER = np.array([-1.0, 0.0, -0.5, 1.0, 0.0]), np.array([1.0, 2.0, 0.5, 1.5, 3.0])
_ROWS = np.random.default_rng(7).standard_normal((4, 6))
# Two units of flow from the left to the right of a complete bipartite graph on 3 + 2 vertices.
_FLOW = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])

Constraints = Callable[[Any], list[Any]]
_ZOO: dict[str, tuple[Callable[[], Any], Constraints]] = {
    "simplex": (lambda: Simplex(6), lambda x: [x >= 0, cp.sum(x) == 1]),
    "simplex-2.5": (lambda: Simplex(5, 2.5), lambda x: [x >= 0, cp.sum(x) == 2.5]),
    "P_3": (lambda: CappedSimplex(7, 3), lambda x: [x >= 0, x <= 1, cp.sum(x) == 3]),
    "Q_3": (
        lambda: CappedSimplex(7, 3, at_most=True),
        lambda x: [x >= 0, x <= 1, cp.sum(x) <= 3],
    ),
    "P_2.5": (lambda: CappedSimplex(7, 2.5), lambda x: [x >= 0, x <= 1, cp.sum(x) == 2.5]),
    "caps": (
        lambda: CappedSimplex(6, 2.0, cap=_CAPS),
        lambda x: [x >= 0, x <= _CAPS, cp.sum(x) == 2],
    ),
    "caps-at-most": (
        lambda: CappedSimplex(6, 2.0, cap=_CAPS, at_most=True),
        lambda x: [x >= 0, x <= _CAPS, cp.sum(x) <= 2],
    ),
    "box": (lambda: Box(_LOWER, _UPPER), lambda x: [x >= _LOWER, x <= _UPPER]),
    "cube": (lambda: Box(np.zeros(5), 1), lambda x: [x >= 0, x <= 1]),
    "l1": (lambda: L1Ball(6, 1.5), lambda x: [cp.norm1(x) <= 1.5]),
    "birkhoff": (
        lambda: Birkhoff(3),
        lambda x: [
            x >= 0,
            cp.sum(cp.reshape(x, (3, 3), order="C"), axis=0) == 1,
            cp.sum(cp.reshape(x, (3, 3), order="C"), axis=1) == 1,
        ],
    ),
    "hull": (lambda: ConvexHull(_hull_points(12, 4)), _in_hull(_hull_points(12, 4))),
    "polytope": (
        lambda: Polytope(_ROWS, np.ones(4), np.ones((1, 6)), [0.5], -1, np.full(6, 2.0)),
        lambda x: [_ROWS @ x <= 1, cp.sum(x) == 0.5, x >= -1, x <= 2],
    ),
    "flow": (
        lambda: Polytope(
            A_eq=_FLOW, b_eq=np.ones(4), lower=0, upper=np.ones(6), binary_vertices=True
        ),
        lambda x: [x >= 0, x <= 1, _FLOW @ x == 1],
    ),
    "product": (
        lambda: Product([Simplex(3), Box([-1.0, 0.0], [1.0, 0.5]), CappedSimplex(4, 1.5)]),
        lambda x: [
            x[:3] >= 0, cp.sum(x[:3]) == 1, x[3] >= -1, x[3] <= 1, x[4] >= 0, x[4] <= 0.5,
            x[5:] >= 0, x[5:] <= 1, cp.sum(x[5:]) == 1.5,
        ],
    ),
    "product-grid": (
        lambda: Product([Simplex(3), CappedSimplex(4, 2)]),
        lambda x: [x >= 0, x[3:] <= 1, cp.sum(x[:3]) == 1, cp.sum(x[3:]) == 2],
    ),
    "ball": (lambda: Ball(5, 1.5), lambda x: [cp.sum_squares(x) <= 2.25]),
    "nuclear": (
        lambda: NuclearNormBall((3, 4), 1.2),
        lambda x: [cp.normNuc(cp.reshape(x, (3, 4), order="C")) <= 1.2],
    ),
    "own": (lambda: OracleOnly(6), lambda x: [x >= 0, cp.sum(x) == 1]),
}  # fmt: skip
ROUND = ("ball", "nuclear")
POLYTOPES = tuple(name for name in _ZOO if name not in ROUND)
DOMAINS = tuple(_ZOO)
OBJECTIVES = ("quadratic", "least-squares", "gram", "smooth", "logistic")


def domain_of(name: str) -> Any:
    """A fresh domain of the zoo."""
    return _ZOO[name][0]()


def random_vertices(domain: Any, count: int, seed: int) -> np.ndarray:
    """Vertices in random directions, one a row."""
    rng = np.random.default_rng(seed)
    found = [domain.lmo(rng.standard_normal(domain.size)) for _ in range(count)]
    return np.array([v if isinstance(v, np.ndarray) else v.dense() for v in found])


@dataclass
class Problem:
    """``min f over the domain``, with ``f`` and its gradient written out for checks."""

    objective: Any
    domain: Any
    function: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]
    optimum: float

    def gap(self, x: np.ndarray) -> float:
        """The Frank-Wolfe gap at x, from scratch."""
        gradient = self.gradient(x)
        vertex = self.domain.lmo(gradient)
        return float(gradient @ x) - float(vertex @ gradient)


@cache
def _data(domain: str, objective: str, place: str, seed: int) -> dict[str, Any]:
    """Arrays of a problem, and its optimum for scale 1."""
    rng = np.random.default_rng([seed, DOMAINS.index(domain)])
    p = domain_of(domain)
    n = p.size
    centre = random_vertices(p, 60, seed).mean(axis=0)
    target = centre
    if place == "face":  # beyond the boundary, along a random direction
        target = centre + np.linalg.norm(random_vertices(p, 1, seed)) * rng.standard_normal(n)
    factor = np.vstack([0.3 * rng.standard_normal((n, n)), np.eye(n)])
    x = cp.Variable(n)
    loss = 0.5 * cp.sum_squares(factor @ (x - target))
    out = {"target": target, "factor": factor}
    if objective == "logistic":
        features = 0.5 * rng.standard_normal((8, n))
        out["features"] = features
        loss = cp.sum(cp.logistic(features @ (x - target))) + 0.5 * cp.sum_squares(x - target)
        if place == "interior":  # a linear term makes the target the minimiser
            loss -= cp.sum(features @ x) / 2
    program = cp.Problem(cp.Minimize(loss), _ZOO[domain][1](x))
    program.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert program.status == "optimal", program.status
    return {**out, "optimum": float(program.value)}


def problem(
    domain: str,
    objective: str = "quadratic",
    place: str = "face",
    scale: float = 1.0,
    seed: int = 0,
) -> Problem:
    """A strongly convex problem; its free minimiser is outside ('face') or inside ('interior')."""
    data = _data(domain, "logistic" if objective == "logistic" else "quadratic", place, seed)
    target, factor = data["target"], data["factor"]
    hessian = scale * factor.T @ factor

    def value(x: np.ndarray) -> float:
        return 0.5 * float((x - target) @ hessian @ (x - target))

    def gradient(x: np.ndarray) -> np.ndarray:
        return hessian @ (x - target)

    optimum = scale * data["optimum"]
    spectrum = np.linalg.eigvalsh(hessian)
    constants = {"lipschitz": spectrum[-1], "strong_convexity": spectrum[0]}
    if objective == "logistic":
        features = data["features"]
        tilt = 0.5 * features.sum(axis=0) if place == "interior" else np.zeros(target.size)

        def value(x: np.ndarray) -> float:
            loss = np.logaddexp(0.0, features @ (x - target)).sum() - tilt @ x
            return scale * float(loss + 0.5 * (x - target) @ (x - target))

        def gradient(x: np.ndarray) -> np.ndarray:
            share = 1 / (1 + np.exp(-features @ (x - target)))
            return scale * (features.T @ share - tilt + x - target)

        bound = scale * (1 + 0.25 * np.linalg.eigvalsh(features.T @ features)[-1])
        constants = {"lipschitz": bound, "strong_convexity": scale}
        made: Any = Smooth(value, gradient, **constants)
    elif objective == "smooth":
        made = Smooth(value, gradient, **constants)
    elif objective == "quadratic":
        made = Quadratic(hessian, -hessian @ target)
        offset = 0.5 * float(target @ hessian @ target)
        optimum -= offset
        centred = value

        def value(x: np.ndarray) -> float:
            return centred(x) - offset
    else:
        root = np.sqrt(scale) * factor
        made = LeastSquares(root, root @ target, gram=objective == "gram")
    return Problem(made, domain_of(domain), value, gradient, optimum)


def ill_conditioned(m: int, n: int, seed: int) -> LeastSquares:
    """Least squares with columns from four common factors."""
    rng = np.random.default_rng(seed)
    factors = np.cumsum(rng.standard_normal((m, 4)), axis=0) @ rng.standard_normal((4, n))
    A = factors + 0.01 * rng.standard_normal((m, n))
    return LeastSquares(A, 10 * rng.standard_normal(m))
