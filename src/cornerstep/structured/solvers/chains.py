"""Compiled examples and blocks for chains: the same steps as for any model, without Python inside.

Also serves the multi-class model, whose examples are chains of one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray
from cornerstep.optimiser.pieces import Pieces
from cornerstep.structured.compiled import chain as kernels
from cornerstep.structured.compiled import chain_planes
from cornerstep.structured.compiled import sweeps as steps
from cornerstep.structured.compiled.records import Chains, Planes, Scratch, State, scratch
from cornerstep.structured.compiled.sum_product import messages, sum_product
from cornerstep.structured.problem import Corners, DualBlocks, Examples
from cornerstep.structured.solvers.settings import BLOCK

_CODES = {
    "bcfw": steps.FW, "bcfw-pairwise": steps.PAIRWISE, "bcfw-away": steps.AWAY,
    "bcfw-auto": steps.AUTO,
}  # fmt: skip


class ChainExamples(Examples):
    """Encoded chains with their batch oracles.

    Parameters
    ----------
    chains : Chains
    size : int
        Of w.
    weights : array, optional
        Of the chains.
    n_jobs : int
        Threads of the batch oracles.  The answers do not depend on it.
    """

    def __init__(
        self, chains: Chains, size: int, weights: FloatArray | None = None, n_jobs: int = 1
    ) -> None:
        super().__init__(chains.n, size, weights)
        self.chains = chains._replace(weights=self.weights, total=self.total)
        self.nodes = int(chains.ptr[-1])
        self.n_labels = chains.shape.n_labels
        self.n_jobs = n_jobs
        self._lengths = np.diff(chains.ptr)
        self.most_nodes = int(self._lengths.max())
        self.longest += int(np.diff(chains.indptr).max()) + 2 * self.most_nodes + 64
        self.n_sums += 2 * self.nodes
        self.inexact = 0.0  # Viterbi's algorithm is exact but for rounding
        self.outside = gamma(2**16)  # marginals are quotients of sums of exponentials
        sizes = np.abs(chains.values) * self._entry_weights()
        self._sums = np.bincount(chains.indices, sizes, chains.shape.n_features) / self.total
        self._pieces = Pieces()

    def terms(self, w: FloatArray) -> float:
        """What ``sum_k |phi_k w_k|`` is at most, on average over the chains."""
        n_features, m, transitions = self.chains.shape
        size = np.abs(w)
        total = float(self._sums @ size[: n_features * m].reshape(n_features, m).max(axis=1))
        if transitions:
            total += (self.mean(self._lengths) - 1.0) * float(size[-m * m :].max())
        return total

    def _entry_weights(self) -> FloatArray:
        """The weight of the chain of each entry of the features."""
        chains = self.chains
        return np.repeat(chains.weights, np.diff(chains.indptr[chains.ptr]))

    @property
    def width(self) -> float:
        """What the mean of ``|phi(x, y)| + |phi(x, y')|`` is at most."""
        links = self.mean(self._lengths) - 1.0
        return 2.0 * float(np.sqrt(self._sums @ self._sums + links**2))

    def spread(self, work: Callable[[int, int], None]) -> None:
        """``work(first, last)`` on chunks of the chains; each writes to its own part only."""
        if self.n_jobs == 1:
            for piece in self._pieces(self.n):
                self._wait()
                work(piece.start, piece.stop)
            return
        from concurrent.futures import ThreadPoolExecutor

        starts = range(0, self.n, BLOCK.chunk)

        def chunk(start: int) -> None:
            self._wait()
            work(start, min(start + BLOCK.chunk, self.n))

        with ThreadPoolExecutor(self.n_jobs) as pool:
            list(pool.map(chunk, starts))

    def answers(self, w: FloatArray) -> tuple[Any, FloatArray]:
        """The loss-augmented labels of all nodes, and the hinges."""
        self.oracle_calls += self.n
        labels, hinges = np.empty(self.nodes, np.int16), np.empty(self.n)
        self.spread(lambda a, b: kernels.decode(self.chains, w, a, b, True, labels, hinges))
        return labels, hinges

    def corners(self, w: FloatArray) -> Corners:
        """The vertex of every block that w points to, summed up."""
        labels, hinges = self.answers(w)
        image = np.zeros(self.size)
        losses = kernels.scatter_all(self.chains, labels, image)
        return Corners(image, losses, hinges)

    def hinges(self, w: FloatArray) -> FloatArray:
        """The structured hinge of every example."""
        return self.answers(w)[1]

    @property
    def blocks_of(self) -> Any:
        """What a dual point in labelings belongs to."""
        chains = self.chains
        return (
            "chains",
            chains.ptr,
            chains.truth,
            chains.costs,
            chains.shape[1:],
            chains.walls,
            chains.ends,
        )

    @property
    def images_of(self) -> Any:
        """What a dual point in joint features belongs to."""
        return self.size, self.chains

    def require_soft(self, geometry: str) -> None:
        """Complain if :meth:`prox` cannot do this."""
        if self.chains.shape.transitions and geometry == "euclidean":
            raise ValueError(
                "geometry must be 'entropic' for chains with transitions, got 'euclidean'"
            )

    def prox(
        self, geometry: str, stages: Sequence[tuple[FloatArray, float, float]]
    ) -> tuple[FloatArray, float]:
        """``sum_i psi_i`` and ``sum_i L_i`` of the marginals: as for any model, by sum-product."""
        self.oracle_calls += self.n
        pairs = np.zeros((self.n * self.chains.shape.transitions, self.n_labels, self.n_labels))
        expected = np.empty(self.n)
        if geometry == "euclidean":
            marginals = self._projected(stages)
            wrong = 1.0 - marginals[np.arange(self.nodes), self.chains.truth]
            losses = float((np.repeat(self.weights, self._lengths) * self.chains.costs) @ wrong)
        else:
            w = np.sum([scale * stage for stage, scale, _ in stages], axis=0)
            temperature = sum(stage[2] for stage in stages)
            marginals = np.empty((self.nodes, self.n_labels))
            size, out = self.most_nodes, (marginals, pairs, expected)

            def work(first: int, last: int) -> None:
                room = messages(size, self.n_labels)
                sum_product(self.chains, room, w, 1.0, temperature, first, last, *out)

            self.spread(work)
            losses = float((self.weights * expected).sum())
        image = np.zeros(self.size)
        kernels.scatter_marginals(self.chains, marginals, pairs, image)
        return image, losses

    def _projected(self, stages: Sequence[tuple[FloatArray, float, float]]) -> FloatArray:
        """Euclidean steps, where nodes do not depend on each other: projections onto simplices."""
        nodes = np.arange(self.nodes)
        z = np.full((self.nodes, self.n_labels), 1.0 / self.n_labels)
        for w, scale, temperature in stages:
            scores = np.empty((self.nodes, self.n_labels))
            kernels.all_scores(self.chains, w, scores)
            step = scale * scores + temperature * self.chains.costs[:, None]
            step[nodes, self.chains.truth] -= temperature * self.chains.costs
            z = simplex_rows(z + step)
        return z

    def prox_bounds(self, geometry: str) -> tuple[float, float]:
        """Means over the examples of bounds of ``|F_i|²`` and of the distance from the centre."""
        ptr, values, shape, lengths = (
            self.chains.ptr, self.chains.values, self.chains.shape, self._lengths
        )  # fmt: skip
        if geometry == "euclidean":
            square = float((self._entry_weights() * values) @ values) / self.total
            return square, self.mean(lengths) / 2
        rows = (np.abs(values), self.chains.indices, self.chains.indptr)
        nodes = sp.csr_array(rows, shape=(self.nodes, shape.n_features))
        ones = (np.ones(self.nodes), np.arange(self.nodes), ptr)
        sums = sp.csr_array(ones, shape=(self.n, self.nodes)) @ nodes
        # marginals differ by weights that sum to 0, so half the diameter of all phi(y) counts; and
        # |phi(y)|² is largest if all labels agree and no entries cancel
        largest = np.asarray(sums.multiply(sums).sum(axis=1)).ravel()
        largest += shape.transitions * (lengths - 1.0) ** 2
        acute = values.size == 0 or values.min() >= 0 or self.nodes == self.n
        factor = 0.5 if acute else 1.0
        return factor * self.mean(largest), self.mean(lengths) * np.log(self.n_labels)

    def blocks(self, lam: float, keep: int, prox: float = 0.0) -> DualBlocks:
        """The dual state, at w = 0."""
        return ChainBlocks(self, lam, keep, prox)

    def subgradient_sweep(
        self, order: Any, lam: float, total: FloatArray, late: FloatArray, numbers: FloatArray
    ) -> None:
        """``total += c_i psi_i(y*)`` at ``w = total / (lam t)``, one example after the other."""
        self.oracle_calls += len(order)
        size = self.most_nodes
        kernels.subgradient_sweep(order, self.chains, size, lam, total, late, numbers)


def simplex_rows(Z: FloatArray) -> FloatArray:
    """Each row's nearest point of the simplex."""
    ordered = -np.sort(-Z, axis=1)
    excess = (ordered.cumsum(axis=1) - 1.0) / np.arange(1, Z.shape[1] + 1)
    last = (ordered > excess).sum(axis=1) - 1
    return np.maximum(Z - excess[np.arange(len(Z)), last][:, None], 0.0)


class ChainBlocks(DualBlocks):
    """The dual state of chains: planes as 16-bit labels in one array."""

    def __init__(self, examples: ChainExamples, lam: float, keep: int, prox: float = 0.0) -> None:
        super().__init__(examples, lam, keep, prox)
        n, truth = examples.n, examples.chains.truth
        self.planes = Planes(truth.copy(), np.ones((n, 1)), np.zeros((n, 1)), np.ones(n, np.int64))
        self._buffer = np.zeros(examples.size)
        self._work: Scratch | None = None
        self._grow(BLOCK.room)

    def sweep(self, order: Any, rule: str, remembered: bool) -> None:
        if not remembered:
            self.examples.oracle_calls += len(order)
        self._steps += len(order)
        chains = self.examples.chains
        while len(order):
            state = State(self.w, self.v, self.numbers, kernels.links_in(chains.shape, self.w))
            done = steps.sweep(
                order, _CODES[rule], remembered, self.keep, chains, self.stiff, state, self.planes,
                self.gaps, self._scratch(), self._buffer,
            )  # fmt: skip
            order = order[done:]
            if len(order):
                self._grow(2 * self.planes.weights.shape[1])

    def _grow(self, room: int) -> None:
        """Give every block room for so many planes."""
        labels, weights, losses, counts = self.planes
        ptr, old = self.examples.chains.ptr, weights.shape[1]
        more = room - old
        wider = np.zeros(room * ptr[-1], labels.dtype)
        # block i has the labels from room * ptr[i] on: all that it has moves up as one
        wider[np.arange(labels.size) + np.repeat(more * ptr[:-1], old * np.diff(ptr))] = labels
        weights, losses = (np.pad(table, ((0, 0), (0, more))) for table in (weights, losses))
        self.planes = Planes(wider, weights, losses, counts)

    def _scratch(self) -> Scratch:
        """What visits overwrite, with room for the planes there are: also for those restored."""
        room = self.planes.weights.shape[1]
        if self._work is None or self._work.slopes.size != room:
            self._work = scratch(self.examples.most_nodes, self.examples.n_labels, room)
        return self._work

    def _summed(self) -> tuple[FloatArray, float]:
        chains, w = self.examples.chains, np.zeros(self.examples.size)
        linear = chain_planes.rebuild(chains, self.planes, 1.0 / (self.lam * chains.total), w)
        return w, float(linear / chains.total)

    def _n_terms(self) -> int:
        return self.examples.nodes * (1 + int(self.planes.counts.max()))

    def state(self) -> Planes:
        return Planes(*(part.copy() for part in self.planes))

    def restore(self, state: Planes) -> None:
        self.planes = Planes(*(part.copy() for part in state))
        self._restored()
