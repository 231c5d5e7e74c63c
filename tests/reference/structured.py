"""Frank-Wolfe and block-coordinate Frank-Wolfe for structured SVMs, in their plainest form.

``min over w of  lambda/2 |w|² + 1/n sum_i max_y (L_i(y) - w'psi_i(y))``; ``psi[i]`` has a column
per labeling and ``losses[i]`` the loss of each.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np


def multiclass_problem(seed, n=7, d=3, m=4):
    """X, y, and psi and losses of a multi-class model: its labelings are the classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.concatenate([np.arange(m), rng.integers(0, m, n - m)])
    psi, losses = [], []
    for x, own in zip(X, y, strict=True):
        columns = np.zeros((d, m, m))
        for k in range(m):
            columns[:, own, k] += x
            columns[:, k, k] -= x
        psi.append(columns.reshape(d * m, m))
        losses.append((np.arange(m) != own).astype(float))
    return X, y, psi, losses


def batch(psi, losses, lam) -> Iterator[np.ndarray]:
    """All examples at once, line search: w before each step."""
    n = len(psi)
    w, loss = np.zeros(psi[0].shape[0]), 0.0
    while True:
        yield w
        answers = [(L - w @ P).argmax() for P, L in zip(psi, losses, strict=True)]
        corner = sum(P[:, y] for P, y in zip(psi, answers, strict=True)) / (lam * n)
        costs = sum(L[y] for L, y in zip(losses, answers, strict=True)) / n
        change = w - corner
        step = (lam * change @ w - loss + costs) / (lam * change @ change)
        step = min(max(step, 0.0), 1.0)
        w, loss = (1 - step) * w + step * corner, (1 - step) * loss + step * costs


def block_coordinate(psi, losses, lam, order: Iterable[int]) -> Iterator[tuple]:
    """One example per step: w and its weighted average, before each step."""
    n, size = len(psi), psi[0].shape[0]
    parts, part_losses = np.zeros((n, size)), np.zeros(n)
    w, average = np.zeros(size), np.zeros(size)
    for t, i in enumerate(order):
        yield w, average
        y = (losses[i] - w @ psi[i]).argmax()
        corner, cost = psi[i][:, y] / (lam * n), losses[i][y] / n
        change = parts[i] - corner
        step = (lam * change @ w - part_losses[i] + cost) / max(lam * change @ change, 1e-300)
        step = min(max(step, 0.0), 1.0)
        moved = parts[i] + step * (corner - parts[i])
        w = w + moved - parts[i]
        parts[i] = moved
        part_losses[i] += step * (cost - part_losses[i])
        average = t / (t + 2) * average + 2 / (t + 2) * w
    yield w, average


def cut_problem(seed, n=4, nodes=4, d=2):
    """Rings with a chord and two labels: X, Y, and psi and losses as functions of (1, z, d).

    ``phi = (sum_i x_i [y_i = a])_a, (sum_e f_e [y_a = a, y_b = b])_ab``; at a point of the
    minimum-cut polytope the edge (a, b) has the marginal ``(z_a + z_b - d) / 2`` of two ones.
    """
    rng = np.random.default_rng(seed)
    edges = np.array([*((k, (k + 1) % nodes) for k in range(nodes)), (0, 2)])
    X, Y, psi, losses = [], [], [], []
    for _ in range(n):
        x, f = rng.standard_normal((nodes, d)), rng.random((len(edges), 1))
        y = (x[:, 0] + 0.7 * rng.standard_normal(nodes) > 0).astype(int)

        def phi(point, x=x, f=f):
            z, differ = point[1 : nodes + 1], point[nodes + 1 :]
            one, two = z[edges[:, 0]], z[edges[:, 1]]
            both = (one + two - differ) / 2
            pairs = [point[0] - one - two + both, two - both, one - both, both]
            labels = np.stack([point[0] - z, z], axis=1)
            return np.concatenate([(x.T @ labels).ravel(), *(f.T @ pair for pair in pairs)])

        truth = np.concatenate([[1], y, y[edges[:, 0]] != y[edges[:, 1]]])
        basis = np.eye(truth.size)
        columns = np.stack([-phi(column) for column in basis], axis=1)
        columns[:, 0] += phi(truth)
        X.append((x, edges, f))
        Y.append(y)
        psi.append(columns)
        losses.append(np.concatenate([[y.sum()], 1 - 2 * y, np.zeros(len(edges))]) / nodes)
    return X, Y, psi, losses
