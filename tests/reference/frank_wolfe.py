"""The Frank-Wolfe variants of the papers in their plainest form, on a list of all vertices.

``min f(x) = 1/2 x'Qx + b'x over conv(V)``; V has a row per vertex.  Each generator yields x before
each step.  Steps are exact line searches, or short ones if the problem has a Lipschitz constant,
but for the open loop and the schedules.

References
----------
.. [1] W. Saint-Arnaud, E. Lamouchi, F. Boileau. Review of Frank Wolfe and its variants. Université
   de Montréal.
.. [2] M. A. Bashiri, X. Zhang. Decomposition-invariant conditional gradient for general polytopes
   with line search. NIPS 2017.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np


class Problem:
    """f, the vertices, and the constraints whose tightness makes faces.

    They are ``lower <= x <= upper`` and ``sum x <= total``.
    """

    def __init__(self, Q, b, V, lower, upper, weights, lipschitz=None, total=np.inf):
        self.Q, self.b, self.V, self.lipschitz = Q, b, V, lipschitz
        self.lower, self.upper, self.total = lower, upper, total
        self.weights = weights  # of the vertices, at the start
        self.start = weights @ V

    def gradient(self, x):
        return self.Q @ x + self.b

    def step(self, x, d, most):
        curvature = d @ self.Q @ d if self.lipschitz is None else self.lipschitz * (d @ d)
        best = -(self.gradient(x) @ d) / curvature if curvature > 0 else np.inf
        return min(max(best, 0.0), most)

    def ratio(self, x, d):
        """The largest step that keeps the constraints."""
        up = [(self.upper[j] - x[j]) / d[j] for j in range(x.size) if d[j] > 1e-12]
        down = [(self.lower[j] - x[j]) / d[j] for j in range(x.size) if d[j] < -1e-12]
        if d.sum() > 1e-12:
            up.append((self.total - x.sum()) / d.sum())
        return max(min(up + down, default=np.inf), 0.0)

    def face(self, x):
        """The vertices that satisfy with equality every constraint tight at x."""
        low, high = np.isclose(x, self.lower, atol=1e-12), np.isclose(x, self.upper, atol=1e-12)
        keeps = (self.V[:, low] == self.lower[low]).all(1) & (
            self.V[:, high] == self.upper[high]
        ).all(1)
        if x.sum() >= self.total - 1e-12:
            keeps &= self.V.sum(1) == self.total
        return self.V[keeps]


def fw(p: Problem, *, open_loop: bool = False) -> Iterator[np.ndarray]:
    x, t = p.start.copy(), 0
    while True:
        yield x
        g = p.gradient(x)
        d = p.V[(p.V @ g).argmin()] - x
        x = x + (2 / (t + 2) if open_loop else p.step(x, d, 1.0)) * d
        t += 1


def active_set(p: Problem, rule: str, sample: int = 0, rng=None) -> Iterator[np.ndarray]:
    """'away', 'pairwise', or 'randomized' away steps with ``sample`` atoms from outside S."""
    weights = p.weights
    while True:
        x = weights @ p.V
        yield x
        scores = p.V @ p.gradient(x)
        S = np.flatnonzero(weights)
        seen = np.arange(len(p.V))
        if rule == "randomized":
            drawn = rng.choice(len(p.V), min(sample + S.size, len(p.V)), replace=False)
            seen = np.concatenate([S, drawn[~np.isin(drawn, S)][:sample]])
        v, a = seen[scores[seen].argmin()], S[scores[S].argmax()]
        toward, back = p.V[v] - x, x - p.V[a]
        change = np.zeros(len(p.V))
        if rule == "pairwise":
            change[v] += 1.0
            change[a] -= 1.0
            most = weights[a]
        elif weights[a] >= 1 or -(p.gradient(x) @ toward) >= -(p.gradient(x) @ back):
            change, most = -weights.copy(), 1.0
            change[v] += 1.0
        else:
            change, most = weights.copy(), weights[a] / (1 - weights[a])
            change[a] -= 1.0
        step = p.step(x, change @ p.V, most)
        weights = weights + step * change
        weights[weights < 1e-13] = 0.0  # what a drop step leaves of the atom that leaves


def in_face(p: Problem, rule: str) -> Iterator[np.ndarray]:
    """AFW-2 ('away') and PFW-2 ('pairwise')."""
    x = p.start.copy()
    while True:
        yield x
        g = p.gradient(x)
        v = p.V[(p.V @ g).argmin()]
        face = p.face(x)
        a = face[(face @ g).argmax()]
        if rule == "pairwise":
            d, most = v - a, p.ratio(x, v - a)
        elif -(g @ (v - x)) >= -(g @ (x - a)):
            d, most = v - x, 1.0
        else:
            d, most = x - a, p.ratio(x, x - a)
        x = x + p.step(x, d, most) * d


def away_schedule(p: Problem, alpha, beta, diameter, facial) -> Iterator[np.ndarray]:
    """AFW-1: steps 1/q_t."""
    m1, m2, theta = math.sqrt(alpha / (8 * facial)), beta * diameter**2 / 2, 52.0
    c1 = m1**2 / m2 * (theta - 4) / (4 * theta**2)
    n0 = math.ceil(1 / c1)
    c0 = 3 * m2 * math.log(n0) / n0 * (1 - c1) ** (1 - n0)
    x, q, t = p.start.copy(), 1, 1
    while True:
        yield x
        g = p.gradient(x)
        v = p.V[(p.V @ g).argmin()]
        face = p.face(x)
        a = face[(face @ g).argmax()]
        if t < n0:
            d, q = v - x, t
        else:
            forward = -(g @ (v - x)) >= -(g @ (x - a))
            d = v - x if forward else x - a
            wanted = math.ceil(1 / (m1 / (theta * m2) * math.sqrt(c0) * (1 - c1) ** ((t - 1) / 2)))
            s = 0
            while 2**s * q + (1 if forward else -1) < wanted:
                s += 1
            q = 2**s * q + (1 if forward else -1)
        x = x + d / q
        t += 1


def pairwise_schedule(p: Problem, alpha, beta, diameter, facial) -> Iterator[np.ndarray]:
    """PFW-1: steps that are powers of 1/2."""
    c1 = alpha / (16 * beta * facial * diameter**2)
    x, t = p.start.copy(), 1
    while True:
        yield x
        g = p.gradient(x)
        v = p.V[(p.V @ g).argmin()]
        face = p.face(x)
        a = face[(face @ g).argmax()]
        gamma = math.sqrt(c1) * (1 - c1) ** ((t - 1) / 2)
        x = x + 2.0 ** math.floor(math.log2(gamma)) * (v - a)
        t += 1


def block_coordinate(p: Problem, blocks, order) -> Iterator[np.ndarray]:
    """BCFW: one block per step, in the given order, line search."""
    x = p.start.copy()
    for i in order:
        yield x
        block, V = blocks[i]
        g = p.gradient(x)
        d = np.zeros_like(x)
        d[block] = V[(V @ g[block]).argmin()] - x[block]
        x = x + p.step(x, d, 1.0) * d
