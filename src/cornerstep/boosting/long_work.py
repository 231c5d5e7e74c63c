"""Long work in parts: between them it asks whether the time is up."""

from __future__ import annotations

from collections.abc import Iterator

_AT_ONCE = 1 << 20  # numbers in a part: quick to go through, and no large temporary arrays


class SearchExpiredError(Exception):
    """Work has been given up: the time is over, or somebody has pressed Ctrl-C."""


def never() -> bool:
    """What long work asks before a run tells it whom to ask."""
    return False


def in_parts(count: int, size: int = 1) -> Iterator[slice]:
    """``count`` things of a size, a few at a time."""
    step = max(_AT_ONCE // max(size, 1), 1)
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))
