"""Losses of the form "max dot over simplex": ``Phi(s; y) = max over beta in B of <beta, z>``.

With margins z (:mod:`cornerstep.multiclass.simplex_loss`) sorted downwards and weights
``rho_1 >= ... >= rho_K >= 0`` there are two families:

- *each*:  ``sum_j rho_j max(0, z_(j))``   (Usunier; max hinge is ``rho = (1,)``),
- *whole*: ``max(0, sum_j rho_j z_(j))``   (top-k).

All methods take one vector of scores with an int label, or a matrix with a vector of labels.

References
----------
.. [1] K. Crammer, Y. Singer. On the algorithmic implementation of multiclass kernel-based vector
   machines. Journal of Machine Learning Research 2, 265-292, 2001.
.. [2] N. Usunier, D. Buffoni, P. Gallinari. Ranking with ordered weighted pairwise classification.
   ICML 2009.
.. [3] M. Lapin, M. Hein, B. Schiele. Top-k multiclass SVM. NIPS 2015.
.. [4] T. Kato, Y. Hirohashi. Learning weighted top-k support vector machine. ACML 2019.
.. [5] J.-J. Moreau. Proximité et dualité dans un espace hilbertien. Bulletin de la Société
   Mathématique de France 93, 273-299, 1965.
.. [6] K. Tajima, Y. Hirohashi, E. R. R. Zara, T. Kato. Frank-Wolfe algorithm for learning SVM-type
   multi-category classifiers. arXiv:2008.08894, 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.simplex_loss import SimplexLoss


class Loss(SimplexLoss):
    r"""A loss given by weights of the sorted margins and a family.

    :math:`\max_{\beta \in B} \langle \beta, z \rangle`, with B given by ``rho``.  Compiled code
    knows it by these and the costs: a subclass may choose them, and no more.

    Parameters
    ----------
    rho : array of shape (K,)
        Decreasing non-negative weights, used as given; entries beyond K are 0, and K must be less
        than the number of classes.
    costs : array of shape (m, m) or (n, m), optional
        ``costs[y]`` is Delta for label y, or ``costs[i]`` for example i if ``per_example``.
    per_example : bool
        Which of the two the rows of ``costs`` are.
    """

    whole: ClassVar[bool] = False

    def __init__(
        self, rho: npt.ArrayLike, costs: npt.ArrayLike | None = None, *, per_example: bool = False
    ) -> None:
        super().__init__(costs, per_example=per_example)
        self.rho: FloatArray = np.atleast_1d(np.asarray(rho, dtype=np.float64))
        valid = self.rho.ndim == 1 and self.rho.size > 0 and np.isfinite(self.rho).all()
        if not (valid and (np.diff(self.rho) <= 0).all() and self.rho[-1] >= 0 < self.rho[0]):
            raise ValueError(
                f"rho must be a decreasing sequence of numbers >= 0, the first > 0, got {rho!r}"
            )
        self.rho = self.rho[: np.count_nonzero(self.rho)]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in dir(Loss):
            fixed = not name.startswith("__") and name != "whole"
            if fixed and getattr(cls, name) is not getattr(Loss, name):
                raise TypeError(
                    f"{cls.__name__} must not redefine {name}, which compiled code would not ask: "
                    "derive a loss with methods of its own from SimplexLoss"
                )

    @property
    def is_single(self) -> bool:
        """Whether one margin counts: smoothed, the loss has a second derivative then."""
        return self.rho.size == 1

    @property
    def family(self) -> bool | None:
        """Whether the loss is of the *whole* family; None with one weight: the two are one then."""
        return None if self.rho.size == 1 else self.whole

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rho={np.array2string(self.rho, precision=3)})"

    def check(self, n_classes: int, n_examples: int | None = None) -> None:
        """Say what is wrong if the loss does not fit the number of classes (and examples)."""
        if self.rho.size >= n_classes:
            raise ValueError(
                f"the loss weighs {self.rho.size} classes, which must be less than the number of "
                f"classes, {n_classes}: give a smaller k or a shorter rho"
            )
        super().check(n_classes, n_examples)

    def mass(self, n_classes: int) -> float:
        """The sum of rho."""
        return float(self.rho.sum())

    def _ask(self, oracle: str, rows: FloatArray, labels: IntArray) -> FloatArray:
        answer: FloatArray = getattr(self, oracle)(rows, labels)  # needs no check
        return answer

    def _top(self, z: FloatArray) -> tuple[IntArray, FloatArray]:
        """Positions and values of the K largest entries of each row, largest first."""
        count = self.rho.size
        if count == 1:
            top = z.argmax(axis=1)[:, None]
        else:
            top = np.argpartition(-z, count - 1, axis=1)[:, :count]
            order = np.take_along_axis(-z, top, axis=1).argsort(axis=1, kind="stable")
            top = np.take_along_axis(top, order, axis=1)
        return top, np.take_along_axis(z, top, axis=1)

    def _weights(self, largest: FloatArray) -> FloatArray:
        """Which rho a row's largest margins earn."""
        if self.whole:
            return np.where((largest @ self.rho > 0)[:, None], self.rho, 0.0)
        return np.where(largest > 0, self.rho, 0.0)

    def maximum(self, z: FloatArray, labels: IntArray) -> FloatArray:
        """``max over beta in B of <beta, z>`` of each row."""
        _, largest = self._top(z)
        return (self._weights(largest) * largest).sum(axis=1)

    def argmax(self, z: FloatArray, labels: IntArray) -> FloatArray:
        """A beta that attains it."""
        top, largest = self._top(z)
        beta = np.zeros_like(z)
        np.put_along_axis(beta, top, self._weights(largest), axis=1)
        return beta

    def projection(self, points: FloatArray, labels: IntArray) -> FloatArray:
        """The nearest dual point of each row."""
        from cornerstep.multiclass.compiled.projection import project_rows

        out, rho = np.empty_like(points), np.require(self.rho, requirements="W")
        width = points.shape[1] + 1
        scratch = np.empty((4, width)), np.empty((3, width), np.int64)
        project_rows(points, labels, rho, self.family, *scratch, out)
        return out

    def sizes_of_margins(self, z: FloatArray, smoothing: float = 0.0) -> FloatArray:
        """What :meth:`of_margins` sums up, without signs: of what size its rounding is.

        Sums of a *whole* loss that are clearly below 0 are not rounded to anything else.
        """
        _, largest = self._top(z)
        sizes = np.abs(largest) @ self.rho
        if self.whole:
            sizes = np.where(largest @ self.rho > -1e-12 * sizes, sizes, 0.0)
        else:
            sizes = np.maximum(largest, 0.0) @ self.rho
        return np.where(sizes > 0, sizes + smoothing * self.rho.sum() ** 2, 0.0)

    def shares(self, alpha: FloatArray, labels: IntArray) -> FloatArray:
        """Which classes have a share of dual points, for a single weight: the face they are on.

        The others on the face change with the scores as their mean does not.
        """
        out = (alpha < 0.0).astype(np.float64)
        at = np.arange(labels.size)
        out[at, labels] = alpha[at, labels] < self.rho[0]
        return out

    def bent(self, shares: FloatArray, directions: FloatArray, smoothing: float) -> FloatArray:
        """The second derivative ``(diag(a) - a a' / |a|²) / mu`` times a direction of each row."""
        out = shares * directions
        out -= shares * (out.sum(axis=1) / np.maximum(shares.sum(axis=1), 1.0))[:, None]
        out /= smoothing
        return out

    def bends(self, shares: FloatArray, smoothing: float) -> FloatArray:
        """Its diagonal."""
        counts = np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        return shares * (1.0 - 1.0 / counts) / smoothing

    def bend_sum(self, shares: FloatArray, scales: FloatArray, smoothing: float) -> FloatArray:
        """The sum of the second derivatives of all rows, an array of shape (m, m)."""
        weighted = (scales / np.maximum(shares.sum(axis=1), 1.0))[:, None] * shares
        out: FloatArray = (np.diag(scales @ shares) - weighted.T @ shares) / smoothing
        return out

    def _conjugates(self, gradients: FloatArray, labels: IntArray, tol: float) -> FloatArray:
        m = gradients.shape[1]
        self.check(m, labels.size)
        at = np.arange(labels.size)
        delta = self.deltas(labels, m)
        value = -(delta * gradients).sum(axis=1)
        beta = gradients.copy()
        beta[at, labels] = 0.0
        slack = tol * self.rho.sum()
        inside = (beta >= -slack).all(axis=1) & (np.abs(gradients.sum(axis=1)) <= slack)
        tops = -np.sort(-beta, axis=1)[:, : m - 1].cumsum(axis=1)  # of k = 1, ..., m - 1 entries
        limits = np.cumsum(np.pad(self.rho, (0, m - self.rho.size)))
        if self.whole:
            # beta/s must be majorised by rho for some s <= 1, with the label's entry left over.
            total, largest = tops[:, -1:], limits[-1]
            least = ((tops - slack) / limits[:-1]).max(axis=1)
            before = np.hstack([np.zeros_like(total), tops])
            with np.errstate(divide="ignore", invalid="ignore"):
                rooms = (total - before + slack) / (largest - limits)
            most = np.where(largest - limits > 0, rooms, np.inf).min(axis=1)
            inside &= least <= np.minimum(most, 1.0)
        else:
            inside &= (tops <= limits[:-1] + slack).all(axis=1)
        return np.where(inside, value, np.inf)


