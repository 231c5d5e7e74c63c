"""Many least-squares problems with one matrix and one domain, each with its own certificate.

Where the domain has few vertices, or bounds and sums of different coordinates
(:mod:`cornerstep.optimiser.small_form`), a Gram matrix is formed once, and every problem is a small
program (:mod:`cornerstep.optimiser.wolfe`) whose linear term is a row of one product; certificates
are computed for many problems at a time, from the data.  Other domains, and problems that rounding
leaves above the tolerance, are solved one by one.  Each problem starts from a good vertex: from the
nearest problem that is solved it took 1.3 to 1.9 times as long (200 of 40 x 500 and 60 of
3,000 x 2,000, columns from a few factors).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerstep.core.clock import asking, never, work_seconds
from cornerstep.core.curvature import dense_array
from cornerstep.core.optional import optional_import
from cornerstep.core.threads import n_workers
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import dense
from cornerstep.domains.base import has_oracle, vertex_of
from cornerstep.optimiser.loop import Stopping, claimed, deferred_interrupt
from cornerstep.optimiser.minimize import minimize
from cornerstep.optimiser.objectives import LeastSquares
from cornerstep.optimiser.result import Status
from cornerstep.optimiser.small_form import SmallForm, small_form
from cornerstep.optimiser.solver import gap_rounding, is_inside

if TYPE_CHECKING:
    import pandas as pd

_TOGETHER = 64  # problems that are certified at a time
_EXACT = 1e-3  # of the tolerance: what the small program may miss
_ROUNDS = 20  # steps of the small program, at most, for each vertex
_POLL = 0.1  # seconds between looks at who has pressed Ctrl-C
_STEPS = 1000  # of the small program between two looks at the clock


@dataclass(frozen=True)
class ManyResults:
    """Points with certificates: ``value - gap <= min f_i <= value`` for each problem i.

    Attributes
    ----------
    x : array of shape (k, n)
    value, gap : array of shape (k,)
        As of :class:`~cornerstep.Result`.
    status : list of Status
    seconds : float
        In all.
    """

    x: FloatArray = field(repr=False)
    value: FloatArray = field(repr=False)
    gap: FloatArray = field(repr=False)
    status: list[Status] = field(repr=False)
    seconds: float

    def __len__(self) -> int:
        return len(self.status)

    @property
    def success(self) -> bool:
        """Whether all gaps reached the tolerance."""
        return all(status is Status.SOLVED for status in self.status)

    @property
    def lower_bound(self) -> FloatArray:
        """Of the minimum of each problem."""
        nothing = np.full(len(self), -np.inf)
        return np.subtract(self.value, self.gap, out=nothing, where=np.isfinite(self.gap))

    def to_pandas(self) -> pd.DataFrame:
        """A row per problem: value, lower bound, gap and status."""
        with optional_import():
            import pandas as pd

        words = [status.value for status in self.status]
        columns = {"value": self.value, "lower_bound": self.lower_bound, "gap": self.gap}
        return pd.DataFrame(columns | {"status": words})

    def __str__(self) -> str:
        counts = {status: self.status.count(status) for status in dict.fromkeys(self.status)}
        words = ", ".join(f"{count} {status.value}" for status, count in counts.items())
        worst = float(self.gap.max(initial=0.0))
        return f"{len(self)} problems in {self.seconds:.3g} s: {words}; largest gap {worst:.3g}"


@np.errstate(all="ignore")  # what is not finite proves nothing, or is refused by the loop
def minimize_many(
    objective: LeastSquares,
    domain: Any,
    targets: Any,
    *,
    tol: float = 0.0,
    rtol: float = 1e-6,
    time_limit: float | None = None,
    n_jobs: int | None = None,
) -> ManyResults:
    """Many least-squares problems at once, with a certificate each.

    ``min 1/2 |Ax - b_i|² over x in P`` for each of the targets b_i.

    Parameters
    ----------
    objective : LeastSquares
        With the matrix A; its own target is not looked at.
    domain : domain
        P, as of :func:`~cornerstep.minimize`.
    targets : array of shape (k, m)
        A target per row.
    tol, rtol : float
        A problem is solved when ``gap <= max(tol, rtol * value)``.
    time_limit : float, optional
        Seconds for all of them; what is not solved by then, or by Ctrl-C, has the certificate of a
        vertex.
    n_jobs : int, optional
        Problems to solve at a time: None one, -1 as many as there are cores.

    Returns
    -------
    ManyResults

    Examples
    --------
    >>> import numpy as np
    >>> from cornerstep.domains import Simplex
    >>> from cornerstep.objectives import LeastSquares
    >>> from cornerstep.optimiser import minimize_many
    >>> targets = np.array([[0.5, 0.3, -1.0], [0.0, 2.0, 0.0]])
    >>> results = minimize_many(LeastSquares(np.eye(3), np.zeros(3)), Simplex(3), targets)
    >>> results.x.round(3)
    array([[0.6, 0.4, 0. ],
           [0. , 1. , 0. ]])
    >>> results.success
    True
    """
    if not isinstance(objective, LeastSquares):
        raise TypeError(f"objective must be a LeastSquares, got {objective!r}")
    if objective.size != domain.size:
        raise ValueError(
            f"objective and domain must have the same size, got {objective.size} and {domain.size}"
        )
    rows = objective.target.size
    B = np.asarray(targets, dtype=np.float64)
    if B.ndim != 2 or B.shape[1] != rows or not np.isfinite(B).all():
        raise ValueError(f"targets must be finite, of shape (k, {rows}), got shape {B.shape}")
    began, workers = work_seconds(), n_workers(n_jobs)
    many = _ManyProblems(objective, domain, B, Stopping(tol, rtol, time_limit=time_limit), began)
    parts = [slice(k, k + _TOGETHER) for k in range(0, len(B), _TOGETHER)]
    with deferred_interrupt() as many.interrupted, ThreadPoolExecutor(workers) as pool:
        if workers == 1:
            list(map(many.solve, parts))
        left = {pool.submit(many.solve, part) for part in parts if workers > 1}
        while left:  # Ctrl-C is seen between waits
            for future in (found := wait(left, _POLL)).done:
                future.result()
            left = found.not_done
    return ManyResults(many.x, many.value, many.gap, many.status, work_seconds() - began)


class _ManyProblems:
    """The problems, what they share, and what has been found of them."""

    def __init__(
        self, objective: LeastSquares, domain: Any, B: FloatArray, stopping: Stopping, began: float
    ) -> None:
        self.objective, self.domain, self.B, self.stopping = objective, domain, B, stopping
        self._began = began
        self.interrupted: Callable[[], bool] = never
        self.x = np.zeros((len(B), domain.size))
        self.value, self.gap = np.full(len(B), math.nan), np.full(len(B), math.inf)
        self.status = [Status.TIME_LIMIT] * len(B)
        self._form = None if objective.product_size is None else small_form(domain)
        if self._form is not None:
            self._basis = self._form.basis()
            self._images = dense_array(objective.matrix.times(self._basis.T)).T
            self._gram = np.ascontiguousarray(self._images @ self._images.T)
            self._origin = objective.matrix.times(self._form.base)

    def _is_over(self) -> bool:
        return self.stopping.is_over(self._began) or self.interrupted()

    @np.errstate(all="ignore")  # in this thread
    def solve(self, part: slice) -> None:
        """Solve and certify some of the problems."""
        if self._form is not None:
            self._improve(part, self._form)
            self._certify(part)
        for i in range(*part.indices(len(self.B))):
            if self.gap[i] <= self.stopping.target(self.value[i]):
                self.status[i] = Status.SOLVED
            elif math.isnan(self.value[i]) or (
                self.status[i] is Status.TIME_LIMIT and not (self._form and self._is_over())
            ):
                self._solve_alone(i)
            if self.interrupted() and self.status[i] is Status.TIME_LIMIT:
                self.status[i] = Status.INTERRUPTED

    def _improve(self, part: slice, form: SmallForm) -> None:
        from cornerstep.optimiser.wolfe import Factor, improve  # with the compiler

        linear = (self.B[part] - self._origin) @ self._images.T
        costs = 0.5 * self._gram.diagonal() - linear
        scale = 0.5 * (self.B[part] ** 2).sum(axis=1)
        found, factor = np.zeros(linear.shape), Factor()  # one: its room is memory to be fetched
        known = np.flatnonzero(np.isfinite(costs).all(axis=1))
        for k in known:
            y, solved, rounds = found[k], False, 0
            y[:], factor.count = self._start(costs[k], form), 0
            tol = _EXACT * self.stopping.target(float(scale[k]))
            while not solved and rounds * _STEPS < _ROUNDS * y.size and not self._is_over():
                rounds += 1
                solved = improve(
                    self._gram, linear[k], y, tol, _STEPS, factor, form.caps, form.groups
                )
        mine = np.arange(len(self.B))[part][known]
        self.x[mine] = form.base + found[known] @ self._basis
        for i in mine if has_oracle(self.domain, "snap") else ():
            self.domain.snap(self.x[i])

    def _start(self, costs: FloatArray, form: SmallForm) -> FloatArray:
        """The vertex of the least costs."""
        if np.isinf(form.caps).all() and not form.groups.any():
            y = np.zeros(costs.size)
            y[costs.argmin()] = form.goals[0]
            return y
        return form.coordinates(vertex_of(self.domain, self._basis.T @ costs))

    def _certify(self, part: slice) -> None:
        """Values and gaps from the data, with their rounding."""
        X, B, objective = self.x[part].T, self.B[part].T, self.objective
        residual = objective.matrix.times(X) - B
        gradients = objective.matrix.transpose_times(residual)
        values = 0.5 * (residual**2).sum(axis=0)
        value_errors, errors = objective.errors_at(X, B, residual)
        for k, i in enumerate(range(*part.indices(len(self.B)))):
            x, gradient, value = self.x[i], gradients[:, k], float(values[k])
            if not np.isfinite(gradient).all():  # refused alone
                continue
            vertex = vertex_of(self.domain, gradient)
            gap = claimed(float(gradient @ (x - dense(vertex))))
            off = float(value_errors[k]), errors[:, k]
            rounding = gap_rounding(self.domain, x, value, gradient, vertex, gap, off)
            if not is_inside(self.domain, x):  # numbers at the ends of float64: it is solved alone
                continue
            self.value[i], self.gap[i] = value, gap + rounding
            if gap <= rounding:  # no step makes it smaller
                self.status[i] = Status.PRECISION_LIMIT

    def _starts_where_it_is(self, i: int) -> bool:
        if self._form is None or math.isnan(self.value[i]):
            return False
        return bool(np.isinf(self._form.caps).all())

    def _solve_alone(self, i: int) -> None:
        with asking(self._is_over, never):
            result = minimize(
                self.objective.with_target(self.B[i]), self.domain,
                x0=self.x[i] if self._starts_where_it_is(i) else None,
                tol=self.stopping.tol, rtol=self.stopping.rtol,
            )  # fmt: skip
        self.x[i], self.value[i], self.gap[i] = result.x, result.value, result.gap
        self.status[i] = result.status
