"""The numbers of the working-set solver, with what each trades and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkingSetSettings:
    """Who joins a working set, how well it is solved, where a run starts and ends.

    "Measured" is each number set to a neutral value, for tol = 1e-3 (some 1e-5 and 1e-6), on 57 to
    65 problems of 300 to 15,000 examples: wdbc, a1a, ijcnn1, banana, image, german, ringnorm,
    splice, usps, reuters, covtype, random dense and sparse ones, and *smooth* (an rbf kernel whose
    gamma is 50 times smaller than usual); C = 1 to 1000, nu = 0.02 to 0.6, K = 10 to 280.
    *Columns* are kernel evaluations / n.  *Work* is entries, steps and factorisations, each times
    what it costs.  A share is that of the problems that need the number most; where it costs others
    something, that is said.

    Left out, since they did not pay: columns in float32 where not all fit in float64 (up to
    80 % more kernel evaluations and twice the time, with room for a sixth to all of what is
    needed), and runs on fewer examples that end without a certificate (the same work).
    """

    # -- who joins a working set ---------------------------------------------------------------

    newcomers: int = 256
    """Coordinates that may join a working set without a kept column, at most.  More save rounds,
    and waste the columns of those that go back to a bound.  Matters from 16,384 examples on.
    Measured without, on 40,000 of ijcnn1: 13 % more time for C = 100, 14 % less for C = 1; on
    20,000 of a9a, 12 % less."""

    least_newcomers: int = 16
    """At least so many may join, ... Measured: with 2, 168 % more work on 300 random examples
    (C = 1), 43 % on wdbc (C = 100), for up to 9 % fewer columns."""

    examples_per_newcomer: int = 64
    """... or one for so many examples, if that is more: few examples have few support vectors.
    Measured: 16 newcomers whatever n is take 35 % more work on ijcnn1 (C = 1000); 256 take 3.7
    times the columns on wdbc (C = 100)."""

    newcomers_per_free: float = 0.1
    """Or so many for each free coordinate, if that is more: large faces change by many at a time.
    Measured: without, 67 % more work on german (C = 1000), 48 % on random examples (C = 100)."""

    kept_violators: int = 256
    """Violators with kept columns that may join, at least: they cost no column, but work.
    Measured: with no more than newcomers, 31 % more columns on banana (K = 50), 14 % (C = 1000),
    for less work on smooth and linear kernels; with all, 28 % more work on banana (C = 1000)."""

    violation: float = 0.3
    """Who joins violates optimality by at least this share of the most.  Measured: with 0, 75 %
    more work on german (linear, C = 1000), 66 % on banana (K = 50)."""

    largest: int = 8000
    """Coordinates of a working set, at most: its matrix takes 8 bytes times their square.  Measured
    with 4,000, and faces of 3,000: a regression on 10,000 rows of which 3,900 are free took 20 s
    instead of 7; with 6,000, one on 20,000 rows more than 39 s instead of 19."""

    # -- rounds in compiled code ---------------------------------------------------------------

    whole_columns: int = 3000
    """Examples up to which whole columns of newcomers are computed, if all columns can be kept:
    rounds are compiled then, where choosing columns with care would cost more than it saves.
    With 5,000, covtype (pairs of 4,320; C = 1) was slower than with careful columns; pendigits
    (1,500), usps and vowel take about half the time."""

    worth: float = 0.3
    """Others join when the violation among kept columns is at most this share of the largest."""

    fetches: int = 16
    """Batches of columns between two looks, at most: the clock is asked between looks."""

    newcomers_per_support: float = 0.25
    """Newcomers of either kind for each support vector; from nothing to many in few batches."""

    most_work: int = 50_000_000
    """Operations of compiled rounds after which they come back: some 50 ms."""

    least_pairs: int = 45
    """Small pairs of classes from which on they are trained in batches.  Measured: a batch saves .2
    to .3 ms a pair (plants, 4,950 pairs: 1.5 s -> .13 s), and its kernels take 5 s to compile, once
    per machine: not for a few classes."""

    # -- how well it is solved -----------------------------------------------------------------

    accuracy: float = 0.1
    """Share of the largest violation that may be left in a working set.  Measured: 0.01 takes 94 %
    more work on german (C = 1000), 60 % on a1a and covtype (C = 100)."""

    slim_accuracy: float = 0.003
    """The same for slim hulls: more work for each set, and fewer columns.  Measured: 0.1 takes 18 %
    more columns on banana (K = 50), 5 % on ijcnn1 (K = 60), for a fifth less work on ijcnn1 and
    a1a."""

    patience: int = 20
    """Rounds in which the largest violation must halve; if not, ..."""

    sharpening: float = 0.1
    """... this factor is put on ``violation`` and the accuracy: more join, and more is asked of
    Newton steps.  Measured: without, 42 rounds instead of 34 on banana (smooth, C = 1000,
    tol = 1e-6), 5 % more work on random examples (linear, C = 1); it is there for kernels that are
    worse."""

    first_steps: int = 10
    """Two-coordinate steps, for each coordinate of the working set, before the first Newton step.
    Measured: with 5, 33 % more time on a regression with 3,900 free examples, 27 to 29 % on covtype
    as two classes (C = 1 and 100), and 23 % less there for nu = .1; with 20, 30 % less on connect4
    (nu = .1), and 26 % more on noisy rows (C = 100)."""

    steps: int = 2
    """The same, after each Newton step.  Measured: without, 7 % more work in the mean of 25
    problems, 136 % on diabetis; half 1 % less, twice the same."""

    newton_steps: int = 4
    """Newton steps of a round, at most.  Measured: without any, several problems are not solved in
    a minute (banana, K = 50; german, linear); with 1, 129 % more work (smooth, K = 10); with 16,
    9 % more (smooth)."""

    newton_worth: float = 1.0
    """Another Newton step follows one that gained at least this many times what the two-coordinate
    steps after it did.  Measured: without, 122 % more work on banana (K = 50), 15 % less on a
    smooth kernel."""

    largest_face: int = 4000
    """Free coordinates that a Newton step may have: it costs a third of their cube."""

    face_work: float = 2e8
    """Operations on a working set after which to come back, before Newton steps or after one: .3 s.
    A Newton step on the largest face takes .7 s; the clock is asked between."""

    damping: float = 1e-3
    """Of the first Newton step, as a share of the mean diagonal of the kernel matrix.  Measured:
    1e-15 takes 4.5 times the work on german (linear), 40 % more on smooth kernels."""

    least_damping: float = 1e-15
    """Measured: with 0, 70 % more work (smooth, K = 10), 16 % on image (nu = 0.02)."""

    most_damping: float = 1.0
    """Measured: never reached; it keeps the damping from overflowing."""

    easing: float = 0.1
    """Factor on the damping after a whole Newton step.  Measured: with a fixed damping, 58 times
    the work on banana (K = 50)."""

    braking: float = 4.0
    """Factor on the damping after a short Newton step, which the bounds have bent too much.
    Measured: with 1, 4.5 times the time of all problems together."""

    short_step: float = 0.25
    """What is a short step.  Measured: with 0, 25 times the work on german (linear)."""

    # -- slim hulls ----------------------------------------------------------------------------

    slim: float = 125.0
    """K in examples below which hulls are slim: they grow from nothing instead of starting from the
    solution on fewer examples.  Measured, without: 87 % more columns on banana (K = 50), 38 % on
    ringnorm, 36 % on usps (K = 100), for up to 70 % less time where columns are cheap."""

    slim_newcomers: float = 0.03
    """Coordinates that may join in a round, as a share of the support, ... Measured: with 0, 32 %
    more work on ringnorm, 25 % on image and reuters."""

    growth_newcomers: int = 2
    """... but at least so many while hulls grow, ... Measured: with 8, 20 % more columns on banana,
    10 % on image and wdbc, for half the work on wdbc and ringnorm."""

    least_slim_newcomers: int = 8
    """... and so many later, ... Measured: with 2, 87 % more work on random examples, 64 % on
    wdbc."""

    slim_support: float = 3.0
    """... while the support is at most this many times 2K, the least possible.  Measured: with no
    end, 159 % more work on a1a (K = 60); with 1, 58 % more columns on banana, 11 % on ijcnn1."""

    fill: float = 0.75
    """Share of its cap that a newcomer brings.  Measured: with 1, 7 % more columns on image, 6 % on
    ijcnn1 (K = 60)."""

    # -- the start on a matrix of low rank -----------------------------------------------------

    least_low_rank: int = 20_000
    """Examples of one class from which on a factorisation of low rank is tried.  Measured on
    100,000 x 2: 11 s instead of 32 (nu = .5), 2.7 instead of 8 (.1); 20,000 x 2: .53 instead of
    1.0 s, .24 instead of .21.  Where there is none (20 features) the attempt takes 14 ms.  For two
    classes it did not pay: 60,000 moons, 2.5 instead of 6.3 s (nu = .3), but 3.0 instead of 2.2
    (C = 1) and 11 instead of 2.7 (C = 100)."""

    least_width: float = 0.05
    """What nu must be for it.  Measured: nu = .01, 100,000 x 2 takes 2.4 s instead of 2.2."""

    most_rank: int = 500
    """Columns of the factor, at most: a round takes twice as many operations per example."""

    rank_accuracy: float = 1e-3
    """The most that kernel values may be off, as a share of the tolerance times the largest: so
    little that the certificate with the true kernel does not see it."""

    low_rank_violators: int = 1000
    """Violators that may join there: no column has to be computed for them.  Measured: with 4,000,
    .36 instead of .24 s on 20,000 x 2 (nu = .1)."""

    # -- the start on fewer examples -----------------------------------------------------------

    sample_factor: int = 5
    """A smaller problem has this many times fewer examples, ... Measured: 10 takes twice the work
    on wdbc and german (linear); no smaller problem, 4 to 5 times on linear kernels and banana
    (C = 100), for 4 % fewer columns in the mean."""

    least_sample: int = 100
    """... but at least so many, ... Measured: with 400, 4.7 times the work on german (linear),
    twice on wdbc."""

    sample_gap: float = 0.1
    """... and is solved to this relative gap.  Measured: 1 takes up to 60 % more work (random,
    linear) and 13 % more columns (banana); 0.01 up to 16 % more work."""

    # -- the end -------------------------------------------------------------------------------

    stagnation_window: int = 2000
    """Looks; each window must lower the gap, ..."""

    stagnation_gap: float = 0.1
    """... by this share of itself, ..."""

    stagnation_value: float = 0.01
    """... or the value by this share of the gap, the most that is left to gain.  At this rate a run
    takes 100,000 looks and more."""
