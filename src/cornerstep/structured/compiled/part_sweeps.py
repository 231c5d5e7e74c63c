"""Block steps of a structured SVM over labelings in parts: all of it but perhaps the oracle.

Block i is a convex combination of planes, sparse vectors mu_k of parts with weights a_k and losses
L_k.  A visit computes ``A_i w`` once, and with it the slopes ``s_k = p_i (L_k - w'psi_k)``, p_i
the example's share of the weights.  Steps need nothing else: with the products ``G_kl = <psi_k,
psi_l>``, which are kept, a change c of the weights makes ``s -= p_i² / lambda G c``.  So a visit
may make many, and w moves once, by ``p_i / lambda sum_k c_k psi_k``.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_alloc_inner
from cornerstep.structured.compiled.graph import UNKNOWN, best_labels
from cornerstep.structured.compiled.parts import (
    Parts,
    hamming,
    part_scores,
    plane_of,
    scatter_parts,
    unpack_nodes,
)
from cornerstep.structured.solvers.settings import BLOCK

FW, PAIRWISE, AWAY, AUTO = 0, 1, 2, 3
DONE, ASKS, FULL, LONG = 0, 1, 2, 3  # why a sweep ended: what it needs to go on
_ALONE, _ENOUGH = BLOCK.alone, BLOCK.enough


class Vectors(NamedTuple):
    """Sparse vectors of parts, one after the other."""

    indices: Any
    values: Any


class Cache(NamedTuple):
    """The planes of all blocks, with room for so many each, and the truths.

    Plane k of block i has the parts ``pool[starts[i, k]:][:sizes[i, k]]``; ``numbers[0]`` parts of
    the pool are in use.
    """

    weights: Any  # (n, room): 0 if a plane is only remembered
    losses: Any
    starts: Any
    sizes: Any
    products: Any  # (n, room, room): <psi_k, psi_l>
    counts: Any  # planes that each block has
    pool: Vectors
    numbers: Any
    truths: Vectors
    truth_ptr: Any


class Steps(NamedTuple):
    """What sweeps of a run share: the parts, and how they step."""

    parts: Parts
    shares: Any  # of the examples
    lam: float
    keep: int  # planes that a block remembers
    inner: int  # steps of a visit at most, where planes stand for the oracle


class Point(NamedTuple):
    """What steps change besides the planes: as ``State`` of chains."""

    w: Any
    v: Any
    numbers: Any
    gaps: Any


class Work(NamedTuple):
    """What a visit overwrites, but for ``buffer``, which is 0 between visits."""

    theta: Any
    back: Any  # a number per part
    delta: Any  # a number per part, 0 between visits
    nodes: Any
    labels: Any
    tables: Any
    slopes: Any
    along: Any  # G a
    moved: Any  # G c
    change: Any
    buffer: Any  # a number per weight
    answer: Vectors


@njit_alloc_inner()
def along(indices, values, start, size, theta):
    """``<mu, theta>``."""
    total = 0.0
    for e in range(start, start + size):
        total += values[e] * theta[indices[e]]
    return total


@njit_alloc_inner()
def spread(indices, values, start, size, amount, out):
    """``out += amount mu``."""
    for e in range(start, start + size):
        out[indices[e]] += amount * values[e]


@njit_alloc_inner()
def wipe(indices, start, size, out):
    """``out = 0`` at the parts of mu."""
    for e in range(start, start + size):
        out[indices[e]] = 0.0


@njit_alloc_inner()
def find(cache, i, answer, size, loss):
    """Which plane of block i the answer is; -1 if none."""
    for k in range(cache.counts[i]):
        if cache.sizes[i, k] == size and cache.losses[i, k] == loss:
            at, e = cache.starts[i, k], 0
            while (
                e < size
                and cache.pool.indices[at + e] == answer.indices[e]
                and cache.pool.values[at + e] == answer.values[e]
            ):
                e += 1
            if e == size:
                return k
    return -1


@njit_alloc_inner()
def free_place(cache, i, keep):
    """Where block i may have another plane: for one of weight 0 once it has ``keep``; else -1."""
    count, room = cache.counts[i], cache.weights.shape[1]
    if count >= min(keep, room):
        for k in range(count):
            if cache.weights[i, k] == 0.0:
                return k
    return count if count < room else -1


@njit_alloc_inner()
def put(cache, i, k, size, loss, parts, work):
    """Make the answer plane k of block i, with its products with the others."""
    begin = cache.truth_ptr[i]
    n_truth = cache.truth_ptr[i + 1] - begin
    at = cache.numbers[0]
    cache.pool.indices[at : at + size] = work.answer.indices[:size]
    cache.pool.values[at : at + size] = work.answer.values[:size]
    cache.numbers[0] += size
    cache.starts[i, k], cache.sizes[i, k] = at, size
    cache.weights[i, k], cache.losses[i, k] = 0.0, loss
    cache.counts[i] = max(cache.counts[i], k + 1)
    truths, pool = cache.truths, cache.pool
    target = work.buffer if parts.direct else work.delta
    spread(truths.indices, truths.values, begin, n_truth, 1.0, target)
    spread(pool.indices, pool.values, at, size, -1.0, target)
    back = target
    if not parts.direct:
        scatter_parts(parts, i, work.delta, 1.0, work.buffer, 0.0, work.buffer)
        part_scores(parts, i, work.buffer, work.back)
        back = work.back
    own = along(truths.indices, truths.values, begin, n_truth, back)
    for j in range(cache.counts[i]):
        other = along(pool.indices, pool.values, cache.starts[i, j], cache.sizes[i, j], back)
        cache.products[i, k, j] = cache.products[i, j, k] = own - other
    if not parts.direct:
        clear_parts(parts, i, work.delta, work.buffer)
    wipe(truths.indices, begin, n_truth, target)
    wipe(pool.indices, at, size, target)


@njit_alloc_inner()
def clear_parts(parts, i, delta, buffer):
    """``buffer = 0`` wherever ``A_i'delta`` may have something."""
    at = 0
    for factor in (parts.nodes, parts.edges):
        for r in range(factor.first[i], factor.first[i] + factor.counts[i]):
            for a in range(factor.width):
                if delta[at + a] != 0.0:
                    base = factor.base + a * factor.by_label
                    for k in range(factor.indptr[r], factor.indptr[r + 1]):
                        buffer[base + factor.indices[k] * factor.by_feature] = 0.0
            at += factor.width


