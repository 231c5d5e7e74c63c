"""Best labelings of graphs: max-product on forests, minimum cuts, enumeration.

All maximise ``sum_i nodes[i, y_i] + sum_e pairs[e, y_a, y_b]`` over edges e = (a, b).

References
----------
.. [1] M. J. Wainwright, M. I. Jordan. Graphical models, exponential families, and variational
   inference. Foundations and Trends in Machine Learning 1, 1-305, 2008.
.. [2] S. Tourani, A. Shekhovtsov, C. Rother, B. Savchynskyy. MPLP++: fast, parallel dual
   block-coordinate ascent for dense graphical models. ECCV 2018.
.. [3] E. A. Dinic. Algorithm for solution of a problem of maximum flow in a network with power
   estimation. Soviet Mathematics Doklady 11, 1277-1280, 1970.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit, njit_alloc, njit_alloc_inner

UNKNOWN, INDEPENDENT, TREE, ENUMERATION, MESSAGES = range(5)  # how a labeling was found
_ROUNDS = 400  # of messages at most
_LOOK_EVERY = 4  # rounds
_TIGHT = 1e-11  # what a labeling may miss of the bound, relative to the sizes of scores


@njit_alloc_inner()
def best_labels(parts, i, theta, start, nodes, tables, labels):
    """The best labeling of example i of :class:`~.parts.Parts`, and how; see :func:`best_of`."""
    n = parts.node_ptr[i + 1] - parts.node_ptr[i]
    return best_of(nodes, n, theta, start, parts.shapes, parts.shapes.which[i], tables, labels)


@njit_alloc(nogil=True)
def best_of(nodes, n, pairs, start, shapes, s, tables, labels):
    """The best labeling of n nodes, and how it was found; UNKNOWN if it was not.

    ``pairs[start + (e m + a) m + b]`` scores labels a and b at the ends of edge e of graph s.
    ``nodes`` and ``tables`` are overwritten.
    """
    m = nodes.shape[1]
    n_pairs = (shapes.edge_ptr[s + 1] - shapes.edge_ptr[s]) * m * m
    joined = False
    for e in range(start, start + n_pairs):
        joined = joined or pairs[e] != 0.0
    if not joined:  # no edges, or none that matters yet
        for t in range(n):
            labels[t] = 0
            for a in range(1, m):
                if nodes[t, a] > nodes[t, labels[t]]:
                    labels[t] = a
        return INDEPENDENT
    if shapes.forest[s]:
        max_product(nodes, n, pairs, start, shapes, s, labels)
        return TREE
    if shapes.few[s]:
        enumerate_labelings(nodes, n, pairs, start, shapes, s, tables, labels)
        return ENUMERATION
    if exchange_messages(nodes, n, pairs, start, shapes, s, labels):
        return MESSAGES
    return UNKNOWN


@njit_alloc_inner()
def max_product(nodes, n, pairs, start, shapes, s, labels):
    """On a forest, from the leaves to the roots and back; ``nodes`` is overwritten."""
    m, begin = nodes.shape[1], shapes.node_ptr[s]
    for position in range(n - 1, -1, -1):
        i = shapes.order[begin + position]
        p = shapes.parent[begin + i]
        if p < 0:
            continue
        at, near, far = strides(shapes, begin + i, start, m)
        for a in range(m):
            best = -np.inf
            for b in range(m):
                best = max(best, nodes[i, b] + pairs[at + a * near + b * far])
            nodes[p, a] += best
    for position in range(n):
        i = shapes.order[begin + position]
        p = shapes.parent[begin + i]
        at, near, far = strides(shapes, begin + i, start, m)
        best = -np.inf
        for b in range(m):
            value = nodes[i, b]
            if p >= 0:
                value += pairs[at + labels[p] * near + b * far]
            if value > best or b == 0:
                best, labels[i] = value, b


@njit_alloc_inner()
def strides(shapes, i, start, m):
    """Where the pairs of the edge to a node's parent begin; steps of the parent's label and own."""
    at = start + shapes.link[i] * m * m
    return (at, m, 1) if shapes.forward[i] else (at, 1, m)


@njit_alloc_inner()
def enumerate_labelings(nodes, n, pairs, start, shapes, s, tables, labels):
    """Score all labelings, in tables that grow by a node at a time.

    The labelings of the first j nodes are numbers to the base of labels; ``tables[0]`` has their
    scores, ``tables[1]`` what label a at node j adds, which itself grows by a node at a time.
    """
    m, score, more = nodes.shape[1], tables[0], tables[1]
    joint = np.empty((n, m, m))  # of an earlier node's label and that of node j
    score[0], size = 0.0, 1
    for j in range(n):
        joint[:j] = 0.0
        for e in range(shapes.edge_ptr[s], shapes.edge_ptr[s + 1]):
            first, second = shapes.ends[e, 0], shapes.ends[e, 1]
            if max(first, second) == j:
                at = start + (e - shapes.edge_ptr[s]) * m * m
                for a in range(m):
                    for b in range(m):
                        if second == j:
                            joint[first, a, b] += pairs[at + a * m + b]
                        else:
                            joint[second, a, b] += pairs[at + b * m + a]
        for b in range(m - 1, -1, -1):
            more[0], span = nodes[j, b], 1
            for k in range(j):
                for a in range(m - 1, -1, -1):
                    c = joint[k, a, b]
                    for t in range(span):
                        more[a * span + t] = more[t] + c
                span *= m
            for t in range(size):
                score[b * size + t] = score[t] + more[t]
        size *= m
    code = score[:size].argmax()
    for j in range(n):
        labels[j] = code % m
        code //= m


@njit_alloc_inner(fastmath={"reassoc", "contract", "nsz", "arcp"})
def exchange_messages(nodes, n, pairs, start, shapes, s, labels):
    """Whether a labeling was found that reaches the bound of a reparametrisation.

    Scores move between nodes and edges, edge by edge, so that no labeling's sum changes and the
    bound ``sum of the largest at each node and edge`` falls: the dual of the local relaxation.
    ``nodes`` is overwritten.
    """
    m, first = nodes.shape[1], shapes.edge_ptr[s]
    n_edges = shapes.edge_ptr[s + 1] - first
    joint, own, scale = pairs[start : start + n_edges * m * m].copy(), nodes[:n].copy(), 0.0
    left, right = np.empty(m), np.empty(m)
    for t in range(n):
        scale += np.abs(own[t]).max()
    for e in range(n_edges):
        scale += np.abs(joint[e * m * m : (e + 1) * m * m]).max()
    for turn in range(_ROUNDS):
        for position in range(n_edges):
            e = n_edges - 1 - position if turn % 2 else position
            u, v = nodes[shapes.ends[first + e, 0]], nodes[shapes.ends[first + e, 1]]
            table = joint[e * m * m : (e + 1) * m * m]
            shake_hands(u, v, table, left, right)
        if turn % _LOOK_EVERY == _LOOK_EVERY - 1:
            bound = 0.0
            for t in range(n):
                bound += nodes[t].max()
            for e in range(n_edges):
                bound += joint[e * m * m : (e + 1) * m * m].max()
            round_off(nodes, n, joint, shapes, s, labels)
            value = 0.0
            for t in range(n):
                value += own[t, labels[t]]
            for e in range(n_edges):
                a, b = labels[shapes.ends[first + e, 0]], labels[shapes.ends[first + e, 1]]
                value += pairs[start + (e * m + a) * m + b]
            if bound - value <= _TIGHT * scale:
                return True
    return False


@njit_alloc_inner(fastmath={"reassoc", "contract", "nsz", "arcp"})
def shake_hands(u, v, table, left, right):
    """Move all scores of an edge to its ends: half to the first, all to the second, the rest."""
    m = u.shape[0]
    for b in range(m):
        right[b] = -np.inf
    for a in range(m):
        top, x = -np.inf, u[a]
        for b in range(m):
            table[a * m + b] += x + v[b]
            top = max(top, table[a * m + b])
        left[a] = 0.5 * top
        for b in range(m):
            right[b] = max(right[b], table[a * m + b] - left[a])
    for a in range(m):
        rest = -np.inf
        for b in range(m):
            table[a * m + b] -= left[a] + right[b]
            rest = max(rest, table[a * m + b])
        u[a] = left[a] + rest
        for b in range(m):
            table[a * m + b] -= rest
    for b in range(m):
        v[b] = right[b]


@njit_alloc_inner()
def round_off(nodes, n, joint, shapes, s, labels):
    """Each node's best label, given those of the nodes before it."""
    m, first = nodes.shape[1], shapes.edge_ptr[s]
    scores = nodes[:n].copy()
    arcs = shapes.arcs
    for t in range(n):
        labels[t] = scores[t].argmax()
        for k in range(
            shapes.arc_ptr[shapes.node_ptr[s] + t], shapes.arc_ptr[shapes.node_ptr[s] + t + 1]
        ):
            e, other, forward = arcs[k, 0] - first, arcs[k, 1], arcs[k, 2]
            for b in range(m):
                at = labels[t] * m + b if forward else b * m + labels[t]
                scores[other, b] += joint[e * m * m + at]


