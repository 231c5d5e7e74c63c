"""Whatever of a fitted model is changed, `certify` finds out: estimators besides the first four.

What remains is listed with the reason why it does no harm.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

from cornerstep import (
    MulticlassSVC,
    OneClassHull,
    ReducedHullSVC,
    ReducedHullSVR,
    SequenceTagger,
    Status,
    certify,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(40)
CLASSES = np.array(list("abc"))[np.arange(60) % 3]
ROWS = RNG.standard_normal((60, 3)) + 2.0 * (np.arange(60) % 3)[:, None] * [1.0, -1.0, 0.5]
WORDS = ["abc", "ba", "ccab", "a", "bc", "acb"] * 3
SENTENCES = [[{"word": word, "place": float(t)} for t, word in enumerate(words)] for words in WORDS]
TAGS = [[{"a": "O", "b": "B-X", "c": "B-Y"}[word] for word in words] for words in WORDS]

MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "one class": (OneClassHull(nu=0.31, kernel="rbf", gamma=0.5), (X,)),
    "one class, linear": (OneClassHull(nu=0.31, kernel="linear"), (X + 3.0,)),
    "regression": (ReducedHullSVR(C=1.0, kernel="rbf", gamma=0.5), (X, Y)),
    "regression, nu": (ReducedHullSVR(C=1.0, nu=0.4, kernel="linear"), (X, Y)),
    "pairs": (
        ReducedHullSVC(C=1.0, kernel="rbf", gamma=0.3, decision_function_shape="ovo"),
        (ROWS, CLASSES),
    ),
    "tagger": (SequenceTagger(lam=0.1, random_state=0), (SENTENCES, TAGS)),
    "tagger, path": (SequenceTagger(random_state=0), (SENTENCES, TAGS)),
    "tagger, hashing": (SequenceTagger(lam=0.1, hashing=16, random_state=0), (SENTENCES, TAGS)),
    "tagger, constraints": (
        SequenceTagger(lam=0.1, constraints="BIO", random_state=0),
        (SENTENCES, TAGS),
    ),
    "softmax": (
        MulticlassSVC(loss="softmax", solver="newton", random_state=0),
        (ROWS, CLASSES),
    ),
    "top-k entropy": (MulticlassSVC(loss="top-k-entropy", k=2, random_state=0), (ROWS, CLASSES)),
    "probabilities": (MulticlassSVC(probability=True, random_state=0), (ROWS, CLASSES)),
}

#: Nothing that is claimed of the answer, and nothing that `predict` uses.
HARMLESS = {
    "how it was found": {
        "solver", "max_iter", "averaging", "random_state", "cache_size", "warm_start", "verbose",
        "last_iterate", "n_iter_", "n_oracle_calls_", "n_kernel_evaluations_", "path_", "trace_",
    },
    "how votes of machines are put into words, which may be chosen after the fit": {
        "decision_function_shape", "break_ties",
    },
    "calibrated, which certificates do not speak of": {"probability"},
    "a name of the data, which they are compared with": {"min_count"},
}  # fmt: skip
IGNORED = set().union(*HARMLESS.values())

#: What a kernel or a loss does not have is used by none.
FOREIGN = {
    "gamma": lambda model: model.kernel == "linear",
    "degree": lambda model: model.kernel != "poly",
    "coef0": lambda model: model.kernel != "poly",
    "k": lambda model: model.loss != "top-k-entropy",
}


def _others(key: str, value: Any) -> list[Any]:
    if isinstance(value, Status):
        return [Status.ITERATION_LIMIT]
    if key in ("tol", "atol"):
        return [1e-12 * value if key == "tol" else np.nan, np.nan]
    if key == "kernel":
        return ["linear" if value != "linear" else "rbf"]
    if key == "temperature_":  # calibrated, but of any other sign labels would change places
        return [-value, 0.0, np.nan]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | np.integer):
        return [value + 1]
    if isinstance(value, float):
        return [value + 0.1 * (1 + abs(value)), 0.8 * value, 1e9, np.nan]
    if isinstance(value, str):
        return [f"{value}x"]
    if isinstance(value, np.ndarray) and value.size:
        if value.dtype.kind != "f":
            return [np.roll(value, 1), value[:-1]]
        changed = value.copy()
        changed.flat[0] += 0.1 * (1 + abs(changed.flat[0]))
        return [value + 5, 1.1 * value, changed, value[:0]]
    return []


def _is_found_out(model: Any, key: str, other: Any, data: tuple[Any, ...]) -> bool:
    forged = copy.copy(model)
    setattr(forged, key, other)
    try:
        with np.errstate(all="ignore"):
            return not certify(forged, *data).holds
    except ValueError as error:  # it says what does not fit
        return bool(str(error)) and "\n" not in str(error)


@pytest.mark.parametrize("name", MODELS)
def test_every_change_is_found_out_or_harmless(name: str) -> None:
    estimator, data = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(*data)
    honest = certify(model, *data)
    assert honest.holds, honest.problems
    keys = {key for key in vars(model) if key.endswith("_")} | set(model.get_params(deep=False))
    missed = []
    for key in sorted(keys - IGNORED):
        value = getattr(model, key)
        if key in FOREIGN and FOREIGN[key](model):
            continue
        for other in _others(key, value) if value is not None else []:
            if np.array_equal(other, value) or (key == "status_" and model.status_ is other):
                continue
            if not _is_found_out(model, key, other, data):
                missed.append(f"{key} = {other!r:.40}")
    assert not missed
