"""Threads: BLAS takes one for small products, and for large ones all that a fit may use.

The threads of BLAS wait for one another within each product.  Two of them against one, milliseconds
of a product of so many multiply-adds on two cores, idle and with a busy loop on each core:

===========  ============  ==============
2^23         0.38 / 0.75   16 / 3.1
2^25         1.2 / 2.4     23 / 11
2^26         4.5 / 8.5     42 / 43
2^29         ~ 1/2         183 / 266
===========  ============  ==============

So a product gets several threads from :data:`LARGE` multiply-adds on, where they cost nothing on a
busy machine; solvers made of many smaller ones would lose there far more than they gain elsewhere.
Between two large products BLAS is at one thread: even an inner product of 10,000 numbers would be
shared, and wait (milliseconds on a busy machine, where it takes microseconds).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401 - its BLAS must be loaded before the controller looks for it

#: Multiply-adds from which on a product takes several threads.
LARGE = 2**26

_allowed: ContextVar[int | None] = ContextVar("_allowed", default=None)
_lock = threading.Lock()
_open: list[Any] = []  # [what gives BLAS its first setting back, once for each context open now]


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def n_workers(n_jobs: int | None) -> int:
    """How many pieces of work ``n_jobs`` lets run at a time: None one, -1 as many as cores."""
    if n_jobs is None:
        return 1
    if not (isinstance(n_jobs, Integral) and n_jobs != 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}")
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def allowed_threads() -> int:
    """How many threads may share a large product: by :func:`fit_threads`, else as BLAS is set."""
    allowed = _allowed.get()
    if allowed is not None:
        return allowed
    return max((library["num_threads"] for library in _controller().info()), default=1)


@contextmanager
def _blas_threads(count: int) -> Iterator[None]:
    """BLAS takes so many threads.

    Its setting is one for the process.  Contexts of several threads of ours may overlap: whoever
    comes last puts the setting back that the first one found.
    """
    with _lock:
        limit = _controller().limit(limits=count)
        _open.append(_open[0] if _open else limit)
    try:
        yield
    finally:
        with _lock:
            first = _open.pop()
            (limit if _open else first).restore_original_limits()


@contextmanager
def fit_threads(n_jobs: int | None = None) -> Iterator[None]:
    """BLAS takes one thread; large products may take what ``n_jobs`` allows, None as BLAS is set.

    Threads that are started within are not meant: their products take one thread.
    """
    token = _allowed.set(allowed_threads() if n_jobs is None else n_workers(n_jobs))
    try:
        with _blas_threads(1):
            yield
    finally:
        _allowed.reset(token)


@contextmanager
def run_threads(size: int | None) -> Iterator[None]:
    """The same for a run whose largest products have ``size`` multiply-adds; None: as it is."""
    if size is None or _allowed.get() is not None:
        yield
        return
    with _blas_threads(1) if size < LARGE else fit_threads():
        yield


@contextmanager
def product_threads(size: int) -> Iterator[None]:
    """BLAS takes as many threads as pay for a product of ``size`` multiply-adds.

    To be opened around that product, within a fit or a run.
    """
    if size < LARGE:
        yield
        return
    with _blas_threads(allowed_threads()):
        yield


def matmul(left: Any, right: Any) -> Any:
    """``left @ right``: of arrays on the threads that its size deserves."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        columns = right.shape[1] if right.ndim == 2 else 1
        if left.size * columns >= LARGE:
            with product_threads(left.size * columns):
                return left @ right
    return left @ right