@njit_alloc(nogil=True)
def sweep(order, rule, remembered, asked, steps, point, cache, work, given):
    """Visit the blocks in order: how many were, and why not all.

    With ``asked`` the answer for the first one is at hand, ``given = (parts, loss)`` being the
    length of it and its loss.  A sweep stops at a block whose oracle is not compiled (ASKS), that
    has no room for another plane (FULL), or when the pool has none (LONG).
    """
    room = work.answer.indices.shape[0]
    for position in range(order.shape[0]):
        i = order[position]
        if not remembered:
            if cache.numbers[0] + room > cache.pool.indices.shape[0]:
                return position, LONG
            if free_place(cache, i, steps.keep) < 0:
                return position, FULL
        found = asked and position == 0
        if visit(i, rule, remembered, found, steps, point, cache, work, given) == ASKS:
            return position, ASKS
    return order.shape[0], DONE


@njit_alloc_inner()
def visit(i, rule, remembered, found, steps, point, cache, work, given):
    """Steps in block i along the direction of the rule, to the oracle's answer or to planes."""
    parts, share, weights = steps.parts, steps.shares[i], cache.weights
    if not parts.direct:
        part_scores(parts, i, point.w, work.theta)
    theta = point.w if parts.direct else work.theta
    pool, truths, begin = cache.pool, cache.truths, cache.truth_ptr[i]
    own = along(truths.indices, truths.values, begin, cache.truth_ptr[i + 1] - begin, theta)
    slopes, middle = work.slopes, 0.0
    for k in range(cache.counts[i]):
        score = along(pool.indices, pool.values, cache.starts[i, k], cache.sizes[i, k], theta)
        slopes[k] = share * (cache.losses[i, k] + score - own)
        middle += weights[i, k] * slopes[k]
    best = -1
    if not remembered:
        size, loss = given[0], given[1]
        if not found:
            if parts.direct:
                return ASKS
            start = unpack_nodes(parts, i, theta, work.nodes, True)
            if best_labels(parts, i, theta, start, work.nodes, work.tables, work.labels) == UNKNOWN:
                return ASKS
            size = plane_of(parts, i, work.labels, work.answer.indices, work.answer.values)
            loss = hamming(parts, i, work.labels)
        answer = work.answer
        top = share * (loss + along(answer.indices, answer.values, 0, size, theta) - own)
        point.gaps[i] = max(top - middle, 0.0)
        best = find(cache, i, answer, size, loss)
        if best < 0:
            best = free_place(cache, i, steps.keep)
            put(cache, i, best, size, loss, parts, work)
        slopes[best] = top
    point.numbers[0] += 1.0
    move(i, best, rule, remembered, steps, cache, work, point)
    return DONE


