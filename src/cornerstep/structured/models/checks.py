"""``check_model``: is a model's decoding really the best there is?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import hash as digest

from cornerstep.core.types import FloatArray
from cornerstep.structured.models.base import StructuredModel, as_vector, items

_SLACK = 1e-8


def check_model(
    model: StructuredModel, X: Any, Y: Any, *, n_trials: int = 10, random_state: int = 0
) -> None:
    """Compare a model's oracles with brute force; raise an error that names the wrong function.

    For random weights of several sizes, and for weights 0, the answers of both decoders must score
    at least as much as the truth, as all labelings that ``model.labelings(x)`` lists (if it does)
    and as every labeling of the other examples and decoders that fits.  Losses must be >= 0, and 0
    for the truth; joint features finite, all of one length and the same when asked twice; batch
    forms must agree with single calls; no function may change what it is given.

    Parameters
    ----------
    model : StructuredModel
    X, Y : sequences
        A few small examples: brute force visits all their labelings.
    n_trials : int, default=10
        Weights to try.
    random_state : int, default=0

    Raises
    ------
    AssertionError
        With the name of the function that is probably wrong.
    """
    model = copy.copy(model)
    model.prepare(X, Y)
    model.check(X, Y)
    X, Y = items(X), items(Y)
    rng = np.random.default_rng(random_state)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        with _unchanged("joint_feature or loss", X, Y):
            _check_feature_and_loss(model, x, y, i)
    for trial in range(n_trials):
        w = rng.standard_normal(model.size) * (0.0 if trial == 0 else 10.0 ** (trial % 4 - 2))
        with _unchanged("loss_augmented_decode", X, Y, w):
            augmented = [model.loss_augmented_decode(x, y, w) for x, y in zip(X, Y, strict=True)]
        with _unchanged("decode", X, Y, w):
            plain = [model.decode(x, w) for x in X]
        with _unchanged("loss_augmented_decode_batch or decode_batch", X, Y, w):
            _check_batches(model, X, Y, w, augmented, plain)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            others = _candidates(model, x, y, [*Y, *plain])
            _check_best(model, x, y, w, i, augmented[i], others, True)
            _check_best(model, x, y, w, i, plain[i], others, False)


def _complain(function: str, why: str) -> None:
    raise AssertionError(f"{function} is probably wrong: {why}")


@contextmanager
def _unchanged(function: str, *given: Any) -> Iterator[None]:
    """Complain if what a function was given is not the same after it."""
    before = digest(given)
    yield
    if digest(given) != before:
        _complain(function, "it changes the x, y or w that it is given")


def _check_feature_and_loss(model: StructuredModel, x: Any, y: Any, i: int) -> None:
    first, again = (_dense(model, x, y) for _ in range(2))
    if first.size != model.size:
        _complain("joint_feature", f"it has {first.size} entries for example {i}, not {model.size}")
    if not np.isfinite(first).all():
        _complain("joint_feature", f"it is not finite for example {i}")
    if not np.array_equal(first, again):
        _complain("joint_feature", f"two calls for example {i} differ")
    own = model.loss(x, y, y)
    if own != 0:
        _complain("loss", f"loss(x, y, y) is {own} for example {i}, not 0")


def _dense(model: StructuredModel, x: Any, y: Any) -> FloatArray:
    vector = as_vector(model.joint_feature(x, y))
    return vector if isinstance(vector, np.ndarray) else vector.dense()


def _candidates(model: StructuredModel, x: Any, y: Any, seen: list[Any]) -> list[Any]:
    """All labelings of x if there are few; else those seen elsewhere that fit x."""
    listed = model.labelings(x)
    if listed is not None:
        return [y, *listed]
    fitting = [y]
    for other in seen:
        try:
            if np.shape(other) == np.shape(y):
                _dense(model, x, other)
                fitting.append(other)
        except (ValueError, IndexError, KeyError, TypeError):
            continue
    return fitting


def _check_best(
    model: StructuredModel,
    x: Any,
    y: Any,
    w: FloatArray,
    i: int,
    answer: Any,
    others: list[Any],
    augmented: bool,
) -> None:
    name = "loss_augmented_decode" if augmented else "decode"

    def total(other: Any) -> float:
        score = float(_dense(model, x, other) @ w)
        return score + float(model.loss(x, y, other)) if augmented else score

    if augmented and not model.loss(x, y, answer) >= 0:
        _complain("loss", f"it is {model.loss(x, y, answer)} for an answer to example {i}")
    reached, truth = total(answer), total(y)
    slack = _SLACK * (1 + abs(reached))
    if reached < truth - slack:
        _complain(
            name,
            f"its answer {answer!r} for example {i} scores {reached:.9g}, the truth {truth:.9g}",
        )
    for other in others:
        if total(other) > reached + slack:
            _complain(
                name,
                f"its answer {answer!r} for example {i} scores {reached:.9g}, "
                f"the labeling {other!r} scores {total(other):.9g}",
            )


def _check_batches(
    model: StructuredModel,
    X: list[Any],
    Y: list[Any],
    w: FloatArray,
    augmented: list[Any],
    plain: list[Any],
) -> None:
    forms: list[tuple[str, Callable[[], Any], list[Any]]] = [
        (
            "loss_augmented_decode_batch",
            lambda: model.loss_augmented_decode_batch(X, Y, w),
            augmented,
        ),
        ("decode_batch", lambda: model.decode_batch(X, w), plain),
    ]
    for name, batch, single in forms:
        for i, (one, other) in enumerate(zip(batch(), single, strict=True)):
            scores = [float(_dense(model, X[i], y) @ w) for y in (one, other)]
            if name.startswith("loss"):
                scores = [
                    s + model.loss(X[i], Y[i], y) for s, y in zip(scores, (one, other), strict=True)
                ]
            if abs(scores[0] - scores[1]) > _SLACK * (1 + abs(scores[1])):
                _complain(name, f"it differs from single calls for example {i}")
    losses = model.loss_batch(X, Y, plain)
    for i, (x, y, y_hat) in enumerate(zip(X, Y, plain, strict=True)):
        if abs(losses[i] - model.loss(x, y, y_hat)) > _SLACK:
            _complain("loss_batch", f"it differs from single calls for example {i}")
    features = model.joint_feature_batch(X, Y)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        vector = as_vector(features[i])
        one = vector if isinstance(vector, np.ndarray) else vector.dense()
        if not np.allclose(one, _dense(model, x, y)):
            _complain("joint_feature_batch", f"it differs from single calls for example {i}")
