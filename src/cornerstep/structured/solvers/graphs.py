"""Examples of models of nodes and edges, encoded once: oracles without Python inside.

What is neither a forest nor enumerated is left to the model's :class:`~.inference.Inference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.structured.compiled import part_sweeps as compiled
from cornerstep.structured.compiled.graph import UNKNOWN
from cornerstep.structured.compiled.parts import Factor, Parts, scores_of
from cornerstep.structured.models.inference import HOW
from cornerstep.structured.problem import ModelExamples, entries
from cornerstep.structured.solvers.planes import joined, scratch


class PartExamples(ModelExamples):
    """Examples of a model that has ``encode_parts``, with compiled batch oracles."""

    model: Any

    def __init__(
        self, model: Any, X: Any, Y: Any, weights: FloatArray | None = None, n_jobs: int = 1
    ) -> None:
        super().__init__(model, X, Y, weights, n_jobs)
        self.parts: Parts = model.encode_parts(X, Y)
        nodes, edges = self.parts.nodes, self.parts.edges
        sizes = nodes.counts * nodes.width + edges.counts * edges.width
        self.most_parts = int(sizes.max())
        self.n_rows = int((nodes.counts * (nodes.width if self.parts.gains else 1)).sum())
        self.n_rows += int(edges.counts.sum())
        shapes = [model.inference_of(x) for x in X]
        self._shapes = shapes
        self.table_size = max(shape.table_size for shape in shapes)
        self._largest = float(max(_sizes(nodes, self.parts.gains) + _sizes(edges, False)))
        self._truths, self._truth_ptr = joined([self.true_parts(i) for i in range(self.n)])
        longest = max(int(np.diff(factor.indptr).max(initial=0)) for factor in (nodes, edges))
        self.longest += longest

    def true_parts(self, i: int) -> tuple[Any, FloatArray]:
        """The parts of the truth."""
        begin, end = self.parts.node_ptr[i : i + 2]
        return self._in_parts(i, self.parts.truth[begin:end])

    def _in_parts(self, i: int, answer: Any) -> tuple[Any, FloatArray]:
        """A labeling, or fractional marginals, as parts."""
        nodes, pairs = self.model.inference_of(self.X[i]).marginals(answer)
        if self.parts.gains:
            nodes = nodes[:, 1]
        return entries(np.concatenate([nodes.ravel(), pairs.ravel()]))

    def answer_in_parts(self, i: int, w: FloatArray, own: float) -> tuple[Any, FloatArray, float]:
        """The loss-augmented answer for one example, in parts, and its loss."""
        answer = self._searched(i, w, *self._room())
        places, values = self._in_parts(i, answer)
        return places, values, self._loss_of(i, answer)

    def _room(self) -> tuple[FloatArray, FloatArray]:
        n_nodes = int(np.diff(self.parts.node_ptr).max())
        return np.empty(self.most_parts), np.empty((n_nodes, self.parts.n_labels))

    def _searched(self, i: int, w: FloatArray, theta: FloatArray, nodes: FloatArray) -> Any:
        """The answer of cuts and linear programs: labels, or marginals."""
        start, end = scores_of(self.parts, i, w, theta, nodes, True)
        n, m = int(self.parts.node_ptr[i + 1] - self.parts.node_ptr[i]), self.parts.n_labels
        pairs = theta[start:end].reshape(-1, m, m)
        return self._shapes[i].best(nodes[:n].copy(), pairs, relaxed=True)

    def _loss_of(self, i: int, answer: Any) -> float:
        begin, end = self.parts.node_ptr[i : i + 2]
        marginals, _ = self._shapes[i].marginals(answer)
        right = marginals[np.arange(end - begin), self.parts.truth[begin:end]]
        total = marginals.sum(axis=1)
        return float(self.parts.costs[begin:end] @ (total - right))

    def answers(self, w: FloatArray) -> list[Any]:
        """The loss-augmented labels of all examples, or marginals."""
        return self._decode(w)[0]

    def hinges(self, w: FloatArray) -> FloatArray:
        """The structured hinge of every example."""
        return self._decode(w)[1]

    def _decode(self, w: FloatArray) -> tuple[list[Any], FloatArray]:
        parts = self.parts
        self.oracle_calls += self.n
        labels, hinges = np.empty(parts.node_ptr[-1], np.int64), np.zeros(self.n)
        known, work = np.empty(self.n, np.int64), scratch(self, 1)
        for piece in self._pieces(self.n):
            self._wait()
            compiled.decode_parts(
                parts, w, piece.start, piece.stop, self._truths, self._truth_ptr, work, labels,
                hinges, known,
            )  # fmt: skip
        answers: list[Any] = np.split(labels, parts.node_ptr[1:-1])
        theta, nodes = self._room()
        for i in np.flatnonzero(known == UNKNOWN).tolist():
            self._wait()
            answers[i] = self._searched(i, w, theta, nodes)
            places, values = self._in_parts(i, answers[i])
            own = slice(self._truth_ptr[i], self._truth_ptr[i + 1])
            truth = float(theta[self._truths.indices[own]] @ self._truths.values[own])
            hinges[i] = self._loss_of(i, answers[i]) + float(theta[places] @ values) - truth
        for how, count in enumerate(np.bincount(known, minlength=len(HOW))):
            if how != UNKNOWN and count:
                self.model.inference_[HOW[how]] += int(count)
        return answers, hinges

    @property
    def blocks_of(self) -> Any:
        """What a dual point in parts belongs to."""
        parts = self.parts
        return "parts", parts.truth, parts.node_ptr, parts.shapes[:4], parts.n_labels


def _sizes(factor: Factor, gains: bool) -> FloatArray:
    """What the joint features of each example's labelings measure at most in a factor."""
    rows = np.sqrt(np.add.reduceat(np.square(np.append(factor.values, 0.0)), factor.indptr[:-1]))
    rows[np.diff(factor.indptr) == 0] = 0.0
    sums = np.concatenate([[0.0], np.cumsum(rows)])
    lengths = sums[factor.first + factor.counts] - sums[factor.first]
    return lengths * np.sqrt(factor.width) if gains else lengths
