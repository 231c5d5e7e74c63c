"""Seconds of work: a clock that stands still while kernels are compiled.

Compilation happens once per machine, and takes seconds; a time limit is meant for the work, and so
are the seconds that are reported.
"""

from __future__ import annotations

import sys
import threading
import time

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
