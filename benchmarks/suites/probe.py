"""Linear probes: ten C over four decades on tensors, beside torch's L-BFGS to the same objectives.

On a GPU features of ImageNet's size (n = 1,281,167, d = 2,048, m = 1,000) in bfloat16 and float32,
elsewhere a small set.  Features are GELUs of a low-rank normal with a power law for its spectrum,
classes are of sizes like ``1/sqrt(rank)``.  Ours ends every model at a proven 1e-2.  The peer has
strong Wolfe line searches and starts from its weights for the C before; it ends when its objective
is as good as ours.  The judge computes objectives in float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

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
    torch_for_data,
)

CS = np.logspace(-2, 2, 10)  # the mean of |x|² is 1
GAP = 1e-2
IMAGENET, SMALL = (1_281_167, 2_048, 1_000), (6_000, 64, 40)
_CHUNK = 2**16  # rows at a time
_RANK = 512


@dataclass
class Problem:
    """Features and labels on a device, and what ours proved of each C, by loss."""

    X: Any
    y: Any
    m: int
    objectives: dict[str, list[float]] = field(default_factory=dict)
    bounds: dict[str, list[float]] = field(default_factory=dict)

    def value(self, loss: str, W: Any, C: float) -> float:
        """``|W|²/2 + C sum_i Phi(W x_i; y_i)`` in float64."""
        import torch

        total = 0.5 * float((W.double() ** 2).sum())
        for start in range(0, len(self.y), _CHUNK):
            rows, labels = self.X[start : start + _CHUNK], self.y[start : start + _CHUNK]
            scores = rows.double() @ W.double().T
            if loss == "softmax":
                losses = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
            else:
                own = scores.gather(1, labels[:, None])
                z = (scores - own + 1).scatter(1, labels[:, None], 0.0)
                losses = z.topk(5, dim=1).values.mean(dim=1).clamp(min=0).sum()
            total += C * float(losses)
        return total


@dataclass
class Heads:
    """Weights, seconds and passes for each C."""

    loss: str
    weights: list[Any] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)

    def copy(self) -> Heads:
        """Itself."""
        return self


class _EndedError(Exception):
    """The peer is as good as ours, or its time is over."""


def features(size: tuple[int, int, int], dtype: str, device: str) -> Problem:
    """Features that look like those of a network."""
    torch = torch_for_data()
    n, d, m = size
    rng = torch.Generator(device).manual_seed(7)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, device=device, generator=rng)

    rank = min(d, _RANK)
    mixing = normal(rank, d) * torch.arange(1, rank + 1, device=device)[:, None] ** -0.5
    centres = 0.9 * normal(m, rank)
    shares = torch.arange(1, m + 1, device=device) ** -0.5
    y = torch.multinomial(shares / shares.sum(), n, replacement=True, generator=rng)
    X = torch.empty((n, d), device=device, dtype=getattr(torch, dtype))
    square = 0.0
    for start in range(0, n, _CHUNK):
        part = y[start : start + _CHUNK]
        inside = centres[part] + 1.5 * normal(len(part), rank)
        rows = torch.nn.functional.gelu(inside @ mixing + 0.05 * normal(len(part), d))
        square += float((rows**2).sum())
        X[start : start + _CHUNK] = rows
    X *= (n / square) ** 0.5
    return Problem(X, y, m)


def _waits(problem: Problem) -> Callable[[], None]:
    import torch

    return torch.cuda.synchronize if problem.X.is_cuda else lambda: None


def _ours(problem: Problem, loss: str, options: dict[str, Any]) -> Run:
    from cornerstep import MulticlassSVC
    from cornerstep.learning.path import models_along

    wait = _waits(problem)

    def run(recorder: Recorder | None) -> Answer:
        estimator = MulticlassSVC(**options, fit_intercept=False, tol=GAP)
        heads, proven, status = Heads(loss), [], "solved"
        begun = time.perf_counter()
        for _, model in models_along(estimator, problem.X, problem.y, CS):
            wait()
            heads.seconds.append(time.perf_counter() - begun)
            heads.weights.append(model.coef_)
            heads.passes.append(model.n_iter_)
            proven.append((model.objective_, model.bound_))
            status = status if model.status_.value == "solved" else model.status_.value
            begun = time.perf_counter()
        objectives, bounds = (list(part) for part in zip(*proven, strict=True))
        problem.objectives[loss], problem.bounds[loss] = objectives, bounds
        return Answer(heads, sum(heads.passes), status)

    return run


def _lbfgs(problem: Problem, limit: float) -> Run:
    import torch

    wait = _waits(problem)
    if "softmax" not in problem.objectives:
        _ours(problem, "softmax", {"loss": "softmax"})(None)

    def run(recorder: Recorder | None) -> Answer:
        W = torch.zeros((problem.m, problem.X.shape[1]), device=problem.X.device)
        W.requires_grad_()
        heads, stopped = Heads("softmax"), "as good"
        for C, wanted in zip(CS, problem.objectives["softmax"], strict=True):
            begun, calls = time.perf_counter(), 0
            optimiser = torch.optim.LBFGS([W], max_iter=10_000, line_search_fn="strong_wolfe")

            def closure(
                C: float = float(C), wanted: float = wanted, optimiser: Any = optimiser,
                begun: float = begun,
            ) -> Any:  # fmt: skip
                nonlocal calls
                calls += 1
                optimiser.zero_grad()
                scores = (problem.X @ W.to(problem.X.dtype).T).float()
                losses = torch.nn.functional.cross_entropy(scores, problem.y, reduction="sum")
                value = 0.5 * (W**2).sum() + C * losses
                if value.item() <= wanted or time.perf_counter() - begun > limit:
                    raise _EndedError
                value.backward()
                return value

            with suppress(_EndedError):
                optimiser.step(closure)
                stopped = "no progress"
            if time.perf_counter() - begun > limit:
                stopped = "time limit"
            wait()
            heads.seconds.append(time.perf_counter() - begun)
            heads.passes.append(calls)
            heads.weights.append(W.detach().clone())
        return Answer(heads, sum(heads.passes), stopped)

    return run


def _judge(problem: Problem, heads: Heads | None) -> Measures:
    if heads is None or not heads.weights:
        return {}
    bounds = problem.bounds[heads.loss]
    errors = [
        problem.value(heads.loss, W, float(C)) / bound - 1
        for W, C, bound in zip(heads.weights, CS, bounds, strict=True)
    ]
    found = {"error": max(errors), "passes": float(sum(heads.passes))}
    for C, seconds, passes in zip(CS, heads.seconds, heads.passes, strict=True):
        found |= {f"s at {C:.2g}": seconds, f"passes at {C:.2g}": float(passes)}
    return found


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", "seconds (passes over the data) for each C:"]
    for row in (row for row in rows if row.measures):
        cells = (
            f"{row.measures[f's at {C:.2g}']:.2f} ({row.measures[f'passes at {C:.2g}']:.0f})"
            for C in CS
        )
        lines.append(f"  {row.dataset}, {row.solver}: {'  '.join(cells)}")
    return lines


def build(settings: Settings) -> Benchmark:
    """ImageNet's size on a GPU, else a small set; ``--limit`` ends the peer at one C (60 s)."""
    try:
        import torch

        there = torch.cuda.is_available()
    except ImportError:
        there = False
    size, device = (IMAGENET, "cuda") if there else (SMALL, "cpu")
    return Benchmark(
        name="probe",
        title="linear probes: ten C over four decades to a proven relative gap of 1e-2",
        datasets=tuple(
            Dataset(f"{size[0]:,} x {size[1]:,}, {size[2]:,} classes, {dtype}",
                    partial(features, size, dtype, device))
            for dtype in (("bfloat16", "float32") if there else ("float32",))
        ),
        solvers=(
            Solver("softmax", partial(_ours, loss="softmax", options={"loss": "softmax"}),
                   requires=("torch",)),
            Solver("torch L-BFGS, softmax", partial(_lbfgs, limit=settings.limit or 60.0),
                   requires=("torch",)),
            Solver("top-5", partial(_ours, loss="top-5", options={"loss": "top-k", "k": 5}),
                   requires=("torch",)),
        ),
        judge=_judge,
        baseline="softmax",
        target=("error", 1.5 * GAP),
        repeat=1,
        shown=("error", "passes"),
        notes=_notes,
        slow=True,
        compact=True,
    )  # fmt: skip
