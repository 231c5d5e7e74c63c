"""Where the default solver of kernel SVMs starts: at the solution of a smaller problem, or at 0.

A solution on few examples tells which of all will be support vectors, and their columns are most of
what has to be computed.

1. Draw nested samples of each class, each a fifth of the next one, the last all examples.
2. Solve the problem of the smallest one roughly, from a vertex
   (:mod:`cornerstep.kernel_svm.solvers.working_set`).
3. On the next sample, compute the gradient of that solution, and go to the vertex of the domain
   that is best for it.  Solve that problem in the same way, and so on, up to all examples.

Where hulls are slim (K is small) a sample would have too few support vectors to tell: they start at
0 and grow.

A wide hull of many examples, alone, whose kernel matrix has a low rank but for digits that do not
matter (few features) is solved on that matrix instead
(:mod:`cornerstep.learning.kernel_low_rank`), to half the target: a round takes products with two
thin factors, and what is left to do with the true kernel is, most of the time, the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.kernel_svm.solvers.working_set import WorkingSetDescent
from cornerstep.learning.kernel_columns import FactoredColumns
from cornerstep.learning.kernel_low_rank import FactoredKernel, low_rank_factor
from cornerstep.optimiser.loop import Stopping, run
from cornerstep.optimiser.result import Status


def starting_point(
    problem: ReducedHullProblem,
    rng: np.random.Generator,
    target: Stopping,
    interrupted: Callable[[], bool] | None = None,
    settings: WorkingSetSettings | None = None,
) -> tuple[FloatArray, bool]:
    """Signed variables to start from, and whether the user asked to stop on the way to them.

    From the solution on a random share of each class, if there are examples enough: the vertex that
    is best for the gradient of that solution on all examples.  Slim hulls start at 0 and grow, and
    C-SVMs start at 0 where columns are cheap; so little is saved there that a whole matrix gives
    hulls the vertex that is best for equal weights.
    """
    settings = settings or WorkingSetSettings()
    if problem.columns.is_whole:
        return problem.central_vertex(), False
    time_limit = target.time_limit
    cheap = problem.columns.are_cheap(settings.whole_columns)
    if (problem.K is None and cheap) or (problem.width < settings.slim and not cheap):
        return np.zeros(problem.n), False
    begun = work_seconds()
    factored = _factored(problem, rng, target.rtol, settings)
    if factored is not None:
        wide = replace(settings, kept_violators=settings.low_rank_violators)
        descent = WorkingSetDescent(factored, factored.central_vertex(), wide)
        stopping = Stopping(0.5 * target.tol, 0.5 * target.rtol, time_limit=time_limit)
        outcome = run(descent, stopping, interrupted=interrupted)
        return descent.beta, outcome.status is Status.INTERRUPTED
    if not problem.starts_on_fewer:
        return problem.start(), False
    order = problem.shuffled(rng)
    shares, size = [1.0], problem.n / settings.sample_factor
    while size >= settings.least_sample:
        shares.insert(0, size / problem.n)
        size /= settings.sample_factor
    examples = np.flatnonzero(order < shares[0])
    level = problem if len(shares) == 1 else problem.sample(examples)
    beta = level.start()
    for share in shares[1:]:
        left = None if time_limit is None else max(time_limit - (work_seconds() - begun), 0.0)
        descent = WorkingSetDescent(level, beta, settings)
        stopping = Stopping(0.0, settings.sample_gap, time_limit=left)
        outcome = run(descent, stopping, interrupted=interrupted)
        wider = np.flatnonzero(order < share)
        finer = problem if share == 1.0 else problem.sample(wider)
        problem.columns.evaluations += level.columns.evaluations
        beta = _lifted(level, descent.beta, finer, np.searchsorted(wider, examples))
        level, examples = finer, wider
        if outcome.status is Status.INTERRUPTED:
            return (beta if level is problem else problem.start()), True
    return beta, False


def _factored(
    problem: ReducedHullProblem, rng: np.random.Generator, rtol: float, settings: WorkingSetSettings
) -> ReducedHullProblem | None:
    """The problem with a kernel matrix of low rank that differs too little to matter, if it can."""
    columns = problem.columns
    is_wide = problem.width >= settings.least_width * problem.n
    if not (len(problem.classes) == 1 and is_wide and problem.n >= settings.least_low_rank):
        return None
    largest = float(columns.kernel.sizes.max()) ** 2
    most = min(settings.most_rank, columns.limit // (16 * problem.n))
    factor = low_rank_factor(columns.kernel, settings.rank_accuracy * rtol * largest, most, rng)
    return None if factor is None else problem.on(FactoredColumns(FactoredKernel(factor)))


def _lifted(
    level: ReducedHullProblem, beta: FloatArray, finer: ReducedHullProblem, places: IntArray
) -> FloatArray:
    """A start on more examples: ``places`` are those of the smaller problem among them."""
    support = beta.nonzero()[0]
    if support.size == 0:
        return finer.start()
    gradient = np.zeros(finer.n)
    finer.columns.add_product(places[support], beta[support], gradient)
    K = finer.K
    if K is None:
        growth = float(finer.caps.sum() / level.caps.sum())
        most = min(float(finer.caps[part].sum()) for part in finer.classes)
        K = min(0.5 * growth * float(np.abs(beta).sum()), most)
    return finer.vertex(gradient, K)
