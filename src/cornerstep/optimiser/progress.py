"""What a run shows: nothing, a live display (``verbose=1``), or a table (``verbose=2``).

The live display has a gauge of the gap on a log scale, from the first gap to the target, and the
time left if the gap goes on falling at its recent rate.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cornerstep.core.clock import work_seconds

if TYPE_CHECKING:
    from cornerstep.optimiser.result import Status

_REFRESH = 0.1  # seconds between updates of the live display
_ROW_EVERY = 0.5  # seconds between rows of the table, after the first few
_GAUGE = 20  # characters
_RECENT = 50  # gaps that the rate is taken from


class Descent:
    """A gap on its way to a target: how far on a log scale, and how long still.

    Gaps go up and down; only a new smallest one counts.
    """

    def __init__(self) -> None:
        self.first = self.least = math.nan
        self._recent: deque[tuple[float, float]] = deque(maxlen=_RECENT)

    def add(self, seconds: float, gap: float) -> None:
        """A gap seen at a time; what is not a positive number is passed over."""
        if not 0 < gap < math.inf or gap >= self.least:
            return
        if math.isnan(self.first):
            self.first = gap
        self.least = gap
        self._recent.append((seconds, math.log(gap)))

    def share(self, target: float) -> float:
        """How much of the way from the first gap to the target is done, on a log scale."""
        if math.isnan(self.first):
            return 0.0
        if self.least <= target or self.first <= target:
            return 1.0
        if target <= 0:
            return 0.0
        return math.log(self.first / self.least) / math.log(self.first / target)

    def seconds_left(self, now: float, target: float) -> float | None:
        """Until the target at the recent rate; None while nothing can be said."""
        if len(self._recent) < 3 or target <= 0:
            return None
        begun, high = self._recent[0]
        fallen, taken = high - math.log(self.least), now - begun
        if fallen <= 0 or taken <= 0:
            return None
        return max(math.log(self.least) - math.log(target), 0.0) * taken / fallen


class _Stderr:
    """stderr, as long as it takes what is written: nobody who looks away ends a run."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


class Progress:
    """Shows iteration, value, gap and seconds on stderr; silent and free when ``verbose`` is 0."""

    def __init__(self, verbose: int, title: str, target: Callable[[float], float]) -> None:
        if verbose not in (0, 1, 2):
            raise ValueError(f"verbose must be 0, 1 or 2, got {verbose!r}")
        self.verbose = int(verbose)
        self.title = title
        self.target = target
        self._live: Any = None
        self._console: Any = None
        self._next = 0.0
        self._gap = float("nan")
        self._descent = Descent()

    def __enter__(self) -> Progress:
        if self.verbose:
            from rich.console import Console
            from rich.live import Live

            stderr: Any = _Stderr()
            self._console = Console(file=stderr, highlight=False)
            if self.verbose == 1 and self._console.is_terminal:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            if self.verbose == 2:
                self._console.print(f"[bold]{self.title}[/]")
                columns = f"{'iteration':>10} {'seconds':>9} {'value':>16} {'gap':>11} {'step':>10}"
                self._console.print(f"{columns}  kind", style="dim")
        return self

    def update(
        self,
        iteration: int,
        seconds: float,
        value: float,
        gap: float,
        step: float,
        kind: str,
        note: str = "",
    ) -> None:
        """Show the iteration if it is time to."""
        if not self.verbose:
            return
        if gap == gap:  # methods that estimate the gap show the last certified one
            self._gap = gap
            self._descent.add(seconds, gap)
        now = work_seconds()
        if self.verbose == 2 and (iteration < 5 or now >= self._next):
            self._console.print(
                f"{iteration:>10} {seconds:>9.3f} {value:>16.9g} {gap:>11.3e} {step:>10.3g}  {kind}"
                + (f"  {note}" if note else ""),
                soft_wrap=True,
            )
            self._next = now + _ROW_EVERY
        elif self._live is not None and now >= self._next:
            self._live.update(self.lines(iteration, seconds, value, note), refresh=True)
            self._next = now + _REFRESH

    def lines(self, iteration: int, seconds: float, value: float, note: str) -> str:
        """Where it is, and how far it has come: two lines that fit 80 columns."""
        target = self.target(value)
        filled = round(_GAUGE * min(max(self._descent.share(target), 0.0), 1.0))
        left = self._descent.seconds_left(seconds, target)
        scale = abs(value) or 1.0
        return (
            f"[bold]{self.title}[/]  iteration {iteration:,}  primal {value:.6g}  "
            f"dual {value - self._gap:.6g}\n"
            f"  relative gap {self._gap / scale:.1e} "
            f"[cyan]{'━' * filled}[/][dim]{'━' * (_GAUGE - filled)}[/] "
            f"{target / scale:.0e}  {seconds:.1f} s"
            + ("" if left is None else f", about {duration(left)} left")
            + (f", {note}" if note else "")
        )

    def close(self, status: Status, value: float, gap: float) -> None:
        """Say how it ended."""
        if not self.verbose:
            return
        if self._live is not None:
            self._live.stop()
        colour = "green" if status.value == "solved" else "yellow"
        self._console.print(
            f"[bold]{self.title}[/]  [{colour}]{status}[/]  value {value:.9g}  gap {gap:.2e}"
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
