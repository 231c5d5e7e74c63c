"""Training of one kernel machine: the problem, a method of the optimiser or the working sets."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from cornerstep.core.blas import one_blas_thread
from cornerstep.core.types import FloatArray
from cornerstep.domains import CappedSimplex
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.plain import KernelWalk, walk
from cornerstep.kernel_svm.solvers.start import starting_point
from cornerstep.kernel_svm.solvers.working_set import WorkingSetDescent
from cornerstep.learning import training as shared
from cornerstep.learning.training import Settings, proof_of
from cornerstep.optimiser.loop import run
from cornerstep.optimiser.result import Status

SOLVERS = ("auto", "di-away", "di-pairwise", "di-away-schedule", "di-pairwise-schedule")


@dataclass(frozen=True, kw_only=True)
class Training(shared.Training):
    """A trained machine.

    Attributes
    ----------
    beta, gradient : arrays of shape (n,)
        The signed dual point, and ``h = Kb + p`` there.
    evaluations : int
        Entries of the kernel matrix computed.
    """

    beta: FloatArray
    gradient: FloatArray
    evaluations: int


def train(problem: ReducedHullProblem, settings: Settings) -> Training:
    """Solve ``problem`` by one of ``SOLVERS``.

    ``settings.start`` are signed variables near which to start: a feasible point close to them is
    taken.  What a callback sees is a, or the signed variables b of 'auto'.  Raises a ValueError if
    the numbers leave the range of float64.
    """
    problem.check_range()
    begun = time.perf_counter()
    stopping, tol = settings.stopping, settings.stopping.rtol
    start = None if settings.start is None else _feasible(problem, settings.start)
    stopped = False
    with one_blas_thread():
        solver: WorkingSetDescent | KernelWalk
        if settings.solver != "auto":
            solver = walk(problem, settings.solver, start)
        else:
            if start is None:
                start, stopped = starting_point(problem, settings.rng, tol, stopping.time_limit)
            solver = WorkingSetDescent(problem, start, tol)
        stopping = replace(stopping, max_iter=0) if stopped else stopping
        if stopping.time_limit is not None:
            spent = time.perf_counter() - begun
            stopping = replace(stopping, time_limit=max(stopping.time_limit - spent, 0.0))
        outcome = run(
            solver, stopping, callback=settings.callback, verbose=settings.verbose,
            title=settings.title,
        )  # fmt: skip
    proof = proof_of(outcome)
    return Training(
        proof=proof._replace(status=Status.INTERRUPTED) if stopped else proof,
        beta=solver.beta,
        gradient=solver.gradient,
        evaluations=problem.columns.evaluations,
    )


def require_apart(problem: ReducedHullProblem, training: Training) -> None:
    """Complain if the minimum is 0 as far as float64 can tell: the reduced hulls touch."""
    value, status = training.proof.objective, training.proof.status
    is_zero = value == 0 if status is Status.SOLVED else value <= training.proof.gap
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
