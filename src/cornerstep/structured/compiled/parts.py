"""Labelings in parts: ``phi(x_i, y) = A_i' mu(y)``, mu having an entry for each part.

A part is a label of a node or a pair of labels of an edge; mu is 1 at the parts of a labeling and 0
elsewhere, or marginals.  Scores of parts are ``A_i w``: products of rows of features with matrices
of weights, one for nodes and one for edges (:class:`Factor`).  Models that are not made of parts
are *direct*: mu is the joint feature itself, and A the identity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.compiling import njit_alloc, njit_alloc_inner


class Factor(NamedTuple):
    """Rows of features and where their weights are: part (r, a) scores ``sum_f x_rf w[f, a]``.

    Example i has ``counts[i]`` rows of a CSR matrix from ``first[i]`` on; examples may share rows.
    ``w[f, a]`` is at ``base + f * by_feature + a * by_label``.
    """

    first: Any
    counts: Any
    indptr: Any
    indices: Any
    values: Any
    width: int
    base: int
    by_feature: int
    by_label: int


class Shapes(NamedTuple):
    """The graphs that labels live on: that of example i has the number ``which[i]``.

    ``edge_ptr[s]`` and ``node_ptr[s]`` say where the edges and nodes of graph s begin in the
    columns below; a forest also has its nodes from the roots on, their parents and the edges there.
    """

    which: Any
    node_ptr: Any
    edge_ptr: Any
    ends: Any  # (edges, 2): nodes of each edge, counted from 0 in each graph
    forest: Any  # per graph
    few: Any  # per graph: whether all its labelings are tried
    order: Any
    parent: Any
    link: Any
    forward: Any
    arc_ptr: Any  # per node: the edges to nodes of larger number, as rows of `arcs`
    arcs: Any  # (edge, other node, whether the edge runs to it)


class Parts(NamedTuple):
    """Examples made of parts, those of nodes before those of edges; or direct ones."""

    direct: bool
    nodes: Factor
    edges: Factor
    n_labels: int
    gains: bool  # nodes have a part for the second of two labels only
    node_ptr: Any  # per example
    truth: Any  # each node's label
    costs: Any  # what another label costs there
    shapes: Shapes


def no_parts() -> Parts:
    """The parts of models that are not made of any."""
    none, flag = np.zeros(1, np.int64), np.zeros(1, np.bool_)
    factor = Factor(none, none, none, np.zeros(0, np.int32), np.zeros(0), 1, 0, 1, 1)
    ends = np.zeros((0, 2), np.int64)
    shapes = Shapes(none, none, none, ends, flag, flag, none, none, none, flag, none, ends)
    return Parts(True, factor, factor, 1, False, none, none, np.zeros(0), shapes)


@njit_alloc_inner()
def factor_scores(factor, i, w, out, at):
    """The scores of a factor's parts, written from ``at`` on; where they end."""
    width = factor.width
    for r in range(factor.first[i], factor.first[i] + factor.counts[i]):
        for a in range(width):
            out[at + a] = 0.0
        if factor.by_feature == 1:  # the weights of a label are next to each other
            for a in range(width):
                base, total = factor.base + a * factor.by_label, 0.0
                for k in range(factor.indptr[r], factor.indptr[r + 1]):
                    total += factor.values[k] * w[base + factor.indices[k]]
                out[at + a] = total
        else:
            for k in range(factor.indptr[r], factor.indptr[r + 1]):
                base, x = factor.base + factor.indices[k] * factor.by_feature, factor.values[k]
                for a in range(width):
                    out[at + a] += x * w[base + a]
        at += width
    return at


@njit_alloc_inner()
def factor_scatter(factor, i, delta, at, amount, out, late, also):
    """``out += amount A'delta`` and ``also += late amount A'delta`` for a factor's parts."""
    width = factor.width
    for r in range(factor.first[i], factor.first[i] + factor.counts[i]):
        for a in range(width):
            c = amount * delta[at + a]
            if c != 0.0:
                base = factor.base + a * factor.by_label
                for k in range(factor.indptr[r], factor.indptr[r + 1]):
                    x = c * factor.values[k]
                    place = base + factor.indices[k] * factor.by_feature
                    out[place] += x
                    if late != 0.0:
                        also[place] += late * x
        at += width
    return at


@njit_alloc_inner()
def part_scores(parts, i, w, out):
    """``A_i w``; how many parts there are."""
    return factor_scores(parts.edges, i, w, out, factor_scores(parts.nodes, i, w, out, 0))


@njit_alloc_inner()
def scatter_parts(parts, i, delta, amount, out, late, also):
    """``out += amount A_i'delta`` and ``also += late amount A_i'delta``."""
    at = factor_scatter(parts.nodes, i, delta, 0, amount, out, late, also)
    factor_scatter(parts.edges, i, delta, at, amount, out, late, also)


@njit_alloc_inner()
def plane_of(parts, i, labels, indices, values):
    """The parts of a labeling, each 1; how many they are."""
    n, m = parts.node_ptr[i + 1] - parts.node_ptr[i], parts.n_labels
    used, at = 0, n if parts.gains else n * m
    for t in range(n):
        if not parts.gains:
            indices[used] = t * m + labels[t]
        elif labels[t]:
            indices[used] = t
        else:
            continue
        used += 1
    s = parts.shapes.which[i]
    for e in range(parts.shapes.edge_ptr[s], parts.shapes.edge_ptr[s + 1]):
        pair = labels[parts.shapes.ends[e, 0]] * m + labels[parts.shapes.ends[e, 1]]
        indices[used] = at + (e - parts.shapes.edge_ptr[s]) * m * m + pair
        used += 1
    values[:used] = 1.0
    return used


@njit_alloc_inner()
def unpack_nodes(parts, i, theta, nodes, augmented):
    """Scores of the labels of each node, with what wrong ones cost; where those of pairs begin."""
    begin, m = parts.node_ptr[i], parts.n_labels
    n = parts.node_ptr[i + 1] - begin
    for t in range(n):
        for a in range(m):
            nodes[t, a] = theta[t * m + a] if not parts.gains else theta[t] if a else 0.0
            if augmented and a != parts.truth[begin + t]:
                nodes[t, a] += parts.costs[begin + t]
    return n if parts.gains else n * m


@njit_alloc_inner()
def hamming(parts, i, labels):
    """What the labels cost."""
    total, begin = 0.0, parts.node_ptr[i]
    for t in range(parts.node_ptr[i + 1] - begin):
        if labels[t] != parts.truth[begin + t]:
            total += parts.costs[begin + t]
    return total


@njit_alloc(nogil=True)
def scores_of(parts, i, w, theta, nodes, augmented):
    """Scores of parts and of the labels of nodes; where those of pairs begin, and end."""
    n = part_scores(parts, i, w, theta)
    return unpack_nodes(parts, i, theta, nodes, augmented), n
