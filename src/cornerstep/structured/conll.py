"""Sentences of files in the columns of the CoNLL shared tasks.

A line is a token, its fields separated by blanks (or by tabs where a line has some); an empty line
ends a sentence.  Lines that begin with ``-DOCSTART-``, and before a sentence with ``#`` and another
number of fields, are left out.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
    path: str | os.PathLike[str],
    columns: Sequence[str],
    target: str | None = None,
    *,
    needs_labels: bool = True,
) -> ConllSentences:
    r"""Read sentences from a text file with a column per feature, one of them the label.

    Parameters
    ----------
    path : path-like
        Text in UTF-8, or packed as .gz.
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
            f"{os.fspath(path)} must have the columns {', '.join(columns)}, got {first} fields"
        )
    own = columns if has_labels else [name for name in columns if name != target]
    taken = [(k, name) for k, name in enumerate(own) if name not in (IGNORED, target)]
    X = [[{name: row[k] for k, name in taken} for row in sentence] for sentence in rows]
    if not has_labels:
        return ConllSentences(rows, X, [[] for _ in rows])
    place = own.index(target)
    return ConllSentences(rows, X, [[row[place] for row in sentence] for sentence in rows])


def _rows(path: str | os.PathLike[str], width: int) -> tuple[list[list[list[str]]], int | None]:
    """The fields of all tokens, and how many each has."""
    sentences: list[list[list[str]]] = []
    sentence: list[list[str]] = []
    fields_of_first: int | None = None
    for number, line in enumerate(_lines(path), 1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or fields[0] == "-DOCSTART-":
            if sentence:
                sentences.append(sentence)
                sentence = []
            continue
        expected = fields_of_first or width
        if line.startswith("#") and not sentence and len(fields) != expected:
            continue
        if fields_of_first is None:
            fields_of_first = len(fields)
        if len(fields) != fields_of_first or not all(fields):
            raise ValueError(
                f"{os.fspath(path)} must have {fields_of_first} fields in each line, as in its "
                f"first, got {sum(map(bool, fields))} in line {number}"
            )
        sentence.append(fields)
    return sentences + [sentence] * bool(sentence), fields_of_first


def _lines(path: str | os.PathLike[str]) -> Iterator[str]:
    packed = os.fspath(path).endswith(".gz")
    with (
        gzip.open(path, "rt", encoding="utf-8-sig")
        if packed
        else open(path, encoding="utf-8-sig") as file
    ):
        try:
            for line in file:
                yield line.rstrip("\r\n")
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as problem:
            raise ValueError(f"{os.fspath(path)} must be text in UTF-8: {problem}") from None
