"""What :class:`cornerstep.MulticlassSVC` is given: parameters, weights and rows, checked."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from cornerstep.data.arrays import to_numpy
from cornerstep.data.digests import of_arrays
from cornerstep.learning.kernel_functions import KERNELS, Kernel
from cornerstep.learning.parameters import check_stopping
from cornerstep.multiclass.distributed.partitions import SpreadProblem
from cornerstep.multiclass.entropic import is_softmax
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.losses import Loss, MaxHinge, make_loss
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.simplex_loss import SimplexLoss

PLAIN = ("fw", "fw-open-loop", "projected-gradient")
SOLVERS = ("auto", "block", "newton", "envelope", "fw-corrective", *PLAIN)
_ROWS_ONLY = ("block", "newton")  # of losses of the library, without a feature map
ENTROPIC = ("softmax", "top-k-entropy")
SMOOTHING = 0.5  # what 'auto' gives max hinge: as accurate as 0, or more (docs/multiclass.md)


class Posed(NamedTuple):
    """A problem and what its data say to the estimator.

    Attributes
    ----------
    problem : MulticlassProblem, ArrayProblem or SpreadProblem
    used : array of bool
        Which examples have a part in the problem.
    X : array-like of shape (n, d)
        As checked.
    classes : array
    feature_names : sequence of str, optional
    """

    problem: Any
    used: Any
    X: Any
    classes: Any
    feature_names: Any = None


def check_parameters(model: Any) -> None:
    """Say which parameter of the estimator is wrong, and what it may be."""
    if not (isinstance(model.C, Real) and 0 < float(model.C) < np.inf):
        raise ValueError(f"C must be a positive number, got {model.C!r}")
    if not (isinstance(model.intercept_scaling, Real) and float(model.intercept_scaling) > 0):
        raise ValueError(
            f"intercept_scaling must be a positive number, got {model.intercept_scaling!r}"
        )
    mu = model.smoothing
    if not (is_auto(mu) or (isinstance(mu, Real) and 0 <= float(mu) < np.inf)):
        raise ValueError(f"smoothing must be a number >= 0 or 'auto', got {mu!r}")
    if not isinstance(model.probability, (bool, np.bool_)):
        raise ValueError(f"probability must be True or False, got {model.probability!r}")
    if model.probability and model.feature_map is not None:
        raise ValueError("probability must be False with a feature_map")
    check_stopping(model)
    if model.solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {model.solver!r}")
    _check_own(model)
    if own_smoothing(model.loss):
        newton = ("newton",) if has_curvature(model.loss) else ()
        envelope = ("envelope",) if is_entropic(model.loss) else ()
        needs = {"solver": ("auto", *newton, *envelope), "kernel": ("linear",)}
        if not envelope:
            needs["feature_map"] = (None,)
        for name, may_be in needs.items():
            if getattr(model, name) not in may_be:
                raise ValueError(
                    f"{name} must be {' or '.join(map(repr, may_be))} with loss={model.loss!r}, "
                    f"got {getattr(model, name)!r}"
                )
        if mu == 0:
            raise ValueError(f"smoothing must be 'auto' or positive with loss={model.loss!r}")
    if model.solver == "newton" and not (has_curvature(model.loss) or is_single(model.loss)):
        raise ValueError(
            "solver='newton' needs loss='softmax', 'squared-hinge', 'max-hinge' or "
            f"'cost-sensitive', got {model.loss!r}"
        )
    if model.solver == "newton" and model.kernel != "linear":
        raise ValueError(f"solver='newton' needs kernel='linear', got {model.kernel!r}")
    if model.solver == "envelope" and model.kernel != "linear":
        raise ValueError(f"solver='envelope' needs kernel='linear', got {model.kernel!r}")
    if has_free_intercept(model):
        _check_free(model)
    if model.last_iterate and model.solver not in PLAIN:
        raise ValueError(
            f"last_iterate must be False unless solver is one of {', '.join(PLAIN)}, got "
            f"solver={model.solver!r}"
        )
    if not (isinstance(model.cache_size, Real) and float(model.cache_size) > 0):
        raise ValueError(f"cache_size must be a positive number, got {model.cache_size!r}")
    if model.kernel_rank is not None:
        _check_rank(model)
    if not callable(model.kernel) and model.kernel not in KERNELS:
        raise ValueError(
            f"kernel must be one of {', '.join(KERNELS)} or a function, got {model.kernel!r}"
        )


def _check_rank(model: Any) -> None:
    """Complain about a rank that cannot be, or that the kernel or the loss cannot have."""
    rank = model.kernel_rank
    if not (isinstance(rank, Integral) and int(rank) >= 1):
        raise ValueError(f"kernel_rank must be an integer >= 1 or None, got {rank!r}")
    known = model.kernel in ("rbf", "poly") if isinstance(model.kernel, str) else False
    if not (known and Kernel(model.kernel, 1.0, model.degree, model.coef0).is_positive):
        raise ValueError(
            "kernel must be 'rbf', or 'poly' with an integer degree and coef0 >= 0, with "
            f"kernel_rank={rank!r}, got {model.kernel!r}"
        )
    if is_own(model.loss):
        raise ValueError(
            f"loss must be one of the library's with kernel_rank={rank!r}, got {model.loss!r}"
        )
    if model.solver not in ("auto", "block"):
        raise ValueError(
            f"solver must be 'auto' or 'block' with kernel_rank={rank!r}, got {model.solver!r}"
        )


def has_free_intercept(model: Any) -> bool:
    """Whether there are intercepts that are not penalised."""
    return bool(model.fit_intercept and model.intercept_scaling == np.inf)


def constant_of(model: Any) -> float:
    """The constant feature, or 0."""
    if not model.fit_intercept:
        return 0.0
    return 1.0 if has_free_intercept(model) else float(model.intercept_scaling)


def _check_free(model: Any) -> None:
    """Complain about what has no certificate with intercepts that are not penalised."""
    if not (is_softmax(model.loss) or is_single(model.loss)):
        raise ValueError(
            "intercept_scaling must be finite unless loss is 'softmax', 'max-hinge' or "
            f"'cost-sensitive', got {np.inf} with loss={model.loss!r}"
        )
    if model.kernel != "linear":
        raise ValueError(
            f"kernel must be 'linear' with intercept_scaling=inf, got {model.kernel!r}"
        )
    if model.solver not in ("auto", "newton"):
        raise ValueError(
            f"solver must be 'auto' or 'newton' with intercept_scaling=inf, got {model.solver!r}"
        )
    if model.feature_map is not None:
        raise ValueError(f"feature_map must be None with intercept_scaling={np.inf}")
    if model.probability and not is_softmax(model.loss):
        raise ValueError(
            f"probability must be False with intercept_scaling=inf and loss={model.loss!r}"
        )


def _check_own(model: Any) -> None:
    """Complain about what a loss or a feature map of the user's own cannot have."""
    named = {"feature_map": model.feature_map} if model.feature_map is not None else {}
    if is_own(model.loss):
        named["loss"] = model.loss
        smooth = not is_auto(model.smoothing) and model.smoothing > 0
        needs = {"smoothing": smooth, "solver": model.solver == "envelope"}
        for name, needed in needs.items():
            if needed and not model.loss.has_projection:
                raise ValueError(
                    f"{name}={getattr(model, name)!r} needs a loss with a projection, which "
                    f"{model.loss!r} does not define"
                )
        if model.checkpoint is not None:
            raise ValueError(
                f"checkpoint must be None with loss={model.loss!r}: a file cannot tell whether "
                "its oracle is still the same"
            )
    for name, value in named.items():
        if model.solver in _ROWS_ONLY:
            others = ", ".join(solver for solver in SOLVERS if solver not in _ROWS_ONLY)
            raise ValueError(
                f"solver must be one of {others} with {name}={value!r}, got {model.solver!r}"
            )
    if model.feature_map is not None and not callable(model.feature_map):
        raise ValueError(f"feature_map must be a function or None, got {model.feature_map!r}")
    if model.feature_map is not None and model.kernel != "linear":
        raise ValueError(f"kernel must be 'linear' with a feature_map, got {model.kernel!r}")


