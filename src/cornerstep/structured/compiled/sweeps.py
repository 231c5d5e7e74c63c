"""Block steps of a structured SVM over chains: oracle, direction, exact step, update, all compiled.

``chains``, ``planes`` and ``state`` are records of
:mod:`cornerstep.structured.compiled.records`.  With the block's labelings y_k, their weights a_k,
the answer v and the plane u of least slope, directions are sums of differences of two labelings:

- FW, ``v - x``: ``psi = sum_k a_k (phi(y_k) - phi(v))``;
- PAIRWISE, ``v - u``: ``psi = phi(u) - phi(v)``;
- AWAY, ``x - u``: ``psi = sum_k -a_k (phi(y_k) - phi(u))``.

The sum is made in ``buffer``, which is all 0 between steps.  Labelings of a block differ at few
nodes, and only these are read (:func:`walk`).

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.compiling import (
    njit_inline,
    njit_noalloc,
    njit_noalloc_inner,
    njit_noalloc_small,
)
from cornerstep.structured.compiled.chain import loss, node_scores, score, viterbi
from cornerstep.structured.compiled.chain_planes import norm, place, plane, put
from cornerstep.structured.solvers.settings import BLOCK

FW, PAIRWISE, AWAY, AUTO = 0, 1, 2, 3
# Whether a walk adds; literals would be two types, for which it was compiled twice.
_ADD, _MOVE = np.int64(1), np.int64(0)
_ALONE = BLOCK.alone  # a constant to the compiler
_ZERO, _NONE = np.int64(0), np.int64(-1)  # literals would be other types, to compile for again


@njit_noalloc(nogil=True)
def sweep(order, rule, remembered, keep, chains, lam, state, planes, gaps, work, buffer):
    """Visit the chains in ``order``; see :func:`visit`.

    Returns how many were visited: fewer than asked for if the planes ran out of room.
    """
    weights, counts = planes.weights, planes.counts
    for position in range(order.shape[0]):
        i = order[position]
        if not remembered and counts[i] == weights.shape[1] and full(weights, i):
            return position
        visit(i, rule, remembered, keep, chains, lam, state, planes, gaps, work, buffer)
    return order.shape[0]


@njit_noalloc_inner()
def full(weights, i):
    """Whether all planes of block i have weight."""
    for k in range(weights.shape[1]):  # noqa: SIM110 - compiled
        if weights[i, k] == 0.0:
            return False
    return True


@njit_inline()
def visit(i, rule, remembered, keep, chains, lam, state, planes, gaps, work, buffer):
    """The exact best step in block i along the direction of ``rule``.

    Its answer is the oracle's or, with ``remembered``, the best of the block's own planes.  Planes
    of weight 0 give way to new ones once a block has ``keep``.
    """
    ptr, has_links = chains.ptr, chains.shape.transitions
    theta, closed, _, found, slopes = work  # theta serves `walk` after the decoder
    w, links, numbers = state.w, state.links, state.numbers
    length = ptr[i + 1] - ptr[i]
    own = 0.0
    if remembered:
        along_planes(chains, planes, i, w, closed[closed.shape[0] - 1], slopes)
    else:
        node_scores(chains, w, 1.0, i, 1.0, theta)
        own = score(theta, length, links, has_links, chains.truth, ptr[i])
        for k in range(planes.counts[i]):
            at = plane(planes, ptr, i, k)
            slopes[k] = score(theta, length, links, has_links, planes.labels, at)
    middle, best, worst = rank(chains, planes, i, own, slopes)
    answer, begin, top, lost = planes.labels, plane(planes, ptr, i, best), slopes[best], 0.0
    if not remembered:
        answer, begin = found, _ZERO
        top = viterbi(theta, length, links, has_links, chains.walls, closed, found, _ZERO) - own
        top *= chains.weights[i] / chains.total
        lost = loss(chains, i, found, _ZERO)
        gaps[i] = top - middle if top > middle else 0.0
        best = place(planes, ptr, i, found)
    numbers[0] += 1.0
    kind, step, limit = choose(
        i, rule, chains, lam, state, planes, top, middle, slopes[worst], worst, answer, begin, work,
        buffer,
    )  # fmt: skip
    if kind < 0:
        return
    amount = chains.weights[i] * step / (lam * chains.total)
    late = 0.5 * numbers[0] * (numbers[0] - 1.0)
    walk(_MOVE, kind, chains, planes, i, worst, answer, begin, amount, late, work, buffer, state)
    if best < 0 and kind != AWAY:
        best = put(planes, ptr, i, found, lost, keep)
    update_weights(chains, planes, i, kind, step, limit, best, worst, numbers)


@njit_noalloc_inner()
def rank(chains, planes, i, own, slopes):
    """Make ``L_k + w'phi_k`` slopes ``p_i (L_k - w'psi_k)``; their mean, the best and the worst.

    Slopes are the dual's derivatives in a_k, p_i the chain's share of the weights, ``own = w'phi``
    of the truth.  The worst is that of least slope among the planes that have weight.
    """
    weight, total = chains.weights[i], chains.total
    weights, counts = planes.weights, planes.counts
    middle, best, worst = 0.0, 0, 0
    for k in range(counts[i]):
        slopes[k] = (slopes[k] - own) * weight / total
        middle += weights[i, k] * slopes[k]
        if slopes[k] > slopes[best]:
            best = k
        if weights[i, k] > 0.0 and (weights[i, worst] == 0.0 or slopes[k] < slopes[worst]):
            worst = k
    return middle, best, worst


@njit_noalloc_inner()
def choose(
    i, rule, chains, lam, state, planes, top, middle, low, worst, answer, begin, work, buffer
):  # fmt: skip
    """The direction that the rule takes: its kind (-1 if none), step and largest step.

    The direction is left in ``buffer``.
    """
    weight, total, heavy = chains.weights[i], chains.total, planes.weights[i, worst]
    back = middle - low if heavy < _ALONE else 0.0
    step, limit, gain = 0.0, 0.0, 0.0
    kind: Any = _NONE
    first, last = (FW, AWAY) if rule == AUTO else (rule, rule)
    if rule == AWAY and top - middle >= back:
        first = last = FW
    for direction in range(first, last + 1):
        if direction == FW:
            rise, furthest = top - middle, 1.0
        elif direction == PAIRWISE:
            rise, furthest = top - low, heavy
        else:
            rise, furthest = back, heavy / (1.0 - heavy) if heavy < _ALONE else 0.0
        if rise <= 0.0:
            continue
        square = walk(
            _ADD, direction, chains, planes, i, worst, answer, begin, 0.0, 0.0, work, buffer, state
        )
        if rule == AUTO:  # only a trial
            walk(
                _MOVE, direction, chains, planes, i, worst, answer, begin, 0.0, 0.0, work, buffer,
                state,
            )  # fmt: skip
        curvature = square * weight * weight / (lam * total * total)
        along = rise / curvature if curvature * furthest > rise else furthest
        wins = along * rise - 0.5 * along * along * curvature
        if kind < 0 or wins > gain:
            gain, kind, step, limit = wins, direction, along, furthest
    if rule == AUTO and kind >= 0:
        walk(_ADD, kind, chains, planes, i, worst, answer, begin, 0.0, 0.0, work, buffer, state)
    return kind, step, limit


@njit_noalloc_inner()
def walk(adding, kind, chains, planes, i, worst, answer, begin, amount, late, work, buffer, state):
    """Visit the entries of a direction psi: add it to the buffer, or take it from there.

    Adding: ``buffer += psi``; returns ``|psi|²`` of a buffer that was 0.  Else ``w += amount
    buffer`` and ``v += late amount buffer`` at the entries of psi, which are then 0 in the buffer.
    The labels' shares of psi are left in ``work.theta``, where the second way finds them.
    """
    if kind == AWAY:
        answer, begin = planes.labels, plane(planes, chains.ptr, i, worst)
    n_labels, first = chains.shape.n_labels, chains.ptr[i]
    base, length = chains.shape.n_features * n_labels, chains.ptr[i + 1] - first
    low, high = (worst, worst + 1) if kind == PAIRWISE else (_ZERO, planes.counts[i])
    shares, moved, w, v, total = work.theta, work.moved, state.w, state.v, 0.0
    if adding:
        shares[:length] = 0.0
    for k in range(low, high):
        share = planes.weights[i, k]
        if share == 0.0:
            continue
        if kind != FW:
            share = -share if kind == AWAY else 1.0
        at = plane(planes, chains.ptr, i, k)
        one = other = _ZERO
        for t in range(length):
            left, right, one, other = one, other, planes.labels[at + t], answer[begin + t]
            if adding and one != other:
                shares[t, one] += share
                shares[t, other] -= share
            if chains.shape.transitions and t > 0 and (one != other or left != right):
                entry = base + left * n_labels + one
                total += visit_entry(adding, entry, share, amount, late, buffer, w, v)
                entry = base + right * n_labels + other
                total += visit_entry(adding, entry, -share, amount, late, buffer, w, v)
    for t in range(length):
        count = 0
        for a in range(n_labels):
            if shares[t, a] != 0.0:
                moved[count] = a
                count += 1
        if count > 0:
            for e in range(chains.indptr[first + t], chains.indptr[first + t + 1]):
                x, at = chains.values[e], chains.indices[e] * n_labels
                for j in range(count):
                    c = x * shares[t, moved[j]]
                    total += visit_entry(adding, at + moved[j], c, amount, late, buffer, w, v)
    return total


@njit_noalloc_small()
def visit_entry(adding, at, c, amount, late, buffer, w, v):
    """What :func:`walk` does at an entry of psi, to which c is added; by how much |psi|² grows."""
    before = buffer[at]
    if adding:
        buffer[at] = before + c
        return c * (before + buffer[at])
    change = amount * before
    w[at] += change
    v[at] += late * change
    buffer[at] = 0.0
    return 0.0


@njit_noalloc_inner()
def along_planes(chains, planes, i, vector, dots, out):
    """``out[k] = L_k + <vector, phi_k>`` of the planes of block i, but for a constant they share.

    Only nodes where planes disagree are looked at, and each of their labels once.
    """
    ptr, indptr, indices, values = chains.ptr, chains.indptr, chains.indices, chains.values
    n_features, n_labels, has_links = chains.shape
    base = n_features * n_labels
    length, count = ptr[i + 1] - ptr[i], planes.counts[i]
    labels, first = planes.labels, plane(planes, ptr, i, _ZERO)
    for k in range(count):
        out[k] = planes.losses[i, k]
    before = False  # whether planes disagree at the node before
    for t in range(length):
        differ = False
        for k in range(1, count):
            if labels[first + k * length + t] != labels[first + t]:
                differ = True
                break
        if differ:
            for a in range(n_labels):
                dots[a] = np.nan
            for k in range(count):
                label = labels[first + k * length + t]
                if np.isnan(dots[label]):
                    total = 0.0
                    for e in range(indptr[ptr[i] + t], indptr[ptr[i] + t + 1]):
                        total += values[e] * vector[indices[e] * n_labels + label]
                    dots[label] = total
                out[k] += dots[label]
        if has_links and t > 0 and (differ or before):
            for k in range(count):
                at = first + k * length + t
                out[k] += vector[base + np.int64(labels[at - 1]) * n_labels + labels[at]]
        before = differ


@njit_noalloc_inner()
def update_weights(chains, planes, i, kind, step, limit, best, worst, numbers):
    """Carry a step over to the weights of block i and to l."""
    weights, count, change = planes.weights, planes.counts[i], 0.0
    factor = 1.0 - step if kind == FW else 1.0 + step if kind == AWAY else 1.0
    for k in range(count):
        weight = factor * weights[i, k]
        if k == worst and kind != FW:
            weight = weight - step if step < limit and weight > step else 0.0
        if k == best and kind != AWAY:
            weight += step
        change += (weight - weights[i, k]) * planes.losses[i, k]
        weights[i, k] = weight
    if kind == AWAY:  # rounding errors would grow by 1 + step each time
        norm(weights, i, count)
    change *= chains.weights[i] / chains.total
    numbers[1] += change
    numbers[2] += 0.5 * numbers[0] * (numbers[0] - 1.0) * change
