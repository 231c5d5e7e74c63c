"""``certify``: the certificate of a model recomputed from the data, apart from any solver.

Only what the estimator holds is used: weights, dual coefficients, hypotheses, the distribution over
the examples.  Value and bound follow from the formulas of each problem in float64:

- multi-class SVM: ``P(W)`` from the scores, ``D(A)`` from ``dual_coef_`` after checking that every
  dual point lies in its domain;
- kernel SVM: ``1/2 a'Qa (- 1'a / C)``, the gradient ``Qa`` by blocks of the kernel matrix, and the
  best vertex of the domain by sorting;
- soft margin: the margins of the trees, and the largest edge under ``example_weights_``;
- structured SVM: ``P(w)`` by decoding all examples; the model holds no dual point, so that a bound
  is found anew by a run from zero (any w and any dual point certify each other).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.arrays import is_foreign, to_numpy
from cornerstep.certificates import Certificate, certificate
from cornerstep.estimators.targets import example_weights
from cornerstep.streaming import as_rows, labels_of
from cornerstep.vectors import FloatArray, IntArray
from cornerstep.verification_boosting import boosting
from cornerstep.verification_claims import Recomputed, check_claims, compare
from cornerstep.verification_multiclass import (
    FEASIBLE,
    kernel_product,
    multiclass,
    require_rows,
)
from cornerstep.verification_structured import structured

_ROUNDING = 1e-6  # by how much, relative to the value, the numbers of a model may be off


@dataclass(frozen=True)
class Verification:
    """A certificate claimed and recomputed.

    Attributes
    ----------
    claimed : Certificate
    values, bounds : arrays
        Recomputed, one for each machine.
    problems : tuple of str
        What is wrong; empty if the certificate holds.
    how : str
        How the bound was found.
    """

    claimed: Certificate
    values: FloatArray
    bounds: FloatArray
    problems: tuple[str, ...]
    how: str

    @property
    def holds(self) -> bool:
        """Whether the model is proven to be as good as it claims."""
        return not self.problems

    @property
    def gap(self) -> float:
        """The largest recomputed gap."""
        return float(np.abs(self.values - self.bounds).max())

    @property
    def relative_gap(self) -> float:
        """The largest recomputed relative gap."""
        return float(
            (np.abs(self.values - self.bounds) / np.maximum(np.abs(self.values), 1e-300)).max()
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and words."""
        return {
            "holds": self.holds,
            "problems": list(self.problems),
            "how": self.how,
            "claimed_gap": self.claimed.gap,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
            "values": self.values.tolist(),
            "bounds": self.bounds.tolist(),
        }


