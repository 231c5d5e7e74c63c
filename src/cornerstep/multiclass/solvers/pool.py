"""Dual points in pools of classes: what scans, sweeps and the read-off of block ascent share.

A *pool* is ``(starts, classes, beta)``: example i may give dual weight to the classes
``classes[starts[i]:starts[i + 1]]`` (never its label) and gives them ``beta``; all other classes
have none.  In full, ``alpha_i = (1'beta_i) e_y - beta_i``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.problem import MulticlassProblem

Pool = tuple[IntArray, IntArray, FloatArray]
NAMES = ("starts", "classes", "beta")  # of its arrays, in a snapshot


def empty_pool(n: int) -> Pool:
    """No classes, for each of n examples."""
    return np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0)


def active_examples(pool: Pool) -> IntArray:
    """The examples that have classes."""
    return np.flatnonzero(np.diff(pool[0]))


def coefficients_of(pool: Pool, labels: IntArray, scales: FloatArray, n_classes: int) -> Any:
    """``s_i alpha_i`` as a sparse n x m matrix."""
    starts, classes, beta = pool
    n = labels.size
    examples = np.repeat(np.arange(n), np.diff(starts))
    amounts = scales[examples] * beta
    ends = starts + np.arange(n + 1)  # each example's label follows its other classes
    others, own = np.arange(beta.size) + examples, ends[1:] - 1
    columns, entries = np.empty(ends[-1], np.int32), np.empty(ends[-1])
    columns[others], columns[own] = classes, labels
    entries[others] = -amounts
    entries[own] = np.bincount(examples, weights=amounts, minlength=n)
    out = sp.csr_array((entries, columns, ends), shape=(n, n_classes))
    out.eliminate_zeros()
    out.sort_indices()
    return out


class Entering(NamedTuple):
    """Classes that a scan lets into each pool: the first ``counts[i]`` of ``classes[i]``."""

    classes: IntArray
    counts: IntArray

    @classmethod
    def room(cls, problem: MulticlassProblem, extra: int) -> Entering:
        """For so many classes of each example beyond those that the loss weighs."""
        n = problem.examples.n
        most = min(problem.loss.rho.size + extra, problem.n_classes)
        return cls(np.empty((n, most), np.int32), np.zeros(n, np.int64))


def scan(
    problem: MulticlassProblem,
    pool: Pool,
    image: FloatArray,
    entering: Entering,
    *,
    exact: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Score all examples for all classes at the weights of ``image``, in float64 if ``exact``.

    Returns ``s_i Phi_mu`` of each example, and its slope as the weights get longer (0 with
    smoothing); writes the classes that block i would give weight to, best first, to ``entering``.
    """
    examples = problem.examples
    losses, slopes = np.empty(examples.n), np.empty(examples.n)
    most = entering.classes.shape[1]
    zero = not image.any()
    for block in problem.blocks():
        if zero:
            scores = np.zeros((block.stop - block.start, problem.n_classes))
        else:
            scores = examples.scores(block, image, exact=exact)
        if problem.smoothing:
            losses[block] = problem.block_losses(block, scores)
        kernels.scan(
            scores, block.start, pool, problem.record, problem.loss.family, most, *entering, losses,
            slopes,
        )  # fmt: skip
    return losses, slopes


def with_entering(pool: Pool, entering: Entering) -> Pool:
    """A new pool: classes with weight, then those that enter; the rest leaves."""
    starts, _, beta = pool
    size = int((beta > 0.0).sum() + entering.counts.sum())
    fresh: Pool = np.zeros_like(starts), np.empty(size, np.int32), np.empty(size)
    kernels.repool(pool, *entering, *fresh)
    return fresh


def sweep(
    blocks: IntArray,
    seed: int,
    rows: tuple[Any, ...],
    image: FloatArray,
    pool: Pool,
    record: tuple[Any, ...],
) -> FloatArray:
    """Solve these blocks one after the other, in an order drawn by ``seed``, which they get.

    Changes image and beta in place.  Returns by how much each block increased the dual.
    """
    gains = np.empty(blocks.size)
    kernels.sweep(blocks, seed, rows, image, pool, record, gains)
    return gains


def still_moving(blocks: IntArray, gains: FloatArray, share: float) -> IntArray:
    """The blocks that a sweep should visit again: those that gained this share of the mean."""
    return blocks[gains > share * float(gains.sum()) / blocks.size]
