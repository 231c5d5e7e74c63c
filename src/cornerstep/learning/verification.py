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
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.boosting.verification import boosting
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.arrays import is_foreign, to_numpy
from cornerstep.data.rows import as_rows, labels_of
from cornerstep.kernel_svm.verification import reduced_hull
from cornerstep.learning.certificates import Certificate, certificate
from cornerstep.learning.claims import check_claims, check_classes, compare
from cornerstep.learning.targets import example_weights
from cornerstep.multiclass.verification import multiclass
from cornerstep.structured.verification import structured


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


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite proves nothing
def certify(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Verification:
    """Recompute value and bound of a fitted estimator from its training data.

    Parameters
    ----------
    estimator : fitted estimator
        Possibly loaded from a model file.
    X, y, sample_weight
        The data that it was trained on.  For a linear multi-class model X may be rows on disk (see
        :mod:`cornerstep.data.rows`), which are read in blocks, with labels of their own.

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
    check_claims(estimator, claimed, problems)
    if name == "StructuredSVC":
        if sample_weight is not None:
            raise ValueError("sample_weight must be None for StructuredSVC")
        found = structured(estimator, X, y, claimed, problems)
    elif name in _CHECKS:
        linear = name == "MulticlassSVC" and hasattr(estimator, "coef_")
        rows = as_rows(X) if linear else None
        if rows is not None:
            X, y = rows, labels_of(rows, y)
        else:
            X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
            X = X if linear and X.dtype.kind == "f" else X.astype(np.float64)
        check_classes(estimator, y, problems)
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
    compare(claimed, found, problems)
    return Verification(claimed, found.values, found.bounds, tuple(problems), found.how)


def _labels(estimator: Any, y: Any) -> IntArray:
    y = np.asarray(y)
    known = np.isin(y, estimator.classes_)
    if not known.all():
        raise ValueError(f"y has the label {y[~known][0]!r}, which the model does not know")
    return np.searchsorted(estimator.classes_, y)


_CHECKS: dict[str, Any] = {
    "MulticlassSVC": multiclass,
    "ReducedHullSVC": reduced_hull,
    "SoftMarginBoostingClassifier": boosting,
}
