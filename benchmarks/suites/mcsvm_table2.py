"""Seconds an iteration of the plain methods, beside the published ones.

The published data are not at hand, but an iteration's cost hangs on their sizes: normal data of the
same n, d and m stand in.  The published times were taken on their authors' machine.
"""

from __future__ import annotations

from functools import partial

from benchmarks.core import Benchmark, Dataset, Row, Settings
from benchmarks.multiclass import judge, plain
from benchmarks.suites.fw_iteration import random_problem

RULES = ("projected-gradient", "fw-open-loop", "fw")
SIZES = {
    "Caltech101": (6_339, 256, 102),
    "CUB200": (6_033, 4_096, 200),
    "Flower102": (2_040, 4_096, 102),
    "Indoor67": (15_607, 4_096, 67),
    "News20": (15_935, 1_024, 20),
}
#: Of PG, StdFW and LSFW, in the order of RULES.
PUBLISHED = {
    "Caltech101": (0.453, 0.589, 0.814),
    "CUB200": (2.570, 2.458, 3.324),
    "Flower102": (0.661, 0.649, 0.903),
    "Indoor67": (3.040, 2.855, 3.919),
    "News20": (0.548, 0.436, 0.531),
}


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", "seconds per iteration, here / published = ratio"]
    lines.append(f"{'':<30}" + "".join(f"{rule:>30}" for rule in RULES))
    for threads in dict.fromkeys(row.threads for row in rows):
        for name in dict.fromkeys(row.dataset for row in rows):
            cells = ""
            for rule, published in zip(RULES, PUBLISHED[name], strict=True):
                row = next(
                    row for row in rows
                    if (row.threads, row.dataset, row.solver) == (threads, name, rule)
                )  # fmt: skip
                ratio = row.per_iteration / published
                cells += f"{row.per_iteration:.3f} / {published:.3f} = {ratio:.2f}".rjust(30)
            lines.append(f"{name + f', {threads} thread(s)':<30}{cells}")
    return lines


def build(settings: Settings) -> Benchmark:
    """A few iterations are enough: each costs the same."""
    return Benchmark(
        name="mcsvm_table2",
        title="Table 2: seconds per iteration of PG, StdFW and LSFW (normal data, same sizes)",
        datasets=tuple(Dataset(name, partial(random_problem, *SIZES[name])) for name in SIZES),
        solvers=tuple(plain(rule, settings.iterations or 5) for rule in RULES),
        judge=judge,
        baseline="fw",
        repeat=3,
        patience=5.0,
        shown=(),
        notes=_notes,
        slow=True,
        compact=True,
    )
