"""A GPU: an iteration of fw beside its two matrix products, and training to a proven gap.

Iterations are on normal data of ImageNet's size (n = 1,281,167, d = 2,048, m = 1,000) and of the
published CUB200 experiment's, top-5 loss; products of float32 data are in TF32 on both sides.
*Passes* are those of the default solver, for each of the losses.  Training is on features with a
class structure of ImageNet's size, drawn on the GPU, standardised or as they come (none is
negative), with the default solver and an intercept, to a relative gap of 1e-2.  On real data the
same is done on this machine's CPU, by the default solver there.  The judge computes P of the
weights from the data in float64; of the dual bound it takes the solver's word.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import data
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
    UnavailableError,
    Yardstick,
    torch_for_data,
)
from benchmarks.multiclass import MAX_HINGE, RHO, TOP_5, WEIGHTED_USUNIER, LossSpec

IMAGENET, CUB200 = (1_281_167, 2_048, 1_000), (6_033, 4_096, 200)
REAL = ("usps", "isolet", "mnist")
WEIGHTED_TOP_K = LossSpec("weighted-top-k", RHO, whole=True)
USUNIER_5 = LossSpec("usunier-5", np.full(5, 0.2))
_CHUNK = 65_536
_SMOOTHING = 0.1  # of the passes: that of a run half way


@dataclass(frozen=True)
class Problem:
    """Tensors on the GPU; the question is an iteration of fw, a pass, or training."""

    X: Any
    y: Any
    n_classes: int
    C: float
    question: str = "iteration"
    loss: LossSpec = TOP_5
    tol: float = 1e-2
    host: Any = None  # the same on the CPU


def _torch() -> Any:
    torch = torch_for_data()
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


def real(name: str, question: str, loss: LossSpec = TOP_5, tol: float = 1e-2) -> Problem:
    """A data set at hand, C = 1, float32."""
    torch = _torch()
    X, y = data.load(name, "unit")
    X, y = X.astype(np.float32), y.astype(np.int64)
    tensors = torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda")
    return Problem(*tensors, int(y.max()) + 1, 1.0, question, loss, tol, (X, y))


def features(
    C: float, dtype: str, centred: bool, loss: LossSpec = TOP_5, question: str = "training"
) -> Problem:
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
    return Problem(X.to(getattr(torch, dtype)), y, m, C, question, loss)


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
    """Iterations that are timed together."""
    if problem.question != "iteration":
        return 1
    if problem.host is not None:
        return 50
    return 5 if problem.X.shape[0] > 100_000 else 500


def _loss(problem: Problem) -> Any:
    from cornerstep.losses import make_loss

    options = problem.loss.estimator_options()
    return make_loss(options.pop("loss"), **options)


def _posed(problem: Problem) -> Any:
    from cornerstep.multiclass.arrays.rows import ArrayExamples, ArrayProblem, ArrayRows

    torch = _torch()
    scales = torch.full(problem.y.shape, problem.C, device="cuda", dtype=torch.float64)
    loss = _loss(problem)
    posed = ArrayProblem(ArrayExamples(problem.X), problem.y, problem.n_classes, loss, scales)
    return ArrayRows(posed)


def _estimator(problem: Problem, **parameters: Any) -> Any:
    from cornerstep import MulticlassSVC

    options = problem.loss.estimator_options() | {"C": problem.C, "smoothing": 0}
    return MulticlassSVC(**options, **parameters)


def _fw(problem: Problem) -> Run:
    from cornerstep.multiclass.arrays.cuda_graph import GraphDescent

    solver = GraphDescent(_posed(problem), "fw")
    solver.look()
    for _ in range(4):  # compile and capture
        solver.move()
        solver.look()
    return _iterations(problem, solver)


def _fw_on_cpu(problem: Problem) -> Run:
    from cornerstep.multiclass.examples import Examples
    from cornerstep.multiclass.problem import MulticlassProblem
    from cornerstep.multiclass.solvers.batch import BatchDescent

    X, y = problem.host
    loss = _loss(problem)
    scales = np.full(y.size, problem.C)
    posed = MulticlassProblem(Examples(X, sweeps=False), y, problem.n_classes, loss, scales)
    solver = BatchDescent(posed, "fw")
    solver.look()
    return _iterations(problem, solver)


def _iterations(problem: Problem, solver: Any) -> Run:
    def run(record: Recorder | None) -> Answer:
        start = time.perf_counter()
        for _ in range(_repeats(problem)):
            solver.move()
            look = solver.look()
        seconds = time.perf_counter() - start
        image, dual = solver.point.image, look.value - look.gap
        return Answer((image, dual), 1, "iteration limit", {}, seconds)

    return run


def _pass(problem: Problem) -> Run:
    torch = _torch()
    rows = _posed(problem)
    image = 0.5 * torch.randn(
        (problem.n_classes, problem.X.shape[1]), device="cuda", dtype=torch.float64
    )
    rows.envelopes(image, _SMOOTHING)  # compile

    def run(record: Recorder | None) -> Answer:
        found = rows.envelopes(image, _SMOOTHING)
        torch.cuda.synchronize()
        square = rows.square(found.nearest)
        linear = float(found.numbers[1])
        return Answer((image, linear - 0.5 * square), 1)

    return run


def _training(problem: Problem) -> Run:
    return _trained(problem, problem.X, problem.y)


def _training_on_cpu(problem: Problem) -> Run:
    return _trained(problem, *problem.host)


def _trained(problem: Problem, X: Any, y: Any) -> Run:
    torch = _torch()

    def fit(**parameters: Any) -> Any:
        return _estimator(problem, random_state=0, **parameters).fit(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(tol=0.0, max_iter=2)  # compile

    def run(record: Recorder | None) -> Answer:
        start = time.perf_counter()
        model = fit(tol=problem.tol, time_limit=60.0, max_iter=100_000)
        seconds = time.perf_counter() - start
        k = min(5, problem.n_classes - 1)
        error = 1.0 - model.top_k_score(X[:_CHUNK], y[:_CHUNK], k)
        coef, intercept = (torch.as_tensor(part) for part in (model.coef_, model.intercept_))
        weights = torch.cat([coef, intercept[:, None]], dim=1).to(problem.X.device)
        point = weights, model.bound_
        work = {"top-5 error": float(error)}
        return Answer(point, model.n_iter_, model.status_.value, work, seconds)

    return run


def judge(problem: Problem, point: Any) -> Measures:
    """P of the weights in float64, and the gap to the bound that the solver names."""
    torch = _torch()
    W, dual = point
    W = torch.as_tensor(W, device="cuda")
    total = 0.5 * float((W * W).sum())
    rho = torch.tensor(problem.loss.rho.copy(), device="cuda")
    for start in range(0, problem.X.shape[0], _CHUNK):
        rows, labels = problem.X[start : start + _CHUNK], problem.y[start : start + _CHUNK]
        rows = rows.double()
        if W.shape[1] > rows.shape[1]:
            rows = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
        scores = rows @ W.T
        own = scores.gather(1, labels[:, None])
        z = (scores - own + 1.0).scatter_(1, labels[:, None], 0.0)
        largest = torch.topk(z, len(rho)).values
        whole = problem.loss.whole
        values = largest @ rho if whole else largest.clamp(min=0) @ rho
        total += problem.C * float(values.clamp(min=0).sum())
    if problem.question == "pass":
        return {"P": total}
    return {"P": total, "gap": (total - dual) / total}


def _notes(rows: list[Row]) -> list[str]:
    """GPU and CPU side by side."""
    lines, cpu = [""], {row.dataset: row for row in rows if row.solver.endswith("CPU")}
    for row in rows:
        if row.dataset in cpu and not row.solver.endswith("CPU"):
            other = cpu[row.dataset]
            passes = row.iterations or 1
            each = f", {passes} passes of {1e3 * row.best / passes:.3g} ms" if passes > 1 else ""
            gap = row.measures.get("gap", 1)
            lines.append(
                f"{row.dataset}: GPU {row.best:.3g} s (gap {gap:.1e}{each}), "
                f"CPU {other.best:.3g} s (gap {other.measures.get('gap', 1):.1e}): "
                f"{other.best / row.best:.2g} x"
            )
    return lines


def _of(question: str, *, cpu: bool = False) -> Callable[[Problem], bool]:
    return lambda problem: problem.question == question and (not cpu or problem.host is not None)


def _trainings() -> list[Dataset]:
    return [
        Dataset(
            f"training, {loss.name}, {'standardised' if centred else 'not centred'}, "
            f"C = {C:g}, {dtype}",
            partial(features, C, dtype, centred, loss),
        )
        for C, dtype, centred, loss in (
            (0.01, "float32", True, TOP_5),
            (0.1, "float32", True, TOP_5),
            (1, "float32", True, TOP_5),
            (0.1, "float32", False, TOP_5),
            (1, "float32", False, TOP_5),
            (10, "float32", False, TOP_5),
            (1, "bfloat16", False, TOP_5),
            (1, "float32", False, WEIGHTED_USUNIER),
            (1, "float32", False, WEIGHTED_TOP_K),
        )
    ]


def build(settings: Settings) -> Benchmark:
    """With the datasets of every question."""
    datasets = [
        Dataset(f"{name}, {dtype}", partial(normal, size, dtype))
        for name, size in (("ImageNet size", IMAGENET), ("CUB200 size", CUB200))
        for dtype in ("float32", "bfloat16")
    ]
    datasets += [
        Dataset(f"pass, {loss.name}", partial(features, 1, "float32", False, loss, "pass"))
        for loss in (MAX_HINGE, TOP_5, USUNIER_5, WEIGHTED_TOP_K, WEIGHTED_USUNIER)
    ]
    datasets += _trainings()
    datasets += [Dataset(f"real, {name}, fw", partial(real, name, "iteration")) for name in REAL]
    datasets += [
        Dataset(f"real, {name}, {loss.name}, {tol:g}", partial(real, name, "training", loss, tol))
        for name in REAL
        for loss in (MAX_HINGE, TOP_5)
        for tol in (1e-2, 1e-3)
    ]
    return Benchmark(
        name="gpu",
        title="one GPU: iterations of fw (5, 50 on real data, 500 of CUB200's size) beside bare "
        "products; passes of the default solver; training to a proven gap",
        datasets=tuple(datasets),
        solvers=(
            Solver("fw", _fw, applies=_of("iteration")),
            Solver("fw, CPU", _fw_on_cpu, applies=_of("iteration", cpu=True)),
            Solver("pass", _pass, applies=_of("pass")),
            Solver("auto", _training, applies=_of("training")),
            Solver("auto, CPU", _training_on_cpu, applies=_of("training", cpu=True)),
        ),
        judge=judge,
        baseline="auto",
        repeat=3,
        patience=10.0,
        shown=("gap", "top-5 error"),
        slow=True,
        yardstick=Yardstick("X W', U'X", _products),
        notes=_notes,
    )
