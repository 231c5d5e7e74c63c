"""What every fit keeps to: failures leave the model as it was, Ctrl-C ends all, few threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cornerstep.core.threads import fit_threads
from cornerstep.optimiser.loop import deferred_presses
from cornerstep.optimiser.result import Status

# A pipeline that is fitted is the model; callbacks see it fitted.
_ALONE = "sklearn.pipeline", "sklearn.base", "sklearn.callback"


@contextmanager
def whole_fit(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back if what follows raises: all old ones, no new ones.

    Numbers that are not finite are refused with a reason, or the certificate says what is left
    to prove: NumPy need not warn of them.  Threads are those of ``n_jobs``.

    Ctrl-C, which ends a fit and keeps the model so far, ends what the fit is a part of as well, by
    a KeyboardInterrupt: a search or a cross-validation would go on with the next fit, and take the
    score of a model that is not finished for one that is.
    """
    before, presses = dict(vars(estimator)), deferred_presses()
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
    pressed = estimator.status_ is Status.INTERRUPTED or deferred_presses() > presses
    if pressed and _is_part_of_something_larger():
        raise KeyboardInterrupt(f"{type(estimator).__name__} keeps the best model so far")


def _is_part_of_something_larger() -> bool:
    """Whether scikit-learn or joblib called, other than by a pipeline alone."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in ("sklearn", "joblib") and not module.startswith(_ALONE):
            return True
    return False
