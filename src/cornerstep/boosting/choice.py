"""``nu='auto'``: the share of the examples that counts, by examples held out.

A small nu works for the examples with the worst margins, wrong labels among them; a large one
averages over more.  Which is better only examples held out tell: two halves of the examples (of at
most 2,000 of them) are trained on, along falling nu, each from the ensemble before, and asked for
the classes of the other half.  The nu with the least log loss there is taken, of several the
largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from cornerstep.core.types import FloatArray, IntArray

SHARES = (0.7, 0.5, 0.3, 0.1)
UNKNOWN = 0.1  # where nothing tells
ATOL = 0.1  # gap of the ensembles that are compared
_EXAMPLES = 2000  # of both halves
_LEAST = 4  # examples of a class, so that both halves have some
_SCALES = 2.0 ** np.arange(-2, 9, 0.5)


def halves(labels: IntArray, weights: FloatArray, random_state: Any) -> list[IntArray]:
    """Two halves of some examples with the classes in the same shares; none if one is too rare."""
    rng = check_random_state(0 if random_state is None else random_state)
    used = rng.permutation(np.flatnonzero(weights > 0))
    used = used[np.argsort(labels[used], kind="stable")]
    some = used[:: -(-used.size // _EXAMPLES)]
    if min(np.count_nonzero(labels[some] == label) for label in np.unique(labels[used])) < _LEAST:
        return []
    return [some[::2], some[1::2]]


def log_loss(scores: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Of probabilities that grow with the scores, on the scale that suits these best."""
    margins = scores - scores[np.arange(labels.size), labels][:, None]
    return min(float(weights @ logsumexp(scale * margins, axis=1)) for scale in _SCALES)
