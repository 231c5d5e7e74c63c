"""Chains whose nodes are the rows of one matrix: nothing has to be cut apart and put together."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cornerstep.core.types import FloatArray


class StackedChains(Sequence[Any]):
    """Chains as a sequence of features, node weights and whether they are whole at their ends.

    Parameters
    ----------
    nodes : CSR matrix
        Rows ``ptr[i]:ptr[i + 1]`` are the nodes of chain i.
    ptr : array of n + 1
    weights : array
        Of the nodes.
    ends : bool array of (n, 2), optional
        Whether a chain has the first and the last node of its sequence, or is a piece of it.
    """

    def __init__(
        self,
        nodes: Any,
        ptr: npt.NDArray[np.int64],
        weights: FloatArray,
        ends: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.nodes, self.ptr, self.weights = nodes, ptr, weights
        self.ends = np.ones((ptr.size - 1, 2), bool) if ends is None else ends

    def __len__(self) -> int:
        return self.ptr.size - 1

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            first, last, step = which.indices(len(self))
            if step != 1:
                raise ValueError(f"a slice of chains must have step 1, got {step}")
            ptr = self.ptr[first : max(first, last) + 1]
            rows = slice(ptr[0], ptr[-1])
            ends = self.ends[first : max(first, last)]
            return StackedChains(self.nodes[rows], ptr - ptr[0], self.weights[rows], ends)
        i = operator.index(which)
        if not -len(self) <= i < len(self):
            raise IndexError(f"there are {len(self)} chains, got {i}")
        i %= len(self)
        rows = slice(self.ptr[i], self.ptr[i + 1])
        return self.nodes[rows], self.weights[rows], self.ends[i]
