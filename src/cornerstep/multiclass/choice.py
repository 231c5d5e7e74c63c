r"""A proven choice of C: how few validation errors any C of an interval can make.

Write ``P_C(W) = 1/2 |W|² + C L(W)``.  A model trained at C knows W, ``L(W)``, and of its dual point
``V = W(A) / C`` and G with ``L(U) >= G - <V, U>`` for all U.  Let W' be the optimum at another C'.
As ``-W' / C'`` is a subgradient of L there, ``L(W') <= L(W) + <W', W - W'> / C'``, and both give

``|W' - (W + C'V) / 2|² <= q(C') = |W + C'V|² / 4 + C' (L(W) - G)``,

a ball around W' for every C', from one model [1]_.  A validation example x with label y is
classified wrongly by all of the ball, if for some class j ``<w_j - w_y, x>`` of its centre exceeds
``sqrt(2 q) |x|``, which is so between two roots of a quadratic in C'.  The number of such examples
is a bound that steps at those roots, and is known for the whole interval; models at other values of
C make it better where it is low.

References
----------
.. [1] A. Shibagaki, Y. Suzuki, M. Karasuyama, I. Takeuchi. Regularization path of cross-validation
   error lower bounds. NIPS 2015.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_array

from cornerstep.core.curvature import dense_array
from cornerstep.core.optional import optional_import
from cornerstep.core.rounding import EPSILON
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.path import same_fit
from cornerstep.multiclass.parameters import has_free_intercept
from cornerstep.optimiser.result import Status

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_WITHIN = 0.02  # of the validation examples
_TOL = 1e-4  # relative gap of the models, unless the estimator has a smaller one
_SHARE = 0.1  # of the distance to the nearest C, that the gap may add to it
_NEAR = 1e-3  # in ln C: a model that near to another needs a smaller gap, not another C
_TIGHTER, _LEAST_TOL = 0.1, 1e-10  # factor on the relative gap then, down to here
_FLOOR = 1e-14  # of the squares of W and C'V, added to q: rounding of margins is far below its root
_ROUNDING = 1e-9  # relative: by which q is larger and intervals are shorter for their own rounding


class _Reach(NamedTuple):
    """Open intervals of C' in which validation examples are classified wrongly for certain."""

    examples: IntArray
    lower: FloatArray
    upper: FloatArray

    def number(self, Cs: FloatArray) -> IntArray:
        """How many at each of some C'."""
        begun = np.searchsorted(np.sort(self.lower), Cs, side="left")
        return begun - np.searchsorted(np.sort(self.upper), Cs, side="right")

    def joined(self, other: _Reach) -> _Reach:
        """What both prove together: intervals of an example that overlap are one."""
        both = [np.concatenate(pair) for pair in zip(self, other, strict=True)]
        examples, lower, upper = (part[np.lexsort((both[1], both[0]))] for part in both)
        kept: list[int] = []
        for i in range(examples.size):
            if kept and examples[i] == examples[kept[-1]] and lower[i] < upper[kept[-1]]:
                upper[kept[-1]] = max(upper[kept[-1]], upper[i])
            else:
                kept.append(i)
        return _Reach(examples[kept], lower[kept], upper[kept])


