"""A GPU: an iteration of fw beside its two matrix products, and training to a proven gap.

Iterations are on normal data of ImageNet's size (n = 1,281,167, d = 2,048, m = 1,000) and of the
published CUB200 experiment's, top-5 loss; products of float32 data are in TF32 on both sides.
Training is on features with a class structure of ImageNet's size, drawn on the GPU, standardised or
as they come (none is negative), with the default solver and an intercept, to a relative gap of
1e-2.  The judge computes P of the weights from the data in float64; of the dual
bound it takes the solver's word, as Frank-Wolfe keeps no dual points.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Measures,
    Recorder,
    Run,
    Solver,
    UnavailableError,
    Yardstick,
)

IMAGENET, CUB200 = (1_281_167, 2_048, 1_000), (6_033, 4_096, 200)
K = 5
_CHUNK = 65_536


@dataclass(frozen=True)
class Problem:
    """Tensors on the GPU; ``training`` tells the two questions apart."""

    X: Any
    y: Any
    n_classes: int
    C: float
    training: bool = False


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise UnavailableError("torch is not installed: pip install 'cornerstep[torch]'") from None
    if not torch.cuda.is_available():
        raise UnavailableError("this machine has no GPU that torch can use")
    return torch


def normal(size: tuple[int, int, int], dtype: str) -> Problem:
    """Normal data, random labels."""
    torch = _torch()
    n, d, m = size
    torch.manual_seed(0)
    X = torch.empty((n, d), device="cuda", dtype=getattr(torch, dtype))
    for start in range(0, n, _CHUNK):
        X[start : start + _CHUNK].normal_()
    return Problem(X, torch.randint(0, m, (n,), device="cuda"), m, 1e-3)


def features(C: float, dtype: str, centred: bool) -> Problem:
    """``max(0, (M_y + noise) A + noise)`` with 128 hidden features, |x|² = 1 in the mean."""
    torch = _torch()
    n, d, m = IMAGENET
    hidden = 128
    torch.manual_seed(0)
    options = {"device": "cuda"}
    spectrum = torch.arange(1, hidden + 1, **options) ** -0.25
    A = spectrum[:, None] * torch.randn((hidden, d), **options) / hidden**0.5
    means = 0.33 * torch.randn((m, hidden), **options)
    y = torch.randint(0, m, (n,), **options)
    X = torch.empty((n, d), **options)
    for start in range(0, n, _CHUNK):
        rows = X[start : start + _CHUNK]
        inside = means[y[start : start + _CHUNK]] + torch.randn((len(rows), hidden), **options)
        rows[:] = (inside @ A + 0.3 * torch.randn_like(rows)).clamp_(min=0)
    if centred:
        X -= X.mean(0)
        X /= X.std(0) * d**0.5
    else:
        X /= torch.linalg.vector_norm(X) / n**0.5
    return Problem(X.to(getattr(torch, dtype)), y, m, C, training=True)


def _products(problem: Problem) -> Callable[[], Any]:
    torch = _torch()
    X = problem.X
    wide = {} if X.dtype == torch.float32 else {"out_dtype": torch.float32}
    W = torch.randn((problem.n_classes, X.shape[1]), device="cuda").to(X.dtype)
    U = torch.randn((X.shape[0], problem.n_classes), device="cuda").to(X.dtype)

    def operation() -> Any:
        torch.set_float32_matmul_precision("high")
        for _ in range(_repeats(problem)):
            out = torch.mm(X, W.T, **wide), torch.mm(U.T, X, **wide)
        torch.cuda.synchronize()
        return out

    return operation


def _repeats(problem: Problem) -> int:
    if problem.training:
        return 1
    return 5 if problem.X.shape[0] > 100_000 else 500


def _fw(problem: Problem) -> Run:
    from cornerstep.losses import TopK
    from cornerstep.problems.array_rows import ArrayExamples, ArrayProblem, ArrayRows
    from cornerstep.problems.graph_descent import GraphDescent

    torch = _torch()
    scales = torch.full(problem.y.shape, problem.C, device="cuda", dtype=torch.float64)
    examples = ArrayExamples(problem.X)
    posed = ArrayProblem(examples, problem.y, problem.n_classes, TopK(K), scales)
    solver = GraphDescent(ArrayRows(posed), "fw")
    solver.look()
    for _ in range(4):  # compile and capture
        solver.move()
        solver.look()

    def run(record: Recorder | None) -> Answer:
        start = time.perf_counter()
        for _ in range(_repeats(problem)):
            solver.move()
            look = solver.look()
        seconds = time.perf_counter() - start
        return Answer((solver.point.image, look), 1, "iteration limit", {}, seconds)

    return run


def _training(problem: Problem) -> Run:
    from cornerstep import MulticlassSVC

    torch = _torch()

    def fit(**parameters: Any) -> Any:
        return MulticlassSVC("top-k", k=K, C=problem.C, **parameters).fit(problem.X, problem.y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(tol=0.0, max_iter=2)  # compile

    def run(record: Recorder | None) -> Answer:
        model = fit(tol=1e-2, time_limit=120.0, max_iter=100_000)
        error = 1.0 - model.top_k_score(problem.X[:_CHUNK], problem.y[:_CHUNK], K)
        weights = torch.cat([model.coef_, model.intercept_[:, None]], dim=1)
        point = weights, model
        return Answer(point, model.n_iter_, model.status_.value, {"top-5 error": error})

    return run


def judge(problem: Problem, point: Any) -> Measures:
    """P of the weights in float64, and the gap to the bound that the solver names."""
    torch = _torch()
    W, claim = point
    total = 0.5 * float((W * W).sum())
    for start in range(0, problem.X.shape[0], _CHUNK):
        rows, labels = problem.X[start : start + _CHUNK], problem.y[start : start + _CHUNK]
        rows = rows.double()
        if problem.training:
            rows = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
        scores = rows @ W.T
        own = scores.gather(1, labels[:, None])
        z = (scores - own + 1.0).scatter_(1, labels[:, None], 0.0)
        total += problem.C * float(torch.topk(z, K).values.mean(1).clamp(min=0).sum())
    dual = claim.dual_objective_ if hasattr(claim, "dual_objective_") else claim.value - claim.gap
    gap = (total - dual) / total
    return {"P": total, "gap": gap, "shortfall": gap if problem.training else 0.0}


BENCHMARK = Benchmark(
    name="gpu",
    title="one GPU: iterations of fw (5 and 500 of them) beside bare products; training to 1e-2",
    datasets=(
        *(
            Dataset(f"{name}, {dtype}", partial(normal, size, dtype))
            for name, size in (("ImageNet size", IMAGENET), ("CUB200 size", CUB200))
            for dtype in ("float32", "bfloat16")
        ),
        *(
            Dataset(
                f"training, {'standardised' if centred else 'not centred'}, C = {C:g}, {dtype}",
                partial(features, C, dtype, centred),
            )
            for C, dtype, centred in (
                (0.01, "float32", True),
                (0.1, "float32", True),
                (1, "float32", True),
                (0.1, "float32", False),
                (1, "float32", False),
                (10, "float32", False),
                (1, "bfloat16", False),
            )
        ),
    ),
    solvers=(
        Solver("fw", _fw, applies=lambda problem: not problem.training),
        Solver("auto", _training, applies=lambda problem: problem.training),
    ),
    judge=judge,
    baseline="fw",
    repeat=3,
    patience=10.0,
    slow=True,
    yardstick=Yardstick("X W', U'X", _products),
)
