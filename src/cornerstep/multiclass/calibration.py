"""Probabilities from the scores of a loss without any: ``softmax(s / T)``, T from held-out scores.

Examples are scored by a machine that has not seen them: it is trained without one of the folds, as
many of which are scored as give 250 scores; of few examples a fold is half of them.  Block ascent
starts from the dual points that the machine of all examples has for the others, and ends at a large
gap: T is one number.

``1/T`` minimises the log loss of these scores, a convex function of one number.  As two more
examples count that could be of any class, it is finite and positive also where no score errs.

References
----------
.. [1] J. Platt. Probabilistic outputs for support vector machines and comparisons to regularized
   likelihood methods. Advances in Large Margin Classifiers, MIT Press, 1999.
.. [2] C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger. On calibration of modern neural networks. ICML
   2017.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from cornerstep.core.clock import work_seconds
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.parameters import warm_start_signature
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.training import Settings, Training, train
from cornerstep.optimiser.result import Status

_FOLDS, _FEW_FOLDS = 5, 2  # the latter where a fifth of the examples is not enough
_ENOUGH = 250
"""Held-out scores: T is one number.  Measured on five sets (digits, usps, isolet, pendigits,
vowel), mean log loss on test examples of three seeds: .148, .332, .151, .453, 1.53 with these
numbers, .148, .332, .151, .453, 1.55 with a thousand scores of fifths, and up to five more fits."""
TOLERANCE = 0.1  # relative gap of block ascent: log losses are those of 0.01
_UNKNOWN = 2  # examples that could be of any class
_SHARPEST = 2.0**40  # of 1/T, times what makes the largest score 1
_FLATTEST = 2.0**-10  # so that rounding leaves the order of scores


def temperature(problem: MulticlassProblem, settings: Settings, trained: Training) -> float:
    """The T of a machine, from machines of parts of its examples that start from its state.

    A time limit is one for all of them, each of which takes a look at least.
    """
    folds = _folds(problem.labels, settings.rng)
    scores = np.zeros((problem.examples.n, problem.n_classes))
    scored = np.zeros(problem.examples.n, bool)
    began, limit = work_seconds(), settings.stopping.time_limit
    for fold in range(folds.max() + 1):
        kept = folds != fold
        if kept.all() or not kept.any():
            continue
        left = None if limit is None else max(limit - (work_seconds() - began), 0.0)
        machine = _machine_of(problem, kept, settings, trained.state, left)
        if machine.proof.status is Status.INTERRUPTED:
            if not scored.any():
                raise KeyboardInterrupt
            break
        scores[~kept] = problem.examples.scores_of(machine.weights, machine.expansion, kept)
        scored |= ~kept
        if scored.sum() >= _ENOUGH:
            break
    if not scored.any():  # a single example: nothing to hold out
        return 1.0
    return fitted_temperature(scores[scored], problem.labels[scored], problem.scales[scored])


def _machine_of(
    problem: MulticlassProblem, kept: Any, settings: Settings, state: Any, limit: float | None
) -> Training:
    """The machine of some of the examples."""
    part, start, stopping = problem.part(kept), None, settings.stopping
    if state is not None and state[0] == warm_start_signature(problem, "block"):
        (starts, classes, beta, _), counts = state[2], np.diff(state[2][0])
        inside = np.repeat(kept, counts)
        firsts = np.append(0, np.cumsum(counts[kept]))
        pool = firsts.astype(starts.dtype), classes[inside], beta[inside], None
        start = warm_start_signature(part, "block"), part.scales, pool
        stopping = dataclasses.replace(stopping, rtol=max(stopping.rtol, TOLERANCE))
    return train(
        part,
        dataclasses.replace(
            settings, stopping=dataclasses.replace(stopping, time_limit=limit), start=start,
            callback=None, verbose=0, checkpoint=None, keeps_state=start is not None,
        ),
    )  # fmt: skip


def _folds(labels: IntArray, rng: np.random.Generator) -> IntArray:
    """The fold of each example: every class is spread over them evenly, in random order."""
    order = rng.permutation(labels.size)
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(labels.size, np.int64)
    folds[order] = np.arange(labels.size) % (
        _FOLDS if labels.size >= _FOLDS * _ENOUGH else _FEW_FOLDS
    )
    return folds


def fitted_temperature(scores: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """The T with the least log loss of ``softmax(scores / T)``."""
    n = len(scores)
    scores = scores - scores.max(axis=1, keepdims=True)
    largest = float(np.abs(scores).max())
    if not largest > 0.0:
        return 1.0
    scores /= largest
    own = scores[np.arange(n), labels]
    wanted = (n * own + _UNKNOWN * scores.mean(axis=1)) / (n + _UNKNOWN)

    def slope(log: float) -> float:
        shares = softmax(np.exp(log) * scores, axis=1)
        return float(weights @ ((shares * scores).sum(axis=1) - wanted))

    low, high = np.log(_FLATTEST), np.log(_SHARPEST)
    if slope(low) >= 0.0:
        log = low
    elif slope(high) <= 0.0:
        log = high
    else:
        log = brentq(slope, low, high)
    return largest / float(np.exp(log))
