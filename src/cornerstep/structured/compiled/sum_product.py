"""Sum-product on chains: ``p(y) ~ exp(score(y))``, its marginals and the logarithm of its sum.

Messages are products scaled at each node, so that one exponential per node and label is all they
cost: ``alpha_t ~ (factors' alpha_t-1) weights_t`` sums to 1, and ``ahead_t`` is what comes after,
in the scale in which marginals are ``alpha ahead``.  Numbers below 1e-308 are lost on the way.
They are no more than rounding while all sums of :func:`forward` are above ``_SMALL`` and all
``ahead`` below ``_LARGE``: else :func:`backward_forward` has the same with logarithms.

References
----------
.. [1] L. R. Rabiner. A tutorial on hidden Markov models and selected applications in speech
   recognition. Proceedings of the IEEE 77, 257-286, 1989.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_inner
from cornerstep.structured.compiled.chain import node_scores, score

# Sums may be reordered (vectorised); NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_SMALL = 1e-50  # numbers that are lost are 1e-258 of such a sum
_LARGE = 1e200
_SAFE = -460.0  # its logarithm, negative


class Messages(NamedTuple):
    """What the messages of a chain are written to, and the factors of its pairs."""

    theta: Any  # (nodes, labels): scores
    alpha: Any  # (nodes, labels): of what comes before
    weights: Any  # (nodes, labels): exponentials of scores, scaled
    marginals: Any  # (nodes, labels)
    pairs: Any  # (labels, labels): their marginals, summed
    links: Any  # (labels, labels): T and walls
    factors: Any  # (labels, labels): exponentials of them
    turned: Any  # factors, transposed
    rows: Any  # (2, labels)


def messages(size: int, n_labels: int) -> Messages:
    """Room for chains of at most so many nodes."""
    parts = [np.empty((size, n_labels)) for _ in range(4)]
    parts += [np.zeros((n_labels, n_labels)) for _ in range(4)]
    return Messages._make([*parts, np.empty((2, n_labels))])


@njit_noalloc_inner()
def set_links(chains, w, scale, work):
    """Write ``scale T`` with walls, and its exponentials; the largest link."""
    n_labels = chains.shape.n_labels
    base, top = chains.shape.n_features * n_labels, -np.inf
    for a in range(n_labels):
        for b in range(n_labels):
            link = scale * w[base + a * n_labels + b]
            if chains.walls.shape[0]:
                link += chains.walls[a, b]
            work.links[a, b] = link
            top = link if link > top else top
    for a in range(n_labels):
        for b in range(n_labels):
            work.factors[a, b] = work.turned[b, a] = np.exp(work.links[a, b] - top)
    return top


@njit_noalloc_inner(fastmath=_FAST)
def forward(work, length, has_links):
    """The logarithm of the sum over labelings, and the part of it that sums of messages are.

    Factors count with the largest of them as 1.  NaN where a sum is too small.
    """
    n_labels = work.theta.shape[1]
    whole = sums = 0.0
    for t in range(length):
        scores, out, weights = work.theta[t], work.alpha[t], work.weights[t]
        top = scores[0]
        for a in range(1, n_labels):
            top = scores[a] if scores[a] > top else top
        for a in range(n_labels):
            weights[a] = np.exp(scores[a] - top)
        if t == 0 or not has_links:
            for a in range(n_labels):
                out[a] = weights[a]
        else:
            before = work.alpha[t - 1]
            for b in range(n_labels):
                out[b] = 0.0
            for a in range(n_labels):
                p, row = before[a], work.factors[a]
                for b in range(n_labels):
                    out[b] += p * row[b]
            for b in range(n_labels):
                out[b] *= weights[b]
        total = 0.0
        for b in range(n_labels):
            total += out[b]
        if not total > _SMALL:
            return np.nan, np.nan
        unit = 1.0 / total
        for b in range(n_labels):
            out[b] *= unit
            weights[b] *= unit
        sums += np.log(total)
        whole += top
    return whole + sums, sums


@njit_noalloc_inner(fastmath=_FAST)
def backward(work, length, marginals, pairs):
    """Node marginals and summed pair marginals, after :func:`forward`; False where lost."""
    n_labels = work.theta.shape[1]
    ahead, column = work.rows[0], work.rows[1]
    for a in range(n_labels):
        ahead[a] = 1.0
        for b in range(n_labels):
            pairs[a, b] = 0.0
    for t in range(length - 1, -1, -1):
        alpha = work.alpha[t]
        for a in range(n_labels):
            marginals[t, a] = alpha[a] * ahead[a]
        if t == 0:
            break
        weights, before = work.weights[t], work.alpha[t - 1]
        for a in range(n_labels):
            column[a] = ahead[a] * weights[a]
            ahead[a] = 0.0
        for b in range(n_labels):
            p, row = column[b], work.turned[b]
            for a in range(n_labels):
                ahead[a] += p * row[a]
        for a in range(n_labels):
            if not ahead[a] < _LARGE:
                return False
            p, out = before[a], pairs[a]
            for b in range(n_labels):
                out[b] += p * column[b]
    for a in range(n_labels):
        for b in range(n_labels):
            pairs[a, b] *= work.factors[a, b]
    return True


@njit_noalloc_inner()
def backward_forward(theta, length, links, beta, marginals, pairs, column):
    """The same with logarithms, for scores of any size; the logarithm of the sum over labelings.

    Marginals are those of the chain of the probabilities ``p(b | a) ~ exp(links + theta + beta)``,
    so that they lie in the marginal polytope whatever rounding makes of large scores.
    """
    n_labels = theta.shape[1]
    for t in range(length - 1, -1, -1):
        for a in range(n_labels):
            beta[t, a] = 0.0
            if t == length - 1:
                continue
            top, total = -np.inf, 0.0
            for b in range(n_labels):
                column[b] = links[a, b] + theta[t + 1, b] + beta[t + 1, b]
                top = column[b] if column[b] > top else top
            beta[t, a] = top
            if top > -np.inf:
                for b in range(n_labels):
                    total += np.exp(column[b] - top)
                beta[t, a] += np.log(total)
    for a in range(n_labels):
        for b in range(n_labels):
            pairs[a, b] = 0.0
    whole = 0.0
    for t in range(length):
        for b in range(n_labels):
            marginals[t, b] = 0.0
        for a in range(n_labels):
            p = marginals[t - 1, a] if t else 1.0
            if p == 0.0 or (t == 0 and a > 0):
                continue
            top, total = -np.inf, 0.0
            for b in range(n_labels):
                column[b] = theta[t, b] + beta[t, b]
                if t:
                    column[b] += links[a, b]
                top = column[b] if column[b] > top else top
            for b in range(n_labels):
                column[b] = np.exp(column[b] - top)
                total += column[b]
            if t == 0:
                whole = top + np.log(total)
            for b in range(n_labels):
                share = p * column[b] / total
                marginals[t, b] += share
                if t:
                    pairs[a, b] += share
    return whole


@njit_noalloc_inner()
def posterior(work, length, has_links, top, marginals, pairs):
    """Marginals of nodes and, summed, of pairs; the logarithm of the sum over labelings.

    ``work`` has the scores of the nodes and the links, the largest of which is ``top``.
    """
    whole, _ = forward(work, length, has_links)
    sound = whole == whole
    if sound and has_links:
        sound = backward(work, length, marginals, pairs)
        whole += (length - 1) * top
    elif sound:
        for t in range(length):
            for a in range(work.theta.shape[1]):
                marginals[t, a] = work.alpha[t, a]
    if not sound:
        whole = backward_forward(
            work.theta, length, work.links, work.alpha, marginals, pairs, work.rows[0]
        )
    return whole


@njit_noalloc(nogil=True)
def sum_product(chains, work, w, scale, temperature, first, last, marginals, pairs, expected):
    """Marginals of ``p(y) ~ exp(scale w'phi(x_i, y) + temperature L_i(y))``, by messages.

    ``marginals`` has a row per node; ``pairs[i]`` takes the pair marginals, summed over the chain,
    and ``expected[i]`` the mean of L_i.
    """
    ptr, has_links = chains.ptr, chains.shape.transitions
    top = set_links(chains, w, scale, work) if has_links else 0.0
    for i in range(first, last):
        length = node_scores(chains, w, scale, i, temperature, work.theta)
        out = marginals[ptr[i] : ptr[i + 1]]
        posterior(work, length, has_links, top, out, pairs[i] if has_links else work.pairs)
        lost = 0.0
        for t in range(length):
            lost += chains.costs[ptr[i] + t] * (1.0 - out[t, chains.truth[ptr[i] + t]])
        expected[i] = lost


@njit_noalloc(nogil=True)
def log_losses(chains, work, w, first, last, values):
    """``values[i] = log sum over y of exp(w'phi(x_i, y)) - w'phi(x_i, y_i)``."""
    has_links = chains.shape.transitions
    top = set_links(chains, w, 1.0, work) if has_links else 0.0
    for i in range(first, last):
        length = node_scores(chains, w, 1.0, i, 0.0, work.theta)
        own = score(work.theta, length, work.links, has_links, chains.truth, chains.ptr[i])
        whole, sums = forward(work, length, has_links)
        if has_links:
            whole += (length - 1) * top
            # no ``ahead`` is larger than the product of the number of labels over each sum
            if not sums - length * np.log(work.theta.shape[1]) > _SAFE:
                whole = posterior(work, length, has_links, top, work.marginals, work.pairs)
        values[i] = whole - own
