"""Rows that stay on disk: memory-mapped arrays, Parquet and svmlight files, in blocks of rows.

``open_rows`` opens a file whose rows are read in order, a block at a time, as often as needed.
Estimators that can train on it see one block at a time; labels are kept in memory.  A memory-mapped
array needs no opening: :meth:`cornerstep.MulticlassSVC.fit` reads it in blocks as it is.

    >>> from cornerstep import MulticlassSVC
    >>> from cornerstep.data.rows import open_rows
    >>> rows = open_rows("train.parquet", target="label")  # doctest: +SKIP
    >>> MulticlassSVC().fit(rows).score(rows)  # doctest: +SKIP
"""

from __future__ import annotations

import io
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cornerstep.core.npy import load_npy
from cornerstep.core.output import open_regular
from cornerstep.core.types import IntArray

BLOCK_BYTES = 2**26  # of a block of rows, about
_MANY = 2**31 - 1  # features, while their number is not known
_EXACT = 2.0**53  # whole numbers below it are themselves in float64


class Rows:
    """Rows on disk, in blocks.

    Attributes
    ----------
    shape : tuple (n, d)
    dtype : numpy dtype
        float32 or float64, of the blocks.
    sparse : bool
        Whether blocks are CSR arrays.
    target : array of shape (n,) or None
        The labels, if the file has them.
    feature_names : list of str or None
    starts : array of int
        Block b has the rows ``starts[b]``, ..., ``starts[b + 1] - 1``.
    """

    shape: tuple[int, int]
    dtype: Any
    sparse = False
    target: npt.NDArray[Any] | None = None
    feature_names: list[str] | None = None
    starts: IntArray
    _stamps: dict[str, os.stat_result] | None = None  # of the files when they were opened
    _reopens = False  # whether each pass opens the files by their names

    def blocks(self) -> Iterator[Any]:
        """The blocks in order, each a fresh array.

        Complains about what is not finite, what cannot be read, and files that were written to
        since they were opened: blocks of two states of a file would be blocks of neither.
        """
        self._require_unchanged()
        for first, block in zip(self.starts, self._readable(), strict=False):
            values = block.data if self.sparse else block
            if not np.isfinite(values.sum(dtype=np.float64)) and not np.isfinite(values).all():
                raise ValueError(
                    f"X must be finite, got NaN or infinity in rows {first} to "
                    f"{first + block.shape[0] - 1}"
                )
            yield block
        self._require_unchanged()

    def _readable(self) -> Iterator[Any]:
        try:
            yield from self._blocks()
        except (MemoryError, ValueError):
            raise
        except Exception as problem:  # whatever a reader makes of damaged bytes
            names = ", ".join(self._stamps or ())
            raise ValueError(f"X cannot be read from {names}: {problem}") from None

    def _remember(self, *files: str | Path) -> None:
        """Take down the state of the files, before anything is read from them."""
        self._stamps = {str(file): os.stat(file) for file in files}

    def _require_unchanged(self) -> None:
        for name, then in (self._stamps or {}).items():
            now = os.stat(name) if os.path.exists(name) else None
            same = now is not None and os.path.samestat(now, then)
            written = same and _stamp(now) != _stamp(then)
            if written or (self._reopens and not same):
                raise ValueError(
                    f"X must not change while it is in use, {name} was written to since it was "
                    "opened: open and fit it again"
                )

    def _blocks(self) -> Iterator[Any]:
        raise NotImplementedError

    def pieces(self) -> Iterator[Rows]:
        """The blocks, each as rows of its own."""
        return (HeldRows(block, self.feature_names) for block in self.blocks())

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        return f"{type(self).__name__}({n:,} rows, {d:,} features, {self.starts.size - 1} blocks)"


def _stamp(state: Any) -> tuple[int, int]:
    return state.st_size, state.st_mtime_ns


class HeldRows(Rows):
    """One block, in memory.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
    names : list of str, optional
        Of the features.
    """

    def __init__(self, X: Any, names: list[str] | None = None) -> None:
        self._X, self.shape, self.dtype, self.feature_names = X, X.shape, X.dtype, names
        self.sparse = sp.issparse(X)
        self.starts = np.array([0, X.shape[0]])

    def _blocks(self) -> Iterator[Any]:
        yield self._X


