r"""Regression by reduced hulls: examples shifted up and down in y, and what lies between the hulls.

For examples x_i with targets y_i, caps ``c_i = C w_i`` and the tube's half width epsilon

- *epsilon-SVR*: ``min 1/2 (a - s)'K(a - s) + epsilon 1'(a + s) - y'(a - s)`` over
  ``0 <= a, s <= c`` with ``1'a = 1's``;
- *nu-SVR*: the same without epsilon, over ``1'a = 1's = nu 1'c / 2``: a and s are points of the
  reduced hulls of the examples above and of those below the tube [1]_, whose width follows.

In signed variables ``b = (a, -s)``, two for each example, both are problems of
:mod:`cornerstep.kernel_svm.problem` with ``p = (epsilon - y, -epsilon - y)`` (nu-SVR: without
epsilon).  The kernel matrix has each column twice: it is computed and kept once.

The model is ``f(x) = sum_i (a_i - s_i) k(x_i, x) + intercept`` with thresholds t of the gradient,
``-t = intercept`` (epsilon-SVR), or ``intercept -+ epsilon`` (nu-SVR).

References
----------
.. [1] J. Bi, K. P. Bennett. A geometric approach to support vector regression. Neurocomputing 55,
   79-108, 2003.
.. [2] B. Schölkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett. New support vector algorithms.
   Neural Computation 12, 1207-1245, 2000.
"""

from __future__ import annotations

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.learning.kernel_blocks import Block, Kernel
from cornerstep.learning.kernel_columns import KernelColumns


class PairedKernel:
    """A kernel matrix whose examples stand in it twice: i and i + n are the same.

    Parameters
    ----------
    kernel : Kernel
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.n = 2 * kernel.n
        self.entries_are_costly = kernel.entries_are_costly
        self.is_foreign = kernel.is_foreign

    @property
    def sizes(self) -> FloatArray:
        """Numbers s with ``|k(x_i, x_j)| <= s_i s_j``."""
        return np.tile(self.kernel.sizes, 2)

    def entry_errors(self) -> tuple[float, FloatArray]:
        """Those of the entries that stand in it."""
        share, exponents = self.kernel.entry_errors()
        return share, np.tile(exponents, 2)

    def block(self, rows: IntArray, columns: IntArray | None) -> Block:
        """Entries of the matrix, a fresh array."""
        n = self.kernel.n
        others = None if columns is None else columns % n
        block = self.kernel.block(rows % n, others)
        return np.tile(block, (1, 2)) if columns is None else block

    def take(self, examples: IntArray) -> PairedKernel:
        """The kernel matrix of some of the examples, both of each pair."""
        return PairedKernel(self.kernel.take(examples[: examples.size // 2]))


class PairedColumns(KernelColumns):
    """Columns of a kernel matrix whose examples stand in it twice, computed and kept once.

    Parameters
    ----------
    single : KernelColumns
        Of the examples.
    """

    def __init__(self, single: KernelColumns) -> None:
        self.single = single
        self.kernel = PairedKernel(single.kernel)
        self.n, self.room = 2 * single.n, single.room
        self.store, self.places = single.store, np.tile(single.places, 2)

    @property
    def kept(self) -> int:  # type: ignore[override]
        """How many columns are kept."""
        return self.single.kept

    @property
    def is_whole(self) -> bool:
        """Whether all columns are kept, in order."""
        return self.single.is_whole

    @property
    def evaluations(self) -> int:
        """Entries of the kernel matrix computed so far."""
        return self.single.evaluations

    @evaluations.setter
    def evaluations(self, count: int) -> None:
        self.single.evaluations = count

    @property
    def slots(self) -> IntArray:  # type: ignore[override]
        """Where the column of each coordinate is kept, -1 if it is not."""
        return np.tile(self.single.slots, 2)

    def take(self, examples: IntArray) -> PairedColumns:
        return PairedColumns(self.single.take(examples[: examples.size // 2]))

    def add_product(self, examples: IntArray, values: FloatArray, out: FloatArray) -> None:
        some, sums = self._summed(examples, values)
        product = np.zeros(self.single.n)
        self.single.add_product(some, sums, product)
        out += np.tile(product, 2)

    def exact_product(self, examples: IntArray, values: FloatArray) -> FloatArray:
        return np.tile(self.single.exact_product(*self._summed(examples, values)), 2)

    def fetch(self, examples: IntArray) -> None:
        self.single.fetch(np.unique(examples % self.single.n))

    def _summed(self, examples: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """The examples, and the sum of the values of either variable of each."""
        n = self.single.n
        sums: FloatArray = np.bincount(examples % n, weights=values, minlength=n).astype(np.float64)
        some = sums.nonzero()[0]
        return some, sums[some]


class TubeProblem(ReducedHullProblem):
    """A regression: its coordinates i and i + n are the two variables of example i.

    A solution on fewer examples tells who lies outside the tube there, but where many do, all of
    them at their caps make a function far from it: more rounds than from 0.
    """

    starts_on_fewer = False

    def balanced(self, beta: FloatArray) -> FloatArray:
        """The point of the same coefficients that a model stands for, with the sums of the domain.

        With a fixed width (no K) what the two variables of an example have in common costs
        ``2 epsilon`` times as much, so that one of them is 0.
        """
        above, below = np.split(beta, 2)
        return super().balanced(signed(above + below, self))

    def shuffled(self, rng: np.random.Generator) -> FloatArray:
        half = self.n // 2
        return np.tile(rng.permutation(half) / half, 2)


def signed(coefficients: FloatArray, problem: ReducedHullProblem) -> FloatArray:
    """The dual point ``(a, -s)`` whose differences ``a - s`` are the coefficients.

    With K both variables of some examples may be positive: what the sums lack, wherever there is
    room.  Where it is changes neither the value nor the gap.
    """
    above, below = np.maximum(coefficients, 0.0), np.maximum(-coefficients, 0.0)
    if problem.K is not None:
        room = problem.caps[: coefficients.size] - np.abs(coefficients)
        before = np.cumsum(room) - room
        common = np.clip(problem.K - float(above.sum()) - before, 0.0, np.maximum(room, 0.0))
        above, below = above + common, below + common
    return np.concatenate([above, -below])
