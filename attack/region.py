"""What is believed of a domain, by formulas of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attack.exact import LONG, real


@dataclass
class Region:
    """A domain, and what is believed of it.

    Attributes
    ----------
    domain
        The library's.
    minimum : callable
        ``min <g, v>`` over the set.
    excess : callable
        By how much a point violates the constraints, relative to ``size``.
    size : float
        Of the largest coordinates.
    n : int
    """

    domain: Any
    minimum: Callable[[Any], Any]
    excess: Callable[[Any], Any]
    size: float
    n: int
    projects: bool = False


def spent(g: Any, caps: Any, total: Any) -> Any:
    """``min <g, v>`` over ``0 <= v <= caps, sum v = total``: the cheapest first."""
    order = np.argsort(g)
    before = np.concatenate([[LONG(0)], np.cumsum(real(caps)[order])[:-1]])
    amounts = np.clip(LONG(total) - before, 0, real(caps)[order])
    return (g[order] * amounts).sum()
