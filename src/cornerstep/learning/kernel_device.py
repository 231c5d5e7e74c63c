"""Kernels whose blocks a GPU computes: products in float64 there, the answers in this memory.

The examples lie on the device once, in float64, and so do those of a part that is taken; a block is
computed some rows at a time, so that no more than ``_BYTES`` of it are there.  What keeps columns,
and what solves, is on the host and does not know.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import IntArray
from cornerstep.data.arrays import is_other_library, is_torch, on_host
from cornerstep.learning.kernel_blocks import Block, InnerProductKernel

_BYTES = 2**27  # of a block that are on the device at a time


def device_of(X: Any) -> Any:
    """The device of a tensor, if it is another than this memory; an error for other arrays."""
    if not is_other_library(X) or on_host(X):
        return None
    if not is_torch(X):
        kind = type(X).__module__.split(".")[0]
        raise ValueError(f"X must be an array of NumPy or a torch tensor, got one of {kind}")
    if X.is_sparse or X.is_sparse_csr:
        raise ValueError("X must be dense on a GPU: train sparse rows as X.cpu()")
    return X.device


class DeviceKernel(InnerProductKernel):
    """The kernel matrix of dense rows, computed on a device of torch.

    Of rows so far from the others that products would cancel, exponents come from differences, as
    in :class:`~cornerstep.learning.kernel_blocks.InnerProductKernel`: blocks are then computed on
    the host.

    Parameters
    ----------
    X : array of shape (n, d)
    name, gamma, degree, coef0
        Of the kernel.
    device : torch.device
    """

    def __init__(
        self, X: Any, name: str, gamma: float = 1.0, degree: float = 3, coef0: float = 0.0, *,
        device: Any,
    ) -> None:  # fmt: skip
        super().__init__(X, name, gamma, degree, coef0)
        if sp.issparse(self._left):
            raise ValueError("X must be dense for a kernel on a device")
        import torch

        self.entries_are_costly = False  # to move one costs more
        self._there = torch.as_tensor(np.ascontiguousarray(self._left), device=device)

    def take(self, examples: IntArray) -> DeviceKernel:
        some = super().take(examples)
        assert isinstance(some, DeviceKernel)
        some._there = self._there[self._places(examples)]
        return some

    def _places(self, examples: IntArray) -> Any:
        import torch

        return torch.as_tensor(np.asarray(examples, np.int64), device=self._there.device)

    def block(self, rows: IntArray, columns: IntArray | None) -> Block:
        """Entries of the matrix, a fresh array."""
        if self._given is not None:
            return super().block(rows, columns)
        second = np.arange(self.n) if columns is None else columns
        others = self._there if columns is None else self._there[self._places(columns)]
        out = np.empty((rows.size, second.size))
        step = max(1, _BYTES // (8 * max(second.size, 1)))
        for start in range(0, rows.size, step):
            some = self._there[self._places(rows[start : start + step])]
            out[start : start + step] = self._entries(some, others).cpu().numpy()
        if self.name == "rbf" or self.shift:
            self._set_diagonal(out, rows, second)
        return out

    def _entries(self, some: Any, others: Any) -> Any:
        """The entries of left factors of some examples and others, on the device."""
        if self.name == "linear":
            part = some @ others.T
        elif self.name == "rbf":
            norms = some[:, -2].clone()
            right = (2 * self.gamma) * some
            right[:, -2] = -self.gamma
            right[:, -1] = -self.gamma * norms
            part = (right @ others.T).clamp_(max=0.0).exp_()
        else:
            part = (self.gamma * some) @ others.T
            part += self.coef0
            part = part.pow_(self.degree) if self.name == "poly" else part.tanh_()
        return part + self.constant if self.constant else part
