"""Second-order steps of the multi-class dual, between the sweeps of block ascent.

*Problem.*  With D and ``W(A) = sum_i s_i x_i alpha_i'`` as in
:mod:`cornerstep.multiclass.problem`, from the dual points ``A^0``, improve on

``max over A of  D(A) - damping/2 sum_i s_i |alpha_i - alpha_i^0|²``,  alpha_i in its polytope.

The *face* of a block is given by groups of entries that may trade weight (:class:`Faces`).

*Face step*, with a kernel, where W has no coordinates of its own:

1. Solve the damped Newton system ``(Q + (mu + damping)/s) v = grad D`` on the face by a few steps
   of conjugate gradients.
2. Project ``A + step v`` onto the blocks; shorten the step until D grows.

*Proximal step*, without a kernel, where W has so few entries that a Hessian of it is factorised.
D is then flat in many directions of the face, and the maximiser of the damped dual is worth finding
exactly.  Seen from the primal it is the minimum of

``Psi(W) = 1/2 |W|² + sum_i s_i phi_i(W'x_i)``,  ``grad Psi = W - W(A(W))``,

with phi_i the loss smoothed around alpha_i^0, and ``alpha_i(W)`` the proximal point, a projection.

1. Semismooth Newton: on the faces of the proximal points the Hessian of Psi is
   ``I + sum_i s_i/(mu + damping) x_i x_i' (x) P_i``, P_i the projection onto the directions of
   face i.  Factorise it and shorten the step until Psi falls enough.
2. Repeat until the model promises little, or the steps are used up.
3. D is a parabola between A^0 and the proximal points: go to its maximum.

After either, :class:`SecondOrder` adapts the damping, and skips rounds where it did not pay.

References
----------
- R. T. Rockafellar. Monotone operators and the proximal point algorithm. SIAM J. Control Optim.
  1976: the damped dual.
- L. Qi, J. Sun. A nonsmooth version of Newton's method. Math. Programming 1993.
- X. Li, D. Sun, K.-C. Toh. A highly efficient semismooth Newton augmented Lagrangian method for
  solving Lasso problems. SIAM J. Optim. 2018: the proximal step.
- R. S. Dembo, S. C. Eisenstat, T. Steihaug. Inexact Newton methods. SIAM J. Numer. Anal. 1982: few
  conjugate gradients.
- C.-J. Lin, J. J. Moré. Newton's method for large bound-constrained optimization problems. SIAM J.
  Optim. 1999: projected steps on a face.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.multiclass.compiled import faces as face_kernels
from cornerstep.multiclass.examples import KernelExamples
from cornerstep.multiclass.problem import MulticlassProblem


@dataclass(frozen=True)
class SecondOrderSettings:
    """The numbers of second-order steps.

    Measured: CPU time to 1e-4 on 18 problems (wine, iris, breast cancer, digits and correlated
    columns, C = 1 to 1,000; linear without a kernel and with one, rbf, polynomials), each number a
    third of what it is and three times as much, and in the mean of all problems if nothing else is
    said.  Without second-order steps 5 to 35 times the time where W is small, 3 to 30 with a kernel
    of low rank (linear: iris, breast cancer, wine), the same within noise with other kernels.
    Also measured, and left out for it: conjugate gradient steps and Newton steps in a number that
    adapts to what they gain (1 % to 3 % more time).
    """

    small_weights: int = 500
    """Entries of W up to which there are proximal steps: to factorise costs its cube, 0.1 s for
    2,000.  No measured problem has between 166 and 1,500."""

    cg_accuracy: float = 0.1
    """Residual, relative to the right-hand side, at which conjugate gradients stop: the step is
    projected and damped anyway.  0.03: the same; 0.3: 3 % less to 5 % more."""

    cg_steps: int = 20
    """Conjugate gradient steps of a face step, at most; each costs about as much as a sweep.  10:
    4 % more, up to 36 % (rbf, breast cancer); 40: the same."""

    few_on_face: float = 0.5
    """Share of the examples up to which those on the face have their kernel entries copied, so that
    products are as long as they are many.  Pendigits, 7,000 examples, C = 100 and 1,000: half the
    time; above it the copy takes as much memory as the rows."""

    worth: float = 0.2
    """Share of what the last sweeps gained that a step must gain to pay; after one that does not, 1
    round is without, then 3, then 7.  A third, three times as much: the same."""

    newton_steps: int = 10
    """Newton steps of a proximal step, at most.  3: 31 % more, up to 2.6 times; 30: the same."""

    sufficient_decrease: float = 1e-4
    """Share of the decrease of Psi promised by its slope that a step must achieve (Armijo); the
    same with a third and with three times as much."""

    newton_converged: float = 1e-3
    """A slope of Psi that is this share of the steepest so far ends a proximal step.  A third: the
    same; three times: 1 % more, up to 32 % (wine)."""

    shortening: float = 0.5
    """Factor on a step that achieved too little.  0.1: the same with a kernel, up to 32 % more
    without; 0.95: 9 % more, up to 43 %."""

    shortest: float = 1e-3
    """The shortest step that is tried: a third and three times are the same."""

    first_damping: float = 1e-2
    """Damping of the first step, in means of ``s_i |x_i|²``, the curvature of a block; a third and
    three times: the same."""

    least_damping: float = 1e-8
    """The least damping, in that of the first step: below it, systems are singular to rounding."""

    less_damping: float = 0.25
    """Factor on the damping after a step longer than ``long_step``.  0.4: 5 % more; 0.95: 2.4 times
    the time, up to 6 times."""

    more_damping: float = 2.0
    """Factor on the damping after another.  1: 25 % more, up to 16 times (breast cancer); 6: the
    same."""

    long_step: float = 0.5
    """Share of the way that makes a step one to trust the model after.  0.17 and 0.95: the same."""


class Faces:
    """The faces of dual points, and the products of their directions with the data.

    Parameters
    ----------
    problem : MulticlassProblem
    active : array of int
        The examples that have classes in the pool.
    pool : tuple
        Dual points.

    Attributes
    ----------
    groups : tuple
        Of entries that may trade weight, as the compiled functions take them.
    size : int
        Members of all groups: the length of vectors on the face.
    dimension : int
        Free coordinates.
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

    def products(self, most: float) -> Callable[[FloatArray], FloatArray]:
        """``Q v`` along the face, with a kernel.

        From the entries of the examples that are on it with each other, if these are at most such a
        share of all: else from whole rows.
        """
        problem, (groups, firsts, members, owners, radial) = self.problem, self.groups
        free = np.unique(owners[:groups])
        if free.size > most * problem.examples.n:
            return self._whole_product
        assert isinstance(problem.examples, KernelExamples)
        places = np.searchsorted(free, owners[:groups])
        own = (groups, firsts, members, places, radial)
        rows, labels = problem.examples.rows_among(free), problem.labels[free]
        record = (labels, *problem.record[1:])

        def product(v: FloatArray) -> FloatArray:
            between, out = np.zeros((problem.n_classes, free.size)), np.empty(self.size)
            given = own, rows, self.pool, record, between
            face_kernels.tangent_product(*given, v, True)
            face_kernels.tangent_product(*given, out, False)
            return out

        return product

    def _whole_product(self, v: FloatArray) -> FloatArray:
        between = self.problem.examples.empty_image(self.problem.n_classes)
        self.add(v, between)
        return self.read(between)

    def gradient(self, image: FloatArray) -> FloatArray:
        """The gradient of D along the face."""
        out = self.read(image)
        face_kernels.tangent_gradient(
            self.groups, self.pool, self.problem.record, np.empty(self.size), out
        )
        return out

    def hessian(self, ridge: float) -> FloatArray:
        """``I + sum_i s_i/ridge x_i x_i' (x) P_i`` of dense examples, its lower triangle."""
        problem = self.problem
        rows = problem.examples.rows[1]
        out = np.eye(problem.n_classes * rows.shape[1])
        scratch = np.empty((problem.n_classes, problem.n_classes)), np.empty(rows.shape[1])
        face_kernels.tangent_hessian(
            self.groups, rows, self.pool, problem.record, ridge, *scratch, out
        )
        return out

    def inverse_scales(self) -> FloatArray:
        """``1/s_i`` of each member."""
        groups, firsts, _, owners, _ = self.groups
        inverse = 1.0 / self.problem.scales[owners[:groups]]
        return np.repeat(inverse, np.diff(firsts[: groups + 1]))


