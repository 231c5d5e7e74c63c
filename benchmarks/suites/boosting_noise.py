"""Test errors with flipped training labels: the defaults beside LightGBM, XGBoost, scikit-learn.

The 13 Raetsch sets with 0, 10 and 20 % of the training labels flipped, at most 500 training rows,
means over three splits (``--splits``): those of the file as far as it has any, else drawn.
LightGBM and XGBoost have small trees (four leaves, depth 2) and stop early on a fifth of the
training rows; what is not said is their default.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.boosting import SETS
from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Measures,
    Recorder,
    Row,
    Run,
    Settings,
    Solver,
)
from benchmarks.data import read

NOISES = (0.0, 0.1, 0.2)
_ROWS, _SPLITS = 500, 3
_ROUNDS, _PATIENCE = 500, 20


class Split(NamedTuple):
    """Training rows with flipped labels, and test rows; labels 0 and 1."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


class Answers(list[Any]):
    """The predictions for the test rows of each split."""

    def copy(self) -> Answers:
        return self


def _splits(name: str, noise: float, count: int) -> list[Split]:
    stored = read(f"raetsch_{name}")
    X, y = stored["X"].astype(np.float64), (stored["y"] > 0).astype(np.int64)
    given = stored["train"] if "train" in stored.files else ()
    out = []
    for k in range(count):
        rng = np.random.default_rng(k)
        if k < len(given):
            train, test = given[k][:_ROWS], stored["test"][k]
        else:
            size = min(_ROWS, len(given[0]) if len(given) else 2 * y.size // 3)
            train, test = np.split(rng.permutation(y.size), [size])
        flipped = rng.random(len(train)) < noise
        out.append(Split(X[train], y[train] ^ flipped, X[test], y[test]))
    return out


def _default() -> Any:
    from cornerstep import SoftMarginBoostingClassifier

    return SoftMarginBoostingClassifier()


def _fixed(nu: float) -> Any:
    return _default().set_params(nu=nu)


def _scikit_learn(name: str) -> Any:
    import sklearn.ensemble

    return getattr(sklearn.ensemble, name)(random_state=0)


def _held_out(split: Split) -> tuple[Any, Any, Any, Any]:
    from sklearn.model_selection import train_test_split

    parts = train_test_split(split.X, split.y, test_size=0.2, random_state=0, stratify=split.y)
    return tuple(parts)  # type: ignore[return-value]


def _lightgbm(split: Split) -> Any:
    import lightgbm

    X, X_held, y, y_held = _held_out(split)
    model = lightgbm.LGBMClassifier(
        n_estimators=_ROUNDS, num_leaves=4, n_jobs=1, random_state=0, verbose=-1
    )
    return model.fit(
        X, y, eval_set=[(X_held, y_held)],
        callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
    )  # fmt: skip


def _xgboost(split: Split) -> Any:
    import xgboost

    X, X_held, y, y_held = _held_out(split)
    model = xgboost.XGBClassifier(
        n_estimators=_ROUNDS, max_depth=2, learning_rate=0.1, n_jobs=1, random_state=0,
        early_stopping_rounds=_PATIENCE,
    )  # fmt: skip
    return model.fit(X, y, eval_set=[(X_held, y_held)], verbose=False)


def _plain(make: Callable[[], Any], split: Split) -> Any:
    return make().fit(split.X, split.y)


def _solver(name: str, fit: Callable[[Split], Any], *requires: str) -> Solver:
    def prepare(splits: list[Split]) -> Run:
        def run(recorder: Recorder | None) -> Answer:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return Answer(Answers(fit(split).predict(split.X_test) for split in splits))

        return run

    return Solver(name, prepare, requires=requires)


def judge(splits: list[Split], answers: Answers) -> Measures:
    """The mean test error, in percent."""
    pairs = zip(splits, answers, strict=True)
    return {"test error": 100 * float(np.mean([np.mean(s.y_test != a) for s, a in pairs]))}


def _notes(rows: list[Row]) -> list[str]:
    errors: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.measures:
            key = row.solver, row.dataset.rpartition(" ")[2]
            errors.setdefault(key, []).append(row.measures["test error"])
    solvers, shares = (dict.fromkeys(names) for names in zip(*errors, strict=True))
    out = ["", f"mean test error over the sets; flipped labels: {', '.join(shares)}; mean"]
    for solver in solvers:
        means = [float(np.mean(errors[solver, share])) for share in shares]
        out.append(f"  {solver:40}" + "".join(f"{e:7.1f}" for e in (*means, np.mean(means))))
    return out


def build(settings: Settings) -> Benchmark:
    """All sets; ``--full``: nu = 0.1 and 0.5 as well."""
    fixed = (0.1, 0.5) if settings.full else ()
    trees = ("AdaBoostClassifier", "HistGradientBoostingClassifier")
    count = settings.splits or _SPLITS
    return Benchmark(
        name="boosting_noise",
        title="mean test errors in percent of the defaults, with flipped training labels",
        datasets=tuple(
            Dataset(f"{name}, {noise:.0%}", partial(_splits, name, noise, count))
            for name in SETS
            for noise in NOISES
        ),
        solvers=(
            _solver("cornerstep", partial(_plain, _default)),
            *(_solver(f"nu={nu}", partial(_plain, partial(_fixed, nu))) for nu in fixed),
            _solver("LightGBM, early stopping", _lightgbm, "lightgbm"),
            _solver("XGBoost, early stopping", _xgboost, "xgboost"),
            *(_solver(name, partial(_plain, partial(_scikit_learn, name))) for name in trees),
        ),
        judge=judge,
        baseline="cornerstep",
        repeat=1,
        shown=("test error",),
        notes=_notes,
        slow=True,
        real_data=True,
        compact=True,
    )
