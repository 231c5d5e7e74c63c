"""Sentences of files in the columns of the CoNLL shared tasks.

A line is a token, its fields separated by blanks (or by tabs where a line has some); an empty line
ends a sentence.  Left out are lines that begin with ``-DOCSTART-``; before a sentence those with
``#`` and another number of fields, or with no tab where the sentence has some; and, of the ten
columns between tabs of CoNLL-U, those of words that are several tokens (``1-2``) or none (``8.1``).
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TextIO

_CONLL_U = 10  # columns, the first of them the number of the token
_NO_TOKEN = re.compile(r"\d+[-.]\d+")
IGNORED = "_"  # the name of a column that is left out


class ConllSentences(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    rows : list of lists of lists of str
        The fields of each token of each sentence.
    X : list of lists of dict
        The same by the names of the columns but the label's, as :class:`SequenceTagger` takes them.
    y : list of lists of str
        The labels; empty ones where the file has none.
    """

    rows: list[list[list[str]]]
    X: list[list[dict[str, str]]]
    y: list[list[str]]


def read_conll(
    path: str | os.PathLike[str] | TextIO,
    columns: Sequence[str],
    target: str | None = None,
    *,
    needs_labels: bool = True,
) -> ConllSentences:
    r"""Read sentences from a text file with a column per feature, one of them the label.

    Parameters
    ----------
    path : path-like or text file
        Text in UTF-8, or packed as .gz; or what is open for reading, as ``sys.stdin``.
    columns : sequence of str
        Names, in order; '_' for columns to leave out.
    target : str, optional
        Which of them is the label; by default the last one.
    needs_labels : bool
        Whether a file without the column of the label is an error.

    Returns
    -------
    ConllSentences

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from cornerstep.structured import read_conll
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "train.conll")
    ...     _ = file.write_text("the DT B-NP\ncat NN I-NP\n\nit PRP B-NP\n")
    ...     found = read_conll(file, ["word", "pos", "tag"])
    >>> found.X[0], found.y
    ([{'word': 'the', 'pos': 'DT'}, {'word': 'cat', 'pos': 'NN'}], [['B-NP', 'I-NP'], ['B-NP']])
    """
    columns = list(columns)
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise ValueError(f"columns must be names, got {columns!r}")
    named = [name for name in columns if name != IGNORED]
    if len(set(named)) < len(named):
        raise ValueError(f"columns must differ, got {', '.join(columns)}")
    target = columns[-1] if target is None else target
    if target not in named or len(named) < 2:
        raise ValueError(
            f"target must be one of the columns beside another, got {target!r} of "
            f"{', '.join(columns)}"
        )
    rows, first = _rows(path, len(columns))
    has_labels = first is None or first == len(columns)
    if not has_labels and (needs_labels or first != len(columns) - 1):
        raise ValueError(
            f"{_name(path)} must have the columns {', '.join(columns)}, got {first} fields"
        )
    own = columns if has_labels else [name for name in columns if name != target]
    taken = [(k, name) for k, name in enumerate(own) if name not in (IGNORED, target)]
    X = [[{name: row[k] for k, name in taken} for row in sentence] for sentence in rows]
    if not has_labels:
        return ConllSentences(rows, X, [[] for _ in rows])
    place = own.index(target)
    return ConllSentences(rows, X, [[row[place] for row in sentence] for sentence in rows])


def _rows(
    path: str | os.PathLike[str] | TextIO, width: int
) -> tuple[list[list[list[str]]], int | None]:
    """The fields of all tokens, and how many each has."""
    sentences: list[list[list[str]]] = []
    fields_of_first: int | None = None
    for block in _blocks(path):
        tabs = any("\t" in line for _, line in block)
        sentence: list[list[str]] = []
        for number, line in block:
            fields = _fields(line)
            expected = fields_of_first or width
            other = len(fields) != expected or (tabs and "\t" not in line)
            if line.startswith("#") and not sentence and other:
                continue
            if len(fields) == _CONLL_U and "\t" in line and _NO_TOKEN.fullmatch(fields[0]):
                continue
            if fields_of_first is None:
                fields_of_first = len(fields)
            if len(fields) != fields_of_first or not all(fields):
                got = "an empty one" if not all(fields) else f"{len(fields)}"
                raise ValueError(
                    f"{_name(path)} must have {fields_of_first} fields in each line, as in its "
                    f"first, got {got} in line {number}"
                )
            sentence.append(fields)
        sentences += [sentence] * bool(sentence)
    return sentences, fields_of_first


def _fields(line: str) -> list[str]:
    """Blanks and tabs separate; other spaces, such as those that do not break, are letters."""
    if "\t" in line:
        return [field.strip(" ") for field in line.split("\t")]
    return [field for field in line.split(" ") if field]


def _blocks(path: str | os.PathLike[str] | TextIO) -> Iterator[list[tuple[int, str]]]:
    """Lines with their numbers, as far as no empty line is between them."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(_lines(path), 1):
        if line and _fields(line)[0] != "-DOCSTART-":
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _name(path: str | os.PathLike[str] | TextIO) -> str:
    return os.fspath(path) if isinstance(path, str | os.PathLike) else "the text"


def _lines(path: str | os.PathLike[str] | TextIO) -> Iterator[str]:
    """Without what is empty at their ends."""
    try:
        with _opened(path) as file:
            for line in file:
                yield line.rstrip(" \t\r\n")
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise ValueError(f"{_name(path)} must be text in UTF-8: {problem}") from None


def _opened(
    path: str | os.PathLike[str] | TextIO,
) -> AbstractContextManager[Iterable[str]]:
    if not isinstance(path, str | os.PathLike):
        return nullcontext(path)
    if os.fspath(path).endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return open(path, encoding="utf-8-sig")
