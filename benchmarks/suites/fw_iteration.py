"""One iteration of plain Frank-Wolfe beside the two matrix products that it contains.

n = 6,033, d = 4,096, m = 200 (the size of the published CUB200 experiment), normal data, weighted
Usunier.  An iteration is a look (the scores ``X W'``, the vertices, their image ``U'X``) and a move
(the exact step).  Memory beyond X should be a few matrices of W's size and one block of scores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core import Benchmark, Dataset, Row, Yardstick
from benchmarks.multiclass import WEIGHTED_USUNIER, Problem, judge, plain

N, D, M = 6_033, 4_096, 200
ITERATIONS = 3
_BLOCK_BYTES = 2**19 * 8  # scores that the package holds at a time


def random_problem(n: int, d: int, m: int, dtype: Any = np.float64) -> Problem:
    """Normal data of unit mean squared norm, random labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=dtype) / np.sqrt(d).astype(dtype)
    y = np.concatenate([np.arange(m), rng.integers(m, size=n - m)])
    return Problem(X, y, loss=WEIGHTED_USUNIER)


def _products(problem: Problem) -> Callable[[], Any]:
    rng = np.random.default_rng(1)
    n, d = problem.X.shape
    W = rng.standard_normal((problem.n_classes, d)).astype(problem.X.dtype)
    U = rng.standard_normal((n, problem.n_classes)).astype(problem.X.dtype)

    def operation() -> Any:
        return problem.X @ W.T, U.T @ problem.X

    return operation


def _notes(rows: list[Row]) -> list[str]:
    weights = 8 * M * D
    lines = ["", f"memory beyond X; W is {weights / 1e6:.1f} MB, all scores {8 * N * M / 1e6:.1f}:"]
    for row in rows:
        peak = row.peak_bytes or 0
        lines.append(
            f"  {row.dataset}, {row.threads} thread(s): {peak / 1e6:.1f} MB = "
            f"a block of scores ({_BLOCK_BYTES / 1e6:.1f} MB) + "
            f"{(peak - _BLOCK_BYTES) / weights:.1f} W"
        )
    return lines


BENCHMARK = Benchmark(
    name="fw_iteration",
    title=f"an iteration of fw, n = {N:,}, d = {D:,}, m = {M}, against its two matrix products",
    datasets=tuple(
        Dataset(np.dtype(dtype).name, partial(random_problem, N, D, M, dtype))
        for dtype in (np.float32, np.float64)
    ),
    solvers=(plain("fw", ITERATIONS),),
    judge=judge,
    baseline="fw",
    repeat=5,
    patience=10.0,
    memory=True,
    yardstick=Yardstick("X W', U'X", _products),
    notes=_notes,
)
