"""The multi-class SVM: ``P(W) = 1/2 |W|² + sum_i s_i Phi_mu(W'x_i; y_i)``, ``s_i = C weight_i``.

Its dual is ``D(A) = -1/2 |W|² - sum_i s_i (<Delta_i, alpha_i> + mu/2 |alpha_i|²)`` at
``W = sum_i s_i x_i alpha_i'``, over ``alpha_i = (1'beta_i) e_y - beta_i`` with beta_i in B.  Any W
and any A certify each other: ``P(W) - D(A)`` bounds the error of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from cornerstep.losses import Loss
from cornerstep.problems.examples import Examples, KernelExamples
from cornerstep.vectors import FloatArray, IntArray

_BLOCK_ENTRIES = 2**19  # scores held at a time


class MulticlassProblem:
    """Examples, labels, weights and a loss.

    Parameters
    ----------
    examples : Examples or KernelExamples
    labels : array of int of shape (n,)
        0, ..., n_classes - 1.
    n_classes : int
    loss : Loss
    scales : array of shape (n,)
        ``s_i = C weight_i``; examples of scale 0 play no part.
    smoothing : float
        mu; 0 for the loss itself.
    """

    def __init__(
        self,
        examples: Examples | KernelExamples,
        labels: IntArray,
        n_classes: int,
        loss: Loss,
        scales: FloatArray,
        smoothing: float = 0.0,
    ) -> None:
        loss.check(n_classes, examples.n)
        self.examples = examples
        self.labels = np.ascontiguousarray(labels, dtype=np.int64)
        self.n_classes = n_classes
        self.loss = loss
        self.scales = np.ascontiguousarray(scales, dtype=np.float64)
        self.smoothing = float(smoothing)

    @cached_property
    def record(self) -> tuple[Any, ...]:
        """The problem as the compiled sweeps take it."""
        loss = self.loss
        costs = np.empty((0, 0)) if loss.costs is None else np.ascontiguousarray(loss.costs)
        mode = 0 if loss.costs is None else 2 if loss.per_example else 1
        return (
            self.labels, self.scales, self.examples.norms, costs, mode,
            np.ascontiguousarray(loss.rho), loss.whole, self.smoothing,
        )  # fmt: skip

    def blocks(self) -> Iterator[slice]:
        """Runs of examples whose scores fit in memory together."""
        step = max(64, _BLOCK_ENTRIES // self.n_classes)
        for start in range(0, self.examples.n, step):
            yield slice(start, min(start + step, self.examples.n))

    def losses(self, image: FloatArray) -> float:
        """``sum_i s_i Phi_mu(W'x_i)`` from the data, in float64."""
        total = 0.0
        for block in self.blocks():
            scores = self.examples.scores(block, image, exact=True)
            loss, labels = self.loss.rows(block), self.labels[block]
            if self.smoothing:
                values = loss.envelope(scores, labels, self.smoothing)
            else:
                values = loss.value(scores, labels)
            total += float(self.scales[block] @ values)
        return total
