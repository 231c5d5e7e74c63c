"""Searches for the stump and the depth-2 tree of largest edge over binned features.

The edge of a tree with leaves in {-1, 1} is ``sum over leaves |sum of the signed weights in it|``,
the signed weight of an example being ``u_i = d_i y_i``.  For a split of a node with total T and
left part P it is ``|P| + |T - P| = max(|T|, 2 |P - T/2|)``: the prefix sum of a feature's histogram
that is farthest from T/2 decides.  For a depth-2 tree the root's threshold moves over the bins, and
examples move in and out of the histogram of the left child; the right child's is the rest.

Moving examples of total ``|u|`` M changes the best value of a root's threshold by at most 2M.  So
some thresholds of every root are tried first, and between two of them only those that could beat
the best tree of all roots: the answer stays exact.

Bins are ``uint16``, one row per example, features in the order of falling numbers of bins.  The
histograms of a depth-2 search have shape (n_blocks, bins, LANES), a lane for each of the features
``LANES j .. LANES j + LANES - 1`` of block j; ``cells[i, g]`` is the place of an example's bin in
them, see :func:`cells_of`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cornerstep.boosting.compiled.lanes import LANES, largest_sums
from cornerstep.core.compiling import (
    njit_alloc,
    njit_alloc_inner,
    njit_noalloc,
    njit_noalloc_inner,
)

COARSE = 8  # bins between the thresholds of a root that are tried first


def cells_of(bins: npt.NDArray[Any], n_slots: int) -> npt.NDArray[Any]:
    """Where bins are in the histograms of a depth-2 search with ``n_slots`` bins, flat."""
    block, lane = np.divmod(np.arange(bins.shape[1]), LANES)
    size = (block[-1] + 1) * n_slots * LANES
    kind = np.uint16 if size <= 2**16 else np.uint32
    first = (block * n_slots * LANES + lane).astype(kind)
    cells: npt.NDArray[Any] = bins.astype(kind)
    cells *= kind(LANES)
    cells += first
    return cells


@njit_alloc(nogil=True)
def histograms(bins, signed, n_slots):
    """``H[b, g]``: the sum of ``signed`` over the examples whose feature g is in bin b."""
    table = np.zeros((n_slots, bins.shape[1]), signed.dtype)
    for i in range(bins.shape[0]):
        if signed[i] != 0.0:
            for g in range(bins.shape[1]):
                table[bins[i, g], g] += signed[i]
    return table


@njit_noalloc_inner(nogil=True)
def _best_split(column, n_bins):
    """Threshold of the best split of one feature's histogram, its two leaves, its value."""
    total, p = 0.0, 0.0
    for b in range(column.shape[0]):
        total += column[b]
    best, cut, left = -1.0, 0, 0.0
    for b in range(max(n_bins - 1, 1)):
        p += column[b]
        value = abs(p) + abs(total - p)
        if value > best:
            best, cut, left = value, b, p
    return cut, 1.0 if left >= 0 else -1.0, 1.0 if total - left >= 0 else -1.0, best


@njit_alloc(nogil=True)
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


@njit_alloc(nogil=True)
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


@njit_noalloc_inner(nogil=True)
def _move(cells, order, signed, starts, at, to, left):
    """Let the left child have the root's bins up to ``to`` instead of those up to ``at``.

    Returns the sum of ``signed`` that it gains.
    """
    forth = to > at
    gained = 0.0
    for k in range(starts[min(at, to) + 1], starts[max(at, to) + 1]):
        i = order[k]
        u = signed[i] if forth else -signed[i]
        if u != 0.0:
            gained += u
            for g in range(cells.shape[1]):
                left[cells[i, g]] += u
    return gained


@njit_noalloc_inner(nogil=True)
def _best_splits(left, beyond, n_bins, total, values):
    """``values[0]``, ``values[1]``: half the best split of the left and the right child by feature.

    With P the prefix sums of ``left`` and T its ``total``, Q and W those of all examples, they are
    ``max_b |P - T/2|`` and ``max_b |Q - P - (W - T)/2|``; ``beyond`` is ``W/2 - Q``.  Returns the
    sum of the best two splits, and their features.
    """
    best_left = best_right = -1.0
    of_left = of_right = 0
    for j in range(left.shape[0]):
        first = j * LANES
        last, most = min(first + LANES, n_bins.size), 0
        for g in range(first, last):
            most = max(most, n_bins[g])
        largest_sums(left, beyond, j, most, -0.5 * total, values)
        for g in range(first, last):
            if values[0, j, g - first] > best_left:
                best_left, of_left = values[0, j, g - first], g
            if values[1, j, g - first] > best_right:
                best_right, of_right = values[1, j, g - first], g
    return 2.0 * (best_left + best_right), of_left, of_right


