"""Matrices known by their products: dense, sparse and matrix-free agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from cornerstep.core.matrix import Matrix, as_vector
from cornerstep.core.vectors import Direction, SparseVector, concatenate, dense

FORMS = {
    "array": np.asarray,
    "fortran": np.asfortranarray,
    "list": lambda A: A.tolist(),
    "float32": lambda A: A.astype(np.float32),
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "csr_matrix": sp.csr_matrix,
    "operator": aslinearoperator,
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def sample(m, n, seed=0):
    rng = np.random.default_rng(seed)
    entries = rng.integers(-4, 5, (m, n)) / 4.0  # exact in float32
    return entries * (rng.random((m, n)) < 0.6), rng


@every_form
@pytest.mark.parametrize("shape", [(7, 20), (20, 7), (1, 5), (5, 1)])
def test_products(form, shape):
    A, rng = sample(*shape)
    matrix = Matrix(form(A), "A")
    x, r = rng.standard_normal(shape[1]), rng.standard_normal(shape[0])
    assert matrix.shape == shape
    np.testing.assert_allclose(matrix.times(x), A @ x, atol=1e-14)
    np.testing.assert_allclose(matrix.transpose_times(r), A.T @ r, atol=1e-14)
    np.testing.assert_allclose(matrix.combine(None, x), A @ x, atol=1e-14)


@every_form
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5, 6, 20], ids=lambda k: f"{k} of 20 columns")
def test_combine(form, symmetric, count):
    A, rng = sample(20, 20)
    A = A + A.T if symmetric else A
    indices, values = rng.permutation(20)[:count], rng.standard_normal(count)
    out = Matrix(form(A), "A", symmetric=symmetric).combine(indices, values)
    assert out.shape == (20,)
    np.testing.assert_allclose(out, A[:, indices] @ values, atol=1e-13)


@every_form
@pytest.mark.parametrize("symmetric", [False, True])
def test_images_and_sizes(form: Any, symmetric: bool) -> None:
    """Of few columns and of many, gathered or not."""
    full, rng = sample(40, 40 if symmetric else 30)
    full = full + full.T if symmetric else full
    matrix = Matrix(form(full), "A", symmetric=symmetric)
    n = full.shape[1]
    for count in (1, 3, n):
        places = rng.choice(n, count, replace=False)
        vectors: Any = [SparseVector(places[:k], rng.standard_normal(k), n) for k in (1, count)]
        expected: Any = [full @ vector.dense() for vector in vectors]
        np.testing.assert_allclose(matrix.images(vectors), expected, atol=1e-12)
        mixed = [vectors[0], vectors[1].dense()]
        np.testing.assert_allclose(matrix.images(mixed), expected, atol=1e-12)
        single: Any = [SparseVector([i], [1.0 + i], n) for i in places]
        images = full[:, places].T * (1.0 + places)[:, None]
        np.testing.assert_allclose(matrix.images(single), images, atol=1e-12)
        x, r = vectors[1].dense(), rng.standard_normal(40) * (rng.random(40) < count / n)
        if not isinstance(matrix.data, LinearOperator):
            np.testing.assert_allclose(matrix.sizes(x), abs(full) @ abs(x), atol=1e-12)
            np.testing.assert_allclose(matrix.transpose_sizes(r), abs(full.T) @ abs(r), atol=1e-12)


def test_thin_images() -> None:
    """Images with few entries stay sparse; those with many, and of dense vectors, do not."""
    rng = np.random.default_rng(0)
    A = sp.random_array((60, 200), density=0.02, rng=rng)
    matrix, full = Matrix(A, "A"), A.toarray()
    wide = SparseVector(np.arange(150), rng.standard_normal(150), 200)
    narrow: list[Any] = [SparseVector([i, 7], [2.0, -1.0], 200) for i in (3, 199)]
    cases: Any = ((narrow, True), ([wide], False), ([*narrow, wide.dense()], False))
    for vectors, thin in cases:
        images = matrix.thin_images(vectors)
        assert sp.issparse(images) == thin
        images = images.toarray() if thin else images
        np.testing.assert_allclose(images, [full @ dense(v) for v in vectors], atol=1e-12)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array])
def test_repeated_entries_are_summed_and_the_input_kept(form):
    data, indices, indptr = (
        np.array([1.0, 2.0, 4.0]),
        np.array([0, 0, 1]),
        np.array([0, 3, 3, 3, 3]),
    )
    given = form((data, indices, indptr), shape=(4, 4))
    for columns in (np.array([0]), np.array([1]), np.arange(4)):
        out = Matrix(given, "A").combine(columns, np.ones(columns.size))
        np.testing.assert_array_equal(out, given.toarray()[:, columns].sum(axis=1))
    assert given.nnz == 3


@every_form
@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (4, 1), (2, 2)])
def test_gram_and_eigenvalues(form, shape):
    A, _ = sample(shape[0], shape[1], seed=2)
    matrix = Matrix(form(A), "A")
    eigenvalues = np.linalg.eigvalsh(A.T @ A)
    assert matrix.gram_norm() == pytest.approx(eigenvalues[-1], rel=1e-10)
    if isinstance(matrix.data, LinearOperator):
        with pytest.raises(ValueError, match="Gram matrix of a LinearOperator"):
            matrix.gram()
        return
    gram = matrix.gram()
    assert gram.eigenvalue("LA") == pytest.approx(eigenvalues[-1], rel=1e-10)
    assert gram.eigenvalue("SA") == pytest.approx(eigenvalues[0], abs=1e-9)


@every_form
def test_eigenvalues_of_a_symmetric_matrix(form):
    A, _ = sample(12, 12, seed=1)
    A = A + A.T
    matrix = Matrix(form(A), "A", symmetric=True)
    eigenvalues = np.linalg.eigvalsh(A)
    assert matrix.asymmetry() == 0
    assert matrix.eigenvalue("LA") == pytest.approx(eigenvalues[-1], rel=1e-9)
    assert matrix.eigenvalue("SA") == pytest.approx(eigenvalues[0], rel=1e-9)


def test_the_norm_of_a_sparse_matrix_of_zeros():
    zeros = Matrix(sp.csr_array((4, 5)), "A")
    assert zeros.norm() == zeros.gram_norm() == 0.0


def test_refusals():
    for bad in (np.array([[1.0, np.nan]]), sp.csr_array([[np.inf, 1.0]])):
        with pytest.raises(ValueError, match="A must be finite"):
            Matrix(bad, "A")
    with pytest.raises(ValueError, match="A must have two dimensions, got 1"):
        Matrix([1.0, 2.0], "A")
    with pytest.raises(ValueError, match=r"A must be square, got shape \(2, 3\)"):
        Matrix(np.ones((2, 3)), "A", symmetric=True)
    assert Matrix([[0.0, 1.0], [0.0, 0.0]], "A", symmetric=True).asymmetry() == 1
    assert Matrix(sp.csr_array([[0.0, 1.0], [0.0, 0.0]]), "A", symmetric=True).asymmetry() == 1
    with pytest.raises(ValueError, match=r"b must be a vector of length 3, got shape \(2,\)"):
        as_vector([1, 2], "b", 3)
    with pytest.raises(ValueError, match=r"b must be a vector, got shape \(1, 2\)"):
        as_vector([[1, 2]], "b")
    with pytest.raises(ValueError, match="b must be finite"):
        as_vector([1, np.nan], "b")


vectors = st.lists(st.sampled_from([0.0, 1.0, -2.5, 0.1]), min_size=6, max_size=6).map(np.array)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(vectors, vectors, vectors)
def test_directions_remember_their_parts(x, v, u):
    """``d = scale * x + part`` for every way to build d, whichever ends are sparse."""

    def sparse(vector):
        return SparseVector(vector.nonzero()[0], vector[vector.nonzero()], vector.size)

    built = [(Direction.inside(slice(2, 4), u[2:4], 6), np.r_[0, 0, u[2:4], 0, 0])]
    for first in (v, sparse(v)):
        assert dense(first) is v or (dense(first) == v).all()
        built.append((Direction.towards(x, first), v - x))
        built.append((Direction.away(x, first), x - v))
        built += [(Direction.between(first, second), v - u) for second in (u, sparse(u))]
    for direction, expected in built:
        part = np.zeros(6)
        part[slice(None) if direction.indices is None else direction.indices] = direction.values
        np.testing.assert_array_equal(direction.dense, expected)
        np.testing.assert_allclose(direction.scale * x + part, expected, atol=1e-15)
    assert sparse(v) @ u == pytest.approx(v @ u)
    stacked = concatenate([sparse(v), sparse(u)])
    assert isinstance(stacked, SparseVector)
    np.testing.assert_array_equal(stacked.dense(), np.r_[v, u])
    np.testing.assert_array_equal(concatenate([sparse(v), u]), np.r_[v, u])