@njit_alloc_inner()
def move(i, best, rule, remembered, steps, cache, work, point):
    """The steps of a visit, and what they make of w, v and l."""
    share, count, weights = steps.shares[i], cache.counts[i], cache.weights[i]
    curved = share * share / steps.lam
    slopes, change, ahead = work.slopes, work.change, work.along
    for k in range(count):
        change[k] = weights[k]
        total = 0.0
        for j in range(count):
            if weights[j] > 0.0:
                total += cache.products[i, k, j] * weights[j]
        ahead[k] = total
    first = 0.0
    for _ in range(steps.inner if remembered else 1):
        target = best
        if remembered:
            target = 0
            for k in range(1, count):
                if slopes[k] > slopes[target]:
                    target = k
        rise = step(i, target, rule, cache, curved, count, work)
        first = max(first, rise)
        if rise <= _ENOUGH * first:
            break
    update(i, steps, cache, work, point, count)


@njit_alloc_inner()
def step(i, best, rule, cache, curved, count, work):
    """The exact best step to plane ``best`` along the direction of the rule; its slope."""
    weights, products = cache.weights[i], cache.products[i]
    slopes, ahead, moved = work.slopes, work.along, work.moved
    worst, middle, square = -1, 0.0, 0.0
    for k in range(count):
        if weights[k] > 0.0:
            middle += weights[k] * slopes[k]
            square += weights[k] * ahead[k]
            if worst < 0 or slopes[k] < slopes[worst]:
                worst = k
    heavy, top, low = weights[worst], slopes[best], slopes[worst]
    back = middle - low if heavy < _ALONE else 0.0
    kind, gain, size, furthest, rise = -1, 0.0, 0.0, 0.0, 0.0
    for direction in range(3):
        if direction != rule and rule != AUTO and (rule != AWAY or direction == PAIRWISE):
            continue
        if rule == AWAY and direction == (AWAY if top - middle >= back else FW):
            continue
        if direction == FW:
            slope, limit = top - middle, 1.0
            bend = products[best, best] - 2.0 * ahead[best] + square
        elif direction == PAIRWISE:
            slope, limit = top - low, heavy
            bend = products[best, best] - 2.0 * products[best, worst] + products[worst, worst]
        else:
            slope, limit = back, heavy / (1.0 - heavy) if heavy < _ALONE else 0.0
            bend = square - 2.0 * ahead[worst] + products[worst, worst]
        if slope <= 0.0:
            continue
        bend = max(bend, 0.0) * curved
        length = slope / bend if bend * limit > slope else limit
        wins = length * (slope - 0.5 * length * bend)
        if kind < 0 or wins > gain:
            gain, kind, size, furthest, rise = wins, direction, length, limit, slope
    if kind < 0:
        return 0.0
    for k in range(count):
        if kind == FW:
            moved[k] = products[k, best] - ahead[k]
        elif kind == PAIRWISE:
            moved[k] = products[k, best] - products[k, worst]
        else:
            moved[k] = ahead[k] - products[k, worst]
    for k in range(count):
        slopes[k] -= size * curved * moved[k]
        ahead[k] += size * moved[k]
    reweigh(weights, count, kind, size, furthest, best, worst)
    return rise


@njit_alloc_inner()
def reweigh(weights, count, kind, size, furthest, best, worst):
    """Carry a step over to the weights of a block."""
    factor = 1.0 - size if kind == FW else 1.0 + size if kind == AWAY else 1.0
    for k in range(count):
        weights[k] *= factor
    if kind != FW:
        weights[worst] = max(weights[worst] - size, 0.0) if size < furthest else 0.0
    if kind != AWAY:
        weights[best] += size
    else:  # rounding errors would grow by 1 + size each time
        weights[:count] /= weights[:count].sum()


