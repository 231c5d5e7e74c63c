"""Graphs: ``w'phi(x, y) = sum_i <W[:, y_i], x_i> + sum_e <V[:, y_a, y_b], f_e>``, e = (a, b)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from cornerstep.core.types import FloatArray
from cornerstep.structured.compiled.parts import Parts
from cornerstep.structured.models.base import shortened
from cornerstep.structured.models.cut import CutModel
from cornerstep.structured.models.inference import Inference, factor_of, shapes_of

_ENUMERABLE = 5_000


class Graph(NamedTuple):
    """An example: node features (N, d), edges (E, 2), edge features (E, q), node weights (N,)."""

    nodes: FloatArray
    edges: npt.NDArray[np.int64]
    features: FloatArray
    weights: FloatArray


class GraphModel(BaseEstimator, CutModel):
    r"""Labels on the nodes of a graph, with features of nodes and edges, and the Hamming loss.

    .. math:: \sum_i \langle W_{y_i}, x_i \rangle + \sum_{e = ab} \langle V_{y_a y_b}, f_e \rangle

    An example x is a tuple ``(nodes, edges)``, ``(nodes, edges, edge_features)`` or
    ``(nodes, edges, edge_features, node_weights)``: an array (N, d), an integer array (E, 2), an
    array (E, q) (by default, or if None, ones with q = 1) and an array (N,).  Edges are
    directed: V[:, a, b] is for label a at the first node and b at the second.  A labeling y is a
    sequence of N labels.

    Decoding is exact for forests (max-product), for two labels whose edges attract (a minimum cut)
    and for up to 2**16 labelings (enumeration).  Otherwise it is the linear relaxation
    through HiGHS.  Where that is fractional, training uses the fractional answer, so that objective
    and certificate are those of the relaxed problem, an upper bound; predictions are rounded.
    ``inference_`` says how often each was used.

    Parameters
    ----------
    normalize : bool, default=True
        Whether the loss is divided by the sum of the node weights (which are 1 if not given).
    labels : sequence, optional
        All labels there are; by default those of the training data.
    attractive : bool, default=False
        Allow only weights whose edges attract, ``V[:, 0, 0] + V[:, 1, 1] >= V[:, 0, 1] +
        V[:, 1, 0]``, so that every decoding is a minimum cut.  For two labels, edge features >= 0
        and ``solver="extragradient"``, which solves the problem with this constraint.

    Attributes
    ----------
    labels_ : array of shape (m,)
    n_features_, n_edge_features_, size : int
    inference_ : Counter
        How often 'independent', 'tree', 'min-cut', 'enumeration', 'lp' or 'lp, fractional' decoded.
    """

    def __init__(
        self,
        normalize: bool = True,
        labels: Sequence[Any] | None = None,
        attractive: bool = False,
    ) -> None:
        self.normalize = normalize
        self.labels = labels
        self.attractive = attractive

    def prepare(self, X: Any, Y: Any) -> None:
        given = Y if self.labels is None else [self.labels]
        self.labels_ = np.unique(np.concatenate([np.asarray(y).ravel() for y in given]))
        first = self._graph(X[0], "X[0]", sized=False)
        self.n_features_, self.n_edge_features_ = first.nodes.shape[1], first.features.shape[1]
        m = self.labels_.size
        if self.attractive and m != 2:
            raise ValueError(f"attractive=True needs two labels, got {m}: {self.labels_}")
        self.size = m * self.n_features_ + m * m * self.n_edge_features_
        self.inference_: Counter[str] = Counter()
        self._shapes: dict[Any, Inference] = {}

    def check(self, X: Any, Y: Any = None) -> None:
        for i, x in enumerate(X):
            graph = self._graph(x, f"X[{i}]")
            if self.attractive and graph.features.min(initial=0.0) < 0:
                raise ValueError(
                    f"attractive=True needs edge features >= 0, X[{i}] has {graph.features.min():g}"
                )
            if Y is not None:
                self._codes(Y[i], graph, f"Y[{i}]")

    def _graph(self, x: Any, name: str, sized: bool = True) -> Graph:
        if not isinstance(x, tuple) or not 2 <= len(x) <= 4:
            raise ValueError(
                f"{name} must be (nodes, edges), (nodes, edges, edge_features) or (nodes, edges, "
                f"edge_features, node_weights), got {type(x).__name__}"
            )
        nodes = np.asarray(x[0], dtype=np.float64)
        edges = _pairs(x[1], name)
        features = (
            np.ones((len(edges), 1)) if len(x) < 3 or x[2] is None else np.asarray(x[2], float)
        )
        weights = np.ones(len(nodes)) if len(x) < 4 else np.asarray(x[3], float)
        if nodes.ndim != 2 or len(nodes) == 0:
            raise ValueError(f"{name} must have nodes of shape (N, d), N >= 1, got {nodes.shape}")
        if features.ndim != 2 or len(features) != len(edges):
            raise ValueError(
                f"{name} must have features for each of its {len(edges)} edges, "
                f"got shape {features.shape}"
            )
        if len(edges) and not (edges.min() >= 0 and edges.max() < len(nodes)):
            raise ValueError(f"{name} must have edges between nodes 0 to {len(nodes) - 1}")
        if (edges[:, 0] == edges[:, 1]).any():
            raise ValueError(f"{name} must have edges between different nodes")
        fine = (weights >= 0) & np.isfinite(weights)
        if weights.shape != (len(nodes),) or not fine.all():
            raise ValueError(f"{name} must have a finite node weight >= 0 for each of its nodes")
        if not (np.isfinite(nodes).all() and np.isfinite(features).all()):
            raise ValueError(f"{name} must be finite, got NaN or infinity")
        if sized and nodes.shape[1] != self.n_features_:
            raise ValueError(
                f"{name} must have {self.n_features_} node features, got {nodes.shape[1]}"
            )
        if sized and features.shape[1] != self.n_edge_features_:
            raise ValueError(
                f"{name} must have {self.n_edge_features_} edge features, got {features.shape[1]}"
            )
        return Graph(nodes, edges, features, weights)

    def _codes(self, y: Any, graph: Graph, name: str) -> npt.NDArray[np.int64]:
        labels = np.asarray(y)
        if labels.shape != (len(graph.nodes),):
            raise ValueError(
                f"{name} must have a label for each of the {len(graph.nodes)} nodes, "
                f"got shape {labels.shape}"
            )
        codes = np.minimum(np.searchsorted(self.labels_, labels), self.labels_.size - 1)
        wrong = np.flatnonzero(self.labels_[codes] != labels)
        if wrong.size:
            raise ValueError(
                f"{name} has the label {labels[wrong[0]].item()!r}, which is not one of the "
                f"model's {self.labels_.size} labels"
            )
        return codes

    def encode_parts(self, X: Sequence[Any], Y: Sequence[Any]) -> Parts:
        """The examples with their labelings, for compiled decoding and steps."""
        graphs = [self._graph(x, f"X[{i}]") for i, x in enumerate(X)]
        shapes = [self._inference(graph) for graph in graphs]
        known = {id(shape): (k, shape) for k, shape in enumerate(dict.fromkeys(shapes))}
        which = np.array([known[id(shape)][0] for shape in shapes])
        m, d = self.labels_.size, self.n_features_
        n_nodes, n_edges = ([len(graph[k]) for graph in graphs] for k in (0, 1))
        nodes = factor_of(np.concatenate([g.nodes for g in graphs]), n_nodes, m, 0, m, 1)
        features = np.concatenate([g.features for g in graphs])
        edges = factor_of(features, n_edges, m * m, m * d, m * m, 1)
        truth = [self._codes(y, graph, f"Y[{i}]") for i, (y, graph) in
                 enumerate(zip(Y, graphs, strict=True))]  # fmt: skip
        costs = [graph.weights / ((graph.weights.sum() or 1.0) if self.normalize else 1.0)
                 for graph in graphs]  # fmt: skip
        ptr = np.concatenate([[0], np.cumsum(n_nodes)]).astype(np.int64)
        layout = shapes_of([(s.n_nodes, s.edges) for _, s in known.values()], m, which)
        return Parts(False, nodes, edges, m, False, ptr, np.concatenate(truth),
                     np.concatenate(costs), layout)  # fmt: skip

    def _inference(self, graph: Graph) -> Inference:
        key = len(graph.nodes), graph.edges.tobytes()
        if key not in self._shapes:
            self._shapes[key] = Inference(
                len(graph.nodes), graph.edges, self.labels_.size, self.inference_
            )
        return self._shapes[key]

    def _marginals(self, y: Any, graph: Graph) -> tuple[FloatArray, FloatArray]:
        codes = y if isinstance(y, tuple) else self._codes(y, graph, "y")
        return self._inference(graph).marginals(codes)

    def _potentials(self, graph: Graph, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = self.split(w)
        pairs = np.tensordot(graph.features, parts["edges"], axes=1)
        return graph.nodes @ parts["nodes"], pairs

    def inference_of(self, x: Any) -> Inference:
        return self._inference(self._graph(x, "x"))

    def _scores(self, x: Any, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._potentials(self._graph(x, "x"), w)

    def _node_costs(self, x: Any, y: Any) -> FloatArray:
        return self._costs(self._graph(x, "x"), y)

    def _square(self, x: Any, degree: int) -> float:
        graph = self._graph(x, "x")
        nodes, edges = (np.linalg.norm(part, 2) for part in (graph.nodes, graph.features))
        return float(2 * nodes**2 + degree * edges**2)

    def complete(self) -> None:
        self.inference_ = Counter()
        self._shapes = {}

    def split(self, w: FloatArray) -> dict[str, FloatArray]:
        """The weights by name: 'nodes' (d, m) and 'edges' (q, m, m)."""
        m, at = self.labels_.size, self.n_features_ * self.labels_.size
        return {"nodes": w[:at].reshape(-1, m), "edges": w[at:].reshape(-1, m, m)}

    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        graph = self._graph(x, "x")
        nodes, pairs = self._marginals(y, graph)
        edges = np.tensordot(graph.features, pairs, axes=(0, 0))
        return np.concatenate([(graph.nodes.T @ nodes).ravel(), edges.ravel()])

    def _costs(self, graph: Graph, y: Any) -> FloatArray:
        total = graph.weights.sum() if self.normalize else 1.0
        costs = np.repeat((graph.weights / (total or 1.0))[:, None], self.labels_.size, axis=1)
        costs[np.arange(len(costs)), self._codes(y, graph, "y")] = 0.0
        return costs

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        graph = self._graph(x, "x")
        return float((self._costs(graph, y) * self._marginals(y_hat, graph)[0]).sum())

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> Any:
        graph = self._graph(x, "x")
        nodes, pairs = self._potentials(graph, w)
        best = self._inference(graph).best(nodes + self._costs(graph, y), pairs, relaxed=True)
        return best if isinstance(best, tuple) else self.labels_[best]

    def decode(self, x: Any, w: FloatArray) -> npt.NDArray[Any]:
        graph = self._graph(x, "x")
        return self.labels_[self._inference(graph).best(*self._potentials(graph, w))]

    def labelings(self, x: Any) -> Iterable[Any] | None:
        count = len(self._graph(x, "x").nodes)
        if self.labels_.size**count > _ENUMERABLE:
            return None
        return map(np.array, itertools.product(self.labels_, repeat=count))


def _pairs(edges: Any, name: str) -> npt.NDArray[np.int64]:
    """Edges as pairs of whole numbers; none at all may have any shape."""
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must have edges that are pairs of node numbers, got {shortened(edges)}"
        )
    return pairs.astype(np.int64)
