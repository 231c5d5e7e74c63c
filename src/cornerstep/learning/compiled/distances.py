"""Compiled sweeps over differences of rows: squared distances without cancellation."""

from __future__ import annotations

from cornerstep.core.compiling import njit


@njit(nogil=True)
def refine_dense(exponents, first, second, X, gamma, least):
    """``exponents[a, b] = -gamma |X[first[a]] - X[second[b]]|²`` where not below ``least``."""
    for a in range(first.size):
        x = X[first[a]]
        for b in range(second.size):
            if not exponents[a, b] < least:  # NaN is not: it overflowed
                z, total = X[second[b]], 0.0
                for k in range(x.size):
                    total += (x[k] - z[k]) ** 2
                exponents[a, b] = -gamma * total


@njit(nogil=True)
def refine_sparse(exponents, first, second, starts, features, values, gamma, least):
    """The same for the rows of a CSR matrix whose features are in order, by merging two rows."""
    for a in range(first.size):
        for b in range(second.size):
            if exponents[a, b] < least:
                continue
            i, i_end = starts[first[a]], starts[first[a] + 1]
            j, j_end = starts[second[b]], starts[second[b] + 1]
            total = 0.0
            while i < i_end or j < j_end:
                if j == j_end or (i < i_end and features[i] < features[j]):
                    total += values[i] ** 2
                    i += 1
                elif i == i_end or features[j] < features[i]:
                    total += values[j] ** 2
                    j += 1
                else:
                    total += (values[i] - values[j]) ** 2
                    i, j = i + 1, j + 1
            exponents[a, b] = -gamma * total
