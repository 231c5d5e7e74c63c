"""The vector instructions do what their plain reference does, and boosting runs without them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from cornerstep import SoftMarginBoostingClassifier
from cornerstep.boosting.compiled.lanes import LANES, largest_sums, plain_largest_sums


@numba.njit
def instructions(table, others, n_rows, start, out):
    for block in range(table.shape[0]):
        largest_sums(table, others, block, n_rows, start, out)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [0, 1, 7, 200])
def test_the_instructions_are_the_plain_sums(kind, n_rows):
    rng = np.random.default_rng(n_rows)
    table, others = rng.normal(size=(2, 3, 200, LANES)).astype(kind)
    start = kind(-0.3)
    out, plain = np.empty((2, 2, 3, LANES), dtype=kind)
    instructions(table, others, n_rows, start, out)
    for block in range(3):
        plain_largest_sums(table, others, block, n_rows, start, plain)
    np.testing.assert_array_equal(out, plain)
    sums = np.cumsum(table[:, :n_rows], axis=1, dtype=np.float64) - 0.3
    both = abs(sums), abs(sums + others[:, :n_rows])
    expected = [part.max(axis=1, initial=0.0) for part in both]
    np.testing.assert_allclose(out, expected, rtol=1e-4 if kind is np.float32 else 1e-12)


def fits():
    """Tiny problems: stumps, trees of depth 2 and 3, more than two classes."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (20, 3)).astype(float)
    y = rng.integers(0, 2, 20)
    for depth in (1, 2, 3):
        for labels in (y, X[:, 0] > rng.normal(size=20), X[:, 1] // 2 + y):
            clf = SoftMarginBoostingClassifier(nu=0.3, atol=0.05, max_depth=depth, max_iter=4)
            clf.fit(X, labels)
            parts = (clf.objective_, clf.bound_, clf.decision_function(X))
            yield [np.ravel(part).tolist() for part in parts]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_boosting_does_the_same_without_the_jit():
    script = "import json, test_lanes as t; print(json.dumps(list(t.fits())))"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={
            **os.environ,
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    for plain, compiled in zip(json.loads(run.stdout), fits(), strict=True):
        for one, other in zip(plain, compiled, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
