"""Losses for networks: forward and backward beside torch's cross-entropy.

On a GPU if there is one. The judge compares each gradient with that of the oracles in float64.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core import (
    Answer,
    Benchmark,
    Dataset,
    Measures,
    Recorder,
    Run,
    Solver,
    torch_for_data,
)

_CLASSES, _K = 1000, 5
_PEER = "CrossEntropyLoss"
_LOSSES: dict[str, dict[str, Any]] = {
    "max-hinge": {}, "top-k": {"k": _K}, "usunier": {"k": _K},
    "weighted-top-k": {"rho": np.arange(_K, 0, -1) / 15},
    "weighted-usunier": {"rho": np.arange(_K, 0, -1) / 15},
    "softmax": {}, "top-k-entropy": {"k": _K},
}  # fmt: skip
_BATCHES = 20  # a timing is the mean over them


@dataclass
class Problem:
    """Scores as a network has them half-way through training, and labels."""

    scores: Any
    labels: Any


@dataclass
class Point:
    """What a loss says of the scores."""

    name: str
    gradient: Any


def _problem(n: int, short: bool) -> Problem:
    torch = torch_for_data()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rng = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(n, _CLASSES, generator=rng)
    labels = torch.randint(0, _CLASSES, (n,), generator=rng)
    scores[torch.arange(n), labels] += 4
    return Problem(scores.to(device, torch.bfloat16 if short else None), labels.to(device))


def _module(name: str) -> Any:
    import torch

    from cornerstep.torch import MarginLoss

    return torch.nn.CrossEntropyLoss() if name == _PEER else MarginLoss(name, **_LOSSES[name])


def _solver(name: str) -> Solver:
    def prepare(problem: Problem) -> Run:
        import torch

        module = _module(name)
        wait = torch.cuda.synchronize if problem.scores.is_cuda else lambda: None

        def once() -> Any:
            scores = problem.scores.detach().requires_grad_()
            module(scores, problem.labels).backward()
            return scores.grad

        def run(recorder: Recorder | None) -> Answer:
            wait()
            start = time.perf_counter()
            for _ in range(_BATCHES):
                gradient = once()
            wait()
            seconds = (time.perf_counter() - start) / _BATCHES
            return Answer(Point(name, gradient), None, "", seconds=seconds)

        once()  # compiles
        return run

    return Solver(name, prepare, requires=("torch",))


def _judge(problem: Problem, point: Point) -> Measures:
    from cornerstep.losses import make_loss

    name = "softmax" if point.name == _PEER else point.name
    loss = make_loss(name, **_LOSSES[name])
    n = min(64, len(problem.labels))
    scores, labels = problem.scores[:n].double().cpu().numpy(), problem.labels[:n].cpu().numpy()
    exact = -loss.dual_point(scores, labels, 1.0) / len(problem.labels)
    ours = point.gradient[:n].double().cpu().numpy()
    return {"error": float(np.abs(ours - exact).max() / np.abs(exact).max())}


BENCHMARK = Benchmark(
    name="network_losses",
    title=f"losses for networks beside torch's cross-entropy: forward and backward, m = {_CLASSES}",
    datasets=tuple(
        Dataset(f"{n:,} rows, {'bfloat16' if short else 'float32'}", partial(_problem, n, short))
        for n in (1024, 8192)
        for short in (False, True)
    ),
    solvers=tuple(_solver(name) for name in (_PEER, *_LOSSES)),
    judge=_judge,
    baseline=_PEER,
    repeat=5,
    shown=("error",),
    slow=True,
    compact=True,
)
