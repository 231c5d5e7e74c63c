"""Regularisation paths: one model for many C, nu or lambda, each from the last, each certified.

The path goes from strong regularisation to weak: that way models grow, and little of what the one
before has is in the way of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from cornerstep.core.optional import optional_import
from cornerstep.core.types import FloatArray
from cornerstep.optimiser.result import Status

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


_GROWING = ("C",)  # a larger one regularises less; larger nu, K, lam and epsilon regularise more


@dataclass
class RegularizationPath:
    """Fitted estimators along a parameter, from strong to weak regularisation.

    Attributes
    ----------
    values : array
        Of the parameter, in the order of the path.
    estimators : list
        One fitted estimator for each value, with its certificate.
    parameter : str
    """

    values: FloatArray
    estimators: list[Any]
    parameter: str = "C"

    def __len__(self) -> int:
        return len(self.estimators)

    def column(self, name: str) -> FloatArray:
        """An attribute of all estimators, such as ``'objective_'`` or ``'relative_gap_'``."""
        return np.array([getattr(estimator, name) for estimator in self.estimators])

    def to_pandas(self) -> pd.DataFrame:
        """The parameter, objective, bound, gap, status, iterations: a row for each value."""
        with optional_import():
            import pandas as pd

        names = ("objective_", "bound_", "gap_", "relative_gap_", "status_", "n_iter_")
        return pd.DataFrame(
            {self.parameter: self.values} | {name.rstrip("_"): self.column(name) for name in names}
        )

    def plot(self, X: Any = None, y: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the certified relative gap along the path, and the error on (X, y) if given."""
        with optional_import():
            import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.figure().add_subplot()
        floor = np.finfo(float).eps
        gaps = np.maximum(self.column("relative_gap_"), floor)
        ax.loglog(self.values, gaps, "o-", label="certified relative gap")
        if X is not None:
            errors = [1 - estimator.score(X, y) for estimator in self.estimators]
            ax.loglog(self.values, np.maximum(errors, floor), "s-", label="error")
        ax.set_xlabel(self.parameter)
        ax.legend()
        return ax


def same_fit(estimator: Any) -> Any:
    """An estimator with the same attributes.

    ``copy.copy`` asks for a state that could go to another process, and so for dual coefficients
    that are made of all the data when somebody wants them.
    """
    out = object.__new__(type(estimator))
    vars(out).update(vars(estimator))
    return out


def regularization_path(
    estimator: Any, X: Any, y: Any, values: Sequence[float], *, parameter: str = "C",
    **fit_parameters: Any,
) -> RegularizationPath:  # fmt: skip
    """Fit ``estimator`` for every value of C, or of another parameter, each from the one before.

    Parameters
    ----------
    estimator : estimator
        With the parameter and ``warm_start``; it is not changed.
    X, y : array-like
        Training data; y may be None for estimators without labels.
    values : sequence of float
        Any order; the path goes from strong regularisation to weak: from the smallest C to the
        largest, from the largest nu, K, lam or epsilon to the smallest.
    parameter : str, default='C'
        Which one: 'nu' or 'K' of :class:`~cornerstep.ReducedHullSVC`, 'nu' of boosting, 'lam' of
        structured models, and others that are numbers.
    **fit_parameters
        Passed to ``fit``, such as ``sample_weight``.

    Returns
    -------
    RegularizationPath
        After Ctrl-C, up to the estimator that was interrupted.
    """
    steps = list(models_along(estimator, X, y, values, parameter, **fit_parameters))
    found, fitted = zip(*steps, strict=True)
    return RegularizationPath(np.array(found), list(fitted), parameter)


def models_along(
    estimator: Any, X: Any, y: Any, values: Sequence[float] | FloatArray, parameter: str = "C",
    **fit_parameters: Any,
) -> Iterator[tuple[float, Any]]:  # fmt: skip
    """The steps of :func:`regularization_path` as they are done: a value and its estimator."""
    known = estimator.get_params()
    missing = {parameter, "warm_start"} - set(known)
    if missing:
        raise TypeError(f"estimator must have {' and '.join(sorted(missing))}, got {estimator!r}")
    if parameter == "C" and known.get("lam", "auto") != "auto":
        raise ValueError(f"estimator must have lam='auto': lam would replace C, got {estimator!r}")
    given = np.asarray(values)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iuf" or not (
        (given > 0) & np.isfinite(given)
    ).all():  # fmt: skip
        raise ValueError(
            f"values must be a sequence of positive numbers that are finite, got {values!r}"
        )
    ordered = np.sort(given.astype(np.float64))
    if parameter not in _GROWING:
        ordered = ordered[::-1]
    runner = clone(estimator).set_params(warm_start=True)
    for value in ordered:
        runner.set_params(**{parameter: float(value)}).fit(X, y, **fit_parameters)
        yield float(value), same_fit(runner)
        if runner.status_ is Status.INTERRUPTED:
            break
