"""Multi-class SVMs as plain data, the judge of their answers, and the solvers of them.

``P(W) = 1/2 |W|² + C sum_i Phi(W'x_i; y_i)`` without an intercept, 0/1 costs, and for dual
coefficients ``A = C alpha`` (one row per example)
``D(A) = -1/2 |X'A|² + sum_i A_(i, y_i) - mu/(2C) |A|²``.

The judge computes P of every solver's W, and D of its A where it returns one, from the data in
float64, and checks that A is feasible.  Plain Frank-Wolfe keeps no A but its image W(A) and the
number ``l = sum_i A_(i, y_i)``: of these the judge takes l as given.  None of this calls the
package, but for ``reference``, whose A is judged like any other.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

from benchmarks.core import Answer, Measures, Recorder, Run, Solver

Array = np.ndarray[Any, np.dtype[np.float64]]

#: Weights of the experiments: rho_j = max(0, 6 - j)/15.
RHO = np.arange(5, 0, -1) / 15.0
_CHUNK = 4_096  # examples scored at a time
_SLACK = 1e-9  # by which dual coefficients may violate their constraints, relative to C


@dataclass(frozen=True)
class LossSpec:
    """``sum_j rho_j max(0, z_(j))``, or if *whole* ``max(0, sum_j rho_j z_(j))``, rho uniform."""

    name: str
    rho: Any
    whole: bool = False

    def estimator_options(self) -> dict[str, Any]:
        """As ``MulticlassSVC`` takes it."""
        if self.name.endswith("-5"):
            return {"loss": {"top-5": "top-k", "usunier-5": "usunier"}[self.name], "k": 5}
        return {"loss": self.name, "rho": None if self.name == "max-hinge" else self.rho}


MAX_HINGE = LossSpec("max-hinge", np.ones(1))
_WARM_UP = 5.0  # seconds
WEIGHTED_USUNIER = LossSpec("weighted-usunier", RHO)
TOP_5 = LossSpec("top-5", np.full(5, 0.2), whole=True)


@dataclass(frozen=True)
class Problem:
    """Data and question; ``bound`` is a proven lower bound of the optimum."""

    X: Any
    y: Any
    C: float = 1.0
    loss: LossSpec = MAX_HINGE
    smoothing: float = 0.0
    bound: float = -np.inf
    bound_gap: float = np.inf  # relative gap of the run that proved it

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1


@dataclass(frozen=True)
class Point:
    """W, a row per class; A, or ``(W(A), l)`` of a state without A; a loss unlike the problem's."""

    W: Array
    A: Any = None
    image: tuple[Array, float] | None = None
    loss: LossSpec | None = None

    def copy(self) -> Point:
        """Itself: the solvers here never change an array that they handed out."""
        return self


def primal(problem: Problem, W: Array, loss: LossSpec | None = None) -> float:
    """``P(W)`` from the data."""
    loss = loss or problem.loss
    total = 0.5 * float(np.vdot(W, W))
    W = np.asarray(W, dtype=np.float64)
    for start in range(0, problem.X.shape[0], _CHUNK):
        rows, labels = problem.X[start : start + _CHUNK], problem.y[start : start + _CHUNK]
        scores = np.asarray(rows @ W.T)
        at = np.arange(labels.size)
        z = scores - scores[at, labels][:, None] + 1.0
        z[at, labels] = 0.0
        if problem.smoothing:
            z[at, labels] = -np.inf
            z = -np.sort(-z, axis=1)[:, :-1]
            total += problem.C * _envelopes(z, loss.rho, problem.smoothing)
            continue
        if loss.rho.size == 1:
            largest = z.max(axis=1, keepdims=True)
        else:
            count = loss.rho.size
            largest = -np.sort(np.partition(-z, count - 1, axis=1)[:, :count], axis=1)
        if loss.whole:
            values = np.maximum(largest @ loss.rho, 0.0)
        else:
            values = np.maximum(largest, 0.0) @ loss.rho
        total += problem.C * float(values.sum())
    return total


@numba.njit(cache=True)
def _envelopes(z: Any, rho: Any, mu: float) -> float:
    """Sum over rows of ``max over beta of <beta, z> - mu/2 ((1'beta)² + |beta|²)``.

    Rows are sorted downwards and without the label; beta >= 0 with its k largest entries summing to
    at most ``rho_1 + ... + rho_k``.  With ``t = 1'beta`` given, beta is the projection of
    ``max(z/mu - t, 0)``, by pooling adjacent violators; t is found by bisection.
    """
    n, m = z.shape
    beta, level, width = np.empty(m), np.empty(m), np.empty(m, np.int64)
    total = 0.0
    for i in range(n):
        low, high = 0.0, rho.sum()
        for _ in range(60):
            t = 0.5 * (low + high)
            blocks, mass = 0, 0.0
            for j in range(m):
                v = max(z[i, j] / mu - t, 0.0)
                level[blocks] = v - (rho[j] if j < rho.size else 0.0)
                width[blocks] = 1
                blocks += 1
                # levels must not increase along the sorted entries, for beta = v - max(level, 0)
                while blocks > 1 and level[blocks - 2] < level[blocks - 1]:
                    a, b = width[blocks - 2], width[blocks - 1]
                    level[blocks - 2] = (a * level[blocks - 2] + b * level[blocks - 1]) / (a + b)
                    width[blocks - 2] = a + b
                    blocks -= 1
            j = 0
            for k in range(blocks):
                for _ in range(width[k]):
                    v = max(z[i, j] / mu - t, 0.0)
                    beta[j] = v - max(level[k], 0.0)
                    mass += beta[j]
                    j += 1
            if mass > t:
                low = t
            else:
                high = t
        square, linear, mass = 0.0, 0.0, 0.0
        for j in range(m):
            square += beta[j] * beta[j]
            linear += beta[j] * z[i, j]
            mass += beta[j]
        total += linear - 0.5 * mu * (mass * mass + square)
    return total


