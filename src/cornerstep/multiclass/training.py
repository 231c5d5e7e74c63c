"""From a posed multi-class problem to a trained machine: which solver, its limits, its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cornerstep.learning import training
from cornerstep.learning.checkpoints import Checkpoint
from cornerstep.multiclass.arrays.rows import ArrayProblem
from cornerstep.multiclass.distributed.partitions import SpreadProblem
from cornerstep.multiclass.losses import Loss
from cornerstep.multiclass.parameters import checkpoint_signature, warm_start_signature
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import check_size
from cornerstep.optimiser.loop import Callback, Iterate, run

Problem = MulticlassProblem | SpreadProblem | ArrayProblem


@dataclass(frozen=True, kw_only=True)
class Settings(training.Settings):
    """How to train a multi-class machine; ``start`` is the ``state`` of an earlier training.

    Attributes
    ----------
    checkpoint : path, optional
        Where the solver's state is kept, and gone on from.
    last_iterate : bool
        Return the last iterate of a plain method, not the best.
    keeps_state : bool
        Whether somebody may start from this training; needs all rows in memory.
    """

    checkpoint: Any = None
    last_iterate: bool = False
    keeps_state: bool = False


@dataclass(frozen=True, kw_only=True)
class Training(training.Training):
    """A trained multi-class machine.

    Attributes
    ----------
    weights : array of shape (m, d), optional
        W, where it is known.
    expansion : matrix of shape (n, m), optional
        ``s_i alpha_i`` of W where it is not.
    coefficients : matrix or callable, optional
        ``s_i alpha_i`` of the dual point, or what makes it when called.
    state : optional
        To start another training from.
    """

    weights: Any
    expansion: Any
    coefficients: Any
    state: Any = None


def train(problem: Problem, settings: Settings) -> Training:
    """Run the solver that the settings name."""
    auto = settings.solver == "auto"
    name = default_solver(problem) if auto else settings.solver
    _check(problem, settings, name)
    signature = _signature(problem, name) if settings.keeps_state else None
    kept = settings.start
    start = kept[1:] if kept is not None and kept[0] == signature else None
    solver = _solver(problem, settings, name, start)
    try:
        keeper = None
        if settings.checkpoint is not None:
            keeper = Checkpoint(settings.checkpoint, solver, checkpoint_signature(problem, name))
        outcome = run(
            solver,
            settings.stopping,
            callback=_both(keeper, settings.callback),
            verbose=settings.verbose,
            title=f"{settings.title}, {name}",
            last_iterate=settings.last_iterate,
        )
        if keeper is not None:
            keeper.write()
        coefficients = solver.coefficients()
    finally:
        if isinstance(problem, SpreadProblem):
            problem.executor.close()
    weights = problem.examples.weights(solver.weights_image())
    return Training(
        proof=training.proof_of(outcome),
        weights=weights,
        expansion=solver.weights_coefficients() if weights is None else None,
        coefficients=coefficients,
        state=None if signature is None else (signature, *_state(problem, solver, start)),
    )


def _signature(problem: Problem, name: str) -> tuple[Any, ...] | None:
    """What another training must share to start from this one; None where none can."""
    if isinstance(problem, MulticlassProblem):
        return warm_start_signature(problem, name)
    if isinstance(problem, ArrayProblem) and name == "envelope":
        from cornerstep.multiclass.arrays.posing import signature_of

        return signature_of(problem)
    return None


def _state(problem: Any, solver: Any, start: tuple[Any, Any] | None) -> tuple[Any, Any]:
    """What it starts from: the scales, and the solver's state or the last solutions."""
    if isinstance(problem, ArrayProblem):
        from cornerstep.multiclass.arrays.posing import solutions_with

        image = solver.weights_image()
        return None, solutions_with(problem, () if start is None else start[1], image)
    return problem.scales, solver.state


