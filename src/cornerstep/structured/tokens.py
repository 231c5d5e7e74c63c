"""Sentences of tokens as rows of numbers: feature dicts, lists of strings, templates or matrices.

All tokens of all sentences become one CSR matrix at once, whose columns have names.  A vocabulary
keeps the columns of training; new names at prediction are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer

from cornerstep.structured.models.base import shortened
from cornerstep.structured.models.stacked import StackedChains
from cornerstep.structured.templates import attributes_of, derivation_of, template_features

DICTS, STRINGS, MATRICES = "dicts", "strings", "matrices"
KINDS = (DICTS, STRINGS, MATRICES)

_TOKEN = {DICTS: "a dict of features", STRINGS: "a list of strings (such as ['word=the'])"}


class Vocabulary:
    """The names of columns, in their order, and the column of each name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._columns = {name: k for k, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def columns(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The column of each name, -1 for those that are not known."""
        return np.array([self._columns.get(name, -1) for name in names], np.int64)


def hashed_columns(names: Sequence[str], size: int) -> npt.NDArray[np.int64]:
    """The column of each name among so many, by its hash."""
    hasher = FeatureHasher(size, input_type="string", alternate_sign=False)
    return np.asarray(hasher.transform([name] for name in names).indices, np.int64)


def kind_of(sentences: Sequence[Any]) -> str:
    """How the tokens of sentences are given, by the first one there is."""
    for i, sentence in enumerate(sentences):
        if sp.issparse(sentence) or isinstance(sentence, np.ndarray):
            return MATRICES
        if not isinstance(sentence, list | tuple):
            raise ValueError(
                f"X[{i}] must be a list of tokens or a matrix with a row per token, "
                f"got {shortened(sentence)}"
            )
        if len(sentence):
            return DICTS if isinstance(sentence[0], Mapping) else STRINGS
    raise ValueError("X must have at least one sentence that is not empty, got none")


def boundaries(sentences: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Where sentences begin and end, in a row of all their tokens."""
    lengths = [s.shape[0] if hasattr(s, "shape") else len(s) for s in sentences]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def named_features(
    sentences: Sequence[Any], kind: str, templates: Sequence[str]
) -> tuple[Any, list[str]]:
    """A row per token of all sentences, and the names of the columns."""
    tokens = _checked_tokens(sentences, kind)
    if kind == STRINGS:
        return _of_strings(tokens, sentences)
    if not templates:
        return _of_dicts(tokens, sentences)
    names = attributes_of(templates)
    values = {name: _values(sentences, name) for name in names}
    rows, columns = template_features(values, boundaries(sentences), templates)
    bases = (derivation_of(name) for name in names)
    used = {*names, *(made[0] for made in bases if made)}
    rest = [{key: v for key, v in token.items() if key not in used} for token in tokens]
    if not any(rest):
        return rows, columns
    more, more_columns = _of_dicts(rest, sentences)
    return sp.hstack([rows, more], format="csr"), columns + more_columns


def _checked_tokens(sentences: Sequence[Any], kind: str) -> list[Any]:
    """All tokens in a row, once each is known to be of the kind."""
    one: Any = Mapping if kind == DICTS else (list, tuple)
    for i, sentence in enumerate(sentences):
        if not isinstance(sentence, list | tuple):
            raise ValueError(f"X[{i}] must be a list of tokens, got {shortened(sentence)}")
        for t, token in enumerate(sentence):
            if not isinstance(token, one):
                raise ValueError(
                    f"X[{i}] must have {_TOKEN[kind]} for each token, got {shortened(token)} "
                    f"at token {t}"
                )
    return list(chain.from_iterable(sentences))


def _of_dicts(tokens: list[Any], sentences: Sequence[Any]) -> tuple[Any, list[str]]:
    vectorizer = DictVectorizer(sort=False)
    try:
        rows = vectorizer.fit_transform(tokens)
    except (TypeError, ValueError, KeyError):
        _complain_of_values(sentences)
        raise
    names = list(vectorizer.feature_names_)
    if not all(isinstance(name, str) for name in names):
        _complain_of_values(sentences)
    return sp.csr_array(rows), names


def _complain_of_values(sentences: Sequence[Any]) -> None:
    """Find the first value that a feature cannot have; say where it is."""
    for i, sentence in enumerate(sentences):
        for t, token in enumerate(sentence):
            for name, value in token.items():
                if not isinstance(name, str):
                    raise ValueError(
                        f"X[{i}] must have features with names, got {name!r} at token {t}"
                    )
                listed = isinstance(value, list | tuple | set | frozenset)
                if not (
                    isinstance(value, str | Real)
                    or (listed and all(isinstance(part, str) for part in value))
                ):
                    raise ValueError(
                        f"X[{i}] must have features that are numbers, strings, booleans or lists "
                        f"of strings, got {name!r}: {shortened(value)} at token {t}"
                    )


def _of_strings(tokens: list[Any], sentences: Sequence[Any]) -> tuple[Any, list[str]]:
    if not all(isinstance(name, str) for name in chain.from_iterable(tokens)):
        for i, sentence in enumerate(sentences):
            for t, token in enumerate(sentence):
                for name in token:
                    if not isinstance(name, str):
                        raise ValueError(
                            f"X[{i}] must have lists of strings, got {name!r} at token {t}"
                        )
    if not any(tokens):
        return sp.csr_array((len(tokens), 0)), []
    counter = CountVectorizer(analyzer=_itself, dtype=np.float64)
    return sp.csr_array(counter.fit_transform(tokens)), list(counter.get_feature_names_out())


def _itself(token: Any) -> Any:
    return token


def _values(sentences: Sequence[Any], name: str) -> list[str]:
    """The value of an attribute at every token, as text."""
    try:
        found = [token[name] for token in chain.from_iterable(sentences)]
    except KeyError:
        if made := derivation_of(name):
            values = _values(sentences, made[0])
            kinds = {value: made[1](value) for value in set(values)}
            return [kinds[value] for value in values]
        i, t = next(
            (i, t)
            for i, sentence in enumerate(sentences)
            for t, token in enumerate(sentence)
            if name not in token
        )
        raise ValueError(
            f"X[{i}] must have {name!r}, which templates name, for each token: token {t} has none"
        ) from None
    return [value if isinstance(value, str) else str(value) for value in found]


def stacked_matrices(sentences: Sequence[Any], width: int | None) -> Any:
    """All rows of sentences that are matrices, dense or CSR, as one CSR matrix."""
    parts = []
    for i, sentence in enumerate(sentences):
        part = sentence if sp.issparse(sentence) else np.asarray(sentence)
        if part.ndim != 2 or part.dtype.kind not in "fiub":
            raise ValueError(
                f"X[{i}] must be a matrix of numbers with a row per token, got shape {part.shape} "
                f"of {part.dtype}"
            )
        width = part.shape[1] if width is None else width
        if part.shape[1] != width:
            raise ValueError(
                f"X[{i}] must have {width} features per token, as X[0] or training had, got "
                f"{part.shape[1]}"
            )
        parts.append(part)
    if any(map(sp.issparse, parts)):
        return sp.csr_array(sp.vstack([sp.csr_array(p) for p in parts], format="csr"), dtype=float)
    return sp.csr_array(np.concatenate(parts).astype(np.float64))


def recoded(rows: Any, columns: npt.NDArray[np.int64], width: int) -> Any:
    """The same rows with other numbers for their columns; those of -1 are left out."""
    at = columns[rows.indices]
    kept = at >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    moved = sp.csr_array((rows.data[kept], at[kept], ends), (rows.shape[0], width))
    moved.sum_duplicates()
    return moved


def chains_of(rows: Any, ptr: npt.NDArray[np.int64]) -> StackedChains:
    """Rows of tokens as chains, once they are known to be finite; sentences without any left out.

    Each token weighs 1 over the mean length: the mean loss of sentences is the share of wrong
    tokens.
    """
    wrong = np.flatnonzero(~np.isfinite(rows.data))
    if wrong.size:
        row = int(np.searchsorted(rows.indptr, wrong[0], side="right")) - 1
        i = int(np.searchsorted(ptr, row, side="right")) - 1
        raise ValueError(
            f"X[{i}] must have finite features, got {rows.data[wrong[0]]} at token {row - ptr[i]}"
        )
    ptr = np.unique(ptr)
    return StackedChains(rows, ptr, np.full(rows.shape[0], (ptr.size - 1) / max(ptr[-1], 1)))
