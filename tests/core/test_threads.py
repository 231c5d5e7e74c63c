"""Threads of BLAS: one for small products, those of ``n_jobs`` for large ones, none left behind."""

import threading
from typing import ClassVar

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cornerstep import MulticlassSVC, ReducedHullSVC, SoftMarginBoostingClassifier, minimize
from cornerstep.core.threads import (
    LARGE,
    allowed_threads,
    fit_threads,
    matmul,
    product_threads,
    run_threads,
)
from cornerstep.domains import Simplex
from cornerstep.objectives import LeastSquares, Smooth


def blas_threads():
    """Of the libraries that know several, as a set."""
    able = [each for each in threadpool_info() if each.get("threading_layer") == "pthreads"]
    return {each["num_threads"] for each in able} or {1}


@pytest.fixture(autouse=True)
def three_threads():
    with threadpool_limits(3):
        if blas_threads() != {3}:
            pytest.skip("BLAS here has one thread, or does not tell")
        yield


def test_products_within_a_fit_take_one_thread_unless_they_are_large():
    with fit_threads():
        assert blas_threads() == {1}
        assert allowed_threads() == 3
        with product_threads(LARGE - 1):
            assert blas_threads() == {1}
        with product_threads(LARGE):
            assert blas_threads() == {3}
        assert blas_threads() == {1}
    assert blas_threads() == {3}


def test_n_jobs_is_the_most_that_a_large_product_takes():
    with fit_threads(2):
        assert allowed_threads() == 2
        with product_threads(LARGE):
            assert blas_threads() == {2}
        with fit_threads():
            assert allowed_threads() == 2
    assert allowed_threads() == 3


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all"])
def test_other_numbers_of_jobs_are_refused(n_jobs):
    with (
        pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0, got"),
        fit_threads(n_jobs),
    ):
        pass
    assert blas_threads() == {3}


def test_runs_take_one_thread_between_large_products_and_those_of_functions_what_blas_is_set_to():
    for size, threads, large in [(0, 1, 1), (LARGE, 1, 3), (None, 3, 3)]:
        with run_threads(size):
            assert blas_threads() == {threads}
            with product_threads(LARGE):
                assert blas_threads() == {large}
        assert blas_threads() == {3}


class Watching(np.ndarray):
    """Notes the threads of BLAS when it is multiplied."""

    seen: ClassVar[set[int]] = set()

    def __matmul__(self, other):
        self.seen.update(blas_threads())
        return np.asarray(self) @ other


def test_products_decide_by_their_own_size():
    for columns, threads in [(1, 1), (2**7, 3)]:
        left = np.ones((2**10, 2**9)).view(Watching)
        with fit_threads():
            Watching.seen.clear()
            assert (matmul(left, np.ones((2**9, columns))) == 2**9).all()
            assert Watching.seen == {threads}
            assert blas_threads() == {1}


def test_an_error_puts_the_setting_back():
    with pytest.raises(ZeroDivisionError), fit_threads():
        raise ZeroDivisionError
    assert blas_threads() == {3}
    assert allowed_threads() == 3


def test_fits_that_overlap_put_the_setting_back():
    first, second = fit_threads(), fit_threads()
    first.__enter__()
    inside, leave, outcome = threading.Event(), threading.Event(), []

    def other():
        with second:
            outcome.append(allowed_threads())
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    first.__exit__(None, None, None)
    leave.set()
    thread.join()
    assert outcome == [1]  # BLAS was at one thread when it came
    assert blas_threads() == {3}


def examples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    return X, (X[:, 0] + 0.3 * rng.standard_normal(40) > 0).astype(int)


@pytest.mark.parametrize(
    "estimator",
    [MulticlassSVC(), ReducedHullSVC(C=1.0), SoftMarginBoostingClassifier(nu=0.3)],
    ids=lambda e: type(e).__name__,
)
def test_small_fits_run_on_one_thread(estimator):
    seen = set()

    def watch(iterate):
        seen.update(blas_threads())

    estimator.set_params(callback=watch).fit(*examples())
    assert seen == {1}
    assert blas_threads() == {3}


@pytest.mark.parametrize("own", [False, True])
def test_the_optimiser_leaves_the_threads_of_functions_alone(own):
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((8, 5)), rng.standard_normal(8)
    seen: set[int] = set()

    def watch(iterate):
        seen.update(blas_threads())

    function = Smooth(lambda x: 0.5 * float(((A @ x - b) ** 2).sum()), lambda x: A.T @ (A @ x - b))
    minimize(function if own else LeastSquares(A, b), Simplex(5), callback=watch)
    assert seen == ({3} if own else {1})
    assert blas_threads() == {3}
