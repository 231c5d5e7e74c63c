"""Searches for the stump and the depth-2 tree of largest edge over binned features.

The edge of a tree with leaves in {-1, 1} is ``sum over leaves |sum of the signed weights in it|``,
the signed weight of an example being ``u_i = d_i y_i``.  For a split of a node with total T and
left part P it is ``|P| + |T - P| = max(|T|, 2P - T, T - 2P)``: the largest and the smallest prefix
sum of a feature's histogram decide.  For a depth-2 tree the root's threshold moves over the bins,
and examples move in and out of the histogram of the left child; the right child's is the rest.

Moving examples of total ``|u|`` M changes the best value of a root's threshold by at most 2M.  So
some thresholds of every root are tried first, and between two of them only those that could beat
the best tree of all roots: the answer stays exact.

Bins are ``uint16``, one row an example, features in the order of falling numbers of bins;
``width[b]`` is the number of features with more than b bins.
"""

from __future__ import annotations

import numba
import numpy as np

COARSE = 16  # bins between the thresholds of a root that are tried first


@numba.njit(cache=True, nogil=True)
def histograms(bins, signed, n_slots):
    """``H[b, g]``: the sum of ``signed`` over the examples whose feature g is in bin b."""
    table = np.zeros((n_slots, bins.shape[1]), signed.dtype)
    for i in range(bins.shape[0]):
        if signed[i] != 0.0:
            for g in range(bins.shape[1]):
                table[bins[i, g], g] += signed[i]
    return table


@numba.njit(cache=True, nogil=True)
def _best_split(column, n_bins):
    """Threshold of the best split of one feature's histogram, its two leaves, its value."""
    total = column.sum()
    best, cut, left = -1.0, 0, 0.0
    p = 0.0
    for b in range(max(n_bins - 1, 1)):
        p += column[b]
        value = abs(p) + abs(total - p)
        if value > best:
            best, cut, left = value, b, p
    return cut, 1.0 if left >= 0 else -1.0, 1.0 if total - left >= 0 else -1.0, best


@numba.njit(cache=True, nogil=True)
def best_stumps(bins, n_bins, signed):
    """The stump of largest edge for every feature.

    Returns
    -------
    edges : array of shape (F,)
    nodes : int array of shape (F, 1, 2)
        Feature and threshold: bins up to it go left.
    leaves : array of shape (F, 2)
    """
    return stumps_of(histograms(bins, signed, n_bins.max()), n_bins)


@numba.njit(cache=True, nogil=True)
def stumps_of(table, n_bins):
    """The stump of largest edge for every feature, from :func:`histograms`."""
    n_features = table.shape[1]
    edges = np.empty(n_features)
    nodes = np.empty((n_features, 1, 2), np.int64)
    leaves = np.empty((n_features, 2))
    for g in range(n_features):
        nodes[g, 0, 0] = g
        nodes[g, 0, 1], leaves[g, 0], leaves[g, 1], edges[g] = _best_split(table[:, g], n_bins[g])
    return edges, nodes, leaves


@numba.njit(cache=True, nogil=True)
def _move(bins, order, signed, starts, at, to, left):
    """Let the left child have the root's bins up to ``to`` instead of those up to ``at``."""
    forth = to > at
    for k in range(starts[min(at, to) + 1], starts[max(at, to) + 1]):
        i = order[k]
        u = signed[i] if forth else -signed[i]
        if u != 0.0:
            for g in range(bins.shape[1]):
                left[bins[i, g], g] += u