def is_own(loss: Any) -> bool:
    """Whether a loss is the user's own."""
    known = isinstance(loss, Loss) or own_smoothing(loss) > 0
    return isinstance(loss, SimplexLoss) and not known


def is_entropic(loss: Any) -> bool:
    """Whether a loss, or the name of one, is smoothed by entropy."""
    return loss in ENTROPIC if isinstance(loss, str) else getattr(loss, "entropic", False)


def has_curvature(loss: Any) -> bool:
    """Whether a loss, or the name of one, has a second derivative when it is smoothed."""
    if isinstance(loss, str):
        return loss in ("softmax", "squared-hinge")
    return bool(getattr(loss, "has_curvature", False))


def is_single(loss: Any) -> bool:
    """Whether a loss, or the name of one, is a hinge of one margin."""
    if isinstance(loss, str):
        return loss in ("max-hinge", "cost-sensitive")
    return isinstance(loss, Loss) and loss.is_single


def own_smoothing(loss: Any) -> float:
    """The mu of a loss, or of the name of one, that is never without; else 0."""
    if isinstance(loss, str):
        return {"softmax": 1.0, "top-k-entropy": 1.0, "squared-hinge": 0.5}.get(loss, 0.0)
    return float(getattr(loss, "own_smoothing", 0.0))


