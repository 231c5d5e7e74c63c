"""Chains: scores, Viterbi, sum-product, and the block steps of a structured SVM over them.

``w'phi(x, y) = sum_t <W[:, y_t], x_t> + start[y_1] + end[y_L] + sum_t T[y_t, y_t+1]``, with the
weights in one vector: W by rows (a row per feature), then start and end where there are any, then T
by rows where there is one.  What the functions here share:

- ``chains = (ptr, indptr, indices, values, truth, costs, shape)``: the nodes of chain i are the
  rows ``ptr[i]:ptr[i + 1]`` of a CSR matrix; ``truth`` and ``costs`` have an entry per node (the
  label, and what another label costs); ``shape = (n_features, n_labels, biases, transitions)``.
- ``planes = (labels, weights, losses, counts)``: the labelings that block i is a convex combination
  of are ``labels[k, ptr[i]:ptr[i + 1]]`` for ``k < counts[i]``, with ``weights[i, k]`` (which may be
  0 for one that is only remembered) and ``losses[i, k]``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FW, PAIRWISE, AWAY, AUTO = 0, 1, 2, 3

# Sums may be reordered (vectorised); NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_NOTHING = 1e-14  # what is left of a label's weight where all planes agree


@njit(cache=True)
def offsets(shape):
    """Where start, end and T begin in the weights."""
    n_features, n_labels, biases, transitions = shape
    start = n_features * n_labels
    end = start + n_labels * biases
    return start, end, end + n_labels * biases


@njit(cache=True, nogil=True, fastmath=_FAST)
def node_scores(chains, w, scale, i, theta):
    """``theta[t, a] = scale (W'x_t)_a``, with start and end added to the first and last node."""
    ptr, indptr, indices, values, truth, costs, shape = chains
    n_labels, biases = shape[1], shape[2]
    start, end, _ = offsets(shape)
    first = ptr[i]
    length = ptr[i + 1] - first
    for t in range(length):
        row = theta[t]
        row[:n_labels] = 0.0
        for k in range(indptr[first + t], indptr[first + t + 1]):
            x = values[k] * scale
            base = indices[k] * n_labels
            part = w[base : base + n_labels]
            for a in range(n_labels):
                row[a] += x * part[a]
    if biases:
        for a in range(n_labels):
            theta[0, a] += scale * w[start + a]
            theta[length - 1, a] += scale * w[end + a]
    return length


@njit(cache=True, nogil=True, fastmath=_FAST)
def viterbi(theta, length, links, has_links, labels):
    """The labeling of largest score ``sum_t theta[t, y_t] + links[y_t, y_t+1]``; its score.

    ``theta`` is overwritten by the forward maxima; the way back searches each column once, so no
    back pointers are kept.
    """
    n_labels = theta.shape[1]
    total = 0.0
    if not has_links:
        for t in range(length):
            best = 0
            for a in range(1, n_labels):
                if theta[t, a] > theta[t, best]:
                    best = a
            labels[t] = best
            total += theta[t, best]
        return total
    column = np.empty(n_labels)
    for t in range(1, length):
        before = theta[t - 1]
        link = links[0]
        for b in range(n_labels):
            column[b] = before[0] + link[b]
        for a in range(1, n_labels):
            link = links[a]
            score = before[a]
            for b in range(n_labels):
                column[b] = max(column[b], score + link[b])
        for b in range(n_labels):
            theta[t, b] += column[b]
    best = 0
    for a in range(1, n_labels):
        if theta[length - 1, a] > theta[length - 1, best]:
            best = a
    labels[length - 1] = best
    total = theta[length - 1, best]
    for t in range(length - 2, -1, -1):
        after = labels[t + 1]
        best = 0
        for a in range(1, n_labels):
            if theta[t, a] + links[a, after] > theta[t, best] + links[best, after]:
                best = a
        labels[t] = best
    return total


@njit(cache=True, nogil=True)
def score(theta, length, links, has_links, labels):
    """``sum_t theta[t, y_t] + links[y_t, y_t+1]``."""
    total = theta[0, labels[0]]
    for t in range(1, length):
        total += theta[t, labels[t]]
        if has_links:
            total += links[labels[t - 1], labels[t]]
    return total


@njit(cache=True, nogil=True)
def links_of(chains, w, scale):
    """``scale T`` as a matrix; zeros if there are no transitions."""
    shape = chains[6]
    n_labels = shape[1]
    _, _, base = offsets(shape)
    out = np.zeros((n_labels, n_labels))
    if shape[3]:
        for a in range(n_labels):
            for b in range(n_labels):
                out[a, b] = scale * w[base + a * n_labels + b]
    return out


@njit(cache=True, nogil=True)
def longest(ptr):
    """The largest number of nodes of a chain."""
    most = 0
    for i in range(ptr.shape[0] - 1):
        most = max(most, ptr[i + 1] - ptr[i])
    return most


@njit(cache=True, nogil=True)
def decode(chains, w, first, last, augment, labels, values):
    """The best labelings of chains ``first`` to ``last - 1`` at w: with the costs (``augment``) or not.

    ``labels`` takes the labelings (an entry per node), ``values[i]`` the score of the best one
    above the truth's: the structured hinge, if augmented.
    """
    ptr, indptr, indices, features, truth, costs, shape = chains
    n_labels, has_links = shape[1], shape[3]
    links = links_of(chains, w, 1.0)
    theta = np.empty((longest(ptr), n_labels))
    for i in range(first, last):
        length = node_scores(chains, w, 1.0, i, theta)
        here = truth[ptr[i] : ptr[i + 1]]
        base = score(theta, length, links, has_links, here)
        if augment:
            add_costs(theta, length, here, costs[ptr[i] : ptr[i + 1]], 1.0)
        best = viterbi(theta, length, links, has_links, labels[ptr[i] : ptr[i + 1]])
        values[i] = best - base


@njit(cache=True, nogil=True)
def all_scores(chains, w, out):
    """The scores of all nodes, one row each."""
    ptr = chains[0]
    for i in range(ptr.shape[0] - 1):
        node_scores(chains, w, 1.0, i, out[ptr[i] : ptr[i + 1]])


@njit(cache=True, nogil=True)
def add_costs(theta, length, here, costs, scale):
    """Add ``scale`` times the cost of a wrong label to all labels but the true one."""
    n_labels = theta.shape[1]
    for t in range(length):
        for a in range(n_labels):
            theta[t, a] += scale * costs[t]
        theta[t, here[t]] -= scale * costs[t]


@njit(cache=True, nogil=True)
def scatter(chains, i, labels, amount, w):
    """``w += amount * phi(x_i, labels)``."""
    ptr, indptr, indices, values, truth, costs, shape = chains
    n_labels, biases, has_links = shape[1], shape[2], shape[3]
    start, end, base = offsets(shape)
    first = ptr[i]
    length = ptr[i + 1] - first
    for t in range(length):
        for k in range(indptr[first + t], indptr[first + t + 1]):
            w[indices[k] * n_labels + labels[t]] += amount * values[k]
        if has_links and t > 0:
            w[base + labels[t - 1] * n_labels + labels[t]] += amount
    if biases:
        w[start + labels[0]] += amount
        w[end + labels[length - 1]] += amount


@njit(cache=True, nogil=True)
def scatter_all(chains, labels, amount, w):
    """``w += amount * sum_i (phi(x_i, y_i) - phi(x_i, labels_i))``; the sum of their losses."""
    ptr, truth, costs = chains[0], chains[4], chains[5]
    total = 0.0
    for i in range(ptr.shape[0] - 1):
        chosen = labels[ptr[i] : ptr[i + 1]]
        here = truth[ptr[i] : ptr[i + 1]]
        lost = loss(here, chosen, costs[ptr[i] : ptr[i + 1]])
        total += lost
        if lost > 0.0 or not same(here, chosen):
            scatter(chains, i, here, amount, w)
            scatter(chains, i, chosen, -amount, w)
    return total


@njit(cache=True, nogil=True)
def loss(here, labels, costs):
    """``sum of costs[t] where labels[t] is wrong``."""
    total = 0.0
    for t in range(here.shape[0]):
        if here[t] != labels[t]:
            total += costs[t]
    return total


@njit(cache=True, nogil=True)
def same(one, other):
    """Whether two labelings are equal."""
    for t in range(one.shape[0]):  # noqa: SIM110 - compiled
        if one[t] != other[t]:
            return False
    return True


@njit(cache=True, nogil=True)
def rebuild(chains, planes, amount, w):
    """Norm the weights of every block to sum 1, then ``w += amount sum_i sum_k a_ik psi_i(y_k)``.

    Returns ``sum_i sum_k a_ik L_ik``.
    """
    ptr, truth = chains[0], chains[4]
    labels, weights, losses, counts = planes
    total = 0.0
    for i in range(ptr.shape[0] - 1):
        here = truth[ptr[i] : ptr[i + 1]]
        weights[i, : counts[i]] /= weights[i, : counts[i]].sum()
        for k in range(counts[i]):
            a = weights[i, k]
            chosen = labels[k, ptr[i] : ptr[i + 1]]
            if a > 0.0 and not same(here, chosen):
                scatter(chains, i, here, amount * a, w)
                scatter(chains, i, chosen, -amount * a, w)
                total += a * losses[i, k]
    return total


@njit(cache=True, nogil=True)
def spread(chains, planes, i, chosen, coefficients, buffer, moved):
    """The image ``psi = -(sum_k c_k phi(y_k) + c_* phi(chosen))``, the coefficients summing to 0.

    The image is left in ``buffer``, ``moved`` takes the coefficients of single labels; returns
    ``|psi|²``.
    """
    ptr, indptr, indices, values, truth, costs, shape = chains
    labels, weights, losses, counts = planes
    n_labels, biases, has_links = shape[1], shape[2], shape[3]
    start, end, base = offsets(shape)
    first, last = ptr[i], ptr[i + 1]
    length = last - first
    count = counts[i]
    moved[:length] = 0.0
    for k in range(count + 1):
        c = coefficients[k]
        if c == 0.0:
            continue
        plane = chosen if k == count else labels[k, first:last]
        for t in range(length):
            moved[t, plane[t]] -= c
            if has_links and t > 0:
                buffer[base + plane[t - 1] * n_labels + plane[t]] -= c
    for t in range(length):
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
        for k in range(count + 1):
            c = coefficients[k]
            if c != 0.0:
                plane = chosen if k == count else labels[k, first:last]
                for t in range(1, length):
                    square -= c * buffer[base + plane[t - 1] * n_labels + plane[t]]
    return max(square, 0.0)


@njit(cache=True, nogil=True)
def drain(chains, planes, i, chosen, coefficients, buffer, moved, amount, late, w, v):
    """``w += amount psi`` and ``v += amount late psi`` for the psi of :func:`spread`; empty it."""
    ptr, indptr, indices, values, truth, costs, shape = chains
    labels, weights, losses, counts = planes
    n_labels, biases, has_links = shape[1], shape[2], shape[3]
    start, end, base = offsets(shape)
    first, last = ptr[i], ptr[i + 1]
    length = last - first
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
        count = counts[i]
        for k in range(count + 1):
            if coefficients[k] == 0.0:
                continue
            plane = chosen if k == count else labels[k, first:last]
            for t in range(1, length):
                _move(buffer, base + plane[t - 1] * n_labels + plane[t], amount, late, w, v)


@njit(cache=True, nogil=True)
def _move(buffer, index, amount, late, w, v):
    change = amount * buffer[index]
    w[index] += change
    v[index] += late * change
    buffer[index] = 0.0


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
    labels, weights, losses, counts = planes
    n, room = weights.shape
    n_labels, has_links = shape[1], shape[3]
    size = longest(ptr)
    theta, moved = np.empty((size, n_labels)), np.empty((size, n_labels))
    found = np.empty(size, labels.dtype)
    links = np.zeros((n_labels, n_labels))
    scores, c, tried = np.empty(room + 1), np.empty(room + 1), np.empty(room + 1)
    base = offsets(shape)[2]
    for position in range(order.shape[0]):
        i = order[position]
        first, last = ptr[i], ptr[i + 1]
        count = counts[i]
        if count == room and not remembered and (weights[i, :count] > 0.0).all():
            return position
        length = node_scores(chains, w, 1.0, i, theta)
        if has_links:
            links = w[base:].reshape((n_labels, n_labels))
        here = truth[first:last]
        own = score(theta, length, links, has_links, here)
        # the derivative of the dual in a_k: (L_k - w'psi_k)/n
        mean, best, worst = 0.0, -1, -1
        for k in range(count):
            value = score(theta, length, links, has_links, labels[k, first:last])
            scores[k] = (losses[i, k] + value - own) / n
            mean += weights[i, k] * scores[k]
            if best < 0 or scores[k] > scores[best]:
                best = k
            if weights[i, k] > 0.0 and (worst < 0 or scores[k] < scores[worst]):
                worst = k
        if remembered:
            found[:length] = labels[best, first:last]
            top, lost = scores[best], losses[i, best]
        else:
            add_costs(theta, length, here, costs[first:last], 1.0)
            top = (viterbi(theta, length, links, has_links, found) - own) / n
            lost = loss(here, found[:length], costs[first:last])
            gaps[i] = max(top - mean, 0.0)
            best = -1
            for k in range(count):
                if same(labels[k, first:last], found[:length]):
                    best = k
                    break
        chosen = found[:length]
        step, limit, gain, kind = 0.0, 0.0, 0.0, -1
        for direction in range(3):
            if direction != rule and rule != AUTO and (rule != AWAY or direction == PAIRWISE):
                continue
            if direction == FW:
                rise, furthest = top - mean, 1.0
                if rule == AWAY and rise < mean - scores[worst]:
                    continue
            elif direction == PAIRWISE:
                rise, furthest = top - scores[worst], weights[i, worst]
            else:
                rise = mean - scores[worst]
                if rule == AWAY and kind >= 0:
                    continue
                if weights[i, worst] >= 1.0:
                    continue
                furthest = weights[i, worst] / (1.0 - weights[i, worst])
            if rise <= 0.0:
                continue
            directions(direction, weights[i, :count], worst, tried)
            square = spread(chains, planes, i, chosen, tried, buffer, moved)
            if rule == AUTO:  # only a trial: leave the buffer empty
                drain(chains, planes, i, chosen, tried, buffer, moved, 0.0, 0.0, w, v)
            curvature = square / (lam * n * n)
            along = furthest
            if curvature * furthest > rise:
                along = rise / curvature
            wins = along * rise - 0.5 * along * along * curvature
            if wins > gain or kind < 0:
                gain, kind, step, limit = wins, direction, along, furthest
                c[: count + 1] = tried[: count + 1]
        numbers[0] += 1.0
        if kind < 0:
            continue
        if rule == AUTO:
            spread(chains, planes, i, chosen, c, buffer, moved)
        t = numbers[0]
        late = 0.5 * t * (t - 1.0)
        drain(chains, planes, i, chosen, c, buffer, moved, step / (lam * n), late, w, v)
        change = c[count] * lost
        for k in range(count):
            change += c[k] * losses[i, k]
        numbers[1] += step * change / n
        numbers[2] += late * step * change / n
        for k in range(count):
            if c[k] != 0.0:
                weights[i, k] = max(weights[i, k] + step * c[k], 0.0)
        if step == limit:  # the plane that the step ends at leaves
            if kind == FW:
                weights[i, :count] = 0.0
            else:
                weights[i, worst] = 0.0
        if c[count] != 0.0 and step > 0.0:
            slot = best
            if slot < 0 and count >= keep:
                for k in range(count):
                    if weights[i, k] == 0.0:
                        slot = k
                        break
            if slot < 0 and count == room:
                for k in range(count):
                    if weights[i, k] == 0.0:
                        slot = k
                        break
            if slot < 0:
                slot = count
                counts[i] += 1
            if slot != best:
                weights[i, slot] = 0.0
                losses[i, slot] = lost
                labels[slot, first:last] = chosen
            weights[i, slot] += step
    return order.shape[0]


@njit(cache=True, nogil=True)
def directions(kind, weights, worst, out):
    """Coefficients of planes and (last) of the oracle's answer in ``v - x``, ``v - u``, ``x - u``."""
    count = weights.shape[0]
    out[: count + 1] = 0.0
    if kind == FW:
        for k in range(count):
            out[k] = -weights[k]
        out[count] = 1.0
    elif kind == PAIRWISE:
        out[worst] = -1.0
        out[count] = 1.0
    else:
        for k in range(count):
            out[k] = weights[k]
        out[worst] -= 1.0


@njit(cache=True, nogil=True)
def subgradient_sweep(order, chains, lam, total, late, numbers):
    """``total += psi_i(y*)`` at ``w = total / (lam t)``, for the chains in order.

    ``numbers = (t, sum of L)``; ``late`` makes the average: ``sum over steps of total`` is
    ``t total - late``.
    """
    ptr, truth, costs, shape = chains[0], chains[4], chains[5], chains[6]
    n_labels, has_links = shape[1], shape[3]
    theta = np.empty((longest(ptr), n_labels))
    found = np.empty(theta.shape[0], np.int16)
    for position in range(order.shape[0]):
        i = order[position]
        first, last = ptr[i], ptr[i + 1]
        t = numbers[0]
        scale = 1.0 / (lam * t) if t > 0 else 0.0
        links = links_of(chains, total, scale)
        length = node_scores(chains, total, scale, i, theta)
        add_costs(theta, length, truth[first:last], costs[first:last], 1.0)
        viterbi(theta, length, links, has_links, found)
        here, chosen = truth[first:last], found[:length]
        numbers[0] += 1.0
        numbers[1] += loss(here, chosen, costs[first:last])
        if not same(here, chosen):
            scatter(chains, i, here, 1.0, total)
            scatter(chains, i, chosen, -1.0, total)
            scatter(chains, i, here, t, late)
            scatter(chains, i, chosen, -t, late)


@njit(cache=True, nogil=True)
def sum_product(chains, w, scale, temperature, first, last, marginals, pairs, expected):
    """Marginals of ``p(y) ~ exp(scale w'phi(x_i, y) + temperature L_i(y))``, by forward-backward.

    ``marginals`` has a row per node; ``pairs[i]`` takes the pair marginals, summed over the chain,
    and ``expected[i]`` the mean of L_i.
    """
    ptr, truth, costs, shape = chains[0], chains[4], chains[5], chains[6]
    n_labels, has_links = shape[1], shape[3]
    links = links_of(chains, w, scale)
    size = longest(ptr)
    theta, alpha, beta = (np.empty((size, n_labels)) for _ in range(3))
    for i in range(first, last):
        length = node_scores(chains, w, scale, i, theta)
        here, cost = truth[ptr[i] : ptr[i + 1]], costs[ptr[i] : ptr[i + 1]]
        add_costs(theta, length, here, cost, temperature)
        out = marginals[ptr[i] : ptr[i + 1]]
        if has_links:
            forward_backward(theta, length, links, alpha, beta, out, pairs[i])
        else:
            for t in range(length):
                top = theta[t].max()
                total = 0.0
                for a in range(n_labels):
                    out[t, a] = np.exp(theta[t, a] - top)
                    total += out[t, a]
                out[t] /= total
        lost = 0.0
        for t in range(length):
            lost += cost[t] * (1.0 - out[t, here[t]])
        expected[i] = lost


@njit(cache=True, nogil=True)
def forward_backward(theta, length, links, alpha, beta, marginals, pairs):
    """Node marginals and summed pair marginals, with logarithms throughout."""
    n_labels = theta.shape[1]
    column = np.empty(n_labels)
    alpha[0] = theta[0]
    for t in range(1, length):
        for b in range(n_labels):
            top = -np.inf
            for a in range(n_labels):
                column[a] = alpha[t - 1, a] + links[a, b]
                top = max(top, column[a])
            total = 0.0
            for a in range(n_labels):
                total += np.exp(column[a] - top)
            alpha[t, b] = theta[t, b] + top + np.log(total)
    beta[length - 1] = 0.0
    for t in range(length - 2, -1, -1):
        for a in range(n_labels):
            top = -np.inf
            for b in range(n_labels):
                column[b] = links[a, b] + theta[t + 1, b] + beta[t + 1, b]
                top = max(top, column[b])
            total = 0.0
            for b in range(n_labels):
                total += np.exp(column[b] - top)
            beta[t, a] = top + np.log(total)
    for t in range(length):
        top = -np.inf
        for a in range(n_labels):
            top = max(top, alpha[t, a] + beta[t, a])
        total = 0.0
        for a in range(n_labels):
            marginals[t, a] = np.exp(alpha[t, a] + beta[t, a] - top)
            total += marginals[t, a]
        for a in range(n_labels):
            marginals[t, a] /= total
    pairs[:] = 0.0
    for t in range(1, length):
        for a in range(n_labels):
            p = marginals[t - 1, a]
            if p < 1e-300:
                continue
            # p(b | a) ~ exp(links + theta + beta)
            top = -np.inf
            for b in range(n_labels):
                column[b] = links[a, b] + theta[t, b] + beta[t, b]
                top = max(top, column[b])
            total = 0.0
            for b in range(n_labels):
                column[b] = np.exp(column[b] - top)
                total += column[b]
            for b in range(n_labels):
                pairs[a, b] += p * column[b] / total


@njit(cache=True, nogil=True)
def scatter_marginals(chains, marginals, pairs, amount, w):
    """``w += amount * sum_i (phi(x_i, y_i) - E phi(x_i, y))`` for marginals of all chains."""
    ptr, indptr, indices, values, truth, costs, shape = chains
    n_labels, biases, has_links = shape[1], shape[2], shape[3]
    start, end, base = offsets(shape)
    for i in range(ptr.shape[0] - 1):
        first, last = ptr[i], ptr[i + 1]
        scatter(chains, i, truth[first:last], amount, w)
        for row in range(first, last):
            for k in range(indptr[row], indptr[row + 1]):
                x = amount * values[k]
                for a in range(n_labels):
                    w[indices[k] * n_labels + a] -= x * marginals[row, a]
        if biases:
            for a in range(n_labels):
                w[start + a] -= amount * marginals[first, a]
                w[end + a] -= amount * marginals[last - 1, a]
        if has_links:
            for a in range(n_labels):
                for b in range(n_labels):
                    w[base + a * n_labels + b] -= amount * pairs[i, a, b]
