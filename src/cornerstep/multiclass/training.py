"""From a posed multi-class problem to a trained solver: which one, its limits, its threads."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from cornerstep.core.blas import one_blas_thread
from cornerstep.learning.checkpoints import Checkpoint
from cornerstep.multiclass.arrays.rows import ArrayProblem
from cornerstep.multiclass.distributed.partitions import SpreadProblem
from cornerstep.multiclass.parameters import checkpoint_signature, signature_of
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import check_size
from cornerstep.optimiser.loop import Callback, Iterate, Outcome, Stopping, run

Problem = MulticlassProblem | SpreadProblem | ArrayProblem

_SMALL_PRODUCT = 2**23  # multiply-adds of X W that threads of BLAS would only slow down


def train(clf: Any, problem: Problem) -> tuple[Any, Outcome, Any]:
    """Run the solver that the classifier names on its problem; keep its state for a warm start.

    Returns the solver, what came out, and the dual coefficients, or what makes them when called.
    """
    name = problem.examples.default_solver if clf.solver == "auto" else clf.solver
    kept = signature = None
    if isinstance(problem, MulticlassProblem) and clf.warm_start:
        signature = signature_of(problem, name)
        kept = clf._state if clf._state is not None and clf._state[0] == signature else None
    if not isinstance(problem, SpreadProblem):
        check_size(problem.reach)
    solver = _solver(clf, problem, name, kept)
    stopping = Stopping(float(clf.atol), float(clf.tol), clf.max_iter, clf.time_limit)
    keeper = None
    if clf.checkpoint is not None:
        if isinstance(problem, ArrayProblem):
            raise ValueError(
                "checkpoint must be None for tensors: their state is not kept in files"
            )
        if isinstance(problem, SpreadProblem) and clf.smoothing and name != "block":
            raise ValueError(
                f"checkpoint must be None with solver={name!r} and smoothing where rows are "
                "spread: their dual points are not brought together; solver='block' keeps one"
            )
    try:
        if clf.checkpoint is not None:
            keeper = Checkpoint(clf.checkpoint, solver, checkpoint_signature(problem, name))
        with _threads_for(problem):
            outcome = run(
                solver,
                stopping,
                callback=_both(keeper, clf.callback),
                verbose=clf.verbose,
                title=f"MulticlassSVC, {name}",
            )
        if keeper is not None:
            keeper.write()
        coefficients = solver.coefficients()
    finally:
        if isinstance(problem, SpreadProblem):
            problem.crew.close()
    if isinstance(problem, MulticlassProblem) and clf.warm_start:
        clf._state = signature, problem.scales, solver.state
    else:
        clf._state = None
    return solver, outcome, coefficients


def _both(keeper: Checkpoint | None, told: Callback | None) -> Callback | None:
    """The checkpoint is kept, then the user is told."""
    if keeper is None or told is None:
        return keeper or told

    def callback(iterate: Iterate) -> bool:
        keeper(iterate)
        return bool(told(iterate))

    return callback


def _threads_for(problem: Problem) -> AbstractContextManager[Any]:
    """A context with one thread of BLAS where products here are small, or workers make them."""
    if isinstance(problem, SpreadProblem) and problem.crew.moved is not None:
        return one_blas_thread()
    if isinstance(problem, MulticlassProblem):
        examples = problem.examples
        if examples.n * examples.size * problem.n_classes <= _SMALL_PRODUCT:
            return one_blas_thread()
    return nullcontext()


def _solver(clf: Any, problem: Any, name: str, kept: tuple[Any, ...] | None) -> Any:
    """The solver of that name, for where the rows of the problem are."""
    from cornerstep.multiclass.distributed.auto import SpreadAuto
    from cornerstep.multiclass.distributed.solvers import SpreadAscent, SpreadRows
    from cornerstep.multiclass.solvers.batch import BatchDescent, carried
    from cornerstep.multiclass.solvers.block import BlockAscent
    from cornerstep.multiclass.solvers.corrective import RULE, CorrectiveDescent
    from cornerstep.multiclass.solvers.envelope import NAME, EnvelopeDescent
    from cornerstep.multiclass.solvers.passes import rows_of

    if isinstance(problem, ArrayProblem):
        from cornerstep.multiclass.arrays.posing import solver_of

        return solver_of(problem, name)
    rng = check_random_state(clf.random_state)
    generator = np.random.default_rng(rng.randint(np.iinfo(np.int32).max))
    if isinstance(problem, SpreadProblem):
        if name == "block" and (clf.solver == "block" or clf.smoothing):
            return SpreadAscent(problem, generator)
        if name == "block":
            return SpreadAuto(problem, generator, float(clf.tol))
        if name == RULE:
            return CorrectiveDescent(SpreadRows(problem))
        if name == NAME:
            return EnvelopeDescent(SpreadRows(problem), problem.shared)
        return BatchDescent(SpreadRows(problem), name)
    if name != "block":
        state = None if kept is None else carried(problem, kept[2], kept[1])
        if name == NAME:
            return EnvelopeDescent(rows_of(problem), problem, state)
        if name == RULE:
            return CorrectiveDescent(problem, state)
        return BatchDescent(problem, name, state)
    return BlockAscent(problem, generator, float(clf.tol), None if kept is None else kept[2])