class MaxHinge(Loss):
    r"""The multi-class hinge of Crammer and Singer, :math:`\max_j z_j`."""

    def __init__(self) -> None:
        super().__init__([1.0])


class CostSensitive(Loss):
    r"""The largest margin with costs of your own, :math:`\max_j s_j - s_y + \Delta_j`.

    Parameters
    ----------
    costs : array of shape (m, m), or (n, m) with ``per_example``
    per_example : bool
    """

    def __init__(self, costs: npt.ArrayLike, *, per_example: bool = False) -> None:
        super().__init__([1.0], costs, per_example=per_example)


class TopK(Loss):
    r"""The mean of the k largest margins, :math:`\max(0, \tfrac1k \sum_{j \le k} z_{(j)})`.

    Parameters
    ----------
    k : int
    """

    whole: ClassVar[bool] = True

    def __init__(self, k: int = 5) -> None:
        super().__init__(_uniform(k))


class Usunier(Loss):
    r"""The mean of the k largest hinges, :math:`\tfrac1k \sum_{j \le k} \max(0, z_{(j)})`.

    Parameters
    ----------
    k : int
    """

    def __init__(self, k: int = 5) -> None:
        super().__init__(_uniform(k))


class WeightedTopK(Loss):
    r"""A weighted sum of the sorted margins, :math:`\max(0, \sum_j \rho_j z_{(j)})`.

    Parameters
    ----------
    rho : array of shape (K,)
    """

    whole: ClassVar[bool] = True

    def __init__(self, rho: npt.ArrayLike) -> None:
        super().__init__(rho)


