"""Domains of few vertices, or of bounds and sums, as the small programs of Wolfe's method see them.

``x = base + y basis   with   0 <= y <= caps,  sum of y over group b = goal_b  for each b``

(:mod:`cornerstep.optimiser.wolfe`).  Of bounds and rows ``<r_b, x> = t_b`` that have no coordinate
in common the coordinates of y are distances from a bound, in units in which the rows have ones; an
inequality has one more, its slack.  Of a list of vertices they are weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.core.curvature import dense_array
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector, Vector, dense
from cornerstep.domains.base import SNAP, Constraints, has_oracle

_MOST = 5000  # coordinates of y, whose Gram matrix is formed
_MOST_GROUPS = 32  # a step solves a system of their order, and one with L for each


class SmallForm(NamedTuple):
    """The domain ``{base + y basis}``; the rows of the basis are images of unit vectors of y.

    ``groups`` has the group of each coordinate, -1 for none.  Of a domain with bounds the basis is
    the diagonal matrix of ``units``, and rows of zeros for slacks; else that of its ``vertices``.
    """

    base: FloatArray
    units: FloatArray
    vertices: Any
    caps: FloatArray
    groups: IntArray
    goals: FloatArray

    def basis(self) -> Any:
        """The matrix."""
        if self.vertices is not None:
            return self.vertices
        out = sp.diags_array(self.units).tocsr()
        out.resize((self.caps.size, self.base.size))
        return out

    def coordinates(self, x: Vector) -> FloatArray:
        """Y of a point of a domain with bounds, of which the basis is diagonal; slacks last."""
        n = self.base.size
        y = np.zeros(self.caps.size)
        y[:n] = (dense(x) - self.base) / self.units
        y = np.where(y >= self.caps * (1 - SNAP), self.caps, np.maximum(y, 0.0))
        for k in range(n, y.size):
            b = self.groups[k]
            left = self.goals[b] - float(y[:n][self.groups[:n] == b].sum())
            y[k] = min(max(left, 0.0), self.caps[k])
        return y


def small_form(domain: Any) -> SmallForm | None:
    """The form of a domain, if it has one that is small."""
    if domain.size < _MOST and has_oracle(domain, "constraints"):
        return form_of_bounds(domain.constraints)
    if has_oracle(domain, "lmo_many") and domain.n_atoms <= _MOST:
        return _of_vertices([domain.atom(i) for i in range(domain.n_atoms)])
    return None


def form_of_bounds(bounds: Constraints) -> SmallForm | None:
    """The form of bounds and of rows without a coordinate in common; of others None."""
    count = bounds.rows.shape[0]
    if count > _MOST_GROUPS:
        return None
    rows = dense_array(bounds.rows)
    used = rows != 0
    if (used.sum(axis=0) > 1).any():
        return None
    signs = rows.sum(axis=0)
    groups = np.where(signs == 0, -1, used.argmax(axis=0) if count else 0)
    down = (signs < 0) | ((signs == 0) & ~np.isfinite(bounds.lower))  # from the upper bound
    base = np.where(down, bounds.upper, bounds.lower)
    if not (np.isfinite(base).all() and np.isfinite(bounds.row_upper).all()):
        return None
    sizes = np.where(signs == 0, 1.0, np.abs(signs))
    units = np.where(down, -1.0, 1.0) / sizes
    caps = (bounds.upper - bounds.lower) * sizes
    slack = bounds.row_upper - bounds.row_lower
    loose = np.flatnonzero(slack > 0)
    return SmallForm(
        base, units, None, np.append(caps, slack[loose]), np.append(groups, loose),
        bounds.row_upper - rows @ base,
    )  # fmt: skip


def _of_vertices(atoms: list[Vector]) -> SmallForm:
    sparse = [atom for atom in atoms if isinstance(atom, SparseVector)]
    if len(sparse) < len(atoms):
        basis: Any = np.array([dense(atom) for atom in atoms])
    else:
        ends = np.cumsum([0, *(atom.indices.size for atom in sparse)])
        columns = np.concatenate([atom.indices for atom in sparse])
        entries = np.concatenate([atom.values for atom in sparse])
        basis = sp.csr_array((entries, columns, ends), shape=(len(atoms), atoms[0].size))
    k, n = basis.shape
    return SmallForm(
        np.zeros(n), np.empty(0), basis, np.full(k, np.inf), np.zeros(k, dtype=np.int64), np.ones(1)
    )
