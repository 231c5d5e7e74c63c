"""Block-coordinate Frank-Wolfe: the domain is a product, and one factor moves at a time.

:class:`BlockSolver` is the method: which blocks come next, how many were visited, when to look at
all of them, and what the gap is between such looks.  What a step in a block is, it leaves to its
*blocks*: the factors of a :class:`~cornerstep.domains.Product` (here, for ``minimize``), or a
problem's own, which may take a thousand steps in one compiled sweep.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] W. Saint-Arnaud, E. Lamouchi, F. Boileau. Review of Frank Wolfe and its variants. Université
   de Montréal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import Direction, Vector, concatenate, dense
from cornerstep.domains.base import ORACLES, has_oracle, vertex_of
from cornerstep.optimiser.loop import Look, Move, Solver
from cornerstep.optimiser.objectives import Objective, Position
from cornerstep.optimiser.order import ORDERS, Order
from cornerstep.optimiser.pieces import Pieces
from cornerstep.optimiser.solver import Method, Proposal, SteppingState
from cornerstep.optimiser.steps import StepRule


class BlockOracle(Protocol):
    """What :class:`BlockSolver` asks of the blocks it moves."""

    gaps: FloatArray  # each block's gap as last seen, infinite before: visits enter it
    reads_gaps: bool  # whether a look enters all of them
    interrupted: Callable[[], bool]  # whether somebody has pressed Ctrl-C
    monotone: bool
    extra_columns: tuple[str, ...]

    @property
    def point(self) -> Any:
        """The current point, as the loop knows it."""

    def look(self) -> Look:
        """Value and gap with an oracle call in every block."""

    def estimate(self, gap: float) -> Look:
        """The value with this estimate of the gap, and no oracle call."""

    def sweep(self, order: IntArray) -> Move:
        """A step in each of these blocks, one after the other; the last one made."""

    def certify(self, point: Any) -> Look:
        """Go to ``point`` and look there, all from the data."""


class BlockSolver:
    """Steps in one block after the other, for the loop.

    The gap is the sum of the blocks' gaps.  A full look comes once a pass, or once in a few passes;
    between them the sum of the gaps as last seen estimates it, times what that sum was wrong by at
    the last full look.

    Parameters
    ----------
    blocks : BlockOracle
    order : {'permuted', 'uniform', 'gap'}
        See :mod:`cornerstep.optimiser.order`.
    rng : numpy Generator
    visits : int, optional
        Blocks that one iteration visits; by default all of them, a pass.
    look_every : int
        Passes between full looks.
    corrections : sequence of callables
        Further sweeps after every iteration, each over a fresh permutation of all blocks: of blocks
        that remember vertices and need no oracle for them.
    """

    def __init__(
        self,
        blocks: BlockOracle,
        order: str,
        rng: np.random.Generator,
        *,
        visits: int | None = None,
        look_every: int = 1,
        corrections: Sequence[Callable[[IntArray], Any]] = (),
    ) -> None:
        self.blocks = blocks
        self.order = Order(order, blocks.gaps.size, rng, blocks.gaps)
        self.visits = blocks.gaps.size if visits is None else visits
        self.look_every = look_every
        self.corrections = corrections
        self.monotone = blocks.monotone
        self.extra_columns = blocks.extra_columns
        self.expired: Callable[[], bool] = lambda: False
        self._pieces, self._corrected = Pieces(), Pieces()
        self._error = 1.0  # the gap of the last full look over the sum of the gaps as last seen

    @property
    def point(self) -> Any:
        return self.blocks.point

    @property
    def interrupted(self) -> Callable[[], bool]:
        """Whether somebody has pressed Ctrl-C; blocks whose looks are long ask too."""
        return self.blocks.interrupted

    @interrupted.setter
    def interrupted(self, ask: Callable[[], bool]) -> None:
        self.blocks.interrupted = ask

    def look(self) -> Look:
        visits, n_blocks = self.order.visits, self.order.n_blocks
        over = visits > 0 and self.expired()  # a certificate follows
        if visits % (self.look_every * n_blocks) == 0 and not over:
            return self._learn(self.blocks.look())
        return self.blocks.estimate(max(self._error * float(self.blocks.gaps.sum()), 0.0))

    def move(self) -> Move:
        left = self.visits
        while left:
            order = self.order.take(left)
            for piece in self._pieces(order.size):
                move = self.blocks.sweep(order[piece])
                if math.isnan(move.step) or self.expired():
                    return move
            left -= order.size
        for sweep in self.corrections:
            order = self.order.permutation()
            for piece in self._corrected(order.size):
                sweep(order[piece])
                if self.expired():
                    return move
        return move

    def certify(self, point: Any) -> Look:
        return self._learn(self.blocks.certify(point))

    def _learn(self, look: Look) -> Look:
        if self.blocks.reads_gaps:
            self.order.gaps_refreshed()
        estimate = float(self.blocks.gaps.sum())
        if 0 < estimate < math.inf and look.gap > 0:
            self._error = look.gap / estimate
        return look


class Block(Method):
    """One block of a product at a time (BCFW): ``d = v_i - x_i`` in block i, 0 elsewhere.

    The gap is the sum of the blocks' gaps.  Between full looks, one at the start of every pass, it
    is an estimate made of each block's last value.

    Parameters
    ----------
    order : {'permuted', 'uniform', 'gap'}, default='permuted'
        A fresh permutation every pass, uniform draws, or draws proportional to the blocks' gaps.
    direction : {'fw', 'away', 'pairwise'}, default='fw'
        What a block does; 'away' and 'pairwise' take the in-face directions of its factor.
    """

    name: ClassVar[str] = "block"
    needs: ClassVar[tuple[str, ...]] = ("lmo", "blocks")
    steps: ClassVar[tuple[str, ...] | None] = None

    _DIRECTIONS = ("fw", "away", "pairwise")

    def __init__(self, order: str = "permuted", direction: str = "fw") -> None:
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
        if direction not in self._DIRECTIONS:
            raise ValueError(
                f"direction must be one of {', '.join(self._DIRECTIONS)}, got {direction!r}"
            )
        self.order = order
        self.direction = direction

    def begin(
        self, objective: Objective, domain: Any, start: Vector, rng: np.random.Generator
    ) -> None:
        super().begin(objective, domain, start, rng)
        self.n_blocks = len(domain.blocks)
        if self.direction != "fw":
            for name in ("in_face_lmo", "max_step"):
                if not has_oracle(domain, name):
                    raise ValueError(
                        f"direction={self.direction!r} needs {ORACLES[name]} of every factor"
                    )
        self._rng = rng

    def solver(self, objective: Objective, step: StepRule, position: Position) -> Solver:
        self.walk = factors = Factors(objective, self, step, position)
        return BlockSolver(factors, self.order, self._rng, visits=1)

    def gap_of(self, position: Position, i: int) -> tuple[float, Vector]:
        """Block i's gap ``<g_i, x_i - v_i>`` and its v_i."""
        block, domain = self.domain.blocks[i]
        gradient = position.gradient[block]
        self.oracle_calls += 1
        vertex = vertex_of(domain, gradient)
        return gradient @ position.x[block] - float(vertex @ gradient), vertex

    def propose_in(self, position: Position, i: int) -> Proposal:
        """The direction to take in block i, with the block's own gap."""
        gap, vertex = self.gap_of(position, i)
        block, domain = self.domain.blocks[i]
        x, gradient = position.x[block], position.gradient[block]
        step, max_step, kind = dense(vertex) - x, 1.0, "fw"
        if self.direction != "fw":
            self.oracle_calls += 1
            away = dense(domain.in_face_lmo(-gradient, x))
            if self.direction == "pairwise":
                step, kind = dense(vertex) - away, "pairwise"
            elif gradient @ away - gradient @ x > gap:
                step, kind = x - away, "away"
            if kind != "fw":
                max_step = domain.max_step(x, step)
        return Proposal(Direction.inside(block, step, position.x.size), max_step, gap, kind)