class WeightedUsunier(Loss):
    r"""A weighted sum of the sorted hinges, :math:`\sum_j \rho_j \max(0, z_{(j)})`.

    Parameters
    ----------
    rho : array of shape (K,)
    """

    def __init__(self, rho: npt.ArrayLike) -> None:
        super().__init__(rho)


LOSSES = (
    "max-hinge", "cost-sensitive", "top-k", "usunier", "weighted-top-k", "weighted-usunier",
    "softmax", "top-k-entropy", "squared-hinge",
)  # fmt: skip


def make_loss(
    name: str | SimplexLoss,
    *,
    k: int = 5,
    rho: npt.ArrayLike | None = None,
    costs: npt.ArrayLike | None = None,
    per_example: bool = False,
) -> SimplexLoss:
    """The loss of that name (see ``LOSSES``), or the loss itself."""
    for option, given, of in (
        ("costs", costs, ("cost-sensitive",)),
        ("rho", rho, ("weighted-top-k", "weighted-usunier")),
    ):
        if given is not None and (
            isinstance(name, SimplexLoss) or (name in LOSSES and name not in of)
        ):
            raise ValueError(
                f"{option} must be None with loss={name!r}, got an array of shape "
                f"{np.shape(given)}: only {' and '.join(of)} take {option}"
            )
    if isinstance(name, SimplexLoss):
        return name
    if name in ("weighted-top-k", "weighted-usunier") and rho is None:
        raise ValueError(f"loss={name!r} needs rho, the decreasing weights of the sorted margins")
    if name == "cost-sensitive" and costs is None:
        raise ValueError("loss='cost-sensitive' needs costs, a matrix with a row per class")
    from cornerstep.multiclass.entropic import Softmax, TopKEntropy
    from cornerstep.multiclass.squared import SquaredHinge

    makers: dict[str, Callable[[], SimplexLoss]] = {
        "max-hinge": MaxHinge,
        "cost-sensitive": lambda: CostSensitive(costs, per_example=per_example),  # type: ignore[arg-type]
        "top-k": lambda: TopK(k),
        "usunier": lambda: Usunier(k),
        "weighted-top-k": lambda: WeightedTopK(rho),  # type: ignore[arg-type]
        "weighted-usunier": lambda: WeightedUsunier(rho),  # type: ignore[arg-type]
        "softmax": Softmax,
        "top-k-entropy": lambda: TopKEntropy(k),
        "squared-hinge": SquaredHinge,
    }
    if name not in makers:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)} or a SimplexLoss, got {name!r}")
    return makers[name]()


def _uniform(k: int) -> FloatArray:
    if not (isinstance(k, Real) and 1 <= k < np.inf and k == int(k)):
        raise ValueError(f"k must be an integer >= 1, got {k!r}")
    return np.full(int(k), 1.0 / int(k))