def dual(problem: Problem, A: Any, loss: LossSpec | None = None) -> tuple[float, float]:
    """``D(A)`` from the data, and by how much the worst constraint on A/C is violated."""
    loss = loss or problem.loss
    A = A.toarray() if sp.issparse(A) else np.asarray(A, dtype=np.float64)
    W = np.asarray(problem.X.T @ A)
    at = np.arange(problem.y.size)
    beta = -A / problem.C
    own = -beta[at, problem.y]
    square = float((beta**2).sum())
    beta[at, problem.y] = 0.0
    total = beta.sum(axis=1)
    amounts = [float(np.abs(own - total).max()), float(-beta.min())]
    if loss.whole:  # beta/s in the capped simplex for some s <= 1, the label's entry left over
        k = loss.rho.size
        least = np.maximum(k * beta.max(axis=1), total)
        amounts.append(float((least - np.minimum(1.0, total * k / (k - 1))).max()))
    else:
        tops = -np.sort(-beta, axis=1).cumsum(axis=1)
        limits = np.cumsum(np.pad(loss.rho, (0, problem.n_classes - loss.rho.size)))
        amounts.append(float((tops - limits).max()))
    value = problem.C * float(total.sum()) - 0.5 * float(np.vdot(W, W))
    return value - 0.5 * problem.smoothing * problem.C * square, max(0.0, *amounts)


def judge(problem: Problem, point: Point | None) -> Measures:
    """P; the proven relative gap; the relative error against the bound, itself an upper bound.

    ``shortfall`` is what is compared with the target: the proven gap of a solver that returns a
    proof, and otherwise the error.
    """
    if point is None:
        return {}
    value = primal(problem, point.W, point.loss)
    measures = {"primal": value}
    bound = problem.bound
    if point.A is not None:
        proven, violation = dual(problem, point.A, point.loss)
        proven = proven if violation <= _SLACK else -np.inf
        measures |= {"dual": proven, "gap": (value - proven) / value, "violation": violation}
        bound = max(bound, proven)
    elif point.image is not None:
        image, linear = point.image
        proven = linear - 0.5 * float(np.vdot(image, image))
        measures |= {"dual": proven, "gap": (value - proven) / value}
    if point.loss is None and np.isfinite(bound):
        measures["error"] = (value - bound) / value
    measures["shortfall"] = measures.get("gap", measures.get("error", np.inf))
    return measures


def reference(problem: Problem, tol: float = 1e-5, time_limit: float = 600.0) -> Problem:
    """The problem with a bound, proven by the A of a long run."""
    fitted = _estimator(problem, tol=tol, time_limit=time_limit).fit(problem.X, problem.y)
    value = primal(problem, fitted.coef_)
    bound, violation = dual(problem, fitted.dual_coef_)
    if violation > _SLACK:
        raise AssertionError(f"the dual coefficients are not feasible, by {violation:g} C")
    return replace(problem, bound=bound, bound_gap=(value - bound) / value)


def _estimator(problem: Problem, loss: LossSpec | None = None, **options: Any) -> Any:
    from cornerstep import MulticlassSVC

    given = {"C": problem.C, "fit_intercept": False, "random_state": 0, "max_iter": 1_000_000}
    given |= {"smoothing": problem.smoothing} | (loss or problem.loss).estimator_options()
    return MulticlassSVC(**(given | options))


def cornerstep(
    name: str = "cornerstep",
    *,
    tol: float = 1e-3,
    loss: LossSpec | None = None,
    dtype: Any = np.float64,
    time_limit: float | None = 600.0,
) -> Solver:
    """The default solver to a proven relative gap of ``tol``.

    The answer is judged on the float64 data also where the solver was given float32.
    """

    def prepare(problem: Problem) -> Run:
        X, y = problem.X.astype(dtype, copy=False), problem.y
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # compiles what the run will need, or all but a small part of a long one
            _estimator(problem, loss, tol=tol, time_limit=_WARM_UP).fit(X, y)

        def run(record: Recorder | None) -> Answer:
            fitted = _estimator(problem, loss, tol=tol, time_limit=time_limit).fit(X, y)
            point = Point(fitted.coef_, fitted.dual_coef_, loss=loss)
            work = {"sweeps": float(fitted.trace_["sweeps"][-1])}
            return Answer(point, fitted.n_iter_, fitted.status_.value, work)

        return run

    return Solver(name, prepare)


