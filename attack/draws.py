"""Random data, weights and numbers, chosen to be unkind: ties, duplicates, offsets, any scale."""

from __future__ import annotations

from typing import Any

import numpy as np


def chance(rng: Any, share: float) -> bool:
    """True in this share of the cases."""
    return bool(rng.random() < share)


def one_of(rng: Any, *choices: Any) -> Any:
    """One of the choices."""
    return choices[int(rng.integers(len(choices)))]


def scale(rng: Any) -> float:
    """A power of 2: mostly 1, often 1e-8 to 1e8, sometimes at the ends of float64."""
    kind = rng.random()
    if kind < 0.5:
        return 1.0
    if kind < 0.85:
        return float(2.0 ** rng.integers(-27, 28))
    if kind < 0.95:
        return float(2.0 ** rng.integers(-60, 61))
    return float(2.0 ** one_of(rng, -1000, -500, -300, 300, 500, 1000))


def positive(rng: Any, low: float = -12, high: float = 12) -> float:
    """A number between ``10**low`` and ``10**high``, half of the time near 1."""
    if chance(rng, 0.5):
        return float(10 ** rng.uniform(-1, 1))
    return float(10 ** rng.uniform(low, high))


def count(rng: Any, m: int) -> int:
    """How many examples of m classes: a dozen, seldom a hundred, where other code runs."""
    return m + int(rng.integers(0, 120 if chance(rng, 0.05) else 12))


def labels(rng: Any, n: int, m: int) -> Any:
    """Labels of n examples, each of the m classes at least once."""
    return rng.permutation(np.concatenate([np.arange(m), rng.integers(0, m, n - m)]))


def rows(rng: Any, y: Any, d: int) -> Any:
    """Examples with d features: separable or not, with ties, duplicates, offsets, scales."""
    n, m = y.size, int(y.max()) + 1
    X = rng.standard_normal((n, d))
    if chance(rng, 0.5):
        X = X + one_of(rng, 1.0, 4.0) * rng.standard_normal((m, d))[y]
    if chance(rng, 0.25):
        X = np.round(X)
    if chance(rng, 0.2):
        X = X[rng.integers(0, max(1, n // 2), n)]
    if chance(rng, 0.1):
        X[:, rng.integers(d)] = rng.standard_normal()
    if chance(rng, 0.1):
        X = X * (rng.random((n, d)) < 0.5)
    if chance(rng, 0.15):
        X = X + 10.0 ** rng.integers(2, 7)
    if chance(rng, 0.15):
        X = X * 10.0 ** rng.integers(-8, 9, d)
    return np.ascontiguousarray(X * scale(rng))


def weights(rng: Any, n: int) -> Any:
    """Weights of n examples or None: ones, counts, zeros, or of sizes far apart."""
    kind = rng.random()
    if kind < 0.5:
        return None
    if kind < 0.7:
        return rng.integers(1, 4, n).astype(float)
    if kind < 0.8:
        return rng.integers(0, 3, n).astype(float)
    if kind < 0.95:
        return 10.0 ** rng.uniform(-12, 12, n) if chance(rng, 0.5) else rng.uniform(0.1, 2, n)
    return np.full(n, 10.0 ** rng.uniform(-12, 12))


def tolerance(rng: Any) -> float:
    """A relative gap to ask for, sometimes less than float64 can prove."""
    return float(one_of(rng, 1e-1, 1e-3, 1e-3, 1e-6, 1e-9, 1e-12, 0.0))
