"""The hypotheses at hand, with their margins: the columns of A that a method has generated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cornerstep.boosting.long_work import SearchExpiredError, in_parts, never
from cornerstep.boosting.solvers.solution import edges_of
from cornerstep.core.types import FloatArray, IntArray


class Pool:
    """The hypotheses at hand, a row of margins each; equal ones are kept once.

    Parameters
    ----------
    n_examples : int
    dtype : numpy dtype
        Of the rows.  Single precision holds margins of -1 and 1 as well, at half the traffic.

    Attributes
    ----------
    hypotheses : list
        All that ever came, by number.
    numbers : array of int
        Of those at hand, rising.
    idle : array of int
        The rounds for which each of them has not been useful.
    """

    def __init__(self, n_examples: int, dtype: Any = np.float64) -> None:
        self.hypotheses: list[Any] = []
        self.numbers = np.empty(0, dtype=np.int64)
        self.idle = np.empty(0, dtype=np.int64)
        self._rows = np.empty((64, n_examples), dtype=dtype)
        self._known: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self.numbers.size

    @property
    def margins(self) -> FloatArray:
        """``A'``: one row per hypothesis at hand."""
        return self._rows[: len(self)]

    def add(
        self,
        hypotheses: Sequence[Any],
        margins: FloatArray,
        expired: Callable[[], bool] = never,
    ) -> int:
        """Take hypotheses in, a row of margins each; returns how many were not here already.

        All of them, or none and a :class:`SearchExpiredError` if ``expired`` says so before.
        """
        new = []
        for k, key in enumerate(_keys(margins, expired)):
            if key not in self._known:
                self._known[key] = len(self.hypotheses)
                self.hypotheses.append(hypotheses[k])
                new.append(k)
        size = len(self) + len(new)
        if size > len(self._rows):
            more = np.empty((2 * size, self._rows.shape[1]), self._rows.dtype)
            more[: len(self)] = self.margins
            self._rows = more
        self._rows[len(self) : size] = margins if len(new) == len(margins) else margins[new]
        numbers = np.arange(len(self.hypotheses) - len(new), len(self.hypotheses))
        self.numbers = np.concatenate([self.numbers, numbers])
        self.idle = np.concatenate([self.idle, np.zeros_like(numbers)])
        return len(new)

    def number(self, margins: FloatArray) -> int:
        """The number of a hypothesis at hand."""
        return self._known[_keys(margins[None])[0]]

    def edges(self, distribution: FloatArray) -> FloatArray:
        """``A'd``."""
        return edges_of(self.margins, distribution)

    def row(self, number: int) -> FloatArray:
        """The margins of a hypothesis at hand."""
        return self._rows[int(np.searchsorted(self.numbers, number))].astype(np.float64)

    def rows(self, numbers: IntArray) -> FloatArray:
        """The margins of hypotheses at hand."""
        return self._rows[np.searchsorted(self.numbers, numbers)].astype(np.float64)

    def age(self, useful: Any, in_use: Iterable[int], patience: int) -> None:
        """Drop hypotheses that were not useful for some rounds and are not in use."""
        self.idle = np.where(useful, 0, self.idle + 1)
        leave = (self.idle >= patience) & ~np.isin(self.numbers, list(in_use))
        if leave.any():
            gone = set(self.numbers[leave].tolist())
            self._known = {key: k for key, k in self._known.items() if k not in gone}
            stay = np.flatnonzero(~leave)
            first = int(np.argmax(leave))
            self._rows[first : stay.size] = self._rows[stay[first:]]
            self.numbers, self.idle = self.numbers[~leave], self.idle[~leave]


def _keys(margins: FloatArray, expired: Callable[[], bool] = never) -> list[bytes]:
    """Each row as bytes; its signs, if its margins are -1 and 1."""
    keys = []
    for rows in in_parts(*margins.shape):
        if expired():
            raise SearchExpiredError
        some = margins[rows]
        packed = np.packbits(some > 0, axis=1)
        signs = (abs(some) == 1.0).all(axis=1)
        keys += [(packed if sign else some)[k].tobytes() for k, sign in enumerate(signs)]
    return keys
