"""The vertices that scores point to, on a GPU: one program per row, which is read once.

Does what :func:`cornerstep.multiclass.compiled.sweeps.corners` does, with two more outputs: the
coefficients ``s_i u_i`` in units of ``unit``, so that few digits hold them, and the products
``sum_i s_i u_i (x_i'q)`` with the probes q in float64.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from cornerstep.multiclass.arrays.triton_launch import Targets, launch

_WARPS = {1024: 1, 8192: 4}


@triton.jit
def _corners(
    scores, labels, scales, costs, out, rho, unit, probes, probed, losses, linears, spread, n, m,
    MODE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTS: tl.constexpr, HEADS: tl.constexpr,
    WHOLE: tl.constexpr, PROBES: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * spread) % n
    columns = tl.arange(0, WIDTH)
    inside = columns < m
    heads = tl.arange(0, HEADS)
    y = tl.load(labels + row).to(tl.int32)
    scale = tl.load(scales + row)
    z = tl.load(scores + row * m + columns, mask=inside, other=float("-inf"))
    own = tl.load(scores + row * m + y)
    if MODE == 0:
        z = z - own + 1.0
    else:
        first = costs + (y.to(tl.int64) if MODE == 1 else row) * m
        z = z - own + tl.load(first + columns, mask=inside, other=0.0).to(z.dtype)
    unknown = tl.sum((z != z).to(tl.int32), 0) > 0  # a NaN: the maxima below pass it over
    z = tl.where(columns == y, 0.0, z)
    weights = tl.load(rho + heads, mask=heads < WEIGHTS, other=0.0)
    tops = tl.zeros([HEADS], tl.float64)
    places = tl.zeros([HEADS], tl.int32)
    for h in tl.static_range(WEIGHTS):
        top = tl.max(z, 0)
        place = tl.min(tl.where(z == top, columns, WIDTH), 0)  # ties: the first
        tops = tl.where(heads == h, top.to(tl.float64), tops)
        places = tl.where(heads == h, place, places)
        z = tl.where(columns == place, float("-inf"), z)
    earned = tl.where((places != y) & (heads < WEIGHTS), weights, 0.0)
    if WHOLE:
        loss = tl.sum(weights * tops)
    else:
        loss = tl.sum(weights * tl.maximum(tops, 0.0))
        earned = tl.where(tops > 0.0, earned, 0.0)
    earned = tl.where(loss > 0.0, earned, 0.0)
    total = tl.sum(earned)
    if MODE == 0:
        linear = total
    else:
        linear = tl.sum(earned * tl.load(first + places, mask=earned > 0.0, other=0.0))
    loss = tl.where(unknown, float("nan"), tl.where(loss > 0.0, loss, 0.0))
    tl.store(losses + row, scale * loss)
    tl.store(linears + row, scale * linear)
    # the row becomes 0, then its few entries are written: the barrier keeps the two apart
    part = scale / unit
    point = tl.where(columns == y, (part * total).to(z.dtype), 0.0)
    tl.store(out + row * m + columns, point.to(out.dtype.element_ty), mask=inside)
    tl.debug_barrier()
    entries = (-part * earned).to(out.dtype.element_ty)
    tl.store(out + row * m + places, entries, mask=earned > 0.0)
    if PROBES > 0:
        q = tl.arange(0, PROBES)
        product = scale * tl.load(probes + row * PROBES + q)
        tl.atomic_add(probed + y * PROBES + q, total * product, sem="relaxed")
        at = places[:, None] * PROBES + q[None, :]
        amounts = -earned[:, None] * product[None, :]
        some = (earned > 0.0)[:, None] & (q >= 0)[None, :]
        tl.atomic_add(probed + at, amounts, mask=some, sem="relaxed")


def corners(
    scores: Any,
    targets: Targets,
    out: Any,
    rho: Any,
    whole: bool,
    unit: float,
    probes: Any,
    probed: Any,
    losses: Any,
    linears: Any,
) -> None:
    """Write the vertices of rows of scores to ``out``, which may be the scores themselves.

    Parameters
    ----------
    scores : tensor of shape (n, m)
        float32 or float64, contiguous, as all tensors here.
    targets : Targets
    out : tensor of shape (n, m)
        Gets ``s_i u_i / unit``.
    rho : tensor of shape (K,)
        In float64.
    whole : bool
    unit : float
    probes : tensor of shape (n, k)
        ``x_i'q`` in float64; k may be 0, else it is a power of 2.
    probed : tensor of shape (m, k)
        ``sum_i s_i u_i (x_i'q)`` is added to it.
    losses, linears : tensors of shape (n,)
        Get ``s_i Phi`` and ``s_i <Delta_i, beta_i>``, in float64.
    """
    count = rho.shape[0]
    launch(
        _corners, scores, targets,
        (out, rho, unit, probes, probed, losses, linears), _WARPS,
        MODE=targets.mode, WEIGHTS=count, HEADS=triton.next_power_of_2(count), WHOLE=whole,
        PROBES=probes.shape[1],
    )  # fmt: skip
