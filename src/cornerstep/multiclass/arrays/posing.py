"""``MulticlassSVC`` on arrays of other libraries: torch tensors, on a GPU or not, and their like.

What goes in stays on its device, and what comes out is of the same library, whether or not
scikit-learn's ``array_api_dispatch`` is on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cornerstep.data.arrays import (
    as_kind_of,
    csr_tensor,
    from_numpy,
    is_other_library,
    is_torch,
    namespace,
    on_gpu,
    to_numpy,
)
from cornerstep.learning.targets import classes_and_labels, example_weights
from cornerstep.multiclass.arrays.rows import ArrayExamples, ArrayProblem, ArrayRows
from cornerstep.multiclass.parameters import Posed, given_loss, require_plain, smoothing_of

_FAR = 2.0  # times the last step in log C: weights are not sought further ahead
_CHUNK = 2**22  # entries whose finiteness is checked at a time
SOLVERS = ("envelope", "fw-corrective", "fw", "fw-open-loop", "projected-gradient")


def pose(model: Any, X: Any, y: Any, sample_weight: Any) -> Posed:
    """The problem of an estimator's parameters on these arrays."""
    kind = type(X).__module__.split(".")[0]
    require_plain(model, f"arrays of {kind}")
    if model.solver not in ("auto", *SOLVERS):
        raise ValueError(
            f"solver must be one of auto, {', '.join(SOLVERS)} for arrays of {kind}, "
            f"got {model.solver!r}"
        )
    X = _checked(X)
    n = X.shape[0]
    shape = np.shape(y) if not hasattr(y, "shape") else tuple(y.shape)
    if shape != (n,):
        raise ValueError(f"y must have one label for each of the {n} rows of X, got shape {shape}")
    if is_other_library(y):
        xp = namespace(y)
        classes, inverse = xp.unique_inverse(y)
        labels = to_numpy(inverse)
        classes_and_labels(to_numpy(classes))  # says what is wrong with them
    else:
        classes, labels = classes_and_labels(np.asarray(y))
    if sample_weight is not None and is_other_library(sample_weight):
        sample_weight = to_numpy(sample_weight)
    weights = example_weights(labels, labels, to_numpy(classes), sample_weight, model.class_weight)
    if not (weights > 0).any():
        raise ValueError("sample_weight times class_weight must be positive for some example")
    used = weights > 0
    xp = namespace(X)
    rows = X if used.all() else xp.take(X, from_numpy(np.flatnonzero(used), X), axis=0)
    problem = ArrayProblem(
        ArrayExamples(rows, float(model.intercept_scaling) if model.fit_intercept else 0.0),
        from_numpy(labels[used].astype(np.int64), X),
        classes.shape[0],
        given_loss(model, classes.shape[0], n).rows(used),
        from_numpy(model.C * weights[used], X),
        smoothing_of(model, classes.shape[0]),
    )
    return Posed(problem, used, X, classes)


def dense(X: Any) -> Any:
    """X, if it is not a tensor of another layout, without its gradient."""
    if not is_torch(X):
        return X
    if str(X.layout) != "torch.strided":
        raise ValueError(
            f"X must be a dense tensor, got one of layout {X.layout}; "
            "sparse examples are taken as SciPy's CSR arrays"
        )
    if X.device.type == "meta":
        raise ValueError("X must hold numbers, got a tensor on the device 'meta'")
    return X.detach()


