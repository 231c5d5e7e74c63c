"""Data files: svmlight/LIBSVM, CSV, Parquet, npy and npz behind one reader.

Every file is a table of examples: features X, labels y and, for chains, the sequence that each row
belongs to.

- *svmlight* (``.svm``, ``.svmlight``, ``.libsvm``, ``.txt``): the label comes first; ``qid`` is the
  sequence.
- *CSV* (``.csv``, ``.tsv``) with a heading and *Parquet* (``.parquet``): ``--target`` names the
  column of the labels, ``--sequence`` that of the sequences, all others are features.
- *npy*: a matrix X; ``--target`` names the npy file of the labels.  Read in blocks, like what
  :func:`stream` opens.
- *npz*: arrays ``X`` (or a CSR matrix as ``data``, ``indices``, ``indptr``, ``shape``), ``y`` and
  ``sequence``; optionally ``feature_names``.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.cli.screen import UserError
from cornerstep.core.npy import Archive, load_npy, require_rows_of_entries
from cornerstep.core.output import open_regular
from cornerstep.data.rows import Rows, open_rows, whole_numbers

FORMATS = {
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".txt": "svmlight",
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".npz": "npz", ".npy": "npy",
}  # fmt: skip
_STREAMED = ("svmlight", "parquet", "npy")
_BROKEN = {  # what is said of a file that cannot be read
    "svmlight": "is not an svmlight file (lines 'label index:value ...')",
    "csv": "is not a CSV file in UTF-8, save it as one",
    "parquet": "is not a Parquet file",
    "npz": "is not an npz file of plain arrays, write it with numpy.savez",
    "npy": "must be an npy file of numbers",
}
_LARGE = 0.25  # of the machine's memory: a file beyond that is read in blocks


@dataclass
class Dataset:
    """Examples as rows, with labels and sequences where the file has them."""

    path: Path
    X: Any
    y: Any = None
    sequence: Any = None
    names: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    def dense(self) -> Any:
        """X as an array, if that fits in memory."""
        if not sp.issparse(self.X):
            return self.X
        require_room(self.X.shape[0], self.X.shape[1], f"{self.path} as an array")
        return np.asarray(self.X.todense())

    def rows(self, chosen: Any) -> Dataset:
        """Some of the rows."""
        y, sequence = (None if v is None else v[chosen] for v in (self.y, self.sequence))
        return Dataset(self.path, self.X[chosen], y, sequence, self.names)

    def labelled(self) -> Dataset:
        """Itself, if it has labels."""
        if self.y is None:
            raise UserError(f"{self.path} has no labels")
        return self

    def chains(self) -> tuple[list[Any], list[Any] | None, list[Any]]:
        """Features, labels and row numbers of every sequence, in the order of the file."""
        if self.sequence is None:
            raise UserError(
                f"{self.path} does not say which rows form a chain: name the column with "
                "--sequence (svmlight: qid, npz: an array 'sequence')"
            )
        starts = np.unique(self.sequence, return_index=True)[1]
        where = [np.flatnonzero(self.sequence == self.sequence[s]) for s in np.sort(starts)]
        X = [self.X[rows] for rows in where]
        return X, None if self.y is None else [self.y[rows] for rows in where], where


def format_of(path: Path) -> str:
    """The format that a file name stands for."""
    if path.is_dir():
        return "parquet"
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise UserError(f"{path} has an unknown ending: use {', '.join(FORMATS)}") from None


def read(
    path: Path,
    *,
    target: str | None = None,
    sequence: str | None = None,
    drop: list[str] | None = None,
    features: list[str] | None = None,
    n_features: int | None = None,
    needs_labels: bool = True,
) -> Dataset:
    """Read a data file.

    Parameters
    ----------
    path : Path
    target, sequence : str, optional
        Columns of CSV and Parquet files.
    drop : list of str, optional
        Columns of these to leave out.
    features : list of str, optional
        Columns of these to take, in this order; by default all that are left.
    n_features : int, optional
        Of svmlight files, whose last columns may be empty.
    needs_labels : bool
        Complain if there are none.
    """
    kind = format_of(path)
    _require_file(path)
    if kind in ("svmlight", "npz") and (target or drop):
        option = "--target" if target else "--drop"
        raise UserError(f"{option} is for CSV and Parquet files, {path} is {kind}")
    with _reading(path, kind):
        if kind == "svmlight":
            found = _read_svmlight(path, n_features)
        elif kind == "npz":
            found = _read_npz(path)
        elif kind == "npy":
            found = _read_npy(path, target)
        else:
            table = _csv_columns(path) if kind == "csv" else _parquet_columns(path)
            if needs_labels and target is None:
                raise UserError(
                    f"{path} has no labels: name their column with --target "
                    f"(columns: {_few(list(table))})"
                )
            found = _from_columns(path, table, target, sequence, drop or [], features)
        _check(found)
    return found.labelled() if needs_labels else found


def _require_file(path: Path) -> None:
    if not path.exists():
        raise UserError(f"there is no file {path}")
    if not (path.is_file() or path.is_dir()):
        raise UserError(f"{path} must be a file: it is a pipe or a device, which may have no end")


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Say in one line whatever a reader makes of the bytes of a file."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror or problem}") from None
    except ImportError as problem:
        raise UserError(str(problem)) from None
    except Exception as problem:
        raise UserError(f"{path} {_BROKEN[kind]}: {problem or type(problem).__name__}") from None


def _check(found: Dataset) -> None:
    """Complain unless there are examples, as many of everything, and finite ones."""
    path = found.path
    if found.n == 0 or found.X.shape[1] == 0:
        raise UserError(f"{path} holds no examples or no features: it has shape {found.X.shape}")
    for values, name in ((found.y, "labels"), (found.sequence, "sequences")):
        if values is not None and np.shape(values) != (found.n,):
            raise UserError(
                f"{path} has {found.n} rows of features and {name} of shape {np.shape(values)}"
            )
    if found.names and len(found.names) != found.X.shape[1]:
        raise UserError(f"{path} has {found.X.shape[1]} features and {len(found.names)} names")
    _require_finite(found)


def require_room(rows: float, columns: float, what: str) -> None:
    """Complain about a matrix of float64 that is larger than the machine's memory."""
    if 8.0 * rows * columns > _memory():
        raise UserError(
            f"{what} would be a matrix of {rows:,.0f} rows and {columns:,.0f} columns, which does "
            "not fit in memory"
        )


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_large(path: Path) -> bool:
    """Whether a file, or a folder of Parquet files, is better read in blocks of rows."""
    if path.is_dir() or format_of(path) == "npy":
        return True
    if format_of(path) not in _STREAMED or not path.exists():
        return False
    return path.stat().st_size > _LARGE * _memory()


