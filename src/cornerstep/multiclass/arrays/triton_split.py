"""Numbers as sums of two shorter ones, on a GPU: read once, written once."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_BLOCK = 4096  # entries of a program


@triton.jit
def _split(values, first, rest, count, TF32: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(values + at, mask=inside, other=0.0)
    if TF32:
        head = (value.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    else:
        head = value.to(first.dtype.element_ty)
    tail = value - head.to(tl.float32)
    tl.store(first + at, head, mask=inside)
    tl.store(rest + at, tail.to(rest.dtype.element_ty), mask=inside)


def split(values: Any, dtype: Any) -> tuple[Any, Any]:
    """Numbers in a shorter type and what that leaves out, in the same type.

    Parameters
    ----------
    values : tensor
        float32, contiguous.
    dtype : torch.dtype
        bfloat16 or float16; float32 for the eleven digits that TF32 units read, and the rest.
    """
    first, rest = (torch.empty_like(values, dtype=dtype) for _ in range(2))
    count = values.numel()
    with torch.cuda.device_of(values):
        _split[(triton.cdiv(count, _BLOCK),)](
            values, first, rest, count, TF32=dtype == torch.float32, BLOCK=_BLOCK
        )
    return first, rest
