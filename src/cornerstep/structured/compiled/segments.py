"""The best segments of a row of nodes: Viterbi's algorithm for semi-Markov chains."""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_noalloc


@njit_noalloc(nogil=True)
def best_segments(begins, inside, segments, links, best, before, lengths, out):
    """The segments of largest score; how many, their lengths and labels written to ``out``.

    A segment of k nodes from s on, with the label a, scores ``begins[s, a]``, ``inside[t, a]`` of
    its other nodes, ``segments[s, k - 1, a]`` and ``links[label before, a]``.  ``best[e, a]`` is
    the best score of the nodes before e if the last label is a; ``before`` and ``lengths`` have
    the way there: the label before a segment that begins at s, the length of one that ends at e.
    They are written in reverse order.
    """
    n, m = begins.shape
    longest = segments.shape[1]
    for e in range(n + 1):
        for a in range(m):
            best[e, a] = -np.inf
            lengths[e, a] = 0
    for s in range(n):
        for a in range(m):
            total, found = 0.0, 0
            if s > 0:
                total = best[s, 0] + links[0, a]
                for b in range(1, m):
                    if best[s, b] + links[b, a] > total:
                        total, found = best[s, b] + links[b, a], b
            before[s, a] = found
            total += begins[s, a]
            for k in range(1, min(longest, n - s) + 1):
                if k > 1:
                    total += inside[s + k - 1, a]
                if total + segments[s, k - 1, a] > best[s + k, a]:
                    best[s + k, a] = total + segments[s, k - 1, a]
                    lengths[s + k, a] = k
    label = 0
    for a in range(m):
        label = a if best[n, a] > best[n, label] else label
    e, count = n, 0
    while e > 0 and lengths[e, label] > 0:  # 0 only of scores that are no numbers
        out[count, 0], out[count, 1] = lengths[e, label], label
        e -= lengths[e, label]
        label = before[e, label]
        count += 1
    return count
