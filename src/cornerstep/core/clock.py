"""Seconds of work: a clock that stands still while kernels are compiled; and who asks it.

Compilation happens once per machine, and takes seconds; a time limit is meant for the work, and so
are the seconds that are reported.

Oracles that take long ask whether the run that they work for is to end: :func:`is_over` where they
have something to answer, :func:`must_end` where there is no answer yet; a run says so with
:func:`asking`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_lock = threading.Lock()
_compiling = 0  # kernels, those that others need within them
# When the outermost of them began, if there is one, and seconds of those before: replaced as one,
# so that who asks the time, once per iteration, needs no lock.
_clock: tuple[float | None, float] = (None, 0.0)
_told = False


def work_seconds() -> float:
    """``time.perf_counter``, without the time that compilation took."""
    begun, compiled = _clock
    return (time.perf_counter() if begun is None else begun) - compiled


def compiled_seconds() -> float:
    """How long this process has compiled."""
    begun, compiled = _clock
    return compiled if begun is None else compiled + time.perf_counter() - begun


class OutOfTimeError(Exception):
    """The run that this work is for is to end, and there is no answer yet."""


def never() -> bool:
    """No."""
    return False


Ask = Callable[[], bool]
_asked: ContextVar[tuple[Ask, Ask]] = ContextVar("_asked", default=(never, never))


def is_over() -> bool:
    """Whether long work should end with what it has."""
    return _asked.get()[0]()


def must_end() -> bool:
    """Whether long work should end also with nothing: by an :class:`OutOfTimeError`."""
    return _asked.get()[1]()


def who_is_asked() -> Ask:
    """What :func:`is_over` asks here: for work that asks on behalf of others."""
    return _asked.get()[0]


@contextmanager
def asking(over: Ask, urgent: Ask) -> Iterator[None]:
    """Work within is to end when ``over`` says so, at once when ``urgent`` does, or those around.

    Of this thread: work in others is not asked.
    """
    outer_over, outer_urgent = _asked.get()
    token = _asked.set((lambda: over() or outer_over(), lambda: urgent() or outer_urgent()))
    try:
        yield
    finally:
        _asked.reset(token)


def stop_for_compilation() -> None:
    """A kernel is being compiled; the first time, somebody who sits before a screen is told."""
    global _compiling, _clock, _told
    with _lock:
        if not _compiling:
            _clock = time.perf_counter(), _clock[1]
        _compiling += 1
        tell, _told = not _told, True
    if tell and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print("cornerstep: compiling, once per machine", file=sys.stderr, flush=True)


def go_on() -> None:
    """That kernel is compiled."""
    global _compiling, _clock
    with _lock:
        _compiling -= 1
        if not _compiling:
            _clock = None, compiled_seconds()
