"""Products of domains: every oracle acts block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import Vector, concatenate, dense
from cornerstep.domains.base import (
    INSIDE,
    Constraints,
    Domain,
    as_vertex,
    has_oracle,
    reach,
    slip,
    vertex_of,
)


class Product:
    """The product of domains, the vectors of its factors one after the other.

    A product has each oracle that all of its factors have.

    Parameters
    ----------
    domains : sequence of domains
    """

    def __init__(self, domains: Sequence[Any]) -> None:
        if isinstance(domains, Domain) or not domains:
            raise ValueError(f"domains must be a list of at least one domain, got {domains!r}")
        for domain in domains:
            if not isinstance(domain, Domain):
                raise TypeError(f"domains must have size and lmo, got {domain!r}")
        ends = np.cumsum([domain.size for domain in domains])
        self.blocks: list[tuple[slice, Any]] = [
            (slice(int(end) - domain.size, int(end)), domain)
            for end, domain in zip(ends, domains, strict=True)
        ]
        self.size = int(ends[-1])

    def forget(self) -> None:
        """A new run, for those factors that remember earlier ones."""
        for _, domain in self.blocks:
            if has_oracle(domain, "forget"):
                domain.forget()

    def __repr__(self) -> str:
        return f"Product({[domain for _, domain in self.blocks]!r})"

    def _all_have(self, name: str) -> bool:
        return all(has_oracle(domain, name) for _, domain in self.blocks)

    @cached_property
    def constraints(self) -> Constraints | None:
        """Each factor's, rows in blocks."""
        if not self._all_have("constraints"):
            return None
        parts = [domain.constraints for _, domain in self.blocks]
        rows = sp.block_diag([sp.csc_array(part.rows) for part in parts], format="csc")
        lower, upper, row_lower, row_upper = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("lower", "upper", "row_lower", "row_upper")
        )
        return Constraints(lower, upper, sp.csc_array(rows), row_lower, row_upper)

    @property
    def cheap_faces(self) -> bool:
        """Whether every factor's faces are cheap."""
        return all(getattr(domain, "cheap_faces", True) for _, domain in self.blocks)

    def lmo(self, gradient: FloatArray) -> Vector:
        """Each factor's vertex."""
        return concatenate([domain.lmo(gradient[block]) for block, domain in self.blocks])

    @property
    def in_face_lmo(self) -> Callable[[FloatArray, FloatArray], Vector] | None:
        """Each factor's in-face vertex: the smallest face of a product is the product of faces."""
        return self._in_face_lmo if self._all_have("in_face_lmo") else None

    def _in_face_lmo(self, gradient: FloatArray, x: FloatArray) -> Vector:
        return concatenate(
            [domain.in_face_lmo(gradient[block], x[block]) for block, domain in self.blocks]
        )

    @property
    def max_step(self) -> Callable[[FloatArray, FloatArray], float] | None:
        """The smallest of the factors' largest steps."""
        return self._max_step if self._all_have("max_step") else None

    def _max_step(self, x: FloatArray, d: FloatArray) -> float:
        steps = [
            domain.max_step(x[block], d[block]) for block, domain in self.blocks if d[block].any()
        ]
        return min(steps, default=np.inf)

    def snap(self, x: FloatArray) -> None:
        """Snap each block."""
        for block, domain in self.blocks:
            if has_oracle(domain, "snap"):
                domain.snap(x[block])

    def start(self) -> Vector:
        """Each factor's starting vertex."""
        return concatenate([starting_vertex(domain) for _, domain in self.blocks])

    def contains(self, x: FloatArray, tol: float = INSIDE) -> bool:
        """Whether every block is inside (factors that cannot tell are passed over)."""
        return all(
            domain.contains(x[block], tol)
            for block, domain in self.blocks
            if has_oracle(domain, "contains")
        )

    @property
    def cheap_contains(self) -> bool:
        """Whether every factor's membership is cheap."""
        return all(getattr(domain, "cheap_contains", True) for _, domain in self.blocks)

    def reach(self, weights: FloatArray, x: FloatArray) -> float:
        """The sum over the factors."""
        return sum(reach(domain, weights[block], x[block]) for block, domain in self.blocks)

    def slip(self, x: FloatArray) -> FloatArray:
        """Each factor's."""
        return np.concatenate([slip(domain, x[block]) for block, domain in self.blocks])

    def lmo_error(self, gradient: FloatArray, vertex: Vector) -> float:
        """The sum over the factors."""
        whole = dense(vertex)
        return sum(
            domain.lmo_error(gradient[block], whole[block])
            for block, domain in self.blocks
            if has_oracle(domain, "lmo_error")
        )

    @property
    def project(self) -> Callable[[FloatArray], FloatArray] | None:
        """Each factor's projection."""
        return self._projection("project")

    @property
    def project_entropy(self) -> Callable[[FloatArray], FloatArray] | None:
        """Each factor's entropic projection."""
        return self._projection("project_entropy")

    def _projection(self, name: str) -> Callable[[FloatArray], FloatArray] | None:
        if not self._all_have(name):
            return None
        return lambda y: np.concatenate(
            [getattr(domain, name)(y[block]) for block, domain in self.blocks]
        )

    @property
    def diameter(self) -> float | None:
        """The root of the sum of the squared diameters."""
        if not self._all_have("diameter"):
            return None
        return norm(np.array([domain.diameter for _, domain in self.blocks]))

    @property
    def grid(self) -> float | None:
        """The factors' common grid, if they have one."""
        grids = {getattr(domain, "grid", None) for _, domain in self.blocks}
        return grids.pop() if len(grids) == 1 else None

    @property
    def facial_constant(self) -> Callable[[int], float | None] | None:
        """The best way to share s rows among the factors, whose coordinates do not overlap."""
        return self._facial_constant if self._all_have("facial_constant") else None

    def _facial_constant(self, s: int) -> float | None:
        best = np.zeros(s + 1)
        for _, domain in self.blocks:
            constants = [domain.facial_constant(r) for r in range(1, s + 1)]
            if None in constants:
                return None
            own = np.array([0.0, *constants])
            best = np.array([(best[: r + 1] + own[r::-1]).max() for r in range(s + 1)])
        return float(best[s])


def starting_vertex(domain: Any) -> Vector:
    """The vertex that ``domain`` starts from: its own choice, or its oracle's at zero."""
    if has_oracle(domain, "start"):
        return as_vertex(domain.start(), domain.size, "domain.start()")
    return vertex_of(domain, np.zeros(domain.size))