@dataclass
class ChoiceOfC:
    """What is proven of the validation errors of all C of an interval.

    Attributes
    ----------
    C : float
        Of the model with the fewest validation errors, the smallest of several.
    errors : int
        Its validation errors.
    least_errors : int
        No C of the interval makes fewer: proven.  At most ``errors``: a model with a large gap may
        make fewer than the optimum at its C does.
    proven : bool
        Whether ``least_errors >= errors - within``.
    interval : tuple of float
    estimator : MulticlassSVC
        The model with the fewest errors.
    Cs : array
        Where models were trained, in increasing order.
    estimators : list of MulticlassSVC
        One for each of them.
    """

    C: float
    errors: int
    least_errors: int
    proven: bool
    interval: tuple[float, float]
    estimator: Any
    Cs: FloatArray
    estimators: list[Any]
    _counts: IntArray
    _reach: _Reach

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"C = {self.C:.4g} makes {self.errors} errors; no C from {low:g} to {high:g} makes "
            f"fewer than {self.least_errors} ({len(self.Cs)} models)"
        )

    def lower_bound(self, Cs: Any) -> IntArray:
        """The validation errors that the optimum at each of some C makes at least."""
        return self._reach.number(np.asarray(Cs, dtype=np.float64))

    def to_pandas(self) -> pd.DataFrame:
        """C, validation errors, the bound of them, relative gap, status: a row for each model."""
        with optional_import():
            import pandas as pd

        return pd.DataFrame(
            {
                "C": self.Cs,
                "errors": self._counts,
                "bound": self.lower_bound(self.Cs),
                "relative_gap": [model.relative_gap_ for model in self.estimators],
                "status": [model.status_ for model in self.estimators],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the bound over the interval, and the errors of the models."""
        with optional_import():
            import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.figure().add_subplot()
        grid = np.geomspace(*self.interval, 2000)
        ax.fill_between(grid, self.lower_bound(grid), alpha=0.3, label="no fewer: proven")
        ax.semilogx(self.Cs, self._counts, "o", label="models")
        ax.semilogx(self.C, self.errors, "*", markersize=14, label="choice")
        ax.set_xlabel("C")
        ax.set_ylabel("validation errors")
        ax.legend()
        return ax


def select_C(  # noqa: N802 - C is the name of the parameter
    estimator: Any,
    X: Any,
    y: Any,
    X_val: Any,
    y_val: Any,
    interval: tuple[float, float] = (1e-3, 1e3),
    *,
    within: int | None = None,
    max_fits: int = 1000,
    **fit_parameters: Any,
) -> ChoiceOfC:
    """Find the C with the fewest validation errors, and prove that no other has many fewer.

    Trains at values of C until the validation errors of every C in the interval are known to be at
    least those of the best model less ``within``, adding models where the bound is lowest.  What
    the bound holds for is the exact optimum at each C.

    Parameters
    ----------
    estimator : MulticlassSVC
        With a linear kernel; any loss and smoothing, also ``'softmax'``.  It is not changed.
    X, y : array or CSR matrix of shape (n, d), array of shape (n,)
        Training data.
    X_val, y_val : the same
        Validation data, with classes of the training data.
    interval : tuple of two numbers, default=(1e-3, 1e3)
        The least and the largest C.
    within : int, optional
        By how many errors the bound may be below those of the best model; 2 % of the validation
        examples if None.  The fewer, the more models: their number grows as 1 / within.
    max_fits : int, default=1000
        Models to train at most; what was proven by then is returned.
    **fit_parameters
        Passed to ``fit``, such as ``sample_weight``.

    Returns
    -------
    ChoiceOfC
        After Ctrl-C with what was proven until then.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cornerstep import MulticlassSVC, select_C
    >>> X, y = load_iris(return_X_y=True)
    >>> choice = select_C(MulticlassSVC(random_state=0), X[::2], y[::2], X[1::2], y[1::2], within=1)
    >>> choice.proven, choice.errors - choice.least_errors <= 1
    (True, True)
    """
    if within is None:
        within = max(1, round(_WITHIN * len(y_val)))
    low, high = _checked(estimator, interval, within, max_fits)
    search = _Search(estimator, X, y, X_val, y_val, fit_parameters)
    for C in (low, high, math.sqrt(low * high)):
        if len(search.found) < max_fits and not search.interrupted:
            search.add(C)
    for _ in range(max_fits - len(search.found)):
        gap = search.weakest(low, high, within)
        if gap is None or search.interrupted or not search.add(gap):
            break
    return search.choice(low, high, within)


def _checked(estimator: Any, interval: Any, within: Any, max_fits: Any) -> tuple[float, float]:
    from cornerstep.multiclass.estimator import MulticlassSVC

    if not isinstance(estimator, MulticlassSVC):
        raise TypeError(f"estimator must be a MulticlassSVC, got {type(estimator).__name__}")
    if estimator.kernel != "linear" or estimator.feature_map is not None:
        raise ValueError(
            "estimator must have kernel='linear' and no feature_map, got "
            f"kernel={estimator.kernel!r}, feature_map={estimator.feature_map!r}"
        )
    if has_free_intercept(estimator):
        raise ValueError(
            "estimator must have a finite intercept_scaling: the bound needs intercepts that are "
            "penalised"
        )
    given = np.asarray(interval, dtype=np.float64)
    if given.shape != (2,) or not (0 < given[0] <= given[1] < np.inf):
        raise ValueError(f"interval must be two numbers, 0 < least <= largest, got {interval!r}")
    for name, value, least in (("within", within, 0), ("max_fits", max_fits, 1)):
        if not (isinstance(value, Integral) and int(value) >= least):
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return float(given[0]), float(given[1])


class _Found(NamedTuple):
    """A trained model, its validation errors, and ``|W|²``."""

    model: Any
    errors: int
    square: float


class _Search:
    """Models by their C, and the bound that all of them prove."""

    def __init__(
        self, estimator: Any, X: Any, y: Any, X_val: Any, y_val: Any, fit_parameters: Any
    ) -> None:
        self.runner = clone(estimator).set_params(warm_start=True)
        self.X, self.y, self.fit_parameters = X, y, fit_parameters
        self.X_val = check_array(X_val, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.y_val = np.asarray(y_val)
        if self.y_val.shape != (self.X_val.shape[0],):
            raise ValueError(
                f"y_val must have a label for each row of X_val, {self.X_val.shape[0]}, got shape "
                f"{self.y_val.shape}"
            )
        self.found: dict[float, _Found] = {}
        self.reach = _Reach(np.zeros(0, int), np.zeros(0), np.zeros(0))
        self.interrupted = False

    def add(self, C: float) -> bool:
        """Train at C, or again with a smaller gap where a model is near; whether there is one."""
        tol = min(float(self.runner.tol), _TOL)
        if self.found:
            near = min(self.found, key=lambda other: abs(math.log(other / C)))
            model, distance = self.found[near].model, abs(math.log(near / C))
            # a gap g adds sqrt(g) to a radius that the distance makes half of it times |W|
            tol = min(tol, (_SHARE * distance) ** 2 * self.found[near].square / model.objective_)
            if distance < _NEAR:
                C, tol = near, _TIGHTER * min(model.tol, model.relative_gap_)
            if tol < _LEAST_TOL:
                return False
        model = same_fit(self.runner).set_params(C=C, tol=tol)
        model.fit(self.X, self.y, **self.fit_parameters)
        self.runner._state = model._state
        self.interrupted = model.status_ is Status.INTERRUPTED
        unknown = ~np.isin(self.y_val, model.classes_)
        if unknown.any():
            raise ValueError(
                f"y_val must have classes of the training data, got {self.y_val[unknown][0]!r}"
            )
        labels = np.searchsorted(model.classes_, self.y_val)
        errors = int((model.predict(self.X_val) != self.y_val).sum())
        constant = model.intercept_scaling if model.fit_intercept else 0.0
        square = float((_with_intercepts(model, constant) ** 2).sum())
        self.found[C] = _Found(model, errors, square)
        self.reach = self.reach.joined(_reach(model, self.X, self.X_val, labels))
        return True

    def best(self) -> float:
        """The C of the fewest errors, the smallest of several."""
        return min(self.found, key=lambda C: (self.found[C].errors, C))

    def _steps(self, low: float, high: float) -> tuple[FloatArray, IntArray]:
        """Points between which the bound may step and halfway between them, and the bound there."""
        ends = np.concatenate([self.reach.lower, self.reach.upper, [low, high]])
        ends = np.unique(np.clip(ends, low, high))
        points = np.sort(np.concatenate([ends, np.sqrt(ends[:-1] * ends[1:])]))
        return points, self.reach.number(points)

    def weakest(self, low: float, high: float, within: int) -> float | None:
        """The middle of the widest run of C where the bound is too low; None if there is none.

        Runs end where models are.
        """
        points, bound = self._steps(low, high)
        short = np.concatenate([[False], bound < self.found[self.best()].errors - within, [False]])
        turns = np.flatnonzero(short[1:] != short[:-1])
        if not turns.size:
            return None
        runs = np.stack([points[turns[::2]], points[turns[1::2] - 1]])
        inside = np.array(list(self.found))
        cuts = [inside[(run[0] < inside) & (inside < run[1])] for run in runs.T]
        ends = [np.unique([*run, *cut]) for run, cut in zip(runs.T, cuts, strict=True)]
        parts = [part for e in ends for part in itertools.pairwise(e)]
        first, last = max(parts or runs.T, key=lambda part: part[1] / part[0])
        return math.sqrt(first * last)

    def choice(self, low: float, high: float, within: int) -> ChoiceOfC:
        """What came out."""
        best, Cs = self.best(), sorted(self.found)
        errors = self.found[best].errors
        least = min(int(self._steps(low, high)[1].min()), errors)
        return ChoiceOfC(
            best, errors, least, least >= errors - within, (low, high), self.found[best].model,
            np.array(Cs), [self.found[C].model for C in Cs],
            np.array([self.found[C].errors for C in Cs]), self.reach,
        )  # fmt: skip


def _reach(model: Any, X: Any, X_val: Any, labels: IntArray) -> _Reach:
    """Between which C' the model proves validation examples to be classified wrongly."""
    if model.dual_coef_ is None:
        raise ValueError(
            f"estimator must keep its dual point, which solver={model.solver!r} does not here: "
            "take solver='auto'"
        )
    C, constant = float(model.C), model.intercept_scaling if model.fit_intercept else 0.0
    W = _with_intercepts(model, constant)
    V, off = _dual_weights(model, X, constant)
    V, off = V / C, off / C
    if model.bound_ <= 0:  # what proves this is the dual point 0
        V, off = 0.0 * V, 0.0
    q = _squared_radius(W, V, off, model)
    rows = np.arange(labels.size)
    u, v = (_scores(X_val, part, constant) for part in (W, V))
    u, v = (part - part[rows, labels][:, None] for part in (u, v))
    norms = 8.0 * (_squares(X_val) + constant**2)[:, None]
    radius = math.sqrt(q[0] * C * C + q[1] * C + q[2])
    example, j = np.nonzero(u + C * v > np.sqrt(norms) * radius)
    u, v, norm = u[example, j], v[example, j], norms[example, 0]
    below, above = _interval(v * v - norm * q[0], 2 * u * v - norm * q[1], u * u - norm * q[2], C)
    lower, upper = np.full(labels.size, np.inf), np.full(labels.size, -np.inf)
    np.minimum.at(lower, example, below * (1 + _ROUNDING))
    np.maximum.at(upper, example, above * (1 - _ROUNDING))
    wrong = lower < upper
    return _Reach(np.flatnonzero(wrong), lower[wrong], upper[wrong])


def _squared_radius(
    W: FloatArray, V: FloatArray, off: float, model: Any
) -> tuple[float, float, float]:
    """The numbers of C'^2, C' and 1 in q, rounded up; ``off`` bounds the rounding of V."""
    C, unit = float(model.C), 64.0 * EPSILON  # of sums in pairs
    w, v = (math.sqrt(float((part * part).sum())) for part in (W, V))
    inner = float((W * V).sum()) + (off + unit * v) * w
    losses = (model.objective_ - 0.5 * (1 - unit) * w * w) / C
    linear = (model.bound_ + 0.5 * (1 - unit) * (C * max(v - off, 0.0)) ** 2) / C
    far = off * off / _ROUNDING  # the centre of the ball is off as well
    grown = 1.0 + _ROUNDING
    return (
        grown * (0.25 + _FLOOR) * (v + off) ** 2 + far,
        grown * (0.5 * inner + losses - linear),
        grown * (0.25 + _FLOOR) * w * w,
    )


def _interval(
    a: FloatArray, b: FloatArray, c: FloatArray, at: float
) -> tuple[FloatArray, FloatArray]:
    """The roots of ``a t² + b t + c`` nearest to ``at`` on both sides, else 0 and infinity."""
    with np.errstate(all="ignore"):
        half = -0.5 * (b + np.copysign(np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)), b))
        roots = np.stack([half / a, c / half])
    real = np.isfinite(roots) & (b * b - 4 * a * c >= 0)
    below = np.where(real & (roots <= at) & (roots > 0), roots, 0.0).max(axis=0)
    above = np.where(real & (roots >= at), roots, np.inf).min(axis=0)
    return below, above


