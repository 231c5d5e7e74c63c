"""Data, solvers and judge of the structured benchmarks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.core import Answer, Measures, Recorder, Run, Solver
from benchmarks.data import read
from cornerstep import StructuredSVC
from cornerstep.structured import ChainModel, GraphModel, MultilabelModel
from cornerstep.structured.models.base import as_vector

ALL_SOLVERS = (
    "bcfw", "bcfw-pairwise", "bcfw-away", "bcfw-auto", "fw", "subgradient", "extragradient",
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A model with training and test data, and lambda."""

    model: Any
    X: Any
    Y: Any
    lam: float
    X_test: Any = None
    Y_test: Any = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Point:
    """A trained model; or, along a path, what the trace knows of one."""

    clf: Any = None
    known: Measures | None = None

    def copy(self) -> Point:
        return self


def ocr(large: bool) -> Problem:
    """Letters of words: fold 0 (small, lambda 0.01) or folds 1 to 9 (large, lambda 1/n)."""
    z = read("ocr_letters")
    pixels = np.unpackbits(z["X"], axis=1)[:, : int(z["n_features"])].astype(np.float64)
    letters = np.hstack([pixels, np.ones((len(pixels), 1))])
    ends = z["word_ptr"]
    words = [letters[a:b] for a, b in pairwise(ends)]
    labels = [z["y"][a:b] for a, b in pairwise(ends)]
    first = z["fold"] == 0
    train = np.flatnonzero(~first if large else first)
    test = np.flatnonzero(first if large else ~first)
    return Problem(
        ChainModel(biases=True, labels=range(26)),
        [words[i] for i in train],
        [labels[i] for i in train],
        1 / len(train) if large else 0.01,
        [words[i] for i in test],
        [labels[i] for i in test],
    )


def synthetic_chains(n: int = 500, seed: int = 0) -> Problem:
    """Chains drawn from a hidden Markov model: Gaussian observations of 10 states, n of 8 nodes."""
    rng = np.random.default_rng(seed)
    m, d = 10, 20
    means = rng.standard_normal((m, d))
    steps = rng.dirichlet(np.full(m, 0.3), size=m)

    def draw(count: int) -> tuple[list[Any], list[Any]]:
        X, Y = [], []
        for _ in range(count):
            states = [int(rng.integers(m))]
            while len(states) < 8:
                states.append(int(rng.choice(m, p=steps[states[-1]])))
            Y.append(np.array(states))
            X.append(means[states] + 1.5 * rng.standard_normal((8, d)))
        return X, Y

    X, Y = draw(n)
    X_test, Y_test = draw(500)
    return Problem(ChainModel(labels=range(m)), X, Y, 1 / n, X_test, Y_test)


def conll(fraction: float = 1.0) -> Problem:
    """CoNLL-2000 chunking: words and part-of-speech tags in a window, alone and in pairs."""
    z = read("conll2000")
    columns: dict[Any, int] = {}
    parts = {}
    for name in ("train", "test"):
        words, tags, ends = z[f"{name}_word"], z[f"{name}_pos"], z[f"{name}_sent_ptr"]
        if name == "train" and fraction < 1:
            ends = ends[: int(fraction * (len(ends) - 1)) + 1]
        rows = [
            row
            for a, b in pairwise(ends)
            for row in _windows(words[a:b].tolist(), tags[a:b].tolist())
        ]
        indptr, indices = [0], []
        for row in rows:
            for key in row:
                if name == "train":
                    indices.append(columns.setdefault(key, len(columns)))
                elif key in columns:
                    indices.append(columns[key])
            indptr.append(len(indices))
        matrix = sp.csr_array(
            (np.ones(len(indices)), indices, indptr), shape=(len(rows), len(columns))
        )
        chunks = z[f"{name}_chunk"]
        parts[name] = (
            [matrix[a:b] for a, b in pairwise(ends)],
            [chunks[a:b] for a, b in pairwise(ends)],
        )
    X, Y = parts["train"]
    model = ChainModel(biases=True, labels=range(len(z["chunk_tags"])))
    return Problem(model, X, Y, 1 / len(X), *parts["test"], {"tags": z["chunk_tags"].tolist()})


def _windows(words: list[int], tags: list[int]) -> Iterable[list[Any]]:
    n = len(words)

    def word(t: int) -> int:
        return words[t] if 0 <= t < n else -1

    def tag(t: int) -> int:
        return tags[t] if 0 <= t < n else -1

    for t in range(n):
        row: list[Any] = ["bias"]
        row += [("w", k, word(t + k)) for k in (-2, -1, 0, 1, 2)]
        row += [("p", k, tag(t + k)) for k in (-2, -1, 0, 1, 2)]
        row += [("ww", k, word(t + k), word(t + k + 1)) for k in (-1, 0)]
        row += [("pp", k, tag(t + k), tag(t + k + 1)) for k in (-2, -1, 0, 1)]
        row += [("ppp", k, tag(t + k), tag(t + k + 1), tag(t + k + 2)) for k in (-2, -1, 0)]
        yield row


