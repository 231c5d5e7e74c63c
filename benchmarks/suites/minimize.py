"""Least squares over domains: ``minimize`` beside solvers that people have, to a gap of 1e-6.

Columns are independent, or made of five common factors and a tenth of noise, as series of regions
or assets are.  ``f = 1/2 |Ax - b|^2``; the gap that is shown is relative, ``gap / f``.  CPU seconds
of the solve.  Peers are asked for as much as they can; those of cvxpy include its translation, and
the radius for Lasso is translated into its penalty outside the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment, nnls
from scipy.optimize import minimize as scipy_minimize

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Run, Solver
from cornerstep import minimize
from cornerstep.domains import Birkhoff, Box, L1Ball, NuclearNormBall, Simplex
from cornerstep.objectives import LeastSquares

Array = np.ndarray[Any, np.dtype[np.float64]]
GAP = 1e-6
SECONDS = 5.0  # limit of one solve
_MOST_ENTRIES = 1_000_000  # of A, for solvers that take minutes of more and have no limit to set
_HEAVY = 1e3  # weight of the row that makes NNLS sum to 1, over the size of A
_CONES = ("simplex", "l1", "box", "birkhoff")


@dataclass(frozen=True)
class Task:
    """``min 1/2 |Ax - b|^2`` over one kind of domain."""

    kind: str
    A: Any
    b: Array
    radius: float = 1.0
    shape: tuple[int, int] = (0, 0)

    @property
    def domain(self) -> Any:
        n = self.A.shape[1]
        return {
            "simplex": lambda: Simplex(n, self.radius), "l1": lambda: L1Ball(n, self.radius),
            "box": lambda: Box(np.zeros(n), self.radius),
            "birkhoff": lambda: Birkhoff(self.shape[0]),
            "nuclear": lambda: NuclearNormBall(self.shape, self.radius),
        }[self.kind]()  # fmt: skip


def judge(task: Task, x: Array) -> Measures:
    """f, the relative Frank-Wolfe gap and the worst violation, without the package."""
    residual = task.A @ x - task.b
    value, g, r = 0.5 * float(residual @ residual), task.A.T @ residual, task.radius
    if task.kind == "simplex":
        least, off = r * float(g.min()), max(abs(x.sum() - r), -x.min())
    elif task.kind == "l1":
        least, off = -r * float(np.abs(g).max()), np.abs(x).sum() - r
    elif task.kind == "box":
        least, off = r * float(np.minimum(g, 0).sum()), max(-x.min(), x.max() - r)
    elif task.kind == "birkhoff":
        costs, X = g.reshape(task.shape), x.reshape(task.shape)
        least = float(costs[linear_sum_assignment(costs)].sum())
        off = max(-x.min(), *(np.abs(X.sum(axis=axis) - 1).max() for axis in (0, 1)))
    else:
        least = -r * float(np.linalg.svd(g.reshape(task.shape), compute_uv=False)[0])
        off = np.linalg.svd(x.reshape(task.shape), compute_uv=False).sum() - r
    gap = abs(float(g @ x) - least) / value
    return {"f": value, "gap": gap, "violation": max(float(off), 0.0) / r}


def _timed(solve: Callable[[], tuple[Array, int | None, str]]) -> Run:
    def run(record: Any) -> Answer:
        start = time.process_time()
        x, iterations, stopped = solve()
        return Answer(x, iterations, stopped, seconds=time.process_time() - start)

    return run


def _ours(name: str) -> Solver:
    def prepare(task: Task) -> Run:
        f, domain = LeastSquares(task.A, task.b), task.domain
        options: dict[str, Any] = {"method": name, "tol": 0.0, "rtol": 0.9 * GAP}
        minimize(f, domain, max_iter=2, **options)  # compiled

        def solve() -> tuple[Array, int | None, str]:
            result = minimize(f, domain, time_limit=SECONDS, max_iter=10**6, **options)
            return result.x, result.n_iter, result.status.value

        return _timed(solve)

    names = {
        "di-pairwise": ("simplex", "l1", "box"), "interior-point": ("box", "birkhoff"),
        "projected-cg": ("box",),
    }  # fmt: skip
    return Solver(name, prepare, lambda task: task.kind in names.get(name, (task.kind,)))


def _peer(
    name: str, solve: Callable[[Task], Array], kinds: tuple[str, ...], needs: str,
    most: float = np.inf,
) -> Solver:  # fmt: skip
    def prepare(task: Task) -> Run:
        return _timed(lambda: (solve(task), None, ""))

    def applies(task: Task) -> bool:
        return task.kind in kinds and (sp.issparse(task.A) or task.A.size <= most)

    return Solver(name, prepare, applies, requires=(needs,))


def _nnls(task: Task) -> Array:
    heavy = _HEAVY * float(np.abs(task.A).max())
    A = np.vstack([task.A, np.full(task.A.shape[1], heavy)])
    x = nnls(A, np.append(task.b, heavy * task.radius))[0]
    return np.asarray(x * (task.radius / x.sum()))


def _lbfgsb(task: Task) -> Array:
    def evaluate(x: Array) -> tuple[float, Array]:
        residual = task.A @ x - task.b
        return 0.5 * float(residual @ residual), task.A.T @ residual

    n = task.A.shape[1]
    options = {"maxiter": 10**4, "maxfun": 10**5, "ftol": 1e-15, "gtol": 1e-9}
    bounds = [(0.0, task.radius)] * n
    start = np.zeros(n)
    answer = scipy_minimize(
        evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return np.asarray(answer.x)


def _lasso() -> Solver:
    def prepare(task: Task) -> Run:
        from sklearn.linear_model import Lasso

        known = minimize(LeastSquares(task.A, task.b), task.domain, tol=0.0, rtol=1e-10)
        largest = float(np.abs(task.A.T @ (task.A @ known.x - task.b)).max())
        model = Lasso(largest / len(task.b), fit_intercept=False, tol=1e-7, max_iter=5000)
        return _timed(lambda: (np.asarray(model.fit(task.A, task.b).coef_), model.n_iter_, ""))

    return Solver("Lasso", prepare, lambda task: task.kind == "l1", requires=("sklearn",))


def _quadprog(task: Task) -> Array:
    from quadprog import solve_qp

    n = task.A.shape[1]
    rows, right = (np.eye(n), np.zeros(n))
    equal = task.kind == "simplex"
    if equal:
        rows, right = np.vstack([np.ones(n), rows]), np.append(task.radius, right)
    else:
        rows, right = np.vstack([rows, -rows]), np.append(right, np.full(n, -task.radius))
    return np.asarray(solve_qp(task.A.T @ task.A, task.A.T @ task.b, rows.T, right, int(equal))[0])


def _pot(task: Task) -> Array:
    from ot.smooth import smooth_ot_dual

    ones = np.ones(task.shape[0])
    return np.asarray(
        smooth_ot_dual(ones, ones, -task.b.reshape(task.shape), 1.0, "l2", stopThr=1e-12)
    ).ravel()


def _cone(solver: str) -> Callable[[Task], Array]:
    def solve(task: Task) -> Array:
        import cvxpy as cp

        x = cp.Variable(task.A.shape[1])
        X = cp.reshape(x, task.shape, order="C") if task.kind == "birkhoff" else x
        constraints = {
            "simplex": lambda: [x >= 0, cp.sum(x) == task.radius],
            "l1": lambda: [cp.norm1(x) <= task.radius],
            "box": lambda: [x >= 0, x <= task.radius],
            "birkhoff": lambda: [x >= 0, cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1],
        }[task.kind]()
        program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(task.A @ x - task.b)), constraints)
        program.solve(solver=solver)
        return np.asarray(x.value)

    return solve


def _fista(task: Task) -> Array:
    """Accelerated projected gradients; A samples entries, so that the constant is 1."""
    domain, x = task.domain, np.zeros(task.A.shape[1])
    y, momentum, start = x, 1.0, time.process_time()
    while time.process_time() - start < SECONDS:
        new = domain.project(y - task.A.T @ (task.A @ y - task.b))
        grown = 0.5 + (0.25 + momentum**2) ** 0.5
        x, y, momentum = new, new + (momentum - 1) / grown * (new - x), grown
    return x


def _columns(m: int, n: int, factors: bool) -> tuple[Array, np.random.Generator]:
    rng = np.random.default_rng(0)
    if not factors:
        return rng.standard_normal((m, n)), rng
    common = rng.standard_normal((m, 5)) @ rng.standard_normal((5, n))
    return common + 0.1 * rng.standard_normal((m, n)), rng


def dense_task(kind: str, m: int, n: int, factors: bool) -> Task:
    """Columns of one kind, a right side from ten of them."""
    A, rng = _columns(m, n, factors)
    few = rng.choice(n, min(n, 10), replace=False)
    b = A[:, few].mean(axis=1) * 2 + rng.standard_normal(m)
    return Task(kind, A, b, {"simplex": 1.0, "l1": 1.5, "box": 0.05}[kind])


def nearest_task(side: int) -> Task:
    """The nearest doubly stochastic matrix to a random one."""
    target = 2 * np.random.default_rng(0).random(side * side)
    return Task("birkhoff", sp.eye_array(side * side, format="csc"), target, shape=(side, side))


def observed_task(side: int, rank: int = 10, share: float = 0.05) -> Task:
    """A matrix of low rank of which a share is observed, with noise."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((side, rank)) @ rng.standard_normal((rank, side)) / rank**0.5
    seen = np.sort(rng.choice(side * side, int(share * side * side), replace=False))
    entries = np.ones(seen.size), (np.arange(seen.size), seen)
    A = sp.csc_array(entries, shape=(seen.size, side * side))
    b = M.ravel()[seen] + 0.1 * rng.standard_normal(seen.size)
    radius = 0.2 * float(np.linalg.svd(M, compute_uv=False).sum())
    return Task("nuclear", A, b, radius, (side, side))