def _with_intercepts(model: Any, constant: float) -> FloatArray:
    """W, one row per class, with the weight of the constant feature last."""
    coef, intercept = np.asarray(model.coef_, float), np.asarray(model.intercept_, float)
    if model.classes_.size == 2:
        coef, intercept = np.vstack([-coef, coef]) / 2, np.append(-intercept, intercept) / 2
    return np.column_stack([coef, intercept / constant]) if constant else coef


def _dual_weights(model: Any, X: Any, constant: float) -> tuple[FloatArray, float]:
    """``W(A)`` of the dual point, in the same shape, and a bound of its rounding."""
    coefficients = sp.csr_array(model.dual_coef_)
    data = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    image = dense_array(coefficients.T @ data)
    size = np.sqrt(_squares(data) + constant**2)
    off = (coefficients.shape[0] + 4) * EPSILON * float((abs(coefficients).T @ size).sum())
    if not constant:
        return image, off
    return np.column_stack([image, constant * np.asarray(coefficients.sum(axis=0)).ravel()]), off


def _scores(X: Any, weights: FloatArray, constant: float) -> FloatArray:
    if not constant:
        return np.asarray(X @ weights.T)
    return np.asarray(X @ weights[:, :-1].T) + constant * weights[:, -1]


def _squares(X: Any) -> FloatArray:
    return np.asarray((X.multiply(X) if sp.issparse(X) else X * X).sum(axis=1)).ravel()
