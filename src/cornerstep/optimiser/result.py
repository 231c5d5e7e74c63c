"""What a run returns: a point, its certificate, why it stopped, and the way it went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerstep.core.optional import optional_import
from cornerstep.core.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from cornerstep.optimiser.active_set import ActiveSet


class Status(Enum):
    """Why a run stopped; ``status.message`` says it in a sentence."""

    SOLVED = "solved"
    ITERATION_LIMIT = "iteration limit"
    TIME_LIMIT = "time limit"
    STOPPED = "stopped by callback"
    INTERRUPTED = "interrupted"
    NO_PROGRESS = "no progress"
    PRECISION_LIMIT = "precision limit"
    NON_FINITE = "non-finite"

    @property
    def message(self) -> str:
        """One sentence for people."""
        return _MESSAGES[self]

    @property
    def is_short(self) -> bool:
        """Whether the run fell short of the tolerance without having been told to stop."""
        told = Status.SOLVED, Status.TIME_LIMIT, Status.STOPPED, Status.INTERRUPTED
        return self not in told

    def __str__(self) -> str:
        return self.value


_MESSAGES = {
    Status.SOLVED: "The duality gap is within the tolerance.",
    Status.ITERATION_LIMIT: "The iteration limit came before the tolerance; the gap still holds.",
    Status.TIME_LIMIT: "The time limit came before the tolerance; the gap still holds.",
    Status.STOPPED: "The callback asked to stop; the gap still holds.",
    Status.INTERRUPTED: "Interrupted; this is the best point so far and its gap still holds.",
    Status.NO_PROGRESS: "Rounding errors stop further progress; the gap still holds.",
    Status.PRECISION_LIMIT: "float64 cannot prove the tolerance; the gap, with rounding, holds.",
    Status.NON_FINITE: "The objective became NaN or infinite; this is the last good point.",
}


class Trace:
    """The course of a run: one row per iteration, one array per column.

    ``trace["gap"]`` is a column; ``len(trace)`` the number of rows.  ``gap`` is NaN where a method
    did not compute it; ``step`` and ``kind`` describe the step that led to the row.
    """

    def __init__(self, extra: tuple[str, ...] = ()) -> None:
        self.columns: tuple[str, ...] = (
            "iteration", "seconds", "value", "gap", "step", "kind", *extra,
        )  # fmt: skip
        self._rows: list[tuple[Any, ...]] = []

    def append(self, row: tuple[Any, ...]) -> None:
        """Add a row in the order of ``columns``."""
        self._rows.append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self._rows)

    def __getitem__(self, column: str) -> np.ndarray[Any, Any]:
        if column not in self.columns:
            raise KeyError(f"no column {column!r}; the columns are {', '.join(self.columns)}")
        i = self.columns.index(column)
        return np.array([row[i] for row in self._rows])

    def to_pandas(self) -> pd.DataFrame:
        """The trace as a data frame."""
        with optional_import():
            import pandas as pd

        return pd.DataFrame(self._rows, columns=list(self.columns))

    def plot(self, ax: Axes | None = None, *, x: str = "iteration", label: str = "gap") -> Axes:
        """Draw the gap against ``x`` (iteration or seconds) on a log scale; return the axes."""
        with optional_import():
            import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.figure().add_subplot()
        gap = self["gap"].astype(float)
        known = gap > 0
        ax.semilogy(self[x][known], gap[known], label=label)
        ax.set_xlabel(x)
        ax.set_ylabel("duality gap")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows: {', '.join(self.columns)})"


@dataclass
class Result:
    """A point with a certificate.

    The minimum lies between ``value - gap`` and ``value``.  That assumes that f is convex, that the
    gradient is its own and that the domain's oracle is exact (or misses the minimum by what its
    ``lmo_error`` says).  A run that sees one of them refuted raises a :class:`ValueError`; what it
    has not seen it cannot know.

    Attributes
    ----------
    x : array
        The point.
    value : float
        The objective there, recomputed from the data.
    gap : float
        The duality gap recomputed at x, with a bound on its rounding: ``f(x) - min f <= gap``.
    lower_bound : float
        The best lower bound of ``min f`` of the run, at least ``value - gap`` and at most value.
    status : Status
        Why the run stopped.
    method, step : str
        The direction rule and the step rule used.
    n_iter, n_oracle_calls : int
    seconds : float
    trace : Trace
    active_set : ActiveSet or None
        Atoms and weights with ``x = sum of weight * atom``, for methods that keep them.
    dual : array or None
        The maximising player's point, for saddle points.
    """

    x: FloatArray = field(repr=False)
    value: float
    gap: float
    lower_bound: float
    status: Status
    method: str
    step: str
    n_iter: int
    n_oracle_calls: int
    seconds: float
    trace: Trace = field(repr=False)
    active_set: ActiveSet | None = field(default=None, repr=False)
    dual: FloatArray | None = field(default=None, repr=False)

    @property
    def success(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.status is Status.SOLVED

    @property
    def message(self) -> str:
        """The status in a sentence."""
        return self.status.message

    @property
    def certificate(self) -> str:
        """What is proven, and what that assumes, in a sentence."""
        between = f"between {self.lower_bound:.9g} and {self.value:.9g}"
        if self.dual is not None:
            return f"The value of the game lies {between}, if the oracles are exact."
        assumed = "f is convex, the gradient its own and the oracle exact"
        return f"The minimum lies {between}, if {assumed}."

    def _repr_html_(self) -> str:
        return summary_html(
            f"{self.method}, {self.step} steps",
            self.status,
            {
                "value": f"{self.value:.9g}",
                "lower bound": f"{self.lower_bound:.9g}",
                "gap": f"{self.gap:.3g}",
                "iterations": f"{self.n_iter:,}",
                "seconds": f"{self.seconds:.3g}",
                "certificate": self.certificate,
            },
        )


def summary_html(title: str, status: Status, rows: dict[str, str]) -> str:
    """A small table for notebooks: what it is, how it ended, and the numbers of its certificate."""
    colour = "#1a7f37" if status is Status.SOLVED else "#9a6700"
    cells = "".join(
        f'<tr><td style="text-align:left;opacity:.7">{escape(name)}</td>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return (
        f'<div style="border-left:4px solid {colour};padding-left:.8em;margin:.4em 0">'
        f"<strong>{escape(title)}</strong> "
        f'<span style="color:{colour}">{escape(str(status))}</span>'
        f'<table style="margin:.3em 0">{cells}</table></div>'
    )
