"""Small pairs of classes, trained by the hundred in compiled code.

A pair of some dozens of examples is less work than the Python around it.  So where all kernel
values may be kept, all examples weigh the same and nobody watches, pairs of up to ``WHOLE``
examples are trained in batches, each in one compiled call
(:mod:`cornerstep.kernel_svm.compiled.pair_sweeps`), by the rounds of the default solver
(:mod:`cornerstep.kernel_svm.solvers.working_set`) from the same start.  A pair that needs more
(Newton steps, what rounding leaves of its target) is left to that solver.
"""

from __future__ import annotations

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
    positive: int
    beta: FloatArray
    machine: Machine
    value: float
    gap: float
    support: int
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
    classes = np.array(pairs)
    sizes = np.diff(problems.ends)[classes].sum(axis=1)
    small = np.flatnonzero(sizes <= WHOLE)
    cap = problems.common_cap()
    if small.size < settings.least_pairs or cap is None or not problems.may_keep_all():
        return {}
    store = problems.upper_blocks()
    found: dict[int, SmallPair] = {}

    def train(batch: IntArray) -> None:
        if not is_over():
            results = _call(problems, store, classes[batch], cap, stopping, settings)
            found.update(_read(problems, batch, classes[batch], results))

    work = np.cumsum(sizes[small] ** 2)
    batches = np.split(small, np.flatnonzero(np.diff(work // _BATCH)) + 1)
    if n_jobs == 1:
        for batch in batches:
            train(batch)
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(train, batches))
    return found


def _call(
    problems: Pairs, store: FloatArray, classes: IntArray, cap: float, stopping: Stopping,
    settings: WorkingSetSettings,
) -> _Results:  # fmt: skip
    from cornerstep.kernel_svm.compiled.pair_sweeps import RESULTS, solve_pairs

    sizes = np.diff(problems.ends)[classes].sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    totals = problems.sums_of(classes)
    share, exponents = problems.kernel.entry_errors()
    results = _Results(
        starts, np.empty(starts[-1]), np.zeros((sizes.size, RESULTS)), np.empty(sizes.size)
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
        store, problems.ends, classes, totals, cap, problems.softness,
        problems.kernel.sizes, exponents, share, numbers, limits, settings.most_work, *results,
    )  # fmt: skip
    return results


def _read(
    problems: Pairs, batch: IntArray, classes: IntArray, results: _Results
) -> Iterator[tuple[int, SmallPair]]:
    """The pairs that were solved and whose machine is more than rounding."""
    from cornerstep.kernel_svm.compiled import pair_sweeps as at

    starts, betas, numbers, solved = results
    value, total = numbers[:, at.VALUE], numbers[:, at.TOTAL]
    ends = numbers[:, at.THRESHOLDS : at.THRESHOLDS + 4].reshape(-1, 2, 2)
    first, second = 0.5 * ends.sum(axis=2).T
    good = solved != 0
    if problems.softness:
        C, middle = np.full(good.size, 1.0 / problems.softness), first
    else:
        width, middle = first - second, 0.5 * (first + second)
        good &= (value > 0) & (width > least_width(total, numbers[:, at.LARGEST]))
        C = 2.0 / np.where(good, width, 1.0)
    norm, intercept = C * np.sqrt(np.maximum(numbers[:, at.SQUARE], 0.0)), -C * middle
    constant = C * numbers[:, at.LEAST_SCORE] + intercept > 0
    constant |= C * numbers[:, at.MOST_SCORE] + intercept <= 0
    weights = problems.class_weights[classes].sum(axis=1)
    with np.errstate(divide="ignore"):
        columns = intercept, C, total / weights, total / 2, np.where(norm > 0, 2.0 / norm, np.inf)
    positive = np.diff(problems.ends)[classes[:, 0]]
    scaled = np.repeat(C, np.diff(starts)) * betas
    counts = np.add.reduceat(betas != 0, starts[:-1], dtype=np.intp)
    rows = zip(
        batch.tolist(), classes.tolist(), positive.tolist(),
        zip(*(each.tolist() for each in columns), strict=True),
        starts[:-1].tolist(), starts[1:].tolist(), value.tolist(), numbers[:, at.GAP].tolist(),
        counts.tolist(), constant.tolist(), good.tolist(), strict=True,
    )  # fmt: skip
    for (
        k,
        pair,
        ahead,
        machine,
        start,
        stop,
        reached,
        gap,
        support,
        is_constant,
        is_good,
    ) in rows:
        if is_good:
            yield k, SmallPair(
                problems.places(*pair), ahead, betas[start:stop],
                Machine(scaled[start:stop], *machine), reached, gap, support, is_constant,
            )  # fmt: skip