@njit_alloc_inner()
def update(i, steps, cache, work, point, count):
    """``w += p_i / lambda sum_k c_k psi_k`` for the changes c of the weights; the same for l."""
    parts, share, pool = steps.parts, steps.shares[i], cache.pool
    delta = work.buffer if parts.direct else work.delta
    linear, moves = 0.0, False
    for k in range(count):
        c = cache.weights[i, k] - work.change[k]
        work.change[k] = c
        if c != 0.0:
            linear += c * cache.losses[i, k]
            spread(pool.indices, pool.values, cache.starts[i, k], cache.sizes[i, k], -c, delta)
            moves = True
    if not moves:
        return
    late = 0.5 * point.numbers[0] * (point.numbers[0] - 1.0)
    amount = share / steps.lam
    if parts.direct:
        for k in range(count):
            if work.change[k] != 0.0:
                for e in range(cache.starts[i, k], cache.starts[i, k] + cache.sizes[i, k]):
                    at = pool.indices[e]
                    x = amount * delta[at]
                    delta[at] = 0.0
                    point.w[at] += x
                    point.v[at] += late * x
    else:
        scatter_parts(parts, i, delta, amount, point.w, late, point.v)
        for k in range(count):
            if work.change[k] != 0.0:
                wipe(pool.indices, cache.starts[i, k], cache.sizes[i, k], delta)
    point.numbers[1] += share * linear
    point.numbers[2] += late * share * linear


@njit_alloc(nogil=True)
def rebuild(steps, cache, work, w):
    """Norm the weights of every block, then ``w += sum_i p_i sum_k a_ik psi_ik / lambda``; l."""
    parts, total, pool, truths = steps.parts, 0.0, cache.pool, cache.truths
    for i in range(cache.counts.shape[0]):
        share, count = steps.shares[i], cache.counts[i]
        cache.weights[i, :count] /= cache.weights[i, :count].sum()
        begin, amount = cache.truth_ptr[i], share / steps.lam
        size = cache.truth_ptr[i + 1] - begin
        target = w if parts.direct else work.delta
        scale = amount if parts.direct else 1.0
        spread(truths.indices, truths.values, begin, size, scale, target)
        for k in range(count):
            a = cache.weights[i, k]
            if a > 0.0:
                at = cache.starts[i, k]
                spread(pool.indices, pool.values, at, cache.sizes[i, k], -scale * a, target)
                total += share * a * cache.losses[i, k]
        if not parts.direct:
            scatter_parts(parts, i, work.delta, amount, w, 0.0, w)
            wipe(truths.indices, begin, size, work.delta)
            for k in range(count):
                wipe(pool.indices, cache.starts[i, k], cache.sizes[i, k], work.delta)
    return total


@njit_alloc(nogil=True)
def reproduct(steps, cache, work):
    """Compute all products of planes anew: of planes that came from another run."""
    for i in range(cache.counts.shape[0]):
        for k in range(cache.counts[i]):
            at, size = cache.starts[i, k], cache.sizes[i, k]
            weight, loss = cache.weights[i, k], cache.losses[i, k]
            work.answer.indices[:size] = cache.pool.indices[at : at + size]
            work.answer.values[:size] = cache.pool.values[at : at + size]
            used = cache.numbers[0]
            cache.numbers[0] = at
            put(cache, i, k, size, loss, steps.parts, work)
            cache.numbers[0] = used
            cache.weights[i, k] = weight


@njit_alloc(nogil=True)
def move_together(cache, indices, values):
    """The planes without gaps between them, in another pool; how many parts they have."""
    used = 0
    for i in range(cache.counts.shape[0]):
        for k in range(cache.counts[i]):
            at, size = cache.starts[i, k], cache.sizes[i, k]
            indices[used : used + size] = cache.pool.indices[at : at + size]
            values[used : used + size] = cache.pool.values[at : at + size]
            cache.starts[i, k] = used
            used += size
    return used


@njit_alloc(nogil=True)
def decode_parts(parts, w, first, last, truths, truth_ptr, work, labels, values, known):
    """The loss-augmented labelings of examples ``first`` to ``last - 1`` and their hinges.

    ``labels`` has a place per node; ``known[i]`` says how the example was decoded.
    """
    for i in range(first, last):
        part_scores(parts, i, w, work.theta)
        start = unpack_nodes(parts, i, work.theta, work.nodes, True)
        found = labels[parts.node_ptr[i] : parts.node_ptr[i + 1]]
        how = best_labels(parts, i, work.theta, start, work.nodes, work.tables, work.labels)
        known[i] = how
        if how == UNKNOWN:
            continue
        found[:] = work.labels[: found.size]
        size = plane_of(parts, i, work.labels, work.answer.indices, work.answer.values)
        begin = truth_ptr[i]
        own = along(truths.indices, truths.values, begin, truth_ptr[i + 1] - begin, work.theta)
        top = along(work.answer.indices, work.answer.values, 0, size, work.theta)
        values[i] = hamming(parts, i, work.labels) + top - own


def vectors(room: int) -> Vectors:
    """Room for so many parts."""
    return Vectors(np.zeros(room, np.int32), np.zeros(room))
