"""A fit that fails says why in one line, and leaves the model of the fit before as it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from attack.draws import one_of
from attack.files_family import answers, same
from attack.judge import Judge, RefusedError
from attack.models import fitted
from cornerstep import StructuredSVC

_PARAMETERS = {
    "C": (-1.0, 0.0, np.nan, np.inf, "one", [1.0]),
    "K": (-1.0, np.nan, 1e9),
    "nu": (-0.5, np.nan, 7.5),
    "tol": (-1.0, np.nan, "small"),
    "max_iter": (-7, 1.5, "many", np.nan),
    "time_limit": (-1.0, np.nan, "soon"),
    "solver": ("none", 3),
    "atol": (-1.0, np.nan, "small"),
    "kernel": ("none", 3),
    "loss": ("none", 3),
    "gamma": (-1.0, np.nan, "none"),
    "degree": (-1, 1.5),
    "smoothing": (-1.0, np.nan, np.inf),
    "intercept_scaling": (0.0, -1.0, np.nan, "one"),
    "max_depth": (0, -1, 1.5, 99),
    "max_bins": (1, 10**6),
    "step": ("none",),
    "sampling": ("none",),
    "geometry": ("none",),
    "check_every": (0, -1),
    "cache_passes": (-1,),
    "lam": (-1.0, 0.0, np.nan),
}


def _wrong_data(rng: Any, X: Any, y: Any) -> tuple[str, tuple[Any, ...]]:
    """Examples, labels and weights that no problem has."""
    n = len(y)
    bad, weight = X.copy(), np.ones(n)
    bad[int(rng.integers(n)), int(rng.integers(X.shape[1]))] = one_of(rng, np.nan, np.inf, -np.inf)
    weight[int(rng.integers(n))] = one_of(rng, -1.0, np.nan, np.inf)
    kinds = {
        "X with NaN or infinity": (bad, y),
        "a wrong weight": (X, y, weight),
        "weights of 0": (X, y, np.zeros(n)),
        "too few weights": (X, y, np.ones(n - 1)),
        "one class": (X, np.repeat(y[:1], n)),
        "too few labels": (X, y[:-1]),
        "no rows": (X[:0], y[:0]),
        "no features": (X[:, :0], y),
        "one dimension": (X[:, 0], y),
        "three dimensions": (X[None], y),
        "real labels": (X, rng.standard_normal(n)),
        "matrix of labels": (X, np.stack([np.arange(n), np.arange(n)], axis=1)),
    }
    name = one_of(rng, *kinds)
    return name, kinds[name]


def attack(rng: Any, judge: Judge) -> None:
    """A model, several fits that must fail, and the same answers after each."""
    model, X = fitted(rng, judge)
    before = answers(judge, model, X)
    structured = isinstance(model, StructuredSVC)
    y = None if structured else model.predict(X)
    judge.says(type(model).__name__)
    context, given = list(judge.context), model.get_params(deep=False)
    for _ in range(6):
        if structured or rng.random() < 0.5:
            name = one_of(rng, *sorted(set(_PARAMETERS) & set(given)))
            value = one_of(rng, *_PARAMETERS[name])
            what, data = f"{name}={value!r}", (X, [0] * len(X) if structured else y)
            if name in ("K", "nu", "C") and "K" in given:
                model.set_params(nu=None, K=None, C=None)
            if name in ("gamma", "degree"):
                model.set_params(kernel="poly")
            if name == "geometry":
                model.set_params(solver="extragradient")
            model.set_params(**{name: value})
        else:
            what, data = _wrong_data(rng, X, y)
        judge.context = [*context, what]
        judge.refuses(what, model.fit, *data)
        model.set_params(**given)
        try:
            kept = same(before, answers(judge, model, X))
        except RefusedError:
            kept = False
        if not judge.that(kept, "a fit that fails leaves the model as it was"):
            return
