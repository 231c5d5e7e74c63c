"""The best soft margin by a linear program."""

import numpy as np
from scipy.optimize import linprog


def lp_optimum(margins, caps):
    """``max over w of rho`` over the rows of margins, by HiGHS."""
    k, m = margins.shape
    # variables w, rho, xi: max rho - caps'xi, margins'w >= rho - xi
    cost = np.concatenate([np.zeros(k), [-1.0], caps])
    rows = np.hstack([-margins.T, np.ones((m, 1)), -np.eye(m)])
    equal = np.concatenate([np.ones(k), np.zeros(m + 1)])[None]
    bounds = [(0, None)] * k + [(None, None)] + [(0, None)] * m
    solved = linprog(cost, rows, np.zeros(m), equal, [1.0], bounds, method="highs")
    assert solved.status == 0
    return -solved.fun
