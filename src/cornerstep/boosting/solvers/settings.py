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

    "Measured", here and in the numbers of the masters, is on seven or eight problems of MLPBoost
    and five of LPBoost and ERLPBoost (sets of Raetsch with 215 to 7,400 examples, nu = 0.1 to 0.4,
    gap 0.01), geometric means; single CPU times repeat to a tenth.  Left out, since they changed
    neither rounds nor times, or for the worse: starts refused for masters that must be solved much
    further than the last, a least weight and a least gap of such starts, a limit of their own on
    their Newton steps, a least and a largest size of the band, and slack in the judgement over all
    examples.

    Attributes
    ----------
    max_answers : int
        Hypotheses kept of one answer.  More of them save rounds and make every master larger.  One
        question per round instead of ``mixtures`` takes half as many rounds again or more
        (docs/boosting.md).  Measured: 10 takes 41 % more rounds of MLPBoost; 160 takes the same.
    single_precision : float
        In units of margins.  From this accuracy eps on, margins at hand are kept in single
        precision, at half the traffic; their rounding is far below it, and certificates are
        recomputed in double precision.
    exact_target : float
        Share of eps to which LPBoost and ERLPBoost have their master solved: exactly, as they are
        defined, within what eps can tell.
    loose_target : float
        Share of the gap to which MLPBoost has its master solved, at first.  Exact vertices by the
        simplex method took 744 rounds on 1,000 rows of twonorm (docs/boosting.md).  Measured: 0.1
        takes 14 % fewer rounds and about a fifth more time, 0.4 takes 2.6 times the rounds.
    largest_gap : float
        In units of margins.  A larger gap counts as this one for ``loose_target``: margins differ
        by 2 at most.  Measured: without, 17 % more time on diabetis, the same in the mean.
    sharpening : float
        Factor of ``loose_target`` after a round that found nothing new: the next would find the
        same, for ever.  Measured: without, the same rounds; it is there for the others.
    mixtures : tuple of float
        Shares of the best distribution so far in the three questions of a round of MLPBoost; the
        rest is the master's.  Asking at points of the central path alone takes 33 instead of 26
        rounds on ringnorm, one question half as many rounds again or more (docs/boosting.md).
    useful : float
        Share of the gap.  What a further hypothesis of an answer may lack of the master's largest
        edge and still be kept.  Measured: 0 takes up to 29 % more rounds, with all of them kept a
        round costs more: 3 % fewer rounds and 2 % more time.
    idle_smoothed, idle_interior : Idle
        When hypotheses are dropped, by the master that says so: the smoothed one has a d that tells
        sooner.  Sooner makes masters smaller, and lets hypotheses go that come again.  Measured: if
        the smoothed one never drops, 18 % fewer rounds and 5 times the time on image; if the other
        does after one round, a tenth more rounds.
    drop_gap : float
        Share of the gap at the last drop.  The gap must have shrunk to it before others are
        dropped, so that nothing cycles.
    raised_drop_gap : float
        Factor of the present gap, which counts as the gap at the last drop if that was smaller and
        a complete search has shown that the gap had been underestimated.
    sure : float
        Share of the gap that the estimated bound must promise to leave at most, for a complete
        search to follow.  A smaller share saves searches, a larger one keeps the bound closer to
        what is known.  Measured: 1 takes 24 % more time on image, 1 % in the mean; 0.5 takes 2 %
        more rounds.
    stage_ratio : float
        Factor between the rounds of kept stages, after the first ones: it limits their number to
        some hundreds per factor of 10 in the rounds.
    closing_sorts : float
        What is to do when the time is up, beside the margins of the best ensemble: in times that
        margins are sorted.  Too few overrun a time limit, too many end a run early.  Of 12 s with
        200,000 examples and two busy loops beside, fits took 11.1 to 12.5.
    textbook : bool
        The methods as published (:mod:`~cornerstep.boosting.solvers.textbook`): of the numbers
        here only those of ``TEXTBOOK``, ``stage_ratio``, ``closing_sorts`` and ``master`` count.
    master : MasterSettings
    """

    max_answers: int = 40
    single_precision: float = 1e-4
    exact_target: float = 1e-3
    loose_target: float = 0.2
    largest_gap: float = 0.5
    sharpening: float = 0.5
    mixtures: tuple[float, ...] = (0.8, 0.5, 0.2)
    useful: float = 0.2
    idle_smoothed: Idle = field(default=Idle(edge=0.2, rounds=1))
    idle_interior: Idle = field(default=Idle(edge=0.25, rounds=2))
    drop_gap: float = 0.99
    raised_drop_gap: float = 1.02
    sure: float = 0.85
    stage_ratio: float = 1.01
    closing_sorts: float = 8.0
    textbook: bool = False
    master: MasterSettings = field(default_factory=MasterSettings)


#: One hypothesis of each answer, in double precision.
TEXTBOOK = MethodSettings(max_answers=1, single_precision=math.inf, textbook=True)
