"""Blocks of any model: each a convex combination of labelings, kept as labelings.

A step in block i: the planes' derivatives ``s_k = p_i (L_k - w'psi_k)`` and that of the oracle's
answer, a direction (``v - x``, ``v - u``, ``x - u``), the exact best step along it.  Labelings are
what is stored; their joint features are kept beside them while these are few.

References
----------
.. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
.. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien. Minding the gaps
   for block Frank-Wolfe optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector, Vector
from cornerstep.structured.problem import DualBlocks, add, dot
from cornerstep.structured.solvers.settings import BLOCK

RULES = ("bcfw", "bcfw-pairwise", "bcfw-away", "bcfw-auto")
_FW, _PAIRWISE, _AWAY = range(3)


def fingerprint(y: Any) -> Any:
    """What tells one labeling from another."""
    if isinstance(y, np.ndarray):
        return y.shape, y.dtype.str, y.tobytes() if y.dtype != object else tuple(y.ravel())
    if isinstance(y, (list, tuple)):
        return tuple(fingerprint(part) for part in y)
    if isinstance(y, dict):
        return tuple(sorted((key, fingerprint(part)) for key, part in y.items()))
    if getattr(type(y), "__hash__", None) is None:
        raise TypeError(
            f"a labeling must be made of arrays, sequences and hashable parts, got {y!r}"
        )
    return y


def combine(vectors: list[Vector], coefficients: FloatArray) -> Vector:
    """``sum_k c_k vector_k``; sparse if all are."""
    if any(not isinstance(vector, SparseVector) for vector in vectors):
        out = np.zeros(vectors[0].size)
        for vector, c in zip(vectors, coefficients, strict=True):
            add(out, vector, c)
        return out
    indices = np.concatenate([vector.indices for vector in vectors])  # type: ignore[union-attr]
    values = np.concatenate(
        [c * vector.values for vector, c in zip(vectors, coefficients, strict=True)]  # type: ignore[union-attr]
    )
    where, inverse = np.unique(indices, return_inverse=True)
    return SparseVector(where, np.bincount(inverse, values, where.size), vectors[0].size)


def square(vector: Vector) -> float:
    """``|vector|²``."""
    values = vector.values if isinstance(vector, SparseVector) else vector
    return float(values @ values)


def memory(vector: Vector | None) -> int:
    """Bytes that a vector takes."""
    if vector is None:
        return 0
    if isinstance(vector, SparseVector):
        return vector.indices.nbytes + vector.values.nbytes
    return vector.nbytes


class Planes:
    """The labelings of one block, their weights (0: only remembered) and losses."""

    def __init__(self, y: Any) -> None:
        self.labelings = [y]
        self.keys = [fingerprint(y)]
        self.features: list[Vector | None] = [None]
        self.weights = np.ones(1)
        self.losses = np.zeros(1)

    def put(self, y: Any, loss: float, keep: int) -> int:
        """The place of a labeling, made if need be: a remembered one gives way beyond ``keep``.

        The caller sees to its joint feature.
        """
        key = fingerprint(y)
        if key in self.keys:
            return self.keys.index(key)
        idle = np.flatnonzero(self.weights == 0.0)
        if len(self.keys) >= keep and idle.size:
            k = int(idle[0])
            self.labelings[k], self.keys[k], self.losses[k] = y, key, loss
            return k
        self.labelings.append(y)
        self.keys.append(key)
        self.features.append(None)
        self.weights = np.append(self.weights, 0.0)
        self.losses = np.append(self.losses, loss)
        return len(self.keys) - 1

    def copy(self) -> Planes:
        """A copy that shares the labelings."""
        other = Planes.__new__(Planes)
        other.labelings, other.keys = list(self.labelings), list(self.keys)
        other.features = [None] * len(self.keys)
        other.weights, other.losses = self.weights.copy(), self.losses.copy()
        return other


class PlaneBlocks(DualBlocks):
    """The dual state of a :class:`~cornerstep.structured.problem.ModelExamples`."""

    def __init__(self, examples: Any, lam: float, keep: int) -> None:
        super().__init__(examples, lam, keep)
        self.planes = [Planes(y) for y in examples.Y]
        self._truths: list[Vector | None] = [None] * examples.n
        self._spent = 0

    def _kept(self, store: list[Vector | None], k: int, i: int, y: Any) -> Vector:
        """``phi(x_i, y)`` from ``store[k]``, or built and stored there while the budget lasts."""
        feature = store[k]
        if feature is None:
            feature = self.examples.feature(i, y)
            self._keep(store, k, feature)
        return feature

    def _keep(self, store: list[Vector | None], k: int, feature: Vector) -> None:
        """Put ``feature`` into ``store[k]`` in place of what was there, while the budget lasts."""
        self._spent -= memory(store[k])
        store[k] = None
        if self._spent + memory(feature) <= BLOCK.feature_budget:
            store[k] = feature
            self._spent += memory(feature)

    def _truth(self, i: int) -> Vector:
        return self._kept(self._truths, i, i, self.examples.Y[i])

    def _features(self, i: int) -> list[Vector]:
        planes = self.planes[i]
        return [self._kept(planes.features, k, i, y) for k, y in enumerate(planes.labelings)]

    def sweep(self, order: Any, rule: str, remembered: bool) -> None:
        self._steps += len(order)
        for i in order:
            self._step(int(i), rule, remembered)

    def _n_terms(self) -> int:
        return self.examples.n + sum(planes.weights.size for planes in self.planes)

    def _step(self, i: int, rule: str, remembered: bool) -> None:
        examples, planes, w = self.examples, self.planes[i], self.w
        weight, total = examples.weights[i], examples.total
        features, truth = self._features(i), self._truth(i)
        own = dot(truth, w)
        scores = np.array([dot(feature, w) - own for feature in features])
        scores = (scores + planes.losses) * weight / total
        mean = float(planes.weights @ scores)
        used = np.flatnonzero(planes.weights)
        worst = int(used[scores[used].argmin()])
        if remembered:
            best = int(scores.argmax())
            y, loss, top = planes.labelings[best], planes.losses[best], scores[best]
            feature = features[best]
        else:
            y = examples.answer(i, w)
            feature, loss = examples.feature(i, y), examples.loss(i, y)
            top = examples.hinge(i, y, loss, feature, truth, w) * weight / total
            self.gaps[i] = max(top - mean, 0.0)
            if examples.debug and top < scores.max() - 1e-7 * (1 + abs(own)):
                hinge, earlier = (slope * total / weight for slope in (top, scores.max()))
                raise ValueError(
                    f"loss_augmented_decode is probably wrong: its answer for example {i} has a "
                    f"hinge of {hinge:.9g}, an earlier one still has {earlier:.9g}"
                )
        chosen = self._best_direction(
            i, rule, planes.weights, scores, worst, top, [*features, feature]
        )
        self.numbers[0] += 1.0
        if chosen is None:
            return
        kind, step, limit, c, image = chosen
        t = self.numbers[0]
        late = 0.5 * t * (t - 1.0)
        amount = weight * step / (self.lam * total)
        add(self.w, image, amount)
        add(self.v, image, late * amount)
        change = weight * step * float(c[:-1] @ planes.losses + c[-1] * loss) / total
        self.numbers[1:] += change, late * change
        planes.weights = np.maximum(planes.weights + step * c[:-1], 0.0)
        if step == limit:  # the plane that the step ends at leaves
            planes.weights[worst if kind != _FW else slice(None)] = 0.0
        if kind == _AWAY:  # rounding errors would grow by 1 + step each time
            planes.weights /= planes.weights.sum()
        if c[-1] and step > 0:
            place = planes.put(y, loss, self.keep)
            self._keep(planes.features, place, feature)
            planes.weights[place] += step

    def _best_direction(
        self,
        i: int,
        rule: str,
        weights: FloatArray,
        scores: FloatArray,
        worst: int,
        top: float,
        features: list[Vector],
    ) -> tuple[int, float, float, FloatArray, Vector] | None:
        """The direction that the rule takes, its step and largest step, coefficients and image."""
        mean = float(weights @ scores)
        u, v = np.zeros(weights.size + 1), np.zeros(weights.size + 1)
        u[worst], v[-1] = 1.0, 1.0
        x = np.append(weights, 0.0)
        alone = weights[worst] >= BLOCK.alone
        away = 0.0 if alone else weights[worst] / (1 - weights[worst])
        options = {
            _FW: (v - x, top - mean, 1.0),
            _PAIRWISE: (v - u, top - scores[worst], weights[worst]),
            _AWAY: (x - u, 0.0 if alone else mean - scores[worst], away),
        }
        if rule == "bcfw":
            kinds = [_FW]
        elif rule == "bcfw-pairwise":
            kinds = [_PAIRWISE]
        elif rule == "bcfw-away":
            kinds = [_FW if options[_FW][1] >= options[_AWAY][1] else _AWAY]
        else:
            kinds = [_FW, _PAIRWISE, _AWAY]
        weight, total = self.examples.weights[i], self.examples.total
        best: Any = None
        most = -1.0
        for kind in kinds:
            c, slope, limit = options[kind]
            if slope <= 0:
                continue
            image = combine(features, -c)
            curvature = square(image) * weight * weight / (self.lam * total**2)
            step = slope / curvature if curvature * limit > slope else limit
            gain = step * slope - 0.5 * step**2 * curvature
            if gain > most:
                most, best = gain, (kind, step, limit, c, image)
        return best

    def rebuild(self) -> None:
        total, w, linear = self.examples.total, np.zeros(self.examples.size), 0.0
        for i, (planes, weight) in enumerate(zip(self.planes, self.examples.weights, strict=True)):
            planes.weights /= planes.weights.sum()
            features = self._features(i)
            add(w, self._truth(i), weight)
            for k in np.flatnonzero(planes.weights):
                add(w, features[k], -weight * planes.weights[k])
            linear += weight * float(planes.weights @ planes.losses)
        self.w = w / (self.lam * total)
        self.numbers[1] = linear / total
        self._steps = 0

    def state(self) -> list[Planes]:
        return [planes.copy() for planes in self.planes]

    def restore(self, state: list[Planes]) -> None:
        self.planes = [planes.copy() for planes in state]
        for i, planes in enumerate(self.planes):
            planes.losses = np.array([self.examples.loss(i, y) for y in planes.labelings])
        self.rebuild()
