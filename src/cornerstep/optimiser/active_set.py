"""The active set: ``x = sum_k weight_k * atom_k`` with positive weights that sum to 1.

References
----------
.. [1] J. Guélat, P. Marcotte. Some comments on Wolfe's 'away step'. Mathematical Programming 35,
   110-119, 1986.
.. [2] S. Lacoste-Julien, M. Jaggi. On the global linear convergence of Frank-Wolfe optimization
   variants. NIPS 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import SparseVector, Vector, dense

_WIDE = 0.2  # share of non-zero entries from which an atom is stored densely


class ActiveSet:
    """Atoms with weights, stored so that all inner products with a gradient are one operation.

    Sparse atoms are kept as padded rows of positions and entries.  With the first atom that is
    dense or wide (a gathered product then costs more than a plain one) all become rows of a matrix.
    An atom is kept once however often it returns; an atom whose weight falls to 0 leaves.
    """

    def __init__(self, atom: Vector) -> None:
        self.size = atom.size
        self._reset(atom)

    @classmethod
    def of(cls, atoms: Sequence[Vector], weights: FloatArray) -> ActiveSet:
        """The set of these atoms; those of weight 0 are left out, equal ones are one.

        Parameters
        ----------
        atoms : sequence of vectors
        weights : array of shape (k,)
            Not negative, with a sum of 1.
        """
        used = np.flatnonzero(weights).tolist()
        out = cls(atoms[used[0]])
        out._weights[0] = 0.0
        for k in used:
            slot = out._slot(atoms[k])  # first: it may move the weights to a larger array
            out._weights[slot] += weights[k]
        return out

    def _reset(self, atom: Vector) -> None:
        self._atoms: list[Vector] = []
        self._keys: list[bytes] = []
        self._slots: dict[bytes, int] = {}
        self._weights = np.zeros(8)
        self._values = np.zeros((8, 0))
        self._indices: IntArray | None = np.zeros((8, 0), dtype=np.intp)
        slot = self._slot(atom)
        self._weights[slot] = 1.0

    def __len__(self) -> int:
        return len(self._atoms)

    def __contains__(self, atom: Vector) -> bool:
        return _key(atom) in self._slots

    def __repr__(self) -> str:
        return f"ActiveSet({len(self)} atoms)"

    @property
    def weights(self) -> FloatArray:
        """The weights, in the order of ``atoms``."""
        return self._weights[: len(self)]

    @property
    def atoms(self) -> list[Vector]:
        """The atoms."""
        return list(self._atoms)

    def point(self) -> FloatArray:
        """``sum of weight * atom``."""
        return self.mixture(self.weights)

    def add(self, atom: Vector) -> None:
        """Make room for an atom, of weight 0 if it is new."""
        self._slot(atom)

    def extend(self, atoms: Sequence[Vector]) -> None:
        """Make room for atoms, of weight 0 where they are new."""
        keyed = ((_key(atom), atom) for atom in atoms)
        self._append({key: atom for key, atom in keyed if key not in self._slots})

    def reweigh(self, weights: FloatArray) -> IntArray:
        """Give the atoms other weights; those of weight 0 leave.  Which stay, in their order."""
        kept = weights.nonzero()[0]
        if kept.size < len(self):
            self._atoms = [self._atoms[k] for k in kept]
            self._keys = [self._keys[k] for k in kept]
            self._slots = {key: k for k, key in enumerate(self._keys)}
            self._values[: kept.size] = self._values[kept]
            if self._indices is not None:
                self._indices[: kept.size] = self._indices[kept]
        self._weights[: kept.size] = weights[kept] / weights[kept].sum()
        return kept

    def mixture(self, weights: FloatArray) -> FloatArray:
        """``sum of weight * atom`` with these weights."""
        rows = self._values[: len(self)]
        if self._indices is None:
            return weights @ rows
        positions = self._indices[: len(self)].ravel()
        entries = (weights[:, None] * rows).ravel()
        out: FloatArray = np.zeros(self.size)
        np.add.at(out, positions, entries)
        return out

    def scores(self, gradient: FloatArray) -> FloatArray:
        """``<gradient, atom>`` for every atom."""
        rows = self._values[: len(self)]
        if self._indices is None:
            return rows @ gradient
        return (rows * gradient[self._indices[: len(self)]]).sum(axis=1)

    def __getitem__(self, k: int) -> Vector:
        return self._atoms[k]

    def towards(self, atom: Vector, step: float) -> None:
        """``x <- x + step (atom - x)``."""
        if step >= 1:
            self._reset(atom)
            return
        if step <= 0:
            return
        slot = self._slot(atom)
        self._weights[: len(self)] *= 1 - step
        self._weights[slot] += step

    def away(self, k: int, step: float, drop: bool) -> None:
        """``x <- x + step (x - atom_k)``; with ``drop`` the atom leaves."""
        weight = self._weights[k] - step * (1 - self._weights[k])  # positive where it should be
        self._weights[: len(self)] *= 1 + step
        self._weights[k] = weight
        if drop:
            self._drop(k)

    def shift(self, k: int, atom: Vector, step: float, drop: bool) -> None:
        """``x <- x + step (atom - atom_k)``; with ``drop`` atom_k leaves."""
        if step <= 0 and not drop:
            return
        slot = self._slot(atom)  # first: it may move the weights to a larger array
        if slot == k:
            return
        self._weights[slot] += step
        self._weights[k] -= step
        if drop:
            self._drop(k)

    def _slot(self, atom: Vector) -> int:
        """The row of ``atom``, which is added with weight 0 if it is new."""
        key = _key(atom)
        slot = self._slots.get(key)
        if slot is None:
            slot = len(self)
            self._append({key: atom})
        return slot

    def _append(self, new: dict[bytes, Vector]) -> None:
        """Rows for atoms that are not there, of weight 0."""
        first, atoms = len(self), list(new.values())
        last = first + len(atoms)
        widest = max(map(self._width, atoms), default=0)
        if last > self._weights.size or widest > self._values.shape[1]:
            self._make_room(last, widest)
        self._atoms += atoms
        self._keys += new
        self._slots.update(zip(new, range(first, last), strict=True))
        self._weights[first:last] = 0.0
        for slot, atom in enumerate(atoms, first):
            self._write(slot, atom)

    def _width(self, atom: Vector) -> int:
        """Entries of its row: of an atom that is not narrow, all."""
        if self._indices is None or not isinstance(atom, SparseVector):
            return self.size
        width = atom.values.size
        return width if width <= _WIDE * self.size else self.size

    def _make_room(self, rows: int, width: int) -> None:
        """For so many rows of so many entries: of all, and all rows become dense."""
        known, most = len(self), self._weights.size
        rows = max(rows, 2 * most) if rows > most else most
        width = max(width, self._values.shape[1])
        if self._indices is not None and width == self.size:
            values = np.zeros((rows, width))
            for k, atom in enumerate(self._atoms):
                values[k] = dense(atom)
            self._values, self._indices = values, None
        else:
            self._values = _grown(self._values, known, rows, width)
            if self._indices is not None:
                self._indices = _grown(self._indices, known, rows, width)
        self._weights = np.concatenate([self._weights, np.zeros(rows - most)])

    def _write(self, slot: int, atom: Vector) -> None:
        if self._indices is None:
            self._values[slot] = dense(atom)
            return
        assert isinstance(atom, SparseVector)
        count = atom.values.size
        if count < self._values.shape[1]:
            self._values[slot], self._indices[slot] = 0.0, 0
        self._values[slot, :count], self._indices[slot, :count] = atom.values, atom.indices

    def _drop(self, k: int) -> None:
        """Remove atom k by moving the last atom into its row; restore the sum of the weights."""
        last = len(self) - 1
        del self._slots[self._keys[k]]
        if k != last:
            self._atoms[k] = self._atoms[last]
            self._keys[k] = self._keys[last]
            self._slots[self._keys[k]] = k
            self._weights[k] = self._weights[last]
            self._values[k] = self._values[last]
            if self._indices is not None:
                self._indices[k] = self._indices[last]
        self._atoms.pop()
        self._keys.pop()
        self._weights[: len(self)] /= self._weights[: len(self)].sum()


def _grown(array: Any, known: int, rows: int, width: int) -> Any:
    """So many rows of so many entries, the first ``known`` of them those that there are."""
    out = np.zeros((rows, width), dtype=array.dtype)
    out[:known, : array.shape[1]] = array[:known]
    return out


def _key(atom: Vector) -> bytes:
    """Equal for equal atoms: dense, or sparse with the entries in any order."""
    if not isinstance(atom, SparseVector):
        indices = atom.nonzero()[0]
        return indices.tobytes() + atom[indices].tobytes()
    if atom.indices.size == 1 and atom.values[0] != 0.0:  # as of a simplex: nothing to sort
        return atom.indices.tobytes() + atom.values.tobytes()
    order = atom.indices.argsort()
    order = order[atom.values[order] != 0]
    return atom.indices[order].tobytes() + atom.values[order].tobytes()
