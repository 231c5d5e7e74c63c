"""What a domain is: a compact convex set known by its oracles.

Everything is a float64 vector of length ``size``; a domain of matrices flattens them row by row
and says their ``shape``.  A domain of the user's needs only ``size`` and ``lmo``; each further
method it defines (see :class:`Domain`) opens the methods that need it.  No base class is required.

Tightness.  In-face oracles ask which constraints hold with equality at x.  They compare exactly:
``snap`` puts coordinates that a blocking step left within rounding of a bound onto that bound.

Scale.  Every tolerance is relative to the sizes of the numbers it is about, so that a domain and
its multiple by 1e-150 or 1e150 behave alike.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from cornerstep.core.rounding import gamma, norm
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector, Vector, dense

SNAP = 1e-14  # relative distance from a bound that counts as rounding
TIGHT = 1e-12  # relative slack of a summed constraint that counts as rounding
INSIDE = 1e-9  # relative violation up to which a point counts as one of the domain

#: The oracles a method may need, with the words for them in error messages.
ORACLES = {
    "lmo": "a linear minimisation oracle: lmo(gradient)",
    "in_face_lmo": "an in-face oracle: in_face_lmo(gradient, x)",
    "max_step": "the largest feasible step: max_step(x, d)",
    "atom_scores": "an explicit list of atoms: n_atoms, atom(i), atom_scores(indices, gradient)",
    "blocks": "a product structure: blocks, a list of (slice, domain)",
    "project": "a Euclidean projection: project(y)",
    "project_entropy": "an entropic projection: project_entropy(log_weights)",
    "constraints": "its bounds and rows: constraints",
    "bounds": "bounds as its only constraints: bounds, two arrays",
    "diameter": "a diameter",
    "facial_constant": "the facial constant H_s: facial_constant(s)",
    "grid": "vertices with entries 0 and grid alone (a total that is a multiple of the cap)",
}


class Constraints(NamedTuple):
    """``lower <= x <= upper, row_lower <= rows x <= row_upper``; bounds may be infinite.

    ``rows`` is an array or a sparse matrix.  Bounds that the rows imply are better left out.
    """

    lower: FloatArray
    upper: FloatArray
    rows: Any
    row_lower: FloatArray
    row_upper: FloatArray


@runtime_checkable
class Domain(Protocol):
    """A compact convex set P of vectors of length ``size``.

    Optional members, found by name (``None`` counts as absent):

    - ``in_face_lmo(gradient, x)``: a vertex of the smallest face containing x that minimises
      ``<gradient, v>`` over that face.
    - ``lmo_many(gradient, count)``: the best ``count`` of ``n_atoms`` vertices, the answer of
      ``lmo`` first.
    - ``max_step(x, d)``: the largest t with ``x + t d`` in P.
    - ``snap(x)``: in place, put entries within rounding of a bound onto it, and restore the sums
      that rounding has changed.
    - ``start()``: a vertex to start from (default: ``lmo(0)``).
    - ``contains(x, tol)``: membership up to ``tol``, relative to the scale of the domain; with
      ``cheap_contains`` False only points that are no combination of vertices are asked about.
    - ``reach(weights, x)``: an upper bound of ``sum_i weights_i |v_i - x_i|`` over v in P, for
      weights >= 0: what errors of a gradient can do to the gap (default: see :func:`reach`).
    - ``slip(x)``: bounds of ``|x_i - p_i|`` for one point p of P, where x is in P but for rounding
      (default: see :func:`slip`).
    - ``lmo_error(gradient, vertex)``: a bound of how far ``<gradient, vertex>`` of an answer of
      ``lmo`` is above the minimum (default: 0).
    - ``project(y)``: the nearest point of P; ``project_entropy(log_weights)``: the point of P
      maximising ``<log_weights, u> - sum u ln u``.
    - ``diameter``: an upper bound of the Euclidean diameter, tight where that is simple.
    - ``n_atoms, atom(i), atom_scores(indices, gradient)``: an explicit list of atoms.
    - ``facial_constant(s)``: H_s of the theory of decomposition-invariant methods.
    - ``grid``: g if P is ``{0 <= x <= g, Cx = d}`` with all vertices in {0, g}: simplex-like.
    - ``blocks``: list of (slice, domain) of a product.
    - ``section(x)``: of a set of matrices, the points with the row and column space of x, as a
      :class:`~cornerstep.domains.sections.Section`.
    - ``constraints``: P by bounds and rows, as :class:`Constraints`.
    - ``bounds``: the least and the largest x, if P is all that lies between.
    - ``cheap_faces``: False if an in-face answer costs far more than a look at x (default True);
      ``method='auto'`` then prefers an active set.
    """

    size: int

    def lmo(self, gradient: FloatArray) -> Vector:
        """A vertex that minimises ``<gradient, v>`` over P."""


def vertex_of(domain: Any, gradient: FloatArray) -> Vector:
    """What ``domain.lmo`` answers, if that is a vector."""
    return as_vertex(domain.lmo(gradient), domain.size, "domain.lmo(gradient)")


def as_vertex(answer: Any, size: int, name: str) -> Vector:
    """An oracle's answer, or an error that says what it must be."""
    if isinstance(answer, SparseVector):
        if answer.size == size:
            return answer
    elif isinstance(answer, np.ndarray) and answer.shape == (size,) and answer.dtype.kind in "fiub":
        return answer.astype(np.float64, copy=False)
    shape = f" of shape {answer.shape}" if hasattr(answer, "shape") else ""
    raise TypeError(
        f"{name} must be an array of shape ({size},) or a SparseVector of that size, "
        f"got {type(answer).__name__}{shape or f' of size {np.size(answer)}'}"
    )


