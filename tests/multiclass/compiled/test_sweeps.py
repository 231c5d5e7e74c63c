"""Parts of the block solver on their own: longer weights, faces and their Hessian, CSR columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from cornerstep import MulticlassSVC
from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.examples import Examples, KernelExamples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.block import BlockAscent
from cornerstep.multiclass.solvers.block_settings import BlockSettings
from cornerstep.multiclass.solvers.pace import SECOND_ORDER
from cornerstep.multiclass.solvers.pool import active_examples
from cornerstep.multiclass.solvers.rescaling import best_scale
from cornerstep.multiclass.solvers.second_order import Faces, SecondOrderSettings
from cornerstep.optimiser.loop import Stopping, run
from support.multiclass_problems import LOSS_KINDS, draw

every_loss = pytest.mark.parametrize("kind", LOSS_KINDS)


def ascent(kind, smoothing=0.0, seed=0, rounds=3):
    """A solver after some rounds on a small problem."""
    given = draw(kind, smoothing, seed)
    problem = MulticlassProblem(
        Examples(given.X), given.y, given.rho.size, given.loss, given.scales, smoothing
    )
    solver = BlockAscent(problem, np.random.default_rng(seed), 1e-9)
    run(solver, Stopping(0.0, 1e-9, rounds))
    return solver


# -- longer weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_longer_weights_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    losses = np.maximum(rng.standard_normal(n), 0) * rng.choice([0.1, 1.0, 10.0])
    slopes = rng.standard_normal(n) - rng.choice([0.0, 1.0, 3.0])
    slopes[rng.random(n) < 0.2] = 0.0
    square = float(rng.choice([1e-3, 0.1, 1.0, 30.0]))

    def value(t):
        return 0.5 * t * t * square + np.maximum(losses + (t - 1) * slopes, 0).sum()

    t, promised = best_scale(square, losses, slopes)
    assert t >= 1
    assert promised == pytest.approx(value(t), rel=1e-12)
    falling = slopes < 0
    last = 1 + (losses[falling] / -slopes[falling]).max(initial=0.0)  # no minimum beyond
    best = minimize_scalar(value, bounds=(1, last + 1), method="bounded", options={"xatol": 1e-10})
    kinks = [1.0, *(1 + losses[falling] / -slopes[falling])]
    least = min(best.fun, *(value(kink) for kink in kinks))
    assert promised == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("square", [0.0, 1.0])
def test_weights_that_no_multiple_improves(square):
    losses = np.array([0.0, 1.0, 2.0])
    for slopes in (np.zeros(3), np.array([0.0, 0.5, 2.0])):  # nothing falls
        assert best_scale(square, losses, slopes) == (1.0, 0.5 * square + 3.0)
    assert best_scale(5.0, losses, np.array([0.0, -1.0, -2.0])) == (1.0, 5.5)  # |W|² rises faster
    assert best_scale(1.0, np.zeros(3), np.array([-1.0, -1.0, 0.0])) == (
        1.0,
        0.5,
    )  # nothing to gain


@every_loss
def test_slopes_of_a_scan_are_derivatives(kind):
    solver = ascent(kind, rounds=2)
    problem, n = solver.problem, solver.problem.examples.n
    image = solver.iterate.image
    scores = problem.examples.scores(slice(0, n), image)
    losses, slopes = np.empty(n), np.empty(n)
    found, n_found = np.empty((n, 5), np.int32), np.empty(n, np.int64)
    kernels.scan(
        scores, 0, solver.iterate.pool, problem.record, problem.loss.family, 5,
        found, n_found, losses, slopes,
    )  # fmt: skip
    assert losses.sum() == pytest.approx(problem.losses(image), rel=1e-12)
    h = 1e-7
    right = (problem.losses((1 + h) * image) - losses.sum()) / h
    left = (losses.sum() - problem.losses((1 - h) * image)) / h
    assert left - 1e-5 <= slopes.sum() <= right + 1e-5  # a subgradient along W


# -- faces -----------------------------------------------------------------------------------------


def _sevens(shape, dtype=float):
    return np.full(shape, 7, dtype)


@every_loss
def test_dual_points_without_weight_have_no_faces(kind, monkeypatch):
    """Whatever the memory held that the kernel fills."""
    solver = ascent(kind)
    starts, classes, beta = solver.iterate.pool
    monkeypatch.setattr(np, "empty", _sevens)
    faces = Faces(solver.problem, np.flatnonzero(np.diff(starts)), (starts, classes, 0 * beta))
    assert (faces.size, faces.dimension) == (0, 0)


@every_loss
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_products_are_those_of_the_hessian(kind, smoothing, share):
    """``I + sum_i s_i/ridge x_i x_i' (x) P_i``, formed; ``share`` < 1 shrinks the dual points.

    Blocks of the top-k losses may then grow.
    """
    solver = ascent(kind, smoothing)
    problem, ridge = solver.problem, 0.3
    starts, classes, beta = solver.iterate.pool
    faces = Faces(problem, np.flatnonzero(np.diff(starts)), (starts, classes, share * beta))
    groups, firsts, members, owners, radial = faces.groups
    assert faces.dimension > 0
    if problem.loss.family and share < 1:
        assert np.abs(radial[: faces.size]).max() > 0  # with a radial part
    owner = np.repeat(owners[:groups], np.diff(firsts[: groups + 1]))
    member = members[: faces.size]
    named = np.where(member < 0, problem.labels[owner], classes[member])
    onto = np.eye(faces.size)
    for g in range(groups):
        group = slice(firsts[g], firsts[g + 1])
        onto[group, group] -= 1 / (firsts[g + 1] - firsts[g])
    if radial.size:
        same = owner[:, None] == owner
        onto += same * np.outer(radial[: faces.size], radial[: faces.size])
    m, d = solver.iterate.image.shape
    rows = np.zeros((faces.size, m, d))
    rows[np.arange(faces.size), named] = problem.examples.data[owner]
    along = onto @ rows.reshape(faces.size, m * d)
    hessian = np.eye(m * d) + along.T @ (problem.scales[owner, None] / ridge * along)
    rng = np.random.default_rng(0)
    for _ in range(3):
        V = rng.standard_normal((m, d))
        product = V.copy()
        faces.add(faces.read(V) / (ridge * faces.inverse_scales()), product)
        assert np.allclose(hessian @ V.ravel(), product.ravel(), rtol=1e-10, atol=1e-10)
    formed = np.tril(faces.hessian(ridge))
    assert np.allclose(formed, np.tril(hessian), rtol=1e-10, atol=1e-10)


@every_loss
def test_face_products_are_projections(kind):
    """Reading is ``P_i W'x_i``: orthogonal, symmetric, and along directions that sum to 0."""
    solver = ascent(kind)
    pool = solver.iterate.pool
    faces = Faces(solver.problem, active_examples(pool), pool)
    rng = np.random.default_rng(0)
    V, U = rng.standard_normal((2, *solver.iterate.image.shape))
    read = faces.read(V)
    provenance = np.zeros_like(V)
    faces.add(faces.read(U), provenance)
    assert np.vdot(provenance, V) == pytest.approx(faces.read(U) @ read, rel=1e-10)
    groups, firsts, _, owners, _ = faces.groups
    sums = np.add.reduceat(read, firsts[:groups]) if groups else np.zeros(0)
    assert np.allclose(np.bincount(owners[:groups], weights=sums), 0, atol=1e-10)


