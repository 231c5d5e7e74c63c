"""``certify``: the certificate of a model recomputed from the data, apart from any solver.

Only what the estimator holds is used: weights, dual coefficients, hypotheses, the distribution over
the examples.  Value and bound follow from the formulas of each problem in float64, which the
estimator's own package knows (its module ``verification``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.core.threads import fit_threads
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.data.arrays import made_of_numpy, numpy_of
from cornerstep.data.rows import as_rows, labels_of
from cornerstep.learning.certificates import Certificate, certificate
from cornerstep.learning.claims import check_claims, check_classes, compare
from cornerstep.learning.pipelines import last_step, prepared
from cornerstep.learning.targets import example_weights


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
@fit_threads()
def certify(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Verification:
    """Recompute value and bound of a fitted estimator from its training data.

    Parameters
    ----------
    estimator : fitted estimator
        Possibly loaded from a model file.  Of a pipeline the last step is certified, on X as it
        arrives there.
    X, y, sample_weight
        The data that it was trained on.  For a linear multi-class model X may be rows on disk (see
        :mod:`cornerstep.data.rows`), which are read in blocks, with labels of their own.

    Returns
    -------
    Verification
    """
    X, estimator = prepared(estimator, X), last_step(estimator)
    claimed = certificate(estimator)
    X, y, sample_weight = numpy_of(X, y, sample_weight)
    estimator = made_of_numpy(estimator)
    estimator.check_parameters()
    problems: list[str] = []
    check_claims(estimator, claimed, problems)
    found = estimator.recompute(X, y, sample_weight, claimed, problems)
    compare(claimed, found, problems)
    return Verification(claimed, found.values, found.bounds, tuple(problems), found.how)


class Examples(NamedTuple):
    """Training data of a classifier: numbers, classes, weights of examples."""

    X: Any
    labels: IntArray
    weights: FloatArray


def examples_of(
    estimator: Any, X: Any, y: Any, sample_weight: Any, problems: list[str], *,
    in_blocks: bool = False,
) -> Examples:  # fmt: skip
    """The data as a classifier was trained on them; what ``classes_`` have wrong is added.

    Parameters
    ----------
    estimator : fitted classifier
    X, y, sample_weight
        Data.
    problems : list of str
    in_blocks : bool
        Whether X may be rows on disk, and in single precision.
    """
    rows = as_rows(X) if in_blocks else None
    if rows is not None:
        X, y = rows, labels_of(rows, y)
    else:
        X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
        X = X if in_blocks and X.dtype.kind == "f" else X.astype(np.float64)
    check_classes(estimator, y, problems)
    y = np.asarray(y)
    known = np.isin(y, estimator.classes_)
    if not known.all():
        raise ValueError(f"y has the label {y[~known][0]}, which the model does not know")
    order = np.argsort(estimator.classes_, kind="stable")  # they may not be in theirs
    labels = order[np.searchsorted(estimator.classes_, y, sorter=order)]
    if X.shape[0] != labels.size:
        raise ValueError(f"X and y must be as many, got {X.shape[0]} and {labels.size}")
    weights = example_weights(
        labels, labels, estimator.classes_, sample_weight, estimator.class_weight
    )
    return Examples(X, labels, weights)


def require_rows(trained: int, given: int) -> None:
    """Complain if the data is not as long as that of training."""
    if trained != given:
        raise ValueError(
            f"the model was trained on {trained} examples, the data has {given}: give the training "
            "data"
        )
