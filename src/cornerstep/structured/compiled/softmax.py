r"""Block steps of the softmax over chains: towards the marginals at w, as far as entropy suggests.

Block i has a distribution over labelings, of which its marginals mu_i are kept and a number h_i, no
more than its entropy.  ``P - D`` is the sum over blocks of ``p_i KL(mu_i | nu_i)``, nu_i being the
marginals at w; a step goes from mu_i to nu_i.  Along it the dual objective is at least
``gap t - curvature t²/2``, and near the optimum, where entropy bends as much as the gap falls, its
best step is ``2 gap / (2 gap + curvature)``, at which that bound has not fallen either.

References
----------
.. [1] M. Collins, A. Globerson, T. Koo, X. Carreras, P. L. Bartlett. Exponentiated gradient
   algorithms for conditional random fields and max-margin Markov networks. Journal of Machine
   Learning Research 9, 1775-1822, 2008.
.. [2] S. Shalev-Shwartz, T. Zhang. Stochastic dual coordinate ascent methods for regularized loss
   minimization. Journal of Machine Learning Research 14, 567-599, 2013.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_inner
from cornerstep.core.rounding import EPSILON
from cornerstep.structured.compiled.chain import node_scores
from cornerstep.structured.compiled.sum_product import posterior, set_links

_FAST = {"reassoc", "contract", "nsz", "arcp"}
_SENSIBLE = 0.01  # relative errors of marginals above it are not told from sums of their parts


class Softened(NamedTuple):
    """Blocks as distributions over labelings."""

    marginals: Any  # (nodes, labels)
    pairs: Any  # (chains, labels, labels): summed over the chain; no chains without transitions
    entropies: Any  # (chains,): h
    errors: Any  # (chains, 2): what rounding has made of h, and of the marginals of a node


class Distinct(NamedTuple):
    """The different features of each chain: ``features[ptr[i]:ptr[i + 1]]``."""

    ptr: Any
    features: Any
    places: Any  # of each entry of the chains' features, in its chain's list


@njit_noalloc(nogil=True)
def number_features(chains, distinct, last):
    """Fill the record; ``last`` has -1 for each feature.  The number of all of them."""
    ptr, indptr, indices = chains.ptr, chains.indptr, chains.indices
    count = 0
    for i in range(ptr.shape[0] - 1):
        begin = count
        for k in range(indptr[ptr[i]], indptr[ptr[i + 1]]):
            feature = indices[k]
            if last[feature] < begin:
                last[feature] = count
                distinct.features[count] = feature
                count += 1
            distinct.places[k] = last[feature] - begin
        distinct.ptr[i + 1] = count
    return count


@njit_noalloc_inner(fastmath=_FAST)
def _scores(chains, i, w, soft, work, length):
    """``E w'phi`` at mu_i and at nu_i, and a bound of ``max_y |w'phi(x_i, y)|``."""
    n_labels, first = chains.shape.n_labels, chains.ptr[i]
    own = new = size = 0.0
    for t in range(length):
        scores, before, after = work.theta[t], soft.marginals[first + t], work.marginals[t]
        largest = 0.0
        for a in range(n_labels):
            value = scores[a] if scores[a] > -np.inf else 0.0  # what walls forbid
            own += before[a] * value
            new += after[a] * value
            largest = max(largest, abs(value))
        size += largest
    if chains.shape.transitions:
        base = chains.shape.n_features * n_labels
        largest, before, after = 0.0, soft.pairs[i], work.pairs
        for a in range(n_labels):
            for b in range(n_labels):
                value = w[base + a * n_labels + b]
                own += before[a, b] * value
                new += after[a, b] * value
                largest = max(largest, abs(value))
        size += (length - 1) * largest
    return own, new, size


@njit_noalloc_inner(fastmath=_FAST)
def _difference(chains, i, soft, work, length, distinct, change):
    """``nu_i - mu_i`` in place of nu_i, the features' part of its image, and the image's square."""
    n_labels, first = chains.shape.n_labels, chains.ptr[i]
    rows = distinct.ptr[i + 1] - distinct.ptr[i]
    square = 0.0
    for j in range(rows):
        for a in range(n_labels):
            change[j, a] = 0.0
    for t in range(length):
        after, before = work.marginals[t], soft.marginals[first + t]
        for a in range(n_labels):
            after[a] -= before[a]
        for k in range(chains.indptr[first + t], chains.indptr[first + t + 1]):
            x, row = chains.values[k], change[distinct.places[k]]
            for a in range(n_labels):
                row[a] += x * after[a]
    for j in range(rows):
        row = change[j]
        for a in range(n_labels):
            square += row[a] * row[a]
    if chains.shape.transitions:
        for a in range(n_labels):
            after, before = work.pairs[a], soft.pairs[i, a]
            for b in range(n_labels):
                after[b] -= before[b]
                square += after[b] * after[b]
    return square


@njit_noalloc_inner(fastmath=_FAST)
def _step(chains, i, soft, work, length, distinct, change, step, amount, w):
    """Go so far along the difference; w changes by ``-amount`` times its image."""
    n_labels, first = chains.shape.n_labels, chains.ptr[i]
    for j in range(distinct.ptr[i + 1] - distinct.ptr[i]):
        row, base = change[j], distinct.features[distinct.ptr[i] + j] * n_labels
        part = w[base : base + n_labels]
        for a in range(n_labels):
            part[a] -= amount * row[a]
    for t in range(length):
        here, way = soft.marginals[first + t], work.marginals[t]
        for a in range(n_labels):
            here[a] = max(here[a] + step * way[a], 0.0)
    if chains.shape.transitions:
        base = chains.shape.n_features * n_labels
        for a in range(n_labels):
            here, way = soft.pairs[i, a], work.pairs[a]
            for b in range(n_labels):
                here[b] = max(here[b] + step * way[b], 0.0)
                w[base + a * n_labels + b] -= amount * way[b]


@njit_noalloc(nogil=True)
def sweep(order, chains, distinct, lam, w, soft, gaps, numbers, work, change):
    """A step in each of these blocks, one after the other.

    ``numbers[1]`` is the weighted mean of h; ``change`` has a row per feature of a chain.
    """
    n_labels, has_links = chains.shape.n_labels, chains.shape.transitions
    for position in range(order.shape[0]):
        i = order[position]
        share = chains.weights[i] / chains.total
        length = node_scores(chains, w, 1.0, i, 0.0, work.theta)
        top = set_links(chains, w, 1.0, work) if has_links else 0.0
        whole = posterior(work, length, has_links, top, work.marginals, work.pairs)
        own, new, size = _scores(chains, i, w, soft, work, length)
        gap = share * max(whole - own - soft.entropies[i], 0.0)
        gaps[i] = gap
        square = _difference(chains, i, soft, work, length, distinct, change)
        curvature = share * share / lam * square
        step = 2.0 * gap / (2.0 * gap + curvature)
        if not (0.0 < step <= 1.0 and curvature < np.inf and size < np.inf):
            continue
        # a node's messages have some 2 (labels + 12) roundings and two exponentials of scores
        unit = 2.0 * EPSILON * (length * (n_labels + 12.0) + 4.0 * size)
        parts = size + length * (1.0 + np.log(n_labels))
        error = 4.0 * unit * parts if unit < _SENSIBLE else np.inf
        errors = soft.errors[i]
        kept = 1.0 - step
        errors[0] = step * error + 8.0 * EPSILON * parts + (kept * errors[0] if kept else 0.0)
        errors[1] = 2.0 * step * unit + 8.0 * EPSILON + kept * errors[1]
        change_of_h = step * ((whole - new) - soft.entropies[i])
        soft.entropies[i] += change_of_h
        numbers[1] += share * change_of_h
        amount = step * share / lam
        _step(chains, i, soft, work, length, distinct, change, step, amount, w)
