"""Searches for the stump and the depth-2 tree of largest edge over binned features.

The edge of a tree with leaves in {-1, 1} is ``sum over leaves |sum of the signed weights in it|``,
the signed weight of an example being ``u_i = d_i y_i``.  For a split of a node with total T and
left part P it is ``|P| + |T - P| = max(|T|, 2P - T, T - 2P)``: the largest and the smallest prefix
sum of a feature's histogram decide.  For a depth-2 tree the root's threshold sweeps over the bins
and moves examples from one histogram to the other.

Moving examples of total ``|u|`` M changes the best value of a root's threshold by at most 2M, so
thresholds that cannot win are passed over: the answer stays exact.

Bins are ``uint16``, one row an example, features in the order of falling numbers of bins;
``width[b]`` is the number of features with more than b bins.
"""

from __future__ import annotations

import numba
import numpy as np

_COARSE = 12  # bins between the thresholds that are tried first


@numba.njit(cache=True, nogil=True)
def histograms(bins, signed, n_slots):
    """``H[b, g]``: the sum of ``signed`` over the examples whose feature g is in bin b."""
    table = np.zeros((n_slots, bins.shape[1]))
    for i in range(bins.shape[0]):
        if signed[i] != 0.0:
            for g in range(bins.shape[1]):
                table[bins[i, g], g] += signed[i]
    return table


@numba.njit(cache=True, nogil=True)
def _best_split_value(table, width, scratch):
    """The largest ``|P| + |T - P|`` over all features and thresholds."""
    n_features = table.shape[1]
    prefix, highest, lowest = scratch[0], scratch[1], scratch[2]
    for g in range(n_features):
        prefix[g] = 0.0
        highest[g] = 0.0
        lowest[g] = 0.0
    for b in range(table.shape[0]):
        for g in range(width[b]):
            p = prefix[g] + table[b, g]
            prefix[g] = p
            highest[g] = p if p > highest[g] else highest[g]
            lowest[g] = p if p < lowest[g] else lowest[g]
    best = 0.0
    for g in range(n_features):
        value = max(2.0 * highest[g] - prefix[g], prefix[g] - 2.0 * lowest[g])
        best = max(best, value)
    return best


@numba.njit(cache=True, nogil=True)
def _best_split(table, g, n_bins):
    """Threshold, left and right total of the best split of feature g, and its value."""
    total = table[:, g].sum()
    best, cut, left = -1.0, 0, 0.0
    p = 0.0
    for b in range(max(n_bins - 1, 1)):
        p += table[b, g]
        value = abs(p) + abs(total - p)
        if value > best:
            best, cut, left = value, b, p
    return cut, left, total - left, best


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
    n_features = bins.shape[1]
    table = histograms(bins, signed, n_bins.max())
    edges = np.empty(n_features)
    nodes = np.empty((n_features, 1, 2), np.int64)
    leaves = np.empty((n_features, 2))
    for g in range(n_features):
        cut, left, right, edges[g] = _best_split(table, g, n_bins[g])
        nodes[g, 0, 0] = g
        nodes[g, 0, 1] = cut
        leaves[g, 0] = 1.0 if left >= 0 else -1.0
        leaves[g, 1] = 1.0 if right >= 0 else -1.0
    return edges, nodes, leaves


@numba.njit(cache=True, nogil=True)
def _move(bins, order, signed, start, stop, left, right):
    """Move examples ``order[start:stop]`` from the right to the left; return their ``sum |u|``."""
    moved = 0.0
    for k in range(start, stop):
        i = order[k]
        u = signed[i]
        if u != 0.0:
            moved += abs(u)
            for g in range(bins.shape[1]):
                b = bins[i, g]
                left[b, g] += u
                right[b, g] -= u
    return moved


