"""What kernels with one program per row of scores have in common: whose rows, and the launch.

*Why the programs end.*  The threads of a program meet in every reduction (``tl.sum``, ``tl.max``):
one that leaves a loop or skips a branch before the others keeps them waiting for ever.  So a number
that a loop or a branch asks for must be the same, to the last bit, in all threads.  What threads
load is; a reduction exchanges partial results in pairs, both of which add the other's to their own,
so that its result is, as long as ``a + b`` and ``b + a`` are the same number.  With contraction
they are not: the sum of products ``p q`` then ends in ``fma(p, q, other)``, whose own product is
not rounded while the other's is, and the two threads of a pair get different results.  Kernels are
compiled without contraction therefore (``enable_fp_fusion=False``).  Besides, every loop counts its
steps up to a bound that does not depend on the data.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

LONGEST = 32  # weights rho that a row's program looks for, one maximum each
_SPREAD = 7919  # rows of one class often follow each other: programs that run at once take others


class Targets(NamedTuple):
    """What rows of scores are compared with.

    Parameters
    ----------
    labels, scales : tensors of shape (n,)
        scales in float64; of a batch the weights of the m classes, or none.
    costs : tensor
        Delta as in :func:`cornerstep.multiclass.compiled.sweeps.cost`, for these rows, by ``mode``.
        In float64.
    mode : int
    ignored : int, optional
        The label that does not count, of a batch of a network: see :func:`row_of`.
    """

    labels: Any
    scales: Any
    costs: Any
    mode: int
    ignored: int | None = None


@triton.jit
def row_of(
    scores, labels, scales, constants, row, columns, inside, m, ignored,
    BATCH: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """The label of a row, its scale, its scores less the label's; its loss, if it has none.

    In a BATCH of a network labels may be ``ignored`` or no class, which have the losses 0 and NaN;
    a score of -inf is that of a class that is not there, and of a label that is not, the loss inf.
    The last number is 1 where the loss is what the scores say.
    """
    z = tl.load(scores + row * m + columns, mask=inside, other=float("-inf")).to(tl.float64)
    given = tl.load(labels + row)
    loss = tl.load(constants) * 0.0 + 1.0
    if BATCH:
        known = (given >= 0) & (given < m)
        y = tl.where(known, given, 0).to(tl.int32)
        if WEIGHTED:  # noqa: SIM108 (known when compiling)
            scale = tl.load(scales + y).to(tl.float64)
        else:
            scale = loss
        own = tl.load(scores + row * m + y).to(tl.float64)
        lost = tl.sum(((inside & (z != z)) | (z == float("inf"))).to(tl.int32), 0) > 0
        lost = lost | (tl.max(z, 0) == float("-inf")) | (not known)
        lowest = tl.load(constants + 3)
        loss = tl.where(own == float("-inf"), float("inf"), loss)
        loss = tl.where(lost, float("nan"), loss)
        counts = given != ignored
        loss, scale = tl.where(counts, loss, 0.0), tl.where(counts, scale, 0.0)
        z = tl.where(inside & (z == float("-inf")), lowest, z)
        own = tl.where(own == float("-inf"), lowest, own)
    else:
        y = given.to(tl.int32)
        scale = tl.load(scales + row)
        own = tl.load(scores + row * m + y).to(tl.float64)
    return y, scale, z - own, loss


@triton.jit
def store_points(scores, exact, row, columns, inside, m, point, DOUBLE: tl.constexpr):
    """The dual point of a row over its scores, once all threads have read them."""
    tl.debug_barrier()
    tl.store(scores + row * m + columns, point.to(scores.dtype.element_ty), mask=inside)
    if DOUBLE:
        tl.store(exact + row * m + columns, point, mask=inside)


@triton.jit
def store_batch(
    numbers, gradients, row, columns, inside, m, y, scale, loss, value, mass, beta,
):  # fmt: skip
    """What a row of a batch adds to the loss, to the weights, and its gradient."""
    value = tl.where(loss == 1.0, scale * value, loss)
    tl.store(numbers + row * 2, value)
    tl.store(numbers + row * 2 + 1, scale)
    point = tl.where(loss == 0.0, 0.0, scale * tl.where(columns == y, -mass, beta))
    tl.store(gradients + row * m + columns, point, mask=inside)


def launch(
    kernel: Any,
    scores: Any,
    targets: Targets,
    arguments: tuple[Any, ...],
    warps: dict[int, int],
    **constants: Any,
) -> None:
    """Run a program for each row of scores.

    Parameters
    ----------
    kernel : jitted function
        Takes the scores, the targets, the ``arguments``, and the stride, number and length of rows,
        then the constants with ``WIDTH``, the next power of 2 of the length.
    scores : tensor of shape (n, m)
        Contiguous.
    targets : Targets
    arguments : tuple
    warps : dict
        Of 32 threads for a row, by the width up to which they do; more than all widths take 16.
    constants
        Of the kernel.
    """
    n, m = scores.shape
    width = triton.next_power_of_2(m)
    spread = _SPREAD if math.gcd(n, _SPREAD) == 1 else 1
    threads = next((few for widest, few in warps.items() if width <= widest), 16)
    with torch.cuda.device_of(scores):
        kernel[(n,)](
            scores, targets.labels, targets.scales, targets.costs, *arguments, spread, n, m,
            WIDTH=width, num_warps=threads, enable_fp_fusion=False, **constants,
        )  # fmt: skip


def batch_of(targets: Targets) -> dict[str, Any]:
    """The constants of :func:`row_of`."""
    return {
        "ignored": 0 if targets.ignored is None else targets.ignored,
        "BATCH": targets.ignored is not None,
        "WEIGHTED": targets.scales.shape[0] > 0,
    }