@numba.njit(cache=True, nogil=True)
def _best_splits(left, below, width, values):
    """``values[0, g]``, ``values[1, g]``: the best split of the left and the right child by g.

    ``below[b, g]`` is the prefix sum over all examples.  Returns the sum of the best two.
    """
    n_features = left.shape[1]
    kind = left.dtype
    prefix = np.zeros(n_features, kind)
    high, low = np.zeros(n_features, kind), np.zeros(n_features, kind)
    high_right, low_right = np.zeros(n_features, kind), np.zeros(n_features, kind)
    for b in range(left.shape[0]):
        for g in range(width[b]):
            p = prefix[g] + left[b, g]
            prefix[g] = p
            high[g] = p if p > high[g] else high[g]
            low[g] = p if p < low[g] else low[g]
        for g in range(width[b]):
            p = below[b, g] - prefix[g]
            high_right[g] = p if p > high_right[g] else high_right[g]
            low_right[g] = p if p < low_right[g] else low_right[g]
    best_left = best_right = 0.0
    for g in range(n_features):
        total, rest = prefix[g], below[-1, g] - prefix[g]
        values[0, g] = max(high[g] + high[g] - total, total - low[g] - low[g])
        values[1, g] = max(high_right[g] + high_right[g] - rest, rest - low_right[g] - low_right[g])
        best_left = max(best_left, values[0, g])
        best_right = max(best_right, values[1, g])
    return best_left + best_right


@numba.njit(cache=True, nogil=True)
def prefix_sums(bins, width, signed):
    """``below[b, g]``: the sum of ``signed`` over the examples with feature g in bins 0 .. b."""
    table = histograms(bins, signed, width.shape[0])
    for b in range(1, table.shape[0]):
        for g in range(table.shape[1]):
            table[b, g] += table[b - 1, g]
    return table


@numba.njit(cache=True, nogil=True)
def try_roots(bins, order, starts, n_bins, width, signed, below, first, last, tried):
    """``tried[f, t]`` for some thresholds t of roots ``first .. last - 1``: the best tree's edge.

    They are the first, the last, and every COARSE-th.
    """
    left = np.empty_like(below)
    values = np.empty((2, below.shape[1]))
    for f in range(first, last):
        left[:] = 0.0
        at = -1
        cuts = max(n_bins[f] - 1, 1)
        for t in range(cuts):
            if t % COARSE == COARSE // 2 or t == cuts - 1 or t == 0:
                _move(bins, order[f], signed, starts[f], at, t, left)
                at = t
                tried[f, t] = _best_splits(left, below, width, values)


@numba.njit(cache=True, nogil=True)
def _most_promising(tried, mass, t0, t1):
    """The threshold strictly between two tried ones that could have the largest edge, and it."""
    best, where = -1.0, t0
    for t in range(t0 + 1, t1):
        bound = min(
            tried[t0] + 2.0 * (mass[t + 1] - mass[t0 + 1]),
            tried[t1] + 2.0 * (mass[t1 + 1] - mass[t + 1]),
        )
        if bound > best:
            best, where = bound, t
    return where, best


@numba.njit(cache=True, nogil=True)
def _write_child(left, below, n_bins, g, of_left, node, leaves):
    """Write the best split of a child by feature g: its node and its two leaves."""
    table = left[:, g].copy()
    if not of_left:
        for b in range(table.size):
            table[b] = below[b, g] - (below[b - 1, g] if b else 0.0) - left[b, g]
    node[0] = g
    node[1], leaves[0], leaves[1], _ = _best_split(table, n_bins[g])


