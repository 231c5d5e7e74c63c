"""Rows as arrays of any library that follows the array-API standard: torch's on a GPU above all.

A pass is that of :mod:`cornerstep.multiclass.solvers.passes`: products with blocks of rows, and
between them the vertices of the block's scores, or the dual points nearest to them, by array-API
code (:mod:`cornerstep.multiclass.arrays.losses`) or on a GPU by fused kernels.  Everything stays on
the device; numbers come from it once a pass.

Products are in the precision of the data: TF32 for float32 on a GPU, and for bfloat16 with results
in float32.  Images are kept in float64, what the products lost is bounded by probes, and the losses
of a certificate are computed from the data in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray
from cornerstep.data.arrays import (
    compressed,
    from_numpy,
    is_half_precision,
    joined,
    namespace,
    on_gpu,
    product,
    product_in_parts,
    quick_products,
    to_numpy,
    truncate_mantissa,
)
from cornerstep.data.digests import of_rows
from cornerstep.learning.rounding import Rounding
from cornerstep.multiclass.arrays.losses import ArrayLoss, one_hot
from cornerstep.multiclass.arrays.vertices import fused_corners, in_two_parts, nearest_points
from cornerstep.multiclass.losses import Loss
from cornerstep.multiclass.rounding import Reach, check_scales
from cornerstep.multiclass.solvers.passes import (
    FEATURES,
    PROBES,
    SAFETY,
    DualState,
    Envelopes,
    Moments,
    Pass,
)
from cornerstep.multiclass.solvers.provenance import (
    NOTHING,
    Provenance,
    Source,
    blend,
    later,
    source_of,
)

_LARGEST, _WIDE = 2.0**10, 1e30  # weights that float16 holds; a type that holds all is as wide
_TOGETHER = 2**25  # entries of arrays that are stacked for one product
_ENTRIES, _ENTRIES_ON_GPU = 2**20, 2**26  # scores held at a time


def _groups(arrays: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Some arrays of one shape after the other, as many as are stacked together."""
    step = max(1, _TOGETHER // max(math.prod(arrays[0].shape), 1))
    for first in range(0, len(arrays), step):
        yield arrays[first : first + step]


class ArrayExamples:
    """Rows x_i, with a constant feature behind them that is not stored.

    Parameters
    ----------
    X : array of shape (n, d)
    constant : float
        0 for none.
    """

    kernel = False
    sparse = False

    def __init__(self, X: Any, constant: float = 0.0) -> None:
        self.xp = namespace(X)
        self.data = X
        self.constant = constant
        self.n, self.features = X.shape
        self.size = self.features + bool(constant)
        self.double = X.dtype == self.xp.float64
        self.default_solver = "envelope"
        self.tf32 = on_gpu(X) and X.dtype == self.xp.float32
        self._mean: Any = None
        self.quick = True  # products may be in TF32, and weights as short as the data

    def weights(self, image: Any) -> Any:
        """W with a row per class."""
        return image

    def scores(self, block: slice, image: Any, shift: Any = None) -> Any:
        """Scores in the precision of the data, at least float32; plus a shift for each class."""
        rows = self.data[block, :]
        exact = not self.quick and is_half_precision(rows)
        if exact and not on_gpu(rows):
            rows, exact = self.xp.astype(rows, self.xp.float32), False
        weights, unit = image[:, : self.features], self._unit(rows, image)
        if unit is not None:
            weights = weights / unit
        bias = self.constant * image[:, self.features] if self.constant else None
        if shift is not None:
            bias = shift if bias is None else bias + shift
        across = self.xp.permute_dims(weights, (1, 0))
        if exact:
            out = product_in_parts(rows, across)
        elif unit is None:
            return product(rows, self.xp.astype(across, rows.dtype, copy=False), bias)
        else:
            out = product(rows, self.xp.astype(across, rows.dtype, copy=False))
        if unit is not None:
            out = out * self.xp.astype(unit, self.xp.float32)
        return out if bias is None else out + self.xp.astype(bias, self.xp.float32)[None, :]

    def _unit(self, rows: Any, image: Any) -> Any:
        """What weights are divided by so that numbers as small as float16 can hold them."""
        if not is_half_precision(rows) or float(self.xp.finfo(rows.dtype).max) > _WIDE:
            return None
        most = self.xp.max(self.xp.abs(image)) / _LARGEST + 1.0
        return 2.0 ** self.xp.ceil(self.xp.log2(most))  # nothing is rounded

    def short_weights(self, image: Any) -> tuple[Any, Any]:
        """W as products read it, and what that changes the mean of the scores by.

        All examples share that change, so that it counts n times: scores are better with it.
        """
        if not self.quick or not (self.tf32 or is_half_precision(self.data)):
            return image, None
        xp = self.xp
        if self._mean is None:
            self._mean = xp.mean(self.data, axis=0, dtype=xp.float64)
        weights, unit = image[:, : self.features], self._unit(self.data, image)
        inside = weights if unit is None else weights / unit
        short = truncate_mantissa(xp.astype(inside, xp.float32), self.data.dtype)
        short = xp.astype(short, xp.float64) * (1.0 if unit is None else unit)
        change = (weights - short) @ self._mean
        return xp.concat([short, image[:, self.features :]], axis=1), change

    def exact_scores(self, block: slice, image: Any) -> Any:
        """Scores in float64 throughout."""
        rows = self.xp.astype(self.data[block, :], self.xp.float64, copy=False)
        out = rows @ self.xp.permute_dims(image[:, : self.features], (1, 0))
        if self.constant:
            out = out + self.constant * image[:, self.features][None, :]
        return out

    def image(self, block: slice, coefficients: Any, exact: bool) -> Any:
        """``sum_i c_i x_i'`` in float64, without the constant feature.

        Coefficients that short types or TF32 cannot hold (``exact`` is false) are split into two
        parts: what all examples share is a sum in which nearly all cancels.
        """
        xp, rows = self.xp, self.data[block, :]
        if exact or not (is_half_precision(rows) or (self.quick and self.tf32)):
            across = xp.astype(xp.permute_dims(coefficients, (1, 0)), rows.dtype, copy=False)
            return xp.astype(product(across, rows), xp.float64)
        parts = in_two_parts(xp.astype(coefficients, xp.float32, copy=False), rows.dtype)
        first, rest = (product(xp.permute_dims(part, (1, 0)), rows) for part in parts)
        return xp.astype(first, xp.float64) + rest

    def moments(self, blocks: Iterator[slice], scales: Any) -> Any:
        """``sum_i s_i x_i x_i'`` in float64, or with many features its diagonal."""
        xp = self.xp
        wide = xp.float64 if self.double else xp.float32
        total: Any = 0.0
        for block in blocks:
            rows = xp.astype(self.data[block, :], wide, copy=False)
            if self.constant:
                shape = (rows.shape[0], 1)
                column = xp.full(shape, self.constant, dtype=wide, device=self.data.device)
                rows = xp.concat([rows, column], axis=1)
            rows = rows * xp.astype(xp.sqrt(scales[block]), wide)[:, None]
            if self.size > FEATURES:
                part = xp.sum(rows * rows, axis=0)
            else:
                part = product(xp.permute_dims(rows, (1, 0)), rows)
            total = total + xp.astype(part, xp.float64)
        return total


class ArrayProblem:
    """The problem of :class:`cornerstep.multiclass.problem.MulticlassProblem` on such rows.

    Parameters
    ----------
    examples : ArrayExamples
    labels : array of int64 of shape (n,)
    n_classes : int
    loss : Loss
    scales : array of shape (n,)
        In float64.
    smoothing : float
    """

    def __init__(
        self,
        examples: ArrayExamples,
        labels: Any,
        n_classes: int,
        loss: Loss,
        scales: Any,
        smoothing: float = 0.0,
    ) -> None:
        loss.check(n_classes, examples.n)
        self.examples, self.labels, self.n_classes = examples, labels, n_classes
        self.loss, self.scales, self.smoothing = loss, scales, float(smoothing)
        xp, data = examples.xp, examples.data
        self.losses = ArrayLoss(loss, xp, data, n_classes)
        # coefficients s_i u_i in units that few digits can hold: a float32, as kernels take it
        largest, least = float(xp.max(scales)), float(xp.min(scales))
        check_scales(least)
        self.largest = float(np.float32(largest))
        self.unit = float(np.float32(largest * loss.rho[0]))
        self.short = largest == least and loss.rho[0] == loss.rho[-1] and loss.rho.size <= 256

    @property
    def _rows(self) -> int:
        """Rows of a block."""
        entries = _ENTRIES_ON_GPU if on_gpu(self.examples.data) else _ENTRIES
        return max(64, entries // self.n_classes)

    def blocks(self) -> Iterator[slice]:
        """Runs of examples whose scores fit in memory together."""
        for start in range(0, self.examples.n, self._rows):
            yield slice(start, min(start + self._rows, self.examples.n))

    def digest(self) -> int:
        """What tells these examples from others; on a GPU how often they have been written to."""
        data = self.examples.data
        if on_gpu(data):
            return int(data._version)
        nothing = np.zeros(self.examples.n)
        columns = np.arange(self.examples.features)
        return of_rows(to_numpy(data), columns, nothing.astype(np.int64), nothing)

    @cached_property
    def reach(self) -> Reach:
        """What the rounding of a certificate is measured by."""
        xp, n = self.examples.xp, self.examples.n
        features = np.zeros(self.examples.size)
        for block in self.blocks():
            rows = xp.astype(xp.abs(self.examples.data[block, :]), xp.float64)
            sums = to_numpy(xp.permute_dims(rows, (1, 0)) @ self.scales[block])
            features[: self.examples.features] += sums
        if self.examples.constant:
            features[-1] = abs(self.examples.constant) * float(xp.sum(self.scales))
        largest = self.loss.largest_deltas(to_numpy(self.labels))
        costs = float(to_numpy(self.scales) @ largest)
        summed = min(n, self._rows) + n // self._rows
        return Reach(features, costs, float(self.loss.rho.sum()), self.examples.size, summed)


class ArrayRows:
    """Who holds such rows.

    Parameters
    ----------
    problem : ArrayProblem
    """

    moved: int | None = None

    def __init__(self, problem: ArrayProblem) -> None:
        self.problem = problem
        self.xp = problem.examples.xp
        self._corners = fused_corners(problem)
        self._nearest = nearest_points(problem)
        self._moments: Moments | None = None
        examples = problem.examples
        self.probes = self.zeros(PROBES if not examples.double else 0, examples.size)
        self.products = self.zeros(examples.n, self.probes.shape[0])
        if not examples.double:
            drawn = np.random.default_rng(0).standard_normal(self.probes.shape)
            self.probes = from_numpy(drawn, examples.data)
            parts = [examples.exact_scores(block, self.probes) for block in problem.blocks()]
            self.products = self.xp.concat(parts, axis=0)

    def zeros(self, *shape: int) -> Any:
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.problem.examples.data.device)

    def zero_state(self, *, kept: bool = True) -> DualState:
        problem = self.problem
        kept = kept and bool(problem.smoothing)
        return DualState(
            self.zeros(problem.n_classes, problem.examples.size),
            0.0,
            self.zeros(problem.examples.n if kept else 0, problem.n_classes),
            self.zeros(problem.n_classes, self.products.shape[1]),
            provenance=NOTHING,
        )

    def uniform(self) -> DualState:
        problem, xp = self.problem, self.xp
        total = sum(problem.losses.weights)
        state = self.zero_state()
        image, probed, linear, points = state.image, state.probed, self.zeros(), []
        for block in problem.blocks():
            labels, scales = problem.labels[block], problem.scales[block]
            deltas = problem.losses.deltas(block, labels, xp.float64)
            own = xp.astype(one_hot(xp, labels, problem.n_classes), xp.float64)
            linear = linear + (total / problem.n_classes) * xp.sum(scales[:, None] * deltas)
            # of s_i e_y alone: its entries are exact in few digits, those of s_i/m are not
            sums = scales[:, None] * own / problem.unit
            image = image + problem.unit * self._image(block, sums, problem.short)
            probed = probed + problem.unit * xp.permute_dims(sums, (1, 0)) @ self.products[block, :]
            if problem.smoothing:
                points.append(total * (own - 1.0 / problem.n_classes))
        image, probed = (
            total * (part - xp.mean(part, axis=0, keepdims=True)) for part in (image, probed)
        )
        alpha = xp.concat(points, axis=0) if problem.smoothing else state.alpha
        return DualState(image, float(linear), alpha, probed, provenance=source_of("uniform"))

    def corner(self, primal: DualState, state: DualState, *, nearest: bool) -> Pass:
        with quick_products(self.problem.examples.data, self.problem.examples.quick):
            corner, losses, vertex_losses = self.device_pass(primal.image, state.alpha, nearest)
        provenance: Provenance | None = None
        if not self.problem.smoothing:
            provenance = source_of("corner", primal.image, quick=self.problem.examples.quick)
        corner = corner._replace(linear=float(corner.linear), provenance=provenance)
        return Pass(primal, state, corner, float(losses), float(vertex_losses))

    def device_pass(self, image: Any, alpha: Any, nearest: bool) -> tuple[DualState, Any, Any]:
        """The pass with its numbers still on the device: vertices, losses, vertex losses."""
        problem, xp = self.problem, self.xp
        nothing = self.zero_state(kept=False)
        out, probed, linear = nothing.image, nothing.probed, self.zeros()
        losses, vertex_losses = self.zeros(), self.zeros()
        points, unit = [], problem.unit
        for block in problem.blocks():
            scores = problem.examples.scores(block, image)
            products = self.products[block, :]
            short = problem.short or problem.examples.tf32
            if problem.smoothing:
                here = xp.astype(scores, xp.float64)  # a copy, where scores are overwritten
                if not nearest:
                    here = here + problem.smoothing * alpha[block, :]
                numbers, near, exact = self._nearest(block, scores, problem.smoothing)
                losses = losses + numbers[2] - 0.5 * problem.smoothing * numbers[3]
            if problem.smoothing and nearest:
                linear, unit, short = linear + numbers[1], problem.largest, False
                coefficients = near
                probed = probed + unit * xp.permute_dims(exact, (1, 0)) @ products
            else:
                scores = here if problem.smoothing else scores
                part, costs, coefficients, probed = self._corners(block, scores, products, probed)
                vertex_losses = vertex_losses + xp.sum(part)
                linear = linear + xp.sum(costs)
                exact = coefficients
            if problem.smoothing:
                amounts = unit / problem.scales[block]
                points.append(xp.astype(exact, xp.float64) * amounts[:, None])
            out = out + self._image(block, coefficients, short)
        points = xp.concat(points, axis=0) if problem.smoothing else nothing.alpha
        corner = DualState(unit * out, linear, points, probed)
        return corner, losses if problem.smoothing else vertex_losses, vertex_losses

    def envelopes(self, image: Any, smoothing: float) -> Envelopes:
        problem, examples, xp = self.problem, self.problem.examples, self.xp
        provenance = source_of("nearest", image, smoothing, examples.quick)
        total: list[Any] = []
        image, shift = examples.short_weights(image)
        with quick_products(examples.data, examples.quick):
            for block in problem.blocks():
                scores = examples.scores(block, image, shift)
                numbers, coefficients, exact = self._nearest(block, scores, smoothing)
                probed = xp.permute_dims(exact, (1, 0)) @ self.products[block, :]
                parts = [self._image(block, coefficients, False), probed, numbers]
                total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
        out, probed, numbers = total
        unit, alpha = problem.largest, self.zeros(0, problem.n_classes)
        return Envelopes(
            DualState(unit * out, math.nan, alpha, unit * probed, provenance=provenance), numbers
        )

    def moments(self) -> Moments:
        if self._moments is None:
            xp, examples = self.xp, self.problem.examples
            with quick_products(examples.data):
                matrix = examples.moments(self.problem.blocks(), self.problem.scales)
            place = {"dtype": xp.float64, "device": examples.data.device}
            self._moments = Moments(matrix, lambda: xp.eye(matrix.shape[0], **place), xp)
        return self._moments

    def _image(self, block: slice, coefficients: Any, short: bool) -> Any:
        """The image of coefficients: in units of ``unit`` without smoothing."""
        problem, xp = self.problem, self.xp
        examples = problem.examples
        out = examples.image(block, coefficients, short)
        if examples.constant:
            sums = xp.sum(coefficients, axis=0, dtype=xp.float64)
            out = xp.concat([out, (examples.constant * sums)[:, None]], axis=1)
        return out

    def losses(self, image: Any) -> float:
        problem, total = self.problem, self.zeros()
        smoothing, unprobed = problem.smoothing, self.zeros(problem.n_classes, 0)
        for block in problem.blocks():
            scores = problem.examples.exact_scores(block, image)
            if smoothing and not problem.loss.entropic:
                total = total + self._envelopes_above(block, scores, smoothing)
            elif smoothing:
                numbers, _, _ = self._nearest(block, scores, smoothing)
                total = total + numbers[2] - 0.5 * smoothing * numbers[3]
            else:
                values = self._corners(block, scores, self.products[block, :0], unprobed)[0]
                total = total + self.xp.sum(values)
        return float(total)

    def _envelopes_above(self, block: slice, scores: Any, smoothing: float) -> Any:
        """The sum of the envelopes, ``min over v of Phi(v) + |s - v|²/(2 mu)``, or a little more.

        At ``v = s + mu alpha`` with the dual points alpha, which scores over a small mu take out of
        their domain by their rounding: what alpha earns would be no bound then.
        """
        problem, xp = self.problem, self.xp
        labels, scales = problem.labels[block], problem.scales[block]
        exact = self._nearest(block, xp.asarray(scores, copy=True), smoothing)[2]
        alpha = exact * (problem.largest / scales)[:, None]
        deltas = problem.losses.deltas(block, labels, xp.float64)
        there = problem.losses.values(scores + smoothing * alpha, labels, deltas)
        each = there + 0.5 * smoothing * problem.losses.penalty(alpha, labels)
        return xp.sum(scales * each)

    def rounding(self, primal: DualState, dual: DualState, square: float) -> Rounding:
        xp, reach = self.xp, self.problem.reach
        of_value, of_bound = (
            to_numpy(xp.max(xp.abs(state.image), axis=0)) for state in (primal, dual)
        )
        return Rounding(
            reach.of_value(of_value, square), reach.of_bound(of_bound, dual.linear, dual.steps)
        )

    def send(self, numbers: FloatArray) -> Any:
        return self.xp.asarray(numbers, device=self.problem.examples.data.device)

    def read(self, *arrays: Any) -> list[FloatArray]:
        numbers = to_numpy(self.xp.concat([self.xp.reshape(array, (-1,)) for array in arrays]))
        out, start = [], 0
        for array in arrays:
            end = start + math.prod(array.shape)
            out.append(numbers[start:end])
            start = end
        return out

    def _flat(self, images: Sequence[Any]) -> Any:
        """Arrays as the rows of a matrix."""
        return self.xp.reshape(self.xp.stack(list(images)), (len(images), -1))

    def square(self, state: DualState) -> float:
        return float(self.xp.sum(state.image * state.image))

    def ridge(self, alpha: Any) -> float:
        if not (self.problem.smoothing and alpha.shape[0]):
            return 0.0
        problem = self.problem
        each = problem.losses.penalty(alpha, problem.labels)
        return problem.smoothing * float(self.xp.sum(problem.scales * each))

    def inner(self, states: Sequence[DualState], other: DualState) -> FloatArray:
        problem = self.problem
        out = self._products([state.image for state in states], other.image)
        if problem.smoothing and other.alpha.shape[0]:
            weighted = problem.smoothing * problem.scales[:, None] * other.alpha
            out = out + self._products([state.alpha for state in states], weighted)
        return to_numpy(out)

    def _products(self, arrays: Sequence[Any], other: Any) -> Any:
        """``<array, other>`` of each array, some at a time."""
        flat = self.xp.reshape(other, (-1,))
        parts = [self._flat(group) @ flat for group in _groups(arrays)]
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    def mixture(self, states: Sequence[DualState], weights: FloatArray) -> DualState:
        xp = self.xp
        fields = []
        amounts = from_numpy(weights, self.problem.examples.data)
        for name in ("image", "alpha", "probed"):
            arrays = [getattr(state, name) for state in states]
            if 0 in arrays[0].shape:
                fields.append(arrays[0])
                continue
            total, first = None, 0
            for group in _groups(arrays):
                part = amounts[first : first + len(group)] @ self._flat(group)
                total = part if total is None else total + part
                first += len(group)
            fields.append(xp.reshape(total, arrays[0].shape))
        linear = float(weights @ np.array([state.linear for state in states]))
        provenance = blend(
            zip(weights.tolist(), (state.provenance for state in states), strict=True)
        )
        return DualState(fields[0], linear, fields[1], fields[2], provenance=provenance)

    def size(self, state: DualState) -> tuple[float, float]:
        square = self.xp.sum(state.image * state.image)
        if not self.probes.shape[0]:
            return float(square), 0.0
        error = self.square_of_error(state.image, state.probed)
        square, error = to_numpy(self.xp.stack([square, error])).tolist()  # from the device once
        return square, SAFETY * math.sqrt(error / PROBES)

    def square_of_error(self, image: Any, probed: Any) -> Any:
        """``sum over probes of |E q|²``, on the device."""
        if not self.probes.shape[0]:
            return self.zeros()
        away = self._missing(image, probed)
        return self.xp.sum(away * away)

    def probe_errors(self, state: DualState) -> Any:
        return self._missing(state.image, state.probed) if self.probes.shape[0] else state.probed

    def _missing(self, image: Any, probed: Any) -> Any:
        return image @ self.xp.permute_dims(self.probes, (1, 0)) - probed

    def refine(self) -> bool:
        """From TF32 to float32, and weights in float32 with shorter data."""
        examples = self.problem.examples
        before, examples.quick = examples.quick, False
        return before and (examples.tf32 or is_half_precision(examples.data))

    def coefficients(self, state: DualState) -> Any:
        if state.alpha.shape[0]:
            return self.problem.scales[:, None] * state.alpha
        if state.provenance is None:
            return None
        return later(self.rebuilt, state.provenance, self.problem.digest)

    def rebuilt(self, provenance: Provenance) -> Any:
        """``s_i alpha_i``: a sparse CSR tensor of torch, a dense array of other libraries."""
        problem, xp, parts = self.problem, self.xp, []
        for block in problem.blocks():
            total: Any = self.zeros(problem.labels[block].shape[0], problem.n_classes)
            for weight, source in provenance:
                total = total + weight * self._points(block, source)
            parts.append(compressed(total))
        return joined(xp, parts)

    def _points(self, block: slice, source: Source) -> Any:
        """``s_i alpha_i`` of a block, in float64, with products as they were."""
        problem, xp, examples = self.problem, self.xp, self.problem.examples
        if source.task == "uniform":
            own = xp.astype(one_hot(xp, problem.labels[block], problem.n_classes), xp.float64)
            total = sum(problem.losses.weights)
            return problem.scales[block][:, None] * total * (own - 1.0 / problem.n_classes)
        before, examples.quick = examples.quick, source.quick
        try:
            with quick_products(examples.data, source.quick):
                if source.task == "nearest":
                    image, shift = examples.short_weights(source.image)
                    scores = examples.scores(block, image, shift)
                    out = self._nearest(block, scores, source.smoothing)[2]
                    return problem.largest * out
                scores = examples.scores(block, source.image)
                unprobed = self.zeros(problem.n_classes, 0)
                out = self._corners(block, scores, self.products[block, :0], unprobed)[2]
                return problem.unit * xp.astype(out, xp.float64)
        finally:
            examples.quick = before
