"""Threads: ours over blocks of work, instead of those of BLAS inside every small product.

The threads of BLAS wait for one another at each call.  For products of a few rows that costs more
than it gains, and on a busy machine ten times more.  So solvers made of many small products run
BLAS on one thread and share out the large blocks themselves.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401 - its BLAS must be loaded before the controller looks for it


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """How many threads BLAS may use here, by the user's settings: as many may we."""
    return max((library["num_threads"] for library in _controller().info()), default=1)


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS runs on one thread."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limits
