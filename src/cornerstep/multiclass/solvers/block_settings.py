"""The numbers of block ascent, with what each trades and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass, field

from cornerstep.multiclass.solvers.acceleration import AccelerationSettings
from cornerstep.multiclass.solvers.second_order import SecondOrderSettings


@dataclass(frozen=True)
class BlockSettings:
    """When block ascent looks, sweeps, accelerates, and stops to read float32.

    "Measured" is the work until the target (looks, entries swept, products of second-order steps,
    each times what it costs there), in the mean of 40 problems: parts of pendigits, usps, isolet,
    flowers102, cub200, news20, mnist and vowel, iris and wine, and generated ones (classes that
    overlap, correlated and badly scaled columns, 150 classes, few rows, sparse ones, wrong labels,
    weights), C = 0.1 to 1000, 12 of them with a kernel.  Another seed changes the work on one of
    them by 5 %.  Where (C = 0.1, 1 or 10) follows a name, the whole set was measured.

    Also measured, and left out for it: a limit on what the sweeps of a round cost in looks (no
    difference in the mean), an end of the round where a sweep gains little (2 % more work), a rule
    of their own for second-order steps with a kernel (5 % more on small problems, 4 % less on
    larger ones), and to try longer weights also
    where they just promise the target (3 % on news20, C = 10; no difference on the other sets).
    """

    # -- sweeps --------------------------------------------------------------------------------

    most_sweeps: int = 10
    """Sweeps of a round, at most: later ones mostly solve for pools that are about to change.
    Measured: half 1 % more work, 36 % on usps with a kernel; twice 3 % less, 18 % more on digits
    with a kernel."""

    first_sweeps: int = 1
    """Sweeps of the first round; each later round may have twice as many.  The first pools hold
    ties of all classes and are hardly worth solving for.  Measured: 10 takes 4 % more work in the
    mean on pendigits and usps, 5 % on isolet, 66 % on news20 (C = 0.1)."""

    sweeps_margin: float = 1.2
    """Factor on the sweeps that, at the pace of the last round, suffice to reach the target: a
    round has no more than that, so that the last one ends when it is done.  Measured: without, 29 %
    more work on news20 (C = 0.1), 7 % (C = 1); 10 % less on isolet (C = 0.1), otherwise the
    same."""

    resting_gain: float = 0.02
    """Blocks that gain less than this share of the mean rest until the next round.  Measured:
    without, 6 % more work, 63 % on wrong labels (C = 10); half and twice 1 % less."""

    polish_gain: float = 0.03
    """A round that gained less than this share of the gap ends with a sweep over all blocks: what
    is left of the gap is in W, which blocks that rest do not fit any more.  Measured: without, 2 %
    more work, 58 % on badly scaled columns (C = 100); half the same, twice 2 % less."""

    polish_share: float = 0.5
    """It does so if fewer than this share of the blocks still move.  Measured: 0.25 takes 30 % more
    work on iris, 21 % on pendigits (standardised); without the condition, 12 % more on usps
    (standardised, C = 10), 28 % on mnist to tol = 1e-5, 1 % less in the mean."""

    extra_classes: int = 5
    """Classes that may enter a pool in a round, beyond those that the loss weighs: more make sweeps
    dearer, fewer take more rounds.  Measured: 2 takes 4 % more work, 244 % on news20; 0 takes 18 %
    more; 10 takes 1 % less; all of them 4 % more, 58 % on cub200."""

    # -- primal points -------------------------------------------------------------------------

    longer_promise: float = 0.7
    """Longer weights cost a look; they are tried if they should leave at most this share of the
    gap.  Measured: never, 1 % more work, 25 % where rows are few, 21 % on usps (standardised); half
    the same; always, 5 % more."""

    # -- stages --------------------------------------------------------------------------------

    window: int = 3
    """Rounds that tell the pace.  Measured: 1 takes 2 % more work, 239 % on news20; 6 the same; 10
    before second-order steps, 4 % more."""

    most_sweep_rounds: float = 10.0
    """Rounds of sweeps to come, at that pace, from which on steps are accelerated, or, with a
    kernel, of second order.  Measured: without, 8 problems are not solved; half 2 % less work, but
    144 % more on news20; twice the same."""

    most_accelerated_rounds: float = 30.0
    """Accelerated rounds to come from which on, where W is small, there are second-order steps.
    Measured: without, 3 problems are not solved; half the same, a third up to 50 % more work
    (vowel); twice up to 17 % more (wine)."""

    steps_per_round: int = 4
    """Accelerated steps between two looks, for each of which the centre moves.  Measured, where
    there are such: 1 takes 13 % more work, half 14 %, twice 1 % less, but 48 % more on
    flowers102."""

    sweeps_per_step: int = 5
    """Sweeps of an accelerated step, at most.  Measured: 2 takes 8 % more work; 10 the same in the
    mean, 82 % more on cub200, where sweeps soon have nothing to do."""

    mean_period: int = 3
    """Accelerated rounds from one try of the mean of the weights, which costs a look, to the next.
    The mean has half the error of the weights themselves.  Measured: 1 takes 4 % more work, up to
    17 % (pendigits, standardised, C = 10, tol = 1e-5); 6 the same; never, 2 % more, 16 % on
    iris."""

    finest_target: float = 1e-15
    """Relative gap that stands for a smaller target in these forecasts: no run gets there."""

    # -- precision -----------------------------------------------------------------------------

    single_until: float = 1e-4
    """Relative gap down to which sweeps may read float32 copies of large data; their rounding is
    about a tenth of that."""

    stale_rounds: int = 10
    """Rounds without progress after which they do not in any case."""

    stale_progress: float = 0.99
    """Factor on the least gap that counts as progress."""

    # -- the parts -----------------------------------------------------------------------------

    acceleration: AccelerationSettings = field(default_factory=AccelerationSettings)
    second_order: SecondOrderSettings = field(default_factory=SecondOrderSettings)
