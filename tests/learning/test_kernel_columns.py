"""Kernel columns: right entries, true counts, the byte limit."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

from cornerstep.kernel_svm.tube import PairedColumns
from cornerstep.learning.kernel_blocks import (
    CallableKernel,
    InnerProductKernel,
    PrecomputedKernel,
    product_errors,
)
from cornerstep.learning.kernel_columns import FactoredColumns, KernelColumns
from cornerstep.learning.kernel_low_rank import FactoredKernel

N = 40
KERNELS = ("linear", "poly", "rbf", "sigmoid")
PARAMETERS = {"gamma": 0.3, "degree": 3, "coef0": 0.7}


def examples(n=N, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) + 2.0


def exact(X, name="rbf"):
    return pairwise_kernels(X, metric=name, filter_params=True, **PARAMETERS)


class Counting:
    """A callable kernel that counts the entries it is asked for."""

    def __init__(self):
        self.entries = 0

    def __call__(self, X, Z):
        self.entries += X.shape[0] * Z.shape[0]
        return exact_between(X, Z)


def exact_between(X, Z):
    return pairwise_kernels(X, Z, metric="rbf", gamma=PARAMETERS["gamma"])


FORMS = {
    "dense": lambda X: X,
    "single": lambda X: X.astype(np.float32).astype(np.float64),
    "csr": sp.csr_array,
    "wide csr": lambda X: sp.hstack([sp.csr_array(X), sp.csr_array((len(X), 1000))], "csr"),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("form", FORMS)
def test_blocks_are_those_of_scikit_learn(name, form):
    X = examples(300)
    kernel = InnerProductKernel(FORMS[form](X), name, **PARAMETERS)
    rows, columns = np.array([3, 290, 17]), np.array([5, 3, 299, 0])
    expected = exact(FORMS["single"](X) if form == "single" else X, name)
    scale = np.abs(expected).max()
    whole = kernel.block(rows, None)
    assert whole.dtype == np.float64
    assert np.abs(whole - expected[rows]).max() <= 1e-12 * scale
    part = kernel.block(rows, columns)
    assert np.abs(part - expected[np.ix_(rows, columns)]).max() <= 1e-12 * scale
    some = kernel.take(columns).block(np.array([1]), None)
    assert np.abs(some - expected[3, columns]).max() <= 1e-12 * scale


def test_wide_blocks_are_put_together_from_tiles():
    X = examples(5000, 3)
    block = InnerProductKernel(X, "rbf", 0.1).block(np.arange(300), None)
    expected = pairwise_kernels(X[:300], X, metric="rbf", gamma=0.1)
    assert np.abs(block - expected).max() <= 1e-12


@pytest.mark.parametrize("form", ["dense", "wide csr"])
def test_threads_share_large_blocks_and_change_nothing(form):
    X = FORMS[form](examples(6000, 3))
    rows, kernel = np.arange(100), InnerProductKernel(X, "rbf", 0.1)
    alone, shared = copy(kernel), copy(kernel)
    alone.threads, shared.threads = 1, 3
    once = alone.block(rows, None)
    for columns in (None, np.arange(6000)):
        assert np.abs(shared.block(rows, columns) - once).max() <= 1e-12


def test_given_matrices_and_functions():
    X, rows, columns = examples(), np.array([3, 0]), np.array([7, 1, 2])
    matrix = exact(X)
    for kernel in (PrecomputedKernel(matrix), CallableKernel(X, exact_between)):
        assert kernel.block(rows, None) == pytest.approx(matrix[rows])
        assert kernel.block(rows, columns) == pytest.approx(matrix[rows][:, columns])
        assert kernel.take(columns).n == 3
        taken = kernel.take(columns).block(np.array([0]), None)
        assert taken == pytest.approx(matrix[[7]][:, columns])


def test_a_function_of_the_wrong_shape_is_refused():
    kernel = CallableKernel(examples(), lambda X, Z: np.ones(X.shape[0]))
    with pytest.raises(ValueError, match=r"^kernel must return an array of shape .*\(2, 40\), got"):
        kernel.block(np.array([0, 1]), None)
    kernel = CallableKernel(examples(), lambda X, Z: np.full((X.shape[0], Z.shape[0]), np.nan))
    with pytest.raises(ValueError, match=r"^kernel must return finite numbers"):
        kernel.block(np.array([0]), None)


@pytest.mark.parametrize("room", [0, 1, 2, 7, N, 10 * N])
def test_products_are_right_whatever_fits(room):
    X, counting = examples(), Counting()
    matrix = exact(X)
    columns = KernelColumns(CallableKernel(X, counting), room * N * 8)
    assert columns.room == min(room, N)
    rng = np.random.default_rng(room)
    out, expected = np.zeros(N), np.zeros(N)
    for _ in range(30):
        chosen = rng.choice(N, rng.integers(1, 12), replace=False)
        values = rng.standard_normal(chosen.size)
        columns.add_product(chosen, values, out)
        expected += matrix[:, chosen] @ values
        some = rng.choice(N, 9, replace=False)
        assert columns.submatrix(some) == pytest.approx(matrix[np.ix_(some, some)], abs=1e-6)
        assert columns.kept <= columns.room
        assert columns.evaluations == counting.entries
    assert np.abs(out - expected).max() <= 1e-11


def test_kept_columns_are_not_computed_again():
    counting = Counting()
    columns = KernelColumns(CallableKernel(examples(), counting), 10**6)
    chosen, out = np.array([4, 9, 30]), np.zeros(N)
    columns.add_product(chosen, np.ones(3), out)
    assert columns.evaluations == counting.entries == 3 * N
    columns.add_product(chosen[::-1], np.ones(3), out)
    columns.submatrix(chosen)
    columns.exact_product(chosen, np.ones(3))
    assert counting.entries == 3 * N
    columns.submatrix(np.array([4, 5, 9, 6]))  # only between the two newcomers
    assert columns.evaluations == counting.entries == 3 * N + 4


def test_what_symmetry_tells_is_not_computed_again():
    X, counting = examples(), Counting()
    matrix, out = exact(X), np.zeros(N)
    columns = KernelColumns(CallableKernel(X, counting), 10**6)
    first, second = np.arange(10), np.arange(20, 28)
    columns.add_product(first, np.ones(10), out)
    assert counting.entries == 10 * N
    columns.add_product(second, np.ones(8), out)
    assert columns.evaluations == counting.entries == 10 * N + 8 * (N - 10)
    expected = matrix[:, first].sum(axis=1) + matrix[:, second].sum(axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    cheap = KernelColumns(PrecomputedKernel(matrix), 10**6)  # nothing to save: all is read
    for chosen in (first, second):
        cheap.add_product(chosen, np.ones(chosen.size), out)
    assert cheap.evaluations == 18 * N


def test_columns_are_fetched_if_there_is_room():
    counting, out = Counting(), np.zeros(N)
    columns = KernelColumns(CallableKernel(examples(), counting), 3 * N * 8)
    columns.fetch(np.array([5, 6]))
    assert counting.entries == 2 * N
    columns.fetch(np.array([6, 7, 8]))  # no room for both
    assert counting.entries == 2 * N
    assert np.flatnonzero(columns.slots >= 0).tolist() == [5, 6]
    columns.add_product(np.array([5, 6]), np.ones(2), out)
    assert counting.entries == 2 * N


def test_the_column_unused_the_longest_goes_first():
    counting, out = Counting(), np.zeros(N)
    columns = KernelColumns(CallableKernel(examples(), counting), 3 * N * 8)
    for chosen in ([0], [1], [2], [0], [3]):  # 1 is the oldest when 3 comes
        columns.add_product(np.array(chosen), np.ones(1), out)
    before = counting.entries
    columns.add_product(np.array([0, 2, 3]), np.ones(3), out)
    assert counting.entries == before
    columns.add_product(np.array([1]), np.ones(1), out)
    assert counting.entries == before + N


def test_exact_products_lose_nothing_but_the_rounding_of_products():
    matrix = np.ones((3, 3))
    columns = KernelColumns(PrecomputedKernel(matrix), 10**6)
    out, values = np.zeros(3), np.array([1e16, 1.0, -1e16])
    columns.add_product(np.arange(3), values, out)
    assert (out == 0.0).all()
    assert (columns.exact_product(np.arange(3), values) == 1.0).all()


def test_far_rows_leave_the_others_to_products(monkeypatch):
    """What is far from the rest is computed from differences, and the rest is not."""
    from cornerstep.learning.compiled import distances

    X = examples(200, 5)
    X[[7, 90]] *= 100.0
    X[91] = X[90] + 1e-3
    kernel = InnerProductKernel(X, "rbf", **PARAMETERS)
    refined, refine = [], distances.refine_dense

    def counted(part, *given):
        refined.append(part.size)
        refine(part, *given)

    monkeypatch.setattr(distances, "refine_dense", counted)
    computed = kernel.block(np.arange(200), None)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    error = np.abs(computed - np.exp(-PARAMETERS["gamma"] * squares))
    assert (error.sum(axis=1) <= product_errors(kernel, np.ones(200)) + 1e-15).all()
    assert error.max() < 1e-11
    assert sum(refined) < 200 * 200 / 20


def test_columns_that_have_no_room_drive_none_out():
    counting = Counting()
    columns = KernelColumns(CallableKernel(examples(), counting), 8 * N * 10)
    few = np.arange(5)
    columns.fetch(few)
    columns.exact_product(np.arange(N), np.ones(N))
    columns.add_product(np.arange(N), np.ones(N), np.zeros(N))
    before = counting.entries
    columns.add_product(few, np.ones(5), np.zeros(N))
    assert counting.entries == before


@pytest.mark.parametrize("room", [0, 3, 60])
def test_matrices_of_some_coordinates_of_paired_columns(room):
    X = examples(30)
    columns = PairedColumns(KernelColumns(InnerProductKernel(X, "rbf", 0.3), 8 * 30 * room))
    columns.fetch(np.array([4, 9, 39]))
    some = np.array([9, 4, 34, 12, 55, 39])
    wanted = exact(X)[np.ix_(some % 30, some % 30)]
    np.testing.assert_allclose(columns.submatrix(some), wanted, rtol=1e-13, atol=1e-15)


def test_factored_columns_are_products_of_factors():
    factor = np.random.default_rng(3).standard_normal((N, 3))
    columns, some = FactoredColumns(FactoredKernel(factor)), np.array([2, 5, 11])
    matrix, out = factor @ factor.T, np.ones(N)
    columns.add_product(some, np.array([1.0, -2.0, 0.5]), out)
    assert out == pytest.approx(1 + matrix[:, some] @ [1.0, -2.0, 0.5])
    assert columns.submatrix(some) == pytest.approx(matrix[np.ix_(some, some)])