@njit(nogil=True)
def minimum_cut(n, starts, heads, twins, capacities, floor, inside):
    """The source's side of a minimum cut, by Dinic's algorithm; nodes n - 2, n - 1 are its ends.

    Arc k runs from the node whose range ``starts`` it lies in to ``heads[k]``, its reverse is
    ``twins[k]``.  Capacities become residual ones; those up to ``floor`` count as 0.
    """
    source, sink = n - 2, n - 1
    level, queue = np.empty(n, np.int64), np.empty(n, np.int64)
    place, path = np.empty(n, np.int64), np.empty(n, np.int64)
    while True:
        level[:] = -1
        level[source] = 0
        queue[0] = source
        first, last = 0, 1
        while first < last:
            i = queue[first]
            first += 1
            for k in range(starts[i], starts[i + 1]):
                j = heads[k]
                if level[j] < 0 and capacities[k] > floor:
                    level[j] = level[i] + 1
                    queue[last] = j
                    last += 1
        if level[sink] < 0:
            break
        place[:] = starts[:n]
        depth, i = 0, source
        while True:
            if i == sink:
                flow = np.inf
                for d in range(depth):
                    flow = min(flow, capacities[path[d]])
                back = 0
                for d in range(depth - 1, -1, -1):
                    k = path[d]
                    capacities[k] -= flow
                    capacities[twins[k]] += flow
                    if capacities[k] <= floor:
                        back = d
                depth = back
                i = heads[twins[path[back]]]
                continue
            moved = False
            while place[i] < starts[i + 1]:
                k = place[i]
                j = heads[k]
                if capacities[k] > floor and level[j] == level[i] + 1:
                    path[depth] = k
                    depth += 1
                    i = j
                    moved = True
                    break
                place[i] += 1
            if moved:
                continue
            if i == source:
                break
            depth -= 1
            i = heads[twins[path[depth]]]
            place[i] += 1
    for i in range(n):
        inside[i] = level[i] >= 0
