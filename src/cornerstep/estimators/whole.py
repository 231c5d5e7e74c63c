"""A fit that fails leaves the model as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back if what follows raises: all old ones, no new ones."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
