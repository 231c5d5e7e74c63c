"""Kernel SVMs as plain data, the judge of their answers, and the solvers of them.

``f(b) = 1/2 b'Kb`` over signed variables b with sums K and -K in the classes and 0 <= y b <= 1, or
with C ``1/2 b'Kb - (1/C) y'b`` with sum 0; K is the rbf kernel with gamma = 1/(d var).  The judge
computes f, its duality gap and the primal objective of the C-SVM at every answer from the data in
float64, and checks that b is feasible.  None of this calls the package.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import data
from benchmarks.core import Answer, Measures, Recorder, Run, Solver

Array = np.ndarray[Any, np.dtype[np.float64]]

_CHUNK = 2**24  # kernel entries at a time
_KEPT_BYTES = 2**31  # of the columns that a judge of many points keeps
_SLACK = 1e-6  # by which an answer may violate its constraints, relative to its size
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # that LIBSVM and its kin may choose from
CACHE = 1_000


@dataclass(frozen=True)
class Problem:
    """Examples, labels +-1, and K or C; ``bound`` is a proven lower bound of the optimum.

    ``kept``, if given, holds the judge's kernel columns by example, for many points to be judged.
    """

    X: Any
    y: Any
    K: float | None = None
    C: float | None = None
    bound: float = -np.inf
    equivalent_c: float = np.nan  # of the optimum: the C-SVM that a K-machine is
    optimal_primal: float = np.nan
    kept: dict[int, Array] | None = field(default=None, repr=False)

    @property
    def nu(self) -> float:
        assert self.K is not None
        return 2 * self.K / self.y.size

    @property
    def gamma(self) -> float:
        if sp.issparse(self.X):
            variance = self.X.multiply(self.X).mean() - self.X.mean() ** 2
        else:
            variance = self.X.var()
        return float(1 / (self.X.shape[1] * variance))

    def options(self) -> dict[str, Any]:
        """As ``ReducedHullSVC`` takes it."""
        return {"C": self.C} if self.C is not None else {"K": self.K or 0.0}


@dataclass(frozen=True)
class Point:
    """Signed variables, and how many kernel entries it took to get there."""

    beta: Array
    evaluations: float = np.nan

    def copy(self) -> Point:
        """Itself: nobody changes an array that was handed out."""
        return self


# -- data ------------------------------------------------------------------------------------------


def _ijcnn1(n: int) -> tuple[Any, Any]:
    z = data.read("ijcnn1")
    return z["X_train"][:n].astype(np.float64), z["y_train"][:n] > 0


def _adult(name: str) -> tuple[Any, Any]:
    z = data.read(name)
    parts = (z["X_train_data"], z["X_train_indices"], z["X_train_indptr"])
    return sp.csr_matrix(parts, shape=z["X_train_shape"], dtype=np.float64), z["y_train"] > 0


def _digits(name: str, n: int, scale: float) -> tuple[Any, Any]:
    z = data.read(name)
    return z["X_train"][:n].astype(np.float64) / scale, z["y_train"][:n] % 2 == 1


def _covtype() -> tuple[Any, Any]:
    z = data.read("covtype_kaggle15120")
    X = z["X"].astype(np.float64)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), z["y"] == 2


def _wdbc() -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y > 0


LOADERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "wdbc": _wdbc,
    "a1a": lambda: _adult("a1a"),
    "a9a": lambda: _adult("a9a"),
    "ijcnn1 5,000": lambda: _ijcnn1(5_000),
    "ijcnn1 15,000": lambda: _ijcnn1(15_000),
    "ijcnn1": lambda: _ijcnn1(49_990),
    "usps odd-even": lambda: _digits("usps", 7_291, 1.0),
    "mnist odd-even 10,000": lambda: _digits("mnist", 10_000, 255.0),
    "covtype 15,120": _covtype,
}


@lru_cache(maxsize=1)
def load(name: str) -> tuple[Any, Any]:
    """Examples and labels +1, -1."""
    X, positive = LOADERS[name]()
    return X, np.where(positive, 1.0, -1.0)


# -- the judge -------------------------------------------------------------------------------------


def image(problem: Problem, beta: Array) -> Array:
    """``K b`` from the data, in float64."""
    support = np.flatnonzero(beta)
    out = np.zeros(problem.y.size)
    if problem.kept is None:
        step = max(1, _CHUNK // max(support.size, 1))
        for start in range(0, problem.y.size, step):
            rows = np.arange(start, min(start + step, problem.y.size))
            out[rows] = _entries(problem, rows, support) @ beta[support]
        return out
    step = max(1, _CHUNK // problem.y.size)
    everyone = np.arange(problem.y.size)
    new = np.array([i for i in support if i not in problem.kept], dtype=np.intp)
    for start in range(0, new.size, step):
        some = new[start : start + step]
        columns = _entries(problem, some, everyone)
        if 8 * problem.y.size * (len(problem.kept) + some.size) <= _KEPT_BYTES:
            problem.kept.update(zip(some.tolist(), columns, strict=True))
        else:
            out += beta[some] @ columns
    for i in support.tolist():
        if i in problem.kept:
            out += beta[i] * problem.kept[i]
    return out


def _entries(problem: Problem, rows: Any, columns: Any) -> Array:
    """``k(x_i, x_j)`` for i in rows, j in columns."""
    X = problem.X
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else (X * X).sum(axis=1)
    products = X[rows] @ X[columns].T
    products = products.toarray() if sp.issparse(products) else products
    products *= 2.0
    products -= norms[rows][:, None]
    products -= norms[columns]
    np.minimum(products, 0.0, out=products)
    products *= problem.gamma
    return np.exp(products, out=products)


def _spent(keys: Array, total: float) -> float:
    """``min <keys, v>`` over ``0 <= v <= 1, sum v = total``."""
    ordered = np.sort(keys)
    whole = int(total + 1e-9)
    rest = total - whole
    return float(ordered[:whole].sum()) + (rest * float(ordered[whole]) if rest > 1e-9 else 0.0)


def judge(problem: Problem, point: Point) -> Measures:
    """Value, gap and error relative to the value; the primal objective where its C is known."""
    beta, y = point.beta, problem.y
    Kb = image(problem, beta)
    size = max(1.0, float(np.abs(beta).sum()))
    violation = max(float((-y * beta).max()), float((y * beta - 1).max()))
    found: Measures = {}
    if problem.C is None:
        sums = (float(beta[y > 0].sum()), float(-beta[y < 0].sum()))
        violation = max(violation, *(abs(s - (problem.K or 0)) / size for s in sums))
        value = 0.5 * float(beta @ Kb)
        least = sum(_spent((y * Kb)[y == sign], problem.K or 0) for sign in (1, -1))
        gap = float(beta @ Kb) - least
    else:
        violation = max(violation, abs(float(beta.sum())) / size)
        h = Kb - y / problem.C
        value = 0.5 * float(beta @ (h - y / problem.C))
        # v = b + 1 for negatives: spend their number on the smallest h
        least = _spent(h, float((y < 0).sum())) - float(h[y < 0].sum())
        gap = float(beta @ h) - least
    found |= {"f": value, "gap": gap / abs(value) if value else np.inf}
    found["error"] = max(value - problem.bound, 0.0) / abs(value) if value else np.inf
    if violation > _SLACK:
        found["error"] = found["gap"] = np.inf
    if np.isfinite(problem.equivalent_c):
        found["primal"] = primal(problem, beta, Kb)
        found["primal error"] = found["primal"] / problem.optimal_primal - 1
    found["columns"] = point.evaluations / y.size
    return found


def primal(problem: Problem, beta: Array, Kb: Array) -> float:
    """``1/2 |w|² + C sum of hinge losses`` at C = equivalent_c, with the best intercept."""
    y, C = problem.y, problem.equivalent_c

    def at(scale: float) -> float:
        scores = scale * Kb
        # the loss is piecewise linear in the intercept: kinks where an example meets its margin
        kinks = np.sort(y - scores)
        low, high = 0, kinks.size - 1

        def loss(intercept: float) -> float:
            return float(np.maximum(1 - y * (scores + intercept), 0).sum())

        while high - low > 2:
            left, right = low + (high - low) // 3, high - (high - low) // 3
            if loss(kinks[left]) <= loss(kinks[right]):
                high = right
            else:
                low = left
        best = min(loss(kinks[k]) for k in range(low, high + 1))
        return 0.5 * scale**2 * float(beta @ Kb) + C * best

    scales = C * np.array([1.0]) if problem.C is not None else _scales(problem, Kb)
    return min(at(float(scale)) for scale in scales)


def _scales(problem: Problem, Kb: Array) -> Array:
    """``C = 2 / (t_+ - t_-)`` of the thresholds of a point of the reduced hulls."""
    y, count = problem.y, int(np.ceil(problem.K or 0)) - 1
    high = np.partition(Kb[y > 0], count)[count]
    low = -np.partition(-Kb[y < 0], count)[count]
    return np.array([2.0 / (high - low)]) if high > low else np.array([problem.equivalent_c])


def reference(problem: Problem, tol: float = 1e-5) -> Problem:
    """The problem with a bound proven by a run of the package, judged like any other."""
    from cornerstep import ReducedHullSVC

    clf = ReducedHullSVC(**problem.options(), tol=tol, random_state=0, time_limit=600)
    clf.fit(problem.X, problem.y)
    point = Point(_beta(problem, clf))
    found = judge(problem, point)
    known = replace(
        problem, bound=found["f"] - found["gap"] * abs(found["f"]), equivalent_c=float(clf.C_)
    )
    return replace(known, optimal_primal=primal(known, point.beta, image(known, point.beta)))


# -- solvers ---------------------------------------------------------------------------------------


def _beta(problem: Problem, clf: Any) -> Array:
    """Signed variables of a fitted machine with the attributes of scikit-learn's."""
    beta = np.zeros(problem.y.size)
    coefficients = clf.dual_coef_
    if sp.issparse(coefficients):
        coefficients = coefficients.toarray()
    coefficients = np.asarray(coefficients, dtype=np.float64).ravel()
    support = np.asarray(clf.support_, dtype=np.intp)
    beta[support] = coefficients
    if beta @ problem.y < 0:  # some give the coefficients of the other class
        beta = -beta
    if problem.C is not None:
        beta /= problem.C
    else:
        beta *= 2 * (problem.K or 0) / np.abs(beta).sum()
    return beta


