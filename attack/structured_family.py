"""``StructuredSVC``: chains, multi-class, graphs and matchings, by every solver and loss.

Judged: ``P(w) = lambda/2 |w|² + weighted mean of max_y (L(y) - w'psi(y))``, or of ``log sum_y
exp(-w'psi(y))``, in long double by enumerating all labelings, with joint features written down
here; bounds against every objective.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from attack.draws import chance, labels, one_of, positive, rows, scale
from attack.exact import EPS, LONG, real
from attack.judge import Judge
from cornerstep import StructuredSVC
from cornerstep.structured import (
    ChainModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    MultilabelModel,
    SecondOrderChainModel,
    SegmentModel,
)

SOLVERS = ("bcfw", "bcfw", "bcfw-pairwise", "bcfw-away", "bcfw-auto", "fw", "subgradient",
           "extragradient")  # fmt: skip


@dataclass
class Task:
    """Examples, and ``scored(w)``: for each its labelings' scores, their losses, the truth."""

    model: Any
    X: Any
    Y: Any
    scored: Callable[[Any], list[tuple[Any, Any, int]]]
    weights: Any = None
    loss: str = "max-hinge"

    def primal(self, w: Any, lam: float) -> Any:
        """P at w."""
        if self.loss == "softmax":
            hinges = [_log_sum(s - s[true]) for s, _, true in self.scored(real(w))]
        else:
            hinges = [(loss + s - s[true]).max() for s, loss, true in self.scored(real(w))]
        shares = real(np.ones(len(hinges)) if self.weights is None else self.weights)
        return LONG(lam) * (real(w) ** 2).sum() / 2 + (shares @ hinges) / shares.sum()


def _log_sum(scores: Any) -> Any:
    top = scores.max()
    return top + np.log(np.exp(scores - top).sum())


def _labelings(length: int, m: int) -> Any:
    return np.array(list(itertools.product(range(m), repeat=length)))


def _features(rng: Any, L: int, d: int, s: float) -> Any:
    x = rng.standard_normal((L, d))
    return s * (np.round(x) if chance(rng, 0.3) else x)


def _chain(rng: Any) -> Task:
    m, d, s = int(rng.integers(2, 4)), int(rng.integers(1, 4)), scale(rng)
    transitions, biases, normalize = chance(rng, 0.8), chance(rng, 0.4), chance(rng, 0.6)
    Y = [rng.integers(0, m, int(rng.integers(1, 5))) for _ in range(int(rng.integers(1, 6)))]
    forbidden = _forbidden(rng, Y, m) if transitions and chance(rng, 0.3) else []
    X = [_features(rng, y.size, d, s) for y in Y]
    shares = [np.round(rng.uniform(0.1, 2, y.size), 1) for y in Y] if chance(rng, 0.3) else None
    given: Any = X if shares is None else list(zip(X, shares, strict=True))
    if shares is None and chance(rng, 0.3):
        given = [sp.csr_array(x) for x in X]

    def scored(w: Any) -> list[tuple[Any, Any, int]]:
        nodes, at, out = w[: m * d].reshape(d, m), m * d, []
        start = end = np.zeros(m, dtype=LONG)
        if biases:
            start, end, at = w[at : at + m], w[at + m : at + 2 * m], at + 2 * m
        T = w[at:].reshape(m, m) if transitions else np.zeros((m, m), dtype=LONG)
        for k, (x, y) in enumerate(zip(X, Y, strict=True)):
            every = _labelings(y.size, m)
            every = every[[not _breaks(labeling, forbidden) for labeling in every]]
            share = real(np.ones(y.size) if shares is None else shares[k])
            share = share / share.sum() if normalize else share
            each = (real(x) @ nodes)[np.arange(y.size), every].sum(axis=1)
            each = each + T[every[:, :-1], every[:, 1:]].sum(axis=1)
            each = each + start[every[:, 0]] + end[every[:, -1]]
            loss = ((every != y) * share).sum(axis=1)
            out.append((each, loss, int((every == y).all(axis=1).argmax())))
        return out

    model = ChainModel(transitions, biases, normalize, list(range(m)), forbidden or None)
    return Task(model, given, Y, scored)