def default_solver(problem: Problem) -> str:
    """What 'auto' means: blocks, unless examples or loss are not such that compiled code knows."""
    name: str = problem.examples.default_solver
    loss = problem.shared.loss if isinstance(problem, SpreadProblem) else problem.loss
    curved = loss.has_curvature or getattr(problem, "free", False)
    if curved and _holds_rows(problem):
        return "newton"
    if loss.entropic:
        return "envelope"
    if not isinstance(problem, MulticlassProblem) or isinstance(loss, Loss):
        return name
    smooth = loss.has_projection and not problem.examples.kernel
    return "envelope" if smooth else "fw-corrective"


def _holds_rows(problem: Problem) -> bool:
    """Whether the rows of one example each are in this process."""
    return isinstance(problem, MulticlassProblem) and problem.examples.terms == 1


def _check(problem: Problem, settings: Settings, name: str) -> None:
    """Complain about numbers that float64 does not hold, and checkpoints that cannot be kept."""
    if not isinstance(problem, SpreadProblem):
        check_size(problem.reach)
    if settings.checkpoint is None:
        return
    if isinstance(problem, ArrayProblem):
        raise ValueError("checkpoint must be None for tensors: their state is not kept in files")
    known = name in ("block", "envelope")
    if isinstance(problem, SpreadProblem) and problem.shared.smoothing and not known:
        raise ValueError(
            f"checkpoint must be None with solver={name!r} and smoothing where rows are "
            "spread: their dual points are not brought together; take smoothing=0"
        )


def _both(keeper: Checkpoint | None, told: Callback | None) -> Callback | None:
    """The checkpoint is kept, then the user is told."""
    if keeper is None or told is None:
        return keeper or told

    def callback(iterate: Iterate) -> bool:
        keeper(iterate)
        return bool(told(iterate))

    return callback


def _solver(problem: Any, settings: Settings, name: str, kept: tuple[Any, Any] | None) -> Any:
    """The solver of that name, for where the rows of the problem are.

    It starts from ``kept``, the scales and the state of an earlier one.
    """
    from cornerstep.multiclass.distributed.auto import SpreadAuto
    from cornerstep.multiclass.distributed.solvers import SpreadAscent, SpreadRows
    from cornerstep.multiclass.solvers import newton
    from cornerstep.multiclass.solvers.batch import BatchDescent, rescaled_state
    from cornerstep.multiclass.solvers.block import BlockAscent
    from cornerstep.multiclass.solvers.corrective import RULE, CorrectiveDescent
    from cornerstep.multiclass.solvers.envelope import NAME, EnvelopeDescent
    from cornerstep.multiclass.solvers.passes import rows_of

    if isinstance(problem, ArrayProblem):
        from cornerstep.multiclass.arrays.posing import solver_of

        return solver_of(problem, name, () if kept is None else kept[1])
    rng, tol = settings.rng, settings.stopping.rtol
    if isinstance(problem, SpreadProblem):
        if name == "block":
            by_name = settings.solver == "block"
            return SpreadAscent(problem, rng) if by_name else SpreadAuto(problem, rng, tol)
        if name == RULE:
            return CorrectiveDescent(SpreadRows(problem))
        if name == NAME:
            return EnvelopeDescent(SpreadRows(problem), problem.shared)
        return BatchDescent(SpreadRows(problem), name)
    if name == newton.NAME:
        return newton.NewtonDescent(
            problem, settings.stopping.target, () if kept is None else kept[1]
        )
    if name != "block":
        state = None if kept is None else rescaled_state(problem, kept[1], kept[0])
        if name == NAME:
            weights = None if state is None or kept is None else kept[1].image
            return EnvelopeDescent(rows_of(problem), problem, state, weights=weights)
        if name == RULE:
            return CorrectiveDescent(problem, state)
        return BatchDescent(problem, name, state)
    return BlockAscent(problem, rng, tol, None if kept is None else kept[1])
