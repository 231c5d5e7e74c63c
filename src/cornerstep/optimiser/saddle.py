"""The dual extragradient method for bilinear saddle points:

``min over w in W, max over z in Z of  L(w, z) = w'Fz - a'w + c'z``.

With ``u = (w, z)`` and ``g(u) = (Fz - a, -F'w - c)`` an iteration is

``v = T(u_0, eta s),   u = T(v, -eta g(v)),   s <- s - g(u)``,

where T(v, s) is the point of W x Z that maximises ``<s, u> - D(u, v)`` for a Bregman distance D:
Euclidean (a projection) or entropic (a softmax on simplices).  The answer is the average of the
u's.  Since g is affine, ``s = -t g(average)``: the averages and their images are all that is kept.
The gap ``max_z L(w, z) - min_w L(w, z)`` of the average falls like 1/t.

References
----------
.. [1] Yu. Nesterov. Dual extrapolation and its applications to solving variational inequalities and
   related problems. Mathematical Programming 109, 319-344, 2007.
.. [2] B. Taskar, S. Lacoste-Julien, M. I. Jordan. Structured prediction, dual extragradient and
   Bregman projections. Journal of Machine Learning Research 7, 1627-1653, 2006.
.. [3] W. Saint-Arnaud, E. Lamouchi, F. Boileau. Review of Frank Wolfe and its variants. Université
   de Montréal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from cornerstep.core.matrix import Matrix, as_vector
from cornerstep.core.rounding import EPSILON, TINY, gamma, sum_error
from cornerstep.core.threads import run_threads
from cornerstep.core.types import FloatArray
from cornerstep.domains.base import ORACLES, Domain, has_oracle, reach, slip
from cornerstep.optimiser.loop import Callback, Look, Move, Stopping, claimed, run
from cornerstep.optimiser.result import Result
from cornerstep.optimiser.solver import is_inside


class Bilinear:
    r"""A bilinear function: :math:`L(w, z) = w^\top F z - a^\top w + c^\top z`.

    Parameters
    ----------
    F : array, sparse matrix or LinearOperator of shape (p, q)
    a : array of shape (p,), optional
    c : array of shape (q,), optional
        Zero if None.
    """

    def __init__(self, F: Any, a: Any = None, c: Any = None) -> None:
        self.matrix = Matrix(F, "F")
        p, q = self.matrix.shape
        self.a = np.zeros(p) if a is None else as_vector(a, "a", p)
        self.c = np.zeros(q) if c is None else as_vector(c, "c", q)

    def primal_gradient(self, z: FloatArray) -> FloatArray:
        """``Fz - a``, the gradient in w."""
        return self.matrix.times(z) - self.a

    def dual_gradient(self, w: FloatArray) -> FloatArray:
        """``F'w + c``, the gradient in z."""
        return self.matrix.transpose_times(w) + self.c

    def primal_errors(self, z: FloatArray) -> FloatArray:
        """Bounds of the rounding errors of ``Fz - a``."""
        return sum_error(self.matrix.sizes(z) + np.abs(self.a), z.size + 2)

    def dual_errors(self, w: FloatArray) -> FloatArray:
        """Bounds of the rounding errors of ``F'w + c``."""
        return sum_error(self.matrix.transpose_sizes(w) + np.abs(self.c), w.size + 2)