@numba.njit(cache=True, nogil=True)
def _children(table, n_bins, nodes, leaves):
    """Write the best split of a child: its node and its two leaves."""
    best = -1.0
    for g in range(table.shape[1]):
        cut, left, right, value = _best_split(table, g, n_bins[g])
        if value > best:
            best = value
            nodes[0] = g
            nodes[1] = cut
            leaves[0] = 1.0 if left >= 0 else -1.0
            leaves[1] = 1.0 if right >= 0 else -1.0
    return best


@numba.njit(cache=True, nogil=True)
def best_trees(bins, order, starts, n_bins, width, signed, first, last):
    """The depth-2 tree of largest edge for every root feature in ``first .. last - 1``.

    ``order[f]`` sorts the examples by feature f, ``starts[f, b]`` is where bin b begins in it.

    Returns
    -------
    edges : array of shape (last - first,)
    nodes : int array of shape (last - first, 3, 2)
        Feature and threshold of the root, the left and the right child.
    leaves : array of shape (last - first, 4)
    """
    n_features = bins.shape[1]
    total = histograms(bins, signed, width.shape[0])
    left, right = np.empty_like(total), np.empty_like(total)
    scratch = np.empty((3, n_features))
    edges = np.empty(last - first)
    nodes = np.empty((last - first, 3, 2), np.int64)
    leaves = np.empty((last - first, 4))
    for f in range(first, last):
        cuts = max(n_bins[f] - 1, 1)
        n_coarse = (cuts - 1) // _COARSE + 1
        values = np.full(n_coarse + 1, np.inf)
        mass = np.zeros(cuts + 1)  # sum |u| of the bins below
        best, cut = -1.0, 0
        left[:] = 0.0
        right[:] = total
        for t in range(cuts):
            moved = _move(bins, order[f], signed, starts[f, t], starts[f, t + 1], left, right)
            mass[t + 1] = mass[t] + moved
            if t % _COARSE == 0:
                value = _best_split_value(left, width, scratch)
                value += _best_split_value(right, width, scratch)
                values[t // _COARSE] = value
                if value > best:
                    best, cut = value, t
        left[:] = 0.0
        right[:] = total
        known = values[0]  # the value at the last threshold tried, at mass `at`
        at = mass[1]
        reached = 0  # bins below are on the left
        for t in range(cuts):
            if t % _COARSE == 0:
                known, at = values[t // _COARSE], mass[t + 1]
                continue
            after = (t // _COARSE + 1) * _COARSE
            bound = known + 2.0 * (mass[t + 1] - at)
            if after < cuts:
                ahead = values[after // _COARSE] + 2.0 * (mass[after + 1] - mass[t + 1])
                bound = min(bound, ahead)
            if bound <= best or mass[t + 1] == at:
                continue
            _move(bins, order[f], signed, starts[f, reached], starts[f, t + 1], left, right)
            reached = t + 1
            value = _best_split_value(left, width, scratch)
            value += _best_split_value(right, width, scratch)
            known, at = value, mass[t + 1]
            if value > best:
                best, cut = value, t
        left[:] = 0.0
        right[:] = total
        _move(bins, order[f], signed, starts[f, 0], starts[f, cut + 1], left, right)
        k = f - first
        nodes[k, 0, 0] = f
        nodes[k, 0, 1] = cut
        edges[k] = _children(left, n_bins, nodes[k, 1], leaves[k, :2])
        edges[k] += _children(right, n_bins, nodes[k, 2], leaves[k, 2:])
    return edges, nodes, leaves


@numba.njit(cache=True, nogil=True)
def evaluate(rows, features, thresholds, leaves, out):
    """``out[k, i]``: the leaf of tree k that row i falls into; ``x <= threshold`` goes left.

    Trees are complete and stored as heaps: node v has children 2v + 1 and 2v + 2.
    """
    n_nodes = features.shape[1]
    for k in range(features.shape[0]):
        for i in range(rows.shape[0]):
            v = 0
            while v < n_nodes:
                v = 2 * v + (1 if rows[i, features[k, v]] <= thresholds[k, v] else 2)
            out[k, i] = leaves[k, v - n_nodes]