def _second_order(rng: Any) -> Task:
    m, d, s = int(rng.integers(2, 4)), int(rng.integers(1, 4)), scale(rng)
    Y = [rng.integers(0, m, int(rng.integers(1, 5))) for _ in range(int(rng.integers(1, 6)))]
    X = [_features(rng, y.size, d, s) for y in Y]

    def scored(w: Any) -> list[tuple[Any, Any, int]]:
        nodes, rest, out = w[: m * d].reshape(d, m), w[m * d :], []
        T, S = rest[: m * m].reshape(m, m), rest[m * m :].reshape(m, m, m)
        for x, y in zip(X, Y, strict=True):
            every = _labelings(y.size, m)
            each = (real(x) @ nodes)[np.arange(y.size), every].sum(axis=1)
            each = each + T[every[:, :-1], every[:, 1:]].sum(axis=1)
            each = each + S[every[:, :-2], every[:, 1:-1], every[:, 2:]].sum(axis=1)
            loss = (every != y).sum(axis=1) / LONG(y.size)
            out.append((each, loss, int((every == y).all(axis=1).argmax())))
        return out

    return Task(SecondOrderChainModel(labels=list(range(m))), X, Y, scored)


def _cuts(n: int, m: int, longest: int) -> list[list[tuple[int, int]]]:
    """All ways to cut n nodes into segments with labels."""
    return [[]] if n == 0 else [
        [(k, a), *rest] for k in range(1, min(n, longest) + 1) for a in range(m)
        for rest in _cuts(n - k, m, longest)
    ]  # fmt: skip


def _segments(rng: Any) -> Task:
    m, d, q, s = 2, int(rng.integers(1, 3)), int(rng.integers(1, 3)), scale(rng)
    lists = [_cuts(int(rng.integers(1, 5)), m, 2) for _ in range(int(rng.integers(1, 5)))]
    Y = [cuts[int(rng.integers(len(cuts)))] for cuts in lists]
    sizes = [sum(k for k, _ in y) for y in Y]
    X = [(_features(rng, n, d, s), s * rng.standard_normal((n, 2, q))) for n in sizes]

    def nodes_of(y: Any) -> Any:
        return [(a, t == 0) for k, a in y for t in range(k)]

    def scored(w: Any) -> list[tuple[Any, Any, int]]:
        W, V = w[: d * m].reshape(d, m), w[d * m : (d + q) * m].reshape(q, m)
        T, out = w[(d + q) * m :].reshape(m, m), []
        for (x, g), y, every in zip(X, Y, lists, strict=True):
            each, loss = [], []
            for cuts in every:
                at, total = 0, LONG(0)
                for k, a in cuts:
                    total += (real(x[at : at + k]) @ W[:, a]).sum() + real(g[at, k - 1]) @ V[:, a]
                    at += k
                total += sum((T[a, b] for (_, a), (_, b) in itertools.pairwise(cuts)), LONG(0))
                each.append(total)
                wrong = [p != q for p, q in zip(nodes_of(cuts), nodes_of(y), strict=True)]
                loss.append(LONG(sum(wrong)) / len(wrong))
            out.append((np.array(each), np.array(loss), every.index(y)))
        return out

    return Task(SegmentModel(2, labels=list(range(m))), X, Y, scored)


def _pairs(labeling: Any) -> list[tuple[Any, Any]]:
    """What follows what; None is before the first and after the last label."""
    ends = [None, *(int(label) for label in labeling), None]
    return list(itertools.pairwise(ends))


def _forbidden(rng: Any, Y: Any, m: int) -> list[tuple[Any, Any]]:
    """Pairs that no labeling may have, none of which is in the data."""
    seen = {pair for y in Y for pair in _pairs(y)}
    every = itertools.product([None, *range(m)], [*range(m), None])
    return [
        pair for pair in every if pair not in seen and pair != (None, None) and chance(rng, 0.6)
    ]


def _breaks(labeling: Any, forbidden: list[tuple[Any, Any]]) -> bool:
    return any(pair in forbidden for pair in _pairs(labeling))


def _multiclass(rng: Any) -> Task:
    m = int(rng.integers(2, 5))
    y = labels(rng, int(rng.integers(m, m + 8)), m)
    X, intercept = rows(rng, y, int(rng.integers(1, 4))), chance(rng, 0.5)
    scaling = float(one_of(rng, 1.0, 0.1, 10.0))

    def scored(w: Any) -> list[tuple[Any, Any, int]]:
        W = w.reshape(-1, m)
        Z = real(X) if not intercept else np.column_stack([real(X), np.full(y.size, LONG(scaling))])
        return [(s, (np.arange(m) != k).astype(LONG), k) for s, k in zip(Z @ W, y, strict=True)]

    return Task(MulticlassModel(intercept, scaling), X, y, scored)


