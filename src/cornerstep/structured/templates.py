"""Templates of features: in one line, what a token's neighbours say of it.

- ``word[-2..2]``: the words from two before to two after, a feature each;
- ``word[-1..1]*2``: the pairs of neighbours among them; ``*3`` triples;
- ``word[0]|pos[-1]``: the word together with the part of speech before it;
- ``word.lower``, ``word.prefix3``, ``word.suffix3``, ``word.shape`` in the place of ``word``: what
  a word is made of, where tokens have no such entry of their own.

Features are named like ``word[-1]=the``, and ``word[-1]^`` where there is no such token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_PART = r"([^\[\]|*]+)\[(-?\d+)\]"
_ONE = re.compile(_PART)
_JOINED = re.compile(rf"{_PART}(?:\|{_PART})*")
_WINDOW = re.compile(r"([^\[\]|*]+)\[(-?\d+)\.\.(-?\d+)\](?:\*(\d+))?")

_MADE_OF = re.compile(r"(.+)\.(?:(lower|shape)|(prefix|suffix)([1-9]\d?))")

Parts = tuple[tuple[str, int], ...]  # attributes and how far away, which make one feature together
_Codes = npt.NDArray[np.int64]


def expanded(template: str) -> list[Parts]:
    """The features of a template, each as the attributes that it joins, with their offsets."""
    if isinstance(template, str):
        if window := _WINDOW.fullmatch(template):
            name, first, last = window[1], int(window[2]), int(window[3])
            size = int(window[4] or 1)
            starts = range(first, last + 2 - size)
            if size >= 1 and starts:
                return [tuple((name, k + j) for j in range(size)) for k in starts]
        elif _JOINED.fullmatch(template):
            return [tuple((name, int(offset)) for name, offset in _ONE.findall(template))]
    raise ValueError(
        "templates must be like 'word[-2..2]', 'word[-1..1]*2' for pairs of neighbours in this "
        f"window, or 'word[0]|pos[-1]', got {template!r}"
    )


def attributes_of(templates: Sequence[str]) -> list[str]:
    """The attributes of tokens that templates name, each once."""
    parts = (part for template in templates for joined in expanded(template) for part in joined)
    return list(dict.fromkeys(name for name, _ in parts))


def derivation_of(name: str) -> tuple[str, Callable[[str], str]] | None:
    """The attribute that another is made of, and how; None if it is not of that kind.

    A shape has X for capitals, x for other letters and d for digits, runs as one: ``Xx-d``.
    """
    found = _MADE_OF.fullmatch(name)
    if found is None:
        return None
    base, whole, end, count = found.groups()
    if whole:
        return base, str.lower if whole == "lower" else _shape
    size = int(count)
    return base, (lambda text: text[:size]) if end == "prefix" else (lambda text: text[-size:])


def _shape(text: str) -> str:
    kinds = (
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text
    )
    return "".join(kind for kind, _ in groupby(kinds))


def template_features(
    values: Mapping[str, Sequence[str]], ptr: npt.NDArray[np.int64], templates: Sequence[str]
) -> tuple[Any, list[str]]:
    """A row of ones per token, and what its columns are called.

    Parameters
    ----------
    values : dict
        By attribute, its value at every token.
    ptr : array
        Where sentences begin and end.
    templates : sequence of str
    """
    columns: list[_Codes] = []
    names: list[str] = []
    coded = {name: _numbered(given) for name, given in values.items()}
    for parts in dict.fromkeys(parts for template in templates for parts in expanded(template)):
        tables = [(_moved(coded[name], offset, ptr), coded[name][1]) for name, offset in parts]
        inverse, first = _joint([codes for codes, _ in tables], [len(kinds) for _, kinds in tables])
        columns.append(inverse + len(names))
        names += _named(parts, [(codes[first], kinds) for codes, kinds in tables])
    n, width = int(ptr[-1]), len(columns)
    indices = np.stack(columns, axis=1).ravel()
    shape = (n, len(names))
    return sp.csr_array((np.ones(n * width), indices, np.arange(n + 1) * width), shape), names


def _numbered(given: Sequence[str]) -> tuple[_Codes, list[str]]:
    """Values by number, and the values."""
    kinds: dict[str, int] = {}
    codes = np.array([kinds.setdefault(value, len(kinds)) for value in given], np.int64)
    return codes, list(kinds)


def _moved(coded: tuple[_Codes, list[str]], offset: int, ptr: npt.NDArray[np.int64]) -> _Codes:
    """The value so many tokens on; one more than there are outside the sentence."""
    codes, kinds = coded
    at = np.arange(codes.size) + offset
    lengths = np.diff(ptr)
    inside = (at >= np.repeat(ptr[:-1], lengths)) & (at < np.repeat(ptr[1:], lengths))
    return np.where(inside, codes[np.where(inside, at, 0)], len(kinds))


def _joint(tables: list[_Codes], sizes: list[int]) -> tuple[_Codes, _Codes]:
    """Combinations by number, and the first token that has each."""
    inverse = tables[0]
    for codes, size in zip(tables[1:], sizes[1:], strict=True):
        inverse = np.unique(inverse, return_inverse=True)[1] * (size + 1) + codes
    _, first, inverse = np.unique(inverse, return_index=True, return_inverse=True)
    return inverse.astype(np.int64), first


def _named(parts: Parts, tables: list[tuple[_Codes, list[str]]]) -> Iterator[str]:
    """What combinations are called: their values behind their places, joined by ``|``."""
    texts = [[value.replace("\\", "\\\\").replace("|", "\\|") for value in k] for _, k in tables]
    for combination in zip(*(codes.tolist() for codes, _ in tables), strict=True):
        inside = [code < len(text) for code, text in zip(combination, texts, strict=True)]
        values = "|".join(
            text[code]
            for code, text, is_in in zip(combination, texts, inside, strict=True)
            if is_in
        )
        shown = "|".join(
            f"{name}[{offset}]" + ("" if is_in else "^")
            for (name, offset), is_in in zip(parts, inside, strict=True)
        )
        yield f"{shown}={values}" if any(inside) else shown
