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
    gap : float
        Of the last look.
    gain : float
        What the sweeps of the last round gained in D.
    """

    def __init__(
        self, settings: BlockSettings, target: float, *, kernel: bool, second_order: bool
    ) -> None:
        self.settings, self.target = settings, target
        self.stage, self._stage_began = SWEEPS, 0
        self.rounds = 0
        self.gain = 0.0
        self._kernel, self._second_order = kernel, second_order
        self._gaps: list[float] = []
        self._value = math.inf  # P at the last look
        self._least_gap, self._stale_rounds = math.inf, 0
        self._least_gain = settings.least_gain
        self._sweeps = 0  # of the last round
        self._round_cost = self._step_cost = 0.0  # in looks, of a round and of a CG step

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
        settings = self.settings
        cost = 1.0
        if self.stage == SWEEPS and self._kernel:
            following, window = SECOND_ORDER, settings.kernel_second_order_window
            cost, most = self._round_cost, settings.kernel_second_order_after * self._step_cost
        elif self.stage == SWEEPS:
            following, window = ACCELERATED, settings.accelerate_window
            most = settings.accelerate_after
        elif self.stage == ACCELERATED and self._second_order:
            following, window = SECOND_ORDER, settings.second_order_window
            most = settings.second_order_after
        else:
            return
        if self.rounds - self._stage_began < window or gap <= self.target * value:
            return
        pace = _log(self._gaps[-1 - window] / gap) / window
        if self._to_go(gap, value) * cost > pace * most:
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
        most = min(2**self.rounds, settings.most_sweeps)
        before, gap = self._gaps[-2:] if self.rounds > 1 else (0.0, 0.0)
        if self.stage != SWEEPS or not before > gap > 0:
            return most
        needed = settings.sweeps_margin * self._sweeps * self._to_go(gap, self._value)
        pace = _log(before / gap)  # 0 where the gap fell by rounding alone
        return most if needed >= most * pace else max(2, math.ceil(needed / pace))

    def is_little(self, gain: float, dual: float) -> bool:
        """Whether a sweep with this gain, at about this D, ends the round."""
        little = gain <= self._least_gain * self.target * abs(dual)
        if little:
            self._least_gain *= self.settings.least_gain_factor
        return little

    def note_sweeps(self, count: int, gain: float, spent: float, cost: float) -> None:
        """So many sweeps gained so much in all, for so many looks; one over all blocks costs."""
        self._sweeps, self.gain = count, gain
        self._round_cost, self._step_cost = 1.0 + spent, cost


def _log(x: float) -> float:
    """The logarithm, also of 0."""
    return math.log(x) if x > 0 else -math.inf
