"""Direction rules with an active set or none: FW, away, pairwise, blended, corrective, randomized.

Write g for the gradient at x, ``v = argmin <g, .>`` over the domain, ``a = argmax <g, .>`` over the
active set S.  All of them stop on the gap ``<g, x - v>``.

References
----------
.. [1] M. Frank, P. Wolfe. An algorithm for quadratic programming. Naval Research Logistics
   Quarterly 3, 95-110, 1956.
.. [2] J. Guélat, P. Marcotte. Some comments on Wolfe's 'away step'. Mathematical Programming 35,
   110-119, 1986.
.. [3] C. A. Holloway. An extension of the Frank and Wolfe method of feasible directions.
   Mathematical Programming 6, 14-27, 1974.
.. [4] S. Lacoste-Julien, M. Jaggi. On the global linear convergence of Frank-Wolfe optimization
   variants. NIPS 2015.
.. [5] K. Tsuji, K. Tanaka, S. Pokutta. Pairwise conditional gradients without swap steps and
   sparser kernel herding. ICML 2022.
.. [6] T. Kerdreux, F. Pedregosa, A. d'Aspremont. Frank-Wolfe with subsampling oracle. ICML 2018.
.. [7] W. Saint-Arnaud, E. Lamouchi, F. Boileau. Review of Frank Wolfe and its variants. Université
   de Montréal.
.. [8] G. Braun, S. Pokutta, D. Zink. Lazifying conditional gradient algorithms. ICML 2017.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Direction, Vector
from cornerstep.domains.atoms import draw_distinct
from cornerstep.domains.base import has_oracle
from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.agreement import check_step
from cornerstep.optimiser.composites import Composite
from cornerstep.optimiser.loop import Move, Stopping, claimed, run
from cornerstep.optimiser.objectives import Objective, Position, is_correctable
from cornerstep.optimiser.result import Status
from cornerstep.optimiser.section_steps import SectionCorrection
from cornerstep.optimiser.solver import FrankWolfeSolver, Method, Proposal
from cornerstep.optimiser.steps import StepRule

if TYPE_CHECKING:
    from cornerstep.optimiser.correction import Correction
    from cornerstep.optimiser.newton_correction import NewtonCorrection

_VERTICES = 16  # that a correction may add, beside as many as the active set has
_MOST_ATOMS, _MOST_NUMBERS = 4000, 1 << 26  # of an exact correction, and of the atoms' images
_SEEN = 2000  # vertices that a lazy rule remembers
_BLIND = 1e-14  # of the value and its slope: changes that may be rounding
_DRAWN = 1000  # atoms that a sample has by default, at most
_TOGETHER = 64  # atoms of a sample that are scored between two looks at the clock


class FrankWolfe(Method):
    """Towards the best vertex, ``d = v - x``: one oracle call per iteration, O(1/t)."""

    name: ClassVar[str] = "fw"
    steps: ClassVar[tuple[str, ...] | None] = None

    def propose(self, position: Position) -> Proposal:
        vertex = self.lmo(position.gradient)
        gap = position.inner - float(vertex @ position.gradient)
        return Proposal(Direction.towards(position.x, vertex), 1.0, gap, "fw")


class _WithActiveSet(Method):
    """Common to the rules that keep ``x = sum of weight * atom``.

    Parameters
    ----------
    lazy : bool, default=False
        Whether to go on with vertices seen before, and to ask the domain's oracle only when none of
        them descends at least half as fast as its last gap promised [8]_.  For costly oracles.  The
        gaps in between are those last seen, not certified; certificates come from true calls.
    """

    lazy: bool = False
    active_set: ActiveSet
    _vertex: Vector  # the vertex to go to
    _leaving: int  # the atom that the proposed step takes weight from

    def __init__(self, lazy: bool = False) -> None:
        self.lazy = lazy

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        super().begin(objective, domain, start, rng)
        self.active_set = ActiveSet(start)
        self._seen = ActiveSet(start) if self.lazy else self.active_set
        self._gap, self._before = math.inf, math.inf

    def restart(self, x: FloatArray) -> None:
        self.active_set, self._before = ActiveSet(x), math.inf

    def lmo(self, gradient: FloatArray) -> Vector:
        vertex = super().lmo(gradient)
        if self.lazy:
            if len(self._seen) >= _SEEN:
                kept = self.active_set  # None where a move was cut short
                self._seen = ActiveSet.of(kept.atoms, kept.weights) if kept else ActiveSet(vertex)
            self._seen.add(vertex)
        return vertex

    def _search(self, position: Position, scores: FloatArray | None = None) -> tuple[float, bool]:
        """Find the vertex to go to; its gap, and whether it is the oracle's.

        ``scores`` are those of the active set.  After a step that brought nothing the oracle is
        asked.  Between its worst atom and a vertex lie a step
        towards the one and a step away from the other: one of them has half the descent.
        """
        gradient = position.gradient
        descended, self._before = position.value < self._before, position.value
        if self.lazy and descended and math.isfinite(self._gap):
            known = self._seen.scores(gradient)
            best = int(known.argmin())
            worst = position.inner if scores is None else float(scores.max())
            if worst - known[best] >= 0.5 * self._gap:
                self._vertex = self._seen[best]
                return self._gap, False
        self._vertex = self.lmo(gradient)
        self._gap = position.inner - float(self._vertex @ gradient)
        return self._gap, True

    def moved(self, proposal: Proposal, step: float, blocked: bool) -> None:
        if proposal.kind == "fw":
            self.active_set.towards(self._vertex, step)
        elif proposal.kind == "away":
            self.active_set.away(self._leaving, step, blocked)
        else:
            self.active_set.shift(self._leaving, self._vertex, step, blocked)

    def _towards(self, position: Position, gap: float, certified: bool = True) -> Proposal:
        direction = Direction.towards(position.x, self._vertex)
        return Proposal(direction, 1.0, gap, "fw", certified)

    def _away(self, position: Position, gap: float, certified: bool = True) -> Proposal:
        """``d = x - a``, up to the step that takes all of a's weight."""
        weight = float(self.active_set.weights[self._leaving])
        direction = Direction.away(position.x, self.active_set[self._leaving])
        return Proposal(direction, weight / (1 - weight), gap, "away", certified)

    def _pairwise(self, gap: float, certified: bool) -> Proposal:
        """``d = v - a``, up to all of a's weight."""
        direction = Direction.between(self._vertex, self.active_set[self._leaving])
        weight = float(self.active_set.weights[self._leaving])
        return Proposal(direction, weight, gap, "pairwise", certified)