def has_oracle(domain: Any, name: str) -> bool:
    """Whether ``domain`` offers the oracle or constant ``name``."""
    return getattr(domain, name, None) is not None


def ratio_test(x: FloatArray, d: FloatArray, lower: Any, upper: Any) -> float:
    """The largest t with ``lower <= x + t d <= upper``; bounds are numbers or arrays."""
    moving = d.nonzero()[0]
    if moving.size == 0:
        return np.inf
    d, x = d.take(moving), x.take(moving)
    if isinstance(lower, np.ndarray):
        lower = lower[moving]
    if isinstance(upper, np.ndarray):
        upper = upper[moving]
    room = np.where(d > 0, upper, lower) - x
    steps = room / d
    return max(0.0, steps.item(steps.argmin()))  # argmin is several times quicker than min


def sum_step(step: float, deviation: float, growth: float, slack: float) -> float:
    """``step``, or what of it keeps ``|deviation + t growth| <= slack``.

    Along a direction of the affine hull a sum does not change, but for rounding; a direction that
    is itself little more than rounding would carry x out of the domain if it went far.
    """
    if growth == 0:
        return step
    return min(step, max(slack - abs(deviation), 0.0) / abs(growth))


def snap_to_bounds(x: FloatArray, lower: Any, upper: Any) -> None:
    """Put entries of x beyond, or within rounding of, a bound onto it, in place.

    A step that ends on one bound may come from near the other, and rounds at the larger of the two
    (at the largest entry of x where a bound is infinite).
    """
    if isinstance(lower, float) and isinstance(upper, float):
        rounding: Any = SNAP * max(abs(lower), abs(upper))
    else:
        sizes = np.maximum(np.abs(lower), np.abs(upper))
        low, high = (np.where(np.isinf(bound), 0.0, np.abs(bound)) for bound in (lower, upper))
        reached = np.maximum(np.maximum(low, high), np.abs(x).max(initial=0.0))
        rounding = SNAP * np.where(np.isinf(sizes), reached, sizes)
    np.copyto(x, lower, where=x <= lower + rounding)
    np.copyto(x, upper, where=x >= upper - rounding)


