"""The default multi-class SVM against LIBLINEAR's Crammer-Singer solver, on real data.

The same problem, max hinge without an intercept.  Ours runs to a *proven* relative gap of 1e-3.
LIBLINEAR has no gap, so it gets the loosest stopping tolerance of a grid at which the primal value
of its W is within 1e-3 of the optimum, found beforehand; its time is that of this one run, and its
data are converted outside the clock.  The optimum is bounded from below once per problem by a run
of ours to 1e-5, whose dual coefficients the judge evaluates.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from benchmarks import data
from benchmarks.core import Benchmark, Dataset, Row, Settings
from benchmarks.multiclass import Problem, cornerstep, judge, liblinear, reference

GAP = 1e-3
GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
_QUICK_LIMIT, _FULL_LIMIT = 20.0, 120.0  # seconds
QUICK = ("usps", "isolet", "pendigits", "flowers102")
_PEER = "LIBLINEAR -s 4"


def _problem(name: str, scaling: str, C: float, limit: float) -> Problem:
    X, y = data.load(name, scaling)
    return reference(Problem(X, y, C), time_limit=2 * limit)


def _limit(settings: Settings) -> float:
    """Seconds for a run of LIBLINEAR."""
    return settings.limit or (_FULL_LIMIT if settings.full else _QUICK_LIMIT)


def datasets(settings: Settings, quick: tuple[str, ...] = QUICK) -> tuple[Dataset, ...]:
    """Sets, scalings and C: some, or all of them if they are asked for."""
    limit = _limit(settings)
    names = data.NAMES if settings.full or settings.only else quick
    return tuple(
        Dataset(f"{name} {scaling}, C = {C:g}", partial(_problem, name, scaling, C, limit))
        for name in names
        for scaling in (("tf-idf",) if name in data.SPARSE else ("unit", "std"))
        for C in ((0.1, 1.0, 10.0) if settings.full else (1.0,))
    )


def _notes(rows: list[Row]) -> list[str]:
    """Geometric means of LIBLINEAR's time over ours; a run that was ended counts as its limit."""
    lines = [""]
    times = {(row.threads, row.dataset, row.solver): row for row in rows}
    for threads in dict.fromkeys(row.threads for row in rows):
        for ours in dict.fromkeys(row.solver for row in rows if row.solver != _PEER):
            pairs = [
                (times[threads, row.dataset, ours], row) for row in rows
                if row.threads == threads and row.solver == _PEER and row.seconds
                and (threads, row.dataset, ours) in times
            ]  # fmt: skip
            ratios = [peer.median / own.median for own, peer in pairs if own.solved]
            if not ratios:
                continue
            bounds = sum(not peer.solved for own, peer in pairs if own.solved)
            mean = math.exp(float(np.mean(np.log(ratios))))
            line = f"{threads} thread(s), {_PEER} / {ours}: geometric mean "
            line += f"{'at least ' if bounds else ''}{mean:.2f}x over {len(ratios)} problems"
            line += f", {bounds} of them lower bounds" if bounds else ""
            line += f"; faster on {sum(ratio > 1 for ratio in ratios)}"
            failed = len(pairs) - len(ratios)
            lines.append(line + (f"; {failed} NOT solved" if failed else ""))
    loose = [
        row.dataset for row in rows
        if row.solver != _PEER and row.measures.get("bound gap", 0.0) > 1e-4
    ]  # fmt: skip
    if loose:
        lines.append(f"the bound of the optimum is loose for: {', '.join(dict.fromkeys(loose))}")
    return lines


def _judge(problem: Problem, point: object) -> dict[str, float]:
    return judge(problem, point) | {"bound gap": problem.bound_gap}  # type: ignore[arg-type]


def build(settings: Settings) -> Benchmark:
    """The quick part, or all of it."""
    return Benchmark(
        name="multiclass",
        title="max hinge to a relative 1e-3, ours proven, LIBLINEAR's judged (iterations: rounds)",
        datasets=datasets(settings),
        solvers=(
            cornerstep(tol=GAP),
            cornerstep("cornerstep float32", tol=GAP, dtype=np.float32),
            liblinear(_limit(settings), GRID, GAP),
        ),
        judge=_judge,
        baseline="cornerstep",
        target=("shortfall", GAP),
        repeat=3,
        patience=2.0,
        shown=("sweeps", "gap", "error", "eps"),
        notes=_notes,
        slow=settings.full,
        real_data=True,
        compact=True,
    )