def _graph(rng: Any) -> Task:
    m, d, s = int(rng.integers(2, 4)), int(rng.integers(1, 3)), scale(rng)
    X, Y = [], []
    for _ in range(int(rng.integers(1, 5))):
        N = int(rng.integers(2, 5))
        pairs = list(itertools.combinations(range(N), 2))
        edges = np.array([pair for pair in pairs if chance(rng, 0.6)] or [pairs[0]])
        X.append((_features(rng, N, d, s), edges))
        Y.append(rng.integers(0, m, N))

    def scored(w: Any) -> list[tuple[Any, Any, int]]:
        nodes, V, out = w[: d * m].reshape(d, m), w[d * m :].reshape(m, m), []
        for (x, edges), y in zip(X, Y, strict=True):
            every = _labelings(y.size, m)
            each = (real(x) @ nodes)[np.arange(y.size), every].sum(axis=1)
            each = each + V[every[:, edges[:, 0]], every[:, edges[:, 1]]].sum(axis=1)
            loss = (every != y).sum(axis=1) / LONG(y.size)
            out.append((each, loss, int((every == y).all(axis=1).argmax())))
        return out

    return Task(GraphModel(labels=list(range(m))), X, Y, scored)


def _tags(rng: Any) -> Task:
    tags, d, n = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(2, 7))
    X, Y = _features(rng, n, d, scale(rng)), rng.integers(0, 2, (n, tags))
    edges: Any = np.array([(j, j + 1) for j in range(tags - 1)])
    edges = one_of(rng, None, "full", edges)
    every = _labelings(tags, 2)
    joined: Any = {None: [], "full": list(itertools.combinations(range(tags), 2))}
    joined = np.array(joined[edges] if edges is None or isinstance(edges, str) else edges)

    def scored(w: Any) -> list[tuple[Any, Any, int]]:
        out, V = [], w[tags * d :].reshape(-1, 2, 2)
        for x, y in zip(real(X), Y, strict=True):
            each = every @ (w[: tags * d].reshape(tags, d) @ x)
            for (j, k), v in zip(joined, V, strict=True):
                each = each + v[every[:, j], every[:, k]]
            loss = (every != y).sum(axis=1) / LONG(tags)
            out.append((each, loss, int((every == y).all(axis=1).argmax())))
        return out

    return Task(MultilabelModel(edges, fit_intercept=False), X, Y, scored)


def _matching(rng: Any) -> Task:
    d, s, X, Y = int(rng.integers(1, 4)), scale(rng), [], []
    for _ in range(int(rng.integers(1, 5))):
        k = int(rng.integers(1, 4))
        columns = int(rng.integers(k, 5))
        X.append(s * rng.standard_normal((k, columns, d)))
        Y.append(rng.permutation(columns)[:k])

    def scored(w: Any) -> list[tuple[Any, Any, int]]:
        out = []
        for x, y in zip(X, Y, strict=True):
            k, columns = x.shape[:2]
            every = np.array(list(itertools.permutations(range(columns), k)))
            each = (real(x) @ w)[np.arange(k), every].sum(axis=1)
            loss = (every != y).sum(axis=1) / LONG(k)
            out.append((each, loss, int((every == y).all(axis=1).argmax())))
        return out

    return Task(MatchingModel(), X, Y, scored)


def training(rng: Any, task: Task) -> dict[str, Any]:
    """How to train."""
    solver = "bcfw" if task.loss == "softmax" else one_of(rng, *SOLVERS)
    hard = GraphModel | MultilabelModel | SecondOrderChainModel | SegmentModel
    if solver == "extragradient" and isinstance(task.model, hard):
        solver = "fw"
    out = {
        "solver": solver, "atol": float(one_of(rng, 1e-1, 1e-2, 1e-4, 1e-8, 0.0)),
        "averaging": chance(rng, 0.5), "cache_passes": int(one_of(rng, 0, 1, 5)),
        "max_iter": int(one_of(rng, 0, 1, 5, 30, 100)), "random_state": int(rng.integers(100)),
        "check_every": int(one_of(rng, 1, 10)),
    }  # fmt: skip
    if chance(rng, 0.2):
        out["tol"] = float(one_of(rng, 1e-2, 1e-6))
    if solver.startswith("bcfw"):
        out["sampling"] = one_of(rng, "permuted", "permuted", "uniform", "gap")
    if solver == "extragradient":
        out["geometry"] = one_of(rng, "entropic", "euclidean")
        out["max_iter"] = min(out["max_iter"], 30)
    if chance(rng, 0.05):
        out["time_limit"] = float(one_of(rng, 0.0, 0.05))
    return out


