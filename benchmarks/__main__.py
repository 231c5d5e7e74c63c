"""``python -m benchmarks [NAME ...]``: run benchmarks, print tables, write results and plots."""

from __future__ import annotations

import argparse
from pathlib import Path

import joblib
from rich.console import Console

from benchmarks.runner import RESULTS, run, write
from benchmarks.suites import NAMES, load
from benchmarks.table import show


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
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"NAME must be one of {', '.join(NAMES)}, got {', '.join(unknown)}")
    console = Console(width=max(150, Console().width), highlight=False)
    for name in options.names or [name for name in NAMES if not load(name).slow]:
        benchmark = load(name)
        console.print(f"[dim]running {name}[/dim]")
        rows = []
        for setting in options.threads:
            threads = 1 if setting == "1" else joblib.cpu_count()
            rows += run(name, threads, options.repeat, paths=options.plot is not None)
        show(benchmark, rows, console)
        files = write(name, rows, RESULTS)
        if options.plot is not None and benchmark.plot is not None:
            options.plot.mkdir(parents=True, exist_ok=True)
            files += benchmark.plot(rows, options.plot)
        console.print(f"[dim]wrote {', '.join(str(file) for file in files)}[/dim]")


if __name__ == "__main__":
    main()
