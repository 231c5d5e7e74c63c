"""Objectives: convex functions that know how to move along a direction.

Three nouns.  An *objective* f gives a *position* at any point: ``x, f(x), grad f(x)``.  A position
gives a *ray* along a :class:`~cornerstep.core.vectors.Direction` d: the slope ``<grad f(x), d>``
and, where f is quadratic, the curvature ``<d, H d>``, so that an exact step is closed form.
Landing on a ray gives the next position.  A quadratic computes ``H d`` once for both the curvature
and the next gradient ``grad f(x) + step * H d``; a sparse atom touches only its own columns of H.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from cornerstep.core.curvature import Curvature, dense_array
from cornerstep.core.matrix import Matrix, as_vector
from cornerstep.core.rounding import EPSILON, gamma, sum_error
from cornerstep.core.types import FloatArray, IntArray
from cornerstep.core.vectors import Direction, SparseVector, Vector, dense

# Rounding of functions that are known by their answers only, in units of the last place of the
# sizes of their terms: a rule, above what sums and elementary functions lose, and no proof.
_ULPS = 16


class Ray(Protocol):
    """The objective along a direction, ``x + step * d``."""

    slope: float
    direction: Direction

    @cached_property
    def curvature(self) -> float | None:
        """``<d, H d>``, or None where f is not known to be quadratic."""

    def value(self, step: float) -> float:
        """``f(x + step d)``."""

    def derivative(self, step: float) -> float:
        """``<grad f(x + step d), d>``."""

    def land(self, step: float, x: FloatArray) -> Position:
        """The position at ``x``, which is ``x + step d`` up to rounding."""


class Position(Protocol):
    """A point with the value and gradient of f there."""

    x: FloatArray
    value: float
    gradient: FloatArray
    inner: float  # <gradient, x>

    def along(self, direction: Direction) -> Ray:
        """The ray from here along ``direction``."""


class Objective(Protocol):
    """A convex differentiable function on vectors of length ``size`` (None: any length).

    ``lipschitz`` is a Lipschitz constant of the gradient and ``strong_convexity`` a modulus of
    strong convexity, both in the Euclidean norm and None where unknown.  An objective may add
    columns to the trace of a run: ``extra_columns``, their names, and ``extra()``, what they are at
    the time of asking.  One with ``errors(position)`` says how far rounding may have put the value,
    and each entry of the gradient, of a position that ``at`` computed; :func:`errors_of` has a rule
    for those that do not.  One with ``product_size``, the multiply-adds of its matrix products,
    has its threads chosen by it; those of others are their own affair.  One with ``begin()`` is
    told of a new run; positions with a true ``estimate`` are samples: they certify nothing.
    """

    @property
    def size(self) -> int | None: ...

    @property
    def lipschitz(self) -> float | None: ...

    @property
    def strong_convexity(self) -> float | None: ...

    def at(self, x: FloatArray) -> Position:
        """Value and gradient at ``x``, computed from the data."""


class Correctable(Protocol):
    """A quadratic that gives the images of atoms: what an exact correction needs."""

    @property
    def image_size(self) -> int:
        """Numbers of an image."""

    def atom_images(self, atoms: list[Vector]) -> Any:
        """The images of some atoms, as rows: an array, or CSR where few entries are not 0."""

    def atom_products(self, atoms: list[Vector], images: Any, others: Any) -> FloatArray:
        """``<a, H b>`` of atoms a, with their images, and of atoms b, of which images are given."""


def is_correctable(objective: Any) -> TypeGuard[Correctable]:
    """Whether an objective is one."""
    return callable(getattr(objective, "atom_products", None))


def errors_of(objective: Any, position: Position) -> tuple[float, FloatArray]:
    """Bounds of the rounding errors of the value, and of each entry of the gradient, at a position.

    The objective's own word, or a few units in the last place of ``|f(x)| + <|grad f(x)|, |x|>``
    and of the largest entry of the gradient.
    """
    errors = getattr(objective, "errors", None)
    if errors is not None:
        value_error, gradient_error = errors(position)
        return float(value_error), gradient_error
    return usual_errors(position)


def usual_errors(position: Position) -> tuple[float, FloatArray]:
    """The rule of :func:`errors_of`, for functions that are known by their answers only."""
    sizes = np.abs(position.gradient)
    value = abs(position.value) + float(sizes @ np.abs(position.x))
    largest = float(sizes.max(initial=0.0))
    return float(sum_error(value, _ULPS)), np.full(sizes.size, sum_error(largest, _ULPS))


@runtime_checkable
class SymmetricOperator(Protocol):
    """A symmetric matrix that computes its products in its own way (lazily, cached, ...).

    One with ``sizes(x)`` bounds the entries of ``|Q| |x|``, from which follow rounding errors of
    ``Q x``; for others a multiple of the largest entry of ``Q x`` stands for them.
    """

    shape: tuple[int, int]

    def times(self, x: FloatArray) -> FloatArray:
        """``Q x``, from the data."""

    def combine(self, indices: IntArray | None, values: FloatArray) -> FloatArray:
        """``Q[:, indices] values`` (of all columns, if indices is None); may be kept and reused."""

    def eigenvalue(self, which: str) -> float:
        """The largest ('LA') or smallest ('SA') eigenvalue."""


class _QuadraticPosition:
    """Position of ``f(x) = 1/2 x'Hx + c'x + const``; ``H x = gradient - c``."""

    __slots__ = ("gradient", "hessian", "inner", "linear", "value", "x")

    def __init__(
        self,
        hessian: Matrix | SymmetricOperator,
        linear: FloatArray,
        x: FloatArray,
        value: float,
        gradient: FloatArray,
    ) -> None:
        self.hessian = hessian
        self.linear = linear
        self.x = x
        self.value = value
        self.gradient = gradient
        self.inner = float(gradient.dot(x))

    def along(self, direction: Direction) -> _ClosedFormRay:
        change = self.hessian.combine(direction.indices, direction.values)
        if direction.scale:
            # Not in place: a LinearOperator may have answered with its own argument.
            change = change + direction.scale * (self.gradient - self.linear)
        return _ClosedFormRay(self, direction, change, float(change.dot(direction.dense)))

    def moved(self, x: FloatArray, change: FloatArray, value: float) -> _QuadraticPosition:
        return _QuadraticPosition(self.hessian, self.linear, x, value, self.gradient + change)


class _ClosedFormRay:
    """f along a direction on which it is ``f(x) + step * slope + step²/2 * curvature``.

    ``change`` is how the image that the position carries moves per unit step.
    """

    __slots__ = ("change", "curvature", "direction", "origin", "slope")

    def __init__(
        self,
        origin: _QuadraticPosition | _ResidualPosition,
        direction: Direction,
        change: FloatArray,
        curvature: float,
    ) -> None:
        self.origin = origin
        self.direction = direction
        self.change = change
        self.curvature = curvature
        self.slope = float(origin.gradient.dot(direction.dense))

    def value(self, step: float) -> float:
        return self.origin.value + step * (self.slope + 0.5 * step * self.curvature)

    def derivative(self, step: float) -> float:
        return self.slope + step * self.curvature

    def land(self, step: float, x: FloatArray) -> Position:
        return self.origin.moved(x, step * self.change, self.value(step))


class Quadratic:
    r"""A convex quadratic function, :math:`f(x) = \tfrac12 x^\top Q x + c^\top x`.

    Parameters
    ----------
    Q : array, sparse matrix, LinearOperator or symmetric operator of shape (n, n)
        The Hessian.  Symmetry is checked where entries are at hand; definiteness is the caller's.
        An object with the methods of :class:`SymmetricOperator` is used as it is.
    c : array of shape (n,), optional
        The linear term; zero if None.
    """

    def __init__(self, Q: Any, c: Any = None) -> None:
        self.hessian: Matrix | SymmetricOperator
        if isinstance(Q, SymmetricOperator):
            self.hessian = Q
        else:
            self.hessian = _symmetric(Matrix(Q, "Q", symmetric=True))
        self.size: int = self.hessian.shape[0]
        self.linear = np.zeros(self.size) if c is None else as_vector(c, "c", self.size)
        self.product_size: int | None = getattr(self.hessian, "product_size", None)

    def at(self, x: FloatArray) -> _QuadraticPosition:
        image = self.hessian.times(x)
        value = float(x @ (0.5 * image + self.linear))
        return _QuadraticPosition(self.hessian, self.linear, x, value, image + self.linear)

    @property
    def image_size(self) -> int:
        """Numbers of an image."""
        return self.size

    def atom_images(self, atoms: list[Vector]) -> FloatArray:
        """``Q a`` for each of some atoms, as rows."""
        if isinstance(self.hessian, Matrix):
            return self.hessian.images(atoms)
        return np.array([self.hessian.combine(None, dense(atom)) for atom in atoms])

    def atom_products(
        self, atoms: list[Vector], images: FloatArray, others: FloatArray
    ) -> FloatArray:
        """``<a, Q b>`` for each of some atoms a and the images of other atoms b, which are rows."""
        return np.array(
            [
                others[:, a.indices] @ a.values if isinstance(a, SparseVector) else others @ a
                for a in atoms
            ]
        )

    def errors(self, position: Position) -> tuple[float, FloatArray]:
        """Sums of as many products as x has entries that are not 0, and one term of c each."""
        terms = int(np.count_nonzero(position.x)) + 3
        x, linear = np.abs(position.x), np.abs(self.linear)
        if not hasattr(self.hessian, "sizes"):
            largest = float(np.abs(position.gradient - self.linear).max(initial=0.0))
            gradient = gamma(terms) * (_ULPS * largest + linear)
            return 2 * float(x @ gradient), gradient
        sizes = self.hessian.sizes(position.x)
        gradient = sum_error(sizes + linear, terms)
        return float(x @ gradient + sum_error(x @ (sizes + linear), terms)), gradient

    @cached_property
    def curvature(self) -> Curvature | None:
        """Q by its parts; None where it is known by products only."""
        if not (isinstance(self.hessian, Matrix) and self.hessian.has_entries):
            return None
        return Curvature.of(self.hessian.data)

    @cached_property
    def lipschitz(self) -> float:
        return self.hessian.eigenvalue("LA")

    @cached_property
    def strong_convexity(self) -> float:
        return max(self.hessian.eigenvalue("SA"), 0.0)


def _symmetric(matrix: Matrix) -> Matrix:
    """The matrix with what rounding has left of asymmetry removed, or an error if there is more."""
    asymmetry = matrix.asymmetry()
    if asymmetry == 0:
        return matrix
    if asymmetry > 1e-10:
        raise ValueError("Q must be symmetric; pass (Q + Q.T) / 2 for the same function")
    half = matrix.data / 2  # first: a sum of the two may overflow
    return Matrix(half + half.T, "Q", symmetric=True)


class LeastSquares:
    r"""Least squares, :math:`f(x) = \tfrac12 \|Ax - b\|^2`.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (m, n)
    b : array of shape (m,)
    gram : bool, default=False
        Form ``A'A`` once and move the gradient by its columns: worth its O(m n²) when A is tall and
        atoms are sparse.  Values and certificates still come from A and b.
    """

    @np.errstate(over="ignore", invalid="ignore")  # minimize refuses what is not finite
    def __init__(self, A: Any, b: Any, *, gram: bool = False) -> None:
        self.matrix = Matrix(A, "A")
        self.target = as_vector(b, "b", self.matrix.shape[0])
        self.size: int = self.matrix.shape[1]
        self.product_size = self.matrix.product_size
        self.hessian = self.matrix.gram() if gram else None
        self.linear = -self.matrix.transpose_times(self.target) if gram else None

    def at(self, x: FloatArray) -> Position:
        residual = self.matrix.times(x) - self.target
        if self.hessian is None or self.linear is None:
            return _ResidualPosition(self, x, residual)
        gradient = self.matrix.transpose_times(residual)
        value = 0.5 * float(residual @ residual)
        return _QuadraticPosition(self.hessian, self.linear, x, value, gradient)

    @property
    def image_size(self) -> int:
        """Numbers of an image."""
        return self.target.size

    def atom_images(self, atoms: list[Vector]) -> Any:
        """``A a`` for each of some atoms, as rows."""
        return self.matrix.thin_images(atoms)

    def atom_products(self, atoms: list[Vector], images: Any, others: Any) -> FloatArray:
        """``<a, A'A b>`` for each of some atoms a and the images of other atoms b."""
        return dense_array(images @ others.T)

    def errors(self, position: Position) -> tuple[float, FloatArray]:
        """Rounding of ``r = Ax - b`` (only where it meets r), of ``A'r`` and of ``r'r``.

        Any vector r gives the bound ``f(y) >= <A'r, y> - <r, b> - 1/2 |r|²`` for all y, so ``A'r``
        need not be the gradient at x: what r is off by, say e, moves the value by ``<r, e>`` only.
        Entries of r that are no larger than e are rounding, and so is what they add to ``A'r``: no
        step makes them smaller, which a perfect fit has to know.
        """
        x = position.x
        return self.errors_at(x, self.target, self.matrix.times(x) - self.target)

    def errors_at(self, x: FloatArray, target: FloatArray, residual: FloatArray) -> tuple[Any, Any]:
        """The same at points, of targets and with residuals that are vectors, or columns each."""
        terms, rows = int(np.count_nonzero(x, axis=0).max(initial=0)) + 2, self.target.size
        residual = np.abs(residual)
        error = sum_error(self.matrix.sizes(x) + np.abs(target), terms)
        gradient = sum_error(self.matrix.transpose_sizes(residual), rows + 1)
        blind = np.where(residual <= error, residual, 0.0)
        if blind.any():
            gradient = gradient + self.matrix.transpose_sizes(blind)
        square = 0.5 * (residual * residual).sum(axis=0)
        value = (error * (2 * residual + error)).sum(axis=0) + sum_error(square, rows + 2)
        return value, gradient

    def with_target(self, target: FloatArray) -> LeastSquares:
        """The same matrix with another b."""
        out = copy.copy(self)
        out.target = as_vector(target, "target", self.target.size)
        if self.hessian is not None:
            out.linear = -self.matrix.transpose_times(out.target)
        return out

    @cached_property
    def curvature(self) -> Curvature | None:
        """``A'A`` by its root; None where A is known by products only."""
        return Curvature.of_root(self.matrix.data) if self.matrix.has_entries else None

    @cached_property
    def lipschitz(self) -> float:
        return self.matrix.gram_norm()

    @cached_property
    def strong_convexity(self) -> float | None:
        if self.matrix.shape[0] < self.size:
            return 0.0
        try:
            gram = self.hessian or self.matrix.gram()
        except ValueError:
            return None
        return max(gram.eigenvalue("SA"), 0.0)


