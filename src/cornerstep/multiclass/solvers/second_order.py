"""Second-order steps of the multi-class dual, on the faces that the blocks are on.

A face is known by groups of entries that may trade weight (``multiclass_faces.tangents``).  There
are two steps, and both damp the dual by ``damping/2 sum_i s_i |alpha_i - alpha_i^0|²``:

*Face step*, while the face has fewer free coordinates than W: conjugate gradients for the damped
Newton system on the face, then a step projected onto the blocks, shortened until D grows.

*Proximal step*, when it has more: D is then flat in many directions of the face, and the
maximiser of the damped dual is worth finding exactly.  Seen from the primal it is the minimum of

``Psi(W) = 1/2 |W|² + sum_i s_i phi_i(W'x_i)``,  ``grad Psi = W - W(alpha(W))``,

with phi_i the loss smoothed around alpha_i^0 and ``alpha_i(W)`` the proximal point, a projection.
Psi is minimised by a semismooth Newton method: on the faces of the proximal points its Hessian is
``I + sum_i s_i/(mu + damping) x_i x_i' (x) P_i``, P_i the projection onto the face's directions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.compiled import faces as face_kernels
from cornerstep.multiclass.compiled import sweeps as kernels
from cornerstep.multiclass.problem import MulticlassProblem

SMALL = 500  # weights few enough to form and factorise a Hessian
_NONE = np.empty(0)
_CG_STEPS = 30
_CG_ACCURACY = 0.1  # of a Newton system, relative to its right-hand side
_SUFFICIENT = 1e-4  # share of the promised decrease that a step must achieve
_EFFORT = (10, 5, 100)  # conjugate gradient steps of a second-order step: at first, least, most;
_WORTH = 0.2  # more of them if they gain this share of what the sweeps do, fewer otherwise:
_MORE, _FEWER = 1.5, 0.8  # where even the fewest gain less, the next rounds do without
_NEWTON = (3, 10)  # Newton steps of a proximal step: at first (one more each time), at most
_DAMPING = (0.4, 2.0)  # factors on the damping after a step most of the way, and otherwise
_LEAST_DAMPING = 1e-8  # of what it is at first


class Weights(NamedTuple):
    """W as its image, with the dual coordinates it is made of: one for each entry of the pool."""

    image: FloatArray
    beta: FloatArray

    def plus(self, other: Weights, step: float) -> Weights:
        """``self + step other``."""
        return Weights(self.image + step * other.image, self.beta + step * other.beta)


def inner(
    problem: MulticlassProblem, pool: tuple[Any, ...], first: Weights, second: Weights
) -> float:
    """``<W, V>``; with a kernel, images are scores and the coordinates of W are needed."""
    if not problem.examples.kernel:
        return float(np.vdot(first.image, second.image))
    coordinates = (*pool[:2], first.beta)
    return float(
        kernels.pool_square(problem.examples.rows, second.image, coordinates, problem.record)
    )


def squared_norm(problem: MulticlassProblem, image: FloatArray, pool: tuple[Any, ...]) -> float:
    """``|W|²`` of the weights with this image and these dual points."""
    weights = Weights(image, pool[2])
    return inner(problem, pool, weights, weights)


def is_small(problem: MulticlassProblem) -> bool:
    """Whether the Hessian of Psi can be formed and factorised."""
    examples = problem.examples
    dense = not (examples.kernel or examples.sparse)
    return dense and problem.n_classes * examples.size <= SMALL


class Faces:
    """The faces of dual points, and the products of their directions with the data.

    Parameters
    ----------
    problem : MulticlassProblem
    active : array of int
        The examples that have classes in the pool.
    pool : tuple
        Dual points.
    """

    def __init__(self, problem: MulticlassProblem, active: IntArray, pool: tuple[Any, ...]) -> None:
        self.problem = problem
        self.pool = pool
        size = pool[1].size + active.size
        firsts, owners = np.empty(size + 1, np.int64), np.empty(size, np.int64)
        members = np.empty(size, np.int64)
        radial = np.empty(size if problem.loss.family else 0)
        groups = face_kernels.tangents(
            active, pool, problem.record, firsts, members, owners, radial
        )
        self.groups = (groups, firsts, members, owners, radial)
        self.size = int(firsts[groups])
        self.dimension = self.size - int(groups)

    def read(self, image: FloatArray) -> FloatArray:
        """Scores of the members for the weights of ``image``, along the face."""
        out = np.empty(self.size)
        problem = self.problem
        face_kernels.tangent_product(
            self.groups, problem.examples.rows, self.pool, problem.record, image, out, False
        )
        return out

    def add(self, v: FloatArray, image: FloatArray) -> None:
        """Add the image of coefficients v of the members to ``image``."""
        problem = self.problem
        face_kernels.tangent_product(
            self.groups, problem.examples.rows, self.pool, problem.record, image, v, True
        )

    def hessian(self, ridge: float) -> FloatArray:
        """``I + sum_i s_i/ridge x_i x_i' (x) P_i`` of dense examples, its lower triangle."""
        problem = self.problem
        rows = problem.examples.rows[1]
        out = np.eye(problem.n_classes * rows.shape[1])
        room = np.empty((problem.n_classes, problem.n_classes)), np.empty(rows.shape[1])
        face_kernels.tangent_hessian(
            self.groups, rows, self.pool, problem.record, ridge, *room, out
        )
        return out

    def scale(self, v: FloatArray, factor: float, power: float) -> FloatArray:
        """``v *= factor * s_i^power`` in place; returns what it is in dual coordinates."""
        entries = np.empty_like(self.pool[2])
        face_kernels.tangent_scale(
            self.groups, self.pool, self.problem.record, factor, power, v, entries
        )
        return entries


