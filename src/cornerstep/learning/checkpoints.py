"""Checkpoints: the state of a solver in a file, from which a later run goes on.

A file is an npz archive of plain arrays and a line of JSON that says what it was written for.  What
is in place is whole at any time (:mod:`cornerstep.core.output`).
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cornerstep.core.npy import Archive
from cornerstep.core.output import replacing
from cornerstep.data.digests import of_arrays

_EVERY = 60.0  # seconds between two writes
_LABEL, _DIGEST = "written_for", "digest"


class Resumable(Protocol):
    """A solver whose state can be kept."""

    def snapshot(self) -> dict[str, Any] | None:
        """The state as arrays by name; None if it cannot be had at the moment."""

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot."""


class Checkpoint:
    """Keeps the state of a solver in a file: a callback for the loop.

    Parameters
    ----------
    path : str or Path
        If the file is there, the solver goes on from it.
    solver : Resumable
    signature : dict
        What a checkpoint must have been written for, as JSON can hold it.
    every : float, optional
        Seconds between two writes; a minute by default.
    """

    def __init__(
        self, path: Any, solver: Resumable, signature: dict[str, Any], every: float | None = None
    ) -> None:
        self.path, self.solver = Path(path), solver
        self.every = _EVERY if every is None else every
        self._label = json.dumps(signature, sort_keys=True)
        if not self.path.parent.is_dir():
            raise ValueError(f"checkpoint must be in a folder that exists, got {self.path}")
        if self.path.exists():
            self._go_on()
        self._written = time.monotonic()

    def _go_on(self) -> None:
        arrays = self._read()
        try:
            self.solver.resume(arrays)
        except Exception as problem:  # what is in the file may be anything
            raise ValueError(
                f"checkpoint {self.path} is not one to go on from: {_said(problem)}; remove it to "
                "start anew"
            ) from None

    def _read(self) -> dict[str, Any]:
        try:
            with Archive(self.path) as file:
                arrays = {name.removesuffix(".npy"): file.array(name)[0] for name in file.names()}
            was, now = json.loads(str(arrays.pop(_LABEL))), json.loads(self._label)
            if str(arrays.pop(_DIGEST)) != of_arrays(arrays):
                raise ValueError("its arrays are not those that were written")
            if not all(array.dtype.kind in "biuf" for array in arrays.values()):
                raise ValueError("it has arrays that are not of numbers")
            other = [name for name in {**now, **was} if was.get(name) != now.get(name)]
        except Exception as problem:
            raise ValueError(
                f"checkpoint {self.path} is not a checkpoint file: {_said(problem)}"
            ) from None
        if other:
            raise ValueError(
                f"checkpoint {self.path} was written for other training: its {other[0]} is "
                f"{was.get(other[0])!r}, not {now.get(other[0])!r}; remove it to start anew"
            )
        return arrays

    def __call__(self, iterate: Any) -> bool:
        if time.monotonic() - self._written >= self.every:
            self.write()
        return False

    def write(self) -> None:
        """Write the state now, if it can be had; warn if there is no room for it."""
        arrays = self.solver.snapshot()
        self._written = time.monotonic()
        if arrays is None:
            return
        named: dict[str, Any] = {
            **arrays, _LABEL: np.array(self._label), _DIGEST: np.array(of_arrays(arrays)),
        }  # fmt: skip
        try:
            with replacing(self.path) as file:
                np.savez(file, **named)
        except OSError as problem:  # training is worth more than its checkpoint
            warnings.warn(
                f"checkpoint {self.path} cannot be written: {problem.strerror}", stacklevel=2
            )


def _said(problem: Exception) -> str:
    """What went wrong in one line; of a bare name what it is."""
    text = " ".join(str(problem).split())
    return f"it has no {text}" if isinstance(problem, KeyError) else text or type(problem).__name__
