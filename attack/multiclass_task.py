"""The multi-class problem written down once more: objective, dual value and feasibility.

``P(W) = 1/2 |W|² + C sum_i weight_i Phi(W'x_i; y_i)``; with ``z_j = s_j - s_y + Delta_j`` sorted
downwards Phi is ``sum_j rho_j max(0, z_(j))``, or ``max(0, sum_j rho_j z_(j))`` if *whole*.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from attack.exact import EPS, LONG, exact_margins, kernel, real


@dataclass
class Task:
    """Exact data of a problem; examples of weight 0 have no part in it."""

    X: Any
    y: Any
    scales: Any  # C times the weights
    rho: Any
    whole: bool
    deltas: Any
    mu: float
    constant: float  # of the extra feature, 0 without an intercept
    kernel: tuple[Any, ...] | None = None
    entropic: bool = False  # mu times an entropy takes the place of mu/2 times a square

    def __post_init__(self) -> None:
        used = self.used = self.scales > 0
        self.X = self.X[used]
        self.y, self.scales, self.deltas = self.y[used], self.scales[used], self.deltas[used]
        self.m = self.deltas.shape[1]
        self.at = np.arange(self.y.size)
        self.gram = None
        if self.kernel is not None:
            name, *numbers = self.kernel
            K = self.X[:, used] if name == "precomputed" else kernel(self.X, self.X, name, *numbers)
            self.gram = K + LONG(self.constant) ** 2

    def phi(self, scores: Any) -> tuple[Any, Any]:
        """Bounds of the losses from below and above; equal without smoothing."""
        return self._phi(scores - scores[self.at, self.y][:, None] + self.deltas)

    def _phi(self, z: Any) -> tuple[Any, Any]:
        if self.entropic:
            value = self._softmax(z)
            return value, value
        if self.mu > 0:
            return self._envelope(z)
        top = -np.sort(-z, axis=1)[:, : self.rho.size]
        value = (
            np.maximum((top * self.rho).sum(axis=1), 0)
            if self.whole
            else (np.maximum(top, 0) * self.rho).sum(axis=1)
        )
        return value, value

    def _softmax(self, z: Any) -> Any:
        """``mu ln(1 + e^(G / mu))``, with the u of G at most 1/k, found by halving an interval."""
        mu, k = LONG(self.mu), self.rho.size
        z = np.where(np.arange(self.m) == self.y[:, None], -np.inf, z / mu)
        top = z.max(axis=1, keepdims=True)
        low, high = -top - np.log(LONG(self.m)) - 1, -np.sort(z, axis=1)[:, [self.m - k]] + 1
        for _ in range(200):
            middle = (low + high) / 2
            more = np.minimum(np.exp(z + middle), 1 / LONG(k)).sum(axis=1, keepdims=True) > 1
            low, high = np.where(more, low, middle), np.where(more, middle, high)
        u = np.minimum(np.exp(z + high), 1 / LONG(k))
        u /= u.sum(axis=1, keepdims=True)
        logs = np.log(np.where(u > 0, u, 1))
        return mu * np.logaddexp(0, (u * (np.where(u > 0, z, 0) - logs)).sum(axis=1))

    def _envelope(self, z: Any) -> tuple[Any, Any]:
        """``max_beta <beta, z> - mu/2 |alpha|²`` between what a beta attains and its gap.

        Pairwise Frank-Wolfe over all vertices of the dual domain, for all examples at once.
        """
        corners = np.stack([self._corners(int(k)) for k in self.y])  # (n, V, m), entries of -alpha
        weights = np.zeros(corners.shape[:2], dtype=LONG)
        weights[:, 0] = 1
        mu = LONG(self.mu)
        scores = (corners * z[:, None, :]).sum(axis=2)
        for _ in range(400):
            point = (weights[:, :, None] * corners).sum(axis=1)
            gain = scores - mu * (corners * point[:, None, :]).sum(axis=2)
            best = gain.argmax(axis=1)
            worst = np.where(weights > 0, gain, np.inf).argmin(axis=1)
            d = corners[self.at, best] - corners[self.at, worst]
            square = mu * (d**2).sum(axis=1)
            ahead = gain[self.at, best] - gain[self.at, worst]
            step = np.where(square > 0, ahead / np.where(square > 0, square, 1), np.inf)
            step = np.minimum(step, weights[self.at, worst])
            step[best == worst] = 0
            weights[self.at, best] += step
            weights[self.at, worst] -= step
        point = (weights[:, :, None] * corners).sum(axis=1)
        gain = scores - mu * (corners * point[:, None, :]).sum(axis=2)
        value = (weights * scores).sum(axis=1) - mu / 2 * (point**2).sum(axis=1)
        return value, value + gain.max(axis=1) - (weights * gain).sum(axis=1)

    def _corners(self, label: int) -> Any:
        """Vertices ``beta - (1'beta) e_y`` of the dual domain: rho, or its head, in any order."""
        lengths = (0, self.rho.size) if self.whole else range(self.rho.size + 1)
        found = set()
        for k in lengths:
            for places in itertools.permutations(range(self.m), k):
                beta = np.zeros(self.m)
                beta[list(places)] = self.rho[:k].astype(float)
                beta[label] = 0
                found.add(tuple(beta))
        corners = np.array(sorted(found), dtype=LONG)
        corners[:, label] = -corners.sum(axis=1)
        return corners

    def primal(self, W: Any, b: Any) -> tuple[Any, Any]:
        """Bounds of P at weights W (m, d) and intercepts b; the rows of two classes may be one."""
        W, b = real(W), real(b)
        if len(W) == 1:
            W, b = np.concatenate([-W, W]) / 2, np.concatenate([-b, b]) / 2
        square = (W**2).sum()
        if self.constant:
            square += ((b / LONG(self.constant)) ** 2).sum()
        sizes = np.abs(self.X) @ np.abs(W).max(axis=0) + np.abs(b).max()
        rounding = float(np.finfo(LONG).eps) * (W.shape[1] + 4) * (self.scales * sizes).sum()
        low, high = self.phi(self.X @ W.T + b)
        if rounding > EPS * (square / 2 + (self.scales * high).sum()):
            low, high = self._phi(exact_margins(self.X, W, b, self.y, self.deltas))
        return square / 2 + (self.scales * low).sum(), square / 2 + (self.scales * high).sum()

    def of_dual(self, A: Any) -> tuple[Any, Any, Any, Any]:
        """D(A); P at the weights that A makes, from below and above; the size of the terms."""
        A = real(A)
        if self.gram is not None:
            scores = self.gram @ A
            sizes = np.abs(A).T @ (np.abs(self.gram) @ np.abs(A))
        else:
            X = np.column_stack([self.X, np.full(len(self.X), LONG(self.constant))])
            scores = X @ (X.T @ A)
            sizes = np.abs(X.T) @ np.abs(A)
            sizes = sizes.T @ sizes
        square = (A * scores).sum()
        linear = -(self.deltas * A).sum()
        smooth = LONG(self.mu) / 2 * (A**2 / self.scales[:, None]).sum() if self.mu else LONG(0)
        if self.entropic:
            beta = -A / self.scales[:, None]
            less = -beta[self.at, self.y]  # of the label's share, which is near 1
            logs = np.log(np.where(beta > 0, beta, 1))
            own = np.where(less < 1, (1 - less) * np.log1p(np.where(less < 1, -less, 0)), 0)
            beta[self.at, self.y] = 0
            each = (beta * logs).sum(axis=1) + own
            smooth = LONG(self.mu) * (self.scales * each).sum()
        low, high = self.phi(scores)
        return (
            linear - square / 2 - smooth,
            square / 2 + (self.scales * low).sum(),
            square / 2 + (self.scales * high).sum(),
            np.trace(sizes) + np.abs(linear) + np.abs(smooth),
        )

    def outside(self, A: Any) -> float:
        """By how much dual coefficients leave their domain, relative to what they may be."""
        alpha = real(A) / self.scales[:, None]
        R = self.rho.sum()
        beta = -alpha.copy()
        beta[self.at, self.y] = 0
        off = max(np.abs(alpha.sum(axis=1)).max(), -beta.min(), 0)
        tops = (-np.sort(-beta, axis=1)[:, : self.m - 1]).cumsum(axis=1)
        limits = np.cumsum(np.pad(self.rho, (0, self.m - self.rho.size)))[: self.m - 1]
        if not self.whole:
            return float(max(off, (tops - limits).max()) / R)
        # some s <= 1 with beta, its own class included, majorised by s rho
        least = np.maximum((tops / limits).max(axis=1), 0)
        before = np.column_stack([np.zeros(len(tops), dtype=LONG), tops])[:, : self.m - 1]
        room = tops[:, -1:] - before
        loose = R - limits > 0
        short = (least[:, None] * (R - limits) - room)[:, loose] if loose.any() else LONG(0)
        return float(max(off / R, (least - 1).max(), np.max(short, initial=0) / R))


def check(task: Task, model: Any, tol: float, judge: Any) -> tuple[Any, Any]:
    """What must hold of a fitted model by itself; a value that the optimum does not exceed."""
    numbers = [model.objective_, model.bound_, model.gap_, model.relative_gap_]
    if not judge.that(np.isfinite(numbers).all(), f"finite certificate: {numbers}"):
        return LONG(np.inf), LONG(0)
    value, bound, gap = LONG(model.objective_), LONG(model.bound_), LONG(model.gap_)
    judge.at_most(0.0, gap, "gap_ >= 0")
    judge.at_most(abs(value - bound - gap), 0.0, "gap_ is the difference", 2 * EPS * abs(value))
    share = gap / value if value > 0 else LONG(0)
    judge.at_most(abs(model.relative_gap_ - share), 0.0, "relative_gap_", 1e-12 * share)
    if model.status_.value == "solved":
        judge.at_most(gap, tol * abs(value), "solved means gap <= tol", 8 * EPS * abs(value))
    best, dual = LONG(np.inf), LONG(0)
    if task.kernel is None:
        low, best = task.primal(model.coef_, model.intercept_)
        judge.that(np.isfinite(best), "finite weights")
        judge.at_most(low, value, "objective of the weights <= objective_", 4 * EPS * value)
        judge.at_most(value - best, gap, "objective_ - objective of the weights <= gap_",
                      4 * EPS * value)  # fmt: skip
    A = judge.call(getattr, model, "dual_coef_")
    if A is not None:
        A = real(A)
        judge.that((A[~task.used] == 0).all(), "no dual coefficients where the weight is 0")
        A = A[task.used]
        dual, _, high, size = task.of_dual(A)
        outside = task.outside(A)
        if judge.at_most(outside, 1e-9, "dual_coef_ lies in its domain"):
            judge.at_most(bound, max(dual, 0), "bound_ <= D(dual_coef_)",
                          (4 * EPS + 4 * max(outside, 0)) * size)  # fmt: skip
            judge.at_most(dual, value, "D(dual_coef_) <= objective_",
                          (4 * EPS + 4 * max(outside, 0)) * size)  # fmt: skip
        best = min(best, high)
    return best, bound
