"""How kernels are compiled: what is left out costs neither time nor speed.

Divisions by zero follow IEEE 754 as in NumPy, not as in Python.  No kernel is called from C, and
those that only kernels call have no way in from Python either.  A large one with a single caller is
compiled as a part of it, not twice.
"""

from __future__ import annotations

from functools import partial

from numba import njit

kernel = partial(njit, cache=True, error_model="numpy", no_cfunc_wrapper=True)
inside = partial(kernel, no_cpython_wrapper=True)
once = partial(inside, inline="always")
