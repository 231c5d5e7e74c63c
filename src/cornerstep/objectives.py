"""Objectives: convex functions that know how to move along a direction.

Three nouns.  An *objective* f gives a *position* at any point: ``x, f(x), grad f(x)``.  A position
gives a *ray* along a :class:`~cornerstep.vectors.Direction` d: the slope ``<grad f(x), d>`` and,
where f is quadratic, the curvature ``<d, H d>``, so that an exact step is closed form.  Landing on
a ray gives the next position.  A quadratic computes ``H d`` once for both the curvature and the
next gradient ``grad f(x) + step * H d``; a sparse atom touches only its own columns of H.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cornerstep.linear import Matrix, as_vector
from cornerstep.vectors import Direction, FloatArray, IntArray


class Ray(Protocol):
    """f along ``x + step * d``."""

    slope: float
    direction: Direction

    @property
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
    the time of asking.
    """

    @property
    def size(self) -> int | None: ...

    @property
    def lipschitz(self) -> float | None: ...

    @property
    def strong_convexity(self) -> float | None: ...

    def at(self, x: FloatArray) -> Position:
        """Value and gradient at ``x``, computed from the data."""


@runtime_checkable
class SymmetricOperator(Protocol):
    """A symmetric matrix that computes its products in its own way (lazily, cached, ...)."""

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
    """``f(x) = 1/2 x'Qx + c'x`` with Q symmetric positive semidefinite.

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
            self.hessian = Matrix(Q, "Q", symmetric=True)
        if isinstance(self.hessian, Matrix) and not self.hessian.is_symmetric():
            raise ValueError("Q must be symmetric; pass (Q + Q.T) / 2 for the same function")
        self.size: int = self.hessian.shape[0]
        self.linear = np.zeros(self.size) if c is None else as_vector(c, "c", self.size)

    def at(self, x: FloatArray) -> _QuadraticPosition:
        image = self.hessian.times(x)
        value = float(x @ (0.5 * image + self.linear))
        return _QuadraticPosition(self.hessian, self.linear, x, value, image + self.linear)

    @cached_property
    def lipschitz(self) -> float:
        return self.hessian.eigenvalue("LA")

    @cached_property
    def strong_convexity(self) -> float:
        return max(self.hessian.eigenvalue("SA"), 0.0)


class LeastSquares:
    """``f(x) = 1/2 |Ax - b|²``.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator of shape (m, n)
    b : array of shape (m,)
    gram : bool, default=False
        Form ``A'A`` once and move the gradient by its columns: worth its O(m n²) when A is tall and
        atoms are sparse.  Values and certificates still come from A and b.
    """

    def __init__(self, A: Any, b: Any, *, gram: bool = False) -> None:
        self.matrix = Matrix(A, "A")
        self.target = as_vector(b, "b", self.matrix.shape[0])
        self.size: int = self.matrix.shape[1]
        self.hessian = self.matrix.gram() if gram else None
        self.linear = -self.matrix.transpose_times(self.target) if gram else None

    def at(self, x: FloatArray) -> Position:
        residual = self.matrix.times(x) - self.target
        if self.hessian is None or self.linear is None:
            return _ResidualPosition(self, x, residual)
        gradient = self.matrix.transpose_times(residual)
        value = 0.5 * float(residual @ residual)
        return _QuadraticPosition(self.hessian, self.linear, x, value, gradient)

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
