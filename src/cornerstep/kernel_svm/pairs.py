"""The machines of a :class:`~cornerstep.ReducedHullSVC`: one for each pair of classes.

Training and verification pose the same problem of a pair: its examples, kernel, caps, and K or C.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from threading import Lock, local
from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.kernel_svm.problem import ReducedHullProblem
from cornerstep.learning.kernel_blocks import (
    CallableKernel,
    InnerProductKernel,
    Kernel,
    PrecomputedKernel,
    centre,
    centred,
    row_norms,
)
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.learning.kernel_device import DeviceKernel
from cornerstep.learning.kernel_functions import Kernel as KernelFunction

WHOLE = 1000  # examples of a pair up to which its whole kernel matrix is computed at once
_SMALL, _LARGE = 1e-60, 1e120  # sizes of examples, and of their sums, far inside of float64
_FAR = 10.0  # sizes of a pair between its middle and that of all: beyond it is centred by itself
_EXAMINED = 1000  # examples whose kernel matrix is factorised: a fraction of a second


class KernelParameters(NamedTuple):
    """The kernel that a model is trained with; gamma is a number."""

    name: Any
    gamma: float
    degree: int
    coef0: float


class Pair(NamedTuple):
    """A machine of two classes: its examples, positives first, and its problem.

    ``middle`` is what was taken off the rows of a linear kernel, None for others: as the
    coefficients sum to 0, ``sum b_i <x_i, x> = <w, x>`` with ``w = sum b_i (x_i - middle)``.
    """

    first: int
    second: int
    examples: IntArray
    problem: ReducedHullProblem
    middle: FloatArray | None


def pairs_of(classes: int) -> list[tuple[int, int]]:
    """The positive and the negative class of each machine.

    Of two classes the larger one is positive, of several the first of each pair.
    """
    if classes == 2:
        return [(1, 0)]
    return list(combinations(range(classes), 2))


def sizes_given(nu: float | None, K: float | None, C: float | None) -> dict[str, float | None]:
    """nu, K and C by name, ``C = 1`` if none of the three is given."""
    given = {"nu": nu, "K": K, "C": C}
    none = all(value is None for value in given.values())
    return given | {"C": 1.0} if none else given


def kernel_shift(kernel: KernelParameters, X: Any) -> tuple[float, int]:
    """What is added to the diagonal of the matrix of X, and how many entries that has taken.

    Kernels that no theorem makes positive semidefinite are tried on up to ``_EXAMINED`` examples
    (the sigmoid one on all, for what its diagonal lacks); an error says which are refused.
    """
    values = KernelFunction(*kernel)
    if values.is_positive:
        return 0.0, 0
    if kernel.name != "sigmoid" and X.shape[0] > _EXAMINED:
        some = np.linspace(0, X.shape[0] - 1, _EXAMINED).astype(np.intp)
        X = X[np.ix_(some, some)] if kernel.name == "precomputed" else X[some]
    shift = values.training_matrix(X)[1]
    return shift, 0 if kernel.name == "precomputed" else X.shape[0] ** 2


class Pairs:
    """The problems of all pairs of classes: rows and kernel are set up once for all of them.

    A thread is done with a pair before it poses the next one.

    Parameters
    ----------
    X, labels, weights
        All examples; those of weight 0 are left out.
    kernel : KernelParameters
    size : dict
        nu, K and C, two of them None.
    limit : int
        Bytes that kept columns of a pair may take.
    threads : int, optional
        That share large blocks of the kernel matrix; None for as many as BLAS may use.
    shift : float
        What the diagonal of the kernel matrix lacks to be positive semidefinite.
    device : torch.device, optional
        That computes kernel values.

    Attributes
    ----------
    evaluations : int
        Entries of the kernel matrix computed for all pairs together.
    kernel : Kernel
        Of all examples, class by class.
    ends : array of shape (classes + 1,)
        Where the examples of each class begin.
    class_weights : array of shape (classes,)
        The sums of their weights.
    """

    def __init__(
        self, X: Any, labels: IntArray, weights: FloatArray, kernel: KernelParameters,
        size: dict[str, float | None], limit: int, threads: int | None = None, shift: float = 0.0,
        device: Any = None,
    ) -> None:  # fmt: skip
        classes = int(labels.max()) + 1
        order = [1, 0] if classes == 2 else range(classes)
        parts = [np.flatnonzero((labels == c) & (weights > 0)) for c in order]
        ends = np.cumsum([0, *(part.size for part in parts)]).tolist()
        self._places = {c: np.arange(*ends[k : k + 2]) for k, c in enumerate(order)}
        self._examples = np.concatenate(parts)
        self._caps, self._size, self._limit = weights[self._examples], size, limit
        self.class_weights = np.zeros(classes)
        self.class_weights[list(order)] = [float(weights[part].sum()) for part in parts]
        rows, self._middle = without_offset(X, self._examples, kernel)
        self._X, self._threads, self._device = X, threads, device
        self.kernel = kernel_on(rows, kernel, threads, shift, device)
        self.ends = np.array(ends)
        self._within: dict[int, FloatArray] = {}  # kernel matrices of the classes
        self.evaluations = 0
        self._lock = Lock()
        self._own = local()

    @property
    def softness(self) -> float:
        """1/C, 0 for reduced hulls."""
        C = self._size["C"]
        return 0.0 if C is None else 1.0 / C

    def places(self, *classes: int) -> IntArray:
        """Where the examples of two classes are among all, in the order of the kernel."""
        return np.concatenate([self._places[c] for c in classes])

    def examples(self, places: IntArray) -> IntArray:
        """Their rows in X."""
        return self._examples[places]

    def sums_of(self, classes: IntArray) -> FloatArray:
        """K of pairs of classes, a row each; without nu and K as much as there is."""
        K, nu = self._size["K"], self._size["nu"]
        weights = self.class_weights[classes]
        if nu is not None:
            return np.minimum(nu * weights.sum(axis=-1) / 2, weights.min(axis=-1))
        return np.minimum(np.inf if K is None else K, weights.min(axis=-1))

    def common_cap(self) -> float | None:
        """The cap of all examples, if they have one."""
        cap = float(self._caps[0])
        return cap if bool((self._caps == cap).all()) else None

    def may_keep_all(self) -> bool:
        """Whether all kernel values may be kept, and are in the range of float64 by far.

        Pairs of a linear kernel may have offsets of their own; of a matrix that is given, the sizes
        of entries, and so the rounding, depend on the pair.
        """
        if isinstance(self.kernel, PrecomputedKernel):
            return False
        if self.kernel.is_foreign or self._middle is not None or 8 * self.kernel.n**2 > self._limit:
            return False
        sizes = self.kernel.sizes
        least, largest = float(sizes[sizes > 0].min(initial=np.inf)), float(sizes.max())
        return (
            least > _SMALL and float(self._caps.sum()) * largest * max(1.0, self.softness) < _LARGE
        )

    def upper_blocks(self) -> FloatArray:
        """The kernel matrix, class by class: blocks on and above the diagonal, others not set."""
        n = self.kernel.n
        store = np.empty((n, n))
        for start, stop in pairwise(self.ends):
            store[start:stop, start:] = self.kernel.block(
                np.arange(start, stop), np.arange(start, n)
            )
            self.evaluations += int(stop - start) * int(n - start)
        return store

    def pose(self, classes: tuple[int, int]) -> Pair:
        """The problem of a positive and a negative class."""
        places = self.places(*classes)
        caps, positive = self._caps[places], self._places[classes[0]].size
        signs = np.ones(places.size)
        signs[positive:] = -1.0
        C = self._size["C"]
        K = float(self.sums_of(np.array(classes))) if C is None else None
        examples, matrix = self._examples[places], None
        kernel, middle = self._far_off(examples) or (self.kernel, self._middle)
        if kernel is self.kernel:
            is_small = places.size <= WHOLE and 8 * places.size**2 <= self._limit
            matrix = self._matrix(*classes) if is_small and not kernel.is_foreign else None
            kernel = kernel if places.size == kernel.n else kernel.take(places)
        columns = KernelColumns(kernel, self._limit, matrix)
        problem = ReducedHullProblem(columns, signs, caps, K=K, C=C)
        return Pair(*classes, examples, problem, middle)

    def _far_off(self, examples: IntArray) -> tuple[Kernel, FloatArray] | None:
        """The kernel and the offset of a pair that lies far from the other classes.

        Products of its rows without the offset of all classes would lose the digits in which they
        differ.
        """
        if self._middle is None or examples.size == self.kernel.n:
            return None
        rows = self._X[examples]
        middle = centre(rows)
        away = float(np.linalg.norm(middle - self._middle))
        own = centred(rows, middle)
        if not away > _FAR * float(row_norms(own).max()):
            return None
        linear = KernelParameters("linear", 1.0, 1, 0.0)
        return kernel_on(own, linear, self._threads, 0.0, self._device), middle

    def _matrix(self, first: int, second: int) -> FloatArray:
        """The kernel matrix of two classes; what is within a class serves all of its pairs."""
        rows, columns = self._places[first], self._places[second]
        out = self._room((rows.size + columns.size) ** 2).reshape(rows.size + columns.size, -1)
        for c, part in ((first, slice(0, rows.size)), (second, slice(rows.size, None))):
            with self._lock:  # pairs in other threads need it as well
                if c not in self._within:
                    self._within[c] = self.kernel.block(self._places[c], self._places[c])
                    self.evaluations += self._places[c].size ** 2
            out[part, part] = self._within[c]
        across = self.kernel.block(rows, columns)
        out[: rows.size, rows.size :], out[rows.size :, : rows.size] = across, across.T
        with self._lock:
            self.evaluations += across.size
        return out

    def _room(self, size: int) -> FloatArray:
        """Memory for the matrix of a pair, the same for all that a thread poses one by one.

        Fresh memory would cost as much as the entries: the system clears it page by page.
        """
        kept: FloatArray = getattr(self._own, "room", np.empty(0))
        if kept.size < size:
            kept = self._own.room = np.empty(size)
        return kept[:size]


def without_offset(
    X: Any, examples: IntArray, kernel: KernelParameters
) -> tuple[Any, FloatArray | None]:
    """Rows of the examples, for a linear kernel without an offset that they share, and the offset.

    For machines whose coefficients sum to 0, where it is idle.
    """
    if kernel.name == "precomputed":
        return X[np.ix_(examples, examples)], None
    rows = X[examples]
    if kernel.name != "linear":
        return rows, None
    middle = centre(rows)
    return centred(rows, middle), middle


def kernel_on(
    rows: Any, kernel: KernelParameters, threads: int | None, shift: float, device: Any = None
) -> Kernel:
    """The kernel matrix of some rows; the other parameters are those of :class:`Pairs`."""
    if kernel.name == "precomputed":
        return PrecomputedKernel(rows)
    if callable(kernel.name):
        return CallableKernel(rows, kernel.name)
    values = (
        InnerProductKernel(rows, *kernel)
        if device is None
        else DeviceKernel(rows, *kernel, device=device)
    )
    if threads is not None:
        values.threads = threads
    return values.shifted(shift) if shift else values


def pair_coefficients(dual_coef: FloatArray, counts: Any) -> FloatArray:
    """Coefficients of all support vectors in each machine, zeros for those of other classes.

    Parameters
    ----------
    dual_coef : array of shape (m - 1, s)
        As of :class:`sklearn.svm.SVC`: a row for each other class, classes one after the other.
    counts : array of shape (m,)
        Support vectors of each class.

    Returns
    -------
    array of shape (m (m - 1) / 2, s)
    """
    if counts.size == 2:
        return dual_coef
    pairs, ends = pairs_of(counts.size), np.cumsum([0, *counts])
    out = np.zeros((len(pairs), dual_coef.shape[1]))
    for machine, (first, second) in zip(out, pairs, strict=True):
        for own, other in ((first, second - 1), (second, first)):
            part = slice(ends[own], ends[own + 1])
            machine[part] = dual_coef[other, part]
    return out
