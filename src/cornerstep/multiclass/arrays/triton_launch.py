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

LONGEST = 32  # weights rho that a row's program looks for, one maximum each
_SPREAD = 7919  # rows of one class often follow each other: programs that run at once take others


class Targets(NamedTuple):
    """What rows of scores are compared with.

    Parameters
    ----------
    labels, scales : tensors of shape (n,)
        scales in float64.
    costs : tensor
        Delta as in :func:`cornerstep.multiclass.compiled.sweeps.cost`, for these rows, by ``mode``.
        In float64.
    mode : int
    """

    labels: Any
    scales: Any
    costs: Any
    mode: int


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
        then the constants with ``MODE`` and ``WIDTH``, the next power of 2 of the length.
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
            MODE=targets.mode, WIDTH=width, num_warps=threads, enable_fp_fusion=False, **constants,
        )  # fmt: skip
