"""Tables of mixed columns, and pipelines that make numbers of them."""

from __future__ import annotations

from typing import Any

from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def table_pipeline(
    estimator: Any,
    *,
    numbers: Any = None,
    words: Any = None,
    scale: bool | None = None,
    min_frequency: float | None = 0.01,
) -> Pipeline:
    """A scikit-learn pipeline that trains an estimator on a table of numbers and words.

    Missing numbers become the median of their column, with a column that says where they were
    missing.  Words become a column for each level; missing ones are a level of their own, rare
    levels are put together, and levels that training has not seen count as rare.

    Parameters
    ----------
    estimator : estimator
        The last step, named ``model``; what prepares the columns is the step ``table``.
    numbers, words : list of columns, optional
        By default the columns of a DataFrame by their types: numbers, and all others.
    scale : bool, optional
        Whether to give numbers mean 0 and variance 1; by default where the estimator is not
        indifferent to units, as linear models and kernels are not and trees are.
    min_frequency : int, float or None
        A level with fewer examples, or a smaller share of them, is rare.

    Returns
    -------
    sklearn.pipeline.Pipeline

    Examples
    --------
    >>> import pandas as pd
    >>> import cornerstep
    >>> table = pd.DataFrame({"age": [22, 38, None, 35], "sex": ["m", "f", "f", "m"]})
    >>> model = cornerstep.table_pipeline(cornerstep.MulticlassSVC()).fit(table, [0, 1, 1, 0])
    >>> model.predict(table)
    array([0, 1, 1, 0])
    """
    by_type = (make_column_selector(dtype_include="number"),
               make_column_selector(dtype_exclude="number"))  # fmt: skip
    if numbers is None and words is None:
        numbers, words = by_type
    scale = getattr(estimator, "minds_units", True) if scale is None else scale
    steps: list[Any] = [
        ("fill", SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)),
        *([("scale", StandardScaler())] if scale else []),
    ]
    levels = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=min_frequency, sparse_output=False
    )
    parts = [("numbers", Pipeline(steps), numbers), ("words", levels, words)]
    table = ColumnTransformer(
        [part for part in parts if callable(part[2]) or (part[2] is not None and len(part[2]))],
        verbose_feature_names_out=False,
    )
    return Pipeline([("table", table), ("model", estimator)])
