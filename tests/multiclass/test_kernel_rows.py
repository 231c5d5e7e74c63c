"""Kernels of many examples: rows that are kept, or computed again, lead to the same optimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics.pairwise import rbf_kernel

from cornerstep import MulticlassSVC, certify
from cornerstep.core.clock import asking, never
from cornerstep.learning.kernel_blocks import InnerProductKernel
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.multiclass.examples import KernelExamples
from cornerstep.multiclass.losses import make_loss
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.block import BlockAscent
from cornerstep.multiclass.solvers.dual_iterate import DualIterate
from cornerstep.multiclass.solvers.pool import Entering, empty_pool, scan
from cornerstep.optimiser.loop import Stopping, run

N, M, GAMMA = 120, 4, 0.3
ROOMS = {"all": 1e9, "some": 8 * N * 40, "one": 8 * N, "none": 1.0}


def rows_of(seed=0, n=N):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, M, n)
    return np.eye(M)[y] + rng.standard_normal((n, M)), y


def problem_of(limit, *, name="max-hinge", smoothing=0.5, C=3.0, dtype=np.float64):
    X, y = rows_of()
    kernel = InnerProductKernel(X, "rbf", GAMMA).raised(1.0)
    columns = KernelColumns(kernel, int(limit), dtype=dtype)
    loss = make_loss(name, k=2)
    return MulticlassProblem(
        KernelExamples(columns, at_once=0), y, M, loss, np.full(N, C), smoothing
    )


def solved(problem, tol=1e-7):
    solver = BlockAscent(problem, np.random.default_rng(0), tol)
    return solver, run(solver, Stopping(0.0, tol, 2000))


@pytest.mark.parametrize("name", ["max-hinge", "top-k", "usunier"])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize(
    ("room", "dtype"), [("all", np.float64), ("some", np.float64), ("some", np.float32)]
)
def test_the_optimum_does_not_depend_on_what_is_kept(name, smoothing, room, dtype):
    X, y = rows_of()
    given = KernelExamples.of_matrix(rbf_kernel(X, gamma=GAMMA) + 1.0)
    whole = MulticlassProblem(given, y, M, make_loss(name, k=2), np.full(N, 3.0), smoothing)
    tol = 1e-6 if smoothing or room == "all" else 1e-3  # pieces of a problem that is not smooth
    _, best = solved(whole)
    problem = problem_of(ROOMS[room], name=name, smoothing=smoothing, dtype=dtype)
    _, found = solved(problem, tol)
    assert found.look.gap <= tol * found.look.value
    assert found.look.bound <= best.look.value
    assert best.look.bound <= found.look.value


@pytest.mark.parametrize("room", ROOMS)
def test_sweeps_keep_image_and_gains_true(room):
    """The image stays that of the dual points, and D grows by what the blocks say."""
    problem = problem_of(ROOMS[room])
    iterate = DualIterate(problem, empty_pool(N))
    for seed in range(3):
        entering = Entering.room(problem, 2)
        scan(problem, iterate.pool, iterate.image, entering)
        active = iterate.admit(entering)
        problem.examples.hold(active)
        before = iterate.dual_value()
        gains = iterate.sweep(active.copy(), seed)
        image = iterate.image.copy()
        assert iterate.dual_value() - before == pytest.approx(gains.sum(), rel=1e-9)
        iterate.recompute_image()
        assert np.allclose(image, iterate.image, rtol=0, atol=1e-12 * np.abs(image).max())
    kept = problem.examples.kept
    assert kept.store.nbytes <= max(ROOMS[room], 1)
    entries = InnerProductKernel(rows_of()[0], "rbf", GAMMA).block(np.arange(N), None) + 1.0
    there = kept.slots >= 0
    assert np.allclose(kept.store[kept.slots[there]], entries[there], rtol=1e-13)


@pytest.mark.filterwarnings("ignore:MulticlassSVC stopped")
@pytest.mark.parametrize("room", ["some", "none"])
def test_plain_methods_do_without_the_matrix(room):
    X, y = rows_of()
    model = MulticlassSVC(kernel="rbf", solver="fw", max_iter=20, cache_size=ROOMS[room] / 1e6)
    few = model.fit(X, y)
    whole = MulticlassSVC(kernel="rbf", solver="fw", max_iter=20).fit(X, y)
    assert few.objective_ == pytest.approx(whole.objective_, rel=1e-9)
    assert few.bound_ == pytest.approx(whole.bound_, rel=1e-9)


def test_rows_that_nothing_needs_are_not_computed():
    X, y = rows_of(n=4000)
    X = 6.0 * np.eye(M)[y] + 0.5 * X  # far apart: few support vectors
    kernel = InnerProductKernel(X, "rbf", 0.05).raised(1.0)
    examples = KernelExamples(KernelColumns(kernel, 10**9))
    problem = MulticlassProblem(examples, y, M, make_loss("max-hinge"), np.full(4000, 10.0), 0.5)
    solver, outcome = solved(problem, 1e-3)
    assert outcome.status.value == "solved"
    support = np.unique(solver.coefficients().nonzero()[0]).size
    assert support < 500
    assert examples.kept.evaluations < 4000 * 1500


@pytest.fixture(scope="module")
def many():
    X, y = rows_of(1, 3200)
    return X, y


@pytest.mark.parametrize(
    ("rows", "cache_size"),
    [(np.asarray, 1000.0), (csr_array, 10.0), (lambda X: X.astype(np.float32), 10.0)],
)
def test_models_are_certified(many, cache_size, rows):
    X, y = rows(many[0]), many[1]
    model = MulticlassSVC(kernel="rbf", C=0.3, cache_size=cache_size, random_state=0).fit(X, y)
    assert model.status_.value == "solved"
    found = certify(model, X, y)
    assert found.holds, found.problems


def test_a_tight_gap_is_reached_with_rows_in_single_precision(many):
    X, y = many
    model = MulticlassSVC(kernel="rbf", C=0.3, cache_size=50, tol=1e-7, random_state=0).fit(X, y)
    assert model.relative_gap_ <= 1e-7
    assert certify(model, X, y).holds


def test_a_warm_start_and_probabilities(many):
    X, y = many
    model = MulticlassSVC(
        kernel="rbf", C=0.3, cache_size=20, probability=True, warm_start=True, random_state=0
    )
    first = model.fit(X, y).n_iter_
    assert np.allclose(model.predict_proba(X[:50]).sum(axis=1), 1.0)
    assert model.fit(X, y).n_iter_ < first


@pytest.mark.filterwarnings("ignore:MulticlassSVC stopped")
def test_a_checkpoint_is_gone_on_from_with_the_same_kernel_only(many, tmp_path):
    X, y = many
    path = tmp_path / "state.npz"
    options = {"kernel": "rbf", "C": 0.3, "checkpoint": path, "random_state": 0}
    begun = MulticlassSVC(max_iter=3, gamma=0.3, **options).fit(X, y)
    going_on = MulticlassSVC(max_iter=0, gamma=0.3, **options).fit(X, y)
    assert going_on.bound_ == pytest.approx(begun.bound_, rel=1e-6)
    with pytest.raises(ValueError, match="training data"):
        MulticlassSVC(gamma=0.31, **options).fit(X, y)


def test_the_end_of_a_run_is_heard_between_rows(many):
    kernel = InnerProductKernel(many[0], "rbf", GAMMA)
    asked: list[int] = []

    def over():
        asked.append(1)
        return len(asked) > 1

    examples = KernelExamples(KernelColumns(kernel, 10**9), at_once=0)
    with asking(over, never):
        examples.hold(np.arange(3200))
    assert 0 < examples.kept.kept < 3200
    assert examples.held(np.arange(3200)).size == examples.kept.kept


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limit", [{"time_limit": 0.0}, {"max_iter": 1}])
def test_limits_leave_a_certificate(many, limit):
    X, y = many
    model = MulticlassSVC(kernel="rbf", C=0.3, cache_size=10, **limit)
    model.fit(X, y)
    assert model.gap_ >= 0
    assert certify(model, X, y).holds


@pytest.mark.parametrize("value", [0, -1.0, "1", None])
def test_what_cache_size_may_be(value):
    with pytest.raises(ValueError, match="cache_size must be a positive number, got"):
        MulticlassSVC(kernel="rbf", cache_size=value).fit(*rows_of())


@pytest.mark.parametrize("room", ROOMS)
def test_time_is_left_for_rows_that_the_certificate_computes(room):
    problem = problem_of(ROOMS[room])
    solver = BlockAscent(problem, np.random.default_rng(0), 1e-7)
    for _ in range(3):
        solver.look()
        solver.move()
    assert (solver.closing > 0.0) == (room != "all")
