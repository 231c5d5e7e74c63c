"""The losses as array-API code: what runs on NumPy, torch and whatever else follows the standard.

The same arithmetic as :class:`cornerstep.multiclass.losses.Loss` has, on rows of scores of any
array library: values and vertices from the K largest margins of a row, and the projections of
:mod:`cornerstep.multiclass.compiled.projection` for all rows at once.  There the pools of a
regression are found one after the other; here ``v_j = min over a <= j of max over b >= j of
mean(y_a, ..., y_b)``. As rho has K entries and c falls, a pool begins among the first K places or
is a single one.

Equal weights ``rho = r (1, ..., 1)``, K of them, need no regression.  With c sorted downwards and
``b_y`` added to it, *each* is ``beta_j = clip(c_j - t, 0, r)`` with ``sum beta = t``, or with
``sum beta = K r`` where that is less.  *whole* is the same where ``(K - 1) max beta <= sum beta``;
else ``beta_j = clip(c_j - t, 0, u)`` with ``sum beta = (K - 1) u``, where the best u is
``min(r, (sum_j (c_j - t)_+ + (K - 1) t) / (K (K - 1)))``.

References
----------
.. [1] M. J. Best, N. Chakravarti. Active set algorithms for isotonic regression; a unifying
   framework. Mathematical Programming 47, 425-439, 1990.
.. [2] C. H. Lim, S. J. Wright. Efficient Bregman projections onto the permutahedron and related
   polytopes. AISTATS 2016.
"""

from __future__ import annotations

import math
from typing import Any

from cornerstep.multiclass.losses import Loss

_HALVINGS = 60  # of an interval that holds a root
_STEPS, _EXACT = 103, 1e-14  # Newton's, on piecewise linear functions; the last is one of them
_FIRST = 64  # of the largest entries of a row are looked at first: few get weight


