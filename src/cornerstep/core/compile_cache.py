"""The compile cache: compiled kernels on disk, believed only if they are what was written.

The compiler unpickles and runs what it finds in its cache.  Here every file of it begins with the
SHA-256 of the rest, its name, the compiler's version and the source: one that is truncated,
damaged, or of another function is made anew, and where none can be written (a full disk) kernels
are compiled without.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import suppress
from typing import Any

from numba.core.caching import IndexDataCacheFile

_DIGEST = hashlib.sha256().digest_size


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
    """Keep what is compiled of a function on disk, if there is a place for it."""
    if not hasattr(function, "enable_caching"):  # the compiler is switched off
        return
    with suppress(RuntimeError):  # no folder to write to
        function.enable_caching()
        function._cache._cache_file.__class__ = CheckedCacheFile
