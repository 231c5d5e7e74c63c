"""Block steps of a structured SVM over chains: oracle, direction, exact step, update, all compiled.

``chains``, ``planes``, ``state``, ``mean`` and ``route`` are records of
:mod:`cornerstep.structured.compiled.records`.  A direction in block i moves single labels and pairs
of neighbours, ``psi = sum of c (joint feature of that label or pair)``.  It is kept as a list,
``route``, and as a vector in ``buffer``, which is all 0 between steps.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_inline, njit_noalloc, njit_noalloc_inner
from cornerstep.structured.compiled.chain import (
    add_costs,
    loss,
    node_scores,
    offsets,
    score,
    viterbi,
)
from cornerstep.structured.compiled.chain_planes import copy, gather, norm, place, plane, put
from cornerstep.structured.solvers.settings import BLOCK

FW, PAIRWISE, AWAY, AUTO = 0, 1, 2, 3
_ALONE, _NEGLIGIBLE = BLOCK.alone, BLOCK.negligible  # constants to the compiler
_ZERO = np.int64(0)  # as a literal it would be another type, for which kernels were compiled again


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
    ptr, shape = chains.ptr, chains.shape
    theta, dots, mean, route, found, leaving, slopes = work
    w, links, numbers = state.w, state.links, state.numbers
    weight, total, has_links = chains.weights[i], chains.total, shape.transitions
    base = offsets(shape)[2]
    length = ptr[i + 1] - ptr[i]
    n_pairs = gather(planes, ptr, i, has_links, mean) if rule != PAIRWISE else 0
    if remembered:
        along_planes(chains, planes, i, w, dots, slopes)
        middle, best, worst = rank(chains, planes, i, 0.0, slopes)
        copy(planes.labels, plane(planes, ptr, i, best), found, _ZERO, length)
        top, lost = slopes[best], planes.losses[i, best]
    else:
        node_scores(chains, w, 1.0, i, theta)
        own = score(theta, length, links, has_links, chains.truth, ptr[i])
        if rule == FW:  # the mean is all that it needs
            middle = mean_slope(planes, i, length, theta, w, base, own, mean, n_pairs)
            middle = middle * weight / total
            best, worst = -1, -1
        else:
            for k in range(planes.counts[i]):
                at = plane(planes, ptr, i, k)
                slopes[k] = score(theta, length, links, has_links, planes.labels, at)
            middle, best, worst = rank(chains, planes, i, own, slopes)
        add_costs(theta, chains, i, 1.0)
        top = (viterbi(theta, length, links, has_links, dots, found, _ZERO) - own) * weight / total
        lost = loss(chains, i, found, _ZERO)
        gaps[i] = max(top - middle, 0.0)
        best = place(planes, ptr, i, found)
    numbers[0] += 1.0
    heavy, low = 1.0, 0.0
    if worst < 0:
        copy(found, _ZERO, leaving, _ZERO, length)
    else:
        copy(planes.labels, plane(planes, ptr, i, worst), leaving, _ZERO, length)
        heavy, low = planes.weights[i, worst], slopes[worst]
    kind, step, limit, sizes = choose(
        i, rule, chains, lam, top, middle, low, heavy, mean, n_pairs, found, leaving, route, buffer
    )
    for k in range(n_pairs):
        mean.pairs[mean.touched[k]] = 0.0
    if kind < 0:
        return
    if best < 0 and kind != AWAY:
        best = put(planes, ptr, i, found, lost, keep)
    amount = weight * step / (lam * total)
    apply_direction(chains, i, amount, route, sizes, state, buffer)
    update_weights(chains, planes, i, kind, step, limit, best, worst, numbers)


@njit_noalloc_inner()
def mean_slope(planes, i, length, theta, w, base, own, mean, n_pairs):
    """``sum_k a_k (L_k - w'psi_k)`` of block i from its marginals; ``own``: the truth's score."""
    nodes, pairs, touched = mean
    weights, losses, counts = planes.weights, planes.losses, planes.counts
    total = -own
    for k in range(counts[i]):
        total += weights[i, k] * losses[i, k]
    for t in range(length):
        for a in range(theta.shape[1]):
            total += nodes[t, a] * theta[t, a]
    for k in range(n_pairs):
        total += pairs[touched[k]] * w[base + touched[k]]
    return total


@njit_noalloc_inner()
def rank(chains, planes, i, own, slopes):
    """Make scores ``w'phi_k`` slopes ``p_i (L_k - w'psi_k)``; their mean, the best and the worst.

    Slopes are the dual's derivatives in a_k, p_i the chain's share of the weights, ``own = w'phi``
    of the truth.  The worst is that of least slope among the planes that have weight.
    """
    weight, total = chains.weights[i], chains.total
    weights, losses, counts = planes.weights, planes.losses, planes.counts
    middle, best, worst = 0.0, 0, -1
    for k in range(counts[i]):
        slopes[k] = (losses[i, k] + slopes[k] - own) * weight / total
        middle += weights[i, k] * slopes[k]
        if slopes[k] > slopes[best]:
            best = k
        if weights[i, k] > 0.0 and (worst < 0 or slopes[k] < slopes[worst]):
            worst = k
    return middle, best, worst


@njit_noalloc_inner()
def choose(
    i, rule, chains, lam, top, middle, low, heavy, mean, n_pairs, chosen, leaving, route, buffer
):
    """The direction that the rule takes: its kind (-1 if none), step, largest step, route's sizes.

    The direction is left in ``route`` and ``buffer``.
    """
    weight, total = chains.weights[i], chains.total
    back = middle - low if heavy < _ALONE else 0.0
    step, limit, gain, kind, sizes = 0.0, 0.0, 0.0, -1, (0, 0)
    for direction in range(3):
        if direction != rule and rule != AUTO and (rule != AWAY or direction == PAIRWISE):
            continue
        if rule == AWAY and direction == (AWAY if top - middle >= back else FW):
            continue
        if direction == FW:
            rise, furthest = top - middle, 1.0
        elif direction == PAIRWISE:
            rise, furthest = top - low, heavy
        else:
            rise, furthest = back, heavy / (1.0 - heavy) if heavy < _ALONE else 0.0
        if rise <= 0.0:
            continue
        sizes = build_direction(direction, chains, i, mean, n_pairs, chosen, leaving, route)
        square = fill(chains, i, route, sizes, buffer)
        if rule == AUTO:  # only a trial
            clear(chains, i, route, sizes, buffer)
        curvature = square * weight * weight / (lam * total * total)
        along = rise / curvature if curvature * furthest > rise else furthest
        wins = along * rise - 0.5 * along * along * curvature
        if kind < 0 or wins > gain:
            gain, kind, step, limit = wins, direction, along, furthest
    if rule == AUTO and kind >= 0:
        sizes = build_direction(np.int64(kind), chains, i, mean, n_pairs, chosen, leaving, route)
        fill(chains, i, route, sizes, buffer)
    return kind, step, limit, sizes


@njit_noalloc_inner()
def build_direction(direction, chains, i, mean, n_pairs, chosen, leaving, route):
    """Write ``v - x``, ``v - u`` or ``x - u`` to ``route``: block x, answer v, worst plane u.

    Returns how many single labels and how many pairs it moves.
    """
    nodes, labels, moved, pairs, linked = route
    n_labels = chains.shape.n_labels
    length = chains.ptr[i + 1] - chains.ptr[i]
    x = 1.0 if direction == AWAY else -1.0 if direction == FW else 0.0
    v = 0.0 if direction == AWAY else 1.0
    u = 0.0 if direction == FW else -1.0
    count = links = 0
    for t in range(length):
        if x == 0.0 and chosen[t] == leaving[t]:
            continue
        if x == 0.0:
            nodes[count], labels[count], moved[count] = t, chosen[t], -v
            nodes[count + 1], labels[count + 1], moved[count + 1] = t, leaving[t], -u
            count += 2
            continue
        for a in range(n_labels):
            c = -x * mean.nodes[t, a]
            if a == chosen[t]:
                c -= v
            if a == leaving[t]:
                c -= u
            if abs(c) > _NEGLIGIBLE:
                nodes[count], labels[count], moved[count] = t, a, c
                count += 1
    if not chains.shape.transitions:
        return count, 0
    if x != 0.0:
        for k in range(n_pairs):
            pairs[links], linked[links] = mean.touched[k], -x * mean.pairs[mean.touched[k]]
            links += 1
    for t in range(1, length):
        one = np.int64(chosen[t - 1]) * n_labels + chosen[t]
        other = np.int64(leaving[t - 1]) * n_labels + leaving[t]
        if v != 0.0 and (u == 0.0 or one != other):
            pairs[links], linked[links] = one, -v
            links += 1
        if u != 0.0 and (v == 0.0 or one != other):
            pairs[links], linked[links] = other, -u
            links += 1
    return count, links


@njit_noalloc_inner()
def fill(chains, i, route, sizes, buffer):
    """Add the direction to the buffer, which was all 0; returns ``|psi|²``."""
    ptr, indptr, indices, values = chains.ptr, chains.indptr, chains.indices, chains.values
    nodes, labels, moved, pairs, linked = route
    n_labels, biases = chains.shape.n_labels, chains.shape.biases
    start, end, base = offsets(chains.shape)
    first, final = ptr[i], ptr[i + 1] - 1
    for e in range(sizes[0]):
        t, a, c = first + nodes[e], labels[e], moved[e]
        for k in range(indptr[t], indptr[t + 1]):
            buffer[indices[k] * n_labels + a] += c * values[k]
        if biases and t == first:
            buffer[start + a] += c
        if biases and t == final:
            buffer[end + a] += c
    for e in range(sizes[1]):
        buffer[base + pairs[e]] += linked[e]
    # <psi, psi>, entry by entry of the sum that made it: no list of distinct indices is needed
    square = 0.0
    for e in range(sizes[0]):
        square += moved[e] * along_node(chains, i, nodes[e], labels[e], buffer)
    for e in range(sizes[1]):
        square += linked[e] * buffer[base + pairs[e]]
    return max(square, 0.0)


@njit_noalloc_inner()
def along_node(chains, i, t, a, buffer):
    """``<buffer, the joint feature of label a at node t>``."""
    ptr, indptr, indices, values = chains.ptr, chains.indptr, chains.indices, chains.values
    n_labels, biases = chains.shape.n_labels, chains.shape.biases
    start, end, _ = offsets(chains.shape)
    row = ptr[i] + t
    total = 0.0
    for k in range(indptr[row], indptr[row + 1]):
        total += values[k] * buffer[indices[k] * n_labels + a]
    if biases and t == 0:
        total += buffer[start + a]
    if biases and row == ptr[i + 1] - 1:
        total += buffer[end + a]
    return total


@njit_noalloc_inner()
def along_planes(chains, planes, i, vector, dots, out):
    """``out[k] = <vector, phi_k>`` of the planes of block i, but for a constant that they share.

    Only nodes where planes disagree are looked at, and each of their labels once.
    """
    ptr, n_labels, has_links = chains.ptr, chains.shape.n_labels, chains.shape.transitions
    base = offsets(chains.shape)[2]
    length, count = ptr[i + 1] - ptr[i], planes.counts[i]
    labels, first = planes.labels, plane(planes, ptr, i, _ZERO)
    for k in range(count):
        out[k] = 0.0
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
                label = np.int64(labels[first + k * length + t])  # as fill has it: compiled once
                if np.isnan(dots[label]):
                    dots[label] = along_node(chains, i, t, label, vector)
                out[k] += dots[label]
        if has_links and t > 0 and (differ or before):
            for k in range(count):
                at = first + k * length + t
                out[k] += vector[base + np.int64(labels[at - 1]) * n_labels + labels[at]]
        before = differ


@njit_noalloc_inner()
def apply_direction(chains, i, amount, route, sizes, state, buffer):
    """``w += amount psi`` and ``v += amount late psi`` for the psi of the buffer; empty it."""
    ptr, indptr, indices = chains.ptr, chains.indptr, chains.indices
    w, v, numbers = state.w, state.v, state.numbers
    late = 0.5 * numbers[0] * (numbers[0] - 1.0)
    n_labels, biases = chains.shape.n_labels, chains.shape.biases
    start, end, base = offsets(chains.shape)
    first, final = ptr[i], ptr[i + 1] - 1
    for e in range(sizes[0]):
        t, a = first + route.nodes[e], route.labels[e]
        for k in range(indptr[t], indptr[t + 1]):
            _move(buffer, indices[k] * n_labels + a, amount, late, w, v)
        if biases and t == first:
            _move(buffer, start + a, amount, late, w, v)
        if biases and t == final:
            _move(buffer, end + a, amount, late, w, v)
    for e in range(sizes[1]):
        _move(buffer, base + route.pairs[e], amount, late, w, v)


@njit_noalloc_inner()
def _move(buffer, index, amount, late, w, v):
    change = amount * buffer[index]
    w[index] += change
    v[index] += late * change
    buffer[index] = 0.0


@njit_noalloc_inner()
def clear(chains, i, route, sizes, buffer):
    """Empty the buffer."""
    ptr, indptr, indices = chains.ptr, chains.indptr, chains.indices
    n_labels, biases = chains.shape.n_labels, chains.shape.biases
    start, end, base = offsets(chains.shape)
    for e in range(sizes[0]):
        t, a = ptr[i] + route.nodes[e], route.labels[e]
        for k in range(indptr[t], indptr[t + 1]):
            buffer[indices[k] * n_labels + a] = 0.0
        if biases:
            buffer[start + a] = buffer[end + a] = 0.0
    for e in range(sizes[1]):
        buffer[base + route.pairs[e]] = 0.0


@njit_noalloc_inner()
def update_weights(chains, planes, i, kind, step, limit, best, worst, numbers):
    """Carry a step over to the weights of block i and to l."""
    weights, losses, count = planes.weights, planes.losses, planes.counts[i]
    change = 0.0
    for k in range(count):
        change -= weights[i, k] * losses[i, k]
    if kind != PAIRWISE:
        for k in range(count):
            weights[i, k] *= 1.0 - step if kind == FW else 1.0 + step
    if kind != FW:
        weights[i, worst] = 0.0 if step == limit else max(weights[i, worst] - step, 0.0)
    if kind != AWAY:
        weights[i, best] += step
    else:  # rounding errors would grow by 1 + step each time
        norm(weights, i, count)
    for k in range(count):
        change += weights[i, k] * losses[i, k]
    change *= chains.weights[i]
    numbers[1] += change / chains.total
    numbers[2] += 0.5 * numbers[0] * (numbers[0] - 1.0) * change / chains.total
