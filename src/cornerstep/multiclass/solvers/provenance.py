"""Where dual points come from, so that they can be found again.

Methods on all examples at once keep the images of dual points, ``W(A) = sum_i s_i x_i alpha_i'``,
not the points: these would be n x m numbers.  But a point that a pass found is a function of the
weights W that the pass was made at, and what a method ends with is a mixture of such points,

``A = sum_k c_k A(W_k)``.

The c_k and W_k are kept instead, as many as passes that still have a part in the mixture, and A is
made of them where somebody asks for it: one product with the data for each of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Source(NamedTuple):
    """A task that gives dual points.

    Attributes
    ----------
    task : str
        'nearest': the points that attain the envelopes at the weights; 'corner': the vertices that
        the scores there point to; 'uniform': all classes the same; and those that partitions keep:
        'held' of block ascent, 'points' and 'corners' of the last pass of a batch method.
    image : array, optional
        The weights.
    smoothing : float
        Of 'nearest'.
    quick : bool
        Whether products were in the precision of the data.
    """

    task: str
    image: Any = None
    smoothing: float = 0.0
    quick: bool = True


def later(
    make: Callable[[Provenance], Any], provenance: Provenance, digest: Callable[[], int]
) -> Callable[[], Any]:
    """What makes dual points when called; None, with a warning, if the data are others by then.

    Parameters
    ----------
    make : callable
        Makes them of their sources and the data.
    made : Made
    digest : callable
        Of the data.
    """
    before = digest()

    def points() -> Any:
        if digest() != before:
            warnings.warn(
                "X was changed after fit: dual_coef_, which is made of it, is None", stacklevel=2
            )
            return None
        return make(provenance)

    return points


KEPT = ("held", "points", "corners")

#: Weights and sources; none are the dual points 0.
Provenance = tuple[tuple[float, Source], ...]
NOTHING: Provenance = ()


def source_of(
    task: str, image: Any = None, smoothing: float = 0.0, quick: bool = True
) -> Provenance:
    """The points of one source."""
    return ((1.0, Source(task, image, smoothing, quick)),)


def blend(parts: Iterable[tuple[float, Provenance | None]]) -> Provenance | None:
    """``sum_k weight_k A_k``; None if one of them is not known."""
    weights: dict[int, float] = {}
    sources: dict[int, Source] = {}
    for weight, provenance in parts:
        if weight == 0.0:
            continue
        if provenance is None:
            return None
        for amount, source in provenance:
            key = id(source)
            sources[key] = source
            weights[key] = weights.get(key, 0.0) + weight * amount
    return tuple((weight, sources[key]) for key, weight in weights.items())
