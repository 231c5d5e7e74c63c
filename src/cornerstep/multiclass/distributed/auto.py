"""The default on partitions: block rounds, and a method on all examples where those get slow.

Block rounds are the quicker by far while an example moves its own scores much less than all others
do (small C, many features).  Otherwise the blocks of a round overrule each other, and what they
gain becomes small long before the gap is.  The fully corrective method is indifferent to that, and
with smoothing, where it would have to keep the dual points of all vertices, the descent on
envelopes.  Both need some dozen passes more to get anywhere: they start at the dual point that the
rounds have reached.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cornerstep.multiclass.distributed.partitions import SpreadProblem
from cornerstep.multiclass.distributed.settings import SpreadSettings
from cornerstep.multiclass.distributed.solvers import SpreadAscent
from cornerstep.multiclass.solvers.corrective import CorrectiveDescent
from cornerstep.multiclass.solvers.envelope import EnvelopeDescent
from cornerstep.multiclass.solvers.passes import DualState
from cornerstep.optimiser.loop import Look, Move

_TINY = 1e-300  # instead of a gap of 0


class SpreadAuto:
    """Both methods, one after the other, for the loop.

    Parameters
    ----------
    problem : SpreadProblem
    rng : numpy Generator
    target : float
        The relative gap to reach.
    settings : SpreadSettings, optional
    """

    monotone = True

    def __init__(
        self,
        problem: SpreadProblem,
        rng: np.random.Generator,
        target: float,
        settings: SpreadSettings | None = None,
    ) -> None:
        self.problem, self.executor, self.target = problem, problem.executor, target
        self._block = SpreadAscent(problem, rng, settings)
        self._later: CorrectiveDescent | EnvelopeDescent | None = None
        self._gaps: list[float] = []
        self._value = math.inf

    @property
    def _current(self) -> Any:
        return self._later or self._block

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Of the trace."""
        return self._block.extra_columns

    @property
    def note(self) -> str:
        """For the live display."""
        return self._block.note

    @property
    def point(self) -> Any:
        return self._current.point

    def coefficients(self) -> Any:
        """``s_i alpha_i`` of the dual points, where they can be brought together."""
        return self._current.coefficients()

    def weights_image(self) -> Any:
        """The image of the point to return."""
        return self._current.weights_image()

    def snapshot(self) -> dict[str, Any] | None:
        """The state of the method at work, as arrays by name."""
        arrays = self._current.snapshot()
        if arrays is not None:
            arrays["later"] = np.array(self._later is not None)
        return arrays

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        if not arrays.get("later", False):  # one machine's block ascent does not say
            self._block.resume(arrays)
            return
        self._later = self._successor()
        self._later.resume(arrays)

    def _successor(self, state: DualState | None = None) -> CorrectiveDescent | EnvelopeDescent:
        """The method that takes over."""
        rows = self._block.rows
        if self.problem.shared.smoothing:
            return EnvelopeDescent(rows, self.problem.shared, state)
        return CorrectiveDescent(rows, state)

    def look(self) -> Look:
        look = self._seen(self._current.look())
        self._gaps.append(look.gap)
        self._value = look.value
        return look

    def _seen(self, look: Look) -> Look:
        """A look with the columns of the trace."""
        dual, *others = look.extra
        return look._replace(extra=(dual, *others[1:]) if self._later else look.extra)

    def _is_slow(self) -> bool:
        gap, allowed = self._gaps[-1], max(self.target * self._value, _TINY)
        settings = self._block.settings
        if len(self._gaps) <= settings.least_rounds or gap <= allowed:
            return False
        earlier = max(self._gaps[-1 - settings.window], _TINY)
        pace = math.log(earlier / gap) / settings.window
        return math.log(gap / allowed) > pace * settings.patience

    def move(self) -> Move:
        if self._later or not self._is_slow():
            return self._current.move()
        point, value = self._block.best_image, self._block.best_value
        self._later = self._successor(self._block.rows.state(*self._block.held()))
        self._later.set_incumbent(self._later.state._replace(image=point), value)
        return Move(0.0, self._later.rule)

    def certify(self, point: Any) -> Look:
        """Of the method at work."""
        if self._later and not isinstance(point, DualState):  # found before it took over
            point = self._later.state._replace(image=point)
        return self._seen(self._current.certify(point))
