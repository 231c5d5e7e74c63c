"""From a posed structured SVM to a trained one: which solver, from where, with which limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray
from cornerstep.learning import training
from cornerstep.learning.certificates import MachineProof
from cornerstep.optimiser.block import BlockSolver
from cornerstep.optimiser.loop import Outcome, Stopping, run
from cornerstep.structured.parameters import BLOCK_SOLVERS
from cornerstep.structured.problem import StructuredProblem
from cornerstep.structured.solvers.batch import BatchSolver, SubgradientSolver
from cornerstep.structured.solvers.block import ExampleBlocks
from cornerstep.structured.solvers.extragradient import ExtragradientSolver


@dataclass(frozen=True, kw_only=True)
class Settings(training.Settings):
    """How to train a structured SVM.

    Attributes
    ----------
    sampling, averaging, check_every, cache_passes, cache_size, geometry, radius, fixed_step
        As :class:`~cornerstep.StructuredSVC` has them.
    score : callable, optional
        Of w, for the trace.
    keep_state : bool
        Whether to leave a state to start from.
    begin : float
        When the time limit began to count, by ``work_seconds``: what is prepared counts too.
    """

    sampling: str
    averaging: bool
    check_every: int
    cache_passes: int
    cache_size: int
    geometry: str
    radius: float | None
    fixed_step: bool = False
    score: Callable[[FloatArray], float] | None = None
    keep_state: bool = False
    begin: float = field(default_factory=work_seconds)


@dataclass(frozen=True, kw_only=True)
class Training(training.Training):
    """A trained structured SVM.

    Attributes
    ----------
    weights : array
        w.
    oracle_calls : int
        Examples decoded, certificates apart.
    state : optional
        The dual point, and the signature of the problems that it is one of.
    """

    weights: FloatArray
    oracle_calls: int
    state: tuple[Any, ...] | None = None


def train(problem: StructuredProblem, settings: Settings) -> Training:
    """Run the solver that the settings name."""
    examples, state, kept = problem.examples, None, settings.start
    signature = _signature(problem, settings.solver) if settings.keep_state else ()
    if settings.keep_state and kept is not None and kept[0] == signature:
        state = kept[1]
    solver = _solver(problem, settings, state)
    outcome = run(
        solver, _left(settings), callback=settings.callback, verbose=settings.verbose,
        title=settings.title,
    )  # fmt: skip
    trained = solver.blocks if settings.solver in BLOCK_SOLVERS else solver
    return Training(
        proof=_proof(outcome),
        weights=np.array(trained.weights()),
        oracle_calls=int(examples.oracle_calls),
        state=(signature, trained.state())
        if settings.keep_state and hasattr(trained, "state")
        else None,
    )


def _solver(problem: StructuredProblem, settings: Settings, state: Any) -> Any:
    """The solver of the settings, for the loop."""
    examples, lam = problem.examples, problem.lam
    if settings.solver == "fw":
        return BatchSolver(examples, lam, state)
    if settings.solver == "subgradient":
        return SubgradientSolver(
            examples, lam, averaging=settings.averaging, check_every=settings.check_every,
            rng=settings.rng, score=settings.score,
        )  # fmt: skip
    if settings.solver == "extragradient":
        examples.require_soft(settings.geometry)
        return ExtragradientSolver(
            examples, lam, settings.geometry, settings.radius, settings.fixed_step
        )
    keep, prox = (settings.cache_size, problem.prox) if settings.cache_passes else (0, 0.0)
    dual = examples.blocks(lam, keep, prox)
    if state is not None:
        dual.restore(state)
    blocks = ExampleBlocks(
        dual, settings.solver, averaging=settings.averaging, score=settings.score
    )
    return BlockSolver(
        blocks, settings.sampling, settings.rng, look_every=settings.check_every,
        corrections=[blocks.correct] * (settings.cache_passes * dual.remembers),
    )  # fmt: skip


def _left(settings: Settings) -> Stopping:
    """What is left of the time limit."""
    limit = settings.stopping.time_limit
    if limit is None:
        return settings.stopping
    left = max(limit - (work_seconds() - settings.begin), 0.0)
    return replace(settings.stopping, time_limit=left)


def _signature(problem: StructuredProblem, solver: str) -> tuple[Any, ...]:
    """What two problems must share for a dual state of the one to be one of the other."""
    from joblib import hash as digest

    if solver in BLOCK_SOLVERS:
        return "blocks", digest(problem.examples.blocks_of)
    return solver, digest(problem.examples.images_of)  # w itself is kept: features must be the same


def _proof(outcome: Outcome) -> MachineProof:
    """What is proven; a difference is off by half a unit of its larger part."""
    value, gap = float(outcome.look.value), float(outcome.look.gap)
    bound = max(value - gap - float(np.spacing(max(value, gap))), 0.0)
    status, n_iter, trace = outcome.status, outcome.n_iter, outcome.trace
    return MachineProof(value, bound, value - bound, status, n_iter, trace)
