"""The labelings that make up the dual state of chains, and their sums of joint features.

``chains`` and ``planes`` are records of :mod:`cornerstep.structured.compiled.records`.
"""

from __future__ import annotations

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_inner
from cornerstep.structured.compiled.chain import scatter_change


@njit_noalloc_inner()
def plane(planes, ptr, i, k):
    """Where the labels of plane k of block i begin."""
    return planes.weights.shape[1] * ptr[i] + k * (ptr[i + 1] - ptr[i])


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
            if a > 0.0:
                scatter_change(chains, i, labels, at, amount * a, w)
                total += a * losses[i, k]
    return total


@njit_noalloc_inner()
def place(planes, ptr, i, chosen):
    """Which plane of block i is ``chosen``; -1 if none."""
    length = ptr[i + 1] - ptr[i]
    for k in range(planes.counts[i]):
        at, t = plane(planes, ptr, i, k), 0
        while t < length and planes.labels[at + t] == chosen[t]:
            t += 1
        if t == length:
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
    at = plane(planes, ptr, i, slot)
    for t in range(ptr[i + 1] - ptr[i]):
        planes.labels[at + t] = chosen[t]
    return slot
