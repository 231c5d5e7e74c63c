"""Small multi-class problems with their optimum by cvxpy, and certificates in plain numpy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep import MulticlassSVC
from cornerstep.losses import make_loss

SOLVERS = ("block", "fw-corrective", "fw", "fw-open-loop", "projected-gradient")
LINEAR_SOLVERS = (*SOLVERS, "envelope")  # without a kernel
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
N, D, M = 14, 4, 5


@dataclass
class Problem:
    """``1/2 |W|² + C sum_i weight_i Phi_mu(W'x_i; y_i)``, without intercept.

    ``rho`` has M entries and ``delta`` a row for each example, whatever the loss is given as.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    C: float
    smoothing: float
    parameters: dict[str, Any]  # of the estimator, for the loss
    rho: np.ndarray
    whole: bool
    delta: np.ndarray

    @property
    def scales(self):
        return self.C * self.weight

    @property
    def loss(self) -> Any:
        costs = self.parameters.get("costs")
        per_example = costs is not None and len(costs) == len(self.X)
        others = {name: value for name, value in self.parameters.items() if name != "loss"}
        return make_loss(self.parameters["loss"], per_example=per_example, **others)

    def estimator(self, **parameters):
        given = {"C": self.C, "smoothing": self.smoothing, "fit_intercept": False}
        return MulticlassSVC(**{"random_state": 0} | given | self.parameters | parameters)

    def fit(self, kind="dense", **parameters):
        """Fit on the data as ``kind``: dense, csr, gram, dense-32, csr-32."""
        X = {
            "dense": lambda: self.X,
            "csr": lambda: sp.csr_array(self.X),
            "gram": lambda: self.X @ self.X.T,
            "dense-32": lambda: self.X.astype(np.float32),
            "csr-32": lambda: sp.csr_array(self.X.astype(np.float32)),
        }[kind]()
        kernel = {"kernel": "precomputed"} if kind == "gram" else {}
        model = self.estimator(**kernel | parameters)
        return model.fit(X, self.y, sample_weight=self.weight)

    def primal(self, W):
        return primal(self, self.X @ W.T, float((W**2).sum()))

    def dual(self, coefficients):
        A = np.asarray(coefficients.todense())
        return dual(self, A, float(((self.X.T @ A) ** 2).sum()))


def sorted_loss(z, rho, whole):
    """The losses of rows of margins, by sorting."""
    largest = -np.sort(-z, axis=1)
    if whole:
        return np.maximum(largest @ rho, 0)
    return np.maximum(largest, 0) @ rho


def primal(problem, scores, square):
    """``P`` from the scores and ``|W|²``."""
    if problem.smoothing:
        losses = problem.loss.envelope(scores, problem.y, problem.smoothing)
    else:
        own = np.take_along_axis(scores, problem.y[:, None], axis=1)
        losses = sorted_loss(scores - own + problem.delta, problem.rho, problem.whole)
    return 0.5 * square + float(problem.scales @ losses)


def dual(problem, A, square):
    """``D`` from ``A = s_i alpha_i`` and ``|W(A)|²``; minus infinity outside the domain."""
    alpha = A / problem.scales[:, None]
    if not np.isfinite(problem.loss.conjugate(-alpha, problem.y)).all():
        return -np.inf
    ridge = 0.5 * problem.smoothing * (alpha**2).sum(axis=1)
    return -0.5 * square - float(problem.scales @ ((problem.delta * alpha).sum(axis=1) + ridge))


LOSS_KINDS = (
    "max-hinge",
    "cost-sensitive",
    "cost-sensitive, per example",
    "top-k",
    "usunier",
    "weighted-top-k",
    "weighted-usunier",
)


@cache
def draw(kind: str, smoothing: float = 0.0, seed: int = 0) -> Problem:
    """A random problem with random weights, costs and rho."""
    rng = np.random.default_rng([seed, LOSS_KINDS.index(kind), int(1000 * smoothing)])
    y = np.concatenate([np.arange(M), rng.integers(0, M, N - M)])
    X = rng.standard_normal((M, D))[y] + rng.standard_normal((N, D))
    X = X.astype(np.float32).astype(float) * (rng.random((N, D)) < 0.8)
    name = kind.split(",")[0]
    k = int(rng.integers(1, M))
    rho = np.sort(rng.random(k))[::-1] * rng.choice([0.3, 1.0, 4.0])
    delta = np.ones((N, M))
    parameters: dict[str, Any] = {"loss": name}
    if name == "cost-sensitive":
        costs = 3 * rng.random((N, M) if "," in kind else (M, M))
        parameters["costs"] = costs
        delta = (costs if "," in kind else costs[y]).copy()
        rho = np.ones(1)
    elif name == "max-hinge":
        rho = np.ones(1)
    elif name.startswith("weighted"):
        parameters["rho"] = rho
    else:
        parameters["k"] = k
        rho = np.full(k, 1 / k)
    delta[np.arange(N), y] = 0
    return Problem(
        X, y, 0.2 + 2 * rng.random(N), float(rng.choice([0.3, 1.0, 3.0])), smoothing, parameters,
        np.pad(rho, (0, M - rho.size)), name.endswith("top-k"), delta,
    )  # fmt: skip


@cache
def optimum(kind: str, smoothing: float = 0.0, seed: int = 0) -> float:
    """The least P by cvxpy."""
    return solve(draw(kind, smoothing, seed))[0]


def solve(problem: Problem) -> tuple[float, np.ndarray]:
    """The least P and its W by cvxpy.

    A sorted sum is ``sum_h (rho_h - rho_(h+1)) (the sum of the h largest)``.  The envelope is
    ``min over t of Phi(t) + |s - t|² / (2 mu)``.
    """
    m = problem.rho.size
    n = problem.y.size
    cp = pytest.importorskip("cvxpy")
    W = cp.Variable((m, problem.X.shape[1]))
    scores = problem.X @ W.T
    objective = 0.5 * cp.sum_squares(W)
    if problem.smoothing:
        moved = cp.Variable((n, m))
        away = cp.multiply(np.sqrt(problem.scales)[:, None] * np.ones((1, m)), scores - moved)
        objective += cp.sum_squares(away) / (2 * problem.smoothing)
        scores = moved
    steps = problem.rho - np.append(problem.rho[1:], 0)
    for i in range(n):
        z = scores[i] - scores[i, problem.y[i]] + problem.delta[i]
        if not problem.whole:
            z = cp.pos(z)
        total = sum(steps[h] * cp.sum_largest(z, h + 1) for h in range(m) if steps[h] > 0)
        objective += problem.scales[i] * cp.pos(total)
    value = cp.Problem(cp.Minimize(objective)).solve(**TIGHT)
    return float(value), W.value
