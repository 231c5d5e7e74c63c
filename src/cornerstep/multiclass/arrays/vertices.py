"""What is found from a block of scores: its vertices, or the dual points nearest to them.

By array-API code (:mod:`cornerstep.multiclass.arrays.losses`), on a GPU by fused kernels, and the
nearest points of torch tensors on the CPU by those for NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerstep.data.arrays import (
    has_triton,
    is_half_precision,
    is_torch,
    namespace,
    on_gpu,
    truncate_mantissa,
)

if TYPE_CHECKING:
    from cornerstep.multiclass.arrays.rows import ArrayProblem

Corners = Callable[[slice, Any, Any, Any], tuple[Any, Any, Any, Any]]


def fused_corners(problem: ArrayProblem) -> Corners:
    """What finds the vertices of a block: the fused kernel where it can run, else array-API code.

    Takes the block, its scores (which may be overwritten), its products with the probes and what
    these have summed up to; gives back ``s_i Phi``, ``s_i <Delta_i, beta_i>``, ``s_i u_i / unit``
    and the new sums.
    """
    if on_gpu(problem.examples.data) and has_triton():
        from cornerstep.multiclass.arrays.triton_launch import LONGEST

        if problem.loss.rho.size <= LONGEST:
            return corners_on_gpu(problem)
    return _by_arrays(problem)


Nearest = Callable[[slice, Any, float], tuple[Any, Any, Any]]


def nearest_points(problem: ArrayProblem) -> Nearest:
    """What finds the dual points that attain the envelopes of a block.

    Takes the block, its scores (which may be overwritten) and mu; gives back the sums of
    ``s_i Phi`` (of ``s_i Phi_mu`` with entropy), ``s_i <Delta_i, beta_i>``, ``s_i <beta_i, z_i>``
    and what smoothing takes mu/2 of, ``s_i |alpha_i|²``; and ``s_i alpha_i / max s`` in the
    precision of products and in float64.
    """
    if on_gpu(problem.examples.data) and has_triton():
        from cornerstep.multiclass.arrays.triton_launch import LONGEST

        if problem.loss.rho.size <= LONGEST:
            return nearest_on_gpu(problem)
    if is_torch(problem.examples.data) and problem.examples.data.device.type == "cpu":
        return _nearest_on_cpu(problem)

    return nearest_by_arrays(problem)


def nearest_by_arrays(problem: ArrayProblem) -> Nearest:
    """:func:`nearest_points` by operations on whole arrays."""
    xp, losses = problem.examples.xp, problem.losses

    def find(block: slice, scores: Any, smoothing: float) -> tuple[Any, Any, Any]:
        labels, scales = problem.labels[block], problem.scales[block]
        scores = xp.astype(scores, xp.float64)
        deltas = losses.deltas(block, labels, xp.float64)
        values, alpha = losses.envelopes(scores, labels, deltas, smoothing)
        products = -xp.sum(alpha * losses.margins(scores, labels, deltas), axis=1)
        sums = [
            values if problem.loss.entropic else losses.values(scores, labels, deltas),
            -xp.sum(alpha * deltas, axis=1),
            products,
            losses.penalty(alpha, labels),
        ]
        numbers = xp.stack([xp.sum(scales * part) for part in sums])
        coefficients = (scales / problem.largest)[:, None] * alpha
        return numbers, coefficients, coefficients

    return find


def _nearest_on_cpu(problem: ArrayProblem) -> Nearest:
    """By the compiled projections: tensors there and NumPy arrays share their memory."""
    import torch

    labels, scales = problem.labels.numpy(), problem.scales.numpy()

    def find(block: slice, scores: Any, smoothing: float) -> tuple[Any, Any, Any]:
        loss, of, s = problem.loss.rows(block), labels[block], scales[block]
        values = scores.double().numpy()
        envelopes, alpha = loss.smoothed(values, of, smoothing)
        gains = loss.gains(alpha, of)
        own = np.take_along_axis(values, of[:, None], axis=1)
        products = gains - (alpha * (values - own)).sum(axis=1)
        sums = [
            envelopes if loss.entropic else loss.value(values, of),
            gains,
            products,
            loss.penalty(alpha, of),
        ]
        coefficients = torch.from_numpy((s / problem.largest)[:, None] * alpha)
        return (
            torch.tensor([s @ part for part in sums], dtype=torch.float64),
            coefficients,
            coefficients,
        )

    return find


def _targets(problem: ArrayProblem) -> Callable[[slice], Any]:
    """What fused kernels compare the scores of a block with."""
    from cornerstep.multiclass.arrays.triton_launch import Targets

    costs, each = problem.losses.costs, problem.loss.per_example
    if costs is None:
        nothing = problem.scales[:0]
        return lambda block: Targets(problem.labels[block], problem.scales[block], nothing, 0)
    return lambda block: Targets(
        problem.labels[block],
        problem.scales[block],
        costs[block, :] if each else costs,
        2 if each else 1,
    )


def nearest_on_gpu(problem: ArrayProblem) -> Nearest:
    """:func:`nearest_points` by one kernel on a GPU."""
    import torch

    from cornerstep.multiclass.arrays import triton_entropic, triton_envelope

    loss, targets, nothing = problem.losses, _targets(problem), problem.scales[:0]
    margin = float(problem.loss.margin)
    constants = problem.scales.new_tensor([0.0, problem.largest, margin, 0.0])

    def find(block: slice, scores: Any, smoothing: float) -> tuple[Any, Any, Any]:
        constants[0].fill_(smoothing)
        numbers = constants.new_empty((len(scores), 4))
        double = scores.dtype == torch.float64
        exact = nothing if double else torch.empty_like(scores, dtype=torch.float64)
        whose = targets(block)
        if problem.loss.entropic:
            count = len(loss.weights)
            triton_entropic.nearest(scores, whose, constants, count, exact, numbers)
        else:
            triton_envelope.nearest(
                scores, whose, constants, loss.rho, loss.equal, loss.whole, exact, numbers
            )
        return numbers.sum(0), scores, scores if double else exact

    return find


def in_two_parts(coefficients: Any, dtype: Any) -> tuple[Any, Any]:
    """Numbers of float32 in a shorter type, and in that type what it leaves out."""
    if on_gpu(coefficients) and has_triton():
        from cornerstep.multiclass.arrays.triton_split import split

        return split(coefficients, dtype)
    xp = namespace(coefficients)
    first = truncate_mantissa(coefficients, dtype)
    rest = coefficients - xp.astype(first, xp.float32, copy=False)
    return first, xp.astype(rest, dtype, copy=False)


def _by_arrays(problem: ArrayProblem) -> Corners:
    xp, losses = problem.examples.xp, problem.losses

    def find(block: slice, scores: Any, products: Any, probed: Any) -> tuple[Any, Any, Any, Any]:
        labels, scales = problem.labels[block], problem.scales[block]
        deltas = losses.deltas(block, labels, xp.float64)
        values, linear, points = losses.corners(scores, labels, deltas)
        coefficients = (scales / problem.unit)[:, None] * points
        sums = xp.permute_dims(scales[:, None] * points, (1, 0)) @ products
        values = xp.astype(values, xp.float64)
        return scales * values, scales * linear, coefficients, probed + sums

    return find


def corners_on_gpu(problem: ArrayProblem) -> Corners:
    """:func:`fused_corners` by one kernel on a GPU."""
    import torch

    from cornerstep.multiclass.arrays.triton_vertices import corners

    loss, data, targets = problem.losses, problem.examples.data, _targets(problem)

    def find(block: slice, scores: Any, products: Any, probed: Any) -> tuple[Any, Any, Any, Any]:
        whose = targets(block)
        values, linear = torch.empty_like(whose.scales), torch.empty_like(whose.scales)
        out = scores
        if is_half_precision(data) and problem.short:
            out = torch.empty_like(scores, dtype=data.dtype)
        corners(
            scores, whose, out, loss.rho, loss.whole, problem.unit, products, probed, values, linear
        )
        return values, linear, out, probed

    return find