def certify(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Verification:
    """Recompute value and bound of a fitted estimator from its training data.

    Parameters
    ----------
    estimator : fitted estimator
        Possibly loaded from a model file.
    X, y, sample_weight
        The data that it was trained on.  For a linear multi-class model X may be rows on disk (see
        :mod:`cornerstep.streaming`), which are read in blocks, with labels of their own.

    Returns
    -------
    Verification
    """
    claimed = certificate(estimator)
    name = type(estimator).__name__
    X, y, sample_weight = (to_numpy(v) if is_foreign(v) else v for v in (X, y, sample_weight))
    if any(is_foreign(value) for value in vars(estimator).values()):
        estimator = copy.copy(estimator)
        given = {k: to_numpy(v) for k, v in vars(estimator).items() if is_foreign(v)}
        vars(estimator).update(given)
    problems: list[str] = []
    found: Any
    if name == "StructuredSVC":
        if sample_weight is not None:
            raise ValueError("sample_weight must be None for StructuredSVC")
        found = structured(estimator, X, y, claimed, problems)
    elif name in _CHECKS:
        linear = name == "MulticlassSVC" and estimator.kernel == "linear"
        rows = as_rows(X) if linear else None
        if rows is not None:
            X, y = rows, labels_of(rows, y)
        else:
            X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
            X = X if linear and X.dtype.kind == "f" else X.astype(np.float64)
        labels = _labels(estimator, y)
        if X.shape[0] != labels.size:
            raise ValueError(f"X and y must be as many, got {X.shape[0]} and {labels.size}")
        weights = example_weights(
            labels, labels, estimator.classes_, sample_weight, estimator.class_weight
        )
        found = _CHECKS[name](estimator, X, labels, weights, problems)
    else:
        known = ", ".join([*_CHECKS, "StructuredSVC"])
        raise ValueError(f"estimator must be one of {known}, got {name}")
    if isinstance(found, Recomputed):
        compare(claimed, found, problems)
        check_claims(estimator, claimed, problems)
        values, bounds, how = found.values, found.bounds, found.how
    else:
        values, bounds, how = found
        _compare(claimed, values, bounds, problems)
    return Verification(claimed, values, bounds, tuple(problems), how)


def _compare(claimed: Certificate, values: Any, bounds: Any, problems: list[str]) -> None:
    slack = _ROUNDING * np.maximum(np.abs(claimed.values), np.abs(values)) + 1e-12
    sign = -1.0 if claimed.quantity == "soft margin" else 1.0
    for k, name in enumerate(claimed.names):
        which = f" of the machine {name!r}" if name else ""
        worse = sign * (values[k] - claimed.values[k])
        if not worse <= slack[k]:
            problems.append(
                f"the {claimed.quantity}{which} is {values[k]:.9g}, not {claimed.values[k]:.9g}"
            )
        gap = sign * (values[k] - bounds[k])
        if not gap <= claimed.gaps[k] + 2 * slack[k]:
            problems.append(f"the gap{which} is {gap:.3g}, not {claimed.gaps[k]:.3g}")


def _labels(estimator: Any, y: Any) -> IntArray:
    y = np.asarray(y)
    known = np.isin(y, estimator.classes_)
    if not known.all():
        raise ValueError(f"y has the label {y[~known][0]!r}, which the model does not know")
    return np.searchsorted(estimator.classes_, y)


def _reduced_hull(
    clf: Any, X: Any, labels: IntArray, weights: FloatArray, problems: list[str]
) -> tuple[FloatArray, FloatArray, str]:
    require_rows(clf._shape_fit[0], labels.size)
    m = clf.classes_.size
    Cs, Ks = np.atleast_1d(clf.C_), np.atleast_1d(clf.K_)
    values, bounds = [], []
    for k, (i, j) in enumerate(combinations(range(m), 2)):
        first, second = (j, i) if m == 2 else (i, j)
        used = ((labels == first) | (labels == second)) & (weights > 0)
        signs = np.where(labels[used] == first, 1.0, -1.0)
        caps = weights[used]
        whole = np.zeros(labels.size)
        whole[clf.support_] = clf._machines[k] / Cs[k]
        beta = whole[used]
        a = signs * beta
        gradient = signs * kernel_product(clf, X, used, beta[:, None])[:, 0]
        if clf.C is not None:
            gradient -= 1.0 / clf.C
        slack = FEASIBLE * max(1.0, float(caps.max()))
        sums = [float(a[signs == sign].sum()) for sign in (1, -1)]
        wanted = [Ks[k]] * 2 if clf.C is None else [sums[0]] * 2
        if (
            (a < -slack).any()
            or (a > caps + slack).any()
            or not np.allclose(sums, wanted, rtol=1e-6)
        ):
            problems.append(f"the dual point of the machine {k} lies outside its domain")
        linear = 0.0 if clf.C is None else -float(a.sum()) / clf.C
        values.append(0.5 * (float(a @ gradient) + linear))
        best = _best_vertex(gradient, signs, caps, None if clf.C is not None else float(Ks[k]))
        bounds.append(values[-1] - max(float(a @ gradient) - best, 0.0))
    return np.array(values), np.array(bounds), "the best vertex of the domain, by sorting"


def _best_vertex(
    gradient: FloatArray, signs: FloatArray, caps: FloatArray, K: float | None
) -> float:
    """``min <g, a>`` over ``0 <= a <= caps``: the sum of each class K, or the two sums equal."""
    costs, amounts = [], []
    for sign in (1, -1):
        part = np.argsort(gradient[signs == sign], kind="stable")
        sorted_caps = caps[signs == sign][part]
        amounts.append(np.concatenate([[0.0], np.cumsum(sorted_caps)]))
        costs.append(
            np.concatenate([[0.0], np.cumsum(sorted_caps * gradient[signs == sign][part])])
        )
    if K is not None:
        return sum(float(np.interp(K, x, c)) for x, c in zip(amounts, costs, strict=True))
    # the cost of filling each class to the same sum is convex and piecewise linear in the sum
    knots = np.unique(np.concatenate(amounts))
    knots = knots[knots <= min(amounts[0][-1], amounts[1][-1])]
    total = sum(np.interp(knots, x, c) for x, c in zip(amounts, costs, strict=True))
    return float(np.min(total))


_CHECKS = {
    "MulticlassSVC": multiclass,
    "ReducedHullSVC": _reduced_hull,
    "SoftMarginBoostingClassifier": boosting,
}
