"""The multi-class SVM: ``P(W) = 1/2 |W|² + sum_i s_i Phi_mu(W'x_i; y_i)``, ``s_i = C weight_i``.

Its dual is ``D(A) = -1/2 |W|² - sum_i s_i (<Delta_i, alpha_i> + mu/2 |alpha_i|²)`` at
``W = sum_i s_i x_i alpha_i'``, over ``alpha_i = (1'beta_i) e_y - beta_i`` with beta_i in B.  Any W
and any A certify each other: ``P(W) - D(A)`` bounds the error of both.

References
----------
.. [1] K. Crammer, Y. Singer. On the algorithmic implementation of multiclass kernel-based vector
   machines. Journal of Machine Learning Research 2, 265-292, 2001.
.. [2] K. Tajima, Y. Hirohashi, E. R. R. Zara, T. Kato. Frank-Wolfe algorithm for learning SVM-type
   multi-category classifiers. arXiv:2008.08894, 2020.
.. [3] K. Tajima, T. Kato. Frank-Wolfe learning algorithm for SVM-type multi-category classifiers
   (in Japanese). 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.examples import Examples, JointExamples, KernelExamples
from cornerstep.multiclass.free_intercept import Balance
from cornerstep.multiclass.losses import Loss
from cornerstep.multiclass.rounding import Reach, check_scales
from cornerstep.multiclass.simplex_loss import SimplexLoss

_BLOCK_ENTRIES = 2**19  # scores held at a time
_COUNTS = 0.05  # share of a gap that rounding may be before twice the digits are worth their time,
_DOUBLED = 2**32  # which is some nanoseconds for each of at most so many products


class MulticlassProblem:
    """Examples, labels, weights and a loss.

    Parameters
    ----------
    examples : Examples, KernelExamples or JointExamples
    labels : array of int of shape (n,)
        0, ..., n_classes - 1.
    n_classes : int
    loss : SimplexLoss
        Compiled code knows those that are a Loss.
    scales : array of shape (n,)
        ``s_i = C weight_i``; examples of scale 0 play no part.
    smoothing : float
        mu; 0 for the loss itself.
    constant : float
        The last feature, where it is a constant: its weight is given out times this.
    free : bool
        Whether the weights of that feature are not penalised.
    """

    def __init__(
        self,
        examples: Examples | KernelExamples | JointExamples,
        labels: IntArray,
        n_classes: int,
        loss: SimplexLoss,
        scales: FloatArray,
        smoothing: float = 0.0,
        constant: float = 0.0,
        free: bool = False,
    ) -> None:
        loss.check(n_classes, examples.n)
        self.examples = examples
        self.labels = np.require(labels, dtype=np.int64, requirements=["C", "W"])
        self.n_classes = n_classes
        self.loss: Any = loss
        self.scales = np.require(scales, dtype=np.float64, requirements=["C", "W"])
        check_scales(float(self.scales.min(initial=np.inf)))
        self.smoothing, self.constant, self.free = float(smoothing), float(constant), free

    @cached_property
    def record(self) -> tuple[Any, ...]:
        """The problem as the compiled sweeps take it: they are compiled for writable arrays."""
        loss = self.loss
        costs = np.ones((1, self.n_classes)) if loss.costs is None else loss.costs
        costs, rho = (np.require(array, requirements=["C", "W"]) for array in (costs, loss.rho))
        mode = kernels.COST_BY_EXAMPLE if loss.per_example else kernels.COST_BY_LABEL
        if loss.costs is None:
            mode = kernels.COST_ONE
        width = max(self.n_classes, rho.size) + 2
        return (
            self.labels, self.scales, self.examples.norms, costs, mode, rho,
            loss.family, self.smoothing, np.empty((6, width)), np.empty((3, width), np.int64),
        )  # fmt: skip

    def record_with(self, scales: FloatArray) -> tuple[Any, ...]:
        """The record of the problem with other scales."""
        labels, _, *rest = self.record
        return labels, scales, *rest

    def digest(self, first: int = 0) -> int:
        """What tells these examples, labels and weights from others; digests of parts add up.

        The first example has the number ``first`` among all.
        """
        return self.examples.digest(self.labels, self.scales, first)

    def check_duals(self, pool: tuple[Any, ...]) -> None:
        """Complain unless a pool of classes and weights is one of dual points of this problem."""
        check_duals(pool, self.labels, self.n_classes, self.loss)

    def part(self, kept: Any) -> MulticlassProblem:
        """The problem of some of the examples; not of joint features."""
        return MulticlassProblem(
            self.examples.part(kept),
            self.labels[kept],
            self.n_classes,
            self.loss.rows(kept),
            self.scales[kept],
            self.smoothing,
            self.constant,
            self.free,
        )

    @property
    def constant_column(self) -> int:
        """Where the constant feature, the last one, is among the features as they are kept."""
        return int(self.examples.columns.argmax())

    def free_part(self, image: FloatArray) -> FloatArray:
        """A view of the weights of the constant feature in an image, one per class."""
        at = self.constant_column
        return image[at] if self.examples.sparse else image[:, at]

    def penalised(self, image: FloatArray) -> FloatArray:
        """An image without the weights that are not penalised."""
        if self.free:
            image = image.copy()
            self.free_part(image)[:] = 0.0
        return image

    def balance(self) -> Balance:
        """What the balance of dual points is measured by; not of a kernel."""
        own = sp.csr_array(
            (self.scales, (np.arange(self.labels.size), self.labels)),
            (self.labels.size, self.n_classes),
        )
        sums = self.examples.image(own)
        features, masses = self.reach.features, np.asarray(own.sum(axis=0)).ravel()
        columns = sums if self.examples.sparse else sums.T
        mu = 0.0 if self.loss.entropic else self.smoothing
        return Balance.of(columns, masses, features, self.examples.summed, mu)

    def blocks(self) -> Iterator[slice]:
        """Runs of examples whose scores fit in memory together."""
        for start in range(0, self.examples.n, self._rows):
            yield slice(start, min(start + self._rows, self.examples.n))

    @cached_property
    def reach(self) -> Reach:
        """What the rounding of a certificate is measured by."""
        features = np.zeros(self.examples.size)
        for block in self.blocks():
            features += self.examples.absolute_sums(block, self.scales[block])
        costs = float(self.scales @ self.loss.largest_deltas(self.labels))
        total, longest = self.loss.mass(self.n_classes), self.examples.longest
        return Reach(features, costs, total, longest, self.summed)

    def widen(self, mass: float) -> None:
        """Let rounding be measured for dual points of that mass: of losses without a bound."""
        self.reach = self.reach._replace(total=max(self.reach.total, mass))

    @property
    def summed(self) -> int:
        """Roundings of a sum over the examples, a block after the other."""
        n = self.examples.n
        return min(n, self._rows) * self.examples.terms + n // self._rows

    @property
    def _rows(self) -> int:
        """Rows of a block."""
        return max(64, _BLOCK_ENTRIES // self.n_classes)

    def block_losses(self, block: slice, scores: FloatArray) -> FloatArray:
        """``s_i Phi_mu(scores)`` of the examples of ``block``."""
        loss, labels = self.loss.rows(block), self.labels[block]
        if self.smoothing:
            return self.scales[block] * loss.envelope(scores, labels, self.smoothing)
        return self.scales[block] * loss.value(scores, labels)

    def corners(
        self, scores: FloatArray, block: slice, alpha: FloatArray
    ) -> tuple[FloatArray, float, float]:
        """The vertices ``u_i = (1'beta) e_y - beta`` that scores of ``block`` point to.

        With smoothing they are sought at ``scores + mu alpha``; else alpha is empty.  Comes with
        ``sum s_i Phi`` at those scores and ``sum s_i <Delta_i, beta_i>``.
        """
        if isinstance(self.loss, Loss):
            return scores, *kernels.corners(scores, block.start, self.record, alpha)  # overwritten
        loss, labels, scales = self.loss.rows(block), self.labels[block], self.scales[block]
        if alpha.size:
            scores = scores + self.smoothing * alpha
        corner, losses = loss.vertices(scores, labels)
        costs = -(corner * loss.deltas(labels, self.n_classes)).sum(axis=1)
        return corner, float(scales @ losses), float(scales @ costs)

    def losses(self, image: FloatArray) -> float:
        """``sum_i s_i Phi_mu(W'x_i)`` from the data, in float64."""
        return sum(
            float(self.block_losses(block, self.examples.scores(block, image, exact=True)).sum())
            for block in self.blocks()
        )

    def squared_norm(self, image: FloatArray, pool: tuple[Any, ...]) -> float:
        """``|W|²`` of the weights with this image and (a kernel needs them) these dual points."""
        if not self.examples.kernel:
            return float(np.vdot(image, image))
        square = float(kernels.pool_square(self.examples.rows, image, pool, self.record))
        return max(square, 0.0)  # of a matrix that is singular, rounding may be below

    def dual_value(self, image: FloatArray, pool: tuple[Any, ...]) -> float:
        """``D`` of the dual points of ``pool``, whose weights have this image."""
        return float(kernels.dual_terms(pool, self.record)) - 0.5 * self.squared_norm(image, pool)

    def is_small(self, at_most: int) -> bool:
        """Whether W is an array of at most so many entries: examples are dense, with no kernel."""
        dense = not (self.examples.kernel or self.examples.sparse)
        return dense and self.n_classes * self.examples.size <= at_most

    def dual_reach(self, coefficients: Any) -> Reach:
        """The same for D of dual points with these coefficients: less than the scales allow."""
        sums = np.asarray(abs(coefficients).sum(axis=1)).ravel() / (2.0 * self.reach.total)
        features = np.zeros(self.examples.size)
        for block in self.blocks():
            if sums[block].any():
                features += self.examples.absolute_sums(block, sums[block])
        return self.reach._replace(features=features, summed=self.examples.summed)

    def value(
        self, losses: float, image: FloatArray, square: float, most: FloatArray, bound: float
    ) -> tuple[float, float]:
        """P of the weights with this image, and a bound of its rounding.

        Parameters
        ----------
        losses : float
            ``sum_i s_i Phi_mu`` there, in float64.
        image : array
        square : float
            ``|W|²``.
        most : array
            The peaks of the weights.
        bound : float
            What P is compared with: where rounding is a part of the difference that counts, the
            margins are computed with twice the digits.
        """
        value = losses + 0.5 * square
        stretch = self.reach.stretch(most, self.scales) if self.examples.kernel else 1.0
        off = self.reach.of_value(most, square, stretch)
        entries = self.examples.n * self.examples.size * self.n_classes
        if off <= _COUNTS * abs(value - bound) or entries > _DOUBLED:
            return value, off
        if self.examples.kernel or not self.loss.of_differences:
            return value, off
        losses, sizes = self._doubled_losses(image)
        doubled = self.reach.of_doubled(most, square, sizes, self.constant)
        # envelopes are differences of large numbers: then the margins are not what is rounded
        return (losses + 0.5 * square, doubled) if doubled < off else (value, off)

    def _doubled_losses(self, image: FloatArray) -> tuple[float, float]:
        """The losses from margins with twice the digits, and the size of what they sum up."""
        from cornerstep.multiclass.compiled.doubled import margins

        assert isinstance(self.examples, Examples)
        weights = np.ascontiguousarray(image.T if self.examples.sparse else image)
        total = sizes = 0.0
        for block in self.blocks():
            labels, loss = self.labels[block], self.loss.rows(block)
            z = loss.deltas(labels, self.n_classes)
            margins(self.examples.dense(block), weights, labels, z)
            total += float(self.scales[block] @ loss.of_margins(z, labels, self.smoothing))
            sizes += float(self.scales[block] @ loss.sizes_of_margins(z, self.smoothing))
        return total, sizes


def check_duals(pool: tuple[Any, ...], labels: IntArray, n_classes: int, loss: Loss) -> None:
    """Complain unless a pool is one of dual points: of examples with these labels, and feasible."""
    starts, classes, beta = (np.asarray(part) for part in pool)
    n = labels.size
    whole = all(part.ndim == 1 and part.dtype.kind == "i" for part in (starts, classes))
    if not (
        whole and beta.dtype == np.float64 and beta.shape == classes.shape and starts.size == n + 1
        and starts[0] == 0 and starts[-1] == beta.size and (np.diff(starts) >= 0).all()
        and ((classes >= 0) & (classes < n_classes)).all() and np.isfinite(beta).all()
    ):  # fmt: skip
        raise ValueError("its dual points are not of these examples and classes")
    step = max(64, _BLOCK_ENTRIES // n_classes)
    for first in range(0, n, step):
        some = slice(first, min(first + step, n))
        entries = slice(starts[some.start], starts[some.stop])
        rows = np.repeat(np.arange(some.stop - some.start), np.diff(starts[first : some.stop + 1]))
        gradients = np.zeros((some.stop - some.start, n_classes))
        np.add.at(gradients, (rows, classes[entries]), beta[entries])
        own = gradients[np.arange(len(gradients)), labels[some]]
        gradients[np.arange(len(gradients)), labels[some]] -= gradients.sum(axis=1)
        inside = np.isfinite(loss.rows(some).conjugate(gradients, labels[some]))
        if own.any() or not inside.all():
            raise ValueError("its dual points lie outside their domain")
