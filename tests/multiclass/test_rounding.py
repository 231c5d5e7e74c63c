"""Certificates of multi-class models against exact arithmetic, at scales where float64 ends."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, Status, certify
from cornerstep.losses import TopK, Usunier
from support.multiclass_problems import LINEAR_SOLVERS
from support.own_losses import Wrapped


def exact(values):
    """Numbers as fractions, in an array of objects."""
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(np.asarray(values))


def primal(model, X, y, weights, loss):
    """``1/2 |W|² + sum_i s_i Phi`` of what the model gives out."""
    W, b = exact(model.coef_), exact(model.intercept_)
    if model.classes_.size == 2:
        W, b = np.vstack([-W, W]) / 2, np.concatenate([-b, b]) / 2
    scores = exact(X) @ W.T + b
    own = np.arange(y.size), np.searchsorted(model.classes_, y)
    z = scores - scores[own][:, None] + 1
    z[own] = 0
    z = -np.sort(-z, axis=1)
    k = 1 if loss == "max-hinge" else model.k
    z = z[:, :k] if loss == "top-k" else np.maximum(z[:, :k], 0)
    losses = np.maximum(z.sum(axis=1), 0) / k
    square = (W**2).sum() + (b**2).sum() / Fraction(float(model.intercept_scaling)) ** 2
    return square / 2 + (exact(model.C * weights) * losses).sum()


def dual(model, X, y):
    """``sum_i A_iy - 1/2 |X'A|²``, and 0 if that is less."""
    A = exact(model.dual_coef_.toarray())
    columns = exact(X)
    if model.fit_intercept:
        constant = np.full((len(X), 1), Fraction(float(model.intercept_scaling)), dtype=object)
        columns = np.hstack([columns, constant])
    own = A[np.arange(y.size), np.searchsorted(model.classes_, y)].sum()
    return max(own - ((columns.T @ A) ** 2).sum() / 2, Fraction(0))


def holds(model, X, y, weights, loss="max-hinge"):
    value = primal(model, X, y, weights, loss)
    assert value <= Fraction(model.objective_)
    assert Fraction(model.objective_) - value <= Fraction(model.gap_)
    if model.dual_coef_ is not None:
        assert Fraction(model.bound_) <= dual(model, X, y)
    solved = model.gap_ <= model.tol * model.objective_ * (1 + 1e-12)
    assert solved or model.status_ is not Status.SOLVED


@pytest.mark.parametrize(
    "seed", [*range(16), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(16, 40))]
)
def test_certificates_are_true_whatever_the_scales(seed):
    rng = np.random.default_rng(seed)
    n, d, m = int(rng.integers(3, 12)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-8, 8, d)
    X = X + 10.0 ** rng.uniform(-3, 8) if rng.random() < 0.3 else X
    X = X.astype(np.float32) if rng.random() < 0.3 else X
    y = np.arange(n) % m
    weights = 10.0 ** rng.uniform(-6, 6, n) if rng.random() < 0.4 else np.ones(n)
    loss = str(rng.choice(["max-hinge", "top-k", "usunier"]))
    model = MulticlassSVC(
        loss, k=int(rng.integers(1, m)), C=10.0 ** rng.uniform(-8, 14), smoothing=0,
        tol=float(rng.choice([0.0, 1e-12, 1e-6, 1e-3])), random_state=0,
        solver=str(rng.choice(LINEAR_SOLVERS)), max_iter=int(rng.choice([2, 30, 200])),
        fit_intercept=bool(rng.random() < 0.6), intercept_scaling=float(rng.choice([1.0, 0.1])),
    )  # fmt: skip
    data = sp.csr_array(X) if rng.random() < 0.3 else X
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data, y, weights)
        check = certify(model, data, y, weights)
    assert check.holds, check.problems
    holds(model, X, y, weights, loss)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("C", [1e6, 1e12, 1e15])