@every_loss
def test_products_on_a_face_need_only_the_examples_on_it(kind):
    """With the entries of these examples with each other, and with whole rows: ``P K P``."""
    given = draw(kind, 0.0, 0)
    examples = KernelExamples.of_matrix(given.X @ given.X.T)
    problem = MulticlassProblem(examples, given.y, given.rho.size, given.loss, given.scales)
    solver = BlockAscent(problem, np.random.default_rng(0), 1e-9)
    run(solver, Stopping(0.0, 1e-9, 3))
    faces = Faces(problem, active_examples(solver.iterate.pool), solver.iterate.pool)
    assert faces.size > 0
    rng = np.random.default_rng(0)
    for _ in range(3):
        v = faces.read(rng.standard_normal(solver.iterate.image.shape))
        assert np.allclose(faces.products(1.0)(v), faces.products(0.0)(v), rtol=1e-12, atol=1e-12)


# -- CSR columns -----------------------------------------------------------------------------------


def skewed(seed=0):
    """Columns of very different frequency in no order, two of them empty."""
    rng = np.random.default_rng(seed)
    n, d = 60, 9
    share = rng.permutation(np.linspace(0.05, 1.0, d))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < share)
    X[:, [2, 7]] = 0
    return X, np.arange(n) % 4


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_csr_columns_keep_the_order_of_the_user(fit_intercept, dtype):
    X, y = skewed()
    X = X.astype(dtype)
    model = MulticlassSVC(C=0.5, tol=1e-9, fit_intercept=fit_intercept, random_state=0)
    dense = model.fit(X, y).coef_
    value = model.objective_
    sparse = model.fit(sp.csr_array(X), y)
    assert np.allclose(sparse.coef_, dense, atol=1e-3 * np.abs(dense).max())
    assert np.abs(dense).max() > 0.1
    assert np.array_equal(sparse.coef_[:, [2, 7]], np.zeros((4, 2)))
    assert sparse.objective_ == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("solver", ["block", "fw"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_repeated_entries_are_summed(solver):
    X, y = skewed()
    plain = sp.csr_array(X)
    rows = [np.arange(*plain.indptr[i : i + 2]) for i in range(y.size)]
    order = np.concatenate([np.tile(row, 2) for row in rows])
    halves = (0.5 * plain.data[order], plain.indices[order], 2 * plain.indptr)
    twice = sp.csr_array(halves, shape=X.shape)
    kept = twice.data.copy()
    model = MulticlassSVC(solver=solver, C=0.5, tol=1e-9, max_iter=200, random_state=0)
    value = model.fit(plain, y).objective_
    assert model.fit(twice, y).objective_ == pytest.approx(value, rel=1e-8)
    assert np.array_equal(twice.data, kept)
    norms = Examples(twice).norms
    assert np.allclose(norms, (X**2).sum(axis=1))


def test_columns_by_frequency():
    X, _ = skewed()
    examples = Examples(sp.csr_array(X))
    counts = (examples.data.toarray() != 0).sum(axis=0)
    assert (np.diff(counts) <= 0).all()
    W = np.random.default_rng(0).standard_normal((9, 4))
    scores = examples.scores(slice(0, 60), W)
    weights = examples.weights(W)
    assert weights is not None
    assert np.allclose(scores, X @ weights.T)


# -- products in float64, a few rows at a time -----------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_by_parts(dtype, monkeypatch):
    monkeypatch.setattr("cornerstep.multiclass.examples._ROWS", 7)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5)).astype(dtype)
    A = sp.csr_array(rng.standard_normal((40, 3)) * (rng.random((40, 1)) < 0.5))
    examples = Examples(X, sweeps=True)
    image = examples.image(A)
    assert image.dtype == np.float64
    np.testing.assert_allclose(image, A.toarray().T @ X.astype(float), rtol=0, atol=1e-13)
    scores = examples.scores(slice(4, 40), image, exact=True)
    np.testing.assert_allclose(scores, X[4:].astype(float) @ image.T, rtol=0, atol=1e-12)
    assert not examples.image(sp.csr_array((40, 3))).any()


# -- second-order steps that do not pay ------------------------------------------------------------


def test_steps_that_do_not_pay_get_rare():
    settings = BlockSettings(second_order=SecondOrderSettings(worth=np.inf))
    given = draw("max-hinge", 0.0, 0)
    examples = KernelExamples.of_matrix(given.X @ given.X.T)
    problem = MulticlassProblem(examples, given.y, given.rho.size, given.loss, given.scales)
    solver = BlockAscent(problem, np.random.default_rng(0), 1e-9, settings=settings)
    solver.pace.stage = SECOND_ORDER
    kinds = []
    for _ in range(15):
        solver.look()
        kinds.append(solver.move().kind)
    at = [k for k, kind in enumerate(kinds) if kind != "sweeps"]
    assert at == [0, 2, 6, 14]  # pauses of 1, 3 and 7 rounds
