"""Sweeps of the multi-class dual: ``max over alpha of -1/2 |W|² - sum_i s_i (<Delta_i, alpha_i> +
mu/2 |alpha_i|²)`` with ``W = sum_i s_i x_i alpha_i'``, ``alpha_i = (1'beta_i) e_y - beta_i``.

What is shared by the functions here:

- ``rows = (kind, matrix, indptr, indices, values)``: the examples.  DENSE: ``matrix`` holds x_i in
  row i.  CSR: the other three arrays do.  GRAM: row ``indptr[i]`` of ``matrix`` is that of example
  i in the kernel matrix.
- ``image``: W with a row per class (DENSE), its transpose (CSR), or the scores of all examples with
  a row per class (GRAM).
- ``pool = (starts, classes, beta)``: the classes that example i may give weight to are
  ``classes[starts[i]:starts[i + 1]]``, its label left out.  Other classes have beta = 0.
- ``problem = (labels, scales, norms, costs, mode, rho, family, mu, reals, integers)``: y_i, s_i,
  |x_i|², Delta as in :func:`cost_row`, and the family as in
  :func:`cornerstep.multiclass.compiled.projection.project`; then scratch memory, rows of floats and
  of integers longer than there are classes or weights in rho.  A plain tuple, unpacked under these
  names: the dispatcher takes 5 µs longer for a named one, a seventh of a fit of iris.

References
----------
.. [1] S. Shalev-Shwartz, T. Zhang. Stochastic dual coordinate ascent methods for regularized loss
   minimization. Journal of Machine Learning Research 14, 567-599, 2013.
.. [2] M. Lapin, M. Hein, B. Schiele. Top-k multiclass SVM. NIPS 2015.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_small
from cornerstep.multiclass.compiled.projection import project

DENSE, CSR, GRAM = 0, 1, 2
COST_ONE, COST_BY_LABEL, COST_BY_EXAMPLE = 0, 1, 2

# Sums may be reordered (vectorised); NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}

# A linear congruential generator, of which the upper half of the bits is used (Knuth's constants).
_MULTIPLIER, _INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
_HALF = np.uint64(32)


@njit_noalloc_small()
def cost_row(mode, i, y):
    """Which row of the costs is Delta of example i with label y."""
    if mode == COST_ONE:
        return 0
    return y if mode == COST_BY_LABEL else i


@njit_noalloc_small()
def is_whole(family):
    """The family as a bool."""
    if family is None:
        return False
    return family


@njit_noalloc_small(fastmath=_FAST)
def read(rows, image, i, classes, out):
    """``out[a] = <x_i, w_classes[a]>``."""
    kind, matrix, indptr, indices, values = rows
    if kind == DENSE:
        x = matrix[i]
        for a in range(classes.shape[0]):
            w = image[classes[a]]
            total = 0.0
            for k in range(x.shape[0]):
                total += w[k] * x[k]
            out[a] = total
    elif kind == CSR:
        for a in range(classes.shape[0]):
            out[a] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            w = image[indices[k]]
            for a in range(classes.shape[0]):
                out[a] += values[k] * w[classes[a]]
    else:
        for a in range(classes.shape[0]):
            out[a] = image[classes[a], i]


@njit_noalloc_small(fastmath=_FAST)
def add(rows, image, i, classes, amounts):
    """``w_classes[a] += amounts[a] x_i``."""
    kind, matrix, indptr, indices, values = rows
    if kind == CSR:
        for k in range(indptr[i], indptr[i + 1]):
            w = image[indices[k]]
            for a in range(classes.shape[0]):
                w[classes[a]] += amounts[a] * values[k]
    else:
        x = matrix[indptr[i] if kind == GRAM else i]
        for a in range(classes.shape[0]):
            amount = amounts[a]
            if amount != 0.0:
                w = image[classes[a]]
                for k in range(x.shape[0]):
                    w[k] += amount * x[k]


@njit_noalloc()
def sweep(order, seed, rows, image, pool, problem, gains):
    """Solve the blocks of the examples in ``order`` exactly, one after the other, shuffled.

    Block i is the projection of ``(s_i q_i alpha_i - scores - Delta) / (s_i q_i + mu)``; the scores
    of its own classes are all it reads.  Writes by how much each block increased the dual objective
    to ``gains``, in the order that ``order`` has afterwards: a random one, chosen by ``seed``.
    """
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    scores, amounts, c, fresh, scratch = reals[0], reals[1], reals[2], reals[3], reals[4:6]
    ordering, pools, named = integers[0], integers[1], integers[2]
    state = np.uint64(seed)
    for position in range(order.shape[0]):
        gains[position] = 0.0
        state = state * _MULTIPLIER + _INCREMENT
        other = position + ((state >> _HALF) * np.uint64(order.shape[0] - position) >> _HALF)
        i = order[other]
        order[other] = order[position]
        order[position] = i
        first = starts[i]
        count = starts[i + 1] - first
        if count == 0:
            continue
        y = labels[i]
        delta = costs[cost_row(mode, i, y)]
        for a in range(count):
            named[a] = classes[first + a]
        named[count] = y
        read(rows, image, i, named[: count + 1], scores)
        own = scales[i] * norms[i]
        curvature = own + mu
        if curvature == 0.0:  # x_i = 0: any small curvature leads to the vertex of its costs
            curvature = 1e-8
        before = 0.0
        for a in range(count):
            old = beta[first + a]
            before += old
            scores[a] += delta[named[a]]
            c[a] = (own * old + scores[a]) / curvature
        b_y = (own * before - scores[count]) / curvature
        project(c[:count], b_y, rho, family, fresh, scratch, ordering[:count], pools)
        linear, square, drift, after = 0.0, 0.0, 0.0, 0.0
        for a in range(count):
            old = beta[first + a]
            change = fresh[a] - old
            after += fresh[a]
            linear += scores[a] * change
            square += change * change
            drift += fresh[a] * fresh[a] - old * old
            amounts[a] = -scales[i] * change
            beta[first + a] = fresh[a]
        change = after - before
        if square > 0.0:
            amounts[count] = scales[i] * change
            moving = 0  # only classes whose weights move are touched
            for a in range(count + 1):
                if amounts[a] != 0.0:
                    named[moving], amounts[moving] = named[a], amounts[a]
                    moving += 1
            add(rows, image, i, named[:moving], amounts[:moving])
            linear -= scores[count] * change
            square += change * change
            drift += after * after - before * before
            gains[position] = scales[i] * (linear - 0.5 * own * square - 0.5 * mu * drift)


@njit_noalloc(fastmath=_FAST)
def scan(scores, first, pool, problem, family, most, found, n_found, losses, slopes):
    """Look at all classes of examples ``first, first + 1, ...`` with the given rows of scores.

    Writes ``s_i Phi(scores)`` to ``losses`` if mu = 0, ``s_i <beta, scores - scores_y>`` with the
    maximiser beta of the loss (0 if mu > 0) to ``slopes``, and to ``found[i]`` up to ``most``
    classes without weight that block i would give weight to, best first.  ``family`` is that of the
    problem, once more: of an argument the type is known before what it rules out is compiled.
    """
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, _, mu, reals, integers = problem
    whole = is_whole(family)
    n, m = scores.shape
    heads = rho.shape[0]
    limit = 0.0
    for h in range(heads):
        limit += rho[h]
    top, places = reals[0], integers[0]
    for r in range(n):
        i = first + r
        y = labels[i]
        row, delta = scores[r], costs[cost_row(mode, i, y)]
        own = row[y]
        if starts[i] == starts[i + 1]:
            row[y] = -np.inf
            peak = -np.inf
            for j in range(m):
                z = row[j] + delta[j]
                peak = z if z > peak else peak
            if peak <= own:  # neither a loss nor weight, as for most examples
                losses[i] = 0.0
                slopes[i] = 0.0
                n_found[i] = 0
                continue
            row[y] = own
        # z in place of the scores, the `heads` largest of them in order
        for j in range(m):
            row[j] += delta[j] - own
        row[y] = 0.0
        if family is None:  # one weight
            peak, place = row[0], 0
            for j in range(1, m):
                z = row[j]
                place = j if z > peak else place
                peak = z if z > peak else peak
            top[0], places[0] = peak, place
        else:
            for h in range(heads):
                top[h] = -np.inf
            least = -np.inf
            for j in range(m):
                z = row[j]
                if z > least:
                    h = heads - 1
                    while h > 0 and top[h - 1] < z:
                        top[h], places[h] = top[h - 1], places[h - 1]
                        h -= 1
                    top[h], places[h] = z, j
                    least = top[heads - 1]
        loss, slope = 0.0, 0.0
        for h in range(heads):
            if whole or top[h] > 0.0:
                loss += rho[h] * top[h]
                if places[h] != y:
                    slope += rho[h] * (top[h] - delta[places[h]])
        if mu > 0.0:
            slopes[i] = 0.0
        else:
            losses[i] = scales[i] * loss if loss > 0.0 else 0.0
            slopes[i] = scales[i] * slope if loss > 0.0 else 0.0
        # the level above which a class without weight would get some
        weight, level, support = 0.0, np.inf, 0
        for p in range(starts[i], starts[i + 1]):
            if beta[p] > 0.0:
                support += 1
                weight += beta[p]
                held = row[classes[p]] - mu * beta[p]
                level = held if held < level else level
        if weight < limit * (1.0 - 1e-9) and mu * weight < level:
            level = mu * weight
        if whole and (loss <= 0.0 and support == 0):
            level = np.inf
        elif whole and support < heads:
            level = -np.inf
        if top[0] <= level:
            n_found[i] = 0
            continue
        for p in range(starts[i], starts[i + 1]):
            if beta[p] > 0.0:
                row[classes[p]] = -np.inf
        row[y] = -np.inf
        k, j = 0, i % m  # ties go to other classes for other examples
        for _ in range(m):
            j = j + 1 if j + 1 < m else 0
            z = row[j]
            if z <= level:
                continue
            if k < most:
                k += 1
            elif z <= row[found[i, most - 1]]:
                continue
            h = k - 1
            while h > 0 and row[found[i, h - 1]] < z:
                found[i, h] = found[i, h - 1]
                h -= 1
            found[i, h] = j
        n_found[i] = k


@njit_noalloc()
def repool(pool, found, n_found, fresh_starts, fresh_classes, fresh_beta):
    """Write a new pool: classes with weight, then those found; the rest leaves."""
    starts, classes, beta = pool
    at = 0
    for i in range(starts.shape[0] - 1):
        for p in range(starts[i], starts[i + 1]):
            if beta[p] > 0.0:
                fresh_classes[at] = classes[p]
                fresh_beta[at] = beta[p]
                at += 1
        for k in range(n_found[i]):
            fresh_classes[at] = found[i, k]
            fresh_beta[at] = 0.0
            at += 1
        fresh_starts[i + 1] = at


@njit_noalloc()
def dual_terms(pool, problem):
    """``sum_i s_i (<Delta_i, beta_i> - mu/2 |alpha_i|²)``: the dual without ``-1/2 |W|²``."""
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    total = 0.0
    for i in range(starts.shape[0] - 1):
        weight, linear, square = 0.0, 0.0, 0.0
        delta = costs[cost_row(mode, i, labels[i])]
        for p in range(starts[i], starts[i + 1]):
            b = beta[p]
            weight += b
            square += b * b
            linear += b * delta[classes[p]]
        total += scales[i] * (linear - 0.5 * mu * (square + weight * weight))
    return total


@njit_noalloc()
def pool_square(rows, image, pool, problem):
    """``|W|² = sum_i s_i <alpha_i, scores_i>``."""
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    scores, named = reals[0], integers[0]
    total = 0.0
    for i in range(starts.shape[0] - 1):
        count = starts[i + 1] - starts[i]
        if count == 0:
            continue
        for a in range(count):
            named[a] = classes[starts[i] + a]
        named[count] = labels[i]
        read(rows, image, i, named[: count + 1], scores)
        part = 0.0
        for a in range(count):
            part += beta[starts[i] + a] * (scores[count] - scores[a])
        total += scales[i] * part
    return total


@njit_noalloc(fastmath=_FAST)
def corners(scores, first, problem, alpha):
    """Turn rows of scores into the vertices ``u_i = (1'beta) e_y - beta`` that they point to.

    ``alpha`` holds the current dual points of these rows where mu > 0 and is empty otherwise; the
    vertex is then sought at ``scores + mu alpha``.  Returns ``sum s_i Phi`` at those scores and
    ``sum s_i <Delta_i, beta_i>``.
    """
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    whole = is_whole(family)
    n, m = scores.shape
    heads = rho.shape[0]
    top, places = reals[0], integers[0]
    loss_total, cost_total = 0.0, 0.0
    for r in range(n):
        i = first + r
        y = labels[i]
        row, delta = scores[r], costs[cost_row(mode, i, y)]
        if alpha.shape[0]:
            for j in range(m):
                row[j] += mu * alpha[r, j]
        own = row[y]
        for h in range(heads):
            top[h] = -np.inf
        for j in range(m):
            z = 0.0 if j == y else row[j] - own + delta[j]
            row[j] = 0.0
            if z > top[heads - 1]:
                h = heads - 1
                while h > 0 and top[h - 1] < z:
                    top[h], places[h] = top[h - 1], places[h - 1]
                    h -= 1
                top[h], places[h] = z, j
        loss = 0.0
        for h in range(heads):
            loss += rho[h] * (top[h] if whole else max(top[h], 0.0))
        if loss <= 0.0:
            continue
        loss_total += scales[i] * loss
        for h in range(heads):
            if places[h] != y and (whole or top[h] > 0.0):
                row[places[h]] = -rho[h]
                row[y] += rho[h]
                cost_total += scales[i] * rho[h] * delta[places[h]]
    return loss_total, cost_total
