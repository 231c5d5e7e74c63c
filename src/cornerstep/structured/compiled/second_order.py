"""Viterbi's algorithm on pairs of labels: chains with a score for each three in a row."""

from __future__ import annotations

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_inner
from cornerstep.structured.compiled.chain import node_scores


@njit_noalloc_inner()
def best_labels(theta, length, links, triples, now, then, back, labels, first):
    """The labels of largest ``sum_t theta[t, y_t] + links[y_t-1, y_t] + triples[y_t-2, .., y_t]``.

    ``now[a, b]`` is the best score that ends with the labels a, b; ``back[t, b, c]`` the label
    before them.
    """
    m = theta.shape[1]
    if length == 1:
        best = 0
        for a in range(1, m):
            best = a if theta[0, a] > theta[0, best] else best
        labels[first] = best
        return
    for a in range(m):
        for b in range(m):
            now[a, b] = theta[0, a] + links[a, b] + theta[1, b]
    for t in range(2, length):
        for b in range(m):
            for c in range(m):
                then[b, c] = now[0, b] + triples[0, b, c]
                back[t, b, c] = 0
            for a in range(1, m):
                score, row = now[a, b], triples[a, b]
                for c in range(m):
                    if score + row[c] > then[b, c]:
                        then[b, c] = score + row[c]
                        back[t, b, c] = a
            for c in range(m):
                then[b, c] += links[b, c] + theta[t, c]
        for b in range(m):
            for c in range(m):
                now[b, c] = then[b, c]
    one = other = 0
    for a in range(m):
        for b in range(m):
            if now[a, b] > now[one, other]:
                one, other = a, b
    labels[first + length - 1], labels[first + length - 2] = other, one
    for t in range(length - 1, 1, -1):
        one, other = back[t, one, other], one
        labels[first + t - 2] = one


@njit_noalloc(nogil=True)
def decode_triples(chains, w, links, triples, share, labels, theta, now, then, back):
    """The best labels of all chains, with this share of their costs."""
    for i in range(chains.ptr.shape[0] - 1):
        length = node_scores(chains, w, 1.0, i, share, theta)
        best_labels(theta, length, links, triples, now, then, back, labels, chains.ptr[i])
