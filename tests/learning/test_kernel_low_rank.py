"""Kernel matrices of low rank: what is left, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep.learning.kernel_blocks import InnerProductKernel, PrecomputedKernel
from cornerstep.learning.kernel_low_rank import FactoredKernel, low_rank_factor

KERNELS = [
    ("rbf", {"gamma": 0.3}), ("linear", {}), ("poly", {"gamma": 0.5, "degree": 3, "coef0": 1.0}),
]  # fmt: skip


def rows(n=1500, d=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X[::100] *= 8  # far from what a sample knows
    return X


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize(("name", "options"), KERNELS)
def test_what_is_left_is_positive_semidefinite_and_small(name, options, tol):
    kernel = InnerProductKernel(rows(), name, **options)
    largest = float(kernel.sizes.max()) ** 2
    factor = low_rank_factor(kernel, tol * largest, 300, np.random.default_rng(1))
    assert factor is not None
    everything = np.arange(kernel.n)
    left = kernel.block(everything, None) - factor @ factor.T
    assert np.diag(left).max() <= tol * largest
    assert np.abs(left).max() <= tol * largest
    assert np.linalg.eigvalsh(left)[0] >= -1e-12 * largest * kernel.n
    assert factor.shape[1] < 300


def test_there_is_none_where_the_rank_is_high_or_the_diagonal_unknown():
    rng = np.random.default_rng(1)
    wide = InnerProductKernel(rows(d=30), "rbf", 0.3)
    assert low_rank_factor(wide, 1e-6, 200, rng) is None
    thin = rows()
    assert low_rank_factor(InnerProductKernel(thin, "rbf", 0.3), 1e-6, 10, rng) is None
    assert low_rank_factor(InnerProductKernel(thin, "sigmoid", 0.3), 1e-6, 200, rng) is None
    assert low_rank_factor(PrecomputedKernel(thin @ thin.T), 1e-6, 200, rng) is None


def test_a_factored_kernel_is_the_product_of_its_factor():
    factor = np.random.default_rng(2).standard_normal((30, 4))
    kernel, some = FactoredKernel(factor), np.array([3, 1, 7])
    matrix = factor @ factor.T
    assert kernel.block(some, None) == pytest.approx(matrix[some])
    assert kernel.take(some).block(np.arange(3), None) == pytest.approx(matrix[np.ix_(some, some)])
    assert (np.abs(matrix) <= np.outer(kernel.sizes, kernel.sizes) * (1 + 1e-12)).all()
    assert kernel.entry_errors()[0] > 0
