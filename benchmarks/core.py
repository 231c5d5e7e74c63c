"""The nouns of a benchmark.

A *dataset* builds a problem; a *solver* answers it; the *judge* computes from the problem's own
data how good the answer is.  A solver says where it ended up and why it stopped, never how good
that is.  The runner (:mod:`benchmarks.runner`) adds clocks, memory, threads and repeats, and
:mod:`benchmarks.table` prints.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

#: Named numbers that a judge found, such as ``{"f": 0.1, "gap": 3e-8, "violation": 0.0}``.
Measures = dict[str, float]


@dataclass(frozen=True)
class Dataset:
    """A name, and a function that builds the same problem every time it is called."""

    name: str
    build: Callable[[], Any]


class UnavailableError(Exception):
    """Raised by a dataset that cannot be built here; the message says what is missing."""


def torch_for_data() -> Any:
    """The module, which a dataset needs."""
    try:
        import torch
    except ImportError:
        raise UnavailableError("torch is not installed: pip install 'cornerstep[torch]'") from None
    return torch


@dataclass(frozen=True)
class Settings:
    """What the command line may ask of a benchmark; each uses those that it names.

    Attributes
    ----------
    only : tuple of str
        Keep the datasets whose name contains one of these words.
    full : bool
        Everything, rather than the part that is quick.
    limit : float or None
        Seconds after which one run of a peer is ended.
    iterations, splits : int or None
        How many of them, for the experiments that count them.
    published : bool
        Boosting methods as published, on the published rows: each row once.
    """

    only: tuple[str, ...] = ()
    full: bool = False
    limit: float | None = None
    iterations: int | None = None
    splits: int | None = None
    published: bool = False


class Answer(NamedTuple):
    """Where a solver ended up, after how many iterations, and why it stopped.

    ``work`` counts what else it did (sweeps, ...).  ``seconds`` is for a solve that ran in a
    process of its own, timed there: it then stands in for the runner's clock.
    """

    point: Any
    iterations: int | None = None
    stopped: str = ""
    work: Measures = {}  # noqa: RUF012 - never changed
    seconds: float | None = None


class Recorder:
    """Keeps points of a run, at iterations growing by a fixed factor, for the judge to look at."""

    def __init__(self, factor: float = 1.06) -> None:
        self.factor = factor
        self.kept: list[tuple[int, float, Any]] = []
        self._next = 0.0

    def due(self, iteration: int) -> bool:
        """Whether a point of this iteration would be kept."""
        return iteration >= self._next

    def __call__(self, iteration: int, seconds: float, point: Any) -> None:
        """Offer a point; it is copied if it is kept."""
        if self.due(iteration):
            self.kept.append((iteration, seconds, point.copy()))
            self._next = max(iteration + 1, iteration * self.factor)


#: One solve from scratch; with a recorder, points of the run are offered to it.
Run = Callable[[Recorder | None], Answer]


@dataclass(frozen=True)
class Solver:
    """``prepare(problem)`` is set-up, timed apart; what it returns is timed as the solve."""

    name: str
    prepare: Callable[[Any], Run]
    applies: Callable[[Any], bool] = lambda problem: True
    requires: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """The packages it requires that are not installed."""
        return [name for name in self.requires if importlib.util.find_spec(name) is None]


@dataclass(frozen=True)
class Yardstick:
    """A bare operation whose cost one iteration is compared with."""

    name: str
    prepare: Callable[[Any], Callable[[], Any]]


@dataclass(frozen=True)
class Recorded:
    """A figure of a peer that is not run here, with where it comes from."""

    seconds: float
    iterations: int | None
    source: str


@dataclass
class Row:
    """What was measured for one solver on one dataset with one thread setting."""

    dataset: str
    solver: str
    threads: int
    seconds: list[float] = field(default_factory=list)
    setup_seconds: float = math.nan
    iterations: int | None = None
    stopped: str = ""
    measures: Measures = field(default_factory=dict)
    solved: bool = True
    peak_bytes: int | None = None
    yardstick_seconds: float | None = None
    path: list[dict[str, float]] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median time of a solve."""
        return statistics.median(self.seconds) if self.seconds else math.nan

    @property
    def best(self) -> float:
        """The shortest time of a solve."""
        return min(self.seconds, default=math.nan)

    @property
    def per_iteration(self) -> float:
        """Median seconds per iteration."""
        return self.median / self.iterations if self.iterations else math.nan


@dataclass(frozen=True)
class Benchmark:
    """Everything the runner needs to know.

    Attributes
    ----------
    judge : callable
        ``judge(problem, point) -> Measures``.
    target : (str, float) or None
        The measure, and the value it must not exceed for the problem to count as solved.
    baseline : str
        The solver whose time the ratios are taken against.
    repeat, patience : int, float
        Solve ``repeat`` times, but not again once ``patience`` seconds are spent.  With 0 the solve
        that records the path, if there is one, is the only one, and the timed one.
    memory : bool
        Whether to solve once more, untimed, for the peak of allocated bytes.
    shown : tuple of str
        The measures that the table shows.
    recorded : mapping from (dataset, solver) to Recorded
    notes : callable
        ``notes(rows) -> lines`` printed below the table.
    plot : callable
        ``plot(rows, folder) -> files``.
    paths : bool
        Whether the plot needs ``row.path``: points of one more solve, judged.
    slow : bool
        Whether ``python -m benchmarks`` without a name leaves it out.
    real_data : bool
        Whether it reads the folder of :mod:`benchmarks.data`.
    compact : bool
        One table with all datasets, times in seconds, rather than one table each.
    """

    name: str
    title: str
    datasets: tuple[Dataset, ...]
    solvers: tuple[Solver, ...]
    judge: Callable[[Any, Any], Measures]
    baseline: str
    target: tuple[str, float] | None = None
    repeat: int = 5
    patience: float = 2.0
    memory: bool = False
    shown: tuple[str, ...] = ("gap",)
    yardstick: Yardstick | None = None
    recorded: Mapping[tuple[str, str], Recorded] = field(default_factory=dict)
    recorded_name: str = "recorded"
    notes: Callable[[list[Row]], list[str]] | None = None
    plot: Callable[[list[Row], Path], list[Path]] | None = None
    paths: bool = False
    slow: bool = False
    real_data: bool = False
    compact: bool = False

    def solved(self, measures: Measures) -> bool:
        """Whether the judge's measure reaches the target (to a thousandth: rounding differs)."""
        if self.target is None:
            return True
        name, value = self.target
        return measures.get(name, math.inf) <= value * (1 + 1e-3)
