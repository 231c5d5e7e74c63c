"""The vector instructions do what their plain reference does."""

import numba
import numpy as np
import pytest

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
