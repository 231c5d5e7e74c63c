"""Domains whose oracles sort, bend or flow, twice: as in ``regions``."""

from __future__ import annotations

from typing import Any

import numpy as np

from attack.draws import chance, one_of
from attack.exact import LONG, real
from attack.region import Region, spent
from cornerstep import domains


def lp(rng: Any, n: int, r: float) -> Region:
    """``|x|_p <= r``, p from 1 to infinity."""
    p = one_of(rng, 1.0, 1.0 + 1e-9, 1.2, 2.0, 3.7, 60.0, np.inf)

    def length(x: Any, p: Any) -> Any:
        size = np.abs(x).max()
        if np.isinf(p) or size == 0:
            return size
        return size * ((np.abs(x) / size) ** LONG(p)).sum() ** (1 / LONG(p))

    q = np.inf if p == 1 else LONG(1) if np.isinf(p) else LONG(p) / (LONG(p) - 1)
    return Region(
        domains.LpBall(n, p, r), lambda g: -r * length(g, q),
        lambda x: (length(x, p) - r) / r, r, n,
    )  # fmt: skip


def k_support(rng: Any, n: int, r: float) -> Region:
    """The hull of vectors of k entries and length r."""
    k = int(rng.integers(1, n + 1))

    def largest(g: Any) -> Any:
        return np.sqrt((np.sort(np.abs(g))[n - k :] ** 2).sum())

    def excess(x: Any) -> Any:
        """``|x|`` by bisection of its dual form: the least ``sum x_i²/t_i, t <= 1, sum t = k``."""
        z = np.abs(x) / r
        if not z.any():
            return LONG(-1)
        low, high = z.min() * 0, z.sum()  # t = min(1, z / level)
        for _ in range(200):
            level = (low + high) / 2
            spent = np.minimum(1, z / level).sum() if level > 0 else LONG(n)
            low, high = (level, high) if spent > k else (low, level)
        t = np.minimum(1, z / high) if high > 0 else np.ones(n)
        return np.sqrt((z[z > 0] ** 2 / t[z > 0]).sum()) - 1

    return Region(domains.KSupportBall(n, k, r), lambda g: -r * largest(g), excess, r, n)


def k_sparse(rng: Any, n: int, r: float) -> Region:
    """``|x|_1 <= k r, |x_i| <= r``."""
    k = int(rng.integers(1, n + 1))
    return Region(
        domains.KSparsePolytope(n, k, r), lambda g: -r * np.sort(np.abs(g))[n - k :].sum(),
        lambda x: max(np.abs(x).max() / r, np.abs(x).sum() / (LONG(k) * r)) - 1, r, n, True,
    )  # fmt: skip


def owl(rng: Any, n: int, r: float) -> Region:
    """``sum w_i |x|_(i) <= r``."""
    w = np.sort(np.round(rng.uniform(0, 3, n), one_of(rng, 0, 1)))[::-1]
    w[0] = max(w[0], 1.0)
    size = r / w[0]

    def dual(g: Any) -> Any:
        return (np.sort(np.abs(g))[::-1].cumsum() / real(w).cumsum()).max()

    return Region(
        domains.OWLBall(w, r), lambda g: -r * dual(g),
        lambda x: (np.sort(np.abs(x))[::-1] * w).sum() / r - 1, size, n,
    )  # fmt: skip


def ellipsoid(rng: Any, n: int, r: float) -> Region:
    """``|L^-1 (x - c)| <= 1``."""
    lengths = np.round(rng.uniform(0.1, 3, n), 1)
    if chance(rng, 0.2):
        lengths = lengths * 10.0 ** rng.integers(-6, 7, n)
    center = r * one_of(rng, 0.0, 1.0, 100.0) * np.round(rng.standard_normal(n), 1)
    turned = chance(rng, 0.5)
    L = r * (np.diag(lengths) if not turned else np.round(rng.standard_normal((n, n)), 2))
    if turned and np.linalg.cond(L / r) > 1e6:
        L, turned = r * np.diag(lengths), False
    inverse = np.linalg.inv(L / r)
    size = max(float(np.abs(L).max()), float(np.abs(center).max()))

    def minimum(g: Any) -> Any:
        image = real(L).T @ g
        largest = np.abs(image).max() or LONG(1)
        return (real(center) * g).sum() - largest * np.sqrt(((image / largest) ** 2).sum())

    def excess(x: Any) -> Any:
        off = (x - center) / r
        slack = 1e-9 * np.abs(center) / r
        return np.sqrt((np.maximum(np.abs(real(inverse) @ off) - np.abs(inverse) @ slack, 0) ** 2)
                       .sum()) - 1  # fmt: skip

    axes = L if turned or chance(rng, 0.5) else np.diag(L)
    return Region(domains.Ellipsoid(axes, center), minimum, excess, size, n)


