"""Flows through networks: paths, transport plans, and flows with capacities.

A flow is a number per edge, what enters a node leaving it again but for the node's supply.

References
----------
.. [1] L. R. Ford, D. R. Fulkerson. Flows in networks. Princeton University Press, 1962.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.matrix import as_vector
from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector
from cornerstep.domains.base import (
    INSIDE,
    TIGHT,
    Constraints,
    ratio_test,
    reach_of_nonnegative,
    snap_to_bounds,
    sum_step,
)
from cornerstep.domains.polytope import Polytope


class FlowPolytope(Polytope):
    r"""The flows through a network, :math:`\{0 \le x \le \text{capacity},\ N x = \text{supply}\}`.

    N has a row per node: 1 for edges that leave it, -1 for edges that enter.  Both oracles are
    minimum-cost flows, by HiGHS.

    Parameters
    ----------
    edges : array of int of shape (m, 2)
        From which node to which, numbered from 0.
    supply : array of shape (n,)
        What each node puts in (negative: takes out); the sum is 0.
    capacity : float or array of shape (m,), default=1
        Infinite entries are allowed where no cycle runs through them.
    """

    def __init__(self, edges: Any, supply: Any, capacity: Any = 1.0) -> None:
        supplies = as_vector(supply, "supply")
        self.edges = _edges(edges, supplies.size)
        if abs(float(supplies.sum())) > TIGHT * float(np.abs(supplies).sum()):
            raise ValueError(f"supply must sum to 0, got {supplies.sum():g}")
        count = len(self.edges)
        if np.shape(capacity) not in ((), (count,)):
            raise ValueError(
                f"capacity must be a number or of length {count}, got {np.shape(capacity)}"
            )
        caps = np.broadcast_to(np.asarray(capacity, dtype=np.float64), count)
        if not (caps >= 0).all():
            raise ValueError(f"capacity must be >= 0, got {caps.min():g}")
        whole = bool((caps == 1).all()) and bool((supplies == np.rint(supplies)).all())
        super().__init__(
            A_eq=_incidence(self.edges, supplies.size), b_eq=supplies, lower=0.0, upper=caps,
            binary_vertices=whole,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"FlowPolytope({self.b_eq.size} nodes, {self.size} edges)"


class Transport(FlowPolytope):
    r"""The transport plans, :math:`\{X \ge 0,\ X 1 = \text{supply},\ X^\top 1 = \text{demand}\}`.

    Matrices flattened row by row; with supplies and demands of 1 they are those of
    :class:`Birkhoff`, whose oracle is quicker.

    Parameters
    ----------
    supply : array of shape (n,)
        The sums of the rows, not negative.
    demand : array of shape (m,)
        The sums of the columns, not negative; in all as much as the supply.
    """

    def __init__(self, supply: Any, demand: Any) -> None:
        rows, columns = as_vector(supply, "supply"), as_vector(demand, "demand")
        for name, sums in (("supply", rows), ("demand", columns)):
            if not sums.size or sums.min() < 0 or not sums.any():
                raise ValueError(f"{name} must be numbers >= 0, not all 0")
        total, asked = float(rows.sum()), float(columns.sum())
        if abs(total - asked) > INSIDE * total:
            raise ValueError(
                f"supply and demand must have the same sum, got {total:g} and {asked:g}"
            )
        columns = columns * (total / asked)  # the same to rounding
        self.shape = rows.size, columns.size
        sides = np.indices(self.shape).reshape(2, -1) + np.array([[0], [rows.size]])
        caps = np.minimum.outer(rows, columns).ravel()
        super().__init__(sides.T, np.concatenate([rows, -columns]), caps)
        # |X - Y|² is at most the largest entry times |X - Y|_1
        self.diameter = min(
            self.diameter or np.inf, float(np.sqrt(caps.max()) * np.sqrt(2 * total))
        )

    def __repr__(self) -> str:
        return f"Transport{self.shape}"

    @property
    def constraints(self) -> Constraints:
        """The sums, which imply the capacities."""
        return super().constraints._replace(upper=np.full(self.size, np.inf))


class PathPolytope:
    """The unit flows from one node to another through a graph without cycles.

    ``{x >= 0, N x = e_source - e_sink}``; the vertices are the paths, the oracle is the shortest
    path, by dynamic programming over all nodes of the same depth at a time.

    Parameters
    ----------
    edges : array of int of shape (m, 2)
        From which node to which, numbered from 0.
    source, sink : int
        Different nodes.
    """

    grid = 1.0
    cheap_faces = False

    def __init__(self, edges: Any, source: int, sink: int) -> None:
        self.edges = _edges(edges)
        self.size = len(self.edges)
        self.n_nodes = int(self.edges.max()) + 1
        for name, node in (("source", source), ("sink", sink)):
            if int(node) != node or not 0 <= node < self.n_nodes:
                raise ValueError(f"{name} must be a node from 0 to {self.n_nodes - 1}, got {node}")
        if source == sink:
            raise ValueError(f"source and sink must be different nodes, got {source} twice")
        self.source, self.sink = int(source), int(sink)
        self._layers = self._edges_by_depth()
        incidence = _incidence(self.edges, self.n_nodes)
        self._incidence = incidence
        self._supply = np.zeros(self.n_nodes)
        self._supply[[self.source, self.sink]] = 1.0, -1.0
        if not np.isfinite(self._distances(np.zeros(self.size))[0][self.sink]):
            raise ValueError(f"edges must have a path from source {source} to sink {sink}")
        self._longest = -self._distances(-np.ones(self.size))[0][self.sink]
        self.diameter = float(np.sqrt(2 * self._longest))

    def __repr__(self) -> str:
        return f"PathPolytope({self.n_nodes} nodes, {self.size} edges)"

    @property
    def constraints(self) -> Constraints:
        """No flow below 0, and the balances."""
        bounds = np.zeros(self.size), np.full(self.size, np.inf)
        return Constraints(*bounds, self._incidence, self._supply, self._supply)

    def _edges_by_depth(self) -> list[IntArray]:
        """The edges into all nodes of a depth (most edges from a first node), depth by depth."""
        tails, heads = self.edges.T
        depth, waiting = np.zeros(self.n_nodes, dtype=np.intp), np.bincount(
            heads, minlength=self.n_nodes)  # fmt: skip
        ready = np.flatnonzero(waiting == 0)
        order = np.argsort(tails, kind="stable")
        first = np.searchsorted(tails[order], np.arange(self.n_nodes + 1))
        passed, level = 0, 0
        while ready.size:
            depth[ready] = level
            passed += ready.size
            leaving = np.concatenate([order[first[i] : first[i + 1]] for i in ready])
            np.subtract.at(waiting, heads[leaving], 1)
            level += 1
            ready = np.unique(heads[leaving])
            ready = ready[waiting[ready] == 0]
        if passed < self.n_nodes:
            raise ValueError("edges must have no cycle; FlowPolytope takes graphs that do")
        by_depth = np.argsort(depth[heads], kind="stable")
        ends = np.searchsorted(depth[heads][by_depth], np.arange(1, level + 1))
        return np.split(by_depth, ends)[1:-1]

    def _distances(self, cost: FloatArray) -> tuple[FloatArray, IntArray]:
        """The cost of the cheapest path to each node, and its last edge."""
        tails, heads = self.edges.T
        distance = np.full(self.n_nodes, np.inf)
        distance[self.source] = 0.0
        last = np.full(self.n_nodes, -1)
        for layer in self._layers:
            ends, sums = heads[layer], distance[tails[layer]] + cost[layer]
            np.minimum.at(distance, ends, sums)
            best = sums == distance[ends]
            last[ends[best]] = layer[best]
        return distance, last

    def _cheapest(self, cost: FloatArray) -> SparseVector:
        last, path, node = self._distances(cost)[1], [], self.sink
        while node != self.source:
            path.append(int(last[node]))
            node = int(self.edges[path[-1], 0])
        return SparseVector(path, np.ones(len(path)), self.size)

    def lmo(self, gradient: FloatArray) -> SparseVector:
        """The cheapest path."""
        return self._cheapest(gradient)

    def in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> SparseVector:
        """The cheapest path along edges that x uses."""
        return self._cheapest(np.where(x > 0, gradient, np.inf))

    def max_step(self, x: FloatArray, d: FloatArray) -> float:
        """Until an edge reaches 0, or a node's balance is off."""
        step, growth = ratio_test(x, d, 0.0, 1.0), self._incidence @ d
        if not growth.any():
            return step
        deviation = float(np.abs(self._incidence @ x - self._supply).max())
        return sum_step(step, deviation, float(np.abs(growth).max()), TIGHT)

    def snap(self, x: FloatArray) -> None:
        """Put entries within rounding of 0 or 1 onto it; restore the balances, source to sink."""
        snap_to_bounds(x, 0.0, 1.0)
        if np.abs(self._incidence @ x - self._supply).max() > 2 * INSIDE:
            return
        tails, heads = self.edges.T
        leaving = np.bincount(tails, x, self.n_nodes)
        entering = np.zeros(self.n_nodes)
        entering[self.source] = 1.0
        for layer in self._layers:
            sums = leaving[tails[layer]]
            shares = np.divide(x[layer], sums, out=np.zeros(layer.size), where=sums > 0)
            x[layer] = shares * entering[tails[layer]]
            np.add.at(entering, heads[layer], x[layer])

    def start(self) -> SparseVector:
        """Some path."""
        return self._cheapest(np.zeros(self.size))

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether x >= 0 and all balances are right up to tol."""
        return bool(x.min() >= -tol and np.abs(self._incidence @ x - self._supply).max() <= tol)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """``<weights, x> + max <weights, v>``, by a longest path."""
        return reach_of_nonnegative(self, weights, x)

    def lmo_error(self, gradient: FloatArray, vertex: SparseVector) -> float:
        """Paths are compared by sums of their costs."""
        sizes = np.abs(gradient)
        return 2 * gamma(int(self._longest) + 1) * float(self.lmo(-sizes) @ sizes)

    def facial_constant(self, s: int) -> float:
        """``H_s = s``."""
        return float(min(s, self.size))


def _edges(edges: Any, n_nodes: int | None = None) -> IntArray:
    """Pairs of nodes as an array, or an error that says what they must be."""
    given = np.asarray(edges)
    if given.ndim != 2 or given.shape[1] != 2 or not len(given):
        raise ValueError(f"edges must be an array of shape (m, 2), got shape {given.shape}")
    out = given.astype(np.intp)
    if (out != given).any() or out.min() < 0 or (n_nodes is not None and out.max() >= n_nodes):
        most = "" if n_nodes is None else f" below {n_nodes}, the number of supplies"
        raise ValueError(f"edges must be pairs of node numbers >= 0{most}")
    if (out[:, 0] == out[:, 1]).any():
        raise ValueError("edges must connect different nodes")
    return out


def _incidence(edges: IntArray, n_nodes: int) -> Any:
    """1 for edges that leave a node, -1 for those that enter."""
    tails, heads = edges.T
    numbers = np.arange(len(edges))
    entries = np.repeat([1.0, -1.0], len(edges))
    where = np.concatenate([tails, heads]), np.concatenate([numbers, numbers])
    return sp.csr_array((entries, where), shape=(n_nodes, len(edges)))
