"""The best labeling of a graph: ``max over y of sum_i nodes[i, y_i] + sum_e pairs[e, y_a, y_b]``.

Exact on forests (max-product), for binary labels whose pairs attract (a minimum cut) and where
there are few labelings (enumeration).  Otherwise the local relaxation

``max over mu >= 0:  sum_a mu_i(a) = 1,  sum_b mu_e(a, b) = mu_i(a),  sum_a mu_e(a, b) = mu_j(b)``

is solved by HiGHS: exact if its answer is a labeling, an upper bound if it is fractional.

References
----------
.. [1] V. Kolmogorov, R. Zabih. What energy functions can be minimized via graph cuts? IEEE
   Transactions on Pattern Analysis and Machine Intelligence 26, 147-159, 2004.
.. [2] M. J. Wainwright, M. I. Jordan. Graphical models, exponential families, and variational
   inference. Foundations and Trends in Machine Learning 1, 1-305, 2008.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from cornerstep.core.rounding import EPSILON
from cornerstep.core.types import FloatArray
from cornerstep.structured.compiled.parts import Factor, Shapes

_FEW = 16  # 2 to this power labelings are enumerated
HOW = ("", "independent", "tree", "enumeration", "messages")  # as compiled decoding says it
_WHOLE = 1e-6  # marginals so close to 0 and 1 are a labeling
_ROUNDING = 64 * EPSILON  # of the attraction of an edge, relative to its scores
_FLOOR = 1e-13  # residual capacities so small, relative to the largest, are rounding

Marginals = tuple[FloatArray, FloatArray]


class Inference:
    """Decodes graphs of one shape.

    Parameters
    ----------
    n_nodes : int
    edges : int array of shape (e, 2)
    n_labels : int
    used : Counter
        Counts which algorithm answered.
    """

    def __init__(
        self, n_nodes: int, edges: npt.NDArray[np.int64], n_labels: int, used: Counter[str]
    ) -> None:
        self.n_nodes, self.edges, self.n_labels = n_nodes, edges, n_labels
        self.used = used
        self._lock = threading.Lock()
        self._program: Any = None
        self.shapes = shapes_of([(n_nodes, edges)], n_labels, np.zeros(1, np.int64))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_program"] = state["_lock"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def marginals(self, y: Any) -> Marginals:
        """Indicators of a labeling, or the marginals themselves if it is a fractional one."""
        if isinstance(y, tuple):
            return y
        y = np.asarray(y, np.int64)
        nodes = np.zeros((self.n_nodes, self.n_labels))
        nodes[np.arange(self.n_nodes), y] = 1.0
        pairs = np.zeros((len(self.edges), self.n_labels, self.n_labels))
        pairs[np.arange(len(self.edges)), y[self.edges[:, 0]], y[self.edges[:, 1]]] = 1.0
        return nodes, pairs

    def best(self, nodes: FloatArray, pairs: FloatArray, relaxed: bool = False) -> Any:
        """The best labeling; with ``relaxed`` marginals where the relaxation is fractional."""
        from cornerstep.structured.compiled.graph import UNKNOWN, best_of

        if self._attracts(pairs):
            self.used["min-cut"] += 1
            return self._cut(nodes, pairs)
        labels, tables = np.empty(self.n_nodes, np.int64), np.empty((2, self.table_size))
        flat = np.ascontiguousarray(pairs).ravel()
        how = best_of(nodes.copy(), self.n_nodes, flat, 0, self.shapes, 0, tables, labels)
        if how == UNKNOWN:
            return self._relaxed(nodes, pairs, relaxed)
        self.used[HOW[how]] += 1
        return labels

    @property
    def table_size(self) -> int:
        """How many labelings are enumerated at most."""
        return self.n_labels**self.n_nodes if self.shapes.few[0] else 0

    def _attracts(self, pairs: FloatArray) -> bool:
        """Whether there are cycles, two labels, and edges that attract but for rounding."""
        if self.n_labels != 2 or self.shapes.forest[0] or not pairs.any():
            return False
        rounding = _ROUNDING * np.abs(pairs).sum(axis=(1, 2))
        return bool((_attraction(pairs) >= -rounding).all())

    def _gains(self, nodes: FloatArray, pairs: FloatArray) -> FloatArray:
        """What ``y_i = 1`` adds to the score, if all products ``y_a y_b`` are counted apart."""
        gains = nodes[:, 1] - nodes[:, 0]
        np.add.at(gains, self.edges[:, 0], pairs[:, 1, 0] - pairs[:, 0, 0])
        np.add.at(gains, self.edges[:, 1], pairs[:, 0, 1] - pairs[:, 0, 0])
        return gains

    def _cut(self, nodes: FloatArray, pairs: FloatArray) -> Any:
        """``y_a y_b = y_b - (1 - y_a) y_b``: the cut pays where b is the source's and a is not."""
        from cornerstep.structured.compiled.graph import minimum_cut

        n, (a, b) = self.n_nodes, self.edges.T
        gains, joint = self._gains(nodes, pairs), np.maximum(_attraction(pairs), 0.0)
        np.add.at(gains, b, joint)
        source, sink, everyone = np.full(n, n), np.full(n, n + 1), np.arange(n)
        tails = np.concatenate([source, everyone, b])
        heads = np.concatenate([everyone, sink, a])
        capacities = np.concatenate([np.maximum(gains, 0), np.maximum(-gains, 0), joint])
        k = tails.size
        tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
        order = np.argsort(tails, kind="stable")
        rank = np.empty(2 * k, np.int64)
        rank[order] = np.arange(2 * k)
        twins = rank[np.concatenate([np.arange(k, 2 * k), np.arange(k)])][order]
        starts = np.searchsorted(tails[order], np.arange(n + 3)).astype(np.int64)
        room = np.concatenate([capacities, np.zeros(k)])[order]
        inside = np.empty(n + 2, np.bool_)
        floor = _FLOOR * float(room.max())
        minimum_cut(n + 2, starts, heads[order].astype(np.int64), twins, room, floor, inside)
        return inside[:n].astype(np.int64)

    def _relaxed(self, nodes: FloatArray, pairs: FloatArray, relaxed: bool) -> Any:
        costs = -np.concatenate([nodes.ravel(), pairs.ravel()])
        with self._lock:
            if self._program is None:
                self._program = self._local_polytope()
            mu = self._program.minimize(costs)
        split = self.n_nodes * self.n_labels
        single = np.maximum(mu[:split].reshape(self.n_nodes, self.n_labels), 0.0)
        whole = bool((np.abs(mu - mu.round()) <= _WHOLE).all())
        self.used["lp" if whole else "lp, fractional"] += 1
        if whole or not relaxed:
            return single.argmax(axis=1)
        return single, np.maximum(mu[split:].reshape(-1, self.n_labels, self.n_labels), 0.0)

    def _local_polytope(self) -> Any:
        from cornerstep.domains.lp import LinearProgram

        n, m, e = self.n_nodes, self.n_labels, len(self.edges)
        eye, row = sp.eye_array(m), np.ones((1, m))
        pick = [
            sp.coo_array((np.ones(e), (np.arange(e), ends)), shape=(e, n)) for ends in self.edges.T
        ]
        matrix = sp.block_array(
            [
                [sp.kron(sp.eye_array(n), row), None],
                [-sp.kron(pick[0], eye), sp.kron(sp.eye_array(e), sp.kron(eye, row))],
                [-sp.kron(pick[1], eye), sp.kron(sp.eye_array(e), sp.kron(row, eye))],
            ]
        )
        right = np.concatenate([np.ones(n), np.zeros(2 * e * m)])
        size = n * m + e * m * m
        return LinearProgram(matrix, right, right, np.zeros(size), np.ones(size))


