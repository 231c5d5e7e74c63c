"""What a trained model is proven to be: the same few numbers for every estimator.

A machine with objective value P and bound D has ``D <= optimum <= P`` (soft margins the other way
round: ``rho <= optimum <= bound``), so that its *gap* ``|P - D|`` is the most that any other model
could improve on it.  Estimators that train several machines (one against one, one against the rest)
have a pair of numbers for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.learning.pipelines import last_step
from cornerstep.optimiser.result import Result, Status, Trace


class MachineProof(NamedTuple):
    """What is proven of one machine of a model.

    Attributes
    ----------
    objective, bound : float
        What was reached, and what is proven that nothing can pass.
    gap : float
        Their distance.
    status : Status
        Why training stopped.
    n_iter : int
    trace : Trace
    """

    objective: float
    bound: float
    gap: float
    status: Status
    n_iter: int
    trace: Trace

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective."""
        return self.gap / abs(self.objective) if self.objective else 0.0


def overall(statuses: Sequence[Status]) -> Status:
    """Solved if all are; else interrupted if any was, or why the first that is not stopped."""
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED
    return next((status for status in statuses if status is not Status.SOLVED), Status.SOLVED)


def summary(machines: Sequence[MachineProof]) -> dict[str, Any]:
    """The attributes of a model of these machines: those of the one with the largest gap.

    The relative gap and the number of iterations are the largest; for the status see
    :func:`overall`.
    """
    worst = max(machines, key=lambda machine: machine.gap)
    return {
        "objective_": worst.objective,
        "bound_": worst.bound,
        "gap_": worst.gap,
        "relative_gap_": max(machine.relative_gap for machine in machines),
        "status_": overall([machine.status for machine in machines]),
        "n_iter_": max(machine.n_iter for machine in machines),
        "trace_": worst.trace,
    }


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
    landmarks : int, optional
        Of a kernel machine that is made of so many examples: bounds are of machines of these.
    whole : float
        What no machine of that kernel can pass, made of whatever examples; 0 if unknown.
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
    landmarks: int | None = None
    whole: float = 0.0

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
        return overall(self.statuses)

    @property
    def _is_absolute(self) -> bool:
        """Whether the gap was asked for as such: a share would mislead."""
        return self.target.startswith("gap")

    @property
    def shown_gap(self) -> str:
        """The largest gap, and the largest as a share if such was asked for."""
        return self.in_words(self.gap, self.relative_gap)

    def in_words(self, gap: float, share: float, digits: int = 3) -> str:
        """A gap as the certificate would show it: without its share if it was asked for as such."""
        return f"{gap:.{digits}g}" + ("" if self._is_absolute else f" ({percent(share)})")

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
        margin = f"{self.gap:.2g}" if self._is_absolute else percent(min(self.relative_gap, 1.0))
        if self.landmarks is None:
            return f"No model has an objective more than {margin} smaller{several}."
        gap = self.value - self.whole
        share = percent(min(gap / abs(self.value), 1.0)) if self.value else ""
        further = f"{gap:.2g}" if self._is_absolute or not self.value else share
        rest = f"none of the whole kernel more than {further} smaller"
        if not self.whole:
            rest = "nothing is proven of the whole kernel"
        return (
            f"No model of these {self.landmarks} landmarks has an objective more than {margin} "
            f"smaller; {rest}."
        )

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
        } | ({} if self.landmarks is None else {"landmarks": self.landmarks, "whole": self.whole})


def percent(share: float, digits: int = 2) -> str:
    """A share in per cent, to some digits; never with an exponent where it is large."""
    value = 100 * share
    return f"{value:,.0f} %" if value >= 10**digits - 0.5 else f"{value:.{digits}g} %"


def certificate(model: Any) -> Certificate:
    """The certificate of a fitted estimator, or of a result of :func:`cornerstep.minimize`.

    Parameters
    ----------
    model : fitted estimator, pipeline that ends in one, or Result

    Returns
    -------
    Certificate
    """
    if isinstance(model, Result):
        return Certificate(
            "objective", ("",), np.array([model.value]), np.array([model.lower_bound]),
            (model.status,), "", np.array([np.inf]), model.seconds, model.n_iter,
        )  # fmt: skip
    model = last_step(model)
    if not hasattr(model, "machines_"):
        raise ValueError(f"the estimator must be fitted first, got {model!r}")
    proof: Certificate = model.certificate()
    return proof
