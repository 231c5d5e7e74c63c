"""The n labelings of largest score of a chain: Viterbi's algorithm with n answers per label.

``value[t, b, r]`` is the score of the r-th best labeling of nodes 0 to t that ends in b; it
continues one of the n best that end in some a at node t - 1.

References
----------
.. [1] R. Schwartz, Y.-L. Chow. The N-best algorithm: an efficient and exact procedure for finding
   the N most likely sentence hypotheses. ICASSP 1990.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_noalloc_inner


@njit_noalloc_inner()
def insert(values, labels, ranks, score, label, rank):
    """Put a score in its place among those in falling order; the least drops out."""
    r = values.shape[0] - 1
    while r > 0 and score > values[r - 1]:
        values[r], labels[r], ranks[r] = values[r - 1], labels[r - 1], ranks[r - 1]
        r -= 1
    values[r], labels[r], ranks[r] = score, label, rank


@njit_alloc(nogil=True)
def n_best(theta, links, n, labels, scores):
    """Fill rows of ``labels`` and ``scores``, best first; how many labelings there are, at most n.

    ``theta[t, a]`` and ``links[a, b]`` are scores, -inf where a label or a pair is forbidden.
    """
    length, n_labels = theta.shape
    value = np.full((length, n_labels, n), -np.inf)
    before = np.zeros((length, n_labels, n), np.int64)
    rank = np.zeros((length, n_labels, n), np.int64)
    for b in range(n_labels):
        value[0, b, 0] = theta[0, b]
    for t in range(1, length):
        for b in range(n_labels):
            for a in range(n_labels):
                for r in range(n):
                    score = value[t - 1, a, r] + links[a, b] + theta[t, b]
                    if not score > value[t, b, n - 1]:
                        break  # as are those of larger r
                    insert(value[t, b], before[t, b], rank[t, b], score, a, r)
    last, place = np.zeros(n, np.int64), np.zeros(n, np.int64)
    scores[:] = -np.inf
    for b in range(n_labels):
        for r in range(n):
            if not value[length - 1, b, r] > scores[n - 1]:
                break
            insert(scores, last, place, value[length - 1, b, r], b, r)
    found = 0
    while found < n and scores[found] > -np.inf:
        b, r = last[found], place[found]
        for t in range(length - 1, -1, -1):
            labels[found, t] = b
            b, r = before[t, b, r], rank[t, b, r]
        found += 1
    return found
