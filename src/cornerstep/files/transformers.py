"""Transformers of model files: what is kept of each, and how it is made anew.

Scalers are their fitted numbers.  What scikit-learn keeps beside those of encoders, imputers and
column transformers changes with its version, so nothing of it is written: the public attributes
are, and :func:`rebuilt` has scikit-learn fit the transformer again, on a few rows that lead to
them.  Everything is checked on the way, by this table or by scikit-learn.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)

from cornerstep.learning.specs import (
    DOUBLE,
    FLOAT,
    Array,
    Count,
    Flag,
    Integer,
    Maybe,
    Number,
    Sizes,
    Spec,
    Word,
    require,
)

_CELLS = 2**24  # values of the largest table that an encoder is fitted to again
_STEP = "a transformer of the pipeline"


class _Any(Spec):
    """What scikit-learn checks when it fits."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        fits = value is None or isinstance(value, bool | int | float | str)
        require(fits, name, "a number, a word or None", value)


class _Range(Spec):
    """Two numbers, the smaller first."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        fits = isinstance(value, tuple) and len(value) == 2
        fits = fits and all(type(end) in (int, float) for end in value) and value[0] < value[1]
        require(fits, name, "two numbers, the smaller first", value)


class _Kind(NamedTuple):
    """A class of transformers, its parameters and fitted attributes."""

    made: Any
    parameters: dict[str, Spec]
    attributes: dict[str, Spec]


_NUMBERS = Array(FLOAT, "d")
_SEEN: dict[str, Spec] = {"n_features_in_": Count("d")}
_KINDS = {
    "StandardScaler": _Kind(
        StandardScaler, {"with_mean": Flag(), "with_std": Flag()},
        {**_SEEN, "mean_": Maybe(_NUMBERS), "var_": Maybe(_NUMBERS), "scale_": Maybe(_NUMBERS)},
    ),
    "MinMaxScaler": _Kind(
        MinMaxScaler, {"clip": Flag(), "feature_range": _Range()},
        {**_SEEN, "min_": _NUMBERS, "scale_": _NUMBERS, "data_min_": _NUMBERS,
         "data_max_": _NUMBERS, "data_range_": _NUMBERS},
    ),
    "MaxAbsScaler": _Kind(MaxAbsScaler, {}, {**_SEEN, "scale_": _NUMBERS, "max_abs_": _NUMBERS}),
    "Normalizer": _Kind(Normalizer, {"norm": Word("l1", "l2", "max")}, _SEEN),
    "SimpleImputer": _Kind(
        SimpleImputer,
        {"missing_values": _Any(), "strategy": Word("mean", "median", "most_frequent", "constant"),
         "fill_value": _Any(), "add_indicator": Flag(), "keep_empty_features": Flag()}, _SEEN,
    ),
    "OneHotEncoder": _Kind(
        OneHotEncoder,
        {"sparse_output": Flag(), "drop": Maybe(Word("first", "if_binary")),
         "handle_unknown": Word("error", "ignore", "infrequent_if_exist", "warn"),
         "min_frequency": Maybe(Number(0)), "max_categories": Maybe(Integer(1))}, _SEEN,
    ),
    "ColumnTransformer": _Kind(
        ColumnTransformer,
        {"remainder": Word("drop", "passthrough"), "sparse_threshold": Number(0),
         "verbose_feature_names_out": Flag()}, _SEEN,
    ),
    "Pipeline": _Kind(Pipeline, {}, {}),
}  # fmt: skip
KINDS = ", ".join(_KINDS)
_EMPTY: dict[str, Any] = {"ColumnTransformer": {"transformers": []}, "Pipeline": {"steps": []}}


def is_transformer(value: Any) -> bool:
    """Whether a value is a transformer that model files can hold."""
    kind = _KINDS.get(type(value).__name__)
    return kind is not None and kind.made is type(value)


def parts_of(transformer: Any) -> dict[str, Any]:
    """What is kept of a fitted transformer: plain values, arrays and other transformers.

    Raises
    ------
    ValueError
        If it is set in a way that a model file cannot hold.
    """
    name = type(transformer).__name__
    kind = _KINDS[name]
    parameters = {key: getattr(transformer, key) for key in kind.parameters}
    attributes = {key: _plain(getattr(transformer, key)) for key in kind.attributes}
    _check(kind, {"parameters": parameters, "attributes": attributes}, f"{name}.")
    names = None if name == "Pipeline" else getattr(transformer, "feature_names_in_", None)
    own = _STATES[name][0](transformer) if name in _STATES else {}
    return {
        "parameters": parameters, "attributes": attributes,
        "feature_names": None if names is None else [str(each) for each in names], **own,
    }  # fmt: skip


def rebuilt(name: Any, parts: Any) -> Any:
    """The transformer of that name with these parts, checked.

    Raises
    ------
    ValueError
    """
    if not isinstance(name, str) or name not in _KINDS or not isinstance(parts, dict):
        raise ValueError(f"there is no transformer {name!r:.60}; there are {KINDS}")
    kind = _KINDS[name]
    for part in ("parameters", "attributes"):
        given = parts.get(part)
        known = set(getattr(kind, part))
        require(isinstance(given, dict) and set(given) == known, part, f"those of {name}", given)
    _check(kind, parts, f"{name}.")
    names = parts.get("feature_names")
    if names is not None:
        fits = isinstance(names, list) and all(isinstance(each, str) for each in names)
        fits = fits and len(names) == parts["attributes"].get("n_features_in_")
        require(fits, f"{name}.feature_names", "a word for each feature", names)
    transformer = kind.made(**_EMPTY.get(name, {}), **parts["parameters"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in _STATES:
            transformer = _STATES[name][1](transformer, parts)
    for key, value in parts["attributes"].items():
        setattr(transformer, key, value)
    if names is not None:
        transformer.feature_names_in_ = np.array(names, dtype=object)
    return transformer


def example(transformer: Any) -> list[Any]:
    """A row that a fitted transformer can take."""
    if isinstance(transformer, Pipeline):
        return example(transformer.steps[0][1])
    if isinstance(transformer, OneHotEncoder):
        return [levels[0] for levels in transformer.categories_]
    if isinstance(transformer, SimpleImputer):
        return list(transformer.statistics_)
    row: list[Any] = [0.0] * int(transformer.n_features_in_)
    if isinstance(transformer, ColumnTransformer):
        filled = [
            (each, columns) for _, each, columns in transformer.transformers_
            if is_transformer(each)
        ]  # fmt: skip
        for each, columns in sorted(filled, key=lambda pair: _has_levels(pair[0])):
            for place, value in zip(positions(transformer, columns), example(each), strict=True):
                row[place] = value
    return row


def as_input(transformer: Any, row: list[Any]) -> Any:
    """A row as a transformer takes it: a table where its columns have names.

    Its numbers are numbers, as in data: words to look them up among are then refused as they are
    there.
    """
    first = transformer.steps[0][1] if isinstance(transformer, Pipeline) else transformer
    names = getattr(first, "feature_names_in_", None)
    table = np.empty((1, len(row)), dtype=object)
    table[0] = row
    if names is None:
        numbers = all(isinstance(value, float | int | np.number) for value in row)
        return table.astype(np.float64) if numbers else table
    try:
        import pandas as pd
    except ImportError:
        raise ValueError("columns by name need pandas: pip install pandas") from None
    return pd.DataFrame(table, columns=list(names)).infer_objects()


def _has_levels(transformer: Any) -> bool:
    """Whether a transformer is particular about the values in its columns."""
    steps = transformer.steps if isinstance(transformer, Pipeline) else [("", transformer)]
    return isinstance(steps[0][1], OneHotEncoder)


def _check(kind: _Kind, parts: dict[str, Any], of: str) -> None:
    sizes = Sizes()
    for part, specs in (("attributes", kind.attributes), ("parameters", kind.parameters)):
        for key, spec in specs.items():
            spec.check(parts[part][key], of + key, sizes)
    scale = parts["attributes"].get("scale_")
    if scale is not None:
        require((scale != 0).all(), f"{of}scale_", "without zeros", scale)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# -- encoders: what scikit-learn finds out of a table in which frequent levels are there twice ----


def _encoder_state(encoder: OneHotEncoder) -> dict[str, Any]:
    require(encoder.feature_name_combiner == "concat", "feature_name_combiner", "'concat'", None)
    require(encoder.dtype in (np.float64, float), "dtype of OneHotEncoder", "float64", None)
    levels = [list(each) if each.dtype.kind == "O" else each for each in encoder.categories_]
    rare: list[Any] = [[] for _ in levels]
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        rare = [
            [] if few is None else np.flatnonzero(_among(all_, few)).tolist()
            for all_, few in zip(encoder.categories_, encoder.infrequent_categories_, strict=True)
        ]
    _require_cells(levels)
    return {"levels": levels, "rare": rare}


def _among(levels: Any, few: Any) -> list[bool]:
    """Which levels are among a few of them; NaN is NaN."""
    known = {"nan" if level != level else (level,) for level in few}
    return [("nan" if level != level else (level,)) in known for level in levels]


def _require_cells(levels: list[Any]) -> None:
    cells = 2 * len(levels) * max(map(len, levels), default=0)
    require(
        cells <= _CELLS, "an encoder", f"of at most {_CELLS:,} levels times columns, put rare "
        "levels together with min_frequency", cells // 2,
    )  # fmt: skip


def _encoder(encoder: OneHotEncoder, parts: dict[str, Any]) -> OneHotEncoder:
    levels: Any = parts.get("levels")
    rare: Any = parts.get("rare")
    d = parts["attributes"]["n_features_in_"]
    for value, what in ((levels, "levels"), (rare, "rare levels")):
        require(isinstance(value, list) and len(value) == d, what, f"those of {d} columns", value)
    categories = [_levels(each) for each in levels]
    _require_cells(categories)
    columns = [_column(all_, few) for all_, few in zip(categories, rare, strict=True)]
    table = np.empty((max(map(len, columns)), d), dtype=object)
    table[:] = object()  # what is no level at all
    for k, column in enumerate(columns):
        table[: len(column), k] = column
    given = encoder.get_params()
    grouped = encoder.min_frequency is not None or encoder.max_categories is not None
    require(grouped or not any(rare), "rare levels", "none without min_frequency", None)
    encoder.set_params(
        categories=[each.astype(object) for each in categories], handle_unknown="ignore",
        min_frequency=2 if grouped else None, max_categories=None,
    )  # fmt: skip
    encoder.fit(table).set_params(**given)
    encoder.categories_ = categories
    return encoder


def _levels(given: Any) -> Any:
    """The levels of a column: different ones, numbers in order."""
    if isinstance(given, list):
        kinds = str | bool | int | float | None
        require(all(isinstance(v, kinds) for v in given), "levels", "words or numbers", given)
        levels = np.empty(len(given), dtype=object)
        levels[:] = given
    else:
        levels = given
        fits = isinstance(levels, np.ndarray) and levels.ndim == 1 and levels.dtype.kind in "biufU"
        require(fits, "levels", "an array of words or numbers", given)
        known = levels[:-1] if levels.size and levels[-1] != levels[-1] else levels
        require((known[1:] > known[:-1]).all(), "levels", "different and in order", levels)
    require(levels.size > 0, "levels", "at least one", levels)
    return levels


def _column(levels: Any, rare: Any) -> list[Any]:
    fits = isinstance(rare, list) and all(type(k) is int and 0 <= k < levels.size for k in rare)
    require(fits, "rare levels", "numbers of levels", rare)
    few = set(rare)
    return [*levels, *(level for k, level in enumerate(levels) if k not in few)]


# -- imputers: one row of what they fill in, one with the gaps that they indicate -----------------


def _imputer_state(imputer: SimpleImputer) -> dict[str, Any]:
    filled = imputer.statistics_
    gaps = imputer.indicator_.features_.tolist() if imputer.add_indicator else []
    return {"filled": list(filled) if filled.dtype.kind == "O" else filled, "gaps": gaps}


def _imputer(imputer: SimpleImputer, parts: dict[str, Any]) -> SimpleImputer:
    filled: Any = parts.get("filled")
    gaps, d = parts.get("gaps"), parts["attributes"]["n_features_in_"]
    if isinstance(filled, list):
        for value in filled:
            _Any().check(value, "SimpleImputer.filled", {})
        words = filled
        filled = np.empty(len(words), dtype=object)
        filled[:] = words
    else:
        Array(DOUBLE + FLOAT, d, finite=False).check(filled, "SimpleImputer.filled", {})
    require(filled.shape == (d,), "SimpleImputer.filled", f"{d} values", filled)
    fits = isinstance(gaps, list) and all(type(k) is int and 0 <= k < d for k in gaps)
    require(fits, "SimpleImputer.gaps", "numbers of features", gaps)
    table = np.stack([filled, filled])
    empty = np.array([value != value for value in filled])
    table[:, empty] = imputer.missing_values
    table[1, gaps] = imputer.missing_values
    imputer.fit(table)
    imputer.statistics_ = filled
    found = imputer.indicator_.features_.tolist() if imputer.add_indicator else []
    require(found == gaps, "SimpleImputer.gaps", "in order, and empty without indicator", None)
    return imputer


# -- column transformers: their parts are fitted already, and stay as they are --------------------


def _columns_state(transformer: ColumnTransformer) -> dict[str, Any]:
    require(transformer.transformer_weights is None, "transformer_weights", "None", None)
    given = {name: each for name, each, _ in transformer.transformers}
    kept = []
    for name, each, columns in transformer.transformers_:
        at = positions(transformer, columns)
        if name != "remainder" and at:
            kept.append([name, given[name] if isinstance(given[name], str) else each, at])
    return {"columns": kept, "sparse": bool(transformer.sparse_output_)}


def _columns(transformer: ColumnTransformer, parts: dict[str, Any]) -> ColumnTransformer:
    given: Any = parts.get("columns")
    d = parts["attributes"]["n_features_in_"]
    names = parts.get("feature_names")
    fits = isinstance(given, list) and all(isinstance(v, list) and len(v) == 3 for v in given)
    require(fits and given, "columns", "transformers with their columns", given)
    for name, each, at in given:
        fits = isinstance(at, list) and all(type(k) is int and 0 <= k < d for k in at)
        require(isinstance(name, str) and fits and at, "columns", f"numbers below {d}", at)
        require(is_transformer(each) or each in ("drop", "passthrough"), "columns", _STEP, each)
    require(isinstance(parts.get("sparse"), bool), "sparse", "True or False", parts.get("sparse"))
    by_name = {
        name: [names[k] for k in at] if names is not None else at for name, _, at in given
    }  # fmt: skip
    parted = [(name, each, by_name[name]) for name, each, _ in given]
    frozen = [
        (name, FrozenEstimator(each) if is_transformer(each) else each, columns)
        for name, each, columns in parted
    ]
    transformer.transformers_, transformer.n_features_in_ = parted, d
    if names is not None:
        transformer.feature_names_in_ = np.array(names, dtype=object)
    table = as_input(transformer, example(transformer))
    transformer.set_params(transformers=frozen).fit(table)
    thawed = {name: each for name, each, _ in parted if is_transformer(each)}
    transformer.transformers_ = [
        (name, thawed.get(name, each), columns) for name, each, columns in transformer.transformers_
    ]
    transformer.transformers = parted
    transformer.sparse_output_ = parts["sparse"]
    return transformer


def positions(transformer: ColumnTransformer, columns: Any) -> list[int]:
    """Numbers of the columns that a column transformer was given in one way or another."""
    every = np.arange(transformer.n_features_in_)
    if isinstance(columns, slice):
        ends = (columns.start, columns.stop)
        fits = all(end is None or isinstance(end, int) for end in ends)
        require(fits, "columns", "a slice of numbers, or a list", columns)
        return every[columns].tolist()
    require(np.ndim(columns) == 1, "columns", "a list of names or numbers", columns)
    listed = list(columns)
    if any(isinstance(each, str) for each in listed):
        order = {name: k for k, name in enumerate(transformer.feature_names_in_)}
        return [order[name] for name in listed]
    return every[listed].tolist() if listed else []


# -- pipelines of transformers --------------------------------------------------------------------


def _steps_state(pipeline: Pipeline) -> dict[str, Any]:
    return {"steps": [[name, step] for name, step in pipeline.steps if step is not None]}


def _steps(pipeline: Pipeline, parts: dict[str, Any]) -> Pipeline:
    given: Any = parts.get("steps")
    fits = isinstance(given, list) and all(isinstance(v, list) and len(v) == 2 for v in given)
    require(fits and given, "steps", "transformers with their names", given)
    for name, step in given:
        require(isinstance(name, str), "the name of a step", "a word", name)
        require(is_transformer(step) or step == "passthrough", "steps", _STEP, step)
    require(is_transformer(given[0][1]), "the first step", _STEP, given[0][1])
    return pipeline.set_params(steps=[(name, step) for name, step in given])


_STATES: dict[str, tuple[Any, Any]] = {
    "OneHotEncoder": (_encoder_state, _encoder),
    "SimpleImputer": (_imputer_state, _imputer),
    "ColumnTransformer": (_columns_state, _columns),
    "Pipeline": (_steps_state, _steps),
}
