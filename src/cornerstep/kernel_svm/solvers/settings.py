"""The numbers of the working-set solver, with what each trades and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkingSetSettings:
    """Who joins a working set, how well it is solved, where a run starts and ends."""

    # -- who joins a working set ---------------------------------------------------------------

    newcomers: int = 256
    """Coordinates that may join a working set without a kept column, at most: more save rounds, and
    waste the columns of those that go back to a bound."""

    least_newcomers: int = 16
    """At least so many may join, ..."""

    examples_per_newcomer: int = 64
    """... or one for so many examples, if that is more: few examples have few support vectors."""

    newcomers_per_free: float = 0.1
    """Or so many for each free coordinate, if that is more: large faces change by many at a
    time."""

    kept_violators: int = 256
    """Violators with kept columns that may join, at least: they cost no column, but work."""

    violation: float = 0.3
    """Who joins violates optimality by at least this share of the most."""

    largest: int = 4000
    """Coordinates of a working set, at most: its matrix takes 8 bytes times their square."""

    # -- how well it is solved -----------------------------------------------------------------

    accuracy: float = 0.1
    """Share of the largest violation that two-coordinate steps may leave in a working set."""

    slim_accuracy: float = 0.003
    """The same for slim hulls: more work for each set, and fewer columns."""

    patience: int = 20
    """Rounds in which the largest violation must halve; if not, ..."""

    sharpening: float = 0.1
    """... this factor is put on ``violation`` and the accuracy: more join, and more is asked of
    Newton steps."""

    first_steps: int = 5
    """Two-coordinate steps, for each coordinate of the working set, before the first Newton
    step."""

    steps: int = 2
    """The same, after each Newton step."""

    newton_steps: int = 4
    """Newton steps of a round, at most."""

    newton_worth: float = 1.0
    """Another Newton step follows one that gained at least this many times what the two-coordinate
    steps after it did."""

    largest_face: int = 3000
    """Free coordinates that a Newton step may have: it costs a third of their cube."""

    damping: float = 1e-3
    """Of the first Newton step, as a share of the mean diagonal of the kernel matrix."""

    least_damping: float = 1e-15
    most_damping: float = 1.0

    easing: float = 0.1
    """Factor on the damping after a whole Newton step."""

    braking: float = 4.0
    """Factor on the damping after a short Newton step, which the bounds have bent too much."""

    short_step: float = 0.25
    """What is a short step."""

    # -- slim hulls ----------------------------------------------------------------------------

    slim: float = 125.0
    """K in examples below which hulls are slim: they grow from nothing instead of starting from the
    solution on fewer examples."""

    slim_newcomers: float = 0.03
    """Coordinates that may join in a round, as a share of the support, ..."""

    growth_newcomers: int = 2
    """... but at least so many while hulls grow, ..."""

    least_slim_newcomers: int = 8
    """... and so many later, ..."""

    slim_support: float = 3.0
    """... while the support is at most this many times 2K, the least possible."""

    fill: float = 0.75
    """Share of its cap that a newcomer brings."""

    # -- the start on fewer examples -----------------------------------------------------------

    sample_factor: int = 5
    """A smaller problem has this many times fewer examples, ..."""

    least_sample: int = 100
    """... but at least so many, ..."""

    sample_gap: float = 0.1
    """... and is solved to this relative gap, ..."""

    sample_rounds: int = 1000
    """... or for so many rounds."""

    # -- the end -------------------------------------------------------------------------------

    stagnation_window: int = 2000
    """Looks; each window must lower the gap, ..."""

    stagnation_gap: float = 0.1
    """... by this share of itself, ..."""

    stagnation_value: float = 0.01
    """... or the value by this share of the gap, the most that is left to gain.  At this rate a run
    takes 100,000 looks and more."""
