"""CSV files as they come: words, numbers and gaps, packed or not, separator and heading found out.

``CsvTable`` finds out how a file is written and reads it in chunks of rows, as often as needed.
``Scan`` makes numbers or words of its columns in one pass; ``CsvRows`` has the rows of a file that
stays on disk.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from cornerstep.core.output import open_regular
from cornerstep.data.rows import Rows

#: Texts that stand for a missing value, in small letters.
MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "?"))
_SEPARATORS = (",", ";", "\t", "|")
_LOOK = 2**16  # characters from which separator and heading are found out
_CHUNK = 2**18  # values in a chunk of rows
_PACKED = b"\x1f\x8b"


class TableError(ValueError):
    """What is wrong with a table that can be read."""


class CsvTable:
    """A CSV file, or its bytes.

    Parameters
    ----------
    source : Path or bytes
        Packed by gzip or not.
    sep : str, optional
        The separator; by default comma, semicolon, tab or bar, whatever fits the first lines.
    heading : bool, optional
        Whether the first row has the names of the columns; by default found out: it has none if
        it has numbers where the rows below have.
    known : collection of str
        Names that columns are asked for by: a first row with one of them is a heading.

    Attributes
    ----------
    names : list of str
        ``x1``, ``x2``, ... where the file has none.
    sep : str
    heading : bool
    """

    def __init__(
        self, source: Path | bytes, *, sep: str | None = None,
        heading: bool | None = None, known: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.source = source
        with self._text() as file:
            text = file.read(_LOOK)
            whole = len(text) < _LOOK
        self.sep = sep or _separator(text, whole)
        first = [row for row in islice(_records(text, self.sep, whole), 100) if row]
        if not first:
            raise TableError("it must have a heading and at least one row, it is empty")
        self.heading = _has_heading(first, set(known), self) if heading is None else heading
        given = [cell.strip() for cell in first[0]] if self.heading else [""] * len(first[0])
        self.names = [name or f"x{k + 1}" for k, name in enumerate(given)]
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise TableError(f"it has two columns named {twice!r}: rename one, or give --no-header")

    @contextmanager
    def _text(self) -> Iterator[Any]:
        raw: Any = io.BytesIO(self.source) if isinstance(self.source, bytes) else None
        raw = open_regular(self.source) if isinstance(self.source, Path) else raw
        with raw:
            packed = raw.read(2) == _PACKED
            raw.seek(0)
            unpacked = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(unpacked, encoding="utf-8-sig", newline="") as file:
                yield file

    def chunks(self) -> Iterator[list[tuple[str, ...]]]:
        """The columns of some rows at a time."""
        size = max(1, _CHUNK // len(self.names))
        with self._text() as file:
            reader = csv.reader(file, delimiter=self.sep)
            rows = (self._fits(row, reader.line_num) for row in reader if row)
            if self.heading:
                next(rows, None)
            while some := list(islice(rows, size)):
                yield list(zip(*some, strict=True))

    def _fits(self, row: list[str], line: int) -> list[str]:
        if len(row) != len(self.names):
            raise TableError(
                f"it has {len(row)} values in line {line}, its first row has {len(self.names)}"
            )
        return row

    @property
    def comma(self) -> bool:
        """Whether a comma is the decimal point: where it does not separate, it may be."""
        return self.sep == ";"


def _records(text: str, sep: str, whole: bool) -> Iterator[list[str]]:
    """The rows of the beginning of a file, but for the last if that may be cut off."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=sep)
    last = None
    for row in rows:
        if last:
            yield last
        last = row
    if last and whole:
        yield last


def _separator(text: str, whole: bool) -> str:
    """The separator by which most of the first rows have as many values, and the most of them."""

    def fit(sep: str) -> tuple[float, int]:
        widths = [len(row) for row in islice(_records(text, sep, whole), 100) if row]
        if not widths or widths[0] == 1:
            return 0.0, 1
        return widths.count(widths[0]) / len(widths), widths[0]

    return max(_SEPARATORS, key=fit)


def _has_heading(rows: list[list[str]], known: set[str], table: CsvTable) -> bool:
    """Whether the first row has names: words where those below have numbers, or known ones."""
    first = [cell.strip() for cell in rows[0]]
    if known & set(first):
        return True
    counted = [str(k) for k in range(len(first) + 1)]
    if len(rows) > 1 and first in (counted[:-1], counted[1:]):
        return True
    below = [row for row in rows[1:] if len(row) == len(first)]
    if not below:
        return not any(_is_number(cell, table.comma) for cell in first)
    over = [
        _is_number(cell, table.comma)
        for cell, cells in zip(first, zip(*below, strict=True), strict=True)
        if as_numbers(cells, table.comma) is not None and cell.lower() not in MISSING
    ]  # for each column of numbers, whether the first row has one too
    return not over or not all(over)