def face_step(
    problem: MulticlassProblem,
    faces: Faces,
    image: FloatArray,
    damping: float,
    effort: int,
) -> tuple[FloatArray, FloatArray, float]:
    """Try a damped Newton step of the dual on the face.

    The Newton system gets at most ``effort`` conjugate gradient steps.  Returns the image and beta
    that the step leads to (the old ones if none increases D) and its size.
    """
    record, rows = problem.record, problem.examples.rows
    pool = faces.pool
    v = _damped_newton(problem, faces, image, damping, effort)
    before = dual_value(problem, image, pool)
    step = 1.0
    while step > 1e-3:
        trial, moved = image.copy(), (*pool[:2], pool[2].copy())
        face_kernels.tangent_step(faces.groups, rows, trial, moved, record, v, step)
        if dual_value(problem, trial, moved) > before:
            return trial, moved[2], step
        step *= 0.3
    return image, pool[2], 0.0


def _damped_newton(
    problem: MulticlassProblem,
    faces: Faces,
    image: FloatArray,
    damping: float,
    effort: int,
) -> FloatArray:
    """Conjugate gradients for ``(Q + (mu + damping)/s) v = gradient of D`` on the face."""
    residual = faces.read(image)
    face_kernels.tangent_gradient(
        faces.groups, faces.pool, problem.record, np.empty(faces.size), residual
    )
    ridge = problem.smoothing + damping
    solution, direction = np.zeros(faces.size), residual
    square = first = float(residual @ residual)
    for _ in range(effort):
        if square <= _CG_ACCURACY**2 * first:
            break
        between = np.zeros_like(image)
        faces.add(direction, between)
        product = direction.copy()
        faces.scale(product, ridge, -1.0)
        product += faces.read(between)
        curvature = float(direction @ product)
        if curvature <= 0:  # rounding: the gradient is as small as it gets
            break
        length = square / curvature
        solution += length * direction
        residual = residual - length * product
        previous, square = square, float(residual @ residual)
        direction = residual + (square / previous) * direction
    return solution