def face_step(
    problem: MulticlassProblem,
    faces: Faces,
    image: FloatArray,
    damping: float,
    settings: SecondOrderSettings,
) -> tuple[FloatArray, FloatArray, float]:
    """Try a damped Newton step of the dual on the face.

    Returns the image and beta that the step leads to (the old ones if none increases D) and its
    size.
    """
    record, rows = problem.record, problem.examples.rows
    pool = faces.pool
    ridge = problem.smoothing + damping
    v = _damped_newton(faces, image, ridge, settings)
    before = problem.dual_value(image, pool)
    step = 1.0
    while step > settings.shortest:
        trial, moved = image.copy(), (*pool[:2], pool[2].copy())
        face_kernels.tangent_step(faces.groups, rows, trial, moved, record, v, step)
        if problem.dual_value(trial, moved) > before:
            return trial, moved[2], step
        step *= settings.shortening
    return image, pool[2], 0.0


def _damped_newton(
    faces: Faces, image: FloatArray, ridge: float, settings: SecondOrderSettings
) -> FloatArray:
    """Conjugate gradients for ``(Q + ridge/s) v = gradient of D`` on the face."""
    residual = faces.gradient(image)
    diagonal = ridge * faces.inverse_scales()
    products = faces.products(settings.few_on_face)
    solution, direction = np.zeros(faces.size), residual
    square = first = float(residual @ residual)
    for _ in range(settings.cg_steps):
        if square <= settings.cg_accuracy**2 * first:
            break
        product = direction * diagonal + products(direction)
        curvature = float(direction @ product)
        if curvature <= 0:  # rounding: the gradient is as small as it gets
            break
        length = square / curvature
        solution += length * direction
        residual = residual - length * product
        previous, square = square, float(residual @ residual)
        direction = residual + (square / previous) * direction
    return solution