def _checked(X: Any) -> Any:
    """X as a matrix of finite floating-point numbers."""
    xp, X = namespace(X), dense(X)
    if len(X.shape) != 2:
        raise ValueError(f"X must be a matrix, one row per example, got shape {tuple(X.shape)}")
    if 0 in X.shape:
        raise ValueError(f"X must have rows and features, got shape {tuple(X.shape)}")
    if xp.isdtype(X.dtype, ("bool", "integral")):
        X = xp.astype(X, xp.float64)
    elif not xp.isdtype(X.dtype, "real floating") or xp.finfo(X.dtype).bits < 16:
        raise ValueError(f"X must be of float64, float32, bfloat16 or float16, got {X.dtype}")
    if is_torch(X):
        X = X.contiguous()
    step = max(1, _CHUNK // X.shape[1])
    for start in range(0, X.shape[0], step):
        if not bool(xp.all(xp.isfinite(X[start : min(start + step, X.shape[0]), :]))):
            raise ValueError("X must be finite, got NaN or infinity")
    return X


class Solution(NamedTuple):
    """The weights of an earlier fit, and the sum of the scales s_i that they are for."""

    size: float
    image: Any


def solver_of(problem: ArrayProblem, name: str, solutions: Sequence[Solution] = ()) -> Any:
    """The solver of that name; plain Frank-Wolfe on a GPU runs as one graph per iteration.

    Solutions of earlier fits, the last two at most, are where :mod:`~.envelope` starts.
    """
    from cornerstep.multiclass.solvers.batch import BatchDescent
    from cornerstep.multiclass.solvers.corrective import RULE, CorrectiveDescent
    from cornerstep.multiclass.solvers.envelope import NAME, EnvelopeDescent

    rows = ArrayRows(problem)
    if name == NAME:
        return EnvelopeDescent(rows, problem, weights=_start(problem, solutions))
    if name == RULE:
        return CorrectiveDescent(rows)
    if on_gpu(problem.examples.data) and name.startswith("fw") and not problem.smoothing:
        from cornerstep.multiclass.arrays.cuda_graph import GraphDescent

        return GraphDescent(rows, name)
    return BatchDescent(rows, name)


def _size(problem: ArrayProblem) -> float:
    return float(problem.examples.xp.sum(problem.scales))


def _start(problem: ArrayProblem, solutions: Sequence[Solution]) -> Any:
    """The weights on the line through the last two solutions, as far on as C is in logarithms.

    Measured along ten C over four decades (probe-like features, 10,000 x 128 of 100 classes,
    softmax | 8,000 x 100 of 60, max hinge), passes to a gap of 1e-2: from zero 109 | 291, from the
    last solution 66 | 199, half as far on 55 | 175, so far on 41 | 160.
    """
    if len(solutions) < 2:
        return solutions[-1].image if solutions else None
    before, last = solutions
    gone, ahead = math.log(last.size / before.size), math.log(_size(problem) / last.size)
    if gone == 0.0 or not 0.0 < ahead / gone <= _FAR:
        return last.image
    return last.image + (ahead / gone) * (last.image - before.image)


def signature_of(problem: ArrayProblem) -> tuple[Any, ...]:
    """What two fits must share for the second to start from the weights of the first."""
    from joblib import hash as digest

    examples = problem.examples
    shape = problem.n_classes, examples.size, str(examples.data.device)
    return (*shape, digest(to_numpy(problem.labels)))


def solutions_with(
    problem: ArrayProblem, solutions: Sequence[Solution], image: Any
) -> tuple[Solution, ...]:
    """The last two solutions."""
    return (*solutions[-1:], Solution(_size(problem), image))


def with_unused_rows(coefficients: Any, used: Any) -> Any:
    """Dual coefficients with a row for every example."""
    if coefficients is None or used.all():
        return coefficients
    xp = namespace(coefficients)
    if is_torch(coefficients) and coefficients.is_sparse_csr:
        counts = coefficients.crow_indices().diff()
        spread_out = counts.new_zeros(used.size)
        spread_out[from_numpy(used, counts)] = counts
        columns, values = coefficients.col_indices(), coefficients.values()
        return csr_tensor(spread_out, columns, values, (used.size, coefficients.shape[1]))
    full = xp.zeros((1, coefficients.shape[1]), dtype=xp.float64, device=coefficients.device)
    places = np.where(used, np.cumsum(used), 0)  # row 0 is the empty one
    return xp.take(xp.concat([full, coefficients]), from_numpy(places, coefficients), axis=0)


def scores(model: Any, X: Any) -> Any:
    """One column per class (one in all for two classes)."""
    xp = namespace(X)
    X = _checked(X)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but MulticlassSVC is expecting "
            f"{model.n_features_in_} features as input"
        )
    wide = xp.float64 if X.dtype == xp.float64 else xp.float32
    weights, intercept = (
        xp.astype(as_kind_of(part, X), wide) for part in (model.coef_, model.intercept_)
    )
    rows = xp.astype(X, wide, copy=False)
    return rows @ xp.permute_dims(weights, (1, 0)) + intercept[None, :]


def labels_at(model: Any, columns: Any) -> Any:
    """The classes with these numbers."""
    classes = as_kind_of(model.classes_, columns)
    if not is_other_library(classes):
        return classes[to_numpy(columns)]
    xp = namespace(classes)
    flat = xp.take(classes, xp.reshape(columns, (-1,)), axis=0)
    return xp.reshape(flat, columns.shape)


def with_first(model: Any, values: Any) -> Any:
    """Scores with a column per class also for two classes, whose first is 0."""
    xp = namespace(values)
    if model.classes_.shape[0] > 2:
        return values
    return xp.concat([xp.zeros_like(values), values], axis=1)


def top_columns(values: Any, k: int) -> Any:
    """The numbers of the k largest entries of each row, best first."""
    xp = namespace(values)
    if k == 1:
        return xp.argmax(values, axis=1)[:, None]
    return xp.argsort(values, axis=1, descending=True, stable=True)[:, :k]
