"""Small pairs of classes, trained by the hundred in compiled code.

A pair of some dozens of examples is less work than the Python around it.  So where all kernel
values may be kept, all examples weigh the same and nobody watches, pairs of up to ``WHOLE``
examples are trained in batches, each in one compiled call
(:mod:`cornerstep.kernel_svm.compiled.pair_sweeps`), by the rounds of the default solver
(:mod:`cornerstep.kernel_svm.solvers.working_set`) from the same start.  A pair that needs more
(Newton steps, what rounding leaves of its target) is left to that solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.pairs import WHOLE, Pairs
from cornerstep.kernel_svm.problem import Machine, least_width
from cornerstep.kernel_svm.solvers.settings import WorkingSetSettings
from cornerstep.optimiser.loop import Stopping

_BATCH = 2**22  # kernel values of a batch: some 50 ms of work between two looks at the clock


class SmallPair(NamedTuple):
    """A trained pair: where its examples are among those of :class:`Pairs`, and what came out."""

    places: IntArray
    beta: FloatArray
    machine: Machine
    value: float
    gap: float
    is_constant: bool


class _Results(NamedTuple):
    """What the compiled call fills in, a row for each pair of a batch."""

    starts: IntArray
    betas: FloatArray
    numbers: FloatArray
    solved: FloatArray


def train_small_pairs(
    problems: Pairs, pairs: Sequence[tuple[int, int]], stopping: Stopping,
    settings: WorkingSetSettings, n_jobs: int, is_over: Callable[[], bool],
) -> dict[int, SmallPair]:  # fmt: skip
    """The pairs that could be trained here, by their number among ``pairs``.

    Parameters
    ----------
    problems : Pairs
    pairs : sequence of (int, int)
        Positive and negative class of each.
    stopping : Stopping
    settings : WorkingSetSettings
    n_jobs : int
        Batches at a time.
    is_over : function
        Asked between batches: whether the time is up, or somebody wants to stop.
    """
    small = [k for k, classes in enumerate(pairs) if problems.counts(*classes).sum() <= WHOLE]
    cap = problems.common_cap()
    if len(small) < settings.least_pairs or cap is None or not problems.may_keep_all():
        return {}
    store = problems.upper_blocks()
    found: dict[int, SmallPair] = {}

    def train(batch: list[int]) -> None:
        if not is_over():
            given = [pairs[k] for k in batch]
            results = _call(problems, store, given, cap, stopping, settings)
            found.update(_read(problems, batch, given, results))

    batches = list(_batches(problems, pairs, small))
    if n_jobs == 1:
        for batch in batches:
            train(batch)
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(train, batches))
    return found


def _batches(
    problems: Pairs, pairs: Sequence[tuple[int, int]], small: list[int]
) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for k in small:
        batch.append(k)
        size += int(problems.counts(*pairs[k]).sum()) ** 2
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _call(
    problems: Pairs, store: FloatArray, pairs: list[tuple[int, int]], cap: float,
    stopping: Stopping, settings: WorkingSetSettings,
) -> _Results:  # fmt: skip
    from cornerstep.kernel_svm.compiled.pair_sweeps import RESULTS, solve_pairs

    counts = np.array([problems.counts(*classes) for classes in pairs])
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    totals = np.array([problems.sum_of(*classes) for classes in pairs], dtype=np.float64)
    share, exponents = problems.kernel.entry_errors()
    results = _Results(
        starts, np.empty(starts[-1]), np.empty((len(pairs), RESULTS)), np.empty(len(pairs))
    )
    numbers = (
        float(stopping.tol), float(stopping.rtol), settings.violation, settings.accuracy,
        settings.worth,
    )  # fmt: skip
    limits = (
        settings.kept_violators, settings.least_newcomers, settings.largest, settings.first_steps,
        settings.patience,
    )  # fmt: skip
    solve_pairs(
        store, problems.ends, np.array(pairs), totals, cap, problems.softness,
        problems.kernel.sizes, exponents, share, numbers, limits, settings.most_work, *results,
    )  # fmt: skip
    return results


def _read(
    problems: Pairs, batch: list[int], pairs: list[tuple[int, int]], results: _Results
) -> Iterator[tuple[int, SmallPair]]:
    """The pairs that were solved and whose machine is more than rounding."""
    from cornerstep.kernel_svm.compiled import pair_sweeps as at

    starts, betas, _, solved = results
    rows = results.numbers.tolist()
    for p, (k, classes) in enumerate(zip(batch, pairs, strict=True)):
        row, total = rows[p], rows[p][at.TOTAL]
        low, high, low_2, high_2 = row[at.THRESHOLDS : at.THRESHOLDS + 4]
        if not solved[p]:
            continue
        if problems.softness:
            C, middle = 1.0 / problems.softness, 0.5 * (low + high)
        else:
            first, second = 0.5 * (low + high), 0.5 * (low_2 + high_2)
            if not (row[at.VALUE] > 0 and first - second > least_width(total, row[at.LARGEST])):
                continue
            C, middle = 2.0 / (first - second), 0.5 * (first + second)
        norm, intercept = C * math.sqrt(max(row[at.SQUARE], 0.0)), -C * middle
        beta = betas[starts[p] : starts[p + 1]]
        machine = Machine(
            C * beta, intercept, C, total / problems.weight(*classes), total / 2,
            2.0 / norm if norm > 0 else math.inf,
        )  # fmt: skip
        constant = C * row[at.LEAST_SCORE] + intercept > 0 or (
            C * row[at.MOST_SCORE] + intercept <= 0
        )
        places = problems.places(*classes)
        yield k, SmallPair(places, beta, machine, row[at.VALUE], row[at.GAP], constant)