@numba.njit(cache=True, nogil=True)
def best_trees(bins, order, starts, n_bins, width, signed, below, first, last, tried, record):
    """A depth-2 tree of large edge for every root feature in ``first .. last - 1``.

    The largest over all roots is exact.  ``order[f]`` sorts the examples by feature f,
    ``starts[f, b]`` is where bin b begins in it; ``tried`` is what :func:`try_roots` found, NaN
    elsewhere, and ``record`` the largest of it.

    Returns
    -------
    edges : array of shape (last - first,)
    nodes : int array of shape (last - first, 3, 2)
        Feature and threshold of the root, the left and the right child.
    leaves : array of shape (last - first, 4)
    """
    left = np.empty_like(below)
    values = np.empty((2, below.shape[1]))
    edges = np.empty(last - first)
    nodes = np.empty((last - first, 3, 2), np.int64)
    leaves = np.empty((last - first, 4))
    mass = np.zeros(width.shape[0] + 1)  # sum |u| of the bins below
    for f in range(first, last):
        cuts = max(n_bins[f] - 1, 1)
        best, cut = -1.0, 0
        for t in range(cuts):
            mass[t + 1] = mass[t]
            for k in range(starts[f, t], starts[f, t + 1]):
                mass[t + 1] += abs(signed[order[f, k]])
            if tried[f, t] > best:
                best, cut = tried[f, t], t
        left[:] = 0.0
        at = -1
        t0 = 0
        while t0 < cuts - 1:
            t1 = t0 + 1
            while np.isnan(tried[f, t1]):
                t1 += 1
            t, bound = _most_promising(tried[f], mass, t0, t1)
            if bound <= max(best, record):
                t0 = t1
                continue
            _move(bins, order[f], signed, starts[f], at, t, left)
            at = t
            tried[f, t] = _best_splits(left, below, width, values)
            if tried[f, t] > best:
                best, cut = tried[f, t], t
        _move(bins, order[f], signed, starts[f], at, cut, left)
        k = f - first
        edges[k] = _best_splits(left, below, width, values)
        nodes[k, 0, 0] = f
        nodes[k, 0, 1] = cut
        for child in range(2):
            g = np.argmax(values[child])
            _write_child(
                left, below, n_bins, g, child == 0,
                nodes[k, 1 + child], leaves[k, 2 * child : 2 * child + 2],
            )  # fmt: skip
    return edges, nodes, leaves


