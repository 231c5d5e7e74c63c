"""CoNLL-2000 chunking with millions of sparse weights: memory, chunk F1, seconds a non-zero.

The same passes on an eighth, a quarter, half and all of the sentences: a pass costs time in
proportion to the non-zeros of the features.  Memory is the peak of the whole process, with data.
"""

from __future__ import annotations

import resource
import sys
from functools import partial

import numpy as np

from benchmarks.core import Benchmark, Dataset, Measures, Row
from benchmarks.structured import Point, Problem, chunk_f1, conll, train

PASSES = 12
SHARES = (0.125, 0.25, 0.5, 1.0)


def _judge(problem: Problem, point: Point) -> Measures:
    clf = point.clf
    nonzeros = sum(x.nnz for x in problem.X)
    # twelve passes, with one full look at the start, one at the end
    seconds = float(np.median(np.diff(clf.trace_["seconds"])[:-1]))
    unit = 1024**3 if sys.platform == "darwin" else 1024**2
    answers = clf.predict(problem.X_test)
    return {
        "weights": float(clf.coef_.size),
        "nonzeros": float(nonzeros),
        "gap": clf.gap_,
        "s/pass": seconds,
        "ns/nonzero": 1e9 * seconds / nonzeros,
        "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit,
        "chunk F1": chunk_f1(problem.extra["tags"], problem.Y_test, answers),
        "token error": 1 - clf.score(problem.X_test, problem.Y_test),
    }


def _notes(rows: list[Row]) -> list[str]:
    cells = [row for row in rows if row.measures]
    spread = [row.measures["ns/nonzero"] for row in cells]
    peak = max((row.measures["GiB"] for row in cells), default=0.0)
    return [
        "",
        f"nanoseconds a non-zero and pass: {min(spread):.1f} to {max(spread):.1f}",
        f"peak memory of the process: {peak:.2f} GiB (at most 2)",
    ] + [f"chunk F1 on {row.dataset}: {100 * row.measures['chunk F1']:.2f}" for row in cells]


BENCHMARK = Benchmark(
    name="structured_passes",
    title=f"CoNLL-2000 chunking, {PASSES} passes of bcfw",
    datasets=tuple(
        Dataset(f"{share:.1%} of the sentences", partial(conll, share)) for share in SHARES
    ),
    solvers=(train("bcfw", "bcfw", tol=0.0, max_iter=PASSES, check_every=PASSES, cache_passes=0),),
    judge=_judge,
    baseline="bcfw",
    repeat=1,
    shown=(
        "weights", "nonzeros", "gap", "s/pass", "ns/nonzero", "GiB", "chunk F1", "token error",
    ),
    notes=_notes,
    slow=True,
    real_data=True,
    compact=True,
)  # fmt: skip
