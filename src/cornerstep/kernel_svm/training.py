"""Training of kernel machines: one, by a method of the optimiser or the working sets; and pairs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.domains import CappedSimplex
from cornerstep.kernel_svm.pairs import Pairs
from cornerstep.kernel_svm.problem import Machine, ReducedHullProblem
from cornerstep.kernel_svm.small_pairs import train_small_pairs
from cornerstep.kernel_svm.solvers.plain import KernelWalk, walk
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.kernel_svm.solvers.start import starting_point
from cornerstep.kernel_svm.solvers.working_set import WorkingSetDescent
from cornerstep.learning import training as shared
from cornerstep.learning.certificates import MachineProof
from cornerstep.learning.training import proof_of
from cornerstep.optimiser.loop import Stopping, deferred_interrupt, run
from cornerstep.optimiser.result import Status, Trace

SOLVERS = ("auto", "di-away", "di-pairwise", "di-away-schedule", "di-pairwise-schedule")

_POLL = 0.1  # seconds between two looks for Ctrl-C, which some systems do not show to who waits


@dataclass(frozen=True, kw_only=True)
class Settings(shared.Settings):
    """How to train one machine.

    Attributes
    ----------
    interrupted : function, optional
        Whether to end, from a caller that handles Ctrl-C itself.
    cardinality : int, optional
        Of the fixed schedules.
    working_set : WorkingSetSettings
        The numbers of 'auto'.
    """

    interrupted: Callable[[], bool] | None = None
    cardinality: int | None = None
    working_set: WorkingSetSettings = field(default_factory=WorkingSetSettings)


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
    begun = work_seconds()
    stopping = settings.stopping
    start = None if settings.start is None else _feasible(problem, settings.start)
    stopped = False
    solver: WorkingSetDescent | KernelWalk
    if settings.solver != "auto":
        solver = walk(problem, settings.solver, start, settings.cardinality)
    else:
        if start is None:
            start, stopped = starting_point(
                problem, settings.rng, stopping, settings.interrupted, settings.working_set
            )  # fmt: skip
        target = stopping.tol, stopping.rtol
        solver = WorkingSetDescent(problem, start, settings.working_set, target)
    stopping = replace(stopping, max_iter=0) if stopped else stopping
    if stopping.time_limit is not None:
        spent = work_seconds() - begun
        stopping = replace(stopping, time_limit=max(stopping.time_limit - spent, 0.0))
    outcome = run(
        solver, stopping, callback=settings.callback, verbose=settings.verbose,
        title=settings.title, interrupted=settings.interrupted,
    )  # fmt: skip
    proof = proof_of(outcome)
    return Training(
        proof=proof._replace(status=Status.INTERRUPTED) if stopped else proof,
        beta=solver.beta,
        gradient=solver.gradient,
        evaluations=problem.columns.evaluations,
    )


class TrainedPair(NamedTuple):
    """A machine of two classes and how it was trained; the kernel columns of the pair are gone.

    The first ``positive`` examples are those of the first class; ``evaluations`` are those that no
    other pair needed.
    """

    examples: IntArray
    positive: int
    middle: FloatArray | None
    machine: Machine
    beta: FloatArray
    proof: MachineProof
    evaluations: int
    is_trained: bool
    is_constant: bool


def train_pairs(
    problems: Pairs,
    pairs: Sequence[tuple[int, int]],
    settings: Settings,
    seeds: IntArray,
    starts: Sequence[FloatArray] | None = None,
    n_jobs: int = 1,
) -> list[TrainedPair]:
    """Train a machine for each pair of classes, some at a time.

    The time limit is one for all, as is Ctrl-C: pairs that are left stay at their starting points.
    If several fail, the error is that of the first of them, as without threads.

    Parameters
    ----------
    problems : Pairs
    pairs : sequence of (int, int)
        The positive and the negative class of each.
    settings : Settings
        Of all.
    seeds : array
        Where the random numbers of each pair begin.
    starts : sequence of arrays, optional
        Where to start each.
    n_jobs : int
        Threads.
    """
    begun = work_seconds()
    ended = threading.Event()
    failed: list[int] = []
    limit = settings.stopping.time_limit
    small: dict[int, TrainedPair] = {}

    def train_pair(k: int) -> TrainedPair:
        def is_cancelled() -> bool:
            return any(other < k for other in failed)

        def is_over() -> bool:
            return ended.is_set() or pressed() or is_cancelled()

        if is_cancelled():
            raise CancelledError
        if k in small:
            return small[k]
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                pair, trains = problems.pose(pairs[k]), not is_over()
                own = replace(
                    settings, interrupted=is_over, rng=np.random.default_rng(seeds[k]),
                    start=None if starts is None else starts[k],
                )  # fmt: skip
                if limit is not None:
                    left = max(limit - (work_seconds() - begun), 0.0)
                    own = replace(own, stopping=replace(own.stopping, time_limit=left))
                found = train(pair.problem, own) if trains else _untrained(pair.problem, own)
                if found.proof.status is Status.INTERRUPTED:
                    ended.set()
                require_apart(pair.problem, found)
                machine = pair.problem.machine(found.beta, found.gradient)
        except BaseException:
            failed.append(k)
            raise
        constant = pair.problem.is_constant(machine, found.gradient)
        return TrainedPair(
            pair.examples, pair.problem.n_positive, pair.middle, machine, found.beta, found.proof,
            found.evaluations, trains, constant,
        )  # fmt: skip

    with deferred_interrupt() as pressed:
        if starts is None and _may_be_batched(settings):
            small = _small_pairs(problems, pairs, settings, n_jobs, pressed)
        if len(small) == len(pairs):
            return [small[k] for k in range(len(pairs))]
        if n_jobs == 1:
            return [train_pair(k) for k in range(len(pairs))]
        with ThreadPoolExecutor(n_jobs) as pool:
            futures = [pool.submit(train_pair, k) for k in range(len(pairs))]
            left = set(futures)
            while left:
                try:
                    left = wait(left, _POLL).not_done
                except KeyboardInterrupt:  # once more, or handled by others
                    ended.set()
        return [future.result() for future in futures]


def _may_be_batched(settings: Settings) -> bool:
    """Whether nobody watches, by the default solver and without a limit of rounds."""
    plain = settings.solver == "auto" and not settings.verbose
    return plain and settings.callback is None and settings.stopping.max_iter == sys.maxsize


def _small_pairs(
    problems: Pairs, pairs: Sequence[tuple[int, int]], settings: Settings, n_jobs: int,
    pressed: Callable[[], bool],
) -> dict[int, TrainedPair]:  # fmt: skip
    """Pairs trained in batches, with a trace of one row."""
    begun, stopping = work_seconds(), settings.stopping

    def is_over() -> bool:
        limit = stopping.time_limit
        return pressed() or (limit is not None and work_seconds() - begun >= limit)

    found = train_small_pairs(problems, pairs, stopping, settings.working_set, n_jobs, is_over)
    trained = {}
    seconds = (work_seconds() - begun) / max(len(found), 1)  # of each
    for k, pair in found.items():
        trace, entries = Trace(WorkingSetDescent.extra_columns), pair.beta.size**2
        trace.append((1, seconds, pair.value, pair.gap, 1.0, "batch", entries, pair.support))
        proof = MachineProof(
            pair.value, pair.value - pair.gap, pair.gap, Status.SOLVED, 1, trace
        )  # fmt: skip
        examples = problems.examples(pair.places)
        trained[k] = TrainedPair(
            examples,
            pair.positive,
            None,
            pair.machine,
            pair.beta,
            proof,
            0,
            True,
            pair.is_constant,
        )
    return trained


def _untrained(problem: ReducedHullProblem, settings: Settings) -> Training:
    """The starting point and its gap, for pairs that an interrupt left no time for."""
    stopping = Stopping(0.0, settings.stopping.rtol, 0)
    found = train(
        problem,
        Settings(solver="auto", stopping=stopping, rng=settings.rng, start=problem.start()),
    )
    return replace(found, proof=found.proof._replace(status=Status.INTERRUPTED))


def require_apart(problem: ReducedHullProblem, training: Training) -> None:
    """Complain if the minimum is 0 as far as float64 can tell: the reduced hulls touch."""
    value, status = training.proof.objective, training.proof.status
    is_zero = value == 0 if status is Status.SOLVED else value <= training.proof.gap
    final = status in (Status.SOLVED, Status.PRECISION_LIMIT, Status.NO_PROGRESS)
    if not (problem.is_distance and final and is_zero):
        return
    if len(problem.classes) == 1:
        raise ValueError(
            "the reduced convex hull of the examples contains the origin, so no hyperplane lies "
            "between them: take a larger nu (it shrinks the hull) or another kernel, such as 'rbf'"
        )
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
