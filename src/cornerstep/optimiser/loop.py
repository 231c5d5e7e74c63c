"""The loop: every solver of the package runs in it.

A solver looks and moves.  *Looking* computes value and gap at the current point; *moving* takes the
step that the look proposed; *certifying* recomputes both from the data.  Stopping, limits, Ctrl-C,
callbacks, trace and progress live here and nowhere else.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Protocol

from cornerstep.core.clock import OutOfTimeError, asking, never, who_is_asked, work_seconds
from cornerstep.optimiser.progress import Progress
from cornerstep.optimiser.result import Status, Trace

_PATIENCE = 100  # certified looks in which neither value nor gap improves before giving up

_presses: list[int] = []  # of Ctrl-C, put off
_FINISHING = "interrupted: finishing with the best so far (once more: stop at once)"


class Look(NamedTuple):
    """Value and gap at a point; ``certified`` if the gap is a bound and not an estimate.

    ``rounding`` is the part of the gap that bounds the rounding errors of its computation: what is
    left of the gap when the point is optimal, and no step can make smaller.
    """

    value: float
    gap: float
    certified: bool = True
    extra: tuple[Any, ...] = ()
    rounding: float = 0.0
    bound: float = math.nan  # where it is known to more digits than ``value - gap`` has

    def is_final(self, target: float) -> bool:
        """Whether the gap is within the target, or half of it is rounding."""
        return self.gap <= max(target, 2 * self.rounding)


def claimed(gap: float) -> float:
    """A gap as a look may state it: not negative, and infinite where its terms left float64.

    Sums of terms beyond float64 are of any sign or NaN; an infinite gap claims nothing.
    """
    return max(gap, 0.0) if math.isfinite(gap) else math.inf


class Move(NamedTuple):
    """The step taken: its size and its kind (fw, away, pairwise, ...)."""

    step: float
    kind: str


class Solver(Protocol):
    """What the loop asks of a solver.

    One with a ``note`` has it shown with its progress; one with ``expired`` is given there a
    function to ask in long moves: whether the time is up, or somebody has pressed Ctrl-C.  One with
    ``interrupted`` is given the same for Ctrl-C alone: a look in which somebody waits is given up
    by a :class:`KeyboardInterrupt`, and its certificate may be one proven before.  One with ``aim``
    is given there the gap that counts as solved at a value.  One with
    ``closing`` says how many seconds its last certificate is expected to take: the time is up by so
    much before the limit.
    """

    monotone: bool  # whether moves are meant never to increase the value

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Of the trace, after its own."""

    @property
    def point(self) -> Any:
        """The current point; the solver never changes it in place."""

    def look(self) -> Look:
        """Value and gap at the current point, and the next step prepared."""

    def move(self) -> Move:
        """Take the step; one of size NaN was refused because the objective is not finite there."""

    def certify(self, point: Any) -> Look:
        """Go to ``point`` and recompute value and gap there from the data, as ``look`` would."""


class Iterate(NamedTuple):
    """What a callback sees: an iteration, the step that led to it, and the point ``x`` it is at."""

    iteration: int
    seconds: float
    value: float
    gap: float
    step: float
    kind: str
    x: Any


Callback = Callable[[Iterate], Any]


@dataclass
class Stopping:
    """When to stop: ``gap <= max(tol, rtol * |value|)``, or a limit."""

    tol: float = 1e-6
    rtol: float = 0.0
    max_iter: int = 10_000
    time_limit: float | None = None

    def __post_init__(self) -> None:
        for name in ("tol", "rtol"):
            if not _is_at_least_zero(getattr(self, name)):
                raise ValueError(f"{name} must be a number >= 0, got {getattr(self, name)!r}")
        if not (_is_at_least_zero(self.max_iter) and self.max_iter % 1 == 0):
            raise ValueError(f"max_iter must be an integer >= 0, got {self.max_iter!r}")
        if self.time_limit is not None and not _is_at_least_zero(self.time_limit):
            raise ValueError(f"time_limit must be seconds >= 0 or None, got {self.time_limit!r}")

    def target(self, value: float) -> float:
        """The gap that counts as solved at this value."""
        return max(self.tol, self.rtol * abs(value))

    def is_over(self, start: float) -> bool:
        """Whether the time limit of a run has passed that began at ``start``."""
        return self.time_limit is not None and work_seconds() - start >= self.time_limit


def _is_at_least_zero(value: Any) -> bool:
    return isinstance(value, Real) and float(value) >= 0


@dataclass
class Outcome:
    """How a run ended."""

    status: Status
    look: Look
    n_iter: int
    seconds: float
    trace: Trace


