"""The named records that kernels of chains take: the data, the dual state, and scratch memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Shape(NamedTuple):
    """What the weights are made of; see :mod:`cornerstep.structured.compiled.chain`."""

    n_features: int
    n_labels: int
    biases: int  # 1 if there are start and end
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

    @property
    def n(self) -> int:
        """How many chains."""
        return len(self.ptr) - 1


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


class Marginals(NamedTuple):
    """A block as weights of labels at nodes and of pairs of neighbours, summed over the chain."""

    nodes: Any
    pairs: Any
    touched: Any  # the positions in pairs that are not 0


class Route(NamedTuple):
    """A direction: label ``labels[e]`` at node ``nodes[e]`` moves by ``moved[e]``; so do pairs."""

    nodes: Any
    labels: Any
    moved: Any
    pairs: Any
    linked: Any


class Scratch(NamedTuple):
    """What a visit of a block overwrites."""

    theta: Any
    dots: Any
    mean: Marginals
    route: Route
    found: Any
    leaving: Any
    slopes: Any


def scratch(size: int, n_labels: int, room: int) -> Scratch:
    """What visits of blocks overwrite: of at most so many nodes, labels and planes."""
    most = max(2 * size, size * n_labels)  # entries of a route
    pairs = 2 * size + n_labels**2
    return Scratch(
        np.empty((size, n_labels)),
        np.empty(n_labels),
        Marginals(
            np.empty((size, n_labels)), np.zeros(n_labels**2), np.empty(n_labels**2, np.int64)
        ),
        Route(
            np.empty(most, np.int64),
            np.empty(most, np.int64),
            np.empty(most),
            np.empty(pairs, np.int64),
            np.empty(pairs),
        ),
        np.empty(size, np.int16),
        np.empty(size, np.int16),
        np.empty(room),
    )
