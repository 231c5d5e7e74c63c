"""The compile cache: compiled kernels on disk, believed only if they are what was written.

The compiler unpickles and runs what it finds in its cache.  Here every file of it begins with the
SHA-256 of the rest, its name, the compiler's version and the source: one that is truncated,
damaged, or of another function is made anew, and where none can be written (a full disk) kernels
are compiled without.  A temporary folder is a place as well, if it is nobody else's.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

_config: Any = numba.config
_DIGEST = hashlib.sha256().digest_size
_FOLDER = f"cornerstep-compiled-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


class CheckedCacheFile(IndexDataCacheFile):
    """The index and the data files of one function, with checksums."""

    def save(self, key: Any, data: Any) -> None:
        """Keep a compiled function, if there is room."""
        with suppress(OSError):
            super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        """A compiled function, or None: a data file may be of an index that is no more."""
        found = super().load(key)
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> dict[Any, str]:
        try:
            return dict(pickle.loads(self._read(self._index_path)))
        except OSError:  # not there, damaged, or not of this source: compiled anew
            return {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, self._dump(overloads))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(self._read(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), self._dump(data))

    def _write(self, path: str, content: bytes) -> None:
        with self._open_for_write(path) as file:
            file.write(self._digest(path, content) + content)

    def _read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            digest, content = file.read(_DIGEST), file.read()
        if self._digest(path, content) != digest:
            raise OSError(f"{path} is damaged")  # what the compiler takes for a missing file
        return content

    def _digest(self, path: str, content: bytes) -> bytes:
        of = os.path.basename(path), self._version, self._source_stamp
        return hashlib.sha256(repr(of).encode() + content).digest()


def enable_cache(function: Any) -> None:
    """Keep what is compiled of a function on disk, if there is a place for it.

    Beside the source, in the user's cache or where ``NUMBA_CACHE_DIR`` says; where none of these
    can be written (a container without a home), in a folder of the user's own among the temporary
    files.
    """
    if not hasattr(function, "enable_caching"):  # the compiler is switched off
        return
    with suppress(RuntimeError):  # no folder to write to
        try:
            function.enable_caching()
        except RuntimeError:
            with _temporary_place():
                function.enable_caching()
        function._cache._cache_file.__class__ = CheckedCacheFile


def cache_folder(function: Any) -> str | None:
    """Where a function's compiled forms are kept; None if nowhere."""
    return getattr(getattr(function, "stats", None), "cache_path", None)


@contextmanager
def _temporary_place() -> Iterator[None]:
    """The compiler keeps its files in a temporary folder, if nobody else can write there."""
    folder, before = os.path.join(tempfile.gettempdir(), _FOLDER), _config.CACHE_DIR
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if _is_private(folder):
            _config.CACHE_DIR = folder
    try:
        yield
    finally:
        _config.CACHE_DIR = before


def _is_private(folder: str) -> bool:
    """What is found there is run: it must be a folder that is ours, and only ours to write to."""
    state = os.lstat(folder)
    if not stat.S_ISDIR(state.st_mode):
        return False
    return not hasattr(os, "getuid") or (
        state.st_uid == os.getuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
