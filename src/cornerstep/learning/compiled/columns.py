"""Compiled sweeps over kept kernel columns: parts of them, and sums of them.

References
----------
.. [1] D. E. Knuth. The Art of Computer Programming, volume 2: Seminumerical Algorithms. 3rd
   edition, section 4.2.2, Addison-Wesley, 1997.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_noalloc

_TILE = 4096  # entries of a product accumulated at a time: they stay in the first cache


@njit_noalloc(nogil=True)
def gather(store, slots, columns, out):
    """``out[a, b] = store[slots[a], columns[b]]`` where ``slots[a] >= 0``."""
    for a in range(slots.size):
        if slots[a] < 0:
            continue
        row = store[slots[a]]
        for b in range(columns.size):
            out[a, b] = row[columns[b]]


@njit_alloc(nogil=True)
def accumulate(store, slots, values, out):
    """``out += sum_a values[a] store[slots[a]]``, summed tile by tile."""
    part = np.empty(_TILE)
    for start in range(0, out.size, _TILE):
        stop = min(start + _TILE, out.size)
        part[:] = 0
        for a in range(slots.size):
            value = values[a]
            row = store[slots[a], start:stop]
            for k in range(stop - start):
                part[k] += value * row[k]
        for k in range(stop - start):
            out[start + k] += part[k]


@njit_noalloc(nogil=True)
def accumulate_exactly(store, slots, values, out, lost):
    """``out + lost += sum_a values[a] store[slots[a]]``: ``lost`` collects what sums round off.

    By Knuth's two-sum, so that only the products are rounded, however many there are.
    """
    for start in range(0, out.size, _TILE):
        stop = min(start + _TILE, out.size)
        part, error = out[start:stop], lost[start:stop]
        for a in range(slots.size):
            value = values[a]
            row = store[slots[a], start:stop]
            for k in range(stop - start):
                term = value * row[k]
                total = part[k] + term
                added = total - part[k]
                error[k] += (part[k] - (total - added)) + (term - added)
                part[k] = total
