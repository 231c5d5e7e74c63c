"""What a model says of itself, compared with what its data say: for every estimator the same.

Comparisons are two-sided and relative to the recomputed numbers, plus a bound of the rounding of
the recomputation: a claim that is better or worse than the truth is not the truth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.learning.certificates import Certificate, summary
from cornerstep.optimiser.result import Status

_ROUNDINGS = 8  # by how many times its gap a model's numbers may be off by rounding
CLOSE = 1e-9  # by how much numbers may be off, relative, besides the rounding that is known


class Recomputed(NamedTuple):
    """Values and bounds of the machines of a model, from the data.

    Attributes
    ----------
    values, bounds : arrays
        One for each machine.
    rounding : array
        By how much each of them may be off.
    how : str
        How the bounds were found.
    attained : bool
        Whether the model's bounds must be these; else they may be worse: they claim less.
    ceilings : array, optional
        Where the model has no dual point of its own and a run found another: values that this run
        reached, which no true bound exceeds.  The run's bounds may be worse than the model's.
    excess : array, optional
        By how much each value may be worse than the truth, where that is less than ``rounding``:
        an honest model claims no more than its rounding, whatever the size of its terms.
    """

    values: FloatArray
    bounds: FloatArray
    rounding: FloatArray
    how: str
    attained: bool = True
    ceilings: FloatArray | None = None
    excess: FloatArray | None = None


def compare(claimed: Certificate, found: Recomputed, problems: list[str]) -> None:
    """Add what is wrong with values, bounds and gaps."""
    sign = -1.0 if claimed.maximises else 1.0
    if claimed.values.shape != found.values.shape or claimed.bounds.shape != found.bounds.shape:
        problems.append(
            f"the model claims {claimed.values.size} values and {claimed.bounds.size} bounds, it "
            f"has {found.values.size} machines"
        )
        return
    for k, name in enumerate(claimed.names):
        which = f" of the machine {name!r}" if name else ""
        value, bound, rounding = found.values[k], found.bounds[k], found.rounding[k]
        # the gap of an honest model has the rounding of its own computation in it
        slack = CLOSE * abs(value) + min(rounding, _ROUNDINGS * claimed.gaps[k])
        excess = slack if found.excess is None else CLOSE * abs(value) + found.excess[k]
        if not -min(slack, excess) <= sign * (claimed.values[k] - value) <= slack:
            problems.append(
                f"the {claimed.quantity}{which} is {value:.9g}, not {claimed.values[k]:.9g}"
            )
        if found.ceilings is not None:
            bound = found.ceilings[k]
        better = sign * (claimed.bounds[k] - bound)  # than what was found
        off = abs(better) if found.attained else better
        if not off <= slack + CLOSE * abs(bound):
            problems.append(f"the bound{which} is {bound:.9g}, not {claimed.bounds[k]:.9g}")
        gap, said = sign * (value - bound), claimed.gaps[k]
        if not gap <= said + 2 * slack:
            problems.append(f"the gap{which} is {gap:.3g}, not {said:.3g}")


def check_claims(model: Any, claimed: Certificate, problems: list[str]) -> None:
    """Add where the numbers that a model claims contradict each other, or its status."""
    for name, own in summary(model.machines_).items():
        said = getattr(model, name)
        if said is not own and (type(said) is not type(own) or said != own):
            problems.append(f"{name} is not what the machines have")
    sign = -1.0 if claimed.maximises else 1.0
    values, gaps = claimed.values, np.array([machine.gap for machine in model.machines_])
    if not (np.isfinite(values).all() and (gaps >= 0).all()):
        problems.append(f"gap_ must be >= 0 and {claimed.quantity} finite for each machine")
        return
    apart = sign * (values - claimed.bounds)
    if not np.allclose(gaps, np.maximum(apart, 0.0), rtol=CLOSE, atol=_ulps(values)):
        problems.append(f"gap_ is not the distance between the {claimed.quantity} and bound_")
    solved = np.array([status is Status.SOLVED for status in claimed.statuses])
    above = gaps > (1 + CLOSE) * claimed.allowed + _ulps(values)
    if (solved & above).any():
        k = int(np.flatnonzero(solved & above)[0])
        problems.append(
            f"the status is 'solved', but the gap of {gaps[k]:.3g} is above what was asked for, "
            f"{claimed.allowed[k]:.3g}"
        )


def _ulps(values: FloatArray) -> float:
    """A few units in the last place of the largest."""
    return 8 * float(np.spacing(np.abs(values).max(initial=0.0)))


def check_classes(model: Any, y: Any, problems: list[str]) -> None:
    """Add whether the classes are those of the labels, in their order."""
    classes = np.asarray(model.classes_)
    if not np.array_equal(classes, np.unique(np.asarray(y))):
        problems.append("classes_ are not the sorted labels of y")
