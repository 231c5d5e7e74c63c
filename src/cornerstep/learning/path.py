"""Regularisation paths: the same model for many C, each started from the last, each certified."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from cornerstep.core.types import FloatArray
from cornerstep.optimiser.result import Status

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass
class RegularizationPath:
    """Fitted estimators along C, from weak to strong weight of the losses.

    Attributes
    ----------
    Cs : array
        In increasing order.
    estimators : list
        One fitted estimator for each C, with its certificate.
    """

    Cs: FloatArray
    estimators: list[Any]

    def __len__(self) -> int:
        return len(self.estimators)

    def column(self, name: str) -> FloatArray:
        """An attribute of all estimators, such as ``'objective_'`` or ``'relative_gap_'``."""
        return np.array([getattr(estimator, name) for estimator in self.estimators])

    def to_pandas(self) -> pd.DataFrame:
        """C, objective, dual objective, gap, status, iterations: a row for each C."""
        import pandas as pd

        names = ("objective_", "bound_", "gap_", "relative_gap_", "status_", "n_iter_")
        return pd.DataFrame(
            {"C": self.Cs} | {name.rstrip("_"): self.column(name) for name in names}
        )

    def plot(self, X: Any = None, y: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the certified relative gap against C, and the error on (X, y) if given."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.figure().add_subplot()
        floor = np.finfo(float).eps
        gaps = np.maximum(self.column("relative_gap_"), floor)
        ax.loglog(self.Cs, gaps, "o-", label="certified relative gap")
        if X is not None:
            errors = [1 - estimator.score(X, y) for estimator in self.estimators]
            ax.loglog(self.Cs, np.maximum(errors, floor), "s-", label="error")
        ax.set_xlabel("C")
        ax.legend()
        return ax


def regularization_path(
    estimator: Any, X: Any, y: Any, Cs: Sequence[float], **fit_parameters: Any
) -> RegularizationPath:
    """Fit ``estimator`` for every C, each from the dual state of the one before.

    Parameters
    ----------
    estimator : estimator
        With parameters ``C`` and ``warm_start``; it is not changed.
    X, y : array-like
        Training data.
    Cs : sequence of float
        Any order; the path goes from the smallest to the largest.
    **fit_parameters
        Passed to ``fit``, such as ``sample_weight``.

    Returns
    -------
    RegularizationPath
        After Ctrl-C, up to the estimator that was interrupted.
    """
    missing = {"C", "warm_start"} - set(estimator.get_params())
    if missing:
        raise TypeError(f"estimator must have {' and '.join(sorted(missing))}, got {estimator!r}")
    if getattr(estimator, "lam", "auto") != "auto":
        raise ValueError(f"estimator must have lam='auto': lam would replace C, got {estimator!r}")
    given = np.asarray(Cs)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iuf" or not (given > 0).all():
        raise ValueError(f"Cs must be a sequence of positive numbers, got {Cs!r}")
    ordered = np.sort(given.astype(np.float64))
    runner = clone(estimator).set_params(warm_start=True)
    fitted = []
    for C in ordered:
        runner.set_params(C=float(C)).fit(X, y, **fit_parameters)
        fitted.append(copy.copy(runner))
        if runner.status_ is Status.INTERRUPTED:
            break
    return RegularizationPath(ordered[: len(fitted)], fitted)