def _attraction(pairs: FloatArray) -> FloatArray:
    """What two equal labels at the ends of an edge gain over different ones."""
    return pairs[:, 0, 0] + pairs[:, 1, 1] - pairs[:, 0, 1] - pairs[:, 1, 0]


def shapes_of(
    graphs: Sequence[tuple[int, npt.NDArray[np.int64]]],
    n_labels: int,
    which: npt.NDArray[np.int64],
) -> Shapes:
    """Graphs, each so many nodes and edges, for compiled decoding; ``which`` each example has."""
    roots = [_rooted(n, edges) for n, edges in graphs]
    node_ptr, edge_ptr = (
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        for sizes in ([n for n, _ in graphs], [len(edges) for _, edges in graphs])
    )
    order, parent, link, forward = (
        np.concatenate(column) for column in zip(*(root[1:] for root in roots), strict=True)
    )
    ends = np.concatenate([edges for _, edges in graphs])
    forest = np.array([root[0] for root in roots])
    offsets = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
    tails = ends.min(axis=1) + offsets
    rank = np.argsort(tails, kind="stable")
    arcs = np.column_stack([rank, ends.max(axis=1)[rank], (ends[:, 0] < ends[:, 1])[rank]])
    arc_ptr = np.searchsorted(tails[rank], np.arange(node_ptr[-1] + 1)).astype(np.int64)
    few = (np.diff(node_ptr) * np.log2(n_labels) <= _FEW) & ~forest
    return Shapes(
        which, node_ptr, edge_ptr, ends, forest, few, order, parent, link, forward, arc_ptr,
        arcs.astype(np.int64),
    )  # fmt: skip


def factor_of(
    rows: Any, counts: Any, width: int, base: int, by_feature: int, by_label: int
) -> Factor:
    """The parts of rows of features, so many per example; see :class:`Factor`."""
    csr, counts = sp.csr_array(rows, dtype=np.float64), np.asarray(counts, np.int64)
    first = np.cumsum(counts) - counts
    return Factor(
        first, counts, csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data, width,
        base, by_feature, by_label,
    )  # fmt: skip


def _rooted(n: int, edges: npt.NDArray[np.int64]) -> tuple[bool, Any, Any, Any, Any]:
    """Whether there is no cycle; then an order from the roots on, parents and links."""
    parent, link = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    forward = np.zeros(n, np.bool_)
    ones = np.ones(len(edges), np.int64)
    graph = sp.coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    count, which = connected_components(graph, directed=False)
    if len(edges) != n - count:
        return False, np.zeros(n, np.int64), parent, link, forward
    order = []
    for root in np.unique(which, return_index=True)[1]:
        visited, before = breadth_first_order(graph, int(root), directed=False)
        order.append(visited)
        inner = visited[1:]
        parent[inner] = before[inner]
    for e, (a, b) in enumerate(edges):
        child = b if parent[b] == a else a
        link[child], forward[child] = e, child == b
    return True, np.concatenate(order).astype(np.int64), parent, link, forward
