"""The rows of Parquet files, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cornerstep.data import rows as streaming


class ParquetRows(streaming.Rows):
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
        files = _paths(path)
        self._remember(*files)
        self._target = target
        self._names_of_files = [str(file) for file in files]
        self._files = [_opened(file) for file in files]
        schema = self._files[0].schema_arrow
        names = features or [name for name in schema.names if name != target]
        if not names:
            raise ValueError(f"{path} has no columns but the target {target!r}")
        self._names = names
        pairs = zip(self._names_of_files, self._files, strict=True)
        kinds = [self._kinds(name, file.schema_arrow) for name, file in pairs]
        self._lists = _is_list(schema.field(names[0]).type) and len(names) == 1
        single = all(str(kind) == "float" for of_file in kinds for kind in of_file)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        n = sum(file.metadata.num_rows for file in self._files)
        if not self._lists and features is None:
            self.feature_names = names
        self.shape = n, self._length_of_lists() if self._lists else len(names)
        self._step = max(1, streaming.BLOCK_BYTES // max(self.dtype.itemsize * self.shape[1], 1))
        if target is not None:
            self.target = np.concatenate([self._labels(file) for file in self._files])
        counts = [self._counts(file.metadata.num_rows) for file in self._files]
        self.starts = np.cumsum(np.concatenate([[0], *counts])).astype(np.int64)

    def _kinds(self, name: str, schema: Any) -> list[Any]:
        """The types of the features of a file, which must be numbers or lists of them."""
        from pyarrow import types

        for column in [*self._names, *([] if self._target is None else [self._target])]:
            if schema.names.count(column) != 1:
                count = "two columns" if column in schema.names else "no column"
                raise ValueError(f"{name} has {count} {column!r}; it has {', '.join(schema.names)}")
        kinds = [schema.field(column).type for column in self._names]
        first = self._files[0].schema_arrow.field(self._names[0]).type
        if _is_list(first) and len(kinds) == 1:
            if not _is_list(kinds[0]):
                raise ValueError(f"{name} must have lists of numbers in column {self._names[0]!r}")
            kinds = [kinds[0].value_type]
        for column, kind in zip(self._names, kinds, strict=True):
            if not any(is_kind(kind) for is_kind in (
                types.is_integer, types.is_floating, types.is_boolean
            )):  # fmt: skip
                raise ValueError(f"feature column {column!r} of {name} must be numbers, is {kind}")
        return kinds

    def _length_of_lists(self) -> int:
        """How many features the first list has; all others must have as many."""
        for file in self._files:
            for batch in file.iter_batches(batch_size=1, columns=self._names):
                if batch.num_rows:
                    first = batch.column(0)[0]
                    if not first.is_valid:
                        raise ValueError(f"column {self._names[0]!r} has no list in row 0")
                    return len(first)
        return 0

    def _labels(self, file: Any) -> Any:
        column = file.read(columns=[self._target]).column(0)
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise ValueError(f"column {self._target!r} has no label in row {row}")
        return np.asarray(column)

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

    def _counts(self, n: int) -> Any:
        """How many rows each block of a file of n has."""
        return np.minimum(self._step, n - np.arange(0, n, self._step))

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
        lists = batch.column(0)
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)  # NaN where there is none
        if not (lengths == self.shape[1]).all():
            raise ValueError(
                f"lists of column {self._names[0]!r} must all have one length, that of the first "
                f"is {self.shape[1]}, another has {lengths[lengths != self.shape[1]][0]:g}"
            )
        values = np.asarray(lists.flatten(), dtype=self.dtype)
        return values.reshape(batch.num_rows, self.shape[1])


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def columns_of(path: Path) -> list[str]:
    """Names of the columns of a Parquet file, or of the first in a folder."""
    return list(_opened(_paths(path)[0]).schema_arrow.names)


def _paths(path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"path must have Parquet files in it, got the folder {path}")
    return files


def _opened(file: Path) -> Any:
    parquet = _parquet()
    if not file.is_file():
        raise ValueError(f"path must be a file or a folder of files, {file} is none")
    try:
        return parquet.ParquetFile(file)
    except Exception as problem:
        raise ValueError(f"{file} is not a Parquet file: {problem}") from None


def _parquet() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install cornerstep[parquet]") from None
    return parquet
