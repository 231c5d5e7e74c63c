"""The solver of a structured SVM, as the parameters of the estimator say."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from cornerstep.optimiser.block import BlockSolver
from cornerstep.structured.solvers.batch import BatchSolver, SubgradientSolver
from cornerstep.structured.solvers.block import ExampleBlocks, Score
from cornerstep.structured.solvers.extragradient import ExtragradientSolver


def make_solver(clf: Any, examples: Any, state: Any = None, score: Score | None = None) -> Any:
    """A solver of the estimator's problem, for the loop.

    Parameters
    ----------
    clf : StructuredSVC
        With ``lam_``.
    examples : ModelExamples or ChainExamples
    state : optional
        The dual state of an earlier run on these examples.
    score : callable, optional
        Of w, for the trace.
    """
    seed = check_random_state(clf.random_state).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng(seed)
    if clf.solver == "fw":
        return BatchSolver(examples, clf.lam_, state)
    if clf.solver == "subgradient":
        return SubgradientSolver(
            examples, clf.lam_, averaging=clf.averaging, check_every=clf.check_every, rng=rng,
            score=score,
        )  # fmt: skip
    if clf.solver == "extragradient":
        return ExtragradientSolver(examples, clf.lam_, clf.geometry, clf.radius)
    dual = examples.blocks(clf.lam_, clf.cache_size if clf.cache_passes else 0)
    if state is not None:
        dual.restore(state)
    blocks = ExampleBlocks(dual, clf.solver, averaging=clf.averaging, score=score)
    return BlockSolver(
        blocks, clf.sampling, rng, look_every=clf.check_every,
        corrections=[blocks.correct] * clf.cache_passes,
    )  # fmt: skip
