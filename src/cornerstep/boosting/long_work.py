"""Long work in parts: between two of them it asks whether the time is up.

Whoever does long work (a search, a master, the evaluation of hypotheses) goes through
:func:`in_parts` and asks a function ``expired`` before each part; when it says so, the work is
given up by a :class:`SearchExpiredError`.
"""

from __future__ import annotations

from collections.abc import Iterator

# Numbers per part.  Fewer answer a time limit or Ctrl-C sooner and need smaller temporary arrays;
# more ask less often.  A part of this size takes milliseconds.
_AT_ONCE = 1 << 20


class SearchExpiredError(Exception):
    """Work has been given up: the time is over, or somebody has pressed Ctrl-C."""


def never() -> bool:
    """What long work asks before a run tells it whom to ask."""
    return False


def in_parts(count: int, size: int = 1) -> Iterator[slice]:
    """Slices of ``range(count)`` in order, for items of ``size`` numbers each.

    A part is one item at least, and beyond that at most a million numbers.
    """
    step = max(_AT_ONCE // max(size, 1), 1)
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))
