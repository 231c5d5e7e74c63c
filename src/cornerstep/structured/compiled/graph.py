"""Best labelings of graphs: max-product on forests, minimum cuts, enumeration.

All maximise ``sum_i nodes[i, y_i] + sum_e pairs[e, y_a, y_b]`` over edges e = (a, b).

References
----------
.. [1] M. J. Wainwright, M. I. Jordan. Graphical models, exponential families, and variational
   inference. Foundations and Trends in Machine Learning 1, 1-305, 2008.
.. [2] D. E. Knuth. The Art of Computer Programming, volume 4A: Combinatorial Algorithms, part 1.
   Section 7.2.1.1, Addison-Wesley, 2011.
.. [3] E. A. Dinic. Algorithm for solution of a problem of maximum flow in a network with power
   estimation. Soviet Mathematics Doklady 11, 1277-1280, 1970.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.compiling import njit


@njit(nogil=True)
def max_product(nodes, pairs, order, parent, link, forward, labels):
    """On a forest, from the leaves to the roots and back.

    ``order`` lists parents before children; ``parent[i]`` is -1 at roots, ``link[i]`` the edge to
    the parent and ``forward[i]`` whether it runs from the parent to i.  ``nodes`` is overwritten.
    """
    n_labels = nodes.shape[1]
    message = np.empty(n_labels)
    for position in range(order.shape[0] - 1, -1, -1):
        i = order[position]
        p = parent[i]
        if p < 0:
            continue
        for a in range(n_labels):
            best = -np.inf
            for b in range(n_labels):
                pair = pairs[link[i], a, b] if forward[i] else pairs[link[i], b, a]
                best = max(best, nodes[i, b] + pair)
            message[a] = best
        for a in range(n_labels):
            nodes[p, a] += message[a]
    for position in range(order.shape[0]):
        i = order[position]
        p = parent[i]
        best, chosen = -np.inf, 0
        for b in range(n_labels):
            value = nodes[i, b]
            if p >= 0:
                a = labels[p]
                value += pairs[link[i], a, b] if forward[i] else pairs[link[i], b, a]
            if value > best:
                best, chosen = value, b
        labels[i] = chosen


@njit(nogil=True)
def enumerate_labelings(nodes, pairs, starts, links, labels):
    """Try all labelings, in an order in which each differs from the last at one node.

    The edges of node i are ``links[starts[i]:starts[i + 1]]``, rows (edge, other node, whether i
    comes first).  The order is the reflected Gray code of mixed radix, without recursion.
    """
    n, n_labels = nodes.shape
    y, turn = np.zeros(n, np.int64), np.ones(n, np.int64)
    focus = np.arange(n + 1)
    value = best = 0.0  # above the labeling of zeros
    labels[:] = 0
    while True:
        j = focus[0]
        focus[0] = 0
        if j == n or n_labels == 1:
            return
        old = y[j]
        new = old + turn[j]
        value += nodes[j, new] - nodes[j, old]
        for k in range(starts[j], starts[j + 1]):
            e, other = links[k, 0], y[links[k, 1]]
            if links[k, 2]:
                value += pairs[e, new, other] - pairs[e, old, other]
            else:
                value += pairs[e, other, new] - pairs[e, other, old]
        y[j] = new
        if new in (0, n_labels - 1):
            turn[j] = -turn[j]
            focus[j] = focus[j + 1]
            focus[j + 1] = j + 1
        if value > best:
            best = value
            labels[:] = y


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