def stream(
    path: Path,
    *,
    target: str | None,
    drop: list[str] | None = None,
    features: list[str] | None = None,
    n_features: int | None = None,
    needs_labels: bool = True,
) -> Dataset:
    """Open a data file whose rows stay on disk; labels are read.

    Parameters are those of :func:`read`.  A target that is not there matters only where labels are
    needed.
    """
    kind = format_of(path)
    _require_file(path)
    if kind not in _STREAMED:
        raise UserError(f"--stream is for Parquet, svmlight and npy files, {path} is {kind}")
    if drop and kind != "parquet":
        raise UserError(f"--drop is for CSV and Parquet files, {path} is {kind}")
    if target is None and kind != "svmlight" and needs_labels:
        what = "their column" if kind == "parquet" else "the npy file that has them"
        raise UserError(f"{path} has no labels: name {what} with --target")
    with _reading(path, kind):
        if kind == "parquet" and not needs_labels and target not in _columns(path):
            target = None
        rows = _opened(path, kind, target, drop or [], features, n_features)
        if not needs_labels:
            return Dataset(path, rows, names=rows.feature_names or [])
        labels = load_npy(str(target)) if kind == "npy" else rows.target
        if labels is None:
            raise UserError(f"{path} has no labels")
        y = _labels(_complete(path, target or "label", labels))
    if y.shape != rows.shape[:1]:
        raise UserError(f"{path} has {rows.shape[0]} rows of features and labels of {y.shape}")
    return Dataset(path, rows, y, names=rows.feature_names or [])


def _opened(
    path: Path,
    kind: str,
    target: str | None,
    drop: list[str],
    features: list[str] | None,
    n_features: int | None,
) -> Rows:
    if kind != "parquet":
        return open_rows(path, n_features=n_features)
    rows = open_rows(path, target=target, features=features)
    if drop:
        features = [name for name in rows.feature_names or [] if name not in drop]
        rows = open_rows(path, target=target, features=features)
    rows.feature_names = features or rows.feature_names
    return rows


def _columns(path: Path) -> list[str]:
    """Names of the columns of a Parquet file, or of the first in a folder."""
    from cornerstep.data.parquet_rows import ParquetRows

    return ParquetRows(path).columns


def _require_finite(data: Dataset) -> None:
    values = data.X.data if sp.issparse(data.X) else data.X
    if not np.isfinite(values).all():
        where = ""
        if not sp.issparse(data.X):
            row, column = np.argwhere(~np.isfinite(data.X))[0]
            name = f"{data.names[column]!r}" if data.names else f"{column + 1}"
            where = f", the first in row {row + 1}, column {name}"
        raise UserError(f"{data.path} has missing or infinite values{where}: fill or remove them")


