"""What every fit keeps to: a failure leaves the model as it was, small products one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cornerstep.core.threads import fit_threads


@contextmanager
def whole_fit(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back if what follows raises: all old ones, no new ones.

    Numbers that are not finite are refused with a reason, or the certificate says what is left
    to prove: NumPy need not warn of them.  Threads are those of ``n_jobs``.
    """
    before = dict(vars(estimator))
    try:
        with (
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
            fit_threads(estimator.n_jobs),
        ):
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
