"""The box; with lower = 0 and upper = 1 the cube."""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.matrix import as_vector
from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray
from cornerstep.domains.base import (
    INSIDE,
    Constraints,
    ratio_test,
    require_size,
    snap_to_bounds,
    within_bounds,
)


class Box:
    r"""The box, :math:`\{l \le x \le u\}`, coordinate by coordinate.

    Parameters
    ----------
    lower, upper : array of shape (n,), or one of them a number
        Finite bounds with lower <= upper.
    """

    def __init__(self, lower: Any, upper: Any) -> None:
        shapes = np.shape(lower), np.shape(upper)
        if () not in shapes and shapes[0] != shapes[1]:
            raise ValueError(f"lower and upper must match, got shapes {shapes[0]} and {shapes[1]}")
        low, high = np.broadcast_arrays(np.atleast_1d(lower), np.atleast_1d(upper))
        self.lower = as_vector(low, "lower").copy()
        self.upper = as_vector(high, "upper").copy()
        self.size = require_size(self.lower.size, "the length of lower and upper")
        width = self.upper - self.lower
        if width.min() < 0:
            j = int(width.argmin())
            raise ValueError(
                f"lower must not exceed upper: the box is empty at coordinate {j}, "
                f"[{self.lower[j]:g}, {self.upper[j]:g}]"
            )
        self.diameter = norm(width)
        is_cube = not self.lower.any() and width.max() == width.min() > 0
        self.grid = float(width[0]) if is_cube else None

    def __repr__(self) -> str:
        return f"Box(size={self.size})"

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper."""
        return self.lower, self.upper

    @property
    def constraints(self) -> Constraints:
        """The bounds."""
        none = np.zeros(0)
        return Constraints(self.lower, self.upper, np.zeros((0, self.size)), none, none)

    @property
    def n_atoms(self) -> int:
        """2 to the number of coordinates that are not fixed."""
        return 1 << int(np.count_nonzero(self.upper > self.lower))

    def atom(self, i: int) -> FloatArray:
        """The vertex whose coordinates are at their upper bounds where i has bits."""
        free = np.flatnonzero(self.upper > self.lower)
        bits = np.frombuffer(int(i).to_bytes(-(-free.size // 8), "little"), np.uint8)
        out = self.lower.copy()
        high = free[np.unpackbits(bits, count=free.size, bitorder="little").astype(bool)]
        out[high] = self.upper[high]
        return out

    def atom_scores(self, indices: Any, gradient: FloatArray) -> FloatArray:
        """``<gradient, atom(i)>`` for each i in indices."""
        return np.array([self.atom(i) @ gradient for i in indices])

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """The lower bound where the gradient is positive, else the upper."""
        return np.where(gradient > 0, self.lower, self.upper)

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> FloatArray:
        """The same on coordinates strictly inside; coordinates at a bound stay."""
        stays = (x == self.lower) | (x == self.upper)
        return np.where(stays, x, self.lmo(gradient))

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until a coordinate reaches a bound."""
        return ratio_test(x, d, self.lower, self.upper)

    def snap(self, x: FloatArray) -> None:
        """Put coordinates within rounding of a bound onto it."""
        snap_to_bounds(x, self.lower, self.upper)

    def start(self) -> FloatArray:
        """The lower corner."""
        return self.lower.copy()

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether the bounds hold up to tol, relative to the larger bound of each coordinate."""
        return within_bounds(x, self.lower, self.upper, tol)

    def slip(self, x: FloatArray) -> FloatArray:
        """What is beyond the bounds."""
        return np.abs(x - self.project(x))

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``sum weights_i max(upper_i - x_i, x_i - lower_i)``."""
        return float(weights @ np.maximum(self.upper - x, x - self.lower))

    def project(self, y: FloatArray) -> FloatArray:
        """``clip(y, lower, upper)``."""
        return np.clip(y, self.lower, self.upper)

    def facial_constant(self, s: int) -> float:
        """The s largest ``1 / width²``, summed: s for the unit cube."""
        width = self.upper - self.lower
        inverse = 1.0 / np.sort(width[width > 0])
        return float((inverse[:s] * inverse[:s]).sum())
