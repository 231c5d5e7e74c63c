"""Tables as they come: columns that are no features, targets that are no classes, preparation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from cornerstep.cli.data import Dataset
from cornerstep.cli.screen import UserError, say
from cornerstep.data import rows as streaming
from cornerstep.data.csv_table import as_numbers
from cornerstep.data.rows import PreparedRows, Rows
from cornerstep.learning.tables import table_pipeline

_FEW = 20  # rows, classes or levels of which nothing is concluded
_NAMED_ID = re.compile(r"(?:^|[\W_])(?:id|ID|Id|uuid|UUID|guid|GUID)$|[a-z](?:Id|ID)$")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{2,4}( .*)?")
# Digits, in groups of three or not, with a fraction; signs, currencies and units that are no words.
_AMOUNT = re.compile(r"[^\w.,]*(?:\d{1,3}(?:[,.'\s]\d{3})+|\d+)(?:[.,]\d+)?[^\w.,]*")


def sample_of(data: Dataset) -> tuple[Dataset, Any]:
    """A table in memory: all of it, or some rows of one that stays on disk; and their numbers."""
    cell = 40 if data.words else 8  # bytes of an object and of a number
    most = max(1000, streaming.BLOCK_BYTES // (cell * max(data.X.shape[1], 1)))
    X, at = data.sample(most) if isinstance(data.X, Rows) else (data.X, np.arange(data.n))
    y = None if data.y is None else data.y[at]
    return replace(data, X=X, y=y), at


def features_of(data: Dataset, keep: list[str]) -> tuple[Dataset, list[str]]:
    """The table without the columns that tell nothing, and a line on each that is left out."""
    for name in keep:
        if name not in data.names:
            raise UserError(f"{data.path} has no feature {name!r} (--keep)")
    some, at = sample_of(data)
    left: dict[str, str] = {}
    for k, name in enumerate(data.names):
        why = _useless(name, some.X[:, k], at, name in data.words)
        if why and name not in keep:
            left[name] = why
        elif name in data.words and _are_dates(some.X[:, k]):
            say(f"column {name!r} holds dates: each is taken for a word; make numbers of them "
                "(years, days since ...) if their order matters")  # fmt: skip
        elif name in data.words and (odd := _no_number(some.X[:, k])):
            say(f"column {name!r} holds numbers, but {odd!r} is none: each is taken for a word; "
                "write plain numbers, and nothing where one is missing")  # fmt: skip
    kept = [name for name in data.names if name not in left]
    if not kept:
        raise UserError(
            f"{data.path} has no column that tells anything: "
            + "; ".join(f"{name!r} {why}" for name, why in left.items())
        )
    lines = [f"{name}: {why}" for name, why in left.items()]
    for name, why in left.items():
        say(f"column {name!r} is left out: it {why}; --keep {name} keeps it")
    return (data.columns(kept) if left else data), lines


def _useless(name: str, values: Any, at: Any, is_word: bool) -> str | None:
    """Why a column cannot help to predict, if it cannot."""
    if is_word:
        known = [value for value in values if value == value]
        if not known:
            return "is empty"
        many = len(known) >= _FEW and len(set(known)) > 0.5 * len(known)
        if many and _are_dates(values):
            return "holds dates, most of them once"
        if many and (odd := _no_number(values)):
            return f"holds numbers, but {odd!r} is none, so that all are words"
        return "has a word of its own in most rows, like a name or an identifier" if many else None
    numbers = np.asarray(values, dtype=np.float64)
    if np.isnan(numbers).all():
        return "is empty"
    if numbers.size < _FEW or not (numbers == np.floor(numbers)).all():
        return None
    if np.ptp(numbers - at) == 0:
        return "numbers the rows"
    if np.unique(numbers).size < numbers.size:
        return None
    if np.ptp(numbers) == numbers.size - 1 or _NAMED_ID.search(name):
        return "has a number of its own in each row, like an identifier"
    return None


def _are_dates(values: Any) -> bool:
    known = [value for value in values if value == value]
    return bool(known) and all(_DATE.fullmatch(value) for value in known[:1000])


def _no_number(values: Any) -> str | None:
    """What keeps a column of words that are mostly amounts from being one of numbers."""
    known = [value for value in values if value == value][:1000]
    if 2 * sum(_AMOUNT.fullmatch(value) is not None for value in known) <= len(known):
        return None
    # a comma may be the decimal point: anything else is a better example
    return max(known, key=lambda value: [as_numbers((value,), c) is None for c in (True, False)])


def require_classes(data: Dataset) -> None:
    """Complain about labels that are no classes: amounts, or a label for each row."""
    values, counts = np.unique(np.asarray(data.y), return_counts=True)
    if values.size <= _FEW:
        return
    numbers = as_numbers([str(value) for value in values])
    if numbers is None:
        amounts, what = counts.mean() < 2, f"such as {values[0]!s}"
    else:
        whole = (numbers == np.floor(numbers)).all()
        amounts, what = not whole or counts.mean() < 5, f"from {min(numbers):g} to {max(numbers):g}"
    if amounts:
        raise UserError(
            f"the labels of {data.path} have {values.size:,} different values in {data.n:,} rows, "
            f"{what}: these are no classes; name a column of classes with --target, or make a few "
            "classes of them, such as low and high"
        )


def fitted(estimator: Any, data: Dataset, scale: bool | None) -> Pipeline:
    """What makes numbers of the columns of a table, by what is in it."""
    some, _ = sample_of(data)
    numbers = [k for k, name in enumerate(data.names) if name not in data.words]
    words = [k for k, name in enumerate(data.names) if name in data.words]
    pipeline = table_pipeline(estimator, numbers=numbers, words=words, scale=scale)
    return Pipeline(pipeline.steps[:-1]).fit(some.X)


def prepared(prepare: Any, data: Dataset) -> Dataset:
    """The table as numbers without gaps."""
    names = names_of(prepare, data.names)
    transform = _transform(prepare, data.names)
    if isinstance(data.X, Rows):
        return replace(data, X=PreparedRows(data.X, transform, names), names=names, words=[])
    return replace(data, X=transform(data.X), names=names, words=[])


def names_of(prepare: Any, names: list[str] | None) -> list[str]:
    """Names of the features that are made of columns with these names, where they are known."""
    try:
        return [str(name) for name in prepare.get_feature_names_out(names)]
    except (ValueError, AttributeError):  # a name twice, or a step that gives none
        return []


def _transform(prepare: Any, names: list[str]) -> Callable[[Any], Any]:
    """The transformer as a function of arrays; one that was fitted to a DataFrame is given one."""
    if not hasattr(prepare, "feature_names_in_"):
        function: Callable[[Any], Any] = prepare.transform
        return function
    import pandas as pd

    return lambda X: prepare.transform(pd.DataFrame(X, columns=names).infer_objects())