def run(
    solver: Solver,
    stopping: Stopping,
    *,
    callback: Callback | None = None,
    verbose: int = 0,
    title: str = "",
    interrupted: Callable[[], bool] | None = None,
    last_iterate: bool = False,
) -> Outcome:
    """Run ``solver`` until it is certified or a limit is hit; leave it at the point to return.

    Ctrl-C is a reason to end, unless the caller handles it: then ``interrupted`` says so.
    The first look must be finite (a :class:`ValueError` says so); a later move onto values that are
    not finite is refused and ends the run at the point before it.  The point to return is the best,
    or with ``last_iterate`` the last.
    """
    start = work_seconds()
    trace = Trace(solver.extra_columns)
    best: tuple[float, Any] = (math.inf, solver.point)
    stall = _Stall()
    move = Move(math.nan, "start")
    iteration, certified = 0, False
    status: Status | None = None

    around = who_is_asked()  # a run may be a part of other work

    def is_over() -> bool:
        if stopping.time_limit is None:
            return around()
        return stopping.is_over(start - getattr(solver, "closing", 0.0)) or around()

    with (
        nullcontext(interrupted) if interrupted else deferred_interrupt() as pressed,
        Progress(verbose, title, stopping.target) as shown,
        ExitStack() as asked,
        ExitStack() as looking,
    ):
        if hasattr(solver, "interrupted"):
            solver.interrupted = pressed
        if hasattr(solver, "aim"):
            solver.aim = stopping.target

        def expired() -> bool:
            return pressed() or is_over()

        if hasattr(solver, "expired"):
            solver.expired = expired
        asked.enter_context(asking(expired, never))
        looking.enter_context(asking(never, expired))
        try:
            while status is None:
                look = solver.look()
                if not math.isfinite(look.value) or math.isnan(look.gap):
                    if iteration > 0:
                        status = Status.NON_FINITE
                        break
                    raise ValueError(
                        "the objective must be finite with a finite gradient at the starting "
                        f"point, got value {look.value} and gap {look.gap}"
                    )
                whole = look.certified
                if look.is_final(stopping.target(look.value)):
                    look = solver.certify(solver.point)
                    target = stopping.target(look.value)
                    certified = look.is_final(target)
                    ending = Status.SOLVED if look.gap <= target else Status.PRECISION_LIMIT
                if solver.monotone or last_iterate or look.value < best[0]:
                    best = (look.value, solver.point)
                seconds = work_seconds() - start
                gap = look.gap if look.certified else math.nan
                row = (iteration, seconds, look.value, gap, move.step, move.kind)
                trace.append(row + look.extra if look.extra else row)
                if verbose:
                    shown.update(*row, note=getattr(solver, "note", ""))
                stop_asked = callback is not None and callback(Iterate(*row, solver.point))
                if certified:
                    status = ending
                elif stop_asked:
                    status = Status.STOPPED
                elif pressed():
                    status = Status.INTERRUPTED
                elif is_over():
                    status = Status.TIME_LIMIT
                elif iteration >= stopping.max_iter:
                    status = Status.ITERATION_LIMIT
                elif solver.monotone and stall.has_stalled_after(look, move, whole):
                    status = Status.NO_PROGRESS
                else:
                    move = solver.move()
                    if math.isnan(move.step):
                        status = Status.NON_FINITE
                    else:
                        iteration += 1
        except OutOfTimeError:
            status = Status.INTERRUPTED if pressed() else Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            if hasattr(solver, "interrupted"):
                solver.interrupted = lambda: True
        looking.close()  # the certificate may take as long as it must, if it must
        if not certified:
            look = solver.certify(best[1])
            if status is Status.NO_PROGRESS and look.rounding > stopping.target(look.value):
                status = Status.PRECISION_LIMIT
        shown.close(status, look.value, look.gap)
    return Outcome(
        status=status,
        look=look,
        n_iter=iteration,
        seconds=work_seconds() - start,
        trace=trace,
    )


class _Stall:
    """Counts certified looks since which neither the value nor the gap got better.

    Between them a method sees a part of the domain only (a block, a sample): a step of 0 there says
    nothing about the rest.  Where every look is certified, repeated steps of 0 are a stall at once.
    """

    def __init__(self) -> None:
        self.value = self.gap = math.inf
        self.count = 0
        self.better = self.partial = False

    def has_stalled_after(self, look: Look, move: Move, whole: bool) -> bool:
        """Whether the run has stalled; ``whole`` if the method saw the whole domain itself."""
        self.better |= look.value < self.value or (look.certified and look.gap < self.gap)
        self.value = min(self.value, look.value)
        if not whole:
            self.partial = True
            return False
        self.gap = min(self.gap, look.gap)
        if self.better:
            self.count = 0
        else:
            self.count += _PATIENCE // 4 if move.step == 0 and not self.partial else 1
        self.better = self.partial = False
        return self.count >= _PATIENCE


def deferred_presses() -> int:
    """How many times :func:`deferred_interrupt` has put Ctrl-C off so far."""
    return len(_presses)


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn a first Ctrl-C into a flag read between iterations; a second interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed: list[int] = []
    previous = signal.getsignal(signal.SIGINT)

    def handler(number: int, frame: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)
        _presses.append(number)
        print(_FINISHING, file=sys.stderr, flush=True)

    if previous is not signal.default_int_handler:
        # Somebody else handles Ctrl-C (a notebook kernel, an outer run): leave it to them.
        yield lambda: False
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, previous)
