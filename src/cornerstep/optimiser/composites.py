r"""Sums of convex losses of a linear image, :math:`f(x) = \sum_i w_i\, \phi_i(a_i^\top x)`.

A position carries the image ``z = Ax``; along a direction z moves by ``step * Ad``, so that a value
or a derivative on a ray costs no product with A.

Rounding.  Each phi is convex: wherever z is, ``phi(u) >= phi(z) + phi'(z) (u - z)`` for all u.  So
the gradient need only be that of the computed image; what the image is off by, say e, moves the
value by at most ``(2 |phi'(z)| + e sup phi'') e``.  Sums and products are bounded by proof,
exponentials and logarithms by a rule: sixteen units in the last place of the sizes of their terms.

Huber's loss is that of [1]_; counts and their link are those of generalised linear models [2]_.

References
----------
.. [1] P. J. Huber. Robust estimation of a location parameter. Annals of Mathematical Statistics 35,
   73-101, 1964.
.. [2] P. McCullagh, J. A. Nelder. Generalized Linear Models. 2nd edition, Chapman and Hall, 1989.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, kl_div, rel_entr

from cornerstep.core.matrix import Matrix, as_vector
from cornerstep.core.rounding import sum_error
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import Direction, Vector
from cornerstep.domains.base import require_positive
from cornerstep.optimiser.objectives import Position

_ULPS = 16  # of an elementary function, in units of the last place of its terms


class Composite:
    """A weighted sum of convex losses of a linear image, ``f(x) = sum_i w_i phi(z_i; t_i)``.

    ``z = A x``; a subclass gives phi.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (m, n)
    target : array of shape (m,)
        What phi compares the image with.
    sample_weight : array of shape (m,), optional
        Not negative; 1 if None.
    """

    strong_convexity: float | None = None
    steepest: ClassVar[float | None] = None  # the largest phi''
    spreads: ClassVar[bool] = False  # whether minima have no zeros: they need all vertices

    def __init__(
        self, A: Any, target: Any, sample_weight: Any = None, *, name: str = "target"
    ) -> None:
        self.matrix = Matrix(A, "A")
        rows, self.size = self.matrix.shape
        self.target = as_vector(target, name, rows)
        self.weights = np.ones(rows)
        if sample_weight is not None:
            self.weights = as_vector(sample_weight, "sample_weight", rows)
            if self.weights.min() < 0:
                raise ValueError(f"sample_weight must be >= 0, got {self.weights.min():g}")
        self.product_size = self.matrix.product_size

    def losses(self, z: FloatArray) -> FloatArray:
        """``phi(z_i)``."""
        raise NotImplementedError

    def slopes(self, z: FloatArray) -> FloatArray:
        """``phi'(z_i)``."""
        raise NotImplementedError

    def curvatures(self, z: FloatArray, radius: Any = 0.0) -> FloatArray:
        """``phi''(z_i)``, or bounds of it up to ``radius`` away from z."""
        raise NotImplementedError

    def terms(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sizes of the terms that a loss, and a slope, are sums of."""
        raise NotImplementedError

    def at(self, x: FloatArray) -> _ImagePosition:
        return _ImagePosition(self, x, self.matrix.times(x))

    def errors(self, position: Position) -> tuple[float, FloatArray]:
        """Of the value and of the entries of the gradient (see the module)."""
        x, w = position.x, self.weights
        z = self.matrix.times(x)
        off, rows = self.image_errors(x), z.size
        losses, slopes = self.terms(z)
        moved = off * (2 * np.abs(self.slopes(z)) + off * self.curvatures(z, off))
        value = float(w @ moved) + sum_error(float(w @ losses), rows + _ULPS)
        return float(value), sum_error(self.matrix.transpose_sizes(w * slopes), rows + _ULPS)

    def part(self, rows: IntArray, entries: Any) -> Composite:
        """An estimate of f by these rows, whose entries are given, each counted for its share."""
        out = copy.copy(self)
        out.matrix, out.target = Matrix(entries, "A"), self.target[rows]
        out.weights = self.weights[rows] * (self.target.size / rows.size)
        return out

    @property
    def image_size(self) -> int:
        """Numbers of an image."""
        return int(self.target.size)

    def atom_images(self, atoms: list[Vector]) -> FloatArray:
        """``A a`` for each of some atoms, as rows."""
        return self.matrix.images(atoms)

    def of_images(self) -> Composite:
        """The same losses of an image itself: A is the identity."""
        out = copy.copy(self)
        out.matrix = Matrix(sp.eye_array(self.image_size, format="csc"), "A")
        out.size = self.image_size
        return out

    def image_errors(self, x: FloatArray) -> FloatArray:
        """What the entries of ``A x`` may be off by."""
        return sum_error(self.matrix.sizes(x), int(np.count_nonzero(x)))

    @cached_property
    def lipschitz(self) -> float | None:
        if self.steepest is None:
            return None
        return self.steepest * self.matrix.gram_norm() * float(self.weights.max())


class _ImagePosition:
    """Position of a composite, carried by its image."""

    __slots__ = ("gradient", "image", "inner", "objective", "value", "x")

    def __init__(self, objective: Composite, x: FloatArray, image: FloatArray) -> None:
        self.objective = objective
        self.x = x
        self.image = image
        self.value = float(objective.weights @ objective.losses(image))
        slopes = objective.weights * objective.slopes(image)
        self.gradient = objective.matrix.transpose_times(slopes)
        self.inner = float(self.gradient.dot(x))

    def along(self, direction: Direction) -> _ImageRay:
        change = self.objective.matrix.combine(direction.indices, direction.values)
        if direction.scale:
            change = change + direction.scale * self.image  # not in place: see LeastSquares
        return _ImageRay(self, direction, change)


class _ImageRay:
    """A composite along a direction, its image known at each step."""

    __slots__ = ("change", "curvature", "direction", "origin", "slope")

    def __init__(self, origin: _ImagePosition, direction: Direction, change: FloatArray) -> None:
        self.origin = origin
        self.direction = direction
        self.change = change
        self.curvature = None
        self.slope = float(origin.gradient.dot(direction.dense))

    def value(self, step: float) -> float:
        f = self.origin.objective
        return float(f.weights @ f.losses(self.origin.image + step * self.change))

    def derivative(self, step: float) -> float:
        f = self.origin.objective
        slopes = f.slopes(self.origin.image + step * self.change)
        return float((f.weights * slopes) @ self.change)

    def land(self, step: float, x: FloatArray) -> _ImagePosition:
        return _ImagePosition(self.origin.objective, x, self.origin.image + step * self.change)


class Huber(Composite):
    r"""Huber's robust loss of residuals, :math:`\sum_i w_i h(a_i^\top x - b_i)`.

    :math:`h(r) = r^2/2` up to delta, and :math:`\delta |r| - \delta^2/2` beyond.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (m, n)
    b : array of shape (m,)
    delta : float, default=1
        Where squares end.
    sample_weight : array of shape (m,), optional
    """

    steepest = 1.0

    def __init__(self, A: Any, b: Any, delta: float = 1.0, sample_weight: Any = None) -> None:
        super().__init__(A, b, sample_weight, name="b")
        self.delta = require_positive(delta, "delta")

    def losses(self, z: FloatArray) -> FloatArray:
        inside = self.slopes(z)
        return inside * (z - self.target - 0.5 * inside)

    def slopes(self, z: FloatArray) -> FloatArray:
        return np.clip(z - self.target, -self.delta, self.delta)

    def curvatures(self, z: FloatArray, radius: Any = 0.0) -> FloatArray:
        return np.where(np.abs(z - self.target) - radius <= self.delta, 1.0, 0.0)

    def terms(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        size = np.abs(self.slopes(z))
        return size * (np.abs(z - self.target) + size), size


class Logistic(Composite):
    r"""The logistic loss of labels, :math:`\sum_i w_i \ln(1 + \exp(-y_i\, a_i^\top x))`.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (m, n)
    labels : array of shape (m,)
        Two different values; y is -1 for the smaller and +1 for the larger.
    sample_weight : array of shape (m,), optional
    """

    steepest = 0.25

    def __init__(self, A: Any, labels: Any, sample_weight: Any = None) -> None:
        self.classes, found = np.unique(np.asarray(labels), return_inverse=True)
        if self.classes.size != 2:
            raise ValueError(f"labels must have two different values, got {self.classes.size}")
        super().__init__(A, 2.0 * found - 1.0, sample_weight, name="labels")

    def losses(self, z: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, -self.target * z)

    def slopes(self, z: FloatArray) -> FloatArray:
        return -self.target * expit(-self.target * z)

    def curvatures(self, z: FloatArray, radius: Any = 0.0) -> FloatArray:
        near = np.maximum(np.abs(z) - radius, 0.0)
        return expit(near) * expit(-near)

    def terms(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.losses(z) + np.maximum(-self.target * z, 0.0), np.abs(self.slopes(z))


class Poisson(Composite):
    r"""The negative log-likelihood of counts, :math:`\sum_i w_i (e^{z_i} - b_i z_i),\ z = A x`.

    Of Poisson regression with the logarithm as its link, without the terms that are constant.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (m, n)
    counts : array of shape (m,)
        Not negative.
    sample_weight : array of shape (m,), optional
    """

    def __init__(self, A: Any, counts: Any, sample_weight: Any = None) -> None:
        super().__init__(A, as_amounts(counts, "counts"), sample_weight, name="counts")

    def losses(self, z: FloatArray) -> FloatArray:
        return np.exp(z) - self.target * z

    def slopes(self, z: FloatArray) -> FloatArray:
        return np.exp(z) - self.target

    def curvatures(self, z: FloatArray, radius: Any = 0.0) -> FloatArray:
        return np.exp(z + radius)

    def terms(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.exp(z) + np.abs(self.target * z), np.exp(z) + self.target


class KullbackLeibler(Composite):
    r"""The divergence of given amounts from an image, b from z = Ax.

    :math:`\sum_i w_i (b_i \ln(b_i/z_i) - b_i + z_i)`; z must be positive where b is.  Of counts b
    with means z this is the negative log-likelihood (tomography, mixtures, topic models).  Where z
    is 0 and b is not, the value is infinite: such a run has to start elsewhere (``x0``).

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (m, n)
    b : array of shape (m,)
        Not negative.
    sample_weight : array of shape (m,), optional
    """

    def __init__(self, A: Any, b: Any, sample_weight: Any = None) -> None:
        super().__init__(A, as_amounts(b, "b"), sample_weight, name="b")

    def losses(self, z: FloatArray) -> FloatArray:
        return kl_div(self.target, z)

    def slopes(self, z: FloatArray) -> FloatArray:
        # b / z is 0 where b is 0, also at z = 0; beyond 0 there is nothing
        shares = np.divide(self.target, z, out=np.zeros_like(z), where=self.target > 0)
        return np.where(z < 0, np.nan, 1.0 - shares)

    def curvatures(self, z: FloatArray, radius: Any = 0.0) -> FloatArray:
        least = np.maximum(z - radius, 0.0)
        bends = np.divide(self.target, least, out=np.zeros_like(z), where=self.target > 0)
        return np.divide(bends, least, out=np.zeros_like(z), where=self.target > 0)

    def terms(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.abs(rel_entr(self.target, z)) + self.target + z, 2 - self.slopes(z)


class Entropy(Composite):
    r"""The relative entropy of x, :math:`\sum_i w_i (x_i \ln(x_i/q_i) - x_i + q_i)`, for x >= 0.

    At 0 the value is finite and the slope is not: a run has to start inside of the domain (``x0``),
    and stays there.

    Parameters
    ----------
    prior : array of shape (n,)
        Positive numbers, q.
    sample_weight : array of shape (n,), optional
    """

    spreads = True

    def __init__(self, prior: Any, sample_weight: Any = None) -> None:
        q = as_amounts(prior, "prior")
        if q.min() == 0:
            raise ValueError("prior must be positive")
        super().__init__(sp.eye_array(q.size, format="csc"), q, sample_weight)

    def image_errors(self, x: FloatArray) -> FloatArray:
        return np.zeros(x.size)  # the image is x itself

    def losses(self, z: FloatArray) -> FloatArray:
        return kl_div(z, self.target)

    def slopes(self, z: FloatArray) -> FloatArray:
        return np.log(z / self.target)

    def curvatures(self, z: FloatArray, radius: Any = 0.0) -> FloatArray:
        return 1 / np.maximum(z - radius, 0.0)

    def terms(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.abs(rel_entr(z, self.target)) + z + self.target, np.abs(self.slopes(z)) + 1.0


def as_amounts(values: Any, name: str) -> FloatArray:
    """Return ``values`` as a vector of numbers >= 0, or say that ``name`` must be one."""
    out = as_vector(values, name)
    if out.size and out.min() < 0:
        raise ValueError(f"{name} must be >= 0, got {out.min():g}")
    return out