class Away(_WithActiveSet):
    """Towards the best vertex or away from the worst atom, whichever descends faster.

    ``d = v - x`` or ``d = x - a``; linear convergence on polytopes.
    """

    name: ClassVar[str] = "away"

    def propose(self, position: Position) -> Proposal:
        scores = self.active_set.scores(position.gradient)
        return self._better(position, scores, *self._search(position, scores))

    def _better(
        self, position: Position, scores: FloatArray, gap: float, certified: bool
    ) -> Proposal:
        self._leaving = int(scores.argmax())
        alone = self.active_set.weights[self._leaving] >= 1
        towards = gap if certified else position.inner - float(self._vertex @ position.gradient)
        if alone or towards >= scores[self._leaving] - position.inner:
            return self._towards(position, gap, certified)
        return self._away(position, gap, certified)


class Pairwise(_WithActiveSet):
    """From the worst atom to the best vertex, ``d = v - a``: weight goes straight."""

    name: ClassVar[str] = "pairwise"

    def propose(self, position: Position) -> Proposal:
        scores = self.active_set.scores(position.gradient)
        self._leaving = int(scores.argmax())
        return self._pairwise(*self._search(position, scores))


class BlendedPairwise(_WithActiveSet):
    """Pairwise inside S while that promises more than the FW step, which alone adds atoms."""

    name: ClassVar[str] = "blended-pairwise"

    def propose(self, position: Position) -> Proposal:
        scores = self.active_set.scores(position.gradient)
        gap, certified = self._search(position, scores)
        self._leaving = int(scores.argmax())
        best = int(scores.argmin())
        towards = gap if certified else position.inner - float(self._vertex @ position.gradient)
        if scores[self._leaving] - scores[best] < towards:
            return self._towards(position, gap, certified)
        self._vertex = self.active_set[best]
        return self._pairwise(gap, certified)


class _Hull:
    """conv(S) as a domain: its oracle is a search among the atoms."""

    def __init__(self, active_set: ActiveSet, whole: Any) -> None:
        self.active_set = active_set
        self.size = whole.size
        self.snap = getattr(whole, "snap", None)

    def lmo(self, gradient: FloatArray) -> Vector:
        return self.active_set[int(self.active_set.scores(gradient).argmin())]