class _Euclidean:
    """``T(v, s) = nearest point to v + s``; mirror images are the points themselves."""

    oracle = "project"

    def __init__(self, domain: Any) -> None:
        self.domain = domain
        self.blocks = [(slice(0, domain.size), 1.0)]
        self.order = 2.0

    def centre(self) -> FloatArray:
        return self.domain.project(np.zeros(self.domain.size))

    def mirror(self, point: FloatArray) -> FloatArray:
        return point

    def prox(self, mirror: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The point of a mirror image, and the mirror image to go on from."""
        point = self.domain.project(mirror)
        return point, point


class _Entropic:
    """``T(v, s) ~ v exp(s)`` on simplices; mirror images are logarithms, and never leave them."""

    oracle = "project_entropy"

    def __init__(self, domain: Any) -> None:
        self.domain = domain
        factors = getattr(domain, "blocks", None) or [(slice(0, domain.size), domain)]
        self.blocks = [(block, float(factor.radius)) for block, factor in factors]
        self.order = 1.0

    def centre(self) -> FloatArray:
        return self.domain.project_entropy(np.zeros(self.domain.size))

    def mirror(self, point: FloatArray) -> FloatArray:
        if point.min() <= 0:
            raise ValueError("start must be positive everywhere where the geometry is entropic")
        return np.log(point)

    def prox(self, mirror: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.domain.project_entropy(mirror), mirror


_GEOMETRIES: dict[str, Any] = {"euclidean": _Euclidean, "entropic": _Entropic}


def _norm(matrix: Matrix, primal: Any, dual: Any) -> float:
    """A bound of ``max w'Fz`` over the unit balls of the two geometries.

    The entropy of a simplex of radius r is 1/r-strongly convex in the l1 norm, so a factor counts
    by ``r * (largest entry or column norm)²``; Euclidean x Euclidean is the spectral norm.
    """
    if primal.order == dual.order == 2.0:
        return matrix.norm()
    if isinstance(matrix.data, LinearOperator):
        raise ValueError("give step when F is a LinearOperator and a geometry is entropic")
    largest = float(abs(matrix.data).max()) or 1.0  # squares of the entries must not underflow
    entries = matrix.data / largest
    total = 0.0
    for rows, r in primal.blocks:
        for columns, q in dual.blocks:
            part = entries[rows][:, columns]
            square = part.multiply(part) if sp.issparse(part) else part**2
            axis = 0 if primal.order == 2.0 else 1
            both = primal.order == dual.order
            # The root of each radius first: a product of the two may underflow.
            size = float(square.max() if both else square.sum(axis=axis).max())
            total = math.hypot(total, math.sqrt(r) * math.sqrt(q) * math.sqrt(size))
    return largest * total


class _Extragradient:
    """The method as a solver for the loop; its point is the pair of averages."""

    monotone = False
    extra_columns: tuple[str, ...] = ()

    def __init__(
        self, saddle: Bilinear, primal: Any, dual: Any, step: float, start: tuple[Any, Any]
    ) -> None:
        self.saddle = saddle
        self.primal, self.dual = primal, dual
        self.step = step
        self.t = 0
        self.w, self.z = start
        self._anchor = primal.mirror(self.w), dual.mirror(self.z)
        # gradients at the averages: in w, and in z
        self._gradients = saddle.primal_gradient(self.z), saddle.dual_gradient(self.w)
        self.oracle_calls = 0
        self._rounding = 0.0  # of the last certificate
        self._promise = -math.inf, self.z  # the best lower bound of any look, and where it was

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.w, self.z

    def look(self) -> Look:
        """``upper = max_z L(w, z)`` and ``lower = min_w L(w, z)`` at the averages."""
        upper, lower = self._upper(), self._lower()
        lower -= self._rounding
        if self._promise[0] < lower < math.inf:
            self._promise = lower, self.z
        gap = max(claimed(upper - lower), self._rounding)
        return Look(upper, gap, rounding=self._rounding)

    def _upper(self) -> float:
        _, in_z = self._gradients
        self.oracle_calls += 1
        return float(self.dual.domain.lmo(-in_z) @ in_z) - float(self.saddle.a @ self.w)

    def _lower(self) -> float:
        in_w, _ = self._gradients
        self.oracle_calls += 1
        return float(self.primal.domain.lmo(in_w) @ in_w) + float(self.saddle.c @ self.z)

    def move(self) -> Move:
        eta, t = self.step, self.t
        in_w, in_z = self._gradients
        # s = -t g(average), so v = T(anchor, eta s)
        try:
            w, mirror_w = _prox(self.primal, self._anchor[0] - eta * t * in_w)
            z, mirror_z = _prox(self.dual, self._anchor[1] + eta * t * in_z)
            w, z = (
                _prox(self.primal, mirror_w - eta * self.saddle.primal_gradient(z))[0],
                _prox(self.dual, mirror_z + eta * self.saddle.dual_gradient(w))[0],
            )
        except OverflowError:
            return Move(math.nan, "extragradient")
        share = 1.0 / (t + 1)
        self._gradients = (
            in_w + share * (self.saddle.primal_gradient(z) - in_w),
            in_z + share * (self.saddle.dual_gradient(w) - in_z),
        )
        self.w = self.w + share * (w - self.w)
        self.z = self.z + share * (z - self.z)
        self.t += 1
        return Move(eta, "extragradient")

    def certify(self, point: tuple[FloatArray, FloatArray]) -> Look:
        """Both values from the data; what rounding may do to them is added to the gap."""
        self.w, self.z = (
            _checked(side.domain, x)
            for side, x in zip((self.primal, self.dual), point, strict=True)
        )
        self._gradients = self.saddle.primal_gradient(self.z), self.saddle.dual_gradient(self.w)
        upper, lower = self._upper(), self._lower()
        self._rounding = claimed(self._upper_error(upper) + self._lower_error(lower))
        gap = claimed(upper - lower) + self._rounding
        return Look(upper, gap, rounding=self._rounding)

    def _upper_error(self, upper: float) -> float:
        """Of ``max_z <F'w + c, z> - <a, w>``: its gradient, its sum, its oracle, and w itself.

        What w slips out of its domain changes gradient and sum; twice, as that is rounded, too.
        """
        in_z, sizes, slips = -self._gradients[1], np.abs(self.saddle.a), self._slips(0)
        errors = self.saddle.dual_errors(self.w) + self.saddle.matrix.transpose_sizes(slips)
        own = float(sizes @ np.abs(self.w)), float(sizes @ slips)
        return _value_error(self.dual.domain, in_z, errors, own, upper)

    def _lower_error(self, lower: float) -> float:
        """Of ``min_w <Fz - a, w> + <c, z>``: the same."""
        in_w, sizes, slips = self._gradients[0], np.abs(self.saddle.c), self._slips(1)
        errors = self.saddle.primal_errors(self.z) + self.saddle.matrix.sizes(slips)
        own = float(sizes @ np.abs(self.z)), float(sizes @ slips)
        return _value_error(self.primal.domain, in_w, errors, own, lower)

    def _slips(self, side: int) -> FloatArray:
        """Bounds of how far each entry of w, or of z, is from that of a point of its domain."""
        domain = (self.primal, self.dual)[side].domain
        return 2 * slip(domain, (self.w, self.z)[side])

    def best_bound(self, look: Look) -> float:
        """The best lower bound of the run that ended with ``look``, proven anew where it was."""
        bound = look.value - look.gap
        promised, z = self._promise
        if promised > bound:
            z = _checked(self.dual.domain, z)
            self._gradients, self.z, answer = (
                (self.saddle.primal_gradient(z), self._gradients[1]),
                z,
                (self._gradients, self.z),
            )
            lower = self._lower()
            bound = max(bound, lower - claimed(self._lower_error(lower)))
            self._gradients, self.z = answer
        return min(bound, look.value)


def _prox(side: Any, mirror: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The point of a mirror image; there is none of one that is not finite."""
    if not np.isfinite(mirror).all():
        raise OverflowError("the step leaves float64")
    return side.prox(mirror)


def _checked(domain: Any, x: FloatArray) -> FloatArray:
    """The point without the rounding of its constraints, or an error if there is more of it."""
    if has_oracle(domain, "snap"):
        x = x.copy()
        domain.snap(x)
    if not is_inside(domain, x):
        raise ValueError(f"projections must lie in their domain, {domain!r}; one does not")
    return x


def _value_error(
    domain: Any, gradient: FloatArray, errors: FloatArray, own: tuple[float, float], value: float
) -> float:
    """Rounding of ``min <gradient, v>`` over the domain plus a sum.

    The terms of that sum to the first of ``own`` in absolute value, and are off by the second.
    """
    errors = errors + gamma(gradient.size + 4) * np.abs(gradient)
    total = reach(domain, errors, np.zeros(domain.size)) + TINY * domain.size
    if has_oracle(domain, "lmo_error"):
        total += float(domain.lmo_error(gradient, domain.lmo(gradient)))
    total += float(sum_error(own[0], domain.size + 4)) + own[1]
    return total + 4 * EPSILON * abs(value)


@np.errstate(all="ignore")  # the loop refuses what is not finite, with a reason
def extragradient(
    saddle: Bilinear,
    primal: Any,
    dual: Any,
    *,
    geometry: str | tuple[str, str] = "euclidean",
    step: float | None = None,
    tol: float = 1e-3,
    rtol: float = 0.0,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    start: tuple[Any, Any] | None = None,
    callback: Callback | None = None,
    verbose: int = 0,
) -> Result:
    r"""Solve a bilinear saddle-point problem by the dual extragradient method, with a certificate.

    .. math:: \min_{w \in W} \max_{z \in Z}\ w^\top F z - a^\top w + c^\top z

    Parameters
    ----------
    saddle : Bilinear
        F, a and c.
    primal, dual : domains
        W and Z, with a Euclidean projection (``Simplex``, ``CappedSimplex``, ``Box``, ``L1Ball``,
        ``Ball``, products) or an entropic one (``Simplex`` and products of simplices).
    geometry : {'euclidean', 'entropic'} or a pair of them, default='euclidean'
        The distance that each player's steps are measured in.
    step : float, optional
        eta; by default 1 over the norm of F in these geometries, for which the theory holds.
    tol, rtol, max_iter, time_limit, callback, verbose
        As for :func:`cornerstep.minimize`; the gap is that of the averaged point.
    start : pair of arrays, optional
        The first point; by default the centre of each set.

    Returns
    -------
    Result
        ``x`` is w, ``dual`` is z, ``value`` is ``max_z L(w, z)``, ``lower_bound`` the largest
        ``min_w L(w, z)`` seen, ``gap`` their difference at the returned pair.

    Examples
    --------
    >>> from cornerstep import extragradient
    >>> from cornerstep.domains import Simplex
    >>> from cornerstep.optimiser.saddle import Bilinear
    >>> game = Bilinear([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])  # rock, paper, scissors
    >>> extragradient(game, Simplex(3), Simplex(3), geometry="entropic").x.round(3)
    array([0.333, 0.333, 0.333])
    """
    stopping = Stopping(tol, rtol, max_iter, time_limit)
    if not isinstance(saddle, Bilinear):
        raise TypeError(f"saddle must be a Bilinear, got {saddle!r}")
    names = (geometry, geometry) if isinstance(geometry, str) else tuple(geometry)
    if len(names) != 2 or any(name not in _GEOMETRIES for name in names):
        raise ValueError(
            f"geometry must be euclidean, entropic or a pair of them, got {geometry!r}"
        )
    sides = [
        _side(which, name, domain, size)
        for which, name, domain, size in zip(
            ("primal", "dual"), names, (primal, dual), saddle.matrix.shape, strict=True
        )
    ]
    if step is None:
        norm = _norm(saddle.matrix, *sides)
        step = 1.0 / norm if norm > 0 else 1.0
    elif not (math.isfinite(step) and step > 0):
        raise ValueError(f"step must be a positive number or None, got {step!r}")
    first = _start(start, sides)
    solver = _Extragradient(saddle, sides[0], sides[1], float(step), first)
    with run_threads(saddle.matrix.product_size):
        outcome = run(solver, stopping, callback=callback, verbose=verbose, title="extragradient")
    return Result(
        x=solver.w,
        value=outcome.look.value,
        gap=outcome.look.gap,
        lower_bound=solver.best_bound(outcome.look),
        status=outcome.status,
        method="extragradient",
        step="fixed",
        n_iter=outcome.n_iter,
        n_oracle_calls=solver.oracle_calls,
        seconds=outcome.seconds,
        trace=outcome.trace,
        dual=solver.z,
    )


def _side(which: str, name: str, domain: Any, size: int) -> Any:
    geometry = _GEOMETRIES[name]
    if not isinstance(domain, Domain) or domain.size != size:
        raise ValueError(f"{which} must be a domain of size {size}, got {domain!r}")
    if not has_oracle(domain, geometry.oracle):
        raise ValueError(
            f"geometry={name!r} needs, and {domain!r} lacks, {ORACLES[geometry.oracle]}"
        )
    return geometry(domain)


def _start(start: tuple[Any, Any] | None, sides: list[Any]) -> tuple[FloatArray, FloatArray]:
    if start is None:
        return sides[0].centre(), sides[1].centre()
    points = [
        as_vector(point, f"start[{i}]", side.domain.size).copy()
        for i, (point, side) in enumerate(zip(start, sides, strict=True))
    ]
    for i, (point, side) in enumerate(zip(points, sides, strict=True)):
        if not is_inside(side.domain, point):
            raise ValueError(f"start[{i}] must lie in its domain, {side.domain!r}; it does not")
    return points[0], points[1]
