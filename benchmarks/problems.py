"""Constrained convex problems as plain data, and the judge of their answers.

``min f(x) over x in R``.  The judge needs f and its gradient from the data and one linear minimum
over R: ``gap = <g, x> - min over v in R of <g, v>`` bounds ``f(x) - min f``.  None of this calls
the package under test; :class:`Problem` only carries what its solvers are built from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from benchmarks.core import Answer, Measures, Recorder, Run, Solver

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Region:
    """``{0 <= x <= cap}``, with ``sum x = total`` or ``sum x <= total``, or with ``A x <= b``."""

    size: int
    cap: float
    total: float | None = None
    at_most: bool = False
    A: Array | None = None
    b: Array | None = None

    def vertex(self, g: Array) -> Array:
        """A vertex that minimises <g, v>: by sorting, or by an LP solver."""
        if self.A is not None:
            answer = linprog(g, A_ub=self.A, b_ub=self.b, bounds=(0, self.cap), method="highs-ds")
            return np.asarray(answer.x)
        if self.total is None:
            return np.where(g < 0, self.cap, 0.0)
        order = np.argsort(g, kind="stable")
        filled = np.clip(self.total - self.cap * np.arange(self.size), 0.0, self.cap)
        v = np.empty(self.size)
        v[order] = filled
        return np.where(g < 0, v, 0.0) if self.at_most else v

    def violation(self, x: Array) -> float:
        """By how much the worst constraint is violated."""
        amounts = [0.0, -x.min(), (x - self.cap).max()]
        if self.total is not None:
            excess = x.sum() - self.total
            amounts.append(excess if self.at_most else abs(excess))
        if self.A is not None and self.b is not None:
            amounts.append((self.A @ x - self.b).max())
        return float(max(amounts))


@dataclass(frozen=True)
class Problem:
    """A problem for the judge (``evaluate``, ``region``) and for solvers (the rest).

    ``evaluate(x)`` returns f(x) and its gradient, from the data.  ``pair()`` builds the objective
    and the domain for cornerstep.  ``hessian`` and ``linear`` are there where f is
    ``1/2 x'Hx + l'x + const`` with H at hand; ``minimum`` where it is known.
    """

    evaluate: Callable[[Array], tuple[float, Array]]
    region: Region
    pair: Callable[[], tuple[Any, Any]]
    hessian: Array | None = None
    linear: Array | None = None
    minimum: float | None = None


def judge(problem: Problem, x: Array) -> Measures:
    """f, the duality gap and the worst violated constraint at x; the true error where known."""
    f, g = problem.evaluate(x)
    v = problem.region.vertex(g)
    measures = {"f": f, "gap": float(g @ (x - v)), "violation": problem.region.violation(x)}
    if problem.minimum is not None:
        measures["error"] = f - problem.minimum
    return measures


def cornerstep(
    name: str,
    *,
    tol: float,
    method: Any = None,
    max_iter: int = 1_000_000,
    time_limit: float | None = 3.0,
    applies: Callable[[Problem], bool] = lambda problem: True,
) -> Solver:
    """The solver ``cornerstep.minimize(method=name)``, or with the ``method`` object given."""
    from cornerstep import minimize

    def prepare(problem: Problem) -> Run:
        objective, domain = problem.pair()

        def run(record: Recorder | None) -> Answer:
            def callback(now: Any) -> None:
                if record is not None:
                    record(now.iteration, now.seconds, now.x)

            result = minimize(
                objective, domain, method=method or name, tol=tol, max_iter=max_iter,
                time_limit=time_limit, callback=callback if record else None,
            )  # fmt: skip
            return Answer(result.x, result.n_iter, result.status.value)

        return run

    return Solver(name, prepare, applies)