class PreparedRows(Rows):
    """Rows as a fitted transformer makes them.

    Parameters
    ----------
    rows : Rows
        May have gaps, if the transformer fills them.
    transform : function
        Of a fitted transformer: an array of numbers for a block.
    names : list of str, optional
        Of the features that it makes.
    """

    def __init__(
        self, rows: Rows, transform: Callable[[Any], Any], names: list[str] | None = None
    ) -> None:
        self._rows, self._transform = rows, transform
        self._stamps, self._reopens = rows._stamps, rows._reopens
        self.starts, self.feature_names, self.target = rows.starts, names, rows.target
        self.dtype = np.dtype(np.float64)
        first = next(iter(self._blocks()))
        self.shape = rows.shape[0], first.shape[1]

    def _blocks(self) -> Iterator[Any]:
        return (self._transform(block) for block in self._rows._blocks())


class ChosenRows(Rows):
    """Some of the rows, in order.

    Parameters
    ----------
    rows : Rows
    chosen : array of bool, or of row numbers in order
    """

    def __init__(self, rows: Rows, chosen: Any) -> None:
        n = rows.shape[0]
        self._rows, self._chosen = rows, np.zeros(n, dtype=bool)
        self._chosen[chosen] = True
        self._stamps, self._reopens = rows._stamps, rows._reopens
        self.dtype, self.sparse, self.feature_names = rows.dtype, rows.sparse, rows.feature_names
        self.target = None if rows.target is None else rows.target[self._chosen]
        counts = [int(part.sum()) for part in self._parts()]
        self.starts = np.cumsum([0, *(count for count in counts if count)])
        self.shape = int(self.starts[-1]), rows.shape[1]

    def _parts(self) -> list[Any]:
        return np.split(self._chosen, self._rows.starts[1:-1])

    def _blocks(self) -> Iterator[Any]:
        for block, part in zip(self._rows._blocks(), self._parts(), strict=True):
            if part.any():
                yield block[part]

    def held(self) -> Any:
        """All of them as one array, gaps and all."""
        some = list(self._readable())
        return sp.vstack(some, format="csr") if self.sparse else np.concatenate(some)


