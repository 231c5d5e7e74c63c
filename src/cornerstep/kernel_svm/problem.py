"""Kernel SVMs with bias: the distance of two reduced convex hulls, and the C-SVM.

With ``Q_ij = y_i y_j k(x_i, x_j)`` and caps w (the weights of the examples, 1 by default)

- *reduced hulls*: ``min 1/2 a'Qa`` over ``0 <= a <= w`` with sum K in each class, P_K x P_K.
  This is ``1/2 |A u - B v|²`` for u, v the parts of a; it is nu-SVC with ``nu = 2K / sum of w``;
- *C-SVM*: ``min 1/2 a'Qa - (1/C) 1'a`` over ``0 <= a <= w, y'a = 0``.

Signed variables ``b_i = y_i a_i`` make both the same: ``min 1/2 b'Kb + <p, b>`` over a box with one
fixed sum (C-SVM) or one per class (reduced hulls).  Without negative examples, ``1/2 b'Kb`` is the
distance of one reduced hull from the origin; with a p of one's own it is a regression
(:mod:`cornerstep.kernel_svm.tube`).  At the optimum the gradient ``h = Kb + p``
equals a threshold on every free coordinate: one per sum.

The certificate.  For any numbers t, one per sum, ``f(b) - min f`` is at most

    sum over i of max over v_i in [lower_i, upper_i] of (h_i - t_i) (b_i - v_i),

and equal to the largest ``<h, b - v>`` over the domain where t are thresholds.  No term is
negative, so none cancels; with a bound on the error of h_i it bounds the exact term.

References
----------
.. [1] D. J. Crisp, C. J. C. Burges. A geometric interpretation of nu-SVM classifiers. NIPS 1999.
.. [2] K. P. Bennett, E. J. Bredensteiner. Duality and geometry in SVM classifiers. ICML 2000.
.. [3] B. Schölkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett. New support vector algorithms.
   Neural Computation 12, 1207-1245, 2000.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import Vector, dense
from cornerstep.domains import BalancedBox, CappedSimplex, Product
from cornerstep.domains.selection import fill_smallest_first
from cornerstep.kernel_svm.compiled.sweeps import gap_terms, value_terms
from cornerstep.learning.kernel_blocks import UNIT, product_errors
from cornerstep.learning.kernel_columns import KernelColumns
from cornerstep.optimiser.loop import Look
from cornerstep.optimiser.objectives import Quadratic

_ROUNDING = 1e-12  # of a sum, relative
_SMALLEST = float(np.finfo(np.float64).tiny)  # products below it are rounded absolutely
_PAIRWISE = 24  # roundings of a sum of NumPy, beside one each time it halves the terms
_LARGEST = 1e300  # values up to it leave room for sums
_LEAST = 1e-150  # and kernel values times weights down to it leave room for squares
_NARROW = 2.0**-1000  # a distance between thresholds whose inverse is still a number
_CORRECTIONS = 8  # coordinates that take up what a sum is off by


class Machine(NamedTuple):
    """``f(x) = sum_i coefficients_i k(x_i, x) + intercept``, +-1 on the margins."""

    coefficients: FloatArray
    intercept: float
    C: float
    nu: float
    K: float
    margin: float


class ReducedHullProblem:
    """Examples with signs, caps, and K or C.

    Parameters
    ----------
    columns : KernelColumns
        Of the examples, positives first.
    signs : array of shape (n,)
        +1, then -1 (or none: one hull, whose distance from the origin counts).
    caps : array of shape (n,)
        Positive weights of the examples.
    K : float, optional
        The sum of a in each class, at most the sum of its caps.
    C : float, optional
        The constant of the C-SVM.
    linear : array of shape (n,), optional
        p, if it is not that of the reduced hulls (0) or of the C-SVM.  Without K the sum of b is 0.
    linear_sizes : array of shape (n,), optional
        Numbers of what size p is the rounded sum of; ``|p|`` by default.
    """

    #: Whether the solution on fewer examples tells where to start on all.
    starts_on_fewer = True

    def __init__(
        self,
        columns: KernelColumns,
        signs: FloatArray,
        caps: FloatArray,
        *,
        K: float | None = None,
        C: float | None = None,
        linear: FloatArray | None = None,
        linear_sizes: FloatArray | None = None,
    ) -> None:
        self.columns = columns
        self.signs, self.K, self.C = signs, K, C
        self.n = signs.size
        self.n_positive = int((signs > 0).sum())
        halves = slice(0, self.n_positive), slice(self.n_positive, self.n)
        self.classes = tuple(part for part in halves if part.start < part.stop)
        self.class_signs = tuple(float(signs[part.start]) for part in self.classes)
        self.weight = float(caps.sum())
        # no coordinate exceeds the sum of its class: larger caps would only coarsen the numbers
        most = min(float(caps[part].sum()) for part in self.classes) if K is None else K
        self.caps = caps = np.minimum(caps, most)
        #: The cap of all, if they have one.
        self._cap = float(caps[0]) if caps.min() == caps.max() else None
        self.lower = np.where(signs > 0, 0.0, -caps)
        self.upper = np.where(signs > 0, caps, 0.0)
        if linear is None:
            linear = np.zeros(self.n) if C is None else -signs / C
        self.linear = linear
        self.linear_sizes = np.abs(linear) if linear_sizes is None else linear_sizes
        self._linear_errors = 2 * UNIT * self.linear_sizes
        #: Whether the value is half a squared distance, which is no less than 0.
        self.is_distance = not linear.any()
        #: Coordinates from ``split`` on have a sum of their own.
        self.split = self.n if K is None else self.n_positive
        self.sums = (slice(0, self.n),) if K is None else self.classes
        self.totals = (0.0,) if K is None else tuple(sign * K for sign in self.class_signs)

    @cached_property
    def domain(self) -> Any:
        """What a may be."""
        if self.K is None:
            return BalancedBox(self.signs, self.caps if self._cap is None else self._cap)
        return self._hulls(self.K)

    def _hulls(self, K: float) -> Product:
        parts = [self.caps[part] for part in self.classes]
        return Product([CappedSimplex(part.size, K, _common(part)) for part in parts])

    def objective(self) -> KernelQuadratic:
        """The problem for the optimiser, in a."""
        return KernelQuadratic(self)

    @property
    def width(self) -> float:
        """K in numbers of examples of the mean cap, infinite for the C-SVM: small, slim hulls."""
        return np.inf if self.K is None else self.K / float(self.caps.mean())

    def lacks_weight(self, beta: FloatArray) -> bool:
        """Whether the weight of a class is below K, by more than rounding."""
        if self.K is None:
            return False
        return min(self.weights(beta)) < self.K * (1 - _ROUNDING)

    def weights(self, beta: FloatArray) -> tuple[float, ...]:
        """The sum of a in each class."""
        return tuple(abs(float(beta[part].sum())) for part in self.classes)

    def filled(self, beta: FloatArray, gradient: FloatArray) -> FloatArray:
        """``beta`` with the weight that is missing, where the gradient h is best for it."""
        out = beta.copy()
        for part, weight in zip(self.classes, self.weights(beta), strict=True):
            missing = (self.K or 0.0) - weight
            room = self.caps[part] - np.abs(beta[part])
            order = np.argsort(self.signs[part] * gradient[part], kind="stable")
            before = np.cumsum(room[order]) - room[order]
            added = np.zeros(room.size)
            added[order] = np.clip(missing - before, 0.0, room[order])
            out[part] += self.signs[part] * added
        return np.clip(out, self.lower, self.upper)

    def start(self) -> FloatArray:
        """Signed variables to start from: no column without K, about K in each class with it."""
        return self.signs * dense(self.domain.start())

    def vertex(self, gradient: FloatArray, K: float) -> FloatArray:
        """The signed vertex of P_K x P_K that is best for a gradient h."""
        vertex: Vector = self._hulls(K).lmo(self.signs * gradient)
        return self.signs * dense(vertex)

    def central_vertex(self) -> FloatArray:
        """Where K is given, the vertex that is best for the gradient of equal weights; else 0."""
        if self.K is None:
            return np.zeros(self.n)
        amounts = np.empty(self.n)
        for part in self.classes:
            amounts[part] = self.caps[part] * (self.K / float(self.caps[part].sum()))
        gradient = self.linear.copy()
        self.columns.add_product(np.arange(self.n), self.signs * amounts, gradient)
        return self.vertex(gradient, self.K)

    def value(self, beta: FloatArray, gradient: FloatArray) -> float:
        """``1/2 b'Kb + <p, b>`` with ``h = Kb + p``."""
        return 0.5 * float((beta * (gradient + self.linear)).sum())

    def look(self, beta: FloatArray, gradient: FloatArray, extra: tuple[Any, ...] = ()) -> Look:
        """Value and gap at b, where ``gradient`` is h to the rounding of :meth:`errors`.

        The gap includes bounds on the rounding of the value, of the gradient and of the sums.
        """
        errors = self.errors(beta)
        doubled, off, sizes = value_terms(beta, gradient, self.linear, errors)
        value = 0.5 * doubled
        rounding = 0.5 * (off + (_PAIRWISE + self.n.bit_length()) * UNIT * sizes)
        # a distance is no less than 0 (a value below it is of no kernel, and proves nothing)
        most = abs(value) + rounding if self.is_distance else np.inf
        gap = 0.0
        for part, total in zip(self.sums, self.totals, strict=True):
            given = beta[part], gradient[part], self.lower[part], self.upper[part], errors[part]
            choices = [(*gap_terms(*given, t), t) for t in self._multipliers(gradient, part, total)]
            plain, upper, summed, steep, t = min(choices, key=lambda choice: choice[1])
            away = abs(summed - total) + 2 * UNIT * abs(total)
            gap += plain
            # coefficients C b of a model, divided by C, are b but for two roundings
            rounding += 4 * UNIT * steep
            rounding += (upper - plain) + 2 * beta.size * UNIT * upper + abs(t) * away
        return Look(value, min(gap + rounding, most), extra=extra, rounding=min(rounding, most))

    def errors(self, beta: FloatArray) -> FloatArray:
        """By how much the computed gradient h may be off, for each of its entries."""
        kernel, amounts = self.columns.kernel, np.abs(beta)
        sizes = kernel.sizes
        errors = product_errors(kernel, amounts) + 4 * UNIT * float(amounts @ sizes) * sizes
        errors += self._linear_errors
        errors += _SMALLEST * float(amounts.sum())
        return errors

    def _multipliers(self, gradient: FloatArray, part: slice, total: float) -> list[float]:
        """Numbers t for one sum: the largest h that the best vertex of the domain fills.

        Where caps differ their sums may be rounded by more than the least of them: thresholds, by
        another order of summation, are tried as well.
        """
        h, spent = gradient[part], total - float(self.lower[part].sum())
        if self._cap is None:
            room = self.upper[part] - self.lower[part]
            chosen, _ = fill_smallest_first(h, room, spent)
            largest = float(h[chosen].max()) if chosen.size else float(h.min())
            return [largest, *self._threshold_range(h, part, total)]
        whole = min(spent / self._cap, h.size)
        rank = max(math.ceil(whole), 1) - 1
        return [float(np.partition(h, rank)[rank])]

    def balanced(self, beta: FloatArray) -> FloatArray:
        """``beta`` with the sums of the domain, to the rounding of one coordinate.

        Many steps, each of them rounded, leave sums that are off.  Free coordinates take it up, if
        there are any.
        """
        out = beta.copy()
        for part, total in zip(self.sums, self.totals, strict=True):
            b, lower, upper = out[part], self.lower[part], self.upper[part]
            for _ in range(_CORRECTIONS):
                missing = total - math.fsum(b[b != 0])
                room = upper - b if missing > 0 else b - lower
                free = np.where((b > lower) & (b < upper), room, 0.0)
                k = int((free if free.any() else room).argmax())
                if missing == 0 or room[k] == 0:
                    break
                b[k] = min(max(b[k] + missing, lower[k]), upper[k])
        return out

    def check_range(self) -> None:
        """Complain if values of the objective leave the range of float64.

        Raises
        ------
        ValueError
            Naming what is too large.
        """
        sizes = self.columns.kernel.sizes
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.square(max(self.caps @ sizes, sizes.max()))  # of f, and of a kernel value
        amount = min(float(self.caps.max()), self.K or np.inf)
        is_small = 0 < float(sizes.max()) < math.sqrt(_LEAST / min(amount, 1.0))
        if is_small or not largest < _LARGEST:
            raise ValueError(
                f"X, or a parameter of the kernel, is too {'small' if is_small else 'large'}: "
                "kernel values times weights and K leave the range of float64; scale X"
            )
        if float(np.abs(self.linear) @ self.caps) < _LARGEST:
            return
        if self.C is not None:
            raise ValueError(f"C must be larger for weights like these, got {self.C!r}")
        raise ValueError("y is too large: y times C leaves the range of float64; scale y")

    def gradient(self, beta: FloatArray) -> FloatArray:
        """``Kb + p``, its sums exact."""
        support = beta.nonzero()[0]
        return self.columns.exact_product(support, beta[support]) + self.linear

    def sample(self, examples: IntArray) -> ReducedHullProblem:
        """The problem of some of the examples, scaled so that its machine is about the same."""
        share = float(self.caps[examples].sum() / self.caps.sum())
        signs, caps = self.signs[examples], self.caps[examples]
        K = self.K
        if K is not None:
            K = min(K * share, *(float(caps[signs == sign].sum()) for sign in self.class_signs))
        C = None if self.C is None else self.C / share
        linear, sizes = (share * part[examples] for part in (self.linear, self.linear_sizes))
        return type(self)(
            self.columns.take(examples), signs, caps, K=K, C=C, linear=linear, linear_sizes=sizes
        )

    def on(self, columns: KernelColumns) -> ReducedHullProblem:
        """The same problem with another kernel matrix of the examples."""
        return type(self)(
            columns, self.signs, self.caps, K=self.K, C=self.C, linear=self.linear,
            linear_sizes=self.linear_sizes,
        )  # fmt: skip

    def shuffled(self, rng: np.random.Generator) -> FloatArray:
        """A number in [0, 1) per coordinate: those below a share are that share of each class."""
        order = np.empty(self.n)
        for part in self.classes:
            order[part] = rng.permutation(order[part].size) / order[part].size
        return order

    def thresholds(self, gradient: FloatArray) -> tuple[float, ...]:
        """The threshold of h for each fixed sum: the values that an optimal b makes h equal to.

        The middle between the largest h that the oracle's vertex fills and the smallest that it
        leaves out: where the sum ends inside a coordinate both are that one's.
        """
        ends = self.threshold_ranges(gradient)
        return tuple(0.5 * (low + high) for low, high in ends)

    def threshold_ranges(self, gradient: FloatArray) -> list[tuple[float, float]]:
        """For each sum the least and the largest threshold that h allows."""
        return [
            self._threshold_range(gradient[part], part, total)
            for part, total in zip(self.sums, self.totals, strict=True)
        ]

    def _threshold_range(
        self, gradient: FloatArray, part: slice, total: float
    ) -> tuple[float, float]:
        lower, upper = self.lower[part], self.upper[part]
        order = np.argsort(gradient, kind="stable")
        filled = np.cumsum((upper - lower)[order])
        spent = total - float(lower.sum())
        slack = 2 * (order.size + 4) * UNIT * spent  # sums are rounded
        last = min(int(np.searchsorted(filled, spent - slack)), order.size - 1)
        following = int(np.searchsorted(filled, spent + slack, side="right"))
        following = min(following, order.size - 1)
        return float(gradient[order[last]]), float(gradient[order[following]])

    def machine(self, beta: FloatArray, gradient: FloatArray) -> Machine:
        """The classifier of b, scaled to +-1 on its margins; ``gradient`` is h there.

        Reduced hulls: ``C = 2 / (t_+ - t_-)`` with the thresholds of the classes.  Where b does not
        keep the classes apart (yet), by more than h is rounded, the range of h takes the place of
        ``t_+ - t_-``, and where h has none, the sum of the weights.
        """
        thresholds = self.thresholds(gradient)
        squared_norm = max(float(beta @ (gradient - self.linear)), 0.0)
        total = float(np.abs(beta).sum())
        if self.C is None:
            width = thresholds[0] - thresholds[1]
            least = least_width(total, float(np.abs(gradient).max()))
            if not width > least:
                spread = float(np.ptp(gradient))
                width = spread if spread > least else total
            C, middle = 2.0 / width, 0.5 * (thresholds[0] + thresholds[1])
        else:
            C, middle = self.C, thresholds[0]
        norm = C * float(np.sqrt(squared_norm))
        return Machine(
            coefficients=C * beta,
            intercept=-C * middle,
            C=C,
            nu=total / self.weight,
            K=total / 2,
            margin=2.0 / norm if norm > 0 else np.inf,
        )

    def is_constant(self, machine: Machine, gradient: FloatArray) -> bool:
        """Whether all examples are on one side of the machine; ``gradient`` is h there."""
        scores = machine.C * (gradient - self.linear) + machine.intercept
        return bool((scores > 0).all() or (scores <= 0).all())


