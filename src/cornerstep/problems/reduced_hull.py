"""Kernel SVMs with bias: the distance of two reduced convex hulls, and the C-SVM.

With ``Q_ij = y_i y_j k(x_i, x_j)`` and caps w (the weights of the examples, 1 by default)

- *reduced hulls*: ``min 1/2 a'Qa`` over ``0 <= a <= w`` with sum K in each class, P_K x P_K.
  This is ``1/2 |A u - B v|²`` for u, v the parts of a; it is nu-SVC with ``nu = 2K / sum of w``;
- *C-SVM*: ``min 1/2 a'Qa - (1/C) 1'a`` over ``0 <= a <= w, y'a = 0``.

Signed variables ``b_i = y_i a_i`` make both the same: ``min 1/2 b'Kb + <p, b>`` over a box with one
fixed sum (C-SVM) or one per class (reduced hulls).  At the optimum the gradient ``h = Kb + p``
equals a threshold on every free coordinate: one per sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cornerstep.domains import BalancedBox, CappedSimplex, Product
from cornerstep.domains.base import snap_to_bounds
from cornerstep.objectives import Quadratic
from cornerstep.problems.kernel_columns import KernelColumns
from cornerstep.vectors import FloatArray, IntArray, Vector, dense

#: Hulls whose value is below this share of :meth:`ReducedHullProblem.scale` count as touching.
TOUCHING = 1e-12
_ROUNDING = 1e-12  # of a sum, relative


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
        +1, then -1.
    caps : array of shape (n,)
        Positive weights of the examples.
    K : float, optional
        The sum of a in each class, at most the sum of its caps.
    C : float, optional
        The constant of the C-SVM; K or C is given.
    """

    def __init__(
        self,
        columns: KernelColumns,
        signs: FloatArray,
        caps: FloatArray,
        *,
        K: float | None = None,
        C: float | None = None,
    ) -> None:
        self.columns = columns
        self.signs, self.caps, self.K, self.C = signs, caps, K, C
        self.n = signs.size
        self.n_positive = int((signs > 0).sum())
        self.lower = np.where(signs > 0, 0.0, -caps)
        self.upper = np.where(signs > 0, caps, 0.0)
        self.linear = np.zeros(self.n) if C is None else -signs / C
        self.domain: Any = BalancedBox(signs, _common(caps)) if C else self._hulls(K or 0.0)
        self.classes = (slice(0, self.n_positive), slice(self.n_positive, self.n))
        #: Coordinates from ``split`` on have a sum of their own.
        self.split = self.n if C else self.n_positive
        self.sums = (slice(0, self.n),) if C else self.classes

    def _hulls(self, K: float) -> Product:
        parts = self.caps[: self.n_positive], self.caps[self.n_positive :]
        return Product([CappedSimplex(part.size, K, _common(part)) for part in parts])

    def objective(self) -> KernelQuadratic:
        """The problem for the optimiser, in a."""
        return KernelQuadratic(self)

    @property
    def width(self) -> float:
        """K in numbers of examples of the mean cap, infinite for the C-SVM: small, slim hulls."""
        return np.inf if self.K is None else self.K / float(self.caps.mean())

    def is_short(self, beta: FloatArray) -> bool:
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
        snap_to_bounds(out, self.lower, self.upper)
        return out

    def start(self) -> FloatArray:
        """Signed variables to start from: no column for the C-SVM, about 2K for reduced hulls."""
        return self.signs * dense(self.domain.start())

    def vertex(self, gradient: FloatArray, K: float) -> FloatArray:
        """The signed vertex of P_K x P_K that is best for a gradient h."""
        vertex: Vector = self._hulls(K).lmo(self.signs * gradient)
        return self.signs * dense(vertex)

    def value(self, beta: FloatArray, gradient: FloatArray) -> float:
        """``1/2 b'Kb + <p, b>`` with ``h = Kb + p``."""
        return 0.5 * float(beta @ (gradient + self.linear))

    def gap(self, beta: FloatArray, gradient: FloatArray) -> float:
        """``max over v of <h, b - v>``, by the oracle of the domain."""
        signed = self.signs * gradient
        vertex = self.domain.lmo(signed)
        return float(beta @ gradient) - float(vertex @ signed)

    def gradient(self, beta: FloatArray) -> FloatArray:
        """``Kb + p`` in float64 throughout."""
        support = beta.nonzero()[0]
        return self.columns.exact_product(support, beta[support]) + self.linear

    def sample(self, examples: IntArray) -> ReducedHullProblem:
        """The problem of some of the examples, scaled so that its machine is about the same."""
        share = float(self.caps[examples].sum() / self.caps.sum())
        signs, caps = self.signs[examples], self.caps[examples]
        K = self.K
        if K is not None:
            K = min(K * share, *(float(caps[signs == sign].sum()) for sign in (1, -1)))
        C = None if self.C is None else self.C / share
        return ReducedHullProblem(self.columns.take(examples), signs, caps, K=K, C=C)

    def thresholds(self, beta: FloatArray, gradient: FloatArray) -> tuple[float, ...]:
        """The threshold of h for each fixed sum: the values that an optimal b makes h equal to.

        The middle between the largest h that the oracle's vertex fills and the smallest that it
        leaves out: where the sum ends inside a coordinate both are that one's.
        """
        return tuple(self._threshold(beta[part], gradient[part], part) for part in self.sums)

    def _threshold(self, beta: FloatArray, gradient: FloatArray, part: slice) -> float:
        lower, upper = self.lower[part], self.upper[part]
        order = np.argsort(gradient, kind="stable")
        filled = np.cumsum((upper - lower)[order])
        total = float((beta - lower).sum())
        slack = 1e-9 * max(total, 1.0)
        last = int(np.searchsorted(filled, total - slack))
        last = min(last, order.size - 1)
        ends_inside = filled[last] > total + slack
        following = last if ends_inside else min(last + 1, order.size - 1)
        return 0.5 * float(gradient[order[last]] + gradient[order[following]])

    def machine(self, beta: FloatArray, gradient: FloatArray, *, solved: bool = True) -> Machine:
        """The classifier of b, scaled to +-1 on its margins; ``gradient`` is h there.

        Reduced hulls: ``C = 2 / (t_+ - t_-)`` with the thresholds of the classes.  Where a run was
        cut short before b keeps the classes apart, the range of h takes the place of ``t_+ - t_-``.

        Raises
        ------
        ValueError
            If b is optimal and the reduced hulls touch: no hyperplane lies between them.
        """
        thresholds = self.thresholds(beta, gradient)
        squared_norm = max(float(beta @ (gradient - self.linear)), 0.0)
        total = float(np.abs(beta).sum())
        if self.C is None:
            width = thresholds[0] - thresholds[1]
            touching = width <= 0 or squared_norm <= 4 * TOUCHING * self.scale(beta)
            if touching and solved:
                raise ValueError(
                    "the reduced convex hulls of the two classes touch, so no hyperplane lies "
                    f"between them at K = {self.K:g}: take a larger nu or K (they shrink the "
                    "hulls) or another kernel"
                )
            if touching:
                width = float(np.ptp(gradient)) or 1.0
            C, middle = 2.0 / width, 0.5 * (thresholds[0] + thresholds[1])
        else:
            C, middle = self.C, thresholds[0]
        norm = C * float(np.sqrt(squared_norm))
        return Machine(
            coefficients=C * beta,
            intercept=-C * middle,
            C=C,
            nu=total / float(self.caps.sum()),
            K=total / 2,
            margin=2.0 / norm if norm > 0 else np.inf,
        )

    def scale(self, beta: FloatArray) -> float:
        """``(sum |b|)² max k(x, x)``, by some support vectors: rounding is a share of it."""
        support = beta.nonzero()[0]
        if support.size == 0:
            return 0.0
        some = support[:16]
        largest = float(np.abs(self.columns.submatrix(some).diagonal()).max())
        return float(np.abs(beta).sum()) ** 2 * largest


def _common(caps: FloatArray) -> float | FloatArray:
    """One number if all caps are equal."""
    return float(caps[0]) if np.ptp(caps) == 0 else caps


class SignedKernel:
    """``Q = diag(y) K diag(y)`` as a Hessian: moves read kept columns, values the data."""

    def __init__(self, problem: ReducedHullProblem) -> None:
        self.columns, self.signs = problem.columns, problem.signs
        self.shape = (problem.n, problem.n)

    def times(self, x: FloatArray) -> FloatArray:
        """``Q x`` in float64 throughout."""
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
