"""``minimize``: the front door of the optimiser."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.clock import OutOfTimeError, asking
from cornerstep.core.rounding import norm
from cornerstep.core.threads import run_threads
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector, Vector, dense
from cornerstep.domains.base import INSIDE, ORACLES, has_oracle
from cornerstep.domains.product import starting_vertex
from cornerstep.optimiser.active_set import ActiveSet
from cornerstep.optimiser.agreement import check_ending
from cornerstep.optimiser.block import Block
from cornerstep.optimiser.composites import Composite
from cornerstep.optimiser.in_face import AwaySchedule, InFaceAway, InFacePairwise, PairwiseSchedule
from cornerstep.optimiser.interior import Interior, can_follow
from cornerstep.optimiser.loop import Callback, Stopping, run
from cornerstep.optimiser.methods import (
    Away,
    BlendedPairwise,
    FrankWolfe,
    FullyCorrective,
    Pairwise,
    RandomizedAway,
)
from cornerstep.optimiser.objectives import LeastSquares, Objective, is_correctable
from cornerstep.optimiser.projected_cg import ProjectedCG, can_project
from cornerstep.optimiser.result import Result, Status
from cornerstep.optimiser.solver import Method, is_inside
from cornerstep.optimiser.steps import STEPS, StepRule

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        FrankWolfe, Away, Pairwise, BlendedPairwise, FullyCorrective, RandomizedAway,
        InFaceAway, InFacePairwise, AwaySchedule, PairwiseSchedule, Block, Interior, ProjectedCG,
    )
}  # fmt: skip

_PROJECTING = 100  # iterations to project a starting point where the domain has no projection
_SMALLEST = 1e-300  # unit of such a point: its inverse is a number


@np.errstate(all="ignore")  # the loop refuses what is not finite, with a reason
def minimize(
    objective: Objective,
    domain: Any,
    *,
    method: str | Method = "auto",
    step: str | StepRule = "exact",
    tol: float = 1e-6,
    rtol: float = 0.0,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    x0: Any = None,
    callback: Callback | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: int = 0,
) -> Result:
    """Minimise a convex function over a polytope, with a bound on how far off the answer is.

    Parameters
    ----------
    objective : objective
        f: one of :mod:`cornerstep.optimiser.objectives`.
    domain : domain
        P: one of :mod:`cornerstep.domains`, or any object with ``size`` and ``lmo``.
    method : str or method, default='auto'
        The direction rule: 'fw', 'away', 'pairwise', 'blended-pairwise', 'fully-corrective',
        'randomized-away', 'di-away', 'di-pairwise', 'di-away-schedule', 'di-pairwise-schedule',
        'block', 'interior-point', 'projected-cg', or one of the classes of
        :mod:`cornerstep.optimiser` with its options.  'auto' takes for quadratics with exact steps
        'projected-cg' on boxes, 'interior-point' where that is possible and vertices come one by
        one (capped simplices, products, doubly stochastic matrices, polytopes), else
        'fully-corrective', and that for sums of losses of a linear image and for any objective over
        matrices (nuclear-norm ball,
        spectraplex); for others 'di-pairwise' where in-face oracles are cheap, else
        'blended-pairwise'.
    step : str or step rule, default='exact'
        'exact', 'short', 'open-loop', 'backtracking', or an object with
        ``size(ray, max_step, time)``.  The schedules bring their own.
    tol, rtol : float
        Stop when ``gap <= max(tol, rtol * |f(x)|)``.
    max_iter : int, default=10_000
    time_limit : float, optional
        Seconds.
    x0 : array, tuple of atoms and weights, ActiveSet or Result, optional
        Where to start; it is not changed.  Methods with an active set begin with the point as their
        only atom, or with the atoms given: a matrix of them, one per row, and their weights, or
        those of an earlier result.  A point outside P is projected, with a warning.
    callback : callable, optional
        Called with an ``Iterate`` each iteration; a true answer stops the run.
    random_state : int, Generator or None
        For the methods that draw.
    verbose : {0, 1, 2}
        Nothing, a live line, or a table, on stderr.

    Returns
    -------
    Result
        With ``x``, ``value``, ``gap``, ``lower_bound``, ``status``, ``trace`` and more.

    Examples
    --------
    >>> import numpy as np
    >>> from cornerstep import minimize
    >>> from cornerstep.domains import Simplex
    >>> from cornerstep.optimiser.objectives import LeastSquares
    >>> result = minimize(LeastSquares(np.eye(3), [0.5, 0.3, -1.0]), Simplex(3))
    >>> result.x.round(3)
    array([0.6, 0.4, 0. ])
    >>> result.status.value, result.gap <= 1e-6
    ('solved', True)
    """
    stopping = Stopping(tol, rtol, max_iter, time_limit)
    _require_domain(objective, domain)
    if has_oracle(domain, "forget"):
        domain.forget()
    if method == "auto":
        method = _best_method(objective, domain, step)
    rule = _method(method, domain)
    step_rule = _step(step, rule)
    active_set = _starting_set(x0, domain)
    if active_set is None:
        start = _starting_point(x0.x if isinstance(x0, Result) else x0, domain, time_limit)
    else:
        start = _starting_point(active_set.point(), domain)
    rng = np.random.default_rng(random_state)
    if callable(begin := getattr(objective, "begin", None)):
        begin()
    if callable(begin := getattr(step_rule, "begin", None)):
        begin(objective)
    with run_threads(getattr(objective, "product_size", None)):
        rule.begin(objective, domain, start, rng)
        if active_set is not None and rule.active_set is not None:
            rule.active_set = active_set
        solver = rule.solver(objective, step_rule, objective.at(dense(start)))
        rule.walk.is_near = x0 is not None
        outcome = run(solver, stopping, callback=callback, verbose=verbose, title=rule.name)
        if outcome.status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
            with asking(rule.expired, rule.expired), suppress(OutOfTimeError):
                check_ending(objective, domain, rule.walk.position)
    return Result(
        x=rule.walk.point,
        value=outcome.look.value,
        gap=outcome.look.gap,
        lower_bound=rule.walk.best_bound(outcome.look),
        status=outcome.status,
        method=rule.name,
        step="schedule" if rule.own_step else getattr(step_rule, "name", type(step_rule).__name__),
        n_iter=outcome.n_iter,
        n_oracle_calls=rule.oracle_calls,
        seconds=outcome.seconds,
        trace=outcome.trace,
        active_set=rule.active_set,
    )


def _require_domain(objective: Any, domain: Any) -> None:
    if not (hasattr(domain, "size") and callable(getattr(domain, "lmo", None))):
        raise TypeError(f"domain must have size and lmo(gradient), got {domain!r}")
    if not callable(getattr(objective, "at", None)):
        raise TypeError(
            "objective must be one of cornerstep.objectives, such as LeastSquares or Smooth, "
            f"got {objective!r}"
        )
    size = getattr(objective, "size", None)
    if size is not None and size != domain.size:
        raise ValueError(
            f"objective and domain must have the same size, got {size} and {domain.size}"
        )


def _method(method: str | Method, domain: Any) -> Method:
    """A copy of the method, with what it needs of the domain checked."""
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"method must be one of auto, {', '.join(METHODS)}, got {method!r}")
        rule = METHODS[method]()
    elif isinstance(method, Method):
        rule = copy.copy(method)
    else:
        raise TypeError(f"method must be a name or a Method, got {method!r}")
    missing = [ORACLES[name] for name in rule.needs if not has_oracle(domain, name)]
    if missing:
        raise ValueError(f"method={rule.name!r} needs, and {domain!r} lacks, {'; '.join(missing)}")
    return rule


def _best_method(objective: Any, domain: Any, step: Any) -> str:
    """Second-order methods for quadratics, which do not care for their condition number.

    Where the central path may be followed, that or exact corrections, whichever promises to arrive
    first; but corrections alone where several vertices come at a time.  Sums of losses by Newton's
    corrections; over matrices with sections corrections of any function.  Of other functions
    in-face pairwise where its oracles cost about as much as a look at x; else an active set.
    """
    cheap = getattr(domain, "cheap_faces", True)
    if is_correctable(objective) and step == "exact":
        if can_project(objective, domain):
            return "projected-cg"
        several = has_oracle(domain, "lmo_many")
        follows = not several and can_follow(objective, domain)
        return "interior-point" if follows else "fully-corrective"
    newton = isinstance(objective, Composite) and not objective.spreads
    if (newton or has_oracle(domain, "section")) and step == "exact":
        return "fully-corrective"
    in_face = cheap and all(has_oracle(domain, name) for name in InFacePairwise.needs)
    return "di-pairwise" if in_face else "blended-pairwise"


def _step(step: str | StepRule, method: Method) -> StepRule:
    if method.own_step and step != "exact":
        raise ValueError(f"method={method.name!r} is its own step rule; leave out step={step!r}")
    allowed = tuple(STEPS) if method.steps is None else method.steps
    name = step if isinstance(step, str) else getattr(step, "name", None)
    if name is not None and name not in allowed and (name in STEPS or isinstance(step, str)):
        raise ValueError(
            f"step must be one of {', '.join(allowed)} for method={method.name!r}, got {name!r}"
        )
    if isinstance(step, str):
        rule: StepRule = STEPS[step]()
        return rule
    if not callable(getattr(step, "size", None)):
        raise TypeError(f"step must be a name or have size(ray, max_step, time), got {step!r}")
    return copy.copy(step)


def _starting_set(x0: Any, domain: Any) -> ActiveSet | None:
    """A copy of the active set that ``x0`` is, or has, or is made of; None if it is a point."""
    if isinstance(x0, Result) and x0.active_set is not None:
        known = [dense(atom) for atom in x0.active_set.atoms]
        if known[0].size == domain.size and all(is_inside(domain, atom) for atom in known):
            x0 = x0.active_set
    if isinstance(x0, ActiveSet):
        x0 = np.array([dense(atom) for atom in x0.atoms]), x0.weights
    if not (isinstance(x0, tuple) and len(x0) == 2 and np.ndim(x0[0]) == 2):
        return None
    atoms, weights = (np.array(part, dtype=np.float64) for part in x0)
    if atoms.shape[1] != domain.size or weights.shape != atoms.shape[:1] or not weights.size:
        raise ValueError(
            f"x0 must have atoms of shape (k, {domain.size}) and k weights, got shapes "
            f"{atoms.shape} and {weights.shape}"
        )
    if not (weights.min() >= 0 and abs(weights.sum() - 1.0) <= INSIDE):
        raise ValueError("x0 must have weights >= 0 that sum to 1")
    if not all(is_inside(domain, atom) for atom in atoms):
        raise ValueError(f"x0 must have atoms in the domain, {domain!r}")
    return ActiveSet.of([_starting_point(atom, domain) for atom in atoms], weights / weights.sum())


def _starting_point(x0: Any, domain: Any, time_limit: float | None = None) -> Vector:
    if x0 is None:
        return starting_vertex(domain)
    x = np.array(x0, dtype=np.float64)
    if x.shape != (domain.size,):
        raise ValueError(f"x0 must have shape ({domain.size},), got {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("x0 must be finite, but contains NaN or infinity")
    if not is_inside(domain, x):
        x = _projected(x, domain, time_limit)
    if has_oracle(domain, "snap"):
        domain.snap(x)
    support = x.nonzero()[0]
    return SparseVector(support, x[support], x.size) if support.size < x.size / 4 else x


def _projected(x0: FloatArray, domain: Any, time_limit: float | None) -> FloatArray:
    """The nearest point of the domain, or about that where there is no projection, and a warning.

    Without a projection some iterations of the squared distance are made, in units of their size.
    """
    if has_oracle(domain, "project"):
        x = np.array(domain.project(x0.copy()), dtype=np.float64)
    else:
        sizes = np.abs([x0, dense(starting_vertex(domain))])
        size = max(float(sizes.max()), _SMALLEST)
        nearness = LeastSquares(sp.eye_array(x0.size) / size, x0 / size)
        nearest = minimize(
            nearness, domain, method="blended-pairwise", rtol=1e-3, tol=0.0,
            max_iter=_PROJECTING, time_limit=time_limit,
        )  # fmt: skip
        if nearest.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        x = nearest.x.copy()
    warnings.warn(
        f"x0 lies outside {domain!r}: the run starts from its projection, {norm(x - x0):.3g} away",
        stacklevel=5,
    )
    return x
