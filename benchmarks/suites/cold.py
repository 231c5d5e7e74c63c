"""How long a first fit takes where nothing is compiled yet: a fresh interpreter, an empty cache.

Processor seconds of the fit alone, imports left out.  A second fit in the same process is beside
it: the difference is the compiler's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Run, Solver

_FIRST, _SECOND = "first fit", "second fit"

_FITS = {
    "MulticlassSVC": "model, y = cornerstep.MulticlassSVC(random_state=0), three",
    "ReducedHullSVC": "model, y = cornerstep.ReducedHullSVC(), three > 0",
    "SoftMarginBoosting": "model, y = cornerstep.SoftMarginBoostingClassifier(), three > 0",
    "StructuredSVC, chains": (
        "model = cornerstep.StructuredSVC(cornerstep.structured.ChainModel(), random_state=0)\n"
        "X, y = [X[k : k + 5] for k in range(60)], [three[k : k + 5] for k in range(60)]"
    ),
}

_CODE = """
import time
import numpy as np
import sklearn.svm, sklearn.tree
import cornerstep, cornerstep.structured

X, three = np.random.default_rng(0).standard_normal((300, 8)), np.arange(300) % 3
X[:, 0] += three
{fit}
for _ in range(2):
    start = time.process_time()
    model.fit(X, y)
    print(time.process_time() - start)
print(model.gap_)
"""


def _solver(name: str) -> Solver:
    def prepare(code: str) -> Run:
        def run(record: Recorder | None) -> Answer:
            with tempfile.TemporaryDirectory() as folder:
                printed = subprocess.run(
                    [sys.executable, "-c", code], capture_output=True, text=True, check=True,
                    env={**os.environ, "NUMBA_CACHE_DIR": folder},
                ).stdout  # fmt: skip
            first, second, gap = map(float, printed.split())
            return Answer(gap, seconds=first if name == _FIRST else second)

        return run

    return Solver(name, prepare)


def _judge(code: str, gap: float) -> Measures:
    return {"gap": gap}


BENCHMARK = Benchmark(
    name="cold",
    title="processor seconds of a first fit with an empty compile cache",
    datasets=tuple(Dataset(name, partial(_CODE.format, fit=fit)) for name, fit in _FITS.items()),
    solvers=(_solver(_FIRST), _solver(_SECOND)),
    judge=_judge,
    baseline=_SECOND,
    repeat=3,
    compact=True,
)
