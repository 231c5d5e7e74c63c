"""What parts of the data answer: numbers and arrays that add up."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

Reply = dict[str, Any]  # numbers and arrays, summed over partitions


def total(replies: Iterable[Reply]) -> Reply:
    """The sum of replies, name by name."""
    return reduce(lambda a, b: {name: a[name] + b[name] for name in a}, replies)


def moved_note(moved: int | None) -> str:
    """How much has been moved, for people."""
    if moved is None:
        return ""
    size = float(moved)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit} moved"
        size /= 1000
    return f"{size:.3g} TB moved"
