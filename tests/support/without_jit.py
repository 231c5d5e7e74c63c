"""``python -m support.without_jit FILE``: small problems with the JIT switched off.

Written to the file: which kernels ran, and for each that is called by no other, for some calls per
signature, what it was given, what it returned and what it left in its arguments.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numba
import numpy as np

CALLS = 3  # compared per signature

ran: set[tuple[str, str]] = set()
running: list[tuple[str, str]] = []
calls: dict[Any, list[bytes]] = defaultdict(list)
outermost: dict[Any, Callable[..., Any]] = {}


def signature(value: Any) -> Any:
    """What the compiler would look at."""
    if isinstance(value, tuple):
        return tuple(map(signature, value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.ndim, value.flags.c_contiguous
    return type(value)


def watched(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``numba.njit``, and a note of what its function is given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__module__, function.__name__
        plain = njit(**options)(function)

        @wraps(plain)
        def noted(*args: Any) -> Any:
            key = name, signature(args)
            if not running and len(calls[key]) < CALLS:
                calls[key].append(pickle.dumps(args))
                outermost[name] = plain
            running.append(name)
            ran.add(name)
            try:
                return plain(*args)
            finally:
                running.pop()

        return noted

    return decorate


def without_ties(given: bytes) -> bytes:
    """The same call with scores, its first argument, moved by some 1e-4 of their size.

    At an optimum classes of an example tie, and rounding, which the compiler changes, would decide.
    """
    scores, *others = pickle.loads(given)
    noise = np.random.default_rng(0).standard_normal(scores.shape)
    scores += (1e-4 * np.abs(scores).max(initial=0.0) * noise).astype(scores.dtype)
    return pickle.dumps((scores, *others))


def problems() -> None:
    """Fits that together run every kernel."""
    multiclass()
    kernel_svm()
    boosting()
    structured()
    optimiser()


def optimiser() -> None:
    """A capped simplex: few coordinates between their bounds, many at their caps."""
    from cornerstep import minimize
    from cornerstep.domains import CappedSimplex
    from cornerstep.objectives import LeastSquares

    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((8, 60)), rng.standard_normal(8)
    minimize(LeastSquares(A, b), CappedSimplex(60, 1.0, 1 / 30), method="interior-point")


def multiclass() -> None:
    from scipy.sparse import csr_array

    from cornerstep import MulticlassSVC
    from cornerstep.multiclass.compiled.doubled import margins
    from cornerstep.multiclass.examples import Examples, KernelExamples
    from cornerstep.multiclass.losses import make_loss
    from cornerstep.multiclass.problem import MulticlassProblem
    from cornerstep.multiclass.solvers.block import BlockAscent
    from cornerstep.multiclass.solvers.pace import SECOND_ORDER

    rng = np.random.default_rng(0)
    y = np.arange(24) % 4
    X = np.eye(4)[y] + rng.standard_normal((24, 4))
    for name in ("max-hinge", "usunier", "top-k"):
        loss = make_loss(name, k=2)
        for rows in (X, csr_array(X)):
            MulticlassSVC(loss, max_iter=5).fit(rows, y)
        for examples in (Examples(X), KernelExamples.of_matrix(X @ X.T)):
            problem = MulticlassProblem(examples, y, 4, loss, np.full(24, 10.0), 0.0)
            solver = BlockAscent(problem, np.random.default_rng(0), 1e-9)
            solver.pace.stage = SECOND_ORDER
            for _ in range(3):
                solver.look()
                solver.move()
    for name in ("envelope", "fw-corrective", "projected-gradient"):
        MulticlassSVC(solver=name, smoothing=0.1, max_iter=5).fit(X, y)
    make_loss("top-k", k=1).project(rng.standard_normal((5, 12)), y[:5])  # of a few of many entries
    margins(X, rng.standard_normal((4, 4)), y, np.ones((24, 4)))


def kernel_svm() -> None:
    from scipy.sparse import csr_array

    from cornerstep import ReducedHullSVC
    from support.kernel_problems import problem, train

    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 3)) + y[:, None]
    wide = np.zeros((40, 500))
    wide[np.arange(40), np.arange(40)] = 1e8  # far apart, but for their neighbours
    wide[1::2] = wide[::2]
    wide[:, -1] = y
    for rows in (X, wide, csr_array(wide)):
        ReducedHullSVC(0.5, kernel="rbf", gamma=1.0, random_state=0).fit(rows, y)
    for few in (ReducedHullSVC(nu=0.3), ReducedHullSVC(C=1.0)):  # 45 pairs in one call
        few.fit(X, np.arange(40) % 10)
    task = problem(X @ X.T + 1, np.sort(2.0 * y - 1)[::-1], K=5)
    train(task, whole_columns=0)


def boosting() -> None:
    from cornerstep import SoftMarginBoostingClassifier
    from cornerstep.boosting.binning import Binning
    from cornerstep.boosting.compiled import sweeps
    from cornerstep.boosting.learners.trees import TreeLearner

    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (20, 3)).astype(float)
    y = rng.integers(0, 2, 20)
    for depth in (1, 2, 3):
        for labels in (y, X[:, 0] > rng.normal(size=20), X[:, 1] // 2 + y):
            clf = SoftMarginBoostingClassifier(nu=0.3, atol=0.05, max_depth=depth, max_iter=4)
            clf.fit(X, labels).predict(X)
    binning = Binning(X, np.ones(20), 12)
    signed = (2.0 * y - 1.0) / 20
    many = rng.standard_normal((700, 3))  # so many bins that trees are proposed from samples
    sides = np.sign(many.sum(axis=1) + rng.standard_normal(700))
    learner = TreeLearner(many, sides, Binning(many, np.ones(700), 700), 2)
    learner.propose(rng.dirichlet(np.ones(700)))
    bins, n_bins = binning.transform(X), binning.n_bins  # what clusters do
    sweeps.stumps_of(sweeps.histograms(bins, signed, n_bins.max()), n_bins)
    sweeps.trees_of(sweeps.histograms_of_roots(bins, signed, n_bins.max()), n_bins)


def structured() -> None:
    from cornerstep import StructuredSVC
    from cornerstep.structured import ChainModel, GraphModel, SegmentModel
    from cornerstep.structured.parameters import GEOMETRIES, SOLVERS
    from cornerstep.structured.solvers.chains import ChainExamples
    from cornerstep.structured.solvers.graphs import PartExamples
    from support.structured_problems import PROBLEMS, chains, graphs

    def fit(name: str, max_iter: int = 2, **options: Any) -> None:
        model, X, Y = PROBLEMS[name]
        StructuredSVC(model, max_iter=max_iter, random_state=0, **options).fit(X, Y)

    for name in PROBLEMS:
        fit(name)
    for solver in SOLVERS:
        fit("chain", solver=solver)
    StructuredSVC(ChainModel(), max_iter=30, C=100.0).fit(*chains(4, n_labels=4, longest=9))
    model = ChainModel()
    model.prepare(*chains())
    examples = ChainExamples(model.encode_chains(*chains()), model.size)
    w = 1e3 * np.random.default_rng(0).standard_normal(model.size)
    examples.prox("entropic", [(w, 1.0, 1.0)])  # scores whose exponentials are 0
    walled = ChainModel(constraints=[(0, 1), (None, 2)], labels=range(3))
    allowed = [[0, 2], [1, 0, 2]]
    rows = [np.random.default_rng(k).standard_normal((len(y), 2)) for k, y in enumerate(allowed)]
    for solver in ("bcfw", "subgradient", "extragradient"):
        StructuredSVC(walled, max_iter=2, solver=solver).fit(rows, allowed)
    soft_chains = StructuredSVC(walled, max_iter=2, loss="softmax").fit(rows, allowed)
    assert soft_chains.model_.marginals(rows, 1e3 * w[: soft_chains.coef_.size])
    walled.prepare(rows, allowed)
    walled.decode_n_best(rows, np.ones(walled.size), 2)
    cuts = [[(2, "a"), (1, "b")], [(1, "b"), (2, "a")]]
    StructuredSVC(SegmentModel(), max_iter=2).fit([np.eye(3)] * 2, cuts)
    for name in ("independent", "matching"):
        for geometry in GEOMETRIES:
            fit(name, solver="extragradient", geometry=geometry)
    for n_labels, nodes in ((3, (12, 13)), (2, (4, 4))):  # by messages; enumerated
        X, Y = graphs(n=3, nodes=nodes, n_labels=n_labels)
        first = StructuredSVC(GraphModel(), lam=1e-3, max_iter=3, cache_size=2, warm_start=True)
        first.fit(X, Y).set_params(lam=2e-3).fit(X, Y)
    grid = GraphModel()
    grid.prepare(*graphs(n=2))
    random = np.random.default_rng(0).standard_normal(grid.size)
    PartExamples(grid, *graphs(n=2)).answer_in_parts(0, random, 0.0)  # by the model's inference
    cuts = GraphModel(attractive=True)
    soft: dict[str, Any] = {"solver": "extragradient", "geometry": "euclidean"}
    StructuredSVC(cuts, max_iter=2, **soft).fit(*graphs(n=2))


if __name__ == "__main__":
    njit, numba.njit = numba.njit, watched  # type: ignore[assignment]
    warnings.simplefilter("ignore")
    problems()
    answers = []
    for (name, _), some in list(calls.items()):
        for given in map(without_ties, some) if name[1] == "scan" else some:
            args = pickle.loads(given)
            answers.append((name, given, outermost[name](*args), args))
    Path(sys.argv[1]).write_bytes(pickle.dumps((ran, answers)))
