"""``python -m pictures``: draw the pictures of the documentation and write its benchmark page."""

from __future__ import annotations

import argparse
from pathlib import Path

from pictures import benchmarks


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m pictures", description=__doc__)
    parser.add_argument(
        "--results", nargs="+", default=[], metavar="NAME",
        help="take the results of these benchmarks into docs/benchmarks.csv first",
    )  # fmt: skip
    parser.add_argument(
        "--folder", type=Path, default=benchmarks.RESULTS, help="where the results are"
    )
    parser.add_argument(
        "--benchmarks-only", action="store_true", help="leave the other pictures as they are"
    )
    options = parser.parse_args()
    for name in options.results:
        benchmarks.take(name, options.folder)
    files = benchmarks.write()
    if not options.benchmarks_only:
        from pictures.capabilities import PICTURES
        from pictures.house import house
        from pictures.screens import report, terminal

        files += [house(), *(draw() for draw in PICTURES), *terminal(), *report()]
    for file in files:
        print(f"{file.relative_to(benchmarks.ROOT)}: {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
