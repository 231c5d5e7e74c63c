"""The softmax over labelings, a conditional random field: block steps in its dual, for chains.

``P(w) = lambda/2 |w|² + sum_i p_i (log sum_y exp(w'phi(x_i, y)) - w'phi(x_i, y_i))``.

In its dual each example has a distribution over labelings, as in that of the hinge, and entropy in
place of losses: ``D(a) = sum_i p_i H(a_i) - lambda/2 |w|²`` with
``w = sum_i p_i (phi(x_i, y_i) - E phi) / lambda``.  Of a distribution its marginals are kept, which
give w, and a number that is no more than its entropy: of a mixture, the mixture of the numbers,
since entropy is concave.  So D is a bound whatever the steps were.  They are those of
:mod:`cornerstep.structured.compiled.softmax`, in place of decoding and planes in the block solver
(:mod:`.block`): all else is as there.

References
----------
.. [1] J. Lafferty, A. McCallum, F. Pereira. Conditional random fields: probabilistic models for
   segmenting and labeling sequence data. ICML 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.structured.compiled import chain as kernels
from cornerstep.structured.compiled import softmax as steps
from cornerstep.structured.compiled.softmax import Distinct, Softened
from cornerstep.structured.compiled.sum_product import log_losses, messages
from cornerstep.structured.problem import DualBlocks
from cornerstep.structured.proofs import bound_error
from cornerstep.structured.solvers.chains import ChainExamples


class SoftChainExamples(ChainExamples):
    """Encoded chains whose loss is the negative logarithm of the probability of the truth."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.longest += self.n_labels  # a node's message sums so many terms

    def terms(self, w: FloatArray) -> float:
        """What logarithms of sums over labelings are made of, scores and one term per node."""
        return super().terms(w) + self.mean(self._lengths) * (1.0 + np.log(self.n_labels))

    def hinges(self, w: FloatArray) -> FloatArray:
        """The loss of every chain; the structured hinge, softened by entropy."""
        self.oracle_calls += self.n
        values = np.empty(self.n)

        def work(first: int, last: int) -> None:
            room = messages(self.most_nodes, self.n_labels)
            log_losses(self.chains, room, w, first, last, values)

        self.spread(work)
        return values

    @property
    def blocks_of(self) -> Any:
        """What a dual point in marginals belongs to."""
        chains = self.chains
        return "softmax", chains.ptr, chains.truth, chains.shape[1:], chains.walls, chains.ends

    def blocks(self, lam: float, keep: int, prox: float = 0.0) -> SoftBlocks:
        """The dual state, at w = 0."""
        return SoftBlocks(self, lam, keep, prox)


class SoftBlocks(DualBlocks):
    """The dual state: at first each block is its truth, without entropy."""

    examples: SoftChainExamples
    remembers = False

    def __init__(
        self, examples: SoftChainExamples, lam: float, keep: int, prox: float = 0.0
    ) -> None:
        super().__init__(examples, lam, keep, prox)
        chains, m = examples.chains, examples.n_labels
        nodes, links = np.arange(examples.nodes), chains.shape.transitions
        self.soft = Softened(
            np.zeros((nodes.size, m)), np.zeros((examples.n * links, m, m)),
            np.zeros(examples.n), np.zeros((examples.n, 2)),
        )  # fmt: skip
        self.soft.marginals[nodes, chains.truth] = 1.0
        if links:
            after = np.delete(nodes, chains.ptr[:-1])
            which = np.searchsorted(chains.ptr, after, side="right") - 1
            np.add.at(self.soft.pairs, (which, chains.truth[after - 1], chains.truth[after]), 1.0)
        entries = chains.indices.size
        self.distinct = Distinct(
            np.zeros(examples.n + 1, np.int64), np.empty(entries, np.int32),
            np.empty(entries, np.int32),
        )  # fmt: skip
        last = np.full(chains.shape.n_features, -1)
        count = steps.number_features(chains, self.distinct, last)
        self.distinct = self.distinct._replace(features=self.distinct.features[:count].copy())
        rows = int(np.diff(self.distinct.ptr).max())
        self._work = messages(examples.most_nodes, m), np.empty((rows, m))

    def sweep(self, order: Any, rule: str, remembered: bool) -> None:
        self.examples.oracle_calls += len(order)
        self._steps += len(order)
        steps.sweep(
            order, self.examples.chains, self.distinct, self.stiff, self.w, self.soft, self.gaps,
            self.numbers, *self._work,
        )  # fmt: skip

    def _summed(self) -> tuple[FloatArray, float]:
        chains, w = self.examples.chains, np.zeros(self.examples.size)
        kernels.scatter_marginals(chains, self.soft.marginals, self.soft.pairs, w)
        return w / (self.lam * chains.total), self.examples.mean(self.soft.entropies)

    def _n_terms(self) -> int:
        return 2 * self.examples.nodes

    def dual_error(self) -> float:
        n_terms = self._n_terms() + 8 * self._steps
        w = self.anchor if self.prox else self.w
        entropies, marginals = self.soft.errors.T
        off = bound_error(self.examples, self.lam, w, self.linear, n_terms, float(marginals.max()))
        return off + self.examples.mean(entropies)

    def state(self) -> Softened:
        return Softened(*(part.copy() for part in self.soft))

    def restore(self, state: Softened) -> None:
        self.soft = Softened(*(part.copy() for part in state))
        self._restored()
