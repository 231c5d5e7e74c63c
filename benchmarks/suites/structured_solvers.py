"""All solvers on OCR-large (folds 1 to 9, n = 6,251, lambda = 1/n) and on synthetic chains.

To a certified gap of 0.01, or until the time is up (``--limit``): passes, oracle calls, seconds,
errors; plots of the gap against each.  The default solver has a plane cache; those called by their
names alone are the textbook methods.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.core import Benchmark, Dataset, Row, Settings
from benchmarks.plots import convergence
from benchmarks.structured import ALL_SOLVERS, judge, ocr, synthetic_chains, train

GAP = 0.01


def _plot(rows: list[Row], folder: Path) -> list[Path]:
    title = "Structured SVMs: certified gap against passes, oracle calls and seconds"
    across = ("iteration", "oracle_calls", "seconds")
    return [convergence(rows, folder / "structured_solvers.png", title, across, GAP)]


def build(settings: Settings) -> Benchmark:
    """Each solver may take ``settings.limit`` seconds (300 if not given)."""
    options = {
        "atol": GAP, "max_iter": 10**6, "time_limit": settings.limit or 300.0, "check_every": 10,
    }  # fmt: skip
    plain = options | {"cache_passes": 0}
    solvers = [
        train("bcfw, default", "bcfw", **options),
        train("bcfw, default, gap", "bcfw", sampling="gap", **options),
        train("bcfw-pairwise, cache", "bcfw-pairwise", **options),
        *(train(name, name, **plain) for name in ALL_SOLVERS),
    ]
    return Benchmark(
        name="structured_solvers",
        title=f"structured solvers to a gap of {GAP:g}",
        datasets=(
            Dataset("synthetic chains", synthetic_chains),
            Dataset("ocr folds 1-9", partial(ocr, True)),
        ),
        solvers=tuple(solvers),
        judge=judge,
        baseline="bcfw, default",
        target=("gap", GAP),
        repeat=0,
        shown=("oracle_calls", "objective", "gap", "train error", "test error"),
        plot=_plot,
        paths=True,
        slow=True,
        real_data=True,
    )
