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
_begun = 0.0  # when the outermost began
_compiled = 0.0  # seconds so far
_told = False


def work_seconds() -> float:
    """``time.perf_counter``, without the time that compilation took."""
    with _lock:
        return (_begun if _compiling else time.perf_counter()) - _compiled


def compiled_seconds() -> float:
    """How long this process has compiled."""
    with _lock:
        return _compiled + (time.perf_counter() - _begun if _compiling else 0.0)


def stop_for_compilation() -> None:
    """A kernel is being compiled; the first time, somebody who sits before a screen is told."""
    global _compiling, _begun, _told
    with _lock:
        if not _compiling:
            _begun = time.perf_counter()
        _compiling += 1
        tell, _told = not _told, True
    if tell and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print("cornerstep: compiling, once per machine", file=sys.stderr, flush=True)


def go_on() -> None:
    """That kernel is compiled."""
    global _compiling, _compiled
    with _lock:
        _compiling -= 1
        if not _compiling:
            _compiled += time.perf_counter() - _begun
