"""Block-coordinate Frank-Wolfe: on a product, one factor moves at a time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cornerstep.domains.base import ORACLES, has_oracle
from cornerstep.objectives import Objective, Position
from cornerstep.optimiser.solver import Method, Proposal
from cornerstep.vectors import Direction, Vector, dense


class Block(Method):
    """BCFW: ``d = v_i - x_i`` in block i, 0 elsewhere; an iteration is one block.

    The gap is the sum of the blocks' gaps.  Between full looks, one at the start of every pass, it
    is an estimate made of each block's last value.

    Parameters
    ----------
    order : {'permuted', 'uniform', 'gap'}, default='permuted'
        A fresh permutation every pass, uniform draws, or draws proportional to the blocks' gaps.
    direction : {'fw', 'pairwise'}, default='fw'
        What a block does; 'pairwise' takes the in-face pairwise direction of its factor.
    """

    name: ClassVar[str] = "block"
    needs: ClassVar[tuple[str, ...]] = ("lmo", "blocks")
    steps: ClassVar[tuple[str, ...] | None] = None

    _ORDERS = ("permuted", "uniform", "gap")
    _DIRECTIONS = ("fw", "pairwise")

    def __init__(self, order: str = "permuted", direction: str = "fw") -> None:
        if order not in self._ORDERS:
            raise ValueError(f"order must be one of {', '.join(self._ORDERS)}, got {order!r}")
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
        if self.direction == "pairwise":
            for name in ("in_face_lmo", "max_step"):
                if not has_oracle(domain, name):
                    raise ValueError(f"direction='pairwise' needs {ORACLES[name]} of every factor")
        self._gaps = np.full(self.n_blocks, np.inf)
        self._rng = rng
        self._queue: list[int] = []
        self._count = 0

    def propose(self, position: Position) -> Proposal:
        certified = self._count % self.n_blocks == 0
        self._count += 1
        if certified:
            self._look_everywhere(position)
        i = self._next_block()
        block, domain = self.domain.blocks[i]
        x, gradient = position.x[block], position.gradient[block]
        self.oracle_calls += 1
        vertex = domain.lmo(gradient)
        self._gaps[i] = gradient @ x - float(vertex @ gradient)
        start, max_step = x, 1.0
        if self.direction == "pairwise":
            self.oracle_calls += 1
            start = dense(domain.in_face_lmo(-gradient, x))
            max_step = domain.max_step(x, dense(vertex) - start)
        direction = Direction.inside(block, dense(vertex) - start, position.x.size)
        gap = float(self._gaps.sum())
        return Proposal(direction, max_step, gap, self.direction, certified)

    def _look_everywhere(self, position: Position) -> None:
        for i, (block, domain) in enumerate(self.domain.blocks):
            gradient = position.gradient[block]
            self.oracle_calls += 1
            vertex = domain.lmo(gradient)
            self._gaps[i] = gradient @ position.x[block] - float(vertex @ gradient)

    def _next_block(self) -> int:
        if self.order == "gap":
            shares = np.maximum(self._gaps, 0.0)
            total = shares.sum()
            if total > 0:
                return int(self._rng.choice(self.n_blocks, p=shares / total))
        if self.order != "permuted":
            return int(self._rng.integers(self.n_blocks))
        if not self._queue:
            self._queue = self._rng.permutation(self.n_blocks).tolist()
        return self._queue.pop()