def plain(rule: str, iterations: int) -> Solver:
    """A plain method, or 'block', for a number of iterations (rounds): looks and moves."""

    def prepare(problem: Problem) -> Run:
        run_once(problem, rule, 1, None)  # compile

        def run(record: Recorder | None) -> Answer:
            return run_once(problem, rule, iterations, record)

        return run

    return Solver(rule, prepare)


def machine(problem: Problem, rule: str, target: float = 1e-6) -> Any:
    """The solver object of ``rule``, with ``look`` and ``move``."""
    from cornerstep.losses import TopK, WeightedUsunier
    from cornerstep.multiclass.examples import Examples
    from cornerstep.multiclass.problem import MulticlassProblem
    from cornerstep.multiclass.solvers.batch import BatchDescent
    from cornerstep.multiclass.solvers.block import BlockAscent

    loss = TopK(problem.loss.rho.size) if problem.loss.whole else WeightedUsunier(problem.loss.rho)
    scales = np.full(problem.y.size, problem.C)
    examples = Examples(problem.X)
    posed = MulticlassProblem(
        examples, problem.y, problem.n_classes, loss, scales, problem.smoothing
    )
    if rule == "block":
        return BlockAscent(posed, np.random.default_rng(0), target)
    return BatchDescent(posed, rule)


def _point(problem: Problem, solver: Any, rule: str) -> Point:
    """Where a solver object is now; images are W itself as the examples are dense."""
    if rule == "block":
        return Point(solver.weights_image(), solver.coefficients())
    state = solver.state
    if state.alpha.size:
        return Point(solver.primal.image, problem.C * state.alpha)
    return Point(solver.primal.image, image=(state.image, state.linear))


def run_once(
    problem: Problem, rule: str, iterations: int, record: Recorder | None, tol: float = 1e-6
) -> Answer:
    """``iterations`` looks and moves, fewer if 'block' reaches a relative gap of ``tol`` before."""
    solver = machine(problem, rule, tol)
    start = time.perf_counter()
    done = 0
    while done < iterations:
        look = solver.look()
        if record is not None and record.due(done):
            record(done, time.perf_counter() - start, _point(problem, solver, rule))
        if rule == "block" and look.gap <= tol * look.value:
            break
        solver.move()
        done += 1
    if rule == "block":
        solver.look()  # W(A) of the last move may be the best
    stopped = "solved" if done < iterations else "iteration limit"
    return Answer(_point(problem, solver, rule), done, stopped)


class Liblinear:
    """LIBLINEAR ``-s 4`` on one problem, each run in a process that is ended after ``limit``.

    The process is forked, so that the data, converted once, need not travel.
    """

    def __init__(self, problem: Problem, limit: float) -> None:
        from liblinear.liblinearutil import problem as convert

        X = sp.csr_matrix(problem.X) if sp.issparse(problem.X) else problem.X
        self.data = convert(problem.y.astype(np.float64), X)
        self.shape = (problem.n_classes, problem.X.shape[1])
        self.C = problem.C
        self.limit = limit
        self.context = multiprocessing.get_context("fork")

    def run(self, eps: float) -> tuple[float, Array] | None:
        """Seconds and W; None if the limit came first."""
        here, there = self.context.Pipe(duplex=False)
        process = self.context.Process(target=self._train, args=(eps, there))
        process.start()
        there.close()
        try:
            return here.recv() if here.poll(self.limit) else None
        except EOFError:
            raise RuntimeError("LIBLINEAR's process died") from None
        finally:
            process.terminate()
            process.join()

    def _train(self, eps: float, out: Any) -> None:
        from liblinear.liblinearutil import parameter, train

        options = parameter(f"-s 4 -c {self.C!r} -e {eps!r} -B -1 -q")
        start = time.perf_counter()
        model = train(self.data, options)
        seconds = time.perf_counter() - start
        m, d = self.shape
        flat = np.ctypeslib.as_array(model.w, (model.get_nr_feature() * m,)).reshape(-1, m)
        W = np.zeros((m, d))  # it may know fewer features: the last ones may never occur
        W[:, : flat.shape[0]] = flat[:, np.argsort(model.get_labels())].T
        out.send((seconds, W))


def liblinear(limit: float, grid: tuple[float, ...], error: float) -> Solver:
    """LIBLINEAR at the loosest eps of ``grid`` whose judged error is at most ``error``.

    The search is set-up.  Its last run counts as the first solve.
    """

    def prepare(problem: Problem) -> Run:
        program = Liblinear(problem, limit)
        for eps in grid:
            found = program.run(eps)
            if found is None or judge(problem, Point(found[1]))["error"] <= error:
                break
        first = [found]
        work = {"eps": eps}

        def run(record: Recorder | None) -> Answer:
            outcome = first.pop() if first else program.run(eps)
            if outcome is None:
                return Answer(None, None, "ended by the limit", work, limit)
            seconds, W = outcome
            return Answer(Point(W), None, "its own test", work, seconds)

        return run

    return Solver("LIBLINEAR -s 4", prepare, requires=("liblinear",))