class FullyCorrective(_WithActiveSet):
    """After every look, f is minimised anew over the hull of the active set and the new vertices.

    Quadratics are minimised exactly (:mod:`cornerstep.optimiser.correction`), sums of losses by
    Newton steps (:mod:`cornerstep.optimiser.newton_correction`), over the best of the
    domain's vertices at a time where it lists them (``lmo_many``); other objectives by
    :class:`Pairwise` steps.  To a gap of ``accuracy`` times the outer one.  On domains of matrices
    (``section``) any objective is minimised over the row and column spaces of the vertices instead
    (:mod:`cornerstep.optimiser.section_steps`); there is no active set then.

    Parameters
    ----------
    accuracy : float, default=0.01
    max_corrections : int, default=10_000
        Limit on the steps of one inner solve.
    lazy : bool, default=False
        Whether to go on with vertices seen before, where the domain does not list its vertices; it
        keeps an active set on domains of matrices, too.
    """

    name: ClassVar[str] = "fully-corrective"
    _correction: Correction | NewtonCorrection | None
    steps: ClassVar[tuple[str, ...] | None] = ("exact",)

    def __init__(
        self, accuracy: float = 0.01, max_corrections: int = 10_000, lazy: bool = False
    ) -> None:
        super().__init__(lazy)
        if not 0 < accuracy < 1:
            raise ValueError(f"accuracy must be between 0 and 1, got {accuracy!r}")
        self.accuracy = accuracy
        self.max_corrections = max_corrections

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        super().begin(objective, domain, start, rng)
        self._rng = rng
        self._sections: SectionCorrection | None = None
        self._correction, self._most = None, 0
        if has_oracle(domain, "section") and not self.lazy:
            self._sections = SectionCorrection(objective, domain)
        elif is_correctable(objective):
            from cornerstep.optimiser.correction import Correction  # with the compiler

            self._correction = Correction(objective)
        elif isinstance(objective, Composite):
            from cornerstep.optimiser.newton_correction import NewtonCorrection

            self._correction = NewtonCorrection(objective)
        if self._correction is not None:
            self._most = min(_MOST_ATOMS, _MOST_NUMBERS // self._correction.objective.image_size)
        self._several = self._most > 0 and has_oracle(domain, "lmo_many")

    def restart(self, x: FloatArray) -> None:
        super().restart(x)
        for kept in (self._correction, self._sections):
            if kept is not None:
                kept.clear()

    def propose(self, position: Position) -> Proposal:
        self._vertices: list[Vector] = []
        if self._sections is not None:
            self.oracle_calls += 1
            self._vertex = self._sections.look(position)
            gap, certified = position.inner - float(self._vertex @ position.gradient), True
        elif self._several:
            self.oracle_calls += 1
            known = len(self.active_set)
            count = min(_VERTICES + known, max(self._most - known, 1), self.domain.n_atoms)
            self._vertices = self.domain.lmo_many(position.gradient, count)
            self._vertex = self._vertices[0]
            gap, certified = position.inner - float(self._vertex @ position.gradient), True
        else:
            gap, certified = self._search(position)
            self._vertices = [self._vertex]
        return self._towards(position, gap, certified)

    def advance(
        self, position: Position, proposal: Proposal, rule: StepRule, iteration: int
    ) -> tuple[Position, Move]:
        if self._sections is not None:
            return self._in_section(self._sections, position, proposal, rule, iteration)
        if self._correction is None or len(self.active_set) >= self._most:
            return self._advance_by_steps(position, proposal, rule, iteration)
        landed = self._corrected(position, claimed(proposal.gap))
        if landed is None:
            self._correction.clear()  # the step may change all atoms
            return super().advance(position, proposal, rule, iteration)
        return landed, Move(1.0, "corrective")

    def _in_section(
        self, sections: SectionCorrection, position: Position, proposal: Proposal, rule: StepRule,
        iteration: int,
    ) -> tuple[Position, Move]:  # fmt: skip
        landed = sections.minimise(position, claimed(proposal.gap), rule, self.expired)
        if landed is position:
            sections.clear()
            return super().advance(position, proposal, rule, iteration)
        self.active_set = ActiveSet(landed.x)
        return landed, Move(1.0, "corrective")

    def _corrected(self, position: Position, gap: float) -> Position | None:
        """The minimum over the hull, if that is better than where we are."""
        assert self._correction is not None
        tol = self._correction.share * gap
        active, gradient = self.active_set, position.gradient
        good = bisect_left(self._vertices, position.inner, key=lambda v: float(v @ gradient))
        active.extend(self._vertices[:good])  # they are in order
        known = self._correction.known
        self._correction.extend(active.atoms[known:])
        before = active.weights.copy()
        scores = active.scores(gradient)
        weights = self._correction.minimise(before, scores, tol, self.expired)
        x = active.mixture(weights)
        self.settle(x, True)
        d = x - position.x
        moving = d.nonzero()[0]
        ray = position.along(Direction(d, 0.0, moving, d[moving]))
        landed = ray.land(1.0, x)
        check_step(self.objective, position, ray, 1.0, landed)
        better = self._is_better(landed, position, gap)
        self._correction.keep(active.reweigh(weights if better else before))
        return landed if better else None

    def _is_better(self, landed: Position, position: Position, gap: float) -> bool:
        """Whether the value has fallen or, where rounding hides that, the gap, by half."""
        risen = landed.value - position.value
        if risen < 0:
            return True
        if not risen <= _BLIND * (abs(position.value) + abs(position.inner)):
            return False
        vertex = self.lmo(landed.gradient)
        return landed.inner - float(vertex @ landed.gradient) < 0.5 * gap

    def _advance_by_steps(
        self, position: Position, proposal: Proposal, rule: StepRule, iteration: int
    ) -> tuple[Position, Move]:
        position, move = super().advance(position, proposal, rule, iteration)
        if math.isnan(move.step):
            return position, move
        inner = Pairwise()
        inner.begin(self.objective, _Hull(self.active_set, self.domain), position.x, self._rng)
        inner.active_set = self.active_set
        solver = FrankWolfeSolver(self.objective, inner, rule, position, proves=False)
        tol = self.accuracy * claimed(proposal.gap)
        stopping = Stopping(tol=tol, max_iter=self.max_corrections)
        outcome = run(solver, stopping, callback=lambda _: self.expired())
        if outcome.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # meant for the outer run
        return solver.position, Move(move.step, "corrective")


class RandomizedAway(Away):
    """Away steps whose oracle sees S and some atoms drawn from the others only (RAFW).

    Each iteration draws ``sample_size`` of the atoms outside S without replacement (all of them if
    there are fewer) and takes v among them and S.  The gap that they show is an estimate: whenever
    it says solved, the full oracle is asked for a certificate.

    Parameters
    ----------
    sample_size : int, optional
        Atoms drawn each iteration; by default a tenth of them, at least one and at most 1,000.
    full_every : int, optional
        Every so many iterations take v among all atoms.  None, the published method: never.
    """

    name: ClassVar[str] = "randomized-away"
    needs: ClassVar[tuple[str, ...]] = ("lmo", "atom_scores")

    def __init__(self, sample_size: int | None = None, full_every: int | None = None) -> None:
        for name, value in (("sample_size", sample_size), ("full_every", full_every)):
            if value is not None and (int(value) != value or value < 1):
                raise ValueError(f"{name} must be an integer >= 1 or None, got {value!r}")
        self.sample_size = sample_size
        self.full_every = full_every

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        super().begin(objective, domain, start, rng)
        self._sample_size = self.sample_size or min(-(-domain.n_atoms // 10), _DRAWN)
        self._rng = rng
        self._patience = -(-domain.n_atoms // self._sample_size)  # about all atoms are seen in it
        self._proposals, self._idle, self._value = 0, 0, math.inf

    def propose(self, position: Position) -> Proposal:
        self._proposals += 1
        if self.full_every is not None and self._proposals % self.full_every == 0:
            return super().propose(position)
        proposal = self._sampled(position)
        self._idle = 0 if position.value < self._value else self._idle + 1
        self._value = min(self._value, position.value)
        if self._idle < self._patience:
            return proposal
        self._idle = 0  # a true gap tells the loop whether there is anything to hope for
        vertex = self.lmo(position.gradient)
        gap = position.inner - float(vertex @ position.gradient)
        return proposal._replace(gap=gap, certified=True)

    def _sampled(self, position: Position) -> Proposal:
        known = self.active_set.scores(position.gradient)
        best, self._vertex = float(known.min()), self.active_set[int(known.argmin())]
        count = min(self._sample_size + len(self.active_set), self.domain.n_atoms)
        drawn, left = draw_distinct(self._rng, count, self.domain.n_atoms), self._sample_size
        for start in range(0, count, _TOGETHER):
            if left <= 0 or self.expired():  # an atom may take milliseconds
                break
            sample = self._outside(drawn[start : start + _TOGETHER])[:left]
            left -= sample.size
            if sample.size:
                scores = self.domain.atom_scores(sample, position.gradient)
                if scores.min() < best:
                    best = float(scores.min())
                    self._vertex = self.domain.atom(sample[scores.argmin()])
        return self._better(position, known, position.inner - best, certified=False)

    def _outside(self, numbers: Any) -> Any:
        """Those of these atoms that are not in S."""
        return numbers[[self.domain.atom(i) not in self.active_set for i in numbers]]
