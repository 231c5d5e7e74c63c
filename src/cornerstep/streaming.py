"""Rows that stay on disk: memory-mapped arrays, Parquet and svmlight files, in blocks of rows.

``open_rows`` opens a file whose rows are read in order, a block at a time, as often as needed.
Estimators that can train on it see one block at a time; labels are kept in memory.  A memory-mapped
array needs no opening: :meth:`cornerstep.MulticlassSVC.fit` reads it in blocks as it is.

    >>> from cornerstep import MulticlassSVC
    >>> from cornerstep.streaming import open_rows
    >>> rows = open_rows("train.parquet", target="label")  # doctest: +SKIP
    >>> MulticlassSVC().fit(rows).score(rows)  # doctest: +SKIP
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cornerstep.vectors import IntArray

BLOCK_BYTES = 2**26  # of a block of rows, about
_MANY = 2**31 - 1  # features, while their number is not known


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

    def blocks(self) -> Iterator[Any]:
        """The blocks in order, each a fresh array; complains about what is not finite."""
        for first, block in zip(self.starts, self._blocks(), strict=False):
            values = block.data if self.sparse else block
            if not np.isfinite(values.sum(dtype=np.float64)) and not np.isfinite(values).all():
                raise ValueError(
                    f"X must be finite, got NaN or infinity in rows {first} to "
                    f"{first + block.shape[0] - 1}"
                )
            yield block

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


class ParquetRows(Rows):
    """The rows of a Parquet file or of a folder of them.

    Parameters
    ----------
    path : path
    target : str, optional
        The column of the labels.
    features : list of str, optional
        The columns of the features, in order; by default all but the target.  One column of lists
        of numbers, all of one length, may stand for all features.
    """

    def __init__(
        self, path: Path, target: str | None = None, features: list[str] | None = None
    ) -> None:
        parquet = _parquet()
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"path must have Parquet files in it, got the folder {path}")
        self._target = target
        self._names_of_files = [str(file) for file in files]
        self._files = [parquet.ParquetFile(file) for file in files]
        schema = self._files[0].schema_arrow
        self.columns: list[str] = list(schema.names)
        wanted = ([] if target is None else [target]) + (features or [])
        for name in wanted:
            if name not in schema.names:
                raise ValueError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}")
        names = features or [name for name in schema.names if name != target]
        self._names = names
        types = [schema.field(name).type for name in names]
        self._lists = len(names) == 1 and hasattr(types[0], "value_type")
        kinds = [types[0].value_type] if self._lists else types
        for name, kind in zip(names, kinds, strict=True):
            if np.dtype(kind.to_pandas_dtype()).kind not in "biuf":
                raise ValueError(f"feature column {name!r} of {path} must be numbers, is {kind}")
        single = all(kind.to_pandas_dtype() == np.float32 for kind in kinds)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        n = sum(file.metadata.num_rows for file in self._files)
        d = len(names)
        if self._lists:
            first = next(self._files[0].iter_batches(batch_size=1, columns=names))
            d = len(first.column(0)[0])
        elif features is None:
            self.feature_names = names
        self.shape = n, d
        self._step = max(1, BLOCK_BYTES // max(self.dtype.itemsize * d, 1))
        if target is not None:
            columns = [file.read(columns=[target]).column(0) for file in self._files]
            self.target = np.concatenate([np.asarray(column) for column in columns])
        counts = [count for file in self._files for count in self._counts(file.metadata.num_rows)]
        self.starts = np.cumsum([0, *counts])

    def row_groups(self) -> Iterator[tuple[str, int, int]]:
        """File, number and length of every row group."""
        for name, file in zip(self._names_of_files, self._files, strict=True):
            for group in range(file.metadata.num_row_groups):
                yield name, group, file.metadata.row_group(group).num_rows

    def row_group(self, group: int) -> tuple[Any, Any]:
        """Features and labels of a row group of the first file."""
        table = self._files[0].read_row_group(group)
        batches = table.select(self._names).combine_chunks().to_batches()
        X = np.concatenate([self._matrix(batch) for batch in batches])
        return X, np.asarray(table.column(self._target))

    def _counts(self, n: int) -> list[int]:
        return [min(self._step, n - first) for first in range(0, n, self._step)]

    def _blocks(self) -> Iterator[Any]:
        for file in self._files:
            batches = file.iter_batches(batch_size=self._step, columns=self._names)
            rest = np.empty((0, self.shape[1]), dtype=self.dtype)
            for batch in batches:  # a batch ends with its row group
                rest = np.concatenate([rest, self._matrix(batch)])
                while rest.shape[0] >= self._step:
                    yield rest[: self._step].copy()
                    rest = rest[self._step :]
            if rest.shape[0]:
                yield rest

    def _matrix(self, batch: Any) -> Any:
        if not self._lists:
            out = np.empty((batch.num_rows, self.shape[1]), dtype=self.dtype)
            for j, name in enumerate(self._names):
                out[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
            return out
        values = np.asarray(batch.column(0).flatten(), dtype=self.dtype)
        if values.size != batch.num_rows * self.shape[1]:
            raise ValueError(f"lists of column {self._names[0]!r} must all have one length")
        return values.reshape(batch.num_rows, self.shape[1])


class SvmlightRows(Rows):
    """The rows of an svmlight file, as CSR blocks.

    Parameters
    ----------
    path : path
    n_features : int, optional
        By default the largest index in the file.
    """

    sparse = True

    def __init__(self, path: Path, n_features: int | None = None) -> None:
        self.dtype = np.dtype(np.float64)
        self._path = path
        size = path.stat().st_size
        self._offsets = list(range(0, size, BLOCK_BYTES // 4))  # text is longer than CSR rows
        least, most, counts, labels = _MANY, -1, [], []
        for offset in self._offsets:
            X, y = self._load(offset, _MANY)
            counts.append(X.shape[0])
            labels.append(y)
            if X.nnz:
                least, most = min(least, int(X.indices.min())), max(most, int(X.indices.max()))
        self._shift = 1 if least >= 1 else 0
        d = most + 1 - self._shift
        if n_features is not None and n_features < d:
            raise ValueError(f"n_features must be at least {d} for {path}, got {n_features}")
        kept = [k for k, count in enumerate(counts) if count]
        self._offsets = [self._offsets[k] for k in kept]
        self.starts = np.cumsum([0, *(counts[k] for k in kept)])
        self.shape = int(self.starts[-1]), d if n_features is None else n_features
        y = np.concatenate(labels) if labels else np.empty(0)
        self.target = y.astype(np.int64) if (y % 1 == 0).all() else y

    def _load(self, offset: int, n_features: int) -> Any:
        from sklearn.datasets import load_svmlight_file

        try:
            return load_svmlight_file(
                str(self._path), n_features=n_features, zero_based=True, offset=offset,
                length=BLOCK_BYTES // 4,
            )  # fmt: skip
        except ValueError as problem:
            raise ValueError(f"{self._path} is not an svmlight file: {problem}") from None

    def _blocks(self) -> Iterator[Any]:
        for offset in self._offsets:
            X, _ = self._load(offset, self.shape[1] + self._shift)
            X = sp.csr_array(X)
            yield sp.csr_array(
                (X.data, X.indices - self._shift, X.indptr), shape=(X.shape[0], self.shape[1])
            )


def _parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install cornerstep[parquet]") from None
    return parquet


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
    kind = ".parquet" if path.is_dir() else path.suffix.lower()
    if kind != ".parquet" and (target is not None or features is not None):
        raise ValueError(f"target and features are for Parquet files, {path} is none")
    if kind == ".npy":
        return MappedRows(np.load(path, mmap_mode="r"))
    if kind == ".parquet":
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
