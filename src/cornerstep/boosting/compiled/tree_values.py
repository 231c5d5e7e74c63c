"""Trees at examples.  They are complete and stored as heaps: node v has children 2v + 1, 2v + 2."""

from __future__ import annotations

from cornerstep.core.compiling import njit_noalloc


@njit_noalloc(nogil=True)
def evaluate(columns, features, thresholds, leaves, out):
    """``out[k, i]``: the leaf of tree k that example i falls into; ``x <= threshold`` goes left.

    ``columns`` has one row per feature.
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


@njit_noalloc(nogil=True)
def leaf_sums(columns, features, thresholds, signed, sums):
    """Add the sum of ``signed`` over the examples in a leaf of tree k to ``sums[k, leaf]``."""
    n_nodes = features.shape[1]
    for k in range(features.shape[0]):
        if n_nodes == 3:  # without branches
            x0, x1, x2 = columns[features[k, 0]], columns[features[k, 1]], columns[features[k, 2]]
            t0, t1, t2 = thresholds[k, 0], thresholds[k, 1], thresholds[k, 2]
            for i in range(columns.shape[1]):
                left = 0 if x1[i] <= t1 else 1
                right = 2 if x2[i] <= t2 else 3
                sums[k, left if x0[i] <= t0 else right] += signed[i]
            continue
        for i in range(columns.shape[1]):
            v = 0
            while v < n_nodes:
                v = 2 * v + (1 if columns[features[k, v], i] <= thresholds[k, v] else 2)
            sums[k, v - n_nodes] += signed[i]
