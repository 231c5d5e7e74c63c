"""Compiled sweeps: plain functions for numba, arrays in and out.

With the JIT switched off (``NUMBA_DISABLE_JIT=1``) each is its own readable reference.
"""
