"""``python -m benchmarks [NAME ...]``: run benchmarks, print tables, write results and plots.

``python -m benchmarks reproduce [NAME ...]``: the tables and figures of the papers, or some.
``python -m benchmarks fetch [NAME ...]``: data sets that scikit-learn can fetch, or some of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import joblib
from rich.console import Console

from benchmarks import data
from benchmarks.core import Settings
from benchmarks.fetch import ELSEWHERE, SOURCES, fetch
from benchmarks.reproduce import ITEMS, reproduce
from benchmarks.runner import RESULTS, run, write
from benchmarks.suites import NAMES, load
from benchmarks.table import show


def _fetch(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    if unknown := set(names) - set(SOURCES):
        parser.error(f"NAME must be one of {', '.join(SOURCES)}, got {', '.join(unknown)}")
    folder = data.folder()
    if folder is None:
        parser.error(f"set {data.VARIABLE} to the folder where data sets are to be kept")
    outcomes = fetch(folder, names)
    for name, outcome, _ in outcomes:
        print(f"{name}: {outcome}")
    if not names:
        for name, where in ELSEWHERE.items():
            print(f"{name}: cannot be fetched by name; it is from {where}")
    if not all(is_there for _, _, is_there in outcomes):
        parser.exit(1)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help=f"which benchmarks: {', '.join(NAMES)}; all that are not slow, if none is given",
    )  # fmt: skip
    parser.add_argument(
        "--threads", nargs="+", choices=["1", "all"], default=["1"],
        help="threads of BLAS, OpenMP and numba; both settings may be given",
    )  # fmt: skip
    parser.add_argument("--repeat", type=int, metavar="K", help="solves a timing is the median of")
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="draw the plots of a benchmark into DIR"
    )
    parser.add_argument(
        "--only", type=lambda words: tuple(words.split(",")), default=(), metavar="WORD,...",
        help="only the datasets whose name contains one of these words",
    )  # fmt: skip
    parser.add_argument(
        "--full", action="store_true", help="all of multiclass and losses_time, 20 splits: slow"
    )
    parser.add_argument(
        "--limit", type=float, metavar="SECONDS",
        help="end a run after that time (LIBLINEAR: 20, with --full 120)",
    )  # fmt: skip
    parser.add_argument("--iterations", type=int, metavar="K", help="of the mcsvm experiments")
    parser.add_argument("--splits", type=int, metavar="K", help="of mcsvm_table1")
    parser.add_argument(
        "--published", action="store_true",
        help="boosting methods in their textbook forms, on the rows of the paper",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="of reproduce: minutes, a smoke run")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="K",
        help="of reproduce: datasets measured at once, a thread each; only counts are then exact",
    )  # fmt: skip
    parser.add_argument(
        "--folder", type=Path, help="of reproduce: where results are kept and the run goes on"
    )
    options = parser.parse_intermixed_args()
    if options.names[:1] == ["reproduce"]:
        names, known = tuple(options.names[1:]), [item.suite for item in ITEMS]
        if unknown := set(names) - set(known):
            parser.error(f"NAME must be one of {', '.join(known)}, got {', '.join(unknown)}")
        reproduce(options.quick, names, options.only, options.folder, jobs=options.jobs)
        return
    if options.names[:1] == ["fetch"]:
        _fetch(parser, tuple(options.names[1:]))
        return
    settings = Settings(
        options.only, options.full, options.limit, options.iterations, options.splits,
        options.published,
    )  # fmt: skip
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"NAME must be one of {', '.join(NAMES)}, got {', '.join(unknown)}")
    console = Console(width=max(150, Console().width), highlight=False)
    for name in options.names or [name for name in NAMES if not load(name).slow]:
        benchmark = load(name, settings)
        if not benchmark.datasets:
            console.print(f"{name} skipped: it has no dataset called {', '.join(options.only)}")
            continue
        if benchmark.real_data and data.folder() is None:
            console.print(f"{name} skipped: {data.WHAT_TO_SET}")
            continue
        console.print(f"[dim]running {name}[/dim]")
        rows = []
        for setting in options.threads:
            threads = 1 if setting == "1" else joblib.cpu_count()
            rows += run(name, threads, options.repeat, options.plot is not None, settings)
        if not rows:
            continue
        show(benchmark, rows, console)
        files = write(name, rows, RESULTS)
        if options.plot is not None and benchmark.plot is not None:
            options.plot.mkdir(parents=True, exist_ok=True)
            files += benchmark.plot(rows, options.plot)
        console.print(f"[dim]wrote {', '.join(str(file) for file in files)}[/dim]")


if __name__ == "__main__":
    main()
