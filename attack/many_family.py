"""``minimize_many``: least squares with one matrix over one domain, targets of any size.

Judged as the answers of ``minimize`` are, one by one, and against ``minimize`` of the same problem.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from attack.draws import chance, one_of, scale
from attack.exact import real
from attack.judge import Judge
from attack.minimize_family import Problem, bounded, check
from attack.region import Region
from attack.regions import region
from cornerstep import minimize
from cornerstep.objectives import LeastSquares
from cornerstep.optimiser import minimize_many


class _Answer(NamedTuple):
    """One of many, as ``minimize`` would answer."""

    x: Any
    value: float
    gap: float
    lower_bound: float
    status: Any
    n_iter: int = 0


def _problem(A: Any, b: Any, where: Region) -> Problem:
    A, b = real(A), real(b)
    return Problem(
        partial(LeastSquares), lambda x: ((A @ x - b) ** 2).sum() / 2, lambda x: A.T @ (A @ x - b),
        where,
    )  # fmt: skip


def attack(rng: Any, judge: Judge) -> None:
    """Some targets at once, and one of them alone."""
    where = judge.call(region, rng, int(rng.integers(1, 7)), scale(rng))
    rows, s = int(rng.integers(1, where.n + 4)), scale(rng)
    with np.errstate(all="ignore"):
        A = rng.standard_normal((rows, where.n)) * s
        if chance(rng, 0.2):
            A = A * 10.0 ** rng.integers(-5, 6, where.n)
        targets = rng.standard_normal((int(rng.integers(0, 6)), rows)) * s
        targets = targets * (where.size if chance(rng, 0.8) else 1.0)
        if chance(rng, 0.3):
            targets = targets * 10.0 ** rng.integers(-9, 10, (len(targets), 1))
    given = one_of(rng, A, A, sp.csr_array(A))
    how: dict[str, Any] = {"tol": 0.0, "rtol": float(10.0 ** -rng.uniform(1, 15))}
    how["time_limit"] = float(one_of(rng, 0.0, 0.02, 0.3, 0.3, 0.3))  # there is no max_iter
    judge.says(where.domain, A.shape, len(targets), how)
    objective = judge.call(LeastSquares, given, np.zeros(rows))
    jobs = int(one_of(rng, 1, 1, 2))
    many = judge.call(minimize_many, objective, where.domain, targets, n_jobs=jobs, **how)
    alone = int(rng.integers(len(targets))) if len(targets) else -1
    for i, b in enumerate(targets):
        problem = _problem(A, b, where)
        found = _Answer(
            many.x[i], float(many.value[i]), float(many.gap[i]), float(many.lower_bound[i]),
            many.status[i],
        )  # fmt: skip
        if np.isinf([found.value, found.gap]).all():  # beyond float64: nothing is claimed
            judge.that(found.lower_bound == -np.inf, "no bound where nothing is claimed")
            continue
        check(problem, found, judge, {**how, "max_iter": 0})
        if i == alone:
            other = judge.call(minimize, objective.with_target(b), where.domain, max_iter=100)
            bounded(problem, [found, other], judge)