def ours(name: str = "cornerstep", method: str = "auto", tol: float = 1e-3) -> Solver:
    """Our estimator, to a certified gap."""

    def prepare(problem: Problem) -> Run:
        from cornerstep import ReducedHullSVC

        small = slice(None, None, max(problem.y.size // 200, 1))  # compile first
        ReducedHullSVC(C=1.0, random_state=0).fit(problem.X[small], problem.y[small])

        def solve(recorder: Recorder | None) -> Answer:
            clf = ReducedHullSVC(
                **problem.options(), solver=method, tol=tol, cache_size=CACHE, random_state=0
            ).fit(problem.X, problem.y)
            point = Point(_beta(problem, clf), clf.n_kernel_evaluations_)
            return Answer(point, int(clf.n_iter_), clf.status_.value)

        return solve

    return Solver(name, prepare)


def peer(
    name: str, build: Callable[[Problem, float], Any], requires: tuple[str, ...] = ()
) -> Solver:
    """A machine at the loosest of ``TOLERANCES`` whose answer has an error of at most 1e-3."""

    def prepare(problem: Problem) -> Run:
        def solve(recorder: Recorder | None) -> Answer:
            for tol in TOLERANCES:
                clf = build(problem, tol)
                X, y = problem.X, problem.y.astype(np.intp)
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    clf.fit(X, y)
                seconds = time.perf_counter() - start
                point = Point(_beta(problem, clf))
                if judge(problem, point)["error"] <= 1e-3:
                    break
            return Answer(point, None, f"tol={tol:g}", seconds=seconds)

        return solve

    return Solver(name, prepare, requires=requires)