_SIZES = (
    ("simplex", 40, 500), ("simplex", 200, 2000), ("simplex", 600, 200), ("l1", 500, 5000),
    ("l1", 2000, 500), ("box", 500, 1000),
)  # fmt: skip

BENCHMARK = Benchmark(
    name="minimize",
    title="1/2 |Ax - b|^2 over domains, CPU seconds to a judged relative gap of 1e-6",
    datasets=(
        *(
            Dataset(f"{kind} {m} x {n}, {word}", partial(dense_task, kind, m, n, word == "factors"))
            for kind, m, n in _SIZES
            for word in ("factors", "independent")
        ),
        Dataset("birkhoff 100 x 100", partial(nearest_task, 100)),
        Dataset("nuclear 500 x 500", partial(observed_task, 500)),
    ),
    solvers=(
        _ours("auto"), _ours("fully-corrective"), _ours("interior-point"), _ours("projected-cg"),
        _ours("di-pairwise"), _ours("fw"),
        _peer("NNLS", _nnls, ("simplex",), "scipy"),
        _lasso(),
        _peer("L-BFGS-B", _lbfgsb, ("box",), "scipy"),
        Solver(
            "quadprog", _peer("", _quadprog, ("simplex", "box"), "quadprog").prepare,
            lambda task: task.kind in ("simplex", "box") and task.A.shape[0] > task.A.shape[1],
            ("quadprog",),
        ),
        _peer("POT", _pot, ("birkhoff",), "ot"),
        _peer("FISTA", _fista, ("nuclear",), "scipy"),
        _peer("Clarabel", _cone("CLARABEL"), _CONES, "cvxpy", _MOST_ENTRIES),
        _peer("OSQP", _cone("OSQP"), _CONES, "osqp", _MOST_ENTRIES),
        _peer("PIQP", _cone("PIQP"), _CONES, "piqp", _MOST_ENTRIES),
    ),
    judge=judge,
    baseline="auto",
    target=("gap", GAP),
    repeat=3,
    patience=0.5,
    shown=("gap", "violation"),
    slow=True,
)  # fmt: skip
