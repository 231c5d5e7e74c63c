"""What a trained model is proven to be: the same few numbers for every estimator.

A machine with objective value P and bound D has ``D <= optimum <= P`` (soft margins the other way
round: ``rho <= optimum <= bound``), so that its *gap* ``|P - D|`` is the most that any other model
could improve on it.  Estimators that train several machines (one against one, one against the rest)
have a pair of numbers for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.optimiser.result import Result, Status, Trace


@dataclass(frozen=True)
class Certificate:
    """Values and bounds of the machines of a model.

    Attributes
    ----------
    quantity : str
        What was optimised: 'objective' (as small as possible) or 'soft margin' (as large).
    names : tuple of str
        One for each machine; a single empty one for a single machine.
    values, bounds : arrays
        What was reached, and what is proven that nothing can pass.
    statuses : tuple of Status
        Why each machine stopped.
    target : str
        What was asked for, such as 'relative gap <= 0.001'.
    allowed : array
        The same as a gap, for each machine.
    seconds : float
    n_iter : int
    exact : bool
        False if the bound rests on a weak learner that finds the best hypothesis.
    maximises : bool
        Whether values are to be as large as possible, and bounds are above them.
    """

    quantity: str
    names: tuple[str, ...]
    values: FloatArray
    bounds: FloatArray
    statuses: tuple[Status, ...]
    target: str
    allowed: FloatArray
    seconds: float
    n_iter: int
    exact: bool = True
    maximises: bool = False

    @property
    def gaps(self) -> FloatArray:
        """The gap of each machine."""
        return np.maximum(np.abs(self.values - self.bounds), 0.0)

    @property
    def relative_gaps(self) -> FloatArray:
        """The gaps as shares of the values."""
        scale = np.abs(self.values)
        return np.divide(self.gaps, scale, out=np.zeros_like(scale), where=scale > 0)

    @property
    def value(self) -> float:
        """The value of the machine with the largest gap."""
        return float(self.values[self._worst])

    @property
    def bound(self) -> float:
        """The bound of the machine with the largest gap."""
        return float(self.bounds[self._worst])

    @property
    def gap(self) -> float:
        """The largest gap."""
        return float(self.gaps.max())

    @property
    def relative_gap(self) -> float:
        """The largest relative gap."""
        return float(self.relative_gaps.max())

    @property
    def _worst(self) -> int:
        return int(self.gaps.argmax())

    @property
    def status(self) -> Status:
        """Solved, or why the first machine that is not solved stopped."""
        return next((s for s in self.statuses if s is not Status.SOLVED), Status.SOLVED)

    @property
    def sentence(self) -> str:
        """The certificate in words."""
        several = f" (the largest of {len(self.names)} machines)" if len(self.names) > 1 else ""
        rests = "" if self.exact else ", as far as the weak learner finds the best hypothesis"
        if self.maximises:
            return (
                f"No ensemble of these hypotheses has a soft margin more than {self.gap:.2g} "
                f"larger{several}{rests}."
            )
        absolute = self.target.startswith("gap")  # asked for as such: a share would mislead
        share = min(100 * self.relative_gap, 100.0)
        margin = f"{self.gap:.2g}" if absolute else f"{share:.{2 if share < 99.5 else 3}g} %"
        return f"No model has an objective more than {margin} smaller{several}."

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain numbers and words."""
        machines = [
            {"name": name, self.quantity.replace(" ", "_"): value, "bound": bound, "gap": gap,
             "relative_gap": relative, "status": str(status)}
            for name, value, bound, gap, relative, status in zip(
                self.names, self.values.tolist(), self.bounds.tolist(), self.gaps.tolist(),
                self.relative_gaps.tolist(), self.statuses, strict=True,
            )
        ]  # fmt: skip
        return {
            "statement": self.sentence,
            "status": str(self.status),
            "asked": self.target,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
            "seconds": self.seconds,
            "iterations": self.n_iter,
            "exact": self.exact,
            "machines": machines,
        }


def traces(estimator: Any) -> list[Trace]:
    """One trace for each machine."""
    return estimator.trace_ if isinstance(estimator.trace_, list) else [estimator.trace_]


def certificate(model: Any) -> Certificate:
    """The certificate of a fitted estimator, or of a result of :func:`cornerstep.minimize`.

    Parameters
    ----------
    model : fitted estimator or Result

    Returns
    -------
    Certificate
    """
    if isinstance(model, Result):
        return Certificate(
            "objective", ("",), np.array([model.value]), np.array([model.lower_bound]),
            (model.status,), "", np.array([np.inf]), model.seconds, model.n_iter,
        )  # fmt: skip
    if not hasattr(model, "trace_"):
        raise ValueError(f"the estimator must be fitted first, got {model!r}")
    proof: Certificate = model.certificate()
    return proof


def certificate_of(model: Any) -> Certificate:
    """The certificate in the attributes of a fitted estimator."""
    runs = traces(model)
    seconds = sum(float(trace["seconds"][-1]) for trace in runs if len(trace))
    status = model.status_
    statuses = tuple(status) if isinstance(status, list) else (status,) * len(runs)
    if model.maximises:
        return Certificate(
            model.quantity, model.machine_names(), np.atleast_1d(model.soft_margin_),
            np.atleast_1d(model.bound_), statuses, f"gap <= {model.tol:g}",
            np.full(len(runs), float(model.tol)), seconds, int(model.n_iter_),
            model.bound_is_exact_, True,
        )  # fmt: skip
    values, gaps = np.atleast_1d(model.objective_), np.atleast_1d(model.gap_)
    bounds = np.atleast_1d(getattr(model, "dual_objective_", values - gaps))
    absolute = hasattr(model, "rtol")
    target = f"{'gap' if absolute else 'relative gap'} <= {model.tol:g}"
    if absolute and model.rtol:
        target += f" or relative gap <= {model.rtol:g}"
    share = model.rtol if absolute else model.tol
    allowed = np.maximum(model.tol if absolute else 0.0, share * np.abs(values))
    return Certificate(
        model.quantity, model.machine_names(), values, bounds, statuses, target, allowed,
        seconds, int(np.max(model.n_iter_)),
    )  # fmt: skip