def test_hard_margins_are_certified(C, scale):
    """Margins are computed with twice the digits where their rounding times C would be the gap."""
    X, y = load_iris(return_X_y=True)
    X, y = scale * X[:100], y[:100]
    model = MulticlassSVC(C=C, tol=1e-6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.relative_gap_ <= 2e-5
    holds(model, X, y, np.ones(100))
    assert certify(model, X, y).holds


@pytest.mark.parametrize(
    ("factor", "C", "message"),
    [
        (1e200, 1.0, "X times C and the weights must stay below"),
        (1.0, 1e300, "X times C and the weights must stay below"),
        (1.0, 5e-324, "C times sample_weight must be 0 or at least"),
    ],
)
@pytest.mark.parametrize("solver", LINEAR_SOLVERS)
def test_numbers_beyond_float64_are_one_clear_error(solver, factor, C, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(C=C, solver=solver).fit(factor * X, y)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_whose_squares_overflow_are_one_clear_error(sparse):
    X, y = load_iris(return_X_y=True)
    X = 1e155 * X
    with pytest.raises(ValueError, match="X must have rows whose squares sum to less than"):
        MulticlassSVC(C=1e-100).fit(sp.csr_array(X) if sparse else X, y)


def test_a_value_of_zero_has_no_gap():
    X, y = load_iris(return_X_y=True)
    costs = np.zeros((3, 3))
    model = MulticlassSVC(loss="cost-sensitive", costs=costs).fit(X, y)
    assert (model.objective_, model.gap_) == (0.0, 0.0)


def test_twice_the_digits_are_taken_only_where_they_help():
    """A large smoothing: envelopes are differences of numbers that are large beside them."""
    X, y = load_iris(return_X_y=True)
    model = MulticlassSVC(C=1e9, smoothing=98.0, tol=1e-9, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[::10], y[::10])
    assert certify(model, X[::10], y[::10]).holds


@pytest.mark.parametrize("solver", ["auto", "fw-corrective"])
@pytest.mark.parametrize("gamma", [1.0, 75.0])
def test_rounding_of_kernel_entries_belongs_to_the_certificate(solver, gamma):
    """The same row with two labels: no machine has a loss below 2 there, whatever K's rounding."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(11, -1.18), rng.integers(-3, 3, (11, 2))])
    X[10] = X[6]
    y = np.array([1, 0, 3, 2, 2, 1, 2, 3, 2, 1, 0])
    C = 1.5e9
    options = {"kernel": "rbf", "gamma": gamma, "fit_intercept": False, "max_iter": 30}
    model = MulticlassSVC(C=C, smoothing=0, solver=solver, tol=1e-9, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.objective_ >= 2 * C
    assert certify(model, X, y).holds


@pytest.mark.parametrize(
    "seed", [*range(7), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(7, 40))]
)
def test_certificates_of_joint_features_and_own_losses_are_true_whatever_the_scales(seed):
    rng = np.random.default_rng(1000 + seed)
    n, d, m = int(rng.integers(3, 10)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
    X, y = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-6, 6, d), np.arange(n) % m
    mixing = rng.standard_normal((m, 2)) * 10.0 ** rng.uniform(-3, 3, 2)
    joint, sparse, own = rng.random(3) < [0.7, 0.4, 0.6]

    def features(rows):
        psi = np.einsum("ik,jl->ijkl", rows, mixing).reshape(len(rows), m, -1)
        return sp.csr_array(psi.reshape(len(rows) * m, -1)) if sparse else psi

    k = int(rng.integers(1, m))
    inner = TopK(k) if rng.random() < 0.5 else Usunier(k)
    model = MulticlassSVC(
        Wrapped(inner) if own else inner, C=10.0 ** rng.uniform(-6, 10), fit_intercept=False,
        tol=float(rng.choice([0.0, 1e-12, 1e-6, 1e-3])), feature_map=features if joint else None,
        solver=str(rng.choice(LINEAR_SOLVERS[1:])), max_iter=int(rng.choice([2, 30, 200])),
    )  # fmt: skip
    weights = 10.0 ** rng.uniform(-6, 6, n) if rng.random() < 0.4 else np.ones(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, weights)
        assert certify(model, X, y, weights).holds
    psi = np.kron(X[:, None], np.eye(m)[:, :, None]).reshape(n, m, -1)  # e_j (x) x
    if joint:
        psi = np.asarray(features(X).todense() if sparse else features(X)).reshape(n, m, -1)
    w = model.coef_.ravel()
    if m == 2 and not joint:
        w = np.concatenate([-w, w]) / 2
    w, psi, at = exact(w), exact(psi), np.arange(n)
    scores = psi @ w
    z = scores - scores[at, y][:, None] + 1
    z[at, y] = 0
    z = -np.sort(-z, axis=1)[:, :k]
    z = z if isinstance(inner, TopK) else np.maximum(z, 0)
    losses = np.maximum(z.sum(axis=1), 0) * Fraction(float(inner.rho[0]))
    value = (w @ w) / 2 + (exact(model.C * weights) * losses).sum()
    assert value <= Fraction(model.objective_)
    if model.dual_coef_ is not None:
        A = exact(model.dual_coef_.toarray())
        image = (A[:, :, None] * psi).sum(axis=(0, 1))
        assert Fraction(model.bound_) <= max(A[at, y].sum() - (image @ image) / 2, Fraction(0))


@pytest.mark.parametrize("seed", range(6))
def test_multiples_of_weights_that_are_rounding_are_not_taken(seed):
    """A singular kernel matrix and tiny C: ``|W|²`` is what rounding leaves, of either sign."""
    rng = np.random.default_rng(seed)
    n, C = 60, 10.0 ** rng.uniform(-6, 1)
    column = rng.standard_normal((n, 1)) + np.arange(n)[:, None] % 2
    X, y, weights = column @ column.T, np.arange(n) % 4, rng.integers(1, 4, n).astype(float)
    model = MulticlassSVC(
        C=C, smoothing=0, kernel="precomputed", fit_intercept=False, tol=0, max_iter=30
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, weights)
    at_zero = C * weights.sum()
    assert 0.0 <= model.bound_ <= model.objective_ <= at_zero * (1 + 1e-12)
    assert model.relative_gap_ < 1e-6
    assert certify(model, X, y, weights).holds
