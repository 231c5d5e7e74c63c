"""Multi-label sets and snakes from end to end, with scores.

scene and yeast without edges, with a tree, with all edges (exact by enumeration); snakes on grids
whose edges know their direction, by linear relaxation, with cached passes since decoding is slow.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.core import Benchmark, Dataset, Measures, Row, Settings, Solver
from benchmarks.structured import Point, Problem, judge, multilabel, snakes, train
from cornerstep.structured import GraphModel


def _is_graph(problem: Problem) -> bool:
    return isinstance(problem.model, GraphModel)


def _judge(problem: Problem, point: Point) -> Measures:
    clf = point.clf
    found = judge(problem, point)
    answers = clf.predict(problem.X_test)
    exact = [np.array_equal(a, y) for a, y in zip(answers, problem.Y_test, strict=True)]
    found["all right"] = float(np.mean(exact))
    for how, count in clf.model_.inference_.items():
        found[how] = float(count)
    return found


def _notes(rows: list[Row]) -> list[str]:
    hows = ("independent", "tree", "min-cut", "enumeration", "lp", "lp, fractional")
    lines = ["", "how examples were decoded (training, certificates and judging together):"]
    for row in rows:
        used = [f"{how} {row.measures[how]:,.0f}" for how in hows if how in row.measures]
        lines.append(f"  {row.dataset}: {', '.join(used)}")
    return lines


def _restricted(solver: Solver, graph: bool) -> Solver:
    return Solver(solver.name, solver.prepare, lambda problem: _is_graph(problem) == graph)


def build(settings: Settings) -> Benchmark:
    """Each run may take ``settings.limit`` seconds (60 if not given)."""
    limit = settings.limit or 60.0
    tags = train("bcfw", "bcfw", tol=0.01, max_iter=10**4, time_limit=limit)
    grids = train(
        "bcfw, 10 cached passes", "bcfw", tol=0.01, max_iter=10**4, time_limit=limit,
        cache_passes=10, check_every=50,
    )  # fmt: skip
    return Benchmark(
        name="structured_sets",
        title="multi-label sets and snakes, lambda = 1/n, to a gap of 0.01",
        datasets=(
            *(
                Dataset(f"{name}, edges={edges}", partial(multilabel, name, edges))
                for name in ("scene", "yeast")
                for edges in (None, "tree", "full")
            ),
            Dataset("snakes", snakes),
        ),
        solvers=(_restricted(tags, False), _restricted(grids, True)),
        judge=_judge,
        baseline="bcfw",
        repeat=1,
        shown=("oracle_calls", "objective", "gap", "train error", "test error", "all right"),
        notes=_notes,
        slow=True,
        real_data=True,
        compact=True,
    )
