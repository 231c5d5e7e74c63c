"""Chains: scores, Viterbi's algorithm, and sums of joint features over them.

``w'phi(x, y) = sum_t <W[:, y_t], x_t> + start[y_1] + end[y_L] + sum_t T[y_t, y_t+1]``, with the
weights in one vector: W by rows (a row per feature), then start and end where there are any, then T
by rows where there is one.  So start and end are two more rows of W, of features that are 1 at the
first and at the last node: chains are encoded with them, and nothing here knows of biases.
``chains`` and ``shape`` are records of :mod:`cornerstep.structured.compiled.records`.

References
----------
.. [1] A. J. Viterbi. Error bounds for convolutional codes and an asymptotically optimum decoding
   algorithm. IEEE Transactions on Information Theory 13, 260-269, 1967.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.compiling import (
    njit_alloc,
    njit_alloc_inner,
    njit_noalloc,
    njit_noalloc_inner,
)
from cornerstep.core.types import FloatArray
from cornerstep.structured.compiled.records import Chains, Shape

# Sums may be reordered (vectorised); NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit_noalloc_inner(fastmath=_FAST)
def node_scores(chains, w, scale, i, share, theta):
    """``theta[t, a] = scale (W'x_t)_a``, and ``share`` of the cost where label a is wrong.

    Where constraints forbid a label as the first or the last one it is -inf.
    """
    ptr, indptr, indices, values = chains.ptr, chains.indptr, chains.indices, chains.values
    n_labels = chains.shape.n_labels
    first = ptr[i]
    length = ptr[i + 1] - first
    for t in range(length):
        row, cost = theta[t], share * chains.costs[first + t]
        for a in range(n_labels):
            row[a] = cost
        row[chains.truth[first + t]] = 0.0
        for k in range(indptr[first + t], indptr[first + t + 1]):
            x = values[k] * scale
            base = indices[k] * n_labels
            part = w[base : base + n_labels]
            for a in range(n_labels):
                row[a] += x * part[a]
    if chains.walls.shape[0]:
        for k in range(2):
            row, wall = theta[k * (length - 1)], chains.walls[n_labels + k]
            if chains.ends[i, k]:
                for a in range(n_labels):
                    row[a] += wall[a]
    return length


@njit_noalloc_inner(fastmath=_FAST)
def viterbi(theta, length, links, has_links, walls, work, labels, first):
    """The labeling of largest score ``sum_t theta[t, y_t] + links[y_t, y_t+1]``; its score.

    It is written to ``labels``, from ``first`` on.  ``theta`` is overwritten by the forward maxima;
    the way back searches each column once, so no back pointers are kept.  ``work`` has a row per
    label for ``links + walls``, and one more; only with walls are any but the last written.
    """
    n_labels = theta.shape[1]
    column = work[n_labels]
    if walls.shape[0]:
        for b in range(n_labels):
            for a in range(n_labels):
                work[a, b] = links[a, b] + walls[a, b]
        links = work
    if has_links:
        for t in range(1, length):
            before, link = theta[t - 1], links[0]
            for b in range(n_labels):
                column[b] = before[0] + link[b]
            for a in range(1, n_labels):
                link = links[a]
                score = before[a]
                for b in range(n_labels):
                    through = score + link[b]
                    column[b] = through if through > column[b] else column[b]
            for b in range(n_labels):
                theta[t, b] += column[b]
    total, best = 0.0, 0
    for t in range(length - 1, -1, -1):
        after, best = best, 0
        joined = has_links and t + 1 < length
        top = theta[t, 0] + links[0, after] if joined else theta[t, 0]
        for a in range(1, n_labels):
            here = theta[t, a] + links[a, after] if joined else theta[t, a]
            if here > top:
                top, best = here, a
        labels[first + t] = best
        if not joined:
            total += top
    return total


@njit_noalloc_inner()
def score(theta, length, links, has_links, labels, first):
    """``sum_t theta[t, y_t] + links[y_t, y_t+1]`` of the labels from ``first`` on."""
    before = labels[first]
    total = theta[0, before]
    for t in range(1, length):
        here = labels[first + t]
        total += theta[t, here]
        if has_links:
            total += links[before, here]
        before = here
    return total


def links_in(shape: Shape, w: FloatArray) -> FloatArray:
    """T, where there is one, as a view of w."""
    if not shape.transitions:
        return np.zeros((1, 1))
    return w[-(shape.n_labels**2) :].reshape(shape.n_labels, shape.n_labels)


@njit_alloc_inner()
def links_of(chains, w, scale):
    """``scale T`` as a matrix; zeros if there are no transitions."""
    n_labels = chains.shape.n_labels
    base = chains.shape.n_features * n_labels
    out = np.zeros((n_labels, n_labels))
    if chains.shape.transitions:
        for a in range(n_labels):
            for b in range(n_labels):
                out[a, b] = scale * w[base + a * n_labels + b]
    return out


def decode(
    chains: Chains, w: FloatArray, first: int, last: int, augment: bool, labels: Any, values: Any
) -> None:
    """The best labelings of chains ``first`` to ``last - 1`` at w, with the costs if ``augment``.

    ``labels`` takes the labelings (an entry per node), ``values[i]`` the score of the best one
    above the truth's: the structured hinge, if augmented.
    """
    size = int(np.diff(chains.ptr[first : last + 1]).max(initial=0))
    m = chains.shape.n_labels
    work = np.empty((size, m)), np.empty((m + 1, m))
    decode_all(chains, w, links_in(chains.shape, w), first, last, augment, labels, values, work)


@njit_noalloc(nogil=True)
def decode_all(chains, w, links, first, last, augment, labels, values, work):
    """:func:`decode` with ``work`` to overwrite: a row per node of a chain; what Viterbi needs."""
    ptr, truth, walls, has_links = chains.ptr, chains.truth, chains.walls, chains.shape.transitions
    theta, closed = work
    share = 1.0 if augment else 0.0
    for i in range(first, last):
        length = node_scores(chains, w, 1.0, i, share, theta)
        base = score(theta, length, links, has_links, truth, ptr[i])
        best = viterbi(theta, length, links, has_links, walls, closed, labels, ptr[i])
        values[i] = best - base


@njit_noalloc(nogil=True)
def all_scores(chains, w, out):
    """The scores of all nodes, one row each."""
    ptr = chains.ptr
    for i in range(ptr.shape[0] - 1):
        node_scores(chains, w, 1.0, i, 0.0, out[ptr[i] : ptr[i + 1]])


@njit_noalloc_inner()
def scatter_change(chains, i, labels, at, amount, w):
    """``w += amount * (phi(x_i, y_i) - phi(x_i, y))`` for the labels y from ``at`` on.

    Nodes whose labels are right are no part of it.
    """
    n_labels, first = chains.shape.n_labels, chains.ptr[i]
    base = chains.shape.n_features * n_labels
    a = b = np.int64(0)
    for t in range(chains.ptr[i + 1] - first):
        before, other_before, changed = a, b, a != b
        a, b = np.int64(chains.truth[first + t]), np.int64(labels[at + t])
        if a != b:
            for k in range(chains.indptr[first + t], chains.indptr[first + t + 1]):
                x, entry = amount * chains.values[k], chains.indices[k] * n_labels
                w[entry + a] += x
                w[entry + b] -= x
        if chains.shape.transitions and t > 0 and (changed or a != b):
            w[base + before * n_labels + a] += amount
            w[base + other_before * n_labels + b] -= amount


@njit_noalloc(nogil=True)
def scatter_all(chains, labels, w):
    """``w += sum_i weight_i (phi(x_i, y_i) - phi(x_i, labels_i))``; that sum of their losses."""
    ptr = chains.ptr
    total = 0.0
    for i in range(ptr.shape[0] - 1):
        total += chains.weights[i] * loss(chains, i, labels, ptr[i])
        scatter_change(chains, i, labels, ptr[i], chains.weights[i], w)
    return total


@njit_noalloc_inner()
def loss(chains, i, labels, at):
    """``sum of costs where labels[at:] is wrong`` in chain i."""
    first, total = chains.ptr[i], 0.0
    for row in range(first, chains.ptr[i + 1]):
        if chains.truth[row] != labels[at + row - first]:
            total += chains.costs[row]
    return total


@njit_alloc(nogil=True)
def subgradient_sweep(order, chains, size, lam, total, late, numbers):
    """``total += c_i psi_i(y*)`` at ``w = total / (lam t)``, for the chains in order.

    ``c_i`` is the chain's weight over the mean weight, ``size`` the length of the longest chain.
    ``numbers = (t, sum of c L)``; ``late`` makes the average: ``sum over steps of total`` is
    ``t total - late``.
    """
    n_labels, has_links = chains.shape.n_labels, chains.shape.transitions
    theta, closed = np.empty((size, n_labels)), np.empty((n_labels + 1, n_labels))
    found = np.empty(size, np.int16)
    for position in range(order.shape[0]):
        i = order[position]
        t = numbers[0]
        scale = 1.0 / (lam * t) if t > 0 else 0.0
        length = node_scores(chains, total, scale, i, 1.0, theta)
        links = links_of(chains, total, scale)
        viterbi(theta, length, links, has_links, chains.walls, closed, found, 0)
        c = chains.weights[i] * (chains.ptr.shape[0] - 1) / chains.total
        numbers[0] += 1.0
        numbers[1] += c * loss(chains, i, found, 0)
        scatter_change(chains, i, found, 0, c, total)
        scatter_change(chains, i, found, 0, c * t, late)


@njit_noalloc(nogil=True)
def scatter_marginals(chains, marginals, pairs, w):
    """``w += sum_i weight_i (phi(x_i, y_i) - E phi(x_i, y))`` for marginals of all chains."""
    ptr, indptr, indices, values = chains.ptr, chains.indptr, chains.indices, chains.values
    n_features, n_labels, has_links = chains.shape
    base, truth = n_features * n_labels, chains.truth
    for i in range(ptr.shape[0] - 1):
        first, last, amount = ptr[i], ptr[i + 1], chains.weights[i]
        for row in range(first, last):
            for k in range(indptr[row], indptr[row + 1]):
                x, at = amount * values[k], indices[k] * n_labels
                w[at + truth[row]] += x
                for a in range(n_labels):
                    w[at + a] -= x * marginals[row, a]
        if has_links:
            for row in range(first + 1, last):
                w[base + np.int64(truth[row - 1]) * n_labels + truth[row]] += amount
            for a in range(n_labels):
                for b in range(n_labels):
                    w[base + a * n_labels + b] -= amount * pairs[i, a, b]
