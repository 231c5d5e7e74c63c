"""Parameters that all certified estimators have: when to stop, and who is told on the way."""

from __future__ import annotations

from numbers import Real
from typing import Any


def check_stopping(model: Any) -> None:
    """Say which of ``tol``, ``atol``, ``time_limit`` and ``callback`` is wrong."""
    for name in ("tol", "atol"):
        value = getattr(model, name)
        if not (isinstance(value, Real) and float(value) >= 0):
            raise ValueError(f"{name} must be a number >= 0, got {value!r}")
    limit = model.time_limit
    if limit is not None and not (isinstance(limit, Real) and float(limit) >= 0):
        raise ValueError(f"time_limit must be seconds >= 0 or None, got {limit!r}")
    if model.callback is not None and not callable(model.callback):
        raise ValueError(f"callback must be a function or None, got {model.callback!r}")
