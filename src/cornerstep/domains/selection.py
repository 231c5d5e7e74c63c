"""O(n) selection for budgeted oracles: spend a total on the smallest keys first.

References
----------
.. [1] E. Balas, E. Zemel. An algorithm for large zero-one knapsack problems. Operations Research
   28, 1130-1154, 1980.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.types import FloatArray, IntArray


def fill_smallest_first(
    keys: FloatArray, caps: float | FloatArray, total: float, rounding: float = 0.0
) -> tuple[IntArray, FloatArray]:
    """Solve ``min <keys, v>`` over ``0 <= v <= caps, sum v = min(total, sum caps)``.

    Returns positions and amounts of the non-zero entries: smallest keys get their whole cap, at
    most one entry gets a part.  A part within ``rounding``, the error of ``total``, of nothing or
    of a whole cap counts as that.  Expected linear time: partition, no sort.
    """
    if isinstance(caps, float):
        return _spend_uniform(keys, caps, total, rounding)
    return _spend_weighted(keys, caps, total, rounding)


def _spend_uniform(
    keys: FloatArray, cap: float, total: float, rounding: float
) -> tuple[IntArray, FloatArray]:
    whole = int(min((total + rounding) / cap, keys.size))
    rest = total - whole * cap
    part = rest > rounding
    if whole + part >= keys.size:
        amounts = np.full(keys.size, cap)
        if whole < keys.size and part:
            last = int(keys.argmax())
            amounts[last] = rest
        return np.arange(keys.size), amounts
    if whole == 0 and not part:
        return np.empty(0, dtype=np.intp), np.empty(0)
    if whole + part == 1:
        chosen = np.array([keys.argmin()])
    else:
        # After the partition the first `whole` are the smallest and position `whole` is the next.
        chosen = keys.argpartition(whole if part else whole - 1)[: whole + part]
    amounts = np.full(whole + part, cap)
    if part:
        amounts[-1] = rest
    return chosen, amounts


def _spend_weighted(
    keys: FloatArray, caps: FloatArray, total: float, rounding: float
) -> tuple[IntArray, FloatArray]:
    """Weighted quickselect: halve the undecided entries until the budget ends between two."""
    taken: list[IntArray] = []
    undecided = np.arange(keys.size)
    budget = total
    while undecided.size > 1:
        half = undecided.size // 2
        undecided = undecided[keys[undecided].argpartition(half)]
        low = undecided[:half]
        cost = float(caps[low].sum())
        if cost <= budget:
            taken.append(low)
            budget -= cost
            undecided = undecided[half:]
        else:
            undecided = low
    taken.append(undecided)
    chosen = np.concatenate(taken)
    amounts = caps[chosen].astype(np.float64)
    if undecided.size:
        if budget <= rounding:
            amounts[-1] = 0.0
        elif budget < amounts[-1] - rounding:
            amounts[-1] = budget
    spent = amounts > 0
    return chosen[spent], amounts[spent]


def dearest(weights: FloatArray, caps: float | FloatArray, total: float) -> float:
    """``max <weights, v>`` over ``0 <= v <= caps, sum v <= total``, for weights >= 0.

    What an error of the total costs a vertex at most.
    """
    chosen, amounts = fill_smallest_first(-weights, caps, total)
    return float(amounts @ weights[chosen])


def smallest(keys: FloatArray, count: int) -> IntArray:
    """The positions of so many of the smallest keys, the least first."""
    if count == 1:
        return np.array([keys.argmin()])
    chosen = np.argpartition(keys, count - 1)[:count] if count < keys.size else np.arange(keys.size)
    return chosen[keys[chosen].argsort(kind="stable")]
