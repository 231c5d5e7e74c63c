"""Two labels and edges that attract: the marginals of a graph as a minimum-cut polytope.

With ``z_i`` for "node i has the second label" and ``d_e`` for "the ends of edge e differ", the best
labeling of pairs ``P`` with ``P_00 + P_11 >= P_01 + P_10`` on all edges is a linear program over

``0 <= z <= 1,   d_e >= |z_a - z_b|``,

all of whose vertices are labelings.  So the structured hinge of all w that make edges attract is a
maximum over this polytope, and the dual extragradient method projects onto it.

References
----------
.. [1] B. Taskar, S. Lacoste-Julien, M. I. Jordan. Structured prediction, dual extragradient and
   Bregman projections. Journal of Machine Learning Research 7, 1627-1653, 2006.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.structured.models.base import StructuredModel
from cornerstep.structured.models.inference import Inference, Marginals

_STEPS = 100  # of a projection, at most
_EXACT = 1e-24  # slacks times flows where it ends: points are right to 1e-11
_ATTRACTION = np.array([[1.0, -1.0], [-1.0, 1.0]])


class CutModel(StructuredModel):
    """What graphs and tags share: points ``(1, z, d)`` for the dual extragradient method.

    The first coordinate carries what does not depend on the labeling.
    """

    workers = "threads"
    attractive: bool = False

    @property
    def constrained(self) -> bool:  # type: ignore[override]
        """Whether weights must make edges attract."""
        return bool(self.attractive)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether no answer so far was rounded from a fractional relaxation."""
        return "lp, fractional" not in self.inference_  # type: ignore[attr-defined]

    def inference_of(self, x: Any) -> Inference:
        """The graph of an example."""
        raise NotImplementedError

    def _scores(self, x: Any, w: FloatArray) -> Marginals:
        """Scores of the labels of each node and of the pairs of labels of each edge."""
        raise NotImplementedError

    def _node_costs(self, x: Any, y: Any) -> FloatArray:
        """What the labels of each node cost."""
        raise NotImplementedError

    def _square(self, x: Any, degree: int) -> float:
        """A bound of the squared norm of ``(z, d) -> phi``, no node having more edges than that.

        Along ``z_a``, ``z_b`` and ``d_e`` the four marginals of an edge move by orthogonal vectors
        of length 1.
        """
        raise NotImplementedError

    def admissible(self, w: FloatArray) -> FloatArray:
        if not self.attractive:
            return w
        out = w.copy()
        edges = self.split(out)["edges"]
        repulsion = np.maximum(-(edges * _ATTRACTION).sum(axis=(1, 2)), 0.0)
        edges += 0.25 * repulsion[:, None, None] * _ATTRACTION
        return out

    def require_soft(self, geometry: str) -> None:
        """Complain if the dual extragradient method has no tight program, or no projection."""
        if not self.attractive and self.split(np.zeros(self.size))["edges"].size:
            raise ValueError(
                "solver='extragradient' needs edges that attract, attractive=True (two labels, "
                "edge features >= 0): the linear relaxation of other graphs is not tight; "
                f"solver='bcfw' takes any, got {self!r}"
            )
        if geometry != "euclidean":
            raise ValueError(f"geometry must be 'euclidean' for graphs and tags, got {geometry!r}")

    def part_scores(self, x: Any, w: FloatArray) -> FloatArray:
        """The score of a point as a linear function of it."""
        return _linear(self.inference_of(x), *self._scores(x, w))

    def part_costs(self, x: Any, y: Any) -> FloatArray:
        """The loss of a point as a linear function of it."""
        shape = self.inference_of(x)
        return _linear(shape, self._node_costs(x, y), np.zeros((len(shape.edges), 2, 2)))

    def part_feature(self, x: Any, z: FloatArray) -> FloatArray:
        """The joint feature of a point."""
        shape = self.inference_of(x)
        n, (a, b) = shape.n_nodes, shape.edges.T
        second, differ = z[1 : n + 1], z[n + 1 :]
        both = 0.5 * (second[a] + second[b] - differ)
        neither = 1.0 - second[a] - second[b] + both
        pairs = np.stack([neither, second[b] - both, second[a] - both, both], axis=1)
        nodes = np.column_stack([1.0 - second, second])
        return np.asarray(self.joint_feature(x, (nodes, pairs.reshape(-1, 2, 2))))

    def centre(self, x: Any) -> FloatArray:
        """The mean of all labelings."""
        shape = self.inference_of(x)
        return np.concatenate([[1.0], np.full(shape.n_nodes + len(shape.edges), 0.5)])

    def project(self, x: Any, target: FloatArray) -> FloatArray:
        """The nearest point of the minimum-cut polytope, by a quadratic flow."""
        from cornerstep.structured.compiled.cut import nearest_cut

        shape = self.inference_of(x)
        n, (a, b) = shape.n_nodes, np.ascontiguousarray(shape.edges.T)
        parts = nearest_cut(target[1 : n + 1], target[n + 1 :], a, b, _STEPS, _EXACT)
        return np.concatenate([[1.0], *parts])

    def prox_bounds(self, x: Any, y: Any, geometry: str) -> tuple[float, float]:
        """Bounds of ``|F|²``, and of the distance of labelings from the centre."""
        shape = self.inference_of(x)
        degree = int(np.bincount(shape.edges.ravel(), minlength=1).max())
        return self._square(x, degree), (shape.n_nodes + len(shape.edges)) / 8


def _linear(shape: Inference, nodes: FloatArray, pairs: FloatArray) -> FloatArray:
    """``sum_i nodes[i, y_i] + sum_e pairs[e, y_a, y_b]`` as a linear function of (1, z, d)."""
    a, b = shape.edges.T
    joint = 0.5 * (pairs * _ATTRACTION).sum(axis=(1, 2))
    second = nodes[:, 1] - nodes[:, 0]
    np.add.at(second, a, pairs[:, 1, 0] - pairs[:, 0, 0] + joint)
    np.add.at(second, b, pairs[:, 0, 1] - pairs[:, 0, 0] + joint)
    return np.concatenate([[nodes[:, 0].sum() + pairs[:, 0, 0].sum()], second, -joint])
