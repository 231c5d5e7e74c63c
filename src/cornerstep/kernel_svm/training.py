"""Training of one kernel machine: the problem, a method of the optimiser or the working sets."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from cornerstep.core.blas import one_blas_thread
from cornerstep.core.types import FloatArray
from cornerstep.domains import CappedSimplex
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.plain import KernelWalk, walk
from cornerstep.kernel_svm.solvers.start import starting_point
from cornerstep.kernel_svm.solvers.working_set import WorkingSetDescent
from cornerstep.learning.certificates import MachineProof
from cornerstep.optimiser.loop import Callback, Stopping, run
from cornerstep.optimiser.result import Status, Trace

SOLVERS = ("auto", "di-away", "di-pairwise", "di-away-schedule", "di-pairwise-schedule")


class Training(NamedTuple):
    """A signed dual point, its gradient, and its certificate."""

    beta: FloatArray
    gradient: FloatArray
    objective: float
    gap: float
    status: Status
    n_iter: int
    evaluations: int
    trace: Trace

    @property
    def proof(self) -> MachineProof:
        """What is proven of the machine."""
        bound = self.objective - self.gap
        return MachineProof(self.objective, bound, self.gap, self.status, self.n_iter, self.trace)


def train(
    problem: ReducedHullProblem,
    solver_name: str = "auto",
    *,
    tol: float = 1e-3,
    atol: float = 0.0,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    start: FloatArray | None = None,
    rng: np.random.Generator | None = None,
    callback: Callback | None = None,
    verbose: int = 0,
) -> Training:
    """Solve ``problem`` to a relative gap of ``tol`` by one of ``SOLVERS``.

    Raises a ValueError if the numbers leave the range of float64.

    Parameters
    ----------
    problem : ReducedHullProblem
    solver_name : str
    tol, atol, max_iter, time_limit, callback, verbose
        As for :func:`cornerstep.minimize`, with tol relative to the value.  What a callback sees
        is a, or the signed variables b of 'auto'.
    start : array of shape (n,), optional
        Signed variables near which to start: a feasible point close to them is taken.
    rng : numpy Generator, optional
    """
    problem.check_range()
    begun = time.perf_counter()
    if start is not None:
        start = _feasible(problem, start)
    stopped = False
    with one_blas_thread():
        solver: WorkingSetDescent | KernelWalk
        if solver_name != "auto":
            solver = walk(problem, solver_name, start)
        else:
            if start is None:
                rng = rng or np.random.default_rng()
                start, stopped = starting_point(problem, rng, tol, time_limit)
            solver = WorkingSetDescent(problem, start, tol)
        left = None if time_limit is None else max(time_limit - (time.perf_counter() - begun), 0.0)
        outcome = run(
            solver, Stopping(atol, tol, 0 if stopped else max_iter, left),
            callback=callback, verbose=verbose, title=f"ReducedHullSVC, {solver_name}",
        )  # fmt: skip
    status = Status.INTERRUPTED if stopped else outcome.status
    return Training(
        solver.beta, solver.gradient, outcome.look.value, outcome.look.gap,
        status, outcome.n_iter, problem.columns.evaluations, outcome.trace,
    )  # fmt: skip


def require_apart(problem: ReducedHullProblem, training: Training) -> None:
    """Complain if the minimum is 0 as far as float64 can tell: the reduced hulls touch."""
    value, status = training.objective, training.status
    is_zero = value == 0 if status is Status.SOLVED else value <= training.gap
    final = status in (Status.SOLVED, Status.PRECISION_LIMIT, Status.NO_PROGRESS)
    if problem.C is None and final and is_zero:
        raise ValueError(
            "the reduced convex hulls of the two classes touch, so no hyperplane lies "
            f"between them at K = {problem.K:g}: take a larger nu or K (they shrink the "
            "hulls) or another kernel"
        )


def _feasible(problem: ReducedHullProblem, beta: FloatArray) -> FloatArray:
    """A feasible point near ``beta``, on its support if there is room."""
    amounts = np.minimum(np.abs(beta), problem.caps)
    K = problem.K
    if K is None:
        K = min(float(amounts[part].sum()) for part in problem.classes)
    out = np.zeros(problem.n)
    for part in problem.classes if K > 0 else ():
        caps = problem.caps[part]
        used = amounts[part] > 0
        if caps[used].sum() < K:
            used = np.ones_like(used)
        simplex = CappedSimplex(int(used.sum()), K, caps[used])
        out[part][used] = np.clip(simplex.project(amounts[part][used]), 0.0, caps[used])
    return problem.signs * out