class _ResidualPosition:
    """Position of a least-squares objective, carried by its image ``r = Ax - b``."""

    __slots__ = ("gradient", "inner", "objective", "residual", "value", "x")

    def __init__(self, objective: LeastSquares, x: FloatArray, residual: FloatArray) -> None:
        self.objective = objective
        self.x = x
        self.residual = residual
        self.value = 0.5 * float(residual @ residual)
        self.gradient = objective.matrix.transpose_times(residual)
        self.inner = float(self.gradient.dot(x))

    def along(self, direction: Direction) -> _ClosedFormRay:
        change = self.objective.matrix.combine(direction.indices, direction.values)
        if direction.scale:
            # Not in place: a LinearOperator may have answered with its own argument.
            change = change + direction.scale * (self.residual + self.objective.target)
        return _ClosedFormRay(self, direction, change, float(change @ change))

    def moved(self, x: FloatArray, change: FloatArray, value: float) -> _ResidualPosition:
        return _ResidualPosition(self.objective, x, self.residual + change)


class Smooth:
    """Any convex differentiable f, given by two functions.

    Parameters
    ----------
    value : callable
        ``value(x) -> float``.
    gradient : callable
        ``gradient(x) -> array`` of the length of x.
    lipschitz : float, optional
        A Lipschitz constant of the gradient; the ``short`` step needs it.
    strong_convexity : float, optional
        A modulus of strong convexity; the fixed schedules need it.
    """

    size: int | None = None

    def __init__(
        self,
        value: Callable[[FloatArray], float],
        gradient: Callable[[FloatArray], Any],
        lipschitz: float | None = None,
        strong_convexity: float | None = None,
    ) -> None:
        for name, function in (("value", value), ("gradient", gradient)):
            if not callable(function):
                raise TypeError(f"{name} must be a function of x, got {function!r}")
        if lipschitz is not None and not lipschitz > 0:
            raise ValueError(f"lipschitz must be positive or None, got {lipschitz!r}")
        self.value_function = value
        self.gradient_function = gradient
        self.lipschitz = lipschitz
        self.strong_convexity = strong_convexity

    def value(self, x: FloatArray) -> float:
        """f(x)."""
        return float(self.value_function(x))

    def gradient(self, x: FloatArray) -> FloatArray:
        """The gradient at x, as a vector of the length of x."""
        out = np.asarray(self.gradient_function(x), dtype=np.float64)
        if out.shape != x.shape:
            raise ValueError(
                f"gradient must return an array of shape {x.shape}, got shape {out.shape}"
            )
        return out

    def at(self, x: FloatArray) -> _SmoothPosition:
        return _SmoothPosition(self, x, self.value(x), self.gradient(x))

    def errors(self, position: Position) -> tuple[float, FloatArray]:
        """The rule of :func:`errors_of`, and how the gradient answers to a rounding of x.

        Where a gradient is small because its terms cancel, its own size says nothing of them: it is
        asked for once more with the entries of x rounded up and down, one after the other.
        """
        value, gradient = usual_errors(position)
        x = position.x
        signs = np.where(np.arange(x.size) % 2 == 0, 1.0, -1.0)
        moved = self.gradient(x * (1 + 2 * EPSILON * signs))
        change = float(np.abs(moved - position.gradient).max(initial=0.0))
        if not np.isfinite(change):  # x is at the edge of where f is defined
            return value, gradient
        lost = _ULPS * max(1.0, x.size**0.5) * change
        return value + lost * float(np.abs(x).sum()), gradient + lost


class _SmoothPosition:
    __slots__ = ("gradient", "inner", "objective", "value", "x")

    def __init__(
        self, objective: Smooth, x: FloatArray, value: float, gradient: FloatArray
    ) -> None:
        self.objective = objective
        self.x = x
        self.value = value
        self.gradient = gradient
        self.inner = float(gradient.dot(x))

    def along(self, direction: Direction) -> _SmoothRay:
        return _SmoothRay(self, direction)


class _SmoothRay:
    __slots__ = ("curvature", "direction", "origin", "slope")

    def __init__(self, origin: _SmoothPosition, direction: Direction) -> None:
        self.origin = origin
        self.direction = direction
        self.slope = float(origin.gradient.dot(direction.dense))
        self.curvature = None

    def value(self, step: float) -> float:
        return self.origin.objective.value(self.origin.x + step * self.direction.dense)

    def derivative(self, step: float) -> float:
        x = self.origin.x + step * self.direction.dense
        return float(self.origin.objective.gradient(x) @ self.direction.dense)

    def land(self, step: float, x: FloatArray) -> _SmoothPosition:
        return self.origin.objective.at(x)
