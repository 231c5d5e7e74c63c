"""``python -m benchmarks reproduce``: every table and figure of the five papers, in one command.

An item is a suite with settings of its own.  Its rows are kept in ``FOLDER/SUITE.jsonl`` as they
come, and are not measured again: a run that was ended goes on where it was.  Then the suite's table
is printed, ``SUITE.json`` and ``SUITE.csv`` are written, its figures drawn into ``FOLDER/figures``,
and ``FOLDER/index.json`` says of every item what it reproduces, what came of it and where it is.

Several jobs measure several datasets at once, a process and a file in ``FOLDER/parts`` each, before
the rest goes its way.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import data
from benchmarks.core import Benchmark, Dataset, Row, Settings
from benchmarks.runner import RESULTS, Kept, run, write
from benchmarks.suites import load
from benchmarks.table import show

FOLDER = RESULTS / "reproduce"
QUICK_FOLDER = RESULTS / "reproduce_quick"

MULTICLASS = "Tajima, Hirohashi, Zara, Kato 2020"
JAPANESE = "Tajima, Kato 2020"
REVIEW = "Saint-Arnaud, Lamouchi, Boileau"
POLYTOPES = "Bashiri, Zhang 2017"
BOOSTING = "Mitsuboshi, Hatano, Takimoto 2022"


@dataclass(frozen=True)
class Item:
    """A suite, what it reproduces (paper -> tables and figures), and how it is run.

    ``quick`` are the settings of a smoke run, with some of the datasets.
    """

    suite: str
    shows: dict[str, str]
    quick: Settings
    settings: Settings = field(default_factory=Settings)


ITEMS = (
    Item("review_figures", {REVIEW: "Figures 1 and 2"}, Settings()),
    Item(
        "structured_solvers", {REVIEW: "the evaluation on synthetic data that its abstract names"},
        Settings(("synthetic",), limit=0.1), Settings(("synthetic",), limit=60.0),
    ),
    Item(
        "q375", {POLYTOPES: "Figure 2"},
        Settings(("draw 0",), limit=0.2), Settings(full=True),
    ),
    Item("table1", {POLYTOPES: "Table 1"}, Settings(("n = 3", "n = 5"), limit=0.1)),
    Item("kernel_figures", {POLYTOPES: "Figures 1 and 3"}, Settings(("wdbc",), limit=1.0)),
    Item("boosting_worst_case", {BOOSTING: "Table 1 and the worst case"}, Settings(("50 ",))),
    Item(
        "boosting_rounds", {BOOSTING: "rounds of LPBoost"},
        Settings(("thyroid, nu = 0.1", "thyroid, nu = 0.5"), limit=1.0),
    ),
    Item(
        "boosting", {BOOSTING: "Tables 2 and 4"},
        Settings(("thyroid",), limit=0.3, published=True), Settings(limit=10.0, published=True),
    ),
    Item(
        "boosting_figures", {BOOSTING: "Figures 1 to 4"},
        Settings(("thyroid",), limit=0.3, published=True), Settings(limit=10.0, published=True),
    ),
    Item(
        "boosting_table3", {BOOSTING: "Table 3"},
        Settings(("thyroid",), limit=0.05, splits=2, published=True),
        Settings(limit=0.5, published=True),
    ),
    Item("mcsvm_table3", {MULTICLASS: "Table 3"}, Settings(("base",))),
    Item("mcsvm_table2", {MULTICLASS: "Table 2"}, Settings(("Flower102",), iterations=1)),
    Item(
        "mcsvm_figures", {MULTICLASS: "Figures 1 and 2", JAPANESE: "Figure 1"},
        Settings(("flowers102",), limit=2.0, iterations=10),
    ),
    Item(
        "mcsvm_table1", {MULTICLASS: "Table 1"},
        Settings(("flowers102",), iterations=10, splits=1), Settings(full=True),
    ),
)  # fmt: skip


def reproduce(
    quick: bool = False,
    names: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    folder: Path | None = None,
    console: Console | None = None,
    measured: Callable[..., list[Row]] = run,
    jobs: int = 1,
) -> list[dict[str, Any]]:
    """Run the items of the suites ``names`` (all if empty); what ``index.json`` says of them.

    ``only`` keeps the datasets whose name contains one of these words, in place of the item's.
    """
    folder = folder or (QUICK_FOLDER if quick else FOLDER)
    console = console or Console(width=150, highlight=False)
    items = [item for item in ITEMS if not names or item.suite in names]
    chosen = {item.suite: item.quick if quick else item.settings for item in items}
    if only:
        chosen = {suite: replace(settings, only=only) for suite, settings in chosen.items()}
    start, entries = time.perf_counter(), []
    if jobs > 1:
        _measure_parts(chosen, quick, folder, console, measured, jobs)
    for number, item in enumerate(items, 1):
        shows = "; ".join(f"{what} of {paper}" for paper, what in item.shows.items())
        place = f"[{number}/{len(items)}, {time.perf_counter() - start:.0f} s] {item.suite}"
        console.print(f"{place}: {shows}", markup=False)
        settings = chosen[item.suite]
        begun = time.perf_counter()
        said = _run(item.suite, settings, quick, folder, console, measured)
        seconds = round(time.perf_counter() - begun, 1)
        entry = {"suite": item.suite, "shows": item.shows, "settings": asdict(settings)}
        entries.append(entry | {"quick": quick, "seconds": seconds} | said)
        _note(folder / "index.json", entries[-1])
        console.print(f"{place}: {said['outcome']}, {seconds:.0f} s", markup=False)
    console.print(f"{len(items)} items in {time.perf_counter() - start:.0f} s: {folder}")
    return entries


def _measure_parts(
    chosen: dict[str, Settings],
    quick: bool,
    folder: Path,
    console: Console,
    measured: Callable[..., list[Row]],
    jobs: int,
) -> None:
    """Measure the datasets of all suites, ``jobs`` at a time; their rows join those of the suites.

    The last suites come first: theirs take the longest.
    """
    wholes = {suite: Kept(folder / f"{suite}.jsonl", one) for suite, one in chosen.items()}
    parts = [
        (suite, number, dataset.name)
        for suite, settings in reversed(chosen.items())
        for number, dataset in enumerate(_datasets(suite, settings))
    ]

    def measure(suite: str, number: int, name: str) -> str:
        settings, file = chosen[suite], folder / "parts" / f"{suite}-{number}.jsonl"
        part = Kept(file, settings)
        for key, row in wholes[suite].rows.items():
            if row.dataset == name and key not in part.rows:
                part.add(row)
        repeat = _repeat(load(suite, settings), quick)
        try:
            measured(suite, 1, repeat, True, replace(settings, only=(name,)), file)
        except subprocess.CalledProcessError as error:  # tried again with the others
            return f"{suite}, {name}: failed: {error}"
        return f"{suite}, {name}"

    begun = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(measure, *part) for part in parts]
        try:
            for count, done in enumerate(as_completed(runs), 1):
                said = done.result()
                seconds = time.perf_counter() - begun
                console.print(f"[part {count}/{len(parts)}, {seconds:.0f} s] {said}", markup=False)
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C does not begin those that wait
    for suite, number, _ in parts:
        rows = Kept(folder / "parts" / f"{suite}-{number}.jsonl", chosen[suite]).rows
        for row in (row for key, row in rows.items() if key not in wholes[suite].rows):
            wholes[suite].add(row)


def _repeat(benchmark: Benchmark, quick: bool) -> int | None:
    return 1 if quick and benchmark.repeat else None


def _datasets(suite: str, settings: Settings) -> tuple[Dataset, ...]:
    benchmark = load(suite, settings)
    return () if benchmark.real_data and data.folder() is None else benchmark.datasets


def _note(file: Path, entry: dict[str, Any]) -> None:
    """Write what came of an item, in the place of what the file says of its suite."""
    known = json.loads(file.read_text()) if file.exists() else []
    entries = [old for old in known if old["suite"] != entry["suite"]] + [entry]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(entries, indent=1))


def _run(
    name: str,
    settings: Settings,
    quick: bool,
    folder: Path,
    console: Console,
    measured: Callable[..., list[Row]],
) -> dict[str, Any]:
    benchmark = load(name, settings)
    if benchmark.real_data and data.folder() is None:
        return {"outcome": f"skipped: {data.WHAT_TO_SET}"}
    try:
        rows = measured(
            name, 1, _repeat(benchmark, quick), True, settings, folder / f"{name}.jsonl"
        )
    except subprocess.CalledProcessError as error:  # the other items are still worth having
        return {"outcome": f"failed: {error}"}
    if not rows:
        return {"outcome": "skipped: none of its datasets is here"}
    show(benchmark, rows, console)
    files = write(name, rows, folder)
    if benchmark.plot is not None:
        figures = folder / "figures"
        figures.mkdir(parents=True, exist_ok=True)
        files += benchmark.plot(rows, figures)
    failed = [f"{row.dataset}, {row.solver}: {row.stopped}" for row in rows if not row.measures]
    return {
        "outcome": f"{len(failed)} of {len(rows)} rows failed" if failed else "done",
        "rows": len(rows),
        "failed": failed,
        "files": [str(file.relative_to(folder)) for file in files],
        "notes": benchmark.notes(rows) if benchmark.notes else [],
    }