def chunk_f1(tags: list[str], truth: list[Any], answers: list[Any]) -> float:
    """F1 of whole chunks (type, first and last token), the measure of the shared task."""
    right = there = found = 0
    for y, y_hat in zip(truth, answers, strict=True):
        true, said = _chunks([tags[k] for k in y]), _chunks([tags[k] for k in y_hat])
        right += len(true & said)
        there += len(true)
        found += len(said)
    return 2 * right / (there + found)


def _chunks(tags: list[str]) -> set[tuple[str, int, int]]:
    chunks, start, kind = set(), 0, ""
    for t, tag in enumerate([*tags, "O"]):
        mark, _, name = tag.partition("-")
        if kind and (mark != "I" or name != kind):
            chunks.add((kind, start, t))
            kind = ""
        if mark != "O" and not kind:
            start, kind = t, name
    return chunks


def multilabel(name: str, edges: Any) -> Problem:
    """scene or yeast, features standardised."""
    z = read(name)
    mean, deviation = z["X_train"].mean(axis=0), z["X_train"].std(axis=0)
    X, X_test = ((z[f"X_{part}"] - mean) / deviation for part in ("train", "test"))
    return Problem(
        MultilabelModel(edges), X.astype(float), z["Y_train"], 1 / len(X),
        X_test.astype(float), z["Y_test"],
    )  # fmt: skip


def snakes() -> Problem:
    """Grids with a snake of ten cells; edges know their direction."""
    z = read("snakes")
    parts = []
    for name in ("train", "test"):
        grids = _grids(z, f"X_{name}")
        parts += [
            [_grid_graph(grid) for grid in grids],
            [y.ravel() for y in _grids(z, f"Y_{name}")],
        ]
    X, Y, X_test, Y_test = parts
    return Problem(GraphModel(labels=range(11)), X, Y, 1 / len(X), X_test, Y_test)


def _grids(z: Any, name: str) -> list[Any]:
    flat, shapes = z[f"{name}_flat"], z[f"{name}_shapes"].astype(int)
    ends = np.concatenate([[0], np.cumsum(shapes.prod(axis=1))])
    return [
        flat[a:b].reshape(shape) for a, b, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
    ]


def _grid_graph(grid: Any) -> tuple[Any, ...]:
    """Nodes see the 3 x 3 cells around them; an edge to the right or down says which."""
    height, width, depth = grid.shape
    padded = np.zeros((height + 2, width + 2, depth))
    padded[1:-1, 1:-1] = grid / 255.0
    nodes = np.concatenate(
        [padded[a : a + height, b : b + width] for a in range(3) for b in range(3)], axis=2
    ).reshape(height * width, -1)
    nodes = np.hstack([nodes, np.ones((len(nodes), 1))])
    cells = np.arange(height * width).reshape(height, width)
    right = np.column_stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()])
    down = np.column_stack([cells[:-1].ravel(), cells[1:].ravel()])
    directions = np.repeat(np.eye(2), [len(right), len(down)], axis=0)
    return nodes, np.vstack([right, down]), directions


def train(name: str, solver: str, **options: Any) -> Solver:
    """StructuredSVC with one solver; its trace makes the path."""

    def prepare(problem: Problem) -> Run:
        settings = {"random_state": 0, "lam": problem.lam, "solver": solver} | options
        warm = StructuredSVC(problem.model, **(settings | {"max_iter": 1}))
        small = slice(0, 20)
        quiet(lambda: warm.fit(problem.X[small], problem.Y[small]))  # compiles

        def run(recorder: Recorder | None) -> Answer:
            clf = StructuredSVC(problem.model, **settings)
            quiet(lambda: clf.fit(problem.X, problem.Y))
            if recorder is not None:
                for row in clf.trace_:
                    if row["gap"] == row["gap"] and recorder.due(row["iteration"]):
                        known = {
                            "gap": float(row["gap"]),
                            "oracle_calls": float(row["oracle_calls"]),
                        }
                        recorder(row["iteration"], row["seconds"], Point(known=known))
            work = {"oracle_calls": float(clf.n_oracle_calls_)}
            return Answer(Point(clf), clf.n_iter_, clf.status_.value, work)

        return run

    return Solver(name, prepare)


def quiet(work: Callable[[], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work()


def judge(problem: Problem, point: Point) -> Measures:
    """The objective at w from the data; the gap to the solver's bound; errors on both sets."""
    if point.known is not None:
        return point.known
    clf = point.clf
    model, w = clf.model_, clf.coef_
    answers = model.loss_augmented_decode_batch(problem.X, problem.Y, w)
    losses = model.loss_batch(problem.X, problem.Y, answers)
    margins = [
        float(as_vector(model.joint_feature(x, y)) @ w - as_vector(model.joint_feature(x, z)) @ w)
        for x, y, z in zip(problem.X, problem.Y, answers, strict=True)
    ]
    objective = float(np.mean(losses - np.array(margins)) + problem.lam / 2 * (w @ w))
    found = {
        "objective": objective,
        "gap": objective - float(clf.bound_),
        "oracle_calls": float(clf.n_oracle_calls_),
        "train error": 1 - clf.score(problem.X, problem.Y),
    }
    if problem.X_test is not None:
        found["test error"] = 1 - clf.score(problem.X_test, problem.Y_test)
    return found
