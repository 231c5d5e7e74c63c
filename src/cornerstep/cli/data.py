"""Data files: svmlight/LIBSVM, CSV, Parquet, npy and npz behind one reader.

Every file is a table of examples: features X, labels y and, for chains, the sequence that each row
belongs to.

- *svmlight* (``.svm``, ``.svmlight``, ``.libsvm``, ``.txt``): the label comes first; ``qid`` is the
  sequence.
- *CSV* (``.csv``, ``.tsv``, packed with ``.gz``, or ``-``: standard input) and *Parquet*
  (``.parquet``): ``--target`` names the column of the labels, ``--sequence`` that of the
  sequences, all others are features: numbers, words, and gaps in both.
- *npy*: a matrix X; ``--target`` names the npy file of the labels.  Read in blocks, like what
  :func:`stream` opens.
- *npz*: arrays ``X`` (or a CSR matrix as ``data``, ``indices``, ``indptr``, ``shape``), ``y`` and
  ``sequence``; optionally ``feature_names``.
"""

from __future__ import annotations

import os
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.cli.screen import UserError
from cornerstep.core.npy import Archive, load_npy, require_rows_of_entries
from cornerstep.core.output import open_regular
from cornerstep.data.csv_table import (
    CsvRows,
    CsvTable,
    Scan,
    TableError,
    as_numbers,
    as_words,
    matrix,
)
from cornerstep.data.parquet_rows import columns_of
from cornerstep.data.rows import ChosenRows, Rows, open_rows, whole_numbers

FORMATS = {
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".txt": "svmlight",
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".npz": "npz", ".npy": "npy",
}  # fmt: skip
_STREAMED = ("svmlight", "parquet", "npy", "csv")
STDIN = Path("-")
_BROKEN = {  # what is said of a file that cannot be read
    "svmlight": "is not an svmlight file (lines 'label index:value ...')",
    "csv": "cannot be read as a CSV file in UTF-8",
    "parquet": "is not a Parquet file",
    "npz": "is not an npz file of plain arrays, write it with numpy.savez",
    "npy": "must be an npy file of numbers",
}
_LARGE = 0.25  # of the machine's memory: a file beyond that is read in blocks


class Layout(NamedTuple):
    """How a CSV file is written, where that is not to be found out."""

    sep: str | None = None
    heading: bool | None = None


_FOUND_OUT = Layout()


@dataclass
class Dataset:
    """Examples as rows, with labels and sequences where the file has them.

    Of a table, columns may have gaps, and those in ``words`` hold words.
    """

    path: Path
    X: Any
    y: Any = None
    sequence: Any = None
    names: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    layout: Layout = _FOUND_OUT

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
        X = ChosenRows(self.X, chosen) if isinstance(self.X, Rows) else self.X[chosen]
        return replace(self, X=X, y=y, sequence=sequence)

    def columns(self, names: list[str]) -> Dataset:
        """Some of the columns of a table."""
        at = [self.names.index(name) for name in names]
        words = [name for name in names if name in self.words]
        if isinstance(self.X, CsvRows):
            return replace(self, X=self.X.columns(names, words), names=names, words=words)
        if isinstance(self.X, Rows):
            rows = open_rows(self.path, features=names)
            return replace(self, X=rows, names=names)
        X = self.X[:, at] if words else self.X[:, at].astype(np.float64)
        return replace(self, X=X, names=names, words=words)

    def sample(self, most: int) -> tuple[Any, Any]:
        """At most so many rows, evenly spread, and their numbers."""
        at = np.unique(np.linspace(0, self.n - 1, min(self.n, most)).astype(np.int64))
        return (ChosenRows(self.X, at).held() if isinstance(self.X, Rows) else self.X[at]), at

    def numeric(self) -> Dataset:
        """Itself, if every value is a number."""
        if self.words:
            k = self.names.index(self.words[0])
            strange = (i for i, value in enumerate(self.X[:, k]) if not _is_number(value))
            row = next(strange, 0)
            raise UserError(
                f"column {self.words[0]!r} of {self.path} must hold numbers, row {row + 1} has "
                f"{self.X[row, k]!r}"
            )
        _require(np.isfinite, "missing or infinite", self)
        return self

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
    if path == STDIN:
        return "csv"
    packed = path.suffix.lower() == ".gz"
    kind = FORMATS.get(Path(path.stem if packed else path).suffix.lower())
    if kind is None or (packed and kind != "csv"):
        raise UserError(
            f"{path} has an unknown ending: use {', '.join(FORMATS)}, .csv.gz, or - for a CSV file "
            "on standard input"
        )
    return kind


