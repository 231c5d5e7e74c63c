"""What a run shows: nothing, one live line (``verbose=1``), or a table (``verbose=2``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cornerstep.optimiser.result import Status

_REFRESH = 0.1  # seconds between updates of the live line
_ROW_EVERY = 0.5  # seconds between rows of the table, after the first few


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

    def __enter__(self) -> Progress:
        if self.verbose:
            from rich.console import Console
            from rich.live import Live

            self._console = Console(stderr=True, highlight=False)
            if self.verbose == 1 and self._console.is_terminal:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            if self.verbose == 2:
                self._console.print(f"[bold]{self.title}[/]")
                columns = f"{'iteration':>10} {'seconds':>9} {'value':>16} {'gap':>11} {'step':>10}"
                self._console.print(f"{columns}  kind", style="dim")
        return self

    def update(
        self, iteration: int, seconds: float, value: float, gap: float, step: float, kind: str
    ) -> None:
        """Show the iteration if it is time to."""
        if not self.verbose:
            return
        if gap == gap:  # methods that estimate the gap show the last certified one
            self._gap = gap
        now = time.perf_counter()
        if self.verbose == 2 and (iteration < 5 or now >= self._next):
            self._console.print(
                f"{iteration:>10} {seconds:>9.3f} {value:>16.9g} {gap:>11.3e} {step:>10.3g}  {kind}"
            )
            self._next = now + _ROW_EVERY
        elif self._live is not None and now >= self._next:
            self._live.update(self._line(iteration, seconds, value), refresh=True)
            self._next = now + _REFRESH

    def _line(self, iteration: int, seconds: float, value: float) -> str:
        return (
            f"[bold]{self.title}[/]  iteration {iteration:,}  value {value:.9g}  "
            f"gap [cyan]{self._gap:.2e}[/] -> {self.target(value):.0e}  {seconds:.1f} s"
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
