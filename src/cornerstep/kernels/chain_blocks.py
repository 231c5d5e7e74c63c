"""Block steps of a structured SVM over chains: oracle, direction, exact step, update, all compiled.

``chains`` as in :mod:`cornerstep.kernels.chain`.  Block i is a convex combination of labelings:
``planes = (labels, keys, weights, losses, counts)``, where plane k of block i has the labels
``labels[room * ptr[i] + k * length:][:length]`` (room: how many a block can have), a fingerprint
``keys[i, k]``, a weight (0 if it is only remembered) and a loss.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cornerstep.kernels.chain import (
    add_costs,
    longest,
    loss,
    node_scores,
    offsets,
    same,
    scatter,
    score,
    viterbi,
)  # fmt: skip

FW, PAIRWISE, AWAY, AUTO = 0, 1, 2, 3
_ALONE = 1 - 1e-6  # a block does not step away from a plane that has all but this weight
_NOTHING = 1e-14  # what is left of a label's weight where all planes agree


@njit(cache=True, nogil=True)
def plane(planes, ptr, i, k):
    """The labels of plane k of block i."""
    length = ptr[i + 1] - ptr[i]
    start = planes[2].shape[1] * ptr[i] + k * length
    return planes[0][start : start + length]


@njit(cache=True, nogil=True)
def fingerprint(labels):
    """A number that equal labelings share."""
    key = np.int64(1469598103934665603)
    for t in range(labels.shape[0]):
        key = (key ^ labels[t]) * np.int64(1099511628211)
    return key


@njit(cache=True, nogil=True)
def grown(planes, ptr, room):
    """The same planes with more room."""
    old = planes[2].shape[1]
    labels = np.zeros(room * ptr[-1], planes[0].dtype)
    for i in range(ptr.shape[0] - 1):
        size = old * (ptr[i + 1] - ptr[i])
        labels[room * ptr[i] :][:size] = planes[0][old * ptr[i] :][:size]
    return labels


@njit(cache=True, nogil=True)
def rebuild(chains, planes, amount, w):
    """Norm the weights of every block to sum 1, then ``w += amount sum_i sum_k a_ik psi_i(y_k)``.

    Returns ``sum_i sum_k a_ik L_ik``.
    """
    ptr, truth = chains[0], chains[4]
    labels, keys, weights, losses, counts = planes
    total = 0.0
    for i in range(ptr.shape[0] - 1):
        here = truth[ptr[i] : ptr[i + 1]]
        weights[i, : counts[i]] /= weights[i, : counts[i]].sum()
        for k in range(counts[i]):
            a = weights[i, k]
            chosen = plane(planes, ptr, i, k)
            if a > 0.0 and not same(here, chosen):
                scatter(chains, i, here, amount * a, w)
                scatter(chains, i, chosen, -amount * a, w)
                total += a * losses[i, k]
    return total


@njit(cache=True, nogil=True)
def gather(planes, ptr, i, has_links, mean):
    """The block as marginals: ``mean = (nodes, pairs, touched)``; returns how many pairs it has.

    ``touched`` lists the positions in ``pairs`` that are not 0.
    """
    nodes, pairs, touched = mean
    weights, counts = planes[2], planes[4]
    length = ptr[i + 1] - ptr[i]
    n_labels = nodes.shape[1]
    nodes[:length] = 0.0
    count = 0
    for k in range(counts[i]):
        a = weights[i, k]
        if a == 0.0:
            continue
        labels = plane(planes, ptr, i, k)
        before = np.int64(labels[0])
        nodes[0, before] += a
        for t in range(1, length):
            here = np.int64(labels[t])
            nodes[t, here] += a
            if has_links:
                pair = before * n_labels + here
                if pairs[pair] == 0.0:
                    touched[count] = pair
                    count += 1
                pairs[pair] += a
            before = here
    return count


@njit(cache=True, nogil=True)
def spread(chains, i, x, v, u, mean, n_pairs, chosen, worst, moved, buffer):
    """The image of ``x (the block) + v (chosen) + u (worst)``, coefficients that sum to 0.

    ``psi = -sum of coefficient * phi`` is left in ``buffer``, the coefficients of single labels in
    ``moved``; returns ``|psi|²``.
    """
    ptr, indptr, indices, values, truth, costs, shape = chains
    n_labels, biases, has_links = shape[1], shape[2], shape[3]
    start, end, base = offsets(shape)
    nodes, pairs, touched = mean
    first = ptr[i]
    length = ptr[i + 1] - first
    for t in range(length):
        for a in range(n_labels):
            moved[t, a] = -x * nodes[t, a] if x != 0.0 else 0.0
        moved[t, chosen[t]] -= v
        moved[t, worst[t]] -= u
        for a in range(n_labels):
            c = moved[t, a]
            if abs(c) <= _NOTHING:
                moved[t, a] = 0.0
                continue
            for k in range(indptr[first + t], indptr[first + t + 1]):
                buffer[indices[k] * n_labels + a] += c * values[k]
            if biases and t == 0:
                buffer[start + a] += c
            if biases and t == length - 1:
                buffer[end + a] += c
    if has_links:
        if x != 0.0:
            for k in range(n_pairs):
                buffer[base + touched[k]] -= x * pairs[touched[k]]
        for t in range(1, length):
            buffer[base + np.int64(chosen[t - 1]) * n_labels + chosen[t]] -= v
            buffer[base + np.int64(worst[t - 1]) * n_labels + worst[t]] -= u
    # <psi, psi>, entry by entry of the sum that made it: no list of distinct indices is needed
    square = 0.0
    for t in range(length):
        for a in range(n_labels):
            c = moved[t, a]
            if c == 0.0:
                continue
            for k in range(indptr[first + t], indptr[first + t + 1]):
                square += c * values[k] * buffer[indices[k] * n_labels + a]
            if biases and t == 0:
                square += c * buffer[start + a]
            if biases and t == length - 1:
                square += c * buffer[end + a]
    if has_links:
        if x != 0.0:
            for k in range(n_pairs):
                square -= x * pairs[touched[k]] * buffer[base + touched[k]]
        for t in range(1, length):
            square -= v * buffer[base + np.int64(chosen[t - 1]) * n_labels + chosen[t]]
            square -= u * buffer[base + np.int64(worst[t - 1]) * n_labels + worst[t]]
    return max(square, 0.0)


@njit(cache=True, nogil=True)
def drain(chains, i, mean, n_pairs, chosen, worst, moved, buffer, amount, late, w, v):
    """``w += amount psi`` and ``v += amount late psi`` for the psi of :func:`spread`; empty it."""
    ptr, indptr, indices, values, truth, costs, shape = chains
    n_labels, biases, has_links = shape[1], shape[2], shape[3]
    start, end, base = offsets(shape)
    touched = mean[2]
    first = ptr[i]
    length = ptr[i + 1] - first
    for t in range(length):
        for a in range(n_labels):
            if moved[t, a] == 0.0:
                continue
            for k in range(indptr[first + t], indptr[first + t + 1]):
                _move(buffer, indices[k] * n_labels + a, amount, late, w, v)
            if biases and t == 0:
                _move(buffer, start + a, amount, late, w, v)
            if biases and t == length - 1:
                _move(buffer, end + a, amount, late, w, v)
    if has_links:
        for k in range(n_pairs):
            _move(buffer, base + touched[k], amount, late, w, v)
        for t in range(1, length):
            _move(buffer, base + np.int64(chosen[t - 1]) * n_labels + chosen[t], amount, late, w, v)
            _move(buffer, base + np.int64(worst[t - 1]) * n_labels + worst[t], amount, late, w, v)


@njit(cache=True, nogil=True)
def _move(buffer, index, amount, late, w, v):
    change = amount * buffer[index]
    w[index] += change
    v[index] += late * change
    buffer[index] = 0.0


@njit(cache=True, nogil=True)
def place(planes, ptr, i, chosen, key):
    """Which plane of block i is ``chosen``; -1 if none."""
    keys, counts = planes[1], planes[4]
    for k in range(counts[i]):
        if keys[i, k] == key and same(plane(planes, ptr, i, k), chosen):
            return k
    return -1


@njit(cache=True, nogil=True)
def put(planes, ptr, i, chosen, key, lost, keep):
    """A place for a new plane: of one of weight 0 once there are ``keep``, else at the end."""
    labels, keys, weights, losses, counts = planes
    slot = counts[i]
    if slot >= keep or slot == weights.shape[1]:
        for k in range(counts[i]):
            if weights[i, k] == 0.0:
                slot = k
                break
    if slot == counts[i]:
        counts[i] += 1
    weights[i, slot] = 0.0
    losses[i, slot] = lost
    keys[i, slot] = key
    plane(planes, ptr, i, slot)[:] = chosen
    return slot


@njit(cache=True, nogil=True)
def sweep(order, rule, remembered, keep, chains, lam, w, v, numbers, planes, gaps, buffer):
    """Block steps for the chains in ``order``, one after the other.

    A step asks the oracle (or with ``remembered`` only the planes of the block), chooses a
    direction by ``rule`` and goes the exact best way along it.  ``numbers = (t, l, late l)`` counts
    the steps and keeps ``l = sum a L / n``; ``v`` and ``late l`` make the weighted average of all
    points so far, ``w - v / s(t)`` with ``s(t) = t (t + 1)/2``.  Planes of weight 0 give way to new
    ones once a block has ``keep`` of them.

    Returns how many steps were taken: fewer than asked for if the planes ran out of room.
    """
    ptr, truth, costs, shape = chains[0], chains[4], chains[5], chains[6]
    labels, keys, weights, losses, counts = planes
    n, room = weights.shape
    n_labels, has_links = shape[1], shape[3]
    size = longest(ptr)
    theta, moved = np.empty((size, n_labels)), np.empty((size, n_labels))
    mean = (np.empty((size, n_labels)), np.zeros(n_labels**2), np.empty(n_labels**2, np.int64))
    found = np.empty(size, labels.dtype)
    links = np.zeros((n_labels, n_labels))
    base = offsets(shape)[2]
    for position in range(order.shape[0]):
        i = order[position]
        first, last = ptr[i], ptr[i + 1]
        count = counts[i]
        if count == room and not remembered and weights[i].min() > 0.0:
            return position
        length = node_scores(chains, w, 1.0, i, theta)
        if has_links:
            links = w[base:].reshape((n_labels, n_labels))
        here = truth[first:last]
        own = score(theta, length, links, has_links, here)
        # the derivatives of the dual in a_k, (L_k - w'psi_k)/n: their mean, best and worst
        n_pairs, middle, best, worst = 0, 0.0, -1, -1
        top, low = -np.inf, np.inf
        if rule != PAIRWISE:
            n_pairs = gather(planes, ptr, i, has_links, mean)
        if rule == FW and not remembered:
            middle = -own
            for k in range(count):
                middle += weights[i, k] * losses[i, k]
            for t in range(length):
                for a in range(n_labels):
                    middle += mean[0][t, a] * theta[t, a]
            for k in range(n_pairs):
                middle += mean[1][mean[2][k]] * w[base + mean[2][k]]
            middle /= n
        else:
            for k in range(count):
                a = weights[i, k]
                value = score(theta, length, links, has_links, plane(planes, ptr, i, k))
                value = (losses[i, k] + value - own) / n
                middle += a * value
                if value > top:
                    top, best = value, k
                if a > 0.0 and value < low:
                    low, worst = value, k
        if remembered:
            found[:length] = plane(planes, ptr, i, best)
            lost, key = losses[i, best], keys[i, best]
        else:
            add_costs(theta, length, here, costs[first:last], 1.0)
            top = (viterbi(theta, length, links, has_links, found) - own) / n
            lost = loss(here, found[:length], costs[first:last])
            gaps[i] = max(top - middle, 0.0)
            key = fingerprint(found[:length])
            best = place(planes, ptr, i, found[:length], key)
        chosen = found[:length]
        leaving = chosen if worst < 0 else plane(planes, ptr, i, worst)
        heavy = 1.0 if worst < 0 else weights[i, worst]
        back = middle - low if heavy < _ALONE else 0.0
        step, limit, gain, kind = 0.0, 0.0, 0.0, -1
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
            x, y, z = coefficients(direction)
            square = spread(chains, i, x, y, z, mean, n_pairs, chosen, leaving, moved, buffer)
            if rule == AUTO:  # only a trial: leave the buffer empty
                drain(chains, i, mean, n_pairs, chosen, leaving, moved, buffer, 0.0, 0.0, w, v)
            curvature = square / (lam * n * n)
            along = rise / curvature if curvature * furthest > rise else furthest
            wins = along * rise - 0.5 * along * along * curvature
            if kind < 0 or wins > gain:
                gain, kind, step, limit = wins, direction, along, furthest
        numbers[0] += 1.0
        if kind >= 0:
            if rule == AUTO:
                x, y, z = coefficients(kind)
                spread(chains, i, x, y, z, mean, n_pairs, chosen, leaving, moved, buffer)
            t = numbers[0]
            late = 0.5 * t * (t - 1.0)
            amount = step / (lam * n)
            drain(chains, i, mean, n_pairs, chosen, leaving, moved, buffer, amount, late, w, v)
            before = 0.0
            for k in range(count):
                before += weights[i, k] * losses[i, k]
            if kind != PAIRWISE:
                weights[i, :count] *= 1.0 - step if kind == FW else 1.0 + step
            if kind != FW:
                weights[i, worst] = 0.0 if step == limit else max(weights[i, worst] - step, 0.0)
            if kind != AWAY:
                if best < 0:
                    best = put(planes, ptr, i, chosen, key, lost, keep)
                weights[i, best] += step
            if kind == AWAY:  # rounding errors would grow by 1 + step each time
                weights[i, :count] /= weights[i, :count].sum()
            change = -before
            for k in range(counts[i]):
                change += weights[i, k] * losses[i, k]
            numbers[1] += change / n
            numbers[2] += late * change / n
        for k in range(n_pairs):
            mean[1][mean[2][k]] = 0.0
    return order.shape[0]


@njit(cache=True, nogil=True)
def coefficients(direction):
    """Of the block, the oracle's answer and the worst plane: ``v - x``, ``v - u`` or ``x - u``."""
    if direction == FW:
        return -1.0, 1.0, 0.0
    if direction == PAIRWISE:
        return 0.0, 1.0, -1.0
    return 1.0, 0.0, -1.0
