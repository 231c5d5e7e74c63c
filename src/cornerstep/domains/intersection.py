"""Intersections: the linear oracle of a set from the oracles of the sets that it is common to.

``min <g, x>`` over all sets at once is a linear program over their vertices [1]_: x is a mixture of
vertices of each set, and all mixtures are equal.  A program over the vertices known so far is
solved; its dual prices l_k ask each set for one more, and prove

    ``<g, x> >= min_1 <g - l_2 - l_3 - ..., v> + sum_k min_k <l_k, v>``

for every common x, by one call of each oracle, whatever the prices [2]_.  So the oracles take turns
until this bound meets the mixture, which of polytopes it does after finitely many of their
vertices; they are asked near the prices of the best bound, for those of the program swing [3]_.
Curved sets are approached only, and where a run is to end the bound so far is taken; by how far it
was missed, ``lmo_error`` says.

References
----------
.. [1] G. B. Dantzig, P. Wolfe. Decomposition principle for linear programs. Operations Research 8,
   101-111, 1960.
.. [2] A. M. Geoffrion. Lagrangean relaxation for integer programming. Mathematical Programming
   Study 2, 82-114, 1974.
.. [3] P. Wentges. Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming.
   International Transactions in Operational Research 4, 151-162, 1997.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.clock import is_over
from cornerstep.core.rounding import gamma
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import dense
from cornerstep.domains.base import INSIDE, Constraints, Domain, has_oracle, reach, vertex_of
from cornerstep.domains.lp import LinearProgram
from cornerstep.domains.product import starting_vertex

_ROUNDS = 1000  # of a program over the vertices known so far; polytopes need tens
_CAUTION = 0.7  # how near to the best prices so far others are tried: the program's own oscillate
_EXACT = 1e-11  # of the sizes of <g, v>: a gap between mixture and bound that is HiGHS's rounding
_COMMON = 1e-9  # in units of the coordinates: sets that are this near to each other meet
_VERTICES = 20  # that are kept from call to call, for each row of the program
_DIGITS = 2.0**40  # of an answer, so that the same point is the same atom when it returns


class Intersection:
    """The points that are in each of some domains.

    Parameters
    ----------
    domains : sequence of domains
        At least two, of one size, with a point in common.
    """

    cheap_faces = False

    def __init__(self, domains: Sequence[Any]) -> None:
        self.domains = list(domains)
        for domain in self.domains:
            if not isinstance(domain, Domain):
                raise TypeError(f"domains must have size and lmo, got {domain!r}")
        sizes = [domain.size for domain in self.domains]
        if len(sizes) < 2 or len(set(sizes)) > 1:
            raise ValueError(f"domains must be at least two, of one size, got sizes {sizes}")
        self.size: int = sizes[0]
        diameters = [domain.diameter for domain in self.domains if has_oracle(domain, "diameter")]
        self.diameter = min(diameters, default=None)
        self.forget()

    def __repr__(self) -> str:
        return f"Intersection({self.domains!r})"

    def forget(self) -> None:
        """A new run: its answers do not depend on what others left in the program."""
        for domain in self.domains:
            if has_oracle(domain, "forget"):
                domain.forget()
        first = [dense(starting_vertex(domain)) for domain in self.domains]
        ends = [dense(vertex_of(d, s * np.ones(self.size))) for d in self.domains for s in (1, -1)]
        sizes = np.abs(first + ends).max(axis=0)
        sizes[sizes == 0] = sizes.max() or 1.0
        self._unit = np.ldexp(1.0, np.frexp(sizes)[1])
        self._prices: tuple[FloatArray, FloatArray] | None = None
        self._begin([(k, vertex) for k, vertex in enumerate(first)])
        self._find_common_point()

    def _begin(self, vertices: list[tuple[int, FloatArray]]) -> None:
        """A program over these vertices, and slacks of the equations."""
        equations = self.size * (len(self.domains) - 1)
        slacks = sp.hstack([sp.eye_array(equations), -sp.eye_array(equations)])
        empty = sp.csc_array((len(self.domains), 2 * equations))
        right = np.concatenate([np.zeros(equations), np.ones(len(self.domains))])
        bounds = np.zeros(2 * equations), np.full(2 * equations, np.inf)
        self._program = LinearProgram(sp.vstack([slacks, empty]), right, right, *bounds)
        self._slacks = 2 * equations
        self._known: list[tuple[int, FloatArray]] = []
        self._seen = set[tuple[int, bytes]]()
        for k, vertex in vertices:
            self._add(k, vertex)

    def _add(self, k: int, vertex: FloatArray) -> bool:
        """One more vertex of the k-th set, if it is: ``x_1 - x_k = 0``, weights sum to 1."""
        if (k, vertex.tobytes()) in self._seen:
            return False
        self._seen.add((k, vertex.tobytes()))
        count, unit = len(self.domains), vertex / self._unit
        rows = np.zeros((count - 1, self.size))
        rows[slice(None) if k == 0 else k - 1] = unit if k == 0 else -unit
        self._program.add_column(np.concatenate([rows.ravel(), np.arange(count) == k]))
        self._known.append((k, vertex))
        return True

    def _find_common_point(self) -> None:
        """Drive the slacks to 0, or prove that no point is common."""
        zero = np.zeros(self.size)
        for _ in range(_ROUNDS):
            cost = np.concatenate([np.ones(self._slacks), np.zeros(len(self._known))])
            weights, duals = self._program.solve(cost)
            apart = float(weights[: self._slacks].sum())
            if apart <= _COMMON:
                bounds = np.zeros(cost.size), np.full(cost.size, np.inf)
                bounds[1][: self._slacks] = 0.0
                self._program.set_bounds(*bounds)
                self._kept = self._used(weights)
                return
            bound, found = self._priced(zero, self._prices_of(duals))
            if bound > 0:
                break
            for k, vertex in enumerate(found):
                self._add(k, vertex)
        raise ValueError(f"domains must have a point in common; those of {self!r} have none")

    def _used(self, weights: FloatArray) -> list[tuple[int, FloatArray]]:
        own = weights[self._slacks :]
        return [vertex for vertex, weight in zip(self._known, own, strict=True) if weight > 0]

    def _prices_of(self, duals: FloatArray) -> FloatArray:
        """A row of prices for each set but the first."""
        count = len(self.domains) - 1
        return duals[: count * self.size].reshape(count, self.size) / self._unit

    def _costs(self, cost: FloatArray, prices: FloatArray) -> FloatArray:
        """What each set's oracle is asked."""
        return np.vstack([cost - prices.sum(axis=0), prices])

    def _priced(self, cost: FloatArray, prices: FloatArray) -> tuple[float, list[FloatArray]]:
        """A bound of ``<cost, x>`` over all common x, but for rounding, and the vertices of it."""
        costs = self._costs(cost, prices)
        pairs = zip(self.domains, costs, strict=True)
        found = [dense(vertex_of(domain, each)) for domain, each in pairs]
        return sum(float(c @ v) for c, v in zip(costs, found, strict=True)), found

    def lmo(self, gradient: FloatArray) -> FloatArray:
        """A common point of least ``<gradient, x>``, a mixture of vertices of the first set."""
        size, unit = float(np.abs(gradient).max()) or 1.0, float(self._unit.max())
        cost = gradient / size / unit
        if len(self._known) > _VERTICES * (self.size + 1) * len(self.domains):
            self._begin(self._kept)
            self._find_common_point()
        best, values, share = -np.inf, np.zeros(0), _CAUTION
        held = np.zeros((len(self.domains) - 1, self.size))
        if self._prices is not None and is_over():  # those of the last answer prove something
            held = self._prices[1] / unit / size
            best, found = self._priced(cost, held)
            for k, vertex in enumerate(found):
                self._add(k, vertex)
        for _ in range(_ROUNDS):
            new = [cost @ v if k == 0 else 0.0 for k, v in self._known[values.size :]]
            values = np.concatenate([values, new])
            weights, duals = self._program.solve(np.concatenate([np.zeros(self._slacks), values]))
            own = weights[self._slacks :]
            gap = float(own @ values) - best
            if gap <= _EXACT * float(np.abs(values).max()) or (best > -np.inf and is_over()):
                break
            prices = self._prices_of(duals)
            if best > -np.inf:
                prices += share * (held - prices)
            bound, found = self._priced(cost, prices)
            if bound > best:
                best, held = bound, prices
            added = [self._add(k, vertex) for k, vertex in enumerate(found)]
            if not any(added) and share == 0:  # nothing is left to ask: the rest is rounding
                break
            share = _CAUTION if any(added) else 0.0
        self._prices = gradient.copy(), held * unit * size
        first = [(w, v) for w, (k, v) in zip(own, self._known, strict=False) if k == 0 and w > 0]
        point = sum(w * v for w, v in first) / sum(w for w, _ in first)
        return np.rint(point / self._unit * _DIGITS) / _DIGITS * self._unit

    def lmo_error(self, gradient: FloatArray, vertex: FloatArray) -> float:
        """``<gradient, vertex>`` less the bound of the prices, with what each oracle may miss."""
        if self._prices is None or not np.array_equal(self._prices[0], gradient):
            self.lmo(gradient)
        assert self._prices is not None
        costs = self._costs(gradient, self._prices[1])
        bound, found = self._priced(gradient, self._prices[1])
        sizes = np.abs(costs).sum(axis=0) + np.abs(gradient)
        lost = gamma(self.size + len(costs) + 4) * sizes
        error = float(lost @ np.abs(vertex)) + self.reach(lost, vertex)
        for domain, cost, answer in zip(self.domains, costs, found, strict=True):
            if has_oracle(domain, "lmo_error"):
                error += float(domain.lmo_error(cost, answer))
            error += float(lost @ np.abs(answer))
        return max(float(gradient @ vertex) - bound, 0.0) + error

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether x is in all of the domains (those that cannot tell are passed over)."""
        return all(d.contains(x, tol) for d in self.domains if has_oracle(d, "contains"))

    @property
    def cheap_contains(self) -> bool:
        """Whether membership of all is cheap."""
        return all(getattr(domain, "cheap_contains", True) for domain in self.domains)

    @property
    def max_step(self) -> Callable[[FloatArray, FloatArray], float] | None:
        """The smallest of the largest steps."""
        if not all(has_oracle(domain, "max_step") for domain in self.domains):
            return None
        return lambda x, d: min(float(domain.max_step(x, d)) for domain in self.domains)

    @property
    def constraints(self) -> Constraints | None:
        """All of theirs."""
        if not all(has_oracle(domain, "constraints") for domain in self.domains):
            return None
        parts = [domain.constraints for domain in self.domains]
        return Constraints(
            np.max([part.lower for part in parts], axis=0),
            np.min([part.upper for part in parts], axis=0),
            sp.vstack([sp.csc_array(part.rows) for part in parts], format="csc"),
            np.concatenate([part.row_lower for part in parts]),
            np.concatenate([part.row_upper for part in parts]),
        )

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """The least of theirs."""
        return min(reach(domain, weights, x) for domain in self.domains)