def read(
    path: Path,
    *,
    target: str | None = None,
    sequence: str | None = None,
    drop: list[str] | None = None,
    features: list[str] | None = None,
    words: list[str] | None = None,
    n_features: int | None = None,
    needs_labels: bool = True,
    layout: Layout = _FOUND_OUT,
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
    words : list of str, optional
        Which of these hold words, the others numbers; by default found out.
    n_features : int, optional
        Of svmlight files, whose last columns may be empty.
    needs_labels : bool
        Complain if there are none.
    layout : Layout
        Of CSV files.
    """
    kind = format_of(path)
    _require_file(path)
    if kind in ("svmlight", "npz") and (target or drop):
        option = "--target" if target else "--drop"
        raise UserError(f"{option} is for CSV and Parquet files, {path} is {kind}")
    if kind != "csv" and layout != _FOUND_OUT:
        raise UserError(f"--sep and --no-header are for CSV files, {path} is {kind}")
    with _reading(path, kind):
        if kind == "svmlight":
            found = _read_svmlight(path, n_features)
        elif kind == "npz":
            found = _read_npz(path)
        elif kind == "npy":
            found = _read_npy(path, target)
        else:
            asked = _Asked(target, sequence, drop or [], features, words)
            found = (
                _read_csv(path, asked, layout, needs_labels)
                if kind == "csv"
                else _read_parquet(path, asked, needs_labels)
            )
        _check(found)
    return found.labelled() if needs_labels else found


def _require_file(path: Path) -> None:
    if path == STDIN:
        return
    if not path.exists():
        raise UserError(f"there is no file {path}")
    if not (path.is_file() or path.is_dir()):
        raise UserError(
            f"{path} must be a file: it is a pipe or a device, which may have no end (- is "
            "standard input)"
        )


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Say in one line whatever a reader makes of the bytes of a file."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except TableError as problem:
        raise UserError(f"{path}: {problem}") from None
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror or problem}") from None
    except ImportError as problem:
        raise UserError(str(problem)) from None
    except Exception as problem:
        how = ""
        if isinstance(problem, UnicodeDecodeError):
            marked = problem.object[:2] in (BOM_UTF16_LE, BOM_UTF16_BE)
            encoding = "UTF-16" if marked else "WINDOWS-1252"
            how = f"; convert it, such as by iconv -f {encoding} -t UTF-8"
        what = f"{problem or type(problem).__name__}{how}"
        raise UserError(f"{path} {_BROKEN[kind]}: {what}") from None


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
    if format_of(path) in ("csv", "parquet"):
        _require(lambda values: ~np.isinf(values), "infinite", found)
    else:
        _require(np.isfinite, "missing or infinite", found)


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
    words: list[str] | None = None,
    n_features: int | None = None,
    needs_labels: bool = True,
    layout: Layout = _FOUND_OUT,
) -> Dataset:
    """Open a data file whose rows stay on disk; labels are read.

    Parameters are those of :func:`read`.  A target that is not there matters only where labels are
    needed.
    """
    kind = format_of(path)
    _require_file(path)
    if kind not in _STREAMED or path == STDIN:
        raise UserError(
            f"--stream is for CSV, Parquet, svmlight and npy files, {path} is "
            f"{'standard input' if path == STDIN else kind}"
        )
    if drop and kind not in ("csv", "parquet"):
        raise UserError(f"--drop is for CSV and Parquet files, {path} is {kind}")
    if target is None and kind != "svmlight" and needs_labels:
        what = "the npy file that has them" if kind == "npy" else "their column"
        raise UserError(f"{path} has no labels: name {what} with --target")
    with _reading(path, kind):
        if kind == "csv":
            asked = _Asked(target if needs_labels else None, None, drop or [], features, words)
            return _read_csv(path, asked, layout, needs_labels, keep=False)
        if kind == "parquet" and not needs_labels and target not in columns_of(path):
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
    if drop:
        features = [name for name in columns_of(path) if name not in (*drop, target)]
    rows = open_rows(path, target=target, features=features)
    if features and len(features) == rows.shape[1]:  # else a column has lists of them
        rows.feature_names = features
    return rows


def _require(fits: Callable[[Any], Any], what: str, data: Dataset) -> None:
    """Complain about the first number that does not fit."""
    if isinstance(data.X, Rows):
        return
    if sp.issparse(data.X):
        if not fits(data.X.data).all():
            raise UserError(f"{data.path} has {what} values: fill or remove them")
        return
    numbers = [k for k, name in enumerate(data.names) if name not in data.words]
    values = data.X if not data.words else data.X[:, numbers].astype(np.float64)
    if not fits(values).all():
        row, column = np.argwhere(~fits(values))[0]
        name = f"{data.names[numbers[column]]!r}" if data.names else f"{column + 1}"
        raise UserError(
            f"{data.path} has {what} values, the first in row {row + 1}, column {name}: fill or "
            "remove them"
        )


def _is_number(value: Any) -> bool:
    return as_numbers((str(value),)) is not None


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


class _Asked(NamedTuple):
    """Columns of a table that were asked for."""

    target: str | None
    sequence: str | None
    drop: list[str]
    features: list[str] | None
    words: list[str] | None

    def named(self) -> list[tuple[str, str]]:
        """What each name was given as, and the name."""
        options = [("--target", self.target), ("--sequence", self.sequence)]
        named = [(option, name) for option, name in options if name is not None]
        named += [("--drop", name) for name in self.drop]
        return named + [("a feature of the model", name) for name in self.features or []]

    def chosen(self, path: Path, names: list[str], needs_labels: bool) -> list[str]:
        """The features among the columns of a file."""
        if needs_labels and self.target is None:
            raise UserError(
                f"{path} has no labels: name their column with --target (columns: {_few(names)})"
            )
        for option, name in self.named():
            if name not in names:
                raise UserError(
                    f"{path} has no column {name!r} ({option}); its columns are {_few(names)}"
                )
        others = (self.target, self.sequence, *self.drop)
        return self.features or [name for name in names if name not in others]


def _read_csv(
    path: Path, asked: _Asked, layout: Layout, needs_labels: bool, *, keep: bool = True
) -> Dataset:
    source = sys.stdin.buffer.read() if path == STDIN else path
    table = CsvTable(
        source, sep=layout.sep, heading=layout.heading, known=[name for _, name in asked.named()]
    )
    features = asked.chosen(path, table.names, needs_labels)
    if not features:
        raise UserError(f"{path} has no columns but the labels: {_few(table.names)}")
    raw = [name for name in (asked.target, asked.sequence) if name is not None]
    scan = Scan(table, features, raw, asked.words, keep=keep)
    if keep:
        X: Any = matrix([scan.columns[name] for name in features])
    else:
        X = CsvRows(table, features, scan.words, scan.sizes)
    y = None
    if asked.target is not None:
        y = _labels(_complete(path, asked.target, scan.raw[asked.target]))
    sequence = None if asked.sequence is None else np.asarray(scan.raw[asked.sequence])
    used = Layout(table.sep, table.heading)
    return Dataset(path, X, y, sequence, features, scan.words, used)


def _read_parquet(path: Path, asked: _Asked, needs_labels: bool) -> Dataset:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError("Parquet files need pyarrow: pip install 'cornerstep[parquet]'") from None
    table = pq.read_table(path)
    features = asked.chosen(path, table.column_names, needs_labels)
    columns = [_typed(path, name, table[name].to_numpy(), asked.words) for name in features]
    words = [name for name, each in zip(features, columns, strict=True) if each.dtype.kind == "O"]
    X = matrix(columns) if columns else np.empty((table.num_rows, 0))
    y = sequence = None
    if asked.target is not None:
        y = _labels(_complete(path, asked.target, table[asked.target].to_numpy()))
    if asked.sequence is not None:
        sequence = table[asked.sequence].to_numpy().astype(str)
    return Dataset(path, X, y, sequence, features, words)


def _typed(path: Path, name: str, values: Any, words: list[str] | None) -> Any:
    """A column of a Parquet file as numbers or words; where ``words`` says which, as that."""
    is_word = name in words if words is not None else values.dtype.kind not in "iufO"
    if values.dtype.kind in "iuf" and not is_word:
        return values.astype(np.float64)
    texts = ["" if value is None or value != value else str(value) for value in values]
    if words is None and any(isinstance(value, str | bool) for value in values):
        is_word = True
    numbers = None if is_word else as_numbers(texts)
    if numbers is None and words is not None and not is_word:
        row = next(k for k, text in enumerate(texts) if as_numbers((text,)) is None)
        raise UserError(
            f"column {name!r} of {path} must hold numbers, as in training, row {row + 1} has "
            f"{texts[row]!r}"
        )
    return as_words(texts) if numbers is None else numbers


def _complete(path: Path, name: str, values: Any) -> Any:
    """The labels, if every row has one."""
    for row, value in enumerate(values, start=1):
        if value is None or value != value or (isinstance(value, str) and not value.strip()):
            raise UserError(
                f"column {name!r} of {path} has no label in row {row}: fill in or remove it"
            )
    return np.asarray(values)


def _few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
