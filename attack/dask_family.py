"""``MulticlassSVC`` on Dask arrays, in any chunks, on a cluster of one thread in this process.

Judged as in memory.  Skipped where Dask is not installed.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from attack import multiclass_family
from attack.draws import chance, one_of
from attack.judge import Judge, RefusedError
from attack.multiclass_task import check
from cornerstep import MulticlassSVC


@cache
def _client() -> Any:
    import distributed

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
    )


def _chunks(rng: Any, n: int) -> tuple[int, ...]:
    """Sizes of chunks that sum to n; seldom, some are empty."""
    cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 4))))
    sizes = np.diff([0, *cuts, n])
    return tuple(int(size) for size in (sizes if chance(rng, 0.15) else sizes[sizes > 0]))


def attack(rng: Any, judge: Judge) -> None:
    """One problem; wrong weights in one chunk must be refused."""
    if find_spec("distributed") is None:
        raise RefusedError("Dask is not installed")
    import dask.array as da

    _client()
    X, y, share, m, given = multiclass_family.draw(rng, kernels=False)
    how = multiclass_family.training(rng, given)
    how["max_iter"] = min(how["max_iter"], 30)
    chunks = _chunks(rng, y.size)
    if chance(rng, 0.3) and np.isfinite(X.astype(np.float32)).all():
        X = X.astype(np.float32)
    shown = {k: v for k, v in {**given, **how}.items() if k not in ("costs", "rho")}
    judge.says(shown, X.shape, X.dtype, m, chunks)
    model = MulticlassSVC(**given, **how)
    arrays = (da.from_array(X, chunks=(chunks, X.shape[1:])), da.from_array(y, chunks=(chunks,)))
    if chance(rng, 0.1):
        wrong = np.ones(y.size)
        wrong[int(rng.integers(y.size))] = one_of(rng, -1.0, np.nan, np.inf)
        judge.refuses("a wrong weight in one chunk", model.fit, *arrays, wrong)
        return
    multiclass_family.fit(judge, model, *arrays, share)
    task = multiclass_family.task_of(given, X.astype(np.float64), y, share, m)
    multiclass_family.bounded([check(task, model, how["tol"], judge)], judge)