class ProximalStep:
    """One step from the dual points of ``pool``, on the examples ``active`` that have classes."""

    def __init__(
        self,
        problem: MulticlassProblem,
        active: IntArray,
        image: FloatArray,
        pool: tuple[Any, ...],
        damping: float,
        settings: SecondOrderSettings,
    ) -> None:
        self.problem = problem
        self.active = active
        self.image = image
        self.pool = pool
        self.damping = damping
        self.settings = settings

    def solve(self) -> tuple[FloatArray, FloatArray, float]:
        """The best point on the way to the proximal one: image, beta, and how much of the way."""
        settings = self.settings
        weights = self.image
        value, beta = self._smoothed(weights)
        steepest = 0.0
        for _ in range(settings.newton_steps):
            gradient = weights - self._image_of(beta)
            direction = self._newton_direction(gradient, beta)
            slope = float(np.vdot(gradient, direction))
            steepest = min(steepest, slope)
            step = 1.0
            while step > settings.shortest:
                trial = weights + step * direction
                trial_value, trial_beta = self._smoothed(trial)
                if trial_value <= value + settings.sufficient_decrease * step * slope:
                    break
                step *= settings.shortening
            else:
                break
            weights, value, beta = trial, trial_value, trial_beta
            if slope >= settings.newton_converged * steepest:
                break
        return self._best_on_the_way(self._image_of(beta), beta)

    def _best_on_the_way(
        self, image: FloatArray, beta: FloatArray
    ) -> tuple[FloatArray, FloatArray, float]:
        """Maximise D, a parabola, between the old dual points and these."""
        change = image - self.image, beta - self.pool[2]
        old, middle, new = (self._dual_after(change, t) for t in (0.0, 0.5, 1.0))
        slope, bend = 4 * middle - 3 * old - new, old - 2 * middle + new
        step = min(max(slope / (-4 * bend), 0.0), 1.0) if bend < 0 else 1.0
        if self._dual_after(change, step) <= old:  # all that is left is rounding
            return self.image, self.pool[2], 0.0
        return self.image + step * change[0], self.pool[2] + step * change[1], step

    def _dual_after(self, change: tuple[FloatArray, FloatArray], t: float) -> float:
        pool = (*self.pool[:2], self.pool[2] + t * change[1])
        return self.problem.dual_value(self.image + t * change[0], pool)

    def _smoothed(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """``Psi(W)`` and beta of the proximal points there."""
        problem = self.problem
        beta = self.pool[2].copy()
        losses = face_kernels.proximal(
            self.active, problem.examples.rows, weights, self.pool, problem.record,
            self.damping, beta,
        )  # fmt: skip
        return float(losses) + 0.5 * float(np.vdot(weights, weights)), beta

    def _image_of(self, beta: FloatArray) -> FloatArray:
        """``W(A)``."""
        image = np.zeros_like(self.image)
        pool = (*self.pool[:2], beta)
        problem = self.problem
        face_kernels.pool_add(self.active, problem.examples.rows, pool, problem.record, image)
        return image

    def _newton_direction(self, gradient: FloatArray, beta: FloatArray) -> FloatArray:
        """Solve ``H d = -gradient``, H taken on the faces of the proximal points, by Cholesky."""
        faces = Faces(self.problem, self.active, (*self.pool[:2], beta))
        hessian = faces.hessian(self.problem.smoothing + self.damping)
        factor = cho_factor(hessian, lower=True, check_finite=False)
        step = cho_solve(factor, gradient.ravel(), check_finite=False)
        return -step.reshape(gradient.shape)


class SecondOrder:
    """Second-order steps, as long as they pay beside the sweeps.

    Parameters
    ----------
    problem : MulticlassProblem
    settings : SecondOrderSettings
    """

    def __init__(
        self, problem: MulticlassProblem, settings: SecondOrderSettings | None = None
    ) -> None:
        self.problem = problem
        self.settings = settings or SecondOrderSettings()
        self._skip_length = self._rounds_to_skip = 0
        mean = float((problem.scales * problem.examples.norms).mean())
        self._first_damping = self._damping = self.settings.first_damping * mean

    @property
    def is_possible(self) -> bool:
        """Whether there is a step for this problem: it has a kernel, or W is small."""
        small = self.problem.is_small(self.settings.small_weights)
        return small or self.problem.examples.kernel

    def is_due(self) -> bool:
        """Whether this round should have a step, asked once a round."""
        self._rounds_to_skip -= 1
        return self._rounds_to_skip < 0

    def take_step(
        self, active: IntArray, image: FloatArray, pool: tuple[Any, ...], gain: float
    ) -> tuple[FloatArray, tuple[Any, ...], str]:
        """A face step with a kernel, a proximal one without.

        ``gain`` is what the last sweeps gained.  Returns the image, the pool and the kind of step.
        """
        problem, settings = self.problem, self.settings
        if problem.examples.kernel:
            kind, faces = "newton", Faces(problem, problem.examples.held(active), pool)
            moved, beta, step = face_step(problem, faces, image, self._damping, settings)
        else:
            kind = "proximal"
            proximal = ProximalStep(problem, active, image, pool, self._damping, settings)
            moved, beta, step = proximal.solve()
        before = problem.dual_value(image, pool)
        if step > 0:
            image, pool = moved, (*pool[:2], beta)
        self._adapt(problem.dual_value(image, pool) - before > settings.worth * gain, step)
        return image, pool, kind

    def _adapt(self, pays: bool, step: float) -> None:
        """When the next step is due, and how much damping it gets."""
        settings = self.settings
        self._skip_length = self._rounds_to_skip = 0 if pays else 2 * self._skip_length + 1
        long = step > settings.long_step
        self._damping *= settings.less_damping if long else settings.more_damping
        self._damping = max(self._damping, settings.least_damping * self._first_damping)