def restore_sum(x: FloatArray, excess: float, signs: Any, upper: Any, size: float) -> None:
    """Take the ``excess`` of ``<signs, x>`` out of the entry that has most room, in place.

    Only what is rounding of ``size``, the scale of the sum, is restored; entries at 0 or at their
    upper bound stay there.
    """
    if excess == 0 or abs(excess) > 2 * INSIDE * size:
        return
    change = -excess * signs
    room = np.where(change > 0, upper - x, x)
    room[(x <= 0) | (x >= upper)] = 0.0
    j = int(room.argmax())
    if room[j] > abs(excess):
        x[j] -= excess * (signs[j] if isinstance(signs, np.ndarray) else signs)


def within_bounds(x: FloatArray, lower: Any, upper: Any, tol: float) -> bool:
    """Whether ``lower <= x <= upper`` up to tol, relative to the larger bound of each entry."""
    slack = tol * np.maximum(np.abs(lower), np.abs(upper))
    return bool((x >= lower - slack).all() and (x <= upper + slack).all())


def reach(domain: Any, weights: FloatArray, x: FloatArray) -> float:
    """A bound of ``sum_i weights_i |v_i - x_i|`` over v in the domain, for weights >= 0.

    A domain that cannot tell is asked for its diameter; one that has none for two vertices, of
    which twice the larger sum is a rule and no proof.
    """
    if has_oracle(domain, "reach"):
        return float(domain.reach(weights, x))
    if has_oracle(domain, "diameter"):
        return float(domain.diameter) * norm(weights)
    ends = (dense(domain.lmo(sign * weights)) for sign in (1.0, -1.0))
    return float(weights @ np.abs(x)) + 2 * max(float(weights @ np.abs(end)) for end in ends)


def slip(domain: Any, x: FloatArray) -> FloatArray:
    """Bounds of ``|x_i - p_i|`` for one point p of the domain: how far rounding has put x outside.

    A domain that cannot tell is asked for its projection, which rounds as well: some units in the
    last place of the largest entry are a rule and no proof.
    """
    if has_oracle(domain, "slip"):
        return np.asarray(domain.slip(x), dtype=np.float64)
    own = gamma(x.size + 4) * float(np.abs(x).max(initial=0.0))
    near = domain.project(x) if has_oracle(domain, "project") else x
    return np.abs(x - near) + own


def slip_of_sum(x: FloatArray, upper: Any, total: float, at_most: bool = False) -> FloatArray:
    """The same of ``{0 <= p <= upper, sum p = total}``, or ``<= total``.

    What is beyond the bounds goes there; what the sum is then off by, exactly, is shared among the
    entries by what each of them has, or by the room that each has where something is missing.
    """
    inside = np.minimum(np.maximum(x, 0.0), upper)
    excess = math.fsum((*inside.tolist(), -total))
    if excess == 0 or (at_most and excess < 0):
        return np.abs(x - inside)
    room = inside if excess > 0 or np.isinf(upper).any() else upper - inside
    size = float(room.max())
    units = room / size if size > 0 else room
    return np.abs(x - inside) + units * min(abs(excess) / (units.sum() or 1.0), size)


def reach_of_nonnegative(domain: Any, weights: FloatArray, x: FloatArray) -> float:
    """The same where all points are >= 0: ``<weights, x> + max <weights, v>``."""
    return float(weights @ x) + float(domain.lmo(-weights) @ weights)


def require_positive(value: Any, name: str) -> float:
    """Return ``value`` as a float, or say that ``name`` must be positive and finite."""
    number = _number(value, name)
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return number


def require_size(value: Any, name: str = "n") -> int:
    """Return ``value`` as an int, or say that ``name`` must be a positive integer."""
    number = _number(value, name)
    if not (number.is_integer() and number >= 1):
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(number)


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