def spectraplex(rng: Any, n: int, r: float) -> Region:
    """``X >= 0, trace X = r``."""
    side = int(rng.integers(1, 4))

    def least(x: Any) -> Any:
        X = x.reshape(side, side)
        size = np.abs(X).max() or LONG(1)
        return size * real(np.linalg.eigvalsh(((X + X.T) / size / 2).astype(float))).min()

    def excess(x: Any) -> Any:
        X = x.reshape(side, side) / r
        return max(-least(X.ravel()), abs(np.trace(X) - 1), np.abs(X - X.T).max())

    def minimum(g: Any) -> Any:
        return r * (least(g) + LONG(1e-14) * np.sqrt((g / (np.abs(g).max() or 1)) ** 2).sum()
                    * np.abs(g).max())  # fmt: skip

    return Region(domains.Spectraplex(side, r), minimum, excess, r, side * side)


def permutations(rng: Any, n: int, r: float) -> Region:
    """The hull of all orders of a vector."""
    n = min(n, 5)
    w = r * np.round(rng.standard_normal(n), one_of(rng, 0, 1))
    if not w.any():
        w[0] = r
    size = float(np.abs(w).max())
    ordered = np.sort(real(w))[::-1]

    def excess(x: Any) -> Any:
        over = (np.sort(x)[::-1] - ordered).cumsum() / (np.abs(ordered).sum())
        return max(over.max(), abs(over[-1]))

    return Region(domains.Permutahedron(w), lambda g: (np.sort(g) * ordered).sum(), excess, size, n)


def paths(rng: Any, n: int, r: float) -> Region:
    """Unit flows; all paths are listed."""
    nodes = int(rng.integers(2, 6))
    edges = [(i, j) for i in range(nodes) for j in range(i + 1, nodes) if chance(rng, 0.6)]
    edges.append((0, nodes - 1))
    names = rng.permutation(nodes)
    paths: list[list[int]] = [[]]
    complete = []
    while paths:
        path = paths.pop()
        here = edges[path[-1]][1] if path else 0
        if here == nodes - 1:
            complete.append(path)
        else:
            paths += [[*path, e] for e, (tail, _) in enumerate(edges) if tail == here]

    def excess(x: Any) -> Any:
        balance = np.zeros(nodes, dtype=LONG)
        for e, (tail, head) in enumerate(edges):
            balance[tail] += x[e]
            balance[head] -= x[e]
        balance[0] -= 1
        balance[-1] += 1
        return max(-x.min(), np.abs(balance).max())

    domain = domains.PathPolytope(names[np.array(edges)], names[0], names[nodes - 1])
    return Region(
        domain, lambda g: min(g[path].sum() for path in complete), excess, 1.0, len(edges)
    )


def transport(rng: Any, n: int, r: float) -> Region:
    """Two rows: a plan is its first row, filled where it is cheaper."""
    k = int(rng.integers(1, 4))
    demand = np.round(rng.uniform(0.1, 2, k), 1)
    first = float(np.round(demand.sum() * rng.uniform(0.1, 0.9), 1))
    supply = np.array([first, demand.sum() - first])
    supply, demand = r * supply, r * demand

    def minimum(g: Any) -> Any:
        g = g.reshape(2, k)
        return (g[1] * demand).sum() + spent(g[0] - g[1], demand, supply[0])

    def excess(x: Any) -> Any:
        X = x.reshape(2, k)
        off = max(abs(X.sum(axis=1) - supply).max(), abs(X.sum(axis=0) - demand).max())
        return max(-x.min(), off) / supply.max()

    return Region(domains.Transport(supply, demand), minimum, excess, float(supply.max()), 2 * k)
