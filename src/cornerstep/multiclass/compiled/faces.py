"""Faces of the multi-class dual: the directions on them, products along them, steps from them.

Records (``rows``, ``image``, ``pool``, ``problem``) are those of
:mod:`cornerstep.multiclass.compiled.sweeps`; ``faces`` is what :func:`tangents` fills.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit_noalloc, njit_noalloc_small
from cornerstep.multiclass.compiled.projection import project
from cornerstep.multiclass.compiled.sweeps import add, cost_row, is_whole, read


@njit_noalloc_small()
def _label_weight(sorted_beta, count, rho, family):
    """For the *whole* family: the scale s of beta and the weight ``s R - sum beta`` of the label.

    Any s with ``T_k <= s R_k`` and ``T_k + label <= s R_(k+1)`` will do, T_k and R_k the sums of
    the k largest; the middle of the interval leaves the most freedom.
    """
    if family is None:
        return 1.0, 0.0
    total, largest = 0.0, rho.sum()
    for k in range(count):
        total += sorted_beta[k]
    least, most = 0.0, 1.0
    head, room = 0.0, 0.0
    for k in range(count + 1):
        following = room + (rho[k] if k < rho.shape[0] else 0.0)
        if room > 0.0:
            least = max(least, head / room)
        if largest - following > 1e-12 * largest:
            most = min(most, (total - head) / (largest - following))
        if k < count:
            head += sorted_beta[k]
        room = following
    s = 0.5 * (least + most) if most - least > 1e-9 else min(least, 1.0)
    return s, s * largest - total


@njit_noalloc()
def tangents(examples, pool, problem, firsts, members, owners, radial):
    """Directions that stay on the current face: groups of entries that trade weight.

    On a face of B the sorted beta split at every k whose k largest sum to rho_1 + ... + rho_k
    (times s, for the *whole* family, where the label is one of the entries).  Weight moves inside
    the pieces; for the *each* family the last piece, if it has room, trades with the label
    (member -1).  Group g is ``members[firsts[g]:firsts[g + 1]]`` (pool positions) of ``owners[g]``.
    Where 0 < s < 1 the whole block may also grow or shrink: ``radial`` holds the unit direction of
    that, orthogonal to the trades.  Returns the number of groups.
    """
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    whole = is_whole(family)
    groups, at = 0, 0
    firsts[0] = 0  # also where no example has weight
    ordered, order = reals[0], integers[0]
    for position in range(examples.shape[0]):
        i = examples[position]
        count = 0
        weight = 0.0
        for p in range(starts[i], starts[i + 1]):
            if beta[p] > 0.0:
                weight += beta[p]
                k = count
                while k > 0 and ordered[k - 1] < beta[p]:
                    order[k], ordered[k] = order[k - 1], ordered[k - 1]
                    k -= 1
                order[k], ordered[k] = p, beta[p]
                count += 1
        if count == 0:
            continue
        s = 1.0
        if whole:
            s, label = _label_weight(ordered, count, rho, family)
            k = count
            while k > 0 and ordered[k - 1] < label:
                order[k], ordered[k] = order[k - 1], ordered[k - 1]
                k -= 1
            order[k], ordered[k] = -1, label
            count += 1
        growing = s < 1.0 - 1e-9
        first_group, begin = groups, at
        total, room = 0.0, 0.0
        for k in range(count):
            total += ordered[k]
            room += s * rho[k] if k < rho.shape[0] else 0.0
            members[at] = order[k]
            at += 1
            if total >= room * (1.0 - 1e-10) or (whole and k == count - 1):
                if at - begin > 1 or growing:
                    firsts[groups] = begin
                    owners[groups] = i
                    groups += 1
                    begin = at
                else:
                    at = begin
        if at > begin:
            members[at] = -1
            at += 1
            firsts[groups] = begin
            owners[groups] = i
            groups += 1
        firsts[groups] = at
        if whole:
            square = 0.0
            for g in range(first_group, groups):
                mean = 0.0
                for k in range(firsts[g], firsts[g + 1]):
                    mean += weight if members[k] < 0 else -beta[members[k]]
                mean = mean / (firsts[g + 1] - firsts[g]) if growing else 0.0
                for k in range(firsts[g], firsts[g + 1]):
                    radial[k] = mean
                    square += mean * mean
            if square > 1e-20:
                for k in range(firsts[first_group], at):
                    radial[k] /= np.sqrt(square)
    return groups


@njit_noalloc_small()
def onto_face(faces, v):
    """Project v onto the face: less its mean in each group, plus its radial part."""
    groups, firsts, members, owners, radial = faces
    g = 0
    while g < groups:
        i, first, dot = owners[g], firsts[g], 0.0
        while g < groups and owners[g] == i:
            mean = 0.0
            for k in range(firsts[g], firsts[g + 1]):
                mean += v[k]
                if radial.shape[0]:
                    dot += radial[k] * v[k]
            mean /= firsts[g + 1] - firsts[g]
            for k in range(firsts[g], firsts[g + 1]):
                v[k] -= mean
            g += 1
        if dot != 0.0:
            for k in range(first, firsts[g]):
                v[k] += dot * radial[k]


@njit_noalloc_small()
def _names(group, firsts, members, owners, classes, labels, named):
    """The classes of a group, in the order of its members."""
    count = firsts[group + 1] - firsts[group]
    for a in range(count):
        member = members[firsts[group] + a]
        named[a] = labels[owners[group]] if member < 0 else classes[member]
    return count


@njit_noalloc()
def proximal(examples, rows, image, pool, problem, damping, fresh):
    """The proximal dual points at the weights of ``image``, beta being the centre.

    For each example ``max over alpha of -<alpha, scores + Delta> - mu/2 |alpha|² -
    damping/2 |alpha - centre|²``.  Writes the maximisers to ``fresh`` and returns the sum, times
    s_i, of the maxima.
    """
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    scores, c, scratch = reals[0], reals[1], reals[2:4]
    ordering, pools, named = integers[0], integers[1], integers[2]
    total = 0.0
    for position in range(examples.shape[0]):
        i = examples[position]
        first = starts[i]
        count = starts[i + 1] - first
        y = labels[i]
        delta = costs[cost_row(mode, i, y)]
        for a in range(count):
            named[a] = classes[first + a]
        named[count] = y
        read(rows, image, i, named[: count + 1], scores)
        before = 0.0
        for a in range(count):
            before += beta[first + a]
            scores[a] += delta[named[a]]
            c[a] = (damping * beta[first + a] + scores[a]) / (damping + mu)
        b_y = (damping * before - scores[count]) / (damping + mu)
        out = fresh[first : first + count]
        project(c[:count], b_y, rho, family, out, scratch, ordering[:count], pools)
        value, square, distance, after = 0.0, 0.0, 0.0, 0.0
        for a in range(count):
            after += out[a]
            value += out[a] * scores[a]
            square += out[a] ** 2
            distance += (out[a] - beta[first + a]) ** 2
        value -= after * scores[count] + 0.5 * mu * (square + after**2)
        total += scales[i] * (value - 0.5 * damping * (distance + (after - before) ** 2))
    return total


@njit_noalloc()
def tangent_product(faces, rows, pool, problem, image, v, adding):
    """Add the image of ``v`` on the members of all groups to ``image``, or the other way round:

    write to ``v`` the scores of the weights of ``image`` for the members, projected on the face.
    """
    groups, firsts, members, owners, radial = faces
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    named = integers[0]
    for g in range(groups):
        count = _names(g, firsts, members, owners, classes, labels, named)
        part = v[firsts[g] : firsts[g + 1]]
        if adding:
            add(rows, image, owners[g], named[:count], part)
        else:
            read(rows, image, owners[g], named[:count], part)
    if not adding:
        onto_face(faces, v)


@njit_noalloc()
def tangent_hessian(faces, examples, pool, problem, ridge, projection, x, hessian):
    """Add ``sum_i s_i/ridge P_i (x) x_i x_i'`` to the lower blocks of ``hessian``.

    P_i projects onto the face's directions; the weights are ordered class by class, and blocks
    of a class with itself or an earlier one are written.  ``projection`` and ``x`` are room for a
    P_i and an x_i.
    """
    groups, firsts, members, owners, radial = faces
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    d = examples.shape[1]
    named = integers[0]
    g = 0
    while g < groups:
        i, first, count = owners[g], firsts[g], 0
        projection[:] = 0.0
        while g < groups and owners[g] == i:
            size = _names(g, firsts, members, owners, classes, labels, named[count:])
            for a in range(count, count + size):
                for b in range(count, count + size):
                    projection[a, b] = -1.0 / size
                projection[a, a] += 1.0
            count += size
            g += 1
        factor = scales[i] / ridge
        for u in range(d):
            x[u] = examples[i, u]
        for a in range(count):
            for b in range(count):
                if named[b] > named[a]:
                    continue
                weight = projection[a, b]
                if radial.shape[0]:
                    weight += radial[first + a] * radial[first + b]
                if weight != 0.0:
                    weight *= factor
                    row, column = named[a] * d, named[b] * d
                    for u in range(d):
                        share = weight * x[u]
                        line = hessian[row + u, column : column + d]
                        for v in range(d):
                            line[v] += share * x[v]


@njit_noalloc()
def tangent_gradient(faces, pool, problem, shift, out):
    """The dual's gradient in ``s_i alpha_i`` on the face: ``-(scores + Delta + mu alpha)``.

    Written over the scores in ``out``, which are on the face already; ``shift`` is as long.
    """
    groups, firsts, members, owners, radial = faces
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    for g in range(groups):
        i = owners[g]
        delta = costs[cost_row(mode, i, labels[i])]
        weight = 0.0
        for p in range(starts[i], starts[i + 1]):
            weight += beta[p]
        for k in range(firsts[g], firsts[g + 1]):
            member = members[k]
            if member < 0:
                shift[k] = mu * weight
            else:
                shift[k] = delta[classes[member]] - mu * beta[member]
    onto_face(faces, shift)
    for k in range(firsts[groups]):
        out[k] = -out[k] - shift[k]


@njit_noalloc()
def tangent_step(faces, rows, image, pool, problem, v, step):
    """``alpha_i <- project(alpha_i + step v_i / s_i)`` for every example with a group."""
    groups, firsts, members, owners, radial = faces
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    c, fresh, amounts, scratch = reals[0], reals[1], reals[2], reals[3:5]
    ordering, pools, named = integers[0], integers[1], integers[2]
    g = 0
    while g < groups:
        i = owners[g]
        first = starts[i]
        count = starts[i + 1] - first
        before = 0.0
        for a in range(count):
            c[a] = beta[first + a]
            before += beta[first + a]
        b_y = before
        while g < groups and owners[g] == i:
            for at in range(firsts[g], firsts[g + 1]):
                if members[at] < 0:
                    b_y += step * v[at] / scales[i]
                else:
                    c[members[at] - first] -= step * v[at] / scales[i]
            g += 1
        project(c[:count], b_y, rho, family, fresh, scratch, ordering[:count], pools)
        after = 0.0
        for a in range(count):
            after += fresh[a]
            amounts[a] = -scales[i] * (fresh[a] - beta[first + a])
            beta[first + a] = fresh[a]
            named[a] = classes[first + a]
        named[count] = labels[i]
        amounts[count] = scales[i] * (after - before)
        add(rows, image, i, named[: count + 1], amounts[: count + 1])


@njit_noalloc()
def pool_add(examples, rows, pool, problem, image):
    """Add the image of the pool's dual points of some examples to ``image``."""
    starts, classes, beta = pool
    labels, scales, norms, costs, mode, rho, family, mu, reals, integers = problem
    amounts, named = reals[0], integers[0]
    for position in range(examples.shape[0]):
        i = examples[position]
        count = starts[i + 1] - starts[i]
        total = 0.0
        for a in range(count):
            named[a] = classes[starts[i] + a]
            amounts[a] = -scales[i] * beta[starts[i] + a]
            total -= amounts[a]
        if total != 0.0 or count > 1:
            named[count], amounts[count] = labels[i], total
            add(rows, image, i, named[: count + 1], amounts[: count + 1])