class Factors(SteppingState):
    """The factors of a product, as blocks: one direction and one step of the step rule in each."""

    method: Block
    reads_gaps = True

    def __init__(
        self, objective: Objective, method: Block, step: StepRule, position: Position
    ) -> None:
        super().__init__(objective, method, step, position)
        self.gaps = np.full(method.n_blocks, np.inf)

    def look(self) -> Look:
        if not self._is_finite():
            return Look(self.position.value, math.nan)
        self._vertex()
        return self._look(float(self.gaps.sum()))

    def _vertex(self) -> Vector:
        """The vertex made of the blocks' own, whose gaps are entered."""
        parts = []
        for i in range(self.gaps.size):
            self.gaps[i], part = self.method.gap_of(self.position, i)
            parts.append(part)
        return concatenate(parts)

    def estimate(self, gap: float) -> Look:
        return self._look(gap, certified=False)

    def sweep(self, order: IntArray) -> Move:
        for i in order:
            proposal = self.method.propose_in(self.position, int(i))
            self.gaps[i] = proposal.gap
            move = self._advance(proposal)
            if math.isnan(move.step):
                break
        return move

    def certify(self, point: FloatArray) -> Look:
        self._go_to(point)
        if not self._is_finite():  # f no longer answers at this point as it did
            return Look(self.position.value, math.inf, extra=self._extra())
        return self._certificate(self._vertex)[0]
