"""The schedule of block ascent: how many sweeps and which steps, from the gaps seen so far."""

from __future__ import annotations

import math

from cornerstep.multiclass.solvers.block_settings import BlockSettings

SWEEPS, ACCELERATED, SECOND_ORDER = "sweeps", "accelerated", "second-order"  # stages


class Pace:
    """What a round is to consist of, decided by what the rounds before it have achieved.

    Parameters
    ----------
    settings : BlockSettings
    target : float
        The relative gap to reach.
    kernel : bool
        Whether the examples have a kernel: the second stage is then second-order steps.
    second_order : bool
        Whether there are second-order steps for this problem.

    Attributes
    ----------
    stage : {'sweeps', 'accelerated', 'second-order'}
    rounds : int
        Made so far.
    sweeps : int
        Of the last round.
    gap : float
        Of the last look.
    """

    def __init__(
        self, settings: BlockSettings, target: float, *, kernel: bool, second_order: bool
    ) -> None:
        self.settings, self.target = settings, target
        self.stage, self._stage_began = SWEEPS, 0
        self.rounds = 0
        self._kernel, self._second_order = kernel, second_order
        self._gaps: list[float] = []
        self._value = math.inf  # P at the last look
        self._least_gap, self._stale_rounds = math.inf, 0
        self.sweeps = 0

    @property
    def gap(self) -> float:
        return self._gaps[-1]

    def note_look(self, gap: float, value: float) -> None:
        """The gap after a round, and P: go on to the next stage where that is the faster way."""
        self._gaps.append(gap)
        self._choose_stage(gap, value)
        stale = gap >= self.settings.stale_progress * self._least_gap
        self._stale_rounds = self._stale_rounds + 1 if stale else 0
        self._least_gap = min(gap, self._least_gap)
        self._value = value

    def needs_double(self) -> bool:
        """Whether float32 data have served: the gap is small, or does not fall any more."""
        small = self.gap < self.settings.single_until * abs(self._value)
        return small or self._stale_rounds >= self.settings.stale_rounds

    def _choose_stage(self, gap: float, value: float) -> None:
        """Leave a stage that, at its pace, is not the way to the target."""
        window = self.settings.window
        if self.stage == SWEEPS:
            following = SECOND_ORDER if self._kernel else ACCELERATED
            most = self.settings.most_sweep_rounds
        elif self._second_order:
            following, most = SECOND_ORDER, self.settings.most_accelerated_rounds
        else:
            return
        if self.rounds - self._stage_began < window or gap <= self.target * value:
            return
        pace = _log(self._gaps[-1 - window] / gap) / window
        if self._to_go(gap, value) > pace * most:
            self.stage, self._stage_began = following, self.rounds

    def _to_go(self, gap: float, value: float) -> float:
        """How much smaller the gap must get, as a logarithm."""
        target = max(self.target, self.settings.finest_target)
        return _log(gap) - _log(target) - _log(value)

    def most_sweeps(self) -> int:
        """Sweeps until the next look: fewer if those should suffice to reach the target."""
        settings = self.settings
        if self.stage == ACCELERATED:
            return settings.sweeps_per_step
        most = min(settings.first_sweeps * 2**self.rounds, settings.most_sweeps)
        before, gap = self._gaps[-2:] if self.rounds > 1 else (0.0, 0.0)
        if self.stage != SWEEPS or not before > gap > 0:
            return most
        needed = settings.sweeps_margin * self.sweeps * self._to_go(gap, self._value)
        pace = _log(before / gap)  # 0 where the gap fell by rounding alone
        return most if needed >= most * pace else max(2, math.ceil(needed / pace))


def _log(x: float) -> float:
    """The logarithm, also of 0."""
    return math.log(x) if x > 0 else -math.inf