def _even_starts(n: int, row_bytes: int) -> IntArray:
    step = max(1, BLOCK_BYTES // max(row_bytes, 1))
    return np.append(np.arange(0, n, step), n)


class MappedRows(Rows):
    """The rows of a memory-mapped array.  Pages are let go after each block.

    Parameters
    ----------
    X : memory-mapped array of shape (n, d)
    """

    def __init__(self, X: npt.NDArray[Any]) -> None:
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(f"X must be a matrix of numbers, got {X.dtype} of shape {X.shape}")
        self._X = X
        file = getattr(X, "filename", None)
        if file is not None and os.path.exists(file):
            self._remember(file)
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        self.starts = _even_starts(X.shape[0], self.dtype.itemsize * X.shape[1])

    def _blocks(self) -> Iterator[Any]:
        # Changes to a copy-on-write map live in its pages: those must stay.
        pages = None if getattr(self._X, "mode", "c") == "c" else getattr(self._X, "_mmap", None)
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield np.array(self._X[first:last], dtype=self.dtype, order="C", subok=False)
            if pages is not None and hasattr(pages, "madvise"):
                pages.madvise(mmap.MADV_DONTNEED)


def unpacked(rows: Rows) -> Rows:
    """The same dense rows from a file without a name, which many passes read faster than text.

    Where there is no room for it, the rows as they are.
    """
    try:
        with tempfile.TemporaryFile() as file:
            for block in rows.blocks():
                file.write(np.ascontiguousarray(block, dtype=rows.dtype).data)
            file.flush()
            found = MappedRows(np.memmap(file, rows.dtype, "r", shape=rows.shape))
    except OSError:
        return rows
    found.feature_names, found.target = rows.feature_names, rows.target
    return found


class SvmlightRows(Rows):
    """The rows of an svmlight file, as CSR blocks.

    Parameters
    ----------
    path : path
    n_features : int, optional
        By default the largest index in the file.
    """

    sparse = True
    _reopens = True

    def __init__(self, path: Path, n_features: int | None = None) -> None:
        self.dtype = np.dtype(np.float64)
        self._path = path
        self._remember(path)
        bounds = _line_starts(path, BLOCK_BYTES // 4)  # text is longer than CSR rows
        least, most, counts, labels = _MANY, -1, [], []
        for first, last in pairwise(bounds):
            X, y = self._load(first, last, _MANY)
            counts.append(X.shape[0])
            labels.append(y)
            if X.nnz:
                least, most = min(least, int(X.indices.min())), max(most, int(X.indices.max()))
        self._shift = 1 if least >= 1 else 0
        d = max(most + 1 - self._shift, 0)
        if n_features is not None and n_features < d:
            raise ValueError(f"n_features must be at least {d} for {path}, got {n_features}")
        kept = [k for k, count in enumerate(counts) if count]
        self._parts = [(bounds[k], bounds[k + 1]) for k in kept]
        self.starts = np.cumsum([0, *(counts[k] for k in kept)])
        self.shape = int(self.starts[-1]), d if n_features is None else n_features
        self.target = whole_numbers(np.concatenate(labels) if labels else np.empty(0))

    def _load(self, first: int, last: int, n_features: int) -> Any:
        """The rows of the lines between two places in the file."""
        from sklearn.datasets import load_svmlight_file

        with open_regular(self._path) as file:
            file.seek(first)
            text = io.BytesIO(file.read(last - first))
        try:
            return load_svmlight_file(text, n_features=n_features, zero_based=True)
        except Exception as problem:  # the parser's own, numbers that are too large
            raise ValueError(f"{self._path} is not an svmlight file: {problem}") from None

    def _blocks(self) -> Iterator[Any]:
        for first, last in self._parts:
            X = sp.csr_array(self._load(first, last, self.shape[1] + self._shift)[0])
            yield sp.csr_array(
                (X.data, X.indices - self._shift, X.indptr), shape=(X.shape[0], self.shape[1])
            )


def _line_starts(path: Path, size: int) -> list[int]:
    """Places between lines, about ``size`` bytes apart, from the beginning to the end."""
    with open_regular(path) as file:
        end = file.seek(0, os.SEEK_END)
        starts = [0]
        while starts[-1] < end:
            file.seek(starts[-1] + size - 1)
            file.readline()
            starts.append(min(file.tell(), end))
    return starts


def whole_numbers(labels: Any) -> Any:
    """Labels as integers, if all are whole numbers that float64 tells apart."""
    whole = (np.abs(labels) < _EXACT) & (np.floor(labels) == labels)
    return labels.astype(np.int64) if whole.all() else labels


def open_rows(
    path: str | Path,
    *,
    target: str | None = None,
    features: list[str] | None = None,
    n_features: int | None = None,
) -> Rows:
    """Open a file of examples to be read in blocks of rows.

    Parameters
    ----------
    path : str or Path
        ``.npy``; ``.parquet``, or a folder of such files; ``.svm``, ``.svmlight``, ``.libsvm`` or
        ``.txt``.
    target : str, optional
        Parquet: the column of the labels.
    features : list of str, optional
        Parquet: the columns of the features, in order; by default all but the target.
    n_features : int, optional
        svmlight: the number of features, if its last ones may be missing.

    Returns
    -------
    Rows
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"path must be a file or a folder, there is no {path}")
    if not (path.is_file() or path.is_dir()):
        raise ValueError(f"path must be a file or a folder, {path} is a pipe or a device")
    kind = ".parquet" if path.is_dir() else path.suffix.lower()
    if kind != ".parquet" and (target is not None or features is not None):
        raise ValueError(f"target and features are for Parquet files, {path} is none")
    if kind == ".npy":
        return MappedRows(load_npy(path, mapped=True))
    if kind == ".parquet":
        from cornerstep.data.parquet_rows import ParquetRows

        return ParquetRows(path, target, features)
    if kind in (".svm", ".svmlight", ".libsvm", ".txt"):
        return SvmlightRows(path, n_features)
    raise ValueError(
        f"path must end in .npy, .parquet, .svm, .svmlight, .libsvm or .txt, got {path}"
    )


def as_rows(X: Any) -> Rows | None:
    """X as rows on disk, if it is: what ``open_rows`` returned, or a memory-mapped matrix."""
    if isinstance(X, Rows):
        return X
    return MappedRows(X) if isinstance(X, np.memmap) and X.ndim == 2 else None


def is_dask(X: Any) -> bool:
    """Whether X is one of Dask's collections; does not import Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr")


def labels_of(X: Any, y: Any) -> Any:
    """The labels y, or if they are None those that rows on disk bring along."""
    own = X.target if isinstance(X, Rows) else None
    if y is None and own is None:
        raise ValueError("y must be given: X has no labels of its own")
    return own if y is None else y
