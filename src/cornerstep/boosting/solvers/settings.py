"""The numbers that steer the boosting methods, and with them their masters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from cornerstep.boosting.solvers.master import MasterSettings


class Idle(NamedTuple):
    """When a hypothesis is dropped.

    Attributes
    ----------
    edge : float
        Share of the gap.  What it may lack of the master's largest edge and still be useful.
    rounds : int
        For which it may be useless.
    """

    edge: float
    rounds: int


@dataclass(frozen=True)
class MethodSettings:
    """The numbers of the methods.

    What a number costs is in work until the target (searches, Newton steps and matrices by their
    size, rounds), in the mean of 28 problems: parts of 12 Raetsch sets, and generated ones (noise,
    wide, correlated and binary columns, a checkerboard, weights, stumps), nu = 0.05 to 0.5 of the
    examples, atol = 1e-4 to 0.05, three of them for LPBoost and ERLPBoost.  Any change leads to
    other hypotheses, and the work on one problem varies by a quarter; means differ by chance by
    5 %: "the same" is less.

    Also measured, and left out for it: to ask the master for more accuracy after a round without a
    new hypothesis, to start it from scratch where it must be solved far beyond the last one or few
    of its weights are at hand, and to drop hypotheses again after a bound that fell (no
    difference); to keep only proposals of an edge near the master's, and to leave examples of
    little weight out of the Newton matrix (the same).

    Attributes
    ----------
    max_answers : int
        Hypotheses kept of one answer.  More of them save rounds and make every master larger.  A
        quarter 9 % more work, 75 % on ringnorm; half the same; any number the same, 42 % more on
        wide data.
    single_precision : float
        In units of margins.  From this accuracy eps on, margins at hand are kept in single
        precision, at half the traffic; their rounding is far below it, and certificates are
        recomputed in double precision.
    exact_target : float
        Share of eps to which LPBoost and ERLPBoost have their master solved: exactly, as they are
        defined, within what eps can tell.
    loose_target : float
        Share of the gap to which MLPBoost has its master solved.  Exact vertices by the simplex
        method took 744 rounds on 1,000 rows of twonorm (docs/boosting.md); half the same work in
        15 % fewer rounds, twice 104 % more.
    mixtures : tuple of float
        Shares of the best distribution so far in the three questions of a round of MLPBoost; the
        rest is the master's.  Asking at points of the central path alone takes 33 instead of 26
        rounds on ringnorm, one question half as many rounds again or more (docs/boosting.md).
    idle_smoothed, idle_interior : Idle
        When hypotheses are dropped, by the master that says so: the smoothed one has a d that tells
        sooner.  Sooner makes masters and ensembles smaller, and lets hypotheses go that come again.
        Half the edge 27 % and 15 % more work; that of the other for the smoothed one 12 % less, on
        whole sets with ensembles larger by a quarter, for the interior one 35 % more; never, 49 %
        more and 4 % less.
    drop_gap : float
        Share of the gap at the last drop.  The gap must have shrunk to it before others are
        dropped, so that nothing cycles.  Whatever the gap, 54 % more work, 20 times as much on
        diabetis; 0.9 takes 9 %, half 16 % less, with ensembles larger by 4 % and 15 %.
    sure : float
        Share of the gap that the estimated bound must promise to leave at most, for a complete
        search to follow.  A smaller share saves searches, a larger one keeps the bound closer to
        what is known.  1: the same, 24 % more work on image; 0.7 and 0.5 take 4 % more.
    stage_ratio : float
        Factor between the rounds of kept stages, after the first ones: it limits their number to
        some hundreds per factor of 10 in the rounds.
    closing_sorts : float
        What is to do when the time is up, beside the margins of the best ensemble: in times that
        margins are sorted.  For time limits: too few overrun them, too many end a run early.
    textbook : bool
        The methods as published (:mod:`~cornerstep.boosting.solvers.textbook`): of the numbers
        here only those of ``TEXTBOOK``, ``stage_ratio``, ``closing_sorts`` and ``master`` count.
    master : MasterSettings
    """

    max_answers: int = 40
    single_precision: float = 1e-4
    exact_target: float = 1e-3
    loose_target: float = 0.2
    mixtures: tuple[float, ...] = (0.8, 0.5, 0.2)
    idle_smoothed: Idle = field(default=Idle(edge=0.2, rounds=1))
    idle_interior: Idle = field(default=Idle(edge=0.25, rounds=2))
    drop_gap: float = 0.99
    sure: float = 0.85
    stage_ratio: float = 1.01
    closing_sorts: float = 8.0
    textbook: bool = False
    master: MasterSettings = field(default_factory=MasterSettings)


#: One hypothesis of each answer, in double precision.
TEXTBOOK = MethodSettings(max_answers=1, single_precision=math.inf, textbook=True)
