"""NumPy's files from anywhere: npy, and zip archives of them, whatever their bytes are.

What is read is measured before memory is taken for it: the size that a header or a directory
claims must be that of the bytes which are there.  Whatever else a reader of damaged bytes may raise
becomes one :class:`DamagedError`; only plain arrays are read, never pickled objects.
"""

from __future__ import annotations

import hashlib
import math
import os
import zipfile
from collections.abc import KeysView
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from cornerstep.core.output import open_regular

_CHUNK = 2**20  # bytes read at a time: no more is unpacked beyond what an entry claims
_PLAIN = "biufUS"  # kinds of entries that are numbers or words
_ENTRY = b"PK\x01\x02"  # begins each entry of an archive's directory
_MOST_ENTRIES = 2**19  # which take some hundred bytes of memory each
_LARGEST_LETTER = 0x10FFFF


class DamagedError(ValueError):
    """Bytes that are not what they should be, and how."""


class Header(NamedTuple):
    """What an npy file says of its array, and where that begins."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        """The size of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: Any) -> Header:
    """The header of an npy file, which is read up to the array."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"its version is {version}")
        readers = (np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0)
        shape, fortran, dtype = readers[version[0] - 1](file)
    except Exception as problem:  # the header is parsed as Python: it may fail in any way
        raise DamagedError(f"it has no header of an array: {_line(problem)}") from None
    if dtype.kind not in _PLAIN or dtype.itemsize == 0 or any(n < 0 for n in shape):
        raise DamagedError(f"it must hold plain numbers or words, got {dtype} of shape {shape}")
    return Header(shape, fortran, dtype, file.tell())


def load_npy(path: str | os.PathLike[str], *, mapped: bool = False) -> Any:
    """The array of an npy file; ``mapped`` leaves it on disk.

    Parameters
    ----------
    path : path-like
    mapped : bool
        As a read-only :class:`numpy.memmap`.

    Raises
    ------
    DamagedError
    OSError
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        header = read_header(file)
        if not mapped:
            return _read_array(file, header, size - header.offset)
        if header.nbytes > size - header.offset:
            raise DamagedError(_wrong_size(header, size - header.offset))
    if header.nbytes == 0 or header.dtype.kind in "US":  # nothing to map, or words to look through
        return load_npy(path)
    order: Any = "F" if header.fortran else "C"
    return _guarded(np.memmap, path, header.dtype, "r", header.offset, header.shape, order)


class Archive:
    """A zip archive, opened.

    Parameters
    ----------
    path : path-like
    most : int, optional
        The archive may unpack to this much more than its own size.

    Raises
    ------
    DamagedError
    OSError
    """

    def __init__(self, path: str | os.PathLike[str], most: int | None = None) -> None:
        self._file = open_regular(path)
        try:
            if _count(self._file) > _MOST_ENTRIES:
                raise DamagedError(f"it has more than {_MOST_ENTRIES} entries")
            size = self._file.tell()
            self._zip = _guarded(zipfile.ZipFile, self._file)
            self._entries = {entry.filename: entry for entry in self._zip.infolist()}
            total = sum(entry.file_size for entry in self._entries.values())
            if most is not None and total > size + most:
                raise DamagedError(f"it has {size} bytes and would unpack to {total}")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def names(self) -> KeysView[str]:
        """The entries."""
        return self._entries.keys()

    def size(self, name: str) -> int:
        """How many bytes an entry claims to have, unpacked."""
        return self._entries[name].file_size

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a short entry."""
        if self.size(name) > most:
            raise DamagedError(f"{name} may have {most} bytes, it has {self.size(name)}")
        with self._open(name) as entry:
            data = _guarded(entry.read, most)
            if len(data) != self.size(name):
                raise DamagedError(f"{name} has {len(data)} bytes, not {self.size(name)}")
            return bytes(data)

    def array(self, name: str) -> tuple[Any, str]:
        """An array, and the SHA-256 of the npy file that it is."""
        with self._open(name) as entry:
            hashed = _Hashed(entry)
            header = read_header(hashed)
            array = _read_array(hashed, header, self.size(name) - header.offset)
            return array, hashed.digest.hexdigest()

    def _open(self, name: str) -> Any:
        entry = self._entries[name]
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DamagedError(f"{name} is packed by the unknown method {entry.compress_type}")
        return _guarded(self._zip.open, entry)


class _Hashed:
    """A stream that keeps count and checksum of what was read."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._read, self.digest = stream, 0, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data: bytes = _guarded(self._stream.read, size)
        self._read += len(data)
        self.digest.update(data)
        return data

    def tell(self) -> int:
        return self._read


def _read_array(file: Any, header: Header, present: int) -> Any:
    """The array after a header, if as many bytes are present as it takes."""
    if header.nbytes != present:
        raise DamagedError(_wrong_size(header, present))
    array = np.empty(math.prod(header.shape), header.dtype)
    into: Any = array.view(np.uint8)
    done = 0
    while done < present:
        data = file.read(min(_CHUNK, present - done))
        if not data:
            raise DamagedError(f"the array has {done} bytes, not {present}")
        into[done : done + len(data)] = np.frombuffer(data, np.uint8)
        done += len(data)
    if file.read(1):
        raise DamagedError("there are bytes after the array")
    order: Any = "F" if header.fortran else "C"
    return _guarded(partial(_checked(array).reshape, header.shape, order=order))


def _checked(array: Any) -> Any:
    """An array in the byte order of this machine whose entries are what they can be."""
    if not array.dtype.isnative:
        array = array.byteswap().view(array.dtype.newbyteorder("="))
    if array.dtype.kind == "U" and array.size and array.view(np.uint32).max() > _LARGEST_LETTER:
        raise DamagedError("words must be made of letters")
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise DamagedError("truth values must be 0 or 1")
    return array


def _wrong_size(header: Header, present: int) -> str:
    return (
        f"an array of {header.dtype} and shape {header.shape} has {header.nbytes} bytes, "
        f"there are {present}"
    )


def _count(file: BinaryIO) -> int:
    """About how many entries an archive has; the file is left at its end."""
    return sum(chunk.count(_ENTRY) for chunk in iter(lambda: file.read(_CHUNK), b""))


def _guarded(function: Any, *arguments: Any) -> Any:
    """Call what reads damaged bytes, and may fail in any way."""
    try:
        return function(*arguments)
    except Exception as problem:
        raise DamagedError(_line(problem)) from None


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__


def require_rows_of_entries(parts: tuple[Any, Any, Any], rows: Any) -> None:
    """Complain unless entries, columns and starts make the rows of a CSR matrix.

    SciPy looks at the columns alone, and at nothing where the last start is below 0.
    """
    data, indices, starts = (np.asarray(part) for part in parts)
    whole = all(part.ndim == 1 and part.dtype.kind in "iu" for part in (indices, starts))
    if not (
        whole and data.ndim == 1 and data.size == indices.size and starts.size == rows + 1
        and starts[0] == 0 and starts[-1] == data.size and (starts[1:] >= starts[:-1]).all()
    ):  # fmt: skip
        raise ValueError("the starts of the rows of a sparse matrix do not fit its entries")
