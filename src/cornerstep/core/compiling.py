"""How kernels are compiled: what is left out costs neither time nor speed.

Divisions by zero follow IEEE 754 as in NumPy, not as in Python.  No kernel is called from C, and
those that only kernels call (``_inner``) have no way in from Python either; of these, small ones in
hot loops (``_small``) become a part of each caller's machine code, which takes longer to compile.
A large one with a single caller (``njit_inline``) is compiled as a part of it, not twice.

A first fit waits for the compiler: some 5 ms for each operation in the source, 30 ms for each
function, and as much again for each function of NumPy's that is called inside.

A view of an array (a row, a slice, a name for a part of a tuple) counts as a reference to it, by an
atomic increment and an atomic decrement: a block step on short rows spends most of its time so.
Functions that allocate nothing (``njit_noalloc``) need no counts; they take their scratch memory as
an argument.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
from numba.core import event
from numba.core.options import DefaultOptions

from cornerstep.core import clock
from cornerstep.core.compile_cache import enable_cache


class _Watch(event.Listener):
    """Lets the clock stand still while the compiler works, and the garbage collector.

    A tenth of the compiler's time goes into collections that find little.  It works under a lock of
    its own, on one function and those that it calls, so that two threads do not meet here.
    """

    _within = 0  # functions being compiled, each needed by the one before
    _collects = False

    def on_start(self, event: Any) -> None:
        clock.stop_for_compilation()
        if self._within == 0:
            self._collects = gc.isenabled()
            gc.disable()
        self._within += 1

    def on_end(self, event: Any) -> None:
        clock.go_on()
        self._within -= 1
        if self._within == 0 and self._collects:
            gc.enable()


event.register("numba:compile", _Watch())

# Not a documented option of the compiler: without it the kernels are right, but slower.
_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """The compiler's decorator, with a cache on disk that may be damaged or full."""

    def compiled(function: Callable[..., Any]) -> Any:
        made = numba.njit(**options)(function)
        enable_cache(made)
        return made

    return compiled


njit_alloc = partial(njit, error_model="numpy", no_cfunc_wrapper=True)
njit_alloc_inner = partial(njit_alloc, no_cpython_wrapper=True)
njit_noalloc = partial(njit_alloc, **_UNCOUNTED)
njit_noalloc_inner = partial(njit_noalloc, no_cpython_wrapper=True)
njit_noalloc_small = partial(njit_noalloc_inner, forceinline=True)
njit_inline = partial(njit_noalloc_inner, inline="always")
