"""The oracle of boosting: the weak learner, and what its answers say about the optimum.

The problem is ``max over w in the simplex of rho(A w)`` over *all* hypotheses of the weak learner.
For every d in P_nu the largest edge is a bound: ``max over w of rho(A w) <= max_j (A'd)_j``.

A *complete* search finds the largest edge: the smallest one so far is the bound, and the d where it
was found its witness.  A *proposal* is cheaper and finds edges that are large: the smallest one so
far is an estimate of the bound, which a complete search at the same d can turn into one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from cornerstep.boosting.learners.trees import Answer, WeakLearner
from cornerstep.boosting.long_work import SearchExpiredError
from cornerstep.boosting.problem import SoftMargin
from cornerstep.boosting.solvers.pool import Pool
from cornerstep.core.types import FloatArray


class Oracle:
    """Asks the weak learner, keeps hypotheses in the pool, and knows the best bound.

    Parameters
    ----------
    problem : SoftMargin
    learner : WeakLearner
    pool : Pool
    max_answers : int
        Hypotheses kept of one answer.

    Attributes
    ----------
    bound, witness : float and array of shape (m,)
        The smallest of the largest edges, by complete searches, and the distribution that has it.
    estimated_bound, estimated_witness
        The same by all searches.
    calls : int
    discoveries : int
        Hypotheses, estimates and bounds that were new.
    """

    def __init__(
        self, problem: SoftMargin, learner: WeakLearner, pool: Pool, max_answers: int
    ) -> None:
        self.problem, self.learner, self.pool = problem, learner, pool
        self.max_answers = max_answers
        self.bound = self.estimated_bound = math.inf
        self.witness = self.estimated_witness = problem.admissible(problem.prior)
        self.calls = self.discoveries = 0

    @property
    def expired(self) -> Callable[[], bool]:
        """Whom long searches ask whether to end."""
        return self.learner.expired

    @expired.setter
    def expired(self, ask: Callable[[], bool]) -> None:
        self.learner.expired = ask

    def is_expired(self) -> bool:
        """Whether to end."""
        return self.learner.expired()

    def ask(self, distribution: FloatArray, enough: float = math.inf) -> Answer:
        """Ask for the largest edge, which is a bound, and keep the hypotheses.

        A proposal will do if its edge is ``enough``.
        """
        distribution = self.problem.admissible(distribution)
        answer = self.learner.propose(distribution) if enough < math.inf else None
        if answer is None or not (answer.largest or answer.edge >= enough):
            answer = self.learner.query(distribution)
        self._learn(answer, distribution)
        self._keep(answer.hypotheses[: self.max_answers], answer.margins[: self.max_answers])
        return answer

    def collect(self, distribution: FloatArray, at: FloatArray, least: float) -> None:
        """Ask for proposals; keep the best, and others whose edge at ``at`` is above ``least``."""
        distribution = self.problem.admissible(distribution)
        answer = self.learner.propose(distribution)
        self._learn(answer, distribution)
        good = (answer.margins @ at)[: self.max_answers] > least
        good[0] = True
        chosen = np.flatnonzero(good)
        self._keep([answer.hypotheses[k] for k in chosen], answer.margins[chosen])

    def make_sure(self) -> bool:
        """Search completely where the largest edge seems to be smallest.

        Returns whether the bound fell.
        """
        before = self.bound
        edge = self.ask(self.estimated_witness).edge
        if self.bound < edge:
            self.estimated_bound, self.estimated_witness = self.bound, self.witness
        else:
            self.estimated_bound = edge
        return self.bound < before

    def certify(self) -> None:
        """Settle the bound for a certificate; nothing else changes.

        A bound by a complete search whose sums are exact at the witness needs no other.  One that
        rests on another search may be refuted by hypotheses that came later.
        """
        found = None
        if self.estimated_bound < self.bound:
            with suppress(SearchExpiredError):
                found = self.learner.query(self.estimated_witness)
                self._lower_bound(found, self.estimated_witness)
        if not self.learner.exact:
            self.bound = max(self.bound, self._known_edge(self.witness))
            if found is not None:
                edges = found.margins[: self.max_answers] @ self.witness
                self.bound = max(self.bound, float(edges.max()))

    def _keep(self, hypotheses: Sequence[Any], margins: FloatArray) -> None:
        """Take hypotheses into the pool, if there will be time to use them."""
        self.discoveries += self.pool.add(hypotheses, margins, self.expired)

    def _learn(self, answer: Answer, distribution: FloatArray) -> None:
        """What an answer says about the optimum."""
        before = self.bound
        edge = self._lower_bound(answer, distribution)
        if self.bound < before:
            self.discoveries += 1
        if edge < self.estimated_bound:
            self.estimated_bound, self.estimated_witness = edge, distribution
            self.discoveries += 1

    def _lower_bound(self, answer: Answer, distribution: FloatArray) -> float:
        """The largest edge known at a distribution; the bound, if it is less and complete."""
        self.calls += 1
        edge = answer.edge
        if not self.learner.exact:
            edge = max(edge, self._known_edge(distribution))
        if answer.largest and edge < self.bound:
            self.bound, self.witness = edge, distribution
        return edge

    def _known_edge(self, distribution: FloatArray) -> float:
        """The largest edge of the hypotheses at hand: a search that is not exact may miss it."""
        rows = self.pool.margins
        if not len(rows):
            return -math.inf
        near = self.pool.edges(distribution)  # in the precision of the rows
        best = np.argsort(-near)[: self.max_answers]
        return float((rows[best].astype(np.float64) @ distribution).max())