def least_width(total: Any, size: Any) -> Any:
    """The distance between thresholds from which on it is more than rounding.

    Of weights whose sum is ``total`` and of h up to ``size``, numbers or arrays: ``2 / width``
    times either is finite.
    """
    return np.maximum(_NARROW * np.maximum(total, 1.0), UNIT * size)


def _common(caps: FloatArray) -> float | FloatArray:
    """One number if all caps are equal."""
    return float(caps[0]) if np.ptp(caps) == 0 else caps


class SignedKernel:
    """``Q = diag(y) K diag(y)`` as a Hessian: moves read kept columns, values the data."""

    def __init__(self, problem: ReducedHullProblem) -> None:
        self.columns, self.signs = problem.columns, problem.signs
        self.shape = (problem.n, problem.n)

    def times(self, x: FloatArray) -> FloatArray:
        """``Q x``, its sums exact."""
        support = x.nonzero()[0]
        product = self.columns.exact_product(support, self.signs[support] * x[support])
        return self.signs * product

    def combine(self, indices: IntArray | None, values: FloatArray) -> FloatArray:
        """``Q[:, indices] values`` from kept columns."""
        if indices is None:
            indices = values.nonzero()[0]
            values = values[indices]
        out = np.zeros(self.shape[0])
        self.columns.add_product(indices, self.signs[indices] * values, out)
        out *= self.signs
        return out

    def eigenvalue(self, which: str) -> float:
        """Of the whole matrix, which is computed: for the schedules on small problems."""
        eigenvalues = np.linalg.eigvalsh(self.columns.submatrix(np.arange(self.shape[0])))
        return float(eigenvalues[-1 if which == "LA" else 0])


class KernelQuadratic(Quadratic):
    """``1/2 a'Qa + <c, a>``, whose trace counts kernel evaluations.

    Parameters
    ----------
    problem : ReducedHullProblem
    """

    extra_columns: tuple[str, ...] = ("kernel_evaluations",)

    def __init__(self, problem: ReducedHullProblem) -> None:
        super().__init__(SignedKernel(problem), problem.signs * problem.linear)
        self.columns = problem.columns

    def extra(self) -> tuple[int, ...]:
        """Entries of the kernel matrix computed so far."""
        return (self.columns.evaluations,)
