"""The numbers of block ascent, with what each trades and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass, field

from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.solvers.acceleration import AccelerationSettings
from cornerstep.multiclass.solvers.second_order import SecondOrderSettings


@dataclass(frozen=True)
class BlockSettings:
    """When block ascent looks, sweeps, accelerates, and stops to read float32.

    The unit of cost is a *look*: the products of all examples with all classes.  "Measured" is on
    the benchmark sets (pendigits, usps, isolet: unit and standardised; news20; C = 0.1, 1, 10) for
    tol = 1e-3, and on pendigits and usps (unit) for 1e-5: looks and sweeps made, each times what it
    costs there, over 1 (news20) to 5 seeds.  "On 26 problems" is that on 19 linear ones (those
    sets, digits, wine and iris; smoothing 0 and 0.5) and 7 with a kernel (C up to 1e4), tol = 1e-3
    to 1e-6, geometric mean, one or two seeds; second-order steps themselves are not counted there.
    Also measured, and left out for it: to try longer weights also where they just promise the
    target (3 % on news20, C = 10; no difference on the other sets).
    """

    # -- sweeps --------------------------------------------------------------------------------

    dense_sweep_cost: float = 5.0
    """Multiply-adds of a blocked matrix product that take as long as one of a sweep, dense rows;
    products of CSR rows and of kernel matrices are no faster than sweeps.  Measured on 26 problems:
    1 takes 7 % more work, up to twice (wine); 2.5 and 10 take 2 % more."""

    sweep_budget: float = 3.0
    """Looks that the sweeps of a round may cost (two sweeps there are in any case).  More: fewer
    looks; less: classes enter the pools sooner.  Measured on 26 problems: 1.5 and 6 take 2 to 3 %
    more work, no limit 9 %, up to 2.8 times (wine)."""

    most_sweeps: int = 10
    """Sweeps of a round, at most: later ones mostly solve for pools that are about to change.
    Measured on 26 problems: 5 takes 2 % more work, 20 takes 5 %, up to 2.8 times (digits, rbf).
    The second round has two, and each later one may have twice as many: the first pools hold ties
    of all classes and are hardly worth solving for.  Measured: 10 at once take 4 % more work in the
    mean on pendigits and usps, 5 % on isolet, 66 % on news20 (C = 0.1)."""

    sweeps_margin: float = 1.2
    """Factor on the sweeps that, at the pace of the last round, suffice to reach the target: a
    round has no more than that, so that the last one ends when it is done.  Measured: without, 29 %
    more work on news20 (C = 0.1), 7 % (C = 1); 10 % less on isolet (C = 0.1), otherwise the
    same."""

    least_gain: float = 3e-4
    """A sweep that gains less than this share of the allowed gap ends the round: the next look
    tells more than the next sweep.  Measured: without, a tenth to a sixth more sweeps with a kernel
    (usps, rbf, C = 100, tol = 1e-4), 1 % more work on the linear problems."""

    least_gain_factor: float = 0.1
    """Factor on ``least_gain`` after a round that it ended: the duals are good, but not yet W.
    Measured: without, up to 8 % more work (usps, standardised, C = 10)."""

    resting_gain: float = 0.02
    """Blocks that gain less than this share of the mean rest until the next round.
    Measured on 26 problems: without, 10 % more work, up to 61 % (iris, rbf); 0.1 takes 3 % more."""

    polish_gain: float = 0.03
    """A round that gained less than this share of the gap ends with a sweep over all blocks: what
    is left of the gap is in W, which blocks that rest do not fit any more.  Measured, without: a
    tenth to a fifth more rounds on small data and with a kernel (iris, C = 10: 43 instead of 36;
    digits, C = 1: 14 instead of 12; usps, rbf, C = 10: 23 instead of 20), 6 % less work in the mean
    on the larger sets."""

    polish_share: float = 0.5
    """It does so if fewer than this share of the blocks still move.  Measured on 26 problems: with
    1 6 % more work, up to 44 % (wine); 0.1 takes 1 % less, and up to 10 % more (wine, rbf)."""

    extra_classes: int = 5
    """Classes that may enter a pool in a round, beyond those that the loss weighs: more make sweeps
    dearer, fewer take more rounds.  Measured on 26 problems: 1 and 2 take 2 and 1 % less work and
    10 takes 3 % more, on single ones between 16 % less and 15 % more."""

    newcomers: float = 1.0
    """Examples without weight that may get some in a round, for one that has, where each costs a
    row of a kernel matrix."""

    least_newcomers: int = 500
    """So many may at least."""

    # -- primal points -------------------------------------------------------------------------

    longer_promise: float = 0.7
    """Longer weights cost a look; they are tried if they should leave at most this share of the
    gap.  Measured on 26 problems: without them 5 % more work, up to 34 % (wine, rbf; on isolet,
    standardised, twice the rounds); 0.5 and 0.9 take the same, but for 11 % more on isolet."""

    # -- stages --------------------------------------------------------------------------------

    accelerate_after: float = 10.0
    """Rounds of sweeps to come, at the present pace, from which on steps are accelerated.
    Standardised mnist, C = 1: 13 s instead of some 350 without.  Measured on 26 problems: 5 and 20
    take 2 and 4 % more work, on single ones up to 24 and 47 %."""

    accelerate_window: int = 3
    """Rounds that tell this pace."""

    steps_per_round: int = 4
    """Accelerated steps between two looks, for each of which the centre moves."""

    sweeps_per_step: int = 5
    """Sweeps of an accelerated step, at most."""

    mean_period: int = 3
    """Accelerated rounds from one try of the mean of the weights, which costs a look, to the next.
    The mean has half the error of the weights themselves.  Measured: 1 takes 6 % more work in the
    mean on pendigits and usps, up to 17 % (pendigits, standardised, C = 10, tol = 1e-5)."""

    second_order_after: float = 30.0
    """Accelerated rounds to come from which on, where W is small, there are second-order steps.
    Measured on 26 problems: without these 9 to 17 times the work on wine and iris, some of which
    are not solved then; 15 and 60 change the other work by less than 1 %, up to 21 % (wine)."""

    second_order_window: int = 10
    """Rounds that tell this pace."""

    kernel_second_order_after: float = 200.0
    """With a kernel: second-order steps begin where the sweeps to come cost more than so many steps
    of conjugate gradients.  Measured on 26 problems: without them up to 9 times the work (iris,
    C = 1e4); 50 takes half of the other work on two and 12 % more on one, 800 up to 28 % more."""

    kernel_second_order_window: int = 6
    """Rounds that tell this pace."""

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

    def sweep_cost(self, kind: int) -> float:
        """The cost of a multiply-add of a sweep over rows of this kind."""
        return self.dense_sweep_cost if kind == kernels.DENSE else 1.0