class ArrayLoss:
    """A loss for arrays of one library on one device.

    Parameters
    ----------
    loss : Loss
    xp : namespace
        Of the array library.
    like : array
        On the device to use.
    n_classes : int
    """

    def __init__(self, loss: Loss, xp: Any, like: Any, n_classes: int) -> None:
        self.loss, self.xp, self.n_classes = loss, xp, n_classes
        self.device = like.device
        self.whole = loss.whole
        self.weights = [float(weight) for weight in loss.rho]
        self.rho = xp.asarray(self.weights, dtype=xp.float64, device=self.device)
        self.equal = self.weights[0] == self.weights[-1]
        self.costs = None
        if loss.costs is not None:
            self.costs = xp.asarray(loss.costs, dtype=xp.float64, device=self.device)

    def deltas(self, block: slice, labels: Any, dtype: Any) -> Any:
        """Delta of the examples of ``block``, one row each, with 0 for the label."""
        xp = self.xp
        own = one_hot(xp, labels, self.n_classes)
        if self.costs is None:
            return self.loss.margin * xp.astype(~own, dtype)
        rows = (
            self.costs[block, :] if self.loss.per_example else xp.take(self.costs, labels, axis=0)
        )
        return xp.where(own, 0.0, xp.astype(rows, dtype))

    def margins(self, scores: Any, labels: Any, deltas: Any) -> Any:
        """``z = s - s_y + Delta``."""
        own = self.xp.take_along_axis(scores, labels[:, None], axis=1)
        return scores - own + deltas

    def corners(self, scores: Any, labels: Any, deltas: Any) -> tuple[Any, Any, Any]:
        """``Phi``, ``<Delta, beta>`` and the vertex ``(1'beta) e_y - beta`` of each row.

        The first in the precision of the scores; what proves a bound, with Delta, in float64.
        """
        xp = self.xp
        z = self.margins(scores, labels, xp.astype(deltas, scores.dtype, copy=False))
        order = xp.argsort(z, axis=1, descending=True, stable=True)[:, : len(self.weights)]
        largest = xp.take_along_axis(z, order, axis=1)
        rho = xp.astype(self.rho, z.dtype)[None, :]
        if self.whole:
            losses = xp.sum(rho * largest, axis=1)
            earns = (losses > 0)[:, None] & (order != labels[:, None])
        else:
            losses = xp.sum(rho * xp.clip(largest, 0.0, None), axis=1)
            earns = (largest > 0) & (order != labels[:, None])
        earned = xp.where(earns, self.rho[None, :], 0.0)
        linear = xp.sum(earned * xp.take_along_axis(deltas, order, axis=1), axis=1)
        columns = xp.arange(scores.shape[1], device=self.device)[None, :]
        point = xp.where(columns == labels[:, None], xp.sum(earned, axis=1)[:, None], 0.0)
        for h in range(len(self.weights)):
            point = point - xp.where(columns == order[:, h : h + 1], earned[:, h : h + 1], 0.0)
        return xp.clip(losses, 0.0, None), linear, point

    def values(self, scores: Any, labels: Any, deltas: Any) -> Any:
        """``Phi`` of each row."""
        return self.corners(scores, labels, deltas)[0]

    def envelopes(self, scores: Any, labels: Any, deltas: Any, smoothing: float) -> Any:
        """``Phi_mu`` of each row, and the alpha that attains it."""
        xp = self.xp
        z = self.margins(scores, labels, deltas)
        if self.loss.entropic:
            return self._entropic(z, labels, smoothing)
        alpha = self.project(-z / smoothing, labels)
        values = -xp.sum(alpha * z, axis=1) - 0.5 * smoothing * xp.sum(alpha * alpha, axis=1)
        return values, alpha

    def penalty(self, alpha: Any, labels: Any) -> Any:
        """What smoothing takes mu/2 of, at each row of dual points: a square, or an entropy."""
        xp = self.xp
        if not self.loss.entropic:
            return xp.sum(alpha * alpha, axis=1)
        own = one_hot(xp, labels, self.n_classes)
        less = xp.clip(xp.max(xp.where(own, alpha, 0.0), axis=1), None, 1.0)
        beta = xp.clip(xp.where(own, 0.0, -alpha), 0.0, None)
        logs = xp.log(xp.where(beta > 0, beta, 1.0))
        rest = xp.where(less < 1, (1.0 - less) * xp.log1p(xp.where(less < 1, -less, 0.0)), 0.0)
        return 2.0 * (xp.sum(beta * logs, axis=1) + rest)

    def _entropic(self, z: Any, labels: Any, smoothing: float) -> tuple[Any, Any]:
        """The same with entropy: see :mod:`cornerstep.multiclass.entropic`."""
        xp, k = self.xp, len(self.weights)
        own = one_hot(xp, labels, self.n_classes)
        others = xp.where(own, -math.inf, z / smoothing)
        if k == 1:  # softmax: the largest is all that a sort would be for
            largest = others
            place = xp.max(others, axis=1, keepdims=True)
        else:
            largest = xp.sort(others, axis=1, descending=True)
            place = largest[:, k - 1 : k]  # ties with it are counted, whatever their size
        largest = largest - place
        tail = _log_sum(xp, largest[:, k - 1 :])
        scale = -math.log(k) - tail  # with k - 1 of them at the cap, which always fits
        for c in range(k - 2, -1, -1):
            tail = xp.logaddexp(tail, largest[:, c])
            wider = math.log((k - c) / k) - tail
            scale = xp.where(wider + largest[:, c] <= -math.log(k), wider, scale)
        logs = xp.clip(others - place + scale[:, None], None, -math.log(k) if k > 1 else 0.0)
        u = xp.exp(logs)
        finite = u > 0
        total = xp.sum(u * (xp.where(finite, others, 0.0) - xp.where(finite, logs, 0.0)), axis=1)
        value = xp.logaddexp(xp.zeros_like(total), total)
        share = xp.exp(total - value)[:, None]
        return smoothing * value, xp.where(own, share, -share * u)

    def project(self, points: Any, labels: Any) -> Any:
        """The nearest dual points, in float64: see
        :mod:`cornerstep.multiclass.compiled.projection`.

        Of each row only the largest entries can have weight; how many is tried.
        """
        xp = self.xp
        points = xp.astype(points, xp.float64)
        m = points.shape[1]
        own = one_hot(xp, labels, m)
        b = xp.take_along_axis(points, labels[:, None], axis=1)
        c = xp.where(own, -math.inf, -points)
        order = xp.argsort(c, axis=1, descending=True, stable=True)
        c = xp.take_along_axis(c, order, axis=1)
        first = min(max(_FIRST, 2 * len(self.weights)), m - 1)
        while True:
            beta = self._sorted(c[:, :first], b)
            if first == m - 1 or not bool(xp.any(beta[:, -1] > 0)):
                break
            first = min(4 * first, m - 1)
        rest = xp.zeros((beta.shape[0], m - first), dtype=xp.float64, device=self.device)
        place = xp.argsort(order, axis=1, stable=True)
        beta = xp.take_along_axis(xp.concat([beta, rest], axis=1), place, axis=1)
        return xp.where(own, xp.sum(beta, axis=1)[:, None], -beta)

    def _sorted(self, c: Any, b: Any) -> Any:
        if len(self.weights) == 1:
            return self._simplex(c, b)
        if self.equal:
            return self._equal_whole(c + b) if self.whole else self._equal_each(c + b)
        return self._project_whole(c, b) if self.whole else self._project_each(c, b)

    def _simplex(self, c: Any, b: Any) -> Any:
        """One weight: ``beta_j = max(0, c_j - tau)``, with ``sum beta = tau + b_y`` or the cap."""
        xp, cap = self.xp, self.weights[0]
        above = c + b
        count = xp.arange(1, c.shape[1] + 1, dtype=xp.float64, device=self.device)[None, :]
        heads = xp.cumulative_sum(above, axis=1)
        t = self._last(heads / (count + 1.0), above * (count + 1.0) > heads)
        shifted = c - c[:, :1]
        capped = (xp.cumulative_sum(shifted, axis=1) - cap) / count
        limit = self._last(capped, shifted > capped)
        free = xp.clip(above - t, 0.0, None)
        return xp.where(t <= cap, free, xp.clip(shifted - limit, 0.0, None))

    def _last(self, values: Any, holds: Any) -> Any:
        """The entry of each row at the last place where ``holds``; 0 where it never does."""
        xp = self.xp
        count = xp.sum(xp.astype(holds, xp.int64), axis=1)[:, None]
        entries = xp.take_along_axis(values, xp.clip(count - 1, 0, None), axis=1)
        return xp.where(count > 0, entries, 0.0)

    def _equal_each(self, c: Any) -> Any:
        xp, cap, count = self.xp, self.weights[0], len(self.weights)

        def excess(t: Any) -> tuple[Any, Any]:
            middle = (c > t) & (c - t < cap)
            slope = xp.sum(xp.astype(middle, xp.float64), axis=1, keepdims=True) + 1.0
            return xp.sum(xp.clip(c - t, 0.0, cap), axis=1, keepdims=True) - t, slope

        most = xp.full_like(c[:, :1], cap * count)
        t = self._root(excess, xp.zeros_like(most), most)
        free = xp.clip(c - t, 0.0, cap)
        return xp.where(excess(most)[0] > 0, self._filled(c, cap, count), free)

    def _filled(self, c: Any, cap: float, count: int) -> Any:
        """``clip(c_j - t, 0, cap)`` that sum to ``count * cap``."""
        xp = self.xp
        c = c - c[:, count - 1 : count]
        nexts = c[:, count : count + 1] if c.shape[1] > count else c[:, :1] * 0.0

        def excess(t: Any) -> tuple[Any, Any]:
            middle = (c > t) & (c - t < cap)
            slope = xp.sum(xp.astype(middle, xp.float64), axis=1, keepdims=True)
            return xp.sum(xp.clip(c - t, 0.0, cap), axis=1, keepdims=True) - count * cap, slope

        t = self._root(excess, nexts - cap, xp.zeros_like(nexts))
        return xp.clip(c - t, 0.0, cap)

    def _equal_whole(self, c: Any) -> Any:
        xp, cap, count = self.xp, self.weights[0], len(self.weights) - 1
        heads = xp.sum(c[:, :count], axis=1, keepdims=True)
        each = self._equal_each(c)
        inside = each[:, :1] * count <= xp.sum(each, axis=1, keepdims=True)
        base = c[:, count - 1 : count]
        e = c - base

        def least(t: Any) -> Any:
            above = xp.sum(xp.clip(e - t, 0.0, None), axis=1, keepdims=True)
            return (above + count * (t + base)) / (count * (count + 1))

        def excess(t: Any) -> tuple[Any, Any]:
            u = least(t)
            full = xp.sum(xp.astype(e - t >= u, xp.float64), axis=1, keepdims=True)
            some = xp.sum(xp.astype(e > t, xp.float64), axis=1, keepdims=True)
            slope = (some - full) + (full - count) * (some - count) / (count * (count + 1))
            total = xp.sum(xp.clip(xp.minimum(e - t, u), 0.0, None), axis=1, keepdims=True)
            return total - count * u, slope

        t = self._root(excess, e[:, count : count + 1] - cap, xp.zeros_like(base))
        u = least(t)
        cone = xp.clip(xp.minimum(e - t, u), 0.0, None)
        cone = xp.where(u >= cap, self._filled(c, cap, count), cone)
        return xp.where(heads <= 0, 0.0, xp.where(inside, each, cone))

    def _root(self, function: Any, low: Any, high: Any) -> Any:
        """Where a decreasing function is 0, by Newton's steps within an interval that shrinks.

        ``function`` gives its values and minus its slopes.
        """
        xp = self.xp
        t = 0.5 * (low + high)
        for step in range(_STEPS):
            value, slope = function(t)
            low, high = xp.where(value >= 0, t, low), xp.where(value <= 0, t, high)
            ahead = t + value / xp.where(slope > 0, slope, 1.0)
            middle = 0.5 * (low + high)
            good = (slope > 0) & (ahead >= low) & (ahead <= high)
            good = good & (step % 4 < 3)  # a function with few pieces far off is halved towards
            done = (xp.abs(value) <= _EXACT) | ((slope > 0) & (ahead == t))
            t = xp.where(done, t, xp.where(good, ahead, middle))
            if bool(xp.all(done | (high - low <= _EXACT * xp.abs(low)))):
                break
        return t

    def _regression(self, values: Any, scale: Any) -> Any:
        """The decreasing rows nearest to ``values - scale rho``, less the first of ``values``."""
        xp = self.xp
        width = values.shape[1]
        heads = min(len(self.weights), width)
        rho = xp.concat(
            [self.rho[:heads], xp.zeros(width - heads, dtype=xp.float64, device=self.device)]
        )
        y = (values - values[:, :1]) - scale * rho[None, :]
        place = xp.arange(width, device=self.device)[None, :]
        fit = xp.where(place >= heads, y, math.inf)
        sums = xp.cumulative_sum(y, axis=1)
        for a in range(heads):
            before = sums[:, a : a + 1] - y[:, a : a + 1]
            count = xp.astype(xp.clip(place - a + 1, 1, None), xp.float64)
            means = xp.where(place >= a, (sums - before) / count, -math.inf)
            most = _running_maximum(xp, means)
            fit = xp.where(place >= a, xp.minimum(fit, most), fit)
        return fit

    def _project_each(self, c: Any, b: Any) -> Any:
        xp = self.xp
        most = xp.clip((c - c[:, :1]) - self._regression(c, 1.0), 0.0, None)
        above = c + b
        low = xp.zeros_like(b)
        high = xp.sum(most, axis=1)[:, None]
        for _ in range(_HALVINGS):
            t = 0.5 * (low + high)
            total = xp.sum(xp.clip(xp.minimum(above - t, most), 0.0, None), axis=1)[:, None]
            low, high = xp.where(total > t, t, low), xp.where(total > t, high, t)
        full = above - high >= most  # entries that have stopped growing, and that still grow
        grows = ~full & (above > high)
        fixed = xp.sum(xp.where(full, most, 0.0) + xp.where(grows, above, 0.0), axis=1)[:, None]
        count = xp.sum(xp.astype(grows, xp.float64), axis=1)[:, None]
        t = xp.clip(fixed / (1.0 + count), low, high)
        return xp.clip(xp.minimum(above - t, most), 0.0, None)

    def _project_whole(self, c: Any, b: Any) -> Any:
        """``c - v(s)`` at the root s of ``h'(s)/2 = R v_y - sum_j rho_j v_j``, where v_y, the
        label's fit, is of the entry ``s R - b_y`` among the others.
        """
        xp = self.xp
        total = sum(self.weights)
        gain = self._whole_slope(xp.zeros_like(b), c, b, total)[0]
        low, high = xp.zeros_like(b), xp.ones_like(b)
        for _ in range(_HALVINGS):
            s = 0.5 * (low + high)
            up = self._whole_slope(s, c, b, total)[0] > 0
            low, high = xp.where(up, low, s), xp.where(up, s, high)
        at_most = self._whole_slope(xp.ones_like(b), c, b, total)[0] <= 0
        s = xp.where(at_most, 1.0, 0.5 * (low + high))
        beta = self._whole_slope(s, c, b, total)[1]
        return xp.where(gain < 0, beta, 0.0)

    def _whole_slope(self, s: Any, c: Any, b: Any, total: float) -> tuple[Any, Any]:
        xp = self.xp
        own = s * total - b
        place = xp.sum(xp.astype(c >= own, xp.int64), axis=1)[:, None]
        columns = xp.arange(c.shape[1] + 1, device=self.device)[None, :]
        before = xp.concat([c, c[:, -1:]], axis=1)
        after = xp.concat([c[:, :1], c], axis=1)
        values = xp.where(columns < place, before, xp.where(columns == place, own, after))
        fit = self._regression(values, s)
        heads = min(len(self.weights), values.shape[1])
        label = xp.take_along_axis(fit, place, axis=1)
        slope = xp.sum(self.rho[None, :heads] * (label - fit[:, :heads]), axis=1)[:, None]
        entries = xp.clip((values - values[:, :1]) - fit, 0.0, None)
        beta = xp.where(columns[:, :-1] < place, entries[:, :-1], entries[:, 1:])
        return slope, beta


def _log_sum(xp: Any, rows: Any) -> Any:
    """``ln sum exp`` of each row, whose largest entry is 0."""
    return xp.log(xp.sum(xp.exp(rows), axis=1))


def one_hot(xp: Any, labels: Any, n_classes: int) -> Any:
    """A row of truth values for each label."""
    return xp.arange(n_classes, device=labels.device)[None, :] == labels[:, None]


def _running_maximum(xp: Any, values: Any) -> Any:
    """``max over b >= j of values_b`` in every place j of a row."""
    step = 1
    while step < values.shape[1]:
        ahead = xp.maximum(values[:, :-step], values[:, step:])
        values = xp.concat([ahead, values[:, -step:]], axis=1)
        step *= 2
    return values
