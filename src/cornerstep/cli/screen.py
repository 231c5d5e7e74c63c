"""What commands say: results on stdout, messages on stderr, one line for what is wrong."""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

SOLVED, UNPROVEN, WRONG, LIMIT, CRASHED, INTERRUPTED = 0, 1, 2, 3, 70, 130


class UserError(Exception):
    """Something that the user can put right; its text says what and how."""


def out() -> Console:
    """Where results go; without colour if it is not a terminal."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def provide_streams() -> None:
    """Stand-ins for stdout and stderr where the caller has closed them."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def give_up(stream: TextIO) -> None:
    """Let go of a stream that takes no more: what is left in its buffer must not fail again."""
    with suppress(OSError, ValueError):
        void = os.open(os.devnull, os.O_WRONLY)
        os.dup2(void, stream.fileno())
        os.close(void)


def say(text: str) -> None:
    """A message, on stderr, if that can be written to."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)


def put(text: str) -> None:
    """A line of plain text on stdout; the exit code tells the rest to who reads no further."""
    try:
        sys.stdout.write(f"{text}\n")
    except BrokenPipeError:
        give_up(sys.stdout)


def put_json(value: Any) -> None:
    """A result for machines."""
    put(json.dumps(_finite(value), indent=2, ensure_ascii=False, default=_plain))


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def facts(title: str, rows: dict[str, Any]) -> None:
    """A table of two columns: names and values."""
    if not sys.stdout.isatty():
        width = max(len(name) for name in rows)
        put(title)
        for name, value in rows.items():
            put(f"  {name:<{width}}  {value}")
        return
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for name, value in rows.items():
        table.add_row(name, str(value))
    out().print(table)


def columns(names: list[str], rows: list[list[Any]]) -> None:
    """A table with a heading: tab-separated if it is not for a terminal."""
    if not sys.stdout.isatty():
        put("\t".join(names))
        for row in rows:
            put("\t".join(str(cell) for cell in row))
        return
    table = Table(*names, box=None, padding=(0, 2), header_style="bold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    out().print(table)