def dual_value(problem: MulticlassProblem, image: FloatArray, pool: tuple[Any, ...]) -> float:
    """``D`` of the dual points of ``pool``, which have this image."""
    terms = float(kernels.dual_terms(pool, problem.record))
    return terms - 0.5 * squared_norm(problem, image, pool)


class ProximalStep:
    """One step from the dual points of ``pool``, on the examples ``active`` that have classes."""

    def __init__(
        self,
        problem: MulticlassProblem,
        active: IntArray,
        image: FloatArray,
        pool: tuple[Any, ...],
        damping: float,
    ) -> None:
        self.problem = problem
        self.active = active
        self.pool = pool
        self.damping = damping
        self.direct = is_small(problem)
        self.start = self._weights(image, pool[2])

    def solve(self, newton: int, effort: int) -> tuple[FloatArray, FloatArray, float]:
        """The best point on the way to the proximal one.

        At most ``newton`` Newton steps go there, with about ``effort`` conjugate gradient steps in
        all.  Returns the point's image, its beta and how much of the way it is.
        """
        self.effort = effort
        weights = self.start
        value, fresh = self._smooth(weights)
        first = 0.0
        for _ in range(newton):
            if self.effort <= 0:
                break
            gradient = weights.plus(self._made_of(fresh), -1.0)
            direction = self._newton_direction(gradient, fresh)
            slope = inner(self.problem, self.pool, gradient, direction)
            first = min(first, slope)
            step = 1.0
            while step > 1e-4:
                trial = weights.plus(direction, step)
                trial_value, trial_fresh = self._smooth(trial)
                if trial_value <= value + _SUFFICIENT * step * slope:
                    break
                step *= 0.4
            else:
                break
            weights, value, fresh = trial, trial_value, trial_fresh
            if slope >= 1e-3 * first:  # the model promises little more
                break
        return self._best_on_the_way(self._made_of(fresh).image, fresh)

    def _best_on_the_way(
        self, image: FloatArray, beta: FloatArray
    ) -> tuple[FloatArray, FloatArray, float]:
        """Maximise D, a parabola, between the old dual points and these."""
        change = Weights(image - self.start.image, beta - self.pool[2])
        old, middle, new = (self._dual_after(change, t) for t in (0.0, 0.5, 1.0))
        slope, bend = 4 * middle - 3 * old - new, old - 2 * middle + new
        step = min(max(slope / (-4 * bend), 0.0), 1.0) if bend < 0 else 1.0
        if self._dual_after(change, step) <= old:  # all that is left is rounding
            return self.start.image, self.pool[2], 0.0
        return self.start.image + step * change.image, self.pool[2] + step * change.beta, step

    def _dual_after(self, change: Weights, t: float) -> float:
        pool = (*self.pool[:2], self.pool[2] + t * change.beta)
        return dual_value(self.problem, self.start.image + t * change.image, pool)

    def _smooth(self, weights: Weights) -> tuple[float, FloatArray]:
        """``Psi(W)`` and the proximal points there."""
        problem = self.problem
        fresh = self.pool[2].copy()
        losses = face_kernels.proximal(
            self.active, problem.examples.rows, weights.image, self.pool, problem.record,
            self.damping, fresh,
        )  # fmt: skip
        return float(losses) + 0.5 * inner(problem, self.pool, weights, weights), fresh

    def _made_of(self, beta: FloatArray) -> Weights:
        """``W(alpha)``."""
        image = np.zeros_like(self.start.image)
        pool = (*self.pool[:2], beta)
        problem = self.problem
        face_kernels.pool_add(self.active, problem.examples.rows, pool, problem.record, image)
        return self._weights(image, beta)

    def _weights(self, image: FloatArray, beta: FloatArray) -> Weights:
        """W with the coordinates that only a kernel needs."""
        return Weights(image, beta if self.problem.examples.kernel else _NONE)

    def _newton_direction(self, gradient: Weights, fresh: FloatArray) -> Weights:
        """Solve ``H d = -gradient``, H taken on the faces of ``fresh``.

        By Cholesky where W is small, otherwise to a tenth by conjugate gradients.
        """
        problem, pool = self.problem, self.pool
        faces = Faces(problem, self.active, (*pool[:2], fresh))
        ridge = problem.smoothing + self.damping
        if self.direct:
            factor = cho_factor(faces.hessian(ridge), lower=True, check_finite=False)
            step = cho_solve(factor, gradient.image.ravel(), check_finite=False)
            return Weights(-step.reshape(gradient.image.shape), gradient.beta)
        kernel = problem.examples.kernel
        solution = Weights(np.zeros_like(gradient.image), np.zeros_like(gradient.beta))
        residual = solution.plus(gradient, -1.0)
        direction = residual
        square = first = inner(problem, pool, residual, residual)
        for _ in range(_CG_STEPS):
            if square <= _CG_ACCURACY**2 * first:
                break
            self.effort -= 1
            along = faces.read(direction.image)
            entries = faces.scale(along, 1.0 / ridge, 1.0)
            image = direction.image.copy()
            faces.add(along, image)
            product = Weights(image, direction.beta + entries if kernel else _NONE)
            curvature = inner(problem, pool, direction, product)
            if curvature <= 0:  # rounding: the gradient is as small as it gets
                break
            length = square / curvature
            solution = solution.plus(direction, length)
            residual = residual.plus(product, -length)
            previous, square = square, inner(problem, pool, residual, residual)
            direction = residual.plus(direction, square / previous)
        return solution


