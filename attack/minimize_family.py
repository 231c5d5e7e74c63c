"""``minimize``: every objective, domain, method and step, at any scale.

Judged: x against the inequalities of the domain; value and Frank-Wolfe gap at x in long double; and
``value - gap`` against the objective at every other point that is known of the same problem.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from attack.draws import chance, one_of, scale
from attack.exact import EPS, LONG, real
from attack.judge import SLOW, Judge, RefusedError
from attack.region import Region
from attack.regions import region
from cornerstep import minimize, optimiser
from cornerstep.objectives import (
    Huber,
    KullbackLeibler,
    LeastSquares,
    Logistic,
    Poisson,
    Quadratic,
    Smooth,
)

METHODS = (
    "auto", "auto", "fw", "away", "pairwise", "blended-pairwise", "fully-corrective",
    "randomized-away", "di-away", "di-pairwise", "di-away-schedule", "di-pairwise-schedule",
    "block", "interior-point", "projected-cg",
)  # fmt: skip


@dataclass
class Problem:
    """A function over a region; ``proven`` if the library knows its rounding errors."""

    objective: Any
    value: Any
    gradient: Any
    region: Region
    proven: bool = True

    def gap(self, x: Any) -> Any:
        """``<grad f(x), x> - min <grad f(x), v>``."""
        g = self.gradient(x)
        return (g * x).sum() - self.region.minimum(g)


def _quadratic(rng: Any, where: Region) -> Problem:
    n, s = where.n, scale(rng)
    if chance(rng, 0.3):
        Q = np.diag(rng.uniform(0, 2, n) * (rng.random(n) < 0.8))
    else:  # small integers: positive semidefinite also as rounded
        B = rng.integers(-4, 5, (int(rng.integers(1, n + 2)), n)).astype(float)
        Q = B.T @ B
    c = rng.standard_normal(n) * one_of(rng, 0, 1, 10.0)
    Q, c = Q * s, c * s * (where.size if chance(rng, 0.7) else 1.0)
    given = one_of(rng, Q, Q, sp.csr_array(Q), np.asfortranarray(Q))
    Q, c = real(Q), real(c)
    return Problem(
        (Quadratic, given, c.astype(float)), lambda x: (x * (Q @ x)).sum() / 2 + (c * x).sum(),
        lambda x: Q @ x + c, where,
    )  # fmt: skip


def _least_squares(rng: Any, where: Region) -> Problem:
    n, s = where.n, scale(rng)
    A = rng.standard_normal((int(rng.integers(1, n + 4)), n)) * s
    b = rng.standard_normal(len(A)) * s * (where.size if chance(rng, 0.8) else 1.0)
    if chance(rng, 0.2):
        A = A * 10.0 ** rng.integers(-5, 6, n)
    given, gram = one_of(rng, A, A, sp.csr_array(A)), chance(rng, 0.2)
    objective = (partial(LeastSquares, gram=gram), given, b)
    A, b = real(A), real(b)
    return Problem(
        objective, lambda x: ((A @ x - b) ** 2).sum() / 2, lambda x: A.T @ (A @ x - b), where
    )


def _smooth(rng: Any, where: Region) -> Problem:
    n = where.n
    A = rng.standard_normal((int(rng.integers(1, n + 3)), n)) / where.size
    if chance(rng, 0.5):
        L = float(np.linalg.norm(A, 2) ** 2) / 4

        def value(x: Any) -> Any:
            return np.logaddexp(0, A @ x).sum()

        def gradient(x: Any) -> Any:
            return A.T @ (1 / (1 + np.exp(-(A @ x))))
    else:
        L = float(np.linalg.norm(A, 2) ** 2) * 100 * n

        def value(x: Any) -> Any:
            return ((A @ x - 1) ** 4).sum() / 4

        def gradient(x: Any) -> Any:
            return A.T @ (A @ x - 1) ** 3

    return Problem(
        (partial(Smooth, lipschitz=L), value, gradient), value, gradient, where, proven=False
    )


def _composite(rng: Any, where: Region) -> Problem:
    n, w = where.n, None
    A = rng.standard_normal((int(rng.integers(2, n + 4)), n)) / where.size
    A = A * one_of(rng, 1.0, 1.0, 1e-3, 30.0)
    m = len(A)
    if chance(rng, 0.3):
        w = rng.integers(0, 3, m).astype(float)
    given = one_of(rng, A, A, sp.csr_array(A))
    A, weights = real(A), real(np.ones(m) if w is None else w)
    kind = one_of(rng, "huber", "logistic", "poisson")
    if kind == "huber":
        b, delta = rng.standard_normal(m), float(10.0 ** rng.uniform(-3, 1))
        made: Any = (partial(Huber, delta=delta, sample_weight=w), given, b)

        def loss(z: Any) -> Any:
            size = np.abs(z - b)
            return np.where(size <= delta, size**2 / 2, delta * (size - LONG(delta) / 2))

        def slope(z: Any) -> Any:
            return np.clip(z - b, -delta, delta)
    elif kind == "logistic":
        y = np.where(np.arange(m) < 1 + rng.integers(m - 1), 1, -1)
        made = (partial(Logistic, sample_weight=w), given, y)

        def loss(z: Any) -> Any:
            return np.logaddexp(LONG(0), -y * z)

        def slope(z: Any) -> Any:
            return -y / (1 + np.exp(y * z))
    else:
        counts = rng.integers(0, 9, m).astype(float)
        made = (partial(Poisson, sample_weight=w), given, counts)

        def loss(z: Any) -> Any:
            return np.exp(z) - counts * z

        def slope(z: Any) -> Any:
            return np.exp(z) - counts

    return Problem(
        made, lambda x: (weights * loss(A @ x)).sum(), lambda x: A.T @ (weights * slope(A @ x)),
        where,
    )  # fmt: skip


def _divergence(rng: Any, where: Region) -> Problem:
    """A divergence of given amounts, where the domain keeps all images positive; else a quadratic.

    Images are at least a millionth of the largest, so that long double can judge.
    """
    n, size = where.n, where.size
    A = rng.uniform(0.01, 1.0, (int(rng.integers(1, n + 4)), n))
    A = A * (rng.random(A.shape) < 0.8) * one_of(rng, 1.0, 1 / size)
    if any(not where.minimum(real(row)) > 1e-6 * row.max() * size for row in A):
        return _quadratic(rng, where)
    b = rng.uniform(0, 2, len(A)) * (rng.random(len(A)) < 0.8) * float(A.max() * size)
    w = rng.integers(0, 3, len(A)).astype(float) if chance(rng, 0.3) else None
    given = one_of(rng, A, A, sp.csr_array(A))
    A, b, weights = real(A), real(b), real(np.ones(len(A)) if w is None else w)

    def value(x: Any) -> Any:
        z = A @ x
        return (weights * (np.where(b > 0, b * np.log(np.where(b > 0, b, 1) / z), 0) - b + z)).sum()

    return Problem(
        (partial(KullbackLeibler, sample_weight=w), given, b.astype(float)), value,
        lambda x: A.T @ (weights * (1 - b / (A @ x))), where,
    )  # fmt: skip


def draw(rng: Any, judge: Judge) -> Problem:
    """A random problem."""
    where = judge.call(region, rng, int(rng.integers(1, 7)), scale(rng))
    kinds = _quadratic, _least_squares, _smooth, _composite, _divergence
    kind = one_of(rng, _quadratic, _least_squares, *kinds)
    with np.errstate(all="ignore"):
        problem = kind(rng, where)
    problem.objective = judge.call(*problem.objective)
    judge.says(where.domain, type(problem.objective).__name__)
    return problem


def _method(rng: Any) -> Any:
    if chance(rng, 0.1):
        return optimiser.Block(
            order=one_of(rng, "permuted", "uniform", "gap"),
            direction=one_of(rng, "fw", "away", "pairwise"),
        )
    if chance(rng, 0.15):
        kinds = optimiser.Away, optimiser.Pairwise, optimiser.BlendedPairwise
        return one_of(rng, *kinds, optimiser.FullyCorrective)(lazy=True)
    return one_of(rng, *METHODS)


def options(rng: Any, problem: Problem, judge: Judge) -> dict[str, Any]:
    """How to run: method, step, tolerances, limits."""
    far = np.full(problem.region.n, LONG(problem.region.size))
    size = float(min(abs(problem.value(far)), 1e300))
    out: dict[str, Any] = {"method": _method(rng), "random_state": int(rng.integers(100))}
    if chance(rng, 0.3):
        out["step"] = one_of(rng, "short", "open-loop", "backtracking")
    kind = rng.random()
    if kind < 0.3:
        out["tol"] = 0.0
    elif kind < 0.7:
        relative = 10.0 ** -rng.uniform(1, 15)
        out.update(tol=0.0, rtol=relative) if chance(rng, 0.5) else out.update(tol=size * relative)
    out["max_iter"] = int(one_of(rng, 0, 1, 3, 30, 300, 300, 1000))
    name = getattr(out["method"], "name", out["method"])
    if name == "fully-corrective":  # an iteration may take 10,000 steps
        out["max_iter"] = min(out["max_iter"], 10)
    if chance(rng, 0.05):
        out["time_limit"] = float(one_of(rng, 0.0, 0.02))
    if chance(rng, 0.05):
        after = int(rng.integers(4))
        out["callback"] = lambda iterate: iterate.iteration >= after
    return out


def run(rng: Any, problem: Problem, judge: Judge, how: dict[str, Any]) -> Any:
    """One run, judged; its result."""
    judge.says({k: v for k, v in how.items() if k not in ("x0", "callback")})
    begun = time.process_time()
    try:
        result = judge.call(minimize, problem.objective, problem.region.domain, **how)
    except RefusedError as why:
        if "needs" not in str(why) and "step" not in str(why):
            raise
        how["method"] = "auto"  # which needs nothing
        how.pop("step", None)
        result = judge.call(minimize, problem.objective, problem.region.domain, **how)
    if "time_limit" in how:
        spent = time.process_time() - begun
        judge.at_most(spent, 1.05 * how["time_limit"] + 1.0, SLOW)
    check(problem, result, judge, how)
    return result


def check(problem: Problem, result: Any, judge: Judge, how: dict[str, Any]) -> None:
    """What must hold of an answer by itself."""
    numbers = [result.value, result.gap, result.lower_bound]
    known = (
        np.isfinite(result.value) and np.isfinite(result.x).all() and not np.isnan(numbers).any()
    )
    if not judge.that(known, f"finite x and value, no NaN: {numbers}"):
        return
    x = real(result.x)
    judge.at_most(problem.region.excess(x), 1e-9, "x lies in the domain")
    judge.at_most(0.0, result.gap, "gap >= 0")
    judge.at_most(result.value - result.gap, result.lower_bound, "value - gap <= lower_bound",
                  4 * EPS * abs(result.value))  # fmt: skip
    judge.at_most(result.lower_bound, result.value, "lower_bound <= value")
    if np.isinf(result.gap):  # nothing is claimed
        judge.that(result.status.value != "solved", "solved with an infinite gap")
        return
    true, gap = problem.value(x), problem.gap(x)
    slack = rounding(problem, x) + 1e-320
    judge.at_most(abs(true - result.value), result.gap, "value is f(x) up to rounding in the gap",
                  1e-320 if problem.proven else slack)  # fmt: skip
    judge.at_most(gap * (1 - LONG(1e-9)), result.gap, "gap >= true Frank-Wolfe gap", slack)
    target = max(how.get("tol", 1e-6), how.get("rtol", 0.0) * abs(result.value))
    if result.status.value == "solved":
        judge.at_most(result.gap, target, "solved means gap <= tol")
    judge.at_most(result.n_iter, how["max_iter"], "max_iter is kept")


def rounding(problem: Problem, x: Any) -> Any:
    """What a unit in the last place of each coordinate does to the Frank-Wolfe gap at x."""
    g, f, change, own = problem.gradient(x), problem.value(x), LONG(0), LONG(0)
    for i in np.flatnonzero(x):
        moved = x.copy()
        moved[i] *= 1 + LONG(EPS)
        change += np.abs(problem.gradient(moved) - g).sum()
        own += abs(problem.value(moved) - f)
    reach = np.abs(x).sum() + LONG(problem.region.size) * x.size
    return 4 * (own * (not problem.proven) + (change + EPS * np.abs(g).sum()) * reach)


def bounded(problem: Problem, results: list[Any], judge: Judge) -> None:
    """No lower bound is above the objective of any point that is known."""
    best: Any = None
    for result in results:
        x = real(result.x)
        outside = max(problem.region.excess(x), 0) * problem.region.size
        value = problem.value(x) + 4 * outside * np.abs(problem.gradient(x)).sum()
        best = value if best is None else min(best, value)
    for result in results:
        if np.isinf(result.gap):
            continue
        slack = 1e-320 if problem.proven else rounding(problem, real(result.x)) + 1e-320
        for rule, bound in (
            ("value - gap <= the best known value", LONG(result.value) - LONG(result.gap)),
            ("lower_bound <= the best known value", LONG(result.lower_bound)),
        ):
            judge.at_most(bound - best, 0.0, rule, slack + EPS * abs(LONG(result.value)) / 2)


def attack(rng: Any, judge: Judge) -> None:
    """One problem, by two methods, the second perhaps from where the first ended."""
    start = copy.deepcopy(rng)
    problem = draw(rng, judge)
    results: list[Any] = []
    context = list(judge.context)
    refused: RefusedError | None = None
    for k in range(2):
        judge.context = list(context)
        how = options(rng, problem, judge)
        if k and results and chance(rng, 0.3):
            how["x0"] = one_of(rng, results[0].x, results[0])
        elif chance(rng, 0.1):  # inside or not
            far = problem.region.size * 10.0 ** rng.uniform(-2, 1)
            how["x0"] = far * rng.standard_normal(problem.region.n)
        try:
            results.append(run(rng, problem, judge, how))
        except RefusedError as why:
            refused = why
    judge.context = context
    if results:
        bounded(problem, results, judge)
        if chance(rng, 0.05) and not {"time_limit", "x0"} & set(how) and refused is None:
            anew = draw(start, judge)  # linear programs begin where the last one ended
            again = judge.call(minimize, anew.objective, anew.region.domain, **how)
            judge.that((again.x == results[-1].x).all(), "the same run twice is the same")
    elif refused is not None:
        raise refused
