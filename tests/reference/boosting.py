"""LPBoost, ERLPBoost, C-ERLPBoost and MLPBoost in their plainest form, for comparison.

From R. Mitsuboshi, K. Hatano, E. Takimoto, Boosting as Frank-Wolfe, 2022 (Algorithms 1 to 3), with
its misprints corrected: C-ERLPBoost minimises the largest edge plus the regulariser, not plus its
conjugate; w_1 is the first hypothesis, for a short step from w_0 = 0 would leave the simplex.

``A[i, j] = y_i h_j(x_i)`` over all hypotheses, ``nu`` in [1, m], ``eps`` the accuracy.  The weak
learner answers the column of largest edge, of equal ones the first.  Each function answers the
rounds: weights over all columns, the distribution that was asked, and the value that the stopping
rule compares with the smallest edge.  No code is shared with the library.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, linprog, minimize

TIE = 1e-10  # edges that differ by less are equal


def largest_edge(A, d):
    """The weak learner: column and edge."""
    edges = d @ A
    j = int(np.flatnonzero(edges >= edges.max() - TIE)[0])
    return j, float(edges[j])


def soft_margin(z, nu):
    """``min over d in P_nu of d'z``: the mean of the worst nu margins."""
    taken = np.diff(np.minimum(np.arange(z.size + 1), nu)) / nu
    return float(np.sort(z) @ taken)


def smoothed(z, nu, eta):
    """``g = min over d in P_nu of d'z + (1/eta) sum_i d_i ln(m d_i)``, and the minimiser.

    ``d_i = min(1/nu, s exp(-eta z_i))``: the scale s makes them sum to 1.
    """
    natural = -eta * (z - z.min())

    def scaled(s):
        return np.minimum(1 / nu, np.exp(np.minimum(natural + s, 0.0)))

    low, high = -np.log(z.size) - 1, -natural.min()
    s = high
    if scaled(high).sum() > 1:
        s = brentq(lambda s: scaled(s).sum() - 1, low, high, xtol=1e-15, rtol=1e-15)
    d = scaled(s) / scaled(s).sum()
    used = d > 0
    return float(d @ z + d[used] @ np.log(z.size * d[used]) / eta), d


def linear_program(A, nu):
    """``min over d in P_nu of max_j (A'd)_j`` by the simplex method: weights, d and value."""
    m, n = A.shape
    solved = linprog(
        np.append(np.zeros(m), 1.0), np.hstack([A.T, -np.ones((n, 1))]), np.zeros(n),
        np.append(np.ones(m), 0.0)[None], [1.0], [(0, 1 / nu)] * m + [(None, None)],
        method="highs-ds",
    )  # fmt: skip
    return -solved.ineqlin.marginals, solved.x[:m], float(solved.fun)


def entropic_program(A, nu, eta):
    """``max over w in the simplex of g(A w)`` by SLSQP: the weights."""
    n = A.shape[1]

    def falling(w):
        value, d = smoothed(A @ w, nu, eta)
        return -value, -(d @ A)

    solved = minimize(
        falling, np.ones(n) / n, jac=True, method="SLSQP", bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(n)},
        options={"ftol": 1e-16, "maxiter": 2000},
    )  # fmt: skip
    w = np.maximum(solved.x, 0)
    return w / w.sum()


def short_step(A, w, j, d, t, nu, eta):
    change = A[:, j] - A @ w
    length = abs(change).max()
    return float(np.clip(d @ change / (eta * length**2), 0, 1)) if length else 0.0


def classic_step(A, w, j, d, t, nu, eta):
    return 2 / (t + 2)


def line_search(A, w, j, d, t, nu, eta):
    change = A[:, j] - A @ w

    def slope(size):
        return smoothed(A @ w + size * change, nu, eta)[1] @ change

    if slope(0) <= 0:
        return 0.0
    return 1.0 if slope(1) >= 0 else float(brentq(slope, 0, 1, xtol=1e-15, rtol=1e-14))


STEPS = {"short": short_step, "open-loop": classic_step, "line-search": line_search}


def frank_wolfe_step(A, w, j, d, t, nu, eta, step):
    size = step(A, w, j, d, t, nu, eta)
    return (1 - size) * w + size * np.eye(w.size)[j]


def lpboost(A, nu, eps, rounds):
    m, n = A.shape
    j, least = largest_edge(A, np.ones(m) / m)
    found, course = [], []
    for _ in range(rounds):
        found += [j] if j not in found else []
        w = np.zeros(n)
        w[found], d, value = linear_program(A[:, found], nu)
        j, edge = largest_edge(A, d)
        least = min(least, edge)
        course.append((w, d, value))
        if least - value <= eps:
            break
    return course


def erlpboost(A, nu, eps, rounds):
    def corrective(w, j, d, t, eta, found):
        new = np.zeros(w.size)
        new[found] = entropic_program(A[:, found], nu, eta)
        return new

    return _smoothed_method(A, nu, eps, rounds, corrective)


def cerlpboost(A, nu, eps, rounds, step):
    def towards(w, j, d, t, eta, found):
        return frank_wolfe_step(A, w, j, d, t, nu, eta, step)

    return _smoothed_method(A, nu, eps, rounds, towards)


def mlpboost(A, nu, eps, rounds, step):
    def better(w, j, d, t, eta, found):
        first = frank_wolfe_step(A, w, j, d, t, nu, eta, step)
        second = np.zeros(w.size)
        second[found] = linear_program(A[:, found], nu)[0]
        values = [smoothed(A @ v, nu, eta)[0] for v in (first, second)]
        return second if values[1] > values[0] else first

    return _smoothed_method(A, nu, eps, rounds, better)


def _smoothed_method(A, nu, eps, rounds, update):
    """Algorithm 1: the methods on g differ in how they update the weights."""
    m, n = A.shape
    eta = 2 * np.log(m / nu) / eps
    j, least = largest_edge(A, np.ones(m) / m)
    w, found, course = np.eye(n)[j], [j], []
    for t in range(1, rounds + 1):
        g, d = smoothed(A @ w, nu, eta)
        j, edge = largest_edge(A, d)
        least = min(least, edge)
        course.append((w, d, g))
        if least - g <= eps / 2:
            break
        found += [j] if j not in found else []
        w = update(w, j, d, t, eta, found)
    return course
