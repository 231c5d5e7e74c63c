"""The labelings that make up the dual state of chains, and their sums of joint features.

``chains``, ``planes`` and ``mean`` are records of :mod:`cornerstep.structured.compiled.records`.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_inner
from cornerstep.structured.compiled.chain import is_truth, same, scatter_change


@njit_noalloc_inner()
def plane(planes, ptr, i, k):
    """Where the labels of plane k of block i begin."""
    return planes.weights.shape[1] * ptr[i] + k * (ptr[i + 1] - ptr[i])


@njit_noalloc_inner()
def copy(labels, p, out, q, length):
    """``out[q + t] = labels[p + t]``."""
    for t in range(length):
        out[q + t] = labels[p + t]


@njit_noalloc_inner()
def norm(weights, i, count):
    """Make the weights of block i sum to 1."""
    total = 0.0
    for k in range(count):
        total += weights[i, k]
    for k in range(count):
        weights[i, k] /= total


@njit_noalloc(nogil=True)
def rebuild(chains, planes, amount, w):
    """Norm the weights of every block to sum 1, then ``w += amount sum_ik c_i a_ik psi_i(y_k)``.

    ``c_i`` is the weight of the chain.  Returns ``sum_ik c_i a_ik L_ik``.
    """
    ptr, labels = chains.ptr, planes.labels
    weights, losses, counts = planes.weights, planes.losses, planes.counts
    total = 0.0
    for i in range(ptr.shape[0] - 1):
        norm(weights, i, counts[i])
        for k in range(counts[i]):
            a = chains.weights[i] * weights[i, k]
            at = plane(planes, ptr, i, k)
            if a > 0.0 and not is_truth(chains, i, labels, at):
                scatter_change(chains, i, labels, at, amount * a, w)
                total += a * losses[i, k]
    return total


@njit_noalloc_inner()
def place(planes, ptr, i, chosen):
    """Which plane of block i is ``chosen``; -1 if none."""
    for k in range(planes.counts[i]):
        if same(planes.labels, plane(planes, ptr, i, k), chosen, np.int64(0), ptr[i + 1] - ptr[i]):
            return k
    return -1


@njit_noalloc_inner()
def put(planes, ptr, i, chosen, lost, keep):
    """A place for a new plane: of one of weight 0 once there are ``keep``, else at the end."""
    weights, counts = planes.weights, planes.counts
    slot = counts[i]
    if slot >= keep or slot == weights.shape[1]:
        for k in range(counts[i]):
            if weights[i, k] == 0.0:
                slot = k
                break
    if slot == counts[i]:
        counts[i] += 1
    weights[i, slot] = 0.0
    planes.losses[i, slot] = lost
    copy(chosen, np.int64(0), planes.labels, plane(planes, ptr, i, slot), ptr[i + 1] - ptr[i])
    return slot


@njit_noalloc_inner()
def gather(planes, ptr, i, has_links, mean):
    """Write the block to ``mean``; returns how many pairs it has."""
    nodes, pairs, touched = mean
    weights, counts = planes.weights, planes.counts
    length = ptr[i + 1] - ptr[i]
    n_labels = nodes.shape[1]
    for t in range(length):
        for a in range(n_labels):
            nodes[t, a] = 0.0
    count = 0
    for k in range(counts[i]):
        a = weights[i, k]
        if a == 0.0:
            continue
        labels, at = planes.labels, plane(planes, ptr, i, k)
        before = np.int64(labels[at])
        nodes[0, before] += a
        for t in range(1, length):
            here = np.int64(labels[at + t])
            nodes[t, here] += a
            if has_links:
                pair = before * n_labels + here
                if pairs[pair] == 0.0:
                    touched[count] = pair
                    count += 1
                pairs[pair] += a
            before = here
    return count
