"""Vectors of the optimiser: atoms that stay sparse, and directions that remember their parts.

A step of a Frank-Wolfe method moves along

    d = v - x   (towards),   d = x - v   (away),   d = v - u   (between),

with v, u vertices of the domain.  A linear map therefore never has to be applied to ``d`` itself:
``M d = scale * M x + M part`` with ``scale`` in {-1, +1, 0}, ``M x`` known from the current state,
and ``part`` as sparse as the atoms are.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cornerstep.core.types import FloatArray, IntArray


class SparseVector:
    """A vector with entries ``values`` at the distinct positions ``indices`` and 0 elsewhere.

    Parameters
    ----------
    indices : array of int
        Positions of the entries, each at most once.
    values : array of float
        The entries.
    size : int
        Length of the vector.
    """

    __slots__ = ("indices", "size", "values")

    def __init__(self, indices: npt.ArrayLike, values: npt.ArrayLike, size: int) -> None:
        self.indices: IntArray = np.asarray(indices, dtype=np.intp)
        self.values: FloatArray = np.asarray(values, dtype=np.float64)
        self.size = size

    def __matmul__(self, other: FloatArray) -> float:
        return float(self.values.dot(other.take(self.indices)))

    def dense(self) -> FloatArray:
        """Return the vector as an array."""
        out = np.zeros(self.size)
        out[self.indices] = self.values
        return out

    def __repr__(self) -> str:
        return f"SparseVector({self.indices.size} of {self.size} entries)"


Vector: TypeAlias = FloatArray | SparseVector


def dense(vector: Vector) -> FloatArray:
    """Return ``vector`` as an array (the array itself if it already is one)."""
    return vector.dense() if isinstance(vector, SparseVector) else vector


def single_entries(indices: IntArray, values: FloatArray, size: int) -> list[SparseVector]:
    """``values[k]`` at ``indices[k]`` and 0 elsewhere, a vector for each k."""
    ends = range(1, indices.size + 1)
    return [SparseVector(indices[k - 1 : k], values[k - 1 : k], size) for k in ends]


def concatenate(parts: list[Vector]) -> Vector:
    """Stack vectors end to end; the result is sparse when every part is."""
    if not all(isinstance(part, SparseVector) for part in parts):
        return np.concatenate([dense(part) for part in parts])
    offset, indices, values = 0, [], []
    for part in parts:
        assert isinstance(part, SparseVector)
        indices.append(part.indices + offset)
        values.append(part.values)
        offset += part.size
    return SparseVector(np.concatenate(indices), np.concatenate(values), offset)


class Direction:
    """``d = scale * x + part``, with ``part`` given by ``values`` at ``indices`` (all, if None).

    Attributes
    ----------
    dense : array
        The direction itself.
    scale : float
        Coefficient of the current point x in it.
    indices, values : array or None, array
        The remaining part, which is what a linear map has to be applied to.
    """

    __slots__ = ("dense", "indices", "scale", "values")

    def __init__(
        self, dense: FloatArray, scale: float, indices: IntArray | None, values: FloatArray
    ) -> None:
        self.dense = dense
        self.scale = scale
        self.indices = indices
        self.values = values

    @classmethod
    def towards(cls, x: FloatArray, v: Vector) -> Direction:
        """``d = v - x``."""
        if isinstance(v, SparseVector):
            d = -x
            d[v.indices] += v.values
            return cls(d, -1.0, v.indices, v.values)
        return cls(v - x, -1.0, None, v)

    @classmethod
    def away(cls, x: FloatArray, v: Vector) -> Direction:
        """``d = x - v``."""
        if isinstance(v, SparseVector):
            d = x.copy()
            d[v.indices] -= v.values
            return cls(d, 1.0, v.indices, -v.values)
        return cls(x - v, 1.0, None, -v)

    @classmethod
    def between(cls, v: Vector, u: Vector) -> Direction:
        """``d = v - u``; entries that v and u share cancel and leave the part."""
        if isinstance(v, SparseVector) and isinstance(u, SparseVector):
            d = np.zeros(v.size)
            d[v.indices] = v.values
            d[u.indices] -= u.values
            indices = d.nonzero()[0]
            return cls(d, 0.0, indices, d[indices])
        d = dense(v) - dense(u)
        return cls(d, 0.0, None, d)

    @classmethod
    def inside(cls, block: slice, part: FloatArray, size: int) -> Direction:
        """``part`` on the coordinates of ``block``, 0 elsewhere."""
        d = np.zeros(size)
        d[block] = part
        indices = d.nonzero()[0]
        return cls(d, 0.0, indices, d[indices])
