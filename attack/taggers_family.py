"""``SequenceTagger``: sentences as matrices or words, weights, constraints, paths of lambda.

Judged: ``P(w)`` in long double over all labelings that constraints allow, from features written
down here; answers that obey; and ``certify``.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from attack.draws import chance, one_of, positive, scale
from attack.exact import EPS, LONG, real
from attack.judge import Judge
from cornerstep import SequenceTagger, certify

LABELS = ("B-X", "I-X", "O")


def _obeys(labels: Any, constraints: Any, begins: bool = True) -> bool:
    """BIO: an I follows a B or an I of its type."""
    pairs = itertools.pairwise([None, *labels] if begins else labels)
    return constraints is None or all(b != "I-X" or a in ("B-X", "I-X") for a, b in pairs)


def _known(y: Any) -> list[tuple[int, int]]:
    """Begin and end of each longest run of labels that are known."""
    runs = [(known, list(run)) for known, run in
            itertools.groupby(range(len(y)), lambda t: y[t] is not None)]  # fmt: skip
    return [(run[0], run[-1] + 1) for known, run in runs if known]


def _sentences(rng: Any, constraints: Any) -> tuple[list[list[str]], list[Any], Any]:
    """Labels, matrices of features of the tokens, and what is given for these."""
    lengths = rng.integers(1, 5, int(rng.integers(2, 7)))
    every = [list(p) for n in lengths for p in [[str(one_of(rng, *LABELS)) for _ in range(n)]]]
    Y = [["O" if not _obeys(y[: t + 1], constraints) else y[t] for t in range(len(y))]
         for y in every]  # fmt: skip
    Y = [y if _obeys(y, constraints) else ["O"] * len(y) for y in Y]
    d, s = int(rng.integers(1, 4)), scale(rng)
    X = [s * rng.standard_normal((len(y), d)) for y in Y]
    if chance(rng, 0.5):
        return Y, X, X
    words = [[{f"f{k}": float(v) for k, v in enumerate(row)} for row in x] for x in X]
    return Y, X, words


def _primal(tagger: Any, X: list[Any], Y: list[Any], share: Any, constraints: Any) -> Any:
    """P of the tagger's weights, a mean over pieces of sentences whose labels are known."""
    soft = tagger.loss == "softmax"
    labels = tagger.classes_.tolist()
    parts = {name: real(part) for name, part in tagger.model_.split(tagger.coef_).items()}
    columns = np.arange(X[0].shape[1])
    if tagger.vocabulary_ is not None:
        columns = np.array([int(name[1:]) for name in tagger.feature_names_in_])
    share = real(share)
    pieces = [
        (x[a:b], y[a:b], weight, a == 0, b == len(y))
        for x, y, weight in zip(X, Y, share, strict=True) for a, b in _known(y)
    ]  # fmt: skip
    share = real([piece[2] for piece in pieces])
    unit = share.sum() / (share * real([len(piece[1]) for piece in pieces])).sum()
    total = LONG(0)
    for x, y, weight, begins, ends in pieces:
        scores = real(x)[:, columns] @ parts["nodes"]
        best, true = [], LONG(0)
        for labeling in itertools.product(range(len(labels)), repeat=len(y)):
            said = [labels[k] for k in labeling]
            if not _obeys(said, constraints, begins):
                continue
            value = sum(scores[t, k] for t, k in enumerate(labeling))
            value += parts["start"][labeling[0]] * begins + parts["end"][labeling[-1]] * ends
            value += sum(parts["transitions"][a, b] for a, b in itertools.pairwise(labeling))
            if said == y:
                true = value
            wrong = sum(a != b for a, b in zip(said, y, strict=True))
            best.append(value if soft else value + unit * wrong)
        top = max(best)
        more = np.log(np.exp(real(best) - top).sum()) if soft else LONG(0)
        total += weight * (top - true + more)
    return LONG(tagger.lam_) / 2 * (real(tagger.coef_) ** 2).sum() + total / share.sum()


def attack(rng: Any, judge: Judge) -> None:
    """One tagger, its answers and its certificate."""
    constraints = one_of(rng, None, "BIO")
    with np.errstate(all="ignore"):
        Y, X, given = _sentences(rng, constraints)
    if chance(rng, 0.3):
        Y = [[None if chance(rng, 0.3) else label for label in y] for y in Y]
    share = None
    if chance(rng, 0.4):
        share = one_of(rng, rng.integers(1, 4, len(Y)).astype(float), 10 ** rng.uniform(-9, 9, 1))
        share = np.resize(share, len(Y))
    how: dict[str, Any] = {
        "lam": one_of(rng, "auto", positive(rng, -6, 3)), "constraints": constraints,
        "max_iter": int(one_of(rng, 0, 1, 20, 100)), "random_state": 0,
        "tol": float(one_of(rng, 1e-1, 1e-3, 0.0)), "averaging": chance(rng, 0.5),
        "loss": one_of(rng, "max-hinge", "softmax"),
    }  # fmt: skip
    if chance(rng, 0.1):
        how["time_limit"] = float(one_of(rng, 0.0, 0.05))
    judge.says(how, [len(y) for y in Y], "weights", share, "words" if given is not X else "")
    tagger = judge.call(SequenceTagger(**how).fit, given, Y, share)
    value, bound, gap = (LONG(v) for v in (tagger.objective_, tagger.bound_, tagger.gap_))
    if not judge.that(np.isfinite([value, bound, gap]).all(), f"finite: {value}, {bound}, {gap}"):
        return
    true = _primal(tagger, X, Y, np.ones(len(Y)) if share is None else share, constraints)
    judge.at_most(0.0, gap, "gap_ >= 0")
    judge.at_most(true, value, "objective of the weights <= objective_", 4 * EPS * abs(value))
    judge.at_most(value - true, gap, "objective_ - objective of the weights <= gap_",
                  4 * EPS * abs(value))  # fmt: skip
    judge.at_most(bound, true, "bound_ <= objective", 4 * EPS * abs(true))
    answers = judge.call(tagger.predict, given)
    judge.that(all(_obeys(y, constraints) for y in answers), "answers obey")
    check = judge.call(certify, tagger, given, Y, share)
    judge.that(check.holds, f"certify rejects an honest model: {check.problems[:1]}")