class SecondOrder:
    """Second-order steps, with as much effort as pays beside the sweeps.

    Parameters
    ----------
    problem : MulticlassProblem
    """

    def __init__(self, problem: MulticlassProblem) -> None:
        self.problem = problem
        self.effort = float(_EFFORT[0])
        self._steps = 0
        self._pause = self._rest = 0  # rounds without a step: after the last one, from now on
        self._first_damping = 1e-2 * float((problem.scales * problem.examples.norms).mean())
        self._damping = self._first_damping
        self._on_faces = False  # whether the last step was one on a face

    def is_due(self) -> bool:
        """Whether this round should have a step, asked once a round."""
        self._rest -= 1
        return self._rest < 0

    def take(
        self, active: IntArray, image: FloatArray, pool: tuple[Any, ...], gain: float
    ) -> tuple[FloatArray, tuple[Any, ...], str]:
        """A face step or, where the face has more free coordinates than W, a proximal one.

        ``gain`` is what the last sweeps gained.  Returns the image, the pool and the kind of step.
        """
        problem = self.problem
        faces = Faces(problem, active, pool)
        if faces.dimension > image.size or is_small(problem):
            kind = "proximal"
            proximal = ProximalStep(problem, active, image, pool, self._damping)
            newton = min(_NEWTON[0] + self._steps, _NEWTON[1])
            moved, beta, step = proximal.solve(newton, int(self.effort))
        else:
            kind = "newton"
            if not self._on_faces:  # what proximal steps learnt does not hold here
                self._damping, self.effort = self._first_damping, float(_EFFORT[0])
            moved, beta, step = face_step(problem, faces, image, self._damping, int(self.effort))
        before = dual_value(problem, image, pool)
        if step > 0:
            image, pool = moved, (*pool[:2], beta)
        self._learn(dual_value(problem, image, pool) - before > _WORTH * gain, step)
        self._on_faces = kind == "newton"
        return image, pool, kind

    def _learn(self, pays: bool, step: float) -> None:
        """More or less effort and damping for the next step, which may be a while."""
        self.effort = float(np.clip(self.effort * (_MORE if pays else _FEWER), *_EFFORT[1:]))
        fails = self.effort == _EFFORT[1] and not pays
        self._pause = self._rest = 2 * self._pause + 1 if fails else 0
        self._damping *= _DAMPING[0] if step > 0.5 else _DAMPING[1]
        self._damping = max(self._damping, _LEAST_DAMPING * self._first_damping)
        self._steps += 1
