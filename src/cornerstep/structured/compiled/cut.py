"""The nearest point of the minimum-cut polytope of a graph, a quadratic flow:

``min 1/2 |z - p|² + 1/2 |d - q|²  s.t.  0 <= z <= 1,  d_e >= |z_a - z_b|`` for edges e = (a, b).

The multipliers of ``d_e >= z_a - z_b`` and ``d_e >= z_b - z_a`` are flows from a to b and back, so
that the dual is a minimum-cost flow with quadratic costs; both are solved at once, by an interior
point method whose systems are Laplacians of the graph with a positive diagonal.

References
----------
.. [1] B. Taskar, S. Lacoste-Julien, M. I. Jordan. Structured prediction, dual extragradient and
   Bregman projections. Journal of Machine Learning Research 7, 1627-1653, 2006.
.. [2] S. Mehrotra. On the implementation of a primal-dual interior point method. SIAM Journal on
   Optimization 2, 575-601, 1992.
.. [3] W. K. Grassmann, M. I. Taksar, D. P. Heyman. Regenerative analysis and steady state
   distributions for Markov chains. Operations Research 33, 1107-1116, 1985.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit


@njit(nogil=True)
def nearest_cut(p, q, a, b, steps, exact):
    """The point z, d; products of slacks and multipliers end at ``exact`` times their scale."""
    n, e = p.shape[0], q.shape[0]
    m = 2 * (n + e)
    z, d = np.full(n, 0.5), np.maximum(q, 0.0) + 1.0
    slack, y = np.empty(m), np.empty(m)
    scale = 1.0
    for i in range(n):
        scale = max(scale, abs(p[i]))
    for k in range(e):
        scale = max(scale, abs(q[k]))
    _constraints(z, d, a, b, slack)
    slack[n : 2 * n] += 1.0
    y[:] = scale / slack
    move, aside = np.empty(m), np.empty(m)
    for _ in range(steps):
        mu = (slack * y).sum() / m
        if mu <= exact * scale:
            break
        aside[:] = -y  # predictor: straight to complementarity
        dz, dd = _direction(p, q, a, b, z, d, slack, y, aside)
        _constraints(dz, dd, a, b, move)
        change = aside - y / slack * move
        step = min(_largest(slack, move), _largest(y, change))
        ahead = ((slack + step * move) * (y + step * change)).sum() / m
        centre = (ahead / mu) ** 3 * mu
        aside[:] = (centre - move * change) / slack - y
        dz, dd = _direction(p, q, a, b, z, d, slack, y, aside)
        _constraints(dz, dd, a, b, move)
        change = aside - y / slack * move
        step = min(1.0, 0.99 * min(_largest(slack, move), _largest(y, change)))
        z += step * dz
        d += step * dd
        slack += step * move
        y += step * change
    for i in range(n):
        z[i] = min(max(z[i], 0.0), 1.0)
    for k in range(e):
        d[k] = max(q[k], abs(z[a[k]] - z[b[k]]))
    return z, d


@njit(nogil=True)
def _constraints(z, d, a, b, out):
    """``z, -z, d - (z_a - z_b), d + (z_a - z_b)``: what must stay above ``0, -1, 0, 0``."""
    n, e = z.shape[0], d.shape[0]
    for i in range(n):
        out[i], out[n + i] = z[i], -z[i]
    for k in range(e):
        difference = z[a[k]] - z[b[k]]
        out[2 * n + k], out[2 * n + e + k] = d[k] - difference, d[k] + difference


@njit(nogil=True)
def _largest(x, move):
    """The largest step at which no entry is below 0, at most 1e3."""
    step = 1e3
    for i in range(x.shape[0]):
        if move[i] < 0.0:
            step = min(step, -x[i] / move[i])
    return step


@njit(nogil=True)
def _direction(p, q, a, b, z, d, slack, y, aside):
    """The step of z and d if the multipliers are to move by ``aside - y/slack * (their own)``."""
    n, e = p.shape[0], q.shape[0]
    weight, flow = y / slack, y + aside
    off, excess, right = np.zeros((n, n)), np.empty(n), np.empty(n)
    for i in range(n):
        excess[i] = 1.0 + weight[i] + weight[n + i]
        right[i] = p[i] - z[i] + flow[i] - flow[n + i]
    for k in range(e):
        one, two = 2 * n + k, 2 * n + e + k
        sum_, skew = weight[one] + weight[two], weight[two] - weight[one]
        own = q[k] - d[k] + flow[one] + flow[two]
        pull = flow[two] - flow[one] - skew * own / (1.0 + sum_)
        stiff = (sum_ + 4.0 * weight[one] * weight[two]) / (1.0 + sum_)
        right[a[k]] += pull
        right[b[k]] -= pull
        off[a[k], b[k]] += stiff
        off[b[k], a[k]] += stiff
    dz = _laplacian_solve(off, excess, right)
    dd = np.empty(e)
    for k in range(e):
        one, two = 2 * n + k, 2 * n + e + k
        sum_, skew = weight[one] + weight[two], weight[two] - weight[one]
        own = q[k] - d[k] + flow[one] + flow[two]
        dd[k] = (own - skew * (dz[a[k]] - dz[b[k]])) / (1.0 + sum_)
    return dz, dd


@njit(nogil=True)
def _laplacian_solve(off, excess, right):
    """Solve ``(diag(excess) + Laplacian of the weights off) x = right``; all are overwritten.

    Elimination keeps the row sums apart and never subtracts, so that stiff edges do not drown them.
    """
    n = right.shape[0]
    pivot = np.empty(n)
    for k in range(n):
        pivot[k] = excess[k]
        for j in range(k + 1, n):
            pivot[k] += off[k, j]
        for i in range(k + 1, n):
            if off[k, i] > 0.0:
                share = off[k, i] / pivot[k]
                excess[i] += share * excess[k]
                right[i] += share * right[k]
                for j in range(k + 1, n):
                    off[i, j] += share * off[k, j]
    for k in range(n - 1, -1, -1):
        total = right[k]
        for j in range(k + 1, n):
            total += off[k, j] * right[j]
        right[k] = total / pivot[k]
    return right