@numba.njit(cache=True, nogil=True)
def propose_trees(
    bins, order, starts, n_bins, width, signed, below, first, last, n_tried, start, n_parts
):
    """Depth-2 trees of large edge for every root feature in ``first .. last - 1``, quickly.

    About ``n_tried`` of a root's thresholds are tried, others for each ``start``; from each of
    ``n_parts`` ranges of them the best is taken.  ``bins`` may be coarser than those of
    :func:`best_trees`, and sums are in the precision of ``signed``.

    Returns
    -------
    nodes : int array of shape (n_trees, 3, 2)
        Feature and threshold of the root; the features of its children, their thresholds unset.
    """
    left = np.empty_like(below)
    values = np.empty((2, below.shape[1]), below.dtype)
    nodes = np.empty((n_parts * (last - first), 3, 2), np.int64)
    n_trees = 0
    for f in range(first, last):
        left[:] = 0.0
        at, part, best = -1, -1, -1.0
        cuts = max(n_bins[f] - 1, 1)
        stride = max(cuts // n_tried, 1)
        for t in range(start % stride, cuts, stride):
            _move(bins, order[f], signed, starts[f], at, t, left)
            at = t
            value = _best_splits(left, below, width, values)
            if t * n_parts // cuts > part:
                part, best = t * n_parts // cuts, -1.0
                n_trees += 1
            if value > best:
                best = value
                nodes[n_trees - 1, 0, 0], nodes[n_trees - 1, 0, 1] = f, t
                nodes[n_trees - 1, 1, 0] = np.argmax(values[0])
                nodes[n_trees - 1, 2, 0] = np.argmax(values[1])
    return nodes[:n_trees]


@numba.njit(cache=True, nogil=True)
def finish_trees(columns, n_bins, signed, nodes, leaves):
    """Set the children's thresholds in ``nodes`` and the ``leaves`` to the best; answer the edges.

    ``columns`` has a row a feature.
    """
    edges = np.zeros(nodes.shape[0])
    table = np.empty((2, n_bins.max()))
    for k in range(nodes.shape[0]):
        table[:] = 0.0
        root, cut = columns[nodes[k, 0, 0]], nodes[k, 0, 1]
        left, right = columns[nodes[k, 1, 0]], columns[nodes[k, 2, 0]]
        for i in range(signed.size):
            if root[i] <= cut:
                table[0, left[i]] += signed[i]
            else:
                table[1, right[i]] += signed[i]
        for child in range(2):
            g = nodes[k, 1 + child, 0]
            nodes[k, 1 + child, 1], leaves[k, 2 * child], leaves[k, 2 * child + 1], value = (
                _best_split(table[child], n_bins[g])
            )
            edges[k] += value
    return edges


@numba.njit(cache=True, nogil=True)
def histograms_of_roots(bins, signed, n_slots):
    """``H[f, t, b, g]``: the sum of ``signed`` over examples with f in bin t and g in bin b."""
    n_features = bins.shape[1]
    table = np.zeros((n_features, n_slots, n_slots, n_features))
    for i in range(bins.shape[0]):
        if signed[i] != 0.0:
            for f in range(n_features):
                part = table[f, bins[i, f]]
                for g in range(n_features):
                    part[bins[i, g], g] += signed[i]
    return table


@numba.njit(cache=True, nogil=True)
def trees_of(table, n_bins, width):
    """The depth-2 tree of largest edge for every root, from :func:`histograms_of_roots`.

    Returns what :func:`best_trees` does.
    """
    n_features = table.shape[0]
    values = np.empty((2, n_features))
    edges = np.empty(n_features)
    nodes = np.empty((n_features, 3, 2), np.int64)
    leaves = np.empty((n_features, 4))
    for f in range(n_features):
        below = np.zeros(table.shape[2:])
        for t in range(table.shape[1]):
            below += table[f, t]
        for b in range(1, below.shape[0]):
            below[b] += below[b - 1]
        left = np.zeros_like(below)
        best, cut = -1.0, 0
        for t in range(max(n_bins[f] - 1, 1)):
            left += table[f, t]
            value = _best_splits(left, below, width, values)
            if value > best:
                best, cut = value, t
        left[:] = 0.0
        for t in range(cut + 1):
            left += table[f, t]
        edges[f] = _best_splits(left, below, width, values)
        nodes[f, 0, 0], nodes[f, 0, 1] = f, cut
        for child in range(2):
            g = np.argmax(values[child])
            _write_child(
                left, below, n_bins, g, child == 0,
                nodes[f, 1 + child], leaves[f, 2 * child : 2 * child + 2],
            )  # fmt: skip
    return edges, nodes, leaves


@numba.njit(cache=True, nogil=True)
def evaluate(columns, features, thresholds, leaves, out):
    """``out[k, i]``: the leaf of tree k that example i falls into; ``x <= threshold`` goes left.

    ``columns`` has a row a feature.  Trees are complete and stored as heaps: node v has children
    2v + 1 and 2v + 2.
    """
    n_nodes = features.shape[1]
    for k in range(features.shape[0]):
        if n_nodes == 3:  # without branches
            x0, x1, x2 = columns[features[k, 0]], columns[features[k, 1]], columns[features[k, 2]]
            t0, t1, t2 = thresholds[k, 0], thresholds[k, 1], thresholds[k, 2]
            a, b, c, e = leaves[k, 0], leaves[k, 1], leaves[k, 2], leaves[k, 3]
            for i in range(columns.shape[1]):
                left = a if x1[i] <= t1 else b
                right = c if x2[i] <= t2 else e
                out[k, i] = left if x0[i] <= t0 else right
            continue
        for i in range(columns.shape[1]):
            v = 0
            while v < n_nodes:
                v = 2 * v + (1 if columns[features[k, v], i] <= thresholds[k, v] else 2)
            out[k, i] = leaves[k, v - n_nodes]


@numba.njit(cache=True, nogil=True)
def leaf_sums(columns, features, thresholds, signed):
    """``S[k, leaf]``: the sum of ``signed`` over the examples in a leaf of tree k."""
    n_nodes = features.shape[1]
    sums = np.zeros((features.shape[0], n_nodes + 1))
    for k in range(features.shape[0]):
        for i in range(columns.shape[1]):
            v = 0
            while v < n_nodes:
                v = 2 * v + (1 if columns[features[k, v], i] <= thresholds[k, v] else 2)
            sums[k, v - n_nodes] += signed[i]
    return sums