def balances(
    cells: npt.NDArray[Any], n_bins: npt.NDArray[Any], signed: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Half the sum of ``signed`` less that over the examples with a feature in bins 0 .. b."""
    table = np.zeros((-(-n_bins.size // LANES), n_bins.max(), LANES), signed.dtype)
    add_cells(cells, signed, table.reshape(-1))
    return _balanced(table)


def _balanced(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What is missing from half the sum of histograms after each bin, in their place."""
    sums = np.cumsum(table, axis=1, out=table)
    return np.subtract(sums[:, -1:] / 2, sums, out=table)


@njit_noalloc(nogil=True)
def add_cells(cells, signed, flat):
    """Add the signed weight of every example to the cells of its bins."""
    for i in range(cells.shape[0]):
        for g in range(cells.shape[1]):
            flat[cells[i, g]] += signed[i]


def room(beyond: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """Memory that a search overwrites: a left child's histograms, splits, bins."""
    left, n_slots = np.empty_like(beyond), beyond.shape[1]
    values = np.empty((2, beyond.shape[0], LANES), beyond.dtype)
    return left, values, np.empty(n_slots), np.empty(n_slots + 1)


@njit_noalloc(nogil=True)
def try_roots(cells, order, starts, n_bins, signed, beyond, first, last, work, tried):
    """``tried[f, t]`` for some thresholds t of roots ``first .. last - 1``: the best tree's edge.

    They are the first, the last, and every COARSE-th.  ``work`` is :func:`room`.
    """
    left, values = work[:2]
    flat = left.reshape(-1)
    for f in range(first, last):
        for cell in range(flat.size):
            flat[cell] = 0.0
        at: Any = np.int64(-1)  # a literal would be compiled for apart
        total = 0.0
        cuts = max(n_bins[f] - 1, 1)
        for t in range(cuts):
            if t % COARSE == COARSE // 2 or t == cuts - 1 or t == 0:
                total += _move(cells, order[f], signed, starts[f], at, t, flat)
                at = t
                tried[f, t] = _best_splits(left, beyond, n_bins, total, values)[0]


@njit_noalloc_inner(nogil=True)
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


@njit_noalloc_inner(nogil=True)
def _write_tree(left, beyond, n_bins, f, cut, of_left, of_right, table, nodes, leaves):
    """Write the tree with this root and the best splits of its children by these features.

    ``table`` is overwritten: an entry for each bin.
    """
    nodes[0, 0], nodes[0, 1] = f, cut
    nodes[1, 0], nodes[2, 0] = of_left, of_right
    for child in range(2):
        g = nodes[1 + child, 0]
        j, lane = g // LANES, g % LANES
        before = -beyond[j, -1, lane]  # half the sum
        for b in range(table.size):
            table[b] = left[j, b, lane]
            if child == 1:
                table[b] = before - beyond[j, b, lane] - table[b]
                before = beyond[j, b, lane]
        nodes[1 + child, 1], leaves[2 * child], leaves[2 * child + 1], _ = _best_split(
            table, n_bins[g]
        )


@njit_noalloc(nogil=True)
def best_trees(
    cells, order, starts, n_bins, signed, beyond, first, last, work, tried, record, found
):
    """A depth-2 tree of large edge for every root feature in ``first .. last - 1``.

    The largest over all roots is exact.  ``order[f]`` sorts the examples by feature f,
    ``starts[f, b]`` is where bin b begins in it; ``tried`` is what :func:`try_roots` found, NaN
    elsewhere, and ``record`` the largest of it.  ``work`` is :func:`room`.

    Writes to ``found``, for all roots: the edges; the nodes, an integer array of shape (F, 3, 2)
    with feature and threshold of the root, the left and the right child; and the leaves, (F, 4).
    """
    left, values, table, mass = work
    flat = left.reshape(-1)
    edges, nodes, leaves = found
    mass[0] = 0.0  # sum |u| of the bins below
    for f in range(first, last):
        cuts = max(n_bins[f] - 1, 1)
        best, cut = -1.0, 0
        for t in range(cuts):
            mass[t + 1] = mass[t]
            for k in range(starts[f, t], starts[f, t + 1]):
                mass[t + 1] += abs(signed[order[f, k]])
            if tried[f, t] > best:
                best, cut = tried[f, t], t
        for cell in range(flat.size):
            flat[cell] = 0.0
        at: Any = np.int64(-1)  # a literal would be compiled for apart
        total = 0.0
        t0: Any = np.int64(0)
        while t0 < cuts - 1:
            t1 = t0 + 1
            while np.isnan(tried[f, t1]):
                t1 += 1
            t, bound = _most_promising(tried[f], mass, t0, t1)
            if bound <= max(best, record):
                t0 = t1
                continue
            total += _move(cells, order[f], signed, starts[f], at, t, flat)
            at = t
            tried[f, t] = _best_splits(left, beyond, n_bins, total, values)[0]
            if tried[f, t] > best:
                best, cut = tried[f, t], t
        total += _move(cells, order[f], signed, starts[f], at, cut, flat)
        edges[f], of_left, of_right = _best_splits(left, beyond, n_bins, total, values)
        _write_tree(left, beyond, n_bins, f, cut, of_left, of_right, table, nodes[f], leaves[f])


@njit_noalloc(nogil=True)
def propose_trees(
    cells, order, starts, n_bins, signed, beyond, first, last, n_tried, start, n_parts, work, nodes
):
    """Depth-2 trees of large edge for every root feature in ``first .. last - 1``, quickly.

    About ``n_tried`` of a root's thresholds are tried, others for each ``start``; from each of
    ``n_parts`` ranges of them the best is taken.  The bins may be coarser than those of
    :func:`best_trees`, and sums are in the precision of ``signed``.  ``work`` is :func:`room`.

    Writes to ``nodes``, zeros of shape (n_parts * (last - first), 3, 2): the feature and threshold
    of the root; the features of its children.  Returns how many trees there are.
    """
    left, values = work[:2]
    flat = left.reshape(-1)
    n_trees = 0
    for f in range(first, last):
        for cell in range(flat.size):
            flat[cell] = 0.0
        at: Any = np.int64(-1)  # a literal would be compiled for apart
        total, part, best = 0.0, -1, -1.0
        cuts = max(n_bins[f] - 1, 1)
        stride = max(cuts // n_tried, 1)
        for t in range(start % stride, cuts, stride):
            total += _move(cells, order[f], signed, starts[f], at, t, flat)
            at = t
            value, of_left, of_right = _best_splits(left, beyond, n_bins, total, values)
            if t * n_parts // cuts > part:
                part, best = t * n_parts // cuts, -1.0
                n_trees += 1
            if value > best:
                best = value
                nodes[n_trees - 1, 0, 0], nodes[n_trees - 1, 0, 1] = f, t
                nodes[n_trees - 1, 1, 0], nodes[n_trees - 1, 2, 0] = of_left, of_right
    return n_trees


@njit_noalloc(nogil=True)
def finish_trees(columns, n_bins, signed, table, nodes, leaves, edges):
    """Set the children's thresholds in ``nodes``, the ``leaves`` and the ``edges`` to the best.

    ``columns`` has one row per feature; ``table``, two rows with an entry for each bin, is
    overwritten.
    """
    for k in range(nodes.shape[0]):
        for b in range(table.shape[1]):
            table[0, b] = table[1, b] = 0.0
        root, cut = columns[nodes[k, 0, 0]], nodes[k, 0, 1]
        left, right = columns[nodes[k, 1, 0]], columns[nodes[k, 2, 0]]
        for i in range(signed.size):
            if root[i] <= cut:
                table[0, left[i]] += signed[i]
            else:
                table[1, right[i]] += signed[i]
        edges[k] = 0.0
        for child in range(2):
            g = nodes[k, 1 + child, 0]
            nodes[k, 1 + child, 1], leaves[k, 2 * child], leaves[k, 2 * child + 1], value = (
                _best_split(table[child], n_bins[g])
            )
            edges[k] += value


@njit_alloc(nogil=True)
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


def trees_of(table: npt.NDArray[Any], n_bins: npt.NDArray[Any]) -> tuple[Any, ...]:
    """The depth-2 tree of largest edge for every root, from :func:`histograms_of_roots`.

    Returns what :func:`best_trees` writes.
    """
    n_features, n_slots = table.shape[:2]
    n_blocks = -(-n_features // LANES)
    padded = np.zeros((n_slots, n_blocks * LANES))
    padded[:, :n_features] = table[0].sum(axis=0)  # over the bins of any root
    by_block = padded.reshape(n_slots, n_blocks, LANES).transpose(1, 0, 2)
    trees: tuple[Any, ...] = best_of_roots(table, n_bins, _balanced(np.ascontiguousarray(by_block)))
    return trees


@njit_alloc(nogil=True)
def best_of_roots(table, n_bins, beyond):
    """:func:`trees_of`, given half the sums less those of the first bins."""
    n_features = table.shape[0]
    left = np.empty_like(beyond)
    n_slots = left.shape[1]
    values = np.empty((2, left.shape[0], LANES))
    edges, column = np.empty(n_features), np.empty(n_slots)
    nodes = np.empty((n_features, 3, 2), np.int64)
    leaves = np.empty((n_features, 4))
    for f in range(n_features):
        left[:] = 0.0
        best, cut, total = -1.0, 0, 0.0
        for t in range(max(n_bins[f] - 1, 1)):
            total += _add_table(table[f, t], left)
            value = _best_splits(left, beyond, n_bins, total, values)[0]
            if value > best:
                best, cut = value, t
        left[:] = 0.0
        total = 0.0
        for t in range(cut + 1):
            total += _add_table(table[f, t], left)
        edges[f], of_left, of_right = _best_splits(left, beyond, n_bins, total, values)
        _write_tree(left, beyond, n_bins, f, cut, of_left, of_right, column, nodes[f], leaves[f])
    return edges, nodes, leaves


@njit_alloc_inner(nogil=True)
def _add_table(part, table):
    """Add histograms of shape (bins, features); returns their sum."""
    for b in range(part.shape[0]):
        for g in range(part.shape[1]):
            table[g // LANES, b, g % LANES] += part[b, g]
    return part[:, 0].sum()
