"""Digests: what shows that two runs train on the same examples, or that arrays were changed.

Of examples it is a sum over rows modulo 2^64, so that rows may lie in any partition: with b_ij the
bits of the entries and m_j odd random multipliers,

``sum_i mix(mix(sum_j b_ij m_j) + mix(label_i) m_d + bits of s_i, the number i of the row)``.

An entry of 0 adds nothing: dense and sparse rows have the same digest.

References
----------
.. [1] G. L. Steele, D. Lea, C. H. Flood. Fast splittable pseudorandom number generators. OOPSLA
   2014.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray

_ROWS = 4096  # at a time


def _mix(values: Any) -> Any:
    """A bijection of 64 bits after which neighbours have nothing in common (SplitMix64)."""
    values = np.asarray(values, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _bits(values: Any) -> Any:
    """Numbers as whole numbers of 64 bits."""
    values = np.ascontiguousarray(values)
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64, copy=False)


def of_rows(X: Any, columns: Any, labels: IntArray, scales: FloatArray, first: int = 0) -> int:
    """The digest of examples, the first of which has this number among all.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
    columns : array of int of shape (d,)
        The numbers of its columns.
    labels, scales : arrays of shape (n,)
    first : int
    """
    multipliers = _mix(columns) | np.uint64(1)
    total = 0
    for start in range(0, X.shape[0], _ROWS):
        some = slice(start, min(start + _ROWS, X.shape[0]))
        rows = X[some]
        if sp.issparse(rows):
            sums = np.cumsum(np.append(np.uint64(0), _bits(rows.data) * multipliers[rows.indices]))
            sums = sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]
        else:
            sums = (_bits(rows) * multipliers).sum(axis=1, dtype=np.uint64)
        sums = _mix(sums) + _mix(labels[some]) * np.uint64(3) + _bits(scales[some])
        numbers = np.arange(first + some.start, first + some.stop, dtype=np.uint64)
        total += int(_mix(_mix(sums) ^ _mix(numbers)).sum(dtype=np.uint64))
    return total % 2**64


def of_arrays(arrays: dict[str, Any]) -> str:
    """The digest of arrays with their names, types and shapes."""
    out = blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        out.update(repr((name, array.dtype.str, array.shape)).encode())
        out.update(array.tobytes())
    return out.hexdigest()
