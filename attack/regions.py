"""Domains twice: as the library has them, and by formulas written down here, in long double.

Those whose oracles sort, bend or flow are in ``further_regions``.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.optimize import nnls

from attack import further_regions as further
from attack.draws import chance, one_of
from attack.exact import LONG, real, solve
from attack.region import Region, spent
from cornerstep import domains


def simplex(rng: Any, n: int, r: float) -> Region:
    """``x >= 0, sum x = r``."""
    return Region(
        domains.Simplex(n, r), lambda g: r * g.min(),
        lambda x: max(-x.min(), abs(x.sum() - r)) / r, r, n, True,
    )  # fmt: skip


def _capped(rng: Any, n: int, r: float) -> Region:
    vector, at_most = chance(rng, 0.6), chance(rng, 0.4)
    caps = r * np.round(rng.uniform(0, 3, n), 1) if vector else np.full(n, r)
    if vector and chance(rng, 0.2):
        caps = caps * 10.0 ** rng.integers(-8, 9, n)
    if not caps.any():
        caps[0] = r
    total = float(caps.sum()) * one_of(rng, 1.0, rng.uniform(0.05, 1), rng.uniform(0.05, 1), 1e-6)
    domain = domains.CappedSimplex(n, total, caps if vector else r, at_most)
    caps = real(caps)

    def minimum(g: Any) -> Any:
        if not at_most:
            return spent(g, caps, total)
        good = g < 0
        return spent(g[good], caps[good], total) if good.any() else LONG(0)

    def excess(x: Any) -> Any:
        over = x.sum() - total
        each = np.maximum(-x, x - caps).max() / max(min(caps.max(), total), 1e-320)
        return max(each, (over if at_most else abs(over)) / total)

    return Region(domain, minimum, excess, float(min(caps.max(), total)), n, True)


def _balanced(rng: Any, n: int, r: float) -> Region:
    n = max(n, 2)
    signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    signs[:2] = 1, -1
    caps = r * np.round(rng.uniform(0.1, 3, n), 1)
    if chance(rng, 0.2):
        caps = caps * 10.0 ** rng.integers(-6, 7, n)

    def minimum(g: Any) -> Any:
        """Both sides bought at the same pace, the cheapest first, while a pair pays."""
        sides = []
        for sign in (1, -1):
            here = np.flatnonzero(signs == sign)
            sides.append([[g[i], LONG(caps[i])] for i in here[np.argsort(g[here])]])
        total = LONG(0)
        while sides[0] and sides[1] and sides[0][0][0] + sides[1][0][0] < 0:
            amount = min(sides[0][0][1], sides[1][0][1])
            total += amount * (sides[0][0][0] + sides[1][0][0])
            for side in sides:
                side[0][1] -= amount
                if side[0][1] <= 0:
                    side.pop(0)
        return total

    def excess(x: Any) -> Any:
        room = min(caps[signs > 0].sum(), caps[signs < 0].sum())
        return max(np.maximum(-x, x - caps).max() / caps.max(), abs((signs * x).sum()) / room)

    return Region(domains.BalancedBox(signs, caps), minimum, excess, float(caps.max()), n)


def _box(rng: Any, n: int, r: float) -> Region:
    lower = r * np.round(rng.uniform(-2, 1, n), 1)
    upper = lower + r * np.round(rng.uniform(0, 2, n), 1)
    size = float(np.abs([lower, upper]).max()) or r

    def excess(x: Any) -> Any:
        return np.maximum(lower - x, x - upper).max() / size

    return Region(
        domains.Box(lower, upper),
        lambda g: np.where(g > 0, g * real(lower), g * real(upper)).sum(), excess, size, n, True,
    )  # fmt: skip


def _l1(rng: Any, n: int, r: float) -> Region:
    return Region(
        domains.L1Ball(n, r), lambda g: -r * np.abs(g).max(),
        lambda x: (np.abs(x).sum() - r) / r, r, n, True,
    )  # fmt: skip


def _ball(rng: Any, n: int, r: float) -> Region:
    return Region(
        domains.Ball(n, r), lambda g: -r * np.sqrt((g**2).sum()),
        lambda x: (np.sqrt((x**2).sum()) - r) / r, r, n, True,
    )  # fmt: skip


def _nuclear(rng: Any, n: int, r: float) -> Region:
    shape = one_of(rng, (2, 2), (2, 3), (3, 1))

    def values(x: Any) -> Any:
        size = np.abs(x).max() or LONG(1)
        return size * real(np.linalg.svd((x / size).astype(float).reshape(shape))[1])

    n = shape[0] * shape[1]
    return Region(
        domains.NuclearNormBall(shape, r), lambda g: -r * values(g).max() * (1 - LONG(1e-14)),
        lambda x: (values(x).sum() - r) / r, r, n,
    )  # fmt: skip


def _birkhoff(rng: Any, n: int, r: float) -> Region:
    side = int(rng.integers(1, 5))
    every = [list(p) for p in itertools.permutations(range(side))]

    def minimum(g: Any) -> Any:
        G = g.reshape(side, side)
        return min(G[np.arange(side), p].sum() for p in every)

    def excess(x: Any) -> Any:
        X = x.reshape(side, side)
        return max(-x.min(), abs(X.sum(axis=0) - 1).max(), abs(X.sum(axis=1) - 1).max())

    return Region(domains.Birkhoff(side), minimum, excess, 1.0, side * side)


def _hull(rng: Any, n: int, r: float) -> Region:
    points = rng.standard_normal((int(rng.integers(1, 3 * n + 2)), n))
    if chance(rng, 0.3):
        points = np.round(points)
    points = r * points
    size = float(np.abs(points).max()) or r

    def excess(x: Any) -> Any:
        unit = np.vstack([points.T / size, np.ones(len(points))])
        return LONG(nnls(unit, np.append((x / size).astype(float), 1.0))[1])

    return Region(
        domains.ConvexHull(points), lambda g: (real(points) * g).sum(axis=1).min(), excess, size, n
    )


def _polytope(rng: Any, n: int, r: float) -> Region:
    """A box cut by inequalities (and perhaps an equation) through the middle: never empty."""
    n = min(n, 3)
    lower, upper = np.zeros(n), np.round(rng.uniform(0.5, 2, n), 1)
    middle = rng.uniform(0.2, 0.8, n) * upper
    A = np.round(rng.standard_normal((int(rng.integers(0, 3)), n)), 1)
    b = A @ middle + np.round(rng.uniform(0, 1, len(A)), 1)
    E = np.ones((int(rng.integers(0, 2)) if n > 1 else 0, n))
    e = E @ middle
    lower, upper, b, e = r * lower, r * upper, r * b, r * e
    domain = domains.Polytope(
        A if len(A) else None, b if len(A) else None, E if len(E) else None,
        e if len(E) else None, lower, upper,
    )  # fmt: skip
    rows = np.vstack([E, A, np.eye(n), -np.eye(n)])
    right = np.concatenate([e, b, upper, -lower])
    corners = vertices(rows, right, len(E), r)

    def excess(x: Any) -> Any:
        over = real(rows) @ x - right
        over[: len(E)] = np.abs(over[: len(E)])
        return over.max() / r

    size = float(np.abs(upper).max())
    return Region(domain, lambda g: (corners * g).sum(axis=1).min(), excess, size, n)


def vertices(rows: Any, right: Any, equalities: int, r: float) -> Any:
    """All corners of ``rows x <= right`` (the first so many with equality), by brute force."""
    n = rows.shape[1]
    free = range(equalities, len(rows))
    chosen = [[*range(equalities), *rest] for rest in itertools.combinations(free, n - equalities)]
    x, regular = solve(rows[chosen], right[chosen] / r)
    over = x @ real(rows).T - real(right) / r
    over[:, :equalities] = np.abs(over[:, :equalities])
    return r * x[regular & (over.max(axis=1) <= 1e-15)]


def _intersection(rng: Any, n: int, r: float) -> Region:
    """A capped simplex or a k-sparse polytope, as what two sets have in common."""
    k = int(rng.integers(1, n + 1))
    if chance(rng, 0.5):
        whole = further.k_sparse(rng, n, r)
        parts = [domains.L1Ball(n, whole.domain.k * r), domains.Box(np.full(n, -r), r)]
    else:
        caps, total = np.full(n, r), LONG(k) * r
        parts = [domains.Simplex(n, k * r), domains.Box(np.zeros(n), r)]
        whole = Region(
            None, lambda g: spent(g, caps, total),
            lambda x: max(-x.min() / r, x.max() / r - 1, abs(x.sum() / total - 1)), r, n,
        )  # fmt: skip
    rng.shuffle(parts)
    return Region(domains.Intersection(parts), whole.minimum, whole.excess, r, n)


def _product(rng: Any, n: int, r: float) -> Region:
    parts = [
        one_of(rng, *SIMPLE)(rng, int(rng.integers(1, 4)), r) for _ in range(rng.integers(1, 4))
    ]
    cuts = np.cumsum([part.n for part in parts])[:-1]
    return Region(
        domains.Product([part.domain for part in parts]),
        lambda g: sum(part.minimum(h) for part, h in zip(parts, np.split(g, cuts), strict=True)),
        lambda x: max(part.excess(h) for part, h in zip(parts, np.split(x, cuts), strict=True)),
        max(part.size for part in parts), sum(part.n for part in parts),
        all(part.projects for part in parts),
    )  # fmt: skip


SIMPLE = (simplex, _capped, _capped, _box, _l1, _balanced)
CURVED = (
    _ball,
    _nuclear,
    further.lp,
    further.k_support,
    further.ellipsoid,
    further.spectraplex,
)
SORTED = (further.k_sparse, further.owl, further.permutations)
FLOWS = (_birkhoff, further.paths, further.transport)
ALL = (*SIMPLE, *CURVED, *SORTED, *FLOWS, _hull, _polytope, _product, _intersection)
PROJECTING = (simplex, _capped, _box, _l1, _ball)


def region(rng: Any, n: int, r: float, kinds: Any = ALL) -> Region:
    """A random domain of about n coordinates and size r."""
    with np.errstate(all="ignore"):  # of the formulas here
        return one_of(rng, *kinds)(rng, n, r)
