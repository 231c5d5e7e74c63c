"""Checkpoints: the state of a solver in a file, from which a later run goes on.

A file is an npz archive of plain arrays and a line of JSON that says what it was written for.  It
is written beside its place and then moved there: what is in place is whole at any time.
"""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np

_EVERY = 60.0  # seconds between two writes
_LABEL = "written_for"


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
            solver.resume(self._read())
        self._written = time.monotonic()

    def _read(self) -> dict[str, Any]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            label = str(arrays.pop(_LABEL))
        except (ValueError, OSError, EOFError, KeyError, BadZipFile):
            raise ValueError(f"checkpoint {self.path} is not a checkpoint file") from None
        if label != self._label:
            was, now = json.loads(label), json.loads(self._label)
            name = next(name for name in now if was.get(name) != now[name])
            raise ValueError(
                f"checkpoint {self.path} was written for other training: its {name} is "
                f"{was.get(name)!r}, not {now[name]!r}; remove it to start anew"
            )
        return arrays

    def __call__(self, iterate: Any) -> bool:
        if time.monotonic() - self._written >= self.every:
            self.write()
        return False

    def write(self) -> None:
        """Write the state now, if it can be had."""
        arrays = self.solver.snapshot()
        self._written = time.monotonic()
        if arrays is None:
            return
        content = io.BytesIO()
        named: dict[str, Any] = {**arrays, _LABEL: np.array(self._label)}
        np.savez(content, **named)
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with open(beside, "wb") as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)