def check(task: Task, model: Any, how: dict[str, Any], judge: Judge) -> tuple[Any, Any]:
    """What must hold of a fitted model; its objective and its bound."""
    numbers = [model.objective_, model.bound_, model.gap_, model.relative_gap_]
    finite = np.isfinite(numbers).all() and np.isfinite(model.coef_).all()
    if not judge.that(finite, f"finite certificate and weights: {numbers}"):
        return LONG(np.inf), LONG(-np.inf)
    value, bound, gap = LONG(model.objective_), LONG(model.bound_), LONG(model.gap_)
    judge.at_most(0.0, gap, "gap_ >= 0")
    judge.at_most(abs(value - bound - gap), 0.0, "gap_ is the difference",
                  4 * EPS * (abs(value) + abs(bound)))  # fmt: skip
    if model.status_.value == "solved":
        target = max(how["atol"], how.get("tol", 0.0) * abs(model.objective_))
        judge.at_most(gap, target, "solved means gap <= tol", 4 * EPS * abs(value))
    true = task.primal(model.coef_, model.lam_)
    judge.at_most(true, value, "objective of the weights <= objective_", 4 * EPS * abs(value))
    judge.at_most(value - true, gap, "objective_ - objective of the weights <= gap_",
                  4 * EPS * abs(value))  # fmt: skip
    judge.at_most(model.n_iter_, max(how["max_iter"], 1), "max_iter is kept")
    return true, bound


def draw(rng: Any) -> Task:
    """A random problem."""
    kinds = (
        _chain,
        _chain,
        _chain,
        _multiclass,
        _graph,
        _matching,
        _tags,
        _second_order,
        _segments,
    )
    return one_of(rng, *kinds)(rng)


def example_weights(rng: Any, task: Task) -> Any:
    """Weights of the examples: whole numbers, or of very different sizes, on any scale."""
    n = len(task.Y)
    weights = one_of(rng, rng.integers(0, 4, n).astype(float), 10.0 ** rng.uniform(-9, 2, n))
    weights[int(rng.integers(n))] = 1.0
    if isinstance(task.model, MulticlassModel):  # all classes must be left
        weights = np.maximum(weights, weights[weights > 0].min())
    return weights * 2.0 ** int(rng.integers(-300, 301))


def attack(rng: Any, judge: Judge) -> None:
    """One problem by two solvers; sometimes repeated, or from a warm start."""
    task = draw(rng)
    C = positive(rng)
    if isinstance(task.model, ChainModel | MulticlassModel) and chance(rng, 0.4):
        task.loss = "softmax"
    if chance(rng, 0.4):
        task.weights = example_weights(rng, task)
    judge.says(type(task.model).__name__, task.loss, f"C={C}", f"weights {task.weights}")
    context, found = list(judge.context), []
    for _ in range(2):
        how = training(rng, task)
        judge.context = [*context, str(how)]
        svm = StructuredSVC(task.model, loss=task.loss, C=C, **how)
        model = judge.call(svm.fit, task.X, task.Y, task.weights)
        found.append(check(task, model, how, judge))
    if chance(rng, 0.1):
        judge.context = [*context, f"warm start {how}"]
        model.set_params(warm_start=True)
        for _ in range(2):
            judge.call(model.fit, task.X, task.Y, task.weights)
        found.append(check(task, model, how, judge))
    elif chance(rng, 0.05) and "time_limit" not in how:
        again = judge.call(clone(model).fit, task.X, task.Y, task.weights)
        judge.that(np.array_equal(again.coef_, model.coef_), "the same fit twice is the same")
    judge.context = context
    best, bound = min(pair[0] for pair in found), max(pair[1] for pair in found)
    judge.at_most(bound, best, "bound_ <= every objective", 4 * EPS * abs(best))
