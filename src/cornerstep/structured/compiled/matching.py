"""Projections onto doubly stochastic matrices: Sinkhorn's scaling and a quadratic flow.

References
----------
.. [1] R. Sinkhorn, P. Knopp. Concerning nonnegative matrices and doubly stochastic matrices.
   Pacific Journal of Mathematics 21, 343-348, 1967.
.. [2] J. Altschuler, J. Weed, P. Rigollet. Near-linear time approximation algorithms for optimal
   transport via Sinkhorn iteration. NIPS 2017.
.. [3] X. Li, D. Sun, K.-C. Toh. On the efficient computation of a projector over the Birkhoff
   polytope. Mathematical Programming 179, 419-446, 2020.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit


@njit(nogil=True)
def sinkhorn(scores, sweeps, exact):
    """``argmax of <scores, z> + entropy(z)``, with logarithms, made feasible at the end.

    Sweeps norm rows and columns in turn until rows are exact.  What is then missing is filled up by
    a matrix of rank one, so the answer lies in the polytope whatever the number of sweeps.
    """
    k = scores.shape[0]
    logs = scores.copy()
    for sweep in range(sweeps):
        off = 0.0
        for i in range(k):
            top = logs[i].max()
            total = 0.0
            for j in range(k):
                total += np.exp(logs[i, j] - top)
            shift = top + np.log(total)
            off = max(off, abs(shift))
            for j in range(k):
                logs[i, j] -= shift
        for j in range(k):
            top = logs[0, j]
            for i in range(1, k):
                top = max(top, logs[i, j])
            total = 0.0
            for i in range(k):
                total += np.exp(logs[i, j] - top)
            shift = top + np.log(total)
            for i in range(k):
                logs[i, j] -= shift
        if sweep > 0 and off < exact:
            break
    return feasible(np.exp(logs))


@njit(nogil=True)
def feasible(z):
    """Scale rows and columns down to at most 1, then add what is missing as a rank-one matrix."""
    k = z.shape[0]
    for i in range(k):
        total = z[i].sum()
        if total > 1.0:
            z[i] /= total
    for j in range(k):
        total = 0.0
        for i in range(k):
            total += z[i, j]
        if total > 1.0:
            for i in range(k):
                z[i, j] /= total
    rows, columns = np.empty(k), np.empty(k)
    missing = 0.0
    for i in range(k):
        rows[i] = max(1.0 - z[i].sum(), 0.0)
        missing += rows[i]
        columns[i] = 1.0
    for i in range(k):
        for j in range(k):
            columns[j] -= z[i, j]
    if missing > 0.0:
        for i in range(k):
            for j in range(k):
                z[i, j] += rows[i] * max(columns[j], 0.0) / missing
    return z


@njit(nogil=True)
def nearest(target, steps, exact):
    """The nearest doubly stochastic matrix, ``max(target + u_i + v_j, 0)``.

    The dual ``1/2 |max(target + u + v, 0)|² - sum u - sum v`` is convex and piecewise quadratic:
    Newton steps with a line search end after finitely many pieces.
    """
    k = target.shape[0]
    dual = np.zeros(2 * k)
    for i in range(k):
        dual[i] = (1.0 - target[i].sum()) / k
    z = np.empty((k, k))
    gradient, hessian = np.empty(2 * k), np.empty((2 * k, 2 * k))
    here = _fill(target, dual, z)
    for _ in range(steps):
        worst = 0.0
        hessian[:] = 0.0
        for i in range(k):
            gradient[i] = gradient[k + i] = -1.0
        for i in range(k):
            for j in range(k):
                if z[i, j] > 0.0:
                    gradient[i] += z[i, j]
                    gradient[k + j] += z[i, j]
                    hessian[i, i] += 1.0
                    hessian[k + j, k + j] += 1.0
                    hessian[i, k + j] = hessian[k + j, i] = 1.0
        for i in range(2 * k):
            worst = max(worst, abs(gradient[i]))
            hessian[i, i] += 1e-9
        if worst < exact:
            break
        step = np.linalg.solve(hessian, gradient)
        slope = (gradient * step).sum()
        size = 1.0
        while size > 1e-12:
            there = _fill(target, dual - size * step, z)
            if there <= here - 1e-4 * size * slope + 1e-15 * abs(here):
                break
            size /= 2
        dual = dual - size * step
        here = there
    return feasible(z)


@njit(nogil=True)
def _fill(target, dual, z):
    """``z = max(target + u_i + v_j, 0)``; the value of the dual."""
    k = target.shape[0]
    value = -dual.sum()
    for i in range(k):
        for j in range(k):
            z[i, j] = max(target[i, j] + dual[i] + dual[k + j], 0.0)
            value += 0.5 * z[i, j] * z[i, j]
    return value
