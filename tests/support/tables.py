"""A table of mixed columns with gaps, and pipelines for it."""

from __future__ import annotations

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)

from cornerstep import (
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    table_pipeline,
)


def mixed(n=160, seed=0):
    """Columns age, fare, count, sex, town and flag with gaps, and labels."""
    rng = np.random.default_rng(seed)
    towns = np.array([*"abcdef", *(f"town {k}" for k in range(40))], dtype=object)
    table = np.empty((n, 6), dtype=object)
    table[:, 0] = rng.normal(40, 10, n)
    table[:, 1] = rng.exponential(30, n)
    table[:, 2] = rng.integers(0, 4, n).astype(float)
    table[:, 3] = rng.choice(np.array(["m", "f"], dtype=object), n)
    table[:, 4] = towns[np.minimum(rng.geometric(0.2, n) - 1, towns.size - 1)]
    table[:, 5] = rng.random(n) < 0.3
    labels = np.where((table[:, 3] == "f") ^ (rng.random(n) < 0.1), "yes", "no")
    table[rng.random(n) < 0.15, 0] = np.nan
    table[rng.random(n) < 0.15, 4] = None
    return table, labels


NAMES = ["age", "fare", "count", "sex", "town", "flag"]
TABLE, LABELS = mixed()
NUMBERS = np.where(np.isnan(TABLE[:, :3].astype(float)), 0.0, TABLE[:, :3].astype(float))
GAPS = TABLE[:, :3].astype(float)
_LEVELS = ColumnTransformer(
    [
        ("few", OneHotEncoder(max_categories=3, handle_unknown="ignore"), [2]),
        ("first", OneHotEncoder(drop="first"), slice(2, 3)),
    ],
    remainder="passthrough",
)


def svm():
    return MulticlassSVC(random_state=0)


#: Pipelines that are not fitted, and what to fit them to.
PIPELINES: dict[str, tuple[Pipeline, np.ndarray]] = {
    "linear": (table_pipeline(svm(), numbers=[0, 1, 2], words=[3, 4, 5]), TABLE),
    "kernel": (table_pipeline(ReducedHullSVC(C=1.0), numbers=[0, 1], words=[3, 4]), TABLE),
    "trees": (
        table_pipeline(
            SoftMarginBoostingClassifier(nu=0.5, atol=0.1), numbers=[0, 1, 2], words=[3, 4, 5]
        ),
        TABLE,
    ),
    "numbers": (table_pipeline(svm(), numbers=[0, 1], words=[2]), GAPS),
    "standard": (make_pipeline(StandardScaler(), svm()), NUMBERS),
    "no mean": (make_pipeline(StandardScaler(with_mean=False), svm()), NUMBERS),
    "min max": (make_pipeline(MinMaxScaler((-1, 2), clip=True), svm()), NUMBERS),
    "max abs": (make_pipeline(MaxAbsScaler(), svm()), NUMBERS),
    "l2": (make_pipeline(Normalizer(), svm()), NUMBERS),
    "l1": (make_pipeline(Normalizer("l1"), svm()), NUMBERS),
    "max": (make_pipeline(Normalizer("max"), svm()), NUMBERS),
    "indicator": (make_pipeline(SimpleImputer(add_indicator=True), MaxAbsScaler(), svm()), GAPS),
    "nested": (
        make_pipeline(make_pipeline(SimpleImputer(), "passthrough", MaxAbsScaler()), svm()),
        GAPS,
    ),
    "levels": (make_pipeline(_LEVELS, svm()), NUMBERS),
    "words": (
        make_pipeline(
            ColumnTransformer(
                [
                    (
                        "town",
                        make_pipeline(
                            SimpleImputer(missing_values=None, strategy="most_frequent"),
                            OneHotEncoder(min_frequency=5),
                        ),
                        [4],
                    ),
                    ("flag", "passthrough", np.array([False] * 5 + [True])),
                    ("age", "drop", [0]),
                ]
            ),
            svm(),
        ),
        TABLE,
    ),
}