def _labels(values: Any) -> Any:
    """Labels as whole numbers where they are, else as they are."""
    values = np.asarray(values)
    if values.dtype.kind in "OU":
        words = np.array([str(v) for v in values])
        try:
            return words.astype(np.int64)
        except (ValueError, OverflowError):
            return words
    return whole_numbers(values) if values.dtype.kind == "f" else values


def _read_svmlight(path: Path, n_features: int | None) -> Dataset:
    from sklearn.datasets import load_svmlight_file

    try:
        with open_regular(path) as file:
            X, y, qid = load_svmlight_file(file, n_features=n_features, query_id=True)
    except ValueError as problem:
        if n_features is not None and "n_features" in str(problem):
            raise UserError(f"{path} has features beyond the model's {n_features}") from None
        raise
    sequence = qid if np.asarray(qid).any() else None
    return Dataset(path, sp.csr_array(X), _labels(y), sequence)


def _read_npz(path: Path) -> Dataset:
    with Archive(path) as file:
        arrays = {name.removesuffix(".npy"): file.array(name)[0] for name in file.names()}
    names = [str(name) for name in arrays.get("feature_names", [])]
    if {"data", "indices", "indptr", "shape"} <= set(arrays):
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        shape = tuple(arrays["shape"].tolist())
        require_rows_of_entries(parts, shape[0])
        X: Any = sp.csr_array(parts, shape=shape)
        X.check_format(full_check=True)
    elif "X" in arrays:
        X = arrays["X"]
    else:
        raise UserError(f"{path} has no array X; it has {_few(sorted(arrays))}")
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise UserError(
            f"X in {path} must be a matrix of numbers, got {X.dtype} of shape {X.shape}"
        )
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    y = arrays.get("y")
    return Dataset(path, X, None if y is None else _labels(y), arrays.get("sequence"), names)


def _read_npy(path: Path, target: str | None) -> Dataset:
    X = load_npy(path)
    y = None if target is None else _labels(load_npy(target))
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise UserError(f"{path} must hold a matrix of numbers, got {X.dtype} of shape {X.shape}")
    return Dataset(path, X if X.dtype.kind == "f" else X.astype(np.float64), y)


def _csv_columns(path: Path) -> dict[str, Any]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise UserError(
            f"{path} must have a heading and at least one row, it has {len(rows)} lines"
        )
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{path} has two columns named {twice!r}: rename one")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise UserError(
                f"{path} has {len(row)} values in line {number}, its heading has {len(names)}"
            )
    return {
        name: list(values) for name, values in zip(names, zip(*rows[1:], strict=True), strict=True)
    }


def _parquet_columns(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError("Parquet files need pyarrow: pip install 'cornerstep[parquet]'") from None
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _from_columns(
    path: Path,
    table: dict[str, Any],
    target: str | None,
    sequence: str | None,
    drop: list[str],
    features: list[str] | None,
) -> Dataset:
    asked = [("--target", target), ("--sequence", sequence), *(("--drop", name) for name in drop)]
    asked += [("a feature of the model", name) for name in features or []]
    for option, name in asked:
        if name is not None and name not in table:
            raise UserError(
                f"{path} has no column {name!r} ({option}); its columns are {_few(list(table))}"
            )
    names = features or [name for name in table if name not in (target, sequence, *drop)]
    X = np.empty((len(next(iter(table.values()))), len(names)))
    for k, name in enumerate(names):
        X[:, k] = _numbers(path, name, table[name])
    y = None if target is None else _labels(_complete(path, target, table[target]))
    order = None if sequence is None else np.asarray(table[sequence]).astype(str)
    return Dataset(path, X, y, order, names)


def _complete(path: Path, name: str, values: Any) -> Any:
    """The labels, if every row has one."""
    for row, value in enumerate(values, start=1):
        if value is None or value != value or (isinstance(value, str) and not value.strip()):
            raise UserError(
                f"column {name!r} of {path} has no label in row {row}: fill in or remove it"
            )
    return np.asarray(values)


def _numbers(path: Path, name: str, values: Any) -> Any:
    try:
        return np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError):
        for row, value in enumerate(values, start=1):
            try:
                float(value)
            except (ValueError, TypeError):
                raise UserError(
                    f"column {name!r} of {path} must hold numbers, row {row} has {value!r}: "
                    f"leave it out with --drop {name}, or name it with --target if it has labels"
                ) from None
        raise


def _few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