def _is_number(cell: str, comma: bool) -> bool:
    found = as_numbers((cell,), comma)
    return found is not None and not math.isnan(found[0])


def as_numbers(texts: Any, comma: bool = False) -> Any:
    """Texts as numbers, NaN where they are missing; None if one is neither."""
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        pass
    try:
        return np.array([_number(text, comma) for text in texts])
    except ValueError:
        return None


def _number(text: str, comma: bool) -> float:
    word = text.strip()
    if word.lower() in MISSING:
        return math.nan
    return float(word.replace(",", ".", 1) if comma else word)


def as_words(texts: Any) -> Any:
    """Texts as words, NaN where they are missing, as in a DataFrame."""
    words = np.empty(len(texts), dtype=object)
    words[:] = [math.nan if (word := text.strip()).lower() in MISSING else word for text in texts]
    return words


class Scan:
    """What one pass over a CSV file finds: numbers or words, labels, and some or all rows.

    Parameters
    ----------
    table : CsvTable
    features : list of str
        Columns to be numbers or words.
    raw : list of str
        Columns to be kept as they are.
    words : collection of str, optional
        Columns that are words whatever they look like; the others are numbers, or the pass
        complains.  By default found out.
    keep : bool
        Whether the columns are kept.

    Attributes
    ----------
    columns : dict
        Features, if they are kept.
    raw : dict
        Texts.
    words : list of str
    sizes : list of int
        Rows of the chunks.
    """

    def __init__(
        self, table: CsvTable, features: list[str], raw: list[str],
        words: Iterable[str] | None = None, *, keep: bool = True,
    ) -> None:  # fmt: skip
        self.sizes: list[int] = []
        self.raw: dict[str, list[str]] = {name: [] for name in raw}
        found = {name: words is not None and name in set(words) for name in features}
        parts: dict[str, list[Any]] = {name: [] for name in features}
        late = set()
        at = {name: k for k, name in enumerate(table.names)}
        for chunk in table.chunks():
            for name, texts in self.raw.items():
                texts.extend(chunk[at[name]])
            for name in features:
                values = None if found[name] else as_numbers(chunk[at[name]], table.comma)
                if values is None and not found[name]:
                    if words is not None:
                        raise _not_numbers(table, name, chunk[at[name]], sum(self.sizes))
                    found[name] = True
                    late |= {name} if self.sizes else set()
                if keep:
                    parts[name].append(as_words(chunk[at[name]]) if values is None else values)
            self.sizes.append(len(chunk[0]))
        self.words = [name for name in features if found[name]]
        self.columns: dict[str, Any] = {}
        if not self.sizes:
            raise TableError("it must have a heading and at least one row, it has no rows")
        if keep and late:  # numbers at first, as words they read otherwise
            self.columns = Scan(table, features, [], self.words).columns
        elif keep:
            self.columns = {name: np.concatenate(some) for name, some in parts.items()}


def _not_numbers(table: CsvTable, name: str, texts: Any, before: int) -> TableError:
    row, text = next(
        (k, text) for k, text in enumerate(texts) if as_numbers((text,), table.comma) is None
    )
    return TableError(
        f"column {name!r} must hold numbers, as in training, row {before + row + 1} has {text!r}"
    )


def matrix(columns: list[Any]) -> Any:
    """Columns side by side: numbers, or objects where some are words."""
    kind = object if any(each.dtype.kind == "O" for each in columns) else np.float64
    out = np.empty((len(columns[0]), len(columns)), dtype=kind)
    for k, each in enumerate(columns):
        out[:, k] = each
    return out


class CsvRows(Rows):
    """The rows of a CSV file that stays on disk: numbers with gaps, or objects.

    Parameters
    ----------
    table : CsvTable
        Of a file.
    features : list of str
    words : list of str
        Those of them that are words.
    sizes : list of int
        Rows of the chunks, as a scan counted them.
    """

    _reopens = True

    def __init__(
        self, table: CsvTable, features: list[str], words: list[str], sizes: list[int]
    ) -> None:
        self._table, self._words, self._sizes = table, words, sizes
        if isinstance(table.source, Path):
            self._remember(table.source)
        self.feature_names = features
        self.starts = np.cumsum([0, *sizes])
        self.shape = int(self.starts[-1]), len(features)
        self.dtype = np.dtype(object if words else np.float64)

    def columns(self, features: list[str], words: list[str]) -> CsvRows:
        """The same rows with some of their columns."""
        return CsvRows(self._table, features, words, self._sizes)

    def _blocks(self) -> Iterator[Any]:
        table, names = self._table, self.feature_names or []
        at = {name: k for k, name in enumerate(table.names)}
        for chunk in table.chunks():
            columns = []
            for name in names:
                texts = chunk[at[name]]
                known = name in self._words
                values = as_words(texts) if known else as_numbers(texts, table.comma)
                if values is None:
                    raise _not_numbers(table, name, texts, 0)
                columns.append(values)
            yield matrix(columns)
