"""The named records that kernels of chains take: the data, the dual state, and scratch memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Shape(NamedTuple):
    """What the weights are made of; see :mod:`cornerstep.structured.compiled.chain`."""

    n_features: int  # those of the first and the last node that stand for biases included
    n_labels: int
    transitions: int  # 1 if there is T


class Chains(NamedTuple):
    """Encoded chains: the nodes of chain i are the rows ``ptr[i]:ptr[i + 1]`` of a CSR matrix."""

    ptr: Any
    indptr: Any
    indices: Any
    values: Any
    truth: Any  # each node's label
    costs: Any  # what another label costs there
    shape: Shape
    weights: Any  # of the chains in the mean over them
    total: float  # of the weights
    walls: Any  # what constraints add to scores, 0 or -inf: see `no_walls`
    ends: Any  # (n, 2): whether a chain has the first and the last node of its sequence

    @property
    def n(self) -> int:
        """How many chains."""
        return len(self.ptr) - 1


def no_walls(n_labels: int) -> Any:
    """The walls of chains without constraints: no rows.

    With constraints there are a row of pairs for each label, then one of first and one of last
    labels; -inf where they are forbidden.
    """
    return np.zeros((0, n_labels))


class Planes(NamedTuple):
    """Blocks as convex combinations of labelings, with room for so many each.

    Plane k of block i has the labels ``labels[room * ptr[i] + k * length:][:length]``.
    """

    labels: Any
    weights: Any  # (n, room): 0 if a plane is only remembered
    losses: Any  # (n, room)
    counts: Any  # planes that each block has


class State(NamedTuple):
    """What a step changes besides the planes.

    ``numbers = (t, l, late l)`` counts the steps and keeps l; ``v`` and
    ``late l`` make the weighted average of all points so far, ``w - v / s(t)``,
    ``s(t) = t (t + 1)/2``.
    """

    w: Any
    v: Any
    numbers: Any
    links: Any  # T, a view of w


class Scratch(NamedTuple):
    """What a visit of a block overwrites."""

    theta: Any
    closed: Any  # T with walls, and a row of labels
    moved: Any  # labels
    found: Any
    slopes: Any


def scratch(size: int, n_labels: int, room: int) -> Scratch:
    """What visits of blocks overwrite: of at most so many nodes, labels and planes."""
    theta, closed = np.empty((size, n_labels)), np.empty((n_labels + 1, n_labels))
    found, moved = np.empty(size, np.int16), np.empty(n_labels, np.int64)
    return Scratch(theta, closed, moved, found, np.empty(room))
