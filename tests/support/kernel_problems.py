"""Small kernel SVMs, and their optimum by an interior-point solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from cornerstep.kernel_svm import training
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.learning.kernel_blocks import PrecomputedKernel
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.optimiser.loop import Stopping


def draw(n=60, positive=0.4, seed=0, gap=1.0, d=3):
    """Two overlapping clouds, positives first, and their rbf kernel matrix."""
    rng = np.random.default_rng(seed)
    signs = np.ones(n)
    signs[max(int(positive * n), 1) :] = -1
    X = rng.standard_normal((n, d)) + 0.5 * gap * signs[:, None]
    return X, signs, rbf_kernel(X, gamma=0.5)


def problem(matrix, signs, caps=None, limit=10**8, **options):
    caps = np.ones(signs.size) if caps is None else caps
    return ReducedHullProblem(
        KernelColumns(PrecomputedKernel(matrix), limit), signs, caps, **options
    )


def optimum(matrix, signs, caps, K=None, C=None):
    """The least value and a minimiser, by Clarabel."""
    a = cp.Variable(signs.size)
    root = np.linalg.cholesky(matrix + 1e-12 * np.eye(signs.size)).T
    value = 0.5 * cp.sum_squares(root @ cp.multiply(signs, a))
    constraints = [a >= 0, a <= caps]
    if C is None:
        constraints += [cp.sum(a[signs > 0]) == K, cp.sum(a[signs < 0]) == K]
    else:
        value = value - cp.sum(a) / C
        constraints += [signs @ a == 0]
    task = cp.Problem(cp.Minimize(value), constraints)
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    task.solve(solver=cp.CLARABEL, **tight)
    return task.value, a.value


def train(
    task, solver="auto", *, seed=0, tol=1e-3, max_iter=10_000, start=None, callback=None, **numbers
):
    """A machine trained to a relative gap of ``tol``, with other ``numbers`` of 'auto'."""
    stopping = Stopping(0.0, tol, max_iter)
    rng = np.random.default_rng(seed)
    settings = training.Settings(
        solver=solver,
        stopping=stopping,
        rng=rng,
        start=start,
        callback=callback,
        working_set=WorkingSetSettings(**numbers),
    )
    return training.train(task, settings)
