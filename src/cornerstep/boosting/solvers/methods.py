"""Soft-margin boosting: four Frank-Wolfe methods on ``max over w in the simplex of g(A w)``.

A round asks the weak learner (the linear minimisation oracle) at a distribution d of P_nu.  The
edge of its answer bounds the optimum: ``max over w of rho(A w) <= max_j (A'd)_j`` for *every* d in
P_nu.  The smallest edge so far is the bound, and ``bound - rho(A w)`` the duality gap of w; what is
certified has a bound of the rounding taken off the one and added to the other.

- *lpboost*: w maximises rho over the hypotheses so far, d is the dual solution;
- *erlpboost*: w maximises g over the hypotheses so far, d is the dual solution, the gradient of g;
- *cerlpboost*: Frank-Wolfe steps on g;
- *mlpboost*: a Frank-Wolfe step and a second candidate; the one with the larger g is the next w.

The image ``z = A w`` is kept, so that a round costs O(m) beside weak learner and master.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from cornerstep.boosting.learners.trees import Answer, WeakLearner
from cornerstep.boosting.long_work import SearchExpiredError, never
from cornerstep.boosting.problem import Smoothed, SoftMargin
from cornerstep.boosting.solvers.master import Master
from cornerstep.boosting.solvers.pool import Ensemble, MarginRay, Pool, ShortStep, checked_weights
from cornerstep.boosting.solvers.solution import MasterSolution, Start
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector
from cornerstep.data.reductions import moved_note
from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.loop import Look, Move
from cornerstep.optimiser.steps import Exact, OpenLoop

METHODS = ("lpboost", "erlpboost", "cerlpboost", "mlpboost")
STEPS = ("short", "open-loop", "line-search", "pairwise", "blended-pairwise")
SECONDARIES = ("lp", "entropic")
Secondary = Callable[[FloatArray, SoftMargin], FloatArray]

_ADDED = 40  # hypotheses taken from one answer
_ACCURACY = 0.2  # of the gap: how well MLPBoost's master is solved
_EXACT = 1e-3  # of eps: how well the master of LPBoost and ERLPBoost is solved
_NEAR = 0.05  # of the gap: from there on a master may start from the last one's weights
_STABLE = (0.8, 0.5, 0.2)  # shares of the best distribution so far where the weak learner is asked
_USEFUL = 0.2  # of the gap: what a further hypothesis may lack of the master's largest edge
# of the gap: what one may lack of it before it counts as idle, and the rounds for which it may; the
# smoothed master tells sooner than the interior point method
_IDLE = {True: (0.2, 1), False: (0.25, 2)}
_SURE = 0.85  # of the gap: the estimated gap at which a complete search follows
_SINGLE = 1e-4  # the accuracy from which on margins at hand are kept in single precision
_SORTED = 8.0  # times that margins are, or work like it, in what is to do when the time is up
_UNLIMITED = 2**31 - 1  # the simplex grows with the hypotheses


class _Step(NamedTuple):
    """A Frank-Wolfe step, not yet taken."""

    image: FloatArray
    size: float
    kind: str
    apply: Callable[[ActiveSet], None]


class BoostingSolver:
    """A method of boosting, for the loop.  The point is the ensemble of largest soft margin so far.

    Parameters
    ----------
    problem : SoftMargin
    learner : WeakLearner
    method : str
        One of ``METHODS``.
    step : str
        One of ``STEPS``, for the methods that take Frank-Wolfe steps.
    secondary : str or callable
        The second candidate of MLPBoost: one of ``SECONDARIES`` or a function of the margins (one
        row a hypothesis) and the problem that answers weights.
    start : tuple of hypotheses and weights, optional
    expired : callable, optional
        Asked in the first search: a :class:`SearchExpiredError` says that there is no hypothesis.
    """

    monotone = False
    extra_columns: tuple[str, ...] = ("edge", "g", "soft_margin", "bound", "hypotheses")

    def __init__(
        self,
        problem: SoftMargin,
        learner: WeakLearner,
        method: str = "mlpboost",
        step: str = "short",
        secondary: str | Secondary = "lp",
        start: tuple[Sequence[Any], FloatArray] | None = None,
        expired: Callable[[], bool] = never,
    ) -> None:
        self.problem, self.learner, self.method, self.step = problem, learner, method, step
        self.pool = Pool(problem.size, np.float32 if problem.eps >= _SINGLE else np.float64)
        self.bound = math.inf
        self.witness = problem.admissible(problem.prior)
        self._estimate, self._candidate = math.inf, self.witness  # by incomplete searches
        self.oracle_calls = 0
        self.rounds = 0
        self._improved = False
        self._gap_at_drop = math.inf
        self.soft_margin = -math.inf
        self._stages: list[tuple[int, Ensemble]] = []
        entropic = method == "erlpboost" or secondary == "entropic"
        self.master = Master(problem, entropic, smooth=method == "mlpboost")
        self.expired = expired
        self._secondary = secondary
        self._accuracy = _ACCURACY
        self._solved: tuple[IntArray, FloatArray] | None = None
        self._rule: Any = Exact()
        if step == "short":
            self._rule = ShortStep(problem.eta)
        elif step == "open-loop":
            self._rule = OpenLoop()

        answer = self._ask(self.witness)
        if start is None:
            self._begin_at(answer.margins[0])
        else:
            self._begin_from(*start)
        self._ask_at: FloatArray | None = None
        self._edge = answer.edge
        self._rehearsed: tuple[float, float, float] | None = None

    @property
    def closing(self) -> float:
        """Seconds that it is expected to take to end a move and to certify the best ensemble."""
        if self._rehearsed is None:
            self._rehearsed = self._rehearse(self.pool.hypotheses[:_ADDED])
        sorting, one, another = self._rehearsed
        return _SORTED * sorting + one + another * len(self.best.numbers)

    def _rehearse(self, hypotheses: Sequence[Any]) -> tuple[float, float, float]:
        """How long it takes to sort margins, and those of one hypothesis, and of another one."""
        equal = np.full(len(hypotheses), 1.0 / len(hypotheses))
        mixed = np.random.default_rng(0).random(self.problem.size)
        parts: tuple[Callable[[], Any], ...] = (
            lambda: self.problem.smoothed(mixed),
            lambda: self.learner.image(hypotheses[:1], equal[:1]),
            lambda: self.learner.image(hypotheses, equal),
        )
        times = []
        for part in parts:
            begin = time.perf_counter()
            part()
            times.append(time.perf_counter() - begin)
        sorting, one, every = times
        return sorting, one, max(every - one, 0.0) / max(len(hypotheses) - 1, 1)

    # -- the state ------------------------------------------------------------------------------

    def _begin_at(self, margins: FloatArray) -> None:
        """All weight on one hypothesis."""
        self._take([self.pool.number(margins)], np.ones(1), margins.copy())

    def _begin_from(self, hypotheses: Sequence[Any], weights: FloatArray) -> None:
        margins = self.learner.margins(hypotheses)
        self.pool.add(hypotheses, margins)
        numbers = [self.pool.number(row) for row in margins]
        self._take(numbers, np.asarray(weights, dtype=np.float64), weights @ margins)

    def _take(
        self,
        numbers: Sequence[int] | IntArray,
        weights: FloatArray,
        image: FloatArray,
        smoothed: Smoothed | None = None,
    ) -> None:
        """Go to the ensemble with these weights."""
        support = weights > 0
        self._numbers, self._weights = np.asarray(numbers)[support], weights[support]
        self._active: ActiveSet | None = None
        self._set_image(image, smoothed)

    def _make_active(self) -> ActiveSet:
        """The active set of the ensemble; built when a step needs it, not after every master."""
        if self._active is None:
            total = 0.0
            for number, weight in zip(self._numbers.tolist(), self._weights, strict=True):
                total += weight
                if self._active is None:
                    self._active = ActiveSet(self._atom(number))
                else:
                    self._active.towards(self._atom(number), weight / total)
        assert self._active is not None
        return self._active

    def _read_active(self) -> None:
        """The ensemble, after a step changed the active set."""
        active = self._make_active()
        numbers = [int(atom.indices[0]) for atom in active.atoms]  # type: ignore[union-attr]
        self._numbers, self._weights = np.array(numbers), active.weights.copy()

    @staticmethod
    def _atom(number: int) -> SparseVector:
        """The vertex of the simplex that is hypothesis ``number``."""
        return SparseVector(np.array([number]), np.array([1.0]), _UNLIMITED)

    def _set_image(self, image: FloatArray, smoothed: Smoothed | None = None) -> None:
        self.image = image
        self.g, self.gradient = smoothed or self.problem.smoothed(image)
        self._value = self._consider(self._numbers, self._weights, image)

    def _consider(
        self, numbers: Sequence[int] | IntArray, weights: FloatArray, image: FloatArray
    ) -> float:
        """Keep an ensemble if its soft margin, the answer, is the largest so far."""
        soft_margin = self.problem.value(image)
        if not self._stages or soft_margin > self.soft_margin:
            self.soft_margin = soft_margin
            support = weights > 0
            kept = np.asarray(numbers)[support].tolist()
            self.best = Ensemble(tuple(kept), weights[support], image)
            self._record()
        return soft_margin

    def _record(self) -> None:
        """Keep the ensemble as a stage: all of the first rounds, then ever fewer."""
        if len(self._stages) < 2 or self.rounds > 1.01 * self._stages[-2][0]:
            self._stages.append((self.rounds, self.best))
        else:
            self._stages[-1] = (self.rounds, self.best)

    @property
    def stages(self) -> list[tuple[int, Ensemble]]:
        """Round and ensemble, as the soft margin rose."""
        return self._stages

    @property
    def note(self) -> str:
        """For the live display: bytes moved, on a cluster."""
        return moved_note(getattr(self.learner, "moved", None))

    @property
    def point(self) -> Ensemble:
        return self.best

    @property
    def expired(self) -> Callable[[], bool]:
        """Whether to end: the loop says whom to ask, and long searches and masters ask too."""
        return self.master.expired

    @expired.setter
    def expired(self, ask: Callable[[], bool]) -> None:
        self.master.expired = self.learner.expired = ask

    def chosen(self, ensemble: Ensemble) -> list[Any]:
        """The hypotheses of an ensemble."""
        return [self.pool.hypotheses[number] for number in ensemble.numbers]

    # -- the weak learner -----------------------------------------------------------------------

    def _ask(self, distribution: FloatArray, enough: float = math.inf) -> Answer:
        """Ask the weak learner for the largest edge, which is a bound; keep its answers.

        A proposal will do if its edge is ``enough``.
        """
        distribution = self.problem.admissible(distribution)
        answer = self.learner.propose(distribution) if enough < math.inf else None
        if answer is None or not (answer.largest or answer.edge >= enough):
            answer = self.learner.query(distribution)
        self._learn(answer, distribution)
        self._keep(answer.hypotheses[:_ADDED], answer.margins[:_ADDED])
        return answer

    def _keep(self, hypotheses: Sequence[Any], margins: FloatArray) -> None:
        """Take hypotheses into the pool, if there will be time to use them."""
        if self.expired():
            raise SearchExpiredError
        if self.pool.add(hypotheses, margins):
            self._improved = True

    def _collect(self, distribution: FloatArray, at: FloatArray, below: float) -> None:
        """Hypotheses for the master: the best, and others of edge > ``below`` at ``at``."""
        distribution = self.problem.admissible(distribution)
        answer = self.learner.propose(distribution)
        self._learn(answer, distribution)
        good = (answer.margins @ at)[:_ADDED] > below
        good[0] = True
        chosen = np.flatnonzero(good)
        self._keep([answer.hypotheses[k] for k in chosen], answer.margins[chosen])

    def _learn(self, answer: Answer, distribution: FloatArray) -> None:
        """What an answer says about the optimum."""
        self.oracle_calls += 1
        edge = answer.edge
        if not self.learner.exact:
            edge = max(edge, self._known_edge(distribution))
        if edge < self._estimate:
            self._estimate, self._candidate = edge, distribution
            self._improved = True
        if answer.largest and edge < self.bound:
            self.bound, self.witness = edge, distribution
            self._improved = True

    def _known_edge(self, distribution: FloatArray) -> float:
        """The largest edge of the hypotheses at hand: a search that is not exact may miss it."""
        rows = self.pool.margins
        if not len(rows):
            return -math.inf
        near = self.pool.edges(distribution)  # in the precision of the rows
        best = np.argsort(-near)[:_ADDED]
        return float((rows[best].astype(np.float64) @ distribution).max())

    def _make_sure(self) -> None:
        """Search completely where the largest edge seems to be smallest."""
        before = self.bound
        edge = self._ask(self._candidate).edge
        if self.bound < edge:
            self._estimate, self._candidate = self.bound, self.witness
        else:
            self._estimate = edge
        if self.bound < before:  # the gap when hypotheses were dropped may have been too small
            self._gap_at_drop = max(self._gap_at_drop, 1.02 * (self._estimate - self.soft_margin))

    # -- the loop's three verbs ------------------------------------------------------------------

    def look(self) -> Look:
        with suppress(SearchExpiredError):  # what is known by then counts
            self._look()
        return self._seen(self.g, self._value, self._numbers.size)

    def _look(self) -> None:
        if self.method in ("cerlpboost", "mlpboost"):
            self._look_along_gradient()
        elif self._ask_at is not None:
            self._edge = self._ask(self._ask_at).edge
            self._ask_at = None
        gap = max(_SURE * (self.bound - self.soft_margin), self.problem.eps)
        if self._estimate < self.bound and self._estimate - self.soft_margin <= gap:
            self._make_sure()

    @property
    def proven(self) -> tuple[float, float]:
        """The least that the soft margin, the most that the optimum can be, with rounding."""
        off = self.problem.rounding(len(self.best.numbers))
        return self.soft_margin - off, min(self.bound + self.problem.rounding(), 1.0)

    def _seen(self, g: float, soft_margin: float, n_hypotheses: int) -> Look:
        least, most = self.proven
        gap = max(most - least, 0.0)
        rounding = min(2.0 * self.problem.rounding(len(self.best.numbers)), gap)
        extra = (self._edge, g, soft_margin, self.bound, n_hypotheses)
        return Look(-least, gap, extra=extra, rounding=rounding)

    def _look_along_gradient(self) -> None:
        """The vertex for the Frank-Wolfe step at the gradient of g.

        The rate only needs an edge no less than the bound; a known hypothesis that has it spares
        MLPBoost the weak learner, which its second candidate asks elsewhere.
        """
        edges = self.pool.edges(self.gradient)
        if self.method == "cerlpboost" or edges.max() < self.bound:
            self._ask(self.gradient, math.inf if self.method == "cerlpboost" else self.bound)
            edges = self.pool.edges(self.gradient)
        k = int(np.argmax(edges))
        self._edge = float(edges[k])
        self._vertex = int(self.pool.numbers[k])

    def move(self) -> Move:
        self.rounds += 1
        try:
            return self._advance()
        except SearchExpiredError:
            return Move(0.0, "cut short")

    def _advance(self) -> Move:
        if self.method in ("lpboost", "erlpboost"):
            return self._correct()
        step, after = self._frank_wolfe_step(), None
        if self.method == "mlpboost":
            numbers, weights, image = self._second_candidate()
            second, first = self.problem.smoothed(image), self.problem.smoothed(step.image)
            if second.value > first.value:
                self._take(numbers, weights, image, second)
                return Move(1.0, "secondary")
            self._consider(numbers, weights, image)
            after = first
        step.apply(self._make_active())
        self._read_active()
        self._set_image(step.image, after)
        return Move(step.size, step.kind)

    def certify(self, point: Ensemble) -> Look:
        """Margins recomputed from the data.

        The bound was: by a complete search whose sums are exact at the witness.  Hypotheses that
        came later may refute one that rests on another search.
        """
        weights = point.weights / point.weights.sum()
        image = self.learner.image(self.chosen(point), weights)
        self.best = Ensemble(point.numbers, weights, image)
        self._stages[-1] = (self._stages[-1][0], self.best)
        self.soft_margin = self.problem.value(image)
        if self._estimate < self.bound:
            with suppress(SearchExpiredError):
                self._make_sure()
        if not self.learner.exact:
            self.bound = max(self.bound, self._known_edge(self.witness))
        return self._seen(self.problem.smoothed(image)[0], self.soft_margin, len(point.numbers))

    # -- the steps -------------------------------------------------------------------------------

    def _frank_wolfe_step(self) -> _Step:
        """Towards the vertex, or from the worst hypothesis of the active set to the better one."""
        target, atom = self.pool.row(self._vertex), self._atom(self._vertex)
        if self.step not in ("pairwise", "blended-pairwise"):
            return self._step_towards(target, atom)
        self._make_active()
        self._read_active()  # its order of the hypotheses
        images = self.pool.rows(self._numbers)
        edges = images @ self.gradient
        worst = int(np.argmin(edges))
        if self.step == "blended-pairwise":
            best = int(np.argmax(edges))
            if edges[best] - edges[worst] < self._edge - self.gradient @ self.image:
                return self._step_towards(target, atom)
            target, atom = images[best], self._atom(int(self._numbers[best]))
        ray = MarginRay(self.problem, self.image, target - images[worst])
        largest = float(self._weights[worst])
        size = self._rule.size(ray, largest, self.rounds - 1)
        drop = size >= largest * (1 - 1e-9)
        size = largest if drop else size
        return _Step(
            self.image + size * ray.change, size, "pairwise-drop" if drop else "pairwise",
            lambda active: active.shift(worst, atom, size, drop),
        )  # fmt: skip

    def _step_towards(self, target: FloatArray, atom: SparseVector) -> _Step:
        ray = MarginRay(self.problem, self.image, target - self.image)
        size = min(self._rule.size(ray, 1.0, self.rounds - 1), 1.0)
        image = target if size >= 1 else self.image + size * ray.change
        return _Step(image, size, "fw", lambda active: active.towards(atom, size))

    def _correct(self) -> Move:
        """The best weights for all hypotheses so far, and the distribution to ask next."""
        solution = self._solve(_EXACT * self.problem.eps)
        self._take(self.pool.numbers, solution.weights, solution.image)
        self._drop_idle(solution)
        self._ask_at = solution.distribution
        return Move(1.0, "entropic" if self.method == "erlpboost" else "lp")

    def _solve(self, target: float) -> MasterSolution:
        """The master, from the weights of the last one unless it must be solved far beyond them."""
        start = None
        gap = self._estimate - self.soft_margin
        if self._solved is not None and target > _NEAR * gap:
            numbers, weights = self._solved
            last = np.zeros(len(self.pool))
            at = np.minimum(np.searchsorted(self.pool.numbers, numbers), len(self.pool) - 1)
            there = self.pool.numbers[at] == numbers
            last[at[there]] = weights[there]
            if last.sum() > 0.5:
                start = Start(last, max(gap, 2.0 * target))
        solution = self.master.solve(self.pool.margins, max(target, 1e-12), start)
        self._solved = (self.pool.numbers, solution.weights)
        if self.expired():  # no time to go on from there
            self._consider(self.pool.numbers, solution.weights, solution.image)
            raise SearchExpiredError
        return solution

    def _drop_idle(self, solution: MasterSolution) -> None:
        """Drop hypotheses that stay useless, but only as the gap shrinks: no cycles."""
        gap = self._estimate - self.soft_margin
        if gap > 0.99 * self._gap_at_drop:
            return
        self._gap_at_drop = gap
        share, patience = _IDLE[self.master.smooth]
        useful = solution.edge - solution.edges <= share * gap
        in_use: list[int] = []
        if self.step in ("pairwise", "blended-pairwise"):  # they take weight off them
            in_use = [*self._numbers, *self.pool.numbers[solution.weights > 0]]
        if not self.learner.exact:  # the bound must hold for them at least
            in_use += self.best.numbers
        self.pool.age(useful, in_use, patience)

    def _second_candidate(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Hypotheses, weights and image; the masters ask the weak learner for more on the way."""
        numbers = self.pool.numbers
        if callable(self._secondary):
            margins = self.pool.margins.astype(np.float64)
            weights = checked_weights(self._secondary(margins, self.problem), len(self.pool))
            return numbers, weights, weights @ margins
        gap = self._estimate - self.soft_margin
        solution = self._solve(self._accuracy * min(max(gap, self.problem.eps), 0.5))
        self._drop_idle(solution)
        self._improved = False
        below = solution.edge - _USEFUL * gap
        best = self._candidate
        with suppress(SearchExpiredError):
            for share in _STABLE:
                d = share * best + (1.0 - share) * solution.distribution
                self._collect(d, solution.distribution, below)
        if not self._improved:  # the master's answer must become sharper to learn more
            self._accuracy *= 0.5
        return numbers, solution.weights, solution.image
