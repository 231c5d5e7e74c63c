"""Pairs trained in batches: the same machines and certificates as one by one, true at any scale."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cornerstep import ReducedHullSVC, Status, certify
from cornerstep.core.clock import work_seconds
from cornerstep.kernel_svm.compiled.pair_sweeps import solve_pairs
from cornerstep.kernel_svm.pairs import KernelParameters, Pairs, pairs_of
from cornerstep.kernel_svm.small_pairs import train_small_pairs
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.optimiser.loop import Stopping

DIGITS = tuple(part[:600] for part in load_digits(return_X_y=True))
KINDS = [{"C": 1.0}, {"C": 100.0}, {"nu": 0.1}, {"nu": 0.4}, {"K": 3.5}]


def batched(model):
    return [machine.trace["kind"][-1] == "batch" for machine in model.machines_]


def one_by_one(model, X, y):
    """By the solver of larger pairs: somebody watches."""
    return model.set_params(callback=lambda iterate: None).fit(X, y)


@pytest.mark.parametrize("given", KINDS, ids=str)
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_the_same_as_one_by_one(given, kernel):
    X, y = DIGITS
    together = ReducedHullSVC(**given, kernel=kernel, tol=1e-6).fit(X, y)
    apart = one_by_one(ReducedHullSVC(**given, kernel=kernel, tol=1e-6), X, y)
    assert np.mean(batched(together)) > 0.5
    assert not any(batched(apart))
    for one, other in zip(together.machines_, apart.machines_, strict=True):
        assert one.status is other.status is Status.SOLVED
        assert one.bound <= other.objective
        assert other.bound <= one.objective
    np.testing.assert_allclose(together.intercept_, apart.intercept_, atol=1e-2)
    np.testing.assert_allclose(together.C_, apart.C_, rtol=1e-3)
    np.testing.assert_allclose(together.margin_, apart.margin_, rtol=1e-3)
    assert certify(together, X, y).holds
    assert np.mean(together.predict(X) == apart.predict(X)) > 0.99


@pytest.mark.parametrize("given", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_the_problem(given, seed):
    """Value, gap, thresholds and what follows from them, as the problem itself computes them."""
    rng = np.random.default_rng(seed)
    n, d = 60, 3
    labels = rng.permutation(np.arange(n) % 4)
    X = 10.0 ** rng.uniform(-3, 3) * (rng.standard_normal((n, d)) + labels[:, None])
    cap = float(10.0 ** rng.uniform(-3, 3))
    kernel = KernelParameters("rbf", float(1 / X.var()), 3, 0.0)
    size = {"nu": None, "K": None, "C": None} | given
    if size["K"]:
        size["K"] *= cap
    problems = Pairs(X, labels, np.full(n, cap), kernel, size, 10**9)
    pairs = pairs_of(4)
    found = train_small_pairs(
        problems, pairs, Stopping(0.0, 1e-4), WorkingSetSettings(least_pairs=1), 1, lambda: False
    )
    assert found
    for k, pair in found.items():
        posed = problems.pose(pairs[k])
        problem = posed.problem
        gradient = problem.gradient(pair.beta)
        look, machine = problem.look(pair.beta, gradient), problem.machine(pair.beta, gradient)
        assert pair.value == pytest.approx(look.value, rel=1e-12)
        assert pair.gap == pytest.approx(look.gap, rel=1e-6, abs=1e-13 * abs(look.value))
        np.testing.assert_allclose(pair.machine.coefficients, machine.coefficients, rtol=1e-9)
        np.testing.assert_allclose(pair.machine[1:], machine[1:], rtol=1e-9)
        assert pair.is_constant == problem.is_constant(machine, gradient)
        np.testing.assert_array_equal(problems.examples(pair.places), posed.examples)
        assert (problem.lower <= pair.beta).all()
        assert (pair.beta <= problem.upper).all()


def test_who_cannot_be_batched():
    X, y = DIGITS
    weights = np.linspace(0.5, 1, y.size)
    assert all(batched(ReducedHullSVC().fit(X, y)))
    assert not any(batched(ReducedHullSVC().fit(X, y, weights)))
    assert not any(batched(ReducedHullSVC(kernel="linear").fit(X, y)))
    assert not any(batched(ReducedHullSVC().fit(X, y % 9)))  # 36 pairs
    assert not any(batched(ReducedHullSVC(cache_size=0.01).fit(X, y)))
    assert not any(batched(ReducedHullSVC(max_iter=10).fit(X, y)))
    assert not any(batched(ReducedHullSVC(kernel="precomputed").fit(X @ X.T, y)))


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_certificates_hold_where_classes_differ_in_size(kernel, C):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 10
    X = 1e4 * (rng.standard_normal((40, 1)) + 3.0 * y[:, None])
    rows = X @ X.T if kernel == "precomputed" else X
    model = ReducedHullSVC(C=C, kernel=kernel, tol=1e-3).fit(rows, y)
    assert certify(model, rows, y).holds


def test_limits_and_interrupts_leave_pairs_to_others():
    X, y = DIGITS
    ended = ReducedHullSVC(time_limit=0).fit(X, y)
    assert not any(batched(ended))
    assert {machine.status for machine in ended.machines_} == {Status.TIME_LIMIT}
    assert certify(ended, X, y).holds


def test_threads_change_nothing():
    X, y = load_digits(return_X_y=True)
    one, two = (ReducedHullSVC(n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)


def test_a_pair_without_room_for_steps_is_left_to_others():
    ends, pairs = np.array([0, 4, 8]), np.array([[0, 1]])
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 2))
    solved = np.ones(1)
    solve_pairs(
        X @ X.T, ends, pairs, np.zeros(1), 1.0, 0.01, np.ones(8), np.zeros(8), 0.0,
        (0.0, 0.0, 0.3, 0.1, 0.3), (256, 16, 4000, 5, 20), 10, np.array([0, 8]), np.empty(8),
        np.empty((1, 11)), solved,
    )  # fmt: skip
    assert not solved[0]


def test_the_seconds_of_all_pairs_are_those_of_the_fit():
    begun = work_seconds()
    model = ReducedHullSVC().fit(*DIGITS)
    assert all(batched(model))
    assert 0 < model.certificate().seconds <= work_seconds() - begun