def require_plain(model: Any, what: str) -> None:
    """Complain about what needs all rows in the memory of this process."""
    if model.probability and not is_softmax(model.loss):
        raise ValueError(f"probability must be False for {what}")
    if own_smoothing(model.loss) and not is_entropic(model.loss):
        raise ValueError(f"loss must be another one for {what}, got {model.loss!r}")
    if has_free_intercept(model):
        raise ValueError(f"intercept_scaling must be finite for {what}, got {np.inf}")
    if model.kernel != "linear":
        raise ValueError(f"kernel must be 'linear' for {what}, got {model.kernel!r}")
    if model.feature_map is not None:
        raise ValueError(f"feature_map must be None for {what}, got {model.feature_map!r}")
    if is_own(model.loss):
        raise ValueError(f"loss must be one of the library's for {what}, got {model.loss!r}")


def is_auto(parameter: Any) -> bool:
    """Whether the data are to say what a parameter is."""
    return isinstance(parameter, str) and parameter == "auto"


def smoothing_of(model: Any, n_classes: int) -> float:
    """mu; 'auto' smooths max hinge where it might leave W at 0.

    That is with more than two classes.
    """
    if not is_auto(model.smoothing):
        return float(model.smoothing)
    if own := own_smoothing(model.loss):
        return own
    hinge = isinstance(model.loss, MaxHinge) or model.loss == "max-hinge"
    return SMOOTHING if hinge and n_classes > 2 else 0.0


def given_loss(model: Any, n_classes: int, n_examples: int) -> Any:
    """The loss that the parameters of the estimator describe."""
    costs = None if model.costs is None else to_numpy(model.costs)
    if costs is not None and costs.shape == (n_classes, n_classes) and n_classes == n_examples:
        raise ValueError(
            f"costs of shape {costs.shape} for {n_examples} examples may be of classes or of "
            "examples: give loss=CostSensitive(costs, per_example=...) instead"
        )
    per_example = costs is not None and costs.shape[:1] != (n_classes,)
    loss = make_loss(model.loss, k=model.k, rho=model.rho, costs=costs, per_example=per_example)
    loss.check(n_classes, n_examples)
    return loss


def warm_start_signature(problem: MulticlassProblem, solver: str) -> tuple[Any, ...]:
    """What two fits must share for the second to start from the dual state of the first."""
    from joblib import hash as digest

    from cornerstep.multiclass.solvers.passes import keeps_duals

    loss = problem.loss
    kind = (
        (loss.whole, digest(loss.rho))
        if isinstance(loss, Loss)
        else (type(loss), digest(vars(loss)))
    )
    shared = (problem.n_classes, digest(problem.labels), *kind)
    if solver == "newton":  # any weights will do
        return (*shared, "weights", digest(problem.examples.columns))
    if solver == "block" or (solver != "envelope" and keeps_duals(problem)):
        return (*shared, "block" if solver == "block" else "dual points")
    assert isinstance(problem.examples, Examples)  # a kernel keeps the dual points
    return (*shared, digest((problem.examples.data, loss.costs)), problem.smoothing)


def checkpoint_signature(problem: Any, solver: str) -> dict[str, Any]:
    """What two fits must share for the second to go on from a checkpoint of the first."""
    shared = problem.shared if isinstance(problem, SpreadProblem) else problem
    rows = problem.executor if isinstance(problem, SpreadProblem) else problem
    loss = shared.loss
    return {
        "solver": solver,
        "examples": problem.examples.n,
        "features": problem.examples.size,
        "classes": shared.n_classes,
        "loss": [bool(loss.whole), *loss.rho.tolist()] if hasattr(loss, "rho") else [repr(loss)],
        "margin": getattr(loss, "margin", None),
        "smoothing": shared.smoothing,
        "training data": f"{rows.digest():016x}",
        "costs": None if loss.costs is None else of_arrays({"costs": loss.costs}),
    }
