"""Domains of few vertices or of one row, as the small programs of Wolfe's method see them.

``x = base + y basis   with   0 <= y <= caps,  <summed, y> = goal``

(:mod:`cornerstep.optimiser.wolfe`).  Of bounds and one row ``<r, x> = t`` the coordinates of y are
distances from a bound, in units in which the row has ones; an inequality has one more, its slack.
Of a list of vertices they are weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.core.curvature import dense_array
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector, Vector, dense
from cornerstep.domains.base import Constraints, has_oracle

_MOST = 5000  # coordinates of y, whose Gram matrix is formed


class SmallForm(NamedTuple):
    """The domain ``{base + y basis}``; the rows of the basis are images of unit vectors of y."""

    base: FloatArray
    basis: Any
    caps: FloatArray
    summed: FloatArray
    goal: float

    def coordinates(self, x: Vector) -> FloatArray:
        """Y of a point of a domain with bounds, of which the basis is diagonal; a slack last."""
        n = self.base.size
        y = np.zeros(self.caps.size)
        y[:n] = (dense(x) - self.base) / self.basis.diagonal()
        y = np.clip(y, 0.0, self.caps)
        if y.size > n:
            y[n] = min(max(self.goal - float(self.summed[:n] @ y[:n]), 0.0), self.caps[n])
        return y


def small_form(domain: Any) -> SmallForm | None:
    """The form of a domain, if it has one that is small."""
    if domain.size < _MOST and has_oracle(domain, "constraints"):
        return _of_bounds(domain.constraints)
    if has_oracle(domain, "lmo_many") and domain.n_atoms <= _MOST:
        return _of_vertices([domain.atom(i) for i in range(domain.n_atoms)])
    return None


def _of_bounds(bounds: Constraints) -> SmallForm | None:
    n, count = bounds.lower.size, bounds.rows.shape[0]
    row = dense_array(bounds.rows)[0] if count == 1 else np.zeros(n)
    top = float(bounds.row_upper[0]) if count == 1 else 0.0
    slack = top - float(bounds.row_lower[0]) if count == 1 else 0.0
    down = (row < 0) | ((row == 0) & ~np.isfinite(bounds.lower))  # measured from the upper bound
    base = np.where(down, bounds.upper, bounds.lower)
    if count > 1 or not (np.isfinite(base).all() and np.isfinite(top)):
        return None
    units = np.where(row == 0, 1.0, np.abs(row))
    caps = (bounds.upper - bounds.lower) * units
    summed = (row != 0).astype(np.float64)
    basis = sp.diags_array(np.where(down, -1.0, 1.0) / units).tocsr()
    if slack > 0:
        caps, summed = np.append(caps, slack), np.append(summed, 1.0)
        basis.resize((n + 1, n))
    return SmallForm(base, basis, caps, summed, top - float(row @ base))


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
    return SmallForm(np.zeros(n), basis, np.full(k, np.inf), np.ones(k), 1.0)
